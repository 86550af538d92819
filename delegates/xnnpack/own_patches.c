/* Convolutions in groups or with gaps, and transposed ones of every form, by windows that are copied (patches.h): those that
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
#include "delegates/xnnpack/own.h"

#include "delegates/xnnpack/half.h"
#include "delegates/xnnpack/patches.h"
#include "delegates/xnnpack/windows.h"
#include "runtime/base/checked.h"

#include <string.h>

enum {
	GRAIN = 1 << 17, /* products that are worth another thread's while */
	MOST_PHASES = 256,
};

/* What decides how the filter is packed. Down, across. */
struct layout {
	const struct et_xnn_gemm_build *build;
	size_t kernel[2], stride[2], gap[2]; /* gap: the dilation */
	size_t groups, channels, n_out;      /* of a group */
	size_t phases[2];                    /* 1, or as many as the stride is wide */
};

/* Taps of a phase in one direction: @n from @first on, @step apart. The first meets the pixel @behind before the one that the
 * output's place divided by the stride is, the others @gap before each other. */
struct taps {
	size_t first, n, step, behind, gap;
};

static bool is_deconvolution(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_deconvolution;
}

/* Whether XNNPACK takes each output's own taps alone does not matter unless zeros count. */
static bool may_leave_zeros(const struct et_xnn_node *node)
{
	const uint64_t down = node->numbers[ET_XNN_STRIDE_H], across = node->numbers[ET_XNN_STRIDE_W];
	return is_deconvolution(node) && !et_xnn_own_has_phases(node) && down * across <= MOST_PHASES;
}

static struct layout layout_of(
	const struct et_xnn_payload *payload, const struct et_xnn_node *node, bool counts_zeros)
{
	const uint32_t *n = node->numbers;
	struct layout layout = {
		.build = payload->values[node->inputs[0]].type == ET_XNN_FP16 ? et_xnn_gemm_halves()
									      : et_xnn_gemm_any(),
		.kernel = { n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W] },
		.stride = { n[ET_XNN_STRIDE_H], n[ET_XNN_STRIDE_W] },
		.gap = { n[ET_XNN_DILATION_H], n[ET_XNN_DILATION_W] },
		.groups = n[ET_XNN_GROUPS],
		.channels = n[ET_XNN_GROUP_IN],
		.n_out = n[ET_XNN_GROUP_OUT],
		.phases = { 1, 1 },
	};
	if (is_deconvolution(node) &&
		(et_xnn_own_has_phases(node) || (may_leave_zeros(node) && !counts_zeros))) {
		layout.phases[0] = layout.stride[0];
		layout.phases[1] = layout.stride[1];
	}
	return layout;
}

static bool is_narrow(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return et_xnn_own_is_all_floats(payload, node) && is_deconvolution(node) &&
	       (et_xnn_own_may_be_below_stride(node) ||
		       et_xnn_gemm_is_narrow(node->numbers[ET_XNN_GROUP_OUT]));
}

static bool is_halves(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return et_xnn_own_is_all_halves(payload, node) && et_xnn_gemm_halves() &&
	       (is_deconvolution(node) || (node->kind->infer == et_xnn_infer_convolution &&
						  !et_xnn_own_is_like_depthwise(node)));
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
	bool has_gaps = n[ET_XNN_DILATION_H] != 1 || n[ET_XNN_DILATION_W] != 1,
	     may_pay = n[ET_XNN_GROUPS] == 1 ? has_gaps && n[ET_XNN_GROUP_OUT] <= ET_GEMM_PANEL / 2
					     : n[ET_XNN_DILATION_W] == 1;
	if (!et_xnn_own_is_all_floats(payload, node) || !et_xnn_gemm() ||
		node->kind->infer != et_xnn_infer_convolution || !may_pay ||
		et_xnn_own_is_like_depthwise(node) || !has_narrow_panel(n[ET_XNN_GROUP_OUT]))
		return false;
	const struct et_xnn_shape *out = &payload->values[node->outputs[0]].shape;
	bool is_counted = et_mul(products, n[ET_XNN_GROUP_IN], &products);
	for (uint32_t i = 0; i < out->n_dims && is_counted; i++)
		is_counted = et_mul(products, out->dims[i], &products);
	return is_counted && et_xnn_own_is_worth(products);
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (node->flags)
		return false;
	bool is_needed = is_narrow(payload, node) || is_halves(payload, node);
	if (!(is_needed && et_xnn_own_is_worth(UINT64_MAX - 1)) && !is_filled_up(payload, node))
		return false;
	struct layout layout = layout_of(payload, node, true);
	size_t channels;
	return et_mul(layout.channels, layout.groups, &channels) &&
	       et_xnn_patches_fit(layout.kernel[0] * layout.kernel[1], channels, layout.build->n_bytes);
}

