/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters and biases of fp16 give the same results as fp32 ones with the same numbers. Also layers that are fp16
 * throughout, rows of fp16 quantized at run time, and filters that no convolution may be given. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/ukernels/depthwise.h"
#include "delegates/xnnpack/ukernels/gemm.h"
#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/partition.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { SIZE = 4, MOST = 512, MOST_TAPS = 2048 };

static const struct layer {
	uint8_t node;
	uint32_t group_in, group_out, groups, kernel, stride, pad;
} layers[] = {
	{ MX_CONV, 3, 5, 1, 2, 1, 0 },
	{ MX_CONV, 2, 3, 2, 1, 1, 0 },
	{ MX_CONV, 1, 1, 1, 3, 1, 0 },
	{ MX_CONV, 1, 1, 1, 1, 1, 0 },
	{ MX_CONV, 3, 70, 1, 3, 2, 1 },
	{ MX_CONV, 7, 19, 1, 3, 1, 1 },
	{ MX_CONV, 9, 50, 1, 1, 2, 0 },
	{ MX_CONV, 9, 20, 1, 1, 1, 0 },
	{ MX_DEPTHWISE, 1, 1, 4, 3, 1, 0 },
	{ MX_DEPTHWISE, 1, 2, 3, 2, 1, 0 },
	{ MX_DEPTHWISE, 1, 1, 20, 3, 1, 1 },
	{ MX_DECONV, 3, 4, 1, 3, 1, 0 },
	{ MX_LINEAR, 6, 5, 1, 1, 1, 0 },
	{ MX_LINEAR, 31, 32, 1, 1, 1, 0 },
};

/* Small multiples of 1/4, in datatype @type. */
static uint32_t make_constant(struct make_xnn *mk, uint32_t type, const uint32_t *dims, uint32_t n_dims)
{
	static float floats[MOST_TAPS];
	static uint16_t fp16[MOST_TAPS];
	struct mx_value value = { .type = type, .n_dims = n_dims };
	size_t n = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		n *= value.dims[i] = dims[i];
	assert_true(n <= MOST_TAPS);
	for (size_t i = 0; i < n; i++) {
		static const uint16_t quarters[] = { 0, 0x3400, 0x3800, 0x3a00, 0x3c00, 0x3d00, 0x3e00 };
		size_t quarter = (i * 5 + n) % 7;
		floats[i] = (i % 3 ? 0.25f : -0.25f) * (float)quarter;
		fp16[i] = quarters[quarter] | (i % 3 ? 0 : 0x8000);
	}
	value.constant = type == ET_XNN_FP32 ? mx_constant(mk, floats, n * sizeof(*floats))
					     : mx_constant(mk, fp16, n * sizeof(*fp16));
	return mx_value(mk, &value);
}

static uint32_t outer_of(const struct layer *l)
{
	return l->node == MX_LINEAR   ? SIZE
	       : l->node == MX_DECONV ? SIZE + l->kernel - 1
				      : (SIZE + 2 * l->pad - l->kernel) / l->stride + 1;
}

static void make(struct make_xnn *mk, const struct layer *l, uint32_t type, uint32_t filter_type, uint32_t bias_type)
{
	bool is_linear = l->node == MX_LINEAR, is_depthwise = l->node == MX_DEPTHWISE;
	uint32_t n_in = l->group_in * l->groups, n_out = l->group_out * l->groups, k = l->kernel, pad = l->pad,
		 outer = outer_of(l);
	const uint32_t filter[] = { is_depthwise ? 1 : n_out, k, k, is_depthwise ? n_out : l->group_in },
		       linear[] = { n_out, n_in };
	mx_init(mk);
	uint32_t x = mx_value(mk, &(struct mx_value){ .type = type, MX_DIMS(1, SIZE, SIZE, n_in), .input = 1 });
	uint32_t weights = make_constant(mk, filter_type, is_linear ? linear : filter, is_linear ? 2 : 4);
	uint32_t bias = bias_type ? make_constant(mk, bias_type, &n_out, 1) : ET_XNN_NONE;
	uint32_t y = mx_value(mk, &(struct mx_value){ .type = type, MX_DIMS(1, outer, outer, n_out), .output = 2 });
	mx_node(mk, l->node,
		&(struct et_xnn_node){ .inputs = { x, weights, bias },
			.outputs = { y },
			.numbers = { pad, pad, pad, pad, k, k, l->stride, l->stride, 1, 1, l->group_in, l->group_out,
				l->groups } });
}

