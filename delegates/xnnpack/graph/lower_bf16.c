/* SPDX-License-Identifier: BSD-3-Clause */
/* Turning bf16 graphs into fp32 graphs, as ExecuTorch's XNNPACK (92a7ad5) does.
 *
 * Debian's XNNPACK (4ea82e5) knows only the datatype's name. ExecuTorch's has a few kernels more, but its nodes read
 * and write fp32 before it makes a runtime. The results depend on where it rounds, so this rounds in the same
 * places:
 *
 *     - values between the nodes of the graph are not rounded;
 *     - a node that converts to bf16 rounds. So does a bf16 fully connected layer: it writes fp32, and ExecuTorch
 *       adds such a convert;
 *     - a padding value is rounded like a constant;
 *     - an output is rounded for the caller, but other nodes of the graph read the value before it was rounded; if
 *       one of the two nodes above wrote it, they read its rounded result.
 *
 * Afterwards bf16 values are arguments, which only the nodes of bf16_convert.c and cast.c read and write, and
 * constants: filters, which conv_linear.c packs, and others, which become fp32 as fp16 constants do
 * (fp16_weights.c). */
#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/graph/kind.h"

#include <math.h>
#include <string.h>

struct lowering {
	struct et_xnn_payload *payload;
	struct et_xnn_node *nodes; /* the new nodes */
	uint32_t n_nodes;
	uint32_t *floats; /* for each value of the file: the value with the same numbers in fp32, or NONE */
};

static bool is_bf16(const struct lowering *lowering, uint32_t value)
{
	return lowering->payload->values[value].type == ET_XNN_BF16;
}

static bool is_constant(const struct lowering *lowering, uint32_t value)
{
	return lowering->payload->values[value].data != NULL;
}

static void add_node(struct lowering *lowering, const struct et_xnn_node *node)
{
	lowering->nodes[lowering->n_nodes++] = *node;
}

/* Add a node of @kind on behalf of @node. */
static void add_step(struct lowering *lowering, const struct et_xnn_node *node, const struct et_xnn_kind *kind,
	uint32_t from, uint32_t to)
{
	add_node(lowering, &(struct et_xnn_node){ .kind = kind,
				   .index = node->index,
				   .inputs = { from },
				   .outputs = { to },
				   .min = -INFINITY,
				   .max = INFINITY });
}

/* Add an fp32 value with the shape of @value. */
static uint32_t add_floats(struct lowering *lowering, uint32_t value)
{
	struct et_xnn_payload *payload = lowering->payload;
	payload->values[payload->n_values] = (struct et_xnn_value){
		.id = payload->values[value].id,
		.type = ET_XNN_FP32,
		.external_id = ET_XNN_NONE,
		.shape = payload->values[value].shape,
		.seen_as = ET_XNN_NONE,
		.stands_for = ET_XNN_NONE,
		.producer = ET_XNN_NONE,
	};
	return payload->n_values++;
}

/* The value that @node is to read instead of @value. */
static uint32_t as_floats(struct lowering *lowering, const struct et_xnn_node *node, uint32_t value)
{
	if (value == ET_XNN_NONE || !is_bf16(lowering, value) || is_constant(lowering, value))
		return value;
	if (lowering->floats[value] == ET_XNN_NONE) {
		lowering->floats[value] = add_floats(lowering, value);
		add_step(lowering, node, et_xnn_kind_at(ET_XNN_KIND_CONVERT), value, lowering->floats[value]);
	}
	return lowering->floats[value];
}

/* Round the fp32 value @from, which the node before computed: to bf16 values kept as fp32, or to bf16 if @out is an
 * argument. */
static void add_rounding(struct lowering *lowering, const struct et_xnn_node *node, uint32_t from, uint32_t out)
{
	struct et_xnn_value *value = &lowering->payload->values[out];
	if (!value->external)
		value->type = ET_XNN_FP32;
	add_step(lowering, node, value->external ? et_xnn_kind_at(ET_XNN_KIND_CONVERT) : &et_xnn_kind_round, from, out);
}

/* Lower a node that writes bf16. It reads no bf16 any more, except constants. */
static void lower_to_bf16(struct lowering *lowering, struct et_xnn_node *node)
{
	uint32_t in = node->inputs[0], out = node->outputs[0];
	const struct et_xnn_value *values = lowering->payload->values;
	bool is_convert = node->kind->types == ET_XNN_TYPES_CONVERT,
	     is_layer = node->kind->has_filter && is_bf16(lowering, node->inputs[1]);
	node->is_rounded = is_layer && !values[out].external && !et_xnn_has_computed_weights(lowering->payload, node);
	if (!values[out].external && (node->is_rounded || (!is_convert && !is_layer))) {
		lowering->payload->values[out].type = ET_XNN_FP32;
		add_node(lowering, node);
		return;
	}
	if (!is_convert || values[in].type != ET_XNN_FP32 || is_constant(lowering, in)) {
		node->outputs[0] = add_floats(lowering, out);
		if (is_convert && (values[in].type == ET_XNN_FP32 || is_bf16(lowering, in)))
			node->kind = et_xnn_kind_at(ET_XNN_KIND_COPY);
		add_node(lowering, node);
		in = node->outputs[0];
	}
	if (!is_convert && !is_layer)
		lowering->floats[out] = in;
	add_rounding(lowering, node, in, out);
}

