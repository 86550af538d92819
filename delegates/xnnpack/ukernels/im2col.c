/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows, copied.
 *
 * The pixels of some windows, zeros among them, are copied to rows of their own, in the order of the filter's taps; such rows times
 * the filter are a product. All groups are copied at once: each multiplies its own channels of each tap, a segment.
 *
 * That reads and writes each pixel once for each tap before it is multiplied, which implicit_im2col.c spares where a window's rows are runs of
 * numbers. But it knows no borders and no forms, sums take their taps in whichever order a caller says, and a weight that is no number
 * or infinite is multiplied with the zeros around the picture, as XNNPACK multiplies it.
 *
 * Of a convolution in groups, whose channels of a group are few, the pixels would be read from far more memory than each product is
 * made of. So of some rows of the picture a group's channels are copied alone, once each, with the zeros around them: then the
 * windows of a line are rows that overlap, each tap's row of them a run of numbers. Of short lines windows are copied from there.
 *
 * Of others all channels are copied so, a sheet, and each tap of a window is a run of numbers. Window by window is done what has pixels
 * spread or would make too large a sheet. */
#include "delegates/xnnpack/ukernels/im2col.h"

#include "runtime/base/checked.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

enum {
	PATCH_BYTES = 128 << 10, /* of the stack */
	NEAR_BYTES = 32 << 10,   /* as much is done at once, */
	LEAST_ROWS = 14,         /* but a tile at least, if it is held */
	SHORT_LINE = 3,          /* windows, so few that a tile waits for its sums: several lines are better at once */
};

