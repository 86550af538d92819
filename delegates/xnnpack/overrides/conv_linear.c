/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolutions and fully connected layers of fp32, fp16 and bf16 weights, as matrix products (gemm.h,
 * implicit_im2col.h).
 *
 * Two kinds are taken for correctness, whatever their size: fully connected layers of few columns, whose NaNs XNNPACK
 * loses (gemm.h), and fp16 where the processor computes it, because the original adds up in halves there and Debian's
 * XNNPACK in floats; the difference grows from layer to layer. The others are taken for speed, with AVX-512, or
 * with AVX2 if our GEMM was measured to be faster (gemm_choice.c).
 *
 * A filter is packed once for a Program and kept with those that XNNPACK packed (weights.h). */
#include "delegates/xnnpack/overrides/override.h"

#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/ukernels/implicit_im2col.h"
#include "runtime/base/checked.h"

enum {
	GRAIN = 1 << 17,   /* products that are worth another thread */
	FEW_ROWS = 8 * 14, /* of fewer rows threads share the columns instead */
};

static size_t columns_of(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return payload->values[node->inputs[1]].shape.dims[node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS ? 1 : 0];
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node, bool is_fp16)
{
	const uint32_t *n = node->numbers;
	bool is_convolution = node->kind->infer == et_xnn_infer_convolution;
	uint32_t flags = is_convolution ? 0 : XNN_FLAG_TRANSPOSE_WEIGHTS | XNN_FLAG_TENSORFLOW_RESHAPE_2D;
	if ((node->flags & ~flags) ||
		!(is_fp16 ? et_xnn_override_is_all_fp16(payload, node) : et_xnn_override_is_all_floats(payload, node)))
		return false;
	const struct et_xnn_value *filter = &payload->values[node->inputs[1]],
				  *out = &payload->values[node->outputs[0]];
	if (is_convolution && is_fp16 && et_xnn_override_is_like_depthwise(node))
		return false;
	if (is_convolution && (n[ET_XNN_GROUPS] != 1 || n[ET_XNN_DILATION_H] != 1 || n[ET_XNN_DILATION_W] != 1))
		return false;
	if (is_fp16 ? et_xnn_gemm_fp16() != NULL : !is_convolution && et_xnn_gemm_is_narrow(columns_of(payload, node)))
		return et_xnn_override_is_on();
	if (is_fp16 || !et_xnn_gemm())
		return false;
	/* XNNPACK fills a convolution's columns up to whole tiles, so its work is counted in whole panels. */
	size_t products = filter->shape.dims[0];
	if (is_convolution && !et_align_up(products, ET_GEMM_PANEL, &products))
		return false;
	for (uint32_t i = 1; i < filter->shape.n_dims; i++)
		products *= filter->shape.dims[i];
	for (uint32_t i = 0; i + 1 < out->shape.n_dims; i++)
		if (!et_mul(products, out->shape.dims[i], &products))
			return false;
	return et_xnn_override_is_worth(products);
}

static const struct et_xnn_gemm_build *build_of(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return payload->values[node->inputs[0]].type == ET_XNN_FP16 ? et_xnn_gemm_fp16() : et_xnn_gemm_any();
}

/* The columns of the left matrix. */
static size_t depth_of(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_shape *filter = &payload->values[node->inputs[1]].shape;
	if (node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS)
		return filter->dims[0];
	size_t n = 1;
	for (uint32_t i = 1; i < filter->n_dims; i++)
		n *= filter->dims[i];
	return n;
}

/* Bytes of the packed panels; SIZE_MAX: too many. */
static size_t n_panels(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_gemm_build *build = build_of(payload, node);
	size_t n = et_xnn_gemm_n_packed(depth_of(payload, node), columns_of(payload, node), build->panel);
	return n == SIZE_MAX ? n : n * build->n_bytes;
}

static bool has_border(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_convolution && et_xnn_override_has_border(node);
}

static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	size_t n = n_panels(payload, node);
	return !has_border(node) || et_add(n, ET_XNN_IMPLICIT_IM2COL_MARK, &n) ? n : SIZE_MAX;
}

static float float_at(const void *numbers, bool is_bf16, size_t i)
{
	return is_bf16 ? et_bf16_to_float(((const uint16_t *)numbers)[i]) : ((const float *)numbers)[i];
}

