/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes that no exported program in tests/models has: linear layers with 4-bit and 8-bit filters, the old form
 * of dynamic quantization, fp16, indexes. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/support/test_args.h"
#include "runtime/base/checked.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_linear_in_every_datatype(void **state)
{
	static const uint32_t filters[] = { ET_XNN_FP32, ET_XNN_QCINT8, ET_XNN_QCINT4, ET_XNN_QBINT4 };
	/* every number of rows: kernels compute many rows at a time, and some do not handle the rest */
	for (uint32_t i = 0; i < 4 * N_ROWS; i++) {
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		uint32_t filter = filters[i / N_ROWS];
		uint32_t n_rows = 1 + i % N_ROWS;
		test_make_linear(&mk, filter, false);
		ARG(&args[0], ET_FLOAT32, ET_STATIC, (int32_t)n_rows, N_IN);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, (int32_t)n_rows, N_OUT);
		test_fill_inputs(args[0].f32);
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		/* a row's values are rounded to 1/255 of its range: 64 of them, times weights up to 0.56 */
		test_check_linear(args[0].f32, args[1].f32, n_rows, filter == ET_XNN_FP32 ? 1e-4f : 0.15f);
	}
}

static void test_old_dynamic_quantization(void **state)
{
	struct make_xnn mk;
	struct arg args[2];
	struct et_diag diag = { 0 };
	test_make_linear(&mk, ET_XNN_QCINT8, true);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, N_ROWS, N_IN);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, N_ROWS, N_OUT);
	test_fill_inputs(args[0].f32);
	test_ok(test_run_once(&mk, args, 2, &diag), &diag);
	test_check_linear(args[0].f32, args[1].f32, N_ROWS, 0.15f);
}

/* An 8-bit convolution to 17 elements, of which kernels compute 16 at a time, with more channels than they take at
 * a time. */
static void test_one_element_is_left(void **state)
{
	enum { IN = 128, OUT = 2, WIDTH = 14, PAD = 4, KERNEL = 2, N_TAPS = KERNEL * IN };
	enum { N_OUT_WIDTH = PAD + WIDTH - KERNEL + 1 };
	static int8_t taps[OUT * N_TAPS];
	static const float scales[OUT] = { 1, 0.5f };
	struct make_xnn mk;
	struct arg args[2];
	struct et_diag diag = { 0 };
	for (int i = 0; i < OUT * N_TAPS; i++)
		taps[i] = (int8_t)(i * 5 % 11 + i / IN % 2 * 3 - 6);
	mx_init(&mk);
	uint32_t in = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(1, 1, WIDTH, IN), .input = 1, .scale = 1 });
	uint32_t filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT8,
						MX_DIMS(OUT, 1, KERNEL, IN),
						.constant = mx_constant(&mk, taps, sizeof(taps)),
						.scales = scales,
						.n_scales = OUT });
	uint32_t out = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(1, 1, N_OUT_WIDTH, OUT), .output = 2, .scale = 32 });
	mx_node(&mk, MX_CONV,
		&(struct et_xnn_node){ .inputs = { in, filter, ET_XNN_NONE },
			.outputs = { out },
			.numbers = { 0, 0, 0, PAD, 1, KERNEL, 1, 1, 1, 1, IN, OUT, 1 } });
	ARG(&args[0], ET_INT8, ET_STATIC, 1, 1, WIDTH, IN);
	ARG(&args[1], ET_INT8, ET_STATIC, 1, 1, N_OUT_WIDTH, OUT);
	int8_t *x = (int8_t *)args[0].f32, *y = (int8_t *)args[1].f32;
	for (int i = 0; i < WIDTH * IN; i++)
		x[i] = (int8_t)(i % 7 - 2 + i / IN);
	test_ok(test_run_once(&mk, args, 2, &diag), &diag);
	for (int i = 0; i < N_OUT_WIDTH * OUT; i++) {
		int first = i / OUT - PAD, sum = 0;
		for (int j = 0; j < N_TAPS; j++) {
			int column = first + j / IN;
			if (column >= 0 && column < WIDTH)
				sum += x[column * IN + j % IN] * taps[i % OUT * N_TAPS + j];
		}
		assert_int_equal(y[i], lrintf((float)sum * scales[i % OUT] / 32));
	}
}

