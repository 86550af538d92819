/* SPDX-License-Identifier: BSD-3-Clause */
/* max_pool.c, average_pool.c and argmax_pool.c against the plain definition: every datatype, windows that XNNPACK
 * does not take, limits, threads, shapes that change; between nodes of XNNPACK's. */
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

enum { MOST = 512, ZERO_POINT = 3 };
#define SCALE 0.5f

struct layer {
	uint32_t type, height, width, channels;
	uint32_t pad[4]; /* top, right, bottom, left */
	uint32_t kernel[2], stride[2], dilation[2];
	bool is_limited, is_between; /* XNNPACK negates before and after */
	bool is_average;
	bool is_tight; /* limits leave one number */
};

static struct arg args[3];

static uint32_t outer(const struct layer *l, int axis)
{
	uint32_t size = (axis ? l->width : l->height) + l->pad[axis ? 1 : 0] + l->pad[axis ? 3 : 2],
		 reach = (l->kernel[axis] - 1) * l->dilation[axis] + 1;
	return size < reach ? 1 : (size - reach) / l->stride[axis] + 1;
}

static uint8_t scalar_of(uint32_t type)
{
	return type == ET_XNN_FP32    ? ET_FLOAT32
	       : type == ET_XNN_FP16  ? ET_FLOAT16
	       : type == ET_XNN_QINT8 ? ET_INT8
				      : ET_UINT8;
}

static float get(uint32_t type, const struct arg *arg, size_t i)
{
	switch (type) {
	case ET_XNN_FP32:
		return arg->f32[i];
	case ET_XNN_FP16:
		return et_xnn_from_fp16(arg->f16[i]);
	case ET_XNN_QINT8:
		return (float)(arg->i8[i] - ZERO_POINT) * SCALE;
	default:
		return (float)((uint8_t)arg->i8[i] - ZERO_POINT) * SCALE;
	}
}

static uint8_t *make(const struct layer *l, size_t *ret_n_bytes)
{
	struct make_xnn mk;
	mx_init(&mk);
	bool is_8_bit = l->type >= ET_XNN_QINT8;
	struct mx_value value = { .type = l->type,
		MX_DIMS(2, l->height, l->width, l->channels),
		.scale = is_8_bit ? SCALE : 0,
		.zero_point = is_8_bit ? ZERO_POINT : 0,
		.input = 1 };
	uint32_t in = mx_value(&mk, &value), first = in;
	value.input = 0;
	if (l->is_between) {
		first = mx_value(&mk, &value);
		mx_node(&mk, MX_NEGATE, &(struct et_xnn_node){ .inputs = { in }, .outputs = { first } });
	}
	value.dims[1] = outer(l, 0);
	value.dims[2] = outer(l, 1);
	uint32_t inner = l->is_between ? mx_value(&mk, &value) : 0;
	value.output = 2;
	uint32_t out = mx_value(&mk, &value);
	mx_node(&mk, l->is_average ? MX_AVERAGE : MX_MAX_POOL,
		&(struct et_xnn_node){ .inputs = { first },
			.outputs = { l->is_between ? inner : out },
			.min = l->is_tight     ? 1
			       : l->is_limited ? -1
					       : -INFINITY,
			.max = l->is_tight     ? 1
			       : l->is_limited ? 1.5f
					       : INFINITY,
			.numbers = { l->pad[0], l->pad[1], l->pad[2], l->pad[3], l->kernel[0], l->kernel[1],
				l->stride[0], l->stride[1], l->dilation[0], l->dilation[1] } });
	if (l->is_between)
		mx_node(&mk, MX_NEGATE, &(struct et_xnn_node){ .inputs = { inner }, .outputs = { out } });
	return mx_finish(&mk, ret_n_bytes);
}

/* Move a place outside the image into it by whole dilations; to the first place if none fits. */
static int64_t step_in(int64_t i, uint32_t size, uint32_t dilation)
{
	while (i < 0)
		i += dilation;
	while (i >= size)
		i -= dilation;
	return i < 0 ? 0 : i;
}

