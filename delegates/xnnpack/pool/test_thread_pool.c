/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool of threads: loops of all shapes, threads that do not run, and the functions that XNNPACK finds. */
#include "delegates/xnnpack/pool/pool.h"
#include "delegates/xnnpack/threads.h"
#include "runtime/platform/platform.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthreadpool.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_THREADS = 3, N_ITEMS = 1000, N_CELLS = 2 * 3 * 2 * 3 * 7 * 5 };

/* --- shapes -------------------------------------------------------------------------------------------- */

static _Atomic(unsigned) cells[N_CELLS];

static void count_6d(void *arg, size_t i, size_t j, size_t k, size_t l, size_t m, size_t n, size_t n_m, size_t n_n)
{
	for (size_t a = m; a < m + n_m; a++)
		for (size_t b = n; b < n + n_n; b++)
			atomic_fetch_add(&cells[((((i * 3 + j) * 2 + k) * 3 + l) * 7 + a) * 5 + b], 1);
}

static void count_3d(void *arg, size_t thread, size_t i, size_t j, size_t k, size_t n_k)
{
	assert_true(thread < N_THREADS && n_k <= 4);
	for (size_t a = k; a < k + n_k; a++)
		atomic_fetch_add(&cells[(i * 9 + j) * 35 + a], 1);
}

static void count_2d(void *arg, size_t i, size_t j)
{
	atomic_fetch_add(&cells[i * 35 + j], 1);
}

static void each_is(unsigned expected)
{
	for (size_t i = 0; i < N_CELLS; i++) {
		assert_int_equal(atomic_load(&cells[i]), expected);
		atomic_store(&cells[i], 0);
	}
}

static void test_each_item_once(void **state)
{
	struct pthreadpool *pools[] = { NULL, et_xnn_pool_new(N_THREADS) };
	assert_non_null(pools[1]);
	assert_int_equal(pthreadpool_get_threads_count(NULL), 1);
	assert_int_equal(pthreadpool_get_threads_count(pools[1]), N_THREADS);
	for (size_t i = 0; i < 2; i++) {
		for (unsigned repeat = 0; repeat < 200; repeat++) {
			pthreadpool_parallelize_6d_tile_2d(pools[i], count_6d, NULL, 2, 3, 2, 3, 7, 5, 3, 2, 0);
			each_is(1);
			pthreadpool_parallelize_3d_tile_1d_with_thread(pools[i], count_3d, NULL, 4, 9, 35, 4, 0);
			each_is(1);
			pthreadpool_parallelize_2d(pools[i], count_2d, NULL, 36, 35, 0);
			each_is(1);
			pthreadpool_parallelize_2d(pools[i], count_2d, NULL, 36, 0, 0);
			each_is(0);
			if (repeat % 16 == 0)
				et_xnn_pool_rest(pools[i]);
		}
		et_xnn_pool_free(pools[i]);
	}
}

static void add_subnormal(void *arg, size_t i)
{
	volatile float tiny = 1e-39f, one = 1.0f;
	atomic_fetch_add((_Atomic(unsigned) *)arg, tiny * one != 0.0f);
}

static void test_subnormal_floats(void **state)
{
	struct pthreadpool *pools[] = { NULL, et_xnn_pool_new(N_THREADS) };
	for (size_t i = 0; i < 2; i++) {
		_Atomic(unsigned) n = 0;
		pthreadpool_parallelize_1d(pools[i], add_subnormal, &n, N_ITEMS, PTHREADPOOL_FLAG_DISABLE_DENORMALS);
		assert_int_equal(n, 0);
		pthreadpool_parallelize_1d(pools[i], add_subnormal, &n, N_ITEMS, 0);
		assert_int_equal(n, N_ITEMS);
		et_xnn_pool_free(pools[i]);
	}
}

/* --- threads that do not run ----------------------------------------------------------------------------- */

static _Atomic(unsigned) n_stopped;
static _Atomic(bool) may_go_on;

static void stop(int number)
{
	int saved = errno;
	atomic_fetch_add(&n_stopped, 1);
	while (!atomic_load(&may_go_on))
		sched_yield();
	atomic_fetch_sub(&n_stopped, 1);
	errno = saved;
}

/* Stop all threads of this process but the calling one, as a neighbour on their cores would. */
static void stop_others(unsigned n_others)
{
	DIR *folder = opendir("/proc/self/task");
	assert_non_null(folder);
	atomic_store(&may_go_on, false);
	for (const struct dirent *entry; (entry = readdir(folder));) {
		long id = strtol(entry->d_name, NULL, 10);
		if (id > 0 && id != syscall(SYS_gettid)) /* a sanitizer's thread blocks the signal */
			syscall(SYS_tgkill, getpid(), id, SIGUSR1);
	}
	closedir(folder);
	while (atomic_load(&n_stopped) < n_others)
		sched_yield();
}

