/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolutions, transposed convolutions and fully connected layers against XNNPACK's: filters, paddings and strides,
 * shapes that change, one thread and several, one filter for two nodes. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/ukernels/gemm.h"
#include "delegates/xnnpack/partition.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/support/test_draw.h"
#include "runtime/base/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

enum { MOST_FLOATS = 512 /* of an argument */ };

/* A layer, and its largest input. */
struct layer {
	uint32_t batch, height, width, in, out;
	uint32_t kernel[2], stride[2], pad[4]; /* top, right, bottom, left; kernel 0: fully connected, of the width */
	bool has_bias, is_limited, is_twice;
	bool is_transposed, is_left; /* left to XNNPACK, unless that loses NaNs */
	uint32_t adjust[2], dilation, groups;
	bool has_zeros;            /* some of the filter */
	bool is_filter_transposed; /* of a fully connected layer */
};

static float taps[1 << 16], bias[256];

static uint32_t outer(const struct layer *l, int axis)
{
	uint32_t size = axis ? l->width : l->height, pad = axis ? l->pad[1] + l->pad[3] : l->pad[0] + l->pad[2];
	if (l->is_transposed)
		return l->stride[axis] * (size - 1) + l->adjust[axis] + (l->kernel[axis] - 1) * l->dilation + 1 - pad;
	return l->kernel[0] ? (size + pad - l->kernel[axis]) / l->stride[axis] + 1 : size;
}

/* x -> the layer -> an output; with is_twice a second layer of the same filter and bias. */
static uint8_t *make(const struct layer *l, size_t *ret_n_bytes)
{
	struct make_xnn mk;
	mx_init(&mk);
	bool is_conv = l->kernel[0];
	uint32_t groups = l->groups ? l->groups : 1, dilation = l->is_transposed ? l->dilation : 1;
	uint32_t n_taps = l->out * (l->in / groups) * (is_conv ? l->kernel[0] * l->kernel[1] : 1);
	assert_true(n_taps <= sizeof(taps) / sizeof(*taps));
	test_draw_floats(taps, n_taps);
	for (uint32_t i = 0; l->has_zeros && i < n_taps; i += 3)
		taps[i] = 0;
	test_draw_floats(bias, l->out);
	uint32_t x = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(l->batch, l->height, l->width, l->in), .input = 1 });
	struct mx_value weights = { .type = ET_XNN_FP32,
		.constant = mx_constant(&mk, taps, n_taps * sizeof(float)),
		.dims = { l->out, l->in },
		.n_dims = 2 };
	if (l->is_filter_transposed) {
		weights.dims[0] = l->in;
		weights.dims[1] = l->out;
	}
	if (is_conv) {
		weights.n_dims = 4;
		weights.dims[1] = l->kernel[0];
		weights.dims[2] = l->kernel[1];
		weights.dims[3] = l->in / groups;
	}
	uint32_t filter = mx_value(&mk, &weights);
	uint32_t biases = l->has_bias
				  ? mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32,
							  MX_DIMS(l->out),
							  .constant = mx_constant(&mk, bias, l->out * sizeof(float)) })
				  : ET_XNN_NONE;
	for (uint32_t i = 0; i < (l->is_twice ? 2U : 1U); i++) {
		uint32_t out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32,
						     MX_DIMS(l->batch, outer(l, 0), outer(l, 1), l->out),
						     .output = 2 + i });
		mx_node(&mk,
			l->is_transposed ? MX_DECONV
			: is_conv        ? MX_CONV
					 : MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { x, filter, biases },
				.outputs = { out },
				.flags = l->is_filter_transposed ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0,
				.min = l->is_limited ? -0.25f : 0,
				.max = l->is_limited ? 0.5f : 0,
				.numbers = { l->pad[0], l->pad[1], l->pad[2], l->pad[3], l->kernel[0], l->kernel[1],
					l->stride[0], l->stride[1], dilation, dilation, l->in / groups, l->out / groups,
					groups, l->adjust[0], l->adjust[1] } });
	}
	return mx_finish(&mk, ret_n_bytes);
}

