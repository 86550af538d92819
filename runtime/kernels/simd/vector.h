/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors of float, as wide as the instruction set that this build is for: the language that ukernels.c is written in.
 *
 * Only ukernels.c includes it, once for each build; its names are not used elsewhere. */
#ifndef RUNTIME_KERNELS_SIMD_VECTOR_H
#define RUNTIME_KERNELS_SIMD_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define ROTATED ROTATE16
enum { LANES = 16 };
#elif defined(__AVX2__)
#define ROTATED ROTATE8
enum { LANES = 8 };
#else
#define ROTATED ROTATE4
enum { LANES = 4 };
#endif

#if defined(__clang__)
#define INDEPENDENT
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#define UNROLL      _Pragma("GCC unroll 8")
#endif

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t ints __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint32_t bits __attribute__((vector_size(LANES * sizeof(uint32_t))));

static inline vector load(const float *from)
{
	vector value;
	memcpy(&value, from, sizeof(value));
	return value;
}

static inline void store(float *to, vector value)
{
	memcpy(to, &value, sizeof(value));
}

static inline vector choose(ints mask, vector a, vector b)
{
	return (vector)((mask & (ints)a) | (~mask & (ints)b));
}

static inline vector larger(vector a, vector b)
{
	return choose(a > b, a, b);
}

/* Part of a vector: no lane from @n on touches memory. The builtins have the same names in gcc and clang; the core does
 * not include the compilers' intrinsics headers. */
#if defined(__AVX512F__)
static inline vector load_part(const float *from, size_t n, vector otherwise)
{
	return __builtin_ia32_loadups512_mask(from, otherwise, (uint16_t)((1u << n) - 1));
}

static inline void store_part(float *to, vector value, size_t n)
{
	__builtin_ia32_storeups512_mask(to, value, (uint16_t)((1u << n) - 1));
}
#elif defined(__AVX2__)
static inline ints lanes_below(size_t n)
{
	return (ints){ 0, 1, 2, 3, 4, 5, 6, 7 } < (int32_t)n;
}

static inline vector load_part(const float *from, size_t n, vector otherwise)
{
	ints lanes = lanes_below(n);
	return choose(lanes, __builtin_ia32_maskloadps256((const vector *)(const void *)from, lanes), otherwise);
}

static inline void store_part(float *to, vector value, size_t n)
{
	__builtin_ia32_maskstoreps256((vector *)(void *)to, lanes_below(n), value);
}
#else
static inline vector load_part(const float *from, size_t n, vector otherwise)
{
	memcpy(&otherwise, from, n * sizeof(float));
	return otherwise;
}

static inline void store_part(float *to, vector value, size_t n)
{
	memcpy(to, &value, n * sizeof(float));
}
#endif

/* @n floats; lanes behind them are minus infinity. */
static inline vector get(const float *from, size_t n)
{
	return n >= LANES ? load(from) : load_part(from, n, (vector){ 0 } - INFINITY);
}

static inline void put(float *to, vector value, size_t n)
{
	if (n >= LANES)
		store(to, value);
	else
		store_part(to, value, n);
}

/* A vector with each lane moved @by lanes on, cyclically. */
#define LANE(i, by)     (((i) + (by)) % LANES)
#define FOUR(i, by)     LANE(i, by), LANE(i + 1, by), LANE(i + 2, by), LANE(i + 3, by)
#define ROTATE4(v, by)  __builtin_shufflevector(v, v, FOUR(0, by))
#define ROTATE8(v, by)  __builtin_shufflevector(v, v, FOUR(0, by), FOUR(4, by))
#define ROTATE16(v, by) __builtin_shufflevector(v, v, FOUR(0, by), FOUR(4, by), FOUR(8, by), FOUR(12, by))

/* Combine all lanes: every lane becomes the result. */
#define REDUCE_LANES(v, combine)                         \
	do {                                             \
		if (LANES > 8)                           \
			(v) = combine(v, ROTATED(v, 8)); \
		if (LANES > 4)                           \
			(v) = combine(v, ROTATED(v, 4)); \
		(v) = combine(v, ROTATED(v, 2));         \
		(v) = combine(v, ROTATED(v, 1));         \
	} while (0)

static inline vector plus(vector a, vector b)
{
	return a + b;
}

/* The maximum, lane by lane; NaN if one is. */
static inline vector maximum(vector most, vector number)
{
	return choose(~(number <= most) & (most == most), number, most);
}

#endif
