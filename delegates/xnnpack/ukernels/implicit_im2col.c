/* SPDX-License-Identifier: BSD-3-Clause */
/* Implicit im2col: windows are multiplied as matrix products where they lie in the image, without a copy.
 *
 * Windows are rows of the left matrix. One row of taps and its channels follow each other in the image as in the
 * filter, so it is one run of floats, a segment. Windows at a border have fewer or shorter segments: the image is cut
 * into rectangles, mostly nine, whose windows all have the same taps. Wide rectangles are computed along their rows,
 * those at the sides along their columns. There is no table of pointers, and the image is not padded.
 *
 * Lines are the exception: images one pixel high or wide (sound, time series). Each window at the end of a line has
 * taps of its own, and a rectangle of one window is a row by itself, which waits for each sum before the next one:
 * with 64 taps on 128 pixels half of the windows took nine tenths of the time. So the end of a line is copied with
 * its zeros. */
#include "delegates/xnnpack/ukernels/implicit_im2col.h"

#include "delegates/xnnpack/ukernels/im2col.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { STRIP_BYTES = 128 << 10, NEAR_BYTES = 16 << 10, END_BYTES = 32 << 10 };

/* @n neighbouring windows from @at on, along one axis, with the same taps: @first to @end. */
struct stretch {
	size_t at, n, first, end;
};

/* The span that begins at @at and ends at @limit at the latest. */
static struct stretch stretch_at(const struct et_xnn_implicit_im2col *windows, int axis, size_t at, size_t limit)
{
	size_t size = axis ? windows->width : windows->height, kernel = windows->kernel[axis],
	       stride = windows->stride[axis], skip = windows->skip[axis], pad = windows->pad[axis];
	struct stretch stretch = { .at = at };
	for (size_t i = at; i < limit; i++) {
		size_t from = i * stride + skip, first = from < pad ? pad - from : 0,
		       end = size + pad > from ? size + pad - from : 0;
		first = first < kernel ? first : kernel;
		end = end < kernel ? end : kernel;
		end = end > first ? end : first;
		if (i > at && (first != stretch.first || end != stretch.end))
			break;
		stretch.first = first;
		stretch.end = end;
		stretch.n++;
	}
	return stretch;
}

static void run_rectangle(const struct et_xnn_implicit_im2col *windows, const struct stretch *down,
	const struct stretch *across, size_t left, size_t right)
{
	struct et_xnn_gemm job = windows->job;
	const size_t *stride = windows->stride, *skip = windows->skip, *pad = windows->pad,
		     *out_step = windows->out_step;
	size_t n_row = windows->width * windows->channels, n_bytes = windows->build->n_bytes;
	job.segment_stride = (ptrdiff_t)n_row;
	job.filter_segment = windows->kernel[1] * windows->channels;
	job.n_segments = down->end - down->first;
	job.depth = (across->end - across->first) * windows->channels;
	job.n_segments = job.depth ? job.n_segments : 0;
	job.filter_first = (down->first * windows->kernel[1] + across->first) * windows->channels;
	if (job.n_segments)
		job.in += ((down->at * stride[0] + skip[0] + down->first - pad[0]) * n_row +
				  (across->at * stride[1] + skip[1] + across->first - pad[1]) * windows->channels) *
			  n_bytes;
	if (job.depth == n_row && job.depth == job.filter_segment) { /* segments follow each other, so they are one */
		job.depth *= job.n_segments;
		job.n_segments = job.n_segments > 0;
	}
	job.out += (down->at * out_step[0] + across->at * out_step[1]) * n_bytes;
	bool is_tall = down->n > across->n;
	size_t n_lines = is_tall ? across->n : down->n;
	size_t in_down = stride[0] * n_row, in_across = stride[1] * windows->channels;
	job.in_stride = job.n_segments == 0 ? 0 : is_tall ? in_down : in_across;
	job.out_stride = out_step[is_tall ? 0 : 1];
	for (size_t i = 0; i < n_lines; i++) {
		windows->build->run(&job, 0, is_tall ? down->n : across->n, left, right);
		if (i + 1 == n_lines) /* one step more might overflow the address */
			break;
		job.in += job.n_segments == 0 ? 0 : (is_tall ? in_across : in_down) * n_bytes;
		job.out += out_step[is_tall ? 1 : 0] * n_bytes;
	}
}

