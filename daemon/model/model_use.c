/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of one model.
 *
 * The Program, the Plan and its frames have known sizes. The size of instances is estimated before there are any, and
 * measured while the workers make them (model.c). Memory that the workers share between models is budget.c's matter.
 *
 * For a client's own program each worker counts with what runs of the largest sizes may take, since the client is
 * charged once, before. Models of the repository count with what they have taken. */
#include "daemon/model/model.h"

#include "runtime/base/checked.h"

static uint64_t frame_bytes(const struct et_plan_info *info)
{
	uint64_t n = info->n_activation_bytes;
	et_add_up(&n, info->n_value_table_bytes);
	return n;
}

/* What the worker's instances will take, one core wide and, where the worker has that, over all cores. */
static uint64_t estimate(const struct inf_worker *worker, const struct et_plan *plan, bool is_largest)
{
	const struct et_queue_id *queue = &worker->single_core.queue;
	struct et_plan_need need = et_plan_estimate(plan, worker->single_core_thread_sets, queue, is_largest);
	struct et_plan_need wide = et_plan_estimate(plan, worker->all_cores_thread_sets, queue, is_largest);
	uint64_t n = need.shared > wide.shared ? need.shared : wide.shared;
	et_add_up(&n, need.own);
	et_add_up(&n, wide.own);
	return n;
}

/* Before there are instances: those that are made first, on one worker of each queue; or all of them. */
static uint64_t estimate_instances(const struct inf_queues *queues, const struct et_plan *plan, bool is_uploaded)
{
	uint64_t n = 0;
	for (uint32_t q = 0; q < queues->n; q++)
		for (uint32_t i = 0; i < (is_uploaded ? inf_pool_n_workers(queues->pools[q]) : 1); i++)
			et_add_up(&n, estimate(inf_pool_worker(queues->pools[q], i), plan, is_uploaded));
	return n;
}

struct inf_model_use inf_model_estimate_use(const struct inf_queues *queues, const struct et_program *program,
	const struct et_plan *plan, const struct inf_data_ids *data, bool is_uploaded)
{
	const struct et_plan_info *info = et_plan_info(plan);
	struct et_program_stats stats;
	et_program_stats(program, &stats);
	const struct et_client_files *client_files = et_program_source(program)->client_files;
	struct inf_model_use use = {
		.n_file = client_files ? client_files->items[0].n_bytes : stats.n_file_bytes,
		.n_prepared = stats.n_decoded_bytes,
		.n_instances = estimate_instances(queues, plan, is_uploaded),
		.n_frames = et_times(frame_bytes(info), inf_queues_n_workers(queues)),
	};
	et_add_up(&use.n_file, inf_data_ids_n_bytes(data));
	et_add_up(&use.n_prepared, info->n_plan_bytes);
	et_add_up(&use.n_prepared, info->n_delegate_bytes);
	et_add_up(&use.n_prepared, info->n_copied_constant_bytes);
	return use;
}

/* Whether the loop may read the task's n_bytes: the worker has prepared the model, or is to release it and keeps the
 * figure of before. */
static bool is_measured(const struct inf_model *s, const struct inf_model_task *task)
{
	/* acquire: pairs with the release in run_task (model.c) */
	return s->task_kind == INF_MODEL_TASK_RELEASE ||
	       (atomic_load_explicit(&task->is_done, memory_order_acquire) && task->status == ET_OK);
}

/* A worker that is not prepared yet is assumed to need as much as the largest of its queue, once for each width it
 * has. Before any is, the first one counts as estimated. */
static uint64_t instances_bytes(const struct inf_model *s)
{
	uint64_t n = 0;
	uint32_t task_index = 0;
	for (uint32_t q = 0; q < s->queues->n; q++) {
		uint64_t largest = 0, n_unmeasured = 0;
		uint32_t n_workers = inf_pool_n_workers(s->queues->pools[q]), n_measured = 0;
		for (uint32_t i = 0; i < n_workers; i++, task_index++) {
			const struct inf_model_task *task = &s->tasks[task_index];
			const struct inf_worker *worker = inf_pool_worker(s->queues->pools[q], i);
			bool has_size = is_measured(s, task);
			uint64_t least = s->is_uploaded ? estimate(worker, s->plan, true) : 0;
			uint64_t n_bytes = has_size ? task->n_bytes : 0;
			et_add_up(&n, n_bytes > least ? n_bytes : least);
			n_measured += has_size;
			if (has_size && task->n_single_core_bytes > largest)
				largest = task->n_single_core_bytes;
			else if (!has_size && !s->is_uploaded)
				n_unmeasured += worker->all_cores_thread_sets ? 2 : 1;
		}
		et_add_up(&n, et_times(largest, n_unmeasured));
		if (!n_measured && !s->is_uploaded && n_workers)
			et_add_up(&n, estimate(inf_pool_worker(s->queues->pools[q], 0), s->plan, false));
	}
	return n;
}

struct inf_model_use inf_model_use(const struct inf_model *s)
{
	struct inf_model_use use = { 0 };
	if (!s->plan || !s->info)
		return use;
	use = inf_model_estimate_use(s->queues, et_plan_program(s->plan), s->plan, &s->data, s->is_uploaded);
	use.n_instances = 0;
	uint64_t n_existing = et_times(frame_bytes(s->info), atomic_load_explicit(&s->n_frames, memory_order_relaxed));
	if (n_existing > use.n_frames)
		use.n_frames = n_existing;
	if (s->state == INF_MODEL_UNLOADED) /* its Methods may still keep frames */
		use.n_frames = n_existing;
	else
		use.n_instances = instances_bytes(s);
	use.n_states = et_less(et_times(s->info->n_state_bytes, s->n_methods),
		et_times(s->info->n_shared_bytes, s->n_sharing));
	return use;
}

uint64_t inf_model_total(const struct inf_model_use *use)
{
	uint64_t n = use->n_file;
	et_add_up(&n, use->n_prepared);
	et_add_up(&n, use->n_instances);
	et_add_up(&n, use->n_frames);
	et_add_up(&n, use->n_states);
	return n;
}

uint64_t inf_model_memory(const struct inf_model *s)
{
	struct inf_model_use use = inf_model_use(s);
	return inf_model_total(&use);
}
