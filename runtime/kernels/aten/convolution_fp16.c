/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolutions of fp16 and bf16 with short sums: each product and each sum is rounded, in ExecuTorch's order, on which
 * the result depends. Most of these convolutions are tiny, so results are stored directly. */
#include "runtime/kernels/aten/convolution.h"

#include "runtime/base/expand.h"

/* Everything below is compiled for each of the two types, so that no loop tests the type. */

ET_EXPANDED float add_rounded(float sum, float a, float b, enum et_scalar_type type)
{
	return et_round_half(sum + et_round_half(a * b, type), type);
}

/* The contribution of one input channel and one kernel position to a piece of an output row: element k of @n adds pixel
 * @from + k @from_step to output @to + k @to_step. */
struct contribution {
	int64_t n, to, to_step, from, from_step;
};

/* Counts the positions @at + k @step that lie in [0, @end); @first is the first such k. */
static int64_t count_inside(int64_t at, int64_t step, int64_t end, int64_t *first)
{
	int64_t before = at < 0 ? -at : 0;
	*first = step == 1 ? before : (before + step - 1) / step;
	int64_t left = end - (at + *first * step);
	return left <= 0 ? 0 : step == 1 ? left : (left + step - 1) / step;
}

/* The contribution of kernel position @kw to the outputs [@begin, @end) of a row. */
static struct contribution find_contribution(const struct et_conv *c, int64_t begin, int64_t end, int64_t kw)
{
	struct contribution m;
	int64_t at = kw * c->dilation[2] - c->padding[2], step = c->stride[2], first, n, all;
	if (c->is_transposed) { /* pixel p contributes to output p step + at */
		n = count_inside(at - begin, step, end - begin, &first);
		all = c->in[2] - first;
		m = (struct contribution){ n < all ? n : all, first * step + at - begin, step, first, 1 };
	} else { /* output o starts at pixel o step + at */
		n = count_inside(begin * step + at, step, c->in[2], &first);
		all = end - begin - first;
		m = (struct contribution){ n < all ? n : all, first, 1, (begin + first) * step + at, step };
	}
	m.from *= c->x.strides[4];
	m.from_step *= c->x.strides[4];
	return m;
}

ET_EXPANDED void add_contribution(float *sums, const struct contribution *m, const float *pixels, float factor,
	enum et_scalar_type type)
{
	const int64_t n = m->n, to_step = m->to_step, from_step = m->from_step;
	if (n <= 0)
		return;
	sums += m->to;
	pixels += m->from;
	if (to_step == 1 && from_step == 1) {
		ET_INDEPENDENT
		for (int64_t k = 0; k < n; k++)
			sums[k] = add_rounded(sums[k], pixels[k], factor, type);
		return;
	}
	for (int64_t k = 0; k < n; k++)
		sums[k * to_step] = add_rounded(sums[k * to_step], pixels[k * from_step], factor, type);
}

/* Outputs [@begin, @end) of row @row, each in ExecuTorch's order: channel by channel; transposed: input pixel by input
 * pixel, starting with the bias. For 1-D and 2-D, the ones ExecuTorch has. */
ET_EXPANDED void sum_row(const struct et_conv *c, const float *x, const float *weight, int64_t row, int64_t begin,
	int64_t end, float *sums, enum et_scalar_type type)
{
	int64_t n_passes = c->is_transposed ? 1 : c->in_channels, channels = c->is_transposed ? c->in_channels : 1;
	int64_t factor_step = c->is_transposed ? c->weight.strides[0] : c->weight.strides[1];
	for (int64_t i = 0; i < n_passes; i++) {
		for (int64_t position = 0; position < c->kernel[1]; position++) {
			int64_t kh = c->is_transposed ? c->kernel[1] - 1 - position : position;
			int64_t h = et_conv_meet(c, 1, row, kh);
			for (int64_t k = 0; h >= 0 && k < c->kernel[2]; k++) {
				int64_t kw = c->is_transposed ? c->kernel[2] - 1 - k : k;
				struct contribution m = find_contribution(c, begin, end, kw);
				const float *factors = weight + kh * c->weight.strides[3] + kw * c->weight.strides[4];
				for (int64_t j = i; j < i + channels; j++)
					add_contribution(sums, &m, x + j * c->x.strides[1] + h * c->x.strides[3],
						factors[j * factor_step], type);
			}
		}
	}
}

/* One output channel of one batch item. */
ET_EXPANDED void channel_rounded(const struct et_conv *c, const float *x, const float *weight, float bias, uint8_t *y,
	enum et_scalar_type type)
{
	enum { PIECE = 256 };
	float sums[PIECE];
	struct et_pace pace = { c->compute };
	const size_t n_terms = (size_t)(c->in_channels * c->kernel[1] * c->kernel[2]) + 1;
	for (int64_t row = 0; row < c->out[1]; row++) {
		for (int64_t begin = 0, end; begin < c->out[2]; begin = end) {
			end = c->out[2] - begin < PIECE ? c->out[2] : begin + PIECE;
			if (et_pace_must_stop(&pace, n_terms * (size_t)(end - begin)))
				return;
			for (int64_t i = 0; i < end - begin; i++)
				sums[i] = c->is_transposed ? bias : 0;
			sum_row(c, x, weight, row, begin, end, sums, type);
			for (int64_t i = 0; i < end - begin; i++) {
				float sum = c->is_transposed ? sums[i] : sums[i] + bias;
				uint16_t bits = et_float_to_half(sum, type);
				memcpy(y + (row * c->y.strides[3] + (begin + i) * c->y.strides[4]) *
							(int64_t)sizeof(bits),
					&bits, sizeof(bits));
			}
		}
	}
}

void et_conv_fp16(void *conv, size_t begin, size_t end)
{
	const struct et_conv *c = conv;
	int64_t channels = c->n_groups * c->out_channels;
	for (size_t item = begin; item < end; item++) {
		int64_t n = (int64_t)item / channels, channel = (int64_t)item % channels;
		int64_t group = channel / c->out_channels, own = channel % c->out_channels;
		const float *x = (const float *)c->x.data + n * c->x.strides[0] +
				 group * c->in_channels * c->x.strides[1];
		const float *weight = (const float *)c->weight.data +
				      (c->is_transposed ? group * c->in_channels * c->weight.strides[0] +
								  own * c->weight.strides[1]
							: channel * c->weight.strides[0]);
		double start = c->bias ? ((const double *)c->bias->data)[channel * c->bias->strides[0]] : 0;
		float bias = et_round_half((float)start, c->type);
		uint8_t *y = c->y.data + (n * c->y.strides[0] + channel * c->y.strides[1]) * (int64_t)sizeof(uint16_t);
		if (c->type == ET_BFLOAT16)
			channel_rounded(c, x, weight, bias, y, ET_BFLOAT16);
		else
			channel_rounded(c, x, weight, bias, y, ET_FLOAT16);
	}
}
