/* SPDX-License-Identifier: BSD-3-Clause */
/* im2col.c against plain loops: windows of every form, on images large enough for several strips of a group, tiles of
 * all groups, and window by window. Memory has exactly the size that is needed, so that AddressSanitizer sees what is
 * outside. All sums are exact, so their order does not matter. */
#include "delegates/xnnpack/ukernels/im2col.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N_TRIALS = 500, MOST_PRODUCTS = 400000, MOST_FLOATS = 200000, UNTOUCHED = 12345 };

/* Small numbers, whose sums of products are exact. */
static float *drawn(size_t n)
{
	float *numbers = malloc(n * sizeof(*numbers));
	assert_non_null(numbers);
	for (size_t i = 0; i < n; i++)
		numbers[i] = 0.5f * ((float)test_draw(5) - 2);
	return numbers;
}

static size_t n_taps(const struct et_xnn_im2col *p)
{
	return p->kernel[0] * p->kernel[1];
}

static size_t n_in(const struct et_xnn_im2col *p)
{
	return p->height * p->width * p->groups * p->channels;
}

static size_t n_out(const struct et_xnn_im2col *p, size_t rows)
{
	return (rows - 1) * p->out_step[0] + (p->out_width - 1) * p->out_step[1] + p->groups * p->job.n_columns;
}

/* Mostly small numbers, now and then up to @most. */
static size_t draw_size(uint32_t most)
{
	return 1 + test_draw(test_draw(4) ? 4 : most);
}

static void draw_windows(struct et_xnn_im2col *p, size_t *ret_rows)
{
	*p = (struct et_xnn_im2col){ .build = et_xnn_gemm_at(0),
		.groups = test_draw(2) ? 1 : draw_size(40),
		.channels = draw_size(test_draw(8) ? 40 : 9000),
		.height = draw_size(70),
		.width = draw_size(test_draw(8) ? 70 : 4000),
		.out_width = draw_size(test_draw(8) ? 70 : 2000) };
	bool is_back = test_draw(3) == 0, is_spread = is_back && test_draw(2);
	for (int i = 0; i < 2; i++) {
		p->kernel[i] = draw_size(test_draw(4) ? 9 : 200);
		p->stride[i] = is_back ? 1 : draw_size(test_draw(4) ? 5 : 100000);
		p->spread[i] = is_spread ? draw_size(4) : 1;
		p->step[i] = (ptrdiff_t)(test_draw(2) ? 1 : draw_size(test_draw(8) ? 6 : 200000));
		p->step[i] = is_back ? -p->step[i] : p->step[i];
		p->first[i] = test_draw(3) ? -(ptrdiff_t)test_draw(4) : (ptrdiff_t)test_draw(300) - 150;
	}
	p->job.n_columns = draw_size(70);
	p->job.min = test_draw(2) ? -INFINITY : -1;
	p->job.max = test_draw(2) ? INFINITY : 1;
	p->filter_taps = n_taps(p);
	if (test_draw(16) == 0)
		p->kernel[test_draw(2)] = 0;
	p->out_step[1] = p->groups * p->job.n_columns * draw_size(3);
	p->out_step[0] = p->out_width * p->out_step[1] + (test_draw(2) ? test_draw(9) : 0);
	*ret_rows = draw_size(70);
}

static bool fits(const struct et_xnn_im2col *p, size_t rows)
{
	return et_xnn_im2col_fit(p->filter_taps, p->groups * p->channels, sizeof(float)) && n_in(p) <= MOST_FLOATS &&
	       n_out(p, rows) <= MOST_FLOATS &&
	       p->filter_taps * p->channels * (p->job.n_columns + 32) * p->groups <= MOST_FLOATS &&
	       n_taps(p) * p->channels * p->job.n_columns * p->groups * rows * p->out_width <= MOST_PRODUCTS;
}

