/* SPDX-License-Identifier: BSD-3-Clause */
/* Worker threads of the engine: a thread set for each compiled-in delegate, scratch memory, and a worker index of all
 * Plans.
 *
 * A Plan is prepared for worker threads by the first run that needs it (struct use). The delegates' instances that are
 * made then belong to these worker threads, and only one thread at a time may touch what belongs to them: a run, or
 * somebody who frees such instances. A model can be destroyed while a run of another model works on the same worker
 * threads. The run then frees the instances when it leaves; until then the use keeps the Plan alive. */
#include "delegates/program/engine_internal.h"

#include "delegates/convert.h"
#include "runtime/platform/platform.h"

#include <stdlib.h>

/* --- making and freeing ----------------------------------------------------------------------------------------- */

static enum et_status take_index(struct engine *engine, struct inferd_delegate_worker_threads *threads,
	struct et_diag *diag)
{
	enum et_status status = ET_OK;
	uint32_t index = 0;
	pthread_mutex_lock(&engine->lock);
	while (index < engine->n_workers && engine->workers[index])
		index++;
	if (index < engine->n_workers)
		engine->workers[index] = threads;
	else
		status = et_fail(diag, ET_E_OUT_OF_RESOURCES,
			"there are %u worker threads, which is the option workers", engine->n_workers);
	pthread_mutex_unlock(&engine->lock);
	threads->index = index;
	return status;
}

/* Free @threads without its index. */
static void free_sets(struct inferd_delegate_worker_threads *threads)
{
	const struct et_registry *registry = &threads->engine->registry;
	for (size_t i = 0; i < registry->n_backends; i++)
		if (threads->sets[i])
			registry->backends[i].ops->threads_free(threads->sets[i]);
	et_pool_deinit(&threads->scratch);
	free(threads);
}

static enum et_status make_sets(struct inferd_delegate_worker_threads *threads, uint32_t n_threads,
	struct et_diag *diag)
{
	const struct et_registry *registry = &threads->engine->registry;
	for (size_t i = 0; i < registry->n_backends; i++) {
		const struct et_backend_entry *entry = &registry->backends[i];
		enum et_status status = entry->ops->threads_new(entry->backend, 0, n_threads, &threads->sets[i], diag);
		if (status != ET_OK) {
			threads->sets[i] = NULL;
			/* the stacks of threads count for the process's memory limit */
			bool is_limited = et_engine_memory_limit() != UINT64_MAX;
			return status == ET_E_OUT_OF_RESOURCES && is_limited ? ET_E_MEMORY_ALLOCATION_FAILED : status;
		}
		if (!threads->compute && entry->ops->threads_compute)
			threads->compute = entry->ops->threads_compute(threads->sets[i]);
	}
	return ET_OK;
}

int et_engine_threads_new(void *self, uint32_t device, uint32_t n_threads,
	struct inferd_delegate_worker_threads **ret_threads, struct inferd_delegate_message *message)
{
	struct engine *engine = self;
	struct et_diag diag = { "" };
	struct inferd_delegate_worker_threads *threads = device || !n_threads ? NULL : calloc(1, sizeof *threads);
	if (!threads)
		return et_engine_answer(device || !n_threads
						? et_fail(&diag, ET_E_INVALID_ARGUMENT,
							  "worker threads of device %u with %u threads do not exist",
							  device, n_threads)
						: ET_E_MEMORY_ALLOCATION_FAILED,
			&diag, message);
	threads->engine = engine;
	et_list_init(&threads->uses);
	et_pool_init(&threads->scratch, et_platform_allocator());
	enum et_status status = make_sets(threads, n_threads, &diag);
	if (status == ET_OK)
		status = take_index(engine, threads, &diag);
	if (status != ET_OK) {
		free_sets(threads);
		return et_engine_answer(status, &diag, message);
	}
	*ret_threads = threads;
	return INFERD_DELEGATE_OK;
}

/* Free the delegates' instances of @use, which is in no list any more. The caller has the worker threads. */
static void use_free(struct use *use)
{
	et_plan_release(use->plan, use->threads->index);
	et_plan_unref(use->plan);
	free(use);
}

