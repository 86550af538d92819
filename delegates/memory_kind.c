/* SPDX-License-Identifier: BSD-3-Clause */
/* Tell a dma-buf from a memory file.
 *
 * The file system behind the descriptor decides: dma-bufs lie in one of their own (DMA_BUF_MAGIC). The kernel offers no
 * other way to ask. */
#include "delegates/memory_kind.h"

#include "delegates/inferd-delegate.h"

#include <linux/magic.h>
#include <sys/vfs.h>

uint32_t et_memory_kind(int fd)
{
	struct statfs fs;
	return fstatfs(fd, &fs) == 0 && (unsigned long)fs.f_type == DMA_BUF_MAGIC ? INFERD_DELEGATE_DMABUF
										  : INFERD_DELEGATE_MEMFD;
}
