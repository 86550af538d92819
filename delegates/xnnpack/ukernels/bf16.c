/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of arrays between bf16 and fp32, compiled once for each instruction set (bf16_dispatch.c chooses). */
#include "delegates/xnnpack/ukernels/bf16.h"

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)

/* Round the bits of a float to bf16, ties to even: add half of the last place that stays, less one bit where that
 * place is even. */
static inline uint32_t round_bits(uint32_t bits)
{
	uint32_t is_nan = (bits & 0x7fffffff) > 0x7f800000;
	uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
	return (is_nan ? bits | 0x400000 : rounded) & 0xffff0000;
}

static inline uint32_t bits_of(const float *from)
{
	uint32_t bits;
	memcpy(&bits, from, sizeof(bits));
	return bits;
}

static void widen(const uint16_t *from, float *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = et_bf16_to_float(from[i]);
}

static void narrow(const float *from, uint16_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint16_t)(round_bits(bits_of(from + i)) >> 16);
}

static void round_all(float *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = round_bits(bits_of(numbers + i));
		memcpy(numbers + i, &bits, sizeof(bits));
	}
}

const struct et_bf16_build ET_BF16_NAME = {
	.name = TEXT(ET_BF16_NAME),
	.widen = widen,
	.narrow = narrow,
	.round = round_all,
};
