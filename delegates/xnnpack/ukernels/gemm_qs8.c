/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMM micro-kernels of 8 bits, compiled once for each instruction set (meson.build).
 *
 * VNNI has the register tile of gemm.c, 14 rows × 32 columns in 28 registers: a step multiplies four elements of each
 * row, broadcast over a register, with those of 16 columns. With AMX a tile register holds 16 rows × 64 elements, or
 * 64 × 16 columns, and one instruction multiplies two of them: four of the eight are sums, of 32 rows × 32 columns.
 * Few rows are computed with VNNI, because a tile takes as long for one row as for 16.
 *
 * Compilers do not see what tiles read (gcc's bug 122446), and need not know tiles: each step is inline assembler
 * that may read and write any memory. The tiles' shapes are set when a run begins and released when it ends. */
#include "delegates/xnnpack/ukernels/gemm_qs8.h"

#include "runtime/base/expand.h"

#include <math.h>
#include <string.h>
#if defined(__AVX512VNNI__)
#include <immintrin.h>
#endif

enum { BLOCK_BYTES = 128 << 10 };

#if defined(__AVX512VNNI__)
enum {
	WIDE = 16,
	ROWS = 14,
	VECTORS = 2,
	AHEAD = 4096, /* bytes: a page: the processor's own prefetch does not go beyond */
};

static void limits(const float *in, size_t n, float *ret_min, float *ret_max)
{
	__m512 min[2], max[2];
	for (int i = 0; i < 2; i++)
		min[i] = max[i] = _mm512_set1_ps(in[0]);
	size_t i = 0;
	for (; i + 2 * WIDE <= n; i += 2 * WIDE)
		for (int j = 0; j < 2; j++) {
			__m512 x = _mm512_loadu_ps(in + i + j * WIDE);
			min[j] = _mm512_min_ps(min[j], x);
			max[j] = _mm512_max_ps(max[j], x);
		}
	for (; i < n; i += WIDE) {
		__mmask16 mask = n - i < WIDE ? (__mmask16)((1U << (n - i)) - 1) : (__mmask16)-1;
		__m512 x = _mm512_maskz_loadu_ps(mask, in + i);
		min[0] = _mm512_mask_min_ps(min[0], mask, min[0], x);
		max[0] = _mm512_mask_max_ps(max[0], mask, max[0], x);
	}
	*ret_min = _mm512_reduce_min_ps(_mm512_min_ps(min[0], min[1]));
	*ret_max = _mm512_reduce_max_ps(_mm512_max_ps(max[0], max[1]));
}

static inline __m512i numbers_of(const float *in, __mmask16 mask, float factor, int32_t zero)
{
	__m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, in), _mm512_set1_ps(factor));
	x = _mm512_min_ps(x, _mm512_set1_ps((float)(255 - zero)));
	x = _mm512_max_ps(x, _mm512_set1_ps((float)-zero));
	return _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(zero));
}

static void quantize(const float *in, size_t n, float factor, int32_t zero, uint8_t *out)
{
	for (size_t i = 0; i < n; i += WIDE) {
		__mmask16 mask = n - i < WIDE ? (__mmask16)((1U << (n - i)) - 1) : (__mmask16)-1;
		_mm512_mask_cvtepi32_storeu_epi8(out + i, mask, numbers_of(in + i, mask, factor, zero));
	}
}

