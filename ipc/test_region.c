/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: making and importing them, the reasons for a refusal, and the references that keep them alive. */
#include "ipc/region.h"
#include "tests/support/dma_buf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_BYTES = 10000 };

static int sealed_memory(size_t n_bytes, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)n_bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* Import @fd, expect a refusal, and return the reason. @fd stays open after a refusal; closes it. */
static int refused(int fd, size_t n_bytes)
{
	struct inf_region *region = NULL;
	int answer = inf_region_import(&region, fd, n_bytes, et_platform_allocator());
	assert_null(region);
	assert_int_equal(close(fd), 0);
	if (answer > 0)
		assert_string_not_equal(inf_region_error_text(answer), inf_region_error_text(0));
	return answer;
}

static void created_regions_are_shared_and_sealed(void **state)
{
	struct inf_region *region;
	assert_int_equal(inf_region_create(&region, N_BYTES, et_platform_allocator()), 0);
	assert_int_equal(ftruncate(region->fd, 0), -1);
	assert_int_equal(ftruncate(region->fd, 1 << 20), -1);
	assert_int_equal(fcntl(region->fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(pwrite(region->fd, "x", 1, 100), 1); /* like a client's mapping */
	assert_int_equal(*(char *)inf_region_at(region, 100, 1), 'x');
	assert_ptr_equal(inf_region_at(region, N_BYTES, 0), (char *)region->mapping.bytes + N_BYTES);
	assert_null(inf_region_at(region, N_BYTES, 1));
	assert_null(inf_region_at(region, UINT64_MAX, 2));
	assert_null(inf_region_at(region, 1, UINT64_MAX));
	assert_false(inf_region_faulted(region));

	/* a region that we made is acceptable as a client's */
	struct inf_region *other;
	assert_int_equal(inf_region_import(&other, dup(region->fd), N_BYTES, et_platform_allocator()), 0);
	assert_int_equal(*(char *)inf_region_at(other, 100, 1), 'x');
	assert_null(inf_region_unref(other));
	assert_null(inf_region_unref(region));
	assert_null(inf_region_unref(NULL));
	assert_int_equal(inf_region_create(&region, 0, et_platform_allocator()), INF_REGION_E_SIZE);
	assert_int_equal(inf_region_create(&region, SIZE_MAX, et_platform_allocator()), INF_REGION_E_SIZE);
}

static void references_keep_it(void **state)
{
	struct inf_region *region;
	int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	assert_int_equal(inf_region_import(&region, sealed_memory(N_BYTES, seals), N_BYTES, et_platform_allocator()),
		0);
	struct inf_region *job = inf_region_ref(region);
	assert_null(inf_region_unref(region)); /* the client is gone */
	memset(inf_region_at(job, 0, N_BYTES), 1, N_BYTES);
	/* kernels may read past its last byte */
	assert_int_equal(((volatile uint8_t *)inf_region_at(job, 0, N_BYTES))[3 * 4096 + 15], 0);
	inf_region_unref(job);
}

static void refusals(void **state)
{
	int both = F_SEAL_SHRINK | F_SEAL_GROW;
	assert_int_equal(refused(sealed_memory(N_BYTES, 0), N_BYTES), INF_REGION_E_UNSEALED);
	assert_int_equal(refused(sealed_memory(N_BYTES, F_SEAL_SHRINK), N_BYTES), INF_REGION_E_UNSEALED);
	assert_int_equal(refused(sealed_memory(N_BYTES, F_SEAL_GROW), N_BYTES), INF_REGION_E_UNSEALED);
	assert_int_equal(refused(sealed_memory(N_BYTES, both | F_SEAL_WRITE), N_BYTES), INF_REGION_E_READ_ONLY);
	assert_int_equal(refused(sealed_memory(N_BYTES, both | F_SEAL_FUTURE_WRITE), N_BYTES), INF_REGION_E_READ_ONLY);
	assert_int_equal(refused(sealed_memory(N_BYTES, both), N_BYTES + 1), INF_REGION_E_SIZE);
	assert_int_equal(refused(sealed_memory(N_BYTES, both), SIZE_MAX), INF_REGION_E_SIZE);
	assert_int_equal(refused(sealed_memory(N_BYTES, both), 0), INF_REGION_E_SIZE);

	char path[64];
	int fd = sealed_memory(N_BYTES, both);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	assert_int_equal(refused(open(path, O_RDONLY | O_CLOEXEC), N_BYTES), INF_REGION_E_READ_ONLY);
	assert_int_equal(refused(open(path, O_WRONLY | O_CLOEXEC), N_BYTES), INF_REGION_E_READ_ONLY);
	assert_int_equal(refused(open(path, O_PATH | O_CLOEXEC), N_BYTES), INF_REGION_E_TYPE);
	close(fd);

	assert_int_equal(refused(open("/dev/zero", O_RDWR | O_CLOEXEC), N_BYTES), INF_REGION_E_TYPE);
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(refused(ends[0], N_BYTES), INF_REGION_E_TYPE);
	close(ends[1]);
	assert_int_equal(refused(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 10), INF_REGION_E_TYPE);
	struct inf_region *region;
	assert_int_equal(inf_region_import(&region, -1, 10, et_platform_allocator()), -EBADF);
}

static void huge_pages_are_refused(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd < 0)
		skip(); /* a kernel without huge pages */
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	assert_int_equal(refused(fd, 1), INF_REGION_E_HUGE);
}

/* A hole in the file passes the seal checks, but its pages come back as zeros: no fault. */
static void holes_read_as_zeros(void **state)
{
	struct inf_region *region;
	assert_int_equal(inf_region_create(&region, N_BYTES, et_platform_allocator()), 0);
	memset(inf_region_at(region, 0, N_BYTES), 1, N_BYTES);
	assert_int_equal(fallocate(region->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	assert_int_equal(*(volatile uint8_t *)inf_region_at(region, 0, 1), 0);
	assert_int_equal(*(volatile uint8_t *)inf_region_at(region, 4096, 1), 1);
	assert_false(inf_region_faulted(region));
	inf_region_unref(region);
}

/* A dma-buf: mapped, kept coherent by begin and end, and as large as its exporter made it. */
static void dma_bufs_are_imported(void **state)
{
	size_t n_bytes = 4 * (size_t)sysconf(_SC_PAGESIZE);
	int memory, fd = test_dma_buf(n_bytes, &memory);
	struct inf_region *region;
	if (fd < 0) {
		print_message("SKIPPED: /dev/udmabuf: %s\n", strerror(errno));
		skip();
	}
	assert_int_equal(refused(dup(fd), n_bytes + 1), INF_REGION_E_SIZE);
	assert_int_equal(refused(dup(fd), 0), INF_REGION_E_SIZE);
	assert_int_equal(inf_region_import(&region, fd, n_bytes, et_platform_allocator()), 0);
	assert_true(region->is_dma_buf);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pwrite(memory, "device", 6, 100), 6);
		assert_int_equal(inf_region_begin_access(region, i == 2, UINT64_MAX), 0);
		assert_memory_equal(inf_region_at(region, 100, 6), "device", 6);
		if (i == 2)
			memcpy(inf_region_at(region, n_bytes - 4, 4), "host", 4);
		assert_int_equal(inf_region_end_access(region, i == 2), 0);
	}
	char back[4];
	assert_int_equal(pread(memory, back, 4, (off_t)n_bytes - 4), 4);
	assert_memory_equal(back, "host", 4);
	/* kernels may read past its last byte */
	assert_int_equal(((volatile uint8_t *)inf_region_at(region, 0, n_bytes))[n_bytes + 15], 0);
	assert_false(inf_region_faulted(region));
	inf_region_unref(region);
	close(memory);
}

/* Access calls on other memory are fine and do nothing. */
static void access_to_memory_files_does_nothing(void **state)
{
	struct inf_region *region;
	assert_int_equal(inf_region_create(&region, N_BYTES, et_platform_allocator()), 0);
	assert_false(region->is_dma_buf);
	assert_int_equal(inf_region_begin_access(region, true, 0), 0);
	assert_int_equal(inf_region_end_access(region, true), 0);
	inf_region_unref(region);
}

/* The wait for a device that is never done ends at the given time. A pipe stands for the dma-buf: it becomes ready in
 * the same way, but refuses the ioctl that follows. */
static void access_waits_until_its_deadline(void **state)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	struct inf_region reads = { .fd = ends[0], .is_dma_buf = true };
	struct inf_region writes = { .fd = ends[1], .is_dma_buf = true };
	uint64_t soon_ns = et_platform_now_ns(NULL) + 1000000;
	assert_int_equal(inf_region_begin_access(&reads, false, 0), -ETIMEDOUT);
	assert_int_equal(inf_region_begin_access(&reads, false, soon_ns), -ETIMEDOUT);
	assert_true(et_platform_now_ns(NULL) >= soon_ns);
	assert_int_equal(inf_region_begin_access(&writes, true, 0), -ENOTTY);
	while (write(ends[1], "filled", 6) > 0)
		;
	assert_int_equal(inf_region_begin_access(&writes, true, 0), -ETIMEDOUT);
	assert_int_equal(inf_region_begin_access(&reads, false, UINT64_MAX), -ENOTTY);
	close(ends[0]);
	close(ends[1]);
}

