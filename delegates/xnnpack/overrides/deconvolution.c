/* SPDX-License-Identifier: BSD-3-Clause */
/* Transposed convolutions of floats, as convolutions of stride 1 (implicit_im2col.h).
 *
 * Outputs that lie a stride apart, a phase, are made with the same part of the filter: those taps that lie a stride apart,
 * backwards. So each of stride × stride phases is a plain convolution of the picture as it lies, whose results lie a
 * stride apart; nothing is computed for zeros between pixels, and nothing is added up twice. Each phase's part is packed
 * by itself.
 *
 * Where the filter is a multiple of the stride wide, all phases of a row look at the same pixels, and their results are one run of
 * floats: then they are one product, of as many columns. That spares reading the picture again and, where channels are few,
 * most of a panel. Where padding cuts such a run at the borders it is made beside, and what is left of it is copied.
 *
 * XNNPACK packs its filter for each context anew; here it is done once for a Program (weights.h). Sums take their taps in
 * another order than XNNPACK's. Left to it, or to conv_im2col.c, are groups and dilations and filters with gaps between; to it small
 * ones, but not where outputs may be less than a stride, which it cannot do, or channels so few that it loses NaNs (gemm.h). */
#include "delegates/xnnpack/graph/deconvolution_cut.h"
#include "delegates/xnnpack/overrides/override.h"

#include "delegates/xnnpack/ukernels/implicit_im2col.h"
#include "runtime/base/checked.h"

#include <string.h>

enum {
	GRAIN = 1 << 17, /* products that are worth another thread's while */
	ALIGNMENT = 16,  /* floats */
	MOST_CUT = 64,   /* columns */
	CUT_ROWS = 16,
};

/* What decides how the filter is packed. Down, across. */
struct layout {
	size_t kernel[2], stride[2];
	size_t channels, n_out;
	bool is_joined; /* all phases of a row are one */
};

static struct layout layout_of(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	struct layout layout = {
		.kernel = { n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W] },
		.stride = { n[ET_XNN_STRIDE_H], n[ET_XNN_STRIDE_W] },
		.channels = n[ET_XNN_GROUP_IN],
		.n_out = n[ET_XNN_GROUP_OUT],
	};
	size_t stride = layout.stride[1], behind = (size_t)n[ET_XNN_PAD_RIGHT] + stride - n[ET_XNN_ADJUST_W];
	bool is_cut = n[ET_XNN_PAD_LEFT] % stride != 0 || behind % stride != 0;
	layout.is_joined = stride > 1 && layout.kernel[1] % stride == 0 &&
			   (!is_cut || layout.n_out <= MOST_CUT / stride);
	return layout;
}

static size_t n_columns(const struct layout *layout)
{
	return layout->is_joined ? layout->stride[1] * layout->n_out : layout->n_out;
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	if (!et_xnn_has_subconvs(node) || node->flags || n[ET_XNN_GROUPS] != 1 ||
		!et_xnn_override_is_all_floats(payload, node))
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *filter = &payload->values[node->inputs[1]];
	struct layout layout = layout_of(node);
	if (et_xnn_may_be_below_stride(node))
		return true;
	if (et_xnn_gemm_is_narrow(layout.n_out))
		return et_xnn_override_is_worth(UINT64_MAX - 1);
	if (!et_xnn_gemm())
		return false;
	size_t products = filter->shape.dims[0]; /* in whole panels: see conv_linear.c */
	if (!et_align_up(products, ET_GEMM_PANEL, &products))
		return false;
	for (uint32_t i = 1; i < 4; i++)
		if (!et_mul(products, filter->shape.dims[i], &products))
			return false;
	for (uint32_t i = 0; i < 3; i++)
		if (!et_mul(products, in->shape.dims[i], &products))
			return false;
	return et_xnn_override_is_worth(products);
}

static size_t n_subconvs(const struct layout *layout, int axis)
{
	return axis == 1 && layout->is_joined ? 1 : layout->stride[axis];
}

/* In that direction, at least one. */
static size_t n_taps(const struct layout *layout, int axis, size_t subconv)
{
	size_t stride = layout->stride[axis]; /* also where phases are joined: they have as many */
	return (layout->kernel[axis] - subconv + stride - 1) / stride;
}

static size_t depth_of(const struct layout *layout, size_t down, size_t across)
{
	return n_taps(layout, 0, down) * n_taps(layout, 1, across) * layout->channels;
}

/* Floats of a packed phase, and up to where the next one begins. SIZE_MAX: too many. */
static size_t size_of(const struct layout *layout, size_t down, size_t across)
{
	size_t n = et_xnn_gemm_n_packed(depth_of(layout, down, across), n_columns(layout), ET_GEMM_PANEL);
	return n != SIZE_MAX && et_align_up(n, ALIGNMENT, &n) ? n : SIZE_MAX;
}

/* Bytes of all phases; SIZE_MAX: too many. */
static size_t n_of_subconvs(const struct et_xnn_node *node)
{
	struct layout layout = layout_of(node);
	size_t n = 0;
	for (size_t down = 0; down < n_subconvs(&layout, 0); down++)
		for (size_t across = 0; across < n_subconvs(&layout, 1); across++)
			if (!et_add(n, size_of(&layout, down, across), &n))
				return SIZE_MAX;
	return et_mul(n, sizeof(float), &n) ? n : SIZE_MAX;
}

