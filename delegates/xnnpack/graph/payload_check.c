/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that need the whole graph: whether the nodes fit together.
 *
 * The decoder (payload_read.c) has read values and nodes one by one. Here each node's inputs must have been written
 * before, no other node may write its outputs, and its datatypes must go together, where XNNPACK would assert
 * instead of refusing. Then the graph is simplified, the arguments are sorted, and each constant learns whether it
 * must stay readable. */
#include "delegates/xnnpack/graph/kind.h"

#include <math.h>

static bool is_float(uint8_t type)
{
	return type == ET_XNN_FP32 || type == ET_XNN_FP16;
}

static bool is_activation(uint8_t type)
{
	return is_float(type) || type == ET_XNN_QINT8 || type == ET_XNN_QUINT8;
}

/* Datatypes that XNNPACK converts element by element. */
static bool is_convertible(uint8_t type)
{
	return is_activation(type) || type == ET_XNN_INT32;
}

static bool is_bf16(const struct et_xnn_payload *payload, uint32_t value)
{
	return value != ET_XNN_NONE && payload->values[value].type == ET_XNN_BF16;
}

static bool has_bf16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	bool has = is_bf16(payload, node->outputs[0]);
	for (uint32_t i = 0; i < node->kind->n_inputs; i++)
		has = has || is_bf16(payload, node->inputs[i]);
	return has;
}

/* Whether ExecuTorch's runtime does a fully connected layer with these bf16 values: input and filter are bf16, the
 * output is bf16 or fp32, the bias is fp32; or only the output is bf16, and the weights are quantized in blocks. */
static bool linear_bf16_fit(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *filter = &payload->values[node->inputs[1]],
				  *out = &payload->values[node->outputs[0]];
	const struct et_xnn_value *bias = node->inputs[2] != ET_XNN_NONE ? &payload->values[node->inputs[2]] : NULL;
	if (node->kind->infer != et_xnn_infer_fully_connected || !filter->data || (bias && bias->type != ET_XNN_FP32))
		return false;
	if (filter->type == ET_XNN_BF16)
		return in->type == ET_XNN_BF16 && (out->type == ET_XNN_BF16 || out->type == ET_XNN_FP32);
	return in->type == ET_XNN_QDINT8 && filter->type == ET_XNN_QBINT4 && (!bias || bias->data) &&
	       !(node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS);
}

/* Whether ExecuTorch's runtime does any node with these bf16 values. */
static bool bf16_fit(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_kind *kind = node->kind;
	uint8_t in = payload->values[node->inputs[0]].type, out = payload->values[node->outputs[0]].type;
	bool is_lenient = kind->define == et_xnn_define_unary && kind->op != xnn_unary_clamp;
	switch (kind->types) {
	case ET_XNN_TYPES_CONVERT:
		return (in == ET_XNN_BF16 || is_convertible(in)) &&
		       (out == ET_XNN_BF16 || out == ET_XNN_QDINT8 || is_convertible(out));
	case ET_XNN_TYPES_WEIGHTS:
		return linear_bf16_fit(payload, node);
	case ET_XNN_TYPES_MATMUL:
		return in == ET_XNN_BF16 && is_bf16(payload, node->inputs[1]) && out == ET_XNN_FP32;
	case ET_XNN_TYPES_SAME:
		for (uint32_t i = 0; i < kind->n_inputs && !is_lenient; i++)
			if (!is_bf16(payload, node->inputs[i]) || out != ET_XNN_BF16)
				return false;
		return (in == ET_XNN_BF16 || in == ET_XNN_FP32) && (out == ET_XNN_BF16 || out == ET_XNN_FP32);
	default:
		return false;
	}
}

static bool is_elementwise(const struct et_xnn_node *node)
{
	return node->kind->define == et_xnn_define_unary || node->kind->define == et_xnn_define_binary;
}

/* Whether a node whose values all have the same datatype may have @type. */
static bool takes_type(const struct et_xnn_payload *payload, const struct et_xnn_node *node, uint8_t type)
{
	return is_activation(type) || et_xnn_moves_int32(payload, node) ||
	       (type == ET_XNN_INT32 && is_elementwise(node));
}