static void begin(struct test_session *s, const uint8_t *bytes, size_t n_bytes, uint32_t n_args, uint32_t n_threads,
	uint64_t least_work, bool is_ours)
{
	struct et_diag diag = { 0 };
	et_xnn_override_set_least_work(least_work);
	test_ok(test_session_begin(s, bytes, n_bytes, n_args, n_threads, &diag), &diag);
	struct et_xnn_model *model = et_direct_model(s->model)->model;
	struct et_xnn_weights_stats stats;
	et_xnn_weights_stats(model->weights, &stats);
	assert_int_equal(model->partitions.partitions[0].override != NULL, is_ours);
	if (is_ours)
		assert_int_equal(stats.n_packings, 1); /* also for two nodes */
}

static struct arg args[3];

static void run(struct test_session *s, const struct layer *l, uint32_t batch, const float *x, float *out)
{
	struct et_diag diag = { 0 };
	ARG(&args[0], ET_FLOAT32, ET_STATIC, (int32_t)batch, (int32_t)l->height, (int32_t)l->width, (int32_t)l->in);
	memcpy(args[0].f32, x, (size_t)batch * l->height * l->width * l->in * sizeof(float));
	for (uint32_t i = 0; i < 2; i++)
		ARG(&args[1 + i], ET_FLOAT32, ET_DYNAMIC_BOUND, (int32_t)l->batch, (int32_t)outer(l, 0),
			(int32_t)outer(l, 1), (int32_t)l->out);
	struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
	test_ok(test_ops->enqueue(s->instance, values, NULL, &diag), &diag);
	size_t n = (size_t)batch * outer(l, 0) * outer(l, 1) * l->out;
	memcpy(out, args[1].f32, n * sizeof(float));
	if (l->is_twice)
		assert_memory_equal(args[2].f32, out, n * sizeof(float));
}

/* The expected output of a transposed convolution, by going over the input. */
static void plain(const struct layer *l, uint32_t batch, const float *x, float *out)
{
	uint32_t height = outer(l, 0), width = outer(l, 1), in = l->in / l->groups, n = l->out / l->groups;
	for (uint32_t i = 0; i < batch * height * width * l->out; i++)
		out[i] = l->has_bias ? bias[i % l->out] : 0;
	for (uint32_t i = 0; i < batch * l->height * l->width * l->in; i++)
		for (uint32_t tap = 0; tap < l->kernel[0] * l->kernel[1]; tap++) {
			uint32_t pixel = i / l->in, image = pixel / (l->height * l->width), channel = i % l->in;
			uint32_t y = pixel / l->width % l->height * l->stride[0] + tap / l->kernel[1] * l->dilation -
				     l->pad[0],
				 column = pixel % l->width * l->stride[1] + tap % l->kernel[1] * l->dilation -
					  l->pad[3];
			for (uint32_t j = 0; j < n && y < height && column < width; j++) {
				uint32_t to = channel / in * n + j;
				out[((image * height + y) * width + column) * l->out + to] +=
					x[i] * taps[(to * l->kernel[0] * l->kernel[1] + tap) * in + channel % in];
			}
		}
	for (uint32_t i = 0; i < batch * height * width * l->out && l->is_limited; i++)
		out[i] = out[i] < -0.25f ? -0.25f : out[i] > 0.5f ? 0.5f : out[i];
}

/* XNNPACK cannot do an input of one pixel: always an override. */
static bool is_ours_alone(const struct layer *l)
{
	bool is_alone = false;
	for (uint32_t i = 0; i < 2; i++)
		is_alone = is_alone || l->adjust[i] + l->kernel[i] <
					       l->stride[i] + (i ? l->pad[1] + l->pad[3] : l->pad[0] + l->pad[2]);
	return is_alone && l->is_transposed && !l->is_left;
}

