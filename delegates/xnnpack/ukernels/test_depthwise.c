/* SPDX-License-Identifier: BSD-3-Clause */
/* Each build of depthwise.c that this processor runs against a plain loop: fp32 in doubles, fp16 to the bit. */
#include "delegates/xnnpack/ukernels/depthwise.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

__extension__ typedef _Float16 fp16;

/* The fp32 builds, and the fp16 build behind them. */
static const struct et_depthwise_build *build_at(size_t i)
{
	return et_depthwise_at(i) || (i && !et_depthwise_at(i - 1)) ? et_depthwise_at(i) : et_depthwise_fp16();
}

static float number_at(const struct et_depthwise_build *build, const void *numbers, size_t i)
{
	return build->are_fp16 ? (float)((const fp16 *)numbers)[i] : ((const float *)numbers)[i];
}

/* @n floats in the build's type. The caller frees it. */
static void *numbers_of(const struct et_depthwise_build *build, const float *floats, size_t n)
{
	float *made = malloc(n * sizeof(*made));
	assert_non_null(made);
	for (size_t i = 0; i < n && build->are_fp16; i++)
		((fp16 *)made)[i] = (fp16)floats[i];
	if (!build->are_fp16)
		memcpy(made, floats, n * sizeof(*made));
	return made;
}

/* Rounded to fp16 after each tap. Few channels and large filters take the taps row by row. */
static float plain_of_fp16(const struct et_depthwise *job, size_t image, size_t y, size_t x, size_t c)
{
	size_t height = job->kernel_height, width = job->kernel_width;
	bool is_across = job->channels >= 16 && et_depthwise_is_usual(job) && width <= 5;
	fp16 sums[2] = { job->bias ? (fp16)job->bias[c] : 0 };
	for (size_t tap = 0; tap < height * width; tap++) {
		size_t ky = is_across ? tap % height : tap / width, kx = is_across ? tap / height : tap % width;
		ptrdiff_t row = (ptrdiff_t)(y * job->stride_height + ky * job->dilation_height) - job->top,
			  column = (ptrdiff_t)(x * job->stride_width + kx * job->dilation_width) - job->left;
		if (row < 0 || row >= (ptrdiff_t)job->height || column < 0 || column >= (ptrdiff_t)job->width)
			continue;
		size_t at = (image * job->height + (size_t)row) * job->width + (size_t)column;
		fp16 *sum = &sums[is_across && width == 5 ? tap % 2 : 0];
		*sum = (fp16)fmaf((float)((const fp16 *)job->in)[at * job->channels + c],
			(float)(fp16)job->filter[(ky * width + kx) * job->channels + c], (float)*sum);
	}
	float sum = (float)(fp16)((float)sums[0] + (float)sums[1]);
	sum = job->min > sum ? job->min : sum;
	return (float)(fp16)(job->max < sum ? job->max : sum);
}

static double plain(const struct et_depthwise *job, size_t image, size_t y, size_t x, size_t c)
{
	double sum = job->bias ? (double)job->bias[c] : 0;
	for (size_t ky = 0; ky < job->kernel_height; ky++)
		for (size_t kx = 0; kx < job->kernel_width; kx++) {
			ptrdiff_t row = (ptrdiff_t)(y * job->stride_height + ky * job->dilation_height) - job->top,
				  column = (ptrdiff_t)(x * job->stride_width + kx * job->dilation_width) - job->left;
			if (row < 0 || row >= (ptrdiff_t)job->height || column < 0 || column >= (ptrdiff_t)job->width)
				continue;
			size_t at = (image * job->height + (size_t)row) * job->width + (size_t)column;
			sum += (double)((const float *)job->in)[at * job->channels + c] *
			       (double)job->filter[(ky * job->kernel_width + kx) * job->channels + c];
		}
	return fmin(fmax(sum, (double)job->min), (double)job->max);
}

