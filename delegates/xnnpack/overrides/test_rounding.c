/* SPDX-License-Identifier: BSD-3-Clause */
/* unary_table.c, binary.c and cast.c, which round otherwise than Debian's XNNPACK, against the plain definition in
 * doubles, ties to even; and nodes without ties are left to XNNPACK. Scales are powers of two, so that there are ties
 * and nothing else is rounded. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
	MX_DIVIDE = 8,
	MX_MINIMUM = 12,
	MX_FLOOR = 17,
	MX_CEILING = 23,
	MX_MAXIMUM = 26,
	MX_SQUARE = 28,
	MX_ABS = 30,
	N = 256,
	MOST = 512,
};

static struct arg args[3];

struct type {
	uint32_t type;
	float scale;
	int32_t zero_point;
};

static bool is_8_bit(uint32_t type)
{
	return type == ET_XNN_QINT8 || type == ET_XNN_QUINT8;
}

static uint8_t scalar_of(uint32_t type)
{
	switch (type) {
	case ET_XNN_FP32:
		return ET_FLOAT32;
	case ET_XNN_FP16:
		return ET_FLOAT16;
	case ET_XNN_BF16:
		return ET_BFLOAT16;
	case ET_XNN_INT32:
		return ET_INT32;
	case ET_XNN_QINT8:
		return ET_INT8;
	default:
		return ET_UINT8;
	}
}

static int number_of(const struct type *type, const struct arg *arg, size_t i)
{
	return type->type == ET_XNN_QINT8 ? arg->i8[i] : (uint8_t)arg->i8[i];
}

static double get(const struct type *type, const struct arg *arg, size_t i)
{
	uint32_t bits = (uint32_t)arg->f16[i] << 16;
	float value;
	switch (type->type) {
	case ET_XNN_FP32:
		return (double)arg->f32[i];
	case ET_XNN_FP16:
		return (double)et_xnn_from_fp16(arg->f16[i]);
	case ET_XNN_BF16:
		memcpy(&value, &bits, sizeof(value));
		return (double)value;
	case ET_XNN_INT32:
		return arg->i32[i];
	default:
		return (number_of(type, arg, i) - type->zero_point) * (double)type->scale;
	}
}

/* The nearest number of @type within @min and @max and the type's range. */
static int round_to(const struct type *type, double value, double min, double max)
{
	double least = type->type == ET_XNN_QINT8 ? -128 : 0, most = type->type == ET_XNN_QINT8 ? 127 : 255,
	       scale = (double)type->scale, number = value / scale + type->zero_point;
	least = fmax(least, fmin(nearbyint(min / scale + type->zero_point), most));
	most = fmin(most, fmax(nearbyint(max / scale + type->zero_point), least));
	return isnan(number) ? (int)fmax(least, fmin(most, 0)) : (int)nearbyint(fmax(least, fmin(most, number)));
}

static uint32_t add_value(struct make_xnn *mk, const struct type *type, uint32_t in, uint32_t out, uint32_t n)
{
	return mx_value(mk, &(struct mx_value){ .type = type->type,
				    MX_DIMS(n),
				    .scale = type->scale,
				    .zero_point = type->zero_point,
				    .input = in,
				    .output = out });
}

/* Run the payload of @mk; whether @own computes a node of it. */
static bool run(struct make_xnn *mk, uint32_t n_args, const struct et_xnn_override *override)
{
	struct test_session s = { 0 };
	struct et_diag diag = { 0 };
	size_t n_bytes;
	uint8_t *bytes = mx_finish(mk, &n_bytes);
	struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
	test_ok(test_session_begin(&s, bytes, n_bytes, n_args, 1 + test_draw(2), &diag), &diag);
	free(bytes);
	test_ok(test_ops->enqueue(s.instance, values, NULL, &diag), &diag);
	bool has = test_has_override(s.model, override);
	test_session_end(&s);
	return has;
}

/* --- unary --- */

