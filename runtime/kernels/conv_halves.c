/* Convolutions of half and bfloat16 whose sums are short: each product and each sum is rounded, in the order of the
 * original, on which the result depends. Most of these are tiny, so the output is written as it comes. */
#include "runtime/kernels/conv.h"

#include "runtime/base/expand.h"

/* What follows is made for each of the two half types, so that nothing is asked for each product. */

ET_EXPANDED float add_rounded(float sum, float a, float b, enum et_scalar_type type)
{
	return et_round_half(sum + et_round_half(a * b, type), type);
}

/* In the order of the original, on which the result depends: channel by channel; transposed, input pixel by input
 * pixel, beginning with the bias. In 1-D and 2-D, which it has. */
ET_EXPANDED float sum_rounded(const struct et_conv *c, const float *x, const float *weight, float bias,
	const int64_t *out, enum et_scalar_type type)
{
	float sum = 0;
	for (int64_t i = 0; i < c->in_channels; i++) {
		const float *pixels = x + i * c->x.strides[1], *factors = weight + i * c->weight.strides[1];
		for (int64_t kh = 0; kh < c->kernel[1]; kh++) {
			int64_t h = out[1] * c->stride[1] - c->padding[1] + kh * c->dilation[1];
			int64_t w = out[2] * c->stride[2] - c->padding[2];
			if (h < 0 || h >= c->in[1])
				continue;
			for (int64_t kw = 0; kw < c->kernel[2]; kw++, w += c->dilation[2])
				if (w >= 0 && w < c->in[2])
					sum = add_rounded(sum,
						pixels[h * c->x.strides[3] + w * c->x.strides[4]],
						factors[kh * c->weight.strides[3] +
							kw * c->weight.strides[4]],
						type);
		}
	}
	return sum + bias;
}

ET_EXPANDED float sum_rounded_transposed(const struct et_conv *c, const float *x, const float *weight,
	float bias, const int64_t *out, enum et_scalar_type type)
{
	float sum = bias;
	for (int64_t kh = c->kernel[1]; kh-- > 0;) {
		int64_t h = et_conv_meet(c, 1, out[1], kh);
		for (int64_t kw = h < 0 ? 0 : c->kernel[2]; kw-- > 0;) {
			int64_t w = et_conv_meet(c, 2, out[2], kw);
			if (w < 0)
				continue;
			const float *pixels = x + h * c->x.strides[3] + w * c->x.strides[4];
			const float *factors = weight + kh * c->weight.strides[3] + kw * c->weight.strides[4];
			for (int64_t i = 0; i < c->in_channels; i++)
				sum = add_rounded(sum, pixels[i * c->x.strides[1]],
					factors[i * c->weight.strides[0]], type);
		}
	}
	return sum;
}

/* One output channel of one batch. */
ET_EXPANDED void channel_rounded(const struct et_conv *c, const float *x, const float *weight, float bias,
	uint8_t *y, enum et_scalar_type type)
{
	int64_t out[ET_CONV_SPACE] = { 0 };
	for (; out[1] < c->out[1]; out[1]++) {
		for (out[2] = 0; out[2] < c->out[2]; out[2]++) {
			float sum = c->is_transposed ? sum_rounded_transposed(c, x, weight, bias, out, type)
						     : sum_rounded(c, x, weight, bias, out, type);
			uint16_t half = type == ET_BFLOAT16 ? et_to_bfloat16(sum) : et_to_half(sum);
			memcpy(y + (out[1] * c->y.strides[3] + out[2] * c->y.strides[4]) *
						(int64_t)sizeof(half),
				&half, sizeof(half));
		}
	}
}

void et_conv_halves(void *conv, size_t begin, size_t end)
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
		uint8_t *y = c->y.data +
			     (n * c->y.strides[0] + channel * c->y.strides[1]) * (int64_t)sizeof(uint16_t);
		if (c->type == ET_BFLOAT16)
			channel_rounded(c, x, weight, bias, y, ET_BFLOAT16);
		else
			channel_rounded(c, x, weight, bias, y, ET_FLOAT16);
	}
}