/* The largest element in the image, or else the one nearest to the window's first element. */
static float expected(const struct layer *l, uint32_t image, uint32_t y, uint32_t x, uint32_t channel)
{
	int64_t top = (int64_t)y * l->stride[0] - l->pad[0], left = (int64_t)x * l->stride[1] - l->pad[3];
	float most = -INFINITY, sign = l->is_between ? -1 : 1;
	bool is_down = false, is_across = false;
	for (uint32_t i = 0; i < l->kernel[0]; i++)
		is_down = is_down || (top + i * l->dilation[0] >= 0 && top + i * l->dilation[0] < l->height);
	for (uint32_t j = 0; j < l->kernel[1]; j++)
		is_across = is_across || (left + j * l->dilation[1] >= 0 && left + j * l->dilation[1] < l->width);
	for (uint32_t i = 0; i < l->kernel[0]; i++)
		for (uint32_t j = 0; j < l->kernel[1]; j++) {
			int64_t row = top + i * l->dilation[0], column = left + j * l->dilation[1];
			if (!is_down)
				row = step_in(top, l->height, l->dilation[0]);
			if (!is_across)
				column = step_in(left, l->width, l->dilation[1]);
			if (row < 0 || row >= l->height || column < 0 || column >= l->width)
				continue;
			size_t at = ((image * l->height + (size_t)row) * l->width + (size_t)column) * l->channels +
				    channel;
			most = fmaxf(most, sign * get(l->type, &args[0], at));
		}
	if (l->is_limited)
		most = fminf(fmaxf(most, -1), 1.5f);
	return sign * (l->is_tight ? 1 : most);
}

/* The window's range in the image: from *@ret_at to before the result. */
static int64_t find_end(const struct layer *l, int axis, uint32_t position, int64_t *ret_at)
{
	int64_t from = (int64_t)position * l->stride[axis] - l->pad[axis ? 3 : 0], end = from + l->kernel[axis],
		size = axis ? l->width : l->height;
	*ret_at = from < 0 ? 0 : from;
	return end < 0 ? 0 : end > size ? size : end;
}

/* The average of the elements in the image; if there is none, the lower limit. */
static float expected_average(const struct layer *l, uint32_t image, uint32_t y, uint32_t x, uint32_t channel)
{
	int64_t top, left, bottom = find_end(l, 0, y, &top), right = find_end(l, 1, x, &left);
	float sum = 0, sign = l->is_between ? -1 : 1, least = l->is_limited ? -1 : -INFINITY;
	for (int64_t row = top; row < bottom; row++)
		for (int64_t column = left; column < right; column++)
			sum += sign *
			       get(l->type, &args[0],
				       ((image * l->height + (size_t)row) * l->width + (size_t)column) * l->channels +
					       channel);
	int64_t n = (bottom - top) * (right - left);
	float mean = n ? fmaxf(sum / (float)n, least) : least;
	return sign * (l->is_limited ? fminf(mean, 1.5f) : mean);
}

static void check(const struct layer *layer)
{
	struct test_session s = { 0 };
	struct et_diag diag = { 0 };
	size_t n_bytes;
	uint8_t *bytes = make(layer, &n_bytes);
	enum et_status status = test_session_begin(&s, bytes, n_bytes, 2, 1 + test_draw(2), &diag);
	free(bytes);
	test_ok(status, &diag);
	assert_true(test_has_override(s.model,
		layer->is_average ? &et_xnn_override_average_pool : &et_xnn_override_max_pool));
	for (uint32_t shrunk = 0; shrunk < 2 && layer->height > shrunk; shrunk++) {
		struct layer l = *layer;
		l.height -= shrunk;
		ARG(&args[0], scalar_of(l.type), ET_STATIC, 2, (int32_t)l.height, (int32_t)l.width,
			(int32_t)l.channels);
		ARG(&args[1], scalar_of(l.type), ET_DYNAMIC_BOUND, 2, (int32_t)outer(layer, 0),
			(int32_t)outer(layer, 1), (int32_t)l.channels);
		for (uint32_t i = 0; i < 2 * l.height * l.width * l.channels; i++) {
			if (l.type == ET_XNN_FP32)
				test_draw_floats(&args[0].f32[i], 1);
			else if (l.type == ET_XNN_FP16)
				args[0].f16[i] = et_float_to_fp16((float)test_draw(64) / 8 - 4);
			else if (l.type == ET_XNN_QINT8)
				args[0].i8[i] = (int8_t)(test_draw(100) - 50);
			else
				args[0].i8[i] = (int8_t)(test_draw(6));
		}
		struct et_evalue *values[] = { &args[0].value, &args[1].value };
		test_ok(test_ops->enqueue(s.instance, values, NULL, &diag), &diag);
		uint32_t height = outer(&l, 0), width = outer(&l, 1);
		for (uint32_t i = 0; i < 2 * height * width * l.channels; i++) {
			uint32_t pixel = i / l.channels;
			float (*of)(const struct layer *, uint32_t, uint32_t, uint32_t,
				uint32_t) = l.is_average ? expected_average : expected;
			float number = of(&l, pixel / (height * width), pixel / width % height, pixel % width,
				i % l.channels);
			float bound = !l.is_average ? 0 : l.type == ET_XNN_FP16 ? 0.01f : 1e-5f;
			if (isinf(number))
				assert_true(get(l.type, &args[1], i) == number);
			else
				test_near(get(l.type, &args[1], i), number, bound);
		}
	}
	test_session_end(&s);
}

