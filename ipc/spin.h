/* SPDX-License-Identifier: BSD-3-Clause */
/* Spin: whether to look for the next packet for a moment before sleeping until it comes.
 *
 * Whoever waits asks inf_spin_is_due, looks around for at most window_ns if so, and says with inf_spin_note how the
 * wait ended. One thread at a time; no clock inside. */
#ifndef IPC_SPIN_H
#define IPC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

struct inf_spin {
	uint64_t window_ns; /* 0: never */
	uint32_t n_soon;    /* waits in a row that were short, or likely to be */
	uint32_t n_needed;  /* of those, before it is worth a try */
};

void inf_spin_init(struct inf_spin *spin, uint64_t window_ns);
/* Whether the wait that begins now is worth it. */
bool inf_spin_is_due(const struct inf_spin *spin);
/* A wait has ended. @has_spun: it was looked around for; then @is_soon says whether the packet came in that time.
 * Else @is_soon says whether it would have been a wait to try it in. */
void inf_spin_note(struct inf_spin *spin, bool is_soon, bool has_spun);
/* Between two looks: let the core rest for some cycles. */
void inf_spin_relax(void);

#endif
