/* SPDX-License-Identifier: BSD-3-Clause */
/* Worker threads for kernels: a table that the delegate with the thread pool provides (delegates/xnnpack).
 *
 * The table, and each of its entries, may be NULL. Kernels then run their loops in the calling thread, which is the
 * reference that tests compare with. */
#ifndef RUNTIME_COMPUTE_H
#define RUNTIME_COMPUTE_H

#include "runtime/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Run elements [begin, end) of a loop. */
typedef void (*et_range_fn)(void *arg, size_t begin, size_t end);

struct et_compute {
	void *self;
	/* Call @fn over [0, n) in pieces of at least @grain elements, on the worker's threads. Returns when all is
	 * done. @fn must not fail and must not call back into the table. */
	void (*parallel_for)(void *self, et_range_fn fn, void *arg, size_t n, size_t grain);
	/* No work follows soon: the threads may sleep. Before this call they may spin between one loop or delegate
	 * call and the next. On the worker's thread, outside all other calls. */
	void (*rest)(void *self);
};

/* Use the table, or the calling thread if there is none. */
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
