/* SPDX-License-Identifier: BSD-3-Clause */
/* Transposed convolutions of 8 bits, of every form, against plain loops, to the bit: one scale or a scale for each
 * channel, signed and unsigned, at sizes that change from run to run, also smaller than the stride. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/ukernels/gemm_qs8.h"
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
	MOST = 1 << 18, /* elements of an argument */
	FEW = 512,      /* elements of one of many arguments */
	MOST_TAPS = 1 << 15,
	MOST_OUT = 256,
	N_TRIALS = 150,
	N_RUNS = 6,
	GUARD = 64,
};

struct layer {
	uint32_t batch, size[2], kernel[2], stride[2], dilation[2], pad[4], adjust[2]; /* top, right, bottom, left */
	uint32_t group_in, group_out, groups;
	bool is_unsigned, is_by_channel, has_bias, is_limited;
	bool is_transposed; /* XNNPACK transposes the output */
	int32_t zero, filter_zero, out_zero;
	float scale, filter_scale, out_scale;
};

static int32_t x[MOST], taps[MOST_TAPS], bias[MOST_OUT];
static float scales[MOST_OUT];
static struct arg args[2];

static uint32_t outer(const struct layer *l, int axis)
{
	int64_t reach = (int64_t)(l->kernel[axis] - 1) * l->dilation[axis] + 1,
		pad = axis ? l->pad[1] + l->pad[3] : l->pad[0] + l->pad[2],
		n = (int64_t)(l->size[axis] - 1) * l->stride[axis] + l->adjust[axis] + reach - pad;
	return n > 0 ? (uint32_t)n : 0;
}

static uint32_t n_outputs(const struct layer *l)
{
	return l->batch * outer(l, 0) * outer(l, 1) * l->groups * l->group_out;
}

static bool fits(const struct layer *l)
{
	uint32_t n_in = l->batch * l->size[0] * l->size[1] * l->groups * l->group_in, n_out = l->groups * l->group_out,
		 n_taps = l->kernel[0] * l->kernel[1] * l->group_in * n_out, n = n_outputs(l);
	return n && n <= FEW && n_in <= FEW && n_taps <= MOST_TAPS && n_out <= MOST_OUT;
}

static int32_t draw_byte(bool is_unsigned)
{
	return (int32_t)test_draw(256) - (is_unsigned ? 0 : 128);
}

static void draw_size(struct layer *l)
{
	l->batch = 1 + test_draw(2);
	for (int i = 0; i < 2; i++)
		l->size[i] = 1 + test_draw(test_draw(2) ? 2 : 5);
}

static void draw_layer(struct layer *l)
{
	bool is_deep = test_draw(4) == 0, is_dilated = test_draw(5) == 0;
	*l = (struct layer){ .groups = test_draw(3) ? 1 : 1 + test_draw(3),
		.group_in = 1 + test_draw(is_deep ? 80 : 9),
		.group_out = 1 + test_draw(is_deep ? 50 : 9),
		.is_unsigned = test_draw(3) == 0,
		.has_bias = test_draw(2),
		.is_limited = test_draw(2),
		.is_transposed = test_draw(2) };
	draw_size(l);
	for (int i = 0; i < 2; i++) {
		l->stride[i] = 1 + test_draw(4);
		l->kernel[i] = test_draw(2) ? l->stride[i] + test_draw(2) : 1 + test_draw(5);
		l->dilation[i] = is_dilated ? 1 + test_draw(2) : 1;
		l->adjust[i] = test_draw(l->stride[i]);
	}
	for (int i = 0; i < 4; i++)
		l->pad[i] = test_draw(2) ? 0 : test_draw(4);
	l->is_by_channel = !l->is_unsigned && test_draw(2);
	l->zero = draw_byte(l->is_unsigned);
	l->filter_zero = l->is_unsigned ? draw_byte(true) : 0;
	l->out_zero = draw_byte(l->is_unsigned);
	l->scale = 0.01f + 0.001f * (float)test_draw(100);
	l->filter_scale = 0.01f + 0.001f * (float)test_draw(100);
	l->out_scale = 0.1f + 0.1f * (float)test_draw(20);
}

