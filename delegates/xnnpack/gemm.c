/* Matrix products: compiled several times, as depthwise.c is.
 *
 * What comes out is done in tiles of ROWS rows and a panel's width of columns, or a part of it. Of a panel of the
 * packed matrix all rows are read once for each tile, of each row in the tile one float for each vector of it that
 * is multiplied. 14 × 32 is what 32 registers hold, with two for the weights and one for a float of the other
 * matrix: for 28 vectors of products 16 loads. The rows are those of the picture or the activations, where they
 * lie.
 *
 * A panel is 32 columns wide, but for what is left at the end: 24, 16, or 8, which are half vectors of the widest
 * build. XNNPACK fills up to 32 instead: of a layer with 24 or 40 channels, as networks for small machines have
 * them, it computes a quarter or a third for nothing. 24 are a vector and a half in one tile: apart, each would load the
 * other matrix again, and with one vector a row loads are what a tile waits for.
 *
 * Rows come in blocks that stay in the second cache while all panels go over them, and with each panel all tiles
 * of the block have their turn, so that the panel stays in the first; where the whole filter fits there a block is
 * a tile. A tile is never much smaller than others: 49 rows are 13 and three times 12.
 *
 * Rows that lie a multiple of 2048 bytes apart share two or four of the first cache's sets, so that 14 of them
 * would push each other out: then it is 7 at a time. */
#include "delegates/xnnpack/gemm.h"

#include "runtime/base/expand.h"

#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { WIDE = 16, ROWS = 14 };
#elif defined(__AVX2__)
enum { WIDE = 8, ROWS = 6 };
#else
enum { WIDE = 4, ROWS = 7 };
#endif
enum {
	VECTORS = 2,
	AHEAD = 1024, /* floats: a page, which the processor itself does not look behind */
	BLOCK_BYTES = 128 << 10,
	NEAR_BYTES = 16 << 10,
	BAD_STRIDE = 512, /* floats */
	BAD_ROWS = 7,
};

#if defined(__AVX512F__)
#define LANES 16
#include "delegates/xnnpack/gemm_tile.inc"
#undef LANES
#define tile_wide tile16
#elif !defined(__AVX2__)
#define LANES 4
#include "delegates/xnnpack/gemm_tile.inc"
#undef LANES
#define tile_wide tile4
#define tile8     tile4
#endif
#if defined(__AVX2__)
#define LANES 8
#include "delegates/xnnpack/gemm_tile.inc"
#undef LANES
#if !defined(__AVX512F__)
#define tile_wide tile8
#endif
#endif

#if defined(__AVX512F__)
/* As those of gemm_tile.inc, of a vector and a half. */
ET_EXPANDED void tile24(const struct et_xnn_gemm *job, const float *in, const float *weights, size_t pitch,
	float *out, size_t n_columns, const int n_rows, const int n_vectors)
{
	const size_t stride = job->in_stride;
	vector16 sums[ROWS];
	vector8 halves[ROWS];
	(void)n_vectors;
	ET_UNROLL
	for (int r = 0; r < n_rows; r++) {
		sums[r] = load16(weights);
		halves[r] = load8(weights + 16);
	}
	weights += (1 + job->filter_first) * pitch;
	for (size_t segment = 0; segment < job->n_segments; segment++) {
		const float *rows[(ROWS + 2) / 3], *from = weights;
		ET_UNROLL
		for (int r = 0; r < n_rows; r += 3)
			rows[r / 3] = in + (size_t)r * stride;
		for (size_t k = job->depth; k; k--) {
			const vector16 taps = load16(from);
			const vector8 half_taps = load8(from + 16);
			__builtin_prefetch(from + AHEAD);
			ET_UNROLL
			for (int r = 0; r < n_rows; r++) {
				__m512 value = _mm512_set1_ps(rows[r / 3][(size_t)(r % 3) * stride]);
				sums[r] = multiply_add16((vector16)value, taps, sums[r]);
				halves[r] = multiply_add8(
					(vector8)_mm512_castps512_ps256(value), half_taps, halves[r]);
			}
			from += pitch;
			ET_UNROLL
			for (int r = 0; r < n_rows; r += 3)
				rows[r / 3]++;
		}
		in += job->segment_stride;
		weights += job->filter_segment * pitch;
	}
	const vector16 min = job->min - (vector16){ 0 }, max = job->max - (vector16){ 0 };
	const vector8 half_min = job->min - (vector8){ 0 }, half_max = job->max - (vector8){ 0 };
	ET_UNROLL
	for (int r = 0; r < n_rows; r++) {
		float row[8];
		store16(out, limit16(sums[r], min, max));
		store8(n_columns < 24 ? row : out + 16, limit8(halves[r], half_min, half_max));
		if (n_columns < 24)
			memcpy(out + 16, row, (n_columns - 16) * sizeof(float));
		out += job->out_stride;
	}
}
#endif

