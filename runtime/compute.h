/* SPDX-License-Identifier: BSD-3-Clause */
/* Worker threads for kernels: a table that the delegate with the thread pool provides (delegates/xnnpack), and the
 * signal that tells a kernel's loops to stop, because the run was cancelled or its deadline has passed.
 *
 * The table, and each of its entries, may be NULL. Kernels then run their loops in the calling thread, which is the
 * reference that tests compare with.
 *
 * A loop that may take longer than some milliseconds asks et_must_stop before each chunk of its work, or lets
 * et_parallel_for ask, which does it for each @grain. A loop that is told to stop just returns. What it should have
 * written is undefined, so the code behind it must not use that as an index. et_run_advance then fails the run,
 * whatever the kernel returns. */
#ifndef RUNTIME_COMPUTE_H
#define RUNTIME_COMPUTE_H

#include "runtime/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Run elements [begin, end) of a loop. */
typedef void (*et_range_fn)(void *arg, size_t begin, size_t end);

/* Whether the loops of a run must stop. Shared by all threads that work on it. */
struct et_stop_signal {
	const _Atomic(bool) *cancelled;
	uint64_t deadline_ns; /* 0: none */
	uint64_t (*now_ns)(void *self);
	void *clock;
	_Atomic(uint32_t) status; /* ET_OK; ET_E_CANCELLED or ET_E_DEADLINE: a loop was told to stop */
};

struct et_compute {
	void *self;
	/* Call @fn over [0, n) in pieces of at least @grain elements, on the worker's threads. Returns when all is
	 * done. @fn must not fail and must not call back into the table. */
	void (*parallel_for)(void *self, et_range_fn fn, void *arg, size_t n, size_t grain);
	/* No work follows soon: the threads may sleep. Before this call they may spin between one loop or delegate
	 * call and the next. On the worker's thread, outside all other calls. */
	void (*rest)(void *self);
	struct et_stop_signal *signal; /* of the run that uses the table now; NULL: nothing stops it */
};

/* Look at the signal and at the clock: some 30 ns. Any thread. */
bool et_stop_signal_look(struct et_stop_signal *signal);
/* Whether the kernel must stop. Ask once for each 10 to 1000 microseconds of work. Any thread. */
static inline bool et_must_stop(const struct et_compute *compute)
{
	return compute && compute->signal && et_stop_signal_look(compute->signal);
}

/* For loops whose rounds differ in length: it counts their steps, and asks once for many of them. */
struct et_pace {
	const struct et_compute *compute;
	size_t n_steps;
};
enum { ET_PACE_STEPS = 1 << 16 };
/* Another @n_steps steps of the loop follow; whether the loop must end instead. */
static inline bool et_pace_must_stop(struct et_pace *pace, size_t n_steps)
{
	pace->n_steps += n_steps;
	if (pace->n_steps < ET_PACE_STEPS)
		return false;
	bool must_stop = et_must_stop(pace->compute);
	pace->n_steps = must_stop ? ET_PACE_STEPS : 0; /* once told to stop, all further calls say so at once */
	return must_stop;
}

/* How many steps of a loop over [@done, n) follow before it asks again; 0: none are left, or the loop must end. */
static inline size_t et_pace_chunk(struct et_pace *pace, size_t done, size_t n)
{
	size_t chunk = n - done < ET_PACE_STEPS ? n - done : ET_PACE_STEPS;
	return et_pace_must_stop(pace, chunk) ? 0 : chunk;
}

/* The same for one of many loops: it asks between chunks, and the caller between the loops. */
static inline size_t et_next_chunk(const struct et_compute *compute, size_t done, size_t n)
{
	if (done == n || (done && et_must_stop(compute)))
		return 0;
	return n - done < ET_PACE_STEPS ? n - done : ET_PACE_STEPS;
}

/* What et_parallel_for does with more than @grain elements. */
void et_compute_loop(const struct et_compute *compute, et_range_fn fn, void *arg, size_t n, size_t grain);
/* Use the table, or the calling thread if there is none. Returns early if the kernel must stop. */
static inline void et_parallel_for(const struct et_compute *compute, et_range_fn fn, void *arg, size_t n, size_t grain)
{
	if (compute && n > grain)
		et_compute_loop(compute, fn, arg, n, grain);
	else if (n)
		fn(arg, 0, n);
}

/* The same for a function that looks itself whether it must stop, and that is faster on long pieces. */
static inline void et_parallel_for_paced(const struct et_compute *compute, et_range_fn fn, void *arg, size_t n,
	size_t grain)
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
