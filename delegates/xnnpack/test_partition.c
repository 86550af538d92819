/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads with overrides: boundary tensors between partitions, on one thread and several, with shapes that change,
 * beside other instances in the same memory, and without memory. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/ukernels/depthwise.h"
#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/partition.h"
#include "delegates/xnnpack/support/test_args.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { CHANNELS = 16, MOST = 5, N_ARGS = 3 };

static float tap(uint32_t i, uint32_t kernel)
{
	return (float)((i * 7 + kernel) % 11) / 8 - 0.5f;
}

static float bias_at(uint32_t c)
{
	return (float)c / 4 - 2;
}

static uint32_t image(struct make_xnn *mk, uint32_t size, uint32_t input, uint32_t output)
{
	return mx_value(mk,
		&(struct mx_value){
			.type = ET_XNN_FP32, MX_DIMS(1, size, size, CHANNELS), .input = input, .output = output });
}

static void convolve(struct make_xnn *mk, uint32_t kernel, uint32_t in, uint32_t out, float min, float max)
{
	float taps[25 * CHANNELS], bias[CHANNELS];
	uint32_t n = kernel * kernel * CHANNELS, pad = kernel / 2;
	for (uint32_t i = 0; i < n; i++)
		taps[i] = tap(i, kernel);
	for (uint32_t i = 0; i < CHANNELS; i++)
		bias[i] = bias_at(i);
	uint32_t filter = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32,
					       MX_DIMS(1, kernel, kernel, CHANNELS),
					       .constant = mx_constant(mk, taps, n * sizeof(float)) });
	uint32_t biases = mx_value(mk,
		&(struct mx_value){
			.type = ET_XNN_FP32, MX_DIMS(CHANNELS), .constant = mx_constant(mk, bias, sizeof(bias)) });
	mx_node(mk, MX_DEPTHWISE,
		&(struct et_xnn_node){ .inputs = { in, filter, kernel == 3 ? biases : ET_XNN_NONE },
			.outputs = { out },
			.min = min,
			.max = max,
			.numbers = { pad, pad, pad, pad, kernel, kernel, 1, 1, 1, 1, 1, 1, CHANNELS } });
}

static uint32_t row_of(struct make_xnn *mk, uint32_t size, uint32_t input, uint32_t output)
{
	return mx_value(mk,
		&(struct mx_value){
			.type = ET_XNN_FP32, MX_DIMS(1, size, size * CHANNELS), .input = input, .output = output });
}

static void see(struct make_xnn *mk, uint32_t in, uint32_t out, uint32_t n_dims, uint32_t width)
{
	mx_node(mk, MX_RESHAPE,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { out },
			.n_list = { n_dims },
			.list = { { 1, 0, n_dims == 4 ? width : width * CHANNELS, CHANNELS } } });
}

/* x -> 3 x 3, limited -> a; the sigmoid of that -> b, an output; b -> 5 x 5 -> c; c + a, an output. So a is a
 * boundary tensor over three partitions, and a later partition reads an output. @is_flat: x and the last output have
 * pixels and channels in one dimension. */
static uint8_t *make(uint32_t size, bool is_flat, size_t *ret_n_bytes)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t flat[] = { is_flat ? row_of(&mk, size, 1, 0) : 0, is_flat ? row_of(&mk, size, 0, 3) : 0 };
	uint32_t x = image(&mk, size, is_flat ? 0 : 1, 0), a = image(&mk, size, 0, 0), b = image(&mk, size, 0, 2),
		 c = image(&mk, size, 0, 0), out = image(&mk, size, 0, is_flat ? 0 : 3);
	if (is_flat)
		see(&mk, flat[0], x, 4, size);
	convolve(&mk, 3, x, a, -1, 3);
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { a }, .outputs = { b } });
	convolve(&mk, 5, b, c, 0, 0);
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { c, a }, .outputs = { out } });
	if (is_flat)
		see(&mk, out, flat[1], 3, size);
	return mx_finish(&mk, ret_n_bytes);
}

static float convolved(const float *in, uint32_t height, uint32_t width, uint32_t y, uint32_t x, uint32_t c,
	uint32_t kernel)
{
	float sum = kernel == 3 ? bias_at(c) : 0;
	for (uint32_t k = 0; k < kernel * kernel; k++) {
		uint32_t yy = y + k / kernel - kernel / 2, xx = x + k % kernel - kernel / 2;
		if (yy < height && xx < width)
			sum += in[(yy * width + xx) * CHANNELS + c] * tap(k * CHANNELS + c, kernel);
	}
	return sum;
}

