/* SPDX-License-Identifier: BSD-3-Clause */
/* XNNPACK's allocator, which counts memory for each thread and has a reserve for when the heap has no more. */
#ifndef DELEGATES_XNNPACK_ALLOCATOR_H
#define DELEGATES_XNNPACK_ALLOCATOR_H

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

/* Ask @may_allocate before each allocation from now on; if it answers false the heap has no more. NULL: do not ask.
 * For tests. */
void et_xnn_memory_set_gate(bool (*may_allocate)(size_t n_bytes));

#endif