static double apply_one(uint8_t kind, double x)
{
	switch (kind) {
	case MX_FLOOR:
		return floor(x);
	case MX_CEILING:
		return ceil(x);
	case MX_SQUARE:
		return x * x;
	case MX_ABS:
		return fabs(x);
	case MX_NEGATE:
		return -x;
	case MX_CLAMP:
		return fmin(fmax(x, -1), 2.5);
	case MX_SIGMOID:
		return 1 / (1 + exp(-x));
	default:
		return x;
	}
}

/* Run over all numbers of @in; true if an override made the table. */
static bool check_table(uint8_t kind, const struct type *in, const struct type *out)
{
	struct make_xnn mk;
	mx_init(&mk);
	bool is_limited = kind == MX_CLAMP;
	struct et_xnn_node node = { .inputs = { add_value(&mk, in, 1, 0, N) },
		.min = is_limited ? -1 : -INFINITY,
		.max = is_limited ? 2.5f : INFINITY };
	node.outputs[0] = add_value(&mk, out, 0, 2, N);
	mx_node(&mk, kind, &node);
	ARG(&args[0], scalar_of(in->type), ET_STATIC, N);
	ARG(&args[1], scalar_of(out->type), ET_STATIC, N);
	for (int i = 0; i < N; i++)
		args[0].i8[i] = (int8_t)i;
	bool is_ours = run(&mk, 2, &et_xnn_override_unary_q8);
	for (size_t i = 0; i < N; i++) {
		double expected = apply_one(kind, get(in, &args[0], i));
		assert_int_equal(number_of(out, &args[1], i), round_to(out, expected, -INFINITY, INFINITY));
	}
	return is_ours;
}

static void test_tables(void **state)
{
	static const uint8_t kinds[] = { MX_FLOOR, MX_CEILING, MX_SQUARE, MX_ABS, MX_NEGATE, MX_CLAMP };
	static const struct type types[] = { { ET_XNN_QINT8, 0.5f, 3 }, { ET_XNN_QINT8, 1, -7 },
		{ ET_XNN_QUINT8, 0.25f, 120 }, { ET_XNN_QUINT8, 2, 5 } };
	int n_ours = 0;
	for (size_t i = 0; i < sizeof(kinds); i++)
		for (int j = 0; j < 4; j++) {
			n_ours += check_table(kinds[i], &types[j], &types[j ^ 1]);
			assert_false(check_table(kinds[i], &types[j], &types[j]) && kinds[i] != MX_SQUARE);
		}
	assert_int_equal(n_ours, 9);
	/* from one kind of 8 bits to the other */
	assert_true(check_table(MX_CONVERT, &types[0], &types[3]));
	assert_false(check_table(MX_CONVERT, &types[1], &(struct type){ ET_XNN_QUINT8, 0.5f, 3 }));
	/* half of the steps between 0 and 1 */
	assert_true(check_table(MX_SIGMOID, &types[0], &(struct type){ ET_XNN_QINT8, 1 / 127.0f, 0 }));
	assert_false(check_table(MX_SIGMOID, &types[0], &(struct type){ ET_XNN_QINT8, 0x1p-8f, -128 }));
}

/* The output is read by other nodes, and larger than one thread's share. */
static void test_table_between_nodes(void **state)
{
	static const struct type type = { ET_XNN_QINT8, 0.5f, 0 }, halved = { ET_XNN_QINT8, 1, 0 };
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t values[] = { add_value(&mk, &type, 1, 0, N), add_value(&mk, &type, 0, 0, N),
		add_value(&mk, &halved, 0, 0, N), add_value(&mk, &halved, 0, 2, N) };
	static const uint8_t kinds[] = { MX_NEGATE, MX_ABS, MX_NEGATE };
	for (int i = 0; i < 3; i++)
		mx_node(&mk, kinds[i], &(struct et_xnn_node){ .inputs = { values[i] }, .outputs = { values[i + 1] } });
	ARG(&args[0], ET_INT8, ET_STATIC, N);
	ARG(&args[1], ET_INT8, ET_STATIC, N);
	for (int i = 0; i < N; i++)
		args[0].i8[i] = (int8_t)i;
	assert_true(run(&mk, 2, &et_xnn_override_unary_q8));
	for (size_t i = 0; i < N; i++)
		assert_int_equal(args[1].i8[i], (int)-nearbyint(fmin(fabs((double)args[0].i8[i]), 127) / 2));
}