struct session {
	struct test_session on;
	uint8_t *bytes;
	bool is_flat;
	struct arg args[N_ARGS];
};

static enum et_status begin(struct session *s, uint32_t size, uint32_t n_threads, struct et_diag *diag)
{
	size_t n_bytes;
	s->bytes = make(size, s->is_flat, &n_bytes);
	return test_session_begin(&s->on, s->bytes, n_bytes, N_ARGS, n_threads, diag);
}

static void end(struct session *s)
{
	test_session_end(&s->on);
	free(s->bytes);
}

static void fill(struct session *s, int32_t height, int32_t width, float first)
{
	for (int i = 0; i < N_ARGS; i++)
		ARG(&s->args[i], ET_FLOAT32, i ? ET_DYNAMIC_BOUND : ET_STATIC, 1, i ? MOST : height, i ? MOST : width,
			CHANNELS);
	for (int i = 0; i < N_ARGS && s->is_flat; i += 2)
		ARG(&s->args[i], ET_FLOAT32, i ? ET_DYNAMIC_BOUND : ET_STATIC, 1, i ? MOST : height,
			(i ? MOST : width) * CHANNELS);
	for (int i = 0; i < height * width * CHANNELS; i++)
		s->args[0].f32[i] = sinf(first + (float)i);
}

static void check(const struct session *s, uint32_t height, uint32_t width)
{
	float a[MOST * MOST * CHANNELS];
	const float *b = s->args[1].f32;
	for (uint32_t i = 0; i < height * width * CHANNELS; i++) {
		uint32_t y = i / CHANNELS / width, x = i / CHANNELS % width;
		a[i] = convolved(s->args[0].f32, height, width, y, x, i % CHANNELS, 3);
		a[i] = fminf(fmaxf(a[i], -1), 3);
		test_near(b[i], 1 / (1 + expf(-a[i])), 1e-5f);
	}
	for (uint32_t i = 0; i < height * width * CHANNELS; i++) {
		uint32_t y = i / CHANNELS / width, x = i / CHANNELS % width;
		test_near(s->args[2].f32[i], a[i] + convolved(b, height, width, y, x, i % CHANNELS, 5), 1e-4f);
	}
}

static enum et_status run(struct session *s, struct et_diag *diag)
{
	struct et_evalue *values[] = { &s->args[0].value, &s->args[1].value, &s->args[2].value };
	return test_ops->enqueue(s->on.instance, values, NULL, diag);
}

static void run_right(struct session *s, int32_t height, int32_t width, float first)
{
	struct et_diag diag = { 0 };
	fill(s, height, width, first);
	test_ok(run(s, &diag), &diag);
	check(s, (uint32_t)height, (uint32_t)width);
}

static int set_up(void **state)
{
	et_xnn_override_set_least_work(0);
	return test_set_up(state);
}

/* Shapes shrink and grow again, on one thread and on three; and with XNNPACK alone, to check this test. */
static void test_numbers(void **state)
{
	static const int32_t shapes[][2] = { { 5, 5 }, { 5, 5 }, { 3, 4 }, { 1, 1 }, { 1, 5 }, { 4, 3 }, { 5, 5 } };
	for (uint32_t round = 0; round < 3; round++) {
		struct et_diag diag = { 0 };
		struct session s = { 0 };
		bool is_cut = round < 2 && et_depthwise();
		et_xnn_override_set_least_work(round < 2 ? 0 : UINT64_MAX);
		test_ok(begin(&s, MOST, round == 1 ? 3 : 1, &diag), &diag);
		const struct et_xnn_partitions *partitions = &et_direct_model(s.on.model)->model->partitions;
		assert_int_equal(partitions->n_partitions, is_cut ? 4 : 1);
		assert_int_equal(partitions->n_boundaries, is_cut ? 2 : 0);
		for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
			run_right(&s, shapes[i][0], shapes[i][1], (float)i);
		end(&s);
	}
}

