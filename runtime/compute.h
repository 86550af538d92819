/* SPDX-License-Identifier: BSD-3-Clause */
/* Heavy work that plain kernels hand down: a table injected by whoever owns threads and a fast
 * library. delegates/xnnpack implements it over XNNPACK's operators and the worker's thread pool.
 *
 * Every entry may be NULL, and a kernel then uses its own plain loops; a table of NULL pointers, or
 * no table, is a valid and complete runtime. The plain loops are the reference that tests hold the
 * fast ones against. */
#ifndef RUNTIME_COMPUTE_H
#define RUNTIME_COMPUTE_H

#include "runtime/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Elements [begin, end) of a loop. */
typedef void (*et_range_fn)(void *arg, size_t begin, size_t end);

struct et_compute {
	void *self;
	/* Call @fn over [0, n) in pieces of at least @grain, on the worker's threads; returns when all
	 * is done. @fn must not fail and must not call back into the table. */
	void (*parallel_for)(void *self, et_range_fn fn, void *arg, size_t n, size_t grain);
	/* Nothing follows at once: the threads may sleep. Until then they may look around for work between one loop or
	 * delegate's call and the next. On the worker's thread, outside all other calls. */
	void (*rest)(void *self);
};

/* Through the table, or in the calling thread where there is none. */
static inline void et_parallel_for(const struct et_compute *compute, et_range_fn fn, void *arg, size_t n, size_t grain)
{
	if (compute && compute->parallel_for && n > grain)
		compute->parallel_for(compute->self, fn, arg, n, grain);
	else if (n)
		fn(arg, 0, n);
}

static inline void et_compute_rest(const struct et_compute *compute)
{
	if (compute && compute->rest)
		compute->rest(compute->self);
}

#endif