static struct taps taps_of(const struct layout *layout, int axis, size_t phase)
{
	const size_t kernel = layout->kernel[axis], gap = layout->gap[axis], stride = layout->phases[axis];
	if (stride == 1)
		return (struct taps){ .n = kernel, .step = 1, .gap = gap };
	if (gap == 1 && phase < kernel)
		return (struct taps){
			.first = phase, .n = (kernel - phase + stride - 1) / stride, .step = stride, .gap = 1
		};
	size_t first = 0, step = 1;
	while (first < kernel && first < stride && first * gap % stride != phase)
		first++;
	while (step * gap % stride != 0)
		step++;
	if (first == kernel || first == stride)
		return (struct taps){ .step = step };
	return (struct taps){ .first = first,
		.n = (kernel - first + step - 1) / step,
		.step = step,
		.behind = (first * gap - phase) / stride,
		.gap = step * gap / stride };
}

static size_t n_taps(const struct layout *layout, const size_t phase[2])
{
	return taps_of(layout, 0, phase[0]).n * taps_of(layout, 1, phase[1]).n;
}

static size_t depth_of(const struct layout *layout, const size_t phase[2])
{
	return n_taps(layout, phase) * layout->channels;
}

/* Elements of one group of a phase; SIZE_MAX: too many. */
static size_t size_of(const struct layout *layout, const size_t phase[2])
{
	size_t depth = depth_of(layout, phase);
	return depth ? et_xnn_gemm_n_packed(depth, layout->n_out, layout->build->panel) : 0;
}

static bool next_phase(const struct layout *layout, size_t phase[2])
{
	phase[1] = (phase[1] + 1) % layout->phases[1];
	phase[0] += phase[1] == 0;
	return phase[0] < layout->phases[0];
}

/* Bytes of all phases; SIZE_MAX: too many. */
static size_t n_of_phases(const struct layout *layout)
{
	size_t n = 0, phase[2] = { 0, 0 };
	do {
		size_t of_phase = size_of(layout, phase);
		if (of_phase == SIZE_MAX || !et_mul(of_phase, layout->groups, &of_phase) ||
			!et_add(n, of_phase, &n))
			return SIZE_MAX;
	} while (next_phase(layout, phase));
	return et_mul(n, layout->build->n_bytes, &n) ? n : SIZE_MAX;
}

/* With room for either way and, behind it, which one it is. */
static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct layout layout = layout_of(payload, node, false), whole = layout_of(payload, node, true);
	size_t n = n_of_phases(&layout), n_whole = n_of_phases(&whole);
	n = n > n_whole ? n : n_whole;
	return !may_leave_zeros(node) || et_add(n, ET_XNN_WINDOWS_MARK, &n) ? n : SIZE_MAX;
}

/* A row of a panel, of which @n columns are there: from floats @stride apart; without such zeros. Returns where the next one goes. */
static uint8_t *pack_row(
	const struct layout *layout, const float *from, size_t stride, size_t n, size_t width, uint8_t *to)
{
	const size_t n_bytes = layout->build->n_bytes;
	for (size_t i = 0; i < width; i++, to += n_bytes) {
		float number = from && i < n ? from[i * stride] : 0;
		uint16_t half = et_xnn_to_half(number);
		if (n_bytes == sizeof(half))
			memcpy(to, &half, sizeof(half));
		else
			memcpy(to, &number, sizeof(number));
	}
	return to;
}

