/* SPDX-License-Identifier: BSD-3-Clause */
/* im2col: the pixels of some windows, with the zeros around the image, are copied to rows, which gemm.h multiplies
 * with the filter.
 *
 * Compared with implicit_im2col.c, which multiplies windows where they lie, each pixel is read and written once more
 * for each tap. In exchange there is no special case for borders and forms, the caller chooses the order of taps, and
 * an infinite or NaN weight is multiplied with the zeros around the image, as in XNNPACK.
 *
 * There are three ways to copy:
 * - Groups of few channels (run_strips): the channels of one group are copied alone, with the zeros around them, for
 *   a strip of rows. Then the windows of a line are rows that overlap, and each row of taps is one run. Otherwise a
 *   product would read its few channels from far more memory. Where lines are short, windows are copied from the
 *   strip.
 * - All channels of some rows, a tile: each tap of a window is one run.
 * - Window by window, where pixels are spread (a transposed convolution with zeros between) or a tile would be too
 *   large. */
#include "delegates/xnnpack/ukernels/im2col.h"

#include "runtime/base/checked.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

enum {
	PATCH_BYTES = 128 << 10, /* the buffer for copies, on the stack */
	NEAR_BYTES = 32 << 10,   /* what is copied before it is multiplied, */
	LEAST_ROWS = 14,         /* but at least a register tile's rows, if the buffer holds them */
	SHORT_LINE =
		/* windows: in lines no longer, several lines are multiplied at once, else a tile would wait for its
		 * sums */
	3,
};

bool et_xnn_im2col_fit(size_t n_taps, size_t channels, size_t n_bytes)
{
	return et_mul(n_taps, channels, &n_taps) && et_mul(n_taps, n_bytes, &n_taps) && n_taps <= PATCH_BYTES;
}

/* The pixel at that place of the spread image, or -1. */
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

/* Copy one row of taps of the window at column @x from the image's row @in; NULL: zeros. Returns where the next row
 * goes. */
static uint8_t *copy_row(const struct et_xnn_im2col *im2col, const uint8_t *in, size_t x, uint8_t *to)
{
	const size_t n = im2col->groups * im2col->channels * im2col->build->n_bytes, n_taps = im2col->kernel[1];
	const ptrdiff_t step = im2col->step[1], size = (ptrdiff_t)im2col->width;
	ptrdiff_t at = (ptrdiff_t)(x * im2col->stride[1]) + im2col->first[1];
	if (in && step == 1 && im2col->spread[1] == 1 && at >= 0 && at + (ptrdiff_t)n_taps <= size) {
		memcpy(to, in + (size_t)at * n, n_taps * n);
		return to + n_taps * n;
	}
	for (size_t tap = 0; tap < n_taps; tap++, at += step, to += n) {
		ptrdiff_t pixel = in ? pixel_at(at, im2col->spread[1], im2col->width) : -1;
		if (pixel >= 0)
			memcpy(to, in + (size_t)pixel * n, n);
		else
			memset(to, 0, n);
	}
	return to;
}

static void copy_window(const struct et_xnn_im2col *im2col, size_t y, size_t x, uint8_t *to)
{
	const size_t n_row = im2col->width * im2col->groups * im2col->channels * im2col->build->n_bytes;
	ptrdiff_t at = (ptrdiff_t)(y * im2col->stride[0]) + im2col->first[0];
	for (size_t tap = 0; tap < im2col->kernel[0]; tap++, at += im2col->step[0]) {
		ptrdiff_t row = pixel_at(at, im2col->spread[0], im2col->height);
		to = copy_row(im2col, row < 0 ? NULL : im2col->job.in + (size_t)row * n_row, x, to);
	}
}

/* Whether each window of rows up to @end is the one pixel at its place, so that there is nothing to copy. */
static bool is_pointwise(const struct et_xnn_im2col *im2col, size_t end)
{
	bool is = im2col->out_width == im2col->width && end <= im2col->height;
	for (int axis = 0; axis < 2; axis++)
		is = is && im2col->kernel[axis] == 1 && im2col->stride[axis] == 1 && im2col->spread[axis] == 1 &&
		     im2col->first[axis] == 0;
	return is;
}

/* Windows that are multiplied at once. */
static size_t n_held(size_t n_bytes)
{
	size_t near = NEAR_BYTES / n_bytes, most = PATCH_BYTES / n_bytes;
	near = near < LEAST_ROWS ? LEAST_ROWS : near - near % LEAST_ROWS;
	return near < most ? near : most;
}

