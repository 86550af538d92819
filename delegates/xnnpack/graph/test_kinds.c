/* SPDX-License-Identifier: BSD-3-Clause */
/* Each kind of node that is elementwise or moves elements, compared with a line of C: the numbers that kind.c gives
 * to the schema's kinds, and the parameters that define.c passes on. */
#include "delegates/xnnpack/support/test_args.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static float of_sigmoid(float x)
{
	return 1 / (1 + expf(-x));
}
static float of_clamp(float x)
{
	return fminf(fmaxf(x, -0.5f), 1.5f);
}
static float of_hardswish(float x)
{
	return x * fminf(fmaxf(x + 3, 0), 6) / 6;
}
static float of_leaky_relu(float x)
{
	return x < 0 ? 0.125f * x : x;
}
static float of_elu(float x)
{
	return x < 0 ? 0.125f * expm1f(x) : x;
}
static float of_negate(float x)
{
	return -x;
}
static float of_square(float x)
{
	return x * x;
}
static float of_rsqrt(float x)
{
	return 1 / sqrtf(x);
}
static float of_gelu(float x)
{
	return x / 2 * (1 + erff(x * 0.70710678f));
}
static float of_copy(float x)
{
	return x;
}

static const struct {
	uint8_t kind;
	float (*reference)(float x);
	bool is_positive; /* defined for positive numbers alone */
} unary[] = {
	{ 4, of_sigmoid, false },
	{ 6, of_clamp, false },
	{ 17, floorf, false },
	{ 22, sqrtf, true },
	{ 23, ceilf, false },
	{ 24, of_hardswish, false },
	{ 25, of_leaky_relu, false },
	{ 27, of_negate, false },
	{ 28, of_square, false },
	{ 29, of_elu, false },
	{ 30, fabsf, false },
	{ 40, of_rsqrt, true },
	{ 41, logf, true },
	{ 42, of_gelu, false },
	{ 43, tanhf, false },
	{ 44, expf, false },
	{ 45, sinf, false },
	{ 46, of_copy, false },
	{ 47, cosf, false },
};

static void test_unary(void **state)
{
	for (size_t k = 0; k < sizeof(unary) / sizeof(unary[0]); k++) {
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t in = test_plain(&mk, 1, 0, 3, 7), out = test_plain(&mk, 0, 2, 3, 7);
		mx_node(&mk, unary[k].kind,
			&(struct et_xnn_node){
				.inputs = { in }, .outputs = { out }, .number = 0.125f, .min = -0.5f, .max = 1.5f });
		ARG(&args[0], ET_FLOAT32, ET_STATIC, 3, 7);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, 3, 7);
		for (int i = 0; i < 21; i++)
			args[0].f32[i] = (float)i * 0.37f - (unary[k].is_positive ? -0.1f : 4);
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		for (int i = 0; i < 21; i++) {
			float expected = unary[k].reference(args[0].f32[i]);
			if (!(fabsf(args[1].f32[i] - expected) <= 1e-4f + 1e-4f * fabsf(expected)))
				fail_msg("kind %u of %g is %g, expected %g", unary[k].kind, (double)args[0].f32[i],
					(double)args[1].f32[i], (double)expected);
		}
	}
}

/* A node that computes the vector @args[1] from @args[0]; both have the datatype and scale of @value. */
static void run_flat(uint8_t kind, struct et_xnn_node node, const struct mx_value *value, struct arg args[2])
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	struct mx_value in = *value, out = *value;
	in.dims[0] = (uint32_t)args[0].sizes[0];
	out.dims[0] = (uint32_t)args[1].sizes[0];
	in.n_dims = out.n_dims = in.input = 1;
	out.output = 2;
	mx_init(&mk);
	node.inputs[0] = mx_value(&mk, &in);
	node.outputs[0] = mx_value(&mk, &out);
	mx_node(&mk, kind, &node);
	test_ok(test_run_once(&mk, args, 2, &diag), &diag);
}

