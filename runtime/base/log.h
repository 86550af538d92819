/* Where sentences for the administrator go: a table handed in.
 *
 * Only whoever stops an error logs it, once. Most of the runtime never logs: it returns a status
 * and a diagnosis instead. */
#ifndef RUNTIME_BASE_LOG_H
#define RUNTIME_BASE_LOG_H

enum et_log_level {
	ET_LOG_ERROR = 3, /* the numbers of syslog(3) */
	ET_LOG_WARNING = 4,
	ET_LOG_NOTICE = 5,
	ET_LOG_INFO = 6,
	ET_LOG_DEBUG = 7,
};

struct et_log {
	void *self;
	enum et_log_level max_level;
	/* @text is one line without a newline. Any thread. */
	void (*write)(void *self, enum et_log_level level, const char *text);
};

/* @log may be NULL: nothing is written. */
void et_logf(const struct et_log *log, enum et_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
