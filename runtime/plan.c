/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a Plan, and the contexts that each worker's slot adds to it.
 *
 * The steps are in other files (see plan_internal.h); here they are put in order and undone together. A Plan
 * that fails half-way has compiled some payloads: those are freed with everything else.
 *
 * The only things that change afterwards are the slots, each on its own worker's thread: is_prepared is
 * released by et_plan_prepare and acquired by whoever asks. */
#include "runtime/base/checked.h"
#include "runtime/method_internal.h"

enum et_status et_plan_no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for the plan");
}

static void destroy(struct et_plan *plan)
{
	for (uint32_t i = 0; plan->delegates && i < plan->spec->n_delegates; i++)
		if (plan->delegates[i].model)
			plan->delegates[i].ops->model_free(plan->delegates[i].model);
	for (uint32_t i = 0; plan->operators && i < plan->spec->n_operators; i++)
		if (plan->operators[i].held)
			plan->operators[i].kernel->release(plan->operators[i].held);
	et_program_unref(plan->program);
	struct et_pool pool = plan->pool; /* the plan lies in it */
	et_pool_deinit(&pool);
}

static const struct et_method_spec *find_method(const struct et_program *program, const char *name,
	struct et_diag *diag)
{
	const struct et_method_spec *spec = et_program_find_method(program, name);
	if (!spec)
		et_fail(diag, ET_E_NOT_FOUND, "the program has no method '%.64s'", name ? name : "forward");
	return spec;
}

static enum et_status make_workers(struct et_plan *plan, uint32_t n_workers, struct et_diag *diag)
{
	plan->workers = ET_POOL_NEW_ARRAY(&plan->pool, struct et_plan_worker, n_workers);
	if (!plan->workers)
		return et_plan_no_memory(diag);
	plan->n_workers = n_workers;
	for (uint32_t i = 0; i < n_workers; i++) {
		struct et_plan_worker *worker_index = &plan->workers[i];
		worker_index->thread_sets = ET_POOL_NEW_ARRAY(&plan->pool, struct et_worker_threads *,
			plan->registry->n_backends);
		worker_index->instances = ET_POOL_NEW_ARRAY(&plan->pool, struct et_plan_instance,
			plan->spec->n_delegates);
		if (!worker_index->thread_sets || !worker_index->instances)
			return et_plan_no_memory(diag);
	}
	return ET_OK;
}

static enum et_status hold_operators(struct et_plan *plan, struct et_diag *diag)
{
	uint64_t tenant = et_program_source(plan->program)->tenant;
	for (uint32_t i = 0; i < plan->spec->n_operators; i++) {
		struct et_plan_operator *op = &plan->operators[i];
		enum et_status status = op->kernel && op->kernel->hold
						? op->kernel->hold(op->kernel, tenant, &op->held, diag)
						: ET_OK;
		if (status)
			return status;
	}
	return ET_OK;
}

/* --- how long one instruction can take ---------------------------------------------------------------------- */

/* The tensors of one instruction, at their largest. */
struct reach {
	const struct et_plan *plan;
	size_t n_any; /* elements of the largest of the program */
	size_t n_largest, n_others;
	bool computes;
};

static size_t n_elements(const struct et_plan *plan, uint32_t worker_index)
{
	const struct et_value_spec *value = &plan->spec->values[worker_index];
	size_t size = value->tag == ET_TAG_TENSOR ? et_scalar_size(value->tensor->type) : 0;
	return size ? value->tensor->n_bytes / size : 0;
}

static void reach_value(void *arg, uint32_t worker_index, unsigned access)
{
	struct reach *r = arg;
	const struct et_value_spec *value = &r->plan->spec->values[worker_index];
	if (value->tag != ET_TAG_TENSOR) {
		if (!et_add(r->n_others, 1, &r->n_others))
			r->n_others = SIZE_MAX;
		return;
	}
	const struct et_plan_value *plan_value = &r->plan->values[worker_index];
	/* what such a slot holds may be larger than what is declared for it */
	bool is_any = plan_value->is_moved || (plan_value->is_view && value->tensor->dynamism != ET_STATIC);
	size_t n = is_any ? r->n_any : n_elements(r->plan, worker_index);
	size_t other = n < r->n_largest ? n : r->n_largest;
	if (n > r->n_largest)
		r->n_largest = n;
	if (!et_add(r->n_others, other, &r->n_others) || !et_add(r->n_others, 1, &r->n_others))
		r->n_others = SIZE_MAX;
	r->computes = r->computes || ((access & ET_ACCESS_WRITE) && !(access & ET_ACCESS_VIEW));
}