static void compare(const struct layer *layer)
{
	static float x[MOST_FLOATS], ours[MOST_FLOATS], theirs[MOST_FLOATS];
	size_t n_bytes;
	uint8_t *bytes = make(layer, &n_bytes);
	for (uint32_t n_threads = 1; n_threads <= 3; n_threads += 2) {
		struct test_session override = { 0 }, xnnpack = { 0 };
		begin(&override, bytes, n_bytes, layer->is_twice ? 3 : 2, n_threads, 0,
			!layer->is_left || et_xnn_gemm_is_narrow(layer->out / layer->groups));
		begin(&xnnpack, bytes, n_bytes, layer->is_twice ? 3 : 2, 1, UINT64_MAX, is_ours_alone(layer));
		for (uint32_t i = 0; i < 3; i++) {
			struct layer l = *layer;
			uint32_t batch = i == 1 ? 1 : l.batch;
			if (i == 1 && l.height > l.kernel[0])
				l.height--;
			test_draw_floats(x, (size_t)batch * l.height * l.width * l.in);
			run(&override, &l, batch, x, ours);
			run(&xnnpack, &l, batch, x, theirs);
			size_t n = (size_t)batch * outer(&l, 0) * outer(&l, 1) * l.out;
			for (size_t j = 0; j < n; j++)
				test_near(ours[j], theirs[j], 2e-4f);
			/* With AVX-512 groups are overrides, whose sums have XNNPACK's order. */
			if (l.groups && !l.is_transposed && et_cpu_n_builds() == 3)
				assert_memory_equal(ours, theirs, n * sizeof(float));
			if (l.is_transposed) {
				plain(&l, batch, x, theirs);
				for (size_t j = 0; j < n; j++)
					test_near(ours[j], theirs[j], 2e-4f);
			}
		}
		test_session_end(&override);
		test_session_end(&xnnpack);
	}
	free(bytes);
}

static void test_pointwise(void **state)
{
	static const struct layer layers[] = {
		{ 1, 3, 7, 9, 24, { 1, 1 }, { 1, 1 }, { 0 }, true, true, false },
		{ 2, 3, 2, 30, 40, { 1, 1 }, { 1, 1 }, { 0 }, true, false, true },
		{ 2, 1, 2, 3, 100, { 0 }, { 0 }, { 0 }, true, true, true },
		{ 1, 1, 1, 300, 130, { 0 }, { 0 }, { 0 }, false, false, false },
		{ 1, 3, 2, 70, 50, { 0 }, { 0 }, { 0 }, .has_bias = true, .is_filter_transposed = true },
		{ 2, 1, 1, 129, 17, { 0 }, { 0 }, { 0 }, .is_limited = true, .is_filter_transposed = true },
		{ 1, 1, 1, 1, 2, { 1, 1 }, { 1, 1 }, { 0 }, false, true, false },
		{ 2, 5, 7, 5, 17, { 1, 1 }, { 2, 3 }, { 1, 0, 2, 1 }, true, false, false },
	};
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
		compare(&layers[i]);
}

static void test_windows(void **state)
{
	for (int i = 0; i < 60; i++) {
		struct layer l = { .batch = 1 + test_draw(2),
			.height = 3 + test_draw(9),
			.width = 3 + test_draw(12),
			.in = 1 + test_draw(9),
			.out = 1 + test_draw(12),
			.kernel = { 1 + test_draw(3), 1 + test_draw(3) },
			.stride = { 1 + test_draw(3), 1 + test_draw(3) },
			.has_bias = test_draw(2),
			.is_limited = test_draw(2) };
		for (int j = 0; j < 4; j++)
			l.pad[j] = test_draw(4);
		while (l.batch * outer(&l, 0) * outer(&l, 1) * l.out > MOST_FLOATS)
			l.out--;
		while (l.batch * l.height * l.width * l.in > MOST_FLOATS)
			l.in--;
		compare(&l);
	}
}