/* 4-bit weights for statically quantized 8-bit activations, in two layers: with a bias, and without. */
static void check_static_nibbles(bool bias_has_one_scale)
{
	enum { IN = 34, OUT = 5, ROWS = 3, N = ROWS * OUT };
	static uint8_t nibbles[OUT * IN / 2];
	static const float scales[OUT] = { 1, 0.5f, 0.25f, 2, 1 };
	static const int32_t bias[OUT] = { 40, -400, 300, 0, 7 };
	struct make_xnn mk;
	struct arg args[3];
	struct et_diag diag = { 0 };
	for (int i = 0; i < OUT * IN / 2; i++)
		nibbles[i] = (uint8_t)(i * 37 + i / 7 * 11);
	mx_init(&mk);
	uint32_t in = mx_value(&mk,
		&(struct mx_value){
			.type = ET_XNN_QINT8, MX_DIMS(ROWS, IN), .input = 1, .scale = 0.5f, .zero_point = -3 });
	uint32_t filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT4,
						MX_DIMS(OUT, IN),
						.constant = mx_constant(&mk, nibbles, sizeof(nibbles)),
						.scales = scales,
						.n_scales = OUT });
	float bias_scales[OUT];
	for (int i = 0; i < OUT; i++)
		bias_scales[i] = scales[i] * 0.5f;
	struct mx_value of_bias = {
		.type = ET_XNN_QINT32, MX_DIMS(OUT), .constant = mx_constant(&mk, bias, sizeof(bias)), .scale = 1
	};
	if (!bias_has_one_scale) {
		of_bias.type = ET_XNN_QCINT32;
		of_bias.scale = 0;
		of_bias.scales = bias_scales;
		of_bias.n_scales = OUT;
	}
	uint32_t biases = mx_value(&mk, &of_bias);
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QINT8,
						     MX_DIMS(ROWS, OUT),
						     .output = 2 + i,
						     .scale = 16,
						     .zero_point = 5 });
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){
				.inputs = { in, filter, i ? ET_XNN_NONE : biases }, .outputs = { out } });
	}
	ARG(&args[0], ET_INT8, ET_STATIC, ROWS, IN);
	ARG(&args[1], ET_INT8, ET_STATIC, ROWS, OUT);
	ARG(&args[2], ET_INT8, ET_STATIC, ROWS, OUT);
	int8_t *x = (int8_t *)args[0].f32;
	for (int i = 0; i < ROWS * IN; i++)
		x[i] = (int8_t)(i * 29 % 91 - 45);
	test_ok(test_run_once(&mk, args, 3, &diag), &diag);
	for (int i = 0; i < 2 * N; i++) {
		int row = i % N / OUT, column = i % OUT, sum = i < N ? bias[column] : 0;
		for (int j = 0; j < IN; j++) {
			uint8_t both = nibbles[(column * IN + j) / 2];
			sum += (x[row * IN + j] + 3) * ((j % 2 ? both >> 4 : both & 15) - 8);
		}
		float real = (float)sum * scales[column] * 0.5f / 16 + 5;
		test_near(((const int8_t *)args[1 + i / N].f32)[i % N], fminf(fmaxf(real, -128), 127), 0.51f);
	}
}

static void test_nibbles_for_static_quantization(void **state)
{
	for (int i = 0; i < 2; i++)
		check_static_nibbles(i);
}

