/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocking around the GEMM tile of ukernels.c.
 *
 * One task is one panel of columns, as wide as a tile, times a range of rows. It packs BLOCK_K rows of the panel at a
 * time into a buffer on its stack and goes down the rows of A. Tiles cut off by an edge, and all tiles if C's columns
 * are not adjacent, go through a buffer of their own.
 *
 * Products with very few rows skip the packing: they read B only once. */
#include "runtime/kernels/engine/gemm.h"
#include "runtime/kernels/simd/ukernels.h"

#include <stdbool.h>
#include <string.h>

enum {
	BLOCK_K = 256,
	ROWS_PER_TASK = 64, /* if there are too few panels to share out */
	WORK_PER_TASK = 1 << 18,
	FEW_ROWS = 4,
	FEW_TRANSPOSED_ROWS = 3, /* one more row would make transposing a panel worth its time */
	FEW_TERMS = 16,
};

enum { TILE = 4 };

/* A panel of B whose columns are dense, as a layer's weights are: transposed by small tiles, which are read and written
 * as vectors. */
static void transpose_panel(const float *from, ptrdiff_t step, size_t n_k, size_t n_columns, float *panel, size_t width)
{
	typedef float four __attribute__((vector_size(TILE * sizeof(float))));
	size_t j = 0;
	for (; j + TILE <= n_columns; j += TILE, from += TILE * step, panel += TILE) {
		size_t k = 0;
		for (; k + TILE <= n_k; k += TILE) {
			four in[TILE], half[TILE], out[TILE];
			for (ptrdiff_t i = 0; i < TILE; i++)
				memcpy(&in[i], from + i * step + k, sizeof(in[i]));
			for (size_t i = 0; i < TILE; i += 2) {
				half[i] = __builtin_shufflevector(in[i], in[i + 1], 0, 4, 1, 5);
				half[i + 1] = __builtin_shufflevector(in[i], in[i + 1], 2, 6, 3, 7);
			}
			for (size_t i = 0; i < 2; i++) {
				out[2 * i] = __builtin_shufflevector(half[i], half[i + 2], 0, 1, 4, 5);
				out[2 * i + 1] = __builtin_shufflevector(half[i], half[i + 2], 2, 3, 6, 7);
			}
			for (size_t i = 0; i < TILE; i++)
				memcpy(panel + (k + i) * width, &out[i], sizeof(out[i]));
		}
		for (; k < n_k; k++) {
			for (ptrdiff_t i = 0; i < TILE; i++)
				panel[k * width + (size_t)i] = from[i * step + (ptrdiff_t)k];
		}
	}
	for (; j < n_columns; j++, from += step, panel++) {
		for (size_t k = 0; k < n_k; k++)
			panel[k * width] = from[k];
	}
}

void et_matrix_panel(const void *matrix, size_t first_k, size_t n_k, size_t first_column, size_t n_columns,
	float *panel, size_t width)
{
	const struct et_matrix *b = matrix;
	const float *from = b->data + (ptrdiff_t)first_k * b->row + (ptrdiff_t)first_column * b->col;
	if (b->row == 1 && b->col != 1) {
		transpose_panel(from, b->col, n_k, n_columns, panel, width);
		return;
	}
	for (size_t k = 0; k < n_k; k++, from += b->row, panel += width) {
		if (b->col == 1) {
			memcpy(panel, from, n_columns * sizeof(*panel));
		} else {
			for (size_t j = 0; j < n_columns; j++)
				panel[j] = from[(ptrdiff_t)j * b->col];
		}
	}
}

struct job {
	const struct et_gemm *gemm;
	const struct et_compute *compute;
	const struct et_ukernels *ukernels;
	size_t n_panels;
	size_t rows_per_task;
};

