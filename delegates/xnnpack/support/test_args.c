/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests here have in common: arguments, one run of one payload, and two payloads whose results can be
 * computed in a few lines. Failures end the test. */
#include "delegates/xnnpack/support/test_args.h"

#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/ukernels/gemm_qs8.h"
#include "delegates/xnnpack/overrides/override.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

const struct et_delegate_ops *test_ops;
struct counting_alloc test_counting;
struct et_allocator test_allocator;
struct et_backend *test_backend;

int test_set_up(void **state)
{
	test_counting = (struct counting_alloc){ 0 };
	test_allocator = counting_allocator(&test_counting);
	struct et_backend_entry entry;
	if (et_direct_open(&entry, &et_xnnpack_delegate, NULL, &test_allocator, NULL, NULL) != ET_OK)
		return -1;
	test_ops = entry.ops;
	test_backend = entry.backend;
	return 0;
}

int test_tear_down(void **state)
{
	test_ops->close(test_backend);
	return test_counting.n_live == 0 ? 0 : -1;
}

int test_tear_down_choices(void **state)
{
	et_xnn_gemm_qs8_choose(NULL);
	et_xnn_override_set_least_work(1 << 16);
	return test_tear_down(state);
}

void test_arg_init(struct arg *arg, uint8_t type, uint32_t n_dims, const int32_t *sizes, uint8_t dynamism)
{
	memset(arg, 0, sizeof(*arg));
	for (uint32_t i = 0; i < n_dims; i++) {
		arg->sizes[i] = sizes[i];
		arg->dim_order[i] = (uint8_t)i;
	}
	arg->tensor = (struct et_tensor){
		.data = arg->f32,
		.capacity = 512,
		.sizes = arg->sizes,
		.strides = arg->strides,
		.dim_order = arg->dim_order,
		.type = type,
		.n_dims = (uint8_t)n_dims,
		.dynamism = dynamism,
	};
	et_dim_order_to_strides(arg->sizes, arg->dim_order, n_dims, arg->strides);
	arg->value = (struct et_evalue){ .tag = ET_TAG_TENSOR, .tensor = &arg->tensor };
}

enum et_status test_compile(const uint8_t *bytes, size_t n_bytes, uint32_t n_args, struct et_model **ret_model,
	struct et_model_info *ret_info, struct et_diag *diag)
{
	struct et_payload payload = { .bytes = bytes, .n_bytes = n_bytes, .method = "forward", .n_args = n_args };
	return test_ops->compile(test_backend, &payload, ret_model, ret_info, diag);
}

/* Compile, make a lane and a context, run once, free it all. Takes the payload. */
enum et_status test_session_begin(struct test_session *ret_session, const uint8_t *bytes, size_t n_bytes,
	uint32_t n_args, uint32_t n_threads, struct et_diag *diag)
{
	struct test_session *s = ret_session;
	struct et_model_info info;
	*s = (struct test_session){ 0 };
	enum et_status status = test_compile(bytes, n_bytes, n_args, &s->model, &info, diag);
	if (status == ET_OK)
		status = test_ops->threads_new(test_backend, 0, n_threads, &s->threads, diag);
	if (status == ET_OK)
		status = test_ops->instance_new(s->model, s->threads, &s->instance, diag);
	return status;
}

void test_session_end(struct test_session *session)
{
	test_ops->instance_free(session->instance);
	test_ops->threads_free(session->threads);
	test_ops->model_free(session->model);
}

enum et_status test_run_once(struct make_xnn *mk, struct arg *args, uint32_t n_args, struct et_diag *diag)
{
	struct test_session session;
	struct et_evalue *values[8];
	for (uint32_t i = 0; i < n_args; i++)
		values[i] = &args[i].value;
	size_t n_bytes;
	uint8_t *bytes = mx_finish(mk, &n_bytes);
	enum et_status status = test_session_begin(&session, bytes, n_bytes, n_args, 1, diag);
	if (status == ET_OK)
		status = test_ops->enqueue(session.instance, values, NULL, diag);
	test_session_end(&session);
	free(bytes);
	return status;
}

void test_ok(enum et_status status, const struct et_diag *diag)
{
	if (status != ET_OK)
		fail_msg("%s: %s", et_status_text(status), diag->text);
}

void test_refused(enum et_status status, enum et_status expected, const struct et_diag *diag, const char *partition)
{
	if (status != expected || !strstr(diag->text, partition))
		fail_msg("%s: '%s', expected '%s'", et_status_text(status), diag->text, partition);
}

void test_near(float got, float expected, float bound)
{
	if (!(fabsf(got - expected) <= bound))
		fail_msg("%g, expected %g", (double)got, (double)expected);
}