static void draw_weights(const struct layer *l)
{
	for (int i = 0; i < MOST_TAPS; i++) {
		taps[i] = draw_byte(l->is_unsigned);
		if (!l->is_unsigned && taps[i] == -128)
			taps[i] = 127;
	}
	for (int i = 0; i < MOST_OUT; i++) {
		bias[i] = (int32_t)test_draw(20001) - 10000;
		scales[i] = l->is_by_channel ? 0.01f + 0.001f * (float)test_draw(100) : l->filter_scale;
	}
}

/* From a sum to an output, like ExecuTorch's XNNPACK. */
static int32_t requantize(const struct layer *l, int32_t sum, uint32_t channel)
{
	const float ratio = l->scale * scales[channel] / l->out_scale, most = l->is_unsigned ? 255 : 127,
		    least = l->is_unsigned ? 0 : -128;
	float low = least, high = most;
	if (l->is_limited) {
		low = fmaxf(least, (float)lrintf(-1 / l->out_scale + (float)l->out_zero));
		high = fminf(most, (float)lrintf(2 / l->out_scale + (float)l->out_zero));
	}
	float value = rintf((float)sum * ratio) + (float)l->out_zero;
	return (int32_t)fminf(fmaxf(value, low), high);
}

/* The expected output, by going over the input. */
static void plain(const struct layer *l, int32_t *out)
{
	const uint32_t height = outer(l, 0), width = outer(l, 1), n_out = l->groups * l->group_out,
		       n_in = l->groups * l->group_in;
	for (uint32_t i = 0; i < n_outputs(l); i++)
		out[i] = l->has_bias ? bias[i % n_out] : 0;
	for (uint32_t i = 0; i < l->batch * l->size[0] * l->size[1]; i++)
		for (uint32_t tap = 0; tap < l->kernel[0] * l->kernel[1]; tap++) {
			int64_t y = (int64_t)(i / l->size[1] % l->size[0]) * l->stride[0] +
				    tap / l->kernel[1] * l->dilation[0] - l->pad[0],
				column = (int64_t)(i % l->size[1]) * l->stride[1] +
					 tap % l->kernel[1] * l->dilation[1] - l->pad[3];
			if (y < 0 || y >= height || column < 0 || column >= width)
				continue;
			int32_t *to = out + ((i / l->size[1] / l->size[0] * height + y) * width + column) * n_out;
			for (uint32_t j = 0; j < n_out; j++)
				for (uint32_t k = 0; k < l->group_in; k++)
					to[j] += (x[i * n_in + j / l->group_out * l->group_in + k] - l->zero) *
						 (taps[(j * l->kernel[0] * l->kernel[1] + tap) * l->group_in + k] -
							 l->filter_zero);
		}
	for (uint32_t i = 0; i < n_outputs(l); i++)
		out[i] = requantize(l, out[i], i % n_out);
}

static uint8_t *make(const struct layer *l, size_t *ret_n_bytes)
{
	static int8_t bytes[MOST_TAPS];
	uint32_t type = l->is_unsigned ? ET_XNN_QUINT8 : ET_XNN_QINT8, n_out = l->groups * l->group_out;
	struct make_xnn mk;
	mx_init(&mk);
	for (int i = 0; i < MOST_TAPS; i++)
		bytes[i] = (int8_t)taps[i];
	uint32_t in = mx_value(&mk, &(struct mx_value){ .type = type,
					    MX_DIMS(l->batch, l->size[0], l->size[1], l->groups * l->group_in),
					    .scale = l->scale,
					    .zero_point = l->zero,
					    .input = 1 });
	struct mx_value filter = { .type = type,
		MX_DIMS(n_out, l->kernel[0], l->kernel[1], l->group_in),
		.constant = mx_constant(&mk, bytes, (size_t)n_out * l->kernel[0] * l->kernel[1] * l->group_in),
		.scale = l->filter_scale,
		.zero_point = l->filter_zero };
	struct mx_value biases = { .type = ET_XNN_QINT32, MX_DIMS(n_out), .scale = l->scale * l->filter_scale };
	if (l->is_by_channel) {
		filter.type = ET_XNN_QCINT8;
		biases.type = ET_XNN_QCINT32;
		filter.scale = biases.scale = 0;
		filter.scales = biases.scales = scales;
		filter.n_scales = biases.n_scales = n_out;
	}
	uint32_t inputs[3] = { in, mx_value(&mk, &filter), ET_XNN_NONE };
	if (l->has_bias) {
		biases.constant = mx_constant(&mk, bias, n_out * sizeof(*bias));
		inputs[2] = mx_value(&mk, &biases);
	}
	struct mx_value result = { .type = type,
		MX_DIMS(l->batch, outer(l, 0), outer(l, 1), n_out),
		.scale = l->out_scale,
		.zero_point = l->out_zero,
		.output = l->is_transposed ? 0 : 2 };
	uint32_t out = mx_value(&mk, &result);
	mx_node(&mk, MX_DECONV,
		&(struct et_xnn_node){ .inputs = { inputs[0], inputs[1], inputs[2] },
			.outputs = { out },
			.min = l->is_limited ? -1 : 0,
			.max = l->is_limited ? 2 : 0,
			.numbers = { l->pad[0], l->pad[1], l->pad[2], l->pad[3], l->kernel[0], l->kernel[1],
				l->stride[0], l->stride[1], l->dilation[0], l->dilation[1], l->group_in, l->group_out,
				l->groups, l->adjust[0], l->adjust[1] } });
	if (l->is_transposed) {
		struct mx_value transposed = result;
		transposed.dims[1] = result.dims[2];
		transposed.dims[2] = result.dims[1];
		transposed.output = 2;
		mx_node(&mk, MX_TRANSPOSE,
			&(struct et_xnn_node){ .inputs = { out },
				.outputs = { mx_value(&mk, &transposed) },
				.list = { { 0, 2, 1, 3 } },
				.n_list = { 4 } });
	}
	return mx_finish(&mk, ret_n_bytes);
}

