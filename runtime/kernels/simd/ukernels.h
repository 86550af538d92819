/* SPDX-License-Identifier: BSD-3-Clause */
/* The innermost loops, compiled once for each instruction set that is worth it.
 *
 * ukernels.c is the only file built more than once: for the baseline of the architecture, and on x86-64 for
 * AVX2 with FMA and for AVX-512 too. Everything in it is plain C on vector types; which build runs is
 * decided once, by asking the processor. The results differ in rounding only. */
#ifndef RUNTIME_KERNELS_SIMD_UKERNELS_H
#define RUNTIME_KERNELS_SIMD_UKERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ET_TILE_MAX_ROWS = 8,
	ET_TILE_MAX_COLUMNS = 32,
};

struct et_ukernels {
	const char *name;
	size_t tile_rows, tile_columns;
	/* c[i][j] = begin[i] + sum over k of a[i * a_row + k * a_col] * b[k][j], for a whole tile. Rows of b
	 * are tile_columns apart, rows of c c_row; begin NULL: c's own values. */
	void (*tile)(size_t n_k, const float *a, ptrdiff_t a_row, ptrdiff_t a_col, const float *b, float *c,
		ptrdiff_t c_row, const float *begin);
	float (*dot)(size_t n, const float *a, const float *b);
	/* y[i] += x[i * stride] * factor */
	void (*add_scaled)(size_t n, float *y, const float *x, ptrdiff_t stride, float factor);
	/* y[i] = begin + sum over t of x[i + offsets[t]] * factors[t] */
	void (*stencil)(size_t n, float *y, const float *x, size_t n_taps, const ptrdiff_t *offsets,
		const float *factors, float begin);
	/* y[i] += a[i] * b[i] */
	void (*add_product)(size_t n, float *y, const float *a, const float *b);
	/* The sum of x, and of the squares of its distance to @center: in double. */
	double (*sum)(size_t n, const float *x);
	double (*squares)(size_t n, const float *x, double center);
	/* y[i] = (x[i] - center) * factor * weight[i] + bias[i] */
	void (*normalize)(size_t n, float *y, const float *x, float center, float factor, const float *weight,
		const float *bias);
	/* y[i] = sum over k of x[k] * rows[i * stride + k] */
	void (*dots)(size_t n_rows, size_t n, float *y, const float *x, const float *rows, ptrdiff_t stride);
	/* y[k] = sum over i of weights[i] * rows[i * stride + k] */
	void (*weighted_rows)(size_t n_rows, size_t n, float *y, const float *weights, const float *rows,
		ptrdiff_t stride);
	/* Of each; y may be x. (No plain names: <tgmath.h> makes those macros.) */
	void (*each_exp)(size_t n, float *y, const float *x);
	void (*each_expm1)(size_t n, float *y, const float *x); /* of what is not above 0, or NaN */
	void (*each_sigmoid)(size_t n, float *y, const float *x);
	void (*each_tanh)(size_t n, float *y, const float *x);
	void (*each_gelu)(size_t n, float *y, const float *x);
	void (*each_log)(size_t n, float *y, const float *x);
	void (*each_log2)(size_t n, float *y, const float *x);
	void (*each_log10)(size_t n, float *y, const float *x);
	void (*each_log1p)(size_t n, float *y, const float *x);
	void (*each_sin)(size_t n, float *y, const float *x);
	void (*each_cos)(size_t n, float *y, const float *x);
	/* y[i] = x[i] to the power of exponents[i], each of which y may be */
	void (*each_pow)(size_t n, float *y, const float *x, const float *exponents);
	/* Of one number or more; NaN if one is. */
	float (*largest)(size_t n, const float *x);
	float (*smallest)(size_t n, const float *x);
	void (*from_fp16)(size_t n, float *y, const uint16_t *x);
	void (*to_fp16)(size_t n, uint16_t *y, const float *x);
	/* y[i] = (x[i] - zero) * scale, of int8 or uint8 */
	void (*scale_bytes)(size_t n, float *y, const uint8_t *x, bool is_signed, float zero, float scale);
	/* e^(x - largest) over their sum, or the logarithm of that. y may be x. */
	void (*softmax_row)(size_t n, float *y, const float *x, bool is_log);
	/* Down each of @n_columns neighbours; rows are @stride apart in both. */
	void (*softmax_columns)(size_t n_columns, size_t n_rows, float *y, const float *x, size_t stride, bool is_log);
};

/* The best one for this processor. */
const struct et_ukernels *et_ukernels(void);

extern const struct et_ukernels et_ukernels_base;
#ifdef __x86_64__
extern const struct et_ukernels et_ukernels_avx2;
extern const struct et_ukernels et_ukernels_avx512;
#endif

#endif