static void check(const struct et_depthwise_build *build, const struct et_depthwise *job, size_t n_images)
{
	size_t n_rows = n_images * job->out_height, n_row = job->out_width * job->channels;
	const size_t height = job->out_height, width = job->out_width;
	memset(job->out, 0xff, n_rows * n_row * sizeof(float));
	size_t begin = test_draw((uint32_t)n_rows + 1), end = begin + test_draw((uint32_t)(n_rows - begin) + 1);
	build->run(job, begin, end);
	for (size_t i = 0; i < n_rows * n_row; i++) {
		size_t row = i / n_row;
		if (row < begin || row >= end) {
			assert_true(isnan(number_at(build, job->out, i))); /* not a place that it may write */
			continue;
		}
		double is = (double)number_at(build, job->out, i),
		       right = build->are_fp16 ? (double)plain_of_fp16(job, row / height, row % height,
							 i / job->channels % width, i % job->channels)
					       : plain(job, row / height, row % height, i / job->channels % width,
							 i % job->channels);
		if (!(fabs(is - right) <= (build->are_fp16 ? 0 : 4e-6)))
			fail_msg("%s: %zu x %zu of %zu channels, filter %zu x %zu, strides %zu, %zu, "
				 "dilations %zu, %zu, "
				 "padding %td, %td: element %zu is %.9g, not %.9g",
				build->name, job->height, job->width, job->channels, job->kernel_height,
				job->kernel_width, job->stride_height, job->stride_width, job->dilation_height,
				job->dilation_width, job->top, job->left, i, is, right);
	}
	build->run(job, 0, begin);
	build->run(job, end, n_rows);
	for (size_t i = 0; i < n_rows * n_row; i++)
		assert_false(isnan(number_at(build, job->out, i))); /* nothing is left out */
}

/* @shape: the kernel, strides and dilations; channels, image sizes and padding are set here. */
static void try_any(const struct et_depthwise *shape, size_t channels, size_t height, size_t width, const size_t pad[4])
{
	size_t n_images = 1 + test_draw(2), n_taps = shape->kernel_height * shape->kernel_width;
	struct et_depthwise job = *shape;
	job.channels = channels;
	job.height = height;
	job.width = width;
	job.out_height = (height + pad[0] + pad[2] - (job.kernel_height - 1) * job.dilation_height - 1) /
				 job.stride_height +
			 1;
	job.out_width = (width + pad[1] + pad[3] - (job.kernel_width - 1) * job.dilation_width - 1) / job.stride_width +
			1;
	job.top = (ptrdiff_t)pad[0];
	job.left = (ptrdiff_t)pad[1];
	job.min = test_draw(3) ? -INFINITY : -0.5f;
	job.max = test_draw(3) ? INFINITY : 0.75f;
	float *in = test_drawn_floats(n_images * height * width * channels),
	      *filter = test_drawn_floats(n_taps * channels), *bias = test_draw(4) ? test_drawn_floats(channels) : NULL;
	job.filter = filter;
	job.bias = bias;
	job.out = test_drawn_floats(n_images * job.out_height * job.out_width * channels);
	for (size_t i = 0; build_at(i); i++) {
		void *numbers = numbers_of(build_at(i), in, n_images * height * width * channels);
		job.in = numbers;
		check(build_at(i), &job, n_images);
		free(numbers);
	}
	free(in);
	free(filter);
	free(bias);
	free(job.out);
}

static void try(size_t channels, size_t height, size_t width, size_t kernel, size_t stride, const size_t pad[4])
{
	struct et_depthwise shape = { .kernel_height = kernel,
		.kernel_width = kernel,
		.stride_height = stride,
		.stride_width = stride,
		.dilation_height = 1,
		.dilation_width = 1 };
	assert_true(et_depthwise_is_usual(&shape));
	try_any(&shape, channels, height, width, pad);
}

