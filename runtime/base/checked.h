/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic on untrusted numbers: sizes from a file, a message or shared memory go through these functions before they
 * decide anything.
 *
 * et_add, et_mul and et_align_up return false, and leave *ret unspecified, if the true result does not fit. */
#ifndef RUNTIME_BASE_CHECKED_H
#define RUNTIME_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ET_ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

static inline bool et_add(size_t a, size_t b, size_t *ret)
{
	return !__builtin_add_overflow(a, b, ret);
}

static inline bool et_mul(size_t a, size_t b, size_t *ret)
{
	return !__builtin_mul_overflow(a, b, ret);
}

/* Saturating arithmetic, for totals that are only compared or reported: a sum or product that does not fit becomes
 * UINT64_MAX. */
static inline void et_add_up(uint64_t *to, uint64_t n)
{
	if (__builtin_add_overflow(*to, n, to))
		*to = UINT64_MAX;
}

static inline uint64_t et_times(uint64_t n, uint64_t by)
{
	uint64_t product;
	return __builtin_mul_overflow(n, by, &product) ? UINT64_MAX : product;
}

/* Saturating subtraction: 0 if @by is larger. */
static inline uint64_t et_less(uint64_t n, uint64_t by)
{
	return n > by ? n - by : 0;
}

/* Round @n up to a multiple of @align, a power of two. */
static inline bool et_align_up(size_t n, size_t align, size_t *ret)
{
	size_t sum;
	if (!et_add(n, align - 1, &sum))
		return false;
	*ret = sum & ~(align - 1);
	return true;
}

/* Whether [offset, offset + n) lies within [0, limit). An empty range may end at @limit. */
static inline bool et_in_range(uint64_t offset, uint64_t n, uint64_t limit)
{
	return offset <= limit && n <= limit - offset;
}

#endif
