/* SPDX-License-Identifier: BSD-3-Clause */
/* Runtimes that were made when a payload was compiled, ready for its first instance. */
#ifndef DELEGATES_XNNPACK_PREBUILT_H
#define DELEGATES_XNNPACK_PREBUILT_H

#include "runtime/base/alloc.h"
#include "runtime/base/list.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <xnnpack.h>

/* The prebuilt runtimes of one payload. The thread that has their workspace may use them. */
struct et_xnn_prebuilt {
	struct et_list_node node; /* in the Program's cache, or among a worker's spare runtimes */
	uint64_t number;          /* unique in the process */
	xnn_workspace_t workspace;
	bool is_cached;   /* the workspace is the cache's, and the runtimes may stay in it */
	bool is_unwanted; /* to be deleted as soon as the workspace is free */
	uint64_t n_held;  /* bytes that XNNPACK allocated for it; until it has ended, what the thread held before */
	uint32_t n_runtimes;
	xnn_runtime_t runtimes[]; /* one for each partition; NULL: an override's */
};

/* NULL if there is no memory. */
struct et_xnn_prebuilt *et_xnn_prebuilt_new(const struct et_allocator *allocator, uint32_t n_runtimes);
/* Delete the runtimes that are left, take @prebuilt out of its list and free it. */
void et_xnn_prebuilt_free(const struct et_allocator *allocator, struct et_xnn_prebuilt *prebuilt);
/* NULL: the list has none with that number. */
struct et_xnn_prebuilt *et_xnn_prebuilt_find(const struct et_list_node *list, uint64_t number);
/* Free all in the list. */
void et_xnn_prebuilt_list_clear(const struct et_allocator *allocator, struct et_list_node *list);

#endif
