/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolutions with groups or dilation, and transposed convolutions of every form, by im2col (im2col.h).
 *
 * Taken for correctness: transposed convolutions of fp32 that XNNPACK cannot do, or whose NaNs it loses (gemm.h), and
 * all of fp16, for which Debian's XNNPACK adds up in floats and the original in halves. Taken for speed: grouped
 * convolutions of fp32 with AVX-512, where XNNPACK fills each group up to a panel of 32 channels.
 *
 * Sums take their taps in XNNPACK's order. Zeros that XNNPACK multiplies are multiplied here, too, because an
 * infinite weight makes a NaN of them. XNNPACK computes a transposed convolution by subconvolutions
 * (subconvolution.h), each with those taps alone that meet pixels; but with dilation, or strides wider than the
 * filter, it takes all taps for each output, most of which meet zeros between the pixels. Here these use
 * subconvolutions as well, unless the filter has such a weight, which is noted behind the packed filter.
 *
 * Packed is the filter of each subconvolution, group by group. A subconvolution without taps has no filter: its
 * outputs are all equal, so one is computed from the bias of the first subconvolution's filter and copied. */
#include "delegates/xnnpack/graph/deconvolution_cut.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/overrides/subconvolution.h"

#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/ukernels/im2col.h"
#include "delegates/xnnpack/ukernels/implicit_im2col.h"
#include "runtime/base/checked.h"

#include <string.h>

enum {
	GRAIN = 1 << 17, /* products that are worth another thread */
	MOST_SUBCONVS = 256,
};

/* What the packing of a filter depends on. [0] is down, [1] is across. */
struct layout {
	const struct et_xnn_gemm_build *build;
	size_t kernel[2], stride[2], dilation[2];
	size_t groups, channels, n_out; /* of a group */
	size_t subconvs[2];             /* 1, or the stride */
};

static bool is_deconvolution(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_deconvolution;
}

/* Whether @node may be computed by subconvolutions where XNNPACK takes all taps: the same, but for zeros times
 * infinite weights. */
static bool may_leave_zeros(const struct et_xnn_node *node)
{
	const uint64_t down = node->numbers[ET_XNN_STRIDE_H], across = node->numbers[ET_XNN_STRIDE_W];
	return is_deconvolution(node) && !et_xnn_has_subconvs(node) && down * across <= MOST_SUBCONVS;
}

static struct layout layout_of(const struct et_xnn_payload *payload, const struct et_xnn_node *node, bool counts_zeros)
{
	const uint32_t *n = node->numbers;
	struct layout layout = {
		.build = payload->values[node->inputs[0]].type == ET_XNN_FP16 ? et_xnn_gemm_fp16() : et_xnn_gemm_any(),
		.kernel = { n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W] },
		.stride = { n[ET_XNN_STRIDE_H], n[ET_XNN_STRIDE_W] },
		.dilation = { n[ET_XNN_DILATION_H], n[ET_XNN_DILATION_W] },
		.groups = n[ET_XNN_GROUPS],
		.channels = n[ET_XNN_GROUP_IN],
		.n_out = n[ET_XNN_GROUP_OUT],
		.subconvs = { 1, 1 },
	};
	if (is_deconvolution(node) && (et_xnn_has_subconvs(node) || (may_leave_zeros(node) && !counts_zeros))) {
		layout.subconvs[0] = layout.stride[0];
		layout.subconvs[1] = layout.stride[1];
	}
	return layout;
}

static bool is_narrow(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return et_xnn_override_is_all_floats(payload, node) && is_deconvolution(node) &&
	       (et_xnn_may_be_below_stride(node) || et_xnn_gemm_is_narrow(node->numbers[ET_XNN_GROUP_OUT]));
}

static bool is_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return et_xnn_override_is_all_fp16(payload, node) && et_xnn_gemm_fp16() &&
	       (is_deconvolution(node) ||
		       (node->kind->infer == et_xnn_infer_convolution && !et_xnn_override_is_like_depthwise(node)));
}

