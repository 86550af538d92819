/* SPDX-License-Identifier: BSD-3-Clause */
/* Test compare: which outputs count as equal, and how a failure is described. */
#include "clients/inferctl/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct ctl_value vector(uint8_t type, const void *data, int32_t n)
{
	struct ctl_value value = { .tag = ET_TAG_TENSOR, .type = type, .n_dims = 1, .data = data };
	value.sizes[0] = n;
	value.n_bytes = (size_t)n * et_scalar_size(type);
	return value;
}

static struct ctl_difference compare(struct ctl_value got, struct ctl_value expected, struct ctl_tolerance tolerance)
{
	struct ctl_difference difference;
	ctl_compare(&difference, &got, &expected, &tolerance);
	return difference;
}

static void test_default_bounds(void **state)
{
	const float expected[] = { 100, 0, -100 }, near[] = { 100.1f, 0.00009f, -100.1f },
		    far[] = { 100, 0.0002f, -99 };
	struct ctl_difference difference;

	difference = compare(vector(ET_FLOAT32, near, 3), vector(ET_FLOAT32, expected, 3), CTL_TOLERANCE_DEFAULT);
	assert_true(difference.is_equal);
	difference = compare(vector(ET_FLOAT32, far, 3), vector(ET_FLOAT32, expected, 3), CTL_TOLERANCE_DEFAULT);
	assert_false(difference.is_equal);
	assert_int_equal(difference.n_beyond, 2);
	assert_int_equal(difference.worst, 2);
	assert_true(difference.got.d == -99 && difference.expected.d == -100);
	assert_true(fabs(difference.error - 1) < 1e-9 && fabs(difference.allowed - 0.1001) < 1e-9);
}

static void test_half_is_looser_than_float(void **state)
{
	const uint16_t one[] = { 0x3c00 }, one_and_half_percent[] = { 0x3c0f }, bit[] = { 0x3c08 };
	/* 1 + 8/1024 is within 1 %, 1 + 15/1024 is not */
	assert_true(compare(vector(ET_FLOAT16, bit, 1), vector(ET_FLOAT16, one, 1), CTL_TOLERANCE_DEFAULT).is_equal);
	assert_false(compare(vector(ET_FLOAT16, one_and_half_percent, 1), vector(ET_FLOAT16, one, 1),
		CTL_TOLERANCE_DEFAULT)
			.is_equal);
}

static void test_half_values(void **state)
{
	const uint16_t bits[] = { 0x0000, 0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x7c00, 0xfc00, 0x7e00 };
	const double wanted[] = { 0, 1, -2, 65504, 0x1p-24, 0x1p-14, INFINITY, -INFINITY };
	struct ctl_value value = vector(ET_FLOAT16, bits, 9);
	for (size_t i = 0; i < 8; i++)
		assert_true(ctl_value_at(&value, i).d == wanted[i]);
	assert_true(isnan(ctl_value_at(&value, 8).d));
}

/* 1, the largest number, the smallest, a negative one, and what is no number. */
static void test_values_of_8_bits(void **state)
{
	static const struct {
		uint8_t type, bits[5];
		double wanted[4];
	} rows[] = {
		{ ET_FLOAT8E5M2, { 0x3c, 0x7b, 0x01, 0xc4, 0x7d }, { 1, 57344, 0x1p-16, -4 } },
		{ ET_FLOAT8E4M3FN, { 0x38, 0x7e, 0x01, 0xb4, 0x7f }, { 1, 448, 0x1p-9, -0.75 } },
		{ ET_FLOAT8E5M2FNUZ, { 0x40, 0x7f, 0x01, 0xc2, 0x80 }, { 1, 57344, 0x1p-17, -1.5 } },
		{ ET_FLOAT8E4M3FNUZ, { 0x40, 0x7f, 0x01, 0xc4, 0x80 }, { 1, 240, 0x1p-10, -1.5 } },
	};
	for (size_t i = 0; i < 4; i++) {
		struct ctl_value value = vector(rows[i].type, rows[i].bits, 5);
		for (size_t k = 0; k < 4; k++)
			assert_true(ctl_value_at(&value, k).d == rows[i].wanted[k]);
		assert_true(isnan(ctl_value_at(&value, 4).d));
		struct ctl_value other = vector(rows[i].type, rows[i].bits + 1, 1);
		value.n_bytes = 1, value.sizes[0] = 1;
		assert_false(compare(value, other, CTL_TOLERANCE_DEFAULT).is_equal);
		assert_int_equal(ctl_type_from_name(et_scalar_name(rows[i].type)), rows[i].type);
	}
	const uint8_t infinity = 0xfc;
	struct ctl_value value = vector(ET_FLOAT8E5M2, &infinity, 1);
	assert_true(ctl_value_at(&value, 0).d == -INFINITY);
}

