/* SPDX-License-Identifier: BSD-3-Clause */
/* Depthwise convolution micro-kernel of 8 bits, for AVX512-VNNI.
 *
 * XNNPACK's kernels widen each input and each weight to 32 bits and multiply them, 16 products at a time. Here one
 * instruction multiplies four pixels of a column with four taps, for 16 channels. The four pixels have to lie side by
 * side for that: the bytes of four rows, 64 channels each, are interleaved once, and multiplied with each column of
 * taps that lies on them. A tile is TILE neighbouring pixels of one output row, 64 channels deep, whose sums stay in
 * registers. The last four of a column of taps may be partly empty.
 *
 * Rows outside the image are a line of zero points, which is read again and again. A tile at the left or right border
 * takes zero points for columns outside. The last tile of a row overlaps the one before; if a row is shorter than a
 * tile, a tile is stored in part. The last channels are read and written under a mask.
 *
 * Tiles go down all rows of a strip before the next 64 channels, so weights come from the first-level cache. A strip is
 * as high as its input fits the second-level cache. */
#include "delegates/xnnpack/ukernels/depthwise_qs8.h"

#include "runtime/base/expand.h"

#include <immintrin.h>
#include <string.h>

enum {
	BLOCK = ET_DEPTHWISE_QS8_BLOCK,
	TILE = 4,
	VECTORS = 4, /* of sums, for a block of channels */
	STRIP_BYTES = 256 << 10,
};

/* The channels of a block in one output row. Pointers are to the first of these channels. */
struct strip {
	const struct et_depthwise_qs8 *job;
	const uint8_t *packed;
	__mmask64 mask; /* of its channels */
	const int8_t *rows[ET_DEPTHWISE_QS8_MOST];
	ptrdiff_t steps[ET_DEPTHWISE_QS8_MOST]; /* from pixel to pixel; 0: outside the image */
	int8_t *out;
};

/* One step of a sum. The intrinsic does the same, but with it gcc 14 writes each sum to the stack in each step. */
ET_EXPANDED __m512i multiply_add(__m512i sum, __m512i pixels, const uint8_t *taps)
{
	__asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(pixels), "m"(*(const uint8_t(*)[64])taps));
	return sum;
}

/* The pixel of row @row in column @column, made unsigned. Rows behind the kernel are multiplied with nothing. */
ET_EXPANDED __m512i pixel(const struct strip *strip, const int row, ptrdiff_t column, bool is_outside, const int kernel)
{
	if (row >= kernel)
		return _mm512_setzero_si512();
	__m512i value = is_outside
				? _mm512_set1_epi8(strip->job->zero)
				: _mm512_maskz_loadu_epi8(strip->mask, strip->rows[row] + column * strip->steps[row]);
	return _mm512_xor_si512(value, _mm512_set1_epi8(-128));
}

/* Interleave four rows of one column, from row @row on. */
ET_EXPANDED void interleave(const struct strip *strip, const int row, ptrdiff_t column, bool is_outside,
	const int kernel, __m512i *to)
{
	__m512i a = pixel(strip, row, column, is_outside, kernel),
		b = pixel(strip, row + 1, column, is_outside, kernel),
		c = pixel(strip, row + 2, column, is_outside, kernel),
		d = pixel(strip, row + 3, column, is_outside, kernel);
	__m512i first[2] = { _mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b) },
		second[2] = { _mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d) };
	ET_UNROLL
	for (int i = 0; i < 2; i++) {
		to[2 * i] = _mm512_unpacklo_epi16(first[i], second[i]);
		to[2 * i + 1] = _mm512_unpackhi_epi16(first[i], second[i]);
	}
}

/* Outputs of the block from its sums, in the order of channels. */
ET_EXPANDED __m512i finish(const struct strip *strip, const __m512i *sums)
{
	const struct et_depthwise_qs8 *job = strip->job;
	__m512i words[VECTORS];
	ET_UNROLL
	for (int v = 0; v < VECTORS; v++) {
		__m512 scale = _mm512_loadu_ps(strip->packed + 4 * BLOCK + v * 64),
		       value = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[v]), scale);
		value = _mm512_max_ps(_mm512_min_ps(value, _mm512_set1_ps(job->max)), _mm512_set1_ps(job->min));
		words[v] = _mm512_cvtps_epi32(value);
	}
	const __m512i zero = _mm512_set1_epi16(job->out_zero);
	return _mm512_packs_epi16(_mm512_add_epi16(_mm512_packs_epi32(words[0], words[1]), zero),
		_mm512_add_epi16(_mm512_packs_epi32(words[2], words[3]), zero));
}

