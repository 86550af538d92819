/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph that simplify.c has rewritten computes the same, to the last bit, with fewer nodes. It is compared with
 * the same graph in which two inner values are outputs, too: values that have another reader are not rewritten. */
#include "delegates/xnnpack/ukernels/gemm.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/support/test_args.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct variant {
	float from, to; /* scales before and after the second padding */
	int32_t from_zero, to_zero;
	float min, padding;
	uint32_t n_nodes; /* that are left */
};

enum { N_OUTPUTS = 4 * 5 * 3 };

static uint32_t quantized(struct make_xnn *mk, float scale, int32_t zero_point, uint32_t h, uint32_t w, uint32_t c)
{
	return mx_value(mk,
		&(struct mx_value){
			.type = ET_XNN_QINT8, MX_DIMS(1, h, w, c), .scale = scale, .zero_point = zero_point });
}

static uint32_t filter(struct make_xnn *mk, uint32_t out, uint32_t in, bool is_depthwise)
{
	static int8_t weights[3 * 9 * 2];
	static const float scales[3] = { 0.03f, 0.02f, 0.05f };
	for (uint32_t i = 0; i < out * 9 * in; i++)
		weights[i] = (int8_t)(i * 37 % 200 - 100);
	struct mx_value value = { .type = ET_XNN_QCINT8,
		.dims = { out, 3, 3, in },
		.n_dims = 4,
		.scales = scales,
		.n_scales = is_depthwise ? in : out,
		.channel_dim = is_depthwise ? 3 : 0,
		.constant = mx_constant(mk, weights, out * 9 * in) };
	return mx_value(mk, &value);
}

/* The beginning of a network, as exporters write it: pad, quantize, to channels last, convolution, clamp, pad in
 * floats, depthwise convolution. */
static void make(struct make_xnn *mk, const struct variant *v, bool is_watched)
{
	mx_init(mk);
	uint32_t in = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 5, 6), .input = 1 });
	uint32_t padded = mx_value(mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 6, 7), .output = is_watched ? 3 : 0 });
	uint32_t bytes = mx_value(mk,
		&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(1, 2, 6, 7), .scale = 0.05f, .zero_point = 3 });
	uint32_t last = quantized(mk, 0.05f, 3, 6, 7, 2);
	uint32_t wide = quantized(mk, v->from, v->from_zero, 4, 5, 3);
	uint32_t clamped = quantized(mk, v->from, v->from_zero, 4, 5, 3);
	uint32_t real = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 4, 5, 3) });
	uint32_t real_padded = mx_value(mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 6, 7, 3), .output = is_watched ? 4 : 0 });
	uint32_t again = quantized(mk, v->to, v->to_zero, 6, 7, 3);
	uint32_t result = quantized(mk, 0.4f, -5, 4, 5, 3);
	uint32_t out = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 4, 5, 3), .output = 2 });
	uint32_t filters[] = { filter(mk, 3, 2, false), filter(mk, 1, 3, true) };

	mx_node(mk, MX_PAD,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { padded },
			.n_list = { 4, 4 },
			.list = { { 0, 0, 0, 1 }, { 0, 0, 1, 0 } } });
	mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { padded }, .outputs = { bytes } });
	mx_node(mk, MX_TRANSPOSE,
		&(struct et_xnn_node){
			.inputs = { bytes }, .outputs = { last }, .n_list = { 4 }, .list = { { 0, 2, 3, 1 } } });
	mx_node(mk, MX_CONV,
		&(struct et_xnn_node){ .inputs = { last, filters[0], ET_XNN_NONE },
			.outputs = { wide },
			.numbers = { 0, 0, 0, 0, 3, 3, 1, 1, 1, 1, 2, 3, 1 } });
	mx_node(mk, MX_CLAMP,
		&(struct et_xnn_node){ .inputs = { wide }, .outputs = { clamped }, .min = v->min, .max = 6 });
	mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { clamped }, .outputs = { real } });
	mx_node(mk, MX_PAD,
		&(struct et_xnn_node){ .inputs = { real },
			.outputs = { real_padded },
			.n_list = { 4, 4 },
			.list = { { 0, 1, 2, 0 }, { 0, 1, 0, 0 } },
			.number = v->padding });
	mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { real_padded }, .outputs = { again } });
	mx_node(mk, MX_DEPTHWISE,
		&(struct et_xnn_node){ .inputs = { again, filters[1], ET_XNN_NONE },
			.outputs = { result },
			.numbers = { 0, 0, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 3 } });
	mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { result }, .outputs = { out } });
}

