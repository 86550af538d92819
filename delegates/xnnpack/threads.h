/* SPDX-License-Identifier: BSD-3-Clause */
/* What one worker has for XNNPACK: a thread pool of its width and a workspace.
 *
 * XNNPACK binds both to a runtime when that is made. Runtimes of one workspace may not run at the same time, and one
 * that grows it moves the pointers of all others: so a workspace belongs to one worker's thread, where everything here
 * happens. It is made there, or comes with runtimes in it (prebuilt.h). Its lanes of different widths share it. It grows with the
 * largest runtime and never shrinks: it goes with the last context that uses it, and the next one begins anew. */
#ifndef DELEGATES_XNNPACK_THREADS_H
#define DELEGATES_XNNPACK_THREADS_H

#include "runtime/base/list.h"
#include "delegates/inferd-delegate.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <xnnpack.h>

enum { ET_XNN_MEMORY_ALIGNMENT = 64 };

/* The workspaces of all workers: one a backend. */
struct et_xnn_thread_sets {
	struct et_allocator allocator;
	pthread_mutex_t lock; /* guards what follows */
	struct et_list_node spaces;
};
void et_xnn_thread_sets_init(struct et_xnn_thread_sets *thread_sets, const struct et_allocator *allocator);
/* No lane may be left. */
void et_xnn_thread_sets_deinit(struct et_xnn_thread_sets *thread_sets);

struct inferd_delegate_worker_threads {
	struct et_xnn_thread_sets *thread_sets;
	struct et_xnn_space *space;
	bool is_first;         /* of the lanes of its thread: it tells what they have in common */
	pthreadpool_t threads; /* NULL: the worker's own thread alone */
	bool flushes;          /* loops compute with zeros for subnormal floats: a node's of our own, no kernel's */
	bool is_awake;         /* threads may look around for work: et_xnn_threads_rest has something to do */
};

/* @n_threads wide, the calling thread included. ET_E_INVALID_ARGUMENT, ET_E_OUT_OF_RESOURCES (no threads),
 * ET_E_MEMORY_ALLOCATION_FAILED. The caller frees it. */
enum et_status et_xnn_threads_new(struct inferd_delegate_worker_threads **ret_threads,
	struct et_xnn_thread_sets *thread_sets, uint32_t n_threads, struct et_diag *diag);
/* The workspace for one context's runtimes; give it back when these are gone. On the lane's thread.
 * ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_threads_take_workspace(struct inferd_delegate_worker_threads *threads,
	xnn_workspace_t *ret_workspace, struct et_diag *diag);
void et_xnn_threads_give_workspace(struct inferd_delegate_worker_threads *threads);
/* @workspace is the lane's from now on, until all contexts that take it have given it back: there is to be one. False: it
 * has another, and @workspace stays the caller's. On the lane's thread. */
bool et_xnn_threads_adopt_workspace(struct inferd_delegate_worker_threads *threads, xnn_workspace_t workspace);
/* Runtimes in the workspace that no context has taken yet (prebuilt.h). On the lane's thread. */
struct et_list_node *et_xnn_threads_spares(struct inferd_delegate_worker_threads *threads);
/* Delete them. On the lane's thread. */
void et_xnn_threads_drop_spares(struct inferd_delegate_worker_threads *threads);
/* The caller releases it. ET_E_MEMORY_ALLOCATION_FAILED … */
enum et_status et_xnn_workspace_new(xnn_workspace_t *ret_workspace, struct et_diag *diag);
/* Memory for what lies between parts of a run, at least @n_bytes of it, aligned to ET_XNN_MEMORY_ALIGNMENT: the worker's,
 * for all of its lanes and contexts, so it holds from the beginning of one run to its end. It grows, and moves then; it
 * goes with the workspace. NULL if there is no memory; then there is none at all, until it is asked for again. */
void *et_xnn_threads_memory(struct inferd_delegate_worker_threads *threads, size_t n_bytes);
/* @n_more bytes (negative: less) are memory of contexts besides what XNNPACK allocates; and whatever that does has changed.
 * On the lane's thread. */
void et_xnn_threads_count(struct inferd_delegate_worker_threads *threads, int64_t n_more);
/* See lane_bytes of the interface. */
uint64_t et_xnn_threads_bytes(const struct inferd_delegate_worker_threads *threads);
/* For portable kernels: see lane_parallel_for of the interface. */
void et_xnn_threads_parallel_for(struct inferd_delegate_worker_threads *threads,
	void (*fn)(void *arg, size_t begin, size_t end), void *arg, size_t n, size_t grain);
/* Nothing follows at once: see lane_rest. */
void et_xnn_threads_rest(struct inferd_delegate_worker_threads *threads);
/* No context of it may be left. */
void et_xnn_threads_free(struct inferd_delegate_worker_threads *threads);

#endif