/* The results are ExecuTorch's, on the processors where that was seen. */
static void test_parameters_that_are_nan(void **state)
{
	enum { LEAKY_RELU = 25, N = 6 };
	static const float in[N] = { -2, -1, 0, 1, NAN, -INFINITY };
	static const bool becomes_nan[N] = { true, true, false, false, true, true };
	static const uint16_t fp16[N] = { 0xc000, 0xbc00, 0, 0x3c00, 0x7e00, 0xfc00 };
	static const int8_t steps[N] = { -17, -7, 3, 13, 127, -128 };
	const struct et_xnn_node slope = { .number = NAN };
	const struct et_xnn_node pad = { .n_list = { 1, 1 }, .list = { { 1 }, { 1 } }, .number = NAN };
	struct arg args[2];

	ARG(&args[0], ET_FLOAT32, ET_STATIC, N);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, N);
	memcpy(args[0].f32, in, sizeof(in));
	run_flat(LEAKY_RELU, slope, &(struct mx_value){ .type = ET_XNN_FP32 }, args);
	for (int i = 0; i < N; i++)
		assert_true(becomes_nan[i] ? isnan(args[1].f32[i]) : args[1].f32[i] == in[i]);

	ARG(&args[0], ET_FLOAT16, ET_STATIC, N);
	ARG(&args[1], ET_FLOAT16, ET_STATIC, N);
	memcpy(args[0].f16, fp16, sizeof(fp16));
	run_flat(LEAKY_RELU, slope, &(struct mx_value){ .type = ET_XNN_FP16 }, args);
	for (int i = 0; i < N; i++)
		assert_true(becomes_nan[i] ? (args[1].f16[i] & 0x7fff) > 0x7c00 : args[1].f16[i] == fp16[i]);

	const struct mx_value bytes = { .type = ET_XNN_QINT8, .scale = 0.1f, .zero_point = 3 };
	ARG(&args[0], ET_INT8, ET_STATIC, N);
	ARG(&args[1], ET_INT8, ET_STATIC, N);
	memcpy(args[0].i8, steps, sizeof(steps));
	run_flat(LEAKY_RELU, slope, &bytes, args);
	/* All numbers below are 127, or all are the zero point: XNNPACK has a loop for each processor. */
	const int8_t below = args[1].i8[0];
	assert_true(below == 127 || below == 3);
	for (int i = 0; i < N; i++)
		assert_int_equal(args[1].i8[i], steps[i] < 3 ? below : steps[i]);

	ARG(&args[1], ET_INT8, ET_STATIC, N + 2);
	run_flat(MX_PAD, pad, &bytes, args);
	assert_int_equal(args[1].i8[0], 127);
	assert_memory_equal(args[1].i8 + 1, steps, N);
	assert_int_equal(args[1].i8[N + 1], 127);
}