/* Transposed 4-bit weights, for rows whose scale is 1. */
static void test_nibbles_transposed(void **state)
{
	enum { IN = 33, OUT = 6, ROWS = 3 };
	static uint8_t nibbles[IN * OUT / 2];
	static const float scales[OUT] = { 1, 0.5f, 0.25f, 2, 1, 4 };
	struct make_xnn mk;
	struct arg args[2];
	struct et_diag diag = { 0 };
	for (int i = 0; i < IN * OUT / 2; i++)
		nibbles[i] = (uint8_t)(i * 37 + i / 7 * 11);
	mx_init(&mk);
	uint32_t in = test_plain(&mk, 1, 0, ROWS, IN), out = test_plain(&mk, 0, 2, ROWS, OUT);
	uint32_t rows = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(ROWS, IN), .n_row_dims = 1 });
	uint32_t filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT4,
						MX_DIMS(IN, OUT),
						.constant = mx_constant(&mk, nibbles, sizeof(nibbles)),
						.scales = scales,
						.n_scales = OUT,
						.channel_dim = 1 });
	mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { in }, .outputs = { rows } });
	mx_node(&mk, MX_LINEAR,
		&(struct et_xnn_node){ .inputs = { rows, filter, ET_XNN_NONE },
			.outputs = { out },
			.flags = XNN_FLAG_TRANSPOSE_WEIGHTS,
			.min = -INFINITY,
			.max = INFINITY });
	ARG(&args[0], ET_FLOAT32, ET_STATIC, ROWS, IN);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, ROWS, OUT);
	for (int i = 0; i < ROWS * IN; i++)
		args[0].f32[i] = (float)(i % IN == 0 ? -128 : i % IN == 1 ? 127 : i * 29 % 91 - 45);
	test_ok(test_run_once(&mk, args, 2, &diag), &diag);
	for (int i = 0; i < ROWS * OUT; i++) {
		float sum = 0;
		for (int j = 0; j < IN; j++) {
			int at = j * OUT + i % OUT, both = nibbles[at / 2];
			sum += args[0].f32[i / OUT * IN + j] * (float)((at % 2 ? both >> 4 : both & 15) - 8);
		}
		test_near(args[1].f32[i], sum * scales[i % OUT], 0.01f);
	}
}

/* Rows with an odd number of 4-bit numbers; the last nibble is @filling, which must stand for 0. */
static enum et_status run_odd_nibbles(uint8_t filling, size_t n_bytes)
{
	enum { IN = 33, OUT = 5, ROWS = 3, STRIDE = (IN + 1) / 2 };
	static uint8_t nibbles[OUT * STRIDE];
	static const float scales[OUT] = { 1, 0.5f, 0.25f, 2, 1 };
	struct make_xnn mk;
	struct arg args[2];
	struct et_diag diag = { 0 };
	for (int i = 0; i < OUT * STRIDE; i++)
		nibbles[i] = (uint8_t)(i * 37 + i / 7 * 11);
	for (int i = STRIDE - 1; i < OUT * STRIDE; i += STRIDE)
		nibbles[i] = (uint8_t)((nibbles[i] & 15) | filling << 4);
	mx_init(&mk);
	uint32_t in = test_plain(&mk, 1, 0, ROWS, IN), out = test_plain(&mk, 0, 2, ROWS, OUT);
	uint32_t rows = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(ROWS, IN), .n_row_dims = 1 });
	uint32_t filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT4,
						MX_DIMS(OUT, IN),
						.constant = mx_constant(&mk, nibbles, n_bytes),
						.scales = scales,
						.n_scales = OUT });
	mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { in }, .outputs = { rows } });
	mx_node(&mk, MX_LINEAR,
		&(struct et_xnn_node){ .inputs = { rows, filter, ET_XNN_NONE },
			.outputs = { out },
			.min = -INFINITY,
			.max = INFINITY });
	ARG(&args[0], ET_FLOAT32, ET_STATIC, ROWS, IN);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, ROWS, OUT);
	for (int i = 0; i < ROWS * IN; i++)
		args[0].f32[i] = (float)(i % IN == 0 ? -128 : i % IN == 1 ? 127 : i * 29 % 91 - 45);
	enum et_status status = test_run_once(&mk, args, 2, &diag);
	for (int i = 0; status == ET_OK && i < ROWS * OUT; i++) {
		float sum = 0;
		for (int j = 0; j < IN; j++) {
			int both = nibbles[i % OUT * STRIDE + j / 2];
			sum += args[0].f32[i / OUT * IN + j] * (float)((j % 2 ? both >> 4 : both & 15) - 8);
		}
		test_near(args[1].f32[i], sum * scales[i % OUT], 0.01f);
	}
	return status;
}

