/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatch: which build of gemm_qs8.c this processor runs; packing, which is the same for all builds; and the scales
 * of rows, which are computed in one place, because a build with fused multiply-add would round them otherwise.
 *
 * A filter is packed panel after panel. A panel begins with its columns' sums of weights, scales and biases; then
 * come, for each four rows, the weights of all columns: what one instruction multiplies with four elements of a row,
 * and what a row of a tile (AMX) is. It is filled up with zeros.
 *
 * Rows lie an odd number of cache lines apart, so that they do not share sets of the first-level cache. */
#include "delegates/xnnpack/ukernels/gemm_qs8.h"

#include "runtime/base/checked.h"
#include "runtime/base/cpu.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#ifdef __x86_64__
#include <sys/syscall.h>
#include <unistd.h>
#endif

static _Atomic(const struct et_xnn_gemm_qs8_build *) chosen;

#ifdef __x86_64__
/* The processor must have AMX, and the kernel must permit it: arch_prctl(2). The kernel makes room for tiles in each
 * thread that uses them. It refuses if they do not fit the signal stack of some thread. */
static bool runs_amx(void)
{
	enum { PERMISSION = 0x1022, REQUEST = 0x1023, TILES = 18 };
	static _Atomic(int) answer; /* 0: not asked, 1: yes, 2: no */
	if (!answer) {
		uint64_t granted = 0;
		bool is_there = ET_CPU_HAS(AMX_TILE) && ET_CPU_HAS(AMX_INT8) &&
				syscall(SYS_arch_prctl, REQUEST, TILES) == 0 &&
				syscall(SYS_arch_prctl, PERMISSION, &granted) == 0;
		answer = is_there && granted >> TILES & 1 ? 1 : 2;
	}
	return answer == 1;
}
#endif

const struct et_xnn_gemm_qs8_build *et_xnn_gemm_qs8_at(size_t i)
{
	const struct et_xnn_gemm_qs8_build *builds[4] = { &et_xnn_gemm_qs8_base };
	size_t n = 1;
#ifdef __x86_64__
	if (et_cpu_runs_vnni())
		builds[n++] = &et_xnn_gemm_qs8_vnni;
	if (et_cpu_runs_vnni() && runs_amx())
		builds[n++] = &et_xnn_gemm_qs8_amx;
#endif
	return i < n ? builds[i] : NULL;
}

const struct et_xnn_gemm_qs8_build *et_xnn_gemm_qs8(void)
{
	const struct et_xnn_gemm_qs8_build *best = atomic_load_explicit(&chosen, memory_order_relaxed);
	for (size_t i = 1; !best && et_xnn_gemm_qs8_at(i); i++)
		best = et_xnn_gemm_qs8_at(i + 1) ? NULL : et_xnn_gemm_qs8_at(i);
	return best;
}

const struct et_xnn_gemm_qs8_build *et_xnn_gemm_qs8_vectors(void)
{
	const struct et_xnn_gemm_qs8_build *best = et_xnn_gemm_qs8();
#ifdef __x86_64__
	return best == &et_xnn_gemm_qs8_amx ? &et_xnn_gemm_qs8_vnni : best;
#else
	return best;
#endif
}

void et_xnn_gemm_qs8_choose(const struct et_xnn_gemm_qs8_build *build)
{
	atomic_store_explicit(&chosen, build, memory_order_relaxed);
}

size_t et_xnn_gemm_qs8_n_packed(size_t depth, size_t n_columns)
{
	size_t n_wide, n_all;
	if (!et_align_up(depth, ET_GEMM_QS8_DEPTH, &depth) || !et_align_up(n_columns, 16, &n_wide) ||
		!et_add(depth, 12, &n_all) || !et_mul(n_all, n_wide, &n_all))
		return SIZE_MAX;
	return n_all;
}

static uint32_t sum_of(const int8_t *from, size_t n)
{
	int32_t sum = 0; /* may wrap: -fwrapv */
	for (size_t i = 0; i < n; i++)
		sum += from[i];
	return (uint32_t)sum;
}

