/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMM micro-kernels of fp32 and fp16, compiled once for each instruction set (meson.build).
 *
 * The output is computed in register tiles of ROWS rows by a panel of columns, or a part of it. Each row of the
 * packed panel is read once for each tile. 14 × 32 is what 32 registers hold, with two for the weights and one for a
 * float of the left matrix: 16 loads for 28 vectors of products. The rows are those of the image or the activations,
 * where they lie.
 *
 * fp16 is the same on processors that compute it (AVX512-FP16): a vector holds twice as many, so every number of
 * columns is doubled.
 *
 * A panel is 32 columns wide; the last one may be 24, 16 or 8, half vectors of the widest build. XNNPACK fills it up
 * to 32 instead: of a layer of 24 or 40 channels, as small networks have them, it computes a quarter or a third for
 * nothing. 24 columns are a vector and a half in one tile: apart, each would load the left matrix again, and with one
 * vector a row, loads are what a tile waits for.
 *
 * Rows come in blocks that stay in the second-level cache while all panels go over them. With each panel all tiles of
 * the block have their turn, so the panel stays in the first-level cache. If the whole filter fits there, a block is
 * a tile. Tiles have nearly equal sizes: 49 rows are 13 and three times 12.
 *
 * Rows that lie a multiple of 2048 bytes apart share two or four sets of the first-level cache, so that 14 of them
 * would push each other out: then a tile has 7. */
#include "delegates/xnnpack/ukernels/gemm.h"

#include "runtime/base/expand.h"

#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512FP16__)
__extension__ typedef _Float16 number;
typedef int16_t bits_of_number;
enum { ROWS = 14, PANEL = ET_GEMM_FP16_PANEL };
#else
typedef float number;
typedef int32_t bits_of_number;
enum { PANEL = ET_GEMM_PANEL };
#if defined(__AVX512F__)
enum { ROWS = 14 };
#elif defined(__AVX2__)
enum { ROWS = 6 };
#else
enum { ROWS = 7 };
#endif
#endif
enum {
	VECTORS = 2,
	AHEAD = 4096 / sizeof(number), /* a page: the processor's own prefetch does not go beyond */
	BLOCK_BYTES = 128 << 10,
	NEAR_BYTES = 16 << 10,
	BAD_STRIDE = 2048 / sizeof(number),
	BAD_ROWS = 7,
};

#define CAT_(a, b) a##b
#define CAT(a, b)  CAT_(a, b)
#if defined(__AVX512FP16__)
#define LANES 16
#include "delegates/xnnpack/ukernels/gemm_tile.inc"
#undef LANES
#define LANES 32
#include "delegates/xnnpack/ukernels/gemm_tile.inc"
#undef LANES
#define FULL 32
#define FP16 16
#elif defined(__AVX512F__)
#define LANES 16
#include "delegates/xnnpack/ukernels/gemm_tile.inc"
#undef LANES
#define LANES 8
#include "delegates/xnnpack/ukernels/gemm_tile.inc"
#undef LANES
#define FULL 16
#define FP16 8
#elif defined(__AVX2__)
#define LANES 8
#include "delegates/xnnpack/ukernels/gemm_tile.inc"
#undef LANES
#define FULL 8
#else
#define LANES 4
#include "delegates/xnnpack/ukernels/gemm_tile.inc"
#undef LANES
#define FULL 4
#endif

#if defined(__AVX512F__)
typedef CAT(vector, FULL) full_vector;
typedef CAT(vector, FP16) fp16_vector;

static inline fp16_vector first_half(full_vector value)
{
	fp16_vector fp16;
	memcpy(&fp16, &value, sizeof(fp16));
	return fp16;
}