/* Limits in the wrong order, and NaN as a limit: the results are those of whole programs in ExecuTorch. */
static void test_odd_limits(void **state)
{
	enum { N = 4 };
	static const float limits[][2] = { { 1, -1 }, { NAN, 1 }, { -1, NAN }, { NAN, NAN } };
	static const float in[N] = { -2, 0, 2, INFINITY };
	static const float expected[][N] = { { -1, -1, -1, -1 }, { -2, 0, 1, 1 }, { -1, 0, 2, INFINITY },
		{ -2, 0, 2, INFINITY } };
	static const uint16_t fp16[N] = { 0xc000, 0, 0x4000, 0x7c00 };
	static const uint16_t expected_fp16[] = { 0xbc00, 0x3c00, 0x7e00, 0x7e00 };
	static const int8_t steps[N] = { -17, 3, 23, 127 };
	/* If limits are in the wrong order, XNNPACK's 8-bit loops do not agree which one counts. */
	static const int8_t expected_step[][2][N] = { { { -7, -7, -7, -7 }, { 13, 13, 13, 13 } },
		{ { -17, 3, 13, 13 }, { -17, 3, 13, 13 } }, { { -128, -128, -128, -128 }, { -7, -7, -7, -7 } },
		{ { -128, -128, -128, -128 }, { -128, -128, -128, -128 } } };
	struct arg args[2];
#ifdef __x86_64__
	const size_t n_limits = sizeof(limits) / sizeof(limits[0]);
#else
	const size_t n_limits = 1; /* other processors let NaN pass */
#endif
	for (size_t k = 0; k < n_limits; k++) {
		const struct et_xnn_node node = { .min = limits[k][0], .max = limits[k][1] };
		ARG(&args[0], ET_FLOAT32, ET_STATIC, N);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, N);
		memcpy(args[0].f32, in, sizeof(in));
		run_flat(MX_CLAMP, node, &(struct mx_value){ .type = ET_XNN_FP32 }, args);
		for (int i = 0; i < N; i++)
			assert_true(args[1].f32[i] == expected[k][i]);

		ARG(&args[0], ET_FLOAT16, ET_STATIC, N);
		ARG(&args[1], ET_FLOAT16, ET_STATIC, N);
		memcpy(args[0].f16, fp16, sizeof(fp16));
		run_flat(MX_CLAMP, node, &(struct mx_value){ .type = ET_XNN_FP16 }, args);
		for (int i = 0; i < N; i++)
			assert_true(expected_fp16[k] == 0x7e00 ? (args[1].f16[i] & 0x7fff) > 0x7c00
							       : args[1].f16[i] == expected_fp16[k]);

		const struct mx_value bytes = { .type = ET_XNN_QINT8, .scale = 0.1f, .zero_point = 3 };
		ARG(&args[0], ET_INT8, ET_STATIC, N);
		ARG(&args[1], ET_INT8, ET_STATIC, N);
		memcpy(args[0].i8, steps, sizeof(steps));
		run_flat(MX_CLAMP, node, &bytes, args);
		assert_true(memcmp(args[1].i8, expected_step[k][0], N) == 0 ||
			    memcmp(args[1].i8, expected_step[k][1], N) == 0);
	}
}

static float of_add(float a, float b)
{
	return a + b;
}
static float of_divide(float a, float b)
{
	return a / b;
}
static float of_multiply(float a, float b)
{
	return a * b;
}
static float of_subtract(float a, float b)
{
	return a - b;
}
static float of_prelu(float a, float b)
{
	return a < 0 ? a * b : a;
}

static const struct {
	uint8_t kind;
	float (*reference)(float a, float b);
	bool is_unlimited; /* limits that stand in a file count for nothing, as for the original */
} binary[] = {
	{ 1, of_add },
	{ 8, of_divide },
	{ 12, fminf, true },
	{ 15, of_multiply },
	{ 16, of_subtract },
	{ 26, fmaxf, true },
	{ 31, of_prelu, true },
};

static void test_binary(void **state)
{
	for (size_t k = 0; k < sizeof(binary) / sizeof(binary[0]); k++) {
		for (int limited = 0; limited < 2; limited++) {
			struct make_xnn mk;
			struct arg args[3];
			struct et_diag diag = { 0 };
			mx_init(&mk);
			uint32_t a = test_plain(&mk, 1, 0, 3, 7), b = test_plain(&mk, 2, 0, 1, 7);
			uint32_t out = test_plain(&mk, 0, 3, 3, 7);
			mx_node(&mk, binary[k].kind,
				&(struct et_xnn_node){ .inputs = { a, b },
					.outputs = { out },
					.min = limited ? -1.0f : 0,
					.max = limited ? 2.0f : 0 });
			ARG(&args[0], ET_FLOAT32, ET_STATIC, 3, 7);
			ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 7);
			ARG(&args[2], ET_FLOAT32, ET_STATIC, 3, 7);
			for (int i = 0; i < 21; i++) {
				args[0].f32[i] = (float)i * 0.5f - 5;
				args[1].f32[i] = (float)i + 0.25f;
			}
			test_ok(test_run_once(&mk, args, 3, &diag), &diag);
			for (int i = 0; i < 21; i++) {
				float expected = binary[k].reference(args[0].f32[i], args[1].f32[i % 7]);
				if (limited && !binary[k].is_unlimited)
					expected = fminf(fmaxf(expected, -1), 2);
				test_near(args[2].f32[i], expected, 1e-4f);
			}
		}
	}
}