/* Arguments that nodes see in another shape. */
static void test_views(void **state)
{
	static const int32_t heights[] = { 5, 2, 5, 1, 4 };
	for (uint32_t round = 0; round < 2; round++) {
		struct et_diag diag = { 0 };
		struct session s = { .is_flat = true };
		et_xnn_override_set_least_work(round ? UINT64_MAX : 0);
		test_ok(begin(&s, MOST, 1, &diag), &diag);
		const struct et_xnn_model *model = et_direct_model(s.on.model)->model;
		assert_true(model->payload.nodes[0].is_view);
		assert_true(model->payload.nodes[5].is_view);
		assert_int_equal(model->partitions.n_partitions, !round && et_depthwise() ? 4 : 1);
		for (size_t i = 0; i < sizeof(heights) / sizeof(*heights); i++)
			run_right(&s, heights[i], MOST, (float)i);
		end(&s);
	}
}

static bool may_not(size_t n_bytes)
{
	return false;
}

/* A run with the shapes of the run before takes no memory; nor does the first run of a warm instance. */
static void test_takes_nothing(void **state)
{
	struct et_diag diag = { 0 };
	struct session s = { 0 };
	test_ok(begin(&s, MOST, 1, &diag), &diag);
	(void)test_ops->instance_warm(s.on.instance, NULL);
	size_t n_calls = test_counting.n_calls;
	et_xnn_memory_set_gate(may_not);
	for (int i = 0; i < 3; i++)
		run_right(&s, MOST, MOST, (float)i);
	et_xnn_memory_set_gate(NULL);
	assert_int_equal(test_counting.n_calls, n_calls);
	end(&s);
}

/* Two instances on one worker: the second needs more memory than the first has taken, so the memory moves. */
static void test_memory_moves(void **state)
{
	struct et_diag diag = { 0 };
	struct session small = { 0 }, large = { 0 };
	test_ok(begin(&small, 2, 1, &diag), &diag);
	run_right(&small, 2, 2, 0);
	test_ok(begin(&large, MOST, 1, &diag), &diag);
	for (int i = 0; i < 3; i++) {
		run_right(&large, MOST, MOST, (float)i);
		run_right(&small, 2, 2, (float)i);
	}
	end(&large);
	run_right(&small, 1, 2, 5);
	end(&small);
}

/* The nth allocation fails, for each n: there is a message, or the right results. */
static void test_no_memory(void **state)
{
	bool is_through = false;
	for (size_t n = 1; !is_through; n++) {
		struct et_diag diag = { 0 };
		struct session s = { 0 };
		test_counting.n_calls = 0;
		test_counting.fail_at = n;
		enum et_status status = begin(&s, MOST, 1, &diag);
		fill(&s, MOST, MOST, 0);
		if (status == ET_OK)
			status = run(&s, &diag);
		is_through = test_counting.n_calls < n;
		test_counting.fail_at = 0;
		if (status != ET_OK)
			assert_true(diag.text[0]);
		if (s.on.instance) /* the memory is back, and nothing was left half done */
			run_right(&s, MOST, MOST, 1);
		if (is_through)
			assert_int_equal(status, ET_OK);
		end(&s);
	}
}

static char told[400];

static void told_begin(void *self, uint32_t instruction)
{
}

static void told_part(void *self, const char *name, uint64_t ns)
{
	snprintf(told + strlen(told), sizeof(told) - strlen(told), "%.5s ", name);
}

static void test_profile(void **state)
{
	static const struct et_trace trace = { NULL, told_begin, told_begin, told_part };
	struct et_diag diag = { 0 };
	struct session s = { 0 };
	test_ok(begin(&s, MOST, 1, &diag), &diag);
	fill(&s, MOST, MOST, 0);
	struct et_evalue *values[] = { &s.args[0].value, &s.args[1].value, &s.args[2].value };
	test_ok(test_ops->profile(s.on.instance, values, &trace, 1, &diag), &diag);
	check(&s, MOST, MOST);
	if (et_depthwise())
		assert_string_equal(told, "overr Unary overr Binar ");
	run_right(&s, MOST, MOST, 1);
	end(&s);
}

/* Which depthwise convolutions are left to XNNPACK. A clamp behind one is merged into it, so it is no partition of
 * its own. */
