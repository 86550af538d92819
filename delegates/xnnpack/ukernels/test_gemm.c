/* SPDX-License-Identifier: BSD-3-Clause */
/* Each build of gemm.c that this processor runs against a plain loop: to the bit where both have fused multiply-add. */
#include "delegates/xnnpack/ukernels/gemm.h"
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
static const struct et_xnn_gemm_build *build_at(size_t i)
{
	return et_xnn_gemm_at(i) || (i && !et_xnn_gemm_at(i - 1)) ? et_xnn_gemm_at(i) : et_xnn_gemm_fp16();
}

static bool is_of_fp16(const struct et_xnn_gemm_build *build)
{
	return build->n_bytes == sizeof(fp16);
}

static bool is_fused(const struct et_xnn_gemm_build *build)
{
#if defined(__aarch64__)
	return true;
#else
	return build != &et_xnn_gemm_base;
#endif
}

/* @n floats in the build's type. The caller frees it. */
static void *elements(const struct et_xnn_gemm_build *build, const float *floats, size_t n)
{
	void *made = malloc(n * build->n_bytes);
	assert_non_null(made);
	for (size_t i = 0; i < n && is_of_fp16(build); i++)
		((fp16 *)made)[i] = (fp16)floats[i];
	if (!is_of_fp16(build))
		memcpy(made, floats, n * sizeof(*floats));
	return made;
}

static float element(const struct et_xnn_gemm_build *build, const void *elements, size_t i)
{
	return is_of_fp16(build) ? (float)((const fp16 *)elements)[i] : ((const float *)elements)[i];
}

/* Rounded once: a double holds the product and the sum of fp16. */
static float multiply_add(const struct et_xnn_gemm_build *build, float a, float b, float sum)
{
	return is_of_fp16(build) ? (float)(fp16)fma((double)(fp16)a, (double)(fp16)b, (double)sum) : fmaf(a, b, sum);
}

/* A product in floats, converted for each build. */
struct trial {
	struct et_xnn_gemm job; /* without its matrices */
	float *in, *filter, *bias;
	size_t n_rows, n_in, n_out;
};

/* A filter of @n_segments runs of @filter_segment floats; the job uses a part of each. */
static float plain(const struct et_xnn_gemm_build *build, const struct trial *trial, size_t row, size_t column)
{
	const struct et_xnn_gemm *job = &trial->job;
	float sum = trial->bias ? trial->bias[column] : 0;
	sum = is_of_fp16(build) ? (float)(fp16)sum : sum;
	for (size_t i = 0; i < job->n_segments; i++)
		for (size_t k = 0; k < job->depth; k++)
			sum = multiply_add(build, trial->in[row * job->in_stride + i * job->segment_stride + k],
				trial->filter[column * job->filter_depth + job->filter_first + i * job->filter_segment +
					      k],
				sum);
	sum = job->min > sum ? job->min : sum;
	return job->max < sum ? job->max : sum;
}

/* For fp16, filter and bias are fp16 or fp32. */
static void *packed_for(const struct et_xnn_gemm_build *build, const struct trial *trial)
{
	size_t depth = trial->job.filter_depth, n_columns = trial->job.n_columns;
	float *any = test_drawn_floats(et_xnn_gemm_n_packed(depth, n_columns, build->panel));
	void *packed = elements(build, any, et_xnn_gemm_n_packed(depth, n_columns, build->panel));
	free(any);
	if (!is_of_fp16(build)) {
		et_xnn_gemm_pack(trial->filter, trial->bias, depth, n_columns, packed);
		return packed;
	}
	struct et_xnn_gemm_filter given = { .filter_is_fp16 = test_draw(2),
		.bias_is_fp16 = test_draw(2),
		.depth = depth,
		.n_columns = n_columns,
		.of_column = depth,
		.of_row = 1 };
	void *filter = elements(build, trial->filter, n_columns * depth),
	     *bias = trial->bias ? elements(build, trial->bias, n_columns) : NULL;
	given.filter = given.filter_is_fp16 ? filter : trial->filter;
	given.bias = given.bias_is_fp16 ? bias : trial->bias;
	build->pack(&given, packed);
	free(filter);
	free(bias);
	return packed;
}