static ptrdiff_t pixel_at(const struct et_xnn_im2col *p, int axis, size_t window, size_t tap)
{
	ptrdiff_t at = (ptrdiff_t)(window * p->stride[axis]) + p->first[axis] + (ptrdiff_t)tap * p->step[axis],
		  spread = (ptrdiff_t)p->spread[axis], size = (ptrdiff_t)(axis ? p->width : p->height);
	return at < 0 || at % spread || at / spread >= size ? -1 : at / spread;
}

/* @filter: [groups][n_columns][taps][channels]. */
static float plain(const struct et_xnn_im2col *p, const float *in, const float *filter, float sum, size_t y, size_t x,
	size_t group, size_t column)
{
	const float *weight = filter + (group * p->job.n_columns + column) * p->filter_taps * p->channels;
	for (size_t tap = 0; tap < n_taps(p); tap++) {
		ptrdiff_t row = pixel_at(p, 0, y, tap / p->kernel[1]), at = pixel_at(p, 1, x, tap % p->kernel[1]);
		for (size_t k = 0; k < p->channels && row >= 0 && at >= 0; k++)
			sum += weight[tap * p->channels + k] *
			       in[(((size_t)row * p->width + (size_t)at) * p->groups + group) * p->channels + k];
	}
	return sum < p->job.min ? p->job.min : sum > p->job.max ? p->job.max : sum;
}

/* Run with that build, the rows in two pieces. */
static void run(struct et_xnn_im2col *p, const struct et_xnn_gemm_build *build, size_t rows, const float *in,
	const float *filter, const float *bias, const float *expected)
{
	const size_t depth = p->filter_taps * p->channels, n = p->job.n_columns, n_all = n_out(p, rows);
	float *out = malloc(n_all * sizeof(*out));
	assert_non_null(out);
	for (size_t i = 0; i < n_all; i++)
		out[i] = UNTOUCHED;
	p->build = build;
	p->packed_step = et_xnn_gemm_n_packed(depth, n, build->panel);
	float *packed = malloc(p->groups * p->packed_step * sizeof(*packed));
	assert_non_null(packed);
	for (size_t group = 0; group < p->groups; group++)
		et_xnn_gemm_pack(filter + group * n * depth, bias + group * n, depth, n,
			packed + group * p->packed_step);
	p->job.packed = (const uint8_t *)packed;
	p->job.in = (const uint8_t *)in;
	p->job.out = (uint8_t *)out;
	size_t fp16 = test_draw((uint32_t)rows + 1);
	et_xnn_im2col_run(p, 0, fp16);
	et_xnn_im2col_run(p, fp16, rows);
	for (size_t i = 0; i < n_all; i++)
		if (out[i] != expected[i])
			fail_msg("%s, %zu groups of %zu to %zu, %zu x %zu at %zu: %g, not %g", build->name, p->groups,
				p->channels, n, p->kernel[0], p->kernel[1], i, (double)out[i], (double)expected[i]);
	free(packed);
	free(out);
}

static void test_all_forms(void **state)
{
	for (int i = 0; i < N_TRIALS;) {
		struct et_xnn_im2col p;
		const struct et_xnn_gemm_build *build;
		size_t rows;
		draw_windows(&p, &rows);
		if (!fits(&p, rows))
			continue;
		const size_t n_columns = p.job.n_columns, n_all = n_out(&p, rows);
		float *in = drawn(n_in(&p)), *bias = drawn(p.groups * n_columns),
		      *filter = drawn(p.groups * n_columns * p.filter_taps * p.channels),
		      *expected = malloc(n_all * sizeof(*expected));
		assert_non_null(expected);
		for (size_t j = 0; j < n_all; j++)
			expected[j] = UNTOUCHED;
		for (size_t y = 0; y < rows; y++)
			for (size_t x = 0; x < p.out_width; x++)
				for (size_t j = 0; j < p.groups * n_columns; j++)
					expected[y * p.out_step[0] + x * p.out_step[1] + j] = plain(&p, in, filter,
						bias[j], y, x, j / n_columns, j % n_columns);
		for (size_t j = 0; (build = et_xnn_gemm_at(j)); j++)
			run(&p, build, rows, in, filter, bias, expected);
		free(expected);
		free(filter);
		free(bias);
		free(in);
		i++;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_forms) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
