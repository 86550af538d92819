/* SPDX-License-Identifier: BSD-3-Clause */
/* Format a line and hand it to the log table. A line below the table's level is dropped before it is formatted. */
#include "runtime/base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void et_logf(const struct et_log *log, enum et_log_level level, const char *format, ...)
{
	if (!et_log_wants(log, level))
		return;
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	log->write(log->self, level, text);
}