uint32_t test_plain(struct make_xnn *mk, uint32_t input, uint32_t output, uint32_t rows, uint32_t columns)
{
	return mx_value(mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(rows, columns), .input = input, .output = output });
}

uint8_t *test_make_add(const float *constant, uint32_t n_constant, uint32_t n, float most, bool is_transposed,
	size_t *ret_n_bytes)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t in = test_plain(&mk, 1, 0, 1, n), read = in,
		 out = test_plain(&mk, 0, 2, is_transposed ? n : 1, is_transposed ? n_constant : n);
	uint32_t added = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32,
					       MX_DIMS(n_constant),
					       .constant = mx_constant(&mk, constant, n_constant * sizeof(float)) });
	if (is_transposed) {
		read = test_plain(&mk, 0, 0, n, 1);
		mx_node(&mk, MX_TRANSPOSE,
			&(struct et_xnn_node){
				.inputs = { in }, .outputs = { read }, .n_list = { 2 }, .list = { { 1, 0 } } });
	}
	mx_node(&mk, MX_ADD,
		&(struct et_xnn_node){ .inputs = { read, added }, .outputs = { out }, .min = -1000, .max = most });
	return mx_finish(&mk, ret_n_bytes);
}

static const int8_t two_biases_filter[2 * 2] = { 100, 0, 0, 100 };
static const float two_biases_scales[2] = { 0.01f, 0.01f };
static const float two_biases[2][2] = { { 1, 2 }, { 30, 40 } };

void test_make_two_biases(struct make_xnn *mk)
{
	mx_init(mk);
	uint32_t in = test_plain(mk, 1, 0, 1, 2);
	uint32_t rows = mx_value(mk, &(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(1, 2), .n_row_dims = 1 });
	uint32_t filter = mx_value(mk,
		&(struct mx_value){ .type = ET_XNN_QCINT8,
			MX_DIMS(2, 2),
			.scales = two_biases_scales,
			.n_scales = 2,
			.constant = mx_constant(mk, two_biases_filter, sizeof(two_biases_filter)) });
	mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { in }, .outputs = { rows } });
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t biases = mx_value(mk,
			&(struct mx_value){ .type = ET_XNN_FP32,
				MX_DIMS(2),
				.constant = mx_constant(mk, two_biases[i], sizeof(two_biases[i])) });
		uint32_t out = test_plain(mk, 0, i + 2, 1, 2);
		mx_node(mk, MX_LINEAR, &(struct et_xnn_node){ .inputs = { rows, filter, biases }, .outputs = { out } });
	}
}

void test_fill_two_biases(struct arg args[3])
{
	for (uint32_t i = 0; i < 3; i++)
		ARG(&args[i], ET_FLOAT32, ET_STATIC, 1, 2);
	args[0].f32[0] = 3;
	args[0].f32[1] = -4;
}

void test_check_two_biases(const struct arg args[3])
{
	for (uint32_t i = 0; i < 2; i++) {
		test_near(args[1 + i].f32[0], 3 + two_biases[i][0], 0.1f);
		test_near(args[1 + i].f32[1], -4 + two_biases[i][1], 0.1f);
	}
}

void test_make_two_ways(struct make_xnn *mk, bool is_apart)
{
	static const int8_t filter[4][4] = { { 2 }, { 1, 1 }, { 1, 0, 1 }, { 1, 0, 0, 1 } };
	static const int32_t biases[2][4] = { { 0 }, { 10, 20, 30, 40 } };
	static const float scales[4] = { 1, 1, 1, 1 };
	mx_init(mk);
	uint32_t weights = mx_value(mk, &(struct mx_value){ .type = ET_XNN_QCINT8,
						MX_DIMS(4, 4),
						.constant = mx_constant(mk, filter, sizeof(filter)),
						.scales = scales,
						.n_scales = 4 });
	uint32_t bias = 0;
	for (uint32_t i = 0; i < 2; i++) {
		if (i == 0 || is_apart)
			bias = mx_value(mk, &(struct mx_value){ .type = ET_XNN_QCINT32,
						    MX_DIMS(4),
						    .constant = mx_constant(mk, biases[i], sizeof(biases[i])),
						    .scales = scales,
						    .n_scales = 4 });
		uint32_t in = mx_value(mk, &(struct mx_value){ .type = ET_XNN_QINT8,
						   MX_DIMS(1, 4),
						   .input = i + 1,
						   .scale = 1,
						   .zero_point = i == 0 ? 0 : 50 });
		uint32_t out = mx_value(mk,
			&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(1, 4), .output = i + 3, .scale = 1 });
		mx_node(mk, MX_LINEAR, &(struct et_xnn_node){ .inputs = { in, weights, bias }, .outputs = { out } });
	}
}