static enum et_status run(const struct layer *l, uint32_t type, uint32_t filter_type, uint32_t bias_type,
	struct arg *out, struct et_diag *diag)
{
	struct make_xnn mk;
	static struct arg args[2];
	uint32_t n_in = l->group_in * l->groups, n_out = l->group_out * l->groups, outer = outer_of(l);
	uint8_t scalar = type == ET_XNN_FP32 ? ET_FLOAT32 : ET_FLOAT16;
	make(&mk, l, type, filter_type, bias_type);
	ARG(&args[0], scalar, ET_STATIC, 1, SIZE, SIZE, (int32_t)n_in);
	ARG(&args[1], scalar, ET_STATIC, 1, (int32_t)outer, (int32_t)outer, (int32_t)n_out);
	for (uint32_t i = 0; i < SIZE * SIZE * n_in; i++) {
		if (type == ET_XNN_FP32)
			args[0].f32[i] = (float)(i % 5) - 2;
		else
			args[0].f16[i] = (uint16_t[]){ 0xc000, 0xbc00, 0, 0x3c00, 0x4000 }[i % 5];
	}
	enum et_status status = test_run_once(&mk, args, 2, diag);
	memcpy(out->f32, args[1].f32, sizeof(out->f32));
	return status;
}

/* Every layer of fp16 or fp32, with a filter and a bias of fp16 or fp32. */
static void test_weights_of_fp16(void **state)
{
	static const uint32_t types[] = { ET_XNN_FP32, ET_XNN_FP16 };
	static struct arg as_floats, as_fp16;
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
		for (size_t j = 0; j < 6; j++) {
			struct et_diag diag = { 0 };
			uint32_t type = types[j % 2], bias = j / 2 ? types[j / 2 - 1] : 0;
			memset(&as_floats, 0, sizeof(as_floats));
			memset(&as_fp16, 0, sizeof(as_fp16));
			test_ok(run(&layers[i], type, ET_XNN_FP32, bias ? ET_XNN_FP32 : 0, &as_floats, &diag), &diag);
			test_ok(run(&layers[i], type, ET_XNN_FP16, bias, &as_fp16, &diag), &diag);
			assert_memory_equal(as_floats.f32, as_fp16.f32, sizeof(as_floats.f32));
			bool is_any = false;
			for (size_t k = 0; k < MOST; k++)
				is_any = is_any || as_floats.f32[k] != 0;
			assert_true(is_any);
		}
}

/* Sums of quarters are exact in fp16, too, so the result does not depend on the kernel. */
static void test_layers_of_fp16(void **state)
{
	static struct arg as_floats, as_fp16;
	et_xnn_override_set_least_work(0);
	for (size_t i = 0; i < 2 * sizeof(layers) / sizeof(*layers); i++) {
		const struct layer *l = &layers[i / 2];
		uint32_t n = outer_of(l) * outer_of(l) * l->group_out * l->groups;
		bool has_bias = i % 2;
		struct et_diag diag = { 0 };
		test_ok(run(l, ET_XNN_FP32, ET_XNN_FP32, has_bias ? ET_XNN_FP32 : 0, &as_floats, &diag), &diag);
		test_ok(run(l, ET_XNN_FP16, ET_XNN_FP16, has_bias ? ET_XNN_FP16 : 0, &as_fp16, &diag), &diag);
		for (size_t j = 0; j < n; j++)
			assert_true(et_xnn_from_fp16(as_fp16.f16[j]) == as_floats.f32[j]);
	}
}

/* If the processor has fp16 arithmetic, an override does fp16 layers of any size, except those that XNNPACK does as
 * depthwise; and depthwise convolutions with usual filters and enough channels, or with several outputs for each
 * channel. */
