/* SPDX-License-Identifier: BSD-3-Clause */
/* The prebuilt runtimes of a Program, until a worker takes them over. */
#ifndef DELEGATES_XNNPACK_PREBUILT_CACHE_H
#define DELEGATES_XNNPACK_PREBUILT_CACHE_H

#include "delegates/xnnpack/prebuilt.h"

#include <pthread.h>

struct inferd_delegate_worker_threads;

/* One for each Program. Any thread. */
struct et_xnn_prebuilt_cache {
	struct et_allocator allocator;
	pthread_mutex_t lock;      /* guards what follows */
	bool is_busy;              /* a thread makes runtimes in the workspace, and has it alone */
	bool has_unwanted;         /* the list has unwanted runtimes */
	xnn_workspace_t workspace; /* NULL: there are no runtimes */
	uint64_t n_held;           /* bytes that XNNPACK allocated for the workspace alone */
	uint64_t n_cached;         /* bytes that XNNPACK allocated for the runtimes in the list */
	struct et_list_node list;
};
void et_xnn_prebuilt_cache_init(struct et_xnn_prebuilt_cache *cache, const struct et_allocator *allocator);
/* No payload may be left whose runtimes were prebuilt there. */
void et_xnn_prebuilt_cache_deinit(struct et_xnn_prebuilt_cache *cache);

/* Begin to prebuild the runtimes of a payload with @n_runtimes partitions. The caller makes them in
 * (*@ret_prebuilt)->workspace, without threads, and ends on the same thread. ET_E_MEMORY_ALLOCATION_FAILED, and what
 * XNNPACK answers. */
enum et_status et_xnn_prebuilt_cache_begin(struct et_xnn_prebuilt **ret_prebuilt, struct et_xnn_prebuilt_cache *cache,
	uint32_t n_runtimes, struct et_diag *diag);
/* End: @prebuilt is not the caller's any more. @is_good: cache it for the payload's first instance, if possible.
 * Returns the number by which it is found, or 0 if it was deleted. */
uint64_t et_xnn_prebuilt_cache_end(struct et_xnn_prebuilt_cache *cache, struct et_xnn_prebuilt *prebuilt, bool is_good);
/* No instance will ask for that number any more. 0 is fine. */
void et_xnn_prebuilt_cache_drop(struct et_xnn_prebuilt_cache *cache, uint64_t number);
/* Move the runtimes of that number to @runtimes, which the caller owns then; they are in the worker's workspace,
 * whichever it has now. False: this worker cannot have them, and they are deleted. On the worker's thread. */
bool et_xnn_prebuilt_cache_take(struct et_xnn_prebuilt_cache *cache, uint64_t number,
	struct inferd_delegate_worker_threads *threads, xnn_runtime_t *runtimes);

#endif
