/* SPDX-License-Identifier: BSD-3-Clause */
/* Run statistics: which runs count as quick, and the median. */
#include "daemon/model/run_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { MANY = 200, QUICK_RUN_NS = 1000, SLOW_RUN_NS = 50 * 1000, LONG_RUN_NS = 1000 * 1000 };

static struct inf_run_stats stats;

static int setup(void **state)
{
	memset(&stats, 0, sizeof(stats));
	stats.may_be_quick = true;
	return 0;
}

static void add(uint32_t n, bool is_success, uint64_t ns)
{
	for (uint32_t i = 0; i < n; i++)
		inf_run_stats_add(&stats, is_success, 0, ns, ns, 0);
}

/* One slow run is forgiven after many quick ones; a second one, or a long one, is not. */
static void test_quick(void **state)
{
	assert_false(inf_run_stats_is_quick(&stats));
	add(MANY, true, QUICK_RUN_NS);
	assert_true(inf_run_stats_is_quick(&stats));
	add(1, true, SLOW_RUN_NS);
	assert_true(inf_run_stats_is_quick(&stats));
	add(1, true, SLOW_RUN_NS);
	assert_false(inf_run_stats_is_quick(&stats));
	add(MANY, true, QUICK_RUN_NS);
	add(1, true, LONG_RUN_NS);
	assert_false(inf_run_stats_is_quick(&stats));
}

/* A run that failed counts as slow; a program with instructions that may take long is never quick. */
static void test_not_quick(void **state)
{
	add(MANY, false, QUICK_RUN_NS);
	assert_false(inf_run_stats_is_quick(&stats));
	add(MANY, true, QUICK_RUN_NS);
	stats.may_be_quick = false;
	assert_false(inf_run_stats_is_quick(&stats));
}

static void test_median(void **state)
{
	assert_int_equal(inf_run_stats_median_ns(&stats), 0);
	for (uint64_t ns = 1; ns <= 5; ns++)
		add(1, true, ns * 1000);
	add(1, false, 1);
	assert_int_equal(inf_run_stats_median_ns(&stats), 3000);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_quick, setup),
		cmocka_unit_test_setup(test_not_quick, setup),
		cmocka_unit_test_setup(test_median, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