static void compute(const struct variant *v, bool is_watched, float outputs[N_OUTPUTS], uint32_t *ret_n_nodes)
{
	struct make_xnn mk;
	struct arg args[4];
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct et_evalue *values[4];
	uint32_t n_args = is_watched ? 4 : 2;
	size_t n_bytes;
	make(&mk, v, is_watched);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 2, 5, 6);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 4, 5, 3);
	ARG(&args[2], ET_FLOAT32, ET_STATIC, 1, 2, 6, 7);
	ARG(&args[3], ET_FLOAT32, ET_STATIC, 1, 6, 7, 3);
	for (uint32_t i = 0; i < n_args; i++)
		values[i] = &args[i].value;
	test_ok(test_compile(bytes, n_bytes, n_args, &model, &info, &diag), &diag);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	for (int i = 0; i < 60; i++)
		args[0].f32[i] = 5 * sinf((float)(i * i));
	test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
	memcpy(outputs, args[1].f32, N_OUTPUTS * sizeof(*outputs));
	*ret_n_nodes = et_direct_model(model)->model->payload.n_nodes;
	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(bytes);
}

static void test_variants(void **state)
{
	static const struct variant variants[] = {
		/* quantize, transpose, convolution within limits, table, depthwise, dequantize */
		{ .from = 0.47f, .from_zero = 37, .to = 6 / 255.0f, .to_zero = -128, .min = 0, .n_nodes = 6 },
		/* a copy instead of the table */
		{ .from = 0.1f, .from_zero = -7, .to = 0.1f, .to_zero = -7, .min = -2, .n_nodes = 6 },
		/* dequantize, quantize: 1 step of 0.3 is 1.5 steps of 0.2 */
		{ .from = 0.3f, .from_zero = 0, .to = 0.2f, .to_zero = 0, .min = 0, .n_nodes = 7 },
		/* the same: there are negative numbers */
		{ .from = 0.47f, .from_zero = 37, .to = 6 / 255.0f, .to_zero = -128, .min = -1, .n_nodes = 7 },
		/* dequantize, pad, quantize */
		{ .from = 0.1f, .from_zero = -7, .to = 0.1f, .to_zero = -7, .padding = 1, .n_nodes = 8 },
	};
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		float expected[N_OUTPUTS], got[N_OUTPUTS];
		uint32_t n_all, n_nodes;
		compute(&variants[i], true, expected, &n_all);
		compute(&variants[i], false, got, &n_nodes);
		if (memcmp(expected, got, sizeof(got)) != 0)
			fail_msg("variant %zu computes something else", i);
		if (n_nodes != variants[i].n_nodes || n_all != 9)
			fail_msg("variant %zu: %u nodes of %u, expected %u of 9", i, n_nodes, n_all,
				variants[i].n_nodes);
		bool is_constant = true;
		for (uint32_t k = 1; k < N_OUTPUTS; k++)
			is_constant = is_constant && got[k] == got[0];
		assert_false(is_constant);
	}
}

/* The reshapes of attention, between arguments: parts of rows become matrices of their own. [n, 4, 6] times [n, 6,
 * 5], both transposed twice, and the result is added to an argument. */
enum { MOST_BATCHES = 3, N_PRODUCTS = 4 * 5 };