/* The axis of a line; -1: the image is none, or not all of its rows of windows are wanted. */
static int line_axis(const struct et_xnn_implicit_im2col *windows, size_t end)
{
	const size_t *kernel = windows->kernel, *skip = windows->skip, *pad = windows->pad;
	if (windows->width == 1 && windows->out_width == 1 && kernel[1] == 1 && skip[1] == 0 && pad[1] == 0)
		return 0;
	return windows->height == 1 && end == 1 && kernel[0] == 1 && skip[0] == 0 && pad[0] == 0 ? 1 : -1;
}

/* How many windows from @at on, to @limit at most, are not wholly inside the line. */
static size_t n_clipped(const struct et_xnn_implicit_im2col *windows, int axis, size_t at, size_t limit)
{
	size_t n = 0;
	for (struct stretch one; at + n < limit; n += one.n) {
		one = stretch_at(windows, axis, at + n, limit);
		if (one.end - one.first == windows->kernel[axis])
			break;
	}
	return n;
}

/* How many windows of a line fit END_BYTES with all their pixels. */
static size_t n_held(const struct et_xnn_implicit_im2col *windows, int axis)
{
	size_t n_pixels = END_BYTES / (windows->channels * windows->build->n_bytes), kernel = windows->kernel[axis];
	return n_pixels < kernel ? 0 : 1 + (n_pixels - kernel) / windows->stride[axis];
}

/* Copy and multiply @n windows from @at on, no more than fit, with all their pixels and zeros. */
static void run_end(const struct et_xnn_implicit_im2col *windows, int axis, size_t at, size_t n, size_t left,
	size_t right)
{
	struct et_xnn_gemm job = windows->job;
	alignas(float) uint8_t pixels[END_BYTES];
	size_t stride = windows->stride[axis], kernel = windows->kernel[axis], pad = windows->pad[axis],
	       n_bytes = windows->build->n_bytes, n_of_pixel = windows->channels * n_bytes,
	       size = axis ? windows->width : windows->height;
	size_t from = at * stride + windows->skip[axis], end = from + (n - 1) * stride + kernel,
	       first = from < pad ? pad : from, last = end < size + pad ? end : size + pad;
	memset(pixels, 0, (end - from) * n_of_pixel);
	if (first < last)
		memcpy(pixels + (first - from) * n_of_pixel, job.in + (first - pad) * n_of_pixel,
			(last - first) * n_of_pixel);
	job.n_segments = 1;
	job.depth = kernel * windows->channels;
	job.in_stride = stride * windows->channels;
	job.in = pixels;
	job.out_stride = windows->out_step[axis];
	job.out += at * job.out_stride * n_bytes;
	windows->build->run(&job, 0, n, left, right);
}

/* Looks no further than what is computed at once, else many windows at an end would be counted again for each few of
 * them. */
static void run_line(const struct et_xnn_implicit_im2col *windows, int axis, size_t begin, size_t end, size_t left,
	size_t right)
{
	static const struct stretch one = { .n = 1, .end = 1 };
	const size_t most = n_held(windows, axis);
	for (size_t at = begin, n; at < end; at += n) {
		n = n_clipped(windows, axis, at, end - at < most ? end : at + most);
		if (n > 1) {
			run_end(windows, axis, at, n, left, right);
			continue;
		}
		struct stretch along = stretch_at(windows, axis, at, end);
		run_rectangle(windows, axis ? &one : &along, axis ? &along : &one, left, right);
		n = along.n;
	}
}

