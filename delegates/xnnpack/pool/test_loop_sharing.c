/* SPDX-License-Identifier: BSD-3-Clause */
/* What a pool learns about a loop: loops with given times on imagined processors. */
#include "delegates/xnnpack/pool/loop_sharing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { N_LEARNING = 18, N_RUNS = 20000, SPREAD = 8 };

/* Run @n times with given times. Returns how many runs were shared. */
static uint32_t run(struct et_xnn_loop_sharing *sharing, uint32_t n, uint64_t alone_ns, uint64_t shared_ns)
{
	uint32_t n_shared = 0;
	for (uint32_t i = 0; i < n; i++) {
		bool is_timed, is_shared = et_xnn_loop_sharing_next(sharing, &is_timed);
		if (is_timed)
			et_xnn_loop_sharing_count(sharing, is_shared, is_shared ? shared_ns : alone_ns);
		n_shared += is_shared;
	}
	return n_shared;
}

static void test_the_faster_way_is_taken(void **state)
{
	static const struct {
		uint64_t alone_ns, shared_ns;
		bool is_shared;
	} cases[] = {
		{ 3000, 5000, false },
		{ 5000, 5000, false },
		{ 5500, 5000, false }, /* a little faster is not worth the other cores */
		{ 8000, 5000, true },
		{ 90000, 50000, true },
		{ 0, 0, false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint64_t key = 0; key < SPREAD; key++) {
			struct et_xnn_loop_sharing sharing = { .key = key << 32 | 1 };
			assert_int_equal(run(&sharing, N_LEARNING, cases[i].alone_ns, cases[i].shared_ns),
				N_LEARNING - 2);
			uint32_t n = run(&sharing, N_RUNS, cases[i].alone_ns, cases[i].shared_ns);
			n = cases[i].is_shared ? N_RUNS - n : n;
			assert_in_range(n, 5, 16); /* trials of the slower way: after 64, 128, ... 4096 runs */
		}
	}
}

static void test_a_long_loop_is_always_shared(void **state)
{
	struct et_xnn_loop_sharing sharing = { .key = 1 };
	assert_int_equal(run(&sharing, N_RUNS, 1, 500000), N_RUNS);
	/* It was long by chance, or a neighbour used the cores. */
	run(&sharing, 100, 1000, 1000);
	assert_in_range(run(&sharing, N_RUNS, 1000, 1000), 0, 16);
	sharing = (struct et_xnn_loop_sharing){ .key = 1 };
	assert_int_equal(run(&sharing, N_RUNS, 1, UINT64_MAX), N_RUNS);
}

static void test_trials_alone_are_spread(void **state)
{
	for (uint32_t at = 0; at < 2 + SPREAD; at++) {
		uint32_t n_alone = 0;
		for (uint64_t key = 0; key < SPREAD; key++) {
			struct et_xnn_loop_sharing sharing = { .key = key << 32 | 1 };
			run(&sharing, at, 1000, 600);
			n_alone += 1 - run(&sharing, 1, 1000, 600);
		}
		assert_int_equal(n_alone, at < 2 ? 0 : 1);
	}
}

static void test_trials_of_sharing_come_together(void **state)
{
	struct et_xnn_loop_sharing a = { .key = UINT64_C(3) << 32 | 1 }, b = { .key = UINT64_C(6) << 32 | 1 };
	uint32_t n_trials = 0;
	for (uint32_t i = 0; i < N_RUNS; i++) {
		uint32_t is_a = run(&a, 1, 1000, 2000), is_b = run(&b, 1, 3000, 3000);
		if (i < N_LEARNING)
			continue;
		assert_int_equal(is_a, is_b);
		n_trials += is_a;
	}
	assert_true(n_trials > 0);
}

static void test_times_that_change(void **state)
{
	struct et_xnn_loop_sharing sharing = { .key = 1 };
	/* One run that another process held up changes nothing. */
	run(&sharing, 100, 8000, 5000);
	bool is_timed;
	while (!et_xnn_loop_sharing_next(&sharing, &is_timed) || !is_timed)
		;
	et_xnn_loop_sharing_count(&sharing, true, 1000000000);
	assert_in_range(run(&sharing, 100, 8000, 5000), 97, 100);
	/* A neighbour comes, and goes. */
	run(&sharing, 1000, 8000, 100000);
	assert_in_range(run(&sharing, 1000, 8000, 100000), 0, 16);
	run(&sharing, 9000, 8000, 5000);
	assert_in_range(run(&sharing, 1000, 8000, 5000), 984, 1000);
}

static void test_the_number_of_runs_has_no_end(void **state)
{
	struct et_xnn_loop_sharing sharing = { .key = 1 };
	run(&sharing, N_RUNS, 1000, 2000);
	sharing.n_runs = UINT32_MAX - 6000;
	assert_in_range(run(&sharing, N_RUNS, 1000, 2000), 1, 8);
	assert_true(sharing.n_runs > N_LEARNING);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_faster_way_is_taken),
		cmocka_unit_test(test_a_long_loop_is_always_shared),
		cmocka_unit_test(test_trials_alone_are_spread),
		cmocka_unit_test(test_trials_of_sharing_come_together),
		cmocka_unit_test(test_times_that_change),
		cmocka_unit_test(test_the_number_of_runs_has_no_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