static void make_views(struct make_xnn *mk, bool is_watched)
{
	enum { N = MOST_BATCHES };
	mx_init(mk);
	uint32_t a = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 24), .input = 1 });
	uint32_t b = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(5, N, 6), .input = 2 });
	uint32_t c = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 20), .input = 3 });
	uint32_t left = mx_value(mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 4, 6), .output = is_watched ? 7 : 0 });
	uint32_t transposed = mx_value(mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 5, 6), .output = is_watched ? 8 : 0 });
	uint32_t right = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 6, 5) });
	uint32_t product = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 4, 5) });
	uint32_t more = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 4, 5) });
	uint32_t sum = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 4, 5) });
	uint32_t out = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 20), .output = 4 });
	uint32_t copy = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 20), .output = 5 });
	uint32_t twice = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 20), .output = 6 });
	mx_node(mk, MX_RESHAPE,
		&(struct et_xnn_node){
			.inputs = { a }, .outputs = { left }, .n_list = { 3 }, .list = { { 0, 4, 6 } } });
	mx_node(mk, MX_TRANSPOSE,
		&(struct et_xnn_node){
			.inputs = { b }, .outputs = { transposed }, .n_list = { 3 }, .list = { { 1, 0, 2 } } });
	mx_node(mk, MX_TRANSPOSE,
		&(struct et_xnn_node){
			.inputs = { transposed }, .outputs = { right }, .n_list = { 3 }, .list = { { 0, 2, 1 } } });
	mx_node(mk, MX_MATMUL, &(struct et_xnn_node){ .inputs = { left, right }, .outputs = { product } });
	mx_node(mk, MX_RESHAPE,
		&(struct et_xnn_node){
			.inputs = { c }, .outputs = { more }, .n_list = { 3 }, .list = { { 0, 4, 5 } } });
	mx_node(mk, MX_ADD, &(struct et_xnn_node){ .inputs = { product, more }, .outputs = { sum } });
	mx_node(mk, MX_RESHAPE,
		&(struct et_xnn_node){ .inputs = { sum }, .outputs = { out }, .n_list = { 2 }, .list = { { 0, 20 } } });
	/* from one output to another by way of a third shape: that is one copy */
	mx_node(mk, MX_ADD, &(struct et_xnn_node){ .inputs = { c, c }, .outputs = { twice } });
	uint32_t again = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N, 4, 5) });
	mx_node(mk, MX_RESHAPE,
		&(struct et_xnn_node){
			.inputs = { twice }, .outputs = { again }, .n_list = { 3 }, .list = { { 0, 4, 5 } } });
	mx_node(mk, MX_RESHAPE,
		&(struct et_xnn_node){
			.inputs = { again }, .outputs = { copy }, .n_list = { 2 }, .list = { { 0, 20 } } });
}

static void fill(float *numbers, uint32_t n, uint32_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		numbers[i] = (float)((i * 37 + seed) % 101) - 50;
}

/* One instance, with larger and smaller batches than it was made for, and other memory. */
static void compute_views(bool is_watched, float outputs[][3][MOST_BATCHES * N_PRODUCTS], uint32_t *ret_n_views,
	uint32_t *ret_n_nodes)
{
	static const int32_t batches[] = { 3, 1, 2, 3 };
	struct make_xnn mk;
	struct arg args[2][8];
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct et_evalue *values[8];
	size_t n_bytes;
	make_views(&mk, is_watched);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	test_ok(test_compile(bytes, n_bytes, is_watched ? 8 : 6, &model, &info, &diag), &diag);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	for (uint32_t run = 0; run < 4; run++) {
		struct arg *arg = args[run % 2];
		int32_t n = batches[run];
		ARG(&arg[0], ET_FLOAT32, ET_DYNAMIC_BOUND, MOST_BATCHES, 24);
		ARG(&arg[1], ET_FLOAT32, ET_DYNAMIC_BOUND, 5, MOST_BATCHES, 6);
		ARG(&arg[2], ET_FLOAT32, ET_DYNAMIC_BOUND, MOST_BATCHES, 20);
		ARG(&arg[3], ET_FLOAT32, ET_DYNAMIC_BOUND, MOST_BATCHES, 20);
		ARG(&arg[4], ET_FLOAT32, ET_DYNAMIC_BOUND, MOST_BATCHES, 20);
		ARG(&arg[5], ET_FLOAT32, ET_DYNAMIC_BOUND, MOST_BATCHES, 20);
		ARG(&arg[6], ET_FLOAT32, ET_DYNAMIC_BOUND, MOST_BATCHES, 4, 6);
		ARG(&arg[7], ET_FLOAT32, ET_DYNAMIC_BOUND, MOST_BATCHES, 5, 6);
		arg[0].sizes[0] = arg[1].sizes[1] = arg[2].sizes[0] = n;
		for (uint32_t i = 0; i < 8; i++)
			values[i] = &arg[i].value;
		fill(arg[0].f32, MOST_BATCHES * 24, run);
		fill(arg[1].f32, MOST_BATCHES * 30, run + 1);
		fill(arg[2].f32, MOST_BATCHES * 20, run + 2);
		test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(arg[3 + i].sizes[0], n);
			assert_int_equal(arg[3 + i].sizes[1], N_PRODUCTS);
			memset(outputs[run][i], 0, sizeof(outputs[run][i]));
			memcpy(outputs[run][i], arg[3 + i].f32, (size_t)n * N_PRODUCTS * sizeof(float));
		}
	}
	const struct et_xnn_payload *payload = &et_direct_model(model)->model->payload;
	*ret_n_views = 0;
	*ret_n_nodes = payload->n_nodes;
	for (uint32_t i = 0; i < payload->n_nodes; i++)
		*ret_n_views += payload->nodes[i].is_view;
	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(bytes);
}