/* Like the tiles of gemm_tile.inc, with a vector and a half. */
ET_EXPANDED void tile_and_half(const struct et_xnn_gemm *job, const number *in, const number *bias,
	const number *weights, size_t pitch, number *out, size_t n_columns, const int n_rows, const int n_vectors)
{
	const size_t stride = job->in_stride;
	full_vector sums[ROWS];
	fp16_vector fp16[ROWS];
	(void)n_vectors;
	ET_UNROLL
	for (int r = 0; r < n_rows; r++) {
		sums[r] = CAT(load, FULL)(bias);
		fp16[r] = CAT(load, FP16)(bias + FULL);
	}
	for (size_t segment = 0, in_line = 0; segment < job->n_segments; segment++) {
		const number *rows[(ROWS + 2) / 3], *from = weights;
		ET_UNROLL
		for (int r = 0; r < n_rows; r += 3)
			rows[r / 3] = in + (size_t)r * stride;
		for (size_t k = job->depth; k; k--) {
			const full_vector taps = CAT(load, FULL)(from);
			const fp16_vector half_taps = CAT(load, FP16)(from + FULL);
			__builtin_prefetch(from + AHEAD);
			ET_UNROLL
			for (int r = 0; r < n_rows; r++) {
				full_vector value = rows[r / 3][(size_t)(r % 3) * stride] - (full_vector){ 0 };
				sums[r] = CAT(multiply_add, FULL)(value, taps, sums[r]);
				fp16[r] = CAT(multiply_add, FP16)(first_half(value), half_taps, fp16[r]);
			}
			from += pitch;
			ET_UNROLL
			for (int r = 0; r < n_rows; r += 3)
				rows[r / 3]++;
		}
		in += job->segment_stride;
		if (++in_line == job->n_in_line) {
			in += job->line_stride;
			in_line = 0;
		}
		weights += job->filter_segment * pitch;
	}
	const full_vector min = (number)job->min - (full_vector){ 0 }, max = (number)job->max - (full_vector){ 0 };
	const size_t n_all = FULL + FP16;
	ET_UNROLL
	for (int r = 0; r < n_rows; r++) {
		number row[FP16];
		CAT(store, FULL)(out, CAT(limit, FULL)(sums[r], min, max));
		CAT(store, FP16)
		(n_columns < n_all ? row : out + FULL, CAT(limit, FP16)(fp16[r], first_half(min), first_half(max)));
		if (n_columns < n_all)
			memcpy(out + FULL, row, (n_columns - FULL) * sizeof(number));
		out += job->out_stride;
	}
}
#endif

/* A tile of exactly @n_rows rows by a panel or a part of it. */
#define ONE_OF(n, tile, n_vectors)                                                                   \
	case n:                                                                                      \
		tile(job, in, bias, weights, pitch, out, n_columns, n < ROWS ? n : ROWS, n_vectors); \
		break
#define DEFINE_TILES(name, tile, n_vectors)                                                                          \
	static void name(const struct et_xnn_gemm *job, const number *in, const number *bias, const number *weights, \
		size_t pitch, number *out, size_t n_columns, size_t n_rows)                                          \
	{                                                                                                            \
		switch (n_rows < ROWS ? n_rows : ROWS) {                                                             \
			ONE_OF(1, tile, n_vectors);                                                                  \
			ONE_OF(2, tile, n_vectors);                                                                  \
			ONE_OF(3, tile, n_vectors);                                                                  \
			ONE_OF(4, tile, n_vectors);                                                                  \
			ONE_OF(5, tile, n_vectors);                                                                  \
			ONE_OF(6, tile, n_vectors);                                                                  \
			ONE_OF(7, tile, n_vectors);                                                                  \
			ONE_OF(8, tile, n_vectors);                                                                  \
			ONE_OF(9, tile, n_vectors);                                                                  \
			ONE_OF(10, tile, n_vectors);                                                                 \
			ONE_OF(11, tile, n_vectors);                                                                 \
			ONE_OF(12, tile, n_vectors);                                                                 \
			ONE_OF(13, tile, n_vectors);                                                                 \
			ONE_OF(14, tile, n_vectors);                                                                 \
		}                                                                                                    \
	}
DEFINE_TILES(two_wide, CAT(tile, FULL), 2)
DEFINE_TILES(one_wide, CAT(tile, FULL), 1)
#if defined(__AVX512F__)
DEFINE_TILES(half_wide, CAT(tile, FP16), 1)
DEFINE_TILES(wide_and_half, tile_and_half, 1)
#endif

/* All columns of a panel of @width, in as many steps as it takes. */
static inline void across(const struct et_xnn_gemm *job, const number *in, const number *bias, const number *weights,
	size_t pitch, size_t width, number *out, size_t n_columns, size_t n_rows)
{
	for (size_t at = 0; at < n_columns;) {
		size_t left = n_columns - at, n;
#if defined(__AVX512F__)
		if (width == FP16) {
			half_wide(job, in, bias, weights, pitch, out, left, n_rows);
			return;
		}
		if (width == FULL + FP16) {
			wide_and_half(job, in, bias, weights, pitch, out, left, n_rows);
			return;
		}
#else
		(void)width;
#endif
		if (left > FULL) {
			n = left < 2 * FULL ? left : 2 * FULL;
			two_wide(job, in, bias + at, weights + at, pitch, out + at, n, n_rows);
			at += 2 * FULL;
		} else {
			one_wide(job, in, bias + at, weights + at, pitch, out + at, left, n_rows);
			at += FULL;
		}
	}
}