/* Whether the datatypes of a node go together, where XNNPACK would not refuse by itself. */
static bool types_fit(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_kind *kind = node->kind;
	const struct et_xnn_value *values = payload->values;
	const struct et_xnn_value *in = &values[node->inputs[0]];
	const struct et_xnn_value *second = kind->n_inputs > 1 ? &values[node->inputs[1]] : NULL;
	const struct et_xnn_value *out = &values[node->outputs[0]];

	if (has_bf16(payload, node))
		return bf16_fit(payload, node);
	switch (kind->types) {
	case ET_XNN_TYPES_CONVERT:
		return out->type == ET_XNN_QDINT8 ? is_float(in->type)
						  : is_convertible(in->type) && is_convertible(out->type);
	case ET_XNN_TYPES_WEIGHTS: {
		const struct et_xnn_value *bias = node->inputs[2] != ET_XNN_NONE ? &values[node->inputs[2]] : NULL;
		bool is_static = second->data && (!bias || bias->data);
		if (!(is_activation(in->type) || in->type == ET_XNN_QDINT8) || !is_activation(out->type))
			return false;
		if (second->type == ET_XNN_QDINT8 || (bias && et_xnn_type_bits(bias->type) < 16))
			return false;
		/* XNNPACK asserts that a convolution's filter has one of these datatypes. */
		if (kind->infer != et_xnn_infer_fully_connected)
			return is_static && (is_activation(second->type) || second->type == ET_XNN_QCINT8);
		/* A filter or bias that is computed: all values have the same float datatype. */
		if (!is_static && !(is_float(in->type) && second->type == in->type && out->type == in->type &&
					  (!bias || bias->type == in->type)))
			return false;
		if (et_xnn_type_bits(second->type) != 4)
			return true;
		/* An odd number of columns: only as the exporter writes them, never widened. */
		bool is_transposed = node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS;
		if (second->shape.dims[1] % 2 != 0 && (is_transposed || in->type != ET_XNN_QDINT8))
			return false;
		/* A transposed 4-bit filter is widened (model.c), for the datatypes that XNNPACK then takes. */
		return !is_transposed || (second->type == ET_XNN_QCINT4 && in->type == ET_XNN_QDINT8);
	}
	case ET_XNN_TYPES_MATMUL:
		if (in->type == ET_XNN_QDINT8)
			return second->type == ET_XNN_QCINT8 && second->data && out->type == ET_XNN_FP32;
		return is_float(in->type) && second->type == in->type && out->type == in->type;
	default:
		break;
	}
	for (uint32_t i = 0; i < kind->n_inputs; i++) {
		if (values[node->inputs[i]].type != in->type)
			return false;
	}
	if (out->type != in->type)
		return false;
	if (kind->types == ET_XNN_TYPES_SAME)
		return takes_type(payload, node, in->type);
	if (kind->types == ET_XNN_TYPES_IMAGES)
		return is_activation(in->type);
	return kind->types == ET_XNN_TYPES_FP32 ? in->type == ET_XNN_FP32 : is_float(in->type);
}

/* Whether XNNPACK packs input @slot of the node into the weights cache, and finds it there again without reading it.
 * Filters of depthwise convolutions are packed anew each time, or read as they are (override.c). Transposed
 * convolutions and matrix products do not use the cache in this version. */
static bool is_packed_once(const struct et_xnn_payload *payload, const struct et_xnn_node *node, uint32_t slot)
{
	if (!node->kind->has_filter || slot == 0)
		return false;
	const struct et_xnn_value *values = payload->values;
	const struct et_xnn_value *filter = &values[node->inputs[1]];
	if (!filter->data || (node->inputs[2] != ET_XNN_NONE && !values[node->inputs[2]].data))
		return false;
	if (node->kind->infer == et_xnn_infer_fully_connected)
		return !(values[node->inputs[0]].type == ET_XNN_FP32 && filter->type == ET_XNN_FP16);
	if (node->kind->infer == et_xnn_infer_deconvolution)
		return false;
	if (node->kind->infer == et_xnn_infer_depthwise && /* these become convolutions (model.c) */
		!(values[node->inputs[0]].type == ET_XNN_FP32 && filter->type == ET_XNN_FP32 &&
			values[node->outputs[0]].type == ET_XNN_FP32))
		return false;
	return !(node->numbers[ET_XNN_GROUP_IN] == 1 && node->numbers[ET_XNN_GROUP_OUT] == 1);
}

