/* SPDX-License-Identifier: BSD-3-Clause */
/* When a host that crashed may be started again.
 *
 * The first crash within the window costs nothing: the next call starts a host at once. Each further crash within the
 * window doubles a pause, from 0.1 s to 5 s, in which calls are answered with the reason instead of with another crash.
 * After max_crashes within the window the backend has failed until an administrator restarts it. A tenant's backend
 * (is_forgiving) pauses as long as the window instead, since no administrator would notice.
 *
 * No clock and no lock: the caller has both. */
#include "delegates/plugin/proxy/restart.h"

enum { FIRST_PAUSE_MS = 100, MAX_PAUSE_MS = 5000, DEFAULT_CRASHES = 5 };
#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)

void et_plugin_restart_init(struct et_plugin_restart *r, uint32_t max_crashes, uint64_t window_ns, bool is_forgiving)
{
	*r = (struct et_plugin_restart){ .max_crashes = max_crashes ? max_crashes : DEFAULT_CRASHES,
		.window_ns = window_ns ? window_ns : 60 * SECOND,
		.is_forgiving = is_forgiving };
}

static uint64_t pause_ns(uint32_t n_recent)
{
	if (n_recent < 2)
		return 0;
	uint64_t pause_ms = (uint64_t)FIRST_PAUSE_MS << (n_recent < 10 ? n_recent - 2 : 8);
	return (pause_ms < MAX_PAUSE_MS ? pause_ms : MAX_PAUSE_MS) * MS;
}

bool et_plugin_restart_crashed(struct et_plugin_restart *r, bool may_restart, uint64_t now_ns)
{
	uint32_t n_recent = 1;
	for (uint32_t i = 0; i < ET_PLUGIN_RESTART_RING && i < r->n_crashes; i++)
		n_recent += now_ns - r->crashes_ns[(r->n_crashes - 1 - i) % ET_PLUGIN_RESTART_RING] < r->window_ns;
	r->crashes_ns[r->n_crashes++ % ET_PLUGIN_RESTART_RING] = now_ns;
	r->not_before_ns = now_ns + pause_ns(n_recent);
	if (n_recent >= r->max_crashes && r->is_forgiving)
		r->not_before_ns = now_ns + r->window_ns;
	else if (n_recent >= r->max_crashes || !may_restart)
		r->has_failed = true;
	return !r->has_failed;
}

uint64_t et_plugin_restart_wait_ns(const struct et_plugin_restart *r, uint64_t now_ns)
{
	return now_ns < r->not_before_ns ? r->not_before_ns - now_ns : 0;
}