static void test_left_alone(void **state)
{
	enum { LIMITED, SMALL, LARGE, N_CASES };
	static const uint32_t n_partitions[N_CASES] = { [LIMITED] = 2, [SMALL] = 1, [LARGE] = 3 };
	for (int which = 0; which < N_CASES; which++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		struct et_model *model;
		struct et_model_info info;
		size_t n_bytes;
		mx_init(&mk);
		uint32_t x = image(&mk, 3, 1, 0), a = image(&mk, 3, 0, 0), b = image(&mk, 3, 0, 0),
			 out = image(&mk, 3, 0, 2);
		mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { x }, .outputs = { a } });
		convolve(&mk, 3, a, b, 0, 0);
		mx_node(&mk, which == LIMITED ? MX_CLAMP : MX_SIGMOID,
			&(struct et_xnn_node){ .inputs = { b },
				.outputs = { out },
				.min = which == LIMITED ? -1 : 0,
				.max = which == LIMITED ? 1 : 0 });
		et_xnn_override_set_least_work(which == SMALL ? 3 * 3 * 9 * CHANNELS + 1 : 0);
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		test_ok(test_compile(bytes, n_bytes, 2, &model, &info, &diag), &diag);
		assert_int_equal(et_direct_model(model)->model->partitions.n_partitions,
			et_depthwise() ? n_partitions[which] : 1);
		test_ops->model_free(model);
		free(bytes);
	}
}

/* x -> 3 x 3 -> a, y -> 5 x 5 -> b, the sigmoid of a -> c; c + b, limited -> d; d -> 3 x 3, an output. */
static uint8_t *make_over(size_t *ret_n_bytes)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t x = image(&mk, MOST, 1, 0), y = image(&mk, MOST, 2, 0), a = image(&mk, MOST, 0, 0),
		 b = image(&mk, MOST, 0, 0), c = image(&mk, MOST, 0, 0), d = image(&mk, MOST, 0, 0),
		 out = image(&mk, MOST, 0, 3);
	convolve(&mk, 3, x, a, 0, 0);
	convolve(&mk, 5, y, b, 0, 0);
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { a }, .outputs = { c } });
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { c, b }, .outputs = { d }, .min = -0.5f, .max = 1 });
	convolve(&mk, 3, d, out, 0, 0);
	return mx_finish(&mk, ret_n_bytes);
}

/* The offsets of the four boundary tensors of make_over, for images of @side_x and @side_y pixels. */
static void check_places(const struct et_xnn_partitions *partitions, uint32_t side_x, uint32_t side_y)
{
	enum { N_VALUES = 20 };
	uint32_t most = side_x > side_y ? side_x : side_y, order[4];
	struct et_xnn_shape shapes[N_VALUES] = { 0 };
	size_t offsets[4], n_bytes;
	uint32_t sides[4] = { side_x, side_y, side_x, most };
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(partitions->boundaries[i].value < N_VALUES);
		shapes[partitions->boundaries[i].value] = (struct et_xnn_shape){ 4,
			{ 1, sides[i], sides[i], CHANNELS } };
	}
	assert_true(et_xnn_partitions_plan(partitions, shapes, offsets, order, &n_bytes));
	assert_int_equal(offsets[2], offsets[0]);
	assert_int_equal(offsets[3] == offsets[0], side_x == most);
}

/* The clamp, c + b, a and c share one place, as large as one of them; unless x is one pixel and y more: then each
 * number of c is read again after the first sum was written, so they may not. */
static void test_over(void **state)
{
	static const int32_t sizes[][2] = { { 5, 5 }, { 1, 5 }, { 3, 3 }, { 5, 1 }, { 1, 1 }, { 5, 5 } };
	for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++) {
		const int32_t *size = sizes[i / 2];
		int32_t most = size[0] > size[1] ? size[0] : size[1];
		struct arg args[2][3];
		for (uint32_t whole = 0; whole < 2; whole++) {
			struct et_diag diag = { 0 };
			struct test_session on;
			size_t n_bytes;
			uint8_t *bytes = make_over(&n_bytes);
			et_xnn_override_set_least_work(whole ? UINT64_MAX : 0);
			test_ok(test_session_begin(&on, bytes, n_bytes, 3, 1 + 2 * (i % 2), &diag), &diag);
			const struct et_xnn_partitions *partitions = &et_direct_model(on.model)->model->partitions;
			if (!whole && et_depthwise()) {
				assert_int_equal(partitions->n_partitions, 4);
				assert_int_equal(partitions->n_boundaries, 4);
				check_places(partitions, (uint32_t)size[0], (uint32_t)size[1]);
			}
			for (uint32_t j = 0; j < 3; j++) {
				int32_t side = j < 2 ? size[j] : most;
				ARG(&args[whole][j], ET_FLOAT32, ET_STATIC, 1, side, side, CHANNELS);
				for (int32_t k = 0; k < side * side * CHANNELS; k++)
					args[whole][j].f32[k] = sinf((float)(k + (int32_t)j));
			}
			struct et_evalue *values[] = { &args[whole][0].value, &args[whole][1].value,
				&args[whole][2].value };
			test_ok(test_ops->enqueue(on.instance, values, NULL, &diag), &diag);
			test_session_end(&on);
			free(bytes);
		}
		for (int32_t k = 0; k < most * most * CHANNELS; k++)
			test_near(args[0][2].f32[k], args[1][2].f32[k], 1e-5f);
	}
}

