/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapping a file descriptor, with a readable page of zeros behind it.
 *
 * First the whole range is reserved as anonymous read-only memory, then the file is mapped over its front. So no
 * other mapping can come between the file and its guard page. */
#include "runtime/platform/platform.h"

#include "runtime/base/checked.h"
#include "runtime/platform/sigbus_internal.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

int et_platform_map(struct et_platform_mapping *ret_mapping, int fd, size_t n_bytes, bool is_writable)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t n_file, n_mapped;
	if (!n_bytes || !et_align_up(n_bytes, page, &n_file) || !et_add(n_file, page, &n_mapped))
		return -EINVAL;
	uint8_t *bytes = mmap(NULL, n_mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	/* MAP_PRIVATE if read-only: older kernels refuse a shared mapping of a memfd that is sealed against writing. */
	int protection = PROT_READ | (is_writable ? PROT_WRITE : 0);
	int flags = (is_writable ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED;
	int rc = mmap(bytes, n_file, protection, flags, fd, 0) == MAP_FAILED ? -errno : 0;
	int guard = rc ? rc : et_sigbus_guard_add(bytes, n_file, is_writable);
	if (guard < 0) {
		munmap(bytes, n_mapped);
		return guard;
	}
	*ret_mapping = (struct et_platform_mapping){
		.bytes = bytes, .n_bytes = n_bytes, .n_mapped = n_mapped, .guard = guard
	};
	return 0;
}

int et_platform_map_part(struct et_platform_mapping *ret_mapping, int fd, uint64_t offset, size_t n_bytes,
	bool is_writable)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n_mapped;
	if (!n_bytes || n_bytes % page || offset % page || offset > INT64_MAX || !et_add(n_bytes, 2 * page, &n_mapped))
		return -EINVAL;
	uint8_t *front = mmap(NULL, n_mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (front == MAP_FAILED)
		return -errno;
	uint8_t *bytes = front + page;
	int protection = PROT_READ | (is_writable ? PROT_WRITE : 0);
	int rc = mmap(bytes, n_bytes, protection, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED ? -errno : 0;
	int guard = rc ? rc : et_sigbus_guard_add(bytes, n_bytes, is_writable);
	if (guard < 0) {
		munmap(front, n_mapped);
		return guard;
	}
	*ret_mapping = (struct et_platform_mapping){
		.bytes = bytes, .n_bytes = n_bytes, .n_mapped = n_mapped, .n_front = page, .guard = guard
	};
	return 0;
}

void et_platform_unmap(struct et_platform_mapping *mapping)
{
	if (!mapping->bytes)
		return;
	et_sigbus_guard_remove(mapping->guard);
	munmap((uint8_t *)mapping->bytes - mapping->n_front, mapping->n_mapped);
	*mapping = (struct et_platform_mapping){ .guard = -1 };
}

bool et_platform_mapping_faulted(const struct et_platform_mapping *mapping)
{
	return mapping->bytes && et_sigbus_guard_faulted(mapping->guard);
}