static void test_concatenate(void **state)
{
	static const uint8_t kinds[] = { 32, 33, 34, 38 };
	for (uint32_t n = 2; n <= 5; n++) {
		struct make_xnn mk;
		struct arg args[6];
		struct et_diag diag = { 0 };
		struct et_xnn_node node = { .numbers = { [ET_XNN_AXIS] = (uint32_t)-1 } };
		mx_init(&mk);
		for (uint32_t i = 0; i < n; i++) {
			node.inputs[i] = test_plain(&mk, i + 1, 0, 2, i + 1);
			ARG(&args[i], ET_FLOAT32, ET_STATIC, 2, (int32_t)i + 1);
			for (uint32_t j = 0; j < 2 * (i + 1); j++)
				args[i].f32[j] = (float)(100 * (j / (i + 1)) + 10 * i + j % (i + 1));
		}
		uint32_t n_columns = n * (n + 1) / 2;
		node.outputs[0] = test_plain(&mk, 0, n + 1, 2, n_columns);
		ARG(&args[n], ET_FLOAT32, ET_STATIC, 2, (int32_t)n_columns);
		mx_node(&mk, kinds[n - 2], &node);
		test_ok(test_run_once(&mk, args, n + 1, &diag), &diag);
		for (uint32_t row = 0; row < 2; row++) {
			uint32_t column = 0;
			for (uint32_t i = 0; i < n; i++) {
				for (uint32_t j = 0; j <= i; j++, column++)
					test_near(args[n].f32[row * n_columns + column],
						(float)(100 * row + 10 * i + j), 0);
			}
		}
	}
}

static void test_matmul(void **state)
{
	for (uint32_t is_transposed = 0; is_transposed < 2; is_transposed++) {
		struct make_xnn mk;
		struct arg args[3];
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t a = test_plain(&mk, 1, 0, 3, 4), out = test_plain(&mk, 0, 3, 3, 2);
		uint32_t b = is_transposed ? test_plain(&mk, 2, 0, 2, 4) : test_plain(&mk, 2, 0, 4, 2);
		mx_node(&mk, MX_MATMUL,
			&(struct et_xnn_node){ .inputs = { a, b }, .outputs = { out }, .flags = is_transposed });
		ARG(&args[0], ET_FLOAT32, ET_STATIC, 3, 4);
		if (is_transposed)
			ARG(&args[1], ET_FLOAT32, ET_STATIC, 2, 4);
		else
			ARG(&args[1], ET_FLOAT32, ET_STATIC, 4, 2);
		ARG(&args[2], ET_FLOAT32, ET_STATIC, 3, 2);
		for (int i = 0; i < 12; i++) {
			args[0].f32[i] = sinf((float)i);
			args[1].f32[i] = cosf((float)i);
		}
		test_ok(test_run_once(&mk, args, 3, &diag), &diag);
		for (int m = 0; m < 3; m++) {
			for (int n = 0; n < 2; n++) {
				float sum = 0;
				for (int k = 0; k < 4; k++)
					sum += args[0].f32[m * 4 + k] *
					       args[1].f32[is_transposed ? n * 4 + k : k * 2 + n];
				test_near(args[2].f32[m * 2 + n], sum, 1e-5f);
			}
		}
	}
}

