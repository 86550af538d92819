/* Convolutions and fully connected layers of floats, as matrix products (gemm.h).
 *
 * Pixels are rows of the left matrix, where they lie. In a filter's row its columns and the channels follow each
 * other in the picture as they do in the filter, so each is one run of floats, a segment. What is at a border has
 * fewer or shorter ones: a picture is cut into rectangles whose pixels have all the same taps, nine of them
 * mostly; the wide ones are done along their rows, those at the sides along their columns. Nothing is padded, and
 * there is no table of pointers.
 *
 * A filter is packed once for a Program, like XNNPACK's and kept with those (weights.h). */
#include "delegates/xnnpack/own.h"

#include "delegates/xnnpack/gemm.h"
#include "runtime/base/checked.h"

enum {
	GRAIN = 1 << 17,   /* products that are worth another thread's while */
	FEW_ROWS = 8 * 14, /* too few to share among threads: these share columns instead */
	STRIP_BYTES = 128 << 10,
	NEAR_BYTES = 16 << 10,
};

static bool is_plain(const struct et_xnn_value *value)
{
	return value->type == ET_XNN_FP32 && value->quant == ET_XNN_QUANT_NONE;
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	bool is_convolution = node->kind->infer == et_xnn_infer_convolution;
	if ((!is_convolution && node->kind->infer != et_xnn_infer_fully_connected) || node->flags ||
		!et_xnn_gemm())
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]],
				  *filter = &payload->values[node->inputs[1]],
				  *out = &payload->values[node->outputs[0]];
	const struct et_xnn_value *bias =
		node->inputs[2] != ET_XNN_NONE ? &payload->values[node->inputs[2]] : NULL;
	if (!is_plain(in) || in->data || !is_plain(out) || !is_plain(filter) || !filter->data ||
		(bias && (!is_plain(bias) || !bias->data)))
		return false;
	if (is_convolution &&
		(n[ET_XNN_GROUPS] != 1 || n[ET_XNN_DILATION_H] != 1 || n[ET_XNN_DILATION_W] != 1))
		return false;
	/* XNNPACK does whole tiles of a convolution's columns, however few of them there are; here narrow panels are
	 * done narrowly. */
	size_t products = filter->shape.dims[0];
	if (is_convolution && !et_align_up(products, ET_GEMM_PANEL, &products))
		return false;
	for (uint32_t i = 1; i < filter->shape.n_dims; i++)
		products *= filter->shape.dims[i];
	for (uint32_t i = 0; i + 1 < out->shape.n_dims; i++)
		if (!et_mul(products, out->shape.dims[i], &products))
			return false;
	return et_xnn_own_is_worth(products);
}

/* A node's left matrix, as far as its filter says it. */
static size_t depth_of(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_shape *filter = &payload->values[node->inputs[1]].shape;
	size_t n = 1;
	for (uint32_t i = 1; i < filter->n_dims; i++)
		n *= filter->dims[i];
	return n;
}

static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	size_t n =
		et_xnn_gemm_n_packed(depth_of(payload, node), payload->values[node->inputs[1]].shape.dims[0]);
	return n == SIZE_MAX ? n : n * sizeof(float);
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *to)
{
	const struct et_xnn_value *filter = &payload->values[node->inputs[1]];
	const void *bias = node->inputs[2] == ET_XNN_NONE ? NULL : payload->values[node->inputs[2]].data;
	et_xnn_gemm_pack((const float *)(const void *)filter->data, bias, depth_of(payload, node),
		filter->shape.dims[0], to);
}

struct gemm {
	const struct et_xnn_gemm_build *build;
	struct et_xnn_gemm job; /* without what a rectangle says */
	/* A convolution's. */
	size_t height, width, channels, out_height, out_width;
	size_t kernel[2], stride[2], pad[2]; /* down, across */
};

static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct gemm *gemm = arg;
	gemm->build->run(&gemm->job, begin, end, 0, gemm->job.n_columns);
}

