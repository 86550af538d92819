/* SPDX-License-Identifier: BSD-3-Clause */
/* Micro-kernels of all number types, and span functions, that only some processors have vectors for; compiled once for
 * each instruction set, like ukernels.c. */
#ifndef RUNTIME_KERNELS_SIMD_SPAN_UKERNELS_H
#define RUNTIME_KERNELS_SIMD_SPAN_UKERNELS_H

#include "runtime/kernels/simd/span.h"

/* c = a b: a is @n_rows by @n_k, b is @n_k by @n_columns. Strides in elements; rows of b and of c are dense. */
struct et_product {
	size_t n_rows, n_columns, n_k;
	const void *a, *b;
	void *c;
	ptrdiff_t a_row, a_col, b_row, c_row;
};

/* The number of differences that are not 0 (p = 0), the sum of their magnitudes (p = 1), the root of the sum of their
 * squares (p = 2), the largest magnitude (p = infinity). */
enum et_distance { ET_DISTANCE_COUNT, ET_DISTANCE_SUM, ET_DISTANCE_SQUARES, ET_DISTANCE_LARGEST };

enum { ET_DISTANCES = 64 }; /* at most, in one call */

/* Distances from one vector to @n_others vectors. Each row of @others holds one number of each of them: rows are
 * ET_DISTANCES apart, and numbers up to the next multiple of eight may be anything. @sums has the same layout; the
 * distances are added to it. Roots are taken after the last numbers (@is_last). */
struct et_distances {
	size_t n, n_others;
	bool is_last;
	const void *from, *others;
	double *sums;
};

enum { ET_SHORT_ROW = 64 /* bytes */ };

struct et_span_ukernels {
	/* Shifts, by compute class; NULL for float and double. A shift by a negative number or by more bits than the
	 * type has gives 0, or -1 for a negative number shifted right. */
	et_span_fn left_shift[ET_N_SPANS], right_shift[ET_N_SPANS];
	/* Divisions of float [0] and double [1]: remainder of truncated division, remainder of floored division,
	 * floored quotient, as Python has them: floats as if computed in double, doubles beyond 2^51 as double rounds
	 * them. */
	et_span_fn fmod[2], remainder[2], floor_div[2];
	/* bf16 to float and back; to the nearest, ties to even. */
	void (*from_bf16)(size_t n, float *y, const uint16_t *x);
	void (*to_bf16)(size_t n, uint16_t *y, const float *x);
	/* Matrix products too small to be worth packing, by compute class. Each sum takes its terms in order; types
	 * narrower than int64 wrap around. */
	void (*multiply[ET_N_SPANS])(const struct et_product *product);
	/* The same with b transposed: each column of b, and each row of a, is dense; columns of b are b_row apart.
	 * Terms are summed in any order. */
	void (*multiply_transposed[ET_N_SPANS])(const struct et_product *product);
	/* Differences are computed in the type, everything else in double. */
	void (*float_distances)(const struct et_distances *distances, enum et_distance kind);
	void (*double_distances)(const struct et_distances *distances, enum et_distance kind);
	/* sums[j] += factors[k * col] * rows[k * row + j], for k in order */
	void (*weigh_double_rows)(size_t n, double *sums, size_t n_k, const double *rows, ptrdiff_t row,
		const double *factors, ptrdiff_t col);
	void (*weigh_long_rows)(size_t n, int64_t *sums, size_t n_k, const int64_t *rows, ptrdiff_t row,
		const int64_t *factors, ptrdiff_t col);
	/* sums[k] += rows[r * step + k], for r in order */
	void (*add_float_rows)(size_t n, double *sums, size_t n_rows, const float *rows, ptrdiff_t step);
	void (*add_double_rows)(size_t n, double *sums, size_t n_rows, const double *rows, ptrdiff_t step);
	/* The sum of x, and the sum of the squares of x[i] - center; in any order. */
	double (*sum_doubles)(size_t n, const double *x);
	double (*squares_of_doubles)(size_t n, const double *x, double center);
	/* For each k with numbers[k] larger (smaller) than best[k]: best[k] = numbers[k], where[k] = row. where may be
	 * NULL. */
	void (*larger_longs)(size_t n, int64_t *best, int64_t *where, const int64_t *numbers, int64_t row);
	void (*smaller_longs)(size_t n, int64_t *best, int64_t *where, const int64_t *numbers, int64_t row);
	/* The same for others[k], whose row is rows[k]. Of equal numbers the one with the lower row stays. */
	void (*merge_larger_longs)(size_t n, int64_t *best, int64_t *where, const int64_t *others, const int64_t *rows);
	void (*merge_smaller_longs)(size_t n, int64_t *best, int64_t *where, const int64_t *others,
		const int64_t *rows);
	/* The largest (smallest) number of each of @n_rows rows, by compute class. Each row has @n >= 1 numbers and at
	 * most ET_SHORT_ROW bytes; rows are adjacent. NaN if a row has one. */
	void (*largest_of_rows[ET_N_SPANS])(size_t n_rows, size_t n, void *results, const void *rows);
	void (*smallest_of_rows[ET_N_SPANS])(size_t n_rows, size_t n, void *results, const void *rows);
	/* The same for longer rows, @step numbers apart. */
	void (*largest_of_doubles)(size_t n_rows, size_t n, double *results, const double *rows, ptrdiff_t step);
	void (*smallest_of_doubles)(size_t n_rows, size_t n, double *results, const double *rows, ptrdiff_t step);
	void (*largest_of_longs)(size_t n_rows, size_t n, int64_t *results, const int64_t *rows, ptrdiff_t step);
	void (*smallest_of_longs)(size_t n_rows, size_t n, int64_t *results, const int64_t *rows, ptrdiff_t step);
	/* @row, of @n floats (a power of two), times a Hadamard matrix, divided by the root of @n; in steps of 1, 2, 4
	 * …, in this order. */
	void (*hadamard)(size_t n, float *row);
	/* @n is at least 1; NaN if one of x is NaN. */
	double (*largest_double)(size_t n, const double *x);
	double (*smallest_double)(size_t n, const double *x);
	int64_t (*largest_long)(size_t n, const int64_t *x);
	int64_t (*smallest_long)(size_t n, const int64_t *x);
};

/* The best build for this processor. */
const struct et_span_ukernels *et_span_ukernels(void);

extern const struct et_span_ukernels et_span_ukernels_base;
#ifdef __x86_64__
extern const struct et_span_ukernels et_span_ukernels_avx2;
extern const struct et_span_ukernels et_span_ukernels_avx512;
#endif

#endif