/* Multiply @n rows with the filters of all groups; @job: of the first group. */
static void run_groups(const struct et_xnn_im2col *im2col, const struct et_xnn_gemm *job, size_t n)
{
	const size_t n_bytes = im2col->build->n_bytes;
	struct et_xnn_gemm one = *job;
	for (size_t group = 0; group < im2col->groups; group++) {
		im2col->build->run(&one, 0, n, 0, one.n_columns);
		one.in += im2col->channels * n_bytes;
		one.out += one.n_columns * n_bytes;
		one.packed += im2col->packed_step * n_bytes;
	}
}

/* Copy and multiply @n windows from the first one of row @row on; their results lie @out_stride apart, from @out on. */
static void run_line(const struct et_xnn_im2col *im2col, size_t row, size_t n, size_t out_stride, uint8_t *out)
{
	alignas(64) uint8_t pixels[PATCH_BYTES];
	const size_t n_taps = im2col->kernel[0] * im2col->kernel[1], width = im2col->out_width,
		     pixel = im2col->groups * im2col->channels, n_bytes = im2col->build->n_bytes;
	struct et_xnn_gemm job = im2col->job;
	job.in_stride = n_taps * pixel;
	job.out_stride = out_stride;
	job.segment_stride = (ptrdiff_t)pixel;
	job.n_segments = im2col->groups == 1 ? 1 : n_taps;
	job.filter_depth = im2col->filter_taps * im2col->channels;
	job.n_segments = n_taps ? job.n_segments : 0;
	job.depth = n_taps ? n_taps * im2col->channels / job.n_segments : 0;
	job.filter_first = 0;
	job.filter_segment = im2col->channels;
	job.out = out;
	if (n_taps == 0 || is_pointwise(im2col, row + (n + width - 1) / width)) {
		job.in += n_taps ? row * width * pixel * n_bytes : 0;
		run_groups(im2col, &job, n);
		return;
	}
	const size_t n_most = n_held(job.in_stride * n_bytes);
	job.in = pixels;
	for (size_t at = 0, n_now; at < n; at += n_now, job.out += n_now * out_stride * n_bytes) {
		n_now = n - at < n_most ? n - at : n_most;
		for (size_t i = 0; i < n_now; i++)
			copy_window(im2col, row + (at + i) / width, (at + i) % width,
				pixels + i * job.in_stride * n_bytes);
		run_groups(im2col, &job, n_now);
	}
}

/* --- copying the image with the zeros around it --- */

/* The @n places of the image from @from on, down or across, that some windows read. */
struct reach {
	ptrdiff_t from;
	size_t n;
};

static struct reach reach_of(const struct et_xnn_im2col *im2col, int axis, size_t begin, size_t n_windows)
{
	const ptrdiff_t across = (ptrdiff_t)(im2col->kernel[axis] - 1) * im2col->step[axis],
			at = (ptrdiff_t)(begin * im2col->stride[axis]) + im2col->first[axis];
	return (struct reach){ .from = at + (across < 0 ? across : 0),
		.n = (n_windows - 1) * im2col->stride[axis] + (size_t)(across < 0 ? -across : across) + 1 };
}

/* Copy @n pixels of @n_bytes that lie @step bytes apart. The usual @n_bytes are constants. */
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

/* The part of each pixel that is copied: @n_bytes, @step bytes apart, of the first pixel at @in. */
struct copied {
	const uint8_t *in;
	size_t step, n_bytes;
};