/* One group of a phase. @filter: [n_out][kernel][kernel][channels]. @bias: [n_out], or NULL. */
static uint8_t *pack_group(const struct layout *layout, const size_t phase[2], const float *filter,
	const float *bias, uint8_t *to)
{
	const struct taps down = taps_of(layout, 0, phase[0]), across = taps_of(layout, 1, phase[1]);
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
						column + (y * layout->kernel[1] + x) * layout->channels + k,
						of_column, n, width, to);
	}
	return to;
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *packed)
{
	const float *filter = (const float *)(const void *)payload->values[node->inputs[1]].data,
		    *bias = node->inputs[2] == ET_XNN_NONE
				    ? NULL
				    : (const float *)(const void *)payload->values[node->inputs[2]].data;
	bool are_halves = payload->values[node->inputs[0]].type == ET_XNN_FP16;
	const size_t n = (size_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W] *
			 node->numbers[ET_XNN_GROUP_IN] * node->numbers[ET_XNN_GROUP_OUT];
	uint8_t *to = packed;
	bool counts_zeros = false;
	if (may_leave_zeros(node)) {
		uint8_t *mark = to + n_packed(payload, node) - ET_XNN_WINDOWS_MARK;
		memset(to, 0, (size_t)(mark - to)); /* it is kept in a file, too */
		et_xnn_windows_mark(filter, n * node->numbers[ET_XNN_GROUPS], are_halves, mark);
		counts_zeros = et_xnn_windows_is_marked(mark);
	}
	const struct layout layout = layout_of(payload, node, counts_zeros);
	size_t phase[2] = { 0, 0 };
	do {
		for (size_t group = 0; group < layout.groups && n_taps(&layout, phase); group++)
			to = pack_group(&layout, phase, filter + group * n,
				bias ? bias + group * layout.n_out : NULL, to);
	} while (next_phase(&layout, phase));
}

/* --- running ------------------------------------------------------------------------------------------- */

struct pictures {
	struct layout layout;
	struct et_xnn_patches patches; /* of the first picture, without what a phase says */
	size_t out[2], pad[2];
};

/* Of a phase without taps all outputs are alike, @n down and across, of @n_pixel bytes each: the first is there. */
static void repeat(const struct et_xnn_patches *patches, const size_t n[2], size_t n_pixel)
{
	const size_t n_bytes = patches->build->n_bytes, down = patches->out_step[0] * n_bytes,
		     across = patches->out_step[1] * n_bytes;
	const uint8_t *from = patches->job.out;
	for (size_t y = 0; y < n[0]; y++)
		for (size_t x = y == 0; x < n[1]; x++)
			memcpy(patches->job.out + y * down + x * across, from, n_pixel);
}

/* Rows @begin to @end of the outputs of picture @image, as far as they are of that phase. */
static void run_phase(const struct pictures *pictures, const uint8_t *packed, const size_t phase[2],
	size_t image, size_t begin, size_t end)
{
	const struct layout *layout = &pictures->layout;
	struct et_xnn_patches patches = pictures->patches;
	size_t n_in = patches.height * patches.width * patches.channels * patches.groups,
	       pixel = layout->groups * layout->n_out, n_bytes = patches.build->n_bytes, at[2], n[2],
	       to[2] = { end, pictures->out[1] };
	const size_t none[2] = { 0, 0 }, *first = n_taps(layout, phase) ? phase : none;
	for (int axis = 0; axis < 2; axis++) {
		const struct taps taps = taps_of(layout, axis, phase[axis]);
		/* Output o is of phase (o + pad) % phases. */
		size_t phases = layout->phases[axis], from = axis == 0 ? begin : 0,
		       behind = (from + pictures->pad[axis]) % phases;
		at[axis] = from + (phase[axis] + phases - behind) % phases;
		n[axis] = to[axis] > at[axis] ? (to[axis] - at[axis] + phases - 1) / phases : 0;
		if (phases > 1) {
			patches.first[axis] = (ptrdiff_t)((at[axis] + pictures->pad[axis]) / phases) -
					      (ptrdiff_t)taps.behind;
			patches.step[axis] = -(ptrdiff_t)taps.gap;
		} else {
			patches.first[axis] += (ptrdiff_t)(at[axis] * patches.stride[axis]);
		}
		patches.kernel[axis] = taps.n;
	}
	patches.filter_taps = n_taps(layout, first);
	if (n[0] == 0 || n[1] == 0)
		return;
	patches.job.packed = first == phase ? packed : pictures->patches.job.packed;
	patches.packed_step = size_of(layout, first);
	patches.job.in += image * n_in * n_bytes;
	patches.job.out += ((image * pictures->out[0] + at[0]) * pictures->out[1] + at[1]) * pixel * n_bytes;
	bool is_empty = first != phase;
	patches.out_width = is_empty ? 1 : n[1];
	patches.out_step[0] = layout->phases[0] * pictures->out[1] * pixel;
	patches.out_step[1] = layout->phases[1] * pixel;
	et_xnn_patches_run(&patches, 0, is_empty ? 1 : n[0]);
	if (is_empty)
		repeat(&patches, n, pixel * n_bytes);
}