/* A pixel is a 32-bit word first; then the bytes that are channels are moved together. */
static void pixels(const float *in, size_t stride, size_t n, size_t n_channels, float factor, int32_t zero,
	uint8_t flip, uint8_t *out)
{
	uint8_t bytes[WIDE];
	uint32_t words[WIDE];
	for (size_t i = 0; i < WIDE; i++)
		words[i] = bytes[i] = (uint8_t)((i / n_channels * 4 + i % n_channels) % WIDE);
	const __m512i together = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)bytes)),
		      full = _mm512_loadu_si512(words);
	for (size_t i = 0; i < n; i += WIDE) {
		size_t n_here = n - i < WIDE ? n - i : WIDE, n_bytes = n_here * n_channels;
		__mmask16 mask = (__mmask16)((1U << n_here) - 1);
		__m512i pixel = _mm512_set1_epi8((char)flip);
		for (size_t j = 0; j < n_channels; j++) {
			__m512i channel = numbers_of(in + j * stride + i, mask, factor, zero);
			pixel = _mm512_xor_si512(pixel, _mm512_sll_epi32(channel, _mm_cvtsi32_si128((int)(8 * j))));
		}
		pixel = _mm512_permutexvar_epi32(full, _mm512_shuffle_epi8(pixel, together));
		_mm512_mask_storeu_epi8(out + i * n_channels, ~UINT64_C(0) >> (4 * WIDE - n_bytes), pixel);
	}
}

/* The sums, scales and biases of a vector of columns, from @columns of a panel that is @pitch wide. */
ET_EXPANDED void finish(const struct et_xnn_gemm_qs8 *job, __m512i sum, const struct et_xnn_row_scale *row,
	const uint8_t *columns, size_t pitch, float *out, __mmask16 mask)
{
	__m512i sums = _mm512_loadu_si512(columns);
	__m512 scales = _mm512_loadu_ps(columns + 4 * pitch), bias = _mm512_loadu_ps(columns + 8 * pitch);
	sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(sums, _mm512_set1_epi32(row->zero)));
	__m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(row->scale));
	value = _mm512_fmadd_ps(value, scales, bias);
	value = _mm512_min_ps(_mm512_set1_ps(job->max), _mm512_max_ps(_mm512_set1_ps(job->min), value));
	_mm512_mask_storeu_ps(out, mask, value);
}

/* The mask of those of @n_columns that are in vector @v. */
static inline __mmask16 mask_of(size_t n_columns, size_t v)
{
	size_t n = n_columns > v * WIDE ? n_columns - v * WIDE : 0;
	return n < WIDE ? (__mmask16)((1U << n) - 1) : (__mmask16)-1;
}

ET_EXPANDED __m512i four_of(const uint8_t *from)
{
	int32_t four;
	memcpy(&four, from, sizeof(four));
	return _mm512_set1_epi32(four);
}

/* Like the compiler's intrinsic, with which gcc 14 writes each sum to the stack in each step. */
ET_EXPANDED __m512i multiply_add(__m512i sum, __m512i four, __m512i taps)
{
	__asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(four), "v"(taps));
	return sum;
}

