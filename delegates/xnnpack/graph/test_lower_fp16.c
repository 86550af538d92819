/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads with fp16 as processors without fp16 arithmetic compute them: what is rounded and what is not, with numbers
 * whose products and sums are exact in fp32 until they are rounded. Runs on every processor. */
#include "delegates/xnnpack/support/test_draw.h"
#include "delegates/xnnpack/support/test_half.h"
#include "runtime/base/fp16.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int set_up(void **state)
{
	et_xnn_lower_fp16_always(true);
	return test_set_up(state);
}

static int tear_down(void **state)
{
	et_xnn_lower_fp16_always(false);
	return test_tear_down(state);
}

/* The nearest fp16 number, ties to even, for numbers that are neither subnormal nor too large. */
static double nearest(double value)
{
	int exponent;
	double digits = frexp(value, &exponent);
	return ldexp(rint(digits * 2048), exponent - 11);
}

/* Multiples of 1/16 with at most 8 binary digits: products of three are exact in fp32, of two are not in fp16. */
static double drawn(void)
{
	return ((int)test_draw(511) - 255) / 16.0;
}

static uint16_t fp16_of(double value)
{
	uint16_t bits = et_float_to_fp16((float)value);
	assert_true((double)et_fp16_to_float(bits) == value);
	return bits;
}

static void draw(uint16_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = fp16_of(drawn());
}

static double at(const struct arg *arg, size_t i)
{
	return (double)et_fp16_to_float(arg->f16[i]);
}

static uint32_t fp16(struct make_xnn *mk, uint32_t input, uint32_t output)
{
	return plain(mk, ET_XNN_FP16, input, output, ROWS, IN);
}

static uint32_t constant(struct make_xnn *mk, const uint16_t *numbers, uint32_t rows, uint32_t columns)
{
	return mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP16,
				    MX_DIMS(rows, columns),
				    .constant = mx_constant(mk, numbers, (size_t)rows * columns * sizeof(*numbers)) });
}

/* a * b, then a node, then times c: the product is rounded between them if the node is a conversion. */
static void test_between_nodes(void **state)
{
	static struct arg args[4];
	size_t n_others = 0;
	for (enum between how = NOTHING; how < N_BETWEEN; how++) {
		struct make_xnn mk;
		mx_init(&mk);
		uint32_t a = fp16(&mk, 1, 0), b = fp16(&mk, 2, 0), c = fp16(&mk, 3, 0), product = fp16(&mk, 0, 0),
			 out = fp16(&mk, 0, 4);
		node(&mk, MX_MULTIPLY, a, b, product);
		node(&mk, MX_MULTIPLY, put_between(&mk, ET_XNN_FP16, product, how), c, out);
		run_drawn(&mk, ET_FLOAT16, draw, args, 3, 1);
		for (size_t i = 0; i < ROWS * IN; i++) {
			double ab = at(&args[0], i) * at(&args[1], i), whole = nearest(ab * at(&args[2], i)),
			       rounded = nearest(nearest(ab) * at(&args[2], i));
			n_others += whole != rounded;
			assert_true(at(&args[3], i) == (how >= FLOATS_AND_BACK ? rounded : whole));
		}
	}
	assert_true(n_others > 5);
}

/* An output is rounded, but nodes that read it in the graph, also those that move it, read the unrounded value, unless
 * a conversion wrote it. */
