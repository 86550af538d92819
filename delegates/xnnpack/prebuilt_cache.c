/* SPDX-License-Identifier: BSD-3-Clause */
/* Prebuilt runtimes: they are made when a payload is compiled, and its first instance takes them over.
 *
 * To compile a payload takes a runtime: XNNPACK packs the weights while it makes one, and only then says whether it
 * takes every node. The payload's first instance needs the same runtime. To make it twice would be a good part of a
 * small program's load, and would pack twice the weights that XNNPACK packs without asking the weights cache.
 *
 * A runtime is bound to its workspace when it is made, and XNNPACK locks nothing there. Making or deleting a runtime
 * writes the workspace's list of users; planning memory for one runtime reads that list and writes into the other
 * runtimes. So everything that touches one workspace must happen one after the other, and a thread that compiles
 * cannot use the workspace of a worker. Instead the Program's prebuilt runtimes have a workspace of their own. The
 * first worker that has no workspace yet takes it over, with everything in it.
 *
 * Until then one thread at a time has the workspace: the thread that holds the lock, or (is_busy) the thread that
 * makes runtimes there. Making runtimes may pack weights for seconds, and no other thread waits for it: a thread
 * that compiles meanwhile makes runtimes that are not cached, an instance that wants a runtime makes one, and a
 * runtime that is to be deleted is deleted by the busy thread when it is done. After the take-over the worker's
 * thread alone uses the workspace.
 *
 * Runtimes of other payloads in that workspace become the worker's spare runtimes. They are deleted before memory is
 * planned there: the instances of a Plan are made one after the other, before there is a run, so a spare runtime
 * that no instance took by then is not for this worker. A spare runtime knows its payload by a number only, and may
 * outlive the payload and its weights: deleting a runtime reads neither.
 *
 * A worker that has a workspace already makes its own runtimes. So does a worker with several threads, since a
 * runtime is bound to its threads, too. The payload's prebuilt runtimes are deleted first, so nothing is in memory
 * twice. Prebuilt runtimes that no worker ever takes go with their payload.
 *
 * Memory that XNNPACK allocates is counted for each thread (allocator.h). Prebuilt runtimes are counted for no
 * thread until a worker has them: they are operators without memory to work in, smaller than the instance that they
 * are made for. A limit for each Program bounds that memory for a graph of a million nodes: runtimes above it are
 * made twice. */
#include "delegates/xnnpack/prebuilt_cache.h"

#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/threads.h"

enum { MOST_CACHED = 16 << 20 /* bytes for a Program */ };

void et_xnn_prebuilt_cache_init(struct et_xnn_prebuilt_cache *cache, const struct et_allocator *allocator)
{
	*cache = (struct et_xnn_prebuilt_cache){ .allocator = *allocator };
	pthread_mutex_init(&cache->lock, NULL);
	et_list_init(&cache->list);
}

void et_xnn_prebuilt_cache_deinit(struct et_xnn_prebuilt_cache *cache)
{
	pthread_mutex_destroy(&cache->lock);
}

/* Make the cache's workspace if there is none. Only the busy thread calls this. */
static enum et_status ensure_workspace(struct et_xnn_prebuilt_cache *cache, struct et_diag *diag)
{
	uint64_t n_before = et_xnn_memory_held();
	if (cache->workspace)
		return ET_OK;
	enum et_status status = et_xnn_workspace_new(&cache->workspace, diag);
	cache->n_held = et_xnn_memory_held() - n_before;
	et_xnn_memory_own(-cache->n_held);
	return status;
}

/* Release the workspace if it has no runtimes left. Under the lock. */
static void release_empty_workspace(struct et_xnn_prebuilt_cache *cache)
{
	if (!cache->workspace || !et_list_is_empty(&cache->list))
		return;
	et_xnn_memory_own(cache->n_held);
	xnn_release_workspace(cache->workspace);
	cache->workspace = NULL;
}

/* Delete prebuilt runtimes that no instance will take. Under the lock, by the thread that has the workspace. */
static void delete(struct et_xnn_prebuilt_cache *cache, struct et_xnn_prebuilt *prebuilt)
{
	cache->n_cached -= prebuilt->n_held;
	et_xnn_prebuilt_free(&cache->allocator, prebuilt);
}

/* Delete the runtimes that became unwanted while the workspace was busy. Under the lock. */
static void delete_unwanted(struct et_xnn_prebuilt_cache *cache)
{
	struct et_list_node *node, *after;
	if (!cache->has_unwanted)
		return;
	cache->has_unwanted = false;
	ET_LIST_FOR_EACH(node, after, &cache->list) {
		struct et_xnn_prebuilt *prebuilt = ET_CONTAINER_OF(node, struct et_xnn_prebuilt, node);
		if (prebuilt->is_unwanted)
			delete (cache, prebuilt);
	}
}

