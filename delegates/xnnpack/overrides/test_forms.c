/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolutions (plain, depthwise, transposed) and linear layers of every form against plain loops, fp32 and fp16,
 * with infinities and NaNs among inputs and weights: zeros around the image are multiplied, too. Sums of fp16 are
 * exact here, so their order does not matter. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/ukernels/gemm.h"
#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/partition.h"
#include "delegates/xnnpack/ukernels/im2col.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 512 /* of an argument */, MOST_TAPS = 4096, N_TRIALS = 400 };

struct layer {
	uint8_t node; /* MX_...; a linear layer has size[0] rows */
	uint32_t type;
	uint32_t batch, size[2], kernel[2], stride[2], dilation[2], pad[4], adjust[2]; /* top, right, bottom, left */
	uint32_t group_in, group_out, groups;
	bool has_bias, is_limited, is_special;
	bool is_computed, is_transposed, is_flat; /* a linear layer */
};

static float x[MOST], taps[MOST_TAPS], bias[MOST], expected[MOST];

/* Draw fp16 values between -1 and 1; with @is_special some are infinite or NaN. */
static void draw(float *to, size_t n, bool is_special)
{
	static const float special[] = { INFINITY, -INFINITY, NAN };
	for (size_t i = 0; i < n; i++) {
		to[i] = 0.5f * ((float)test_draw(5) - 2);
		if (is_special && test_draw(12) == 0)
			to[i] = special[test_draw(3)];
	}
}

static void draw_numbers(const struct layer *l)
{
	draw(x, MOST, l->is_special && test_draw(2));
	draw(taps, MOST_TAPS, l->is_special && test_draw(2));
	draw(bias, MOST, l->is_special && test_draw(4) == 0);
}

static uint32_t n_in(const struct layer *l)
{
	return l->group_in * l->groups;
}

static uint32_t n_out(const struct layer *l)
{
	return l->group_out * l->groups;
}

/* The output's size along @axis; 0: there is none. */
static uint32_t outer(const struct layer *l, int axis)
{
	int64_t size = l->size[axis], pad = axis ? l->pad[1] + l->pad[3] : l->pad[0] + l->pad[2],
		reach = (int64_t)(l->kernel[axis] - 1) * l->dilation[axis] + 1;
	int64_t n = l->node == MX_DECONV ? (size - 1) * l->stride[axis] + l->adjust[axis] + reach - pad
		    : size + pad < reach ? 0
					 : (size + pad - reach) / l->stride[axis] + 1;
	return n < 0 ? 0 : (uint32_t)n;
}

/* Whether XNNPACK uses subconvolutions, so that an output multiplies only taps a stride apart. */
static bool has_subconvs(const struct layer *l)
{
	return l->node == MX_DECONV && l->dilation[0] == 1 && l->dilation[1] == 1 && l->stride[0] <= l->kernel[0] &&
	       l->stride[1] <= l->kernel[1];
}

enum { OUTSIDE = -1, OTHER_SUBCONV = -2 };

static int64_t pixel_of(const struct layer *l, int axis, uint32_t out, uint32_t tap)
{
	int64_t stride = l->stride[axis], pad = l->pad[axis ? 3 : 0], dilation = (int64_t)tap * l->dilation[axis], at;
	if (l->node == MX_DECONV) {
		at = (int64_t)out + pad - dilation;
		if (at % stride != 0)
			return has_subconvs(l) ? OTHER_SUBCONV : OUTSIDE;
		at = at < 0 ? OUTSIDE : at / stride;
	} else {
		at = (int64_t)out * stride + dilation - pad;
	}
	return at < 0 || at >= l->size[axis] ? OUTSIDE : at;
}

static float limited(const struct layer *l, float sum)
{
	bool is_lost = l->node == MX_DEPTHWISE && l->type == ET_XNN_FP16 && l->group_out == 1 &&
		       l->kernel[0] * l->kernel[1] <= 25;
	float least = l->is_limited ? -0.5f : -INFINITY, most = l->is_limited ? 1.5f : INFINITY;
	if (isnan(sum))
		return is_lost ? least : sum;
	return sum < least ? least : sum > most ? most : sum;
}

static float tap_at(const struct layer *l, uint32_t to, uint32_t y, uint32_t column, uint32_t channel)
{
	uint32_t tap = y * l->kernel[1] + column, n = l->kernel[0] * l->kernel[1];
	return l->node == MX_DEPTHWISE ? taps[tap * n_out(l) + to] : taps[(to * n + tap) * l->group_in + channel];
}