static void test_views(void **state)
{
	static float expected[4][3][MOST_BATCHES * N_PRODUCTS], got[4][3][MOST_BATCHES * N_PRODUCTS];
	uint32_t n_views, n_nodes;
	compute_views(true, expected, &n_views, &n_nodes);
	assert_int_equal(n_nodes, 10);
	assert_int_equal(n_views, 2); /* to two outputs; of the inputs, others read one, and one becomes an output */
	compute_views(false, got, &n_views, &n_nodes);
	assert_int_equal(n_nodes, 9);
	assert_int_equal(n_views, 3);
	assert_memory_equal(got, expected, sizeof(got));
	/* [0][0][0]: a row of a times a column of b, and c */
	float sum = 2 - 50;
	for (uint32_t i = 0; i < 6; i++)
		sum += ((float)(i * 37 % 101) - 50) * ((float)((i * 37 + 1) % 101) - 50);
	assert_true(got[0][0][0] == sum);
	for (uint32_t run = 0; run < 4; run++)
		assert_memory_equal(got[run][1], got[run][2], sizeof(got[run][1]));
}

/* An output that other nodes read as well: they need its own shape, so the reshape stays a copy. [2, 6] + itself ->
 * [3, 4], one of which is an output, and that + itself. */
static void try_output_that_is_read(bool is_before)
{
	struct make_xnn mk;
	struct arg args[3];
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	size_t n_bytes;
	mx_init(&mk);
	uint32_t in = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(2, 6), .input = 1 });
	uint32_t sum = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(2, 6), .output = is_before ? 2 : 0 });
	uint32_t seen = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(3, 4), .output = is_before ? 0 : 2 });
	uint32_t twice = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(3, 4), .output = 3 });
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { in, in }, .outputs = { sum } });
	mx_node(&mk, MX_RESHAPE,
		&(struct et_xnn_node){ .inputs = { sum }, .outputs = { seen }, .n_list = { 2 }, .list = { { 3, 4 } } });
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { seen, seen }, .outputs = { twice } });
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	test_ok(test_compile(bytes, n_bytes, 3, &model, &info, &diag), &diag);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 2, 6);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, is_before ? 2 : 3, is_before ? 6 : 4);
	ARG(&args[2], ET_FLOAT32, ET_STATIC, 3, 4);
	fill(args[0].f32, 12, 1);
	test_ok(test_ops->enqueue(instance, (struct et_evalue *[]){ &args[0].value, &args[1].value, &args[2].value },
			NULL, &diag),
		&diag);
	for (uint32_t i = 0; i < 12; i++) {
		assert_true(args[1].f32[i] == 2 * args[0].f32[i]);
		assert_true(args[2].f32[i] == 4 * args[0].f32[i]);
	}
	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(bytes);
}

static void test_output_that_is_read(void **state)
{
	try_output_that_is_read(false);
	try_output_that_is_read(true);
}

/* Paddings whose sum overflows are not merged, and are refused as before. */
static void test_absurd_padding(void **state)
{
	struct make_xnn mk;
	struct arg args[2];
	struct et_diag diag = { 0 };
	mx_init(&mk);
	static const float weights[1] = { 1 };
	uint32_t in = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 2, 1), .input = 1 });
	uint32_t padded = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 2, 1) });
	uint32_t out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 2, 1), .output = 2 });
	uint32_t one = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32,
					     MX_DIMS(1, 1, 1, 1),
					     .constant = mx_constant(&mk, weights, sizeof(weights)) });
	mx_node(&mk, MX_PAD,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { padded },
			.n_list = { 4, 4 },
			.list = { { 0, UINT32_MAX, 0, 0 }, { 0, 0, 0, 0 } } });
	mx_node(&mk, MX_CONV,
		&(struct et_xnn_node){ .inputs = { padded, one, ET_XNN_NONE },
			.outputs = { out },
			.numbers = { 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1 } });
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 2, 2, 1);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 2, 2, 1);
	test_refused(test_run_once(&mk, args, 2, &diag), ET_E_INVALID_ARGUMENT, &diag, "absurdly large");
}

