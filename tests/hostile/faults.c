/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that is preloaded into the daemon or a client: it makes the nth call of a class fail, or shifts the clock.
 *
 * HOSTILE_FAULTS names a file with a `struct faults` (tests/hostile/attack_faults.py writes it), which is mapped, so
 * that the test arms it while the process runs. Of the armed class the call that counts `left` down to 0 fails, and
 * with `all` each later one, too. If `sites` is set, `firsts` receives the number of each call whose callers (DEPTH of
 * them) were not seen before. Calls of the C library to itself are not seen. Under a sanitizer, which has its own
 * malloc, classes MEMORY and MAPPINGS are not armed. */
#undef _FILE_OFFSET_BITS /* both names of a call, below, are defined here */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* The names of the same functions in a program with 64-bit offsets. */
#define ALSO(name, other) PUBLIC extern __typeof__(name) other __attribute__((alias(#name)))

#define PUBLIC __attribute__((visibility("default")))

enum { NOTHING, MEMORY, MAPPINGS, THREADS, DESCRIPTORS, DISK };
enum { MAX_SITES = 8192, DEPTH = 5, SKIPPED = 2 /* of a backtrace: those of this library */ };

struct faults {
	_Atomic(uint32_t) armed, all;
	_Atomic(int64_t) left;    /* calls of the class until one fails */
	_Atomic(int64_t) n_calls; /* of the armed class */
	_Atomic(int64_t) n_failed;
	_Atomic(int64_t) clock_s; /* added to CLOCK_REALTIME */
	_Atomic(uint32_t) sites;  /* look at the callers */
	_Atomic(uint32_t) n_firsts;
	int64_t firsts[MAX_SITES]; /* numbers of calls, from 1 */
};

static struct faults before, *faults = &before;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("HOSTILE_FAULTS");
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *shared = (void *)syscall(SYS_mmap, NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	void *caller;
	backtrace(&caller, 1); /* the first one loads a library */
	if (shared != MAP_FAILED)
		faults = shared;
}

/* Whether these callers come for the first time; a hash that two of them share hides one. */
static bool is_new(void)
{
	static _Atomic(uint64_t) seen[4 * MAX_SITES];
	void *callers[SKIPPED + DEPTH];
	uint64_t hash = 14695981039346656037u;
	int n = backtrace(callers, SKIPPED + DEPTH);
	for (int i = SKIPPED; i < n; i++)
		hash = (hash ^ (uintptr_t)callers[i]) * 1099511628211u;
	for (size_t i = 0; i < 4 * MAX_SITES; i++) {
		uint64_t expected = 0;
		if (atomic_compare_exchange_strong(&seen[(hash + i) % (4 * MAX_SITES)], &expected, hash | 1))
			return true;
		if (expected == (hash | 1))
			return false;
	}
	return false;
}

static void look_at_callers(int64_t number)
{
	/* backtrace may ask for memory, and so may the first use of another kind of thread-local variable */
	static _Thread_local bool is_looking __attribute__((tls_model("initial-exec")));
	if (is_looking)
		return;
	is_looking = true;
	uint32_t at = is_new() ? atomic_fetch_add(&faults->n_firsts, 1) : MAX_SITES;
	if (at < MAX_SITES)
		faults->firsts[at] = number;
	is_looking = false;
}

static bool fails(uint32_t class)
{
	if (atomic_load_explicit(&faults->armed, memory_order_relaxed) != class)
		return false;
	int64_t number = atomic_fetch_add(&faults->n_calls, 1) + 1;
	if (atomic_load_explicit(&faults->sites, memory_order_relaxed))
		look_at_callers(number);
	int64_t left = atomic_fetch_sub(&faults->left, 1) - 1;
	if (left != 0 && (left > 0 || !atomic_load(&faults->all)))
		return false;
	atomic_fetch_add(&faults->n_failed, 1);
	return true;
}

/* --- memory: the C library's own is behind these names --------------------------------------------- */

void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void *__libc_realloc(void *memory, size_t n_bytes);
void *__libc_memalign(size_t alignment, size_t n_bytes);

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

PUBLIC void *malloc(size_t n_bytes)
{
	return fails(MEMORY) ? no_memory() : __libc_malloc(n_bytes);
}

PUBLIC void *calloc(size_t n, size_t n_bytes)
{
	return fails(MEMORY) ? no_memory() : __libc_calloc(n, n_bytes);
}

PUBLIC void *realloc(void *memory, size_t n_bytes)
{
	return fails(MEMORY) ? no_memory() : __libc_realloc(memory, n_bytes);
}

PUBLIC void *aligned_alloc(size_t alignment, size_t n_bytes)
{
	return fails(MEMORY) ? no_memory() : __libc_memalign(alignment, n_bytes);
}

PUBLIC int posix_memalign(void **ret, size_t alignment, size_t n_bytes)
{
	void *memory = fails(MEMORY) ? NULL : __libc_memalign(alignment, n_bytes);
	if (!memory)
		return ENOMEM;
	*ret = memory;
	return 0;
}