static float sum_at(const struct layer *l, uint32_t image, uint32_t y, uint32_t column, uint32_t to)
{
	float sum = l->has_bias ? bias[to] : 0;
	for (uint32_t i = 0; i < l->kernel[0] * l->kernel[1]; i++) {
		int64_t row = pixel_of(l, 0, y, i / l->kernel[1]), at = pixel_of(l, 1, column, i % l->kernel[1]);
		if (row == OTHER_SUBCONV || at == OTHER_SUBCONV)
			continue;
		bool is_inside = row != OUTSIDE && at != OUTSIDE;
		for (uint32_t k = 0; k < l->group_in; k++) {
			uint32_t from = to / l->group_out * l->group_in + k;
			float value = is_inside ? x[((image * l->size[0] + (uint32_t)row) * l->size[1] + (uint32_t)at) *
								  n_in(l) +
							  from]
						: 0;
			sum += value * tap_at(l, to, i / l->kernel[1], i % l->kernel[1], k);
		}
	}
	return limited(l, sum);
}

static void plain(const struct layer *l)
{
	uint32_t height = outer(l, 0), width = outer(l, 1), n = n_out(l);
	for (uint32_t i = 0; i < l->batch * height * width * n; i++)
		expected[i] = sum_at(l, i / n / width / height, i / n / width % height, i / n % width, i % n);
}

static void plain_linear(const struct layer *l)
{
	for (uint32_t i = 0; i < l->size[0] * l->group_out; i++) {
		uint32_t row = i / l->group_out, column = i % l->group_out;
		float sum = l->has_bias ? bias[column] : 0;
		for (uint32_t k = 0; k < l->group_in; k++)
			sum += x[row * l->group_in + k] *
			       taps[l->is_transposed ? k * l->group_out + column : column * l->group_in + k];
		expected[i] = limited(l, sum);
	}
}

/* Store numbers in the type. */
static uint32_t constant(struct make_xnn *mk, uint32_t type, const float *numbers, size_t n)
{
	static uint16_t fp16[MOST_TAPS];
	if (type == ET_XNN_FP32)
		return mx_constant(mk, numbers, n * sizeof(*numbers));
	for (size_t i = 0; i < n; i++)
		fp16[i] = et_float_to_fp16(numbers[i]);
	return mx_constant(mk, fp16, n * sizeof(*fp16));
}

static struct arg args[3];

static void fill(struct arg *arg, uint32_t type, const float *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (type == ET_XNN_FP32)
			arg->f32[i] = numbers[i];
		else
			arg->f16[i] = et_float_to_fp16(numbers[i]);
}

static float number_at(const struct arg *arg, uint32_t type, size_t i)
{
	return type == ET_XNN_FP32 ? arg->f32[i] : et_xnn_from_fp16(arg->f16[i]);
}

static uint8_t scalar_of(const struct layer *l)
{
	return l->type == ET_XNN_FP32 ? ET_FLOAT32 : ET_FLOAT16;
}

static uint32_t make_bias(struct make_xnn *mk, const struct layer *l)
{
	uint32_t n = n_out(l);
	if (!l->has_bias)
		return ET_XNN_NONE;
	return mx_value(mk,
		&(struct mx_value){ .type = l->type, MX_DIMS(n), .constant = constant(mk, l->type, bias, n) });
}

static struct et_xnn_node node_of(const struct layer *l)
{
	return (struct et_xnn_node){ .min = l->is_limited ? -0.5f : 0, .max = l->is_limited ? 1.5f : 0 };
}

