/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a Plan: the steps in order, and their common clean-up.
 *
 * Each step is a file of its own (see plan_internal.h). If a step fails, destroy frees what the earlier steps made,
 * compiled payloads included.
 *
 * After et_plan_new nothing in the Plan changes except the workers' delegate instances (plan_worker.c). */
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
	struct et_pool pool = plan->pool; /* the plan itself lies in this pool */
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

/* What the delegates' instances of one worker take: of what they share, the largest. */
static size_t instance_bytes(const struct et_plan *plan)
{
	uint64_t n = 0, n_shared = 0;
	for (uint32_t i = 0; i < plan->spec->n_delegates; i++) {
		const struct et_model_info *info = &plan->delegates[i].info;
		et_add_up(&n, et_less(info->instance_bytes, info->shared_bytes));
		n_shared = info->shared_bytes > n_shared ? info->shared_bytes : n_shared;
	}
	et_add_up(&n, n_shared);
	return n < SIZE_MAX ? (size_t)n : SIZE_MAX;
}

/* Add what delegates hold for one client, and for one frame. */
static enum et_status count_delegate_state(struct et_plan *plan, struct et_diag *diag)
{
	for (uint32_t i = 0; i < plan->spec->n_delegates; i++) {
		const struct et_model_info *info = &plan->delegates[i].info;
		size_t n_own = info->is_per_run ? info->instance_bytes : 0;
		if (!plan->delegates[i].model)
			continue;
		if (!info->is_stateful) {
			if (!et_add(plan->info.n_activation_bytes, n_own, &plan->info.n_activation_bytes))
				return et_plan_no_memory(diag);
			continue;
		}
		if (!et_add(plan->info.n_state_bytes, n_own, &plan->info.n_state_bytes) ||
			!et_add(plan->info.n_state_bytes, info->state_bytes, &plan->info.n_state_bytes) ||
			!et_add(plan->info.n_shared_bytes, info->shared_state_bytes, &plan->info.n_shared_bytes))
			return et_plan_no_memory(diag);
		et_add_up(&plan->info.n_reset_bytes, info->state_bytes);
	}
	return ET_OK;
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
		status = et_overlap_check(plan, allocator, diag);
	if (!status)
		status = et_dataflow_run(plan, allocator, diag);
	if (!status && plan->registry->order)
		status = plan->registry->order(plan, allocator, diag);
	if (!status)
		status = et_memory_layout(plan, allocator, diag);
	if (!status)
		status = et_sequence_run(plan, allocator, diag);
	if (!status)
		status = count_delegate_state(plan, diag);
	if (!status)
		status = et_plan_make_workers(plan, n_workers, diag);
	if (!status)
		status = hold_operators(plan, diag);
	if (status)
		return status;
	plan->info.method = plan->spec->name;
	plan->info.n_instructions = plan->spec->n_instructions;
	plan->info.n_most_steps = et_plan_most_steps(plan);
	plan->info.n_likely_steps = et_plan_likely_steps(plan);
	plan->info.n_value_table_bytes = et_frame_bytes(plan);
	if (plan->info.n_value_table_bytes == SIZE_MAX)
		return et_plan_no_memory(diag);
	for (uint32_t i = plan->spec->n_instructions; i-- > 0;)
		if (plan->instructions[i].has_queue)
			plan->info.first_queue = plan->instructions[i].queue;
	plan->info.n_instance_bytes = instance_bytes(plan);
	plan->info.rolls_back = plan->info.is_stateful && !plan->n_stateful_delegates &&
				plan->state_bytes[ET_STATE_PRIVATE] <= ET_ROLLBACK_MAX &&
				plan->state_bytes[ET_STATE_SHARED] <= ET_ROLLBACK_MAX;
	plan->info.n_plan_bytes = plan->pool.n_bytes;
	return ET_OK;
}

/* Let the file's pages go for payloads whose delegate no longer reads them. */
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
