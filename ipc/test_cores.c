/* SPDX-License-Identifier: BSD-3-Clause */
/* When cores count as busy, from the text of /proc/loadavg. */
#include "ipc/cores.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* The daemon's own threads and its client do not count. */
static void test_busy(void **state)
{
	assert_false(inf_cores_are_busy_by("0.10 0.20 0.30 1/200 4711\n", 4, 4));
	assert_false(inf_cores_are_busy_by("0.10 0.20 0.30 4/200 4711\n", 4, 4));
	assert_true(inf_cores_are_busy_by("0.10 0.20 0.30 5/200 4711\n", 4, 4));
	assert_true(inf_cores_are_busy_by("0.10 0.20 0.30 4/200 4711\n", 2, 2));
	assert_false(inf_cores_are_busy_by("0.10 0.20 0.30 12/900 4711\n", 64, 64));
	assert_true(inf_cores_are_busy_by("0.10 0.20 0.30 40/900 4711\n", 64, 64));
	assert_false(inf_cores_are_busy_by("0.10 0.20 0.30 12/900 4711\n", 64, 4));
	assert_false(inf_cores_are_busy_by("", 4, 4));
	assert_false(inf_cores_are_busy_by("nonsense", 4, 4));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_busy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