/* Whether the last panel of a group, which XNNPACK fills up to a whole one, is narrower here. */
static bool has_narrow_panel(size_t n_out)
{
	return n_out % ET_GEMM_PANEL != 0 &&
	       et_xnn_gemm_width(n_out - n_out % ET_GEMM_PANEL, n_out, ET_GEMM_PANEL) < ET_GEMM_PANEL;
}

/* Whether it is a convolution in groups, of each of which XNNPACK computes some columns for nothing, and is large
 * enough. */
static bool is_filled_up(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	size_t products = (size_t)n[ET_XNN_KERNEL_H] * n[ET_XNN_KERNEL_W];
	if (!et_xnn_override_is_all_floats(payload, node) || !et_xnn_gemm() ||
		node->kind->infer != et_xnn_infer_convolution || n[ET_XNN_GROUPS] == 1 || n[ET_XNN_DILATION_W] != 1 ||
		et_xnn_override_is_like_depthwise(node) || !has_narrow_panel(n[ET_XNN_GROUP_OUT]))
		return false;
	const struct et_xnn_shape *out = &payload->values[node->outputs[0]].shape;
	bool is_counted = et_mul(products, n[ET_XNN_GROUP_IN], &products);
	for (uint32_t i = 0; i < out->n_dims && is_counted; i++)
		is_counted = et_mul(products, out->dims[i], &products);
	return is_counted && et_xnn_override_is_worth(products);
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (node->flags)
		return false;
	bool is_needed = is_narrow(payload, node) || is_fp16(payload, node);
	if (!(is_needed && et_xnn_override_is_on()) && !is_filled_up(payload, node))
		return false;
	struct layout layout = layout_of(payload, node, true);
	size_t channels;
	return et_mul(layout.channels, layout.groups, &channels) &&
	       et_xnn_im2col_fit(layout.kernel[0] * layout.kernel[1], channels, layout.build->n_bytes);
}

/* Without subconvolutions all taps are one's. */
static struct et_xnn_subconv_taps taps_of(const struct layout *layout, int axis, size_t subconv)
{
	const size_t kernel = layout->kernel[axis], dilation = layout->dilation[axis];
	if (layout->subconvs[axis] == 1)
		return (struct et_xnn_subconv_taps){ .n = kernel, .step = 1, .dilation = dilation };
	return et_xnn_subconv_taps(kernel, layout->subconvs[axis], dilation, subconv);
}

static size_t n_taps(const struct layout *layout, const size_t subconv[2])
{
	return taps_of(layout, 0, subconv[0]).n * taps_of(layout, 1, subconv[1]).n;
}

static size_t depth_of(const struct layout *layout, const size_t subconv[2])
{
	return n_taps(layout, subconv) * layout->channels;
}

/* Elements of one group of a subconvolution's filter; SIZE_MAX: too many. */
static size_t size_of(const struct layout *layout, const size_t subconv[2])
{
	size_t depth = depth_of(layout, subconv);
	return depth ? et_xnn_gemm_n_packed(depth, layout->n_out, layout->build->panel) : 0;
}

static bool next_subconv(const struct layout *layout, size_t subconv[2])
{
	subconv[1] = (subconv[1] + 1) % layout->subconvs[1];
	subconv[0] += subconv[1] == 0;
	return subconv[0] < layout->subconvs[0];
}

/* Bytes of all subconvolutions' filters; SIZE_MAX: too many. */
static size_t n_of_subconvs(const struct layout *layout)
{
	size_t n = 0, subconv[2] = { 0, 0 };
	do {
		size_t of_subconv = size_of(layout, subconv);
		if (of_subconv == SIZE_MAX || !et_mul(of_subconv, layout->groups, &of_subconv) ||
			!et_add(n, of_subconv, &n))
			return SIZE_MAX;
	} while (next_subconv(layout, subconv));
	return et_mul(n, layout->build->n_bytes, &n) ? n : SIZE_MAX;
}