/* Images one pixel wide or high; at the ends windows have few taps, or none. */
static void test_lines(void **state)
{
	static const struct layer long_filters[] = {
		{ 1, 12, 1, 40, 8, { 150, 1 }, { 1, 1 }, { 100, 0, 100, 0 }, true, false, false },
		{ 1, 1, 12, 40, 6, { 1, 250 }, { 1, 1 }, { 0, 150, 0, 150 }, true, true, false },
		{ 1, 1, 2, 3, 5, { 1, 2 }, { 1, 2 }, { 0, 7, 0, 7 }, true, false, false },
	};
	for (size_t i = 0; i < sizeof(long_filters) / sizeof(*long_filters); i++)
		compare(&long_filters[i]);
	for (int i = 0; i < 60; i++) {
		int axis = test_draw(2);
		uint32_t size = 2 + test_draw(30), kernel = 1 + test_draw(9), stride = 1 + test_draw(4);
		struct layer l = { .batch = 1 + test_draw(2),
			.height = axis ? 1 : size,
			.width = axis ? size : 1,
			.in = 1 + test_draw(9),
			.out = 1 + test_draw(40),
			.kernel = { axis ? 1 : kernel, axis ? kernel : 1 },
			.stride = { axis ? 1 : stride, axis ? stride : 1 },
			.has_bias = test_draw(2),
			.is_limited = test_draw(2) };
		/* top and bottom, or left and right */
		l.pad[axis ? 3 : 0] = kernel + test_draw(4);
		l.pad[axis ? 1 : 2] = test_draw(kernel + 1);
		while (l.batch * outer(&l, 0) * outer(&l, 1) * l.out > MOST_FLOATS)
			l.out--;
		while (l.batch * size * l.in > MOST_FLOATS)
			l.in--;
		compare(&l);
	}
}

static bool is_small(const struct layer *l)
{
	return l->batch * outer(l, 0) * outer(l, 1) * l->out <= MOST_FLOATS &&
	       l->batch * l->height * l->width * l->in <= MOST_FLOATS;
}

/* Long and short lines of groups that XNNPACK fills up: to the bit, where XNNPACK uses the same vectors. */
static void test_groups(void **state)
{
	int n_lines = 0;
	for (int i = 0; i < 60;) {
		struct layer l = { .batch = 1 + test_draw(2),
			.height = 3 + test_draw(4),
			.width = 3 + test_draw(12),
			.groups = 2 + test_draw(3),
			.kernel = { 1 + test_draw(3), 1 + test_draw(3) },
			.stride = { 1 + test_draw(3), 1 + test_draw(3) },
			.has_bias = test_draw(2),
			.is_limited = test_draw(2) };
		l.in = l.groups * (1 + test_draw(5));
		l.out = l.groups * (2 + test_draw(test_draw(3) ? 6 : 23));
		for (int j = 0; j < 4; j++)
			l.pad[j] = test_draw(4);
		while (!is_small(&l) && l.out > 2 * l.groups)
			l.out -= l.groups;
		while (!is_small(&l) && l.in > l.groups)
			l.in -= l.groups;
		if (!is_small(&l))
			continue;
		n_lines += outer(&l, 1) > 6;
		compare(&l);
		i++;
	}
	assert_true(n_lines > 5);
}

static void draw_transposed(struct layer *l)
{
	*l = (struct layer){ .batch = 1 + test_draw(2),
		.height = 1 + test_draw(7),
		.width = 1 + test_draw(7),
		.in = 1 + test_draw(9),
		.out = 3 + test_draw(40),
		.has_bias = test_draw(2),
		.is_limited = test_draw(2),
		.is_twice = test_draw(8) == 0,
		.is_transposed = true,
		.dilation = 1,
		.groups = 1 };
	for (int i = 0; i < 2; i++) {
		l->stride[i] = 1 + test_draw(4);
		l->kernel[i] = l->stride[i] + (test_draw(2) ? 0 : test_draw(5));
		l->adjust[i] = test_draw(2) ? 0 : test_draw(l->stride[i]);
	}
	for (int i = 0; i < 4; i++)
		l->pad[i] = test_draw(2) ? 0 : test_draw(4);
}

/* Whether padding leaves an output, also for the height of the run. */
static bool has_output(const struct layer *l)
{
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t size = i ? l->width : l->height - (l->height > l->kernel[0]);
		uint32_t pad = i ? l->pad[1] + l->pad[3] : l->pad[0] + l->pad[2];
		if (l->stride[i] * (size - 1) + l->adjust[i] + (l->kernel[i] - 1) * l->dilation + 1 <
			pad + l->stride[i])
			return false;
	}
	return true;
}

