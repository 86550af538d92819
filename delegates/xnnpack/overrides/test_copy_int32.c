/* SPDX-License-Identifier: BSD-3-Clause */
/* copy_int32.c: int32 and qint32 are moved like XNNPACK moves floats, and padded with the number itself. And int32
 * arithmetic in XNNPACK, with limits. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MX_COPY = ET_XNN_KIND_COPY, MOST = 256 };

static struct arg args[4];

static uint8_t scalar_of(uint32_t type)
{
	return type == ET_XNN_FP32 ? ET_FLOAT32 : ET_INT32;
}

static float get(uint32_t type, const struct arg *arg, size_t i)
{
	return type == ET_XNN_FP32 ? arg->f32[i] : (float)arg->i32[i];
}

static void put(uint32_t type, struct arg *arg, size_t i, float number)
{
	if (type == ET_XNN_FP32)
		arg->f32[i] = number;
	else
		arg->i32[i] = (int32_t)number;
}

struct shape {
	uint32_t n_dims, dims[ET_XNN_MAX_DIMS];
};

static size_t count(const struct shape *shape)
{
	size_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++)
		n *= shape->dims[i];
	return n;
}

static struct mx_value value_of(uint32_t type, const struct shape *shape)
{
	struct mx_value value = { .type = type, .n_dims = shape->n_dims, .scale = type == ET_XNN_QINT32 ? 0.5f : 0 };
	memcpy(value.dims, shape->dims, sizeof(shape->dims));
	return value;
}

static void init_arg(struct arg *arg, uint32_t type, const struct shape *shape)
{
	int32_t sizes[ET_XNN_MAX_DIMS];
	for (uint32_t i = 0; i < shape->n_dims; i++)
		sizes[i] = (int32_t)shape->dims[i];
	test_arg_init(arg, scalar_of(type), shape->n_dims, sizes, ET_STATIC);
}

/* A node that moves elements, and its output's shape. */
struct move {
	uint8_t kind;
	struct et_xnn_node node;
	struct shape in, out;
	bool is_constant; /* the second input of a concatenation */
};

static struct move draw_move(void)
{
	static const uint8_t kinds[] = { MX_TRANSPOSE, MX_SLICE, MX_PAD, MX_RESHAPE, MX_CAT2, MX_COPY };
	struct move m = { .kind = kinds[test_draw(6)], .is_constant = test_draw(2) };
	uint32_t n = m.in.n_dims = 1 + test_draw(5);
	for (uint32_t i = 0; i < n; i++)
		m.in.dims[i] = 1 + test_draw(3);
	m.out = m.in;
	m.node.n_list[0] = m.node.n_list[1] = n;
	uint32_t transpose = test_draw(n), axis = test_draw(n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t *first = &m.node.list[0][i], *second = &m.node.list[1][i], size = m.in.dims[i];
		if (m.kind == MX_TRANSPOSE) {
			*first = transpose % 2 ? (i + transpose) % n : n - 1 - i;
			m.out.dims[i] = m.in.dims[*first];
		} else if (m.kind == MX_SLICE) {
			*first = test_draw(size);
			*second = *first ? 1 + test_draw(size - *first) : 0;
			m.out.dims[i] = *second ? *second : size;
		} else if (m.kind == MX_PAD) {
			*first = test_draw(3);
			*second = test_draw(2);
			m.out.dims[i] = size + *first + *second;
		} else if (m.kind == MX_RESHAPE) {
			*first = i == axis ? 0 : size;
		}
	}
	if (m.kind == MX_CAT2)
		m.out.dims[axis] *= 2;
	m.node.numbers[ET_XNN_AXIS] = test_draw(2) ? axis : axis - n;
	return m;
}

/* Run into args[2]. int32 is negated on the way, so that XNNPACK's nodes stand beside the override. */
static void run_move(const struct move *m, uint32_t type)
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	struct et_xnn_node node = m->node, negate = { .min = -INFINITY, .max = INFINITY };
	struct mx_value in = value_of(type, &m->in), out = value_of(type, &m->out);
	size_t n = count(&m->in), n_bytes;
	uint32_t n_args = 2;
	mx_init(&mk);
	in.input = 1;
	node.inputs[0] = mx_value(&mk, &in);
	init_arg(&args[0], type, &m->in);
	for (size_t i = 0; i < n; i++)
		put(type, &args[0], i, (float)i + 1);
	if (m->kind == MX_CAT2) {
		init_arg(&args[1], type, &m->in);
		for (size_t i = 0; i < n; i++)
			put(type, &args[1], i, (float)(n + i) + 1);
		in.input = m->is_constant ? 0 : 2;
		in.constant = m->is_constant ? mx_constant(&mk, args[1].f32, n * sizeof(float)) : 0;
		node.inputs[1] = mx_value(&mk, &in);
		n_args += !m->is_constant;
	}
	bool is_last = type == ET_XNN_QINT32;
	out.output = is_last ? n_args : 0;
	node.outputs[0] = mx_value(&mk, &out);
	mx_node(&mk, m->kind, &node);
	if (!is_last) {
		out.output = n_args;
		negate.inputs[0] = node.outputs[0];
		negate.outputs[0] = mx_value(&mk, &out);
		mx_node(&mk, MX_NEGATE, &negate);
	}
	struct arg *result = &args[n_args - 1];
	init_arg(result, type, &m->out);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	struct test_session s = { 0 };
	test_ok(test_session_begin(&s, bytes, n_bytes, n_args, 1, &diag), &diag);
	free(bytes);
	if (m->kind != MX_RESHAPE) /* a reshape may be a view */
		assert_int_equal(test_has_override(s.model, &et_xnn_override_copy_int32), type != ET_XNN_FP32);
	struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
	test_ok(test_ops->enqueue(s.instance, values, NULL, &diag), &diag);
	test_session_end(&s);
	for (size_t i = 0; i < count(&m->out); i++)
		args[3].f32[i] = (is_last ? -1 : 1) * get(type, result, i);
}