/* --- binary --- */

static double apply_two(uint8_t kind, double a, double b)
{
	switch (kind) {
	case MX_ADD:
		return a + b;
	case MX_DIVIDE:
		return a / b;
	case MX_MINIMUM:
		return fmin(a, b);
	case MX_MAXIMUM:
		return fmax(a, b);
	default:
		return a < 0 ? a * b : a;
	}
}

struct pair {
	uint8_t kind;
	struct type in[2], out;
	uint32_t dims[2][3];
	bool is_constant, is_limited;
};

static uint32_t add_operand(struct make_xnn *mk, const struct pair *pair, int i)
{
	struct mx_value value = {
		.type = pair->in[i].type, .n_dims = 3, .scale = pair->in[i].scale, .zero_point = pair->in[i].zero_point
	};
	size_t n = 1;
	int32_t sizes[3];
	for (int j = 0; j < 3; j++) {
		n *= value.dims[j] = pair->dims[i][j];
		sizes[j] = (int32_t)value.dims[j];
	}
	test_arg_init(&args[i], scalar_of(value.type), 3, sizes, ET_STATIC);
	for (size_t j = 0; j < n; j++)
		if (is_8_bit(value.type))
			args[i].i8[j] = (int8_t)test_draw(256);
		else
			args[i].i32[j] = (int32_t)test_draw(41) - 20;
	if (i == 1 && pair->is_constant)
		value.constant = mx_constant(mk, args[i].i8, n * (is_8_bit(value.type) ? 1 : sizeof(int32_t)));
	else
		value.input = (uint32_t)i + 1;
	return mx_value(mk, &value);
}

/* The input's element for element @at of the output. */
static size_t find(const uint32_t *dims, const uint32_t *out, size_t at)
{
	size_t index = 0, step = 1;
	for (int i = 2; i >= 0; i--) {
		index += (dims[i] == 1 ? 0 : at % out[i]) * step;
		step *= dims[i];
		at /= out[i];
	}
	return index;
}

/* Rounded down where the divisor is above 0, and up where it is below. */
static int32_t quotient(double a, double b)
{
	return b == 0 ? 0 : (int32_t)(b > 0 ? floor(a / b) : ceil(a / b));
}

static bool check_pair(const struct pair *pair)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t dims[3];
	size_t n = 1;
	for (int i = 0; i < 3; i++)
		n *= dims[i] = pair->dims[0][i] > pair->dims[1][i] ? pair->dims[0][i] : pair->dims[1][i];
	struct et_xnn_node node = { .min = pair->is_limited ? -3 : -INFINITY, .max = pair->is_limited ? 4 : INFINITY };
	for (int i = 0; i < 2; i++)
		node.inputs[i] = add_operand(&mk, pair, i);
	node.outputs[0] = mx_value(&mk, &(struct mx_value){ .type = pair->out.type,
						MX_DIMS(dims[0], dims[1], dims[2]),
						.scale = pair->out.scale,
						.zero_point = pair->out.zero_point,
						.output = pair->is_constant ? 2 : 3 });
	mx_node(&mk, pair->kind, &node);
	struct arg second = args[1];
	uint32_t result = pair->is_constant ? 1 : 2;
	ARG(&args[result], scalar_of(pair->out.type), ET_STATIC, (int32_t)dims[0], (int32_t)dims[1], (int32_t)dims[2]);
	bool is_ours = run(&mk, result + 1, &et_xnn_override_binary);
	for (size_t i = 0; i < n; i++) {
		double a = get(&pair->in[0], &args[0], find(pair->dims[0], dims, i)),
		       b = get(&pair->in[1], &second, find(pair->dims[1], dims, i)), min = (double)node.min,
		       max = (double)node.max;
		if (is_8_bit(pair->out.type))
			assert_int_equal(number_of(&pair->out, &args[result], i),
				round_to(&pair->out, apply_two(pair->kind, a, b), min, max));
		else
			assert_int_equal(args[result].i32[i], (int32_t)fmin(fmax(quotient(a, b), min), max));
	}
	return is_ours;
}

