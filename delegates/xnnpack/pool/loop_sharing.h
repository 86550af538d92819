/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the threads of a pool share a loop, learned from how long it took both ways.
 *
 * Sharing a loop costs some microseconds: the other threads must see it, its data move between caches, and the calling
 * thread waits for the last item. What that costs, and what a loop's items take, depends on the processor, so both ways
 * are tried and timed. A loop is shared in its first runs, run by the calling thread alone twice, and then done in the
 * faster way. The slower way is tried again, ever more seldom while the result stays the same.
 *
 * Trials of sharing come at the same run of all loops of a program, because the other threads are awake then. Trials of
 * the calling thread alone are spread over eight runs, so that none of these is much slower.
 *
 * No function keeps state of its own or reads a clock. */
#ifndef DELEGATES_XNNPACK_POOL_LOOP_SHARING_H
#define DELEGATES_XNNPACK_POOL_LOOP_SHARING_H

#include <stdbool.h>
#include <stdint.h>

/* What is known of one loop. All zero: nothing. */
struct et_xnn_loop_sharing {
	uint64_t key;       /* of the loop; 0: none */
	uint32_t n_runs;    /* so far; begins anew, above the first trials, before it overflows */
	uint16_t interval;  /* runs between two trials of the slower way, a power of 2; 0: not decided */
	bool is_alone;      /* the calling thread alone is faster */
	uint32_t alone_ns;  /* how long the loop takes the calling thread alone; 0: not tried */
	uint32_t shared_ns; /* and all threads */
};

/* Whether all threads share the next run. @ret_is_timed: call et_xnn_loop_sharing_count with how long it took. */
bool et_xnn_loop_sharing_next(struct et_xnn_loop_sharing *sharing, bool *ret_is_timed);
/* The run took @ns. */
void et_xnn_loop_sharing_count(struct et_xnn_loop_sharing *sharing, bool is_shared, uint64_t ns);

#endif
