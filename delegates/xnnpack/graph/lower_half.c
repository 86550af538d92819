/* SPDX-License-Identifier: BSD-3-Clause */
/* Turning bf16 graphs into fp32 graphs, as ExecuTorch's XNNPACK (92a7ad5) does; and fp16 graphs where the processor
 * does not compute fp16 (Cortex-A53, x86 without AVX2).
 *
 * Debian's XNNPACK (4ea82e5) knows only the name of bf16, and refuses fp16 on such a processor. ExecuTorch's has a few
 * kernels more, but its nodes read and write fp32 before it makes a runtime. The results depend on where it rounds, so
 * this rounds in the same places:
 *
 *     - values between the nodes of the graph are not rounded;
 *     - a node that converts to bf16 or fp16 rounds. So does a bf16 fully connected layer: it writes fp32, and
 *       ExecuTorch adds such a convert;
 *     - a padding value is rounded like a constant;
 *     - an output is rounded for the caller, but other nodes of the graph read the value before it was rounded; if
 *       one of the two nodes above wrote it, they read its rounded result.
 *
 * Afterwards bf16 values are arguments, which only the nodes of bf16_convert.c and cast.c read and write, and
 * constants: filters, which conv_linear.c packs, and others, which become fp32 as fp16 constants do
 * (fp16_weights.c). fp16 values are arguments and results of conversions. XNNPACK converts them on any processor, and
 * moves them: a node that only moves elements stays as it is, if none of its inputs was computed in fp32. */
#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/graph/kind.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

struct lowering {
	struct et_xnn_payload *payload;
	struct et_xnn_node *nodes; /* the new nodes */
	uint32_t n_nodes;
	uint32_t *floats; /* for each value of the file: the value with the same numbers in fp32, or NONE */
};

enum answer { UNKNOWN, YES, NO };

static _Atomic(enum answer) computes_fp16; /* what XNNPACK said */
static _Atomic(bool) is_fp16_always_lowered;

/* XNNPACK makes an operator of fp16 only if its kernels for fp16 run here. This operator takes a few bytes. Without
 * them the answer is yes for now, and XNNPACK refuses what it cannot do. */
bool et_xnn_computes_fp16(void)
{
	enum answer answer = atomic_load_explicit(&computes_fp16, memory_order_relaxed);
	if (answer == UNKNOWN) {
		xnn_operator_t softmax = NULL;
		enum xnn_status status = et_xnn_settle(xnn_create_softmax_nc_f16(0, &softmax));
		xnn_delete_operator(softmax);
		answer = status == xnn_status_unsupported_hardware ? NO : YES;
		if (status == xnn_status_success || answer == NO)
			atomic_store_explicit(&computes_fp16, answer, memory_order_relaxed);
	}
	return answer == YES && !atomic_load_explicit(&is_fp16_always_lowered, memory_order_relaxed);
}

void et_xnn_lower_fp16_always(bool is_always)
{
	atomic_store_explicit(&is_fp16_always_lowered, is_always, memory_order_relaxed);
}

static bool is_bf16(const struct lowering *lowering, uint32_t value)
{
	return lowering->payload->values[value].type == ET_XNN_BF16;
}

static bool is_fp16(const struct lowering *lowering, uint32_t value)
{
	return lowering->payload->values[value].type == ET_XNN_FP16;
}

/* Whether the value is of a datatype that nodes do not compute: it becomes fp32 for them. */
static bool is_half(const struct lowering *lowering, uint32_t value)
{
	return is_bf16(lowering, value) || (lowering->payload->lowers_fp16 && is_fp16(lowering, value));
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
	if (value == ET_XNN_NONE || !is_half(lowering, value) || is_constant(lowering, value))
		return value;
	if (lowering->floats[value] == ET_XNN_NONE) {
		lowering->floats[value] = add_floats(lowering, value);
		add_step(lowering, node, et_xnn_kind_at(ET_XNN_KIND_CONVERT), value, lowering->floats[value]);
	}
	return lowering->floats[value];
}

/* Round the fp32 value @from, which the node before computed: to bf16 or fp16, or, if @out is bf16 and no argument, to
 * bf16 values kept as fp32. */
static void add_rounding(struct lowering *lowering, const struct et_xnn_node *node, uint32_t from, uint32_t out)
{
	struct et_xnn_value *value = &lowering->payload->values[out];
	bool stays_floats = is_bf16(lowering, out) && !value->external;
	if (stays_floats)
		value->type = ET_XNN_FP32;
	add_step(lowering, node, stays_floats ? &et_xnn_kind_round : et_xnn_kind_at(ET_XNN_KIND_CONVERT), from, out);
}

