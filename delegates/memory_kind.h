/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kind of memory a file descriptor stands for, as buffer_import of a delegate is told. */
#ifndef DELEGATES_MEMORY_KIND_H
#define DELEGATES_MEMORY_KIND_H

#include <stdint.h>

/* enum inferd_delegate_memory_kind of @fd: a dma-buf; anything else is a memory file. Any thread. */
uint32_t et_memory_kind(int fd);

#endif