static void test_odd_nibbles(void **state)
{
	assert_int_equal(run_odd_nibbles(8, 5 * 17), ET_OK);
	assert_int_equal(run_odd_nibbles(9, 5 * 17), ET_E_INVALID_PROGRAM);
	assert_int_equal(run_odd_nibbles(8, 5 * 17 - 1), ET_E_INVALID_PROGRAM);
}

static void never_drop(void *self, const uint8_t *bytes, uint64_t n_bytes)
{
	fail_msg("%zu bytes of a payload are dropped", (size_t)n_bytes);
}

/* A constant that was remade from bytes of the payload is not dropped: it has no pages of its own there. */
static void test_nibbles_in_a_payload_stay(void **state)
{
	enum { IN = 8, OUT = 2 };
	static const uint8_t nibbles[OUT * IN / 2] = { 0x98 };
	static const float scales[OUT] = { 1, 1 };
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	mx_init(&mk);
	struct mx_value value = { .type = ET_XNN_QINT8, MX_DIMS(1, IN), .input = 1, .scale = 1 };
	uint32_t in = mx_value(&mk, &value);
	uint32_t filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT4,
						MX_DIMS(OUT, IN),
						.constant = mx_constant(&mk, nibbles, sizeof(nibbles)),
						.scales = scales,
						.n_scales = OUT });
	uint32_t out = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(1, OUT), .output = 2, .scale = 1 });
	mx_node(&mk, MX_LINEAR, &(struct et_xnn_node){ .inputs = { in, filter, ET_XNN_NONE }, .outputs = { out } });
	struct inferd_delegate_payload source = { .struct_size = sizeof(source), .n_args = 2 };
	uint8_t *bytes = mx_finish(&mk, &source.n_bytes);
	source.bytes = source.file = bytes;
	source.n_file_bytes = source.n_bytes;
	source.drop = never_drop;
	struct et_xnn_weights *weights = et_xnn_weights_new(&test_allocator, NULL, "");
	struct et_xnn_model *model;
	struct inferd_delegate_model_info info = { .struct_size = sizeof(info) };
	struct et_xnn_input_slices slices;
	struct et_xnn_prebuilt_cache prebuilt_cache;
	et_xnn_prebuilt_cache_init(&prebuilt_cache, &test_allocator);
	test_ok(et_xnn_compile(&model, &slices, &source, 0, weights, &prebuilt_cache, NULL, SIZE_MAX, &test_allocator,
			&info, &diag),
		&diag);
	et_xnn_input_slices_deinit(&slices, &test_allocator);
	et_xnn_model_free(model);
	et_xnn_prebuilt_cache_deinit(&prebuilt_cache);
	et_xnn_weights_free(weights, NULL);
	free(bytes);
}

static void test_fp16_precision(void **state)
{
	struct make_xnn mk;
	struct arg args[3];
	struct et_diag diag = { 0 };
	mx_init(&mk);
	uint32_t values[3];
	for (uint32_t i = 0; i < 3; i++)
		values[i] = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP16,
						  MX_DIMS(4),
						  .input = i < 2 ? i + 1 : 0,
						  .output = i == 2 ? 3 : 0 });
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { values[0], values[1] }, .outputs = { values[2] } });
	for (uint32_t i = 0; i < 3; i++)
		ARG(&args[i], ET_FLOAT16, ET_STATIC, 4);
	for (uint32_t i = 0; i < 4; i++) {
		args[0].f16[i] = 0x3c00; /* 1 */
		args[1].f16[i] = 0x4000; /* 2 */
	}
	test_ok(test_run_once(&mk, args, 3, &diag), &diag);
	assert_int_equal(args[2].f16[3], 0x4200); /* 3 */
}

/* A whole number of at most eleven bits. */
static uint16_t half_of(int number)
{
	unsigned sign = number < 0 ? 0x8000 : 0, size = (unsigned)abs(number), exponent = 0;
	while (size >> (exponent + 1))
		exponent++;
	return (uint16_t)(size ? sign | (exponent + 15) << 10 | ((size << (10 - exponent)) & 1023) : 0);
}

