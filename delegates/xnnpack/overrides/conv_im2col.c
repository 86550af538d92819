/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolutions in groups or with gaps, and transposed ones of every form, by windows that are copied (im2col.h): those that
 * XNNPACK cannot do, or whose NaNs it loses (gemm.h), those of halves, which others than Debian's compute in halves, and those of floats
 * in groups, or with gaps, of which it fills up to whole panels of 32 channels.
 *
 * Sums take their taps in XNNPACK's order, and what it multiplies with zeros is multiplied with zeros here, since an infinite weight
 * makes a NaN of them. Of a transposed convolution it takes outputs that lie a stride apart, a phase, together, each with those taps
 * alone that meet pixels; but of one with gaps, or with strides that are wider than the filter, all taps for each output, most
 * of which meet zeros between the pixels. These are left out here unless there is such a weight, which is noted behind the filter.
 *
 * What is packed is each phase's filter, of each the groups'; nothing for a phase without taps, which has what bias the first has: one
 * output is made of it, the others are copies. */
#include "delegates/xnnpack/graph/deconvolution_cut.h"
#include "delegates/xnnpack/overrides/override.h"

#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/ukernels/im2col.h"
#include "delegates/xnnpack/ukernels/implicit_im2col.h"
#include "runtime/base/checked.h"

#include <string.h>

enum {
	GRAIN = 1 << 17, /* products that are worth another thread's while */
	MOST_SUBCONVS = 256,
};

/* What decides how the filter is packed. Down, across. */
struct layout {
	const struct et_xnn_gemm_build *build;
	size_t kernel[2], stride[2], dilation[2]; /* gap: the dilation */
	size_t groups, channels, n_out;           /* of a group */
	size_t subconvs[2];                       /* 1, or as many as the stride is wide */
};

/* Taps of a phase in one direction: @n from @first on, @step apart. The first meets the pixel @behind before the one that the
 * output's place divided by the stride is, the others @gap before each other. */
struct taps {
	size_t first, n, step, behind, dilation;
};

static bool is_deconvolution(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_deconvolution;
}

/* Whether XNNPACK takes each output's own taps alone does not matter unless zeros count. */
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

/* Of a group's last panel, which XNNPACK fills up to a whole one, we do fewer columns. */
static bool has_narrow_panel(size_t n_out)
{
	return n_out % ET_GEMM_PANEL != 0 &&
	       et_xnn_gemm_width(n_out - n_out % ET_GEMM_PANEL, n_out, ET_GEMM_PANEL) < ET_GEMM_PANEL;
}

/* Whether it is one in groups, or with gaps and few channels, of which XNNPACK computes some for nothing, and that pays. */
static bool is_filled_up(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	size_t products = (size_t)n[ET_XNN_KERNEL_H] * n[ET_XNN_KERNEL_W];
	bool is_dilated = n[ET_XNN_DILATION_H] != 1 || n[ET_XNN_DILATION_W] != 1,
	     may_pay = n[ET_XNN_GROUPS] == 1 ? is_dilated && n[ET_XNN_GROUP_OUT] <= ET_GEMM_PANEL / 2
					     : n[ET_XNN_DILATION_W] == 1;
	if (!et_xnn_override_is_all_floats(payload, node) || !et_xnn_gemm() ||
		node->kind->infer != et_xnn_infer_convolution || !may_pay || et_xnn_override_is_like_depthwise(node) ||
		!has_narrow_panel(n[ET_XNN_GROUP_OUT]))
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
	if (!(is_needed && et_xnn_override_is_worth(UINT64_MAX - 1)) && !is_filled_up(payload, node))
		return false;
	struct layout layout = layout_of(payload, node, true);
	size_t channels;
	return et_mul(layout.channels, layout.groups, &channels) &&
	       et_xnn_im2col_fit(layout.kernel[0] * layout.kernel[1], channels, layout.build->n_bytes);
}

static struct taps taps_of(const struct layout *layout, int axis, size_t subconv)
{
	const size_t kernel = layout->kernel[axis], dilation = layout->dilation[axis], stride = layout->subconvs[axis];
	if (stride == 1)
		return (struct taps){ .n = kernel, .step = 1, .dilation = dilation };
	if (dilation == 1 && subconv < kernel)
		return (struct taps){
			.first = subconv, .n = (kernel - subconv + stride - 1) / stride, .step = stride, .dilation = 1
		};
	size_t first = 0, step = 1;
	while (first < kernel && first < stride && first * dilation % stride != subconv)
		first++;
	while (step * dilation % stride != 0)
		step++;
	if (first == kernel || first == stride)
		return (struct taps){ .step = step };
	return (struct taps){ .first = first,
		.n = (kernel - first + step - 1) / step,
		.step = step,
		.behind = (first * dilation - subconv) / stride,
		.dilation = step * dilation / stride };
}

static size_t n_taps(const struct layout *layout, const size_t subconv[2])
{
	return taps_of(layout, 0, subconv[0]).n * taps_of(layout, 1, subconv[1]).n;
}

static size_t depth_of(const struct layout *layout, const size_t subconv[2])
{
	return n_taps(layout, subconv) * layout->channels;
}

/* Elements of one group of a phase; SIZE_MAX: too many. */
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

/* Bytes of all phases; SIZE_MAX: too many. */
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

/* With room for either way and, behind it, which one it is. */
static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct layout layout = layout_of(payload, node, false), whole = layout_of(payload, node, true);
	size_t n = n_of_subconvs(&layout), n_whole = n_of_subconvs(&whole);
	n = n > n_whole ? n : n_whole;
	return !may_leave_zeros(node) || et_add(n, ET_XNN_IMPLICIT_IM2COL_MARK, &n) ? n : SIZE_MAX;
}

