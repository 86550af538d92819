/* Bfloats (bf16): the upper half of a float, for what is done here, as XNNPACK knows none. */
#ifndef DELEGATES_XNNPACK_BFLOAT_H
#define DELEGATES_XNNPACK_BFLOAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float et_xnn_from_bfloat(uint16_t bfloat)
{
	uint32_t bits = (uint32_t)bfloat << 16;
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline bool et_xnn_is_bfloat(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return (bits & 0xffff) == 0;
}

/* bfloat.c, as built for one kind of processor. Numbers are rounded to the nearest, ties to even; a NaN stays one. */
struct et_bfloat_build {
	const char *name;
	void (*widen)(const uint16_t *from, float *to, size_t n);
	void (*narrow)(const float *from, uint16_t *to, size_t n);
	/* To floats that are bfloats' values, in place. */
	void (*round)(float *numbers, size_t n);
};

extern const struct et_bfloat_build et_bfloat_base;
#ifdef __x86_64__
extern const struct et_bfloat_build et_bfloat_avx2, et_bfloat_avx512;
#endif

/* The @i-th build that this processor runs, from the plainest to the best; NULL behind the last. */
const struct et_bfloat_build *et_bfloat_at(size_t i);
/* The best one. */
const struct et_bfloat_build *et_bfloat(void);

#endif