/* An fp16 linear layer with one row and with several, wider than a tile. Whole numbers, so the sums are exact. */
static void test_fp16_products(void **state)
{
	enum { ROWS = 7, IN = 21, OUT = 70 };
	uint16_t filter[OUT * IN], bias[OUT];
	for (int i = 0; i < OUT * IN; i++)
		filter[i] = half_of(i * 7 % 5 - 2);
	for (int i = 0; i < OUT; i++)
		bias[i] = half_of(i - 20);
	for (uint32_t rows = 1; rows <= ROWS; rows += ROWS - 1) {
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t in = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP16, MX_DIMS(rows, IN), .input = 1 }),
			 weights = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP16,
							 MX_DIMS(OUT, IN),
							 .constant = mx_constant(&mk, filter, sizeof(filter)) }),
			 biases = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP16,
							MX_DIMS(OUT),
							.constant = mx_constant(&mk, bias, sizeof(bias)) }),
			 out = mx_value(&mk,
				 &(struct mx_value){ .type = ET_XNN_FP16, MX_DIMS(rows, OUT), .output = 2 });
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { in, weights, biases },
				.outputs = { out },
				.min = -INFINITY,
				.max = INFINITY });
		ARG(&args[0], ET_FLOAT16, ET_STATIC, (int32_t)rows, IN);
		ARG(&args[1], ET_FLOAT16, ET_STATIC, (int32_t)rows, OUT);
		for (uint32_t i = 0; i < rows * IN; i++)
			args[0].f16[i] = half_of((int)(i * 5 % 7) - 3);
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		for (uint32_t i = 0; i < rows * OUT; i++) {
			int sum = (int)(i % OUT) - 20;
			for (uint32_t k = 0; k < IN; k++)
				sum += ((int)((i / OUT * IN + k) * 5 % 7) - 3) *
				       ((int)((i % OUT * IN + k) * 7 % 5) - 2);
			assert_int_equal(args[1].f16[i], half_of(sum));
		}
	}
}

/* A bias may be [n] or [1, n]. A bias with another last dimension or several rows is refused. */
static void test_shapes_of_biases(void **state)
{
	static const float filter[2 * 2] = { 1, 2, 3, 4 }, bias[2 * 2] = { 10, 20, 30, 40 };
	static const struct {
		uint32_t dims[2], n_dims;
		enum et_status status;
	} cases[] = { { { 2 }, 1, ET_OK }, { { 1, 2 }, 2, ET_OK }, { { 2, 1 }, 2, ET_E_INVALID_PROGRAM },
		{ { 2, 2 }, 2, ET_E_INVALID_PROGRAM }, { { 1 }, 1, ET_E_INVALID_PROGRAM },
		{ { 0 }, 0, ET_E_INVALID_PROGRAM } };
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		mx_init(&mk);
		struct mx_value of_bias = { .type = ET_XNN_FP32,
			.dims = { cases[i].dims[0], cases[i].dims[1] },
			.n_dims = cases[i].n_dims,
			.constant = mx_constant(&mk, bias, sizeof(bias)) };
		uint32_t in = test_plain(&mk, 1, 0, 1, 2),
			 weights = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32,
							 MX_DIMS(2, 2),
							 .constant = mx_constant(&mk, filter, sizeof(filter)) }),
			 biases = mx_value(&mk, &of_bias), out = test_plain(&mk, 0, 2, 1, 2);
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { in, weights, biases },
				.outputs = { out },
				.min = -INFINITY,
				.max = INFINITY });
		ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 2);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 2);
		args[0].f32[0] = 1;
		args[0].f32[1] = -1;
		assert_int_equal(test_run_once(&mk, args, 2, &diag), cases[i].status);
		if (cases[i].status == ET_OK) {
			test_near(args[1].f32[0], 9, 1e-6f);
			test_near(args[1].f32[1], 19, 1e-6f);
		}
	}
}

