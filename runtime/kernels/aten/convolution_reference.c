/* SPDX-License-Identifier: BSD-3-Clause */
/* The plain way through a convolution: sums in double, or in integers that wrap around.
 *
 * Each output element sums what its kernel covers. Transposed: each input element is spread over the outputs it
 * reaches, so that no output position has to search for its input positions, which takes a division each. Only when
 * each kernel position's contribution is rounded, transposed convolutions are summed by output elements too. */
#include "runtime/kernels/aten/convolution.h"

/* For double, and for integers, which wrap around. */
#define SUM_UNDER_KERNEL(name, number)                                                                              \
	static number name(const struct et_conv *c, const number *x, const number *weight, const int64_t *out)      \
	{                                                                                                           \
		/* A transposed weight is (input channel, output channel, space): the caller points */              \
		/* at the output channel. */                                                                        \
		int64_t weight_channel = c->weight.strides[c->is_transposed ? 0 : 1];                               \
		int64_t n_rows = c->kernel[0] * c->kernel[1], kd = 0, kh = 0;                                       \
		number sum = 0;                                                                                     \
		for (int64_t row = 0; row < n_rows; row++, kh++) {                                                  \
			if (kh == c->kernel[1]) {                                                                   \
				kh = 0;                                                                             \
				kd++;                                                                               \
			}                                                                                           \
			int64_t d = et_conv_meet(c, 0, out[0], kd), h = et_conv_meet(c, 1, out[1], kh);             \
			if (d < 0 || h < 0)                                                                         \
				continue;                                                                           \
			const number *pixels = x + d * c->x.strides[2] + h * c->x.strides[3];                       \
			const number *factors = weight + kd * c->weight.strides[2] + kh * c->weight.strides[3];     \
			for (int64_t kw = 0; kw < c->kernel[2]; kw++) {                                             \
				int64_t w = et_conv_meet(c, 2, out[2], kw);                                         \
				const number *pixel = pixels + w * c->x.strides[4];                                 \
				const number *factor = factors + kw * c->weight.strides[4];                         \
				number part = 0;                                                                    \
				for (int64_t i = 0; w >= 0 && i < c->in_channels; i++)                              \
					part += pixel[i * c->x.strides[1]] * factor[i * weight_channel];            \
				if (c->rounds_parts && w >= 0)                                                      \
					sum = (number)et_round_to((double)sum + et_round_to((double)part, c->type), \
						c->type);                                                           \
				else                                                                                \
					sum += part;                                                                \
			}                                                                                           \
		}                                                                                                   \
		return sum;                                                                                         \
	}
SUM_UNDER_KERNEL(sum_doubles, double)
SUM_UNDER_KERNEL(sum_ints, uint64_t)

/* The output position of an input position and a kernel position of a transposed convolution. */
static inline int64_t spread_to(const struct et_conv *c, size_t d, int64_t in, int64_t kernel)
{
	return in * c->stride[d] - c->padding[d] + kernel * c->dilation[d];
}

static inline bool is_within(int64_t at, int64_t size)
{
	return at >= 0 && at < size;
}

/* One output channel of a transposed convolution: each input row times each row of the kernel is added to the output
 * row it belongs to. */
#define SPREAD_KERNEL(name, number)                                                                                  \
	static void name##_row(const struct et_conv *c, const number *x, const number *weight, number *y)            \
	{                                                                                                            \
		for (int64_t w = 0; w < c->in[2]; w++) {                                                             \
			for (int64_t kw = 0; kw < c->kernel[2]; kw++) {                                              \
				int64_t to = spread_to(c, 2, w, kw);                                                 \
				if (is_within(to, c->out[2]))                                                        \
					y[to * c->y.strides[4]] += x[w * c->x.strides[4]] *                          \
								   weight[kw * c->weight.strides[4]];                \
			}                                                                                            \
		}                                                                                                    \
	}                                                                                                            \
	static void name##_plane(const struct et_conv *c, const number *x, const number *weight, number *y)          \
	{                                                                                                            \
		struct et_pace pace = { c->compute };                                                                \
		const size_t n_terms = (size_t)(c->in[2] * c->kernel[1] * c->kernel[2]);                             \
		for (int64_t h = 0; h < c->in[1] && !et_pace_must_stop(&pace, n_terms); h++) {                       \
			for (int64_t kh = 0; kh < c->kernel[1]; kh++) {                                              \
				int64_t to = spread_to(c, 1, h, kh);                                                 \
				if (is_within(to, c->out[1]))                                                        \
					name##_row(c, x + h * c->x.strides[3], weight + kh * c->weight.strides[3],   \
						y + to * c->y.strides[3]);                                           \
			}                                                                                            \
		}                                                                                                    \
	}                                                                                                            \
	static void name(const struct et_conv *c, const number *x, const number *weight, number *y)                  \
	{                                                                                                            \
		for (int64_t i = 0; i < c->in_channels * c->in[0] && !et_must_stop(c->compute); i++) {               \
			int64_t channel = i / c->in[0], d = i % c->in[0];                                            \
			for (int64_t kd = 0; kd < c->kernel[0]; kd++) {                                              \
				int64_t to = spread_to(c, 0, d, kd);                                                 \
				if (is_within(to, c->out[0]))                                                        \
					name##_plane(c, x + channel * c->x.strides[1] + d * c->x.strides[2],         \
						weight + channel * c->weight.strides[0] + kd * c->weight.strides[2], \
						y + to * c->y.strides[2]);                                           \
			}                                                                                            \
		}                                                                                                    \
	}