static void run(struct test_session *s, const struct layer *l)
{
	static int32_t expected[MOST];
	static uint8_t in[MOST + GUARD], out[MOST + GUARD];
	struct et_diag diag = { 0 };
	uint8_t type = l->is_unsigned ? ET_UINT8 : ET_INT8;
	ARG(&args[0], type, ET_DYNAMIC_BOUND, (int32_t)l->batch, (int32_t)l->size[0], (int32_t)l->size[1],
		(int32_t)(l->groups * l->group_in));
	uint32_t height = outer(l, 0), width = outer(l, 1), n_channels = l->groups * l->group_out;
	ARG(&args[1], type, ET_DYNAMIC_BOUND, (int32_t)l->batch, (int32_t)(l->is_transposed ? width : height),
		(int32_t)(l->is_transposed ? height : width), (int32_t)n_channels);
	uint32_t n_in = l->batch * l->size[0] * l->size[1] * l->groups * l->group_in, n_out = n_outputs(l);
	assert_true(n_in <= MOST && n_out <= MOST);
	for (uint32_t i = 0; i < n_in; i++)
		in[i] = (uint8_t)(x[i] = draw_byte(l->is_unsigned));
	memset(out, 0x5a, sizeof(out));
	for (int i = 0; i < 2; i++) {
		args[i].tensor.data = i ? out : in;
		args[i].tensor.capacity = MOST;
	}
	struct et_evalue *values[] = { &args[0].value, &args[1].value };
	test_ok(test_ops->enqueue(s->instance, values, NULL, &diag), &diag);
	plain(l, expected);
	for (uint32_t i = 0; i < n_out; i++) {
		uint32_t pixel = i / n_channels, column = pixel % width, row = pixel / width % height;
		if (l->is_transposed)
			pixel = pixel / width / height * width * height + column * height + row;
		assert_int_equal(out[pixel * n_channels + i % n_channels], (uint8_t)expected[i]);
	}
	for (uint32_t i = n_out; i < n_out + GUARD; i++)
		assert_int_equal(out[i], 0x5a);
}

/* Choose one build after the other. */
static void choose_build(size_t i)
{
	size_t n = 0;
	while (et_xnn_gemm_qs8_at(n))
		n++;
	et_xnn_gemm_qs8_choose(et_xnn_gemm_qs8_at(i % n));
}

static bool is_below_stride(const struct layer *l)
{
	return l->dilation[0] == 1 && l->dilation[1] == 1 && l->kernel[0] >= l->stride[0] &&
	       l->kernel[1] >= l->stride[1] && (outer(l, 0) < l->stride[0] || outer(l, 1) < l->stride[1]);
}

