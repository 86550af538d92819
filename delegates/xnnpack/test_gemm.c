/* Each build of gemm.c that this processor can run against a plain loop: to the bit where both multiply and add in one step. */
#include "delegates/xnnpack/gemm.h"
#include "delegates/xnnpack/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bool is_fused(const struct et_xnn_gemm_build *build)
{
#if defined(__aarch64__)
	return true;
#else
	return build != &et_xnn_gemm_base;
#endif
}

/* A filter of @n_segments runs of @filter_segment floats each, of which the job takes the part that it says. */
static float plain(
	const struct et_xnn_gemm *job, const float *filter, const float *bias, size_t row, size_t column)
{
	float sum = bias ? bias[column] : 0;
	for (size_t i = 0; i < job->n_segments; i++)
		for (size_t k = 0; k < job->depth; k++)
			sum = fmaf(job->in[row * job->in_stride + i * job->segment_stride + k],
				filter[column * job->filter_depth + job->filter_first +
					i * job->filter_segment + k],
				sum);
	sum = job->min > sum ? job->min : sum;
	return job->max < sum ? job->max : sum;
}

static void check(const struct et_xnn_gemm_build *build, const struct et_xnn_gemm *job, const float *filter,
	const float *bias, size_t n_rows)
{
	size_t begin = test_draw((uint32_t)n_rows + 1),
	       end = begin + test_draw((uint32_t)(n_rows - begin) + 1);
	size_t n_panels = (job->n_columns + ET_GEMM_PANEL - 1) / ET_GEMM_PANEL;
	size_t left = test_draw((uint32_t)n_panels) * ET_GEMM_PANEL, right = left + ET_GEMM_PANEL;
	right = right < job->n_columns ? right : job->n_columns;
	memset(job->out, 0xff, ((n_rows - 1) * job->out_stride + job->n_columns) * sizeof(float));
	for (int part = 0; part < 2; part++) {
		if (part)
			build->run(job, 0, n_rows, 0, job->n_columns);
		else
			build->run(job, begin, end, left, right);
		for (size_t i = 0; i < (n_rows - 1) * job->out_stride + job->n_columns; i++) {
			size_t row = i / job->out_stride, column = i % job->out_stride;
			float is = job->out[i];
			if (column >= job->n_columns ||
				(!part && (row < begin || row >= end || column < left || column >= right))) {
				assert_true(isnan(is)); /* not its to write */
				continue;
			}
			float right_one = plain(job, filter, bias, row, column);
			bool is_right = is_fused(build) ? memcmp(&is, &right_one, sizeof(is)) == 0
							: fabsf(is - right_one) <= 1e-4f;
			if (!is_right)
				fail_msg("%s: %zu rows, %zu columns, %zu x %zu deep: row %zu, column %zu is "
					 "%.9g, not %.9g",
					build->name, n_rows, job->n_columns, job->n_segments, job->depth, row,
					column, (double)is, (double)right_one);
		}
	}
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
	float *in = test_drawn_floats(
		n_segments ? (n_rows - 1) * job.in_stride + (n_segments - 1) * job.segment_stride + depth
			   : 1);
	float *filter = test_drawn_floats(n_columns * job.filter_depth),
	      *bias = test_draw(4) ? test_drawn_floats(n_columns) : NULL;
	size_t n_packed = et_xnn_gemm_n_packed(job.filter_depth, n_columns);
	float *packed = test_drawn_floats(n_packed);
	et_xnn_gemm_pack(filter, bias, job.filter_depth, n_columns, packed);
	job.in = in;
	job.packed = packed;
	job.out = test_drawn_floats((n_rows - 1) * job.out_stride + n_columns);
	for (size_t i = 0; et_xnn_gemm_at(i); i++)
		check(et_xnn_gemm_at(i), &job, filter, bias, n_rows);
	free(in);
	free(filter);
	free(bias);
	free(packed);
	free(job.out);
}

/* Every number of columns and of rows up to some tiles. */
static void test_sizes(void **state)
{
	for (size_t n = 1; n <= 100; n++) {
		try(1 + test_draw(40), n, 1, 1 + test_draw(40));
		try(n, 1 + test_draw(70), 1, 1 + test_draw(40));
		try(1 + test_draw(40), 1 + test_draw(70), test_draw(4), 1 + test_draw(30));
		try(1 + test_draw(20), 1 + test_draw(70), 1, n);
	}
}

/* More than a block of rows; rows that meet in the cache; a column. */
static void test_layers(void **state)
{
	static const size_t layers[][3] = { { 49, 40, 1152 }, { 900, 24, 64 }, { 30, 33, 512 }, { 1, 1, 1 },
		{ 1, 100, 300 }, { 300, 1, 5 } };
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
		try(layers[i][0], layers[i][1], 1, layers[i][2]);
}

static void test_nan_stays(void **state)
{
	enum { N = 40, DEPTH = 3, ROWS = 15 };
	float in[ROWS * DEPTH], filter[N * DEPTH], out[ROWS * N];
	for (size_t i = 0; i < N * DEPTH; i++)
		filter[i] = 1;
	for (size_t i = 0; i < ROWS * DEPTH; i++)
		in[i] = 1;
	in[7 * DEPTH + 1] = NAN;
	in[8 * DEPTH] = INFINITY;
	in[9 * DEPTH] = -INFINITY;
	float *packed = test_drawn_floats(et_xnn_gemm_n_packed(DEPTH, N));
	et_xnn_gemm_pack(filter, NULL, DEPTH, N, packed);
	struct et_xnn_gemm job = { .n_columns = N,
		.n_segments = 1,
		.depth = DEPTH,
		.in_stride = DEPTH,
		.out_stride = N,
		.filter_depth = DEPTH,
		.min = 0,
		.max = 2,
		.packed = packed,
		.in = in,
		.out = out };
	for (size_t i = 0; et_xnn_gemm_at(i); i++) {
		et_xnn_gemm_at(i)->run(&job, 0, ROWS, 0, N);
		for (size_t j = 0; j < ROWS * N; j++) {
			if (j / N == 7)
				assert_true(isnan(out[j]));
			else
				assert_true(out[j] == (j / N == 9 ? 0 : 2));
		}
	}
	free(packed);
}

static void test_too_large(void **state)
{
	assert_true(et_xnn_gemm_n_packed(SIZE_MAX, 1) == SIZE_MAX);
	assert_true(et_xnn_gemm_n_packed(SIZE_MAX / 64, 8) == SIZE_MAX);
	assert_true(et_xnn_gemm_n_packed(1, SIZE_MAX) == SIZE_MAX);
	assert_int_equal(et_xnn_gemm_n_packed(2, 24), 3 * 24);
	assert_int_equal(et_xnn_gemm_n_packed(2, 25), 3 * 32);
	assert_int_equal(et_xnn_gemm_n_packed(2, 41), 3 * 48);
	assert_int_equal(et_xnn_gemm_n_packed(2, 33), 3 * 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_nan_stays),
		cmocka_unit_test(test_too_large),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