static void test_outputs_that_are_read(void **state)
{
	static struct arg args[5];
	size_t n_others = 0;
	for (unsigned i = 0; i < 4; i++) {
		bool is_converted = i & 1, is_moved = i & 2;
		struct make_xnn mk;
		mx_init(&mk);
		uint32_t a = fp16(&mk, 1, 0), b = fp16(&mk, 2, 0), first = fp16(&mk, 0, 3), second = fp16(&mk, 0, 4),
			 product = is_converted ? fp16(&mk, 0, 0) : first;
		node(&mk, MX_MULTIPLY, a, b, product);
		if (is_converted)
			node(&mk, MX_CONVERT, product, 0, first);
		node(&mk, MX_MULTIPLY, put_between(&mk, ET_XNN_FP16, first, is_moved ? MOVED : NOTHING), b, second);
		run_drawn(&mk, ET_FLOAT16, draw, args, 2, 2);
		for (size_t j = 0; j < ROWS * IN; j++) {
			double ab = at(&args[0], j) * at(&args[1], j), read = is_converted ? nearest(ab) : ab;
			n_others += nearest(ab * at(&args[1], j)) != nearest(nearest(ab) * at(&args[1], j));
			assert_true(at(&args[2], j) == nearest(ab));
			assert_true(at(&args[3], j) == nearest(read * at(&args[1], j)));
		}
	}
	assert_true(n_others > 5);
}

/* Arguments that are only moved keep every bit, also of a signaling NaN; other nodes read them as well. */
static void test_moves(void **state)
{
	static struct arg args[3];
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	mx_init(&mk);
	uint32_t in = fp16(&mk, 1, 0), moved = plain(&mk, ET_XNN_FP16, 0, 2, IN, ROWS), sum = fp16(&mk, 0, 3);
	node(&mk, MX_ADD, in, in, sum);
	node_of_list(&mk, MX_TRANSPOSE, in, moved, 1, 0);
	ARG(&args[0], ET_FLOAT16, ET_STATIC, ROWS, IN);
	ARG(&args[1], ET_FLOAT16, ET_STATIC, IN, ROWS);
	ARG(&args[2], ET_FLOAT16, ET_STATIC, ROWS, IN);
	draw(args[0].f16, (size_t)ROWS * IN);
	args[0].f16[0] = 0x7d01; /* signaling */
	args[0].f16[1] = 0x0001; /* subnormal */
	test_ok(test_run_once(&mk, args, 3, &diag), &diag);
	for (size_t i = 0; i < ROWS * IN; i++) {
		assert_int_equal(args[1].f16[i % IN * ROWS + i / IN], args[0].f16[i]);
		assert_true(i == 0 || at(&args[2], i) == 2 * at(&args[0], i));
	}
}

/* Sums are neither rounded between products nor before the next node reads them. @has_filter_of_floats: the filter is
 * fp32 where the layer is fp16. */
