/* SPDX-License-Identifier: BSD-3-Clause */
/* The micro-kernels of float: the innermost loops, compiled once for each instruction set that is worth it.
 *
 * ukernels.c, span_ukernels.c and cast_ukernels.c are the only files built more than once: for the baseline of the
 * architecture and, on x86-64, also for AVX2 with FMA and for AVX-512. All is plain C on vector types. dispatch.c asks
 * the processor once which build it runs. The builds' results differ in rounding only. */
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
	/* c[i][j] = init[i] + sum over k of a[i * a_row + k * a_col] * b[k][j], for a whole tile. Rows of b are
	 * tile_columns apart, rows of c are c_row apart; init NULL: start from c's own values. */
	void (*tile)(size_t n_k, const float *a, ptrdiff_t a_row, ptrdiff_t a_col, const float *b, float *c,
		ptrdiff_t c_row, const float *init);
	float (*dot)(size_t n, const float *a, const float *b);
	/* y[i] += x[i * stride] * factor */
	void (*add_scaled)(size_t n, float *y, const float *x, ptrdiff_t stride, float factor);
	/* y[i] = init + sum over t of x[i + offsets[t]] * factors[t] */
	void (*stencil)(size_t n, float *y, const float *x, size_t n_taps, const ptrdiff_t *offsets,
		const float *factors, float init);
	/* y[i] += a[i] * b[i] */
	void (*add_product)(size_t n, float *y, const float *a, const float *b);
	/* The sum of x, and the sum of the squares of x[i] - center; computed in double. */
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
	/* One function of each x[i]; y may be x. (The prefix is needed because <tgmath.h> makes plain names macros.) */
	void (*each_exp)(size_t n, float *y, const float *x);
	void (*each_expm1)(size_t n, float *y, const float *x); /* only for x[i] <= 0, or NaN */
	void (*each_sigmoid)(size_t n, float *y, const float *x);
	void (*each_tanh)(size_t n, float *y, const float *x);
	void (*each_gelu)(size_t n, float *y, const float *x);
	void (*each_log)(size_t n, float *y, const float *x);
	void (*each_log2)(size_t n, float *y, const float *x);
	void (*each_log10)(size_t n, float *y, const float *x);
	void (*each_log1p)(size_t n, float *y, const float *x);
	void (*each_sin)(size_t n, float *y, const float *x);
	void (*each_cos)(size_t n, float *y, const float *x);
	/* y[i] = x[i] to the power of exponents[i]; y may be x or exponents */
	void (*each_pow)(size_t n, float *y, const float *x, const float *exponents);
	/* @n is at least 1; NaN if one of x is NaN. */
	float (*largest)(size_t n, const float *x);
	float (*smallest)(size_t n, const float *x);
	void (*from_fp16)(size_t n, float *y, const uint16_t *x);
	void (*to_fp16)(size_t n, uint16_t *y, const float *x);
	/* y[i] = (x[i] - zero) * scale; x is int8 or uint8 */
	void (*scale_bytes)(size_t n, float *y, const uint8_t *x, bool is_signed, float zero, float scale);
	/* y[i] = e^(x[i] - largest) / sum of these, or the logarithm of that. y may be x. */
	void (*softmax_row)(size_t n, float *y, const float *x, bool is_log);
	/* The same down each of @n_columns adjacent columns; rows of x and of y are @stride apart. */
	void (*softmax_columns)(size_t n_columns, size_t n_rows, float *y, const float *x, size_t stride, bool is_log);
};

/* The best build for this processor. */
const struct et_ukernels *et_ukernels(void);

extern const struct et_ukernels et_ukernels_base;
#ifdef __x86_64__
extern const struct et_ukernels et_ukernels_avx2;
extern const struct et_ukernels et_ukernels_avx512;
#endif

#endif