static void test_which_fp16_layers_are_overridden(void **state)
{
	et_xnn_override_set_least_work(0);
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
		const struct layer *l = &layers[i];
		bool is_ours = l->node == MX_DEPTHWISE && l->group_out == 1
				       ? et_depthwise_fp16() && l->groups >= 16
				       : et_xnn_gemm_fp16() && (l->group_in > 1 || l->group_out > 1);
		struct make_xnn mk;
		struct test_session s = { 0 };
		struct et_diag diag = { 0 };
		size_t n_bytes;
		make(&mk, l, ET_XNN_FP16, ET_XNN_FP32, ET_XNN_FP32);
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		test_ok(test_session_begin(&s, bytes, n_bytes, 2, 1, &diag), &diag);
		const struct et_xnn_model *model = et_direct_model(s.model)->model;
		assert_int_equal(model->partitions.partitions[0].override != NULL, is_ours);
		test_session_end(&s);
		free(bytes);
	}
}

/* One row's products with 8-bit filters, with rows quantized as defined: the scale is rounded to fp32 only, and the
 * zero point is at the end of the range that it represents better. */
static void plain_rows(const float *x, const int8_t *taps, uint32_t n_in, uint32_t n_out, double *ret)
{
	float least = 0, most = 0;
	for (uint32_t i = 0; i < n_in; i++) {
		least = fminf(least, x[i]);
		most = fmaxf(most, x[i]);
	}
	float to_steps = 255 / (most - least);
	float below = -128 + least * to_steps, above = 127 + most * to_steps;
	float zero = below + above > 0 ? -128 - least * to_steps : 127 - most * to_steps;
	long zero_point = lrintf(fminf(fmaxf(zero, -128), 127));
	for (uint32_t j = 0; j < n_out; j++) {
		long sum = 0;
		for (uint32_t i = 0; i < n_in; i++) {
			long step = lrintf(x[i] * to_steps) + zero_point;
			step = step < -128 ? -128 : step > 127 ? 127 : step;
			sum += (step - zero_point) * taps[j * n_in + i];
		}
		ret[j] = (double)sum / (double)to_steps;
	}
}

/* Also with scales so small that fp16 cannot hold their reciprocal, and with large scales. */
static void test_rows_of_fp16(void **state)
{
	enum { IN = 64, OUT = 4, ROWS = 4, N_DRAWS = 8 };
	static const float sizes[ROWS] = { 1, 0.0015f, 7, 3000 };
	static int8_t taps[OUT * IN];
	static const float scales[OUT] = { 1, 1, 1, 1 };
	static float x[ROWS * IN];
	for (uint32_t i = 0; i < OUT * IN; i++)
		taps[i] = (int8_t)test_draw(256);
	for (uint32_t draw = 0; draw < N_DRAWS; draw++) {
		struct make_xnn mk;
		static struct arg args[2];
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t in = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP16, MX_DIMS(ROWS, IN), .input = 1 }),
			 rows = mx_value(&mk,
				 &(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(ROWS, IN), .n_row_dims = 1 }),
			 filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT8,
							MX_DIMS(OUT, IN),
							.constant = mx_constant(&mk, taps, sizeof(taps)),
							.scales = scales,
							.n_scales = OUT }),
			 out = test_plain(&mk, 0, 2, ROWS, OUT);
		mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { in }, .outputs = { rows } });
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { rows, filter, ET_XNN_NONE },
				.outputs = { out },
				.min = -INFINITY,
				.max = INFINITY });
		ARG(&args[0], ET_FLOAT16, ET_STATIC, ROWS, IN);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, ROWS, OUT);
		test_draw_floats(x, ROWS * IN);
		for (uint32_t i = 0; i < ROWS * IN; i++) {
			args[0].f16[i] = et_float_to_fp16(x[i] * sizes[i / IN]);
			x[i] = et_xnn_from_fp16(args[0].f16[i]);
		}
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		for (uint32_t i = 0; i < ROWS; i++) {
			double expected[OUT];
			plain_rows(x + i * IN, taps, IN, OUT, expected);
			for (uint32_t j = 0; j < OUT; j++)
				test_near(args[1].f32[i * OUT + j], (float)expected[j], sizes[i] * 0.004f);
		}
	}
}

