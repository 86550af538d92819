/* SPDX-License-Identifier: BSD-3-Clause */
/* snprintf that returns what it wrote, so that a sentence can be put together from pieces without checking whether
 * each one fits. It does not report that something was cut: no caller could do anything about it. */
#include "daemon/base/text.h"

#include <stdarg.h>
#include <stdio.h>

size_t inf_text(char *to, size_t room, const char *format, ...)
{
	va_list args;
	if (!room)
		return 0;
	va_start(args, format);
	int n = vsnprintf(to, room, format, args);
	va_end(args);
	return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}
