/* A Method: what one client keeps between runs.
 *
 * The state lies in one piece and a run works on it directly. A run that is cut short leaves it half changed;
 * so where it is small (ROLLBACK_MAX) begin keeps a copy, and a run that does not end well puts it back as if
 * it had never been. A larger state is lost then, and so is one of which a delegate holds a part that cannot be
 * copied: runs answer ET_E_STATE_LOST until somebody resets it. Scalars and dynamic sizes are only taken over
 * when a run ends well.
 *
 * A slot that a MoveCall rebinds refers to its own tensor again in each run; the original lets the last run's
 * binding stay, which no exporter relies on.
 *
 * A stateful delegate's context is made when the Method first calls it, on that slot's lane, and stays there:
 * the same Method on another slot is refused, since contexts live on the thread that made them. */
#include "runtime/base/checked.h"
#include "runtime/method_impl.h"

#include <string.h>

enum { LINE = 64, ROLLBACK_MAX = 64 * 1024 };

static bool take(size_t *used, size_t n, size_t item_bytes, size_t *ret_at)
{
	size_t n_bytes, at;
	if (!et_mul(n, item_bytes, &n_bytes) || !et_align_up(*used, LINE, &at) || !et_add(at, n_bytes, used))
		return false;
	*ret_at = at;
	return true;
}

enum et_status et_method_new(struct et_method **ret_method, struct et_plan *plan,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	bool rolls_back =
		plan->state_bytes && plan->state_bytes <= ROLLBACK_MAX && !plan->n_stateful_delegates;
	size_t n_contexts = plan->n_stateful_delegates ? plan->spec->n_delegates : 0;
	size_t n_bytes = sizeof(struct et_method), state, snapshot, scalars, sizes, contexts;
	struct et_method *method = NULL;
	if (take(&n_bytes, plan->state_bytes, 1, &state) &&
		take(&n_bytes, rolls_back ? plan->state_bytes : 0, 1, &snapshot) &&
		take(&n_bytes, plan->n_state_scalars, sizeof(struct et_evalue), &scalars) &&
		take(&n_bytes, plan->n_state_shapes, sizeof(int32_t), &sizes) &&
		take(&n_bytes, n_contexts, sizeof(struct et_own_context), &contexts))
		method = allocator->alloc(allocator->self, n_bytes, LINE);
	if (!method)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a state of %zu bytes",
			plan->info.n_state_bytes);
	memset(method, 0, n_bytes);
	uint8_t *base = (uint8_t *)method;
	method->plan = et_plan_ref(plan);
	method->allocator = *allocator;
	method->n_bytes = n_bytes;
	method->state = base + state;
	method->snapshot = rolls_back ? base + snapshot : NULL;
	method->scalars = (struct et_evalue *)(base + scalars);
	method->sizes = (int32_t *)(base + sizes);
	method->contexts = n_contexts ? (struct et_own_context *)(base + contexts) : NULL;
	et_method_reset(method);
	*ret_method = method;
	return ET_OK;
}

