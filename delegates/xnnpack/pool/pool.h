/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of threads that share the items of a loop, and never wait long for a thread that does not run.
 *
 * A pool is also XNNPACK's pthreadpool_t: pthreadpool.c defines the functions that XNNPACK calls. */
#ifndef DELEGATES_XNNPACK_POOL_POOL_H
#define DELEGATES_XNNPACK_POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pthreadpool;

struct et_xnn_loop {
	/* Run the items [begin, end). Calls at the same time have different @thread, less than the pool's number. */
	void (*run)(const struct et_xnn_loop *loop, size_t thread, size_t begin, size_t end);
	size_t n_items;
	bool flushes;       /* compute with zeros for subnormal floats */
	uintptr_t function; /* what each item does: loops with the same values do the same, most likely; */
	uintptr_t object;   /* and with what, 0: not known. function 0: the threads share the loop */
};

/* Make a pool of @n_threads of at least 2, the threads that call et_xnn_pool_run included. NULL: no memory or no
 * threads. Any thread. */
struct pthreadpool *et_xnn_pool_new(uint32_t n_threads);
/* No loop may run. Takes NULL. */
void et_xnn_pool_free(struct pthreadpool *pool);
/* The number of threads, 1 for NULL. Any thread. */
size_t et_xnn_pool_n_threads(const struct pthreadpool *pool);
/* Run all items. NULL: in the calling thread. One loop at a time; @loop->run must not call this. */
void et_xnn_pool_run(struct pthreadpool *pool, const struct et_xnn_loop *loop);
/* No loop follows soon: the threads sleep. NULL: nothing. As et_xnn_pool_run. */
void et_xnn_pool_rest(struct pthreadpool *pool);
/* For how long the calling thread goes on alone after it has lost @lost_ns, at most INT64_MAX, having lost @n_losses
 * times before: at most 1 s. Pure. */
uint64_t et_xnn_pool_pause_ns(int64_t lost_ns, uint32_t n_losses);

#endif