void test_fill_two_ways(struct arg args[4])
{
	for (uint32_t i = 0; i < 4; i++)
		ARG(&args[i], ET_INT8, ET_STATIC, 1, 4);
	for (int8_t i = 0; i < 4; i++) {
		args[0].i8[i] = i;
		args[1].i8[i] = (int8_t)(50 + i);
	}
}

void test_check_two_ways(const struct arg args[4], bool is_apart)
{
	for (int i = 0; i < 4; i++) { /* the first input is 0, so it adds nothing */
		assert_int_equal(args[2].i8[i], i);
		assert_int_equal(args[3].i8[i], i + (is_apart ? 10 * (i + 1) : 0));
	}
}

/* Weights that 4 bits hold exactly, and inputs. */
static int weight(uint32_t out, uint32_t in)
{
	return (int)((out * 5 + in * 3 + in / BLOCK) % 15) - 7;
}

static float channel_scale(uint32_t out)
{
	return 0.01f * (float)(out + 1);
}

void test_fill_inputs(float *inputs)
{
	for (uint32_t i = 0; i < N_ROWS * N_IN; i++)
		inputs[i] = sinf((float)i) * (float)(1 + i / N_IN);
}

static float bias_of(uint32_t out)
{
	return 0.5f * (float)out - 1;
}

static void pack_nibbles(uint8_t *packed)
{
	for (uint32_t o = 0; o < N_OUT; o++) {
		for (uint32_t i = 0; i < N_IN; i += 2)
			packed[(o * N_IN + i) / 2] = (uint8_t)((weight(o, i) + 8) | (weight(o, i + 1) + 8) << 4);
	}
}

static uint32_t add_filter(struct make_xnn *mk, uint32_t type)
{
	static float f32[N_OUT * N_IN], scales[N_OUT * N_IN / BLOCK];
	static int8_t i8[N_OUT * N_IN];
	static uint8_t i4[N_OUT * N_IN / 2];
	struct mx_value value = { .type = type, MX_DIMS(N_OUT, N_IN) };
	for (uint32_t i = 0; i < N_OUT * N_IN; i++) {
		f32[i] = (float)weight(i / N_IN, i % N_IN) * channel_scale(i / N_IN);
		i8[i] = (int8_t)weight(i / N_IN, i % N_IN);
	}
	pack_nibbles(i4);
	if (type == ET_XNN_FP32) {
		value.constant = mx_constant(mk, f32, sizeof(f32));
		return mx_value(mk, &value);
	}
	value.constant = type == ET_XNN_QCINT8 ? mx_constant(mk, i8, sizeof(i8)) : mx_constant(mk, i4, sizeof(i4));
	value.scales = scales;
	value.n_scales = type == ET_XNN_QBINT4 ? N_OUT * N_IN / BLOCK : N_OUT;
	value.block_size = type == ET_XNN_QBINT4 ? BLOCK : 0;
	for (uint32_t i = 0; i < value.n_scales; i++)
		scales[i] = channel_scale(i * N_OUT / value.n_scales);
	return mx_value(mk, &value);
}

/* [3, 64] x [8, 64] -> [3, 8]; a quantized filter gets rows quantized at run time. */
void test_make_linear(struct make_xnn *mk, uint32_t filter_type, bool is_old)
{
	float bias[N_OUT];
	for (uint32_t i = 0; i < N_OUT; i++)
		bias[i] = bias_of(i);
	mx_init(mk);
	mk->is_old = is_old;
	struct mx_value in = { .type = ET_XNN_FP32, MX_DIMS(N_ROWS, N_IN), .input = 1 };
	if (is_old)
		in.dynamic_type = ET_XNN_QINT8;
	uint32_t rows = mx_value(mk, &in);
	if (filter_type != ET_XNN_FP32 && !is_old) {
		uint32_t quantized = mx_value(mk,
			&(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(N_ROWS, N_IN), .n_row_dims = 1 });
		mx_node(mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { rows }, .outputs = { quantized } });
		rows = quantized;
	}
	uint32_t filter = add_filter(mk, filter_type);
	uint32_t bias_value = mx_value(mk,
		&(struct mx_value){
			.type = ET_XNN_FP32, MX_DIMS(N_OUT), .constant = mx_constant(mk, bias, sizeof(bias)) });
	uint32_t out = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(N_ROWS, N_OUT), .output = 2 });
	mx_node(mk, MX_LINEAR, &(struct et_xnn_node){ .inputs = { rows, filter, bias_value }, .outputs = { out } });
}

