/* SPDX-License-Identifier: BSD-3-Clause */
/* Run statistics: what is counted of a model's runs, and what the daemon concludes for the next one.
 *
 * All zeros is "nothing has run yet". Any thread, except for the calls marked otherwise. */
#ifndef DAEMON_MODEL_RUN_STATS_H
#define DAEMON_MODEL_RUN_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { INF_N_RECENT = 64 };

struct inf_run_stats {
	_Atomic(uint64_t) n_success, success_ns;
	_Atomic(uint64_t) n_fail, fail_ns;
	_Atomic(uint64_t) queue_ns, run_ns;
	_Atomic(uint64_t) n_runs; /* that began */
	_Atomic(uint64_t) copied_bytes;
	_Atomic(uint64_t) last_ms; /* since the epoch */
	_Atomic(uint64_t) recent_ns[INF_N_RECENT];
	_Atomic(uint64_t) guess_ns; /* the expected cost of the next run on one core */
	bool may_be_quick;          /* no instruction of the program can take long; set before the first run */
	_Atomic(uint32_t) n_quick; /* runs shorter than waking a worker; a slow run halves it, a long one quarters it */
};

/* The members of struct inf_run_stats that can be summed, as plain numbers. */
struct inf_run_counts {
	uint64_t n_success, success_ns, n_fail, fail_ns, queue_ns, run_ns, n_runs, copied_bytes;
	uint64_t last_ms; /* the latest */
};

/* Add what @from has counted so far. */
void inf_run_counts_add(struct inf_run_counts *to, const struct inf_run_stats *from);

/* Count a request that ran. */
void inf_run_stats_add(struct inf_run_stats *stats, bool is_success, uint64_t queue_ns, uint64_t run_ns,
	uint64_t cost_ns, uint64_t copied_bytes);
/* Whether the next run is expected to take less time than waking a worker for it: all but one of the last many runs
 * did, and no instruction of the program can take long, whatever its inputs are. */
bool inf_run_stats_is_quick(const struct inf_run_stats *stats);
/* The median of the recent successful runs; 0: there is none. */
uint64_t inf_run_stats_median_ns(const struct inf_run_stats *stats);

#endif