ET_EXPANDED void tile(const struct et_xnn_gemm_qs8 *job, size_t row, const uint8_t *panel, size_t left,
	const int n_rows, const int n_vectors)
{
	const size_t stride = job->in_stride, pitch = (size_t)n_vectors * WIDE;
	const uint8_t *weights = panel + 12 * pitch;
	/* A pointer for each three rows: an address mode adds a distance, or twice a distance, for free. */
	const uint8_t *rows[(ROWS + 2) / 3];
	/* For few rows several sums each, which do not wait for each other. */
	const int n_apart = n_rows == 1 ? 4 : n_rows <= 3 ? 2 : 1;
	__m512i sums[ROWS][VECTORS];
	ET_UNROLL
	for (int r = 0; r < n_apart * n_rows; r++) {
		ET_UNROLL
		for (int v = 0; v < n_vectors; v++)
			sums[r][v] = _mm512_setzero_si512();
	}
	const uint8_t *in = job->in + row * stride;
	for (size_t segment = 0, in_line = 0; segment < job->n_segments; segment++) {
		ET_UNROLL
		for (int r = 0; r < n_rows; r += 3)
			rows[r / 3] = in + (size_t)r * stride;
		for (size_t k = job->depth; k; k -= 4 * (size_t)n_apart) {
			ET_UNROLL
			for (int a = 0; a < n_apart; a++) {
				__m512i taps[VECTORS];
				/* Panels follow each other: prefetch the next one. */
				ET_UNROLL
				for (int v = 0; v < n_vectors; v++)
					__builtin_prefetch(weights + AHEAD + v * 4 * WIDE);
				ET_UNROLL
				for (int v = 0; v < n_vectors; v++)
					taps[v] = _mm512_loadu_si512(weights + v * 4 * WIDE);
				ET_UNROLL
				for (int r = 0; r < n_rows; r++) {
					__m512i four = four_of(rows[r / 3] + (size_t)(r % 3) * stride + 4 * a);
					ET_UNROLL
					for (int v = 0; v < n_vectors; v++)
						sums[a * n_rows + r][v] = multiply_add(sums[a * n_rows + r][v], four,
							taps[v]);
				}
				weights += 4 * pitch;
			}
			ET_UNROLL
			for (int r = 0; r < n_rows; r += 3)
				rows[r / 3] += 4 * n_apart;
		}
		in += job->segment_stride;
		if (++in_line == job->n_in_line) {
			in += job->line_stride;
			in_line = 0;
		}
	}
	ET_UNROLL
	for (int r = n_rows; r < n_apart * n_rows; r++) {
		ET_UNROLL
		for (int v = 0; v < n_vectors; v++)
			sums[r % n_rows][v] = _mm512_add_epi32(sums[r % n_rows][v], sums[r][v]);
	}
	ET_UNROLL
	for (int r = 0; r < n_rows; r++) {
		float *out = job->out + (row + (size_t)r) * job->out_stride + left;
		ET_UNROLL
		for (int v = 0; v < n_vectors; v++)
			finish(job, sums[r][v], &job->scales[row + (size_t)r], panel + v * 4 * WIDE, pitch,
				out + v * WIDE, mask_of(job->n_columns - left, (size_t)v));
	}
}

/* A tile of exactly @n_rows rows by a panel. */
#define ONE_OF(n, n_vectors)                               \
	case n:                                            \
		tile(job, row, panel, left, n, n_vectors); \
		break
#define DEFINE_TILES(name, n_vectors)                                                                      \
	static void name(const struct et_xnn_gemm_qs8 *job, size_t row, const uint8_t *panel, size_t left, \
		size_t n_rows)                                                                             \
	{                                                                                                  \
		switch (n_rows < ROWS ? n_rows : ROWS) {                                                   \
			ONE_OF(1, n_vectors);                                                              \
			ONE_OF(2, n_vectors);                                                              \
			ONE_OF(3, n_vectors);                                                              \
			ONE_OF(4, n_vectors);                                                              \
			ONE_OF(5, n_vectors);                                                              \
			ONE_OF(6, n_vectors);                                                              \
			ONE_OF(7, n_vectors);                                                              \
			ONE_OF(8, n_vectors);                                                              \
			ONE_OF(9, n_vectors);                                                              \
			ONE_OF(10, n_vectors);                                                             \
			ONE_OF(11, n_vectors);                                                             \
			ONE_OF(12, n_vectors);                                                             \
			ONE_OF(13, n_vectors);                                                             \
			ONE_OF(14, n_vectors);                                                             \
		}                                                                                          \
	}
DEFINE_TILES(two_wide, 2)
DEFINE_TILES(one_wide, 1)

/* Rows @first to @last of a panel. */
static void run_vectors(const struct et_xnn_gemm_qs8 *job, size_t first, size_t last, const uint8_t *panel, size_t left,
	size_t width)
{
	size_t n_tiles = (last - first + ROWS - 1) / ROWS, n;
	for (size_t row = first; row < last; row += n) {
		n = (last - row + n_tiles - 1) / n_tiles;
		n_tiles--;
		if (width == WIDE)
			one_wide(job, row, panel, left, n);
		else
			two_wide(job, row, panel, left, n);
	}
}
#endif

#if defined(ET_GEMM_QS8_AMX)
enum { TILE_ROWS = 16, TILE_BYTES = 64, LEAST_ROWS = 3 /* from so many rows on AMX gains */ };

/* The operand of ldtilecfg. */
static const struct {
	uint8_t palette, start_row, zeros[14];
	uint16_t n_bytes[16];
	uint8_t n_rows[16];
} config = {
	.palette = 1,
	.n_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
	.n_rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
};

