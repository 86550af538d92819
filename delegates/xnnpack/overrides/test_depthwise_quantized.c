/* SPDX-License-Identifier: BSD-3-Clause */
/* Depthwise convolutions of 8 bits as nodes: ours against XNNPACK's, to the bit, with one scale and with a scale for
 * each channel, with limits, at sizes that change from run to run; and which nodes are left to XNNPACK. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/support/test_draw.h"
#include "delegates/xnnpack/ukernels/depthwise_qs8.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
	MOST_CHANNELS = 100,
	MOST_SIZE = 12,
	MOST = 2 * MOST_SIZE * MOST_SIZE * MOST_CHANNELS,
	N_TRIALS = 60,
	N_RUNS = 3
};

struct layer {
	uint32_t batch, size[2], kernel[2], stride, dilation, channels, pad[4]; /* top, right, bottom, left */
	bool is_unsigned, is_by_channel, has_bias, is_limited;
	float out_scale;
};

static int8_t taps[5 * 7 * MOST_CHANNELS];
static int32_t bias[MOST_CHANNELS];
static float scales[MOST_CHANNELS];
static struct arg args[2];

static uint32_t outer(const struct layer *l, int axis)
{
	int64_t reach = (int64_t)(l->kernel[axis] - 1) * l->dilation + 1,
		size = l->size[axis] + (axis ? l->pad[1] + l->pad[3] : l->pad[0] + l->pad[2]);
	return size < reach ? 0 : (uint32_t)((size - reach) / l->stride + 1);
}

static void draw_size(struct layer *l)
{
	l->batch = 1 + test_draw(2);
	do
		for (int i = 0; i < 2; i++)
			l->size[i] = 1 + test_draw(MOST_SIZE);
	while (!outer(l, 0) || !outer(l, 1));
}

static void draw_layer(struct layer *l)
{
	*l = (struct layer){ .stride = 1 + test_draw(2),
		.dilation = 1,
		.channels = 16 + test_draw(MOST_CHANNELS - 15),
		.is_by_channel = test_draw(3) > 0,
		.has_bias = test_draw(3) > 0,
		.is_limited = test_draw(2),
		.out_scale = 0.2f + 0.1f * (float)test_draw(40) };
	l->kernel[0] = l->kernel[1] = test_draw(2) ? 3 : 5;
	for (int i = 0; i < 4; i++)
		l->pad[i] = test_draw(l->kernel[0]);
	draw_size(l);
	for (size_t i = 0; i < sizeof(taps); i++)
		taps[i] = (int8_t)(test_draw(255) - 127);
	for (int i = 0; i < MOST_CHANNELS; i++) {
		bias[i] = (int32_t)test_draw(20001) - 10000;
		scales[i] = 0.01f + 0.001f * (float)test_draw(100);
	}
}

static uint8_t *make(const struct layer *l, size_t *ret_n_bytes)
{
	uint32_t type = l->is_unsigned ? ET_XNN_QUINT8 : ET_XNN_QINT8, n = l->channels;
	struct make_xnn mk;
	mx_init(&mk);
	struct mx_value image = { .type = type,
		MX_DIMS(l->batch, l->size[0], l->size[1], n),
		.scale = 0.03f,
		.zero_point = l->is_unsigned ? 100 : -17,
		.input = 1 };
	struct mx_value filter = { .type = type,
		MX_DIMS(1, l->kernel[0], l->kernel[1], n),
		.constant = mx_constant(&mk, taps, l->kernel[0] * l->kernel[1] * n),
		.scale = 0.05f };
	struct mx_value biases = { .type = ET_XNN_QINT32, MX_DIMS(n), .scale = 0.03f * 0.05f };
	if (l->is_by_channel) {
		filter.type = ET_XNN_QCINT8;
		biases.type = ET_XNN_QCINT32;
		filter.scale = biases.scale = 0;
		filter.scales = biases.scales = scales;
		filter.n_scales = biases.n_scales = n;
		filter.channel_dim = 3;
	}
	uint32_t inputs[3] = { mx_value(&mk, &image), mx_value(&mk, &filter), ET_XNN_NONE };
	if (l->has_bias) {
		biases.constant = mx_constant(&mk, bias, n * sizeof(*bias));
		inputs[2] = mx_value(&mk, &biases);
	}
	struct mx_value result = { .type = type,
		MX_DIMS(l->batch, outer(l, 0), outer(l, 1), n),
		.scale = l->out_scale,
		.zero_point = 5,
		.output = 2 };
	mx_node(&mk, MX_DEPTHWISE,
		&(struct et_xnn_node){ .inputs = { inputs[0], inputs[1], inputs[2] },
			.outputs = { mx_value(&mk, &result) },
			.min = l->is_limited ? -3 : 0,
			.max = l->is_limited ? 4.5f : 0,
			.numbers = { l->pad[0], l->pad[1], l->pad[2], l->pad[3], l->kernel[0], l->kernel[1], l->stride,
				l->stride, l->dilation, l->dilation, 1, 1, n } });
	return mx_finish(&mk, ret_n_bytes);
}