/* @n_rows rows of a panel or a part of it, as a tile of exactly that many. */
#define ONE_OF(n, tile, n_vectors)                                                             \
	case n:                                                                                \
		tile(job, in, weights, pitch, out, n_columns, n < ROWS ? n : ROWS, n_vectors); \
		break
#define DEFINE_TILES(name, tile, n_vectors)                                                                  \
	static void name(const struct et_xnn_gemm *job, const float *in, const float *weights, size_t pitch, \
		float *out, size_t n_columns, size_t n_rows)                                                 \
	{                                                                                                    \
		switch (n_rows < ROWS ? n_rows : ROWS) {                                                     \
			ONE_OF(1, tile, n_vectors);                                                          \
			ONE_OF(2, tile, n_vectors);                                                          \
			ONE_OF(3, tile, n_vectors);                                                          \
			ONE_OF(4, tile, n_vectors);                                                          \
			ONE_OF(5, tile, n_vectors);                                                          \
			ONE_OF(6, tile, n_vectors);                                                          \
			ONE_OF(7, tile, n_vectors);                                                          \
			ONE_OF(8, tile, n_vectors);                                                          \
			ONE_OF(9, tile, n_vectors);                                                          \
			ONE_OF(10, tile, n_vectors);                                                         \
			ONE_OF(11, tile, n_vectors);                                                         \
			ONE_OF(12, tile, n_vectors);                                                         \
			ONE_OF(13, tile, n_vectors);                                                         \
			ONE_OF(14, tile, n_vectors);                                                         \
		}                                                                                            \
	}
DEFINE_TILES(two_wide, tile_wide, 2)
DEFINE_TILES(one_wide, tile_wide, 1)
#if defined(__AVX512F__)
DEFINE_TILES(half_wide, tile8, 1)
DEFINE_TILES(wide_and_half, tile24, 1)
#endif

/* All of a panel's columns, in as many steps as it takes. */
static inline void across(const struct et_xnn_gemm *job, const float *in, const float *weights, size_t pitch,
	float *out, size_t n_columns, size_t n_rows)
{
	for (size_t at = 0; at < n_columns;) {
		size_t left = n_columns - at, n;
#if defined(__AVX512F__)
		if (pitch == WIDE / 2) {
			half_wide(job, in, weights, pitch, out, left, n_rows);
			return;
		}
		if (pitch == WIDE + WIDE / 2) {
			wide_and_half(job, in, weights, pitch, out, left, n_rows);
			return;
		}
#endif
		if (left > WIDE) {
			n = left < 2 * WIDE ? left : 2 * WIDE;
			two_wide(job, in, weights + at, pitch, out + at, n, n_rows);
			at += 2 * WIDE;
		} else {
			one_wide(job, in, weights + at, pitch, out + at, left, n_rows);
			at += WIDE;
		}
	}
}

static void run(const struct et_xnn_gemm *job, size_t begin, size_t end, size_t left, size_t right)
{
	size_t n_most = ROWS;
	if (job->in_stride % BAD_STRIDE == 0 && n_most > BAD_ROWS)
		n_most = BAD_ROWS;
	size_t n_of_row = job->n_segments * job->depth * sizeof(float);
	n_of_row = n_of_row ? n_of_row : 1;
	size_t n_block = n_of_row < BLOCK_BYTES / n_most ? BLOCK_BYTES / n_of_row : n_most;
	if (n_of_row < NEAR_BYTES / job->n_columns)
		n_block = n_most;
	n_block -= n_block % n_most;
	for (size_t first = begin; first < end; first += n_block) {
		size_t last = end - first < n_block ? end : first + n_block;
		for (size_t column = left, width; column < right; column += width) {
			const float *weights = job->packed + column * (1 + job->filter_depth);
			size_t n_tiles = (last - first + n_most - 1) / n_most, n;
			width = et_xnn_gemm_width(column, job->n_columns);
			for (size_t row = first; row < last; row += n) {
				n = (last - row + n_tiles - 1) / n_tiles;
				n_tiles--;
				across(job, job->in + row * job->in_stride, weights, width,
					job->out + row * job->out_stride + column,
					job->n_columns - column < width ? job->n_columns - column : width, n);
			}
		}
	}
}

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
const struct et_xnn_gemm_build ET_GEMM_NAME = { .name = TEXT(ET_GEMM_NAME), .run = run };