static void make(struct make_xnn *mk, const struct layer *l)
{
	uint32_t height = outer(l, 0), width = outer(l, 1), in = n_in(l), out = n_out(l),
		 n = l->kernel[0] * l->kernel[1] * l->group_in * out;
	struct mx_value filter = { .type = l->type,
		.constant = constant(mk, l->type, taps, n),
		MX_DIMS(out, l->kernel[0], l->kernel[1], l->group_in) };
	if (l->node == MX_DEPTHWISE) {
		filter.dims[0] = 1;
		filter.dims[3] = out;
	}
	struct et_xnn_node node = node_of(l);
	uint32_t from = mx_value(mk,
		&(struct mx_value){ .type = l->type, MX_DIMS(l->batch, l->size[0], l->size[1], in), .input = 1 });
	node.inputs[0] = from;
	node.inputs[1] = mx_value(mk, &filter);
	node.inputs[2] = make_bias(mk, l);
	node.outputs[0] = mx_value(mk,
		&(struct mx_value){ .type = l->type, MX_DIMS(l->batch, height, width, out), .output = 2 });
	memcpy(node.numbers,
		(uint32_t[ET_XNN_N_NUMBERS]){ l->pad[0], l->pad[1], l->pad[2], l->pad[3], l->kernel[0], l->kernel[1],
			l->stride[0], l->stride[1], l->dilation[0], l->dilation[1], l->group_in, l->group_out,
			l->groups, l->adjust[0], l->adjust[1] },
		ET_XNN_N_NUMBERS * sizeof(uint32_t));
	mx_node(mk, l->node, &node);
	ARG(&args[0], scalar_of(l), ET_STATIC, (int32_t)l->batch, (int32_t)l->size[0], (int32_t)l->size[1],
		(int32_t)in);
	ARG(&args[1], scalar_of(l), ET_STATIC, (int32_t)l->batch, (int32_t)height, (int32_t)width, (int32_t)out);
	fill(&args[0], l->type, x, l->batch * l->size[0] * l->size[1] * in);
}

/* is_flat: the input has rows of another width. */
static void make_linear(struct make_xnn *mk, const struct layer *l)
{
	uint32_t rows = l->size[0], in = l->group_in, out = l->group_out, flags = 0;
	uint32_t dims[] = { l->is_flat ? 1 : rows, l->is_flat ? rows * in : in };
	uint32_t shape[] = { l->is_transposed ? in : out, l->is_transposed ? out : in };
	struct mx_value filter = { .type = l->type, .dims = { shape[0], shape[1] }, .n_dims = 2 };
	if (l->is_computed)
		filter.input = 2;
	else
		filter.constant = constant(mk, l->type, taps, in * out);
	flags |= l->is_transposed ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0;
	flags |= l->is_flat ? XNN_FLAG_TENSORFLOW_RESHAPE_2D : 0;
	struct et_xnn_node node = node_of(l);
	node.flags = flags;
	node.inputs[0] = mx_value(mk, &(struct mx_value){ .type = l->type, MX_DIMS(dims[0], dims[1]), .input = 1 });
	node.inputs[1] = mx_value(mk, &filter);
	node.inputs[2] = make_bias(mk, l);
	node.outputs[0] = mx_value(mk,
		&(struct mx_value){ .type = l->type, MX_DIMS(rows, out), .output = l->is_computed ? 3 : 2 });
	mx_node(mk, MX_LINEAR, &node);
	ARG(&args[0], scalar_of(l), ET_STATIC, (int32_t)dims[0], (int32_t)dims[1]);
	fill(&args[0], l->type, x, rows * in);
	ARG(&args[1], scalar_of(l), ET_STATIC, (int32_t)shape[0], (int32_t)shape[1]);
	if (l->is_computed)
		fill(&args[1], l->type, taps, in * out);
	ARG(&args[l->is_computed ? 2 : 1], scalar_of(l), ET_STATIC, (int32_t)rows, (int32_t)out);
}

/* Whether it ran, as an override. */
static bool compare(const struct layer *l, size_t n, uint32_t n_args, uint32_t n_threads, struct make_xnn *mk)
{
	struct test_session session = { 0 };
	struct et_diag diag = { 0 };
	size_t n_bytes;
	uint8_t *bytes = mx_finish(mk, &n_bytes);
	struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
	enum et_status status = test_session_begin(&session, bytes, n_bytes, n_args, n_threads, &diag);
	test_ok(status, &diag);
	test_ok(test_ops->enqueue(session.instance, values, NULL, &diag), &diag);
	bool is_ours = et_direct_model(session.model)->model->partitions.partitions[0].override != NULL;
	for (size_t i = 0; i < n && (is_ours || !l->is_special); i++) {
		float got = number_at(&args[n_args - 1], l->type, i);
		if (got != expected[i] && !(isnan(got) && isnan(expected[i])))
			fail_msg("node %u of type %u, %u x %u, %u groups: %g of %g at %zu", l->node, l->type,
				l->kernel[0], l->kernel[1], l->groups, (double)got, (double)expected[i], i);
	}
	test_session_end(&session);
	free(bytes);
	return is_ours;
}