static void test_pairs(void **state)
{
	static const uint8_t kinds[] = { MX_DIVIDE, MX_MINIMUM, MX_MAXIMUM, MX_PRELU, MX_DIVIDE };
	static const uint32_t dims[][2][3] = { { { 1, 1, 7 }, { 1, 1, 7 } }, { { 2, 3, 40 }, { 2, 3, 40 } },
		{ { 2, 3, 5 }, { 1, 1, 5 } }, { { 2, 3, 5 }, { 1, 3, 1 } }, { { 1, 3, 1 }, { 2, 1, 50 } },
		{ { 2, 3, 5 }, { 1, 1, 1 } }, { { 1, 1, 1 }, { 2, 3, 5 } }, { { 1, 1, 1 }, { 1, 1, 1 } } };
	for (unsigned i = 0; i < 5 * 8 * 4; i++) {
		uint32_t type = i & 1 ? ET_XNN_QINT8 : ET_XNN_QUINT8;
		bool is_integer = i % 5 == 4;
		struct pair pair = { .kind = kinds[i % 5],
			.in = { { type, 0.5f, 3 }, { type, 0.25f, 100 } },
			/* a quotient is exact, or no tie, if the divisor is a power of two */
			.out = { type, i & 2 ? 1 : 2, (i & 2) ? 4 : 7 },
			.is_constant = i % 7 == 0 };
		/* neither XNNPACK takes limits on these operators */
		pair.is_limited = pair.kind == MX_DIVIDE && i % 3 == 0;
		memcpy(pair.dims, dims[i / 5 % 8], sizeof(pair.dims));
		if (is_integer)
			pair.in[0] = pair.in[1] = pair.out = (struct type){ .type = ET_XNN_INT32 };
		if (pair.kind == MX_PRELU) /* rounded before the zero point is added */
			pair.out.zero_point = 4;
		assert_true(check_pair(&pair));
	}
	/* no ties: left to XNNPACK */
	struct pair alike = { .kind = MX_MINIMUM,
		.in = { { ET_XNN_QINT8, 0.5f, 3 }, { ET_XNN_QINT8, 0.5f, 3 } },
		.out = { ET_XNN_QINT8, 0.5f, 3 },
		.dims = { { 2, 3, 5 }, { 2, 3, 5 } } };
	assert_false(check_pair(&alike));
	/* scales too far apart for XNNPACK, and a sum that is a tie */
	struct pair apart = { .kind = MX_ADD,
		.in = { { ET_XNN_QINT8, 0x1p-11f, 3 }, { ET_XNN_QINT8, 0x1p-1f, 3 } },
		.out = { ET_XNN_QINT8, 1, 1 },
		.dims = { { 2, 3, 5 }, { 2, 3, 5 } } };
	assert_true(check_pair(&apart));
}

/* Nothing traps, and the remainder is never below 0. */
static void test_quotients(void **state)
{
	static const int32_t numbers[][3] = { { INT32_MIN, -1, INT32_MIN }, { INT32_MIN, 1, INT32_MIN },
		{ INT32_MIN, 0, 0 }, { 7, 0, 0 }, { 7, 2, 3 }, { -7, 2, -4 }, { 7, -2, -3 }, { -7, -2, 4 },
		{ INT32_MAX, INT32_MIN, 0 }, { INT32_MIN, INT32_MAX, -2 }, { -6, 3, -2 } };
	enum { HOW_MANY = sizeof(numbers) / sizeof(*numbers) };
	static const struct type type = { .type = ET_XNN_INT32 };
	struct make_xnn mk;
	mx_init(&mk);
	struct et_xnn_node node = { .min = -INFINITY, .max = INFINITY };
	for (uint32_t i = 0; i < 3; i++)
		ARG(&args[i], ET_INT32, ET_STATIC, HOW_MANY);
	node.inputs[0] = add_value(&mk, &type, 1, 0, HOW_MANY);
	node.inputs[1] = add_value(&mk, &type, 2, 0, HOW_MANY);
	node.outputs[0] = add_value(&mk, &type, 0, 3, HOW_MANY);
	for (int i = 0; i < HOW_MANY; i++) {
		args[0].i32[i] = numbers[i][0];
		args[1].i32[i] = numbers[i][1];
	}
	mx_node(&mk, MX_DIVIDE, &node);
	assert_true(run(&mk, 3, &et_xnn_override_binary));
	for (int i = 0; i < HOW_MANY; i++)
		assert_int_equal(args[2].i32[i], numbers[i][2]);
}

