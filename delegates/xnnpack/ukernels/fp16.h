/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of single fp16 (IEEE 754 binary16) numbers, for overrides.
 *
 * runtime/kernels/engine/dtype.h has such, too, but that one multiplies a subnormal float: on XNNPACK's threads,
 * where subnormal floats are zeros (threads.c), fp16's subnormals would be lost. */
#ifndef DELEGATES_XNNPACK_UKERNELS_FP16_H
#define DELEGATES_XNNPACK_UKERNELS_FP16_H

#include <stdint.h>
#include <string.h>

static inline float et_xnn_from_fp16(uint16_t fp16)
{
	/* Shifted into a float's place, the exponent is 112 too small; infinities and NaN get the largest one. A
	 * subnormal is converted as an integer. */
	uint32_t bits = (uint32_t)(fp16 & 0x7fff) << 13;
	float value;
	memcpy(&value, &bits, sizeof(value));
	value = fp16 & 0x7c00 ? value * 0x1p112f : (float)(fp16 & 0x3ff) * 0x1p-24f;
	memcpy(&bits, &value, sizeof(bits));
	if ((fp16 & 0x7c00) == 0x7c00)
		bits |= 0x7f800000;
	bits |= (uint32_t)(fp16 & 0x8000) << 16;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* To the nearest, ties to even; too large is infinite. */
static inline uint16_t et_xnn_to_fp16(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
	if (rest > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (rest >= 0x477ff000) /* 65520 */
		return (uint16_t)(sign | 0x7c00);
	if (rest < 0x38800000) { /* the last bit of a sum with 1/2 is 2^-24, as of an fp16 subnormal */
		float small;
		memcpy(&small, &rest, sizeof(small));
		small += 0.5f;
		memcpy(&rest, &small, sizeof(rest));
		return (uint16_t)(sign | (rest - 0x3f000000));
	}
	rest += 0xfff + (rest >> 13 & 1);
	return (uint16_t)(sign | (rest - 0x38000000) >> 13);
}

#endif