enum et_status et_xnn_prebuilt_cache_begin(struct et_xnn_prebuilt **ret_prebuilt, struct et_xnn_prebuilt_cache *cache,
	uint32_t n_runtimes, struct et_diag *diag)
{
	struct et_xnn_prebuilt *prebuilt = et_xnn_prebuilt_new(&cache->allocator, n_runtimes);
	if (!prebuilt)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to prebuild an XNNPACK runtime");
	prebuilt->n_held = et_xnn_memory_held();
	pthread_mutex_lock(&cache->lock);
	prebuilt->is_cached = !cache->is_busy;
	cache->is_busy = true;
	pthread_mutex_unlock(&cache->lock);
	enum et_status status = prebuilt->is_cached ? ensure_workspace(cache, diag)
						    : et_xnn_workspace_new(&prebuilt->workspace, diag);
	if (status != ET_OK) {
		et_xnn_prebuilt_cache_end(cache, prebuilt, false);
		return status;
	}
	if (prebuilt->is_cached)
		prebuilt->workspace = cache->workspace;
	*ret_prebuilt = prebuilt;
	return ET_OK;
}

uint64_t et_xnn_prebuilt_cache_end(struct et_xnn_prebuilt_cache *cache, struct et_xnn_prebuilt *prebuilt, bool is_good)
{
	uint64_t number = 0;
	prebuilt->n_held = et_xnn_memory_held() - prebuilt->n_held;
	et_xnn_memory_own(-prebuilt->n_held);
	if (!prebuilt->is_cached) {
		xnn_workspace_t workspace = prebuilt->workspace;
		et_xnn_prebuilt_free(&cache->allocator, prebuilt);
		if (workspace)
			xnn_release_workspace(workspace);
		return 0;
	}
	pthread_mutex_lock(&cache->lock);
	cache->is_busy = false;
	if (is_good && prebuilt->n_held <= MOST_CACHED - cache->n_cached) {
		number = prebuilt->number;
		cache->n_cached += prebuilt->n_held;
		et_list_append(&cache->list, &prebuilt->node);
	} else {
		et_xnn_prebuilt_free(&cache->allocator, prebuilt);
	}
	delete_unwanted(cache);
	release_empty_workspace(cache);
	pthread_mutex_unlock(&cache->lock);
	return number;
}

void et_xnn_prebuilt_cache_drop(struct et_xnn_prebuilt_cache *cache, uint64_t number)
{
	if (!number)
		return;
	pthread_mutex_lock(&cache->lock);
	struct et_xnn_prebuilt *prebuilt = et_xnn_prebuilt_find(&cache->list, number);
	if (prebuilt && cache->is_busy) {
		prebuilt->is_unwanted = cache->has_unwanted = true;
	} else if (prebuilt) {
		delete (cache, prebuilt);
		release_empty_workspace(cache);
	}
	pthread_mutex_unlock(&cache->lock);
}

/* Give the workspace and all runtimes in it to the worker, if it can take them. Under the lock. */
static void hand_over(struct et_xnn_prebuilt_cache *cache, struct inferd_delegate_worker_threads *threads)
{
	struct et_list_node *node, *after;
	if (cache->is_busy || threads->pool || !et_xnn_threads_adopt_workspace(threads, cache->workspace))
		return;
	cache->workspace = NULL;
	cache->n_cached = 0;
	et_xnn_memory_own(cache->n_held);
	ET_LIST_FOR_EACH(node, after, &cache->list) {
		struct et_xnn_prebuilt *prebuilt = ET_CONTAINER_OF(node, struct et_xnn_prebuilt, node);
		et_list_remove(node);
		et_list_append(et_xnn_threads_spares(threads), node);
		et_xnn_memory_own(prebuilt->n_held);
		prebuilt->n_held = 0;
	}
}

bool et_xnn_prebuilt_cache_take(struct et_xnn_prebuilt_cache *cache, uint64_t number,
	struct inferd_delegate_worker_threads *threads, xnn_runtime_t *runtimes)
{
	if (!number)
		return false;
	pthread_mutex_lock(&cache->lock);
	if (et_xnn_prebuilt_find(&cache->list, number))
		hand_over(cache, threads);
	pthread_mutex_unlock(&cache->lock);
	struct et_xnn_prebuilt *prebuilt = threads->pool ? NULL
							 : et_xnn_prebuilt_find(et_xnn_threads_spares(threads), number);
	if (!prebuilt) {
		et_xnn_prebuilt_cache_drop(cache, number);
		return false;
	}
	for (uint32_t i = 0; i < prebuilt->n_runtimes; i++) {
		runtimes[i] = prebuilt->runtimes[i];
		prebuilt->runtimes[i] = NULL;
	}
	et_xnn_prebuilt_free(&cache->allocator, prebuilt);
	return true;
}
