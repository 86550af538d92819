/* SPDX-License-Identifier: BSD-3-Clause */
/* Each build of gemm_qs8.c that this processor runs against plain loops: sums are exact, and results are the same to
 * the bit where both have fused multiply-add. */
#include "delegates/xnnpack/ukernels/gemm_qs8.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* In memory of exactly that size, so that AddressSanitizer sees reads outside. */
static void *memory(size_t n)
{
	void *bytes = malloc(n);
	assert_non_null(bytes);
	return bytes;
}

static bool is_fused(const struct et_xnn_gemm_qs8_build *build)
{
#if defined(__aarch64__)
	return true;
#else
	return build != &et_xnn_gemm_qs8_base;
#endif
}

struct layer {
	size_t n_rows, n_columns, depth;
	int8_t *filter;
	float *scales, *bias;
};

static float plain(const struct layer *l, const struct et_xnn_gemm_qs8 *job, size_t row, size_t column)
{
	uint32_t sum = 0;
	for (size_t k = 0; k < l->depth; k++)
		sum += (uint32_t)((job->in[row * job->in_stride + k] - job->scales[row].zero) *
				  l->filter[column * l->depth + k]);
	float value = fmaf((float)(int32_t)sum * job->scales[row].scale, l->scales[column],
		l->bias ? l->bias[column] : 0);
	value = job->min > value ? job->min : value;
	return job->max < value ? job->max : value;
}

static void check(const struct et_xnn_gemm_qs8_build *build, const struct layer *l, const struct et_xnn_gemm_qs8 *job)
{
	size_t begin = test_draw((uint32_t)l->n_rows + 1), end = begin + test_draw((uint32_t)(l->n_rows - begin) + 1);
	size_t n_panels = (l->n_columns + ET_GEMM_QS8_PANEL - 1) / ET_GEMM_QS8_PANEL;
	size_t left = test_draw((uint32_t)n_panels) * ET_GEMM_QS8_PANEL, right = left + ET_GEMM_QS8_PANEL;
	right = right < l->n_columns ? right : l->n_columns;
	memset(job->out, 0xff, ((l->n_rows - 1) * job->out_stride + l->n_columns) * sizeof(float));
	for (int partition = 0; partition < 2; partition++) {
		if (partition)
			build->run(job, 0, l->n_rows, 0, l->n_columns);
		else
			build->run(job, begin, end, left, right);
		for (size_t i = 0; i < (l->n_rows - 1) * job->out_stride + l->n_columns; i++) {
			size_t row = i / job->out_stride, column = i % job->out_stride;
			float is = job->out[i];
			if (column >= l->n_columns ||
				(!partition && (row < begin || row >= end || column < left || column >= right))) {
				assert_true(isnan(is)); /* not a place that it may write */
				continue;
			}
			float right_one = plain(l, job, row, column);
			bool is_right = is_fused(build) ? memcmp(&is, &right_one, sizeof(is)) == 0
							: fabsf(is - right_one) <= 1e-4f + fabsf(is) * 1e-6f;
			if (!is_right)
				fail_msg("%s: %zu rows, %zu columns, %zu deep: row %zu, column %zu is %.9g, "
					 "not "
					 "%.9g",
					build->name, l->n_rows, l->n_columns, l->depth, row, column, (double)is,
					(double)right_one);
		}
	}
}

static void try(size_t n_rows, size_t n_columns, size_t depth)
{
	struct layer l = { n_rows, n_columns, depth, memory(n_columns * depth), test_drawn_floats(n_columns),
		test_draw(4) ? test_drawn_floats(n_columns) : NULL };
	for (size_t i = 0; i < n_columns * depth; i++)
		l.filter[i] = (int8_t)(test_draw(256) - 128);
	struct et_xnn_rows rows;
	assert_true(et_xnn_rows(&rows, n_rows, depth));
	uint8_t *in = memory(rows.n_bytes);
	memset(in, 0xa5, rows.n_bytes);
	for (size_t row = 0; row < n_rows; row++) {
		struct et_xnn_row_scale scale = { (float)(1 + test_draw(100)) / 1000, (int32_t)test_draw(256) };
		memcpy(in + row * sizeof(scale), &scale, sizeof(scale));
		for (size_t k = 0; k < depth; k++)
			in[rows.first + row * rows.stride + k] = (uint8_t)test_draw(256);
	}
	size_t n_packed = et_xnn_gemm_qs8_n_packed(depth, n_columns);
	uint8_t *packed = memory(n_packed);
	memset(packed, 0xa5, n_packed);
	et_xnn_gemm_qs8_pack(l.filter, l.scales, l.bias, depth, n_columns, packed);
	struct et_xnn_gemm_qs8 job = {
		.n_columns = n_columns,
		.n_segments = 1,
		.depth = (depth + ET_GEMM_QS8_DEPTH - 1) / ET_GEMM_QS8_DEPTH * ET_GEMM_QS8_DEPTH,
		.in_stride = rows.stride,
		.out_stride = n_columns + (test_draw(2) ? 0 : test_draw(20)),
		.min = test_draw(3) ? -INFINITY : -0.5f,
		.max = test_draw(3) ? INFINITY : 0.75f,
		.packed = packed,
		.scales = (const struct et_xnn_row_scale *)(const void *)in,
		.in = in + rows.first,
	};
	job.out = test_drawn_floats((n_rows - 1) * job.out_stride + n_columns);
	for (size_t i = 0; et_xnn_gemm_qs8_at(i); i++)
		check(et_xnn_gemm_qs8_at(i), &l, &job);
	free(l.filter);
	free(l.scales);
	free(l.bias);
	free(in);
	free(packed);
	free(job.out);
}

