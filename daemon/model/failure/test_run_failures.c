/* SPDX-License-Identifier: BSD-3-Clause */
/* When failed runs are too many. */
#include "daemon/model/failure/run_failures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

static bool count(struct inf_run_failures *f, uint32_t max_failures, uint64_t now_s, const char *reason)
{
	const struct inf_run_limit limit = { max_failures, 10 * SECOND };
	return inf_run_failures_count(f, &limit, now_s * SECOND, reason);
}

/* The third one within ten seconds is too many. */
static void test_window(void **state)
{
	struct inf_run_failures f;
	char text[200];
	inf_run_failures_init(&f);
	assert_false(count(&f, 3, 100, "a"));
	assert_false(count(&f, 3, 101, "b"));
	assert_false(count(&f, 3, 110, "c")); /* 100 is ten seconds ago */
	assert_false(count(&f, 3, 111, "d"));
	assert_false(inf_run_failures_take(&f, text, sizeof(text)));
	assert_true(count(&f, 3, 112, "e"));
	assert_false(count(&f, 3, 112, "f")); /* it is said once */
	assert_true(inf_run_failures_take(&f, text, sizeof(text)));
	assert_string_equal(text, "its runs failed 3 times, the last one: e");
	assert_false(inf_run_failures_take(&f, text, sizeof(text)));
	/* and the count begins anew */
	assert_false(count(&f, 3, 113, "g"));
	assert_false(count(&f, 3, 113, "h"));
	assert_true(count(&f, 3, 113, "i"));
	inf_run_failures_deinit(&f);
}

/* One is enough; a thread may count with an older time than the one before; another limit begins anew. */
static void test_limits(void **state)
{
	struct inf_run_failures f;
	char text[200];
	inf_run_failures_init(&f);
	assert_true(count(&f, 1, 5, "a"));
	assert_true(inf_run_failures_take(&f, text, sizeof(text)));
	assert_false(count(&f, 2, 7, "b"));
	assert_true(count(&f, 2, 6, "c"));
	assert_true(inf_run_failures_take(&f, text, sizeof(text)));
	assert_false(count(&f, 2, 8, "d"));
	assert_false(count(&f, 3, 8, "e"));
	assert_false(count(&f, 3, 8, "f"));
	assert_true(count(&f, 3, 8, "g"));
	inf_run_failures_deinit(&f);
}

static void test_defaults(void **state)
{
	const struct inf_run_limit limit = { 0 };
	struct inf_run_failures f;
	inf_run_failures_init(&f);
	for (uint64_t i = 0; i < 20; i++) /* never five within a minute */
		assert_false(inf_run_failures_count(&f, &limit, i * 15 * SECOND, "a"));
	assert_true(inf_run_failures_count(&f, &limit, 20 * 15 * SECOND - 1, "a"));
	inf_run_failures_deinit(&f);
}

static void test_rest(void **state)
{
	struct inf_run_failures f;
	char text[200];
	inf_run_failures_init(&f);
	assert_true(count(&f, 1, 100, "a"));
	assert_true(inf_run_failures_take(&f, text, sizeof(text)));
	inf_run_failures_rest(&f, 100 * SECOND);
	assert_false(count(&f, 1, 109, "b"));
	assert_true(count(&f, 1, 110, "c"));
	inf_run_failures_deinit(&f);
}

static void test_forget(void **state)
{
	struct inf_run_failures f;
	char text[200];
	inf_run_failures_init(&f);
	assert_false(count(&f, 2, 5, "a"));
	inf_run_failures_forget(&f);
	assert_false(count(&f, 2, 6, "b"));
	assert_true(count(&f, 2, 7, "c"));
	inf_run_failures_forget(&f);
	assert_false(inf_run_failures_take(&f, text, sizeof(text)));
	inf_run_failures_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_forget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
