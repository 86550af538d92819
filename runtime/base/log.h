/* SPDX-License-Identifier: BSD-3-Clause */
/* Logging: a table that the caller passes in.
 *
 * Only the code that stops an error logs it, once. Most of the runtime never logs: it returns a status and a
 * diagnosis. */
#ifndef RUNTIME_BASE_LOG_H
#define RUNTIME_BASE_LOG_H

#include <stdbool.h>

enum et_log_level {
	ET_LOG_ERROR = 3, /* the numbers of syslog(3) */
	ET_LOG_WARNING = 4,
	ET_LOG_NOTICE = 5,
	ET_LOG_INFO = 6,
	ET_LOG_DEBUG = 7,
};

struct et_log {
	void *self;
	enum et_log_level max_level; /* may change at any time; et_log_wants reads it atomically */
	/* @text is one line without a newline. Any thread. */
	void (*write)(void *self, enum et_log_level level, const char *text);
};

/* Whether @log (may be NULL) takes lines of @level now; for callers for whom a line costs work. Any thread. */
static inline bool et_log_wants(const struct et_log *log, enum et_log_level level)
{
	return log && level <= __atomic_load_n(&log->max_level, __ATOMIC_RELAXED);
}

/* @log may be NULL: nothing is written. */
void et_logf(const struct et_log *log, enum et_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
