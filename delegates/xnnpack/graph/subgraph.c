/* SPDX-License-Identifier: BSD-3-Clause */
/* Building XNNPACK's subgraph and its runtime from a decoded payload.
 *
 * A subgraph is cheap: it names values and nodes and points at constants. A runtime made of it owns operators, and
 * shares packed weights with all others through the weights cache. XNNPACK rewrites the subgraph while it makes the
 * runtime, so both are made anew for each instance.
 *
 * XNNPACK does not name the node when it refuses to make a runtime. So the node is searched for: the first prefix of
 * the nodes that XNNPACK refuses ends with the node to blame. */
#include "delegates/xnnpack/graph/subgraph.h"

#include "delegates/xnnpack/allocator.h"
#include "runtime/base/checked.h"

/* XNNPACK's own numbers of the schema's datatypes. The decoder refused those that XNNPACK does not have. */
static const enum xnn_datatype datatypes[ET_XNN_N_TYPES] = {
	[ET_XNN_FP32] = xnn_datatype_fp32,
	[ET_XNN_FP16] = xnn_datatype_fp16,
	[ET_XNN_QINT8] = xnn_datatype_qint8,
	[ET_XNN_QUINT8] = xnn_datatype_quint8,
	[ET_XNN_QINT32] = xnn_datatype_qint32,
	[ET_XNN_QCINT8] = xnn_datatype_qcint8,
	[ET_XNN_QCINT32] = xnn_datatype_qcint32,
	[ET_XNN_QCINT4] = xnn_datatype_qcint4,
	[ET_XNN_QDINT8] = xnn_datatype_qdint8,
	[ET_XNN_QBINT4] = xnn_datatype_qbint4,
	[ET_XNN_INT32] = xnn_datatype_int32,
	[ET_XNN_BF16] = xnn_datatype_bf16, /* no node of a graph reads or writes such a value */
};

const char *et_xnn_status_text(enum xnn_status status)
{
	static const char *const texts[] = {
		[xnn_status_success] = "success",
		[xnn_status_uninitialized] = "not initialized",
		[xnn_status_invalid_parameter] = "invalid parameter",
		[xnn_status_invalid_state] = "invalid state",
		[xnn_status_unsupported_parameter] = "unsupported parameter",
		[xnn_status_unsupported_hardware] = "unsupported hardware",
		[xnn_status_out_of_memory] = "out of memory",
		[xnn_status_reallocation_required] = "reallocation required",
		[xnn_status_deprecated] = "deprecated",
	};
	return (size_t)status < ET_ARRAY_LEN(texts) ? texts[status] : "unknown status";
}

enum et_status et_xnn_status_of(enum xnn_status status)
{
	switch (status) {
	case xnn_status_success:
		return ET_OK;
	case xnn_status_out_of_memory:
		return ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED;
	case xnn_status_invalid_parameter:
	case xnn_status_unsupported_parameter:
	case xnn_status_unsupported_hardware:
		return ET_E_NOT_SUPPORTED;
	default:
		return ET_E_INTERNAL;
	}
}

enum xnn_status et_xnn_define_value(xnn_subgraph_t subgraph, const struct et_xnn_value *value,
	const struct et_xnn_value *arg, uint32_t end, uint32_t *ret_id)
{
	enum xnn_datatype type = datatypes[value->type];
	uint32_t external = arg->external ? arg->external_id : end;
	uint32_t flags = 0;
	if (arg->external == ET_XNN_IS_INPUT)
		flags = XNN_VALUE_FLAG_EXTERNAL_INPUT;
	else if (external != XNN_INVALID_VALUE_ID)
		flags = XNN_VALUE_FLAG_EXTERNAL_OUTPUT;
	const size_t *dims = value->shape.dims;
	size_t n_dims = value->shape.n_dims;
	/* 4-bit numbers are stored with 8 added. */
	int32_t zero_point = et_xnn_type_bits(value->type) == 4 ? 8 : 0;

	switch (value->quant) {
	case ET_XNN_QUANT_TENSOR:
		return xnn_define_quantized_tensor_value(subgraph, type, value->zero_point, value->scale, n_dims, dims,
			value->data, external, flags, ret_id);
	case ET_XNN_QUANT_CHANNEL:
		return xnn_define_channelwise_quantized_tensor_value_v2(subgraph, type, zero_point, value->scales,
			n_dims, value->channel_dim, dims, value->data, external, flags, ret_id);
	case ET_XNN_QUANT_BLOCK:
		return xnn_define_blockwise_quantized_tensor_value(subgraph, type, zero_point, value->block_scales,
			n_dims, value->channel_dim, value->block_size, dims, value->data, external, flags, ret_id);
	case ET_XNN_QUANT_ROW:
		return xnn_define_dynamically_quantized_tensor_value(subgraph, type, n_dims, value->n_row_dims, dims,
			external, flags, ret_id);
	default:
		return xnn_define_tensor_value(subgraph, type, n_dims, dims, value->data, external, flags, ret_id);
	}
}

static bool is_idle(const struct et_xnn_node *node)
{
	return node->is_view || node->is_gone;
}

/* Find the values that must become outputs when the graph ends behind the first @n_nodes nodes: those nodes write
 * them, and only later nodes read them. XNNPACK aborts over nodes whose output is not read. @ret_ends: the external
 * id of each such value, NONE for the others. Returns their number. */