void et_xnn_gemm_qs8_pack(const int8_t *filter, const float *scales, const float *bias, size_t depth, size_t n_columns,
	void *packed)
{
	size_t n_deep = (depth + ET_GEMM_QS8_DEPTH - 1) / ET_GEMM_QS8_DEPTH * ET_GEMM_QS8_DEPTH, n_fours = depth / 4;
	uint8_t *to = packed;
	for (size_t at = 0, width; at < n_columns; at += width) {
		width = et_xnn_gemm_qs8_width(at, n_columns);
		size_t n = n_columns - at < width ? n_columns - at : width,
		       n_panel = et_xnn_gemm_qs8_panel(n_deep, width);
		const int8_t *from = filter + at * depth;
		uint8_t *weights = to + 12 * width;
		if (n < width || depth % ET_GEMM_QS8_DEPTH != 0 || !bias)
			memset(to, 0, n_panel);
		for (size_t i = 0; i < n; i++) {
			uint32_t sum = sum_of(from + i * depth, depth);
			memcpy(to + 4 * i, &sum, sizeof(sum));
		}
		memcpy(to + 4 * width, scales + at, n * sizeof(float));
		if (bias)
			memcpy(to + 8 * width, bias + at, n * sizeof(float));
		for (size_t k = 0; k < n_fours; k++)
			for (size_t i = 0; i < n; i++)
				memcpy(weights + (k * width + i) * 4, from + i * depth + k * 4, 4);
		for (size_t i = 0; i < n; i++)
			memcpy(weights + (n_fours * width + i) * 4, from + i * depth + n_fours * 4, depth % 4);
		to += n_panel;
	}
}

bool et_xnn_rows(struct et_xnn_rows *ret_rows, size_t n_rows, size_t depth)
{
	struct et_xnn_rows rows = { .n_rows = n_rows, .depth = depth };
	size_t n;
	if (!et_align_up(depth, ET_GEMM_QS8_DEPTH, &rows.stride) ||
		!et_mul(n_rows, sizeof(struct et_xnn_row_scale), &n) || !et_align_up(n, ET_GEMM_QS8_DEPTH, &rows.first))
		return false;
	if (rows.stride / ET_GEMM_QS8_DEPTH % 2 == 0 && !et_add(rows.stride, ET_GEMM_QS8_DEPTH, &rows.stride))
		return false;
	if (!et_add(n_rows, ET_GEMM_QS8_SPARE, &n) || !et_mul(n, rows.stride, &n) ||
		!et_add(n, rows.first, &rows.n_bytes))
		return false;
	*ret_rows = rows;
	return true;
}

/* The whole of a byte for what lies between @min and @max, which are made to include 0; and 0 is exact. Floats are
 * multiplied with the scale itself, as the original has it; Debian's XNNPACK takes one over one over it, which makes
 * other numbers of halves. */
static struct et_xnn_row_scale scale_of(float min, float max, float *ret_factor)
{
	min = min < 0 ? min : 0;
	max = max > 0 ? max : 0;
	float scale = min == max ? 1 : 255 / (max - min);
	float least = min * scale, most = max * scale;
	float zero = (-128 + least) + (127 + most) > 0 ? -128 - least : 127 - most;
	zero = zero > -128 ? zero : -128;
	zero = zero < 127 ? zero : 127;
	struct et_xnn_row_scale row = { .scale = 1 / scale, .zero = (int32_t)lrintf(zero) + 128 };
	*ret_factor = scale;
	return row;
}

void et_xnn_rows_quantize(const struct et_xnn_gemm_qs8_build *build, const struct et_xnn_rows *rows, const float *in,
	size_t begin, size_t end, void *to)
{
	size_t n_deep = (rows->depth + ET_GEMM_QS8_DEPTH - 1) / ET_GEMM_QS8_DEPTH * ET_GEMM_QS8_DEPTH;
	struct et_xnn_row_scale *scales = to;
	for (size_t i = begin; i < end; i++) {
		const float *from = in + i * rows->depth;
		uint8_t *row = (uint8_t *)to + rows->first + i * rows->stride;
		float min, max, factor;
		build->limits(from, rows->depth, &min, &max);
		scales[i] = scale_of(min, max, &factor);
		build->quantize(from, rows->depth, factor, scales[i].zero, row);
		memset(row + rows->depth, 0, n_deep - rows->depth);
	}
}
