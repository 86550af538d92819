/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory an instance takes, before it takes any.
 *
 * A value lives from the node that writes it to the last node that reads it, and its memory is used again
 * afterwards. XNNPACK plans its workspace in the same way, so the sum here is what XNNPACK takes, except for what
 * its plan loses to fragments. A payload can ask for any amount of memory; the limit is checked here, for the
 * exported shapes and again for the shapes of each run. */
#include "delegates/xnnpack/graph/instance_memory.h"

#include "delegates/xnnpack/graph/deconvolution_cut.h"
#include "delegates/xnnpack/graph/shape.h"
#include "delegates/xnnpack/ukernels/gemm_qs8.h"

#include <math.h>

static uint64_t value_bytes(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes, uint32_t index)
{
	if (index == ET_XNN_NONE || payload->values[index].data || payload->values[index].external ||
		payload->values[index].stands_for != ET_XNN_NONE)
		return 0;
	const struct et_xnn_value *value = &payload->values[index];
	const struct et_xnn_shape *shape = &shapes[index];
	uint64_t n = et_xnn_count(shape), n_deep;
	struct et_xnn_rows rows;
	if (value->quant != ET_XNN_QUANT_ROW)
		return n * et_xnn_type_bits(value->type) / 8;
	/* Overrides store quantized rows in no less memory than XNNPACK does. */
	n_deep = et_xnn_count_dims(shape->dims + shape->n_dims - value->n_row_dims, value->n_row_dims);
	return n_deep && et_xnn_rows(&rows, n / n_deep, n_deep) ? rows.n_bytes : n;
}

/* Bytes of the indirection table of a convolution or pooling: a pointer for each position and each element of the
 * window. */
static uint64_t table_bytes(const struct et_xnn_node *node, const struct et_xnn_shape *shapes)
{
	struct et_xnn_shape out = shapes[node->outputs[0]];
	uint64_t window = 0;
	if (et_xnn_is_below_stride(node, &out))
		out = et_xnn_without_padding(node, &out);
	if (node->kind->infer == et_xnn_infer_resize)
		window = 4;
	else if (node->kind->fields[0] == ET_XNN_FIELD_NUMBER + ET_XNN_PAD_TOP)
		window = (uint64_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W];
	return window > 1 ? out.dims[1] * out.dims[2] * window * sizeof(void *) : 0;
}

/* Bytes that XNNPACK takes while it runs @node, besides the node's own values. */
static uint64_t scratch_bytes(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	const struct et_xnn_shape *shapes)
{
	enum { TILE = 64 }; /* columns are packed in tiles; no processor's are wider */
	const struct et_xnn_shape *second = &shapes[node->inputs[1]], *out = &shapes[node->outputs[0]];
	bool is_clamped = node->min != -INFINITY || node->max != INFINITY;
	/* the node is computed in floats */
	if (!et_xnn_scales_fit(payload, node))
		return (et_xnn_count(&shapes[node->inputs[0]]) + et_xnn_count(out) +
			       (node->kind->n_inputs > 1 ? et_xnn_count(second) : 0)) *
		       sizeof(float) * (is_clamped ? 2 : 1);
	struct et_xnn_shape whole = et_xnn_is_below_stride(node, out) ? et_xnn_without_padding(node, out)
								      : (struct et_xnn_shape){ .n_dims = 1 };
	/* XNNPACK makes the limits a node of its own */
	uint8_t type = payload->values[node->outputs[0]].type;
	bool is_integer = type == ET_XNN_INT32; /* there is a copy, too (define.c) */
	if (is_clamped &&
		(node->kind->define == et_xnn_define_binary || node->kind->define == et_xnn_define_global_pooling ||
			(is_integer && node->kind->define == et_xnn_define_unary)))
		return et_xnn_count(out) * et_xnn_type_bits(type) / 8 * (is_integer ? 2 : 1);
	/* a filter or right side that is computed is packed in each run */
	bool is_product = node->kind->infer == et_xnn_infer_matmul || et_xnn_has_computed_weights(payload, node);
	if (!is_product)
		return et_xnn_count(&whole) * et_xnn_type_bits(type) / 8;
	uint64_t columns = out->dims[out->n_dims - 1], elements = et_xnn_count(second);
	uint64_t packed = (elements / columns + et_xnn_count_dims(second->dims, second->n_dims - 2)) * (columns + TILE);
	/* fp16 is computed in fp32: a reshaped copy, the product before the bias, and the sum before the limits */
	if (node->kind->has_filter)
		packed += 2 * et_xnn_count(&shapes[node->inputs[0]]) + 3 * et_xnn_count(out) + elements;
	return packed * sizeof(float);
}

enum et_status et_xnn_check_memory(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes,
	uint32_t *last_users, uint64_t max_bytes, size_t *ret_bytes, struct et_diag *diag)
{
	uint64_t now = 0, most = 0, tables = 0;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		for (uint32_t j = 0; j < payload->nodes[i].kind->n_inputs && !payload->nodes[i].is_gone; j++) {
			if (payload->nodes[i].inputs[j] != ET_XNN_NONE)
				last_users[payload->nodes[i].inputs[j]] = i;
		}
	}
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		if (node->is_gone)
			continue;
		for (uint32_t j = 0; j < node->kind->n_outputs; j++)
			now += value_bytes(payload, shapes, node->outputs[j]);
		uint64_t here = now + scratch_bytes(payload, node, shapes);
		most = here > most ? here : most;
		tables += table_bytes(node, shapes);
		if (most + tables > max_bytes)
			return et_xnn_node_fail(diag, ET_E_OUT_OF_RESOURCES, node,
				"brings the memory of one instance above the limit of %llu MiB",
				(unsigned long long)(max_bytes >> 20));
		for (uint32_t j = 0; j < node->kind->n_inputs; j++) {
			uint32_t index = node->inputs[j];
			if (index == ET_XNN_NONE || last_users[index] != i)
				continue;
			now -= value_bytes(payload, shapes, index);
			last_users[index] = ET_XNN_NONE; /* a node may read it twice */
		}
	}
	*ret_bytes = (size_t)(most + tables);
	return ET_OK;
}