static void test_transposed(void **state)
{
	int n_joined = 0, n_cut = 0;
	for (int i = 0; i < 150;) {
		struct layer l;
		draw_transposed(&l);
		if (!has_output(&l))
			continue;
		while (!is_small(&l) && l.out > 3)
			l.out--;
		while (!is_small(&l) && l.in > 1)
			l.in--;
		if (!is_small(&l))
			continue;
		n_joined += l.kernel[1] % l.stride[1] == 0 && l.stride[1] > 1;
		n_cut += l.kernel[1] % l.stride[1] == 0 && (l.pad[1] || l.pad[3]);
		compare(&l);
		i++;
	}
	assert_true(n_joined > 20 && n_cut > 10);
}

/* Packed bytes, which are kept in files, are all written, also those between subconvolutions. */
static void test_packed_whole(void **state)
{
	for (uint32_t kernel = 2; kernel < 6; kernel++) {
		struct layer l = { 1, 4, 4, 3, 5, { kernel, 3 }, { 2, 2 }, { 0 }, .is_transposed = true, .dilation = 1,
			.groups = 1 };
		struct test_session s;
		size_t n_bytes;
		uint8_t *bytes = make(&l, &n_bytes);
		begin(&s, bytes, n_bytes, 2, 1, 0, true);
		const struct et_xnn_model *model = et_direct_model(s.model)->model;
		const struct et_xnn_partition *partition = &model->partitions.partitions[0];
		size_t n = partition->override->n_packed(&model->payload, partition->node);
		uint8_t *packed[2];
		for (int i = 0; i < 2; i++) {
			packed[i] = malloc(n);
			memset(packed[i], i ? 0x55 : 0xaa, n);
			partition->override->pack(&model->payload, partition->node, packed[i]);
		}
		assert_memory_equal(packed[0], packed[1], n);
		free(packed[0]);
		free(packed[1]);
		test_session_end(&s);
		free(bytes);
	}
}

/* Transposed convolutions that are left to XNNPACK, and rare ones. */
static void test_transposed_ones(void **state)
{
	static const struct layer layers[] = {
		{ 1, 3, 4, 4, 6, { 3, 3 }, { 2, 2 }, { 0 }, true, false, false, true, true, { 1, 0 }, 1, 2 },
		{ 2, 3, 3, 2, 3, { 3, 2 }, { 2, 1 }, { 1, 0, 1, 2 }, true, true, false, true, true, { 0 }, 2, 1 },
		{ 1, 3, 3, 2, 3, { 1, 2 }, { 2, 3 }, { 0 }, true, true, false, true, true, { 0, 2 }, 1, 1 },
		/* ours: channels so few that XNNPACK loses NaNs; pixels all of whose columns are cut, and wide ones
		 * that are not or are */
		{ 1, 4, 3, 9, 2, { 3, 3 }, { 2, 2 }, { 0 }, true, false, false, true, false, { 0 }, 1, 1 },
		{ 1, 4, 1, 3, 1, { 8, 8 }, { 4, 4 }, { 1, 2, 2, 1 }, true, false, false, true, false, { 0 }, 1, 1 },
		{ 1, 1, 2, 3, 60, { 2, 2 }, { 2, 2 }, { 0 }, true, false, false, true, false, { 0 }, 1, 1 },
		{ 1, 1, 2, 3, 60, { 2, 4 }, { 2, 2 }, { 0, 1, 0, 1 }, true, false, false, true, false, { 0 }, 1, 1 },
		{ 1, 1, 3, 3, 60, { 2, 4 }, { 2, 2 }, { 0, 3, 0, 2 }, true, false, false, true, false, { 0, 1 }, 1, 1 },
		/* more rows of a side than are computed at once */
		{ 1, 40, 1, 2, 3, { 4, 4 }, { 2, 2 }, { 1, 1, 1, 1 }, true, false, false, true, false, { 0 }, 1, 1 },
	};
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
		compare(&layers[i]);
}