struct filter {
	uint32_t height, width, kernel_h, kernel_w, stride, dilation;
	bool is_override;
};

/* One depthwise convolution, by an override or by XNNPACK as @least_work says. */
static void run_filter(const struct filter *f, uint64_t least_work, uint32_t n_threads, struct arg *out)
{
	enum { MOST_TAPS = 60 };
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	struct test_session on;
	struct arg in;
	float taps[MOST_TAPS * CHANNELS];
	uint32_t pad_h = (f->kernel_h - 1) * f->dilation / 2, pad_w = (f->kernel_w - 1) * f->dilation / 2,
		 n = f->kernel_h * f->kernel_w * CHANNELS, to_height = (f->height - 1) / f->stride + 1,
		 to_width = (f->width - 1) / f->stride + 1;
	size_t n_bytes;
	assert_true(n <= MOST_TAPS * CHANNELS);
	for (uint32_t i = 0; i < n; i++)
		taps[i] = tap(i, 3);
	mx_init(&mk);
	uint32_t x = mx_value(&mk,
			 &(struct mx_value){
				 .type = ET_XNN_FP32, MX_DIMS(1, f->height, f->width, CHANNELS), .input = 1 }),
		 filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32,
						MX_DIMS(1, f->kernel_h, f->kernel_w, CHANNELS),
						.constant = mx_constant(&mk, taps, n * sizeof(float)) }),
		 y = mx_value(&mk,
			 &(struct mx_value){
				 .type = ET_XNN_FP32, MX_DIMS(1, to_height, to_width, CHANNELS), .output = 2 });
	mx_node(&mk, MX_DEPTHWISE,
		&(struct et_xnn_node){ .inputs = { x, filter, ET_XNN_NONE },
			.outputs = { y },
			.min = -INFINITY,
			.max = INFINITY,
			.numbers = { pad_h, pad_w, pad_h, pad_w, f->kernel_h, f->kernel_w, f->stride, f->stride,
				f->dilation, f->dilation, 1, 1, CHANNELS } });
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	et_xnn_override_set_least_work(least_work);
	test_ok(test_session_begin(&on, bytes, n_bytes, 2, n_threads, &diag), &diag);
	const struct et_xnn_partitions *partitions = &et_direct_model(on.model)->model->partitions;
	assert_int_equal(partitions->n_partitions, 1);
	assert_true(!partitions->partitions[0].override == !(f->is_override && !least_work && et_depthwise()));
	ARG(&in, ET_FLOAT32, ET_STATIC, 1, f->height, f->width, CHANNELS);
	ARG(out, ET_FLOAT32, ET_STATIC, 1, to_height, to_width, CHANNELS);
	for (uint32_t i = 0; i < f->height * f->width * CHANNELS; i++)
		in.f32[i] = sinf((float)i);
	struct et_evalue *values[] = { &in.value, &out->value };
	test_ok(test_ops->enqueue(on.instance, values, NULL, &diag), &diag);
	test_session_end(&on);
	free(bytes);
}

