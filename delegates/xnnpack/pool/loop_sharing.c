/* SPDX-License-Identifier: BSD-3-Clause */
/* What a pool learns about its loops: see loop_sharing.h.
 *
 * Other processes only make a loop slower, never faster. So a shorter time is taken as it is, and a longer one moves
 * the estimate by an eighth of the difference, at most an eighth of the estimate. */
#include "delegates/xnnpack/pool/loop_sharing.h"

/* The calling thread alone: in the runs FIRST_TRIAL and FIRST_TRIAL + SPREAD, each plus 0 to SPREAD - 1 by the key. */
enum { FIRST_TRIAL = 2, SPREAD = 8, DECIDED = FIRST_TRIAL + 2 * SPREAD };
enum { FIRST_INTERVAL = 64, MAX_INTERVAL = 4096 };
/* Of the runs that are done in the known way, one of so many is timed. */
enum { RUNS_PER_TIME = 8 };
/* All threads must be faster by at least an eighth: they take cores that others could use. */
enum { LEAST_GAIN = 8 };
/* A loop this long is shared without trials: no processor takes so long to share a loop. */
#define LONG_NS UINT32_C(500000)

static uint32_t phase(const struct et_xnn_loop_sharing *sharing)
{
	return (uint32_t)(sharing->key >> 32) % SPREAD;
}

bool et_xnn_loop_sharing_next(struct et_xnn_loop_sharing *sharing, bool *ret_is_timed)
{
	uint32_t run = sharing->n_runs;
	sharing->n_runs = run < UINT32_MAX - MAX_INTERVAL ? run + 1 : run + 1 - MAX_INTERVAL;
	*ret_is_timed = true;
	if (sharing->shared_ns >= LONG_NS)
		return true;
	if (run < DECIDED || !sharing->interval)
		return run < FIRST_TRIAL || (run - FIRST_TRIAL) % SPREAD != phase(sharing);
	uint32_t at = run & (sharing->interval - 1u);
	if (sharing->is_alone ? at == 0 : at == FIRST_TRIAL + phase(sharing))
		return sharing->is_alone;
	*ret_is_timed = run % RUNS_PER_TIME == 0;
	return !sharing->is_alone;
}

static uint32_t estimate(uint32_t before, uint64_t ns)
{
	if (!before || ns < before)
		return ns < 1 ? 1 : ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
	uint64_t more = ns - before < before ? ns - before : before;
	return more / 8 < UINT32_MAX - before ? before + (uint32_t)(more / 8) : UINT32_MAX;
}

void et_xnn_loop_sharing_count(struct et_xnn_loop_sharing *sharing, bool is_shared, uint64_t ns)
{
	uint32_t *time = is_shared ? &sharing->shared_ns : &sharing->alone_ns;
	*time = estimate(*time, ns);
	if (sharing->n_runs < DECIDED || sharing->shared_ns >= LONG_NS)
		return;
	bool is_alone = sharing->alone_ns &&
			(uint64_t)sharing->alone_ns * LEAST_GAIN <= (uint64_t)sharing->shared_ns * (LEAST_GAIN + 1);
	if (!sharing->interval || is_alone != sharing->is_alone)
		sharing->interval = FIRST_INTERVAL;
	else if (is_shared == is_alone && sharing->interval < MAX_INTERVAL) /* a trial that changes nothing */
		sharing->interval *= 2;
	sharing->is_alone = is_alone;
}
