/* SPDX-License-Identifier: BSD-3-Clause */
/* linear_qd8.c against XNNPACK: sizes, batches, shapes that change, one thread and several, two layers of the same
 * rows; and which nodes are not taken. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/ukernels/gemm_qs8.h"
#include "delegates/xnnpack/partition.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_FLOATS = 8192 /* of an argument */ };

/* Rows of [batch][n_rows][depth], read by two layers of as many columns. */
struct layers {
	uint32_t batch, n_rows, depth, n_columns;
	bool has_bias, is_limited;
	bool comes_from_xnnpack; /* a node of XNNPACK's makes the input */
	uint32_t second_filter;  /* its type: ET_XNN_QCINT8, or 4 bits, which are left to XNNPACK */
};

static uint8_t *make(const struct layers *l, size_t *ret_n_bytes)
{
	static int8_t taps[1 << 16];
	static float bias[256], scales[256];
	struct make_xnn mk;
	mx_init(&mk);
	assert_true(l->n_columns * l->depth <= sizeof(taps) && l->n_columns <= 256);
	uint32_t x = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(l->batch, l->n_rows, l->depth), .input = 1 });
	if (l->comes_from_xnnpack) {
		uint32_t y = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(l->batch, l->n_rows, l->depth) });
		mx_node(&mk, MX_LEAKY_RELU, &(struct et_xnn_node){ .inputs = { x }, .outputs = { y }, .number = 0.5f });
		x = y;
	}
	uint32_t rows = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(l->batch, l->n_rows, l->depth), .n_row_dims = 1 });
	mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { x }, .outputs = { rows } });
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t type = i ? l->second_filter : ET_XNN_QCINT8;
		for (uint32_t j = 0; j < l->n_columns * l->depth; j++)
			taps[j] = (int8_t)(test_draw(255) - 127);
		test_draw_floats(bias, l->n_columns);
		for (uint32_t j = 0; j < l->n_columns; j++)
			scales[j] = (float)(1 + test_draw(100)) / 10000;
		struct mx_value weights = { .type = type, MX_DIMS(l->n_columns, l->depth) };
		weights.constant = mx_constant(&mk, taps, (size_t)l->n_columns * l->depth);
		weights.scales = scales;
		weights.n_scales = l->n_columns;
		uint32_t filter = mx_value(&mk, &weights);
		uint32_t biases = ET_XNN_NONE;
		if (l->has_bias)
			biases = mx_value(&mk,
				&(struct mx_value){ .type = ET_XNN_FP32,
					MX_DIMS(l->n_columns),
					.constant = mx_constant(&mk, bias, l->n_columns * sizeof(float)) });
		uint32_t out = mx_value(&mk,
			&(struct mx_value){
				.type = ET_XNN_FP32, MX_DIMS(l->batch, l->n_rows, l->n_columns), .output = 2 + i });
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { rows, filter, biases },
				.outputs = { out },
				.min = l->is_limited ? -0.25f : 0,
				.max = l->is_limited ? 0.5f : 0 });
	}
	return mx_finish(&mk, ret_n_bytes);
}

static enum et_status begin(struct test_session *s, const uint8_t *bytes, size_t n_bytes, uint32_t n_threads,
	uint64_t least_work, struct et_diag *diag)
{
	et_xnn_override_set_least_work(least_work);
	return test_session_begin(s, bytes, n_bytes, 3, n_threads, diag);
}

/* How many nodes are overrides. */
static uint32_t n_overrides(const struct test_session *s)
{
	const struct et_xnn_partitions *partitions = &et_direct_model(s->model)->model->partitions;
	uint32_t n = 0;
	for (uint32_t i = 0; i < partitions->n_partitions; i++)
		n += partitions->partitions[i].override != NULL;
	return n;
}

static struct arg args[3];