/* Whether the node converts a bf16 argument to integers: cast.c reads bf16 as it is, and rounds in another way. */
static bool is_native(const struct lowering *lowering, const struct et_xnn_node *node)
{
	const struct et_xnn_value *out = &lowering->payload->values[node->outputs[0]];
	return node->kind->types == ET_XNN_TYPES_CONVERT && is_bf16(lowering, node->inputs[0]) &&
	       !is_constant(lowering, node->inputs[0]) && (out->type == ET_XNN_INT32 || et_xnn_is_8_bit(out));
}

static void lower(struct lowering *lowering, struct et_xnn_node node)
{
	const struct et_xnn_value *values = lowering->payload->values;
	uint32_t in = node.inputs[0], out = node.outputs[0];
	/* The file's node converts from bf16; its input may have become fp32 by now. */
	bool is_widening = node.kind->types == ET_XNN_TYPES_CONVERT && values[out].type == ET_XNN_FP32 &&
			   (is_bf16(lowering, in) || values[in].type == ET_XNN_FP32);
	if (is_widening && is_bf16(lowering, in) && !is_constant(lowering, in) && lowering->floats[in] == ET_XNN_NONE) {
		lowering->floats[in] = out;
		add_node(lowering, &node);
		return;
	}
	if (is_native(lowering, &node)) {
		add_node(lowering, &node);
		return;
	}
	for (uint32_t i = 0; i < node.kind->n_inputs; i++)
		node.inputs[i] = as_floats(lowering, &node, node.inputs[i]);
	if (is_widening)
		node.kind = et_xnn_kind_at(ET_XNN_KIND_COPY);
	if (node.kind->infer == et_xnn_infer_pad && is_bf16(lowering, out))
		et_bf16()->round(&node.number, 1);
	if (is_bf16(lowering, out))
		lower_to_bf16(lowering, &node);
	else
		add_node(lowering, &node);
}

static void recount(struct et_xnn_payload *payload)
{
	for (uint32_t i = 0; i < payload->n_values; i++) {
		payload->values[i].n_users = 0;
		payload->values[i].producer = ET_XNN_NONE;
	}
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		for (uint32_t j = 0; j < node->kind->n_inputs; j++)
			if (node->inputs[j] != ET_XNN_NONE)
				payload->values[node->inputs[j]].n_users++;
		for (uint32_t j = 0; j < node->kind->n_outputs; j++)
			payload->values[node->outputs[j]].producer = i;
	}
}

enum et_status et_xnn_payload_lower_bf16(struct et_xnn_payload *payload, struct et_pool *pool, struct et_diag *diag)
{
	bool has_bf16 = false;
	for (uint32_t i = 0; i < payload->n_values; i++)
		has_bf16 = has_bf16 || payload->values[i].type == ET_XNN_BF16;
	if (!has_bf16)
		return ET_OK;
	/* Each value that is read may need an fp32 value, and each node that writes. */
	uint32_t n_values = 2 * payload->n_values + payload->n_nodes,
		 n_nodes = payload->n_values + 2 * payload->n_nodes;
	struct et_xnn_value *values = et_pool_scratch(pool, n_values * sizeof(*values), _Alignof(struct et_xnn_value));
	struct lowering lowering = {
		.payload = payload,
		.nodes = et_pool_scratch(pool, n_nodes * sizeof(*lowering.nodes), _Alignof(struct et_xnn_node)),
		.floats = ET_POOL_NEW_ARRAY(pool, uint32_t, payload->n_values),
	};
	if (!values || !lowering.nodes || !lowering.floats)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read an XNNPACK payload");
	memcpy(values, payload->values, payload->n_values * sizeof(*values));
	for (uint32_t i = 0; i < payload->n_values; i++)
		lowering.floats[i] = ET_XNN_NONE;
	payload->values = values;
	payload->max_values = n_values;
	for (uint32_t i = 0; i < payload->n_nodes; i++)
		lower(&lowering, payload->nodes[i]);
	payload->nodes = lowering.nodes;
	payload->n_nodes = lowering.n_nodes;
	payload->max_nodes = n_nodes;
	recount(payload);
	return ET_OK;
}