/* ---- a descriptor that is busy ---- */

struct busy {
	int epoll;
	void *page; /* a touch waits until the other thread fills the page */
	pthread_t waiter;
};

static void *wait_for_events(void *arg)
{
	const struct busy *b = arg;
	epoll_wait(b->epoll, b->page, 1, -1); /* a write that holds the epoll's lock meanwhile */
	return NULL;
}

/* For an epoll descriptor whose owner keeps it busy even fdinfo has to wait: the daemon's loop must not read it. */
static void a_busy_descriptor_is_not_asked(void **state)
{
	const size_t n_page = (size_t)sysconf(_SC_PAGESIZE);
	struct busy b = { .epoll = epoll_create1(EPOLL_CLOEXEC) };
	struct epoll_event event = { .events = EPOLLIN };
	struct uffdio_api api = { .api = UFFD_API };
	int ready = eventfd(1, EFD_CLOEXEC), faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	b.page = mmap(NULL, n_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register pages = { .range = { (uintptr_t)b.page, n_page }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	assert_int_equal(epoll_ctl(b.epoll, EPOLL_CTL_ADD, ready, &event), 0);
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) < 0 || ioctl(faults, UFFDIO_REGISTER, &pages) < 0) {
		print_message("SKIPPED: no userfaultfd here: %s\n", strerror(errno));
		skip();
	}
	assert_int_equal(pthread_create(&b.waiter, NULL, wait_for_events, &b), 0);
	struct pollfd fault = { .fd = faults, .events = POLLIN };
	assert_int_equal(poll(&fault, 1, 30000), 1);

	/* in a child process: a thread that blocks could not be ended here */
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct inf_region *region;
		_exit(inf_region_import(&region, b.epoll, N_BYTES, et_platform_allocator()));
	}
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), status;
	bool has_ended = poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, 30000) == 1;
	struct uffdio_zeropage zero = { .range = pages.range };
	assert_int_equal(ioctl(faults, UFFDIO_ZEROPAGE, &zero), 0);
	pthread_join(b.waiter, NULL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(has_ended);
	assert_int_equal(WEXITSTATUS(status), INF_REGION_E_TYPE);
	close(pidfd);
	close(faults);
	close(ready);
	close(b.epoll);
	munmap(b.page, n_page);
}

int main(void)
{
	et_platform_install_sigbus_guard();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(created_regions_are_shared_and_sealed),
		cmocka_unit_test(references_keep_it),
		cmocka_unit_test(refusals),
		cmocka_unit_test(huge_pages_are_refused),
		cmocka_unit_test(holes_read_as_zeros),
		cmocka_unit_test(dma_bufs_are_imported),
		cmocka_unit_test(access_to_memory_files_does_nothing),
		cmocka_unit_test(access_waits_until_its_deadline),
		cmocka_unit_test(a_busy_descriptor_is_not_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
