/* SPDX-License-Identifier: BSD-3-Clause */
/* Spin: decides whether to poll for the next packet for a moment before sleeping.
 *
 * A waiting thread asks inf_spin_is_due. If true, it polls for at most window_ns. Then it reports with inf_spin_note
 * how the wait ended. One thread at a time; no clock inside. */
#ifndef IPC_SPIN_H
#define IPC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

struct inf_spin {
	uint64_t window_ns; /* 0: never spin */
	uint32_t n_soon;    /* consecutive waits that were short, or likely to be */
	uint32_t n_needed;  /* short waits needed before the next spin */
};

void inf_spin_init(struct inf_spin *spin, uint64_t window_ns);
/* Whether to spin in the wait that begins now. */
bool inf_spin_is_due(const struct inf_spin *spin);
/* A wait has ended. @has_spun: the thread polled; then @is_soon says whether the packet came within the window.
 * Without a spin @is_soon says whether a spin would have been worth a try. */
void inf_spin_note(struct inf_spin *spin, bool is_soon, bool has_spun);
/* Pause the core for some cycles between two polls. */
void inf_spin_relax(void);

#endif