/* A tile of which only @n_rows by @n_columns exist, or whose columns are not adjacent in C. */
static void edge_tile(const struct et_ukernels *ukernels, const struct et_gemm *g, size_t row, size_t n_rows,
	size_t column, size_t n_columns, size_t k, size_t n_k, const float *panel)
{
	float a[BLOCK_K * ET_TILE_MAX_ROWS], c[ET_TILE_MAX_ROWS * ET_TILE_MAX_COLUMNS];
	float init[ET_TILE_MAX_ROWS] = { 0 };
	size_t rows = ukernels->tile_rows, columns = ukernels->tile_columns;
	const float *from = g->a + (ptrdiff_t)row * g->a_row + (ptrdiff_t)k * g->a_col;
	float *to = g->c + (ptrdiff_t)row * g->c_row + (ptrdiff_t)column * g->c_col;
	bool is_first = g->init && k == 0;
	ptrdiff_t a_row = g->a_row, a_col = g->a_col;
	if (n_rows < rows) {
		for (size_t i = 0; i < n_k; i++) {
			for (size_t r = 0; r < rows; r++)
				a[i * rows + r] = r < n_rows ? from[(ptrdiff_t)r * a_row + (ptrdiff_t)i * a_col] : 0;
		}
		from = a;
		a_row = 1;
		a_col = (ptrdiff_t)rows;
	}
	ukernels->tile(n_k, from, a_row, a_col, panel, c, (ptrdiff_t)columns, init);
	for (size_t i = 0; i < n_rows; i++, to += g->c_row) {
		const float *tile = c + i * columns;
		for (size_t j = 0; is_first && j < n_columns; j++)
			to[(ptrdiff_t)j * g->c_col] = g->init[row + i];
		for (size_t j = 0; g->c_col == 1 && j < n_columns; j++)
			to[j] += tile[j];
		for (size_t j = 0; g->c_col != 1 && j < n_columns; j++)
			to[(ptrdiff_t)j * g->c_col] += tile[j];
	}
}

static void run_tasks(void *arg, size_t first, size_t end)
{
	const struct job *job = arg;
	const struct et_gemm *g = job->gemm;
	const struct et_ukernels *ukernels = job->ukernels;
	float panel[BLOCK_K * ET_TILE_MAX_COLUMNS];
	size_t rows = ukernels->tile_rows, columns = ukernels->tile_columns;
	struct et_pace pace = { job->compute };
	for (size_t task = first; task < end; task++) {
		size_t column = task % job->n_panels * columns;
		size_t first_row = task / job->n_panels * job->rows_per_task;
		size_t end_row = first_row + job->rows_per_task;
		size_t n_columns = g->n_columns - column < columns ? g->n_columns - column : columns;
		end_row = end_row < g->n_rows ? end_row : g->n_rows;
		if (n_columns < columns) /* only the part that is used, which matters for small products */
			memset(panel, 0, (g->n_k < BLOCK_K ? g->n_k : BLOCK_K) * columns * sizeof(*panel));
		for (size_t k = 0; k < g->n_k || k == 0; k += BLOCK_K) {
			size_t n_k = g->n_k - k < BLOCK_K ? g->n_k - k : BLOCK_K;
			g->panel(g->b, k, n_k, column, n_columns, panel, columns);
			for (size_t row = first_row; row < end_row; row += rows) {
				size_t n_rows = end_row - row < rows ? end_row - row : rows;
				if (et_pace_must_stop(&pace, n_k))
					return;
				if (n_rows < rows || n_columns < columns || g->c_col != 1) {
					edge_tile(ukernels, g, row, n_rows, column, n_columns, k, n_k, panel);
					continue;
				}
				ukernels->tile(n_k, g->a + (ptrdiff_t)row * g->a_row + (ptrdiff_t)k * g->a_col,
					g->a_row, g->a_col, panel, g->c + (ptrdiff_t)row * g->c_row + (ptrdiff_t)column,
					g->c_row, g->init && k == 0 ? g->init + row : NULL);
			}
		}
	}
}