/* Lower a node that writes bf16 or fp16. It reads neither any more, except constants. */
static void lower_to_half(struct lowering *lowering, struct et_xnn_node *node)
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
		if (is_convert && (values[in].type == ET_XNN_FP32 || is_half(lowering, in)))
			node->kind = et_xnn_kind_at(ET_XNN_KIND_COPY);
		add_node(lowering, node);
		in = node->outputs[0];
	}
	if (!is_convert && !is_layer)
		lowering->floats[out] = in;
	add_rounding(lowering, node, in, out);
}

/* Whether the node converts an argument to integers, and cast.c reads the argument as it is. From bf16 that rounds in
 * another way; signed 8 bits from fp16 are left to XNNPACK. */
static bool is_cast(const struct lowering *lowering, const struct et_xnn_node *node)
{
	const struct et_xnn_value *out = &lowering->payload->values[node->outputs[0]];
	if (node->kind->types != ET_XNN_TYPES_CONVERT || is_constant(lowering, node->inputs[0]))
		return false;
	if (is_bf16(lowering, node->inputs[0]))
		return out->type == ET_XNN_INT32 || et_xnn_is_8_bit(out);
	return is_fp16(lowering, node->inputs[0]) && (out->type == ET_XNN_INT32 || out->type == ET_XNN_QUINT8);
}

/* Whether the node moves elements of fp16, none of which was computed in fp32. */
static bool is_move_of_fp16(const struct lowering *lowering, const struct et_xnn_node *node)
{
	if (!et_xnn_is_move(node))
		return false;
	for (uint32_t i = 0; i < node->kind->n_inputs; i++) {
		uint32_t in = node->inputs[i];
		bool is_computed = lowering->payload->values[in].external == ET_XNN_IS_OUTPUT &&
				   lowering->floats[in] != ET_XNN_NONE;
		if (!is_fp16(lowering, in) || is_constant(lowering, in) || is_computed)
			return false;
	}
	return true;
}

/* Whether the node can do with bf16 and fp16 as they are. */
static bool stays(const struct lowering *lowering, const struct et_xnn_node *node)
{
	return is_cast(lowering, node) || is_move_of_fp16(lowering, node);
}

/* Round the number of a node that pads as a constant of @type would be. */
static void round_number(struct et_xnn_node *node, uint8_t type)
{
	if (type == ET_XNN_BF16)
		et_bf16()->round(&node->number, 1);
	else
		node->number = et_fp16_to_float(et_float_to_fp16(node->number));
}

static void lower(struct lowering *lowering, struct et_xnn_node node)
{
	const struct et_xnn_value *values = lowering->payload->values;
	uint32_t in = node.inputs[0], out = node.outputs[0];
	if (stays(lowering, &node)) {
		add_node(lowering, &node);
		return;
	}
	/* The file's node converts to fp32; its input may have become fp32 by now. */
	bool is_widening = node.kind->types == ET_XNN_TYPES_CONVERT && values[out].type == ET_XNN_FP32 &&
			   (is_half(lowering, in) || values[in].type == ET_XNN_FP32);
	if (is_widening && is_half(lowering, in) && !is_constant(lowering, in) && lowering->floats[in] == ET_XNN_NONE) {
		lowering->floats[in] = out;
		add_node(lowering, &node);
		return;
	}
	for (uint32_t i = 0; i < node.kind->n_inputs; i++)
		node.inputs[i] = as_floats(lowering, &node, node.inputs[i]);
	if (is_widening)
		node.kind = et_xnn_kind_at(ET_XNN_KIND_COPY);
	if (node.kind->infer == et_xnn_infer_pad && is_half(lowering, out))
		round_number(&node, values[out].type);
	if (is_half(lowering, out))
		lower_to_half(lowering, &node);
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

enum et_status et_xnn_payload_lower_half(struct et_xnn_payload *payload, struct et_pool *pool, struct et_diag *diag)
{
	bool has_bf16 = false, has_fp16 = false;
	for (uint32_t i = 0; i < payload->n_values; i++) {
		has_bf16 = has_bf16 || payload->values[i].type == ET_XNN_BF16;
		has_fp16 = has_fp16 || payload->values[i].type == ET_XNN_FP16;
	}
	payload->lowers_fp16 = has_fp16 && !et_xnn_computes_fp16();
	if (!has_bf16 && !payload->lowers_fp16)
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