static void run(struct test_session *s, const struct layer *l, const int8_t *in, int8_t *out)
{
	struct et_diag diag = { 0 };
	ARG(&args[0], ET_INT8, ET_DYNAMIC_BOUND, (int32_t)l->batch, (int32_t)l->size[0], (int32_t)l->size[1],
		(int32_t)l->channels);
	ARG(&args[1], ET_INT8, ET_DYNAMIC_BOUND, (int32_t)l->batch, (int32_t)outer(l, 0), (int32_t)outer(l, 1),
		(int32_t)l->channels);
	args[0].tensor.data = (void *)(uintptr_t)in; /* which runs do not change */
	args[1].tensor.data = out;
	for (int i = 0; i < 2; i++)
		args[i].tensor.capacity = MOST;
	struct et_evalue *values[] = { &args[0].value, &args[1].value };
	test_ok(test_ops->enqueue(s->instance, values, NULL, &diag), &diag);
}

/* @ret_is_ours: whether a row of ours computes the node, which is large enough. */
static void begin(struct test_session *s, const struct layer *l, bool *ret_is_ours, uint8_t **ret_bytes)
{
	struct et_diag diag = { 0 };
	size_t n_bytes;
	*ret_bytes = make(l, &n_bytes);
	test_ok(test_session_begin(s, *ret_bytes, n_bytes, 2, 1 + test_draw(2), &diag), &diag);
	*ret_is_ours = test_has_override(s->model, &et_xnn_override_depthwise_qs8);
}

static void test_like_xnnpack(void **state)
{
	static int8_t in[MOST], out[2][MOST];
	for (int i = 0; i < N_TRIALS; i++) {
		struct test_session sessions[2] = { 0 };
		uint8_t *bytes[2];
		struct layer l;
		draw_layer(&l);
		for (int is_ours = 0; is_ours < 2; is_ours++) {
			bool was_taken;
			et_xnn_override_set_least_work(is_ours ? 0 : UINT64_MAX);
			begin(&sessions[is_ours], &l, &was_taken, &bytes[is_ours]);
			assert_int_equal(was_taken, is_ours && et_depthwise_qs8());
		}
		for (int j = 0; j < N_RUNS; j++) {
			for (int k = 0; k < MOST; k++)
				in[k] = (int8_t)(test_draw(256) - 128);
			memset(out, 0x5a, sizeof(out));
			for (int k = 0; k < 2; k++)
				run(&sessions[k], &l, in, out[k]);
			assert_memory_equal(out[0], out[1], MOST);
			draw_size(&l);
		}
		for (int k = 0; k < 2; k++) {
			test_session_end(&sessions[k]);
			free(bytes[k]);
		}
	}
}

static void test_left_to_xnnpack(void **state)
{
	static const struct layer layers[] = {
		{ .kernel = { 3, 3 }, .stride = 1, .dilation = 1, .channels = 16, .is_unsigned = true },
		{ .kernel = { 3, 3 }, .stride = 1, .dilation = 2, .channels = 16 },
		{ .kernel = { 3, 5 }, .stride = 1, .dilation = 1, .channels = 16 },
		{ .kernel = { 5, 7 }, .stride = 1, .dilation = 1, .channels = 16 },
		{ .kernel = { 3, 3 }, .stride = 3, .dilation = 1, .channels = 16 },
		{ .kernel = { 3, 3 }, .stride = 1, .dilation = 1, .channels = 15 },
	};
	et_xnn_override_set_least_work(0);
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
		struct test_session s = { 0 };
		struct layer l = layers[i];
		uint8_t *bytes;
		bool is_ours;
		l.batch = 1;
		l.size[0] = l.size[1] = MOST_SIZE;
		l.out_scale = 1;
		begin(&s, &l, &is_ours, &bytes);
		assert_false(is_ours);
		test_session_end(&s);
		free(bytes);
	}
}

/* Scales of a channel that XNNPACK refuses. */
static void test_bad_scales(void **state)
{
	static const float bad[] = { -1, 0, -0.0f, INFINITY, NAN, 1e-40f, 1e9f };
	et_xnn_override_set_least_work(0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct test_session s = { 0 };
		struct et_diag diag = { 0 };
		struct layer l;
		size_t n_bytes;
		do
			draw_layer(&l);
		while (!l.is_by_channel);
		scales[test_draw(l.channels)] = bad[i];
		uint8_t *bytes = make(&l, &n_bytes);
		assert_int_not_equal(test_session_begin(&s, bytes, n_bytes, 2, 1, &diag), ET_OK);
		test_session_end(&s);
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_like_xnnpack, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_left_to_xnnpack, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_bad_scales, test_set_up, test_tear_down_choices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
