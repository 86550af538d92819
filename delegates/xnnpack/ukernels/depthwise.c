/* SPDX-License-Identifier: BSD-3-Clause */
/* Depthwise convolution micro-kernels, compiled once for each instruction set (meson.build).
 *
 * XNNPACK's kernels read the image through a table with a pointer for each tap of each pixel: they load an input and
 * a weight for each product, and wait for loads. Here a tile is TILE neighbouring pixels of one output row, one
 * vector of channels deep, whose sums stay in registers. For each row of taps the weights are loaded once, and each
 * vector of the image's row is loaded once and added to all sums that it is part of: 16 loads for 35 products with 5
 * × 5. Each sum still takes its taps in order.
 *
 * A tile at the left or right border leaves out the columns outside the image; rows outside are not read. Leaving out
 * a zero changes no sum, unless a weight is infinite or NaN (counts_zeros).
 *
 * The last tile of a row, or of the channels, overlaps the one before. If a row is shorter than a tile, a tile is
 * stored in part. If there are fewer channels than a vector holds, they are computed one by one.
 *
 * Tiles go down all rows of a strip before the next vector of channels. So weights come from a copy in the
 * first-level cache, where those of many channels would push each other out. A strip is as high as its input fits the
 * second-level cache.
 *
 * An image larger than the second-level cache is read fastest from its first byte to its last: all channels of a tile
 * have their turn before the next tile, if the copies of their weights are small beside the first-level cache, as
 * with 3 × 3. What the next tile is the first to read is prefetched, a piece for each vector of channels, because the
 * processor sees no pattern in what a tile reads.
 *
 * Filters of other sizes have one loop: each tap's weight is loaded once for a tile and multiplied with the input of
 * each pixel of the tile, a load for each product.
 *
 * fp16 is computed in floats that are rounded to fp16 after each product, like the original's XNNPACK and in its
 * order, because in fp16 another order gives visibly other results. That order is column by column, for 5 × 5
 * alternating between two sums, and row by row for more than 25 taps.
 *
 * TILE is 7 because the rows of images are mostly 7 times a power of two. With 8, a quarter of a row of 28 would be
 * computed twice. */
#include "delegates/xnnpack/ukernels/depthwise.h"

#include "runtime/base/expand.h"

#include <stdint.h>
#include <string.h>
#if defined(ET_DEPTHWISE_FP16)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum {
	TILE = 7,
	MAX_KERNEL = 7,
	STRIP_BYTES = 256 << 10,
	FAR_BYTES = 1 << 20,
	NEAR_FLOATS = 4096,
	MOST_LOST = 25, /* taps */
};

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t ints __attribute__((vector_size(LANES * sizeof(int32_t))));

static inline vector load_floats(const float *from)
{
	vector value;
	memcpy(&value, from, sizeof(value));
	return value;
}

static inline void store_floats(float *to, vector value)
{
	memcpy(to, &value, sizeof(value));
}

/* The type of an image's elements. Elements are read as floats, and sums are rounded to the type. */
#if defined(ET_DEPTHWISE_FP16)
typedef uint16_t number;
enum { ARE_FP16 = true };

static inline vector load(const number *from)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

