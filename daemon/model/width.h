/* SPDX-License-Identifier: BSD-3-Clause */
/* Width: whether a model's next run uses one core or all of them, decided by how long its runs took.
 *
 * All zeros is "nothing has run yet". No clock and no lock inside: workers add runs, the loop thread chooses. */
#ifndef DAEMON_MODEL_WIDTH_H
#define DAEMON_MODEL_WIDTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct inf_width {
	_Atomic(bool) uses_all_cores;                   /* runs use all cores; otherwise one, but for trials */
	_Atomic(uint64_t) single_core_ns, all_cores_ns; /* running averages of whole runs; 0: none yet */
	_Atomic(uint32_t) n_single_core, n_all_cores;   /* runs that they cover */
	_Atomic(uint32_t) n_since_all_cores;            /* runs on one core since the last one on all cores */
	_Atomic(uint32_t) n_since_single_core;          /* the reverse */
	_Atomic(uint32_t) n_gains;                      /* runs on all cores that gained, since a trial did not */
	_Atomic(uint32_t) n_losses;                     /* runs on all cores that did not gain, since one did */
	_Atomic(uint32_t) patience;                     /* doublings of the time until all cores are tried again */
	_Atomic(uint64_t) next_trial_ns;
	/* The loop thread's. */
	uint64_t next_check_ns;
	bool is_busy; /* the cores, at the last look */
};

/* The widths of one model, by the size of a request's inputs: runs of different work are not compared. */
enum { INF_N_WIDTHS = 8 };
struct inf_widths {
	struct inf_width of[INF_N_WIDTHS];
	uint32_t last; /* found last. The loop thread's. */
};
/* The width for requests of @n_bytes of inputs and of similar sizes. Loop thread. */
struct inf_width *inf_widths_find(struct inf_widths *widths, uint64_t n_bytes);

/* Count a run whose segments all ran on one core, or all on all cores; or one that left all cores because it was not
 * done after inf_width_limit_ns, with the time that it took until then. Any thread. */
void inf_width_add(struct inf_width *width, bool is_all_cores, uint64_t run_ns, uint64_t now_ns);
/* Whether the next run should use all cores if it is alone. @is_busy says whether other processes use the cores; it is
 * asked only before a run on all cores, and at most every INF_WIDTH_CHECK_NS. Loop thread. */
enum { INF_WIDTH_CHECK_NS = 20 * 1000 * 1000 };
bool inf_width_choose(struct inf_width *width, uint64_t now_ns, bool (*is_busy)(void *self), void *self);
/* After this time a run on all cores has lost what it could win, and should go on with one core. Any thread. */
uint64_t inf_width_limit_ns(const struct inf_width *width);
/* Whether runs use all cores now, but for the one that now and then compares. Loop thread. */
bool inf_width_uses_all_cores(const struct inf_width *width);
/* Why inf_width_choose chooses as it does: a string constant. Loop thread. */
const char *inf_width_reason(const struct inf_width *width);

#endif