size_t et_xnn_implicit_im2col_strip(const struct et_xnn_implicit_im2col *windows)
{
	size_t n_row = windows->width * windows->channels * windows->build->n_bytes;
	return n_row < STRIP_BYTES / windows->stride[0] ? STRIP_BYTES / (n_row * windows->stride[0]) : 1;
}

bool et_xnn_implicit_im2col_count_zeros(const float *filter, size_t n, bool are_fp16)
{
	const uint32_t most = are_fp16 ? 0x477fefff : 0x7f7fffff; /* below 65520, finite */
	uint32_t is_beyond = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t bits;
		memcpy(&bits, filter + i, sizeof(bits));
		is_beyond |= (bits & 0x7fffffff) > most;
	}
	return is_beyond != 0;
}

void et_xnn_implicit_im2col_mark(const float *filter, size_t n, bool are_fp16, uint8_t *mark)
{
	memset(mark, 0, ET_XNN_IMPLICIT_IM2COL_MARK);
	mark[0] = et_xnn_implicit_im2col_count_zeros(filter, n, are_fp16);
}

bool et_xnn_implicit_im2col_is_marked(const uint8_t *mark)
{
	return mark[0] != 0;
}

static void run_counted(const struct et_xnn_implicit_im2col *windows, size_t begin, size_t end)
{
	struct et_xnn_im2col patches = { .build = windows->build,
		.job = windows->job,
		.groups = 1,
		.height = windows->height,
		.width = windows->width,
		.channels = windows->channels,
		.out_width = windows->out_width,
		.filter_taps = windows->kernel[0] * windows->kernel[1] };
	for (int axis = 0; axis < 2; axis++) {
		patches.kernel[axis] = windows->kernel[axis];
		patches.stride[axis] = windows->stride[axis];
		patches.spread[axis] = 1;
		patches.step[axis] = 1;
		patches.first[axis] = (ptrdiff_t)windows->skip[axis] - (ptrdiff_t)windows->pad[axis];
		patches.out_step[axis] = windows->out_step[axis];
	}
	et_xnn_im2col_run(&patches, begin, end);
}

/* Whether zeros are multiplied, and a window fits im2col's buffer. */
static bool is_counted(const struct et_xnn_implicit_im2col *windows)
{
	return windows->counts_zeros &&
	       et_xnn_im2col_fit(windows->kernel[0] * windows->kernel[1], windows->channels, windows->build->n_bytes);
}

void et_xnn_implicit_im2col_run(const struct et_xnn_implicit_im2col *windows, size_t begin, size_t end)
{
	if (is_counted(windows)) {
		run_counted(windows, begin, end);
		return;
	}
	const struct et_xnn_gemm *job = &windows->job;
	size_t n_strip = et_xnn_implicit_im2col_strip(windows);
	size_t n_columns = job->filter_depth == 0 ||
					   job->n_columns < NEAR_BYTES / windows->build->n_bytes / job->filter_depth
				   ? job->n_columns
				   : windows->build->panel;
	int line = line_axis(windows, end);
	for (size_t row = begin; row < end; row += n_strip) {
		size_t last = end - row < n_strip ? end : row + n_strip;
		for (size_t left = 0; left < job->n_columns; left += n_columns) {
			size_t right = job->n_columns - left < n_columns ? job->n_columns : left + n_columns;
			if (line >= 0) {
				run_line(windows, line, line ? 0 : row, line ? windows->out_width : last, left, right);
				continue;
			}
			for (size_t y = row; y < last;) {
				struct stretch down = stretch_at(windows, 0, y, last);
				for (size_t x = 0; x < windows->out_width;) {
					struct stretch across = stretch_at(windows, 1, x, windows->out_width);
					run_rectangle(windows, &down, &across, left, right);
					x += across.n;
				}
				y += down.n;
			}
		}
	}
}
