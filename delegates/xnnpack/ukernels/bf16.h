/* SPDX-License-Identifier: BSD-3-Clause */
/* bf16 (the upper half of a float), for overrides; XNNPACK has no bf16. */
#ifndef DELEGATES_XNNPACK_UKERNELS_BF16_H
#define DELEGATES_XNNPACK_UKERNELS_BF16_H

#include "runtime/base/fp16.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool et_xnn_is_bf16(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return (bits & 0xffff) == 0;
}

/* A build of bf16.c. Rounds to the nearest, ties to even; NaN stays NaN. */
struct et_bf16_build {
	const char *name;
	void (*widen)(const uint16_t *from, float *to, size_t n);
	void (*narrow)(const float *from, uint16_t *to, size_t n);
	/* Round to values that bf16 holds, in place. */
	void (*round)(float *numbers, size_t n);
};

extern const struct et_bf16_build et_bf16_base;
#ifdef __x86_64__
extern const struct et_bf16_build et_bf16_avx2, et_bf16_avx512;
#endif

/* The @i-th build that this processor runs, from the plainest to the best; NULL behind the last. */
const struct et_bf16_build *et_bf16_at(size_t i);
/* The best build for this processor. */
const struct et_bf16_build *et_bf16(void);

#endif