/* Copy the image's row @row, zeros where there is none. */
static void copy_image_row(const struct et_xnn_im2col *im2col, const struct copied *copied, ptrdiff_t row,
	const struct reach *across, uint8_t *to)
{
	const ptrdiff_t width = (ptrdiff_t)im2col->width, end = across->from + (ptrdiff_t)across->n;
	ptrdiff_t first = across->from > 0 ? across->from : 0, last = end < width ? end : width;
	if (row < 0 || row >= (ptrdiff_t)im2col->height || first >= last) {
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

/* Copy all that @n rows of windows read, from row @begin on. */
static void copy_rows(const struct et_xnn_im2col *im2col, const struct copied *copied, size_t begin, size_t n,
	uint8_t *to)
{
	const struct reach down = reach_of(im2col, 0, begin, n), across = reach_of(im2col, 1, 0, im2col->out_width);
	for (size_t i = 0; i < down.n; i++, to += across.n * copied->n_bytes)
		copy_image_row(im2col, copied, down.from + (ptrdiff_t)i, &across, to);
}

/* --- group by group --- */

/* Some rows of windows, and the pixels of one group that they read. */
struct strip {
	size_t n_windows;      /* rows */
	size_t width;          /* pixels of a row */
	size_t n_pixel, n_row; /* bytes */
};

/* False: another way is better, or the only one. */
static bool is_strip(const struct et_xnn_im2col *im2col, struct strip *ret_strip)
{
	if (im2col->groups == 1 || im2col->spread[0] != 1 || im2col->spread[1] != 1 || im2col->step[0] < 1 ||
		im2col->step[1] != 1 || im2col->first[1] > 0 || im2col->kernel[0] == 0 || im2col->kernel[1] == 0)
		return false;
	struct strip strip = { .width = reach_of(im2col, 1, 0, im2col->out_width).n,
		.n_pixel = im2col->channels * im2col->build->n_bytes };
	strip.n_row = strip.width * strip.n_pixel;
	size_t reach = reach_of(im2col, 0, 0, 1).n, n_rows = NEAR_BYTES / strip.n_row;
	if (n_rows < reach + im2col->stride[0])
		n_rows = PATCH_BYTES / strip.n_row;
	if (n_rows < reach)
		return false;
	strip.n_windows = (n_rows - reach) / im2col->stride[0] + 1;
	*ret_strip = strip;
	return true;
}

/* Multiply @n lines of one group, windows where they lie in the strip; @job: of the first line. */
static void run_long_lines(const struct et_xnn_im2col *im2col, const struct strip *strip, const struct et_xnn_gemm *job,
	size_t n)
{
	struct et_xnn_gemm line = *job;
	for (size_t i = 0; i < n; i++) {
		im2col->build->run(&line, 0, im2col->out_width, 0, line.n_columns);
		line.in += im2col->stride[0] * strip->n_row;
		line.out += im2col->out_step[0] * im2col->build->n_bytes;
	}
}

/* The same for short lines: windows are copied to rows, so that all lines are one product. */
static void run_short_lines(const struct et_xnn_im2col *im2col, const struct strip *strip,
	const struct et_xnn_gemm *job, size_t n)
{
	alignas(64) uint8_t rows[NEAR_BYTES];
	const size_t n_bytes = im2col->build->n_bytes, width = im2col->out_width, n_run = job->depth * n_bytes,
		     n_row = n_run * job->n_segments, n_most = sizeof(rows) / n_row;
	struct et_xnn_gemm some = *job;
	some.n_segments = 1;
	some.depth = some.in_stride = job->filter_depth;
	some.in = rows;
	for (size_t at = 0, n_now; at < n * width; at += n_now) {
		n_now = n * width - at < n_most ? n * width - at : n_most;
		uint8_t *to = rows;
		for (size_t i = at; i < at + n_now; i++) {
			const uint8_t *from = job->in + i / width * im2col->stride[0] * strip->n_row +
					      i % width * job->in_stride * n_bytes;
			for (size_t tap = 0; tap < job->n_segments; tap++, to += n_run)
				memcpy(to, from + tap * (size_t)job->segment_stride * n_bytes, n_run);
		}
		im2col->build->run(&some, 0, n_now, 0, some.n_columns);
		some.out += n_now * some.out_stride * n_bytes;
	}
}

/* Rows of windows @begin to @end, group by group. */
static void run_strips(const struct et_xnn_im2col *im2col, const struct strip *strip, size_t begin, size_t end)
{
	alignas(64) uint8_t pixels[PATCH_BYTES];
	const size_t n_bytes = im2col->build->n_bytes, kernel = im2col->kernel[1] * im2col->channels;
	struct et_xnn_gemm job = im2col->job;
	job.in_stride = im2col->stride[1] * im2col->channels;
	job.out_stride = im2col->out_step[1];
	job.n_segments = im2col->kernel[0];
	job.depth = job.filter_segment = kernel;
	job.segment_stride = im2col->step[0] * (ptrdiff_t)(strip->width * im2col->channels);
	job.filter_depth = im2col->kernel[0] * kernel;
	job.filter_first = 0;
	job.in = pixels;
	bool is_short = im2col->out_width <= SHORT_LINE && im2col->out_step[0] == im2col->out_width * job.out_stride &&
			job.filter_depth * n_bytes <= NEAR_BYTES / LEAST_ROWS;
	for (size_t row = begin, n; row < end; row += n) {
		n = end - row < strip->n_windows ? end - row : strip->n_windows;
		job.packed = im2col->job.packed;
		job.out = im2col->job.out + row * im2col->out_step[0] * n_bytes;
		for (size_t group = 0; group < im2col->groups; group++) {
			const struct copied override = { im2col->job.in + group * strip->n_pixel,
				strip->n_pixel * im2col->groups, strip->n_pixel };
			copy_rows(im2col, &override, row, n, pixels);
			if (is_short)
				run_short_lines(im2col, strip, &job, n);
			else
				run_long_lines(im2col, strip, &job, n);
			job.packed += im2col->packed_step * n_bytes;
			job.out += job.n_columns * n_bytes;
		}
	}
}

/* --- all groups at once --- */

/* Window by window. */
static void run_copied(const struct et_xnn_im2col *im2col, size_t begin, size_t end)
{
	const size_t down = im2col->out_step[0], across = im2col->out_step[1], n = im2col->out_width,
		     n_bytes = im2col->build->n_bytes;
	uint8_t *out = im2col->job.out + begin * down * n_bytes;
	if (n == 1 || down == n * across) { /* results follow each other from row to row */
		run_line(im2col, begin, (end - begin) * n, n == 1 ? down : across, out);
		return;
	}
	for (size_t row = begin; row < end; row++, out += down * n_bytes)
		run_line(im2col, row, n, across, out);
}

/* How many rows of windows a tile holds; 0: window by window is better, or the only way. */
static size_t n_of_tile(const struct et_xnn_im2col *im2col)
{
	const size_t pixel = im2col->groups * im2col->channels * im2col->build->n_bytes;
	if (im2col->spread[0] != 1 || im2col->spread[1] != 1 || im2col->kernel[0] * im2col->kernel[1] < 2)
		return 0;
	for (int axis = 0; axis < 2; axis++) { /* a larger one would not fit, and its size might overflow */
		size_t step = (size_t)(im2col->step[axis] < 0 ? -im2col->step[axis] : im2col->step[axis]);
		if (im2col->kernel[axis] > PATCH_BYTES || step > PATCH_BYTES || im2col->stride[axis] > PATCH_BYTES)
			return 0;
	}
	if (im2col->out_width > PATCH_BYTES || pixel > PATCH_BYTES)
		return 0;
	const size_t n_row = reach_of(im2col, 1, 0, im2col->out_width).n, n_down = reach_of(im2col, 0, 0, 1).n;
	if (n_row > PATCH_BYTES / pixel)
		return 0;
	const size_t n_rows = PATCH_BYTES / (n_row * pixel);
	return n_rows < n_down ? 0 : 1 + (n_rows - n_down) / im2col->stride[0];
}

/* Rows of windows @begin to @end, no more than a tile holds. */
static void run_tile(const struct et_xnn_im2col *im2col, size_t begin, size_t end)
{
	alignas(64) uint8_t pixels[PATCH_BYTES];
	const struct reach down = reach_of(im2col, 0, begin, end - begin),
			   across = reach_of(im2col, 1, 0, im2col->out_width);
	const ptrdiff_t pixel = (ptrdiff_t)(im2col->groups * im2col->channels), n_row = (ptrdiff_t)across.n * pixel;
	const size_t n_bytes = im2col->build->n_bytes, *kernel = im2col->kernel;
	struct et_xnn_gemm job = im2col->job;
	copy_rows(im2col, &(const struct copied){ job.in, (size_t)pixel * n_bytes, (size_t)pixel * n_bytes }, begin,
		end - begin, pixels);
	bool is_run = im2col->groups == 1 && im2col->step[1] == 1; /* a row of taps is one run */
	job.n_segments = is_run ? kernel[0] : kernel[0] * kernel[1];
	job.n_in_line = is_run ? 1 : kernel[1];
	job.depth = job.filter_segment = is_run ? kernel[1] * im2col->channels : im2col->channels;
	job.segment_stride = is_run ? 0 : im2col->step[1] * pixel;
	job.line_stride = im2col->step[0] * n_row - (ptrdiff_t)job.n_in_line * job.segment_stride;
	job.filter_depth = im2col->filter_taps * im2col->channels;
	job.filter_first = 0;
	job.in_stride = im2col->stride[1] * (size_t)pixel;
	job.out_stride = im2col->out_step[1];
	for (size_t row = begin; row < end; row++) {
		ptrdiff_t y = (ptrdiff_t)(row * im2col->stride[0]) + im2col->first[0] - down.from;
		job.in = pixels + (size_t)(y * n_row + (im2col->first[1] - across.from) * pixel) * n_bytes;
		job.out = im2col->job.out + row * im2col->out_step[0] * n_bytes;
		run_groups(im2col, &job, im2col->out_width);
	}
}

void et_xnn_im2col_run(const struct et_xnn_im2col *im2col, size_t begin, size_t end)
{
	struct strip strip;
	if (is_strip(im2col, &strip) && !is_pointwise(im2col, end)) {
		run_strips(im2col, &strip, begin, end);
		return;
	}
	const size_t n_tile = n_of_tile(im2col);
	for (size_t n; n_tile && begin < end; begin += n) {
		n = end - begin < n_tile ? end - begin : n_tile;
		run_tile(im2col, begin, begin + n);
	}
	if (begin < end)
		run_copied(im2col, begin, end);
}
