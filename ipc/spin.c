/* SPDX-License-Identifier: BSD-3-Clause */
/* When to spin.
 *
 * Waking a thread costs as much as a short request, several times that where an idle core has halted, and nothing if
 * the thread is still looking. But looking is worth something only while the other side works on another core. Where
 * both share one, be it that the machine is busy or that the kernel placed them so, each waits for the other to give
 * up, and a request takes as long as both windows. Neither side can see which it is; both can see how it went. So a
 * spin in vain doubles the number of waits before the next one, up to MOST, and each that was worth it takes a part of
 * that back: in bad company less than a thousandth of the requests pays for a window, in good company all of them
 * spin. */
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
