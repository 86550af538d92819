/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines: what a plug-in's library prints, as lines of the log, and not too many of them. */
#ifndef DELEGATES_PLUGIN_PROXY_LOG_LINES_H
#define DELEGATES_PLUGIN_PROXY_LOG_LINES_H

#include "runtime/base/log.h"

#include <stddef.h>
#include <stdint.h>

struct et_plugin_lines {
	const struct et_log *log;
	const char *_Atomic name; /* in front of each; borrowed */
	char line[400];           /* begun */
	size_t n_line;
	uint64_t since_ns;
	uint32_t n, n_dropped;
};

/* Bytes as they came; whole lines go to the log. One thread at a time, like the other. */
void et_plugin_lines_add(struct et_plugin_lines *lines, const char *bytes, size_t n_bytes);
/* The line that was begun is over. */
void et_plugin_lines_end(struct et_plugin_lines *lines);

#endif
