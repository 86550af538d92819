/* SPDX-License-Identifier: BSD-3-Clause */
/* A Method: what one client keeps between runs.
 *
 * The state is one memory block, or two: the Method's private state, and the state that it shares with Methods of the
 * Program's other methods. A run works directly on it, so a run that is cut short leaves it half changed. If a block is
 * small (ET_ROLLBACK_MAX), et_method_begin keeps a copy, and a failed run puts it back. Otherwise the state is lost:
 * it is too large, or a delegate holds a part of it that cannot be copied. Runs then answer ET_E_STATE_LOST until
 * et_method_reset. Scalars and dynamic sizes are stored only when a run ends well, so they need no copy.
 *
 * Shared state lies in the Method that was made first; the others point to it. It starts with the initial values of all
 * methods at once, so the order in which Methods are made does not matter. The Method's own initial values are copied
 * last, because methods of a program that was not planned for sharing may have their own there. (ExecuTorch copies a
 * method's initial values when it loads that method, over what other methods have written.)
 *
 * A value that a MoveCall rebinds refers to its own tensor again in each run. ExecuTorch keeps the last run's binding;
 * no exporter relies on that.
 *
 * A stateful delegate's instance is made when the Method first calls it, on that worker's threads, and stays there.
 * The same Method on another worker is refused, unless the delegate's instances are free to move
 * (has_free_instances). */
#include "runtime/base/checked.h"
#include "runtime/method_internal.h"

#include <string.h>

enum { LINE = 64 };

/* Reserve @n_bytes, aligned to a cache line. Nothing overflows: the sum of all arenas was checked
 * (program_method.c), and the rest is less than what the Plan itself takes. */
static size_t reserve(size_t *used, size_t n_bytes)
{
	size_t at = (*used + LINE - 1) & ~(size_t)(LINE - 1);
	*used = at + n_bytes;
	return at;
}

static void reset_scalars(struct et_method *method)
{
	const struct et_plan *plan = method->plan;
	for (uint32_t i = 0; i < plan->n_state_scalars; i++) {
		const struct et_value_spec *spec = &plan->spec->values[plan->state_scalars[i]];
		struct et_evalue *value = &method->scalars[i];
		*value = (struct et_evalue){ .tag = spec->tag };
		if (spec->tag == ET_TAG_DOUBLE)
			value->d = spec->d;
		else if (spec->tag == ET_TAG_BOOL)
			value->b = spec->b;
		else
			value->i = spec->i;
	}
}

/* Reset the first @n of the Method's states, its scalars, sizes and instances. */
static void reset(struct et_method *method, int n)
{
	const struct et_plan *plan = method->plan;
	for (int i = 0; i < n; i++) {
		struct et_state *state = method->states[i];
		memset(state->bytes, 0, plan->state_bytes[i]);
		state->phase = ET_STATE_IDLE;
	}
	if (n > ET_STATE_SHARED && plan->shared_arena)
		et_program_begin_shared(plan->program, plan->spec, method->states[ET_STATE_SHARED]->bytes);
	reset_scalars(method);
	int32_t *sizes = method->sizes;
	for (uint32_t i = 0; i < plan->n_state_tensors; i++) {
		const struct et_plan_tensor *tensor = &plan->tensors[plan->state_tensors[i]];
		const struct et_tensor_spec *spec = tensor->spec;
		if (tensor->place == ET_PLACE_STATE && spec->constant)
			memcpy(method->states[ET_STATE_PRIVATE]->bytes + tensor->offset, spec->constant, spec->n_bytes);
		for (uint32_t d = 0; spec->dynamism != ET_STATIC && d < spec->n_dims; d++)
			*sizes++ = spec->sizes[d];
	}
	for (uint32_t i = 0; method->instances && i < plan->spec->n_delegates; i++) {
		struct et_plan_instance *held = &method->instances[i].held;
		/* an instance that cannot be reset is made anew at the next call */
		if (held->instance && (!held->ops->instance_reset || held->ops->instance_reset(held->instance))) {
			held->ops->instance_free(held->instance);
			held->instance = NULL;
		}
	}
}

void et_method_reset(struct et_method *method)
{
	reset(method, ET_N_STATES);
}

/* Whether all stateful delegates can roll their state back. */
static bool are_repeatable(const struct et_plan *plan)
{
	for (uint32_t i = 0; i < plan->spec->n_delegates; i++)
		if (plan->delegates[i].info.is_stateful && !plan->delegates[i].info.is_repeatable)
			return false;
	return true;
}

