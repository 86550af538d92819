/* SPDX-License-Identifier: BSD-3-Clause */
/* Sentences in buffers of a fixed size: cut where they end, never refused. */
#ifndef DAEMON_BASE_TEXT_H
#define DAEMON_BASE_TEXT_H

#include <stddef.h>

/* Write into @to, which has @room bytes, cutting what does not fit; always ends in NUL unless @room is 0. What was
 * written, without the NUL: at most room - 1, so that it can be added to a position. @to must not be an argument. */
size_t inf_text(char *to, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