static void check(const struct et_xnn_gemm_build *build, const struct trial *trial)
{
	struct et_xnn_gemm job = trial->job;
	size_t n_rows = trial->n_rows, begin = test_draw((uint32_t)n_rows + 1),
	       end = begin + test_draw((uint32_t)(n_rows - begin) + 1);
	size_t n_panels = (job.n_columns + build->panel - 1) / build->panel;
	size_t left = test_draw((uint32_t)n_panels) * build->panel, right = left + build->panel;
	right = right < job.n_columns ? right : job.n_columns;
	void *in = elements(build, trial->in, trial->n_in), *packed = packed_for(build, trial),
	     *out = malloc(trial->n_out * build->n_bytes);
	assert_non_null(out);
	memset(out, 0xff, trial->n_out * build->n_bytes);
	job.in = in;
	job.packed = packed;
	job.out = out;
	for (int partition = 0; partition < 2; partition++) {
		if (partition)
			build->run(&job, 0, n_rows, 0, job.n_columns);
		else
			build->run(&job, begin, end, left, right);
		for (size_t i = 0; i < trial->n_out; i++) {
			size_t row = i / job.out_stride, column = i % job.out_stride;
			float is = element(build, out, i);
			if (column >= job.n_columns ||
				(!partition && (row < begin || row >= end || column < left || column >= right))) {
				assert_true(isnan(is)); /* not a place that it may write */
				continue;
			}
			float right_one = plain(build, trial, row, column);
			bool is_right = is_fused(build) ? memcmp(&is, &right_one, sizeof(is)) == 0
							: fabsf(is - right_one) <= 1e-4f;
			if (!is_right)
				fail_msg("%s: %zu rows, %zu columns, %zu x %zu deep: row %zu, column %zu is "
					 "%.9g, not %.9g",
					build->name, n_rows, job.n_columns, job.n_segments, job.depth, row, column,
					(double)is, (double)right_one);
		}
	}
	free(in);
	free(packed);
	free(out);
}

static void try(size_t n_rows, size_t n_columns, size_t n_segments, size_t depth)
{
	struct et_xnn_gemm job = {
		.n_columns = n_columns,
		.n_segments = n_segments,
		.depth = depth,
		.in_stride = test_draw(2) ? depth : 1 + test_draw((uint32_t)depth + 40),
		.segment_stride = test_draw(2 * (uint32_t)depth + 2),
		.out_stride = n_columns + (test_draw(2) ? 0 : test_draw(20)),
		.filter_segment = depth + test_draw(3),
		.filter_first = test_draw(4),
		.min = test_draw(3) ? -INFINITY : -0.5f,
		.max = test_draw(3) ? INFINITY : 0.75f,
	};
	job.filter_depth = job.filter_first + n_segments * job.filter_segment;
	job.filter_depth += job.filter_depth == 0;
	struct trial trial = {
		.job = job,
		.n_rows = n_rows,
		.n_in = n_segments ? (n_rows - 1) * job.in_stride + (n_segments - 1) * job.segment_stride + depth : 1,
		.n_out = (n_rows - 1) * job.out_stride + n_columns,
	};
	trial.in = test_drawn_floats(trial.n_in);
	trial.filter = test_drawn_floats(n_columns * job.filter_depth);
	trial.bias = test_draw(4) ? test_drawn_floats(n_columns) : NULL;
	for (size_t i = 0; build_at(i); i++)
		check(build_at(i), &trial);
	free(trial.in);
	free(trial.filter);
	free(trial.bias);
}

/* Every number of columns and rows up to several tiles. */
static void test_sizes(void **state)
{
	for (size_t n = 1; n <= 100; n++) {
		try(1 + test_draw(40), n, 1, 1 + test_draw(40));
		try(n, 1 + test_draw(70), 1, 1 + test_draw(40));
		try(1 + test_draw(40), 1 + test_draw(70), test_draw(4), 1 + test_draw(30));
		try(1 + test_draw(20), 1 + test_draw(70), 1, n);
	}
}

/* More rows than a block; rows that share cache sets; a single column. */
static void test_layers(void **state)
{
	static const size_t layers[][3] = { { 49, 40, 1152 }, { 900, 24, 64 }, { 30, 33, 512 }, { 30, 65, 1024 },
		{ 1, 1, 1 }, { 1, 100, 300 }, { 300, 1, 5 } };
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
		try(layers[i][0], layers[i][1], 1, layers[i][2]);
}

