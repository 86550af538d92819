/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of single fp16 (IEEE 754 binary16) and bf16 numbers to and from float. Without branches, so that loops
 * become vectors.
 *
 * et_from_half multiplies a subnormal float: where subnormal floats are zeros (the threads of the XNNPACK delegate)
 * it loses fp16's subnormals, and et_xnn_from_fp16 takes its place. The others are right there, too. */
#ifndef RUNTIME_BASE_HALF_H
#define RUNTIME_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float et_float_from_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint32_t et_float_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float et_from_bfloat16(uint16_t value)
{
	return et_float_from_bits((uint32_t)value << 16);
}

/* To the nearest, ties to even. */
static inline uint16_t et_to_bfloat16(float value)
{
	uint32_t bits = et_float_bits(value);
	if (value != value)
		return 0x7fc0;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float et_from_half(uint16_t value)
{
	/* Shifted into place, the exponent is 112 too small, for subnormals too; infinities get theirs afterwards. */
	uint32_t magnitude = value & 0x7fff;
	uint32_t bits = et_float_bits(et_float_from_bits(magnitude << 13) * 0x1p112f);
	bits |= magnitude >= 0x7c00 ? 0x7f800000u : 0;
	return et_float_from_bits(bits | (uint32_t)(value & 0x8000) << 16);
}

/* To the nearest, ties to even; too large is infinite. */
static inline uint16_t et_to_half(float value)
{
	uint32_t bits = et_float_bits(value);
	uint32_t sign = bits >> 16 & 0x8000;
	bits &= 0x7fffffff;
	uint32_t normal = (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
	/* Adding one half aligns a subnormal's last bit with float's own, which rounds it. */
	uint32_t subnormal = et_float_bits(et_float_from_bits(bits) + 0.5f) - 0x3f000000u;
	uint32_t half = bits < 0x38800000u ? subnormal : normal;
	half = bits >= 0x47800000u ? 0x7c00 : half;
	half = bits > 0x7f800000u ? 0x7e00 : half;
	return (uint16_t)(sign | half);
}

#endif
