/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads with bf16: what is rounded and what is not, with numbers whose products and sums are exact until they are
 * rounded; and what is refused. */
#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/support/test_draw.h"
#include "delegates/xnnpack/support/test_half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The nearest number with 8 binary digits, ties to even. */
static float nearest(double value)
{
	int exponent;
	double digits = frexp(value, &exponent);
	return (float)ldexp(rint(digits * 256), exponent - 8);
}

/* Multiples of 1/16 with at most 8 binary digits: products of two of them are exact in fp32, and so are sums of a
 * few products. */
static void draw(uint16_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float value = (float)((int)test_draw(511) - 255) / 16;
		uint32_t bits;
		memcpy(&bits, &value, sizeof(bits));
		ret[i] = (uint16_t)(bits >> 16);
	}
}

static uint32_t bf16(struct make_xnn *mk, uint32_t input, uint32_t output)
{
	return plain(mk, ET_XNN_BF16, input, output, ROWS, IN);
}

static double at(const struct arg *arg, size_t i)
{
	return (double)et_bf16_to_float(arg->f16[i]);
}

/* a * b, then a node, then times c: the product is rounded between them if the node is a conversion. */
static void test_between_nodes(void **state)
{
	static struct arg args[4];
	for (enum between how = NOTHING; how < N_BETWEEN; how++) {
		struct make_xnn mk;
		size_t n_others = 0;
		mx_init(&mk);
		uint32_t a = bf16(&mk, 1, 0), b = bf16(&mk, 2, 0), c = bf16(&mk, 3, 0), product = bf16(&mk, 0, 0),
			 out = bf16(&mk, 0, 4);
		node(&mk, MX_MULTIPLY, a, b, product);
		node(&mk, MX_MULTIPLY, put_between(&mk, ET_XNN_BF16, product, how), c, out);
		run_drawn(&mk, ET_BFLOAT16, draw, args, 3, 1);
		for (size_t i = 0; i < ROWS * IN; i++) {
			double ab = at(&args[0], i) * at(&args[1], i);
			float whole = nearest(ab * at(&args[2], i)),
			      rounded = nearest((double)nearest(ab) * at(&args[2], i));
			n_others += whole != rounded;
			assert_true(at(&args[3], i) == (double)(how >= FLOATS_AND_BACK ? rounded : whole));
		}
		assert_true(n_others > 2);
	}
}

/* An output is rounded, but nodes that read it in the graph read the unrounded value, unless a conversion wrote it. */
static void test_outputs_that_are_read(void **state)
{
	static struct arg args[5];
	for (int is_converted = 0; is_converted < 2; is_converted++) {
		struct make_xnn mk;
		mx_init(&mk);
		uint32_t a = bf16(&mk, 1, 0), b = bf16(&mk, 2, 0), first = bf16(&mk, 0, 3), second = bf16(&mk, 0, 4),
			 product = is_converted ? bf16(&mk, 0, 0) : first;
		node(&mk, MX_MULTIPLY, a, b, product);
		if (is_converted)
			node(&mk, MX_CONVERT, product, 0, first);
		node(&mk, MX_MULTIPLY, first, b, second);
		run_drawn(&mk, ET_BFLOAT16, draw, args, 2, 2);
		for (size_t i = 0; i < ROWS * IN; i++) {
			double ab = at(&args[0], i) * at(&args[1], i);
			double read = is_converted ? (double)nearest(ab) : ab;
			assert_true(at(&args[2], i) == (double)nearest(ab));
			assert_true(at(&args[3], i) == (double)nearest(read * at(&args[1], i)));
		}
	}
}

static const float bias[OUT] = { 0.125f, -7, 100, 0, -0.5f };

struct layer {
	uint16_t taps[OUT * IN];
	bool is_transposed, has_bias, is_limited, to_floats;
};

