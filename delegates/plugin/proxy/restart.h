/* SPDX-License-Identifier: BSD-3-Clause */
/* Restart: whether and when a host that crashed is started again, as a function of its crashes and the time. */
#ifndef DELEGATES_PLUGIN_PROXY_RESTART_H
#define DELEGATES_PLUGIN_PROXY_RESTART_H

#include <stdbool.h>
#include <stdint.h>

enum { ET_PLUGIN_RESTART_RING = 16 };

struct et_plugin_restart {
	uint32_t max_crashes; /* so many within window_ns, and the backend has failed */
	uint64_t window_ns;
	uint32_t n_crashes;
	uint64_t crashes_ns[ET_PLUGIN_RESTART_RING]; /* the times of the last crashes */
	uint64_t not_before_ns;
	bool is_forgiving; /* max_crashes cost a pause of window_ns; the backend never fails */
	bool has_failed;   /* for good */
};

/* @max_crashes and @window_ns: 0 means 5 crashes and 60 s. */
void et_plugin_restart_init(struct et_plugin_restart *restart, uint32_t max_crashes, uint64_t window_ns,
	bool is_forgiving);
/* Count a crash. @may_restart false: no other host can be started. Returns whether another may be started, perhaps
 * after a pause. */
bool et_plugin_restart_crashed(struct et_plugin_restart *restart, bool may_restart, uint64_t now_ns);
/* How long to wait until a host may be started; 0: it may be started now. */
uint64_t et_plugin_restart_wait_ns(const struct et_plugin_restart *restart, uint64_t now_ns);

#endif
