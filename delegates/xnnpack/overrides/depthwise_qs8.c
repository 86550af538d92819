/* SPDX-License-Identifier: BSD-3-Clause */
/* Depthwise convolutions of signed 8 bits, 3 × 3 and 5 × 5 (ukernels/depthwise_qs8.h).
 *
 * A node is taken if the processor has AVX512-VNNI and the node is large enough. Results are XNNPACK's to the bit.
 * Unsigned types, dilation and other kernels are left to XNNPACK. The filter is packed once for a Program
 * (weights.h). */
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/overrides/quantized.h"

#include "delegates/xnnpack/ukernels/depthwise_qs8.h"
#include "runtime/base/checked.h"

enum {
	LEAST_CHANNELS = 16,
	GRAIN = 1 << 19, /* products that are worth another thread */
	CHEAPER = 4,     /* products of 8 bits in the time of one of floats */
};

static bool is_usual(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers, kernel = n[ET_XNN_KERNEL_H], stride = n[ET_XNN_STRIDE_H];
	return n[ET_XNN_KERNEL_W] == kernel && n[ET_XNN_STRIDE_W] == stride && (kernel == 3 || kernel == 5) &&
	       (stride == 1 || stride == 2) && n[ET_XNN_DILATION_H] == 1 && n[ET_XNN_DILATION_W] == 1;
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (node->kind->infer != et_xnn_infer_depthwise || node->numbers[ET_XNN_GROUP_OUT] != 1 || node->flags ||
		!is_usual(node) || !et_depthwise_qs8() || !et_xnn_override_is_qs8(payload, node, 3))
		return false;
	const struct et_xnn_value *out = &payload->values[node->outputs[0]];
	size_t n = (size_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W];
	for (uint32_t i = 0; i < out->shape.n_dims; i++)
		if (!et_mul(n, out->shape.dims[i], &n))
			return false;
	return payload->values[node->inputs[1]].shape.dims[3] >= LEAST_CHANNELS &&
	       et_xnn_override_is_worth(n / CHEAPER);
}

static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return et_depthwise_qs8_n_packed(payload->values[node->inputs[1]].shape.dims[3],
		node->numbers[ET_XNN_KERNEL_H]);
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *to)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *taps = &payload->values[node->inputs[1]];
	const struct et_depthwise_qs8_filter filter = {
		.channels = taps->shape.dims[3],
		.kernel = node->numbers[ET_XNN_KERNEL_H],
		.zero = (int8_t)in->zero_point,
		.taps = (const int8_t *)taps->data,
		.bias = node->inputs[2] == ET_XNN_NONE
				? NULL
				: (const int32_t *)(const void *)payload->values[node->inputs[2]].data,
		.scales = taps->quant == ET_XNN_QUANT_CHANNEL ? taps->scales : NULL,
		.scale = taps->scale,
		.in_scale = in->scale,
		.out_scale = payload->values[node->outputs[0]].scale,
	};
	et_depthwise_qs8_pack(&filter, to);
}

static void run_rows(void *arg, size_t begin, size_t end)
{
	et_depthwise_qs8()->run(arg, begin, end);
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values, *result = &values[node->outputs[0]];
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	struct et_depthwise_qs8 job = {
		.channels = in[3],
		.height = in[1],
		.width = in[2],
		.out_height = out[1],
		.out_width = out[2],
		.kernel = node->numbers[ET_XNN_KERNEL_H],
		.stride = node->numbers[ET_XNN_STRIDE_H],
		.top = (ptrdiff_t)node->numbers[ET_XNN_PAD_TOP],
		.left = (ptrdiff_t)node->numbers[ET_XNN_PAD_LEFT],
		.zero = (int8_t)values[node->inputs[0]].zero_point,
		.out_zero = (int8_t)result->zero_point,
		.min = et_xnn_limit_of_qs8(node->min, result),
		.max = et_xnn_limit_of_qs8(node->max, result),
		.packed = run->packed,
		.in = run->memory[node->inputs[0]],
		.out = run->memory[node->outputs[0]],
	};
	size_t of_row = job.out_width * job.channels * job.kernel * job.kernel;
	et_xnn_threads_parallel_for(run->threads, run_rows, &job, out[0] * job.out_height, 1 + GRAIN / of_row);
}

const struct et_xnn_override et_xnn_override_depthwise_qs8 = {
	.name = "depthwise-qs8",
	.reason = "speed: EfficientNet-Lite0 int8 takes 6.3 ms instead of 9.9 (AVX512-VNNI)",
	.takes = takes,
	.is_of_bytes = true,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