enum et_status et_method_new_with(struct et_method **ret_method, struct et_plan *plan, const struct et_method *with,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	if (with && (with->plan->program != plan->program || !with->plan->info.n_shared_bytes ||
			    !plan->info.n_shared_bytes || with->plan->shared_arena != plan->shared_arena))
		return ET_E_INVALID_ARGUMENT;
	size_t n_instances = plan->n_stateful_delegates ? plan->spec->n_delegates : 0;
	size_t n_own = plan->state_bytes[ET_STATE_PRIVATE], n_shared = with ? 0 : plan->state_bytes[ET_STATE_SHARED];
	bool rolls_back = plan->info.is_stateful && are_repeatable(plan) && n_own <= ET_ROLLBACK_MAX &&
			  n_shared <= ET_ROLLBACK_MAX;
	size_t n_bytes = sizeof(struct et_method);
	size_t states[ET_N_STATES] = { reserve(&n_bytes, n_own << rolls_back),
		reserve(&n_bytes, n_shared << rolls_back) };
	size_t scalars = reserve(&n_bytes, plan->n_state_scalars * sizeof(struct et_evalue));
	size_t sizes = reserve(&n_bytes, plan->n_state_shapes * sizeof(int32_t));
	size_t instances = reserve(&n_bytes, n_instances * sizeof(struct et_stateful_instance));
	struct et_method *method = allocator->alloc(allocator->self, n_bytes, LINE);
	if (!method)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a state of %zu bytes",
			plan->info.n_state_bytes);
	memset(method, 0, n_bytes);
	uint8_t *base = (uint8_t *)method;
	method->plan = et_plan_ref(plan);
	method->allocator = *allocator;
	method->n_bytes = n_bytes;
	for (int i = 0; i < ET_N_STATES; i++) {
		struct et_state *state = method->states[i] = &method->made[i];
		state->bytes = base + states[i];
		state->rolls_back = rolls_back;
	}
	if (with)
		method->states[ET_STATE_SHARED] = with->states[ET_STATE_SHARED];
	/* the allocator's memory is not const; @with is, to its callers */
	method->with = (struct et_method *)(uintptr_t)with;
	method->scalars = (struct et_evalue *)(base + scalars);
	method->sizes = (int32_t *)(base + sizes);
	method->instances = n_instances ? (struct et_stateful_instance *)(base + instances) : NULL;
	reset(method, with ? 1 : ET_N_STATES);
	*ret_method = method;
	return ET_OK;
}

struct et_method *et_method_free(struct et_method *method)
{
	if (!method)
		return NULL;
	struct et_plan *plan = method->plan;
	for (uint32_t i = 0; method->instances && i < plan->spec->n_delegates; i++)
		if (method->instances[i].held.instance)
			method->instances[i].held.ops->instance_free(method->instances[i].held.instance);
	method->allocator.free(method->allocator.self, method, method->n_bytes);
	et_plan_unref(plan);
	return NULL;
}

static bool is_any(const struct et_method *method, enum et_state_phase phase)
{
	return method->states[ET_STATE_PRIVATE]->phase == phase || method->states[ET_STATE_SHARED]->phase == phase;
}

bool et_method_is_lost(const struct et_method *method)
{
	return is_any(method, ET_STATE_LOST);
}

static void set_phase(struct et_method *method, enum et_state_phase phase)
{
	for (int i = 0; i < ET_N_STATES && method->plan->info.is_stateful; i++)
		method->states[i]->phase = phase;
}

void et_method_lose(struct et_method *method)
{
	set_phase(method, ET_STATE_LOST);
}

struct et_plan *et_method_plan(const struct et_method *method)
{
	return method->plan;
}

/* --- calls from a run -------------------------------------------------------------------------------------- */

enum et_status et_method_enter(struct et_method *method, struct et_diag *diag)
{
	if (is_any(method, ET_STATE_LOST))
		return et_fail(diag, ET_E_STATE_LOST, "an earlier run was cut short; reset the method first");
	if (is_any(method, ET_STATE_RUNNING))
		return et_fail(diag, ET_E_INVALID_STATE, "the method has state, and another run of it is not finished");
	return ET_OK;
}

void et_method_begin(struct et_method *method)
{
	const size_t *n_bytes = method->plan->state_bytes;
	set_phase(method, ET_STATE_RUNNING);
	for (int i = 0; i < ET_N_STATES; i++) {
		struct et_state *state = method->states[i];
		if (state->rolls_back)
			memcpy(state->bytes + n_bytes[i], state->bytes, n_bytes[i]);
	}
}

void et_method_commit(struct et_method *method, const struct et_frame *frame)
{
	const struct et_plan *plan = method->plan;
	if (!plan->info.is_stateful)
		return;
	for (uint32_t i = 0; i < plan->n_state_scalars; i++)
		method->scalars[i] = frame->values[plan->state_scalars[i]];
	int32_t *sizes = method->sizes;
	for (uint32_t i = 0; i < plan->n_state_tensors; i++) {
		const struct et_tensor *tensor = &frame->tensors[plan->state_tensors[i]];
		if (tensor->dynamism == ET_STATIC)
			continue;
		memcpy(sizes, tensor->sizes, tensor->n_dims * sizeof *sizes);
		sizes += tensor->n_dims;
	}
	set_phase(method, ET_STATE_IDLE);
}

