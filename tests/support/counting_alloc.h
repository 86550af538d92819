/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocator for tests: it counts live allocations, and fails at the nth call. */
#ifndef TESTS_SUPPORT_COUNTING_ALLOC_H
#define TESTS_SUPPORT_COUNTING_ALLOC_H

#include "runtime/base/alloc.h"

#include <stdbool.h>
#include <stdint.h>

struct counting_alloc {
	size_t n_calls;
	size_t n_live; /* pieces not yet freed */
	size_t n_live_bytes;
	size_t n_peak_bytes;
	size_t fail_at;  /* the call that fails, and all behind it: 1 = the first; 0 = never */
	bool fails_once; /* and not those behind it */
	uint8_t fill;    /* what new memory is filled with; 0: it stays as malloc gives it */
};

/* @counting must be all zeros, or as the test wants it. */
struct et_allocator counting_allocator(struct counting_alloc *counting);

#endif