static void test_layers(void **state)
{
	static struct arg args[3];
	static uint16_t taps[OUT * IN], biases[OUT];
	static float taps_of_floats[OUT * IN];
	size_t n_others = 0;
	for (unsigned i = 0; i < 16; i++) {
		bool is_convolution = i & 1, has_bias = i & 2, is_limited = i & 4, has_filter_of_floats = i & 8;
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		draw(taps, (size_t)OUT * IN);
		draw(biases, OUT);
		for (size_t j = 0; j < OUT * IN; j++)
			taps_of_floats[j] = et_fp16_to_float(taps[j]);
		mx_init(&mk);
		uint32_t bytes = has_filter_of_floats ? mx_constant(&mk, taps_of_floats, sizeof(taps_of_floats))
						      : mx_constant(&mk, taps, sizeof(taps));
		struct mx_value x = { .type = ET_XNN_FP16, .dims = { 1, 1, ROWS, IN }, .n_dims = 4, .input = 1 },
				y = { .type = ET_XNN_FP16, .dims = { 1, 1, ROWS, OUT }, .n_dims = 4, .output = 2 },
				filter = { .type = has_filter_of_floats ? ET_XNN_FP32 : ET_XNN_FP16,
					.constant = bytes };
		const struct mx_value rows = { MX_DIMS(OUT, IN) }, windows = { MX_DIMS(OUT, 1, 1, IN) };
		memcpy(filter.dims, is_convolution ? windows.dims : rows.dims, sizeof(filter.dims));
		filter.n_dims = is_convolution ? 4 : 2;
		uint32_t in = mx_value(&mk, &x), out = mx_value(&mk, &y), weights = mx_value(&mk, &filter),
			 bias = has_bias ? mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP16,
								 MX_DIMS(OUT),
								 .constant = mx_constant(&mk, biases, sizeof(biases)) })
					 : ET_XNN_NONE;
		y.output = 3;
		uint32_t squares = mx_value(&mk, &y);
		mx_node(&mk, is_convolution ? MX_CONV : MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { in, weights, bias },
				.outputs = { out },
				.numbers = { 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, IN, OUT, 1 },
				.min = is_limited ? -20.03f : -INFINITY, /* no number of fp16 */
				.max = is_limited ? 50 : INFINITY });
		node(&mk, MX_MULTIPLY, out, out, squares);
		ARG(&args[0], ET_FLOAT16, ET_STATIC, 1, 1, ROWS, IN);
		ARG(&args[1], ET_FLOAT16, ET_STATIC, 1, 1, ROWS, OUT);
		ARG(&args[2], ET_FLOAT16, ET_STATIC, 1, 1, ROWS, OUT);
		for (size_t j = 0; j < ROWS * IN; j++)
			args[0].f16[j] = fp16_of(floor(drawn()) / 4);
		test_ok(test_run_once(&mk, args, 3, &diag), &diag);
		for (size_t j = 0; j < ROWS * OUT; j++) {
			double sum = has_bias ? (double)et_fp16_to_float(biases[j % OUT]) : 0;
			for (size_t k = 0; k < IN; k++)
				sum += at(&args[0], j / OUT * IN + k) *
				       (double)et_fp16_to_float(taps[j % OUT * IN + k]);
			if (is_limited)
				sum = fmin(fmax(sum, (double)-20.03f), 50);
			n_others += nearest((double)(float)(sum * sum)) != nearest(nearest(sum) * nearest(sum));
			assert_true(at(&args[1], j) == nearest(sum));
			assert_true(at(&args[2], j) == nearest((double)(float)(sum * sum)));
		}
	}
	assert_true(n_others > 5);
}

/* A product with a constant, joined with it, and padded: constants are read as they are, the number that fills the
 * border is rounded. */
static void test_constants(void **state)
{
	static struct arg args[2];
	uint16_t numbers[IN];
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	draw(numbers, IN);
	mx_init(&mk);
	uint32_t in = fp16(&mk, 1, 0), row = constant(&mk, numbers, 1, IN), product = fp16(&mk, 0, 0),
		 joined = plain(&mk, ET_XNN_FP16, 0, 0, ROWS + 1, IN),
		 out = plain(&mk, ET_XNN_FP16, 0, 2, ROWS + 2, IN);
	node(&mk, MX_MULTIPLY, in, row, product);
	node(&mk, MX_CAT2, product, row, joined);
	mx_node(&mk, MX_PAD,
		&(struct et_xnn_node){ .inputs = { joined },
			.outputs = { out },
			.n_list = { 2, 2 },
			.list = { { 0, 0 }, { 1, 0 } },
			.number = 0.1f,
			.min = -INFINITY,
			.max = INFINITY });
	ARG(&args[0], ET_FLOAT16, ET_STATIC, ROWS, IN);
	ARG(&args[1], ET_FLOAT16, ET_STATIC, ROWS + 2, IN);
	draw(args[0].f16, (size_t)ROWS * IN);
	test_ok(test_run_once(&mk, args, 2, &diag), &diag);
	for (size_t i = 0; i < (ROWS + 2) * IN; i++) {
		double number = (double)et_fp16_to_float(numbers[i % IN]);
		assert_true(at(&args[1], i) == (i < ROWS * IN                ? nearest(at(&args[0], i) * number)
						       : i < (ROWS + 1) * IN ? number
									     : nearest((double)0.1f)));
	}
}