static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	size_t n = n_of_subconvs(node);
	(void)payload;
	return et_add(n, ET_XNN_IMPLICIT_IM2COL_MARK, &n) ? n : SIZE_MAX;
}

/* Of the filter, [n_out][kernel][kernel][channels], what makes that phase. */
static void pack_subconv(const struct layout *layout, const float *filter, const float *bias, size_t down,
	size_t across, float *to)
{
	size_t depth = depth_of(layout, down, across), n = n_taps(layout, 0, down), m = n_taps(layout, 1, across);
	size_t n_joined = layout->is_joined ? layout->stride[1] : 1;
	for (size_t join = 0; join < n_joined; join++) {
		struct et_xnn_gemm_part partition = {
			.n_rows = 1, .column = join * layout->n_out, .n = layout->n_out, .from = bias, .from_stride = 1
		};
		et_xnn_gemm_pack_part(&partition, depth, n_columns(layout), to);
		partition.from_stride = layout->kernel[0] * layout->kernel[1] * layout->channels;
		partition.n_rows = layout->channels;
		for (size_t tap = 0; tap < n * m; tap++) {
			size_t y = down + (n - 1 - tap / m) * layout->stride[0],
			       x = across + join + (m - 1 - tap % m) * layout->stride[1];
			partition.row = 1 + tap * layout->channels;
			partition.from = filter + (y * layout->kernel[1] + x) * layout->channels;
			et_xnn_gemm_pack_part(&partition, depth, n_columns(layout), to);
		}
	}
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *to)
{
	const void *filter = payload->values[node->inputs[1]].data;
	const void *bias = node->inputs[2] == ET_XNN_NONE ? NULL : payload->values[node->inputs[2]].data;
	struct layout layout = layout_of(node);
	float *packed = to;
	for (size_t down = 0; down < n_subconvs(&layout, 0); down++)
		for (size_t across = 0; across < n_subconvs(&layout, 1); across++) {
			size_t n = size_of(&layout, down, across);
			pack_subconv(&layout, filter, bias, down, across, packed);
			packed += n;
			n -= et_xnn_gemm_n_packed(depth_of(&layout, down, across), n_columns(&layout), ET_GEMM_PANEL);
			memset(packed - n, 0, n * sizeof(*packed)); /* it is kept in a file, too */
		}
	et_xnn_implicit_im2col_mark(filter, layout.n_out * layout.kernel[0] * layout.kernel[1] * layout.channels, false,
		(uint8_t *)packed);
}

/* --- running ------------------------------------------------------------------------------------------- */

/* An output at o is of the phase (o + pad) % stride, and of step (o + pad) ÷ stride: what comes of the pixel with that
 * number, if there is one, and those before. */
struct deconvolution {
	struct layout layout;
	struct et_xnn_implicit_im2col windows; /* without what a phase says */
	size_t out[2], pad[2];
	size_t first_step, n_steps; /* down */
};

/* The outputs of a phase. */
struct subconv {
	size_t step, n; /* the first one's, and how many there are */
	size_t at;      /* the first one */
};

static struct subconv subconv_at(const struct deconvolution *d, int axis, size_t number)
{
	size_t stride = d->layout.stride[axis], pad = d->pad[axis];
	struct subconv subconv = { .step = pad > number ? (pad - number + stride - 1) / stride : 0 };
	subconv.at = subconv.step * stride + number - pad;
	subconv.n = d->out[axis] > subconv.at ? (d->out[axis] - subconv.at + stride - 1) / stride : 0;
	return subconv;
}

/* Those of all phases of a row, as far as no step of theirs is cut. */
static struct subconv joined(const struct deconvolution *d)
{
	size_t stride = d->layout.stride[1], pad = d->pad[1];
	struct subconv subconv = { .step = (pad + stride - 1) / stride };
	size_t end = (d->out[1] + pad) / stride;
	subconv.n = end > subconv.step ? end - subconv.step : 0;
	subconv.at = subconv.step * stride - pad;
	return subconv;
}

/* Rows @first to @last of what @step across makes, as far as it lies in the output. */
static void run_cut(const struct deconvolution *d, const struct et_xnn_implicit_im2col *subconv, float *out,
	size_t step, size_t first, size_t last)
{
	size_t stride = d->layout.stride[1], pad = d->pad[1], n_out = d->layout.n_out, at = step * stride;
	size_t left = at < pad ? pad - at : 0, right = d->out[1] + pad - at < stride ? d->out[1] + pad - at : stride;
	struct et_xnn_implicit_im2col windows = *subconv;
	float rows[CUT_ROWS * MOST_CUT];
	windows.job.out = (uint8_t *)rows;
	windows.out_step[0] = windows.out_step[1] = windows.job.n_columns;
	windows.out_width = 1;
	windows.skip[1] = step;
	out += (at + left - pad) * n_out;
	for (size_t n; first < last; first += n) {
		n = last - first < CUT_ROWS ? last - first : CUT_ROWS;
		windows.skip[0] = subconv->skip[0] + first;
		et_xnn_implicit_im2col_run(&windows, 0, n);
		for (size_t i = 0; i < n; i++)
			memcpy(out + (first + i) * subconv->out_step[0],
				rows + i * windows.job.n_columns + left * n_out,
				(right - left) * n_out * sizeof(float));
	}
}