static void test_nan_stays(void **state)
{
	enum { N = 100, DEPTH = 3, ROWS = 15 };
	float in[ROWS * DEPTH], filter[N * DEPTH];
	for (size_t i = 0; i < N * DEPTH; i++)
		filter[i] = 1;
	for (size_t i = 0; i < ROWS * DEPTH; i++)
		in[i] = 1;
	in[7 * DEPTH + 1] = NAN;
	in[8 * DEPTH] = INFINITY;
	in[9 * DEPTH] = -INFINITY;
	struct trial trial = { .filter = filter,
		.job = { .n_columns = N,
			.n_segments = 1,
			.depth = DEPTH,
			.in_stride = DEPTH,
			.out_stride = N,
			.filter_depth = DEPTH,
			.min = 0,
			.max = 2 } };
	for (size_t i = 0; build_at(i); i++) {
		const struct et_xnn_gemm_build *build = build_at(i);
		struct et_xnn_gemm job = trial.job;
		void *numbers = elements(build, in, ROWS * DEPTH), *packed = packed_for(build, &trial),
		     *out = malloc(ROWS * N * build->n_bytes);
		assert_non_null(out);
		job.in = numbers;
		job.packed = packed;
		job.out = out;
		build->run(&job, 0, ROWS, 0, N);
		for (size_t j = 0; j < ROWS * N; j++) {
			if (j / N == 7)
				assert_true(isnan(element(build, out, j)));
			else
				assert_true(element(build, out, j) == (j / N == 9 ? 0 : 2));
		}
		free(numbers);
		free(packed);
		free(out);
	}
}

/* Sums and weights that are too large for fp16 are infinite. */
static void test_fp16_end(void **state)
{
	const struct et_xnn_gemm_build *build = et_xnn_gemm_fp16();
	if (!build)
		skip();
	float filter[] = { 60000, 1e6f, -1e6f, 1 }, in[] = { 2 };
	struct trial trial = { .filter = filter, .job = { .n_columns = 4, .filter_depth = 1 } };
	fp16 out[4], *numbers = elements(build, in, 1), *packed = packed_for(build, &trial);
	struct et_xnn_gemm job = { .n_columns = 4,
		.n_segments = 1,
		.depth = 1,
		.in_stride = 1,
		.out_stride = 4,
		.filter_depth = 1,
		.min = -INFINITY,
		.max = INFINITY,
		.packed = (uint8_t *)packed,
		.in = (uint8_t *)numbers,
		.out = (uint8_t *)out };
	build->run(&job, 0, 1, 0, 4);
	assert_true(isinf((float)out[0]) && isinf((float)out[1]) && isinf((float)out[2]));
	assert_true(out[1] > 0 && out[2] < 0 && (float)out[3] == 2);
	free(numbers);
	free(packed);
}

static void test_too_large(void **state)
{
	assert_true(et_xnn_gemm_n_packed(SIZE_MAX, 1, ET_GEMM_PANEL) == SIZE_MAX);
	assert_true(et_xnn_gemm_n_packed(SIZE_MAX / 64, 8, ET_GEMM_PANEL) == SIZE_MAX);
	assert_true(et_xnn_gemm_n_packed(1, SIZE_MAX, ET_GEMM_PANEL) == SIZE_MAX);
	assert_int_equal(et_xnn_gemm_n_packed(2, 24, ET_GEMM_PANEL), 3 * 24);
	assert_int_equal(et_xnn_gemm_n_packed(2, 25, ET_GEMM_PANEL), 3 * 32);
	assert_int_equal(et_xnn_gemm_n_packed(2, 41, ET_GEMM_PANEL), 3 * 48);
	assert_int_equal(et_xnn_gemm_n_packed(2, 33, ET_GEMM_PANEL), 3 * 40);
	assert_int_equal(et_xnn_gemm_n_packed(2, 33, ET_GEMM_FP16_PANEL), 3 * 48);
	assert_int_equal(et_xnn_gemm_n_packed(2, 65, ET_GEMM_FP16_PANEL), 3 * 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_nan_stays),
		cmocka_unit_test(test_fp16_end),
		cmocka_unit_test(test_too_large),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
