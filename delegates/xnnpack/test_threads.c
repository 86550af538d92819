/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's threads spin inside a run, and rest when told. The test replaces pthreadpool's functions, and sees what
 * is asked of them. */
#include "delegates/xnnpack/hardware_config.h"
#include "delegates/xnnpack/threads.h"
#include "runtime/platform/platform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_THREADS = 3, N = 1000 };

static uint32_t last_flags;
static unsigned n_loops, n_rests;

/* The functions of pthreadpool that worker threads use; they run in the calling thread. */
void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t threads, pthreadpool_task_1d_tile_1d_t fn, void *arg,
	size_t range, size_t tile, uint32_t flags)
{
	n_loops++;
	last_flags = flags;
	for (size_t i = 0; i < range; i += tile)
		fn(arg, i, range - i < tile ? range - i : tile);
}

void pthreadpool_parallelize_1d(pthreadpool_t threads, pthreadpool_task_1d_t fn, void *arg, size_t range,
	uint32_t flags)
{
	/* One piece would run in the calling thread, and no other thread would see the flag. */
	assert_true(range > 1);
	n_rests++;
	last_flags = flags;
	for (size_t i = 0; i < range; i++)
		fn(arg, i);
}

static void count(void *arg, size_t begin, size_t end)
{
	*(size_t *)arg += end - begin;
}

static struct inferd_delegate_worker_threads *open_threads(struct et_xnn_worker_spaces *spaces, uint32_t n_threads)
{
	struct et_diag diag = { 0 };
	struct inferd_delegate_worker_threads *threads = NULL;
	assert_int_equal(et_xnn_initialize(), xnn_status_success);
	et_xnn_worker_spaces_init(spaces, et_platform_allocator(), false);
	assert_int_equal(et_xnn_threads_new(&threads, spaces, n_threads, &diag), ET_OK);
	n_loops = n_rests = 0;
	return threads;
}

static void test_threads_rest_when_told(void **state)
{
	struct et_xnn_worker_spaces spaces;
	struct inferd_delegate_worker_threads *threads = open_threads(&spaces, N_THREADS);
	et_xnn_threads_rest(threads); /* new threads look around, too */
	assert_int_equal(n_rests, 1);
	assert_int_equal(last_flags, PTHREADPOOL_FLAG_YIELD_WORKERS);
	size_t n = 0;
	et_xnn_threads_parallel_for(threads, count, &n, N, 1);
	assert_int_equal(n, N);
	assert_int_equal(n_loops, 1);
	assert_int_equal(last_flags, 0);
	et_xnn_threads_rest(threads);
	assert_int_equal(n_rests, 2);
	assert_int_equal(last_flags, PTHREADPOOL_FLAG_YIELD_WORKERS);
	et_xnn_threads_rest(threads); /* waking them for that is no rest */
	assert_int_equal(n_rests, 2);
	et_xnn_threads_free(threads);
	et_xnn_worker_spaces_deinit(&spaces);
}

static void test_one_thread_has_none_to_rest(void **state)
{
	struct et_xnn_worker_spaces spaces;
	struct inferd_delegate_worker_threads *threads = open_threads(&spaces, 1);
	size_t n = 0;
	et_xnn_threads_parallel_for(threads, count, &n, N, 1);
	et_xnn_threads_rest(threads);
	assert_int_equal(n, N);
	assert_int_equal(n_loops + n_rests, 0);
	et_xnn_threads_free(threads);
	et_xnn_worker_spaces_deinit(&spaces);
}

/* pthreadpool waits forever for a thread that cannot be started, so that is noticed before. */
static void test_threads_that_cannot_start(void **state)
{
#if defined(INF_SANITIZED)
	skip(); /* a sanitizer's own memory is larger than any limit */
#endif
	if (getenv("INFERD_EMULATED"))
		skip(); /* the emulator ignores the limit */
	enum { N_MANY = 1000, ROOM = 64 << 20 };
	struct et_xnn_worker_spaces spaces;
	struct inferd_delegate_worker_threads *threads = NULL;
	struct et_diag diag = { 0 };
	struct rlimit before, little;
	unsigned long n_pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &n_pages), 1);
	fclose(file);
	assert_int_equal(et_xnn_initialize(), xnn_status_success);
	et_xnn_worker_spaces_init(&spaces, et_platform_allocator());
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	little = (struct rlimit){ n_pages * (unsigned long)sysconf(_SC_PAGESIZE) + ROOM, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
	enum et_status status = et_xnn_threads_new(&threads, &spaces, N_MANY, &diag);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(status, ET_E_OUT_OF_RESOURCES);
	assert_non_null(strstr(diag.text, "1000 threads"));
	et_xnn_worker_spaces_deinit(&spaces);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_rest_when_told),
		cmocka_unit_test(test_one_thread_has_none_to_rest),
		cmocka_unit_test(test_threads_that_cannot_start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