void et_engine_threads_free(struct inferd_delegate_worker_threads *threads)
{
	struct engine *engine = threads->engine;
	struct et_list_node uses, *node, *after;
	et_list_init(&uses);
	pthread_mutex_lock(&engine->lock);
	while (threads->is_at_work || threads->is_releasing)
		pthread_cond_wait(&engine->changed, &engine->lock);
	ET_LIST_FOR_EACH(node, after, &threads->uses) {
		struct use *use = ET_CONTAINER_OF(node, struct use, in_threads);
		et_list_remove(&use->in_threads);
		et_list_remove(&use->in_model);
		et_list_append(&uses, &use->in_threads);
	}
	pthread_mutex_unlock(&engine->lock);
	ET_LIST_FOR_EACH(node, after, &uses)
		use_free(ET_CONTAINER_OF(node, struct use, in_threads));
	pthread_mutex_lock(&engine->lock);
	engine->workers[threads->index] = NULL;
	pthread_mutex_unlock(&engine->lock);
	free_sets(threads);
}

/* --- using ------------------------------------------------------------------------------------------------------ */

enum et_status et_engine_threads_enter(struct inferd_delegate_worker_threads *threads, struct et_diag *diag)
{
	struct engine *engine = threads->engine;
	enum et_status status = ET_OK;
	pthread_mutex_lock(&engine->lock);
	while (threads->is_releasing)
		pthread_cond_wait(&engine->changed, &engine->lock);
	if (threads->is_at_work)
		status = et_fail(diag, ET_E_INVALID_STATE, "another run computes on these worker threads");
	else
		threads->is_at_work = true;
	pthread_mutex_unlock(&engine->lock);
	return status;
}

/* Called under the lock: take a use of a destroyed model out of its list. NULL: there is none. */
static struct use *take_orphan(struct inferd_delegate_worker_threads *threads)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &threads->uses) {
		struct use *use = ET_CONTAINER_OF(node, struct use, in_threads);
		if (!use->is_orphan)
			continue;
		et_list_remove(&use->in_threads);
		return use;
	}
	return NULL;
}

/* Let the threads go, after what was left to free meanwhile. */
static void leave(struct inferd_delegate_worker_threads *threads)
{
	struct engine *engine = threads->engine;
	struct use *orphan;
	pthread_mutex_lock(&engine->lock);
	while ((orphan = take_orphan(threads))) {
		pthread_mutex_unlock(&engine->lock);
		use_free(orphan);
		pthread_mutex_lock(&engine->lock);
	}
	threads->is_at_work = threads->is_releasing = false;
	pthread_cond_broadcast(&engine->changed);
	pthread_mutex_unlock(&engine->lock);
}

void et_engine_threads_leave(struct inferd_delegate_worker_threads *threads)
{
	et_pool_reset(&threads->scratch);
	et_compute_rest(threads->compute);
	leave(threads);
}

enum et_status et_engine_prepare(struct inferd_delegate_model *model, struct inferd_delegate_worker_threads *threads,
	struct et_diag *diag)
{
	struct engine *engine = model->engine;
	if (et_plan_is_prepared(model->plan, threads->index))
		return ET_OK;
	struct use *use = calloc(1, sizeof *use);
	if (!use)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a model on worker threads");
	enum et_status status = et_plan_prepare(model->plan, threads->index, threads->sets, NULL, diag);
	if (status != ET_OK) {
		free(use);
		return status;
	}
	use->threads = threads;
	use->plan = et_plan_ref(model->plan);
	pthread_mutex_lock(&engine->lock);
	et_list_append(&threads->uses, &use->in_threads);
	et_list_append(&model->uses, &use->in_model);
	pthread_mutex_unlock(&engine->lock);
	return ET_OK;
}

void et_engine_release(struct inferd_delegate_model *model)
{
	struct engine *engine = model->engine;
	pthread_mutex_lock(&engine->lock);
	while (!et_list_is_empty(&model->uses)) {
		struct use *use = ET_CONTAINER_OF(model->uses.next, struct use, in_model);
		struct inferd_delegate_worker_threads *threads = use->threads;
		et_list_remove(&use->in_model);
		use->is_orphan = true;
		if (threads->is_at_work || threads->is_releasing)
			continue; /* who has the threads frees it */
		threads->is_releasing = true;
		pthread_mutex_unlock(&engine->lock);
		leave(threads);
		pthread_mutex_lock(&engine->lock);
	}
	pthread_mutex_unlock(&engine->lock);
}
