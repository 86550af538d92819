/* SPDX-License-Identifier: BSD-3-Clause */
/* Runtimes that were made to see that XNNPACK takes a payload, and go to its first context. */
#ifndef DELEGATES_XNNPACK_PREBUILT_H
#define DELEGATES_XNNPACK_PREBUILT_H

#include "runtime/base/alloc.h"
#include "runtime/base/list.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <xnnpack.h>

struct inferd_delegate_worker_threads;

/* Of one payload. */
struct et_xnn_prebuilt {
	struct et_list_node node;
	uint64_t number; /* no other has it, ever */
	xnn_workspace_t workspace;
	bool is_kept;     /* that is the Program's, and what succeeds stays there; else it is its own */
	bool is_unwanted; /* to be deleted as soon as somebody may */
	uint64_t n_held;  /* bytes that XNNPACK allocated for it; until it has ended, those of the thread before */
	uint32_t n_runtimes;
	xnn_runtime_t runtimes[]; /* one a part; NULL: of our own nodes */
};

/* Those of one Program that no lane has taken over. Any thread. */
struct et_xnn_rehearsals {
	struct et_allocator allocator;
	pthread_mutex_t lock;      /* guards what follows */
	bool is_busy;              /* the workspace is the thread's that makes runtimes there */
	bool has_unwanted;         /* among those in the list */
	xnn_workspace_t workspace; /* NULL: there are none */
	uint64_t n_held;           /* bytes that XNNPACK allocated for that alone */
	uint64_t n_kept;           /* and for those in the list */
	struct et_list_node list;
};
void et_xnn_rehearsals_init(struct et_xnn_rehearsals *rehearsals, const struct et_allocator *allocator);
/* No payload may be left that was rehearsed there. */
void et_xnn_rehearsals_deinit(struct et_xnn_rehearsals *rehearsals);

/* Begin one for a payload of @n_runtimes parts. The caller makes its runtimes, in its workspace and without threads, and ends it
 * on the same thread. ET_E_MEMORY_ALLOCATION_FAILED, and what XNNPACK answers. */
enum et_status et_xnn_prebuilt_begin(struct et_xnn_prebuilt **ret_prebuilt, struct et_xnn_rehearsals *rehearsals,
	uint32_t n_runtimes, struct et_diag *diag);
/* @rehearsal is not the caller's any more. @is_good: it is kept for the payload's first context, where that is possible: then the
 * number by which it is found. 0: it is gone. */
uint64_t et_xnn_prebuilt_end(struct et_xnn_rehearsals *rehearsals, struct et_xnn_prebuilt *prebuilt, bool is_good);
/* Nobody will ask for the one of that number. */
void et_xnn_rehearsals_drop(struct et_xnn_rehearsals *rehearsals, uint64_t number);
/* On the lane's thread: move the runtimes of that number to @runtimes, the caller's then; they are in the workspace that the
 * lane has now. False: they are not for it, and nobody's any more. */
bool et_xnn_rehearsals_take(struct et_xnn_rehearsals *rehearsals, uint64_t number,
	struct inferd_delegate_worker_threads *threads, xnn_runtime_t *runtimes);
/* Delete all that are in a lane's list, on its thread. */
void et_xnn_rehearsals_clear(const struct et_allocator *allocator, struct et_list_node *list);

#endif