/* Room for either way of packing, and the mark behind it that says which one it is. */
static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct layout layout = layout_of(payload, node, false), whole = layout_of(payload, node, true);
	size_t n = n_of_subconvs(&layout), n_whole = n_of_subconvs(&whole);
	n = n > n_whole ? n : n_whole;
	return !may_leave_zeros(node) || et_add(n, ET_XNN_IMPLICIT_IM2COL_MARK, &n) ? n : SIZE_MAX;
}

/* Pack a row of a panel of @width columns: the first @n from floats @stride apart, zeros for the others; without
 * @from, all zeros. Returns where the next row goes. */
static uint8_t *pack_row(const struct layout *layout, const float *from, size_t stride, size_t n, size_t width,
	uint8_t *to)
{
	const size_t n_bytes = layout->build->n_bytes;
	for (size_t i = 0; i < width; i++, to += n_bytes) {
		float number = from && i < n ? from[i * stride] : 0;
		uint16_t fp16 = et_float_to_fp16(number);
		if (n_bytes == sizeof(fp16))
			memcpy(to, &fp16, sizeof(fp16));
		else
			memcpy(to, &number, sizeof(number));
	}
	return to;
}

/* One group of a subconvolution. @filter: [n_out][kernel][kernel][channels]. @bias: [n_out], or NULL. */
static uint8_t *pack_group(const struct layout *layout, const size_t subconv[2], const float *filter, const float *bias,
	uint8_t *to)
{
	const struct et_xnn_subconv_taps down = taps_of(layout, 0, subconv[0]), across = taps_of(layout, 1, subconv[1]);
	const size_t of_column = layout->kernel[0] * layout->kernel[1] * layout->channels;
	for (size_t at = 0, width; at < layout->n_out; at += width) {
		width = et_xnn_gemm_width(at, layout->n_out, layout->build->panel);
		size_t n = layout->n_out - at < width ? layout->n_out - at : width;
		const float *column = filter + at * of_column;
		to = pack_row(layout, bias ? bias + at : NULL, 1, n, width, to);
		for (size_t y = down.first; y < layout->kernel[0]; y += down.step)
			for (size_t x = across.first; x < layout->kernel[1]; x += across.step)
				for (size_t k = 0; k < layout->channels; k++)
					to = pack_row(layout,
						column + (y * layout->kernel[1] + x) * layout->channels + k, of_column,
						n, width, to);
	}
	return to;
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *packed)
{
	const float *filter = (const float *)(const void *)payload->values[node->inputs[1]].data,
		    *bias = node->inputs[2] == ET_XNN_NONE
				    ? NULL
				    : (const float *)(const void *)payload->values[node->inputs[2]].data;
	bool are_fp16 = payload->values[node->inputs[0]].type == ET_XNN_FP16;
	const size_t n = (size_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W] *
			 node->numbers[ET_XNN_GROUP_IN] * node->numbers[ET_XNN_GROUP_OUT];
	uint8_t *to = packed;
	bool counts_zeros = false;
	if (may_leave_zeros(node)) {
		uint8_t *mark = to + n_packed(payload, node) - ET_XNN_IMPLICIT_IM2COL_MARK;
		memset(to, 0, (size_t)(mark - to)); /* the packed bytes are kept in a file */
		et_xnn_implicit_im2col_mark(filter, n * node->numbers[ET_XNN_GROUPS], are_fp16, mark);
		counts_zeros = et_xnn_implicit_im2col_is_marked(mark);
	}
	const struct layout layout = layout_of(payload, node, counts_zeros);
	size_t subconv[2] = { 0, 0 };
	do {
		for (size_t group = 0; group < layout.groups && n_taps(&layout, subconv); group++)
			to = pack_group(&layout, subconv, filter + group * n, bias ? bias + group * layout.n_out : NULL,
				to);
	} while (next_subconv(&layout, subconv));
}

