/* SPDX-License-Identifier: BSD-3-Clause */
/* Pseudo-random numbers for tests, the same in every run. */
#ifndef DELEGATES_XNNPACK_SUPPORT_TEST_DRAW_H
#define DELEGATES_XNNPACK_SUPPORT_TEST_DRAW_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static uint32_t test_seed = 1;

/* Below @n. */
static inline uint32_t test_draw(uint32_t n)
{
	test_seed = test_seed * 1664525 + 1013904223;
	return (test_seed >> 8) % n;
}

/* From -1 to 1. */
static inline void test_draw_floats(float *ret_floats, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret_floats[i] = (float)test_draw(2001) / 1000 - 1;
}

/* In memory of exactly that size, so that AddressSanitizer sees reads outside. The caller frees it. */
static inline float *test_drawn_floats(size_t n)
{
	float *floats = malloc(n * sizeof(*floats));
	if (!floats)
		abort();
	test_draw_floats(floats, n);
	return floats;
}

#endif