/* Rows of all pictures' outputs, one after the other. */
static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct pictures *pictures = arg;
	const struct layout *layout = &pictures->layout;
	const size_t height = pictures->out[0], n_bytes = layout->build->n_bytes;
	for (size_t n; begin < end; begin += n) {
		size_t image = begin / height, y = begin % height, phase[2] = { 0, 0 };
		const uint8_t *packed = pictures->patches.job.packed;
		n = height - y < end - begin ? height - y : end - begin;
		do {
			run_phase(pictures, packed, phase, image, y, y + n);
			packed += size_of(layout, phase) * layout->groups * n_bytes;
		} while (next_phase(layout, phase));
	}
}

static void run(const struct et_xnn_own_run *run)
{
	const struct et_xnn_node *node = run->node;
	const uint32_t *numbers = node->numbers;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	bool counts_zeros = may_leave_zeros(node) &&
			    et_xnn_windows_is_marked((const uint8_t *)run->packed +
						     n_packed(run->payload, node) - ET_XNN_WINDOWS_MARK);
	struct pictures pictures = { .layout = layout_of(run->payload, node, counts_zeros),
		.out = { out[1], out[2] },
		.pad = { numbers[ET_XNN_PAD_TOP], numbers[ET_XNN_PAD_LEFT] } };
	const struct layout *layout = &pictures.layout;
	struct et_xnn_patches *patches = &pictures.patches;
	*patches = (struct et_xnn_patches){ .build = layout->build,
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
		ptrdiff_t pad = (ptrdiff_t)pictures.pad[axis],
			  gap = (ptrdiff_t)numbers[ET_XNN_DILATION_H + axis];
		patches->step[axis] = is_deconvolution(node) ? -gap : gap;
		patches->first[axis] = is_deconvolution(node) ? pad : -pad;
		patches->stride[axis] = is_deconvolution(node) ? 1 : layout->stride[axis];
		patches->spread[axis] =
			is_deconvolution(node) ? layout->stride[axis] / layout->phases[axis] : 1;
	}
	size_t of_row = out[2] * layout->groups * layout->n_out * layout->kernel[0] * layout->kernel[1] *
			layout->channels / (layout->phases[0] * layout->phases[1]);
	et_xnn_lane_parallel_for(run->lane, run_rows, &pictures, out[0] * out[1],
		layout->phases[0] * (1 + GRAIN / (of_row ? of_row : 1)));
}

static bool takes_groups(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return !is_deconvolution(node) && et_xnn_own_is_all_floats(payload, node) && takes(payload, node);
}

static bool takes_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_deconvolution(node) && et_xnn_own_is_all_floats(payload, node) && takes(payload, node);
}

static bool takes_halves_convolution(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return !is_deconvolution(node) && et_xnn_own_is_all_halves(payload, node) && takes(payload, node);
}

static bool takes_halves_deconvolution(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_deconvolution(node) && et_xnn_own_is_all_halves(payload, node) && takes(payload, node);
}

const struct et_xnn_own et_xnn_own_groups = {
	.name = "Convolution (NHWC, F32), by groups",
	.takes = takes_groups,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_own et_xnn_own_patches = {
	.name = "Deconvolution (NHWC, F32), by patches",
	.takes = takes_floats,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_own et_xnn_own_patches_halves = {
	.name = "Convolution (NHWC, F16), by patches",
	.takes = takes_halves_convolution,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_own et_xnn_own_deconvolution_halves = {
	.name = "Deconvolution (NHWC, F16), by patches",
	.takes = takes_halves_deconvolution,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