static void run(const struct et_xnn_gemm *job, size_t begin, size_t end, size_t left, size_t right)
{
	static const number zeros[PANEL];
	size_t n_most = ROWS;
	if (job->in_stride % BAD_STRIDE == 0 && n_most > BAD_ROWS)
		n_most = BAD_ROWS;
	size_t n_of_row = job->n_segments * job->depth * sizeof(number);
	n_of_row = n_of_row ? n_of_row : 1;
	size_t n_block = n_of_row < BLOCK_BYTES / n_most ? BLOCK_BYTES / n_of_row : n_most;
	if (n_of_row < NEAR_BYTES / job->n_columns)
		n_block = n_most;
	n_block -= n_block % n_most;
	for (size_t first = begin; first < end; first += n_block) {
		size_t last = end - first < n_block ? end : first + n_block;
		for (size_t column = left, width; column < right; column += width) {
			const number *filter = (const number *)(const void *)job->packed, *bias = zeros,
				     *weights = filter + column;
			size_t n_tiles = (last - first + n_most - 1) / n_most, n, pitch = job->filter_pitch;
			width = et_xnn_gemm_width(column, job->n_columns, PANEL);
			if (!pitch) {
				pitch = width;
				bias = filter + column * (1 + job->filter_depth);
				weights = bias + pitch;
			}
			weights += job->filter_first * pitch;
			for (size_t row = first; row < last; row += n) {
				n = (last - row + n_tiles - 1) / n_tiles;
				n_tiles--;
				across(job, (const number *)(const void *)job->in + row * job->in_stride, bias, weights,
					pitch, width, (number *)(void *)job->out + row * job->out_stride + column,
					job->n_columns - column < width ? job->n_columns - column : width, n);
			}
		}
	}
}

#if defined(__AVX512FP16__)
static inline number number_at(const void *from, size_t i, bool is_fp16)
{
	return is_fp16 ? ((const number *)from)[i] : (number)((const float *)from)[i];
}

/* Pack the weights of @n columns, the first at @from, as rows of @width. */
ET_EXPANDED void pack_weights(const struct et_xnn_gemm_filter *filter, size_t column, size_t n, size_t width,
	const bool is_fp16, const size_t of_column, number *to)
{
	const size_t depth = filter->depth, of_row = filter->of_row;
	for (size_t k = 0; k < depth; k++, to += width) {
		for (size_t i = 0; i < n; i++)
			to[i] = number_at(filter->filter, (column + i) * of_column + k * of_row, is_fp16);
		for (size_t i = n; i < width; i++)
			to[i] = 0;
	}
}

/* Pack a whole panel whose columns are neighbours. */
static void copy_rows(const number *from, size_t n, size_t of_row, number *to)
{
	for (size_t k = 0; k < n; k++)
		memcpy(to + k * PANEL, from + k * of_row, PANEL * sizeof(*to));
}

static void pack(const struct et_xnn_gemm_filter *filter, void *packed)
{
	const size_t n_columns = filter->n_columns;
	number *to = packed;
	for (size_t at = 0, width; at < n_columns; at += width) {
		width = et_xnn_gemm_width(at, n_columns, PANEL);
		size_t n = n_columns - at < width ? n_columns - at : width;
		for (size_t i = 0; i < width; i++)
			to[i] = filter->bias && i < n ? number_at(filter->bias, at + i, filter->bias_is_fp16) : 0;
		to += width;
		if (filter->filter_is_fp16 && filter->of_column == 1 && n == PANEL)
			copy_rows((const number *)filter->filter + at, filter->depth, filter->of_row, to);
		else if (filter->filter_is_fp16 && filter->of_column == 1)
			pack_weights(filter, at, n, width, true, 1, to);
		else if (filter->filter_is_fp16)
			pack_weights(filter, at, n, width, true, filter->of_column, to);
		else
			pack_weights(filter, at, n, width, false, filter->of_column, to);
		to += width * filter->depth;
	}
}
#define PACK pack
#else
#define PACK NULL
#endif

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
const struct et_xnn_gemm_build ET_GEMM_NAME = {
	.name = TEXT(ET_GEMM_NAME), .n_bytes = sizeof(number), .panel = PANEL, .run = run, .pack = PACK
};