ET_EXPANDED void tile(const struct strip *strip, size_t x, const bool is_border, const int kernel, const int stride)
{
	const struct et_depthwise_qs8 *job = strip->job;
	const ptrdiff_t left = (ptrdiff_t)x * stride - job->left, width = (ptrdiff_t)job->width;
	const int n_fours = (kernel + 3) / 4;
	__m512i sums[TILE][VECTORS];
	ET_UNROLL
	for (int t = 0; t < TILE; t++) {
		ET_UNROLL
		for (int v = 0; v < VECTORS; v++)
			sums[t][v] = _mm512_loadu_si512(strip->packed + v * 64);
	}
	ET_UNROLL
	for (int column = 0; column < (TILE - 1) * stride + kernel; column++) {
		const bool is_outside = is_border && (left + column < 0 || left + column >= width);
		ET_UNROLL
		for (int four = 0; four < n_fours; four++) {
			__m512i pixels[VECTORS];
			interleave(strip, 4 * four, left + column, is_outside, kernel, pixels);
			ET_UNROLL
			for (int k = 0; k < kernel; k++) {
				const int t = (column - k) / stride;
				if (column < k || (column - k) % stride != 0 || t >= TILE)
					continue;
				const uint8_t *taps = strip->packed + ET_DEPTHWISE_QS8_TAPS +
						      (size_t)(k * n_fours + four) * 4 * BLOCK;
				ET_UNROLL
				for (int v = 0; v < VECTORS; v++)
					sums[t][v] = multiply_add(sums[t][v], pixels[v], taps + v * 64);
			}
		}
	}
	ET_UNROLL
	for (int t = 0; t < TILE; t++)
		if (!is_border || x + (size_t)t < job->out_width)
			_mm512_mask_storeu_epi8(strip->out + (x + (size_t)t) * job->channels, strip->mask,
				finish(strip, sums[t]));
}

/* One row of outputs. */
ET_EXPANDED void row_of_tiles(const struct strip *strip, const int kernel, const int stride)
{
	const struct et_depthwise_qs8 *job = strip->job;
	for (size_t x = 0; x < job->out_width; x += TILE) {
		if (job->out_width >= TILE && x > job->out_width - TILE)
			x = job->out_width - TILE;
		ptrdiff_t left = (ptrdiff_t)x * stride - job->left;
		if (left < 0 || left + (TILE - 1) * stride + kernel > (ptrdiff_t)job->width || job->out_width < TILE)
			tile(strip, x, true, kernel, stride);
		else
			tile(strip, x, false, kernel, stride);
	}
}

/* Rows @begin to @end of one image. @line: a block of zero points. */
ET_EXPANDED void rows(const struct et_depthwise_qs8 *job, const int8_t *in, int8_t *out, const int8_t *line,
	size_t begin, size_t end, const int kernel, const int stride)
{
	const size_t n_row = job->width * job->channels;
	size_t n_rows = STRIP_BYTES / n_row / (size_t)stride;
	n_rows = n_rows ? n_rows : 1;
	for (size_t y = begin; y < end; y += n_rows)
		for (size_t c = 0; c < job->channels; c += BLOCK) {
			const size_t n = job->channels - c;
			struct strip strip = { .job = job,
				.packed = job->packed + c / BLOCK * et_depthwise_qs8_block((size_t)kernel),
				.mask = n < BLOCK ? (UINT64_C(1) << n) - 1 : ~UINT64_C(0) };
			for (size_t row = y; row < end && row - y < n_rows; row++) {
				for (int i = 0; i < kernel; i++) {
					ptrdiff_t at = (ptrdiff_t)row * stride - job->top + i;
					bool is_outside = at < 0 || at >= (ptrdiff_t)job->height;
					strip.rows[i] = is_outside ? line : in + (size_t)at * n_row + c;
					strip.steps[i] = is_outside ? 0 : (ptrdiff_t)job->channels;
				}
				strip.out = out + row * job->out_width * job->channels + c;
				row_of_tiles(&strip, kernel, stride);
			}
		}
}

static void run(const struct et_depthwise_qs8 *job, size_t begin, size_t end)
{
	int8_t line[BLOCK];
	memset(line, job->zero, sizeof(line));
	while (begin < end) {
		size_t image = begin / job->out_height, y = begin % job->out_height,
		       n = job->out_height - y < end - begin ? job->out_height - y : end - begin;
		const int8_t *in = job->in + image * job->height * job->width * job->channels;
		int8_t *out = job->out + image * job->out_height * job->out_width * job->channels;
		if (job->kernel == 3 && job->stride == 1)
			rows(job, in, out, line, y, y + n, 3, 1);
		else if (job->kernel == 3)
			rows(job, in, out, line, y, y + n, 3, 2);
		else if (job->stride == 1)
			rows(job, in, out, line, y, y + n, 5, 1);
		else
			rows(job, in, out, line, y, y + n, 5, 2);
		begin += n;
	}
}

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
const struct et_depthwise_qs8_build ET_DEPTHWISE_QS8_NAME = { .name = TEXT(ET_DEPTHWISE_QS8_NAME), .run = run };
