/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's part of a Plan: the instances of its delegates.
 *
 * A delegate instance is made on one worker's threads and may be used on that worker only. So a Plan has an array of
 * instances for each worker. Each worker makes and frees its own, on its own thread.
 *
 * What must always be true: other threads read only is_prepared. et_plan_prepare releases it after the instances are
 * complete, and readers acquire it.
 *
 * Instances of stateful delegates are not here. They belong to a Method (method.c). Nor are those of delegates with
 * is_per_run, which belong to a frame. */
#include "runtime/base/checked.h"
#include "runtime/plan_internal.h"

enum et_status et_plan_make_workers(struct et_plan *plan, uint32_t n_workers, struct et_diag *diag)
{
	plan->workers = ET_POOL_NEW_ARRAY(&plan->pool, struct et_plan_worker, n_workers);
	if (!plan->workers)
		return et_plan_no_memory(diag);
	plan->n_workers = n_workers;
	for (uint32_t i = 0; i < n_workers; i++) {
		struct et_plan_worker *worker = &plan->workers[i];
		worker->thread_sets = ET_POOL_NEW_ARRAY(&plan->pool, struct et_worker_threads *,
			plan->registry->n_backends);
		worker->instances = ET_POOL_NEW_ARRAY(&plan->pool, struct et_plan_instance, plan->spec->n_delegates);
		if (!worker->thread_sets || !worker->instances)
			return et_plan_no_memory(diag);
	}
	return ET_OK;
}

static void free_instances(struct et_plan *plan, struct et_plan_worker *worker)
{
	for (uint32_t i = 0; i < plan->spec->n_delegates; i++) {
		struct et_plan_instance *instance = &worker->instances[i];
		if (instance->instance)
			instance->ops->instance_free(instance->instance);
		instance->instance = NULL;
	}
}

/* Whether a worker with these @thread_sets on @queue (NULL: any) runs the delegate. */
static bool runs_there(const struct et_plan_delegate *delegate, struct et_worker_threads *const *thread_sets,
	const struct et_queue_id *queue)
{
	return delegate->model && thread_sets && thread_sets[delegate->backend] &&
	       (!queue || (delegate->queue.kind == queue->kind && delegate->queue.device == queue->device));
}

/* Whether that worker has an instance of it. */
static bool has_instance(const struct et_plan_delegate *delegate, struct et_worker_threads *const *thread_sets,
	const struct et_queue_id *queue)
{
	return runs_there(delegate, thread_sets, queue) && !delegate->info.is_stateful && !delegate->info.is_per_run;
}

bool et_plan_needs_instances(const struct et_plan *plan, struct et_worker_threads *const *thread_sets,
	const struct et_queue_id *queue)
{
	for (uint32_t i = 0; i < plan->spec->n_delegates; i++)
		if (has_instance(&plan->delegates[i], thread_sets, queue))
			return true;
	return false;
}

