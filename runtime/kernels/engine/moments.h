/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and squares of distances: what means and variances are made of, in double. */
#ifndef RUNTIME_KERNELS_ENGINE_MOMENTS_H
#define RUNTIME_KERNELS_ENGINE_MOMENTS_H

#include "runtime/kernels/engine/dtype.h"

/* @value as half types keep it between two operations; other types compute exactly. */
static inline double et_half_or_exact(const struct et_tensor *x, double value)
{
	return et_type_is_half(x->type) ? et_round_to(value, x->type) : value;
}

/* Of a few numbers, where a call would cost as much: the sum, and that of the squares of their distance to @center. Several sums,
 * which do not wait for each other. */
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

/* The sum of @n numbers, and of the squares of their distance to @center, added to what is there; NULL is not wanted. */
void et_add_doubles(const double *x, size_t n, double *sum, double *squares, double center);
/* The same of @n elements of any type that becomes a double, from @data on, which may lie anywhere. */
void et_add_moments(const uint8_t *data, enum et_scalar_type type, size_t n, double *sum, double *squares,
	double center);

/* A batch of @n_batch times @n planes of @inner elements at @data, which may be of another type than what is normalized. */
struct et_batch {
	const uint8_t *data;
	enum et_scalar_type type;
	size_t n_batch, n, inner;
};

/* Mean and variance of channel @c; of half types by way of sums that are rounded after each plane, as the original does.
 * @like: the tensor that is normalized. */
void et_channel_moments(const struct et_batch *x, const struct et_tensor *like, size_t c, double *ret_mean,
	double *ret_var);

#endif
