/* SPDX-License-Identifier: BSD-3-Clause */
/* What one worker has for XNNPACK: a thread pool and a workspace.
 *
 * XNNPACK binds a runtime to both when it makes the runtime. Runtimes of one workspace may not run at the same time,
 * and a runtime that grows the workspace moves the pointers of all others. So a workspace belongs to one worker's
 * thread, where everything here happens. It is made there, or comes with prebuilt runtimes in it (prebuilt_cache.h).
 * A worker may have several objects of different widths (one thread, all cores); they share its workspace. (Where the
 * host has INFERD_DELEGATE_THREADS_MOVE, each object has a workspace of its own.) The
 * workspace grows with the largest runtime and never shrinks: it goes with the last instance that uses it, and the
 * next instance begins with a new one.
 *
 * The workspace is not cleared between runs of different clients, since none of its bytes can reach a result: a payload
 * whose nodes read a value that no node has written, or with an output that no node writes, is refused
 * (payload_check.c), and each operator writes all elements of its outputs. */
#ifndef DELEGATES_XNNPACK_THREADS_H
#define DELEGATES_XNNPACK_THREADS_H

#include "delegates/xnnpack/allocator.h"
#include "delegates/inferd-delegate.h"
#include "runtime/base/alloc.h"
#include "runtime/base/list.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <xnnpack.h>

enum { ET_XNN_MEMORY_ALIGNMENT = 64, ET_XNN_MAX_THREADS = 1024 };

/* The workspaces of all workers of the backend. */
struct et_xnn_worker_spaces {
	struct et_allocator allocator;
	bool threads_move;                /* INFERD_DELEGATE_THREADS_MOVE */
	struct et_xnn_memory_bound bound; /* on the memory of all of them together */
	pthread_mutex_t lock;             /* guards what follows */
	struct et_list_node list;
};
/* Without a bound on the memory. */
void et_xnn_worker_spaces_init(struct et_xnn_worker_spaces *spaces, const struct et_allocator *allocator,
	bool threads_move);
/* No worker threads may be left. */
void et_xnn_worker_spaces_deinit(struct et_xnn_worker_spaces *spaces);

struct inferd_delegate_worker_threads {
	struct et_xnn_worker_spaces *spaces;
	struct et_xnn_worker_space *space;
	bool is_first;      /* the first object of its thread: it reports the bytes that they share */
	pthreadpool_t pool; /* NULL: the worker's own thread alone */
	bool flushes;       /* loops compute with zeros for subnormal floats: in overrides, not in portable kernels */
};

/* All functions below: on the worker's thread, unless they say otherwise. */

/* Make a pool of @n_threads, the calling thread included. The caller frees it. ET_E_INVALID_ARGUMENT,
 * ET_E_OUT_OF_RESOURCES (no threads), ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_threads_new(struct inferd_delegate_worker_threads **ret_threads,
	struct et_xnn_worker_spaces *spaces, uint32_t n_threads, struct et_diag *diag);
/* Take the workspace for one instance's runtimes; give it back when these are deleted.
 * ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_threads_take_workspace(struct inferd_delegate_worker_threads *threads,
	xnn_workspace_t *ret_workspace, struct et_diag *diag);
void et_xnn_threads_give_workspace(struct inferd_delegate_worker_threads *threads);
/* Make @workspace the worker's, until all instances that take it have given it back; at least one instance must take
 * it. False: the worker has a workspace already, and @workspace stays the caller's. */
bool et_xnn_threads_adopt_workspace(struct inferd_delegate_worker_threads *threads, xnn_workspace_t workspace);
/* The prebuilt runtimes in the workspace that no instance has taken yet (a list of prebuilt.h). */
struct et_list_node *et_xnn_threads_spares(struct inferd_delegate_worker_threads *threads);
/* Delete the spare runtimes. */
void et_xnn_threads_drop_spares(struct inferd_delegate_worker_threads *threads);
/* Make a workspace, which the caller releases. Any thread. What XNNPACK answers. */
enum et_status et_xnn_workspace_new(xnn_workspace_t *ret_workspace, struct et_diag *diag);
/* What the worker's memory is charged to. The caller enters it (allocator.h) around what it lets XNNPACK allocate for
 * the worker. */
struct et_xnn_memory_account *et_xnn_threads_account(struct inferd_delegate_worker_threads *threads);
/* At least @n_bytes of the worker's memory for boundary tensors, aligned to ET_XNN_MEMORY_ALIGNMENT. All instances
 * on the worker share it, so contents last from the beginning of one run to its end. When it grows it moves; it goes
 * with the workspace. NULL if there is no memory, or the bound refuses it: then the old memory is gone, too, until the
 * next call. */
void *et_xnn_threads_memory(struct inferd_delegate_worker_threads *threads, size_t n_bytes);
/* Count @n_more bytes (negative: less) of instances, besides what XNNPACK allocates, and note what XNNPACK holds
 * now. */
void et_xnn_threads_count(struct inferd_delegate_worker_threads *threads, int64_t n_more);
/* See threads_bytes in inferd-delegate.h. Any thread. */
uint64_t et_xnn_threads_bytes(const struct inferd_delegate_worker_threads *threads);
/* See threads_parallel_for in inferd-delegate.h. */
void et_xnn_threads_parallel_for(struct inferd_delegate_worker_threads *threads,
	void (*fn)(void *arg, size_t begin, size_t end), void *arg, size_t n, size_t grain);
/* See threads_rest in inferd-delegate.h. */
void et_xnn_threads_rest(struct inferd_delegate_worker_threads *threads);
/* No instance may be left that was made with @threads. Takes NULL. */
void et_xnn_threads_free(struct inferd_delegate_worker_threads *threads);

#endif