static enum et_status run(struct test_session *s, const struct layers *l, uint32_t n_rows, float *x, float *first,
	float *second, struct et_diag *diag)
{
	ARG(&args[0], ET_FLOAT32, ET_STATIC, (int32_t)l->batch, (int32_t)n_rows, (int32_t)l->depth);
	for (uint32_t i = 0; i < 2; i++)
		ARG(&args[1 + i], ET_FLOAT32, ET_DYNAMIC_BOUND, (int32_t)l->batch, (int32_t)l->n_rows,
			(int32_t)l->n_columns);
	float *places[] = { x, first, second };
	for (uint32_t i = 0; i < 3; i++) {
		args[i].tensor.data = places[i];
		args[i].tensor.capacity = MOST_FLOATS;
	}
	struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
	return test_ops->enqueue(s->instance, values, NULL, diag);
}

static float x[MOST_FLOATS + 32], ours[2][MOST_FLOATS], theirs[2][MOST_FLOATS];

/* XNNPACK has fused multiply-add on such processors, too. */
static bool is_exact(void)
{
	return et_xnn_gemm_qs8() != &et_xnn_gemm_qs8_base;
}

static void check(const struct layers *l, uint32_t n_rows)
{
	size_t n = (size_t)l->batch * n_rows * l->n_columns;
	for (uint32_t i = 0; i < 2; i++) {
		if (is_exact())
			assert_memory_equal(ours[i], theirs[i], n * sizeof(float));
		/* An element may be off by one step on others. */
		for (size_t j = 0; j < n; j++)
			test_near(ours[i][j], theirs[i][j], 0.02f);
	}
}

/* Rows from -1 to 127/128, so that the scale is a power of two: with others Debian's XNNPACK multiplies with 1 / (1 /
 * scale). */
static void draw_rows(size_t n_rows, size_t depth)
{
	test_draw_floats(x, n_rows * depth);
	for (size_t i = 0; i < n_rows * depth; i++)
		x[i] = i % depth == 0 ? -1 : i % depth == 1 ? 127 / 128.0f : x[i] * 127 / 128;
}

static void compare(const struct layers *l)
{
	struct et_diag diag = { 0 };
	size_t n_bytes;
	uint8_t *bytes = make(l, &n_bytes);
	bool are_ours = l->depth >= 32 && l->second_filter == ET_XNN_QCINT8;
	for (uint32_t n_threads = 1; n_threads <= 3; n_threads += 2) {
		struct test_session override, xnnpack;
		test_ok(begin(&override, bytes, n_bytes, n_threads, 0, &diag), &diag);
		test_ok(begin(&xnnpack, bytes, n_bytes, 1, UINT64_MAX, &diag), &diag);
		assert_int_equal(n_overrides(&override), are_ours ? 3 : 0);
		assert_int_equal(n_overrides(&xnnpack), 0);
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t n_rows = i == 1 ? 1 : i == 2 ? (l->n_rows + 1) / 2 : l->n_rows;
			draw_rows((size_t)l->batch * n_rows, l->depth);
			for (uint32_t j = 0; i == 3 && j < l->depth; j++)
				x[j] = 0;
			test_ok(run(&override, l, n_rows, x, ours[0], ours[1], &diag), &diag);
			test_ok(run(&xnnpack, l, n_rows, x, theirs[0], theirs[1], &diag), &diag);
			check(l, n_rows);
		}
		test_session_end(&override);
		test_session_end(&xnnpack);
	}
	free(bytes);
}

static void compare_all(const struct layers *l)
{
	for (size_t i = 0; et_xnn_gemm_qs8_at(i); i++) {
		et_xnn_gemm_qs8_choose(et_xnn_gemm_qs8_at(i));
		compare(l);
	}
	et_xnn_gemm_qs8_choose(NULL);
}

static void test_sizes(void **state)
{
	for (uint32_t i = 0; i < 40; i++) {
		struct layers l = { .batch = 1 + test_draw(2),
			.n_rows = 1 + test_draw(40),
			.depth = 32 + test_draw(60),
			.n_columns = 1 + test_draw(70),
			.has_bias = test_draw(2),
			.is_limited = test_draw(2),
			.comes_from_xnnpack = test_draw(2),
			.second_filter = ET_XNN_QCINT8 };
		compare_all(&l);
	}
}

