/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory: making it, and the checks before a client's memory is mapped.
 *
 * The checks come before the mapping and use only properties that the owner cannot take back: seals are only ever
 * added, a descriptor's file system never changes, and with both seals set the size is fixed. One thing they do not
 * guarantee: a page may be missing when it is touched (a hole in a full tmpfs or cgroup). So the mapping is guarded
 * against SIGBUS, too.
 *
 * A dma-buf is memory that a camera or a video decoder fills. It has no seals and needs none: its exporter fixes its
 * size. Whether a descriptor is a dma-buf is read from /proc/self/fdinfo. Asking the file itself (ioctl, fstatfs)
 * would let a FUSE file system, which is another user's process, delay us. */
#include "ipc/region.h"

#include "runtime/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/dma-buf.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *inf_region_error_text(int error)
{
	switch ((enum inf_region_error)error) {
	case INF_REGION_E_SIZE:
		return "the region's size is zero, or more than its file has";
	case INF_REGION_E_TYPE:
		return "a region must be shared memory: a memfd or a dma-buf";
	case INF_REGION_E_HUGE:
		return "a region must not use huge pages";
	case INF_REGION_E_UNSEALED:
		return "a region must be sealed with F_SEAL_SHRINK and F_SEAL_GROW";
	case INF_REGION_E_READ_ONLY:
		return "a region must be writable: opened for reading and writing, and not sealed against "
		       "writing";
	case INF_REGION_E_MAP:
		return "that dma-buf can't be mapped for the processor";
	}
	return "the region is not acceptable";
}

/* Takes over @fd on success. */
static int region_new(struct inf_region **ret_region, int fd, size_t n_bytes, bool is_dma_buf,
	const struct et_allocator *allocator)
{
	struct inf_region *region = allocator->alloc(allocator->self, sizeof *region, _Alignof(struct inf_region));
	if (!region)
		return -ENOMEM;
	*region = (struct inf_region){ .fd = fd, .is_dma_buf = is_dma_buf, .allocator = *allocator };
	et_ref_init(&region->ref);
	int rc = et_platform_map(&region->mapping, fd, n_bytes, true);
	if (rc) {
		allocator->free(allocator->self, region, sizeof *region);
		return rc;
	}
	*ret_region = region;
	return 0;
}

int inf_region_create(struct inf_region **ret_region, size_t n_bytes, const struct et_allocator *allocator)
{
	if (!n_bytes || n_bytes > PTRDIFF_MAX / 2)
		return INF_REGION_E_SIZE;
	int fd = memfd_create("inferd-region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	int rc = 0;
	if (ftruncate(fd, (off_t)n_bytes) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		rc = -errno;
	if (!rc)
		rc = region_new(ret_region, fd, n_bytes, false, allocator);
	if (rc)
		close(fd);
	return rc;
}

/* Whether @fd is a dma-buf, without a call that the file's owner could delay. First check the link's name, which
 * only the kernel sets for such files; then the fdinfo text, where only dma-bufs have an "exp_name" line. The name
 * check comes first, because the fdinfo text of other kinds of file (an epoll) may block while they are busy. */
static bool is_dma_buf(int fd)
{
	static const char name[] = "/dmabuf:";
	char path[64], text[1024];
	struct statfs fs;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, text, sizeof text);
	if (n < (ssize_t)sizeof name - 1 || memcmp(text, name, sizeof name - 1) != 0)
		return false;
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	int info = open(path, O_RDONLY | O_CLOEXEC);
	if (info < 0)
		return false;
	n = read(info, text, sizeof text - 1);
	close(info);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return strstr(text, "\nexp_name:\t") && fstatfs(fd, &fs) == 0 && (unsigned long)fs.f_type == DMA_BUF_MAGIC;
}

static int import_dma_buf(struct inf_region **ret_region, int fd, int flags, size_t n_bytes,
	const struct et_allocator *allocator)
{
	off_t size = lseek(fd, 0, SEEK_END);
	if (size < 0)
		return -errno;
	if (!n_bytes || n_bytes > PTRDIFF_MAX / 2 || (uint64_t)size < n_bytes)
		return INF_REGION_E_SIZE;
	if ((flags & O_ACCMODE) != O_RDWR)
		return INF_REGION_E_READ_ONLY;
	int rc = region_new(ret_region, fd, n_bytes, true, allocator);
	return rc == -ENOTTY || rc == -EINVAL || rc == -ENODEV || rc == -EACCES ? INF_REGION_E_MAP : rc;
}

int inf_region_import(struct inf_region **ret_region, int fd, size_t n_bytes, const struct et_allocator *allocator)
{
	struct statfs fs;
	struct stat st;
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return -errno;
	/* First calls that only the kernel answers: fstat on a FUSE file waits for the user's process. */
	int seals = flags & O_PATH ? -1 : fcntl(fd, F_GET_SEALS);
	if (seals < 0 && !(flags & O_PATH) && is_dma_buf(fd))
		return import_dma_buf(ret_region, fd, flags, n_bytes, allocator);
	if (seals < 0)
		return INF_REGION_E_TYPE;
	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return INF_REGION_E_TYPE;
	if ((unsigned long)fs.f_type == HUGETLBFS_MAGIC)
		return INF_REGION_E_HUGE;
	if ((unsigned long)fs.f_type != TMPFS_MAGIC)
		return INF_REGION_E_TYPE;
	if ((flags & O_ACCMODE) != O_RDWR)
		return INF_REGION_E_READ_ONLY;
	if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return INF_REGION_E_READ_ONLY;
	if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
		return INF_REGION_E_UNSEALED;
	/* Read the size again now that the seals are known: from here on it cannot change. */
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!n_bytes || n_bytes > PTRDIFF_MAX / 2 || (uint64_t)st.st_size < n_bytes)
		return INF_REGION_E_SIZE;
	int rc = region_new(ret_region, fd, n_bytes, false, allocator);
	/* the client added a seal meanwhile: it raced with itself */
	return rc == -EPERM ? INF_REGION_E_READ_ONLY : rc;
}

