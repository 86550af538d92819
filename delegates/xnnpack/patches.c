/* Windows, copied.
 *
 * The pixels of some windows, zeros among them, are copied to rows of their own, in the order of the filter's taps; such rows times
 * the filter are a product. All groups are copied at once: each multiplies its own channels of each tap, a segment.
 *
 * That reads and writes each pixel once for each tap before it is multiplied, which windows.c spares where a window's rows are runs of
 * numbers. But it knows no borders and no forms, sums take their taps in whichever order a caller says, and a weight that is no number
 * or infinite is multiplied with the zeros around the picture, as XNNPACK multiplies it. */
#include "delegates/xnnpack/patches.h"

#include "runtime/base/checked.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

enum {
	PATCH_BYTES = 128 << 10, /* of the stack */
	NEAR_BYTES = 32 << 10,   /* as much is done at once, */
	LEAST_ROWS = 14,         /* but a tile at least, if it is held */
};

bool et_xnn_patches_fit(size_t n_taps, size_t channels, size_t n_bytes)
{
	return et_mul(n_taps, channels, &n_taps) && et_mul(n_taps, n_bytes, &n_taps) && n_taps <= PATCH_BYTES;
}

/* The pixel at that place of the spread picture, or -1. */
static ptrdiff_t pixel_at(ptrdiff_t at, size_t spread, size_t size)
{
	if (at < 0)
		return -1;
	size_t pixel = (size_t)at;
	if (spread > 1) {
		if (pixel % spread != 0)
			return -1;
		pixel /= spread;
	}
	return pixel < size ? (ptrdiff_t)pixel : -1;
}

/* The taps of a row of the window at column @x, of the picture's row @in or, without one, zeros. Returns where the next ones go. */
static uint8_t *copy_row(const struct et_xnn_patches *patches, const uint8_t *in, size_t x, uint8_t *to)
{
	const size_t n = patches->groups * patches->channels * patches->build->n_bytes,
		     n_taps = patches->kernel[1];
	const ptrdiff_t step = patches->step[1], size = (ptrdiff_t)patches->width;
	ptrdiff_t at = (ptrdiff_t)(x * patches->stride[1]) + patches->first[1];
	if (in && step == 1 && patches->spread[1] == 1 && at >= 0 && at + (ptrdiff_t)n_taps <= size) {
		memcpy(to, in + (size_t)at * n, n_taps * n);
		return to + n_taps * n;
	}
	for (size_t tap = 0; tap < n_taps; tap++, at += step, to += n) {
		ptrdiff_t pixel = in ? pixel_at(at, patches->spread[1], patches->width) : -1;
		if (pixel >= 0)
			memcpy(to, in + (size_t)pixel * n, n);
		else
			memset(to, 0, n);
	}
	return to;
}

static void copy_window(const struct et_xnn_patches *patches, size_t y, size_t x, uint8_t *to)
{
	const size_t n_row = patches->width * patches->groups * patches->channels * patches->build->n_bytes;
	ptrdiff_t at = (ptrdiff_t)(y * patches->stride[0]) + patches->first[0];
	for (size_t tap = 0; tap < patches->kernel[0]; tap++, at += patches->step[0]) {
		ptrdiff_t row = pixel_at(at, patches->spread[0], patches->height);
		to = copy_row(patches, row < 0 ? NULL : patches->job.in + (size_t)row * n_row, x, to);
	}
}

/* Whether each window of rows up to @end is the pixel at its place: there is nothing to copy. */
static bool is_pointwise(const struct et_xnn_patches *patches, size_t end)
{
	bool is = patches->out_width == patches->width && end <= patches->height;
	for (int axis = 0; axis < 2; axis++)
		is = is && patches->kernel[axis] == 1 && patches->stride[axis] == 1 &&
		     patches->spread[axis] == 1 && patches->first[axis] == 0;
	return is;
}

/* What is done at once. */
static size_t n_held(size_t n_bytes)
{
	size_t near = NEAR_BYTES / n_bytes, most = PATCH_BYTES / n_bytes;
	near = near < LEAST_ROWS ? LEAST_ROWS : near - near % LEAST_ROWS;
	return near < most ? near : most;
}

/* @n rows of all groups; @job: the first one's. */
static void run_groups(const struct et_xnn_patches *patches, const struct et_xnn_gemm *job, size_t n)
{
	const size_t n_bytes = patches->build->n_bytes;
	struct et_xnn_gemm one = *job;
	for (size_t group = 0; group < patches->groups; group++) {
		patches->build->run(&one, 0, n, 0, one.n_columns);
		one.in += patches->channels * n_bytes;
		one.out += one.n_columns * n_bytes;
		one.packed += patches->packed_step * n_bytes;
	}
}

/* @n windows from the first one of row @row on, through all of each row; their results lie @out_stride apart, from @out on. */
static void run_line(
	const struct et_xnn_patches *patches, size_t row, size_t n, size_t out_stride, uint8_t *out)
{
	alignas(64) uint8_t pixels[PATCH_BYTES];
	const size_t n_taps = patches->kernel[0] * patches->kernel[1], width = patches->out_width,
		     pixel = patches->groups * patches->channels, n_bytes = patches->build->n_bytes;
	struct et_xnn_gemm job = patches->job;
	job.in_stride = n_taps * pixel;
	job.out_stride = out_stride;
	job.segment_stride = pixel;
	job.n_segments = patches->groups == 1 ? 1 : n_taps;
	job.filter_depth = n_taps * patches->channels;
	job.depth = job.filter_depth / job.n_segments;
	job.filter_first = 0;
	job.filter_segment = patches->channels;
	job.out = out;
	if (is_pointwise(patches, row + (n + width - 1) / width)) {
		job.in += row * width * pixel * n_bytes;
		run_groups(patches, &job, n);
		return;
	}
	const size_t n_most = n_held(job.in_stride * n_bytes);
	job.in = pixels;
	for (size_t at = 0, n_now; at < n; at += n_now, job.out += n_now * out_stride * n_bytes) {
		n_now = n - at < n_most ? n - at : n_most;
		for (size_t i = 0; i < n_now; i++)
			copy_window(patches, row + (at + i) / width, (at + i) % width,
				pixels + i * job.in_stride * n_bytes);
		run_groups(patches, &job, n_now);
	}
}

void et_xnn_patches_run(const struct et_xnn_patches *patches, size_t begin, size_t end)
{
	const size_t down = patches->out_step[0], across = patches->out_step[1], n = patches->out_width,
		     n_bytes = patches->build->n_bytes;
	uint8_t *out = patches->job.out + begin * down * n_bytes;
	if (n == 1 || down == n * across) { /* results follow each other from row to row */
		run_line(patches, begin, (end - begin) * n, n == 1 ? down : across, out);
		return;
	}
	for (size_t row = begin; row < end; row++, out += down * n_bytes)
		run_line(patches, row, n, across, out);
}