struct seen {
	struct et_xnn_loop loop;
	_Atomic(unsigned) n, n_of_others;
	bool is_slow; /* the others: a long item each */
};

static void work_for(unsigned milliseconds)
{
	uint64_t end = et_platform_now_ns(NULL) + milliseconds * UINT64_C(1000000);
	while (et_platform_now_ns(NULL) < end)
		sched_yield();
}

static void see(const struct et_xnn_loop *loop, size_t thread, size_t begin, size_t end)
{
	struct seen *seen = (struct seen *)loop;
	atomic_fetch_add(&seen->n, (unsigned)(end - begin));
	if (thread) {
		atomic_fetch_add(&seen->n_of_others, (unsigned)(end - begin));
		if (seen->is_slow)
			work_for(200);
	}
	while (seen->is_slow && atomic_load(&seen->n_of_others) == 0)
		sched_yield();
}

static void see_for_long(const struct et_xnn_loop *loop, size_t thread, size_t begin, size_t end)
{
	see(loop, thread, begin, end);
	work_for(2);
}

static void test_threads_that_do_not_run_are_not_awaited(void **state)
{
	struct pthreadpool *pool = et_xnn_pool_new(N_THREADS);
	struct sigaction action = { .sa_handler = stop }, before;
	sigaction(SIGUSR1, &action, &before);
	stop_others(N_THREADS - 1);
	for (unsigned i = 0; i < 100; i++) {
		struct seen seen = { .loop = { .run = see, .n_items = N_ITEMS } };
		et_xnn_pool_run(pool, &seen.loop);
		assert_int_equal(seen.n, N_ITEMS);
		assert_int_equal(seen.n_of_others, 0);
	}
	atomic_store(&may_go_on, true);
	et_xnn_pool_free(pool);
	sigaction(SIGUSR1, &before, NULL);
}

static void test_who_waited_goes_on_alone(void **state)
{
	struct pthreadpool *pool = et_xnn_pool_new(N_THREADS);
	struct seen slow = { .loop = { .run = see, .n_items = N_THREADS }, .is_slow = true };
	et_xnn_pool_run(pool, &slow.loop);
	assert_int_equal(slow.n, N_THREADS);
	assert_true(slow.n_of_others > 0);
	struct seen seen = { .loop = { .run = see, .n_items = N_ITEMS } };
	et_xnn_pool_run(pool, &seen.loop); /* within seconds */
	assert_int_equal(seen.n, N_ITEMS);
	assert_int_equal(seen.n_of_others, 0);
	/* and tries again some time: a loop whose end needs another thread */
	time_t end = time(NULL) + 100;
	for (slow.n_of_others = 0; slow.n_of_others == 0 && time(NULL) < end;) {
		struct seen again = { .loop = { .run = see, .n_items = N_ITEMS } };
		et_xnn_pool_run(pool, &again.loop);
		slow.n_of_others += again.n_of_others;
	}
	assert_true(slow.n_of_others > 0);
	et_xnn_pool_free(pool);
}