static size_t panels(const struct gemm *gemm)
{
	return (gemm->job.n_columns + ET_GEMM_PANEL - 1) / ET_GEMM_PANEL;
}

struct columns {
	const struct gemm *gemm;
	size_t n_rows;
};

static size_t column_at(const struct gemm *gemm, size_t panel)
{
	size_t at = panel * ET_GEMM_PANEL;
	return at < gemm->job.n_columns ? at : gemm->job.n_columns;
}

static void run_columns(void *arg, size_t begin, size_t end)
{
	const struct columns *columns = arg;
	const struct gemm *gemm = columns->gemm;
	gemm->build->run(&gemm->job, 0, columns->n_rows, column_at(gemm, begin), column_at(gemm, end));
}

/* --- windows ------------------------------------------------------------------------------------------ */

/* Neighbours in one direction that have the same taps: @n of them from @at, taps @first to @end. */
struct stretch {
	size_t at, n, first, end;
};

/* The one that begins at @at, no longer than to @limit. */
static struct stretch stretch_at(const struct gemm *gemm, int axis, size_t at, size_t limit)
{
	size_t size = axis ? gemm->width : gemm->height, kernel = gemm->kernel[axis],
	       stride = gemm->stride[axis], pad = gemm->pad[axis];
	struct stretch stretch = { .at = at };
	for (size_t i = at; i < limit; i++) {
		size_t from = i * stride, first = from < pad ? pad - from : 0,
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

static void run_rectangle(const struct gemm *gemm, const struct stretch *down, const struct stretch *across,
	size_t left, size_t right)
{
	struct et_xnn_gemm job = gemm->job;
	size_t n_row = gemm->width * gemm->channels, n_out = gemm->out_width * job.n_columns;
	job.n_segments = down->end - down->first;
	job.depth = (across->end - across->first) * gemm->channels;
	job.n_segments = job.depth ? job.n_segments : 0;
	job.filter_first = (down->first * gemm->kernel[1] + across->first) * gemm->channels;
	if (job.n_segments)
		job.in += (down->at * gemm->stride[0] + down->first - gemm->pad[0]) * n_row +
			  (across->at * gemm->stride[1] + across->first - gemm->pad[1]) * gemm->channels;
	job.out += down->at * n_out + across->at * job.n_columns;
	bool is_tall = down->n > across->n;
	size_t n_lines = is_tall ? across->n : down->n;
	size_t in_down = gemm->stride[0] * n_row, in_across = gemm->stride[1] * gemm->channels;
	job.in_stride = job.n_segments == 0 ? 0 : is_tall ? in_down : in_across;
	job.out_stride = is_tall ? n_out : job.n_columns;
	for (size_t i = 0; i < n_lines; i++) {
		gemm->build->run(&job, 0, is_tall ? down->n : across->n, left, right);
		if (i + 1 == n_lines) /* a step more may lead out of what an address can say */
			break;
		job.in += job.n_segments == 0 ? 0 : is_tall ? in_across : in_down;
		job.out += is_tall ? job.n_columns : n_out;
	}
}

/* Rows @begin to @end of one image. */
static void run_image(const struct gemm *gemm, size_t begin, size_t end)
{
	const struct et_xnn_gemm *job = &gemm->job;
	size_t n_row = gemm->width * gemm->channels * sizeof(float);
	size_t n_strip = n_row < STRIP_BYTES / gemm->stride[0] ? STRIP_BYTES / (n_row * gemm->stride[0]) : 1;
	size_t n_columns = job->n_columns < NEAR_BYTES / sizeof(float) / job->filter_depth ? job->n_columns
											   : ET_GEMM_PANEL;
	for (size_t row = begin; row < end; row += n_strip) {
		size_t last = end - row < n_strip ? end : row + n_strip;
		for (size_t left = 0; left < job->n_columns; left += n_columns) {
			size_t right = job->n_columns - left < n_columns ? job->n_columns : left + n_columns;
			for (size_t y = row; y < last;) {
				struct stretch down = stretch_at(gemm, 0, y, last);
				for (size_t x = 0; x < gemm->out_width;) {
					struct stretch across = stretch_at(gemm, 1, x, gemm->out_width);
					run_rectangle(gemm, &down, &across, left, right);
					x += across.n;
				}
				y += down.n;
			}
		}
	}
}

static void run_windows(void *arg, size_t begin, size_t end)
{
	struct gemm gemm = *(const struct gemm *)arg;
	const struct et_xnn_gemm job = gemm.job;
	while (begin < end) {
		size_t image = begin / gemm.out_height, y = begin % gemm.out_height,
		       n = gemm.out_height - y < end - begin ? gemm.out_height - y : end - begin;
		gemm.job.in = job.in + image * gemm.height * gemm.width * gemm.channels;
		gemm.job.out = job.out + image * gemm.out_height * gemm.out_width * job.n_columns;
		run_image(&gemm, y, y + n);
		begin += n;
	}
}

static bool is_pointwise(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return node->kind->infer == et_xnn_infer_fully_connected ||
	       (n[ET_XNN_KERNEL_H] == 1 && n[ET_XNN_KERNEL_W] == 1 && n[ET_XNN_STRIDE_H] == 1 &&
		       n[ET_XNN_STRIDE_W] == 1 && n[ET_XNN_PAD_TOP] == 0 && n[ET_XNN_PAD_LEFT] == 0 &&
		       n[ET_XNN_PAD_BOTTOM] == 0 && n[ET_XNN_PAD_RIGHT] == 0);
}

static void run(const struct et_xnn_own_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_shape *in = &run->shapes[node->inputs[0]], *out = &run->shapes[node->outputs[0]];
	const uint32_t *n = node->numbers;
	size_t depth = depth_of(run->payload, node), n_columns = out->dims[out->n_dims - 1];
	struct gemm gemm = {
		.build = et_xnn_gemm(),
		.job = {
			.n_columns = n_columns,
			.n_segments = 1,
			.depth = depth,
			.in_stride = depth,
			.out_stride = n_columns,
			.filter_depth = depth,
			.min = node->min,
			.max = node->max,
			.packed = run->packed,
			.in = run->memory[node->inputs[0]],
			.out = run->memory[node->outputs[0]],
		},
	};
	size_t n_rows = 1, n_of_row = depth * n_columns;
	for (uint32_t i = 0; i + 1 < out->n_dims; i++)
		n_rows *= out->dims[i];
	if (!is_pointwise(node)) {
		gemm.height = in->dims[1];
		gemm.width = in->dims[2];
		gemm.channels = in->dims[3];
		gemm.out_height = out->dims[1];
		gemm.out_width = out->dims[2];
		for (int i = 0; i < 2; i++) {
			gemm.kernel[i] = n[ET_XNN_KERNEL_H + i];
			gemm.stride[i] = n[ET_XNN_STRIDE_H + i];
			gemm.pad[i] = n[i ? ET_XNN_PAD_LEFT : ET_XNN_PAD_TOP];
		}
		gemm.job.segment_stride = gemm.width * gemm.channels;
		gemm.job.filter_segment = gemm.kernel[1] * gemm.channels;
		et_xnn_lane_parallel_for(run->lane, run_windows, &gemm, out->dims[0] * gemm.out_height,
			1 + GRAIN / (n_of_row * gemm.out_width));
	} else if (n_rows < FEW_ROWS && panels(&gemm) > 1) {
		struct columns columns = { &gemm, n_rows };
		et_xnn_lane_parallel_for(run->lane, run_columns, &columns, panels(&gemm),
			1 + GRAIN / (n_rows * depth * ET_GEMM_PANEL));
	} else {
		et_xnn_lane_parallel_for(run->lane, run_rows, &gemm, n_rows, 14 + GRAIN / n_of_row);
	}
}

const struct et_xnn_own et_xnn_own_gemm = {
	.name = "Convolution (NHWC, F32), by panels",
	.takes = takes,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
