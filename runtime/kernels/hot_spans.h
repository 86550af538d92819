/* Span functions that only some processors have vectors for: compiled once for each instruction set, as hot.c is. */
#ifndef RUNTIME_KERNELS_HOT_SPANS_H
#define RUNTIME_KERNELS_HOT_SPANS_H

#include "runtime/kernels/map.h"

/* c = a b, of @n_rows by @n_k and by @n_columns; strides in elements. Rows of b and c lie in one piece. */
struct et_product {
	size_t n_rows, n_columns, n_k;
	const void *a, *b;
	void *c;
	ptrdiff_t a_row, a_col, b_row, c_row;
};

/* How many differ, the sum of differences, the root of that of their squares, the largest difference. */
enum et_distance { ET_DISTANCE_COUNT, ET_DISTANCE_SUM, ET_DISTANCE_SQUARES, ET_DISTANCE_LARGEST };

struct et_hot_spans {
	/* By class; NULL for those of floats. More bits than there are, or less than none, leave nothing, or the sign. */
	et_span_fn left_shift[ET_N_SPANS], right_shift[ET_N_SPANS];
	/* Of bfloat16, each way; to the nearest, ties to even. */
	void (*from_bfloat16s)(size_t n, float *y, const uint16_t *x);
	void (*to_bfloat16s)(size_t n, uint16_t *y, const float *x);
	/* Products that are too small to be made ready for, by class. Each sum takes its terms in order; what is narrower than
	 * int64 wraps around. */
	void (*multiply[ET_N_SPANS])(const struct et_product *product);
	/* From the @n numbers at @a to as many at each of @n_others places, @step apart; in double, but for differences. */
	void (*float_distances)(const float *a, const float *others, ptrdiff_t step, size_t n_others,
		size_t n, double *distances, enum et_distance kind);
	void (*double_distances)(const double *a, const double *others, ptrdiff_t step, size_t n_others,
		size_t n, double *distances, enum et_distance kind);
	/* sums[k] += rows[r * step + k] for each r in its turn */
	void (*add_float_rows)(size_t n, double *sums, size_t n_rows, const float *rows, ptrdiff_t step);
	void (*add_double_rows)(size_t n, double *sums, size_t n_rows, const double *rows, ptrdiff_t step);
	/* Of one number or more; NaN if one is. */
	double (*largest_double)(size_t n, const double *x);
	double (*smallest_double)(size_t n, const double *x);
	int64_t (*largest_long)(size_t n, const int64_t *x);
	int64_t (*smallest_long)(size_t n, const int64_t *x);
};

/* The best one for this processor. */
const struct et_hot_spans *et_hot_spans(void);

extern const struct et_hot_spans et_hot_spans_base;
#ifdef __x86_64__
extern const struct et_hot_spans et_hot_spans_avx2;
extern const struct et_hot_spans et_hot_spans_avx512;
#endif

#endif
