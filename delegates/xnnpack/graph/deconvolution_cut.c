/* SPDX-License-Identifier: BSD-3-Clause */
/* Transposed convolutions whose output is smaller than their stride.
 *
 * XNNPACK computes outputs that lie a stride apart together ("subconvolutions"). If a stride begins behind the last
 * output, it writes far behind its table. So define.c has XNNPACK compute such an output without padding, which is
 * never smaller than the stride, and cuts the padding off with a slice. The slice's sizes are part of the graph, so
 * a runtime that was made in this way is good for one output size only. */
#include "delegates/xnnpack/graph/deconvolution_cut.h"

#include "delegates/xnnpack/graph/shape.h"

bool et_xnn_has_subconvs(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return node->kind->infer == et_xnn_infer_deconvolution && n[ET_XNN_DILATION_H] == 1 &&
	       n[ET_XNN_DILATION_W] == 1 && n[ET_XNN_STRIDE_H] <= n[ET_XNN_KERNEL_H] &&
	       n[ET_XNN_STRIDE_W] <= n[ET_XNN_KERNEL_W];
}

bool et_xnn_may_be_below_stride(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return et_xnn_has_subconvs(node) &&
	       ((uint64_t)n[ET_XNN_ADJUST_H] + n[ET_XNN_KERNEL_H] <
			       (uint64_t)n[ET_XNN_PAD_TOP] + n[ET_XNN_PAD_BOTTOM] + n[ET_XNN_STRIDE_H] ||
		       (uint64_t)n[ET_XNN_ADJUST_W] + n[ET_XNN_KERNEL_W] <
			       (uint64_t)n[ET_XNN_PAD_LEFT] + n[ET_XNN_PAD_RIGHT] + n[ET_XNN_STRIDE_W]);
}

bool et_xnn_is_below_stride(const struct et_xnn_node *node, const struct et_xnn_shape *out)
{
	const uint32_t *n = node->numbers;
	return et_xnn_has_subconvs(node) && (out->dims[1] < n[ET_XNN_STRIDE_H] || out->dims[2] < n[ET_XNN_STRIDE_W]);
}

struct et_xnn_shape et_xnn_without_padding(const struct et_xnn_node *node, const struct et_xnn_shape *out)
{
	const uint32_t *n = node->numbers;
	struct et_xnn_shape whole = *out;
	whole.dims[1] += (size_t)n[ET_XNN_PAD_TOP] + n[ET_XNN_PAD_BOTTOM];
	whole.dims[2] += (size_t)n[ET_XNN_PAD_LEFT] + n[ET_XNN_PAD_RIGHT];
	return whole;
}

bool et_xnn_is_too_large_to_cut(const struct et_xnn_node *node, const struct et_xnn_shape *out)
{
	const struct et_xnn_shape whole = et_xnn_without_padding(node, out);
	uint64_t kernel = (uint64_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W];
	return et_xnn_is_below_stride(node, out) &&
	       (!et_xnn_is_sane(&whole) || kernel > ET_XNN_MAX_INDIRECTION / (whole.dims[1] * whole.dims[2]));
}

bool et_xnn_may_be_cut(const struct et_xnn_payload *payload)
{
	bool may_be = false;
	for (uint32_t i = 0; i < payload->n_nodes; i++)
		may_be = may_be || (et_xnn_is_left_to_xnnpack(&payload->nodes[i]) &&
					   et_xnn_may_be_below_stride(&payload->nodes[i]));
	return may_be;
}

bool et_xnn_is_cut_alike(const struct et_xnn_payload *payload, const struct et_xnn_shape *a,
	const struct et_xnn_shape *b)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		const struct et_xnn_shape *of_a = &a[node->outputs[0]], *of_b = &b[node->outputs[0]];
		if (et_xnn_is_left_to_xnnpack(node) &&
			(et_xnn_is_below_stride(node, of_a) || et_xnn_is_below_stride(node, of_b)) &&
			(of_a->dims[1] != of_b->dims[1] || of_a->dims[2] != of_b->dims[2]))
			return false;
	}
	return true;
}
