/* SPDX-License-Identifier: BSD-3-Clause */
/* Span functions that only some processors have vectors for: compiled once for each instruction set, as ukernels.c is. */
#ifndef RUNTIME_KERNELS_SIMD_SPAN_UKERNELS_H
#define RUNTIME_KERNELS_SIMD_SPAN_UKERNELS_H

#include "runtime/kernels/simd/span.h"

/* c = a b, of @n_rows by @n_k and by @n_columns; strides in elements. Rows of b and c lie in one piece. */
struct et_product {
	size_t n_rows, n_columns, n_k;
	const void *a, *b;
	void *c;
	ptrdiff_t a_row, a_col, b_row, c_row;
};

/* How many differ, the sum of differences, the root of that of their squares, the largest difference. */
enum et_distance { ET_DISTANCE_COUNT, ET_DISTANCE_SUM, ET_DISTANCE_SQUARES, ET_DISTANCE_LARGEST };

enum { ET_DISTANCES = 64 }; /* at once, at the most */

/* From one vector to @n_others, of which each row of @others holds one number of each: rows are ET_DISTANCES apart, and up to
 * the next eight of them there are numbers of any kind. The same is true of @sums, to which is added; roots are taken after the last numbers. */
struct et_distances {
	size_t n, n_others;
	bool is_last;
	const void *from, *others;
	double *sums;
};

enum { ET_SHORT_ROW = 64 /* bytes */ };

struct et_span_ukernels {
	/* By class; NULL for those of floats. More bits than there are, or less than none, leave nothing, or the sign. */
	et_span_fn left_shift[ET_N_SPANS], right_shift[ET_N_SPANS];
	/* Of floats and doubles: what is left of a quotient cut to an integer, or rounded down to one, and the latter. As Python
	 * has them: floats as if computed in double, doubles beyond 2^51 as those round. */
	et_span_fn fmod[2], remainder[2], floor_div[2];
	/* Of bfloat16, each way; to the nearest, ties to even. */
	void (*from_bf16)(size_t n, float *y, const uint16_t *x);
	void (*to_bf16)(size_t n, uint16_t *y, const float *x);
	/* Products that are too small to be made ready for, by class. Each sum takes its terms in order; what is narrower than
	 * int64 wraps around. */
	void (*multiply[ET_N_SPANS])(const struct et_product *product);
	/* The same where b is given by its columns, b_row apart, which lie in one piece, as a's rows do; in any order. */
	void (*multiply_transposed[ET_N_SPANS])(const struct et_product *product);
	/* Differences are of the type given, all else in double. */
	void (*float_distances)(const struct et_distances *distances, enum et_distance kind);
	void (*double_distances)(const struct et_distances *distances, enum et_distance kind);
	/* sums[j] += factors[k * col] * rows[k * row + j] for each k, in their order */
	void (*weigh_double_rows)(size_t n, double *sums, size_t n_k, const double *rows, ptrdiff_t row,
		const double *factors, ptrdiff_t col);
	void (*weigh_long_rows)(size_t n, int64_t *sums, size_t n_k, const int64_t *rows, ptrdiff_t row,
		const int64_t *factors, ptrdiff_t col);
	/* sums[k] += rows[r * step + k] for each r in its turn */
	void (*add_float_rows)(size_t n, double *sums, size_t n_rows, const float *rows, ptrdiff_t step);
	void (*add_double_rows)(size_t n, double *sums, size_t n_rows, const double *rows, ptrdiff_t step);
	/* The sum of x, and of the squares of its distance to @center, in any order. */
	double (*sum_doubles)(size_t n, const double *x);
	double (*squares_of_doubles)(size_t n, const double *x, double center);
	/* best[k] = numbers[k] and where[k] = row, for those that are larger, or smaller; where may be NULL */
	void (*larger_longs)(size_t n, int64_t *best, int64_t *where, const int64_t *numbers, int64_t row);
	void (*smaller_longs)(size_t n, int64_t *best, int64_t *where, const int64_t *numbers, int64_t row);
	/* The same, where each of the others has a row of its own, and the first of equals is wanted. */
	void (*merge_larger_longs)(size_t n, int64_t *best, int64_t *where, const int64_t *others, const int64_t *rows);
	void (*merge_smaller_longs)(size_t n, int64_t *best, int64_t *where, const int64_t *others,
		const int64_t *rows);
	/* Of each of @n_rows rows of @n numbers, one number or more and no more than ET_SHORT_ROW bytes, which lie one behind the
	 * other; by class. NaN if one is. */
	void (*largest_of_rows[ET_N_SPANS])(size_t n_rows, size_t n, void *results, const void *rows);
	void (*smallest_of_rows[ET_N_SPANS])(size_t n_rows, size_t n, void *results, const void *rows);
	/* The same of longer rows, @step numbers apart. */
	void (*largest_of_doubles)(size_t n_rows, size_t n, double *results, const double *rows, ptrdiff_t step);
	void (*smallest_of_doubles)(size_t n_rows, size_t n, double *results, const double *rows, ptrdiff_t step);
	void (*largest_of_longs)(size_t n_rows, size_t n, int64_t *results, const int64_t *rows, ptrdiff_t step);
	void (*smallest_of_longs)(size_t n_rows, size_t n, int64_t *results, const int64_t *rows, ptrdiff_t step);
	/* @n floats, a power of two, times a Hadamard matrix over the root of @n: steps of 1, 2, 4 … in this order. */
	void (*hadamard)(size_t n, float *row);
	/* Of one number or more; NaN if one is. */
	double (*largest_double)(size_t n, const double *x);
	double (*smallest_double)(size_t n, const double *x);
	int64_t (*largest_long)(size_t n, const int64_t *x);
	int64_t (*smallest_long)(size_t n, const int64_t *x);
};

/* The best one for this processor. */
const struct et_span_ukernels *et_span_ukernels(void);

extern const struct et_span_ukernels et_span_ukernels_base;
#ifdef __x86_64__
extern const struct et_span_ukernels et_span_ukernels_avx2;
extern const struct et_span_ukernels et_span_ukernels_avx512;
#endif

#endif