static inline void store(number *to, vector value)
{
	_mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

static inline vector rounded(vector value)
{
	return _mm512_cvtph_ps(_mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

static inline float float_of(number fp16)
{
	return _cvtsh_ss(fp16);
}

static inline number number_of(float value)
{
	return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}
#else
typedef float number;
enum { ARE_FP16 = false };

static inline vector load(const number *from)
{
	return load_floats(from);
}

static inline void store(number *to, vector value)
{
	store_floats(to, value);
}

static inline vector rounded(vector value)
{
	return value;
}

static inline float float_of(number value)
{
	return value;
}

static inline number number_of(float value)
{
	return value;
}
#endif

enum { LINE = 64 / sizeof(number) };

static inline vector choose(ints mask, vector a, vector b)
{
	return (vector)((mask & (ints)a) | (~mask & (ints)b));
}

/* One vector of channels in one row of one image. Pointers are to the first of these channels. */
struct strip {
	const struct et_depthwise *job;
	const number *in;
	const float *filter; /* a copy of the weights: a vector for each tap */
	number *out;
	vector bias;
};

/* Where an output's window begins, in the image. */
static inline ptrdiff_t origin(size_t at, int stride, ptrdiff_t padding)
{
	return (ptrdiff_t)at * stride - padding;
}

/* Whether a sum that is NaN becomes the lower limit, like XNNPACK's for so few taps. */
static inline bool loses_nans(const struct et_depthwise *job)
{
	return ARE_FP16 && job->kernel_height * job->kernel_width <= MOST_LOST;
}

/* Store the first @n pixels of a tile. */
ET_EXPANDED void put(const struct et_depthwise *job, const vector *sums, number *out, size_t n)
{
	const vector min = job->min - (vector){ 0 }, max = job->max - (vector){ 0 };
	const bool is_lost = loses_nans(job);
	ET_UNROLL
	for (int t = 0; t < TILE; t++) {
		vector sum = choose(is_lost ? ~(sums[t] >= min) : min > sums[t], min, sums[t]);
		sum = choose(max < sum, max, sum);
		if ((size_t)t < n)
			store(out + (size_t)t * job->channels, sum);
	}
}

ET_EXPANDED void put_tile(const struct strip *strip, const vector *sums, size_t x, size_t y, bool is_border)
{
	const struct et_depthwise *job = strip->job;
	put(job, sums, strip->out + (y * job->out_width + x) * job->channels,
		is_border && job->out_width < TILE ? job->out_width : TILE);
}

ET_EXPANDED void tile(const struct strip *strip, size_t x, size_t y, bool is_border, const int kernel, const int stride)
{
	const struct et_depthwise *job = strip->job;
	const ptrdiff_t step = (ptrdiff_t)job->channels, width = (ptrdiff_t)job->width, height = (ptrdiff_t)job->height;
	const ptrdiff_t left = origin(x, stride, job->left), top = origin(y, stride, job->top);
	const ptrdiff_t first = top < 0 ? -top : 0, end = height - top < kernel ? height - top : kernel;
	vector sums[TILE];
	ET_UNROLL
	for (int t = 0; t < TILE; t++)
		sums[t] = strip->bias;
	for (ptrdiff_t row = first; row < end; row++) {
		const number *in = strip->in + ((top + row) * width + left) * step;
		vector weights[MAX_KERNEL];
		ET_UNROLL
		for (int k = 0; k < kernel; k++)
			weights[k] = load_floats(strip->filter + (row * kernel + k) * LANES);
		ET_UNROLL
		for (int column = 0; column < (TILE - 1) * stride + kernel; column++) {
			if (is_border && (left + column < 0 || left + column >= width))
				continue;
			vector value = load(in + column * step);
			ET_UNROLL
			for (int k = 0; k < kernel; k++) {
				int t = (column - k) / stride;
				if (column >= k && (column - k) % stride == 0 && t < TILE)
					sums[t] = rounded(sums[t] + value * weights[k]);
			}
		}
	}
	put_tile(strip, sums, x, y, is_border);
}

/* The same column by column, for 5 × 5 alternating between two sums. */
ET_EXPANDED void tile_by_columns(const struct strip *strip, size_t x, size_t y, bool is_border, const int kernel,
	const int stride)
{
	const struct et_depthwise *job = strip->job;
	const ptrdiff_t step = (ptrdiff_t)job->channels, width = (ptrdiff_t)job->width, height = (ptrdiff_t)job->height;
	const ptrdiff_t left = origin(x, stride, job->left), top = origin(y, stride, job->top);
	const int n_sums = kernel > 3 ? 2 : 1;
	vector sums[2][TILE] = { 0 };
	ET_UNROLL
	for (int t = 0; t < TILE; t++)
		sums[0][t] = strip->bias;
	ET_UNROLL
	for (int tap = 0; tap < kernel * kernel; tap++) {
		const ptrdiff_t row = top + tap % kernel, column = left + tap / kernel;
		if (row < 0 || row >= height)
			continue;
		const vector weights = load_floats(strip->filter + (tap % kernel * kernel + tap / kernel) * LANES);
		const number *in = strip->in + (row * width + column) * step;
		ET_UNROLL
		for (int t = 0; t < TILE; t++) {
			ptrdiff_t at = t * stride;
			vector *sum = &sums[tap % n_sums][t];
			if (!is_border || (column + at >= 0 && column + at < width))
				*sum = rounded(*sum + load(in + at * step) * weights);
		}
	}
	ET_UNROLL
	for (int t = 0; t < TILE && n_sums > 1; t++)
		sums[0][t] = rounded(sums[0][t] + sums[1][t]);
	put_tile(strip, sums[0], x, y, is_border);
}

/* Compute the tile at @x, or the row's last tile if fewer pixels are left; returns where the next tile begins. */
ET_EXPANDED size_t next_tile(const struct strip *strip, size_t x, size_t y, const int kernel, const int stride)
{
	const struct et_depthwise *job = strip->job;
	if (job->out_width >= TILE && x > job->out_width - TILE)
		x = job->out_width - TILE;
	ptrdiff_t left = origin(x, stride, job->left);
	bool is_border = left < 0 || left + (TILE - 1) * stride + kernel > (ptrdiff_t)job->width;
	if (ARE_FP16 && kernel <= 5 && is_border)
		tile_by_columns(strip, x, y, true, kernel, stride);
	else if (ARE_FP16 && kernel <= 5)
		tile_by_columns(strip, x, y, false, kernel, stride);
	else if (is_border)
		tile(strip, x, y, true, kernel, stride);
	else
		tile(strip, x, y, false, kernel, stride);
	return x + TILE;
}

/* The job for the vector of channels at @c. Its weights are copied to *@filter, which is moved behind the copy. */
ET_EXPANDED struct strip strip_at(const struct et_depthwise *job, const number *in, number *out, size_t c,
	float **filter, const int kernel)
{
	struct strip strip = { .job = job, .in = in + c, .filter = *filter, .out = out + c };
	for (int tap = 0; tap < kernel * kernel; tap++) {
		store_floats(*filter, rounded(load_floats(job->filter + (size_t)tap * job->channels + c)));
		*filter += LANES;
	}
	if (job->bias)
		strip.bias = rounded(load_floats(job->bias + c));
	return strip;
}

/* Rows @begin to @end of one image. */
ET_EXPANDED void rows(const struct et_depthwise *job, const number *in, number *out, size_t begin, size_t end,
	const int kernel, const int stride)
{
	size_t n_rows = STRIP_BYTES / (job->width * job->channels * sizeof(number) * (size_t)stride);
	n_rows = n_rows ? n_rows : 1;
	for (size_t y = begin; y < end; y += n_rows) {
		size_t last = end - y < n_rows ? end : y + n_rows;
		for (size_t c = 0; c < job->channels; c += LANES) {
			if (c > job->channels - LANES)
				c = job->channels - LANES;
			_Alignas(64) float filter[MAX_KERNEL * MAX_KERNEL * LANES], *copy = filter;
			struct strip strip = strip_at(job, in, out, c, &copy, kernel);
			for (size_t row = y; row < last; row++)
				for (size_t x = 0; x < job->out_width;)
					x = next_tile(&strip, x, row, kernel, stride);
		}
	}
}

/* Prefetch the @i-th piece of what the tile behind @x is the first to read and to write. A prefetch may be of any
 * address. */
ET_EXPANDED void fetch_ahead(const struct et_depthwise *job, const number *in, const number *out, size_t i, size_t x,
	size_t y, const int kernel, const int stride)
{
	const ptrdiff_t step = (ptrdiff_t)job->channels, n = (ptrdiff_t)TILE * LANES,
			column = origin(x + TILE, stride, job->left) + kernel - stride,
			row = origin(y, stride, job->top) + kernel - stride;
	for (int r = 0; r < stride; r++) {
		const number *ahead = in + ((row + r) * (ptrdiff_t)job->width + column) * step +
				      (ptrdiff_t)i * n * stride;
		ET_UNROLL
		for (ptrdiff_t k = 0; k < n * stride; k += LINE)
			__builtin_prefetch(ahead + k, 0);
	}
	const number *to = out + (ptrdiff_t)(y * job->out_width + x + TILE) * step + (ptrdiff_t)i * n;
	ET_UNROLL
	for (ptrdiff_t k = 0; k < n; k += LINE)
		__builtin_prefetch(to + k, 1);
}

/* The same in the image's memory order. */
ET_EXPANDED void rows_in_order(const struct et_depthwise *job, const number *in, number *out, size_t begin, size_t end,
	const int kernel, const int stride)
{
	_Alignas(64) float filter[NEAR_FLOATS], *copy = filter;
	struct strip strips[NEAR_FLOATS / (3 * 3 * LANES)];
	size_t n = 0;
	for (size_t c = 0; c < job->channels; c += LANES) {
		if (c > job->channels - LANES)
			c = job->channels - LANES;
		strips[n++] = strip_at(job, in, out, c, &copy, kernel);
	}
	for (size_t y = begin; y < end; y++)
		for (size_t x = 0, next = job->out_width; x < job->out_width; x = next)
			for (size_t i = 0; i < n; i++) {
				fetch_ahead(job, in, out, i, x, y, kernel, stride);
				next = next_tile(&strips[i], x, y, kernel, stride);
			}
}

/* A tile for a filter of any size: one vector of channels from @c on, pixels from @x on, of which @n are stored. */
ET_EXPANDED void any_tile(const struct et_depthwise *job, const number *in, number *out, size_t c, size_t x, size_t y,
	size_t n, bool is_border)
{
	const ptrdiff_t step = (ptrdiff_t)job->channels, width = (ptrdiff_t)job->width,
			stride = (ptrdiff_t)job->stride_width;
	const ptrdiff_t left = (ptrdiff_t)x * stride - job->left, top = (ptrdiff_t)(y * job->stride_height) - job->top;
	const float *filter = job->filter + c;
	vector sums[TILE];
	ET_UNROLL
	for (int t = 0; t < TILE; t++)
		sums[t] = job->bias ? rounded(load_floats(job->bias + c)) : (vector){ 0 };
	for (size_t i = 0; i < job->kernel_height; i++) {
		ptrdiff_t row = top + (ptrdiff_t)(i * job->dilation_height);
		if (row < 0 || row >= (ptrdiff_t)job->height) {
			filter += job->kernel_width * job->channels;
			continue;
		}
		for (size_t k = 0; k < job->kernel_width; k++, filter += job->channels) {
			ptrdiff_t column = left + (ptrdiff_t)(k * job->dilation_width);
			const number *from = in + (row * width + column) * step + c;
			vector weights = rounded(load_floats(filter));
			ET_UNROLL
			for (int t = 0; t < TILE; t++) {
				if (is_border && (column + t * stride < 0 || column + t * stride >= width))
					continue;
				sums[t] = rounded(sums[t] + load(from + t * stride * step) * weights);
			}
		}
	}
	put(job, sums, out + (y * job->out_width + x) * job->channels + c, n);
}

/* Rows @begin to @end of one image, for a filter of any size. */
static void any_rows(const struct et_depthwise *job, const number *in, number *out, size_t begin, size_t end)
{
	size_t n_rows = STRIP_BYTES / (job->width * job->channels * sizeof(number)) / job->stride_height;
	n_rows = n_rows ? n_rows : 1;
	size_t n = job->out_width < TILE ? job->out_width : TILE,
	       reach = (TILE - 1) * job->stride_width + (job->kernel_width - 1) * job->dilation_width;
	for (size_t y = begin; y < end; y += n_rows)
		for (size_t c = 0; c < job->channels; c += LANES) {
			if (c > job->channels - LANES)
				c = job->channels - LANES;
			for (size_t row = y; row < end && row - y < n_rows; row++)
				for (size_t x = 0; x < job->out_width; x += TILE) {
					if (x > job->out_width - n)
						x = job->out_width - n;
					ptrdiff_t left = (ptrdiff_t)(x * job->stride_width) - job->left;
					if (left < 0 || left + (ptrdiff_t)reach >= (ptrdiff_t)job->width)
						any_tile(job, in, out, c, x, row, n, true);
					else
						any_tile(job, in, out, c, x, row, TILE, false);
				}
		}
}

static bool is_far(const struct et_depthwise *job)
{
	size_t n_vectors = (job->channels + LANES - 1) / LANES, n_row = job->width * job->channels * sizeof(number);
	return job->kernel_width == 3 && n_vectors <= NEAR_FLOATS / (3 * 3 * LANES) && n_row > FAR_BYTES / job->height;
}

/* The element under a tap, or zero outside the image. */
static inline float value_at(const struct et_depthwise *job, const number *in, ptrdiff_t y, ptrdiff_t x, size_t channel)
{
	if (x < 0 || x >= (ptrdiff_t)job->width || y < 0 || y >= (ptrdiff_t)job->height)
		return 0;
	return float_of(in[(size_t)(y * (ptrdiff_t)job->width + x) * job->channels + channel]);
}

/* Element by element, zeros outside the image included. */
static void narrow_rows(const struct et_depthwise *job, const number *in, number *out, size_t begin, size_t end)
{
	size_t n_channels = job->channels, n = job->out_width * n_channels,
	       n_taps = job->kernel_height * job->kernel_width;
	for (size_t i = begin * n; i < end * n; i++) {
		size_t channel = i % n_channels, column = i / n_channels % job->out_width, row = i / n;
		float sum = job->bias ? float_of(number_of(job->bias[channel])) : 0;
		for (size_t tap = 0; tap < n_taps; tap++) {
			ptrdiff_t x = (ptrdiff_t)(column * job->stride_width +
						  tap % job->kernel_width * job->dilation_width) -
				      job->left,
				  y = (ptrdiff_t)(row * job->stride_height +
						  tap / job->kernel_width * job->dilation_height) -
				      job->top;
			float weight = float_of(number_of(job->filter[tap * n_channels + channel]));
			sum = float_of(number_of(sum + value_at(job, in, y, x, channel) * weight));
		}
		sum = job->min > sum || (loses_nans(job) && sum != sum) ? job->min : sum;
		out[i] = number_of(job->max < sum ? job->max : sum);
	}
}

static void run(const struct et_depthwise *job, size_t begin, size_t end)
{
	while (begin < end) {
		size_t image = begin / job->out_height, y = begin % job->out_height,
		       n = job->out_height - y < end - begin ? job->out_height - y : end - begin;
		const number *in = (const number *)job->in + image * job->height * job->width * job->channels;
		number *out = (number *)job->out + image * job->out_height * job->out_width * job->channels;
		if (job->channels < LANES || job->counts_zeros)
			narrow_rows(job, in, out, y, y + n);
		else if (!et_depthwise_is_usual(job))
			any_rows(job, in, out, y, y + n);
		else if (is_far(job) && job->stride_width == 1)
			rows_in_order(job, in, out, y, y + n, 3, 1);
		else if (is_far(job))
			rows_in_order(job, in, out, y, y + n, 3, 2);
		else if (job->kernel_width == 3 && job->stride_width == 1)
			rows(job, in, out, y, y + n, 3, 1);
		else if (job->kernel_width == 3)
			rows(job, in, out, y, y + n, 3, 2);
		else if (job->kernel_width == 7)
			rows(job, in, out, y, y + n, 7, 1);
		else if (job->stride_width == 1)
			rows(job, in, out, y, y + n, 5, 1);
		else
			rows(job, in, out, y, y + n, 5, 2);
		begin += n;
	}
}

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
const struct et_depthwise_build ET_DEPTHWISE_NAME = {
	.name = TEXT(ET_DEPTHWISE_NAME), .are_fp16 = ARE_FP16, .run = run
};