/* A padded value that is read again has the rounded number, too. */
static void test_padding_that_is_read(void **state)
{
	static struct arg args[3];
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	mx_init(&mk);
	uint32_t in = fp16(&mk, 1, 0), sum = fp16(&mk, 0, 0), padded = plain(&mk, ET_XNN_FP16, 0, 0, ROWS + 1, IN),
		 times = plain(&mk, ET_XNN_FP16, 2, 0, 1, IN), out = plain(&mk, ET_XNN_FP16, 0, 3, ROWS + 1, IN);
	node(&mk, MX_ADD, in, in, sum);
	mx_node(&mk, MX_PAD,
		&(struct et_xnn_node){ .inputs = { sum },
			.outputs = { padded },
			.n_list = { 2, 2 },
			.list = { { 1, 0 }, { 0, 0 } },
			.number = 0.1f,
			.min = -INFINITY,
			.max = INFINITY });
	node(&mk, MX_MULTIPLY, padded, times, out);
	ARG(&args[0], ET_FLOAT16, ET_STATIC, ROWS, IN);
	ARG(&args[1], ET_FLOAT16, ET_STATIC, 1, IN);
	ARG(&args[2], ET_FLOAT16, ET_STATIC, ROWS + 1, IN);
	draw(args[0].f16, (size_t)ROWS * IN);
	for (size_t i = 0; i < IN; i++)
		args[1].f16[i] = fp16_of(1000 + (double)i * 3);
	test_ok(test_run_once(&mk, args, 3, &diag), &diag);
	for (size_t i = 0; i < IN; i++)
		assert_true(at(&args[2], i) == nearest(nearest((double)0.1f) * at(&args[1], i)));
}

/* Integers from fp16 arguments and from results that were computed in floats, and back. */
static void test_integers(void **state)
{
	static const uint32_t types[] = { ET_XNN_INT32, ET_XNN_QINT8, ET_XNN_QUINT8 };
	static struct arg args[2];
	for (unsigned i = 0; i < 6; i++) {
		bool is_computed = i & 1;
		struct make_xnn mk;
		mx_init(&mk);
		uint32_t in = fp16(&mk, 1, 0), twice = fp16(&mk, 0, 0), out = fp16(&mk, 0, 2),
			 integers = mx_value(&mk, &(struct mx_value){ .type = types[i / 2],
							  MX_DIMS(ROWS, IN),
							  .scale = i / 2 ? 1 : 0,
							  .zero_point = i / 2 == 2 ? 128 : 0 });
		if (is_computed)
			node(&mk, MX_ADD, in, in, twice);
		node(&mk, MX_CONVERT, is_computed ? twice : in, 0, integers);
		node(&mk, MX_CONVERT, integers, 0, out);
		run_drawn(&mk, ET_FLOAT16, draw, args, 1, 1);
		for (size_t j = 0; j < ROWS * IN; j++)
			assert_true(at(&args[1], j) == rint(at(&args[0], j) * (is_computed ? 2 : 1)));
	}
}