/* A row of a panel, of which @n columns are there: from floats @stride apart; without such zeros. Returns where the next one goes. */
static uint8_t *pack_row(const struct layout *layout, const float *from, size_t stride, size_t n, size_t width,
	uint8_t *to)
{
	const size_t n_bytes = layout->build->n_bytes;
	for (size_t i = 0; i < width; i++, to += n_bytes) {
		float number = from && i < n ? from[i * stride] : 0;
		uint16_t fp16 = et_xnn_to_fp16(number);
		if (n_bytes == sizeof(fp16))
			memcpy(to, &fp16, sizeof(fp16));
		else
			memcpy(to, &number, sizeof(number));
	}
	return to;
}

/* One group of a phase. @filter: [n_out][kernel][kernel][channels]. @bias: [n_out], or NULL. */
static uint8_t *pack_group(const struct layout *layout, const size_t subconv[2], const float *filter, const float *bias,
	uint8_t *to)
{
	const struct taps down = taps_of(layout, 0, subconv[0]), across = taps_of(layout, 1, subconv[1]);
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
		memset(to, 0, (size_t)(mark - to)); /* it is kept in a file, too */
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
	struct et_xnn_im2col patches; /* of the first picture, without what a phase says */
	size_t out[2], pad[2];
};

/* Of a phase without taps all outputs are alike, @n down and across, of @n_pixel bytes each: the first is there. */
static void repeat(const struct et_xnn_im2col *patches, const size_t n[2], size_t n_pixel)
{
	const size_t n_bytes = patches->build->n_bytes, down = patches->out_step[0] * n_bytes,
		     across = patches->out_step[1] * n_bytes;
	const uint8_t *from = patches->job.out;
	for (size_t y = 0; y < n[0]; y++)
		for (size_t x = y == 0; x < n[1]; x++)
			memcpy(patches->job.out + y * down + x * across, from, n_pixel);
}

/* Rows @begin to @end of the outputs of picture @image, as far as they are of that phase. */
static void run_subconv(const struct images *images, const uint8_t *packed, const size_t subconv[2], size_t image,
	size_t begin, size_t end)
{
	const struct layout *layout = &images->layout;
	struct et_xnn_im2col patches = images->patches;
	size_t n_in = patches.height * patches.width * patches.channels * patches.groups,
	       pixel = layout->groups * layout->n_out, n_bytes = patches.build->n_bytes, at[2], n[2],
	       to[2] = { end, images->out[1] };
	const size_t none[2] = { 0, 0 }, *first = n_taps(layout, subconv) ? subconv : none;
	for (int axis = 0; axis < 2; axis++) {
		const struct taps taps = taps_of(layout, axis, subconv[axis]);
		/* Output o is of phase (o + pad) % phases. */
		size_t subconvs = layout->subconvs[axis], from = axis == 0 ? begin : 0,
		       behind = (from + images->pad[axis]) % subconvs;
		at[axis] = from + (subconv[axis] + subconvs - behind) % subconvs;
		n[axis] = to[axis] > at[axis] ? (to[axis] - at[axis] + subconvs - 1) / subconvs : 0;
		if (subconvs > 1) {
			patches.first[axis] = (ptrdiff_t)((at[axis] + images->pad[axis]) / subconvs) -
					      (ptrdiff_t)taps.behind;
			patches.step[axis] = -(ptrdiff_t)taps.dilation;
		} else {
			patches.first[axis] += (ptrdiff_t)(at[axis] * patches.stride[axis]);
		}
		patches.kernel[axis] = taps.n;
	}
	patches.filter_taps = n_taps(layout, first);
	if (n[0] == 0 || n[1] == 0)
		return;
	patches.job.packed = first == subconv ? packed : images->patches.job.packed;
	patches.packed_step = size_of(layout, first);
	patches.job.in += image * n_in * n_bytes;
	patches.job.out += ((image * images->out[0] + at[0]) * images->out[1] + at[1]) * pixel * n_bytes;
	bool is_empty = first != subconv;
	patches.out_width = is_empty ? 1 : n[1];
	patches.out_step[0] = layout->subconvs[0] * images->out[1] * pixel;
	patches.out_step[1] = layout->subconvs[1] * pixel;
	et_xnn_im2col_run(&patches, 0, is_empty ? 1 : n[0]);
	if (is_empty)
		repeat(&patches, n, pixel * n_bytes);
}

/* Rows of all pictures' outputs, one after the other. */
static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct images *images = arg;
	const struct layout *layout = &images->layout;
	const size_t height = images->out[0], n_bytes = layout->build->n_bytes;
	for (size_t n; begin < end; begin += n) {
		size_t image = begin / height, y = begin % height, subconv[2] = { 0, 0 };
		const uint8_t *packed = images->patches.job.packed;
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
	struct et_xnn_im2col *patches = &images.patches;
	*patches = (struct et_xnn_im2col){ .build = layout->build,
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
		patches->step[axis] = is_deconvolution(node) ? -dilation : dilation;
		patches->first[axis] = is_deconvolution(node) ? pad : -pad;
		patches->stride[axis] = is_deconvolution(node) ? 1 : layout->stride[axis];
		patches->spread[axis] = is_deconvolution(node) ? layout->stride[axis] / layout->subconvs[axis] : 1;
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

const struct et_xnn_override et_xnn_override_grouped = {
	.name = "Convolution (NHWC, F32), by groups",
	.takes = takes_groups,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_im2col = {
	.name = "Deconvolution (NHWC, F32), by patches",
	.takes = takes_floats,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_im2col_fp16 = {
	.name = "Convolution (NHWC, F16), by patches",
	.takes = takes_fp16_convolution,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_deconvolution_fp16 = {
	.name = "Deconvolution (NHWC, F16), by patches",
	.takes = takes_fp16_deconvolution,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