/* An override does filters that XNNPACK has no kernel for, and no others: the results are the same. */
static void test_filters(void **state)
{
	static const struct filter filters[] = {
		{ 5, 6, 7, 7, 1, 1, true },
		{ 5, 6, 7, 7, 2, 1, true },
		{ 14, 1, 31, 1, 1, 1, true },
		{ 14, 1, 11, 1, 2, 2, true },
		{ 1, 15, 1, 31, 1, 1, true },
		{ 1, 15, 1, 13, 1, 1, true },
		{ 5, 6, 5, 3, 1, 2, true },
		{ 5, 6, 3, 5, 2, 1, true },
		{ 5, 6, 3, 3, 1, 2, false },
		{ 5, 6, 3, 3, 3, 1, false },
		{ 1, 15, 1, 9, 1, 1, false },
	};
	for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
		const struct filter *f = &filters[i];
		struct arg right, out;
		run_filter(f, UINT64_MAX, 1, &right);
		for (uint32_t n_threads = 1; n_threads <= 3; n_threads += 2) {
			run_filter(f, 0, n_threads, &out);
			uint32_t n = ((f->height - 1) / f->stride + 1) * ((f->width - 1) / f->stride + 1);
			for (uint32_t k = 0; k < n * CHANNELS; k++)
				test_near(out.f32[k], right.f32[k], 1e-5f);
		}
	}
}

/* Boundary tensor @i is written over the one before it, which has the same size; or is not; or would be, but has 1
 * element more. */
static void write_over(struct et_xnn_boundary *boundaries, struct et_xnn_shape *shapes, uint32_t i, uint32_t how)
{
	struct et_xnn_boundary *over = &boundaries[i - 1], *boundary = &boundaries[i];
	if (how == 0 || boundary->first < over->first)
		return;
	boundary->written_over = i - 1;
	over->overwritten_by = i;
	over->last = boundary->first;
	shapes[i].dims[0] = shapes[i - 1].dims[0] + (how == 1);
}

/* The first boundary tensor of a chain that are written over one another and ends with @i. */
static uint32_t first_of(const struct et_xnn_boundary *boundaries, const struct et_xnn_shape *shapes, uint32_t i)
{
	while (boundaries[i].written_over != ET_XNN_NONE &&
		shapes[boundaries[i].written_over].dims[0] == shapes[i].dims[0])
		i = boundaries[i].written_over;
	return i;
}

/* Boundary tensors that are needed at the same time share no byte, unless one is written over another; others do
 * share. */
static void test_plan(void **state)
{
	enum { N = 60 };
	struct et_xnn_boundary boundaries[N];
	struct et_xnn_shape shapes[N];
	size_t offsets[N], n_bytes, all = 0;
	uint32_t order[N], seed = 7;
	struct et_xnn_partitions partitions = { .boundaries = boundaries, .n_boundaries = N };
	for (int round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < N; i++) {
			seed = seed * 1664525 + 1013904223;
			uint32_t first = seed >> 8 & 31, n = seed >> 16 & 7;
			boundaries[i] = (struct et_xnn_boundary){ i, ET_XNN_NONE, ET_XNN_NONE, first, first + 1 + n,
				.n_bytes = sizeof(float) };
			shapes[i] = (struct et_xnn_shape){ 1, { 1 + (seed >> 20) } };
			all += shapes[i].dims[0] * sizeof(float);
		}
		for (uint32_t i = 1; i < N && round % 2; i++)
			write_over(boundaries, shapes, i, (seed >> i % 24) & 3);
		assert_true(et_xnn_partitions_plan(&partitions, shapes, offsets, order, &n_bytes));
		for (uint32_t i = 0; i < N; i++) {
			size_t end_i = offsets[i] + shapes[i].dims[0] * sizeof(float);
			assert_int_equal(offsets[i] % ET_XNN_MEMORY_ALIGNMENT, 0);
			assert_true(end_i <= n_bytes);
			for (uint32_t j = 0; j < i; j++) {
				size_t end_j = offsets[j] + shapes[j].dims[0] * sizeof(float);
				bool meet = boundaries[i].first <= boundaries[j].last &&
					    boundaries[j].first <= boundaries[i].last;
				bool is_one = first_of(boundaries, shapes, i) == first_of(boundaries, shapes, j);
				assert_true(!is_one || offsets[i] == offsets[j]);
				assert_true(is_one || !meet || end_i <= offsets[j] || end_j <= offsets[i]);
			}
		}
		assert_true(n_bytes < all / 2);
		all = 0;
	}
	shapes[3] = (struct et_xnn_shape){ 2, { SIZE_MAX / 2, 3 } };
	assert_false(et_xnn_partitions_plan(&partitions, shapes, offsets, order, &n_bytes));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, test_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(numbers),
		TEST(views),
		TEST(takes_nothing),
		TEST(memory_moves),
		TEST(no_memory),
		TEST(profile),
		TEST(left_alone),
		TEST(over),
		TEST(filters),
		cmocka_unit_test(test_plan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