static void test_specials(void **state)
{
	const float a[] = { NAN, INFINITY, -INFINITY }, b[] = { NAN, INFINITY, INFINITY }, c[] = { 1, INFINITY, 1e30f };
	struct ctl_tolerance loose = { .atol = 1e30, .rtol = 1e30, .cosine = -1 };
	assert_true(compare(vector(ET_FLOAT32, a, 3), vector(ET_FLOAT32, a, 3), CTL_TOLERANCE_DEFAULT).is_equal);
	assert_int_equal(compare(vector(ET_FLOAT32, b, 3), vector(ET_FLOAT32, a, 3), loose).n_beyond, 1);
	assert_int_equal(compare(vector(ET_FLOAT32, c, 3), vector(ET_FLOAT32, a, 3), loose).n_beyond, 2);
	assert_int_equal(compare(vector(ET_FLOAT32, a, 3), vector(ET_FLOAT32, c, 3), loose).n_beyond, 2);
}

static void test_integers_are_exact(void **state)
{
	const int64_t a[] = { 1, 9007199254740993 }, b[] = { 1, 9007199254740992 };
	struct ctl_tolerance loose = { .atol = 10, .rtol = 1, .cosine = -1 };
	struct ctl_difference difference = compare(vector(ET_INT64, a, 2), vector(ET_INT64, b, 2), loose);
	assert_false(difference.is_equal);
	assert_int_equal(difference.worst, 1);
	assert_true(compare(vector(ET_INT64, a, 2), vector(ET_INT64, a, 2), loose).is_equal);
}

static void test_kind_and_shape(void **state)
{
	const float a[] = { 1, 2, 3 };
	struct ctl_value number = { .tag = ET_TAG_INT, .i = 3, .d = 3 }, none = { .tag = ET_TAG_NONE };
	struct ctl_difference difference = compare(vector(ET_FLOAT32, a, 2), vector(ET_FLOAT32, a, 3),
		CTL_TOLERANCE_DEFAULT);
	assert_false(difference.is_equal);
	assert_string_equal(difference.what, "FP32 [2], expected FP32 [3]");
	assert_false(compare(number, vector(ET_FLOAT32, a, 1), CTL_TOLERANCE_DEFAULT).is_equal);
	assert_true(compare(number, none, CTL_TOLERANCE_DEFAULT).is_equal);
	assert_true(compare(number, number, CTL_TOLERANCE_DEFAULT).is_equal);
}

/* ExecuTorch's bundler writes only tensors: a number is expected as one without dimensions. */
static void test_numbers_may_be_expected_as_tensors(void **state)
{
	const int64_t three = 3;
	const int32_t narrow = 3;
	const uint8_t yes = 1;
	const float half = 0.5f;
	const double third = 1.0 / 3;
	struct ctl_value integer = { .tag = ET_TAG_INT, .i = 3, .d = 3 }, more = { .tag = ET_TAG_INT, .i = 4, .d = 4 },
			 truth = { .tag = ET_TAG_BOOL, .i = 1, .d = 1 }, real = { .tag = ET_TAG_DOUBLE, .d = 0.5 },
			 wanted = vector(ET_INT64, &three, 1);
	struct ctl_difference difference;

	assert_false(compare(integer, wanted, CTL_TOLERANCE_DEFAULT).is_equal); /* one dimension */
	wanted.n_dims = 0;
	assert_true(compare(integer, wanted, CTL_TOLERANCE_DEFAULT).is_equal);
	difference = compare(more, wanted, CTL_TOLERANCE_DEFAULT);
	assert_false(difference.is_equal);
	assert_int_equal(difference.got.i, 4);
	assert_false(compare(wanted, integer, CTL_TOLERANCE_DEFAULT).is_equal); /* a tensor is no number */
	assert_false(compare(truth, wanted, CTL_TOLERANCE_DEFAULT).is_equal);
	wanted = vector(ET_INT32, &narrow, 1), wanted.n_dims = 0;
	assert_false(compare(integer, wanted, CTL_TOLERANCE_DEFAULT).is_equal);
	wanted = vector(ET_BOOL, &yes, 1), wanted.n_dims = 0;
	assert_true(compare(truth, wanted, CTL_TOLERANCE_DEFAULT).is_equal);
	assert_false(compare(integer, wanted, CTL_TOLERANCE_DEFAULT).is_equal);
	wanted = vector(ET_FLOAT32, &half, 1), wanted.n_dims = 0;
	assert_true(compare(real, wanted, CTL_TOLERANCE_DEFAULT).is_equal);
	assert_false(compare(integer, wanted, CTL_TOLERANCE_DEFAULT).is_equal);
	wanted = vector(ET_FLOAT64, &third, 1), wanted.n_dims = 0;
	assert_false(compare(real, wanted, CTL_TOLERANCE_DEFAULT).is_equal);
}

