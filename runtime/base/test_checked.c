/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked arithmetic at its edges. */
#include "runtime/base/checked.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void sums_and_products(void **state)
{
	size_t n;
	assert_true(et_add(SIZE_MAX - 1, 1, &n));
	assert_int_equal(n, SIZE_MAX);
	assert_false(et_add(SIZE_MAX, 1, &n));
	assert_true(et_mul(SIZE_MAX / 2, 2, &n));
	assert_false(et_mul(SIZE_MAX / 2 + 1, 2, &n));
	assert_true(et_align_up(65, 64, &n));
	assert_int_equal(n, 128);
	assert_false(et_align_up(SIZE_MAX - 3, 64, &n));
}

static void totals(void **state)
{
	uint64_t n = UINT64_MAX - 1;
	et_add_up(&n, 1);
	assert_true(n == UINT64_MAX);
	et_add_up(&n, UINT64_MAX);
	assert_true(n == UINT64_MAX);
	n = 2;
	et_add_up(&n, 3);
	assert_int_equal(n, 5);
	assert_int_equal(et_times(6, 7), 42);
	assert_true(et_times(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1) == UINT64_MAX - UINT32_MAX);
	assert_true(et_times(UINT64_C(1) << 32, UINT64_C(1) << 32) == UINT64_MAX);
	assert_int_equal(et_less(5, 3), 2);
	assert_int_equal(et_less(3, 5), 0);
}

static void ranges(void **state)
{
	assert_true(et_in_range(0, 10, 10));
	assert_true(et_in_range(10, 0, 10));
	assert_false(et_in_range(11, 0, 10));
	assert_false(et_in_range(5, 6, 10));
	assert_false(et_in_range(UINT64_MAX, 2, 10));
	assert_false(et_in_range(1, UINT64_MAX, 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_and_products),
		cmocka_unit_test(totals),
		cmocka_unit_test(ranges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
