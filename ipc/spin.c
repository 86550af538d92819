/* SPDX-License-Identifier: BSD-3-Clause */
/* When to spin.
 *
 * Waking a sleeping thread costs as much as a short request, and several times that on a core that has halted. It
 * costs nothing if the thread is still spinning. But spinning helps only if the other side works on another core. If
 * both share a core (the machine is busy, or the kernel placed them so), each waits for the other to give up, and a
 * request takes as long as both windows. Neither side can see which case it is, but both can see how a wait ended.
 * So each spin in vain doubles the number of waits before the next try, up to MOST, and each successful spin takes a
 * part of that back. On a shared core less than a thousandth of the requests then pays for a window; on separate
 * cores all of them spin. */
#include "ipc/spin.h"

enum { FEWEST = 8, MOST = 4096, FORGET = 16 };

void inf_spin_init(struct inf_spin *spin, uint64_t window_ns)
{
	*spin = (struct inf_spin){ .window_ns = window_ns, .n_needed = FEWEST };
}

bool inf_spin_is_due(const struct inf_spin *spin)
{
	return spin->window_ns && spin->n_soon >= spin->n_needed;
}

void inf_spin_note(struct inf_spin *spin, bool is_soon, bool has_spun)
{
	if (!is_soon) {
		spin->n_soon = 0;
		if (has_spun)
			spin->n_needed = spin->n_needed < MOST ? 2 * spin->n_needed : MOST;
		return;
	}
	if (has_spun)
		spin->n_needed -= (spin->n_needed - FEWEST + FORGET - 1) / FORGET;
	spin->n_soon += spin->n_soon < MOST;
}

void inf_spin_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}
