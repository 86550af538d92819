/* SPDX-License-Identifier: BSD-3-Clause */
/* XNNPACK's allocator, which counts memory for each thread, keeps it below a bound, and has a reserve for when there is
 * no more. */
#ifndef DELEGATES_XNNPACK_ALLOCATOR_H
#define DELEGATES_XNNPACK_ALLOCATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <xnnpack.h>

/* The table for xnn_initialize. Any thread; lives as long as the process. */
const struct xnn_allocator *et_xnn_allocator(void);

/* Correct the @status that an XNNPACK function returned: it is out of memory if any XNNPACK function on this thread was
 * refused memory or got it from the reserve since the last call. Then the caller deletes what was made. */
enum xnn_status et_xnn_settle(enum xnn_status status);

/* Bytes that XNNPACK has allocated on this thread and not freed on it. Differences are meaningful for objects that
 * are made and deleted on the same thread. */
uint64_t et_xnn_memory_held(void);
/* Count @n_bytes that another thread allocated as this thread's from now on. Negative (it wraps): as not this
 * thread's. */
void et_xnn_memory_own(uint64_t n_bytes);

/* A bound on what all workers of a backend hold together. */
struct et_xnn_memory_bound {
	_Atomic(uint64_t) n_bytes; /* what they hold, and what they are about to allocate */
	_Atomic(uint64_t) max_bytes;
};

/* What one worker's thread is charged. Only this thread writes it. */
struct et_xnn_memory_account {
	struct et_xnn_memory_bound *bound;
	uint64_t n_before;         /* bytes that XNNPACK held on this thread when the account was made */
	uint64_t n_other;          /* bytes besides what XNNPACK allocates */
	bool threads_move;         /* used by several threads: what XNNPACK held on this one says nothing */
	_Atomic(uint64_t) n_bytes; /* charged; other threads read it */
};

/* Charge @n_more bytes beyond what the thread holds, before they are allocated. False: that is more than the bound
 * allows, and et_xnn_memory_denied tells. */
bool et_xnn_memory_charge(struct et_xnn_memory_account *account, uint64_t n_more);
/* The thread allocates nothing more for now: charge what it holds, whatever the bound is. */
void et_xnn_memory_settle(struct et_xnn_memory_account *account);
/* From now on charge XNNPACK's allocations on this thread of more than @n_small bytes to @account before they are made;
 * those that the bound does not allow fail. Smaller ones are charged by et_xnn_memory_settle. NULL: charge nothing. */
void et_xnn_memory_enter(struct et_xnn_memory_account *account, size_t n_small);
/* Whether the bound has refused a charge on this thread since the last call; *@ret_needed: its bytes, *@ret_free: those
 * that were free. */
bool et_xnn_memory_denied(uint64_t *ret_needed, uint64_t *ret_free);

/* Ask @may_allocate before each allocation from now on; if it answers false the heap has no more. NULL: do not ask.
 * For tests. */
void et_xnn_memory_set_gate(bool (*may_allocate)(size_t n_bytes));

#endif
