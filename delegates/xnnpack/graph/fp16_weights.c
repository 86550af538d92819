/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters and biases of half the width.
 *
 * XNNPACK's convolutions of half floats are given their filters and biases as floats, which it rounds to what they were; so are
 * fully connected layers whose input, bias or output is not half. What a file has as half floats is widened for these, which
 * loses nothing. So are those of a layer whose filter or bias is computed, which is done in floats (define.c). A filter is only widened when somebody comes to pack it (weights.h).
 *
 * Bfloats that are constants become floats, too, whoever reads them, but for filters of fully connected layers: those are packed as they are
 * (conv_linear.c). */
#include "delegates/xnnpack/model.h"

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to compile an XNNPACK payload");
}

static bool is_type(const struct et_xnn_payload *payload, uint32_t value, enum et_xnn_type type)
{
	return value == ET_XNN_NONE || payload->values[value].type == type;
}

/* Whether XNNPACK does @node with half floats as they are. */
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

/* A constant @input becomes floats if it is of @type. @is_late: when somebody comes to pack them. */
static enum et_status widen(struct et_xnn_model *model, uint32_t *input, enum et_xnn_type type, bool is_late,
	struct et_diag *diag)
{
	struct et_xnn_payload *payload = &model->payload;
	if (*input == ET_XNN_NONE || !is_type(payload, *input, type) || !payload->values[*input].data)
		return ET_OK;
	struct et_xnn_value value = payload->values[*input];
	const void *floats;
	enum et_status status = et_xnn_weights_to_floats(model->weights, value.data, value.n_bytes / sizeof(uint16_t),
		remade_of(type), is_late, &floats, diag);
	if (status != ET_OK)
		return status;
	value.type = ET_XNN_FP32;
	value.data = floats;
	value.floats_of = (uint8_t)type;
	value.n_bytes *= 2;
	*input = payload->n_values;
	return et_xnn_payload_add_value(payload, &value, &model->pool) ? ET_OK : no_memory(diag);
}

static enum et_status widen_fp16(struct et_xnn_model *model, struct et_xnn_node *node, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &model->payload;
	if (!node->kind->has_filter || is_narrow(payload, node))
		return ET_OK;
	/* What is kept is read where it lies, or packed by somebody who doesn't ask for it. */
	enum et_status status = widen(model, &node->inputs[1], ET_XNN_FP16, !payload->values[node->inputs[1]].is_kept,
		diag);
	return status == ET_OK ? widen(model, &node->inputs[2], ET_XNN_FP16, false, diag) : status;
}

static enum et_status widen_bf16(struct et_xnn_model *model, struct et_xnn_node *node, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	bool is_packed_so = node->kind->has_filter && !et_xnn_has_computed_weights(&model->payload, node);
	for (uint32_t i = 0; i < node->kind->n_inputs && !is_packed_so && status == ET_OK; i++)
		status = widen(model, &node->inputs[i], ET_XNN_BF16, false, diag);
	return status;
}

enum et_status et_xnn_widen_fp16(struct et_xnn_model *model, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < model->payload.n_nodes && status == ET_OK; i++) {
		struct et_xnn_node *node = &model->payload.nodes[i];
		status = widen_fp16(model, node, diag);
		if (status == ET_OK)
			status = widen_bf16(model, node, diag);
	}
	return status;
}

enum et_xnn_remade et_xnn_remade_of(const struct et_xnn_value *value)
{
	return value->floats_of ? remade_of((enum et_xnn_type)value->floats_of) : ET_XNN_AS_IT_IS;
}
