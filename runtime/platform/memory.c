/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: the C library's heap for small allocations, whole pages from the kernel for large ones.
 *
 * A readable page of zeros follows the pages, because fast kernels load whole vectors and so read past the end of
 * their data. That page is never writable, so a stray write still faults. */
#include "runtime/platform/platform.h"

#include "runtime/base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static _Thread_local bool is_limited, was_refused;
static _Thread_local uint64_t n_left; /* it may exceed the limit when more is freed than was allocated */

bool et_platform_limit_heap(uint64_t n_bytes)
{
	bool was = was_refused;
	is_limited = n_bytes != UINT64_MAX;
	n_left = n_bytes;
	was_refused = false;
	return was;
}

uint64_t et_platform_heap_left(void)
{
	return is_limited ? n_left : UINT64_MAX;
}

static bool may_alloc(size_t n_bytes)
{
	if (!is_limited)
		return true;
	was_refused = was_refused || n_bytes > n_left;
	if (n_bytes > n_left)
		return false;
	n_left -= n_bytes;
	return true;
}

static void *heap_alloc(void *self, size_t n_bytes, size_t align)
{
	if (!may_alloc(n_bytes))
		return NULL;
	if (!n_bytes)
		n_bytes = 1;
	if (align <= _Alignof(max_align_t))
		return malloc(n_bytes);
	size_t rounded;
	bool is_huge = align >= 4096 && n_bytes >= HUGE_PAGE;
	if (is_huge)
		align = HUGE_PAGE;
	if (!et_align_up(n_bytes, align, &rounded))
		return NULL;
	void *bytes = aligned_alloc(align, rounded);
	/* All of it will be filled soon. With huge pages there is one page fault per 2 MiB instead of one per 4 KiB,
	 * if the kernel allows it. */
	if (bytes && is_huge)
		madvise(bytes, n_bytes & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
	return bytes;
}

static void heap_free(void *self, void *ptr, size_t n_bytes)
{
	if (is_limited && ptr)
		et_add_up(&n_left, n_bytes);
	free(ptr);
}

const struct et_allocator *et_platform_allocator(void)
{
	static const struct et_allocator allocator = { .alloc = heap_alloc, .free = heap_free };
	return &allocator;
}

/* Compute the size of the pages, and of the pages with the guard. False: it does not fit. */
static bool with_guard(size_t n_bytes, size_t *ret_n_data, size_t *ret_n_mapped)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return et_align_up(n_bytes ? n_bytes : 1, page, ret_n_data) && et_add(*ret_n_data, page, ret_n_mapped);
}

static void *pages_alloc(void *self, size_t n_bytes, size_t align)
{
	size_t n_data, n_mapped;
	if (!with_guard(n_bytes, &n_data, &n_mapped))
		return NULL;
	uint8_t *bytes = mmap(NULL, n_mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return NULL;
	if (mprotect(bytes, n_data, PROT_READ | PROT_WRITE) < 0) {
		munmap(bytes, n_mapped);
		return NULL;
	}
	return bytes;
}

static void pages_free(void *self, void *ptr, size_t n_bytes)
{
	size_t n_data, n_mapped;
	if (ptr && with_guard(n_bytes, &n_data, &n_mapped))
		munmap(ptr, n_mapped);
}

const struct et_allocator *et_platform_page_allocator(void)
{
	static const struct et_allocator allocator = { .alloc = pages_alloc, .free = pages_free };
	return &allocator;
}

/* The second number in the file, in pages: see proc_pid_statm(5). */
uint64_t et_platform_resident_bytes(void)
{
	unsigned long long n_total, n_resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &n_total, &n_resident) != 2)
		n_resident = 0;
	fclose(file);
	return (uint64_t)n_resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t et_platform_now_ns(void *self)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