void test_check_linear(const float *inputs, const float *outputs, uint32_t n_rows, float bound)
{
	for (uint32_t row = 0; row < n_rows; row++) {
		for (uint32_t o = 0; o < N_OUT; o++) {
			float sum = bias_of(o);
			for (uint32_t i = 0; i < N_IN; i++)
				sum += inputs[row * N_IN + i] * (float)weight(o, i) * channel_scale(o);
			test_near(outputs[row * N_OUT + o], sum, bound);
		}
	}
}

/* A depthwise convolution, a slope, a linear layer: one constant of each sort. [1,4,4,2] -> [1,4,4,3] */
uint8_t *test_make_mixture(size_t *ret_n_bytes)
{
	struct make_xnn mk;
	float depthwise[9 * 2], slope[2] = { 0.5f, 0.25f }, linear[3 * 2], bias[3] = { 1, 2, 3 };
	for (int i = 0; i < 18; i++)
		depthwise[i] = (float)(i % 5) - 2;
	for (int i = 0; i < 6; i++)
		linear[i] = (float)i - 2.5f;
	mx_init(&mk);
	uint32_t constants[] = { mx_constant(&mk, depthwise, sizeof(depthwise)), mx_constant(&mk, slope, sizeof(slope)),
		mx_constant(&mk, linear, sizeof(linear)), mx_constant(&mk, bias, sizeof(bias)) };
	uint32_t in = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 4, 4, 2), .input = 1 });
	uint32_t a = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 4, 4, 2) });
	uint32_t b = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 4, 4, 2) });
	uint32_t out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 4, 4, 3), .output = 2 });
	uint32_t weights[] = {
		mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 3, 3, 2), .constant = constants[0] }),
		mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(2), .constant = constants[1] }),
		mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(3, 2), .constant = constants[2] }),
		mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(3), .constant = constants[3] }),
	};
	mx_node(&mk, MX_DEPTHWISE,
		&(struct et_xnn_node){ .inputs = { in, weights[0], ET_XNN_NONE },
			.outputs = { a },
			.numbers = { 1, 1, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, 2 } });
	mx_node(&mk, MX_PRELU, &(struct et_xnn_node){ .inputs = { a, weights[1] }, .outputs = { b } });
	mx_node(&mk, MX_LINEAR, &(struct et_xnn_node){ .inputs = { b, weights[2], weights[3] }, .outputs = { out } });
	return mx_finish(&mk, ret_n_bytes);
}

void test_check_mixture(const struct arg *args)
{
	for (uint32_t y = 0; y < 4; y++) {
		for (uint32_t x = 0; x < 4; x++) {
			float b[2];
			for (uint32_t c = 0; c < 2; c++) {
				float sum = 0;
				for (uint32_t k = 0; k < 9; k++) {
					uint32_t yy = y + k / 3, xx = x + k % 3;
					if (yy >= 1 && yy <= 4 && xx >= 1 && xx <= 4)
						sum += args[0].f32[((yy - 1) * 4 + xx - 1) * 2 + c] *
						       ((float)((k * 2 + c) % 5) - 2);
				}
				b[c] = sum < 0 ? sum * (c == 0 ? 0.5f : 0.25f) : sum;
			}
			for (uint32_t o = 0; o < 3; o++)
				test_near(args[1].f32[(y * 4 + x) * 3 + o],
					b[0] * ((float)(o * 2) - 2.5f) + b[1] * ((float)(o * 2) - 1.5f) + (float)o + 1,
					1e-3f);
		}
	}
}

void test_run_mixture(struct et_model *model, struct et_worker_threads *threads, float first)
{
	struct et_diag diag = { 0 };
	struct et_instance *instance;
	struct arg args[2];
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 4, 4, 2);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 4, 4, 3);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	for (int run = 0; run < 3; run++) {
		for (int i = 0; i < 32; i++)
			args[0].f32[i] = first + sinf((float)(i + run));
		memset(args[1].f32, 0xff, sizeof(args[1].f32));
		test_ok(test_ops->enqueue(instance, (struct et_evalue *[]){ &args[0].value, &args[1].value }, NULL,
				&diag),
			&diag);
		test_check_mixture(args);
	}
	test_ops->instance_free(instance);
}

bool test_has_override(struct et_model *model, const struct et_xnn_override *override)
{
	const struct et_xnn_partitions *partitions = &et_direct_model(model)->model->partitions;
	for (uint32_t i = 0; i < partitions->n_partitions; i++)
		if (partitions->partitions[i].override == override)
			return true;
	return false;
}