/* Of any kernel's outputs each element is made from each element of the inputs at most once, or so: a matmul's from a row
 * and a column, a convolution's from a window and the weights, a mean's from all of them. So steps are no more than
 * outputs times inputs; and that product is largest where the largest tensor is on one side and all others on the other.
 * Kernels that write only a number or make a view look at headers or at one element. */
static size_t most_steps(const struct et_plan *plan)
{
	size_t n_any = 0, most = 0;
	for (uint32_t i = 0; i < plan->spec->n_values; i++) {
		size_t n = n_elements(plan, i);
		n_any = n > n_any ? n : n_any;
	}
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_plan_instruction *instruction = &plan->instructions[i];
		struct reach r = { .plan = plan, .n_any = n_any };
		size_t n = 0;
		if (instruction->op != ET_OP_KERNEL)
			continue;
		if (plan->operators[instruction->index].kernel->is_elsewhere)
			return SIZE_MAX;
		et_plan_visit(plan, instruction, ET_ACCESS_READ | ET_ACCESS_WRITE | ET_ACCESS_VIEW, reach_value, &r);
		if (r.computes && !et_mul(r.n_largest, r.n_others, &n))
			return SIZE_MAX;
		most = n > most ? n : most;
	}
	return most;
}

static enum et_status build(struct et_plan *plan, const struct et_options *options, uint32_t n_workers,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	enum et_status status = et_plan_decode(plan, allocator, diag);
	if (!status)
		status = et_plan_compile(plan, options, diag);
	if (!status)
		status = et_lifetime_run(plan, diag);
	if (!status)
		status = et_dataflow_run(plan, allocator, diag);
	if (!status && plan->registry->order)
		status = plan->registry->order(plan, allocator, diag);
	if (!status)
		status = et_memory_layout(plan, allocator, diag);
	if (!status)
		status = make_workers(plan, n_workers, diag);
	if (!status)
		status = hold_operators(plan, diag);
	if (status)
		return status;
	plan->info.method = plan->spec->name;
	plan->info.n_instructions = plan->spec->n_instructions;
	plan->info.n_most_steps = most_steps(plan);
	plan->info.n_frame_bytes = et_frame_bytes(plan);
	if (plan->info.n_frame_bytes == SIZE_MAX)
		return et_plan_no_memory(diag);
	for (uint32_t i = plan->spec->n_instructions; i-- > 0;)
		if (plan->instructions[i].has_queue)
			plan->info.first_queue = plan->instructions[i].queue;
	plan->info.n_plan_bytes = plan->pool.n_bytes;
	return ET_OK;
}

/* Payloads that their delegates have made into something else need not stay in memory. */
static void drop_payloads(const struct et_plan *plan)
{
	const struct et_source *source = et_program_source(plan->program);
	for (uint32_t i = 0; source->drop && i < plan->spec->n_delegates; i++) {
		const struct et_delegate_spec *spec = &plan->spec->delegates[i];
		if (plan->delegates[i].model && plan->delegates[i].info.drops_payload && spec->n_bytes)
			source->drop(source->owner, (size_t)(spec->payload - source->bytes), spec->n_bytes);
	}
}

enum et_status et_plan_new(struct et_plan **ret_plan, struct et_program *program, const char *method,
	const struct et_registry *registry, const struct et_options *options, uint32_t n_workers,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	const struct et_method_spec *spec = find_method(program, method, diag);
	if (!spec)
		return ET_E_NOT_FOUND;
	if (spec->why_not)
		return et_fail(diag, spec->refusal, "%s", spec->why_not);
	struct et_pool pool;
	et_pool_init(&pool, allocator);
	struct et_plan *plan = ET_POOL_NEW(&pool, struct et_plan);
	if (!plan) {
		et_pool_deinit(&pool);
		return et_plan_no_memory(diag);
	}
	plan->pool = pool;
	et_ref_init(&plan->ref);
	plan->program = et_program_ref(program);
	plan->registry = registry;
	plan->spec = spec;
	plan->info.n_shared_bytes = et_program_shared_bytes(program, spec, &plan->info.n_reset_bytes);
	plan->shared_arena = plan->info.n_shared_bytes ? ET_SHARED_ARENA : 0;
	enum et_status status = build(plan, options, n_workers, allocator, diag);
	if (status) {
		destroy(plan);
		return status;
	}
	drop_payloads(plan);
	*ret_plan = plan;
	return ET_OK;
}

enum et_status et_plan_keep(const struct et_plan *plan, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < plan->spec->n_delegates && !status; i++) {
		const struct et_plan_delegate *delegate = &plan->delegates[i];
		if (delegate->model && delegate->ops->keep)
			status = delegate->ops->keep(delegate->model, diag);
	}
	return status;
}

