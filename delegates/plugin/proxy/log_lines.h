/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines: turn what a plug-in's library prints into lines of the log, up to a limit. */
#ifndef DELEGATES_PLUGIN_PROXY_LOG_LINES_H
#define DELEGATES_PLUGIN_PROXY_LOG_LINES_H

#include "runtime/base/log.h"

#include <stddef.h>
#include <stdint.h>

struct et_plugin_lines {
	const struct et_log *log;
	const char *_Atomic name; /* the prefix of each line; borrowed */
	char line[400];           /* the line that has begun */
	size_t n_line;
	uint64_t since_ns;     /* the beginning of the second that is counted */
	uint32_t n, n_dropped; /* lines in that second */
};

/* Add bytes as they were read; complete lines go to the log. Both functions: one thread at a time. */
void et_plugin_lines_add(struct et_plugin_lines *lines, const char *bytes, size_t n_bytes);
/* End the line that has begun: it goes to the log. */
void et_plugin_lines_end(struct et_plugin_lines *lines);

#endif