/* A clamp behind a node with windows, and behind a linear layer, [1, 5, 6, 2] -> [1, 5, 6, 3] or less: with limits
 * above 0 and below it, which XNNPACK would take for paddings. Each is compared with the same graph in which the
 * unlimited value is an output as well. */
enum limited { A_CONV, A_DEPTHWISE, A_DECONV, A_MAX_POOL, AN_AVERAGE, A_LINEAR, A_CONV_OF_BYTES, N_LIMITED };
enum { N_LIMITED_OUT = 5 * 6 * 3 };

static uint32_t make_limited(struct make_xnn *mk, enum limited what, float min, float max, bool is_watched)
{
	static float weights[3 * 9 * 2];
	for (int i = 0; i < 3 * 9 * 2; i++)
		weights[i] = cosf((float)(i * i)) / 4;
	bool is_pool = what == A_MAX_POOL || what == AN_AVERAGE, is_bytes = what == A_CONV_OF_BYTES;
	uint32_t channels = is_pool || what == A_DEPTHWISE ? 2 : 3;
	const struct mx_value shape = { .type = is_bytes ? ET_XNN_QINT8 : ET_XNN_FP32,
		MX_DIMS(1, 5, 6, channels),
		.scale = is_bytes ? 0.03f : 0,
		.zero_point = is_bytes ? 4 : 0 };
	struct mx_value last = shape;
	mx_init(mk);
	uint32_t in = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 5, 6, 2), .input = 1 });
	uint32_t from = is_bytes ? quantized(mk, 0.05f, 3, 5, 6, 2) : in;
	uint32_t wide = mx_value(mk, &shape);
	/* in 8 bits, nodes between them must be removed first */
	uint32_t real = mx_value(mk,
		&(struct mx_value){
			.type = ET_XNN_FP32, MX_DIMS(1, 5, 6, channels), .output = is_bytes && is_watched ? 3 : 0 });
	uint32_t again = is_bytes ? mx_value(mk, &shape) : wide;
	uint32_t limited = is_bytes ? mx_value(mk, &shape) : ET_XNN_NONE;
	last.type = ET_XNN_FP32;
	last.scale = 0;
	last.zero_point = 0;
	last.output = 2;
	uint32_t out = mx_value(mk, &last);
	last.output = 3;
	uint32_t copy = is_watched && !is_bytes ? mx_value(mk, &last) : ET_XNN_NONE;
	struct et_xnn_node node = { .inputs = { from, 0, ET_XNN_NONE },
		.outputs = { wide },
		.numbers = { 1, 1, 1, 1, 3, 3, 1, 1, 1, 1, 2, 3, 1 },
		.min = what == A_CONV ? -1.5f : -INFINITY,
		.max = what == A_CONV ? 1.5f : INFINITY };
	struct mx_value filter_of = { .type = ET_XNN_FP32, .n_dims = 4, .dims = { 3, 3, 3, 2 } };
	static const uint32_t kinds[] = { MX_CONV, MX_DEPTHWISE, MX_DECONV, MX_MAX_POOL, MX_AVERAGE, MX_LINEAR,
		MX_CONV };
	if (what == A_DEPTHWISE) {
		filter_of.dims[0] = 1;
		node.numbers[ET_XNN_GROUP_IN] = node.numbers[ET_XNN_GROUP_OUT] = 1;
		node.numbers[ET_XNN_GROUPS] = 2;
	}
	if (what == A_LINEAR) {
		filter_of.n_dims = 2;
		filter_of.dims[1] = 2;
	}
	if (is_bytes)
		mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { in }, .outputs = { from } });
	if (!is_pool) {
		filter_of.constant = mx_constant(mk, weights, sizeof(weights));
		node.inputs[1] = is_bytes ? filter(mk, 3, 2, false) : mx_value(mk, &filter_of);
	}
	mx_node(mk, kinds[what], &node);
	if (is_bytes) {
		mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { wide }, .outputs = { real } });
		mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { real }, .outputs = { again } });
	}
	mx_node(mk, MX_CLAMP,
		&(struct et_xnn_node){
			.inputs = { again }, .outputs = { is_bytes ? limited : out }, .min = min, .max = max });
	if (is_bytes)
		mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { limited }, .outputs = { out } });
	if (copy != ET_XNN_NONE)
		mx_node(mk, MX_CLAMP,
			&(struct et_xnn_node){
				.inputs = { wide }, .outputs = { copy }, .min = -INFINITY, .max = INFINITY });
	return 5 * 6 * channels;
}

