/* SPDX-License-Identifier: BSD-3-Clause */
/* Turn what a plug-in's library prints into lines of the log.
 *
 * A library may print anything. So control characters become '?', a long line is cut into several, and lines above 50 a
 * second are only counted. "<N>" in front of a line is its syslog level, as in the journal. */
#include "delegates/plugin/proxy/log_lines.h"

#include "runtime/platform/platform.h"

#define SECOND UINT64_C(1000000000)

enum { MAX_A_SECOND = 50 };

void et_plugin_lines_end(struct et_plugin_lines *l)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	int level = ET_LOG_INFO;
	const char *text = l->line;
	l->line[l->n_line] = '\0';
	l->n_line = 0;
	if (now_ns - l->since_ns > SECOND) {
		if (l->n_dropped)
			et_logf(l->log, ET_LOG_WARNING, "%s: %u more lines dropped", l->name, l->n_dropped);
		l->since_ns = now_ns;
		l->n = l->n_dropped = 0;
	}
	if (l->n++ >= MAX_A_SECOND) {
		l->n_dropped++;
		return;
	}
	if (text[0] == '<' && text[1] >= '3' && text[1] <= '7' && text[2] == '>') {
		level = text[1] - '0';
		text += 3;
	}
	if (*text)
		et_logf(l->log, (enum et_log_level)level, "%s: %s", l->name, text);
}

void et_plugin_lines_add(struct et_plugin_lines *l, const char *bytes, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++) {
		unsigned char c = (unsigned char)bytes[i];
		if (c == '\n' || l->n_line == sizeof l->line - 1)
			et_plugin_lines_end(l);
		if (c != '\n')
			l->line[l->n_line++] = c < ' ' || c == 127 ? '?' : (char)c;
	}
}
