/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix products compared with the plain definition: every way through et_gemm, with rows, terms and columns on both
 * sides of where it changes its way; with an initial value for each row, or C's own values. Nothing beside C may be
 * written. */
#include "runtime/kernels/engine/gemm.h"
#include "runtime/kernels/simd/ukernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

enum { BESIDE = 12345 };

/* The layout of the matrices. */
struct layout {
	bool is_a_transposed, is_b_transposed, is_c_transposed;
	size_t gap; /* behind each row, or each column if transposed */
};

static uint32_t seed = 1;

/* Small integers: every sum is exact, in any order. */
static float draw(void)
{
	seed = seed * 1664525 + 1013904223;
	return (float)(seed >> 16 & 7) - 3;
}

static float *draw_floats(size_t n)
{
	float *floats = malloc((n ? n : 1) * sizeof(*floats));
	assert_non_null(floats);
	for (size_t i = 0; i < n; i++)
		floats[i] = draw();
	return floats;
}

static void set_strides(bool is_transposed, size_t n_rows, size_t n_columns, size_t gap, ptrdiff_t *ret_row,
	ptrdiff_t *ret_col)
{
	*ret_row = is_transposed ? 1 : (ptrdiff_t)(n_columns + gap);
	*ret_col = is_transposed ? (ptrdiff_t)(n_rows + gap) : 1;
}

static size_t place(ptrdiff_t row_step, ptrdiff_t col_step, size_t row, size_t column)
{
	return (size_t)((ptrdiff_t)row * row_step + (ptrdiff_t)column * col_step);
}

static size_t room(const struct layout *l, size_t n_rows, size_t n_columns)
{
	size_t most = n_rows > n_columns ? n_rows : n_columns, least = n_rows + n_columns - most;
	return (most + l->gap + 1) * (least + l->gap + 1);
}

static void check(size_t n_rows, size_t n_columns, size_t n_k, const struct layout *l, bool has_init)
{
	size_t n_c = room(l, n_rows, n_columns);
	float *a = draw_floats(room(l, n_rows, n_k)), *b = draw_floats(room(l, n_k, n_columns)), *c = draw_floats(n_c),
	      *init = draw_floats(n_rows), *held = draw_floats(n_c);
	bool *is_c = calloc(n_c, sizeof(*is_c));
	assert_non_null(is_c);
	struct et_matrix matrix = { .data = b };
	struct et_gemm gemm = { .n_rows = n_rows,
		.n_columns = n_columns,
		.n_k = n_k,
		.a = a,
		.panel = et_matrix_panel,
		.b = &matrix,
		.c = c,
		.init = has_init ? init : NULL };
	set_strides(l->is_a_transposed, n_rows, n_k, l->gap, &gemm.a_row, &gemm.a_col);
	set_strides(l->is_b_transposed, n_k, n_columns, l->gap, &matrix.row, &matrix.col);
	set_strides(l->is_c_transposed, n_rows, n_columns, l->gap, &gemm.c_row, &gemm.c_col);
	for (size_t i = 0; i < n_rows; i++)
		for (size_t j = 0; j < n_columns; j++)
			is_c[place(gemm.c_row, gemm.c_col, i, j)] = true;
	for (size_t i = 0; i < n_c; i++) {
		c[i] = is_c[i] ? c[i] : BESIDE;
		held[i] = c[i];
	}
	et_gemm(NULL, &gemm);
	for (size_t i = 0; i < n_rows; i++)
		for (size_t j = 0; j < n_columns; j++) {
			size_t at = place(gemm.c_row, gemm.c_col, i, j);
			float sum = has_init ? init[i] : held[at];
			for (size_t k = 0; k < n_k; k++)
				sum += a[place(gemm.a_row, gemm.a_col, i, k)] * b[place(matrix.row, matrix.col, k, j)];
			assert_true(c[at] == sum);
		}
	for (size_t i = 0; i < n_c; i++)
		assert_true(is_c[i] || c[i] == BESIDE);
	free(a);
	free(b);
	free(c);
	free(init);
	free(held);
	free(is_c);
}

static void check_layouts(size_t n_rows, size_t n_columns, size_t n_k)
{
	for (unsigned i = 0; i < 32; i++) {
		struct layout l = { i & 1, i & 2, i & 4, i & 8 ? 3 : 0 };
		check(n_rows, n_columns, n_k, &l, i & 16);
	}
}

/* Few rows with few terms are multiplied row by row, each with its own initial value. */
static void few_rows(void **state)
{
	for (size_t n_rows = 0; n_rows <= 6; n_rows++)
		for (size_t n_k = 0; n_k <= 20; n_k += n_k < 2 ? 1 : 3)
			for (size_t n_columns = 1; n_columns <= 90; n_columns += 11)
				check_layouts(n_rows, n_columns, n_k);
}

/* Blocks of terms, tiles that are cut off, one column. */
static void many(void **state)
{
	static const size_t sizes[][3] = { { 70, 33, 17 }, { 5, 130, 300 }, { 9, 1, 40 }, { 33, 16, 257 },
		{ 1, 200, 600 }, { 2, 65, 16 }, { 4, 64, 16 }, { 5, 64, 16 }, { 4, 68, 17 } };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		check_layouts(sizes[i][0], sizes[i][1], sizes[i][2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_rows),
		cmocka_unit_test(many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
