/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums, and sums of squared differences, in double: for means and variances. */
#ifndef RUNTIME_KERNELS_ENGINE_MOMENTS_H
#define RUNTIME_KERNELS_ENGINE_MOMENTS_H

#include "runtime/kernels/engine/dtype.h"

/* @value rounded to the tensor's type if that is fp16 or bf16, as ExecuTorch keeps it between two operations; other
 * types compute exactly. */
static inline double et_half_or_exact(const struct et_tensor *x, double value)
{
	return et_type_is_half(x->type) ? et_round_to(value, x->type) : value;
}

/* For so few numbers that a call would cost as much: the sum, and the sum of the squares of x[i] - center. Four
 * independent partial sums. */
static inline double et_sum_few(const double *x, size_t n)
{
	double sums[4] = { 0 };
	size_t k = 0;
	for (; k + 4 <= n; k += 4) {
		for (size_t lane = 0; lane < 4; lane++)
			sums[lane] += x[k + lane];
	}
	for (; k < n; k++)
		sums[0] += x[k];
	return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static inline double et_squares_few(const double *x, size_t n, double center)
{
	double sums[4] = { 0 };
	size_t k = 0;
	for (; k + 4 <= n; k += 4) {
		for (size_t lane = 0; lane < 4; lane++)
			sums[lane] += (x[k + lane] - center) * (x[k + lane] - center);
	}
	for (; k < n; k++)
		sums[0] += (x[k] - center) * (x[k] - center);
	return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* Add the sum of @n numbers to *sum, and the sum of the squares of x[i] - center to *squares; NULL: not wanted. */
void et_add_doubles(const double *x, size_t n, double *sum, double *squares, double center);
/* The same for @n dense elements of any type with a loader, at any alignment. */
void et_add_moments(const uint8_t *data, enum et_scalar_type type, size_t n, double *sum, double *squares,
	double center);

/* A batch of @n_batch times @n planes of @inner elements at @data. The type may differ from that of the normalized
 * tensor. */
struct et_batch {
	const uint8_t *data;
	enum et_scalar_type type;
	size_t n_batch, n, inner;
};

/* Mean and variance of channel @c. If @like, the tensor that is normalized, is fp16 or bf16, the sums are rounded after
 * each plane, as ExecuTorch does. */
void et_channel_moments(const struct et_batch *x, const struct et_tensor *like, size_t c, double *ret_mean,
	double *ret_var);

#endif