/* Random padding, at least as much as an image of that size needs. */
static void draw_padding(size_t pad[4], size_t height, size_t width, size_t reach_height, size_t reach_width)
{
	for (size_t i = 0; i < 4; i++) {
		size_t size = i % 2 ? width : height, reach = i % 2 ? reach_width : reach_height;
		pad[i] = test_draw((uint32_t)reach + 2);
		while (i >= 2 && size + pad[i - 2] + pad[i] < reach)
			pad[i]++;
	}
}

/* Every number of channels, images from 1 × 1 on, padding up to more than the filter. */
static void test_sizes(void **state)
{
	for (size_t channels = 1; channels <= 70; channels++)
		for (size_t kernel = 3; kernel <= 7; kernel += 2)
			for (size_t stride = 1; stride <= (kernel == 7 ? 1 : 2); stride++) {
				size_t height = 1 + test_draw(20), width = 1 + test_draw(30), pad[4];
				draw_padding(pad, height, width, kernel, kernel);
				try(channels, height, width, kernel, stride, pad);
			}
}

/* Filters of any size, stride and dilation, different down and across. */
static void test_any_filter(void **state)
{
	for (size_t channels = 1; channels <= 70; channels++)
		for (int i = 0; i < 3; i++) {
			struct et_depthwise shape = { .kernel_height = 1 + test_draw(9),
				.kernel_width = 1 + test_draw(9),
				.stride_height = 1 + test_draw(3),
				.stride_width = 1 + test_draw(3),
				.dilation_height = 1 + test_draw(3),
				.dilation_width = 1 + test_draw(3) };
			size_t height = 1 + test_draw(20), width = 1 + test_draw(60), pad[4];
			draw_padding(pad, height, width, (shape.kernel_height - 1) * shape.dilation_height + 1,
				(shape.kernel_width - 1) * shape.dilation_width + 1);
			try_any(&shape, channels, height, width, pad);
		}
}

/* As networks have them: wide enough for tiles without a border, and several strips high; larger than the second
 * cache, of few channels and of many. */
static void test_images(void **state)
{
	static const size_t images[][4] = { { 96, 40, 113, 3 }, { 240, 28, 28, 5 }, { 520, 14, 15, 5 },
		{ 1152, 7, 7, 3 }, { 96, 30, 29, 7 }, { 70, 62, 63, 3 }, { 520, 23, 24, 3 } };
	for (size_t i = 0; i < sizeof(images) / sizeof(*images); i++)
		for (size_t stride = 1; stride <= (images[i][3] == 7 ? 1 : 2); stride++) {
			size_t pad = images[i][3] / 2;
			try(images[i][0], images[i][1], images[i][2], images[i][3], stride,
				(size_t[]){ pad, pad, pad, pad });
		}
}

static void test_nan_stays(void **state)
{
	float in[9 * 16], filter[9 * 16];
	for (size_t i = 0; i < 9 * 16; i++)
		in[i] = filter[i] = 1;
	in[4 * 16 + 3] = NAN;
	struct et_depthwise job = { .channels = 16,
		.height = 3,
		.width = 3,
		.out_height = 3,
		.out_width = 3,
		.kernel_height = 3,
		.kernel_width = 3,
		.stride_height = 1,
		.stride_width = 1,
		.dilation_height = 1,
		.dilation_width = 1,
		.top = 1,
		.left = 1,
		.min = 0,
		.max = 6,
		.filter = filter };
	for (size_t i = 0; build_at(i); i++) {
		const struct et_depthwise_build *build = build_at(i);
		float out[9 * 16];
		void *numbers = numbers_of(build, in, 9 * 16);
		job.in = numbers;
		job.out = out;
		build->run(&job, 0, 3);
		free(numbers);
		for (size_t j = 0; j < 9 * 16; j++) {
			size_t pixel = j / 16, n_taps = (pixel % 2 ? 6 : pixel == 4 ? 9 : 4);
			if (j % 16 == 3)
				assert_true(build->are_fp16 ? number_at(build, out, j) == 0
							    : isnan(number_at(build, out, j)));
			else
				assert_true(number_at(build, out, j) == (float)(n_taps > 6 ? 6 : n_taps));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_any_filter),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_nan_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