/* The same with a filter or a bias that is an argument. */
static void test_fp16_products_of_arguments(void **state)
{
	enum { ROWS = 5, IN = 21, OUT = 20 };
	uint16_t numbers[OUT * IN];
	for (int i = 0; i < OUT * IN; i++)
		numbers[i] = half_of(i * 7 % 5 - 2);
	for (int which = 1; which < 4; which++) { /* 1: the filter is an argument, 2: the bias */
		struct make_xnn mk;
		static struct arg args[4];
		struct et_diag diag = { 0 };
		uint32_t n_args = 1;
		mx_init(&mk);
		struct mx_value of_input = { .type = ET_XNN_FP16, MX_DIMS(ROWS, IN), .input = 1 },
				of_filter = { .type = ET_XNN_FP16, MX_DIMS(OUT, IN) },
				of_bias = { .type = ET_XNN_FP16, MX_DIMS(OUT) },
				of_output = { .type = ET_XNN_FP16, MX_DIMS(ROWS, OUT) };
		ARG(&args[0], ET_FLOAT16, ET_STATIC, ROWS, IN);
		for (int i = 0; i < ROWS * IN; i++)
			args[0].f16[i] = half_of(i * 5 % 7 - 3);
		if (which & 1) {
			ARG(&args[n_args], ET_FLOAT16, ET_STATIC, OUT, IN);
			memcpy(args[n_args].f16, numbers, sizeof(numbers));
			of_filter.input = ++n_args;
		} else {
			of_filter.constant = mx_constant(&mk, numbers, sizeof(numbers));
		}
		if (which & 2) {
			ARG(&args[n_args], ET_FLOAT16, ET_STATIC, OUT);
			memcpy(args[n_args].f16, numbers, OUT * sizeof(*numbers));
			of_bias.input = ++n_args;
		} else {
			of_bias.constant = mx_constant(&mk, numbers, OUT * sizeof(*numbers));
		}
		ARG(&args[n_args], ET_FLOAT16, ET_STATIC, ROWS, OUT);
		of_output.output = n_args + 1;
		uint32_t in = mx_value(&mk, &of_input), filter = mx_value(&mk, &of_filter),
			 bias = mx_value(&mk, &of_bias), out = mx_value(&mk, &of_output);
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { in, filter, bias },
				.outputs = { out },
				.min = -INFINITY,
				.max = INFINITY });
		test_ok(test_run_once(&mk, args, n_args + 1, &diag), &diag);
		for (int i = 0; i < ROWS * OUT; i++) {
			int sum = i % OUT * 7 % 5 - 2;
			for (int k = 0; k < IN; k++)
				sum += ((i / OUT * IN + k) * 5 % 7 - 3) * ((i % OUT * IN + k) * 7 % 5 - 2);
			assert_int_equal(args[n_args].f16[i], half_of(sum));
		}
	}
}

static void test_indexes_are_widened(void **state)
{
	struct make_xnn mk;
	struct arg args[3];
	struct et_diag diag = { 0 };
	mx_init(&mk);
	uint32_t in = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 4, 3), .input = 1 });
	uint32_t most = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 1, 2, 3), .output = 2 });
	uint32_t where = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 1, 2, 3), .output = 3 });
	mx_node(&mk, MX_ARGMAX,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { most, where },
			.numbers = { [ET_XNN_KERNEL_H] = 2, [ET_XNN_KERNEL_W] = 2 } });
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 2, 4, 3);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 1, 2, 3);
	ARG(&args[2], ET_INT64, ET_STATIC, 1, 1, 2, 3);
	/* row 1, column 2 of the second window, channel 1 */
	args[0].f32[(1 * 4 + 2) * 3 + 1] = 9;
	/* row 0, column 1 of the first, channel 2 */
	args[0].f32[(0 * 4 + 1) * 3 + 2] = 7;
	test_ok(test_run_once(&mk, args, 3, &diag), &diag);
	static const float expected[] = { 0, 0, 7, 0, 9, 0 };
	for (uint32_t i = 0; i < 6; i++)
		test_near(args[1].f32[i], expected[i], 0);
	/* counted down the window's columns */
	assert_int_equal(args[2].i64[2], 2);
	assert_int_equal(args[2].i64[4], 1);
	assert_int_equal(args[2].i64[0], 0);
}

