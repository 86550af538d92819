/* SPDX-License-Identifier: BSD-3-Clause */
/* Text: sentences in buffers of a fixed size, cut where the buffer ends. */
#ifndef DAEMON_BASE_TEXT_H
#define DAEMON_BASE_TEXT_H

#include <stddef.h>

/* Write into @to, which has @room bytes, and cut what does not fit; a NUL ends it unless @room is 0. Returns the bytes
 * written without the NUL: at most room - 1, so that it can be added to a position. @to must not be an argument. */
size_t inf_text(char *to, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