/* All dimensions before height, width and channels are a batch. */
static void test_pooling_of_other_ranks(void)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		uint32_t n_dims = i & 1 ? 3 : 6, n_batch = n_dims - 3, n_kept = i & 2 ? n_dims : n_batch + 1;
		struct mx_value in = { .type = ET_XNN_FP32, .n_dims = n_dims, .input = 1 },
				out = { .type = ET_XNN_FP32, .n_dims = n_kept, .output = 2 };
		int32_t sizes[6], out_sizes[6];
		for (uint32_t j = 0; j < n_dims; j++) {
			in.dims[j] = out.dims[j] = 2;
			sizes[j] = out_sizes[j] = 2;
		}
		for (uint32_t j = n_batch; j + 1 < n_kept; j++)
			out.dims[j] = (uint32_t)(out_sizes[j] = 1);
		mx_init(&mk);
		uint32_t first = mx_value(&mk, &in), last = mx_value(&mk, &out);
		mx_node(&mk, MX_GLOBAL,
			&(struct et_xnn_node){ .inputs = { first },
				.outputs = { last },
				.min = -INFINITY,
				.max = INFINITY,
				.flags = i & 2 ? XNN_FLAG_KEEP_DIMS : 0 });
		test_arg_init(&args[0], ET_FLOAT32, n_dims, sizes, ET_STATIC);
		test_arg_init(&args[1], ET_FLOAT32, n_kept, out_sizes, ET_STATIC);
		for (int j = 0; j < 1 << n_dims; j++)
			args[0].f32[j] = (float)j;
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		for (int j = 0; j < 1 << (n_dims - 2); j++)
			test_near(args[1].f32[j], (float)(j / 2 * 8 + j % 2 + 3), 1e-5f);
	}
}

/* [1,4,4,2], numbered, through one node. */
static void move(uint8_t kind, struct et_xnn_node node, uint32_t n_dims, const int32_t *sizes, float *ret_numbers)
{
	struct make_xnn mk;
	struct arg args[2];
	struct et_diag diag = { 0 };
	struct mx_value out = { .type = ET_XNN_FP32, .output = 2, .n_dims = n_dims };
	size_t n = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		n *= out.dims[i] = (uint32_t)sizes[i];
	mx_init(&mk);
	node.inputs[0] = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 4, 4, 2), .input = 1 });
	node.outputs[0] = mx_value(&mk, &out);
	mx_node(&mk, kind, &node);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 4, 4, 2);
	test_arg_init(&args[1], ET_FLOAT32, n_dims, sizes, ET_STATIC);
	for (int i = 0; i < 32; i++)
		args[0].f32[i] = (float)i;
	test_ok(test_run_once(&mk, args, 2, &diag), &diag);
	memcpy(ret_numbers, args[1].f32, n * sizeof(float));
}

static void test_movement(void **state)
{
	float out[128];
	move(MX_TRANSPOSE, (struct et_xnn_node){ .n_list = { 4 }, .list = { { 0, 3, 1, 2 } } }, 4,
		(const int32_t[]){ 1, 2, 4, 4 }, out);
	for (int i = 0; i < 32; i++)
		test_near(out[i], (float)(i % 16 * 2 + i / 16), 0);
	/* an open dimension */
	move(MX_RESHAPE, (struct et_xnn_node){ .n_list = { 2 }, .list = { { 0, 8 } } }, 2, (const int32_t[]){ 4, 8 },
		out);
	test_near(out[31], 31, 0);
	/* all of the third dimension, the middle of the second */
	move(MX_SLICE, (struct et_xnn_node){ .n_list = { 4, 4 }, .list = { { 0, 1, 0, 1 }, { 1, 2, 0, 1 } } }, 4,
		(const int32_t[]){ 1, 2, 4, 1 }, out);
	for (int i = 0; i < 8; i++)
		test_near(out[i], (float)(8 + 2 * i + 1), 0);
	move(MX_PAD,
		(struct et_xnn_node){ .n_list = { 4, 4 }, .list = { { 0, 1, 0, 0 }, { 0, 0, 0, 1 } }, .number = -7 }, 4,
		(const int32_t[]){ 1, 5, 4, 3 }, out);
	test_near(out[0], -7, 0);
	test_near(out[12], 0, 0);
	test_near(out[13], 1, 0);
	test_near(out[14], -7, 0);
	test_near(out[58], 31, 0);
	move(MX_PAD,
		(struct et_xnn_node){ .n_list = { 4, 4 }, .list = { { 0, 1, 0, 0 }, { 0, 0, 0, 1 } }, .number = NAN },
		4, (const int32_t[]){ 1, 5, 4, 3 }, out);
	assert_true(isnan(out[0]) && isnan(out[14]));
	test_near(out[13], 1, 0);
	test_near(out[58], 31, 0);
}

