/* SPDX-License-Identifier: BSD-3-Clause */
/* XNNPACK's allocator: it counts memory for each thread, and has a reserve for when the heap has no more.
 *
 * XNNPACK checks most answers of its allocator, but not all: its memory planner (2024-11) uses three tables without
 * a check, and so does the reshape of a convolution of rows quantized at run time. A daemon must not end for that.
 * So small requests come from a reserve when the heap has no more. The caller of XNNPACK learns of it afterwards
 * (et_xnn_settle), deletes what was made, and reports that memory ran out. XNNPACK does check large requests (packed
 * weights, a workspace, indirections). A graph of more than ten thousand values has tables larger than the reserve,
 * and could still end the process.
 *
 * The bound is for hostile and for too large payloads. XNNPACK computes the size of a workspace or of an indirection
 * table only as it allocates it, so what would go beyond the bound fails there, as if the heap had no more. Small
 * requests are not kept from going beyond it, since XNNPACK would not survive that; instance.c says how small. An
 * instance that makes many of them is charged for its nodes before.
 *
 * XNNPACK takes one allocator for the process and keeps it, so this is one table without a context. The reserve is
 * empty except in the moment of need; its pages take no memory until they are used. */
#include "delegates/xnnpack/allocator.h"

#include "runtime/base/checked.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RESERVE = 1 << 20, SMALL = 256 << 10, ALIGNMENT = 64 };

/* The header of each piece in the reserve. */
struct piece {
	_Alignas(ALIGNMENT) size_t n_bytes;
};

static _Alignas(ALIGNMENT) uint8_t reserve[RESERVE];
static size_t n_used, n_pieces;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards n_used, n_pieces and reserve */

static _Thread_local bool has_run_out;
static _Thread_local uint64_t n_held; /* wraps if the thread deletes memory that another thread allocated */
static bool (*_Atomic the_gate)(size_t n_bytes);
static _Thread_local struct et_xnn_memory_account *entered; /* NULL: nothing is charged */
static _Thread_local size_t n_exempt;                       /* bytes of a request that the bound does not refuse */
static _Thread_local uint64_t n_denied, n_free;             /* n_denied 0: nothing was refused */

static bool is_reserve(const void *bytes)
{
	return (uintptr_t)bytes - (uintptr_t)reserve < RESERVE;
}