static void test_large(void **state)
{
	static const struct layers layers[] = {
		{ 1, 40, 200, 200, true, false, false, ET_XNN_QCINT8 },
		{ 1, 1, 256, 256, true, false, true, ET_XNN_QCINT8 },
		{ 2, 100, 33, 17, false, true, true, ET_XNN_QCINT8 },
		{ 1, 200, 40, 40, true, false, false, ET_XNN_QCINT8 },
	};
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
		compare_all(&layers[i]);
}

/* Short rows, and rows with a reader that is no override, are left to XNNPACK with all their readers. */
static void test_others(void **state)
{
	static const struct layers layers[] = {
		{ 1, 5, 31, 8, true, false, true, ET_XNN_QCINT8 },
		{ 1, 5, 64, 8, true, false, true, ET_XNN_QCINT4 },
		{ 2, 3, 64, 8, false, true, false, ET_XNN_QCINT4 },
	};
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
		compare_all(&layers[i]);
}

/* A NaN in a row stays in that row: nothing outside is read or written, and the other rows are right. */
static void test_odd_numbers(void **state)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY, 3e38f };
	static const struct layers l = { 1, 20, 64, 40, true, false, false, ET_XNN_QCINT8 };
	struct et_diag diag = { 0 };
	size_t n_bytes;
	uint8_t *bytes = make(&l, &n_bytes);
	for (size_t b = 0; et_xnn_gemm_qs8_at(b); b++) {
		struct test_session override, xnnpack;
		et_xnn_gemm_qs8_choose(et_xnn_gemm_qs8_at(b));
		test_ok(begin(&override, bytes, n_bytes, 1, 0, &diag), &diag);
		test_ok(begin(&xnnpack, bytes, n_bytes, 1, UINT64_MAX, &diag), &diag);
		for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
			draw_rows(l.n_rows, l.depth);
			x[7 * l.depth + 5] = odd[i];
			test_ok(run(&override, &l, l.n_rows, x, ours[0], ours[1], &diag), &diag);
			test_ok(run(&xnnpack, &l, l.n_rows, x, theirs[0], theirs[1], &diag), &diag);
			for (size_t j = 0; j < (size_t)l.n_rows * l.n_columns; j++)
				if (j / l.n_columns != 7)
					test_near(ours[0][j], theirs[0][j], 0.02f);
		}
		test_session_end(&override);
		test_session_end(&xnnpack);
	}
	et_xnn_gemm_qs8_choose(NULL);
	free(bytes);
}

/* The nth allocation fails, for each n: a sentence, or the right numbers. */
static void test_no_memory(void **state)
{
	static const struct layers l = { 1, 20, 64, 40, true, false, true, ET_XNN_QCINT8 };
	struct et_diag diag = { 0 };
	size_t n_bytes;
	uint8_t *bytes = make(&l, &n_bytes);
	struct test_session s;
	et_xnn_gemm_qs8_choose(et_xnn_gemm_qs8_at(0));
	test_draw_floats(x, (size_t)l.n_rows * l.depth);
	memset(ours, 0, sizeof(ours));
	memset(theirs, 0, sizeof(theirs));
	test_ok(begin(&s, bytes, n_bytes, 1, 0, &diag), &diag);
	test_ok(run(&s, &l, l.n_rows, x, theirs[0], theirs[1], &diag), &diag);
	test_session_end(&s);
	bool is_through = false;
	for (size_t n = 1; !is_through; n++) {
		diag = (struct et_diag){ 0 };
		test_counting.n_calls = 0;
		test_counting.fail_at = n;
		enum et_status status = begin(&s, bytes, n_bytes, 1, 0, &diag);
		if (status == ET_OK)
			status = run(&s, &l, l.n_rows, x, ours[0], ours[1], &diag);
		is_through = test_counting.n_calls < n;
		test_counting.fail_at = 0;
		if (status != ET_OK)
			assert_true(diag.text[0]);
		else
			assert_memory_equal(ours, theirs, sizeof(ours));
		if (s.instance) /* memory is back, and nothing is half done */
			test_ok(run(&s, &l, l.n_rows, x, ours[0], ours[1], &diag), &diag);
		if (is_through)
			assert_int_equal(status, ET_OK);
		test_session_end(&s);
	}
	et_xnn_gemm_qs8_choose(NULL);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sizes, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_large, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_others, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_odd_numbers, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_no_memory, test_set_up, test_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