static uint32_t add_layer(struct make_xnn *mk, const struct layer *l, uint32_t in, uint32_t out)
{
	uint32_t biases = ET_XNN_NONE, n = l->is_transposed ? IN : OUT;
	uint32_t taps = mx_value(mk, &(struct mx_value){ .type = ET_XNN_BF16,
					     MX_DIMS(n, IN + OUT - n),
					     .constant = mx_constant(mk, l->taps, sizeof(l->taps)) });
	if (l->has_bias)
		biases = mx_value(mk,
			&(struct mx_value){
				.type = ET_XNN_FP32, MX_DIMS(OUT), .constant = mx_constant(mk, bias, sizeof(bias)) });
	mx_node(mk, MX_LINEAR,
		&(struct et_xnn_node){ .inputs = { in, taps, biases },
			.outputs = { out },
			.flags = l->is_transposed ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0,
			.min = l->is_limited ? -20 : -INFINITY,
			.max = l->is_limited ? 50 : INFINITY });
	return taps;
}

static double layer_at(const struct layer *l, const struct arg *in, size_t i)
{
	double sum = l->has_bias ? (double)bias[i % OUT] : 0;
	for (size_t k = 0; k < IN; k++)
		sum += at(in, i / OUT * IN + k) *
		       (double)et_bf16_to_float(l->taps[l->is_transposed ? k * OUT + i % OUT : i % OUT * IN + k]);
	return l->is_limited ? fmin(fmax(sum, -20), 50) : sum;
}

static void test_layers(void **state)
{
	static struct arg args[2];
	for (unsigned i = 0; i < 16; i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		struct layer l = { .is_transposed = i & 1, .has_bias = i & 2, .is_limited = i & 4, .to_floats = i & 8 };
		draw(l.taps, (size_t)OUT * IN);
		mx_init(&mk);
		uint32_t in = bf16(&mk, 1, 0),
			 out = plain(&mk, l.to_floats ? ET_XNN_FP32 : ET_XNN_BF16, 0, 2, ROWS, OUT);
		add_layer(&mk, &l, in, out);
		ARG(&args[0], ET_BFLOAT16, ET_STATIC, ROWS, IN);
		ARG(&args[1], l.to_floats ? ET_FLOAT32 : ET_BFLOAT16, ET_STATIC, ROWS, OUT);
		draw(args[0].f16, (size_t)ROWS * IN);
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		for (size_t j = 0; j < ROWS * OUT; j++) {
			double sum = layer_at(&l, &args[0], j);
			assert_true(l.to_floats ? (double)args[1].f32[j] == sum
						: at(&args[1], j) == (double)nearest(sum));
		}
	}
}

/* A layer's result is rounded for every reader: in the graph and in the caller. */
static void test_behind_layers(void **state)
{
	static struct arg args[3];
	for (int is_output = 0; is_output < 2; is_output++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		struct layer l = { .has_bias = true };
		size_t n_others = 0;
		draw(l.taps, (size_t)OUT * IN);
		mx_init(&mk);
		uint32_t in = bf16(&mk, 1, 0), y = plain(&mk, ET_XNN_BF16, 0, is_output ? 3 : 0, ROWS, OUT),
			 out = plain(&mk, ET_XNN_BF16, 0, 2, ROWS, OUT);
		add_layer(&mk, &l, in, y);
		node(&mk, MX_MULTIPLY, y, y, out);
		ARG(&args[0], ET_BFLOAT16, ET_STATIC, ROWS, IN);
		ARG(&args[1], ET_BFLOAT16, ET_STATIC, ROWS, OUT);
		ARG(&args[2], ET_BFLOAT16, ET_STATIC, ROWS, OUT);
		draw(args[0].f16, (size_t)ROWS * IN);
		test_ok(test_run_once(&mk, args, is_output ? 3 : 2, &diag), &diag);
		for (size_t j = 0; j < ROWS * OUT; j++) {
			double sum = layer_at(&l, &args[0], j), rounded = (double)nearest(sum);
			n_others += nearest(sum * sum) != nearest(rounded * rounded);
			assert_true(at(&args[1], j) == (double)nearest(rounded * rounded));
			assert_true(!is_output || at(&args[2], j) == rounded);
		}
		assert_true(n_others > 2);
	}
}

/* A clamp is merged into a layer if its limits are bf16 values. Other limits are not rounded, so they must stay
 * behind the rounding. */