/* --- running ------------------------------------------------------------------------------------------- */

struct images {
	struct layout layout;
	struct et_xnn_im2col im2col; /* of the first image, without what depends on the subconvolution */
	size_t out[2], pad[2];
};

/* Copy the first output of a subconvolution without taps, of @n_pixel bytes, to all others, @n down and across. */
static void repeat(const struct et_xnn_im2col *im2col, const size_t n[2], size_t n_pixel)
{
	const size_t n_bytes = im2col->build->n_bytes, down = im2col->out_step[0] * n_bytes,
		     across = im2col->out_step[1] * n_bytes;
	const uint8_t *from = im2col->job.out;
	for (size_t y = 0; y < n[0]; y++)
		for (size_t x = y == 0; x < n[1]; x++)
			memcpy(im2col->job.out + y * down + x * across, from, n_pixel);
}

/* The outputs of that subconvolution in rows @begin to @end of image @image. */
static void run_subconv(const struct images *images, const uint8_t *packed, const size_t subconv[2], size_t image,
	size_t begin, size_t end)
{
	const struct layout *layout = &images->layout;
	struct et_xnn_im2col im2col = images->im2col;
	size_t n_in = im2col.height * im2col.width * im2col.channels * im2col.groups,
	       pixel = layout->groups * layout->n_out, n_bytes = im2col.build->n_bytes, at[2], n[2],
	       to[2] = { end, images->out[1] };
	const size_t none[2] = { 0, 0 }, *first = n_taps(layout, subconv) ? subconv : none;
	for (int axis = 0; axis < 2; axis++) {
		const struct et_xnn_subconv_taps taps = taps_of(layout, axis, subconv[axis]);
		const struct et_xnn_subconv_steps steps = et_xnn_subconv_steps(layout->subconvs[axis],
			images->pad[axis], subconv[axis], axis == 0 ? begin : 0, to[axis]);
		at[axis] = steps.at;
		n[axis] = steps.n;
		if (layout->subconvs[axis] > 1) {
			im2col.first[axis] = (ptrdiff_t)steps.first - (ptrdiff_t)taps.behind;
			im2col.step[axis] = -(ptrdiff_t)taps.dilation;
		} else {
			im2col.first[axis] += (ptrdiff_t)(at[axis] * im2col.stride[axis]);
		}
		im2col.kernel[axis] = taps.n;
	}
	im2col.filter_taps = n_taps(layout, first);
	if (n[0] == 0 || n[1] == 0)
		return;
	im2col.job.packed = first == subconv ? packed : images->im2col.job.packed;
	im2col.packed_step = size_of(layout, first);
	im2col.job.in += image * n_in * n_bytes;
	im2col.job.out += ((image * images->out[0] + at[0]) * images->out[1] + at[1]) * pixel * n_bytes;
	bool is_empty = first != subconv;
	im2col.out_width = is_empty ? 1 : n[1];
	im2col.out_step[0] = layout->subconvs[0] * images->out[1] * pixel;
	im2col.out_step[1] = layout->subconvs[1] * pixel;
	et_xnn_im2col_run(&im2col, 0, is_empty ? 1 : n[0]);
	if (is_empty)
		repeat(&im2col, n, pixel * n_bytes);
}