/* XNNPACK refuses a node in the middle of a graph. The search for it cuts the graph, so the nodes above have no
 * reader then. */
static void test_refused_in_the_middle(void **state)
{
	struct make_xnn mk;
	struct arg args[2];
	struct et_diag diag = { 0 };
	uint32_t values[5];
	mx_init(&mk);
	for (uint32_t i = 0; i < 5; i++)
		values[i] = mx_value(&mk,
			&(struct mx_value){
				.type = ET_XNN_INT32, MX_DIMS(4), .input = i == 0, .output = i == 4 ? 2 : 0 });
	static const uint8_t kinds[] = { MX_NEGATE, MX_NEGATE, MX_SIGMOID, MX_NEGATE };
	for (uint32_t i = 0; i < 4; i++)
		mx_node(&mk, kinds[i], &(struct et_xnn_node){ .inputs = { values[i] }, .outputs = { values[i + 1] } });
	ARG(&args[0], ET_INT32, ET_STATIC, 4);
	ARG(&args[1], ET_INT32, ET_STATIC, 4);
	test_refused(test_run_once(&mk, args, 2, &diag), ET_E_NOT_SUPPORTED, &diag,
		"'XNNSigmoid' (node 2) is refused by XNNPACK");
}

/* 8-bit elementwise nodes whose scales XNNPACK's kernels do not take, compared with results in double precision. */
static void test_scales_far_apart(void **state)
{
	static const struct {
		uint8_t node;
		float a, b, out, slope;
		int8_t x, y, expected;
	} cases[] = {
		{ MX_ADD, 39.1f, 0.01f, 39.1f, 0, -100, 127, -100 }, /* a mask of -3910, scores up to 1.27 */
		{ MX_ADD, 0.00001f, 1, 1, 0, 100, 7, 7 },
		{ MX_ADD, 500, 1, 1, 0, 1, -128, 127 },
		{ MX_SUBTRACT, 0.0001f, 0.0002f, 1, 0, 50, 100, 0 },
		{ MX_SUBTRACT, 0.0001f, 1000, 1000, 0, 50, 100, -100 },
		{ MX_MULTIPLY, 0.001f, 0.001f, 0.5f, 0, 127, 127, 0 },
		{ MX_MULTIPLY, 100, 100, 1, 0, 1, -1, -128 },
		{ MX_LEAKY_RELU, 1, 0, 1, 0.001f, -128, 0, 0 },
		{ MX_LEAKY_RELU, 1, 0, 0.005f, 0.001f, -100, 0, -20 },
		{ MX_CONVERT, 1, 0, 0.001f, 0, 1, 0, 127 },
		{ MX_CONVERT, 0.01f, 0, 10, 0, 127, 0, 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool is_binary = cases[i].b != 0;
		struct make_xnn mk;
		struct arg args[3];
		struct et_diag diag = { 0 };
		mx_init(&mk);
		struct mx_value value = { .type = ET_XNN_QINT8, MX_DIMS(1, 8), .input = 1, .scale = cases[i].a };
		uint32_t a = mx_value(&mk, &value), b = 0;
		value.input = 2;
		value.scale = cases[i].b;
		if (is_binary)
			b = mx_value(&mk, &value);
		value.input = 0;
		value.output = is_binary ? 3 : 2;
		value.scale = cases[i].out;
		uint32_t out = mx_value(&mk, &value);
		mx_node(&mk, cases[i].node,
			&(struct et_xnn_node){ .inputs = { a, b }, .outputs = { out }, .number = cases[i].slope });
		for (uint32_t j = 0; j < 3; j++) {
			ARG(&args[j], ET_INT8, ET_STATIC, 1, 8);
			memset(args[j].f32, j ? cases[i].y : cases[i].x, 8);
		}
		test_ok(test_run_once(&mk, args, is_binary ? 3 : 2, &diag), &diag);
		for (uint32_t j = 0; j < 8; j++)
			assert_int_equal(((int8_t *)args[is_binary ? 2 : 1].f32)[j], cases[i].expected);
	}
}

/* The product of two scales underflows: XNNPACK asserts. */
static void test_scales_of_a_filter(void **state)
{
	static const int8_t filter[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct make_xnn mk;
	struct arg args[2];
	struct et_diag diag = { 0 };
	mx_init(&mk);
	struct mx_value value = { .type = ET_XNN_QINT8, MX_DIMS(1, 8), .input = 1, .scale = 1e-8f };
	uint32_t in = mx_value(&mk, &value);
	value.input = 0;
	value.constant = mx_constant(&mk, filter, sizeof(filter));
	uint32_t weights = mx_value(&mk, &value);
	uint32_t out = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(1, 1), .output = 2, .scale = 1 });
	mx_node(&mk, MX_LINEAR, &(struct et_xnn_node){ .inputs = { in, weights, ET_XNN_NONE }, .outputs = { out } });
	ARG(&args[0], ET_INT8, ET_STATIC, 1, 8);
	ARG(&args[1], ET_INT8, ET_STATIC, 1, 1);
	assert_int_equal(test_run_once(&mk, args, 2, &diag), ET_E_NOT_SUPPORTED);
	assert_non_null(strstr(diag.text, "takes no scales of 1e-08 and 1e-08 to 1"));
}