/* What of a row of joined phases joined() leaves out: one step at each side, if any. */
static void run_sides(const struct deconvolution *d, const struct et_xnn_implicit_im2col *subconv, float *out,
	size_t first, size_t last)
{
	size_t stride = d->layout.stride[1], step = d->pad[1] / stride,
	       end = (d->out[1] + d->pad[1] + stride - 1) / stride;
	struct subconv inner = joined(d);
	for (; step < end; step++) {
		if (inner.n && step == inner.step)
			step += inner.n;
		if (step < end)
			run_cut(d, subconv, out, step, first, last);
	}
}

/* Steps @begin to @end of one image, whose windows these are. */
static void run_steps(const struct deconvolution *d, const struct et_xnn_implicit_im2col *image, size_t begin,
	size_t end)
{
	const struct layout *layout = &d->layout;
	struct et_xnn_implicit_im2col windows = *image;
	for (size_t i = 0; i < n_subconvs(layout, 0); i++) {
		struct subconv down = subconv_at(d, 0, i);
		size_t first = begin > down.step ? begin - down.step : 0, last = end > down.step ? end - down.step : 0;
		last = last < down.n ? last : down.n;
		for (size_t j = 0; j < n_subconvs(layout, 1); j++) {
			struct subconv across = layout->is_joined ? joined(d) : subconv_at(d, 1, j);
			windows.kernel[0] = n_taps(layout, 0, i);
			windows.kernel[1] = n_taps(layout, 1, j);
			windows.job.filter_depth = depth_of(layout, i, j);
			windows.out_width = across.n;
			windows.skip[0] = down.step;
			windows.skip[1] = across.step;
			for (int axis = 0; axis < 2; axis++)
				windows.pad[axis] = windows.kernel[axis] - 1;
			if (first < last) {
				float *row = (float *)(void *)image->job.out + down.at * d->out[1] * layout->n_out;
				if (across.n) {
					windows.job.out = (uint8_t *)(row + across.at * layout->n_out);
					et_xnn_implicit_im2col_run(&windows, first, last);
				}
				if (layout->is_joined)
					run_sides(d, &windows, row, first, last);
			}
			windows.job.packed += size_of(layout, i, j) * sizeof(float);
		}
	}
}

/* Steps of all images, one after the other. All phases go over a strip of the picture before the next one's turn. */
static void run_images(void *arg, size_t begin, size_t end)
{
	const struct deconvolution *d = arg;
	size_t n_in = d->windows.height * d->windows.width * d->windows.channels,
	       n_out = d->out[0] * d->out[1] * d->layout.n_out, n_strip = et_xnn_implicit_im2col_strip(&d->windows);
	for (size_t n; begin < end; begin += n) {
		size_t image = begin / d->n_steps, step = begin % d->n_steps;
		n = d->n_steps - step < end - begin ? d->n_steps - step : end - begin;
		n = n < n_strip ? n : n_strip;
		struct et_xnn_implicit_im2col windows = d->windows;
		windows.job.in += image * n_in * sizeof(float);
		windows.job.out += image * n_out * sizeof(float);
		run_steps(d, &windows, d->first_step + step, d->first_step + step + n);
	}
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	struct deconvolution d = {
		.layout = layout_of(node),
		.out = { out[1], out[2] },
		.pad = { node->numbers[ET_XNN_PAD_TOP], node->numbers[ET_XNN_PAD_LEFT] },
	};
	const struct layout *layout = &d.layout;
	d.windows = (struct et_xnn_implicit_im2col){
		.build = et_xnn_gemm_any(),
		.job = { .n_columns = n_columns(layout),
			.min = node->min,
			.max = node->max,
			.packed = run->packed,
			.in = run->memory[node->inputs[0]],
			.out = run->memory[node->outputs[0]] },
		.height = in[1],
		.width = in[2],
		.channels = in[3],
		.stride = { 1, 1 },
		.out_step = { layout->stride[0] * out[2] * layout->n_out, layout->stride[1] * layout->n_out },
		.counts_zeros = et_xnn_implicit_im2col_is_marked((const uint8_t *)run->packed + n_of_subconvs(node)),
	};
	d.first_step = d.pad[0] / layout->stride[0];
	d.n_steps = (out[1] - 1 + d.pad[0]) / layout->stride[0] - d.first_step + 1;
	size_t of_step = layout->kernel[0] * layout->kernel[1] * in[2] * in[3] * layout->n_out;
	et_xnn_threads_parallel_for(run->threads, run_images, &d, in[0] * d.n_steps, 1 + GRAIN / of_step);
}

const struct et_xnn_override et_xnn_override_deconvolution = {
	.name = "Deconvolution (NHWC, F32), by phases",
	.takes = takes,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