static bool fits(const struct layer *l)
{
	uint32_t out = outer(l, 0) * outer(l, 1);
	return out > 0 && n_out(l) * l->kernel[0] * l->kernel[1] * l->group_in <= MOST_TAPS &&
	       out * l->batch * n_out(l) <= MOST && l->batch * l->size[0] * l->size[1] * n_in(l) <= MOST;
}

static void draw_layer(struct layer *l, uint8_t node)
{
	*l = (struct layer){ .node = node,
		.type = test_draw(2) ? ET_XNN_FP16 : ET_XNN_FP32,
		.batch = 1 + test_draw(2),
		.groups = node == MX_DEPTHWISE ? 1 + test_draw(20) : 1 + test_draw(3),
		.group_in = node == MX_DEPTHWISE ? 1 : 1 + test_draw(5),
		.group_out = node == MX_DEPTHWISE ? 1 + test_draw(2) : 1 + test_draw(test_draw(4) ? 5 : 40),
		.has_bias = test_draw(2),
		.is_limited = test_draw(2),
		.is_special = test_draw(3) > 0 };
	bool is_dilated = test_draw(3) == 0;
	for (int i = 0; i < 2; i++) {
		l->size[i] = 1 + test_draw(6);
		l->kernel[i] = 1 + test_draw(5);
		l->stride[i] = 1 + test_draw(3);
		l->dilation[i] = is_dilated ? 1 + test_draw(3) : 1;
		l->adjust[i] = node == MX_DECONV ? test_draw(l->stride[i]) : 0;
	}
	for (int i = 0; i < 4; i++)
		l->pad[i] = test_draw(2) ? 0 : test_draw(4);
}

static void try_forms(uint8_t node, int n_least_ours)
{
	int n_ours = 0;
	for (int i = 0; i < N_TRIALS;) {
		struct layer l;
		draw_layer(&l, node);
		if (!fits(&l))
			continue;
		/* XNNPACK's kernels multiply neighbours with zeros here */
		l.is_special = l.is_special && !(node == MX_CONV && l.group_in == 1 && l.group_out == 1);
		draw_numbers(&l);
		plain(&l);
		struct make_xnn mk;
		mx_init(&mk);
		make(&mk, &l);
		et_xnn_override_set_least_work(test_draw(8) ? 0 : UINT64_MAX);
		n_ours += compare(&l, (size_t)l.batch * outer(&l, 0) * outer(&l, 1) * n_out(&l), 2, 1 + test_draw(2),
			&mk);
		i++;
	}
	assert_true(n_ours >= n_least_ours);
}

static bool loses_nans(void)
{
	return et_xnn_gemm_is_narrow(1);
}

static void test_convolutions(void **state)
{
	try_forms(MX_CONV, et_xnn_gemm() ? N_TRIALS / 8 : 0);
}

static void test_depthwise(void **state)
{
	try_forms(MX_DEPTHWISE, 1);
}

/* Outputs smaller than the stride, too: by the override, or by XNNPACK, cropped. */
static void test_transposed(void **state)
{
	try_forms(MX_DECONV, loses_nans() ? N_TRIALS / 3 : N_TRIALS / 20);
}

static void test_linear(void **state)
{
	int n_ours = 0;
	for (int i = 0; i < N_TRIALS; i++) {
		struct layer l = { .node = MX_LINEAR,
			.type = test_draw(2) ? ET_XNN_FP16 : ET_XNN_FP32,
			.size = { 1 + test_draw(4) },
			.group_in = 1 + test_draw(20),
			.group_out = 1 + test_draw(test_draw(4) ? 25 : 90),
			.groups = 1,
			.has_bias = test_draw(2),
			.is_limited = test_draw(2),
			.is_special = test_draw(3) > 0,
			.is_computed = test_draw(2),
			.is_transposed = test_draw(2),
			.is_flat = test_draw(3) == 0 };
		while (l.group_in * l.group_out > MOST)
			l.group_out--;
		draw_numbers(&l);
		plain_linear(&l);
		struct make_xnn mk;
		mx_init(&mk);
		make_linear(&mk, &l);
		et_xnn_override_set_least_work(0);
		n_ours += compare(&l, l.size[0] * l.group_out, l.is_computed ? 3 : 2, 1 + test_draw(2), &mk);
	}
	assert_true(n_ours >= (loses_nans() ? N_TRIALS / 4 : 0));
}

static size_t size_of(const struct mx_value *value)
{
	size_t n = 1;
	for (uint32_t i = 0; i < value->n_dims; i++)
		n *= value->dims[i];
	return n;
}