/* Whether the node is a clamp without limits. XNNPACK's clamp loses fp16 NaNs and the smallest floats, so such a
 * clamp becomes a copy, for any datatype. */
static bool is_idle_clamp(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *out = &payload->values[node->outputs[0]];
	return et_xnn_is_clamp(node) && node->min == -INFINITY && node->max == INFINITY && in->type == out->type &&
	       in->scale == out->scale && in->zero_point == out->zero_point;
}

static enum et_status check_node(struct et_xnn_payload *payload, uint32_t at, struct et_diag *diag)
{
	struct et_xnn_node *node = &payload->nodes[at];
	if (is_idle_clamp(payload, node))
		node->kind = et_xnn_kind_at(ET_XNN_KIND_COPY);
	const struct et_xnn_kind *kind = node->kind;

	for (uint32_t i = 0; i < kind->n_inputs; i++) {
		if (node->inputs[i] == ET_XNN_NONE)
			continue;
		struct et_xnn_value *value = &payload->values[node->inputs[i]];
		bool is_there = value->data || value->external == ET_XNN_IS_INPUT || value->producer != ET_XNN_NONE;
		if (!is_there || value->is_index)
			return et_xnn_node_fail(diag, ET_E_INVALID_PROGRAM, node,
				"reads value %u, which nothing has written", value->id);
		value->n_users++;
		/* A bf16 constant is only read to pack it or to widen it (fp16_weights.c). */
		if (value->data && value->type != ET_XNN_BF16 && !is_packed_once(payload, node, i))
			value->is_resident = true;
	}
	for (uint32_t i = 0; i < kind->n_outputs; i++) {
		struct et_xnn_value *value = &payload->values[node->outputs[i]];
		if (value->data || value->external == ET_XNN_IS_INPUT || value->producer != ET_XNN_NONE)
			return et_xnn_node_fail(diag, ET_E_INVALID_PROGRAM, node,
				"writes value %u, which is written already", value->id);
		value->producer = at;
		value->is_index = i == 1; /* only argmax pooling has a second output */
	}
	if (!types_fit(payload, node))
		return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node, "takes no %s with %s to %s",
			et_xnn_type_name(payload->values[node->inputs[0]].type),
			kind->n_inputs > 1 ? et_xnn_type_name(payload->values[node->inputs[1]].type) : "nothing",
			et_xnn_type_name(payload->values[node->outputs[0]].type));
	if (node->kind->types == ET_XNN_TYPES_WEIGHTS && !et_xnn_scales_fit(payload, node))
		return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node, "takes no scales of %g and %g to %g",
			(double)payload->values[node->inputs[0]].scale, (double)payload->values[node->inputs[1]].scale,
			(double)payload->values[node->outputs[0]].scale);
	return ET_OK;
}

/* Remove nodes whose outputs have no reader: XNNPACK removes them itself, and then aborts because its inputs' other
 * end is missing. The last node comes first, since each may be the only reader of another. */
static void drop_dead_nodes(struct et_xnn_payload *payload)
{
	uint32_t n_alive = payload->n_nodes;
	for (uint32_t i = payload->n_nodes; i > 0; i--) {
		struct et_xnn_node *node = &payload->nodes[i - 1];
		bool is_dead = true;
		for (uint32_t j = 0; j < node->kind->n_outputs; j++) {
			const struct et_xnn_value *value = &payload->values[node->outputs[j]];
			is_dead = is_dead && value->n_users == 0 && !value->external;
		}
		if (!is_dead)
			continue;
		for (uint32_t j = 0; j < node->kind->n_inputs; j++) {
			if (node->inputs[j] != ET_XNN_NONE)
				payload->values[node->inputs[j]].n_users--;
		}
		node->kind = NULL;
		n_alive--;
	}
	for (uint32_t i = 0; i < payload->n_values; i++)
		payload->values[i].producer = ET_XNN_NONE;
	uint32_t at = 0;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		if (!node->kind)
			continue;
		for (uint32_t j = 0; j < node->kind->n_outputs; j++)
			payload->values[node->outputs[j]].producer = at;
		payload->nodes[at++] = *node;
	}
	payload->n_nodes = n_alive;
}