struct et_method *et_method_free(struct et_method *method)
{
	if (!method)
		return NULL;
	struct et_plan *plan = method->plan;
	for (uint32_t i = 0; method->contexts && i < plan->spec->n_delegates; i++)
		if (method->contexts[i].held.context)
			method->contexts[i].held.ops->context_free(method->contexts[i].held.context);
	method->allocator.free(method->allocator.self, method, method->n_bytes);
	et_plan_unref(plan);
	return NULL;
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

void et_method_reset(struct et_method *method)
{
	const struct et_plan *plan = method->plan;
	if (plan->state_bytes)
		memset(method->state, 0, plan->state_bytes);
	for (uint32_t i = 0; i < plan->n_initials; i++)
		memcpy(method->state + plan->initials[i].offset, plan->initials[i].bytes,
			plan->initials[i].n_bytes);
	reset_scalars(method);
	int32_t *sizes = method->sizes;
	for (uint32_t i = 0; i < plan->n_state_tensors; i++) {
		const struct et_tensor_spec *spec = plan->tensors[plan->state_tensors[i]].spec;
		for (uint32_t d = 0; spec->dynamism != ET_STATIC && d < spec->n_dims; d++)
			*sizes++ = spec->sizes[d];
	}
	method->phase = ET_METHOD_IDLE;
	for (uint32_t i = 0; method->contexts && i < plan->spec->n_delegates; i++) {
		struct et_plan_context *held = &method->contexts[i].held;
		/* one that can't be reset is made anew at the next call */
		if (held->context && (!held->ops->context_reset || held->ops->context_reset(held->context))) {
			held->ops->context_free(held->context);
			held->context = NULL;
		}
	}
}

bool et_method_is_lost(const struct et_method *method)
{
	return method->phase == ET_METHOD_LOST;
}

void et_method_lose(struct et_method *method)
{
	if (method->plan->info.is_stateful)
		method->phase = ET_METHOD_LOST;
}

struct et_plan *et_method_plan(const struct et_method *method)
{
	return method->plan;
}

/* --- for runs ---------------------------------------------------------------------------------------------- */

enum et_status et_method_enter(struct et_method *method, struct et_diag *diag)
{
	if (!method->plan->info.is_stateful)
		return ET_OK;
	if (method->phase == ET_METHOD_LOST)
		return et_fail(diag, ET_E_STATE_LOST, "an earlier run was cut short; reset the method first");
	if (method->phase == ET_METHOD_RUNNING)
		return et_fail(diag, ET_E_INVALID_STATE, "the method has state and is running already");
	return ET_OK;
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
	method->phase = ET_METHOD_IDLE;
}

void et_method_abort(struct et_method *method)
{
	if (!method->plan->info.is_stateful)
		return;
	bool is_whole = !method->plan->state_bytes && !method->plan->n_stateful_delegates;
	if (method->snapshot)
		memcpy(method->state, method->snapshot, method->plan->state_bytes);
	method->phase = method->snapshot || is_whole ? ET_METHOD_IDLE : ET_METHOD_LOST;
}

static struct et_plan_context *own_context(struct et_method *method, uint32_t slot, uint32_t index,
	enum et_status *ret_status, struct et_diag *diag)
{
	const struct et_plan_delegate *delegate = &method->plan->delegates[index];
	struct et_own_context *own = &method->contexts[index];
	if (own->held.context && own->slot != slot && !delegate->info.has_free_contexts) {
		*ret_status = et_fail(diag, ET_E_INVALID_STATE,
			"%s keeps this method's state on slot %u and cannot go on on slot %u",
			delegate->ops->id, own->slot, slot);
		return NULL;
	}
	if (own->held.context)
		return &own->held;
	own->held.ops = delegate->ops;
	own->slot = slot;
	*ret_status = delegate->ops->context_new(delegate->compiled,
		method->plan->slots[slot].lanes[delegate->backend], &own->held.context, diag);
	if (*ret_status)
		own->held.context = NULL;
	return *ret_status ? NULL : &own->held;
}

struct et_plan_context *et_method_context(struct et_method *method, uint32_t slot, uint32_t index,
	enum et_status *ret_status, struct et_diag *diag)
{
	struct et_plan *plan = method->plan;
	const struct et_plan_delegate *delegate = &plan->delegates[index];
	struct et_plan_context *context = NULL;
	if (!et_plan_is_prepared(plan, slot)) {
		*ret_status = et_fail(diag, ET_E_INVALID_STATE, "slot %u was not prepared", slot);
		return NULL;
	}
	if (!plan->slots[slot].lanes[delegate->backend]) {
		*ret_status = et_fail(
			diag, ET_E_INVALID_STATE, "slot %u has no lane for %s", slot, delegate->ops->id);
		return NULL;
	}
	if (delegate->info.is_stateful)
		context = own_context(method, slot, index, ret_status, diag);
	else
		context = &plan->slots[slot].contexts[index];
	/* acquire: pairs with the release of whoever resumed the run that held it */
	if (context && atomic_load_explicit(&context->is_busy, memory_order_acquire)) {
		*ret_status = et_fail(diag, ET_E_INVALID_STATE, "the context of %s on slot %u is busy",
			delegate->ops->id, slot);
		return NULL;
	}
	return context;
}
