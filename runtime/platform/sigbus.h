/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of mappings in which a SIGBUS is forgiven. Internal to runtime/platform. */
#ifndef RUNTIME_PLATFORM_SIGBUS_H
#define RUNTIME_PLATFORM_SIGBUS_H

#include <stdbool.h>
#include <stddef.h>

/* Enter [start, start + n_bytes), whole pages, into the table. Its index, or -ENOMEM. Any thread. */
int et_sigbus_guard_add(void *start, size_t n_bytes, bool is_writable);
/* Call before the pages are unmapped. -1 is fine. */
void et_sigbus_guard_remove(int index);
bool et_sigbus_guard_faulted(int index);

#endif