/* --- datatypes --- */

static void put_number(uint32_t type, struct arg *arg, size_t i, float number)
{
	uint32_t bits;
	memcpy(&bits, &number, sizeof(bits));
	if (type == ET_XNN_FP32)
		arg->f32[i] = number;
	else if (type == ET_XNN_FP16)
		arg->f16[i] = isnan(number) ? 0x7e00 : et_float_to_fp16(number);
	else if (type == ET_XNN_BF16)
		arg->f16[i] = (uint16_t)(bits >> 16);
	else if (type == ET_XNN_INT32)
		arg->i32[i] = isnan(number) ? 0 : (int32_t)number;
	else
		arg->i8[i] = (int8_t)i;
}

static void test_casts(void **state)
{
	static const uint32_t types[][2] = { { ET_XNN_FP32, ET_XNN_INT32 }, { ET_XNN_FP16, ET_XNN_INT32 },
		{ ET_XNN_BF16, ET_XNN_INT32 }, { ET_XNN_QINT8, ET_XNN_INT32 }, { ET_XNN_QUINT8, ET_XNN_INT32 },
		{ ET_XNN_INT32, ET_XNN_QINT8 }, { ET_XNN_INT32, ET_XNN_QUINT8 }, { ET_XNN_BF16, ET_XNN_QINT8 },
		{ ET_XNN_BF16, ET_XNN_QUINT8 }, { ET_XNN_FP16, ET_XNN_QUINT8 } };
	enum { LONG = 300 };
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		struct type in = { .type = types[i][0] }, out = { .type = types[i][1] };
		if (is_8_bit(in.type))
			in = (struct type){ in.type, 0.5f, 3 };
		if (is_8_bit(out.type))
			out = (struct type){ out.type, in.type == ET_XNN_INT32 ? 2 : 0.5f, 5 };
		struct make_xnn mk;
		mx_init(&mk);
		struct et_xnn_node node = { .inputs = { add_value(&mk, &in, 1, 0, LONG) } };
		node.outputs[0] = add_value(&mk, &out, 0, 2, LONG);
		mx_node(&mk, MX_CONVERT, &node);
		ARG(&args[0], scalar_of(in.type), ET_STATIC, LONG);
		ARG(&args[1], scalar_of(out.type), ET_STATIC, LONG);
		for (size_t j = 0; j < LONG; j++)
			put_number(in.type, &args[0], j,
				j == 7   ? NAN
				: j == 8 ? 60000
				: j == 9 ? -60000
					 : ((float)j - 150) * (in.type == ET_XNN_INT32 ? 1 : 0.25f));
		assert_true(run(&mk, 2, &et_xnn_override_cast));
		for (size_t j = 0; j < LONG; j++) {
			double value = get(&in, &args[0], j);
			if (is_8_bit(out.type))
				assert_int_equal(number_of(&out, &args[1], j),
					round_to(&out, value, -INFINITY, INFINITY));
			else
				assert_int_equal(args[1].i32[j], isnan(value) ? 0 : (int)nearbyint(value));
		}
	}
}

