/* Windows as matrix products.
 *
 * Pixels are rows of the left matrix, where they lie. In a filter's row its columns and the channels follow each
 * other in the picture as they do in the filter, so each is one run of floats, a segment. What is at a border has
 * fewer or shorter ones: a picture is cut into rectangles whose pixels have all the same taps, nine of them
 * mostly; the wide ones are done along their rows, those at the sides along their columns. Nothing is padded, and
 * there is no table of pointers. */
#include "delegates/xnnpack/windows.h"

#include <stdbool.h>

enum { STRIP_BYTES = 128 << 10, NEAR_BYTES = 16 << 10 };

/* Neighbours in one direction that have the same taps: @n of them from @at, taps @first to @end. */
struct stretch {
	size_t at, n, first, end;
};

/* The one that begins at @at, no longer than to @limit. */
static struct stretch stretch_at(const struct et_xnn_windows *windows, int axis, size_t at, size_t limit)
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

static void run_rectangle(const struct et_xnn_windows *windows, const struct stretch *down,
	const struct stretch *across, size_t left, size_t right)
{
	struct et_xnn_gemm job = windows->job;
	const size_t *stride = windows->stride, *skip = windows->skip, *pad = windows->pad,
		     *out_step = windows->out_step;
	size_t n_row = windows->width * windows->channels, n_bytes = windows->build->n_bytes;
	job.segment_stride = n_row;
	job.filter_segment = windows->kernel[1] * windows->channels;
	job.n_segments = down->end - down->first;
	job.depth = (across->end - across->first) * windows->channels;
	job.n_segments = job.depth ? job.n_segments : 0;
	job.filter_first = (down->first * windows->kernel[1] + across->first) * windows->channels;
	if (job.n_segments)
		job.in += ((down->at * stride[0] + skip[0] + down->first - pad[0]) * n_row +
				  (across->at * stride[1] + skip[1] + across->first - pad[1]) *
					  windows->channels) *
			  n_bytes;
	job.out += (down->at * out_step[0] + across->at * out_step[1]) * n_bytes;
	bool is_tall = down->n > across->n;
	size_t n_lines = is_tall ? across->n : down->n;
	size_t in_down = stride[0] * n_row, in_across = stride[1] * windows->channels;
	job.in_stride = job.n_segments == 0 ? 0 : is_tall ? in_down : in_across;
	job.out_stride = out_step[is_tall ? 0 : 1];
	for (size_t i = 0; i < n_lines; i++) {
		windows->build->run(&job, 0, is_tall ? down->n : across->n, left, right);
		if (i + 1 == n_lines) /* a step more may lead out of what an address can say */
			break;
		job.in += job.n_segments == 0 ? 0 : (is_tall ? in_across : in_down) * n_bytes;
		job.out += out_step[is_tall ? 1 : 0] * n_bytes;
	}
}

size_t et_xnn_windows_strip(const struct et_xnn_windows *windows)
{
	size_t n_row = windows->width * windows->channels * windows->build->n_bytes;
	return n_row < STRIP_BYTES / windows->stride[0] ? STRIP_BYTES / (n_row * windows->stride[0]) : 1;
}

void et_xnn_windows_run(const struct et_xnn_windows *windows, size_t begin, size_t end)
{
	const struct et_xnn_gemm *job = &windows->job;
	size_t n_strip = et_xnn_windows_strip(windows);
	size_t n_columns = job->filter_depth == 0 || job->n_columns < NEAR_BYTES / windows->build->n_bytes /
									      job->filter_depth
				   ? job->n_columns
				   : windows->build->panel;
	for (size_t row = begin; row < end; row += n_strip) {
		size_t last = end - row < n_strip ? end : row + n_strip;
		for (size_t left = 0; left < job->n_columns; left += n_columns) {
			size_t right = job->n_columns - left < n_columns ? job->n_columns : left + n_columns;
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
