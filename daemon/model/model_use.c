/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of one model.
 *
 * The Program, the Plan and its frames have known sizes. Instances are measured while the workers make them (model.c),
 * because no delegate can say their size before. Memory that the workers share between models is budget.c's matter. */
#include "daemon/model/model.h"

#include "runtime/base/checked.h"

static uint64_t frame_bytes(const struct et_plan_info *info)
{
	uint64_t n = info->n_activation_bytes;
	et_add_up(&n, info->n_value_table_bytes);
	return n;
}

struct inf_model_use inf_model_estimate_use(const struct inf_queues *queues, const struct et_program *program,
	const struct et_plan *plan, const struct inf_data_ids *data)
{
	const struct et_plan_info *info = et_plan_info(plan);
	struct et_program_stats stats;
	et_program_stats(program, &stats);
	const struct et_client_files *client_files = et_program_source(program)->client_files;
	struct inf_model_use use = {
		.n_file = client_files ? client_files->items[0].n_bytes : stats.n_file_bytes,
		.n_prepared = stats.n_decoded_bytes,
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
 * has. */
static uint64_t instances_bytes(const struct inf_model *s)
{
	uint64_t n = 0;
	uint32_t task_index = 0;
	for (uint32_t q = 0; q < s->queues->n; q++) {
		uint64_t largest = 0, n_unmeasured = 0;
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++, task_index++) {
			const struct inf_model_task *task = &s->tasks[task_index];
			if (!is_measured(s, task)) {
				n_unmeasured += inf_pool_worker(s->queues->pools[q], i)->all_cores_thread_sets ? 2 : 1;
				continue;
			}
			et_add_up(&n, task->n_bytes);
			if (task->n_single_core_bytes > largest)
				largest = task->n_single_core_bytes;
		}
		et_add_up(&n, et_times(largest, n_unmeasured));
	}
	return n;
}

struct inf_model_use inf_model_use(const struct inf_model *s)
{
	struct inf_model_use use = { 0 };
	if (!s->plan || !s->info)
		return use;
	use = inf_model_estimate_use(s->queues, et_plan_program(s->plan), s->plan, &s->data);
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