/* The matrix of @value for batch @at of @out: leading dimensions of @value may be 1 or absent. */
static size_t matrix_at(const struct mx_value *value, const uint32_t out[2], size_t at)
{
	const size_t places[2] = { at / out[1], at % out[1] };
	size_t place = 0;
	for (uint32_t i = 0; i + 2 < value->n_dims; i++)
		place = place * value->dims[i] + (value->dims[i] == 1 ? 0 : places[4 - value->n_dims + i]);
	return place;
}

/* A value of matrices, @n[0] x @n[1] of them; 0 stands for a dimension of 1 that is broadcast. */
static struct mx_value matrices_of(const struct layer *l, const uint32_t n[2], const uint32_t dims[2], uint32_t n_less)
{
	uint32_t all[4] = { n[0] ? n[0] : 1, n[1] ? n[1] : 1, dims[0], dims[1] };
	struct mx_value value = { .type = l->type, .n_dims = 4 };
	while (n_less-- && all[4 - value.n_dims] == 1)
		value.n_dims--;
	memcpy(value.dims, all + 4 - value.n_dims, value.n_dims * sizeof(*all));
	return value;
}

static void make_argument(struct arg *arg, const struct layer *l, const struct mx_value *value)
{
	int32_t sizes[4];
	for (uint32_t i = 0; i < value->n_dims; i++)
		sizes[i] = (int32_t)value->dims[i];
	test_arg_init(arg, scalar_of(l), value->n_dims, sizes, ET_STATIC);
}

static void plain_products(const struct layer *l, const struct mx_value *a, const struct mx_value *b,
	const struct mx_value *out)
{
	const uint32_t *batch = out->dims, rows = out->dims[2], n = out->dims[3], depth = a->dims[a->n_dims - 1];
	for (size_t i = 0; i < size_of(out); i++) {
		const float *left = x + (matrix_at(a, batch, i / n / rows) * rows + i / n % rows) * depth,
			    *right = taps + matrix_at(b, batch, i / n / rows) * depth * n;
		expected[i] = 0;
		for (size_t k = 0; k < depth; k++)
			expected[i] += left[k] * right[l->is_transposed ? i % n * depth + k : k * n + i % n];
	}
}

/* Batches of matrices, with broadcasting on either side. */
static void test_products(void **state)
{
	int n_ours = 0, n_tried = 0;
	while (n_tried < N_TRIALS) {
		struct layer l = { .type = test_draw(4) ? ET_XNN_FP16 : ET_XNN_FP32,
			.is_special = test_draw(2),
			.is_transposed = test_draw(2) };
		uint32_t n[2][2], all[2], depth = 1 + test_draw(12), rows = 1 + test_draw(test_draw(2) ? 3 : 40),
					  columns = 1 + test_draw(test_draw(2) ? 20 : 100);
		for (int i = 0; i < 2; i++) {
			uint32_t who = test_draw(3);
			all[i] = 1 + test_draw(3);
			n[0][i] = who == 1 ? 0 : all[i];
			n[1][i] = who == 2 ? 0 : all[i];
		}
		struct mx_value a = matrices_of(&l, n[0], (uint32_t[]){ rows, depth }, 0),
				b = matrices_of(&l, n[1],
					(uint32_t[]){
						l.is_transposed ? columns : depth, l.is_transposed ? depth : columns },
					test_draw(3)),
				out = { .type = l.type, MX_DIMS(all[0], all[1], rows, columns), .output = 3 };
		if (size_of(&a) > MOST || size_of(&b) > MOST || size_of(&out) > MOST)
			continue;
		n_tried++;
		draw(x, MOST, l.is_special);
		draw(taps, MOST, l.is_special);
		plain_products(&l, &a, &b, &out);
		struct make_xnn mk;
		mx_init(&mk);
		a.input = 1;
		b.input = 2;
		struct et_xnn_node node = { .flags = l.is_transposed ? XNN_FLAG_TRANSPOSE_B : 0 };
		node.inputs[0] = mx_value(&mk, &a);
		node.inputs[1] = mx_value(&mk, &b);
		node.outputs[0] = mx_value(&mk, &out);
		mx_node(&mk, MX_MATMUL, &node);
		make_argument(&args[0], &l, &a);
		make_argument(&args[1], &l, &b);
		make_argument(&args[2], &l, &out);
		fill(&args[0], l.type, x, size_of(&a));
		fill(&args[1], l.type, taps, size_of(&b));
		et_xnn_override_set_least_work(0);
		n_ours += compare(&l, size_of(&out), 3, 1 + test_draw(2), &mk);
	}
	assert_true(n_ours >= (et_xnn_gemm_fp16() ? N_TRIALS / 2 : 0));
}

