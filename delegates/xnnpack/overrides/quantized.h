/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion between 8 bits with one scale and floats, for overrides.
 *
 * Rounds as ExecuTorch's XNNPACK (92a7ad5) does where it has no kernel: a float is multiplied with 1 / scale, the
 * zero point is added, and the sum is rounded, ties to even. Debian's XNNPACK (4ea82e5) rounds ties away from 0. NaN
 * becomes 0. */
#ifndef DELEGATES_XNNPACK_OVERRIDES_QUANTIZED_H
#define DELEGATES_XNNPACK_OVERRIDES_QUANTIZED_H

#include "delegates/xnnpack/graph/payload.h"

#include <math.h>

/* One type, scale and zero point, and the least and the most that a result may be. */
struct et_xnn_quantized {
	float scale, inverse, zero_point;
	float least, most;
	bool is_signed;
};

/* For @value, of 8 bits; all 256 numbers are allowed. */
static inline struct et_xnn_quantized et_xnn_quantized(const struct et_xnn_value *value)
{
	bool is_signed = value->type == ET_XNN_QINT8;
	return (struct et_xnn_quantized){
		.scale = value->scale,
		.inverse = 1 / value->scale,
		.zero_point = (float)value->zero_point,
		.least = is_signed ? INT8_MIN : 0,
		.most = is_signed ? INT8_MAX : UINT8_MAX,
		.is_signed = is_signed,
	};
}

static inline float et_xnn_dequantize(const struct et_xnn_quantized *quantized, uint8_t byte)
{
	float number = quantized->is_signed ? (float)(int8_t)byte : (float)byte;
	return (number - quantized->zero_point) * quantized->scale;
}

/* The number within the limits, not yet rounded. */
static inline float et_xnn_place(const struct et_xnn_quantized *quantized, float value)
{
	float number = value * quantized->inverse + quantized->zero_point;
	number = number == number ? number : 0;
	number = number > quantized->least ? number : quantized->least;
	return number < quantized->most ? number : quantized->most;
}

/* Rounds to the nearest, ties to even; for numbers below 2^22. */
static inline float et_xnn_round(float number)
{
	const float rounds = 0x1.8p23f; /* a float of this size has no fraction */
	return number + rounds - rounds;
}

static inline uint8_t et_xnn_quantize(const struct et_xnn_quantized *quantized, float value)
{
	return (uint8_t)(int32_t)et_xnn_round(et_xnn_place(quantized, value));
}

/* Whether @value is a tie, which Debian's XNNPACK rounds to the other number. */
static inline bool et_xnn_is_halfway(const struct et_xnn_quantized *quantized, float value)
{
	float number = et_xnn_place(quantized, value);
	float off = number - et_xnn_round(number);
	return off == 0.5f || off == -0.5f;
}

/* Limit results to @min and @max, which are rounded like results. A limit that is NaN counts as the least number. If
 * @min is above @max every result is @max. */
static inline void et_xnn_limit(struct et_xnn_quantized *quantized, float min, float max)
{
	float least = et_xnn_round(et_xnn_place(quantized, min == min ? min : -INFINITY)),
	      most = et_xnn_round(et_xnn_place(quantized, max == max ? max : -INFINITY));
	quantized->least = least;
	quantized->most = most;
}

/* The limit of a convolution of signed 8 bits as XNNPACK rounds it, less the zero point of @out. */
static inline float et_xnn_limit_of_qs8(float limit, const struct et_xnn_value *out)
{
	float place = limit / out->scale + (float)out->zero_point;
	place = fminf(fmaxf(place, INT8_MIN), INT8_MAX);
	return rintf(place) - (float)out->zero_point;
}

#endif