static void test_windows(void **state)
{
	float out[128];
	const struct et_xnn_node window = { .numbers = { 0, 0, 0, 0, 2, 2, 2, 2, 1, 1 } };
	move(MX_MAX_POOL, window, 4, (const int32_t[]){ 1, 2, 2, 2 }, out);
	for (int i = 0; i < 8; i++) /* the window's last element */
		test_near(out[i], (float)(((i / 4 * 2 + 1) * 4 + i / 2 % 2 * 2 + 1) * 2 + i % 2), 0);
	move(MX_AVERAGE, window, 4, (const int32_t[]){ 1, 2, 2, 2 }, out);
	for (int i = 0; i < 8; i++) /* between the first and the last */
		test_near(out[i], (float)((i / 4 * 8 + i / 2 % 2 * 2) * 2 + i % 2) + 5, 1e-5f);
	move(MX_GLOBAL, (struct et_xnn_node){ .min = -INFINITY, .max = INFINITY }, 2, (const int32_t[]){ 1, 2 }, out);
	test_near(out[0], 15, 1e-5f);
	test_near(out[1], 16, 1e-5f);
	test_pooling_of_other_ranks();
	move(MX_RESIZE,
		(struct et_xnn_node){
			.numbers = { [ET_XNN_NEW_H] = 4, [ET_XNN_NEW_W] = 7 }, .flags = XNN_FLAG_ALIGN_CORNERS },
		4, (const int32_t[]){ 1, 4, 7, 2 }, out);
	for (int i = 0; i < 7; i++)
		test_near(out[i * 2], (float)i, 1e-5f);
	float sum = 0;
	move(MX_SOFTMAX, (struct et_xnn_node){ 0 }, 4, (const int32_t[]){ 1, 4, 4, 2 }, out);
	for (int i = 0; i < 32; i++)
		sum += out[i];
	test_near(sum, 16, 1e-4f);
	test_near(out[1], 1 / (1 + expf(-1)), 1e-5f);
}

/* The payload declares [1, 6, 6, 2]; the expected results are ExecuTorch's. */
static void test_windows_larger_than_their_input(void **state)
{
	static const struct {
		uint8_t kind, padding, kernel, stride, dilation;
		int32_t height, width, out_height, out_width;
		float expected[4];
	} cases[] = {
		{ MX_AVERAGE, 0, 3, 2, 1, 1, 1, 1, 1, { -1.2222222f, 0.3333333f } },
		{ MX_AVERAGE, 0, 3, 2, 1, 2, 2, 1, 1, { -1.5555556f, -0.4444444f } },
		{ MX_AVERAGE, 0, 3, 2, 1, 6, 2, 2, 1, { -1.5555556f, 0.1111111f, 1.5555556f, 0.6666667f } },
		/* with padding: the average of the elements inside alone */
		{ MX_AVERAGE, 1, 5, 2, 1, 1, 1, 1, 1, { -11, 3 } },
		{ MX_AVERAGE, 1, 5, 2, 1, 1, 6, 1, 2, { -3.5f, -1, -0.6f, -0.4f } },
		{ MX_AVERAGE, 1, 5, 2, 1, 2, 2, 1, 1, { -3.5f, -1 } },
		{ MX_MAX_POOL, 0, 3, 2, 1, 1, 1, 1, 1, { -11, 3 } },
		{ MX_MAX_POOL, 0, 3, 2, 1, 2, 3, 1, 1, { 9, 8 } },
		{ MX_MAX_POOL, 0, 3, 2, 1, 6, 2, 2, 1, { 9, 8, 11, 10 } },
		{ MX_MAX_POOL, 1, 5, 2, 1, 1, 6, 1, 2, { 4, 8, 9, 8 } },
		{ MX_MAX_POOL, 0, 3, 1, 2, 2, 2, 1, 1, { -11, 3 } },
		{ MX_MAX_POOL, 0, 3, 1, 2, 6, 2, 2, 1, { 9, 3, -1, 10 } },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t pad = cases[i].padding, kernel = cases[i].kernel, stride = cases[i].stride,
			 dilation = cases[i].dilation;
		struct et_xnn_node node = { .numbers = { pad, pad, pad, pad, kernel, kernel, stride, stride, dilation,
						    dilation },
			.min = -INFINITY,
			.max = INFINITY };
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		mx_init(&mk);
		node.inputs[0] = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 6, 6, 2), .input = 1 });
		node.outputs[0] = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 2, 2), .output = 2 });
		mx_node(&mk, cases[i].kind, &node);
		ARG(&args[0], ET_FLOAT32, ET_DYNAMIC_BOUND, 1, cases[i].height, cases[i].width, 2);
		ARG(&args[1], ET_FLOAT32, ET_DYNAMIC_BOUND, 1, 2, 2, 2);
		for (int32_t k = 0; k < cases[i].height * cases[i].width * 2; k++)
			args[0].f32[k] = (float)(k * 37 % 23) - 11;
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		assert_int_equal(args[1].sizes[1], cases[i].out_height);
		assert_int_equal(args[1].sizes[2], cases[i].out_width);
		for (int32_t k = 0; k < cases[i].out_height * cases[i].out_width * 2; k++)
			test_near(args[1].f32[k], cases[i].expected[k], 1e-5f);
	}
}