static void test_limits_behind_layers(void **state)
{
	static const float limits[][2] = { { 0, INFINITY }, { -2, 6 }, { -0.1f, 3.3f } };
	static struct arg args[3];
	for (int i = 0; i < 3; i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		struct layer l = { .has_bias = true };
		draw(l.taps, (size_t)OUT * IN);
		mx_init(&mk);
		uint32_t in = bf16(&mk, 1, 0), y = plain(&mk, ET_XNN_BF16, 0, 0, ROWS, OUT),
			 limited = plain(&mk, ET_XNN_BF16, 0, 0, ROWS, OUT),
			 out = plain(&mk, ET_XNN_FP32, 0, 2, ROWS, OUT);
		add_layer(&mk, &l, in, y);
		mx_node(&mk, MX_CLAMP,
			&(struct et_xnn_node){
				.inputs = { y }, .outputs = { limited }, .min = limits[i][0], .max = limits[i][1] });
		node(&mk, MX_CONVERT, limited, 0, out);
		ARG(&args[0], ET_BFLOAT16, ET_STATIC, ROWS, IN);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, ROWS, OUT);
		draw(args[0].f16, (size_t)ROWS * IN);
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		for (size_t j = 0; j < ROWS * OUT; j++)
			assert_true(args[1].f32[j] ==
				    fminf(fmaxf(nearest(layer_at(&l, &args[0], j)), limits[i][0]), limits[i][1]));
	}
}

/* Constants that are not packed: added, concatenated, converted, and a padding value. */
static void test_constants(void **state)
{
	static struct arg args[2];
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	uint16_t numbers[IN];
	draw(numbers, IN);
	mx_init(&mk);
	uint32_t in = bf16(&mk, 1, 0), sum = bf16(&mk, 0, 0), joined = plain(&mk, ET_XNN_BF16, 0, 0, ROWS + 1, IN),
		 out = plain(&mk, ET_XNN_BF16, 0, 2, ROWS + 2, IN);
	uint32_t constant = mx_value(&mk,
		&(struct mx_value){
			.type = ET_XNN_BF16, MX_DIMS(1, IN), .constant = mx_constant(&mk, numbers, sizeof(numbers)) });
	uint32_t converted = plain(&mk, ET_XNN_BF16, 0, 0, 1, IN);
	node(&mk, MX_ADD, in, constant, sum);
	node(&mk, MX_CONVERT, constant, 0, converted);
	node(&mk, MX_CAT2, sum, converted, joined);
	mx_node(&mk, MX_PAD,
		&(struct et_xnn_node){ .inputs = { joined },
			.outputs = { out },
			.n_list = { 2, 2 },
			.list = { { 0, 0 }, { 1, 0 } },
			.number = 0.1f });
	ARG(&args[0], ET_BFLOAT16, ET_STATIC, ROWS, IN);
	ARG(&args[1], ET_BFLOAT16, ET_STATIC, ROWS + 2, IN);
	draw(args[0].f16, (size_t)ROWS * IN);
	test_ok(test_run_once(&mk, args, 2, &diag), &diag);
	for (size_t i = 0; i < (ROWS + 2) * IN; i++) {
		double number = (double)et_bf16_to_float(numbers[i % IN]);
		double expected = i < ROWS * IN         ? (double)nearest(at(&args[0], i) + number)
				  : i < (ROWS + 1) * IN ? number
							: (double)nearest(0.1);
		assert_true(at(&args[1], i) == expected);
	}
}

/* Matrix products of bf16 are fp32, whichever side is constant. */
static void test_products(void **state)
{
	static struct arg args[3];
	for (int is_constant = 0; is_constant < 2; is_constant++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		uint16_t taps[IN * OUT];
		draw(taps, (size_t)IN * OUT);
		mx_init(&mk);
		uint32_t in = bf16(&mk, 1, 0), out = plain(&mk, ET_XNN_FP32, 0, is_constant ? 2 : 3, ROWS, OUT),
			 right = mx_value(&mk,
				 &(struct mx_value){ .type = ET_XNN_BF16,
					 MX_DIMS(IN, OUT),
					 .input = is_constant ? 0 : 2,
					 .constant = is_constant ? mx_constant(&mk, taps, sizeof(taps)) : 0 });
		node(&mk, MX_MATMUL, in, right, out);
		ARG(&args[0], ET_BFLOAT16, ET_STATIC, ROWS, IN);
		ARG(&args[1], ET_BFLOAT16, ET_STATIC, IN, OUT);
		struct arg *to = &args[is_constant ? 1 : 2];
		memcpy(args[1].f16, taps, sizeof(taps));
		ARG(to, ET_FLOAT32, ET_STATIC, ROWS, OUT);
		draw(args[0].f16, (size_t)ROWS * IN);
		test_ok(test_run_once(&mk, args, is_constant ? 2 : 3, &diag), &diag);
		for (size_t i = 0; i < ROWS * OUT; i++) {
			double sum = 0;
			for (size_t k = 0; k < IN; k++)
				sum += at(&args[0], i / OUT * IN + k) *
				       (double)et_bf16_to_float(taps[k * OUT + i % OUT]);
			assert_true((double)to->f32[i] == sum);
		}
	}
}