struct inf_region *inf_region_ref(struct inf_region *region)
{
	et_ref_get(&region->ref);
	return region;
}

struct inf_region *inf_region_unref(struct inf_region *region)
{
	if (region && et_ref_put(&region->ref)) {
		et_platform_unmap(&region->mapping);
		close(region->fd);
		struct et_allocator allocator = region->allocator;
		allocator.free(allocator.self, region, sizeof *region);
	}
	return NULL;
}

static int sync_access(const struct inf_region *region, bool writes, bool is_end)
{
	struct dma_buf_sync sync = { .flags = (writes ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ) |
					      (is_end ? DMA_BUF_SYNC_END : DMA_BUF_SYNC_START) };
	if (!region->is_dma_buf)
		return 0;
	while (ioctl(region->fd, DMA_BUF_IOCTL_SYNC, &sync) < 0)
		if (errno != EINTR && errno != EAGAIN)
			return -errno;
	return 0;
}

/* Wait with poll. The ioctl would wait for the buffer's fences without a limit, and the client may have attached a
 * fence that is never signalled. A dma-buf polls readable when no device writes it, and writable when no device uses
 * it. A fence that is added later is not seen. */
static int wait_for_device(const struct inf_region *region, bool writes, uint64_t until_ns)
{
	struct pollfd fences = { .fd = region->fd, .events = writes ? POLLOUT : POLLIN };
	for (;;) {
		uint64_t now_ns = et_platform_now_ns(NULL);
		uint64_t ms = until_ns > now_ns ? (until_ns - now_ns + 999999) / 1000000 : 0;
		int rc = poll(&fences, 1, ms < INT_MAX ? (int)ms : INT_MAX);
		if (rc > 0)
			return 0;
		if (rc == 0)
			return -ETIMEDOUT;
		if (errno != EINTR && errno != EAGAIN)
			return -errno;
	}
}

int inf_region_begin_access(const struct inf_region *region, bool writes, uint64_t until_ns)
{
	int rc = region->is_dma_buf ? wait_for_device(region, writes, until_ns) : 0;
	return rc ? rc : sync_access(region, writes, false);
}

int inf_region_end_access(const struct inf_region *region, bool writes)
{
	return sync_access(region, writes, true);
}

void *inf_region_at(const struct inf_region *region, uint64_t offset, uint64_t n_bytes)
{
	if (!et_in_range(offset, n_bytes, region->mapping.n_bytes))
		return NULL;
	return (uint8_t *)region->mapping.bytes + offset;
}

bool inf_region_faulted(const struct inf_region *region)
{
	return et_platform_mapping_faulted(&region->mapping);
}