/* XNNPACK asserts that a convolution's filter has a datatype that it supports. */
static void test_filters_of_unsupported_datatypes(void **state)
{
	static const uint32_t inputs[] = { ET_XNN_FP32, ET_XNN_FP16, ET_XNN_QINT8, ET_XNN_QUINT8 };
	static const uint32_t filters[] = { ET_XNN_FP16, ET_XNN_FP32, ET_XNN_INT32, ET_XNN_QINT32 };
	for (size_t i = 0; i < 4 * 4 * 3; i++) {
		static const uint8_t nodes[] = { MX_CONV, MX_DEPTHWISE, MX_DECONV };
		static const int32_t zeros[4];
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		uint32_t input = inputs[i % 4], filter = filters[i / 4 % 4];
		mx_init(&mk);
		struct mx_value x = {
			.type = input, MX_DIMS(1, 2, 2, 1), .input = 1, .scale = input >= ET_XNN_QINT8 ? 1 : 0
		};
		uint32_t in = mx_value(&mk, &x);
		x.input = 0;
		x.output = 2;
		uint32_t out = mx_value(&mk, &x);
		uint32_t weights = mx_value(&mk, &(struct mx_value){ .type = filter,
							 MX_DIMS(1, 1, 1, 1),
							 .scale = filter == ET_XNN_QINT32 ? 1 : 0,
							 .constant = mx_constant(&mk, zeros, sizeof(zeros)) });
		mx_node(&mk, nodes[i / 16],
			&(struct et_xnn_node){ .inputs = { in, weights, ET_XNN_NONE },
				.outputs = { out },
				.numbers = { 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1 } });
		uint8_t scalar = input == ET_XNN_FP32    ? ET_FLOAT32
				 : input == ET_XNN_FP16  ? ET_FLOAT16
				 : input == ET_XNN_QINT8 ? ET_INT8
							 : ET_UINT8;
		ARG(&args[0], scalar, ET_STATIC, 1, 2, 2, 1);
		ARG(&args[1], scalar, ET_STATIC, 1, 2, 2, 1);
		enum et_status status = test_run_once(&mk, args, 2, &diag);
		if (input == ET_XNN_FP32 && filter <= ET_XNN_FP16)
			test_ok(status, &diag);
		else if (input >= ET_XNN_QINT8 || filter > ET_XNN_FP16)
			assert_int_equal(status, ET_E_NOT_SUPPORTED);
	}
}

/* Every fp16 number survives the conversion to fp32 and back; numbers between two go to the nearer one. */
static void test_conversions(void **state)
{
	for (uint32_t fp16 = 0; fp16 <= UINT16_MAX; fp16++) {
		bool is_nan = (fp16 & 0x7c00) == 0x7c00 && (fp16 & 0x3ff);
		float value = et_xnn_from_fp16((uint16_t)fp16);
		if (is_nan)
			assert_true(value != value);
		else
			assert_int_equal(et_float_to_fp16(value), fp16);
		if ((fp16 & 0x7fff) >= 0x7bff)
			continue;
		float next = et_xnn_from_fp16((uint16_t)(fp16 + 1)), middle = value + (next - value) / 2;
		assert_int_equal(et_float_to_fp16(middle), fp16 + (fp16 & 1));
		assert_int_equal(et_float_to_fp16(value + (next - value) / 4), fp16);
		assert_int_equal(et_float_to_fp16(value + (next - value) * 3 / 4), fp16 + 1);
	}
	assert_true(et_xnn_from_fp16(0x3c00) == 1 && et_xnn_from_fp16(0xc100) == -2.5f);
	assert_true(et_xnn_from_fp16(1) == 0x1p-24f && et_xnn_from_fp16(0x7bff) == 65504);
	assert_int_equal(et_float_to_fp16(65519), 0x7bff);
	assert_int_equal(et_float_to_fp16(65520), 0x7c00);
	assert_int_equal(et_float_to_fp16(-1e30f), 0xfc00);
	assert_int_equal(et_float_to_fp16(0x1p-26f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_weights_of_fp16, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_layers_of_fp16, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_which_fp16_layers_are_overridden, test_set_up, test_tear_down),
		cmocka_unit_test(test_conversions),
		cmocka_unit_test_setup_teardown(test_rows_of_fp16, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_filters_of_unsupported_datatypes, test_set_up, test_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