/* Drawn layers, each run at several sizes. */
static void test_sizes(void **state)
{
	int n_below = 0, n_above = 0, n_ours = 0;
	for (int i = 0; i < N_TRIALS;) {
		struct layer l;
		draw_layer(&l);
		if (!fits(&l))
			continue;
		draw_weights(&l);
		struct test_session s = { 0 };
		struct et_diag diag = { 0 };
		size_t n_bytes;
		uint8_t *bytes = make(&l, &n_bytes);
		bool was_below = is_below_stride(&l);
		choose_build((size_t)i / 3);
		et_xnn_override_set_least_work(i % 3 ? 0 : UINT64_MAX);
		test_ok(test_session_begin(&s, bytes, n_bytes, 2, 1 + test_draw(2), &diag), &diag);
		n_ours += test_has_override(s.model, &et_xnn_override_deconv_qs8);
		for (int j = 0; j < N_RUNS; j++) {
			run(&s, &l);
			n_below += is_below_stride(&l) && !was_below;
			n_above += !is_below_stride(&l) && was_below;
			do
				draw_size(&l);
			while (!fits(&l));
		}
		test_session_end(&s);
		free(bytes);
		i++;
	}
	assert_true(n_below > 20 && n_above > 20);
	assert_true(n_ours > N_TRIALS / 4);
}

/* Several tiles down and across; more windows and columns than are computed at once; joined subconvolutions, and ones
 * without taps. */
static void test_large(void **state)
{
	static const struct layer layers[] = {
		{ .size = { 3, 400 },
			.kernel = { 4, 4 },
			.stride = { 2, 2 },
			.pad = { 1, 1, 1, 1 },
			.group_in = 130,
			.group_out = 3,
			.groups = 1 },
		{ .size = { 40, 30 },
			.kernel = { 4, 5 },
			.stride = { 2, 1 },
			.pad = { 0, 2, 1, 0 },
			.group_in = 90,
			.group_out = 4,
			.groups = 1 },
		{ .size = { 13, 17 },
			.kernel = { 3, 3 },
			.stride = { 2, 2 },
			.pad = { 1, 1, 1, 1 },
			.adjust = { 1, 0 },
			.group_in = 20,
			.group_out = 150,
			.groups = 1 },
		{ .size = { 12, 12 },
			.kernel = { 2, 2 },
			.stride = { 2, 2 },
			.group_in = 5,
			.group_out = 7,
			.groups = 4 },
		{ .size = { 20, 9 },
			.kernel = { 1, 1 },
			.stride = { 4, 4 },
			.adjust = { 3, 1 },
			.group_in = 3,
			.group_out = 2,
			.groups = 8 },
		{ .size = { 9, 300 },
			.kernel = { 3, 2 },
			.stride = { 3, 2 },
			.group_in = 6,
			.group_out = 3,
			.groups = 2 },
		{ .size = { 5, 2 },
			.kernel = { 7, 7 },
			.stride = { 1, 1 },
			.pad = { 3, 3, 3, 3 },
			.group_in = 33,
			.group_out = 9,
			.groups = 1 },
	};
	for (size_t i = 0; i < 2 * sizeof(layers) / sizeof(*layers); i++) {
		struct layer l = layers[i / 2];
		l.batch = 1 + i / 2 % 2;
		l.dilation[0] = l.dilation[1] = 1;
		l.has_bias = true;
		l.is_by_channel = i % 2;
		l.zero = draw_byte(false);
		l.out_zero = draw_byte(false);
		l.scale = 0.02f;
		l.filter_scale = 0.03f;
		l.out_scale = 1.7f;
		draw_weights(&l);
		struct test_session s = { 0 };
		struct et_diag diag = { 0 };
		size_t n_bytes;
		uint8_t *bytes = make(&l, &n_bytes);
		choose_build(i / 2 + i);
		et_xnn_override_set_least_work(0);
		test_ok(test_session_begin(&s, bytes, n_bytes, 2, 1 + (uint32_t)i % 2, &diag), &diag);
		struct et_xnn_weights_stats stats;
		assert_true(test_has_override(s.model, &et_xnn_override_deconv_qs8));
		run(&s, &l);
		et_xnn_weights_stats(et_direct_model(s.model)->model->weights, &stats);
		assert_int_equal(stats.n_packings, 1);
		test_session_end(&s);
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sizes, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_large, test_set_up, test_tear_down_choices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
