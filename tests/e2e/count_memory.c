/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that is preloaded into the daemon: it counts the daemon's allocations in a file that the environment
 * names. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

/* The C library's own, behind the names that are taken here. */
void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void *__libc_realloc(void *memory, size_t n_bytes);
void *__libc_memalign(size_t alignment, size_t n_bytes);

static _Atomic(uint64_t) before, *count = &before;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("COUNT_MEMORY");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *shared = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (shared != MAP_FAILED)
		count = shared;
}

static void note(void)
{
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

PUBLIC void *malloc(size_t n_bytes)
{
	note();
	return __libc_malloc(n_bytes);
}

PUBLIC void *calloc(size_t n, size_t n_bytes)
{
	note();
	return __libc_calloc(n, n_bytes);
}

PUBLIC void *realloc(void *memory, size_t n_bytes)
{
	note();
	return __libc_realloc(memory, n_bytes);
}

PUBLIC void *aligned_alloc(size_t alignment, size_t n_bytes)
{
	note();
	return __libc_memalign(alignment, n_bytes);
}

PUBLIC void *mmap(void *at, size_t n_bytes, int protection, int flags, int fd, off_t offset)
{
	note();
	return (void *)syscall(SYS_mmap, at, n_bytes, protection, flags, fd, offset);
}