/* Output rows @begin to @end of all images. */
static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct images *images = arg;
	const struct layout *layout = &images->layout;
	const size_t height = images->out[0], n_bytes = layout->build->n_bytes;
	for (size_t n; begin < end; begin += n) {
		size_t image = begin / height, y = begin % height, subconv[2] = { 0, 0 };
		const uint8_t *packed = images->im2col.job.packed;
		n = height - y < end - begin ? height - y : end - begin;
		do {
			run_subconv(images, packed, subconv, image, y, y + n);
			packed += size_of(layout, subconv) * layout->groups * n_bytes;
		} while (next_subconv(layout, subconv));
	}
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const uint32_t *numbers = node->numbers;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	bool counts_zeros = may_leave_zeros(node) && et_xnn_implicit_im2col_is_marked((const uint8_t *)run->packed +
										      n_packed(run->payload, node) -
										      ET_XNN_IMPLICIT_IM2COL_MARK);
	struct images images = { .layout = layout_of(run->payload, node, counts_zeros),
		.out = { out[1], out[2] },
		.pad = { numbers[ET_XNN_PAD_TOP], numbers[ET_XNN_PAD_LEFT] } };
	const struct layout *layout = &images.layout;
	struct et_xnn_im2col *im2col = &images.im2col;
	*im2col = (struct et_xnn_im2col){ .build = layout->build,
		.job = { .n_columns = layout->n_out,
			.min = node->min,
			.max = node->max,
			.packed = run->packed,
			.in = run->memory[node->inputs[0]],
			.out = run->memory[node->outputs[0]] },
		.groups = layout->groups,
		.height = in[1],
		.width = in[2],
		.channels = layout->channels };
	for (int axis = 0; axis < 2; axis++) {
		ptrdiff_t pad = (ptrdiff_t)images.pad[axis], dilation = (ptrdiff_t)numbers[ET_XNN_DILATION_H + axis];
		im2col->step[axis] = is_deconvolution(node) ? -dilation : dilation;
		im2col->first[axis] = is_deconvolution(node) ? pad : -pad;
		im2col->stride[axis] = is_deconvolution(node) ? 1 : layout->stride[axis];
		im2col->spread[axis] = is_deconvolution(node) ? layout->stride[axis] / layout->subconvs[axis] : 1;
	}
	size_t of_row = out[2] * layout->groups * layout->n_out * layout->kernel[0] * layout->kernel[1] *
			layout->channels / (layout->subconvs[0] * layout->subconvs[1]);
	et_xnn_threads_parallel_for(run->threads, run_rows, &images, out[0] * out[1],
		layout->subconvs[0] * (1 + GRAIN / (of_row ? of_row : 1)));
}

static bool takes_groups(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return !is_deconvolution(node) && et_xnn_override_is_all_floats(payload, node) && takes(payload, node);
}

static bool takes_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_deconvolution(node) && et_xnn_override_is_all_floats(payload, node) && takes(payload, node);
}

static bool takes_fp16_convolution(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return !is_deconvolution(node) && et_xnn_override_is_all_fp16(payload, node) && takes(payload, node);
}

static bool takes_fp16_deconvolution(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_deconvolution(node) && et_xnn_override_is_all_fp16(payload, node) && takes(payload, node);
}

const struct et_xnn_override et_xnn_override_conv_grouped = {
	.name = "conv-grouped-fp32",
	.reason = "speed: grouped convolutions of ResNeXt and RegNet, 0.63 to 0.95 of the original's time "
		  "(AVX-512; recorded by layer)",
	.takes = takes_groups,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_deconv_im2col = {
	.name = "deconv-im2col-fp32",
	.reason = "correctness: XNNPACK loses NaNs where channels are few, and cannot do outputs smaller than the "
		  "stride",
	.takes = takes_floats,
	.is_needed = takes_floats,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_conv_im2col_fp16 = {
	.name = "conv-im2col-fp16",
	.reason = "correctness: Debian's XNNPACK adds up in floats, the original in halves (AVX512-FP16)",
	.takes = takes_fp16_convolution,
	.is_needed = takes_fp16_convolution,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_deconv_im2col_fp16 = {
	.name = "deconv-im2col-fp16",
	.reason = "correctness: Debian's XNNPACK adds up in floats, the original in halves (AVX512-FP16)",
	.takes = takes_fp16_deconvolution,
	.is_needed = takes_fp16_deconvolution,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