enum et_status et_plan_prepare(struct et_plan *plan, uint32_t worker_index,
	struct et_worker_threads *const *thread_sets, const struct et_queue_id *queue, struct et_diag *diag)
{
	if (worker_index >= plan->n_workers || et_plan_is_prepared(plan, worker_index))
		return et_fail(diag, ET_E_INVALID_STATE, "worker %u %s", worker_index,
			worker_index < plan->n_workers ? "was prepared already" : "does not exist");
	struct et_plan_worker *worker = &plan->workers[worker_index];
	for (size_t b = 0; b < plan->registry->n_backends; b++)
		worker->thread_sets[b] = thread_sets ? thread_sets[b] : NULL;
	for (uint32_t i = 0; i < plan->spec->n_delegates; i++) {
		const struct et_plan_delegate *delegate = &plan->delegates[i];
		struct et_plan_instance *instance = &worker->instances[i];
		if (!has_instance(delegate, thread_sets, queue))
			continue;
		instance->ops = delegate->ops;
		enum et_status status = delegate->ops->instance_new(delegate->model,
			worker->thread_sets[delegate->backend], &instance->instance, diag);
		if (status) {
			instance->instance = NULL;
			free_instances(plan, worker);
			return et_fail(diag, status, "%s: no instance for delegate %u: %s", plan->spec->delegates[i].id,
				i, et_status_text(status));
		}
	}
	/* release: pairs with the acquire in et_plan_is_prepared */
	atomic_store_explicit(&worker->is_prepared, true, memory_order_release);
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

/* Whether et_plan_warm takes the memory for this instruction. */
static bool is_warmed(const struct et_plan *plan, const struct et_instruction_spec *call)
{
	return call->op == ET_OP_DELEGATE && plan->delegates[call->index].model &&
	       plan->delegates[call->index].ops->instance_warm &&
	       (has_fixed_sizes(plan->spec, call) ||
		       plan->delegates[call->index].info.instance_bytes <= ET_PLAN_WARM_BYTES);
}

static enum et_status warm(const struct et_plan *plan, uint32_t worker_index, const struct et_instruction_spec *call,
	struct et_diag *diag)
{
	const struct et_plan_instance *instance = &plan->workers[worker_index].instances[call->index];
	struct et_diag why = { "" };
	enum et_status status = instance->instance ? instance->ops->instance_warm(instance->instance, &why) : ET_OK;
	bool is_scarce = status == ET_E_OUT_OF_RESOURCES || status == ET_E_MEMORY_ALLOCATION_FAILED ||
			 status == ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED;
	return is_scarce ? et_fail(diag, status, "%s", why.text[0] ? why.text : et_status_text(status)) : ET_OK;
}

/* First the one that needs the largest workspace: while a workspace grows, the old one and the new one exist. */
enum et_status et_plan_warm(struct et_plan *plan, uint32_t worker_index, struct et_diag *diag)
{
	const struct et_method_spec *spec = plan->spec;
	const struct et_instruction_spec *largest = NULL;
	enum et_status status = ET_OK;
	if (!et_plan_is_prepared(plan, worker_index))
		return ET_OK;
	for (uint32_t i = 0; i < spec->n_instructions; i++) {
		const struct et_instruction_spec *call = &spec->instructions[i];
		if (is_warmed(plan, call) && (!largest || plan->delegates[call->index].info.shared_bytes >
								  plan->delegates[largest->index].info.shared_bytes))
			largest = call;
	}
	if (largest)
		status = warm(plan, worker_index, largest, diag);
	for (uint32_t i = 0; i < spec->n_instructions && status == ET_OK; i++)
		if (&spec->instructions[i] != largest && is_warmed(plan, &spec->instructions[i]))
			status = warm(plan, worker_index, &spec->instructions[i], diag);
	return status;
}

struct et_plan_need et_plan_estimate(const struct et_plan *plan, struct et_worker_threads *const *thread_sets,
	const struct et_queue_id *queue, bool is_largest)
{
	const struct et_method_spec *spec = plan->spec;
	struct et_plan_need need = { 0 };
	for (uint32_t i = 0; i < spec->n_delegates; i++) {
		const struct et_plan_delegate *delegate = &plan->delegates[i];
		if (has_instance(delegate, thread_sets, queue))
			et_add_up(&need.own, et_less(delegate->info.instance_bytes, delegate->info.shared_bytes));
	}
	for (uint32_t i = 0; i < spec->n_instructions; i++) {
		const struct et_instruction_spec *call = &spec->instructions[i];
		if (call->op != ET_OP_DELEGATE || !(is_largest || is_warmed(plan, call)))
			continue;
		const struct et_plan_delegate *delegate = &plan->delegates[call->index];
		if (runs_there(delegate, thread_sets, queue) && delegate->info.shared_bytes > need.shared)
			need.shared = delegate->info.shared_bytes;
	}
	return need;
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