/* Rows quantized at run time and 4-bit weights in blocks: the fp32 results are rounded to bf16. */
static void test_rows_of_bf16(void **state)
{
	enum { DEEP = 64, N_PER_BLOCK = 32 };
	static const float scales[OUT * (DEEP / N_PER_BLOCK)] = { 1, 0.5f, 0.25f, 2, 1, 1, 0.5f, 0.25f, 2, 1 };
	static const uint32_t types[] = { ET_XNN_FP32, ET_XNN_BF16 };
	static struct arg args[2][2];
	uint8_t nibbles[OUT * DEEP / 2];
	for (size_t i = 0; i < sizeof(nibbles); i++)
		nibbles[i] = (uint8_t)test_draw(256);
	for (int i = 0; i < 2; i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t in = plain(&mk, ET_XNN_BF16, 1, 0, ROWS, DEEP),
			 rows = mx_value(&mk,
				 &(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(ROWS, DEEP), .n_row_dims = 1 }),
			 filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QBINT4,
							MX_DIMS(OUT, DEEP),
							.constant = mx_constant(&mk, nibbles, sizeof(nibbles)),
							.scales = scales,
							.n_scales = OUT * (DEEP / N_PER_BLOCK),
							.block_size = N_PER_BLOCK }),
			 out = plain(&mk, types[i], 0, 2, ROWS, OUT);
		node(&mk, MX_CONVERT, in, 0, rows);
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { rows, filter, ET_XNN_NONE },
				.outputs = { out },
				.min = -INFINITY,
				.max = INFINITY });
		ARG(&args[i][0], ET_BFLOAT16, ET_STATIC, ROWS, DEEP);
		ARG(&args[i][1], i ? ET_BFLOAT16 : ET_FLOAT32, ET_STATIC, ROWS, OUT);
		test_seed = 7;
		draw(args[i][0].f16, (size_t)ROWS * DEEP);
		test_ok(test_run_once(&mk, args[i], 2, &diag), &diag);
	}
	for (size_t i = 0; i < ROWS * OUT; i++) {
		assert_true(args[0][1].f32[i] != 0);
		assert_true(at(&args[1][1], i) == (double)nearest((double)args[0][1].f32[i]));
	}
}

/* An override packs a filter and constants become fp32, and every allocation fails once; afterwards the payload's
 * bytes are not needed. */
static void test_memory(void **state)
{
	struct layer l = { .has_bias = true };
	struct make_xnn mk;
	size_t n_bytes, n_failures = 0;
	draw(l.taps, (size_t)OUT * IN);
	mx_init(&mk);
	uint32_t in = bf16(&mk, 1, 0), y = plain(&mk, ET_XNN_BF16, 0, 0, ROWS, OUT),
		 out = plain(&mk, ET_XNN_BF16, 0, 2, ROWS, OUT);
	uint32_t constant = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_BF16,
						  MX_DIMS(OUT),
						  .constant = mx_constant(&mk, l.taps, OUT * sizeof(*l.taps)) });
	add_layer(&mk, &l, in, y);
	node(&mk, MX_ADD, y, constant, out);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	size_t n_live = test_counting.n_live;
	enum et_status status = ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t n = 1; status != ET_OK; n++) {
		struct et_diag diag = { 0 };
		struct et_model *model = NULL;
		struct et_model_info info;
		test_counting.n_calls = 0;
		test_counting.fail_at = n;
		status = test_compile(bytes, n_bytes, 2, &model, &info, &diag);
		test_counting.fail_at = 0;
		n_failures += status != ET_OK;
		assert_true(status != ET_OK || info.drops_payload);
		test_ops->model_free(model);
		assert_int_equal(test_counting.n_live, n_live);
	}
	assert_true(n_failures > 5);
	free(bytes);
}