/* One row times a matrix in place: rows of B are added up, or dense columns of B are dot products. */
static void run_one_row(const struct job *job, size_t row, size_t first, size_t end)
{
	const struct et_gemm *g = job->gemm;
	const struct et_matrix *b = g->b;
	const float *a = g->a + (ptrdiff_t)row * g->a_row;
	float *c = g->c + (ptrdiff_t)row * g->c_row;
	if (b->row == 1 && g->a_col == 1) {
		struct et_pace pace = { job->compute };
		for (size_t j = first; j < end && !et_pace_must_stop(&pace, g->n_k); j++) {
			float *element = c + (ptrdiff_t)j * g->c_col;
			*element = (g->init ? g->init[row] : *element) +
				   job->ukernels->dot(g->n_k, a, b->data + (ptrdiff_t)j * b->col);
		}
		return;
	}
	for (size_t j = first; g->init && j < end; j++)
		c[j] = g->init[row];
	for (size_t done = 0, n; (n = et_next_chunk(job->compute, done, g->n_k)); done += n) {
		for (size_t k = done; k < done + n; k++)
			job->ukernels->add_scaled(end - first, c + first,
				b->data + (ptrdiff_t)k * b->row + (ptrdiff_t)first * b->col, b->col,
				a[(ptrdiff_t)k * g->a_col]);
	}
}

static void run_few_rows(void *arg, size_t first, size_t end)
{
	const struct job *job = arg;
	for (size_t row = 0; row < job->gemm->n_rows && !et_must_stop(job->compute); row++)
		run_one_row(job, row, first, end);
}

void et_gemm(const struct et_compute *compute, const struct et_gemm *gemm)
{
	if (gemm->n_rows == 0 || gemm->n_columns == 0)
		return;
	struct job job = { .gemm = gemm, .compute = compute, .ukernels = et_ukernels() };
	/* A few long rows with few terms are not worth packing panels. */
	bool is_one = gemm->n_rows == 1,
	     is_few = gemm->n_rows <= FEW_ROWS && gemm->n_k <= FEW_TERMS && gemm->n_columns >= 4 * gemm->n_k;
	if (gemm->n_rows <= FEW_ROWS && gemm->panel == et_matrix_panel) {
		const struct et_matrix *b = gemm->b;
		bool has_rows = (is_one || is_few) && b->row != 1 && b->col == 1 && gemm->c_col == 1;
		bool is_transposed = gemm->n_rows <= FEW_TRANSPOSED_ROWS && b->row == 1 && gemm->a_col == 1;
		if (has_rows || is_transposed) {
			et_parallel_for(compute, run_few_rows, &job, gemm->n_columns,
				WORK_PER_TASK / (gemm->n_k + 1) + 1);
			return;
		}
	}
	if (gemm->n_columns == 1 && gemm->n_rows > 1 && gemm->panel == et_matrix_panel && !gemm->init) {
		/* one column is one row of the transposed product */
		const struct et_matrix *b = gemm->b, a = { gemm->a, gemm->a_col, gemm->a_row };
		struct et_gemm transposed = { .n_rows = 1,
			.n_columns = gemm->n_rows,
			.n_k = gemm->n_k,
			.a = b->data,
			.a_row = b->col,
			.a_col = b->row,
			.panel = et_matrix_panel,
			.b = &a,
			.c = gemm->c,
			.c_row = gemm->c_col,
			.c_col = gemm->c_row };
		if (b->row == 1 && gemm->a_col == 1) {
			et_gemm(compute, &transposed);
			return;
		}
	}
	job.n_panels = (gemm->n_columns - 1) / job.ukernels->tile_columns + 1;
	job.rows_per_task = job.n_panels < 8 ? ROWS_PER_TASK / job.ukernels->tile_rows * job.ukernels->tile_rows
					     : gemm->n_rows;
	size_t n_tasks = job.n_panels * ((gemm->n_rows - 1) / job.rows_per_task + 1);
	size_t work = job.rows_per_task * job.ukernels->tile_columns * (gemm->n_k + 1);
	et_parallel_for(compute, run_tasks, &job, n_tasks, WORK_PER_TASK / work + 1);
}