/* A computed filter may be much deeper at run time than it was at compile time, and deeper than a panel has room
 * for. */
static void test_deep(void **state)
{
	enum { ROWS = 2, COLUMNS = 20, DEPTH = 8, MOST_DEEP = 4500 };
	static float numbers[2][COLUMNS * MOST_DEEP];
	static uint16_t fp16[2][COLUMNS * MOST_DEEP];
	for (uint32_t i = 0; i < 2; i++) {
		draw(numbers[i], COLUMNS * MOST_DEEP, false);
		for (uint32_t k = 0; k < COLUMNS * MOST_DEEP; k++)
			fp16[i][k] = et_float_to_fp16(numbers[i][k]);
	}
	for (uint32_t i = 0; i < 16; i++) {
		const uint32_t depth = (const uint32_t[]){ DEPTH, 1500, 3000, MOST_DEEP }[i / 4];
		struct layer l = { .node = MX_LINEAR,
			.type = i & 1 ? ET_XNN_FP16 : ET_XNN_FP32,
			.size = { ROWS },
			.group_in = DEPTH,
			.group_out = COLUMNS,
			.groups = 1,
			.has_bias = true,
			.is_computed = true,
			.is_transposed = i & 2 };
		struct make_xnn mk;
		struct test_session session = { 0 };
		struct et_diag diag = { 0 };
		size_t n_bytes;
		et_xnn_override_set_least_work(0);
		draw(bias, COLUMNS, false);
		mx_init(&mk);
		make_linear(&mk, &l);
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		enum et_status status = test_session_begin(&session, bytes, n_bytes, 3, 1, &diag);
		test_ok(status, &diag);
		ARG(&args[0], scalar_of(&l), ET_STATIC, ROWS, (int32_t)depth);
		ARG(&args[1], scalar_of(&l), ET_STATIC, (int32_t)(l.is_transposed ? depth : COLUMNS),
			(int32_t)(l.is_transposed ? COLUMNS : depth));
		for (uint32_t j = 0; j < 2; j++) {
			args[j].tensor.data = l.type == ET_XNN_FP16 ? (void *)fp16[j] : (void *)numbers[j];
			args[j].tensor.capacity = COLUMNS * MOST_DEEP;
		}
		struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
		test_ok(test_ops->enqueue(session.instance, values, NULL, &diag), &diag);
		for (uint32_t at = 0; at < ROWS * COLUMNS; at++) {
			uint32_t row = at / COLUMNS, column = at % COLUMNS;
			float sum = bias[column];
			for (uint32_t k = 0; k < depth; k++)
				sum += numbers[0][row * depth + k] *
				       numbers[1][l.is_transposed ? k * COLUMNS + column : column * depth + k];
			test_near(number_at(&args[2], l.type, at), sum, 0);
		}
		test_session_end(&session);
		free(bytes);
	}
}

/* Subnormal floats count as zeros, as in XNNPACK: infinity times one is NaN. */
static void test_subnormals(void **state)
{
	struct layer l = { .node = MX_DECONV,
		.type = ET_XNN_FP32,
		.batch = 1,
		.groups = 1,
		.group_in = 1,
		.group_out = 3,
		.size = { 1, 1 },
		.kernel = { 2, 2 },
		.stride = { 2, 2 },
		.dilation = { 1, 1 },
		.pad = { 1, 0, 0, 0 } };
	struct make_xnn mk;
	x[0] = INFINITY;
	for (int i = 0; i < 12; i++) {
		taps[i] = i % 3 ? 1 : 0x1p-130f;
		expected[i % 6] = 0;
	}
	plain(&l);
	for (uint32_t i = 0; i < 6; i++)
		if (expected[i] == INFINITY && tap_at(&l, i % 3, 1, i / 3, 0) < 1)
			expected[i] = NAN;
	mx_init(&mk);
	make(&mk, &l);
	l.is_special = true;
	et_xnn_override_set_least_work(0);
	assert_true(compare(&l, 6, 2, 1, &mk));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_convolutions, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_depthwise, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_transposed, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_linear, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_products, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_deep, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_subnormals, test_set_up, test_tear_down_choices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