/* Find the value of each argument, and sort inputs and outputs. */
static enum et_status sort_args(struct et_xnn_payload *payload, uint32_t n_args, struct et_pool *pool,
	struct et_diag *diag)
{
	uint32_t *by_arg = ET_POOL_NEW_ARRAY(pool, uint32_t, n_args);
	if (!by_arg)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read an XNNPACK payload");
	for (uint32_t i = 0; i < n_args; i++)
		by_arg[i] = ET_XNN_NONE;
	for (uint32_t i = 0; i < payload->n_values; i++) {
		const struct et_xnn_value *value = &payload->values[i];
		if (!value->external)
			continue;
		if (by_arg[value->external_id] != ET_XNN_NONE)
			return et_fail(diag, ET_E_INVALID_PROGRAM, "XNNPACK payload: two values are argument %u",
				value->external_id);
		if (value->external == ET_XNN_IS_OUTPUT && value->producer == ET_XNN_NONE)
			return et_fail(diag, ET_E_INVALID_PROGRAM, "XNNPACK payload: nothing writes argument %u",
				value->external_id);
		by_arg[value->external_id] = i;
	}
	/* Inputs come before outputs, as the delegate interface says. An argument without a value counts as an input
	 * that no node reads. */
	uint32_t n_inputs = 0;
	payload->first_output = n_args;
	for (uint32_t i = 0; i < n_args; i++) {
		bool is_output = by_arg[i] != ET_XNN_NONE && payload->values[by_arg[i]].external == ET_XNN_IS_OUTPUT;
		if (is_output && payload->first_output == n_args)
			payload->first_output = i;
		if (!is_output && payload->first_output < i)
			return et_fail(diag, ET_E_NOT_SUPPORTED,
				"XNNPACK payload: argument %u is read or unused, but argument %u before it "
				"is written",
				i, payload->first_output);
		if (!is_output && by_arg[i] != ET_XNN_NONE)
			by_arg[n_inputs++] = by_arg[i];
	}
	payload->inputs = by_arg;
	payload->n_inputs = n_inputs;
	payload->outputs = by_arg + payload->first_output;
	payload->n_outputs = n_args - payload->first_output;
	payload->n_args = n_args;
	return ET_OK;
}

/* Turn a reshape of an argument into a view. For XNNPACK a reshape is a copy, unless it may write over its input,
 * which it may not if that is an argument. But an argument can have another shape in XNNPACK's graph than elsewhere:
 * no copy is needed. */
static void make_views(struct et_xnn_payload *payload)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		struct et_xnn_node *node = &payload->nodes[i];
		struct et_xnn_value *in = &payload->values[node->inputs[0]];
		struct et_xnn_value *out = &payload->values[node->outputs[0]];
		if (node->kind->infer != et_xnn_infer_reshape || in->n_users != 1 || in->data ||
			in->scale != out->scale || in->zero_point != out->zero_point)
			continue;
		struct et_xnn_value *arg = in->external ? in : out, *inner = in->external ? out : in;
		if (!arg->external || inner->external || inner->stands_for != ET_XNN_NONE)
			continue;
		/* an output that other nodes read, and an input that a node writes, need their own shape for these
		 * nodes */
		if (arg == out ? out->n_users > 0 : in->producer != ET_XNN_NONE)
			continue;
		arg->seen_as = (uint32_t)(inner - payload->values);
		inner->stands_for = (uint32_t)(arg - payload->values);
		node->is_view = true;
	}
}

enum et_status et_xnn_payload_check(struct et_xnn_payload *payload, uint32_t n_args, struct et_pool *pool,
	struct et_diag *diag)
{
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < payload->n_nodes && status == ET_OK; i++)
		status = check_node(payload, i, diag);
	if (status == ET_OK)
		status = et_xnn_payload_lower_half(payload, pool, diag);
	if (status != ET_OK)
		return status;
	et_xnn_payload_simplify(payload);
	drop_dead_nodes(payload);
	status = et_xnn_payload_spread_transposes(payload, pool, diag);
	if (status != ET_OK)
		return status;
	drop_dead_nodes(payload);
	et_xnn_payload_take_limits(payload);
	drop_dead_nodes(payload);
	make_views(payload);
	return sort_args(payload, n_args, pool, diag);
}
