/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that XNNPACK must not be given.
 *
 * Debian's XNNPACK computes some nodes wrongly, or ends the process over them. Overrides do these nodes, but a
 * payload that is too large to be cut has none (partition.c). So each node that no override does is checked here,
 * for the exported shapes and again for the shapes of each run, and refused by name. */
#include "delegates/xnnpack/unsupported.h"

#include "delegates/xnnpack/graph/deconvolution_cut.h"
#include "delegates/xnnpack/overrides/override.h"
#include "runtime/base/cpu.h"

/* XNNPACK's kernels for SSE 4.1 and AVX read a filter with 4-bit blocks in panels of 4 outputs, and each panel with
 * aligned loads of 16 bytes. A panel has 32 bytes, and for each block 2 for each of its channels (a multiple of 32) and
 * 8 more: with an odd number of blocks the second panel is not aligned. */
static bool misaligns_panels(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
#ifdef __x86_64__
	enum { PANEL = 4 };
	const struct et_xnn_value *filter = node->kind->has_filter ? &payload->values[node->inputs[1]] : NULL;
	return filter && filter->type == ET_XNN_QBINT4 && !et_cpu_runs_avx2() && filter->shape.dims[0] > PANEL &&
	       filter->shape.dims[1] / filter->block_size % 2;
#else
	return false;
#endif
}

enum et_status et_xnn_check_supported(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes,
	struct et_diag *diag)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		const struct et_xnn_shape *out = &shapes[node->outputs[0]];
		if (!et_xnn_is_left_to_xnnpack(node))
			continue;
		if (et_xnn_is_too_large_to_cut(node, out))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"has an output of %zu × %zu, less than its stride of %u × %u, and a padding "
				"that is absurdly large",
				out->dims[1], out->dims[2], node->numbers[ET_XNN_STRIDE_H],
				node->numbers[ET_XNN_STRIDE_W]);
		if (et_xnn_moves_int32(payload, node))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"moves %s, in a payload that is too large to be cut",
				et_xnn_type_name(payload->values[node->inputs[0]].type));
		if (et_xnn_override_needs_quotient(payload, node))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"divides %s, in a payload that is too large to be cut",
				et_xnn_type_name(payload->values[node->inputs[0]].type));
		if (et_xnn_override_needs_average(node))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"has a window of %u × %u with a padding of as much", node->numbers[ET_XNN_KERNEL_H],
				node->numbers[ET_XNN_KERNEL_W]);
		if (misaligns_panels(payload, node))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"has a filter with an odd number of 4-bit blocks, which XNNPACK cannot read on a "
				"processor without AVX2");
		if (node->kind->define == et_xnn_define_nothing)
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"is in a payload that is too large to be cut");
		if (et_xnn_override_needs_pool(payload, node))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"has a window, strides, gaps and padding that are not supported together "
				"here");
	}
	return ET_OK;
}
