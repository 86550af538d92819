/* SPDX-License-Identifier: BSD-3-Clause */
/* Run statistics: which runs count as quick, the median, and what is kept of loads that are over. */
#include "daemon/model/run_totals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
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

static bool is_kept(const struct et_list_node *totals, const char *version, struct inf_run_counts *ret_counts)
{
	for (const struct et_list_node *node = totals->next; node != totals; node = node->next) {
		const struct inf_run_totals *t = ET_CONTAINER_OF(node, struct inf_run_totals, node);
		if (strcmp(t->model, "m") == 0 && strcmp(t->version, version) == 0) {
			*ret_counts = t->counts;
			return true;
		}
	}
	return false;
}

/* Loads of a version are one sum, and another version is another one. */
static void test_totals(void **state)
{
	struct et_list_node totals;
	struct inf_run_counts counts;
	et_list_init(&totals);
	inf_run_stats_add(&stats, true, 1, 20, 20, 300);
	inf_run_stats_add(&stats, false, 4, 50, 50, 0);
	uint64_t last_ms = stats.last_ms;
	assert_true(inf_run_totals_add(&totals, "m", "1", &stats));
	assert_true(inf_run_totals_add(&totals, "m", "2", &stats));
	stats.last_ms = 1;
	assert_true(inf_run_totals_add(&totals, "m", "1", &stats));
	const struct inf_run_counts wanted = { 2, 42, 2, 108, 10, 140, 4, 600, last_ms };
	assert_true(is_kept(&totals, "1", &counts));
	assert_memory_equal(&counts, &wanted, sizeof(wanted));
	assert_true(is_kept(&totals, "2", &counts));
	assert_int_equal(counts.n_runs, 2);
	inf_run_totals_deinit(&totals);
}

/* The version whose last load has been over for longest is forgotten; one that never ran takes no place. */
static void test_totals_are_bounded(void **state)
{
	struct et_list_node totals;
	struct inf_run_counts counts;
	char version[16];
	et_list_init(&totals);
	assert_true(inf_run_totals_add(&totals, "m", "idle", &stats));
	assert_false(is_kept(&totals, "idle", &counts));
	add(1, true, QUICK_RUN_NS);
	for (int i = 0; i < INF_MAX_RUN_TOTALS; i++) {
		snprintf(version, sizeof(version), "%d", i);
		assert_true(inf_run_totals_add(&totals, "m", version, &stats));
	}
	assert_true(inf_run_totals_add(&totals, "m", "0", &stats));
	assert_true(is_kept(&totals, "1", &counts));
	assert_true(inf_run_totals_add(&totals, "m", "new", &stats));
	assert_true(is_kept(&totals, "0", &counts));
	assert_false(is_kept(&totals, "1", &counts));
	assert_true(is_kept(&totals, "2", &counts));
	inf_run_totals_deinit(&totals);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_quick, setup),
		cmocka_unit_test_setup(test_not_quick, setup),
		cmocka_unit_test_setup(test_median, setup),
		cmocka_unit_test_setup(test_totals, setup),
		cmocka_unit_test_setup(test_totals_are_bounded, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