void et_method_abort(struct et_method *method)
{
	const size_t *n_bytes = method->plan->state_bytes;
	set_phase(method, ET_STATE_LOST);
	for (int i = 0; i < ET_N_STATES; i++) {
		struct et_state *state = method->states[i];
		if (!state->rolls_back)
			continue;
		memcpy(state->bytes, state->bytes + n_bytes[i], n_bytes[i]);
		state->phase = ET_STATE_IDLE;
	}
}

/* Make the Method's instance of a delegate whose instances belong to no worker. If the Method shares state, the
 * instance that was made first has to exist. */
static enum et_status make_free_instance(struct et_method *method, uint32_t index, struct et_diag *diag)
{
	const struct et_plan_delegate *delegate = &method->plan->delegates[index];
	struct et_stateful_instance *own = &method->instances[index];
	const struct et_plan *with = method->with && delegate->info.shared_state_bytes ? method->with->plan : NULL;
	uint32_t k = 0, n = with ? with->spec->n_delegates : 0;
	own->held.ops = delegate->ops;
	while (k < n && !(with->delegates[k].info.shared_state_bytes && with->delegates[k].ops == delegate->ops))
		k++;
	if (k == n)
		return delegate->ops->instance_new(delegate->model, NULL, &own->held.instance, diag);
	struct et_plan_instance *other = &method->with->instances[k].held;
	enum et_status status = other->instance ? ET_OK : make_free_instance(method->with, k, diag);
	return status ? status
		      : delegate->ops->instance_with(delegate->model, other->instance, &own->held.instance, diag);
}

static struct et_plan_instance *stateful_instance(struct et_method *method, uint32_t worker_index, uint32_t index,
	enum et_status *ret_status, struct et_diag *diag)
{
	const struct et_plan_delegate *delegate = &method->plan->delegates[index];
	struct et_stateful_instance *own = &method->instances[index];
	if (own->held.instance && own->worker_index != worker_index && !delegate->info.has_free_instances) {
		*ret_status = et_fail(diag, ET_E_INVALID_STATE,
			"%s keeps this method's state on worker %u and cannot go on on worker %u", delegate->ops->id,
			own->worker_index, worker_index);
		return NULL;
	}
	if (own->held.instance)
		return &own->held;
	own->held.ops = delegate->ops;
	own->worker_index = worker_index;
	*ret_status = delegate->info.is_per_run
			      ? make_free_instance(method, index, diag)
			      : delegate->ops->instance_new(delegate->model,
					method->plan->workers[worker_index].thread_sets[delegate->backend],
					&own->held.instance, diag);
	if (*ret_status)
		own->held.instance = NULL;
	return *ret_status ? NULL : &own->held;
}

static struct et_plan_instance *frame_instance(struct et_frame *frame, uint32_t index, enum et_status *ret_status,
	struct et_diag *diag)
{
	const struct et_plan_delegate *delegate = &frame->plan->delegates[index];
	struct et_plan_instance *own = &frame->instances[index];
	own->ops = delegate->ops;
	*ret_status = own->instance ? ET_OK : delegate->ops->instance_new(delegate->model, NULL, &own->instance, diag);
	if (*ret_status)
		own->instance = NULL;
	return *ret_status ? NULL : own;
}

struct et_plan_instance *et_method_instance(struct et_method *method, struct et_frame *frame, uint32_t worker_index,
	uint32_t index, enum et_status *ret_status, struct et_diag *diag)
{
	struct et_plan *plan = method->plan;
	const struct et_plan_delegate *delegate = &plan->delegates[index];
	struct et_plan_instance *instance = NULL;
	if (!et_plan_is_prepared(plan, worker_index)) {
		*ret_status = et_fail(diag, ET_E_INVALID_STATE, "worker %u was not prepared", worker_index);
		return NULL;
	}
	if (!plan->workers[worker_index].thread_sets[delegate->backend]) {
		*ret_status = et_fail(diag, ET_E_INVALID_STATE, "worker %u has no threads for backend %s", worker_index,
			delegate->ops->id);
		return NULL;
	}
	if (delegate->info.is_stateful)
		instance = stateful_instance(method, worker_index, index, ret_status, diag);
	else if (delegate->info.is_per_run)
		instance = frame_instance(frame, index, ret_status, diag);
	else
		instance = &plan->workers[worker_index].instances[index];
	if (instance && !instance->instance) {
		*ret_status = et_fail(diag, ET_E_INVALID_STATE, "worker %u is not on the queue of this delegate of %s",
			worker_index, delegate->ops->id);
		return NULL;
	}
	/* acquire: pairs with the release by the thread that resumed the run that used it */
	if (instance && atomic_load_explicit(&instance->is_busy, memory_order_acquire)) {
		*ret_status = et_fail(diag, ET_E_INVALID_STATE, "the instance of %s on worker %u is busy",
			delegate->ops->id, worker_index);
		return NULL;
	}
	if (instance && delegate->info.is_per_run)
		delegate->ops->use_threads(instance->instance,
			plan->workers[worker_index].thread_sets[delegate->backend]);
	return instance;
}
