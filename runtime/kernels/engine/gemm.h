/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix multiplication in float: C = init + A B; blocked, packed and spread over threads.
 *
 * A is read in place. B is asked for in panels, so it need not exist as a matrix: convolution does its im2col here,
 * panel by panel. */
#ifndef RUNTIME_KERNELS_ENGINE_GEMM_H
#define RUNTIME_KERNELS_ENGINE_GEMM_H

#include "runtime/compute.h"

#include <stddef.h>

/* Write panel[k * width + j] = B[first_k + k][first_column + j] for k < n_k, j < n_columns. */
typedef void (*et_panel_fn)(const void *b, size_t first_k, size_t n_k, size_t first_column, size_t n_columns,
	float *panel, size_t width);

struct et_gemm {
	size_t n_rows, n_columns, n_k;
	const float *a;
	ptrdiff_t a_row, a_col;
	et_panel_fn panel;
	const void *b;
	float *c;
	ptrdiff_t c_row, c_col;
	const float *init; /* one value for each row; NULL: add to the values of C */
};
/* Blocks until C is complete. @gemm and all it points to are borrowed. Any thread may call it. C overlaps neither A nor
 * B. */
void et_gemm(const struct et_compute *compute, const struct et_gemm *gemm);

/* B as an ordinary matrix, for @panel. */
struct et_matrix {
	const float *data;
	ptrdiff_t row, col;
};
/* The et_panel_fn of a struct et_matrix. */
void et_matrix_panel(const void *matrix, size_t first_k, size_t n_k, size_t first_column, size_t n_columns,
	float *panel, size_t width);

#endif
