/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines to stderr: one write per line, so that threads do not mix their lines.
 *
 * The journal takes a line's level from a prefix "<N>". $JOURNAL_STREAM names the device and inode of the stream that
 * the journal opened for us; if stderr is that stream, lines get the prefix.
 *
 * Many lines contain names that a client chose. Characters that could end a line, begin another one or move a
 * terminal's cursor are written as '?'. */
#include "runtime/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
	       st.st_dev == device && st.st_ino == inode;
}

static void write_line(enum et_log_level level, const char *text, bool has_prefix)
{
	char line[1024];
	size_t n = 0;
	for (; text[n] && n < sizeof line; n++)
		line[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
	char prefix[] = { '<', (char)('0' + (level & 7)), '>' };
	char newline = '\n';
	struct iovec pieces[] = {
		{ prefix, has_prefix ? sizeof prefix : 0 },
		{ line, n },
		{ &newline, 1 },
	};
	ssize_t written = writev(STDERR_FILENO, pieces, 3);
	(void)written; /* nothing to do if stderr is closed */
}

static void write_plain(void *self, enum et_log_level level, const char *text)
{
	write_line(level, text, false);
}

static void write_journal(void *self, enum et_log_level level, const char *text)
{
	write_line(level, text, true);
}

struct et_log et_platform_log(enum et_log_level max_level)
{
	return (struct et_log){
		.max_level = max_level,
		.write = stderr_is_journal() ? write_journal : write_plain,
	};
}