static void test_pauses_are_bounded(void **state)
{
	static const struct {
		int64_t lost_ns;
		uint32_t n_losses;
		uint64_t pause_ns;
	} cases[] = {
		{ 1000, 0, 16000 },
		{ 1000, 3, 128000 },
		{ 62000000, 0, 992000000 },
		{ 62500000, 0, 1000000000 },
		{ 62000000, 1, 1000000000 },
		{ 1, 32, 1000000000 },
		{ 1, UINT32_MAX, 1000000000 },
		{ INT64_MAX, 0, 1000000000 },
		{ INT64_MAX, UINT32_MAX, 1000000000 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(et_xnn_pool_pause_ns(cases[i].lost_ns, cases[i].n_losses), cases[i].pause_ns);
}

/* --- loops that are known --------------------------------------------------------------------------------- */

static void test_short_loops_are_not_shared(void **state)
{
	enum { N_RUNS = 400, N_LAST = 100 };
	struct pthreadpool *pool = et_xnn_pool_new(N_THREADS);
	unsigned n_shared = 0;
	for (unsigned i = 0; i < N_RUNS; i++) {
		struct seen seen = { .loop = { .run = see, .n_items = N_THREADS, .function = 1, .object = 1 } };
		et_xnn_pool_run(pool, &seen.loop);
		assert_int_equal(seen.n, N_THREADS);
		n_shared += i >= N_RUNS - N_LAST && seen.n_of_others > 0;
	}
	assert_true(n_shared < N_LAST / 2); /* some are trials */
	et_xnn_pool_free(pool);
}

static void test_long_loops_are_shared(void **state)
{
	struct pthreadpool *pool = et_xnn_pool_new(N_THREADS);
	time_t end = time(NULL) + 100;
	unsigned n_of_others = 0;
	for (unsigned i = 0; i < 50 || (n_of_others == 0 && time(NULL) < end); i++) {
		struct seen seen = { .loop = { .run = see_for_long, .n_items = 2, .function = 1 } };
		et_xnn_pool_run(pool, &seen.loop);
		assert_int_equal(seen.n, 2);
		n_of_others += i >= 30 ? seen.n_of_others : 0; /* when it is decided */
	}
	assert_true(n_of_others > 0);
	et_xnn_pool_free(pool);
}

/* --- loops of portable kernels ----------------------------------------------------------------------------- */

static void add(void *arg, size_t begin, size_t end)
{
	assert_true(begin < end && end <= N_ITEMS);
	atomic_fetch_add((_Atomic(size_t) *)arg, end - begin);
}

static void test_parallel_for(void **state)
{
	for (uint32_t n_threads = 1; n_threads <= N_THREADS; n_threads += N_THREADS - 1) {
		struct et_xnn_worker_spaces spaces;
		struct inferd_delegate_worker_threads *threads;
		struct et_diag diag = { 0 };
		et_xnn_worker_spaces_init(&spaces, et_platform_allocator(), false);
		assert_int_equal(et_xnn_threads_new(&threads, &spaces, n_threads, &diag), ET_OK);
		static const size_t grains[] = { 0, 1, 7, N_ITEMS - 1, N_ITEMS, 2 * N_ITEMS };
		for (size_t i = 0; i < sizeof(grains) / sizeof(grains[0]); i++) {
			_Atomic(size_t) n = 0;
			et_xnn_threads_parallel_for(threads, add, &n, N_ITEMS, grains[i]);
			assert_int_equal(n, N_ITEMS);
			et_xnn_threads_rest(threads);
			et_xnn_threads_parallel_for(threads, add, &n, 0, grains[i]);
			assert_int_equal(n, N_ITEMS);
		}
		et_xnn_threads_free(threads);
		et_xnn_worker_spaces_deinit(&spaces);
	}
}

/* --- symbols --------------------------------------------------------------------------------------------- */

/* The file of the library that defines @address. */
static void *read_library_of(const void *address, size_t *ret_n)
{
	Dl_info info;
	assert_int_not_equal(dladdr(address, &info), 0);
	FILE *file = fopen(info.dli_fname, "re");
	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	*ret_n = (size_t)ftell(file);
	rewind(file);
	char *text = malloc(*ret_n + 1);
	assert_non_null(text);
	assert_int_equal(fread(text, 1, *ret_n, file), *ret_n);
	text[*ret_n] = '\0';
	fclose(file);
	return text;
}

/* Every function of pthreadpool that XNNPACK's library names is this program's, not libpthreadpool's. */
static void test_xnnpack_calls_this_pool(void **state)
{
	static const char prefix[] = "\0pthreadpool_";
	size_t n, n_names = 0;
	char *text = read_library_of(dlsym(RTLD_DEFAULT, "xnn_create_runtime_v4"), &n);
	Dl_info own, found;
	assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "pthreadpool_get_threads_count"), &own), 0);
	for (const char *at = text; (at = memmem(at, n - (size_t)(at - text), prefix, sizeof(prefix) - 1)); at++) {
		void *function = dlsym(RTLD_DEFAULT, at + 1);
		assert_non_null(function);
		assert_int_not_equal(dladdr(function, &found), 0);
		if (found.dli_fbase != own.dli_fbase)
			fail_msg("pool/pthreadpool.c lacks %s", at + 1);
		assert_null(strstr(found.dli_fname, "libpthreadpool"));
		n_names++;
	}
	assert_true(n_names > 10);
	free(text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_item_once),
		cmocka_unit_test(test_subnormal_floats),
		cmocka_unit_test(test_threads_that_do_not_run_are_not_awaited),
		cmocka_unit_test(test_who_waited_goes_on_alone),
		cmocka_unit_test(test_pauses_are_bounded),
		cmocka_unit_test(test_short_loops_are_not_shared),
		cmocka_unit_test(test_long_loops_are_shared),
		cmocka_unit_test(test_parallel_for),
		cmocka_unit_test(test_xnnpack_calls_this_pool),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