/* Block scales that a file has as fp32 are rounded to bf16 as ExecuTorch does. */
static void test_scales_of_blocks(void **state)
{
	static const struct {
		uint32_t given, rounded;
	} cases[] = { { 0x3f800000, 0x3f80 }, { 0x3f807000, 0x3f80 }, { 0x3f808100, 0x3f81 }, { 0x3f810000, 0x3f81 },
		{ 0x3ff00000, 0x3ff0 }, { 0x3ff02000, 0x3ff1 }, { 0x3c23d70a, 0x3c24 } };
	static const uint8_t ones[N_IN / 2] = { 0x99 };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct make_xnn mk;
		struct et_model *model;
		struct et_model_info info;
		struct et_diag diag = { 0 };
		float scales[N_IN / BLOCK];
		size_t n_bytes;
		for (size_t j = 0; j < N_IN / BLOCK; j++)
			memcpy(&scales[j], &cases[i].given, sizeof(scales[j]));
		mx_init(&mk);
		uint32_t x = test_plain(&mk, 1, 0, 1, N_IN);
		uint32_t rows = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(1, N_IN), .n_row_dims = 1 });
		uint32_t filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QBINT4,
							MX_DIMS(1, N_IN),
							.constant = mx_constant(&mk, ones, sizeof(ones)),
							.scales = scales,
							.n_scales = N_IN / BLOCK,
							.block_size = BLOCK });
		uint32_t out = test_plain(&mk, 0, 2, 1, 1);
		mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { x }, .outputs = { rows } });
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { rows, filter, ET_XNN_NONE }, .outputs = { out } });
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		test_ok(test_compile(bytes, n_bytes, 2, &model, &info, &diag), &diag);
		const struct et_xnn_payload *payload = &et_direct_model(model)->model->payload;
		uint32_t n = 0;
		for (uint32_t j = 0; j < payload->n_values; j++)
			for (uint32_t k = 0; k < payload->values[j].n_scales; k++, n++)
				assert_int_equal(payload->values[j].block_scales[k], cases[i].rounded);
		assert_int_equal(n, N_IN / BLOCK);
		test_ops->model_free(model);
		free(bytes);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(linear_in_every_datatype),
		TEST(old_dynamic_quantization),
		TEST(one_element_is_left),
		TEST(nibbles_for_static_quantization),
		TEST(nibbles_transposed),
		TEST(odd_nibbles),
		TEST(nibbles_in_a_payload_stay),
		TEST(fp16_precision),
		TEST(fp16_products),
		TEST(shapes_of_biases),
		TEST(fp16_products_of_arguments),
		TEST(refused_in_the_middle),
		TEST(indexes_are_widened),
		TEST(scales_far_apart),
		TEST(scales_of_a_filter),
		TEST(scales_of_blocks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