/* Datatypes that ExecuTorch refuses, for a node with two inputs of which the second one may be a constant. */
static void test_refused_together(void **state)
{
	static const struct {
		uint8_t kind;
		uint32_t first, second, out;
		bool is_constant;
	} mixes[] = {
		{ MX_ADD, ET_XNN_BF16, ET_XNN_FP32, ET_XNN_BF16, false },
		{ MX_ADD, ET_XNN_BF16, ET_XNN_BF16, ET_XNN_FP32, false },
		{ MX_MULTIPLY, ET_XNN_FP32, ET_XNN_FP32, ET_XNN_BF16, false },
		{ MX_CAT2, ET_XNN_BF16, ET_XNN_FP16, ET_XNN_BF16, false },
		{ MX_MATMUL, ET_XNN_BF16, ET_XNN_BF16, ET_XNN_BF16, false },
		{ MX_MATMUL, ET_XNN_FP32, ET_XNN_BF16, ET_XNN_FP32, true },
		{ MX_LINEAR, ET_XNN_BF16, ET_XNN_BF16, ET_XNN_BF16, false },
		{ MX_LINEAR, ET_XNN_BF16, ET_XNN_BF16, ET_XNN_FP16, true },
		{ MX_LINEAR, ET_XNN_BF16, ET_XNN_FP32, ET_XNN_BF16, true },
		{ MX_LINEAR, ET_XNN_FP32, ET_XNN_BF16, ET_XNN_FP32, true },
		{ MX_SOFTMAX, ET_XNN_BF16, 0, ET_XNN_BF16, false },
		{ MX_CLAMP, ET_XNN_BF16, 0, ET_XNN_FP32, false },
		{ MX_TRANSPOSE, ET_XNN_BF16, 0, ET_XNN_FP32, false },
		{ MX_SIGMOID, ET_XNN_BF16, 0, ET_XNN_FP16, false },
		{ MX_AVERAGE, ET_XNN_BF16, 0, ET_XNN_BF16, false },
		{ MX_MAX_POOL, ET_XNN_BF16, 0, ET_XNN_BF16, false },
		{ MX_GLOBAL, ET_XNN_BF16, 0, ET_XNN_BF16, false },
		{ MX_RESIZE, ET_XNN_BF16, 0, ET_XNN_BF16, false },
		{ MX_ARGMAX, ET_XNN_BF16, 0, ET_XNN_BF16, false },
	};
	static const float zeros[IN * IN];
	for (size_t i = 0; i < sizeof(mixes) / sizeof(*mixes); i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		size_t n_bytes;
		struct et_model *model = NULL;
		struct et_model_info info;
		mx_init(&mk);
		uint32_t first = plain(&mk, mixes[i].first, 1, 0, IN, IN), second = ET_XNN_NONE,
			 out = plain(&mk, mixes[i].out, 0, 2, IN, IN);
		if (mixes[i].second)
			second = mx_value(&mk,
				&(struct mx_value){ .type = mixes[i].second,
					MX_DIMS(IN, IN),
					.input = mixes[i].is_constant ? 0 : 3,
					.constant = mixes[i].is_constant ? mx_constant(&mk, zeros, sizeof(zeros))
									 : 0 });
		mx_node(&mk, mixes[i].kind,
			&(struct et_xnn_node){ .inputs = { first, second, ET_XNN_NONE },
				.outputs = { out, out },
				.min = -INFINITY,
				.max = INFINITY });
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		enum et_status status = test_compile(bytes, n_bytes, 3, &model, &info, &diag);
		if (mixes[i].kind != MX_ARGMAX) /* argmax has two outputs, this payload has one */
			test_refused(status, ET_E_NOT_SUPPORTED, &diag, "takes no ");
		assert_int_not_equal(status, ET_OK);
		free(bytes);
	}
}