/* Every number of columns and rows up to several tiles. */
static void test_sizes(void **state)
{
	for (size_t n = 1; n <= 100; n++) {
		try(1 + test_draw(40), n, 1 + test_draw(150));
		try(n, 1 + test_draw(70), 1 + test_draw(70));
		try(1 + test_draw(20), 1 + test_draw(70), n);
	}
}

/* More rows than a block; the largest possible sums. */
static void test_layers(void **state)
{
	static const size_t layers[][3] = { { 128, 96, 384 }, { 70, 40, 4096 }, { 1, 1, 1 }, { 1, 100, 2048 },
		{ 300, 1, 5 }, { 2, 3, 70000 } };
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
		try(layers[i][0], layers[i][1], layers[i][2]);
}

/* Ties go to even; multiplying with 1 / (1 / scale) would give the other number. */
static void test_fp16_in_rows(void **state)
{
	static const float in[] = { 0, 2.125f, 1.5625f };
	enum { LENGTH = sizeof(in) / sizeof(*in) };
	for (size_t b = 0; et_xnn_gemm_qs8_at(b); b++) {
		struct et_xnn_rows rows;
		assert_true(et_xnn_rows(&rows, 1, LENGTH));
		uint8_t *to = memory(rows.n_bytes);
		et_xnn_rows_quantize(et_xnn_gemm_qs8_at(b), &rows, in, 0, 1, to);
		const uint8_t expected[] = { 0, 255, 188 };
		assert_memory_equal(to + rows.first, expected, sizeof(expected));
		free(to);
	}
}

/* Quantized rows stand for the floats within half a step, 0 exactly, and use the whole range of a byte. */
static void check_row(const struct et_xnn_gemm_qs8_build *build, const float *in, size_t n)
{
	struct et_xnn_rows rows;
	assert_true(et_xnn_rows(&rows, 3, n));
	float *three = memory(3 * n * sizeof(float));
	uint8_t *to = memory(rows.n_bytes);
	memset(to, 0xa5, rows.n_bytes);
	memcpy(three + n, in, n * sizeof(float));
	et_xnn_rows_quantize(build, &rows, three, 1, 2, to);
	struct et_xnn_row_scale scale;
	memcpy(&scale, to + sizeof(scale), sizeof(scale));
	const uint8_t *row = to + rows.first + rows.stride;
	float min = 0, max = 0;
	for (size_t i = 0; i < n; i++) {
		min = in[i] < min ? in[i] : min;
		max = in[i] > max ? in[i] : max;
	}
	assert_true(scale.zero >= 0 && scale.zero <= 255);
	if (min != max)
		assert_true(fabsf(scale.scale * 255 / (max - min) - 1) < 1e-5f);
	for (size_t i = 0; i < n; i++) {
		float is = (float)((int32_t)row[i] - scale.zero) * scale.scale;
		if (fabsf(is - in[i]) > scale.scale * 0.51f * (1 + (in[i] == min || in[i] == max)))
			fail_msg("%s: %zu floats: %zu is %.9g, not %.9g", build->name, n, i, (double)is, (double)in[i]);
		if (in[i] == 0)
			assert_int_equal(row[i], scale.zero);
	}
	/* Zeros behind the row, and no other byte is written. */
	size_t n_deep = (n + ET_GEMM_QS8_DEPTH - 1) / ET_GEMM_QS8_DEPTH * ET_GEMM_QS8_DEPTH;
	for (size_t i = n; i < n_deep; i++)
		assert_int_equal(row[i], 0);
	for (size_t i = n_deep; i < rows.stride + n; i++)
		assert_int_equal(row[i], 0xa5);
	assert_int_equal(row[-1], 0xa5);
	free(three);
	free(to);
}

