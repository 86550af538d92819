/* SPDX-License-Identifier: BSD-3-Clause */
/* Restart: whether and when a host that ended is started again. A function of its crashes and the time. */
#ifndef DELEGATES_PLUGIN_PROXY_RESTART_H
#define DELEGATES_PLUGIN_PROXY_RESTART_H

#include <stdbool.h>
#include <stdint.h>

enum { ET_PLUGIN_RESTART_RING = 16 };

struct et_plugin_restart {
	uint32_t max_crashes; /* within window_ns: then it has failed */
	uint64_t window_ns;
	uint32_t n_crashes;
	uint64_t crashes_ns[ET_PLUGIN_RESTART_RING]; /* the last ones */
	uint64_t not_before_ns;
	bool is_forgiving; /* too many crashes cost a pause of window_ns, and are not the end */
	bool has_failed;   /* for good */
};

/* 0: 5 crashes, 60 s. */
void et_plugin_restart_init(struct et_plugin_restart *restart, uint32_t max_crashes, uint64_t window_ns,
	bool is_forgiving);
/* The host crashed. @may_restart: else there is no way to have another. Returns whether one may be started. */
bool et_plugin_restart_crashed(struct et_plugin_restart *restart, bool may_restart, uint64_t now_ns);
/* How long to go until it may be started; 0: now. */
uint64_t et_plugin_restart_wait_ns(const struct et_plugin_restart *restart, uint64_t now_ns);

#endif