#define TILE_LOAD(tile, from, stride) \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"(stride) : "memory")
#define TILE_STORE(tile, to, stride) \
	__asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"(stride) : "memory")
#define TILE_ZERO(tile)          __asm__ volatile("tilezero %%tmm" #tile : : : "memory")
#define TILE_MULTIPLY(sum, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : : : "memory")

/* Tile registers: 0 to 3 sums, 4 and 5 rows, 6 and 7 weights. */
ET_EXPANDED void multiply(const struct et_xnn_gemm_qs8 *job, size_t row, const uint8_t *panel, int32_t *sums,
	const size_t n_down, const size_t n_across)
{
	const size_t pitch = n_across * WIDE, stride = job->in_stride, weight_stride = 4 * pitch,
		     sum_stride = VECTORS * TILE_BYTES;
	const uint8_t *in = job->in + row * stride, *weights = panel + 12 * pitch;
	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	TILE_ZERO(3);
	for (size_t k = 0; k < job->depth; k += TILE_BYTES) {
		TILE_LOAD(6, weights, weight_stride);
		TILE_LOAD(4, in + k, stride);
		TILE_MULTIPLY(0, 4, 6);
		if (n_across == 2) {
			TILE_LOAD(7, weights + TILE_BYTES, weight_stride);
			TILE_MULTIPLY(1, 4, 7);
		}
		if (n_down == 2) {
			TILE_LOAD(5, in + k + TILE_ROWS * stride, stride);
			TILE_MULTIPLY(2, 5, 6);
			if (n_across == 2)
				TILE_MULTIPLY(3, 5, 7);
		}
		weights += TILE_ROWS * weight_stride;
	}
	TILE_STORE(0, sums, sum_stride);
	if (n_across == 2)
		TILE_STORE(1, sums + WIDE, sum_stride);
	if (n_down == 2) {
		TILE_STORE(2, sums + TILE_ROWS * VECTORS * WIDE, sum_stride);
		if (n_across == 2)
			TILE_STORE(3, sums + TILE_ROWS * VECTORS * WIDE + WIDE, sum_stride);
	}
}

static void run_tiles(const struct et_xnn_gemm_qs8 *job, size_t first, size_t last, const uint8_t *panel, size_t left,
	size_t width)
{
	_Alignas(64) int32_t sums[2 * TILE_ROWS][VECTORS * WIDE];
	for (size_t row = first, n; row < last; row += n) {
		n = last - row;
		if (n < LEAST_ROWS) {
			run_vectors(job, row, last, panel, left, width);
			return;
		}
		/* The second tile may have too few rows; it reads the spare ones behind the end. */
		bool is_tall = n >= TILE_ROWS + LEAST_ROWS;
		size_t n_most = is_tall ? 2 * TILE_ROWS : TILE_ROWS;
		n = n < n_most ? n : n_most;
		if (width == WIDE && is_tall)
			multiply(job, row, panel, sums[0], 2, 1);
		else if (width == WIDE)
			multiply(job, row, panel, sums[0], 1, 1);
		else if (is_tall)
			multiply(job, row, panel, sums[0], 2, 2);
		else
			multiply(job, row, panel, sums[0], 1, 2);
		for (size_t r = 0; r < n; r++) {
			float *out = job->out + (row + r) * job->out_stride + left;
			for (size_t v = 0; v < width / WIDE; v++)
				finish(job, _mm512_load_si512(&sums[r][v * WIDE]), &job->scales[row + r],
					panel + v * 4 * WIDE, width, out + v * WIDE, mask_of(job->n_columns - left, v));
		}
	}
}
#define run_panel run_tiles
#elif defined(__AVX512VNNI__)
#define run_panel run_vectors
#else
static void limits(const float *in, size_t n, float *ret_min, float *ret_max)
{
	float min = in[0], max = in[0];
	for (size_t i = 1; i < n; i++) {
		min = min < in[i] ? min : in[i];
		max = max > in[i] ? max : in[i];
	}
	*ret_min = min;
	*ret_max = max;
}