static void check_some(bool is_average, uint32_t n_types, int n)
{
	for (int i = 0; i < n;) {
		struct layer l = { .type = ET_XNN_FP32 + (uint32_t)i % n_types,
			.is_average = is_average,
			.height = 1 + test_draw(6),
			.width = 1 + test_draw(6),
			.channels = 1 + test_draw(5),
			.is_limited = test_draw(3) == 0,
			.is_between = i % 4 != 3 && test_draw(3) == 0 };
		l.is_tight = l.type >= ET_XNN_QINT8 && test_draw(4) == 0;
		struct et_xnn_value value = { .type = l.type, .scale = SCALE, .zero_point = ZERO_POINT };
		struct et_xnn_payload payload = { .values = &value };
		struct et_xnn_node node = { .kind = et_xnn_kind_at(is_average ? MX_AVERAGE : MX_MAX_POOL),
			.min = l.is_tight ? 1 : -INFINITY,
			.max = l.is_tight ? 1 : INFINITY };
		for (int j = 0; j < 4; j++)
			node.numbers[j] = l.pad[j] = test_draw(4);
		for (int axis = 0; axis < 2; axis++) {
			node.numbers[ET_XNN_KERNEL_H + axis] = l.kernel[axis] = 1 + test_draw(4);
			node.numbers[ET_XNN_STRIDE_H + axis] = l.stride[axis] = 1 + test_draw(4);
			node.numbers[ET_XNN_DILATION_H + axis] = l.dilation[axis] = is_average ? 1 : 1 + test_draw(3);
		}
		if (!(is_average ? et_xnn_override_needs_average(&node)
				 : et_xnn_override_needs_pool(&payload, &node)) ||
			2 * outer(&l, 0) * outer(&l, 1) * l.channels > MOST)
			continue;
		check(&l);
		i++;
	}
}

static void test_windows(void **state)
{
	check_some(false, 4, 160);
}

