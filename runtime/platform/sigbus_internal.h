/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of guarded mappings, in which a SIGBUS is survived. Inside runtime/platform. */
#ifndef RUNTIME_PLATFORM_SIGBUS_INTERNAL_H
#define RUNTIME_PLATFORM_SIGBUS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* Add [start, start + n_bytes), whole pages. Returns the entry's index, or -ENOMEM. Any thread. */
int et_sigbus_guard_add(void *start, size_t n_bytes, bool is_writable);
/* Call it before the pages are unmapped. -1 is fine. */
void et_sigbus_guard_remove(int index);
bool et_sigbus_guard_faulted(int index);

#endif
