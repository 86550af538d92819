/* SPDX-License-Identifier: BSD-3-Clause */
/* What XNNPACK allocates, and what it is given when there is no more. */
#ifndef DELEGATES_XNNPACK_ALLOCATOR_H
#define DELEGATES_XNNPACK_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>
#include <xnnpack.h>

/* For xnn_initialize. Any thread; lives as long as the process. */
const struct xnn_allocator *et_xnn_allocator(void);

/* What an XNNPACK function on this thread has to say, @status, or out of memory where it, or one before it since this was
 * last asked, got something from the reserve: then what was made is to be deleted. */
enum xnn_status et_xnn_settle(enum xnn_status status);

/* Bytes that XNNPACK has allocated on this thread and not given back on it; meaningful for what it makes and deletes on one. */
uint64_t et_xnn_memory_held(void);
/* So many of them more are this thread's from now on: what another one made. Negative (it wraps): are not its any more. */
void et_xnn_memory_own(uint64_t n_bytes);

/* Asked before each allocation from now on; false: there is no more. NULL: the heap is. For tests. */
void et_xnn_memory_set_gate(bool (*may_allocate)(size_t n_bytes));

#endif
