/* SPDX-License-Identifier: BSD-3-Clause */
/* Constants in fp16 and bf16 that become fp32 before they are packed.
 *
 * XNNPACK's fp16 convolutions want their filters and biases as fp32, and round them back to fp16. So do fully
 * connected layers whose input, bias or output is not fp16. The file's fp16 constants are widened for these nodes,
 * which loses nothing. A layer whose filter or bias is computed is done in fp32 (define.c), so its fp16 constants
 * are widened, too. Where the processor does not compute fp16, constants of fp16 are widened for every reader
 * (lower_half.c). A filter is widened only when XNNPACK or an override comes to pack it (weights.h).
 *
 * Constants in bf16 are widened for every reader, except the filters of fully connected layers: conv_linear.c packs
 * those as they are. */
#include "delegates/xnnpack/weights/fp16_weights.h"

#include "delegates/xnnpack/graph/kind.h"

struct constants {
	struct et_xnn_payload *payload;
	struct et_pool *pool;
	struct et_xnn_weights *weights;
};

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to compile an XNNPACK payload");
}

static bool is_type(const struct et_xnn_payload *payload, uint32_t value, enum et_xnn_type type)
{
	return value == ET_XNN_NONE || payload->values[value].type == type;
}

/* Whether XNNPACK does @node with its fp16 constants as they are. */
static bool is_narrow(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_fully_connected && !et_xnn_has_computed_weights(payload, node) &&
	       is_type(payload, node->inputs[0], ET_XNN_FP16) && is_type(payload, node->inputs[1], ET_XNN_FP16) &&
	       is_type(payload, node->inputs[2], ET_XNN_FP16) && is_type(payload, node->outputs[0], ET_XNN_FP16);
}

static enum et_xnn_remade remade_of(enum et_xnn_type type)
{
	return type == ET_XNN_BF16 ? ET_XNN_FROM_BF16 : ET_XNN_FROM_FP16;
}

/* Widen the constant *@input if it has @type, and point *@input at the new value. @is_late: when it is packed, not
 * now. */
static enum et_status widen(struct constants *constants, uint32_t *input, enum et_xnn_type type, bool is_late,
	struct et_diag *diag)
{
	struct et_xnn_payload *payload = constants->payload;
	if (*input == ET_XNN_NONE || !is_type(payload, *input, type) || !payload->values[*input].data)
		return ET_OK;
	struct et_xnn_value value = payload->values[*input];
	const void *floats;
	enum et_status status = et_xnn_weights_to_floats(constants->weights, value.data,
		value.n_bytes / sizeof(uint16_t), remade_of(type), is_late, &floats, diag);
	if (status != ET_OK)
		return status;
	value.type = ET_XNN_FP32;
	value.data = floats;
	value.floats_of = (uint8_t)type;
	value.n_bytes *= 2;
	*input = payload->n_values;
	return et_xnn_payload_add_value(payload, &value, constants->pool) ? ET_OK : no_memory(diag);
}

static enum et_status widen_fp16(struct constants *constants, struct et_xnn_node *node, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = constants->payload;
	const bool has_filter = node->kind->has_filter;
	enum et_status status = ET_OK;
	if (!payload->lowers_fp16 && (!has_filter || is_narrow(payload, node)))
		return ET_OK;
	for (uint32_t i = payload->lowers_fp16 ? 0 : 1; i < node->kind->n_inputs && status == ET_OK; i++) {
		/* A resident filter is read where it lies, or packed without asking the weights cache for it. */
		bool is_late = has_filter && i == 1 && !payload->values[node->inputs[1]].is_resident;
		status = widen(constants, &node->inputs[i], ET_XNN_FP16, is_late, diag);
	}
	return status;
}

static enum et_status widen_bf16(struct constants *constants, struct et_xnn_node *node, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	bool is_packed_so = node->kind->has_filter && !et_xnn_has_computed_weights(constants->payload, node);
	for (uint32_t i = 0; i < node->kind->n_inputs && !is_packed_so && status == ET_OK; i++)
		status = widen(constants, &node->inputs[i], ET_XNN_BF16, false, diag);
	return status;
}

enum et_status et_xnn_widen_fp16(struct et_xnn_payload *payload, struct et_xnn_weights *weights, struct et_pool *pool,
	struct et_diag *diag)
{
	struct constants constants = { payload, pool, weights };
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < payload->n_nodes && status == ET_OK; i++) {
		status = widen_fp16(&constants, &payload->nodes[i], diag);
		if (status == ET_OK)
			status = widen_bf16(&constants, &payload->nodes[i], diag);
	}
	return status;
}

enum et_xnn_remade et_xnn_remade_of(const struct et_xnn_value *value)
{
	return value->floats_of ? remade_of((enum et_xnn_type)value->floats_of) : ET_XNN_AS_IT_IS;
}