/* Pack a filter of bf16, or a transposed one, as floats: AT_ONCE rows of a panel at a time. */
static void pack_by_parts(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *to)
{
	enum { AT_ONCE = 64 };
	const void *filter = payload->values[node->inputs[1]].data;
	bool is_bf16 = payload->values[node->inputs[1]].type == ET_XNN_BF16;
	size_t depth = depth_of(payload, node), n_columns = columns_of(payload, node);
	bool is_transposed = node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS;
	size_t of_column = is_transposed ? 1 : depth, of_row = is_transposed ? n_columns : 1;
	float floats[ET_GEMM_PANEL * AT_ONCE];
	struct et_xnn_gemm_part biases = { .n_rows = 1, .n = n_columns, .from_stride = 1 };
	if (node->inputs[2] != ET_XNN_NONE)
		biases.from = (const float *)(const void *)payload->values[node->inputs[2]].data;
	et_xnn_gemm_pack_part(&biases, depth, n_columns, to);
	for (size_t row = 0; row < depth; row += AT_ONCE) {
		struct et_xnn_gemm_part part = { .row = 1 + row,
			.n_rows = depth - row < AT_ONCE ? depth - row : AT_ONCE,
			.from = floats,
			.from_stride = AT_ONCE };
		for (; part.column < n_columns; part.column += part.n) {
			size_t left = n_columns - part.column;
			part.n = left < ET_GEMM_PANEL ? left : ET_GEMM_PANEL;
			size_t from = part.column * of_column + row * of_row;
			for (size_t i = 0; i < part.n; i++)
				for (size_t k = 0; k < part.n_rows; k++)
					floats[i * AT_ONCE + k] = float_at(filter, is_bf16,
						from + i * of_column + k * of_row);
			et_xnn_gemm_pack_part(&part, depth, n_columns, to);
		}
	}
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *to)
{
	const struct et_xnn_gemm_build *build = build_of(payload, node);
	const struct et_xnn_value *filter = &payload->values[node->inputs[1]],
				  *bias = node->inputs[2] == ET_XNN_NONE ? NULL : &payload->values[node->inputs[2]];
	bool is_transposed = node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS;
	struct et_xnn_gemm_filter given = {
		.filter = filter->data,
		.bias = bias ? bias->data : NULL,
		.filter_is_fp16 = filter->type == ET_XNN_FP16,
		.bias_is_fp16 = bias && bias->type == ET_XNN_FP16,
		.depth = depth_of(payload, node),
		.n_columns = columns_of(payload, node),
	};
	given.of_column = is_transposed ? 1 : given.depth;
	given.of_row = is_transposed ? given.n_columns : 1;
	if (build->pack)
		build->pack(&given, to);
	else if (is_transposed)
		pack_by_parts(payload, node, to);
	else
		et_xnn_gemm_pack(given.filter, given.bias, given.depth, given.n_columns, to);
	if (has_border(node))
		et_xnn_implicit_im2col_mark(given.filter, given.n_columns * given.depth, build->pack != NULL,
			(uint8_t *)to + n_panels(payload, node));
}

struct gemm {
	const struct et_xnn_gemm_build *build;
	struct et_xnn_gemm job;
	bool is_rounded;
};

static void run_part(const struct gemm *gemm, size_t begin, size_t end, size_t left, size_t right)
{
	float *out = (float *)(void *)gemm->job.out;
	gemm->build->run(&gemm->job, begin, end, left, right);
	for (size_t row = begin; row < end && gemm->is_rounded; row++)
		et_bf16()->round(out + row * gemm->job.out_stride + left, right - left);
}

static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct gemm *gemm = arg;
	run_part(gemm, begin, end, 0, gemm->job.n_columns);
}

static size_t panels(const struct gemm *gemm)
{
	return (gemm->job.n_columns + gemm->build->panel - 1) / gemm->build->panel;
}

struct columns {
	const struct gemm *gemm;
	size_t n_rows;
};

static size_t column_at(const struct gemm *gemm, size_t panel)
{
	size_t at = panel * gemm->build->panel;
	return at < gemm->job.n_columns ? at : gemm->job.n_columns;
}

static void run_columns(void *arg, size_t begin, size_t end)
{
	const struct columns *columns = arg;
	const struct gemm *gemm = columns->gemm;
	run_part(gemm, 0, columns->n_rows, column_at(gemm, begin), column_at(gemm, end));
}

struct images {
	struct et_xnn_implicit_im2col windows; /* of the first image */
	size_t out_height;
};