SPREAD_KERNEL(spread_doubles, double)
SPREAD_KERNEL(spread_ints, uint64_t)

/* The outputs of one channel of one batch item, each by itself. */
static void sum_channel(const struct et_conv *c, int64_t x, int64_t weight, int64_t y, int64_t bias)
{
	struct et_pace pace = { c->compute };
	const size_t n_terms = (size_t)(c->kernel[0] * c->kernel[1] * c->kernel[2] * c->in_channels);
	int64_t out[ET_CONV_SPACE];
	for (int64_t i = 0; i < c->out[0] * c->out[1] * c->out[2] && !et_pace_must_stop(&pace, n_terms + 1); i++) {
		out[0] = i / c->out[2] / c->out[1];
		out[1] = i / c->out[2] % c->out[1];
		out[2] = i % c->out[2];
		int64_t to = y + out[0] * c->y.strides[2] + out[1] * c->y.strides[3] + out[2] * c->y.strides[4];
		if (c->y.type == ET_INT64) {
			uint64_t start = c->bias ? ((const uint64_t *)c->bias->data)[bias] : 0;
			((uint64_t *)c->y.data)[to] = start + sum_ints(c, (const uint64_t *)c->x.data + x,
								      (const uint64_t *)c->weight.data + weight, out);
			continue;
		}
		const double *pixels = (const double *)c->x.data + x;
		const double *factors = (const double *)c->weight.data + weight;
		double start = c->bias ? ((const double *)c->bias->data)[bias] : 0;
		((double *)c->y.data)[to] = start + sum_doubles(c, pixels, factors, out);
	}
}

static void spread_channel(const struct et_conv *c, int64_t x, int64_t weight, int64_t y, int64_t bias)
{
	static double zero; /* only read; its bytes are also the integer 0 */
	struct et_view from, to;
	et_view_begin(&from, c->bias ? c->bias->data + bias * (int64_t)sizeof(double) : (uint8_t *)&zero, c->y.type);
	et_view_begin(&to, c->y.data + y * (int64_t)sizeof(double), c->y.type);
	for (size_t d = 0; d < ET_CONV_SPACE; d++) {
		et_view_insert(&from, d, c->out[d], 0);
		et_view_insert(&to, d, c->out[d], c->y.strides[2 + d]);
	}
	et_view_copy(c->compute, &to, &from);
	if (c->y.type == ET_INT64)
		spread_ints(c, (const uint64_t *)c->x.data + x, (const uint64_t *)c->weight.data + weight,
			(uint64_t *)c->y.data + y);
	else
		spread_doubles(c, (const double *)c->x.data + x, (const double *)c->weight.data + weight,
			(double *)c->y.data + y);
}

void et_conv_plain(void *conv, size_t begin, size_t end)
{
	const struct et_conv *c = conv;
	int64_t channels = c->n_groups * c->out_channels;
	for (size_t item = begin; item < end && !et_must_stop(c->compute); item++) {
		int64_t n = (int64_t)item / channels, channel = (int64_t)item % channels;
		int64_t group = channel / c->out_channels, own = channel % c->out_channels;
		int64_t x = n * c->x.strides[0] + group * c->in_channels * c->x.strides[1];
		int64_t weight = c->is_transposed
					 ? group * c->in_channels * c->weight.strides[0] + own * c->weight.strides[1]
					 : channel * c->weight.strides[0];
		int64_t y = n * c->y.strides[0] + channel * c->y.strides[1];
		int64_t bias = c->bias ? channel * c->bias->strides[0] : 0;
		if (c->is_transposed && !c->rounds_parts)
			spread_channel(c, x, weight, y, bias);
		else
			sum_channel(c, x, weight, y, bias);
	}
}