PUBLIC void *mmap(void *at, size_t n_bytes, int protection, int flags, int fd, off_t offset)
{
	if (fails(MAPPINGS)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, n_bytes, protection, flags, fd, offset);
}
ALSO(mmap, mmap64);

/* --- threads ----------------------------------------------------------------------------------------- */

PUBLIC int pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return fails(THREADS) ? EAGAIN : real(ret, attributes, start, argument);
}

/* --- descriptors --------------------------------------------------------------------------------------- */

static int no_descriptor(void)
{
	errno = EMFILE;
	return -1;
}

#define DESCRIPTOR(name, declared, ...)                                                  \
	PUBLIC int name declared                                                         \
	{                                                                                \
		return fails(DESCRIPTORS) ? no_descriptor() : (int)syscall(__VA_ARGS__); \
	}

DESCRIPTOR(socket, (int domain, int type, int protocol), SYS_socket, domain, type, protocol)
DESCRIPTOR(accept4, (int fd, __SOCKADDR_ARG address, socklen_t *n_bytes, int flags), SYS_accept4, fd,
	address.__sockaddr__, n_bytes, flags)
DESCRIPTOR(memfd_create, (const char *name, unsigned flags), SYS_memfd_create, name, flags)
DESCRIPTOR(eventfd, (unsigned value, int flags), SYS_eventfd2, value, flags)
DESCRIPTOR(epoll_create1, (int flags), SYS_epoll_create1, flags)
DESCRIPTOR(pipe2, (int fds[2], int flags), SYS_pipe2, fds, flags)
DESCRIPTOR(socketpair, (int domain, int type, int protocol, int fds[2]), SYS_socketpair, domain, type, protocol, fds)
DESCRIPTOR(dup, (int fd), SYS_dup, fd)
DESCRIPTOR(inotify_init1, (int flags), SYS_inotify_init1, flags)

static int open_at(int folder, const char *path, int flags, va_list list)
{
	mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
	/* cpuinfo reads files there when XNNPACK starts, and crashes if it cannot. */
	if (strncmp(path, "/sys/devices/", 13) && fails(DESCRIPTORS))
		return no_descriptor();
	return (int)syscall(SYS_openat, folder, path, flags, mode);
}

PUBLIC int open(const char *path, int flags, ...)
{
	va_list list;
	va_start(list, flags);
	int fd = open_at(AT_FDCWD, path, flags, list);
	va_end(list);
	return fd;
}

PUBLIC int openat(int folder, const char *path, int flags, ...)
{
	va_list list;
	va_start(list, flags);
	int fd = open_at(folder, path, flags, list);
	va_end(list);
	return fd;
}

ALSO(open, open64);
ALSO(openat, openat64);

/* --- writing to a disk that is full ---------------------------------------------------------------------- */

static int no_space(void)
{
	errno = ENOSPC;
	return -1;
}

#define WRITES(type, name, declared, ...)                                     \
	PUBLIC type name declared                                             \
	{                                                                     \
		return fails(DISK) ? no_space() : (type)syscall(__VA_ARGS__); \
	}

WRITES(ssize_t, pwrite, (int fd, const void *bytes, size_t n_bytes, off_t offset), SYS_pwrite64, fd, bytes, n_bytes,
	offset)
WRITES(int, ftruncate, (int fd, off_t n_bytes), SYS_ftruncate, fd, n_bytes)
WRITES(int, fallocate, (int fd, int mode, off_t offset, off_t n_bytes), SYS_fallocate, fd, mode, offset, n_bytes)
WRITES(int, fsync, (int fd), SYS_fsync, fd)
WRITES(int, fdatasync, (int fd), SYS_fdatasync, fd)
WRITES(int, mkdirat, (int folder, const char *path, mode_t mode), SYS_mkdirat, folder, path, mode)
WRITES(ssize_t, copy_file_range, (int in, off_t *in_at, int out, off_t *out_at, size_t n_bytes, unsigned flags),
	SYS_copy_file_range, in, in_at, out, out_at, n_bytes, flags)
WRITES(int, rename, (const char *from, const char *to), SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)
WRITES(int, renameat, (int from_folder, const char *from, int to_folder, const char *to), SYS_renameat2, from_folder,
	from, to_folder, to, 0)

ALSO(pwrite, pwrite64);
ALSO(ftruncate, ftruncate64);
ALSO(fallocate, fallocate64);

/* Writes to sockets, pipes and eventfds are no disk's. */
PUBLIC ssize_t write(int fd, const void *bytes, size_t n_bytes)
{
	struct stat st;
	if (atomic_load_explicit(&faults->armed, memory_order_relaxed) == DISK && fstat(fd, &st) == 0 &&
		S_ISREG(st.st_mode) && fails(DISK))
		return no_space();
	return syscall(SYS_write, fd, bytes, n_bytes);
}

/* --- the clock that is set ----------------------------------------------------------------------------------- */

PUBLIC int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, ret);
	if (rc == 0 && clock == CLOCK_REALTIME)
		ret->tv_sec += atomic_load_explicit(&faults->clock_s, memory_order_relaxed);
	return rc;
}

PUBLIC time_t time(time_t *ret)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
