/* SPDX-License-Identifier: BSD-3-Clause */
/* The restart policy, on a virtual clock. */
#include "delegates/plugin/proxy/restart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)

static void test_pauses_grow(void **state)
{
	static const uint64_t pauses_ms[] = { 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000, 5000 };
	struct et_plugin_restart r;
	uint64_t now_ns = 7 * SECOND;
	et_plugin_restart_init(&r, 100, 3600 * SECOND, false);
	assert_int_equal(et_plugin_restart_wait_ns(&r, now_ns), 0);
	for (size_t i = 0; i < sizeof pauses_ms / sizeof pauses_ms[0]; i++) {
		assert_true(et_plugin_restart_crashed(&r, true, now_ns));
		assert_int_equal(et_plugin_restart_wait_ns(&r, now_ns), pauses_ms[i] * MS);
		now_ns += et_plugin_restart_wait_ns(&r, now_ns);
		assert_int_equal(et_plugin_restart_wait_ns(&r, now_ns), 0);
	}
}

static void test_forgets(void **state)
{
	struct et_plugin_restart r;
	et_plugin_restart_init(&r, 0, 0, false);
	for (uint64_t i = 0; i < 100; i++) /* one a minute is never too often */
		assert_true(et_plugin_restart_crashed(&r, true, i * 60 * SECOND));
	assert_int_equal(et_plugin_restart_wait_ns(&r, 99 * 60 * SECOND), 0);
	assert_int_equal(r.n_crashes, 100);
	assert_false(r.has_failed);
}

static void test_gives_up(void **state)
{
	struct et_plugin_restart r;
	et_plugin_restart_init(&r, 0, 0, false);
	for (uint64_t i = 0; i < 4; i++)
		assert_true(et_plugin_restart_crashed(&r, true, i * SECOND));
	assert_false(et_plugin_restart_crashed(&r, true, 4 * SECOND));
	assert_true(r.has_failed);
	/* and stays so */
	assert_false(et_plugin_restart_crashed(&r, true, 4000 * SECOND));
	et_plugin_restart_init(&r, 0, 0, false);
	assert_false(et_plugin_restart_crashed(&r, false, 0));
}

/* A forgiving backend pauses instead of failing, and then starts as if it had never crashed. */
static void test_forgives(void **state)
{
	struct et_plugin_restart r;
	uint64_t now_ns = 7 * SECOND;
	et_plugin_restart_init(&r, 0, 0, true);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 4; i++, now_ns += SECOND) {
			assert_true(et_plugin_restart_crashed(&r, true, now_ns));
			assert_true(et_plugin_restart_wait_ns(&r, now_ns) <= SECOND);
		}
		assert_true(et_plugin_restart_crashed(&r, true, now_ns));
		assert_int_equal(et_plugin_restart_wait_ns(&r, now_ns), 60 * SECOND);
		now_ns += 60 * SECOND;
	}
	assert_int_equal(r.n_crashes, 100);
	assert_false(r.has_failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pauses_grow),
		cmocka_unit_test(test_forgets),
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_forgives),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
