/* SPDX-License-Identifier: BSD-3-Clause */
/* Handing runtimes over.
 *
 * To pack a payload's weights, and to see that XNNPACK takes every node, takes a runtime, made where the payload is compiled;
 * and whoever is to run it needs the same one. Making it twice is a good part of a small program's load, and packs twice
 * what XNNPACK packs without asking the weights cache.
 *
 * A runtime is bound to its workspace when it is made, and XNNPACK locks nothing there: making or deleting one writes the
 * workspace's list of users, planning memory for one reads it and writes into the others. So what touches one workspace must come
 * one after the other, and a thread that compiles can't be given that of a lane. It is the other way round: what is made for a
 * Program has a workspace of its own, and the first lane that has none yet makes it its own, with everything in it.
 * Until then one thread at a time has it: whoever holds the lock, or (is_busy) the one that makes runtimes there. That may pack
 * for seconds, and nobody waits for it: who compiles meanwhile keeps nothing, who wants a runtime makes one, and what is to
 * be deleted it deletes when it is done. From then on all of it is the lane's thread's alone.
 *
 * Runtimes of other payloads are the lane's spares. They are deleted before anything there is planned: contexts of a Plan are made
 * one after the other, before there is a run, and what nobody asked for by then is not for this lane. Spares know their
 * payload by number only, and may outlive it and its weights: deleting a runtime reads neither.
 *
 * A lane that has a workspace already, or threads, to which a runtime is bound as well, makes its own runtimes, and
 * the payload's are deleted first. So nothing is there twice, and what no lane ever asks for goes with its payload.
 *
 * What XNNPACK allocates is counted by thread (allocator.h). These are no thread's until a lane has them, and in no account: they
 * are operators without memory to work in, less than the context that they are made for. So that nobody keeps much in that way,
 * with a graph of a million nodes, there is a limit, and what is above that is made twice. */
#include "delegates/xnnpack/prebuilt.h"

#include "delegates/xnnpack/graph/subgraph.h"
#include "delegates/xnnpack/threads.h"
#include "delegates/xnnpack/allocator.h"

#include <stdatomic.h>
#include <string.h>

enum { MOST_KEPT = 16 << 20 /* bytes, of a Program */ };

static size_t size_of(uint32_t n_runtimes)
{
	return sizeof(struct et_xnn_prebuilt) + n_runtimes * sizeof(xnn_runtime_t);
}

/* By whoever has its workspace. */
static void prebuilt_free(const struct et_allocator *allocator, struct et_xnn_prebuilt *prebuilt)
{
	et_list_remove(&prebuilt->node);
	et_xnn_memory_own(prebuilt->n_held);
	for (uint32_t i = 0; i < prebuilt->n_runtimes; i++)
		xnn_delete_runtime(prebuilt->runtimes[i]);
	allocator->free(allocator->self, prebuilt, size_of(prebuilt->n_runtimes));
}

static struct et_xnn_prebuilt *find(const struct et_list_node *list, uint64_t number)
{
	for (struct et_list_node *node = list->next; node != list; node = node->next) {
		struct et_xnn_prebuilt *prebuilt = ET_CONTAINER_OF(node, struct et_xnn_prebuilt, node);
		if (prebuilt->number == number)
			return prebuilt;
	}
	return NULL;
}

void et_xnn_rehearsals_clear(const struct et_allocator *allocator, struct et_list_node *list)
{
	while (!et_list_is_empty(list))
		prebuilt_free(allocator, ET_CONTAINER_OF(list->next, struct et_xnn_prebuilt, node));
}

void et_xnn_rehearsals_init(struct et_xnn_rehearsals *rehearsals, const struct et_allocator *allocator)
{
	*rehearsals = (struct et_xnn_rehearsals){ .allocator = *allocator };
	pthread_mutex_init(&rehearsals->lock, NULL);
	et_list_init(&rehearsals->list);
}

void et_xnn_rehearsals_deinit(struct et_xnn_rehearsals *rehearsals)
{
	pthread_mutex_destroy(&rehearsals->lock);
}

/* Of the Program's, by whoever has it. */
static enum et_status find_workspace(struct et_xnn_rehearsals *rehearsals, struct et_diag *diag)
{
	uint64_t n_before = et_xnn_memory_held();
	if (rehearsals->workspace)
		return ET_OK;
	enum et_status status = et_xnn_workspace_new(&rehearsals->workspace, diag);
	rehearsals->n_held = et_xnn_memory_held() - n_before;
	et_xnn_memory_own(-rehearsals->n_held);
	return status;
}

/* Under the lock: one thing less in it. */
static void leave_workspace(struct et_xnn_rehearsals *rehearsals)
{
	if (!rehearsals->workspace || !et_list_is_empty(&rehearsals->list))
		return;
	et_xnn_memory_own(rehearsals->n_held);
	xnn_release_workspace(rehearsals->workspace);
	rehearsals->workspace = NULL;
}

/* Under the lock: nobody takes it any more. By whoever has its workspace. */
static void give_up(struct et_xnn_rehearsals *rehearsals, struct et_xnn_prebuilt *prebuilt)
{
	rehearsals->n_kept -= prebuilt->n_held;
	prebuilt_free(&rehearsals->allocator, prebuilt);
}