static void compute_limited(enum limited what, float min, float max, bool is_watched, float out[N_LIMITED_OUT],
	uint32_t *ret_n_nodes)
{
	struct make_xnn mk;
	struct arg args[3];
	struct et_evalue *values[3] = { &args[0].value, &args[1].value, &args[2].value };
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	size_t n_bytes;
	uint32_t n_out = make_limited(&mk, what, min, max, is_watched);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 5, 6, 2);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 5, 6, (int32_t)n_out / 30);
	ARG(&args[2], ET_FLOAT32, ET_STATIC, 1, 5, 6, (int32_t)n_out / 30);
	for (int i = 0; i < 60; i++)
		args[0].f32[i] = 4 * sinf((float)(i * i));
	test_ok(test_compile(bytes, n_bytes, is_watched ? 3 : 2, &model, &info, &diag), &diag);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
	memset(out, 0, N_LIMITED_OUT * sizeof(*out));
	memcpy(out, args[1].f32, n_out * sizeof(*out));
	*ret_n_nodes = et_direct_model(model)->model->payload.n_nodes;
	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(bytes);
}

static void test_limits(void **state)
{
	static const float limits[][2] = { { 0.5f, 2 }, { -2, -0.25f }, { -0.5f, 0 }, { -0.0f, INFINITY } };
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		for (enum limited what = 0; what < N_LIMITED; what++) {
			float expected[N_LIMITED_OUT], got[N_LIMITED_OUT];
			uint32_t n_all, n_nodes;
			compute_limited(what, limits[i][0], limits[i][1], true, expected, &n_all);
			compute_limited(what, limits[i][0], limits[i][1], false, got, &n_nodes);
			if (memcmp(expected, got, sizeof(got)) != 0)
				fail_msg("%d within %g and %g computes something else", (int)what, (double)limits[i][0],
					(double)limits[i][1]);
			bool is_bytes = what == A_CONV_OF_BYTES;
			assert_int_equal(n_nodes, is_bytes ? 3 : 1);
			assert_int_equal(n_all, is_bytes ? 6 : 3);
			bool is_limited = false, is_constant = true;
			for (uint32_t k = 0; k < 60; k++) {
				is_limited = is_limited || got[k] == limits[i][0] || got[k] == limits[i][1];
				is_constant = is_constant && got[k] == got[0];
			}
			assert_true(what != A_CONV || (is_limited && !is_constant));
		}
	}
}

/* Limits that do not overlap: the clamp's limits count, also in overrides, where nothing refuses them. */
static void test_limits_apart(void **state)
{
	static const float limits[][2] = { { -3, -2 }, { 2, 3 }, { 1, -1 } };
	static const float expected_of[] = { -2, 2, -1 };
	if (!et_xnn_gemm())
		et_xnn_gemm_choose(et_xnn_gemm_at(0));
	et_xnn_override_set_least_work(0);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		float expected[N_LIMITED_OUT], got[N_LIMITED_OUT];
		uint32_t n_nodes;
		compute_limited(A_CONV, limits[i][0], limits[i][1], true, expected, &n_nodes);
		compute_limited(A_CONV, limits[i][0], limits[i][1], false, got, &n_nodes);
		assert_int_equal(n_nodes, 1);
		assert_memory_equal(got, expected, sizeof(got));
		for (uint32_t k = 0; k < N_LIMITED_OUT; k++)
			assert_true(got[k] == expected_of[i]);
	}
	et_xnn_gemm_choose(NULL);
}