static bool is_below_stride(const struct layer *l)
{
	return outer(l, 0) < l->stride[0] || outer(l, 1) < l->stride[1];
}

/* XNNPACK cannot do outputs smaller than the stride: these are overrides whatever their size, also if nothing else
 * is. */
static void test_small_outputs(void **state)
{
	static float x[MOST_FLOATS], ours[MOST_FLOATS], expected[MOST_FLOATS];
	int n_builds = 0;
	while (et_xnn_gemm_at((size_t)n_builds))
		n_builds++;
	for (int i = 0; i < 60;) {
		struct layer l;
		draw_transposed(&l);
		l.out = 1 + test_draw(6);
		for (uint32_t axis = 0; axis < 2; axis++) {
			uint32_t *pad = &l.pad[axis ? 1 : 0], *size = axis ? &l.width : &l.height;
			*size = 1 + test_draw(2);
			uint32_t most = l.stride[axis] * (*size - 1) + l.adjust[axis] + l.kernel[axis];
			pad[0] = test_draw(most);
			pad[2] = test_draw(most - pad[0]);
		}
		if (!is_small(&l) || !is_below_stride(&l))
			continue;
		struct test_session s = { 0 };
		size_t n_bytes;
		uint8_t *bytes = make(&l, &n_bytes);
		et_xnn_gemm_choose(i % (n_builds + 1) ? et_xnn_gemm_at((size_t)(i % (n_builds + 1) - 1)) : NULL);
		begin(&s, bytes, n_bytes, l.is_twice ? 3 : 2, 1 + test_draw(2), UINT64_MAX, true);
		test_draw_floats(x, (size_t)l.batch * l.height * l.width * l.in);
		run(&s, &l, l.batch, x, ours);
		plain(&l, l.batch, x, expected);
		for (size_t j = 0; j < (size_t)l.batch * outer(&l, 0) * outer(&l, 1) * l.out; j++)
			test_near(ours[j], expected[j], 2e-4f);
		test_session_end(&s);
		free(bytes);
		i++;
	}
}

/* The same with groups: by an override, or by XNNPACK, cropped; also if they were larger at compile time. */
static void test_small_groups(void **state)
{
	static float x[MOST_FLOATS], out[MOST_FLOATS], expected[MOST_FLOATS];
	for (int i = 0; i < 4; i++) {
		struct layer l = { 1, 1 + (uint32_t)i / 2, 2, 4, 4, { 4, 4 }, { 4, 4 }, { 1, 0, 0, 0 }, true, false,
			false, true, true, { 0 }, 1, 2 };
		struct test_session s = { 0 };
		size_t n_bytes;
		uint8_t *bytes = make(&l, &n_bytes);
		begin(&s, bytes, n_bytes, 2, 1, i % 2 ? UINT64_MAX : 0, i % 2 == 0);
		test_draw_floats(x, MOST_FLOATS);
		for (int j = 0; j < 3; j++) {
			l.height = j == 1 ? 1 : 1 + (uint32_t)i / 2;
			run(&s, &l, 1, x, out);
			plain(&l, 1, x, expected);
			for (size_t k = 0; k < (size_t)outer(&l, 0) * outer(&l, 1) * l.out; k++)
				test_near(out[k], expected[k], 2e-4f);
		}
		test_session_end(&s);
		free(bytes);
	}
}

/* The expected output of a fully connected layer. */
static void plain_rows(const struct layer *l, const float *x, float *out)
{
	for (uint32_t i = 0; i < l->batch * l->height * l->width; i++)
		for (uint32_t j = 0; j < l->out; j++) {
			float sum = l->has_bias ? bias[j] : 0;
			for (uint32_t k = 0; k < l->in; k++)
				sum += x[i * l->in + k] *
				       taps[l->is_filter_transposed ? k * l->out + j : j * l->in + k];
			out[i * l->out + j] = !l->is_limited ? sum : sum < -0.25f ? -0.25f : sum > 0.5f ? 0.5f : sum;
		}
}