/* Under the lock, when nobody makes runtimes any more: what became unwanted meanwhile. */
static void sweep(struct et_xnn_rehearsals *rehearsals)
{
	struct et_list_node *node, *after;
	if (!rehearsals->has_unwanted)
		return;
	rehearsals->has_unwanted = false;
	ET_LIST_FOR_EACH(node, after, &rehearsals->list) {
		struct et_xnn_prebuilt *prebuilt = ET_CONTAINER_OF(node, struct et_xnn_prebuilt, node);
		if (prebuilt->is_unwanted)
			give_up(rehearsals, prebuilt);
	}
}

enum et_status et_xnn_prebuilt_begin(struct et_xnn_prebuilt **ret_prebuilt, struct et_xnn_rehearsals *rehearsals,
	uint32_t n_runtimes, struct et_diag *diag)
{
	static _Atomic(uint64_t) last_number;
	const struct et_allocator *allocator = &rehearsals->allocator;
	struct et_xnn_prebuilt *prebuilt = allocator->alloc(allocator->self, size_of(n_runtimes),
		_Alignof(struct et_xnn_prebuilt));
	if (!prebuilt)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to try an XNNPACK payload");
	memset(prebuilt, 0, size_of(n_runtimes));
	et_list_init(&prebuilt->node);
	prebuilt->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
	prebuilt->n_runtimes = n_runtimes;
	prebuilt->n_held = et_xnn_memory_held();
	pthread_mutex_lock(&rehearsals->lock);
	prebuilt->is_kept = !rehearsals->is_busy;
	rehearsals->is_busy = true;
	pthread_mutex_unlock(&rehearsals->lock);
	enum et_status status = prebuilt->is_kept ? find_workspace(rehearsals, diag)
						  : et_xnn_workspace_new(&prebuilt->workspace, diag);
	if (status != ET_OK) {
		et_xnn_prebuilt_end(rehearsals, prebuilt, false);
		return status;
	}
	if (prebuilt->is_kept)
		prebuilt->workspace = rehearsals->workspace;
	*ret_prebuilt = prebuilt;
	return ET_OK;
}

uint64_t et_xnn_prebuilt_end(struct et_xnn_rehearsals *rehearsals, struct et_xnn_prebuilt *prebuilt, bool is_good)
{
	uint64_t number = 0;
	prebuilt->n_held = et_xnn_memory_held() - prebuilt->n_held;
	et_xnn_memory_own(-prebuilt->n_held);
	if (!prebuilt->is_kept) {
		xnn_workspace_t workspace = prebuilt->workspace;
		prebuilt_free(&rehearsals->allocator, prebuilt);
		if (workspace)
			xnn_release_workspace(workspace);
		return 0;
	}
	pthread_mutex_lock(&rehearsals->lock);
	rehearsals->is_busy = false;
	if (is_good && prebuilt->n_held <= MOST_KEPT - rehearsals->n_kept) {
		number = prebuilt->number;
		rehearsals->n_kept += prebuilt->n_held;
		et_list_append(&rehearsals->list, &prebuilt->node);
	} else {
		prebuilt_free(&rehearsals->allocator, prebuilt);
	}
	sweep(rehearsals);
	leave_workspace(rehearsals);
	pthread_mutex_unlock(&rehearsals->lock);
	return number;
}

void et_xnn_rehearsals_drop(struct et_xnn_rehearsals *rehearsals, uint64_t number)
{
	if (!number)
		return;
	pthread_mutex_lock(&rehearsals->lock);
	struct et_xnn_prebuilt *prebuilt = find(&rehearsals->list, number);
	if (prebuilt && rehearsals->is_busy) {
		prebuilt->is_unwanted = rehearsals->has_unwanted = true;
	} else if (prebuilt) {
		give_up(rehearsals, prebuilt);
		leave_workspace(rehearsals);
	}
	pthread_mutex_unlock(&rehearsals->lock);
}

/* Under the lock: all of it becomes the lane's, if the lane can have it. */
static void hand_over(struct et_xnn_rehearsals *rehearsals, struct inferd_delegate_worker_threads *threads)
{
	struct et_list_node *node, *after;
	if (rehearsals->is_busy || threads->threads || !et_xnn_threads_adopt_workspace(threads, rehearsals->workspace))
		return;
	rehearsals->workspace = NULL;
	rehearsals->n_kept = 0;
	et_xnn_memory_own(rehearsals->n_held);
	ET_LIST_FOR_EACH(node, after, &rehearsals->list) {
		struct et_xnn_prebuilt *prebuilt = ET_CONTAINER_OF(node, struct et_xnn_prebuilt, node);
		et_list_remove(node);
		et_list_append(et_xnn_threads_spares(threads), node);
		et_xnn_memory_own(prebuilt->n_held);
		prebuilt->n_held = 0;
	}
}

bool et_xnn_rehearsals_take(struct et_xnn_rehearsals *rehearsals, uint64_t number,
	struct inferd_delegate_worker_threads *threads, xnn_runtime_t *runtimes)
{
	if (!number)
		return false;
	pthread_mutex_lock(&rehearsals->lock);
	if (find(&rehearsals->list, number))
		hand_over(rehearsals, threads);
	pthread_mutex_unlock(&rehearsals->lock);
	struct et_xnn_prebuilt *prebuilt = threads->threads ? NULL : find(et_xnn_threads_spares(threads), number);
	if (!prebuilt) {
		et_xnn_rehearsals_drop(rehearsals, number);
		return false;
	}
	for (uint32_t i = 0; i < prebuilt->n_runtimes; i++) {
		runtimes[i] = prebuilt->runtimes[i];
		prebuilt->runtimes[i] = NULL;
	}
	prebuilt_free(&rehearsals->allocator, prebuilt);
	return true;
}