/* Argmax pooling of [2, @height, @width, 3], with windows in the padding. */
static void check_argmax(uint32_t height, uint32_t width, const uint32_t pad[4], const uint32_t kernel[2], bool has_nan)
{
	enum { CHANNELS = 3 };
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	uint32_t rows = (height + pad[0] + pad[2]) / kernel[0], columns = (width + pad[1] + pad[3]) / kernel[1];
	struct mx_value value = { .type = ET_XNN_FP32, MX_DIMS(2, height, width, CHANNELS), .input = 1 };
	mx_init(&mk);
	uint32_t in = mx_value(&mk, &value);
	value = (struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(2, rows, columns, CHANNELS), .output = 2 };
	uint32_t most = mx_value(&mk, &value);
	value.output = 3;
	mx_node(&mk, MX_ARGMAX,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { most, mx_value(&mk, &value) },
			.numbers = { pad[0], pad[1], pad[2], pad[3], kernel[0], kernel[1] } });
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 2, (int32_t)height, (int32_t)width, CHANNELS);
	for (int i = 1; i < 3; i++)
		ARG(&args[i], i == 1 ? ET_FLOAT32 : ET_INT32, ET_STATIC, 2, (int32_t)rows, (int32_t)columns, CHANNELS);
	for (uint32_t i = 0; i < 2 * height * width * CHANNELS; i++)
		args[0].f32[i] = has_nan && test_draw(5) == 0 ? NAN : (float)test_draw(7) - 3;
	test_ok(test_run_once(&mk, args, 3, &diag), &diag);
	for (uint32_t i = 0; i < 2 * rows * columns * CHANNELS; i++) {
		uint32_t pixel = i / CHANNELS, image = pixel / (rows * columns), row = pixel / columns % rows,
			 column = pixel % columns;
		float largest = 0;
		int32_t index = -1;
		for (uint32_t k = 0; k < kernel[0] * kernel[1]; k++) {
			int64_t y = step_in((int64_t)row * kernel[0] + k % kernel[0] - pad[0], height, 1),
				x = step_in((int64_t)column * kernel[1] + k / kernel[0] - pad[3], width, 1);
			float tap = args[0].f32[((image * height + (size_t)y) * width + (size_t)x) * CHANNELS +
						i % CHANNELS];
			if (index < 0 || tap > largest) {
				largest = tap;
				index = (int32_t)k;
			}
		}
		assert_int_equal(args[2].i32[i], index);
		assert_true(isnan(largest) ? isnan(args[1].f32[i]) : args[1].f32[i] == largest);
	}
}

static void test_argmax(void **state)
{
	for (int i = 0; i < 60;) {
		uint32_t height = 1 + test_draw(6), width = 1 + test_draw(6), pad[4], kernel[2];
		for (int j = 0; j < 4; j++)
			pad[j] = test_draw(4);
		for (int j = 0; j < 2; j++)
			kernel[j] = 1 + test_draw(4);
		if (height + pad[0] + pad[2] < kernel[0] || width + pad[1] + pad[3] < kernel[1] ||
			6 * (height + 6) * (width + 6) / (kernel[0] * kernel[1]) > MOST)
			continue;
		check_argmax(height, width, pad, kernel, i++ % 2);
	}
}

/* Some of them wholly in the padding. */
static void test_averages(void **state)
{
	check_some(true, 2, 120);
	struct layer l = { ET_XNN_QINT8, 4, 4, 1, { 3, 3, 3, 3 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, .is_average = true };
	struct et_model *model;
	struct et_model_info info;
	struct et_diag diag = { 0 };
	size_t n_bytes;
	uint8_t *bytes = make(&l, &n_bytes);
	test_refused(test_compile(bytes, n_bytes, 2, &model, &info, &diag), ET_E_NOT_SUPPORTED, &diag,
		"window of 3 × 3 with a padding of as much");
	free(bytes);
}

/* Poolings that XNNPACK takes are left to it; those that neither takes are refused. */
static void test_others(void **state)
{
	struct layer l = { ET_XNN_FP32, 4, 4, 1, { 1, 1, 1, 1 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, false, false };
	struct test_session s = { 0 };
	struct et_diag diag = { 0 };
	size_t n_bytes;
	uint8_t *bytes = make(&l, &n_bytes);
	test_ok(test_session_begin(&s, bytes, n_bytes, 2, 1, &diag), &diag);
	assert_null(et_direct_model(s.model)->model->partitions.partitions[0].override);
	test_session_end(&s);
	free(bytes);

	/* of a constant */
	static const float image[4] = { 1, 2, 3, 4 };
	struct make_xnn mk;
	struct et_model *model;
	struct et_model_info info;
	mx_init(&mk);
	uint32_t in = mx_value(&mk,
		&(struct mx_value){
			.type = ET_XNN_FP32, MX_DIMS(1, 2, 2, 1), .constant = mx_constant(&mk, image, sizeof(image)) });
	uint32_t out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 1, 1, 1), .output = 1 });
	mx_node(&mk, MX_MAX_POOL,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { out },
			.min = -INFINITY,
			.max = INFINITY,
			.numbers = { 0, 0, 0, 0, 1, 1, 2, 2, 1, 1 } });
	bytes = mx_finish(&mk, &n_bytes);
	test_refused(test_compile(bytes, n_bytes, 1, &model, &info, &diag), ET_E_NOT_SUPPORTED, &diag,
		"not supported together");
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_argmax, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_windows, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_averages, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_others, test_set_up, test_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
