/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops that stop: each piece that a thread gets is cut into chunks, and the stop signal is looked at between two of
 * them. A kernel's grain is what is worth another thread, so it takes tens of microseconds at least, and looking costs
 * less than a hundredth of that. */
#include "runtime/compute.h"

bool et_stop_signal_look(struct et_stop_signal *signal)
{
	uint32_t status = atomic_load_explicit(&signal->status, memory_order_relaxed);
	if (status != ET_OK)
		return true;
	if (atomic_load_explicit(signal->cancelled, memory_order_relaxed))
		status = ET_E_CANCELLED;
	else if (signal->deadline_ns && signal->now_ns && signal->now_ns(signal->clock) >= signal->deadline_ns)
		status = ET_E_DEADLINE;
	if (status != ET_OK)
		atomic_store_explicit(&signal->status, status, memory_order_relaxed);
	return status != ET_OK;
}

struct loop {
	struct et_stop_signal *signal;
	et_range_fn fn;
	void *arg;
	size_t chunk;
};

static void run_chunks(void *arg, size_t begin, size_t end)
{
	const struct loop *loop = arg;
	while (begin < end) {
		size_t n = end - begin < 2 * loop->chunk ? end - begin : loop->chunk;
		if (et_stop_signal_look(loop->signal))
			return;
		loop->fn(loop->arg, begin, begin + n);
		begin += n;
	}
}

void et_compute_loop(const struct et_compute *compute, et_range_fn fn, void *arg, size_t n, size_t grain)
{
	struct loop loop = { compute->signal, fn, arg, grain ? grain : 1 };
	if (compute->signal) {
		fn = run_chunks;
		arg = &loop;
	}
	if (compute->parallel_for)
		compute->parallel_for(compute->self, fn, arg, n, grain);
	else
		fn(arg, 0, n);
}