static void test_moves(void **state)
{
	static const uint32_t types[] = { ET_XNN_INT32, ET_XNN_QINT32 };
	for (int i = 0; i < 120;) {
		struct move m = draw_move();
		if (count(&m.out) > MOST || 2 * count(&m.in) > MOST)
			continue;
		float expected[MOST];
		run_move(&m, ET_XNN_FP32);
		memcpy(expected, args[3].f32, sizeof(expected));
		run_move(&m, types[i++ % 2]);
		for (size_t j = 0; j < count(&m.out); j++)
			test_near(args[3].f32[j], expected[j], 0);
	}
}

/* Padding is the number itself, truncated, or quantized for qint32; out of range it is the largest or smallest
 * number. */
static void test_pads_with_numbers(void **state)
{
	static const struct {
		uint32_t type;
		float number;
		int32_t expected;
	} pads[] = { { ET_XNN_INT32, -1.5f, -1 }, { ET_XNN_INT32, 70000, 70000 }, { ET_XNN_INT32, INFINITY, INT32_MAX },
		{ ET_XNN_INT32, -1e30f, INT32_MIN }, { ET_XNN_QINT32, 3, 6 }, { ET_XNN_QINT32, -0.75f, -2 } };
	for (size_t i = 0; i < sizeof(pads) / sizeof(*pads); i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		struct shape in = { 1, { 2 } }, out = { 1, { 5 } };
		struct mx_value value = value_of(pads[i].type, &in);
		struct et_xnn_node node = { .number = pads[i].number, .n_list = { 1, 1 }, .list = { { 1 }, { 2 } } };
		mx_init(&mk);
		value.input = 1;
		node.inputs[0] = mx_value(&mk, &value);
		value = value_of(pads[i].type, &out);
		value.output = 2;
		node.outputs[0] = mx_value(&mk, &value);
		mx_node(&mk, MX_PAD, &node);
		init_arg(&args[0], pads[i].type, &in);
		init_arg(&args[1], pads[i].type, &out);
		args[0].i32[0] = 11;
		args[0].i32[1] = 12;
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		const int32_t expected[] = { pads[i].expected, 11, 12, pads[i].expected, pads[i].expected };
		assert_memory_equal(args[1].i32, expected, sizeof(expected));
	}
}

/* a + b with limits of the node's own, or of a clamp behind it. */
static void test_limits(void **state)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		uint32_t type = ET_XNN_INT32;
		bool is_behind = i & 1;
		float min = -6, max = i & 2 ? 9 : INFINITY;
		struct shape shape = { 2, { 3, 5 } };
		struct mx_value value = value_of(type, &shape);
		mx_init(&mk);
		struct et_xnn_node node = { .min = is_behind ? -INFINITY : min, .max = is_behind ? INFINITY : max };
		for (uint32_t j = 0; j < 2; j++) {
			value.input = j + 1;
			node.inputs[j] = mx_value(&mk, &value);
			init_arg(&args[j], type, &shape);
			for (size_t k = 0; k < 15; k++)
				put(type, &args[j], k, (float)test_draw(21) - 10);
		}
		value.input = 0;
		value.output = is_behind ? 0 : 3;
		node.outputs[0] = mx_value(&mk, &value);
		mx_node(&mk, MX_ADD, &node);
		value.output = 3;
		if (is_behind)
			mx_node(&mk, MX_CLAMP,
				&(struct et_xnn_node){ .inputs = { node.outputs[0] },
					.outputs = { mx_value(&mk, &value) },
					.min = min,
					.max = max });
		init_arg(&args[2], type, &shape);
		test_ok(test_run_once(&mk, args, 3, &diag), &diag);
		for (size_t k = 0; k < 15; k++)
			test_near(get(type, &args[2], k),
				fminf(fmaxf(get(type, &args[0], k) + get(type, &args[1], k), min), max), 0);
	}
}

/* The memory that integer limits need beside their input and output is known beforehand. */
static void test_memory_of_limits(void **state)
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct shape shape = { 2, { 30, 50 } };
	struct mx_value in = value_of(ET_XNN_INT32, &shape), out = in;
	size_t n_bytes;
	mx_init(&mk);
	in.input = 1;
	out.output = 2;
	mx_node(&mk, MX_CLAMP,
		&(struct et_xnn_node){
			.inputs = { mx_value(&mk, &in) }, .outputs = { mx_value(&mk, &out) }, .min = -6, .max = 9 });
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	test_ok(test_compile(bytes, n_bytes, 2, &model, &info, &diag), &diag);
	assert_true(info.instance_bytes >= count(&shape) * sizeof(int32_t));
	test_ops->model_free(model);
	free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(moves),
		TEST(pads_with_numbers),
		TEST(limits),
		TEST(memory_of_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