static void test_dim_orders_are_looked_through(void **state)
{
	const float rows[] = { 0, 1, 2, 3, 4, 5 }, columns[] = { 0, 3, 1, 4, 2, 5 };
	struct ctl_value a = { .tag = ET_TAG_TENSOR,
		.type = ET_FLOAT32,
		.n_dims = 2,
		.sizes = { 2, 3 },
		.dim_order = { 0, 1 },
		.data = (const uint8_t *)rows,
		.n_bytes = sizeof(rows) };
	struct ctl_value b = a;
	b.dim_order[0] = 1;
	b.dim_order[1] = 0;
	b.data = (const uint8_t *)columns;
	assert_true(compare(a, b, CTL_TOLERANCE_DEFAULT).is_equal);
	assert_false(ctl_value_same_layout(&a, &b));
	b.data = (const uint8_t *)rows;
	assert_int_equal(compare(b, a, CTL_TOLERANCE_DEFAULT).n_beyond, 4);
}

static void test_reorder(void **state)
{
	const uint8_t rows[] = { 0, 1, 2, 3, 4, 5 };
	struct ctl_value a = { .tag = ET_TAG_TENSOR,
		.type = ET_UINT8,
		.n_dims = 3,
		.sizes = { 2, 1, 3 },
		.dim_order = { 0, 1, 2 },
		.data = rows,
		.n_bytes = sizeof(rows) };
	struct ctl_value like = { .n_dims = 3, .dim_order = { 2, 1, 0 } }, b = a;
	uint8_t columns[6], back[6];
	ctl_value_reorder(columns, &a, &like);
	assert_memory_equal(columns, ((uint8_t[]){ 0, 3, 1, 4, 2, 5 }), 6);
	memcpy(b.dim_order, like.dim_order, 3);
	b.data = columns;
	assert_true(compare(b, a, CTL_TOLERANCE_DEFAULT).is_equal);
	ctl_value_reorder(back, &b, &a);
	assert_memory_equal(back, rows, 6);
}

static void test_layout_ignores_dimensions_of_one(void **state)
{
	struct ctl_value a = { .tag = ET_TAG_TENSOR,
		.type = ET_FLOAT32,
		.n_dims = 4,
		.sizes = { 1, 8, 1, 1 },
		.dim_order = { 0, 1, 2, 3 } };
	struct ctl_value b = a;
	memcpy(b.dim_order, (uint8_t[]){ 0, 2, 3, 1 }, 4);
	assert_true(ctl_value_same_layout(&a, &b));
	a.sizes[2] = b.sizes[2] = 2;
	assert_false(ctl_value_same_layout(&a, &b));
}

static void test_cosine_and_argmax(void **state)
{
	const float a[] = { 1, 2, 3 }, scaled[] = { 2, 4, 6 }, turned[] = { 3, 2, 1 }, nan[] = { 1, NAN, 3 };
	struct ctl_tolerance cosine = { .atol = -1, .rtol = -1, .cosine = 0.99 };
	struct ctl_tolerance most = { .atol = -1, .rtol = -1, .cosine = -1, .argmax = true };
	assert_true(compare(vector(ET_FLOAT32, scaled, 3), vector(ET_FLOAT32, a, 3), cosine).is_equal);
	assert_false(compare(vector(ET_FLOAT32, turned, 3), vector(ET_FLOAT32, a, 3), cosine).is_equal);
	assert_false(compare(vector(ET_FLOAT32, nan, 3), vector(ET_FLOAT32, a, 3), cosine).is_equal);
	assert_true(compare(vector(ET_FLOAT32, scaled, 3), vector(ET_FLOAT32, a, 3), most).is_equal);
	assert_false(compare(vector(ET_FLOAT32, turned, 3), vector(ET_FLOAT32, a, 3), most).is_equal);
	cosine.atol = 0.5; /* both must hold */
	assert_false(compare(vector(ET_FLOAT32, scaled, 3), vector(ET_FLOAT32, a, 3), cosine).is_equal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default_bounds),
		cmocka_unit_test(test_half_is_looser_than_float),
		cmocka_unit_test(test_half_values),
		cmocka_unit_test(test_values_of_8_bits),
		cmocka_unit_test(test_specials),
		cmocka_unit_test(test_integers_are_exact),
		cmocka_unit_test(test_kind_and_shape),
		cmocka_unit_test(test_numbers_may_be_expected_as_tensors),
		cmocka_unit_test(test_dim_orders_are_looked_through),
		cmocka_unit_test(test_reorder),
		cmocka_unit_test(test_layout_ignores_dimensions_of_one),
		cmocka_unit_test(test_cosine_and_argmax),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