/* Rows quantized at run time, and 8-bit weights: the fp32 results are rounded to fp16. */
static void test_rows(void **state)
{
	static const float scales[OUT] = { 1, 0.5f, 0.25f, 2, 1 };
	static const uint32_t types[] = { ET_XNN_FP32, ET_XNN_FP16 };
	static struct arg args[2][2];
	int8_t taps[OUT * IN];
	for (size_t i = 0; i < sizeof(taps); i++)
		taps[i] = (int8_t)test_draw(256);
	for (int i = 0; i < 2; i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t in = fp16(&mk, 1, 0),
			 rows = mx_value(&mk,
				 &(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(ROWS, IN), .n_row_dims = 1 }),
			 filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT8,
							MX_DIMS(OUT, IN),
							.constant = mx_constant(&mk, taps, sizeof(taps)),
							.scales = scales,
							.n_scales = OUT }),
			 out = plain(&mk, types[i], 0, 2, ROWS, OUT);
		node(&mk, MX_CONVERT, in, 0, rows);
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { rows, filter, ET_XNN_NONE },
				.outputs = { out },
				.min = -INFINITY,
				.max = INFINITY });
		ARG(&args[i][0], ET_FLOAT16, ET_STATIC, ROWS, IN);
		ARG(&args[i][1], i ? ET_FLOAT16 : ET_FLOAT32, ET_STATIC, ROWS, OUT);
		test_seed = 7;
		draw(args[i][0].f16, (size_t)ROWS * IN);
		test_ok(test_run_once(&mk, args[i], 2, &diag), &diag);
	}
	for (size_t i = 0; i < ROWS * OUT; i++)
		assert_true(at(&args[1][1], i) == nearest((double)args[0][1].f32[i]) && args[0][1].f32[i] != 0);
}

/* Matrix products, and layers whose filter is computed: sums of fp32. */
static void test_products(void **state)
{
	static struct arg args[3];
	for (int is_layer = 0; is_layer < 2; is_layer++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t in = fp16(&mk, 1, 0),
			 right = plain(&mk, ET_XNN_FP16, 2, 0, is_layer ? OUT : IN, is_layer ? IN : OUT),
			 out = plain(&mk, ET_XNN_FP16, 0, 3, ROWS, OUT);
		mx_node(&mk, is_layer ? MX_LINEAR : MX_MATMUL,
			&(struct et_xnn_node){ .inputs = { in, right, ET_XNN_NONE },
				.outputs = { out },
				.min = -INFINITY,
				.max = INFINITY });
		ARG(&args[0], ET_FLOAT16, ET_STATIC, ROWS, IN);
		ARG(&args[1], ET_FLOAT16, ET_STATIC, is_layer ? OUT : IN, is_layer ? IN : OUT);
		ARG(&args[2], ET_FLOAT16, ET_STATIC, ROWS, OUT);
		draw(args[0].f16, (size_t)ROWS * IN);
		draw(args[1].f16, (size_t)OUT * IN);
		test_ok(test_run_once(&mk, args, 3, &diag), &diag);
		for (size_t i = 0; i < ROWS * OUT; i++) {
			double sum = 0;
			for (size_t k = 0; k < IN; k++)
				sum += at(&args[0], i / OUT * IN + k) *
				       at(&args[1], is_layer ? i % OUT * IN + k : k * OUT + i % OUT);
			assert_true(at(&args[2], i) == nearest(sum));
		}
	}
}

/* A filter and a constant become fp32, and every allocation fails once. */
static void test_memory(void **state)
{
	uint16_t taps[OUT * IN];
	struct make_xnn mk;
	size_t n_bytes, n_failures = 0;
	draw(taps, (size_t)OUT * IN);
	mx_init(&mk);
	uint32_t in = fp16(&mk, 1, 0), filter = constant(&mk, taps, OUT, IN), row = constant(&mk, taps, 1, OUT),
		 y = plain(&mk, ET_XNN_FP16, 0, 0, ROWS, OUT), out = plain(&mk, ET_XNN_FP16, 0, 2, ROWS, OUT);
	mx_node(&mk, MX_LINEAR,
		&(struct et_xnn_node){
			.inputs = { in, filter, ET_XNN_NONE }, .outputs = { y }, .min = -INFINITY, .max = INFINITY });
	node(&mk, MX_ADD, y, row, out);
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
		test_ops->model_free(model);
		assert_int_equal(test_counting.n_live, n_live);
	}
	assert_true(n_failures > 5);
	free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(between_nodes),
		TEST(outputs_that_are_read),
		TEST(moves),
		TEST(layers),
		TEST(constants),
		TEST(padding_that_is_read),
		TEST(integers),
		TEST(rows),
		TEST(products),
		TEST(memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