/* Two clamps become one, with the limits that ExecuTorch gives both together. */
static void test_two_clamps(void **state)
{
	static const struct {
		float first[2], second[2], expected[4];
	} cases[] = {
		{ { -1, 3 }, { 0, 2 }, { 0, 0, 1, 2 } },
		{ { -1, 1 }, { 2, 3 }, { 2, 2, 2, 2 } },
		{ { -1, 1 }, { 3, 2 }, { 2, 2, 2, 2 } },
#ifdef __x86_64__
		{ { -1, 1 }, { -2, NAN }, { -1, 0, 1, 1 } },
		{ { -1, NAN }, { -2, 2 }, { -2, -2, -2, -2 } },
		{ { -1, 1 }, { NAN, 2 }, { -5, 0, 1, 5 } },
		{ { NAN, 1 }, { -2, 2 }, { -2, 0, 1, 1 } },
#endif
	};
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		struct make_xnn mk;
		struct arg args[2];
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t in = test_plain(&mk, 1, 0, 1, 4), between = test_plain(&mk, 0, 0, 1, 4),
			 out = test_plain(&mk, 0, 2, 1, 4);
		mx_node(&mk, MX_CLAMP,
			&(struct et_xnn_node){ .inputs = { in },
				.outputs = { between },
				.min = cases[k].first[0],
				.max = cases[k].first[1] });
		mx_node(&mk, MX_CLAMP,
			&(struct et_xnn_node){ .inputs = { between },
				.outputs = { out },
				.min = cases[k].second[0],
				.max = cases[k].second[1] });
		ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 4);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 4);
		memcpy(args[0].f32, (const float[]){ -5, 0, 1, 5 }, 4 * sizeof(float));
		test_ok(test_run_once(&mk, args, 2, &diag), &diag);
		for (int i = 0; i < 4; i++)
			if (args[1].f32[i] != cases[k].expected[i])
				fail_msg("case %zu: %g becomes %g", k, (double)args[0].f32[i], (double)args[1].f32[i]);
	}
}

/* If the upper limit is below the lower one, or there is none, results may be below 0: the table of the absolute
 * value is not used. */
static void test_table_of_odd_limits(void **state)
{
	static const float most[] = { -1, NAN, -INFINITY, -0x1p127f };
	for (size_t k = 0; k < sizeof(most) / sizeof(most[0]); k++) {
		struct make_xnn mk;
		struct arg args[2];
		struct et_evalue *values[] = { &args[0].value, &args[1].value };
		struct test_session session;
		struct et_diag diag = { 0 };
		size_t n_bytes;
		mx_init(&mk);
		uint32_t in = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(4), .input = 1, .scale = 0.5f });
		uint32_t clamped = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(4), .scale = 0.5f });
		uint32_t real = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(4) });
		uint32_t out = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(4), .output = 2, .scale = 0.25f });
		mx_node(&mk, MX_CLAMP,
			&(struct et_xnn_node){ .inputs = { in }, .outputs = { clamped }, .min = 0, .max = most[k] });
		mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { clamped }, .outputs = { real } });
		mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { real }, .outputs = { out } });
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		ARG(&args[0], ET_INT8, ET_STATIC, 4);
		ARG(&args[1], ET_INT8, ET_STATIC, 4);
		memcpy(args[0].i8, (const int8_t[]){ -7, 0, 3, 100 }, 4);
		test_ok(test_session_begin(&session, bytes, n_bytes, 2, 1, &diag), &diag);
		assert_int_equal(et_direct_model(session.model)->model->payload.n_nodes, 3);
		test_ok(test_ops->enqueue(session.instance, values, NULL, &diag), &diag);
		for (int i = 0; i < 4; i++)
			assert_true(args[1].i8[i] <= 0);
		test_session_end(&session);
		free(bytes);
	}
}

/* A NaN upper limit is ignored; a NaN lower limit gives the least 8-bit number. It cannot be merged into other
 * layers. */
static void test_limits_that_are_nan(void **state)
{
	float expected[N_LIMITED_OUT], got[N_LIMITED_OUT];
	uint32_t n_nodes;
	for (enum limited what = 0; what < N_LIMITED; what++) {
		compute_limited(what, -0.5f, what == A_CONV_OF_BYTES ? 100 : INFINITY, false, expected, &n_nodes);
		compute_limited(what, -0.5f, NAN, false, got, &n_nodes);
		assert_int_equal(n_nodes, what == A_CONV_OF_BYTES ? 3 : 1);
		assert_memory_equal(got, expected, sizeof(got));
	}
	compute_limited(A_CONV_OF_BYTES, NAN, 2, false, got, &n_nodes);
	for (uint32_t k = 0; k < N_LIMITED_OUT; k++)
		assert_true(got[k] == (-128 - 4) * 0.03f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_variants, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_views, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_output_that_is_read, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_limits, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_limits_apart, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_two_clamps, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_table_of_odd_limits, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_limits_that_are_nan, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_absurd_padding, test_set_up, test_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