/* What is too large for an int32 becomes the largest float below 2^31. */
static void test_casts_of_large_numbers(void **state)
{
	static const float numbers[] = { 3e9f, -3e9f, INFINITY, -INFINITY, 0x1p31f, -0x1p31f, 0x1p30f };
	static const int32_t expected[] = { INT32_MAX - 127, INT32_MIN, INT32_MAX - 127, INT32_MIN, INT32_MAX - 127,
		INT32_MIN, 1 << 30 };
	struct make_xnn mk;
	mx_init(&mk);
	struct et_xnn_node node = { .inputs = { add_value(&mk, &(struct type){ ET_XNN_FP32 }, 1, 0, 7) } };
	node.outputs[0] = add_value(&mk, &(struct type){ ET_XNN_INT32 }, 0, 2, 7);
	mx_node(&mk, MX_CONVERT, &node);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 7);
	ARG(&args[1], ET_INT32, ET_STATIC, 7);
	memcpy(args[0].f32, numbers, sizeof(numbers));
	assert_true(run(&mk, 2, &et_xnn_override_cast));
	assert_memory_equal(args[1].i32, expected, sizeof(expected));
}

/* --- NaN and infinity --- */

/* 1 / sqrt(infinity) is 0, alone and in vectors, and all other numbers are as before. */
static void test_reciprocal_roots(void **state)
{
	static const float numbers[] = { INFINITY, 4, 1e-30f, 0.25f, 1e24f, -1, NAN, 1e6f };
	for (uint32_t n = 1; n < 40; n++) {
		struct make_xnn mk;
		mx_init(&mk);
		struct et_xnn_node node = { .inputs = { add_value(&mk, &(struct type){ ET_XNN_FP32 }, 1, 0, n) } };
		node.outputs[0] = add_value(&mk, &(struct type){ ET_XNN_FP32 }, 0, 2, n);
		mx_node(&mk, 40, &node);
		ARG(&args[0], ET_FLOAT32, ET_STATIC, (int32_t)n);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, (int32_t)n);
		for (uint32_t i = 0; i < n; i++)
			args[0].f32[i] = numbers[(i + n) % 8];
		run(&mk, 2, NULL);
		for (uint32_t i = 0; i < n; i++) {
			float expected = 1 / sqrtf(args[0].f32[i]);
			if (isnan(expected))
				assert_true(isnan(args[1].f32[i]));
			else
				test_near(args[1].f32[i] / (expected ? expected : 1), expected ? 1 : 0,
					expected ? 1e-5f : 1e-21f);
		}
	}
}

/* A clamp without limits changes nothing, whatever it is given. */
static void test_no_limits(void **state)
{
	static const uint32_t types[] = { ET_XNN_FP32, ET_XNN_FP16, ET_XNN_BF16, ET_XNN_INT32 };
	static const uint32_t floats[] = { 0x7fc00000, 1, 0x80000001, 0xff800000, 0x3f800000 };
	static const uint16_t fp16[] = { 0x7e00, 0xfe00, 1, 0x8001, 0xfc00, 0x3c00 };
	enum { FEW = 5 };
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		struct type type = { .type = types[i] };
		struct make_xnn mk;
		mx_init(&mk);
		struct et_xnn_node node = {
			.inputs = { add_value(&mk, &type, 1, 0, FEW) }, .min = -INFINITY, .max = INFINITY
		};
		node.outputs[0] = add_value(&mk, &type, 0, 2, FEW);
		mx_node(&mk, MX_CLAMP, &node);
		bool is_wide = type.type == ET_XNN_FP32 || type.type == ET_XNN_INT32;
		ARG(&args[0], scalar_of(type.type), ET_STATIC, FEW);
		ARG(&args[1], scalar_of(type.type), ET_STATIC, FEW);
		memcpy(args[0].i8, is_wide ? (const void *)floats : fp16, FEW * (is_wide ? 4 : 2));
		run(&mk, 2, NULL);
		for (size_t j = 0; j < FEW; j++)
			if (type.type == ET_XNN_BF16 && (fp16[j] & 0x7f80) == 0)
				continue; /* too small for a float that bf16 does not hold */
			else
				assert_memory_equal(args[1].i8 + j * (is_wide ? 4 : 2),
					args[0].i8 + j * (is_wide ? 4 : 2), is_wide ? 4 : 2);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tables),
		TEST(table_between_nodes),
		TEST(pairs),
		TEST(quotients),
		TEST(casts),
		TEST(casts_of_large_numbers),
		TEST(reciprocal_roots),
		TEST(no_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
