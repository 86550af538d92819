/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax of short rows of halves, with AVX-512: a row stays in registers and the nearest cache, where XNNPACK walks over it three times
 * and hands the largest number and the sum on through memory, which is most of the time that a short row takes. Of a long one the powers
 * wait where the result goes, and its numbers are read twice.
 *
 * Numbers are those of the original's XNNPACK (92a7ad5) to the bit; Debian's (4ea82e5) rounds the sum to a half, too. Powers of e are
 * 2^n (1 + t p(t)) of floats, n the nearest whole number; what is below the smallest normal half is 0. They are added up in 8 floats, those
 * in one half of the vector to the other, then fours, twos and one of what is left of the row, as far as they go. What is stored between
 * is rounded to halves: the powers, and one over their sum. */
#include "delegates/xnnpack/ukernels/softmax_fp16.h"

#include "runtime/base/expand.h"

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)

enum { WIDTH = 16, N_BLOCKS = ET_SOFTMAX_FP16_MOST / WIDTH };

static inline __mmask16 first(size_t n)
{
	return (__mmask16)(n < WIDTH ? (1U << n) - 1 : 0xffff);
}

/* e to the power of @x, which is no more than 0. */
static inline __m512 power(__m512 x)
{
	const __m512 rounds = _mm512_set1_ps(0x1.8000fep23f); /* and moves the exponent to where 2^n has it */
	const __mmask16 is_large = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-0x1.368p3f), _CMP_NLT_US);
	__m512 n = _mm512_fmadd_ps(x, _mm512_set1_ps(0x1.715476p0f), rounds);
	const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(n), 23));
	n = _mm512_sub_ps(n, rounds);
	const __m512 rest = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e43p-1f), x);
	const __m512 slope = _mm512_fmadd_ps(_mm512_set1_ps(0x1.ff3a32p-2f), rest, _mm512_set1_ps(0x1.039e1p0f));
	return _mm512_maskz_fmadd_ps(is_large, _mm512_mul_ps(rest, scale), slope, scale);
}

static inline __m128 upper_half(__m256 eight)
{
	return _mm256_extractf128_ps(eight, 1);
}

/* The sum of @sums and of the first @n < 8 of @last. */
static inline float add_up(__m256 sums, __m256 last, size_t n)
{
	__m128 sum = _mm_add_ps(_mm256_castps256_ps128(sums), upper_half(sums)), left = _mm256_castps256_ps128(last);
	if (n & 4) {
		sum = _mm_add_ps(sum, left);
		left = upper_half(last);
	}
	if (n & 2) {
		sum = _mm_mask_add_ps(sum, 3, sum, left);
		left = _mm_movehl_ps(left, left);
	}
	if (n & 1)
		sum = _mm_add_ss(sum, left);
	sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
	return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

static inline __m256i load(const uint16_t *row, size_t n, size_t block)
{
	return _mm256_maskz_loadu_epi16(first(n - block * WIDTH), row + block * WIDTH);
}

static inline void store(uint16_t *row, size_t n, size_t block, __m256i fp16)
{
	_mm256_mask_storeu_epi16(row + block * WIDTH, first(n - block * WIDTH), fp16);
}

ET_EXPANDED void run_row(uint16_t *out, const uint16_t *in, const size_t n, const bool is_long)
{
	__m512 x[N_BLOCKS];
	__m256i powers[N_BLOCKS];
	__m512 most = _mm512_set1_ps(-INFINITY);
	for (size_t i = 0; i * WIDTH < n; i++) {
		const __m512 numbers = _mm512_cvtph_ps(load(in, n, i));
		if (!is_long)
			x[i] = numbers;
		most = _mm512_mask_max_ps(most, first(n - i * WIDTH), most, numbers);
	}
	most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
	__m256 sums = _mm256_setzero_ps(), last = sums;
	for (size_t i = 0; i * WIDTH < n; i++) {
		const size_t n_left = n - i * WIDTH;
		const __m512 at = is_long ? _mm512_cvtph_ps(load(in, n, i)) : x[i],
			     numbers = power(_mm512_sub_ps(at, most));
		const __m256i fp16 = _mm512_cvtps_ph(numbers, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
		if (is_long)
			store(out, n, i, fp16);
		else
			powers[i] = fp16;
		last = _mm512_castps512_ps256(numbers);
		if (n_left >= WIDTH / 2) {
			sums = _mm256_add_ps(sums, last);
			last = _mm512_extractf32x8_ps(numbers, 1);
		}
		if (n_left >= WIDTH)
			sums = _mm256_add_ps(sums, last);
	}
	const float inverse = 1 / add_up(sums, last, n % 8);
	const __m512 factor = _mm512_set1_ps(_cvtsh_ss(_cvtss_sh(inverse,
		_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)));
	for (size_t i = 0; i * WIDTH < n; i++)
		store(out, n, i,
			_mm512_cvtps_ph(_mm512_mul_ps(_mm512_cvtph_ps(is_long ? load(out, n, i) : powers[i]), factor),
				_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static void run(uint16_t *out, const uint16_t *in, size_t n_rows, size_t n)
{
	if (n <= WIDTH)
		for (size_t i = 0; i < n_rows; i++)
			run_row(out + i * n, in + i * n, n < WIDTH ? n : WIDTH, false);
	else if (n <= ET_SOFTMAX_FP16_MOST)
		for (size_t i = 0; i < n_rows; i++)
			run_row(out + i * n, in + i * n, n, false);
	else
		for (size_t i = 0; i < n_rows; i++)
			run_row(out + i * n, in + i * n, n, true);
}

const struct et_softmax_fp16_build ET_SOFTMAX_FP16_NAME = { .name = TEXT(ET_SOFTMAX_FP16_NAME), .run = run };