static inline uint8_t number_of(float in, float factor, int32_t zero)
{
	const float least = (float)-zero, most = (float)(255 - zero);
	float x = in * factor;
	x = x < most ? x : most;
	x = x > least ? x : least;
	return (uint8_t)(lrintf(x) + zero);
}

static void quantize(const float *in, size_t n, float factor, int32_t zero, uint8_t *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = number_of(in[i], factor, zero);
}

static void pixels(const float *in, size_t stride, size_t n, size_t n_channels, float factor, int32_t zero,
	uint8_t flip, uint8_t *out)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n_channels; j++)
			*out++ = number_of(in[j * stride + i], factor, zero) ^ flip;
}

/* The sum of a row at @in and column @column of a panel of @width. */
static uint32_t sum_of(const struct et_xnn_gemm_qs8 *job, const uint8_t *in, size_t segment, const int8_t *weights,
	size_t width, size_t column)
{
	uint32_t sum = 0;
	size_t at = segment * job->depth;
	in += segment * job->segment_stride;
	in += job->n_in_line ? segment / job->n_in_line * job->line_stride : 0;
	for (size_t k = 0; k < job->depth; k++, at++)
		sum += (uint32_t)(in[k] * weights[(at / 4 * width + column) * 4 + at % 4]);
	return sum;
}

static void run_panel(const struct et_xnn_gemm_qs8 *job, size_t first, size_t last, const uint8_t *panel, size_t left,
	size_t width)
{
	size_t n_columns = job->n_columns - left < width ? job->n_columns - left : width;
	const int8_t *weights = (const int8_t *)panel + 12 * width;
	for (size_t row = first; row < last; row++) {
		const uint8_t *in = job->in + row * job->in_stride;
		uint32_t sums[ET_GEMM_QS8_PANEL];
		float scales[ET_GEMM_QS8_PANEL], bias[ET_GEMM_QS8_PANEL];
		memcpy(sums, panel, sizeof(*sums) * width);
		memcpy(scales, panel + 4 * width, sizeof(*scales) * width);
		memcpy(bias, panel + 8 * width, sizeof(*bias) * width);
		for (size_t i = 0; i < n_columns; i++) {
			uint32_t sum = 0 - (uint32_t)job->scales[row].zero * sums[i];
			for (size_t segment = 0; segment < job->n_segments; segment++)
				sum += sum_of(job, in, segment, weights, width, i);
			float value = (float)(int32_t)sum * job->scales[row].scale;
			value = value * scales[i] + bias[i];
			value = job->min > value ? job->min : value;
			job->out[row * job->out_stride + left + i] = job->max < value ? job->max : value;
		}
	}
}
#endif

static void run(const struct et_xnn_gemm_qs8 *job, size_t begin, size_t end, size_t left, size_t right)
{
	/* Like gemm.c: blocks of rows that stay in the second-level cache while all panels go over them. */
	size_t depth = job->n_segments * job->depth,
	       n_block = depth < BLOCK_BYTES / 32 ? BLOCK_BYTES / (depth + !depth) / 32 * 32 : 32;
#if defined(ET_GEMM_QS8_AMX)
	__asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
#endif
	for (size_t first = begin; first < end; first += n_block) {
		size_t last = end - first < n_block ? end : first + n_block;
		for (size_t column = left, width; column < right; column += width) {
			width = et_xnn_gemm_qs8_width(column, job->n_columns);
			run_panel(job, first, last, job->packed + et_xnn_gemm_qs8_panel(depth, column), column, width);
		}
	}
#if defined(ET_GEMM_QS8_AMX)
	__asm__ volatile("tilerelease" : : : "memory");
#endif
}

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
const struct et_xnn_gemm_qs8_build ET_GEMM_QS8_NAME = {
	.name = TEXT(ET_GEMM_QS8_NAME),
	.limits = limits,
	.quantize = quantize,
	.pixels = pixels,
	.run = run,
};