static uint32_t find_ends(const struct et_xnn_payload *payload, uint32_t n_nodes, uint32_t *ret_ends)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < payload->n_values; i++)
		ret_ends[i] = ET_XNN_NONE;
	for (uint32_t i = 0; i < n_nodes && n_nodes < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		for (uint32_t j = 0; j < node->kind->n_outputs && !is_idle(node); j++)
			ret_ends[node->outputs[j]] = 0;
		for (uint32_t j = 0; j < node->kind->n_inputs && !is_idle(node); j++)
			if (node->inputs[j] != ET_XNN_NONE)
				ret_ends[node->inputs[j]] = ET_XNN_NONE;
	}
	for (uint32_t i = 0; i < payload->n_values; i++) {
		if (payload->values[i].external || payload->values[i].stands_for != ET_XNN_NONE)
			ret_ends[i] = ET_XNN_NONE;
		if (ret_ends[i] != ET_XNN_NONE)
			ret_ends[i] = payload->n_externs + n++;
	}
	return n;
}

/* @ids: the answers of find_ends, which are replaced by XNNPACK's ids. */
static enum et_status define_all(const struct et_xnn_builder *builder, uint32_t *ids, uint32_t n_nodes,
	struct et_diag *diag)
{
	const struct et_xnn_payload *payload = builder->payload;
	for (uint32_t i = 0; i < payload->n_values; i++) {
		uint32_t end = ids[i] == ET_XNN_NONE ? XNN_INVALID_VALUE_ID : ids[i];
		const struct et_xnn_value *value = &payload->values[i];
		/* XNNPACK would plan memory for an unused value */
		bool is_unused = !value->data && !value->external && value->producer == ET_XNN_NONE;
		ids[i] = XNN_INVALID_VALUE_ID;
		if (is_unused || value->seen_as != ET_XNN_NONE)
			continue;
		const struct et_xnn_value *arg = value->stands_for != ET_XNN_NONE ? &payload->values[value->stands_for]
										  : value;
		enum xnn_status status = et_xnn_define_value(builder->subgraph, value, arg, end, &ids[i]);
		if (status != xnn_status_success)
			return et_fail(diag, et_xnn_status_of(status), "XNNPACK refuses value %u (%s): %s", value->id,
				et_xnn_type_name(value->type), et_xnn_status_text(status));
	}
	for (uint32_t i = 0; i < n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		if (is_idle(node))
			continue;
		enum xnn_status status = node->kind->define(builder, node);
		if (status != xnn_status_success)
			return et_xnn_node_fail(diag, et_xnn_status_of(status), node, "is refused by XNNPACK: %s",
				et_xnn_status_text(status));
	}
	return ET_OK;
}

enum et_status et_xnn_graph_build(xnn_subgraph_t *ret_subgraph, const struct et_xnn_payload *payload,
	const struct et_xnn_shape *shapes, uint32_t n_nodes, uint32_t *ids, struct et_diag *diag)
{
	struct et_xnn_builder builder = { .payload = payload, .shapes = shapes, .ids = ids };
	uint32_t n_externs = payload->n_externs + find_ends(payload, n_nodes, ids);
	enum xnn_status made = xnn_create_subgraph(n_externs, 0, &builder.subgraph);
	if (made != xnn_status_success)
		return et_fail(diag, et_xnn_status_of(made), "XNNPACK can't make a graph: %s",
			et_xnn_status_text(made));
	enum et_status status = define_all(&builder, ids, n_nodes, diag);
	made = et_xnn_settle(xnn_status_success);
	if (status == ET_OK && made != xnn_status_success)
		status = et_fail(diag, et_xnn_status_of(made), "XNNPACK can't make a graph: %s",
			et_xnn_status_text(made));
	if (status != ET_OK) {
		xnn_delete_subgraph(builder.subgraph);
		return status;
	}
	*ret_subgraph = builder.subgraph;
	return ET_OK;
}

/* Make a runtime of the first @n_nodes nodes. */
static enum xnn_status try_runtime(xnn_runtime_t *ret_runtime, const struct et_xnn_payload *payload, uint32_t n_nodes,
	const struct et_xnn_runtime_use *use, uint32_t *ids, enum et_status *ret_built, struct et_diag *diag)
{
	xnn_subgraph_t subgraph;
	*ret_built = et_xnn_graph_build(&subgraph, payload, use->shapes, n_nodes, ids, diag);
	if (*ret_built != ET_OK)
		return xnn_status_invalid_parameter;
	enum xnn_status made = xnn_create_runtime_v4(subgraph, use->weights, use->workspace, use->threads, use->flags,
		ret_runtime);
	enum xnn_status status = et_xnn_settle(made);
	if (made == xnn_status_success && status != xnn_status_success)
		xnn_delete_runtime(*ret_runtime);
	xnn_delete_subgraph(subgraph);
	return status;
}

enum et_status et_xnn_runtime_new(xnn_runtime_t *ret_runtime, const struct et_xnn_payload *payload,
	const struct et_xnn_runtime_use *use, uint32_t *ids, struct et_diag *diag)
{
	enum et_status built;
	enum xnn_status refusal = try_runtime(ret_runtime, payload, payload->n_nodes, use, ids, &built, diag);
	if (built != ET_OK)
		return built;
	if (refusal == xnn_status_success)
		return ET_OK;
	for (uint32_t n = 1; refusal != xnn_status_out_of_memory && n <= payload->n_nodes; n++) {
		xnn_runtime_t runtime;
		enum xnn_status status = try_runtime(&runtime, payload, n, use, ids, &built, diag);
		if (status == xnn_status_success)
			xnn_delete_runtime(runtime);
		else
			return et_xnn_node_fail(diag, et_xnn_status_of(status), &payload->nodes[n - 1],
				"is refused by XNNPACK: %s", et_xnn_status_text(status));
	}
	return et_fail(diag, et_xnn_status_of(refusal), "XNNPACK refuses the graph: %s", et_xnn_status_text(refusal));
}