static void *from_reserve(size_t n_bytes, size_t align)
{
	uint8_t *bytes = NULL;
	has_run_out = true;
	if (n_bytes > SMALL || align > ALIGNMENT)
		return NULL;
	size_t n = sizeof(struct piece) + ((n_bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
	pthread_mutex_lock(&lock);
	if (n <= RESERVE - n_used) {
		struct piece *piece = (struct piece *)(void *)(reserve + n_used);
		piece->n_bytes = n_bytes;
		bytes = reserve + n_used + sizeof(*piece);
		n_used += n;
		n_pieces++;
	}
	pthread_mutex_unlock(&lock);
	return bytes;
}

static uint64_t held_by(const struct et_xnn_memory_account *account)
{
	return account->threads_move ? account->n_other : account->n_other + n_held - account->n_before;
}

bool et_xnn_memory_charge(struct et_xnn_memory_account *account, uint64_t n_more)
{
	struct et_xnn_memory_bound *bound = account->bound;
	uint64_t charged = atomic_load_explicit(&account->n_bytes, memory_order_relaxed), n = held_by(account);
	et_add_up(&n, n_more);
	if (n <= charged)
		return true;
	uint64_t all = atomic_load_explicit(&bound->n_bytes, memory_order_relaxed), max;
	do {
		max = atomic_load_explicit(&bound->max_bytes, memory_order_relaxed);
		if (all > max || n - charged > max - all) {
			n_denied = n_more ? n_more : 1;
			n_free = et_less(max, all);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(&bound->n_bytes, &all, all + (n - charged),
		memory_order_relaxed, memory_order_relaxed));
	atomic_store_explicit(&account->n_bytes, n, memory_order_relaxed);
	return true;
}

void et_xnn_memory_settle(struct et_xnn_memory_account *account)
{
	uint64_t n = held_by(account), charged = atomic_load_explicit(&account->n_bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&account->bound->n_bytes, n - charged, memory_order_relaxed); /* it may wrap */
	atomic_store_explicit(&account->n_bytes, n, memory_order_relaxed);
}

void et_xnn_memory_enter(struct et_xnn_memory_account *account, size_t n_small)
{
	entered = account;
	n_exempt = n_small > SMALL ? n_small : SMALL;
}

bool et_xnn_memory_denied(uint64_t *ret_needed, uint64_t *ret_free)
{
	bool was_denied = n_denied;
	*ret_needed = n_denied;
	*ret_free = n_free;
	n_denied = 0;
	return was_denied;
}

static bool has_heap(size_t n_bytes)
{
	bool (*gate)(size_t) = atomic_load_explicit(&the_gate, memory_order_relaxed);
	if (gate && !gate(n_bytes))
		return false;
	return !entered || n_bytes <= n_exempt || et_xnn_memory_charge(entered, n_bytes);
}

static void *allocate(void *self, size_t n_bytes)
{
	void *bytes = has_heap(n_bytes) ? malloc(n_bytes) : NULL;
	n_held += malloc_usable_size(bytes);
	return bytes ? bytes : from_reserve(n_bytes, ALIGNMENT);
}

static void *aligned_allocate(void *self, size_t align, size_t n_bytes)
{
	void *bytes = NULL;
	if (has_heap(n_bytes) && posix_memalign(&bytes, align, n_bytes) == 0) {
		n_held += malloc_usable_size(bytes);
		return bytes;
	}
	return from_reserve(n_bytes, align);
}

static void deallocate(void *self, void *bytes)
{
	if (!is_reserve(bytes)) {
		n_held -= malloc_usable_size(bytes);
		free(bytes);
		return;
	}
	pthread_mutex_lock(&lock);
	if (--n_pieces == 0)
		n_used = 0;
	pthread_mutex_unlock(&lock);
}

static void *reallocate(void *self, void *bytes, size_t n_bytes)
{
	if (!is_reserve(bytes)) {
		size_t n_old = malloc_usable_size(bytes);
		void *moved = has_heap(n_bytes) ? realloc(bytes, n_bytes) : NULL;
		n_held += moved ? malloc_usable_size(moved) - n_old : 0;
		has_run_out = has_run_out ||
			      !moved; /* XNNPACK checks every answer of reallocate, so no reserve is needed */
		return moved;
	}
	void *moved = allocate(self, n_bytes);
	size_t n_before = ((struct piece *)bytes - 1)->n_bytes;
	if (moved) {
		memcpy(moved, bytes, n_bytes < n_before ? n_bytes : n_before);
		deallocate(self, bytes);
	}
	return moved;
}

const struct xnn_allocator *et_xnn_allocator(void)
{
	static const struct xnn_allocator table = {
		.allocate = allocate,
		.reallocate = reallocate,
		.deallocate = deallocate,
		.aligned_allocate = aligned_allocate,
		.aligned_deallocate = deallocate,
	};
	return &table;
}

enum xnn_status et_xnn_settle(enum xnn_status status)
{
	bool ran_out = has_run_out;
	has_run_out = false;
	return ran_out ? xnn_status_out_of_memory : status;
}

uint64_t et_xnn_memory_held(void)
{
	return n_held;
}

void et_xnn_memory_own(uint64_t n_bytes)
{
	n_held += n_bytes;
}

void et_xnn_memory_set_gate(bool (*may_allocate)(size_t n_bytes))
{
	atomic_store_explicit(&the_gate, may_allocate, memory_order_relaxed);
}