struct et_plan *et_plan_ref(struct et_plan *plan)
{
	et_ref_get(&plan->ref);
	return plan;
}

struct et_plan *et_plan_unref(struct et_plan *plan)
{
	if (plan && et_ref_put(&plan->ref))
		destroy(plan);
	return NULL;
}

const struct et_plan_info *et_plan_info(const struct et_plan *plan)
{
	return &plan->info;
}

const struct et_program *et_plan_program(const struct et_plan *plan)
{
	return plan->program;
}

/* --- slots ------------------------------------------------------------------------------------------------ */

static void free_instances(struct et_plan *plan, struct et_plan_worker *worker_index)
{
	for (uint32_t i = 0; i < plan->spec->n_delegates; i++) {
		struct et_plan_instance *instance = &worker_index->instances[i];
		if (instance->instance)
			instance->ops->instance_free(instance->instance);
		instance->instance = NULL;
	}
}

bool et_plan_needs_instances(const struct et_plan *plan, struct et_worker_threads *const *thread_sets)
{
	for (uint32_t i = 0; i < plan->spec->n_delegates && thread_sets; i++) {
		const struct et_plan_delegate *delegate = &plan->delegates[i];
		if (delegate->model && !delegate->info.is_stateful && thread_sets[delegate->backend])
			return true;
	}
	return false;
}

enum et_status et_plan_prepare(struct et_plan *plan, uint32_t number, struct et_worker_threads *const *thread_sets,
	struct et_diag *diag)
{
	if (number >= plan->n_workers || et_plan_is_prepared(plan, number))
		return et_fail(diag, ET_E_INVALID_STATE, "slot %u is %s", number,
			number < plan->n_workers ? "prepared" : "too many");
	struct et_plan_worker *worker_index = &plan->workers[number];
	for (size_t b = 0; b < plan->registry->n_backends; b++)
		worker_index->thread_sets[b] = thread_sets ? thread_sets[b] : NULL;
	for (uint32_t i = 0; i < plan->spec->n_delegates; i++) {
		const struct et_plan_delegate *delegate = &plan->delegates[i];
		struct et_plan_instance *instance = &worker_index->instances[i];
		if (!delegate->model || delegate->info.is_stateful || !worker_index->thread_sets[delegate->backend])
			continue;
		instance->ops = delegate->ops;
		enum et_status status = delegate->ops->instance_new(delegate->model,
			worker_index->thread_sets[delegate->backend], &instance->instance, diag);
		if (status) {
			instance->instance = NULL;
			free_instances(plan, worker_index);
			return et_fail(diag, status, "%s: no context for delegate %u: %s", plan->spec->delegates[i].id,
				i, et_status_text(status));
		}
	}
	/* release: pairs with the acquire in et_plan_is_prepared */
	atomic_store_explicit(&worker_index->is_prepared, true, memory_order_release);
	return ET_OK;
}

static bool has_fixed_sizes(const struct et_method_spec *spec, const struct et_instruction_spec *call)
{
	for (uint32_t i = 0; i < call->n_args; i++) {
		const struct et_value_spec *value = &spec->values[call->args[i]];
		if (value->tag == ET_TAG_TENSOR && value->tensor->dynamism != ET_STATIC)
			return false;
	}
	return true;
}

void et_plan_warm(struct et_plan *plan, uint32_t number)
{
	const struct et_method_spec *spec = plan->spec;
	if (!et_plan_is_prepared(plan, number))
		return;
	for (uint32_t i = 0; i < spec->n_instructions; i++) {
		const struct et_instruction_spec *call = &spec->instructions[i];
		if (call->op != ET_OP_DELEGATE)
			continue;
		const struct et_plan_instance *instance = &plan->workers[number].instances[call->index];
		bool is_worth_it = has_fixed_sizes(spec, call) ||
				   plan->delegates[call->index].info.instance_bytes <= ET_PLAN_WARM_BYTES;
		if (instance->instance && instance->ops->instance_warm && is_worth_it)
			instance->ops->instance_warm(instance->instance);
	}
}

bool et_plan_is_prepared(const struct et_plan *plan, uint32_t worker_index)
{
	/* acquire: pairs with the release in et_plan_prepare */
	return worker_index < plan->n_workers &&
	       atomic_load_explicit(&plan->workers[worker_index].is_prepared, memory_order_acquire);
}

void et_plan_release(struct et_plan *plan, uint32_t worker_index)
{
	if (!et_plan_is_prepared(plan, worker_index))
		return;
	free_instances(plan, &plan->workers[worker_index]);
	atomic_store_explicit(&plan->workers[worker_index].is_prepared, false, memory_order_release);
}