bool et_xnn_im2col_fit(size_t n_taps, size_t channels, size_t n_bytes)
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
static uint8_t *copy_row(const struct et_xnn_im2col *patches, const uint8_t *in, size_t x, uint8_t *to)
{
	const size_t n = patches->groups * patches->channels * patches->build->n_bytes, n_taps = patches->kernel[1];
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

static void copy_window(const struct et_xnn_im2col *patches, size_t y, size_t x, uint8_t *to)
{
	const size_t n_row = patches->width * patches->groups * patches->channels * patches->build->n_bytes;
	ptrdiff_t at = (ptrdiff_t)(y * patches->stride[0]) + patches->first[0];
	for (size_t tap = 0; tap < patches->kernel[0]; tap++, at += patches->step[0]) {
		ptrdiff_t row = pixel_at(at, patches->spread[0], patches->height);
		to = copy_row(patches, row < 0 ? NULL : patches->job.in + (size_t)row * n_row, x, to);
	}
}

/* Whether each window of rows up to @end is the pixel at its place: there is nothing to copy. */
static bool is_pointwise(const struct et_xnn_im2col *patches, size_t end)
{
	bool is = patches->out_width == patches->width && end <= patches->height;
	for (int axis = 0; axis < 2; axis++)
		is = is && patches->kernel[axis] == 1 && patches->stride[axis] == 1 && patches->spread[axis] == 1 &&
		     patches->first[axis] == 0;
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
static void run_groups(const struct et_xnn_im2col *patches, const struct et_xnn_gemm *job, size_t n)
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
static void run_line(const struct et_xnn_im2col *patches, size_t row, size_t n, size_t out_stride, uint8_t *out)
{
	alignas(64) uint8_t pixels[PATCH_BYTES];
	const size_t n_taps = patches->kernel[0] * patches->kernel[1], width = patches->out_width,
		     pixel = patches->groups * patches->channels, n_bytes = patches->build->n_bytes;
	struct et_xnn_gemm job = patches->job;
	job.in_stride = n_taps * pixel;
	job.out_stride = out_stride;
	job.segment_stride = (ptrdiff_t)pixel;
	job.n_segments = patches->groups == 1 ? 1 : n_taps;
	job.filter_depth = patches->filter_taps * patches->channels;
	job.n_segments = n_taps ? job.n_segments : 0;
	job.depth = n_taps ? n_taps * patches->channels / job.n_segments : 0;
	job.filter_first = 0;
	job.filter_segment = patches->channels;
	job.out = out;
	if (n_taps == 0 || is_pointwise(patches, row + (n + width - 1) / width)) {
		job.in += n_taps ? row * width * pixel * n_bytes : 0;
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

/* --- the picture, copied with the zeros around it -------------------------------------------------------- */

/* Places of the picture, down or across, that some windows look at: @n of them from @from on. */
struct reach {
	ptrdiff_t from;
	size_t n;
};

static struct reach reach_of(const struct et_xnn_im2col *patches, int axis, size_t begin, size_t n_windows)
{
	const ptrdiff_t across = (ptrdiff_t)(patches->kernel[axis] - 1) * patches->step[axis],
			at = (ptrdiff_t)(begin * patches->stride[axis]) + patches->first[axis];
	return (struct reach){ .from = at + (across < 0 ? across : 0),
		.n = (n_windows - 1) * patches->stride[axis] + (size_t)(across < 0 ? -across : across) + 1 };
}

/* @n pixels that lie @step bytes apart. The usual sizes, of @n_bytes, are known beforehand. */
static void copy_pixels(const uint8_t *from, size_t step, size_t n, size_t n_bytes, uint8_t *to)
{
	for (size_t i = 0; i < n; i++, from += step, to += n_bytes) {
		switch (n_bytes) {
		case 16:
			memcpy(to, from, 16);
			break;
		case 32:
			memcpy(to, from, 32);
			break;
		case 64:
			memcpy(to, from, 64);
			break;
		default:
			memcpy(to, from, n_bytes);
		}
	}
}

/* What is copied of pixels: @n_bytes of each, @step bytes apart, those of the first one at @in. */
struct copied {
	const uint8_t *in;
	size_t step, n_bytes;
};

/* Of the picture's row @row, with zeros where there is none. */
static void copy_image_row(const struct et_xnn_im2col *patches, const struct copied *copied, ptrdiff_t row,
	const struct reach *across, uint8_t *to)
{
	const ptrdiff_t width = (ptrdiff_t)patches->width, end = across->from + (ptrdiff_t)across->n;
	ptrdiff_t first = across->from > 0 ? across->from : 0, last = end < width ? end : width;
	if (row < 0 || row >= (ptrdiff_t)patches->height || first >= last) {
		memset(to, 0, across->n * copied->n_bytes);
		return;
	}
	const size_t left = (size_t)(first - across->from) * copied->n_bytes, n = (size_t)(last - first);
	const uint8_t *from = copied->in + (size_t)(row * width + first) * copied->step;
	memset(to, 0, left);
	to += left;
	if (copied->step == copied->n_bytes)
		memcpy(to, from, n * copied->n_bytes);
	else
		copy_pixels(from, copied->step, n, copied->n_bytes, to);
	memset(to + n * copied->n_bytes, 0, (size_t)(end - last) * copied->n_bytes);
}

/* All that @n rows of windows look at, from row @begin on. */
static void copy_rows(const struct et_xnn_im2col *patches, const struct copied *copied, size_t begin, size_t n,
	uint8_t *to)
{
	const struct reach down = reach_of(patches, 0, begin, n), across = reach_of(patches, 1, 0, patches->out_width);
	for (size_t i = 0; i < down.n; i++, to += across.n * copied->n_bytes)
		copy_image_row(patches, copied, down.from + (ptrdiff_t)i, &across, to);
}

/* --- groups by themselves ------------------------------------------------------------------------------- */

/* Some rows of windows, and the pixels of one group that they need. */
struct strip {
	size_t n_windows;      /* rows of them */
	size_t width;          /* pixels of a row */
	size_t n_pixel, n_row; /* bytes */
};

/* False: it is not to be done so. */
static bool is_strip(const struct et_xnn_im2col *patches, struct strip *ret_strip)
{
	if (patches->groups == 1 || patches->spread[0] != 1 || patches->spread[1] != 1 || patches->step[0] < 1 ||
		patches->step[1] != 1 || patches->first[1] > 0 || patches->kernel[0] == 0 || patches->kernel[1] == 0)
		return false;
	struct strip strip = { .width = reach_of(patches, 1, 0, patches->out_width).n,
		.n_pixel = patches->channels * patches->build->n_bytes };
	strip.n_row = strip.width * strip.n_pixel;
	size_t reach = reach_of(patches, 0, 0, 1).n, n_rows = NEAR_BYTES / strip.n_row;
	if (n_rows < reach + patches->stride[0])
		n_rows = PATCH_BYTES / strip.n_row;
	if (n_rows < reach)
		return false;
	strip.n_windows = (n_rows - reach) / patches->stride[0] + 1;
	*ret_strip = strip;
	return true;
}

/* @n lines of one group; @job: of the first one, whose windows are where they lie. */
static void run_long_lines(const struct et_xnn_im2col *patches, const struct strip *strip,
	const struct et_xnn_gemm *job, size_t n)
{
	struct et_xnn_gemm line = *job;
	for (size_t i = 0; i < n; i++) {
		patches->build->run(&line, 0, patches->out_width, 0, line.n_columns);
		line.in += patches->stride[0] * strip->n_row;
		line.out += patches->out_step[0] * patches->build->n_bytes;
	}
}

/* The same, where results follow each other from line to line: windows become rows that do. */
static void run_short_lines(const struct et_xnn_im2col *patches, const struct strip *strip,
	const struct et_xnn_gemm *job, size_t n)
{
	alignas(64) uint8_t rows[NEAR_BYTES];
	const size_t n_bytes = patches->build->n_bytes, width = patches->out_width, n_run = job->depth * n_bytes,
		     n_row = n_run * job->n_segments, n_most = sizeof(rows) / n_row;
	struct et_xnn_gemm some = *job;
	some.n_segments = 1;
	some.depth = some.in_stride = job->filter_depth;
	some.in = rows;
	for (size_t at = 0, n_now; at < n * width; at += n_now) {
		n_now = n * width - at < n_most ? n * width - at : n_most;
		uint8_t *to = rows;
		for (size_t i = at; i < at + n_now; i++) {
			const uint8_t *from = job->in + i / width * patches->stride[0] * strip->n_row +
					      i % width * job->in_stride * n_bytes;
			for (size_t tap = 0; tap < job->n_segments; tap++, to += n_run)
				memcpy(to, from + tap * (size_t)job->segment_stride * n_bytes, n_run);
		}
		patches->build->run(&some, 0, n_now, 0, some.n_columns);
		some.out += n_now * some.out_stride * n_bytes;
	}
}

/* Rows @begin to @end of the windows of all groups. */
static void run_strips(const struct et_xnn_im2col *patches, const struct strip *strip, size_t begin, size_t end)
{
	alignas(64) uint8_t pixels[PATCH_BYTES];
	const size_t n_bytes = patches->build->n_bytes, kernel = patches->kernel[1] * patches->channels;
	struct et_xnn_gemm job = patches->job;
	job.in_stride = patches->stride[1] * patches->channels;
	job.out_stride = patches->out_step[1];
	job.n_segments = patches->kernel[0];
	job.depth = job.filter_segment = kernel;
	job.segment_stride = patches->step[0] * (ptrdiff_t)(strip->width * patches->channels);
	job.filter_depth = patches->kernel[0] * kernel;
	job.filter_first = 0;
	job.in = pixels;
	bool is_short = patches->out_width <= SHORT_LINE &&
			patches->out_step[0] == patches->out_width * job.out_stride &&
			job.filter_depth * n_bytes <= NEAR_BYTES / LEAST_ROWS;
	for (size_t row = begin, n; row < end; row += n) {
		n = end - row < strip->n_windows ? end - row : strip->n_windows;
		job.packed = patches->job.packed;
		job.out = patches->job.out + row * patches->out_step[0] * n_bytes;
		for (size_t group = 0; group < patches->groups; group++) {
			const struct copied override = { patches->job.in + group * strip->n_pixel,
				strip->n_pixel * patches->groups, strip->n_pixel };
			copy_rows(patches, &override, row, n, pixels);
			if (is_short)
				run_short_lines(patches, strip, &job, n);
			else
				run_long_lines(patches, strip, &job, n);
			job.packed += patches->packed_step * n_bytes;
			job.out += job.n_columns * n_bytes;
		}
	}
}

/* --- all groups at once ---------------------------------------------------------------------------------- */

/* Window by window. */
static void run_copied(const struct et_xnn_im2col *patches, size_t begin, size_t end)
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

/* How many rows of windows a sheet holds; 0: it is better done, or can only be done, window by window. */
static size_t n_of_tile(const struct et_xnn_im2col *patches)
{
	const size_t pixel = patches->groups * patches->channels * patches->build->n_bytes;
	if (patches->spread[0] != 1 || patches->spread[1] != 1 || patches->kernel[0] * patches->kernel[1] < 2)
		return 0;
	for (int axis = 0; axis < 2; axis++) { /* larger ones would not fit, and could not be counted with */
		size_t step = (size_t)(patches->step[axis] < 0 ? -patches->step[axis] : patches->step[axis]);
		if (patches->kernel[axis] > PATCH_BYTES || step > PATCH_BYTES || patches->stride[axis] > PATCH_BYTES)
			return 0;
	}
	if (patches->out_width > PATCH_BYTES || pixel > PATCH_BYTES)
		return 0;
	const size_t n_row = reach_of(patches, 1, 0, patches->out_width).n, n_down = reach_of(patches, 0, 0, 1).n;
	if (n_row > PATCH_BYTES / pixel)
		return 0;
	const size_t n_rows = PATCH_BYTES / (n_row * pixel);
	return n_rows < n_down ? 0 : 1 + (n_rows - n_down) / patches->stride[0];
}

/* Rows @begin to @end of windows, no more than a sheet holds. */
static void run_tile(const struct et_xnn_im2col *patches, size_t begin, size_t end)
{
	alignas(64) uint8_t pixels[PATCH_BYTES];
	const struct reach down = reach_of(patches, 0, begin, end - begin),
			   across = reach_of(patches, 1, 0, patches->out_width);
	const ptrdiff_t pixel = (ptrdiff_t)(patches->groups * patches->channels), n_row = (ptrdiff_t)across.n * pixel;
	const size_t n_bytes = patches->build->n_bytes, *kernel = patches->kernel;
	struct et_xnn_gemm job = patches->job;
	copy_rows(patches, &(const struct copied){ job.in, (size_t)pixel * n_bytes, (size_t)pixel * n_bytes }, begin,
		end - begin, pixels);
	bool is_run = patches->groups == 1 && patches->step[1] == 1; /* a row of a window */
	job.n_segments = is_run ? kernel[0] : kernel[0] * kernel[1];
	job.n_in_line = is_run ? 1 : kernel[1];
	job.depth = job.filter_segment = is_run ? kernel[1] * patches->channels : patches->channels;
	job.segment_stride = is_run ? 0 : patches->step[1] * pixel;
	job.line_stride = patches->step[0] * n_row - (ptrdiff_t)job.n_in_line * job.segment_stride;
	job.filter_depth = patches->filter_taps * patches->channels;
	job.filter_first = 0;
	job.in_stride = patches->stride[1] * (size_t)pixel;
	job.out_stride = patches->out_step[1];
	for (size_t row = begin; row < end; row++) {
		ptrdiff_t y = (ptrdiff_t)(row * patches->stride[0]) + patches->first[0] - down.from;
		job.in = pixels + (size_t)(y * n_row + (patches->first[1] - across.from) * pixel) * n_bytes;
		job.out = patches->job.out + row * patches->out_step[0] * n_bytes;
		run_groups(patches, &job, patches->out_width);
	}
}

void et_xnn_im2col_run(const struct et_xnn_im2col *patches, size_t begin, size_t end)
{
	struct strip strip;
	if (is_strip(patches, &strip) && !is_pointwise(patches, end)) {
		run_strips(patches, &strip, begin, end);
		return;
	}
	const size_t n_tile = n_of_tile(patches);
	for (size_t n; n_tile && begin < end; begin += n) {
		n = end - begin < n_tile ? end - begin : n_tile;
		run_tile(patches, begin, begin + n);
	}
	if (begin < end)
		run_copied(patches, begin, end);
}
