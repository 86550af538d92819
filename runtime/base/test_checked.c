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
		cmocka_unit_test(ranges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
