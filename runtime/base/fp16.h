/* SPDX-License-Identifier: BSD-3-Clause */
/* One fp16 (IEEE 754 binary16) or bf16 (bfloat16: the upper 16 bits of a float) number as a float, and back.
 *
 * Each conversion is one expression without branches, so loops over it become vectors. Conversions to 16 bits round to
 * the nearest, ties to even. They expect a processor that computes with subnormal floats: with FTZ or DAZ set, fp16
 * subnormals become 0. */
#ifndef RUNTIME_BASE_FP16_H
#define RUNTIME_BASE_FP16_H

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

static inline float et_bf16_to_float(uint16_t value)
{
	return et_float_from_bits((uint32_t)value << 16);
}

/* Rounds to the nearest, ties to even; every NaN becomes 0x7fc0. */
static inline uint16_t et_float_to_bf16(float value)
{
	uint32_t bits = et_float_bits(value);
	if (value != value)
		return 0x7fc0;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float et_fp16_to_float(uint16_t value)
{
	/* After the shift the exponent is 112 too small, for subnormals too. Infinities and NaN get their exponent
	 * afterwards. */
	uint32_t magnitude = value & 0x7fff;
	uint32_t bits = et_float_bits(et_float_from_bits(magnitude << 13) * 0x1p112f);
	bits |= magnitude >= 0x7c00 ? 0x7f800000u : 0;
	return et_float_from_bits(bits | (uint32_t)(value & 0x8000) << 16);
}

/* Rounds to the nearest, ties to even. A value too large for fp16 becomes infinite; a NaN keeps its sign and becomes
 * 0x7e00. */
static inline uint16_t et_float_to_fp16(float value)
{
	uint32_t bits = et_float_bits(value);
	uint32_t sign = bits >> 16 & 0x8000;
	bits &= 0x7fffffff;
	uint32_t normal = (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
	/* Adding one half aligns the last bit of an fp16 subnormal with the float's own last bit, so the addition
	 * rounds it. */
	uint32_t subnormal = et_float_bits(et_float_from_bits(bits) + 0.5f) - 0x3f000000u;
	uint32_t half = bits < 0x38800000u ? subnormal : normal;
	half = bits >= 0x47800000u ? 0x7c00 : half;
	half = bits > 0x7f800000u ? 0x7e00 : half;
	return (uint16_t)(sign | half);
}

#endif