static void run_windows(void *arg, size_t begin, size_t end)
{
	const struct images *images = arg;
	struct et_xnn_implicit_im2col windows = images->windows;
	size_t n_in = windows.height * windows.width * windows.channels,
	       n_out = images->out_height * windows.out_step[0];
	while (begin < end) {
		size_t image = begin / images->out_height, y = begin % images->out_height,
		       n = images->out_height - y < end - begin ? images->out_height - y : end - begin;
		windows.job.in = images->windows.job.in + image * n_in * windows.build->n_bytes;
		windows.job.out = images->windows.job.out + image * n_out * windows.build->n_bytes;
		et_xnn_implicit_im2col_run(&windows, y, y + n);
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

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_shape *in = &run->shapes[node->inputs[0]], *out = &run->shapes[node->outputs[0]];
	const uint32_t *n = node->numbers;
	size_t depth = depth_of(run->payload, node), n_columns = out->dims[out->n_dims - 1];
	struct gemm gemm = {
		.build = build_of(run->payload, node),
		.is_rounded = node->is_rounded,
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
	size_t n_rows = et_xnn_n_rows(out), n_of_row = depth * n_columns;
	if (!is_pointwise(node)) {
		struct images images = { .out_height = out->dims[1],
			.windows = { .build = gemm.build,
				.job = gemm.job,
				.height = in->dims[1],
				.width = in->dims[2],
				.channels = in->dims[3],
				.out_width = out->dims[2],
				.kernel = { n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W] },
				.stride = { n[ET_XNN_STRIDE_H], n[ET_XNN_STRIDE_W] },
				.pad = { n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_LEFT] },
				.out_step = { out->dims[2] * n_columns, n_columns } } };
		images.windows.counts_zeros = has_border(node) &&
					      et_xnn_implicit_im2col_is_marked((const uint8_t *)run->packed +
									       n_panels(run->payload, node));
		et_xnn_threads_parallel_for(run->threads, run_windows, &images, out->dims[0] * out->dims[1],
			1 + GRAIN / (n_of_row * out->dims[2]));
	} else if (n_rows < FEW_ROWS && panels(&gemm) > 1) {
		struct columns columns = { &gemm, n_rows };
		et_xnn_threads_parallel_for(run->threads, run_columns, &columns, panels(&gemm),
			1 + GRAIN / (n_rows * depth * gemm.build->panel));
	} else {
		et_xnn_threads_parallel_for(run->threads, run_rows, &gemm, n_rows, 14 + GRAIN / n_of_row);
	}
}

static bool takes_convolution(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_convolution && takes(payload, node, false);
}

static bool takes_linear(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_fully_connected && takes(payload, node, false);
}

static bool is_narrow_linear(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return et_xnn_gemm_is_narrow(columns_of(payload, node));
}

static bool takes_convolution_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_convolution && takes(payload, node, true);
}

static bool takes_linear_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_fully_connected && takes(payload, node, true);
}

/* All whose filter is bf16, if filter and bias are constant. */
static bool takes_bf16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_fully_connected &&
	       payload->values[node->inputs[1]].type == ET_XNN_BF16 && !et_xnn_has_computed_weights(payload, node);
}

const struct et_xnn_override et_xnn_override_conv = {
	.name = "conv-fp32",
	.reason = "speed: EfficientNet-Lite0 7.8 ms instead of 8.5, YOLO11n 17.9 instead of 19.4 (AVX-512)",
	.takes = takes_convolution,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_linear = {
	.name = "linear-fp32",
	.reason = "correctness: XNNPACK loses NaNs where columns are few; speed: silero_vad 31 µs instead of 34 "
		  "(AVX-512)",
	.takes = takes_linear,
	.is_needed = is_narrow_linear,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_conv_fp16 = {
	.name = "conv-fp16",
	.reason = "correctness: Debian's XNNPACK adds up in floats, the original in halves (AVX512-FP16); "
		  "ResNet-18 in halves takes 0.79 of the original's time, 3.61 without",
	.takes = takes_convolution_fp16,
	.is_needed = takes_convolution_fp16,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_linear_fp16 = {
	.name = "linear-fp16",
	.reason = "correctness: Debian's XNNPACK adds up in floats, the original in halves (AVX512-FP16)",
	.takes = takes_linear_fp16,
	.is_needed = takes_linear_fp16,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};

const struct et_xnn_override et_xnn_override_linear_bf16 = {
	.name = "linear-bf16",
	.reason = "correctness: XNNPACK has no bf16",
	.takes = takes_bf16,
	.is_required = true,
	.n_packed = n_packed,
	.pack = pack_by_parts,
	.run = run,
};