static void test_rows(void **state)
{
	for (size_t b = 0; et_xnn_gemm_qs8_at(b); b++)
		for (size_t n = 1; n <= 140; n++) {
			float *in = test_drawn_floats(n), by = ldexpf(1, (int)test_draw(60) - 30),
			      more = (float)test_draw(5) - 2;
			for (size_t i = 0; i < n; i++)
				in[i] = test_draw(10) ? (in[i] + more) * by : 0;
			check_row(et_xnn_gemm_qs8_at(b), in, n);
			for (size_t i = 0; i < n; i++)
				in[i] = 0;
			check_row(et_xnn_gemm_qs8_at(b), in, n);
			free(in);
		}
}

/* All builds make the same bytes of any numbers. */
static void test_rows_are_alike(void **state)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f, -1e-40f, 0 };
	for (size_t n = 1; n <= 60; n++) {
		float *in = test_drawn_floats(n);
		struct et_xnn_rows rows;
		assert_true(et_xnn_rows(&rows, 1, n));
		uint8_t *first = memory(rows.n_bytes), *other = memory(rows.n_bytes);
		size_t n_odd = test_draw(3), at = test_draw((uint32_t)n);
		bool is_nan = false;
		for (size_t i = 0; i < n_odd; i++) {
			in[(at + i) % n] = odd[test_draw(8)];
			is_nan = is_nan || isnan(in[(at + i) % n]);
		}
		et_xnn_rows_quantize(et_xnn_gemm_qs8_at(0), &rows, in, 0, 1, first);
		for (size_t b = 1; et_xnn_gemm_qs8_at(b); b++) {
			et_xnn_rows_quantize(et_xnn_gemm_qs8_at(b), &rows, in, 0, 1, other);
			if (!is_nan) { /* a NaN may hide other numbers */
				assert_memory_equal(first, other, sizeof(struct et_xnn_row_scale));
				assert_memory_equal(first + rows.first, other + rows.first, n);
			}
		}
		free(in);
		free(first);
		free(other);
	}
}

static void test_nan_stays(void **state)
{
	enum { N = 40, DEPTH = 64, ROWS = 20 };
	int8_t filter[N * DEPTH] = { 0 };
	float scales[N], out[ROWS * N];
	struct et_xnn_rows rows;
	assert_true(et_xnn_rows(&rows, ROWS, DEPTH));
	uint8_t *in = memory(rows.n_bytes), *packed = memory(et_xnn_gemm_qs8_n_packed(DEPTH, N));
	memset(in, 1, rows.n_bytes);
	for (size_t i = 0; i < ROWS; i++) {
		struct et_xnn_row_scale scale = { i == 7 ? NAN : 1, 1 };
		memcpy(in + i * sizeof(scale), &scale, sizeof(scale));
	}
	for (size_t i = 0; i < N; i++)
		scales[i] = 1;
	et_xnn_gemm_qs8_pack(filter, scales, NULL, DEPTH, N, packed);
	struct et_xnn_gemm_qs8 job = { .n_columns = N,
		.n_segments = 1,
		.depth = DEPTH,
		.in_stride = rows.stride,
		.out_stride = N,
		.min = 1,
		.max = 2,
		.packed = packed,
		.scales = (const struct et_xnn_row_scale *)(const void *)in,
		.in = in + rows.first,
		.out = out };
	for (size_t i = 0; et_xnn_gemm_qs8_at(i); i++) {
		et_xnn_gemm_qs8_at(i)->run(&job, 0, ROWS, 0, N);
		for (size_t j = 0; j < ROWS * N; j++)
			assert_true(j / N == 7 ? isnan(out[j]) : out[j] == 1);
	}
	free(in);
	free(packed);
}

static void test_too_large(void **state)
{
	struct et_xnn_rows rows;
	assert_false(et_xnn_rows(&rows, SIZE_MAX, 1));
	assert_false(et_xnn_rows(&rows, SIZE_MAX / 64, 1));
	assert_false(et_xnn_rows(&rows, 1, SIZE_MAX));
	assert_false(et_xnn_rows(&rows, 1, SIZE_MAX / 16));
	assert_true(et_xnn_gemm_qs8_n_packed(SIZE_MAX, 1) == SIZE_MAX);
	assert_true(et_xnn_gemm_qs8_n_packed(1, SIZE_MAX) == SIZE_MAX);
	assert_true(et_xnn_gemm_qs8_n_packed(SIZE_MAX / 16, 40) == SIZE_MAX);
	assert_int_equal(et_xnn_gemm_qs8_n_packed(65, 33), 48 * (12 + 128));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_fp16_in_rows),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_rows_are_alike),
		cmocka_unit_test(test_nan_stays),
		cmocka_unit_test(test_too_large),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
