/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of a model's runs.
 *
 * Workers count without a lock, with relaxed atomics: each value is right by itself, but two values read together
 * may be one run apart. Nothing here decides; the job (client/job.c) asks before it submits a request. */
#include "daemon/model/run_stats.h"

#include <stdlib.h>
#include <time.h>

static uint64_t add(_Atomic(uint64_t) *to, uint64_t n)
{
	return atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static uint64_t get(const _Atomic(uint64_t) *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

void inf_run_counts_add(struct inf_run_counts *to, const struct inf_run_stats *from)
{
	to->n_success += get(&from->n_success);
	to->success_ns += get(&from->success_ns);
	to->n_fail += get(&from->n_fail);
	to->fail_ns += get(&from->fail_ns);
	to->queue_ns += get(&from->queue_ns);
	to->run_ns += get(&from->run_ns);
	to->n_runs += get(&from->n_runs);
	to->copied_bytes += get(&from->copied_bytes);
	uint64_t last_ms = get(&from->last_ms);
	if (to->last_ms < last_ms)
		to->last_ms = last_ms;
}

enum { QUICK_NS = 10 * 1000, LONG_NS = 10 * QUICK_NS, N_QUICK = 64 };

bool inf_run_stats_is_quick(const struct inf_run_stats *stats)
{
	return stats->may_be_quick && atomic_load_explicit(&stats->n_quick, memory_order_relaxed) >= N_QUICK;
}

/* A run that did not succeed counts as slow, because its full length is unknown. A single slow run may be the machine's
 * fault, which ran something else meanwhile: one in N_QUICK is forgiven. A long run is not forgiven, because it blocked
 * the loop, or would have. Updates that are lost between threads do not matter. */
static void count_quick(struct inf_run_stats *stats, bool is_success, uint64_t cost_ns)
{
	uint32_t n = atomic_load_explicit(&stats->n_quick, memory_order_relaxed);
	if (cost_ns >= LONG_NS)
		n /= 4;
	else if (!is_success || cost_ns >= QUICK_NS)
		n /= 2;
	else if (n < 2 * N_QUICK)
		n++;
	atomic_store_explicit(&stats->n_quick, n, memory_order_relaxed);
}

void inf_run_stats_add(struct inf_run_stats *stats, bool is_success, uint64_t queue_ns, uint64_t run_ns,
	uint64_t cost_ns, uint64_t copied_bytes)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	add(is_success ? &stats->n_success : &stats->n_fail, 1);
	add(is_success ? &stats->success_ns : &stats->fail_ns, queue_ns + run_ns);
	add(&stats->queue_ns, queue_ns);
	add(&stats->run_ns, run_ns);
	add(&stats->copied_bytes, copied_bytes);
	count_quick(stats, is_success, cost_ns);
	atomic_store_explicit(&stats->last_ms, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
		memory_order_relaxed);
	uint64_t n = add(&stats->n_runs, 1);
	if (!is_success)
		return;
	atomic_store_explicit(&stats->recent_ns[n % INF_N_RECENT], run_ns, memory_order_relaxed);
	uint64_t guess = atomic_load_explicit(&stats->guess_ns, memory_order_relaxed);
	/* an outlier may be the machine's fault: it counts for little */
	guess = guess ? guess - guess / 8 + (cost_ns < 4 * guess ? cost_ns : 4 * guess) / 8 : cost_ns;
	atomic_store_explicit(&stats->guess_ns, guess, memory_order_relaxed);
}

static int compare_uint64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

uint64_t inf_run_stats_median_ns(const struct inf_run_stats *stats)
{
	uint64_t values[INF_N_RECENT];
	size_t n = 0;
	for (size_t i = 0; i < INF_N_RECENT; i++) {
		uint64_t value = atomic_load_explicit(&stats->recent_ns[i], memory_order_relaxed);
		if (value)
			values[n++] = value;
	}
	qsort(values, n, sizeof(values[0]), compare_uint64);
	return n ? values[n / 2] : 0;
}
