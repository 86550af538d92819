/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes, strides and dim orders. */
#include "runtime/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void test_types(void **state)
{
	(void)state;
	assert_int_equal(et_scalar_size(ET_FLOAT32), 4);
	assert_int_equal(et_scalar_size(ET_BOOL), 1);
	assert_int_equal(et_scalar_size(ET_BFLOAT16), 2);
	assert_int_equal(et_scalar_size(ET_UINT64), 8);
	assert_int_equal(et_scalar_size(ET_COMPLEX128), 16);
	assert_int_equal(et_scalar_size(ET_BITS8), 1);
	assert_int_equal(et_scalar_size((enum et_scalar_type)30), 0);
	assert_int_equal(et_scalar_size((enum et_scalar_type)99), 0);
	assert_string_equal(et_scalar_name(ET_FLOAT16), "FP16");
	assert_string_equal(et_scalar_name(ET_INT64), "INT64");
	assert_string_equal(et_scalar_name(ET_QUINT2X4), "QUINT2X4");
	assert_string_equal(et_scalar_name((enum et_scalar_type)99), "UNKNOWN");
	assert_string_equal(et_tag_name(ET_TAG_OPTIONAL_TENSOR_LIST), "OptionalTensorList");
	assert_string_equal(et_tag_name((enum et_tag)77), "unknown");
}

static void test_dim_orders(void **state)
{
	(void)state;
	const uint8_t nhwc[] = { 0, 2, 3, 1 }, nchw[] = { 0, 1, 2, 3 }, twice[] = { 0, 1, 1 }, far[] = { 0, 4, 1 };
	const uint8_t many[17] = { 0 };
	assert_true(et_dim_order_is_valid(nhwc, 4));
	assert_true(et_dim_order_is_valid(nchw, 4));
	assert_true(et_dim_order_is_valid(NULL, 0));
	assert_false(et_dim_order_is_valid(twice, 3));
	assert_false(et_dim_order_is_valid(far, 3));
	assert_false(et_dim_order_is_valid(many, 17));
	assert_true(et_dim_order_is_contiguous(nchw, 4));
	assert_false(et_dim_order_is_contiguous(nhwc, 4));
	assert_true(et_dim_order_is_channels_last(nhwc, 4));
	assert_true(et_dim_order_is_channels_last((const uint8_t[]){ 0, 2, 1 }, 3));
	assert_true(et_dim_order_is_channels_last((const uint8_t[]){ 0, 2, 3, 4, 1 }, 5));
	assert_false(et_dim_order_is_channels_last(nchw, 4));
	assert_false(et_dim_order_is_channels_last((const uint8_t[]){ 0, 3, 2, 1 }, 4));
	assert_false(et_dim_order_is_channels_last((const uint8_t[]){ 0, 1 }, 2));
}

static void test_strides(void **state)
{
	(void)state;
	int32_t strides[4];
	et_dim_order_to_strides((const int32_t[]){ 2, 3, 4, 5 }, (const uint8_t[]){ 0, 2, 3, 1 }, 4, strides);
	assert_memory_equal(strides, ((const int32_t[]){ 60, 1, 15, 3 }), sizeof strides);
	et_dim_order_to_strides((const int32_t[]){ 2, 3, 4, 5 }, (const uint8_t[]){ 0, 1, 2, 3 }, 4, strides);
	assert_memory_equal(strides, ((const int32_t[]){ 60, 20, 5, 1 }), sizeof strides);
	/* an empty dimension counts as one, as in ExecuTorch */
	et_dim_order_to_strides((const int32_t[]){ 2, 0, 4, 5 }, (const uint8_t[]){ 0, 1, 2, 3 }, 4, strides);
	assert_memory_equal(strides, ((const int32_t[]){ 20, 20, 5, 1 }), sizeof strides);
	/* far too large: it wraps around */
	et_dim_order_to_strides((const int32_t[]){ 0, INT32_MAX, INT32_MAX, INT32_MAX },
		(const uint8_t[]){ 0, 1, 2, 3 }, 4, strides);
	assert_int_equal(strides[3], 1);
}

static void test_addressable(void **state)
{
	(void)state;
	const uint8_t order[] = { 0, 1, 2, 3 };
	size_t n = 99;
	assert_true(et_sizes_are_addressable((const int32_t[]){ 2, 3 }, order, 2, &n));
	assert_int_equal(n, 6);
	assert_true(et_sizes_are_addressable(NULL, order, 0, &n));
	assert_int_equal(n, 1);
	assert_true(et_sizes_are_addressable((const int32_t[]){ 2, 0, 5 }, order, 3, &n));
	assert_int_equal(n, 0);
	assert_true(et_sizes_are_addressable((const int32_t[]){ INT32_MAX, INT32_MAX }, order, 2, &n));
	assert_false(et_sizes_are_addressable((const int32_t[]){ 2, INT32_MAX, 2 }, order, 3, &n));
	assert_false(et_sizes_are_addressable((const int32_t[]){ 0, INT32_MAX, INT32_MAX }, order, 3, &n));
	assert_false(et_sizes_are_addressable((const int32_t[]){ 2, -1 }, order, 2, &n));
}

static void test_resize(void **state)
{
	(void)state;
	int32_t sizes[] = { 4, 6 }, strides[] = { 6, 1 };
	const uint8_t order[] = { 0, 1 };
	struct et_tensor tensor = { .capacity = 24,
		.sizes = sizes,
		.strides = strides,
		.dim_order = order,
		.type = ET_INT16,
		.n_dims = 2,
		.dynamism = ET_DYNAMIC_BOUND };
	assert_int_equal(et_tensor_numel(&tensor), 24);
	assert_int_equal(et_tensor_n_bytes(&tensor), 48);
	assert_int_equal(et_tensor_resize(&tensor, (const int32_t[]){ 2, 5 }, 2), ET_OK);
	assert_int_equal(et_tensor_numel(&tensor), 10);
	assert_int_equal(strides[0], 5);
	/* other dimensions may grow while the elements fit */
	assert_int_equal(et_tensor_resize(&tensor, (const int32_t[]){ 24, 1 }, 2), ET_OK);
	/* refused, and nothing changes */
	assert_int_equal(et_tensor_resize(&tensor, (const int32_t[]){ 5, 5 }, 2), ET_E_NOT_SUPPORTED);
	assert_int_equal(et_tensor_resize(&tensor, (const int32_t[]){ 1, 1 }, 1), ET_E_NOT_SUPPORTED);
	assert_int_equal(et_tensor_resize(&tensor, (const int32_t[]){ -1, 1 }, 2), ET_E_NOT_SUPPORTED);
	assert_int_equal(et_tensor_resize(&tensor, (const int32_t[]){ INT32_MAX, INT32_MAX }, 2), ET_E_NOT_SUPPORTED);
	assert_int_equal(sizes[0], 24);
	assert_int_equal(strides[0], 1);
	tensor.dynamism = ET_STATIC;
	assert_int_equal(et_tensor_resize(&tensor, (const int32_t[]){ 24, 1 }, 2), ET_OK);
	assert_int_equal(et_tensor_resize(&tensor, (const int32_t[]){ 1, 24 }, 2), ET_E_NOT_SUPPORTED);
	struct et_tensor scalar = { .type = ET_FLOAT32 };
	assert_int_equal(et_tensor_resize(&scalar, NULL, 0), ET_OK);
	assert_int_equal(et_tensor_numel(&scalar), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_dim_orders),
		cmocka_unit_test(test_strides),
		cmocka_unit_test(test_addressable),
		cmocka_unit_test(test_resize),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
