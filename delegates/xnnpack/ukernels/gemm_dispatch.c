/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatch: which build of gemm.c this processor runs; and packing, which is the same for all fp32 builds: panel
 * after panel, each with its columns' biases and then the weights in the order of multiplication, zeros where there
 * is no column. */
#include "delegates/xnnpack/ukernels/gemm.h"

#include "runtime/base/checked.h"
#include "runtime/base/cpu.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

static const struct et_xnn_gemm_build *const builds[] = { ET_CPU_BUILDS(et_xnn_gemm) };
static _Atomic(const struct et_xnn_gemm_build *) chosen;
#ifdef __x86_64__
static _Atomic(bool) prefers_avx2;
#endif

const struct et_xnn_gemm_build *et_xnn_gemm_at(size_t i)
{
	return i < et_cpu_n_builds() ? builds[i] : NULL;
}

const struct et_xnn_gemm_build *et_xnn_gemm(void)
{
	const struct et_xnn_gemm_build *best = atomic_load_explicit(&chosen, memory_order_relaxed);
#ifdef __x86_64__
	if (!best && et_cpu_runs_avx512())
		best = &et_xnn_gemm_avx512;
	if (!best && atomic_load_explicit(&prefers_avx2, memory_order_relaxed))
		best = &et_xnn_gemm_avx2;
#endif
	return best;
}

#ifdef __x86_64__
void et_xnn_gemm_prefer_avx2(void)
{
	atomic_store_explicit(&prefers_avx2, true, memory_order_relaxed);
}
#endif

const struct et_xnn_gemm_build *et_xnn_gemm_fp16(void)
{
#ifdef __x86_64__
	if (et_cpu_runs_avx512() && ET_CPU_HAS(AVX512_FP16))
		return &et_xnn_gemm_avx512fp16;
#endif
	return NULL;
}

const struct et_xnn_gemm_build *et_xnn_gemm_any(void)
{
	const struct et_xnn_gemm_build *best = et_xnn_gemm();
	return best ? best : builds[et_cpu_n_builds() - 1];
}

bool et_xnn_gemm_is_narrow(size_t n_columns)
{
#ifdef __x86_64__
	/* XNNPACK computes as many columns at a time as two vectors hold, if there are so many. */
	return n_columns < (et_cpu_runs_avx512() ? 32 : et_cpu_runs_avx2() ? 16 : 8);
#else
	(void)n_columns;
	return false;
#endif
}

void et_xnn_gemm_choose(const struct et_xnn_gemm_build *build)
{
	atomic_store_explicit(&chosen, build, memory_order_relaxed);
}

size_t et_xnn_gemm_n_packed(size_t depth, size_t n_columns, size_t panel)
{
	size_t n, n_bytes, n_wide = 0;
	if (!et_add(depth, 1, &n) || !et_add(n_columns, panel, &n_bytes) || !et_mul(n, n_bytes, &n_bytes) ||
		!et_mul(n_bytes, sizeof(float), &n_bytes))
		return SIZE_MAX;
	for (size_t at = n_columns - n_columns % panel; at + n_wide < n_columns;)
		n_wide += et_xnn_gemm_width(at + n_wide, n_columns, panel);
	return n * (n_columns - n_columns % panel + n_wide);
}

typedef float four __attribute__((vector_size(16)));

static inline four load(const float *from)
{
	four value;
	memcpy(&value, from, sizeof(value));
	return value;
}

static inline void store(float *to, four value)
{
	memcpy(to, &value, sizeof(value));
}

/* Transpose four floats of four columns to four rows. */
static inline void transpose(const float *from, size_t stride, float *to, size_t width)
{
	four a = load(from), b = load(from + stride), c = load(from + 2 * stride), d = load(from + 3 * stride);
	four low = __builtin_shufflevector(a, b, 0, 4, 1, 5), low_2 = __builtin_shufflevector(c, d, 0, 4, 1, 5),
	     high = __builtin_shufflevector(a, b, 2, 6, 3, 7), high_2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
	store(to, __builtin_shufflevector(low, low_2, 0, 1, 4, 5));
	store(to + width, __builtin_shufflevector(low, low_2, 2, 3, 6, 7));
	store(to + 2 * width, __builtin_shufflevector(high, high_2, 0, 1, 4, 5));
	store(to + 3 * width, __builtin_shufflevector(high, high_2, 2, 3, 6, 7));
}

/* Transpose @n columns of @n_rows floats, @stride apart, to rows of @width. A cache line of each column at a time:
 * columns a power of two apart would push each other out of the cache before the next row. */
static void transpose_columns(const float *from, size_t stride, size_t n_rows, float *to, size_t width, size_t n)
{
	enum { DEEP = 16, AT_ONCE = 4 };
	size_t n_by_four = n - n % AT_ONCE;
	for (size_t k = 0, n_deep; k < n_rows; k += n_deep, to += n_deep * width) {
		n_deep = n_rows - k < DEEP ? n_rows - k : DEEP;
		size_t n_transposed = n_deep == DEEP ? n_by_four : 0;
		for (size_t i = 0; i < n_transposed; i += AT_ONCE)
			for (size_t j = 0; j < DEEP; j += AT_ONCE)
				transpose(from + i * stride + k + j, stride, to + j * width + i, width);
		for (size_t j = 0; j < n_deep; j++)
			for (size_t i = n_transposed; i < n; i++)
				to[j * width + i] = from[i * stride + k + j];
	}
}

void et_xnn_gemm_pack_part(const struct et_xnn_gemm_part *part, size_t depth, size_t n_columns, float *packed)
{
	size_t first = part->column, last = first + part->n;
	for (size_t at = 0, width; at < last; at += width, packed += (1 + depth) * width) {
		width = et_xnn_gemm_width(at, n_columns, ET_GEMM_PANEL);
		size_t begin = first > at ? first - at : 0, end = last - at < width ? last - at : width;
		size_t end_of_zeros = last == n_columns ? width : end;
		if (begin >= end)
			continue;
		const float *from = part->from ? part->from + (at + begin - first) * part->from_stride : NULL;
		float *to = packed + part->row * width;
		if (from)
			transpose_columns(from, part->from_stride, part->n_rows, to + begin, width, end - begin);
		size_t begin_of_zeros = from ? end : begin;
		for (size_t k = 0; k < part->n_rows && begin_of_zeros < end_of_zeros; k++, to += width)
			memset(to + begin_of_zeros, 0, (end_of_zeros - begin_of_zeros) * sizeof(*to));
	}
}

void et_xnn_gemm_pack(const float *filter, const float *bias, size_t depth, size_t n_columns, float *packed)
{
	struct et_xnn_gemm_part biases = { .n_rows = 1, .n = n_columns, .from = bias, .from_stride = 1 }, weights = {
		.row = 1, .n_rows = depth, .n = n_columns, .from = filter, .from_stride = depth
	};
	et_xnn_gemm_pack_part(&biases, depth, n_columns, packed);
	et_xnn_gemm_pack_part(&weights, depth, n_columns, packed);
}