/* XNNPACK would read beyond the image if no element of a window lies inside, or if the last window along the axis
 * without dilation begins behind it: an override does these (max_pool.c). */
static void test_dilated_windows_of_nothing(void **state)
{
	static const struct {
		uint32_t padding, kernel, stride, dilation, width_dilation;
		int32_t size, out_size;
	} cases[] = {
		{ 1, 3, 1, 3, 3, 2, 1 }, /* at -1, 2 and 5 */
		{ 1, 3, 1, 3, 3, 3, 1 },
		{ 1, 2, 1, 3, 3, 2, 1 },
		{ 1, 2, 1, 3, 3, 6, 5 },
		{ 1, 2, 1, 1, 2, 4, 5 }, /* downwards: the fifth, at 3 and 4, takes 4 for 4 */
		{ 1, 2, 2, 1, 2, 4, 3 },
		{ 1, 3, 1, 1, 2, 4, 4 },
		{ 2, 5, 3, 4, 4, 9, 1 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t pad = cases[i].padding, kernel = cases[i].kernel, stride = cases[i].stride,
			 size = (uint32_t)cases[i].size, out_size = (uint32_t)cases[i].out_size;
		uint32_t reach = (kernel - 1) * cases[i].width_dilation + 1, padded = size + 2 * pad;
		uint32_t out_width = padded < reach ? 1 : (padded - reach) / stride + 1;
		struct et_xnn_node node = { .numbers = { pad, pad, pad, pad, kernel, kernel, stride, stride,
						    cases[i].dilation, cases[i].width_dilation },
			.min = -INFINITY,
			.max = INFINITY };
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		mx_init(&mk);
		node.inputs[0] = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, size, size, 1), .input = 1 });
		node.outputs[0] = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, out_size, out_width, 1), .output = 2 });
		mx_node(&mk, MX_MAX_POOL, &node);
		ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, (int32_t)size, (int32_t)size, 1);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, (int32_t)out_size, (int32_t)out_width, 1);
		for (uint32_t k = 0; k < size * size; k++)
			args[0].f32[k] = -1;
		enum et_status status = test_run_once(&mk, args, 2, &diag);
		test_ok(status, &diag);
		for (uint32_t k = 0; k < out_size * out_width; k++)
			test_near(args[1].f32[k], -1, 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(unary),
		TEST(parameters_that_are_nan),
		TEST(odd_limits),
		TEST(binary),
		TEST(concatenate),
		TEST(matmul),
		TEST(movement),
		TEST(windows),
		TEST(windows_larger_than_their_input),
		TEST(dilated_windows_of_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