/* A bf16 bias with any filter, and bf16 convolutions, are refused. */
static void test_refused_weights(void **state)
{
	static const uint8_t kinds[] = { MX_LINEAR, MX_CONV, MX_DEPTHWISE, MX_DECONV };
	static const uint32_t zeros[4];
	for (unsigned i = 0; i < 4 * 8; i++) {
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		uint32_t types[3];
		if (i / 4 == 0)
			continue;
		for (unsigned j = 0; j < 3; j++) /* input and output, filter, bias */
			types[j] = i / 4 & 1U << j ? ET_XNN_BF16 : ET_XNN_FP32;
		if (kinds[i % 4] == MX_LINEAR && i / 4 == 3)
			continue; /* this one is right */
		mx_init(&mk);
		uint32_t in = mx_value(&mk, &(struct mx_value){ .type = types[0], MX_DIMS(1, 1, 1, 1), .input = 1 }),
			 out = mx_value(&mk, &(struct mx_value){ .type = types[0], MX_DIMS(1, 1, 1, 1), .output = 2 }),
			 filter = mx_value(&mk, &(struct mx_value){ .type = types[1],
							.dims = { 1, 1, 1, 1 },
							.n_dims = kinds[i % 4] == MX_LINEAR ? 2 : 4,
							.constant = mx_constant(&mk, zeros, sizeof(zeros)) }),
			 biases = mx_value(&mk, &(struct mx_value){ .type = types[2],
							MX_DIMS(1),
							.constant = mx_constant(&mk, zeros, sizeof(zeros)) });
		mx_node(&mk, kinds[i % 4],
			&(struct et_xnn_node){ .inputs = { in, filter, biases },
				.outputs = { out },
				.numbers = { 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1 } });
		uint8_t scalar = types[0] == ET_XNN_BF16 ? ET_BFLOAT16 : ET_FLOAT32;
		ARG(&args[0], scalar, ET_STATIC, 1, 1, 1, 1);
		ARG(&args[1], scalar, ET_STATIC, 1, 1, 1, 1);
		test_refused(test_run_once(&mk, args, 2, &diag), ET_E_NOT_SUPPORTED, &diag, "takes no ");
	}
}

/* Arguments of fp32 and fp16 where the payload says bf16 are refused. */
static void test_arguments_of_another_datatype(void **state)
{
	static const uint8_t others[] = { ET_FLOAT32, ET_FLOAT16, ET_INT16 };
	static struct arg args[2];
	for (size_t i = 0; i < 3 * 2; i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t in = bf16(&mk, 1, 0), out = bf16(&mk, 0, 2);
		node(&mk, MX_SIGMOID, in, 0, out);
		ARG(&args[0], i % 2 ? ET_BFLOAT16 : others[i / 2], ET_STATIC, ROWS, IN);
		ARG(&args[1], i % 2 ? others[i / 2] : ET_BFLOAT16, ET_STATIC, ROWS, IN);
		test_refused(test_run_once(&mk, args, 2, &diag), ET_E_INVALID_ARGUMENT, &diag, "the payload says bf16");
	}
}

/* More roundings than a payload may be cut at, of arguments and in the graph: they would be left to XNNPACK. */
static void test_too_many_to_be_cut(void **state)
{
	static struct arg args[2];
	for (uint32_t type = ET_XNN_FP32; type <= ET_XNN_BF16; type += ET_XNN_BF16 - ET_XNN_FP32) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t value = plain(&mk, type, 1, 0, ROWS, IN), out = plain(&mk, type, 0, 2, ROWS, IN);
		for (uint32_t i = 0; i < 600; i++)
			value = put_between(&mk, ET_XNN_BF16, value, AGAIN);
		node(&mk, MX_CONVERT, value, 0, out);
		for (uint32_t i = 0; i < 2; i++)
			ARG(&args[i], type == ET_XNN_BF16 ? ET_BFLOAT16 : ET_FLOAT32, ET_STATIC, ROWS, IN);
		test_refused(test_run_once(&mk, args, 2, &diag), ET_E_NOT_SUPPORTED, &diag, "too large to be cut");
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(between_nodes),
		TEST(outputs_that_are_read),
		TEST(layers),
		TEST(behind_layers),
		TEST(limits_behind_layers),
		TEST(constants),
		TEST(products),
		TEST(rows_of_bf16),
		TEST(memory),
		TEST(refused_together),
		TEST(refused_weights),
		TEST(arguments_of_another_datatype),
		TEST(too_many_to_be_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