/* Whatever a layer's size, and whether an override or XNNPACK computes it: NaN stays, and infinity times 0 is NaN. */
static void test_infinities(void **state)
{
	static const float rare[] = { INFINITY, -INFINITY, NAN };
	static float x[MOST_FLOATS], ours[MOST_FLOATS], expected[MOST_FLOATS];
	int n_nans = 0;
	for (uint32_t i = 0; i < 120; i++) {
		struct layer l = { .batch = 1 + test_draw(2),
			.height = 1 + test_draw(3),
			.width = 1 + test_draw(3),
			.in = 1 + test_draw(9),
			.out = 1 + test_draw(9),
			.has_bias = test_draw(2),
			.is_limited = test_draw(2),
			.has_zeros = true,
			.is_transposed = i % 2,
			.is_filter_transposed = i % 4 == 2,
			.dilation = 1,
			.groups = 1 };
		for (uint32_t axis = 0; axis < 2 && l.is_transposed; axis++) {
			l.stride[axis] = 1 + test_draw(2);
			l.kernel[axis] = l.stride[axis] + test_draw(2);
		}
		if (!is_small(&l))
			continue;
		struct test_session s = { 0 };
		struct et_diag diag = { 0 };
		size_t n_bytes, n = (size_t)l.batch * outer(&l, 0) * outer(&l, 1) * l.out;
		uint8_t *bytes = make(&l, &n_bytes);
		et_xnn_gemm_choose(NULL);
		et_xnn_override_set_least_work(1 << 16);
		test_ok(test_session_begin(&s, bytes, n_bytes, 2, 1, &diag), &diag);
		test_draw_floats(x, (size_t)l.batch * l.height * l.width * l.in);
		for (uint32_t j = 0; j < l.batch * l.height * l.width * l.in; j++)
			if (test_draw(8) == 0)
				x[j] = rare[test_draw(3)];
		run(&s, &l, l.batch, x, ours);
		if (l.is_transposed)
			plain(&l, l.batch, x, expected);
		else
			plain_rows(&l, x, expected);
		for (size_t j = 0; j < n; j++) {
			n_nans += isnan(expected[j]) != 0;
			assert_int_equal(isnan(ours[j]) != 0, isnan(expected[j]) != 0);
			if (isinf(expected[j]))
				assert_true(ours[j] == expected[j]);
			else if (!isnan(expected[j]))
				test_near(ours[j], expected[j], 2e-4f);
		}
		test_session_end(&s);
		free(bytes);
	}
	assert_true(n_nans > 100);
}

/* A stride and a row whose product overflows a size_t. */
static void test_far_stride(void **state)
{
	static const struct layer layer = { 1, 1, 1 << 30, 2, 1, { 1, 1 }, { 1U << 31, 1U << 31 }, { 0 }, false, false,
		false };
	size_t n_bytes, n = ((size_t)1 << 31) * sizeof(float);
	float *x = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (x == MAP_FAILED)
		skip();
	uint8_t *bytes = make(&layer, &n_bytes);
	struct test_session override = { 0 };
	struct et_diag diag = { 0 };
	begin(&override, bytes, n_bytes, 2, 1, 0, true);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 1, 1, 2);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 1, 1, 1);
	args[0].sizes[2] = 1 << 30;
	args[0].tensor.data = x;
	struct et_evalue *values[] = { &args[0].value, &args[1].value };
	test_ok(test_ops->enqueue(override.instance, values, NULL, &diag), &diag);
	test_near(args[1].f32[0], 0, 0);
	test_session_end(&override);
	free(bytes);
	munmap(x, n);
}

static int set_up(void **state)
{
	if (!et_xnn_gemm())
		et_xnn_gemm_choose(et_xnn_gemm_at(0));
	return test_set_up(state);
}

static int tear_down(void **state)
{
	et_xnn_gemm_choose(NULL);
	return test_tear_down(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pointwise, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_windows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lines, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_groups, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_transposed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_packed_whole, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_transposed_ones, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_small_outputs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_small_groups, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_infinities, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_far_stride, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
