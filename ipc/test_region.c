/* Regions: what is made, what is refused and why, and who keeps them alive. */
#include "ipc/region.h"
#include "tests/support/dma_buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* The answer; @fd stays open, since it was refused. Closes it. */
static int refused(int fd, size_t n_bytes)
{
	struct inf_region *region = NULL;
	int answer = inf_region_import(&region, fd, n_bytes, et_host_allocator());
	assert_null(region);
	assert_int_equal(close(fd), 0);
	if (answer > 0)
		assert_string_not_equal(inf_region_error_text(answer), inf_region_error_text(0));
	return answer;
}

static void created_regions_are_shared_and_sealed(void **state)
{
	struct inf_region *region;
	assert_int_equal(inf_region_create(&region, N_BYTES, et_host_allocator()), 0);
	assert_int_equal(ftruncate(region->fd, 0), -1);
	assert_int_equal(ftruncate(region->fd, 1 << 20), -1);
	assert_int_equal(fcntl(region->fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(pwrite(region->fd, "x", 1, 100), 1); /* as a client's mapping would */
	assert_int_equal(*(char *)inf_region_at(region, 100, 1), 'x');
	assert_ptr_equal(inf_region_at(region, N_BYTES, 0), (char *)region->mapping.bytes + N_BYTES);
	assert_null(inf_region_at(region, N_BYTES, 1));
	assert_null(inf_region_at(region, UINT64_MAX, 2));
	assert_null(inf_region_at(region, 1, UINT64_MAX));
	assert_false(inf_region_faulted(region));

	/* ours is acceptable as somebody's, too */
	struct inf_region *other;
	assert_int_equal(inf_region_import(&other, dup(region->fd), N_BYTES, et_host_allocator()), 0);
	assert_int_equal(*(char *)inf_region_at(other, 100, 1), 'x');
	assert_null(inf_region_unref(other));
	assert_null(inf_region_unref(region));
	assert_null(inf_region_unref(NULL));
	assert_int_equal(inf_region_create(&region, 0, et_host_allocator()), INF_REGION_E_SIZE);
	assert_int_equal(inf_region_create(&region, SIZE_MAX, et_host_allocator()), INF_REGION_E_SIZE);
}

static void references_keep_it(void **state)
{
	struct inf_region *region;
	int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	assert_int_equal(
		inf_region_import(&region, sealed_memory(N_BYTES, seals), N_BYTES, et_host_allocator()), 0);
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
	assert_int_equal(
		refused(sealed_memory(N_BYTES, both | F_SEAL_WRITE), N_BYTES), INF_REGION_E_READ_ONLY);
	assert_int_equal(
		refused(sealed_memory(N_BYTES, both | F_SEAL_FUTURE_WRITE), N_BYTES), INF_REGION_E_READ_ONLY);
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
	assert_int_equal(inf_region_import(&region, -1, 10, et_host_allocator()), -EBADF);
}

static void huge_pages_are_refused(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd < 0)
		skip(); /* a kernel without them */
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	assert_int_equal(refused(fd, 1), INF_REGION_E_HUGE);
}

/* A hole in the file passes the seals, but its pages come back as zeros: no fault. */
static void holes_read_as_zeros(void **state)
{
	struct inf_region *region;
	assert_int_equal(inf_region_create(&region, N_BYTES, et_host_allocator()), 0);
	memset(inf_region_at(region, 0, N_BYTES), 1, N_BYTES);
	assert_int_equal(fallocate(region->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	assert_int_equal(*(volatile uint8_t *)inf_region_at(region, 0, 1), 0);
	assert_int_equal(*(volatile uint8_t *)inf_region_at(region, 4096, 1), 1);
	assert_false(inf_region_faulted(region));
	inf_region_unref(region);
}

/* Memory that a device fills: mapped, kept in step by begin and end, and of the size that it has. */
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
	assert_int_equal(inf_region_import(&region, fd, n_bytes, et_host_allocator()), 0);
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

/* Asking for access to other memory is fine and does nothing. */
static void access_to_memory_files(void **state)
{
	struct inf_region *region;
	assert_int_equal(inf_region_create(&region, N_BYTES, et_host_allocator()), 0);
	assert_false(region->is_dma_buf);
	assert_int_equal(inf_region_begin_access(region, true, 0), 0);
	assert_int_equal(inf_region_end_access(region, true), 0);
	inf_region_unref(region);
}

/* A device that is never done is not waited for beyond the time given. A pipe stands for the buffer: it becomes ready as
 * one does, but does not know the request that follows. */
static void access_waits_no_longer(void **state)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	struct inf_region reads = { .fd = ends[0], .is_dma_buf = true };
	struct inf_region writes = { .fd = ends[1], .is_dma_buf = true };
	uint64_t soon_ns = et_host_now_ns(NULL) + 1000000;
	assert_int_equal(inf_region_begin_access(&reads, false, 0), -ETIMEDOUT);
	assert_int_equal(inf_region_begin_access(&reads, false, soon_ns), -ETIMEDOUT);
	assert_true(et_host_now_ns(NULL) >= soon_ns);
	assert_int_equal(inf_region_begin_access(&writes, true, 0), -ENOTTY);
	while (write(ends[1], "filled", 6) > 0)
		;
	assert_int_equal(inf_region_begin_access(&writes, true, 0), -ETIMEDOUT);
	assert_int_equal(inf_region_begin_access(&reads, false, UINT64_MAX), -ENOTTY);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	et_host_install_sigbus_guard();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(created_regions_are_shared_and_sealed),
		cmocka_unit_test(references_keep_it),
		cmocka_unit_test(refusals),
		cmocka_unit_test(huge_pages_are_refused),
		cmocka_unit_test(holes_read_as_zeros),
		cmocka_unit_test(dma_bufs_are_imported),
		cmocka_unit_test(access_to_memory_files),
		cmocka_unit_test(access_waits_no_longer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
