/* SPDX-License-Identifier: BSD-3-Clause */
/* Removing transposes between a payload and its arguments.
 *
 * XNNPACK wants images channels last, programs keep them channels first. So exporters transpose the tensors that
 * enter a payload and those that leave it, and the next payload begins by transposing back. The runtime may agree
 * with everything else that touches a tensor to keep it in the wanted order (runtime/dim_order.c). Then the value
 * behind an input's transpose, or before an output's, becomes the argument, and the transpose is gone. Nodes keep
 * their places, so indexes of nodes stay right.
 *
 * Preferences are independent, whichever of them are met: each concerns a transpose and a value that no other
 * preference concerns. That is why an input may have one reader only, why a value that becomes an output may not be
 * transposed for a second output, and why there must be something else than two transposes between an input and an
 * output.
 *
 * If arguments are first concatenated and then transposed, to transpose each argument is as much work, and can be
 * saved. So graphs are brought into that form when they are read. */
#include "delegates/xnnpack/graph/kind.h"

#include <string.h>

static bool is_transpose(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_transpose && !node->is_gone;
}

/* Whether the node's list is a permutation of its input's dimensions. */
static bool is_sound(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	uint32_t n = node->n_list[0], seen = 0;
	if (n == 0 || n != payload->values[node->inputs[0]].shape.n_dims)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (node->list[0][i] >= n)
			return false;
		seen |= 1u << node->list[0][i];
	}
	return seen == (1u << n) - 1;
}

static struct et_xnn_node *reader(const struct et_xnn_payload *payload, uint32_t value)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		struct et_xnn_node *node = &payload->nodes[i];
		for (uint32_t j = 0; j < node->kind->n_inputs; j++) {
			if (node->inputs[j] == value && !node->is_gone)
				return node;
		}
	}
	return NULL;
}

/* --- concatenated arguments
 * ------------------------------------------------------------------------------------------- */

/* The concatenation of arguments that @node alone reads, and transposes; or NULL. */
static struct et_xnn_node *joined_above(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *between = &payload->values[node->inputs[0]];
	if (!is_transpose(node) || !is_sound(payload, node) || between->n_users != 1 || between->external ||
		between->producer == ET_XNN_NONE)
		return NULL;
	struct et_xnn_node *join = &payload->nodes[between->producer];
	if (join->kind->infer != et_xnn_infer_concatenate)
		return NULL;
	uint32_t axis = join->numbers[ET_XNN_AXIS], n_dims = node->n_list[0];
	if ((axis > INT32_MAX ? axis + n_dims : axis) >= n_dims)
		return NULL;
	for (uint32_t i = 0; i < join->kind->n_inputs; i++) {
		const struct et_xnn_value *in = &payload->values[join->inputs[i]];
		if (in->external != ET_XNN_IS_INPUT || in->n_users != 1 || in->shape.n_dims != n_dims)
			return NULL;
	}
	return join;
}

/* Replace @node by a transpose for each input of @join, and another concatenation; @join is left without a reader.
 * The new nodes go to @to. False if there is no memory. */
static bool spread(struct et_xnn_payload *payload, const struct et_xnn_node *node, const struct et_xnn_node *join,
	struct et_xnn_node *to, struct et_pool *pool)
{
	uint32_t n = join->kind->n_inputs, n_dims = node->n_list[0];
	uint32_t axis = join->numbers[ET_XNN_AXIS];
	axis = axis > INT32_MAX ? axis + n_dims : axis;
	to[n] = *join;
	to[n].outputs[0] = node->outputs[0];
	for (uint32_t i = 0; i < n_dims; i++) {
		if (node->list[0][i] == axis)
			to[n].numbers[ET_XNN_AXIS] = i;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct et_xnn_value value = payload->values[join->inputs[i]];
		for (uint32_t k = 0; k < n_dims; k++)
			value.shape.dims[k] = payload->values[join->inputs[i]].shape.dims[node->list[0][k]];
		value.external = 0;
		value.external_id = ET_XNN_NONE;
		to[i] = *node;
		to[i].inputs[0] = join->inputs[i];
		to[i].outputs[0] = to[n].inputs[i] = payload->n_values;
		if (!et_xnn_payload_add_value(payload, &value, pool))
			return false;
	}
	return true;
}

enum et_status et_xnn_payload_spread_transposes(struct et_xnn_payload *payload, struct et_pool *pool,
	struct et_diag *diag)
{
	uint32_t n_more = 0, n = 0;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *join = joined_above(payload, &payload->nodes[i]);
		n_more += join ? join->kind->n_inputs : 0;
	}
	if (n_more == 0)
		return ET_OK;
	struct et_xnn_node *nodes = ET_POOL_NEW_ARRAY(pool, struct et_xnn_node, (size_t)payload->n_nodes + n_more);
	if (!nodes)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read an XNNPACK payload");
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *join = joined_above(payload, &payload->nodes[i]);
		if (join && !spread(payload, &payload->nodes[i], join, &nodes[n], pool))
			return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read an XNNPACK payload");
		if (!join)
			nodes[n] = payload->nodes[i];
		n += join ? join->kind->n_inputs + 1 : 1;
	}
	/* count readers anew; the old concatenations have no reader any more */
	for (uint32_t i = 0; i < payload->n_values; i++)
		payload->values[i].n_users = 0;
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < nodes[i].kind->n_inputs; j++) {
			if (nodes[i].inputs[j] != ET_XNN_NONE)
				payload->values[nodes[i].inputs[j]].n_users++;
		}
	}
	payload->nodes = nodes;
	payload->n_nodes = n;
	payload->max_nodes = n;
	return ET_OK;
}

/* --- arguments --------------------------------------------------------------------------------------------------- */

/* A transpose between an argument and the graph. */
struct border {
	struct et_xnn_node *node;
	uint32_t *arg, inner; /* its entry in the list of inputs or outputs; the value on the graph's side */
	bool is_output;
};

static bool find_input(const struct et_xnn_payload *payload, uint32_t *arg, struct border *ret)
{
	const struct et_xnn_value *value = &payload->values[*arg];
	struct et_xnn_node *node = value->n_users == 1 ? reader(payload, *arg) : NULL;
	if (!node || !is_transpose(node) || value->seen_as != ET_XNN_NONE)
		return false;
	*ret = (struct border){ node, arg, node->outputs[0], false };
	return true;
}

static bool find_output(const struct et_xnn_payload *payload, uint32_t *arg, struct border *ret)
{
	const struct et_xnn_value *value = &payload->values[*arg];
	struct et_xnn_node *node = value->producer != ET_XNN_NONE ? &payload->nodes[value->producer] : NULL;
	if (!node || !is_transpose(node) || value->seen_as != ET_XNN_NONE || value->n_users)
		return false;
	const struct et_xnn_value *inner = &payload->values[node->inputs[0]];
	if (inner->data || inner->producer == ET_XNN_NONE || is_transpose(&payload->nodes[inner->producer]))
		return false;
	for (uint32_t i = 0; i < payload->n_nodes; i++) { /* no other output may be a transpose of the same value */
		const struct et_xnn_node *other = &payload->nodes[i];
		if (other != node && is_transpose(other) && other->inputs[0] == node->inputs[0] &&
			payload->values[other->outputs[0]].external)
			return false;
	}
	*ret = (struct border){ node, arg, node->inputs[0], true };
	return true;
}

static bool find_border(const struct et_xnn_payload *payload, uint32_t arg, struct border *ret)
{
	bool is_found = false;
	for (uint32_t i = 0; i < payload->n_inputs; i++) {
		if (payload->values[payload->inputs[i]].external_id == arg)
			is_found = find_input(payload, &payload->inputs[i], ret);
	}
	for (uint32_t i = 0; i < payload->n_outputs; i++) {
		if (payload->values[payload->outputs[i]].external_id == arg)
			is_found = find_output(payload, &payload->outputs[i], ret);
	}
	if (!is_found)
		return false;
	const struct et_xnn_value *inner = &payload->values[ret->inner];
	return !inner->external && inner->stands_for == ET_XNN_NONE && inner->seen_as == ET_XNN_NONE &&
	       is_sound(payload, ret->node);
}

uint32_t et_xnn_payload_order(const struct et_xnn_payload *payload, uint32_t arg, uint8_t *ret_order)
{
	struct border border;
	if (!find_border(payload, arg, &border))
		return 0;
	const uint32_t *list = border.node->list[0];
	for (uint32_t i = 0; i < border.node->n_list[0]; i++) {
		if (border.is_output)
			ret_order[list[i]] = (uint8_t)i;
		else
			ret_order[i] = (uint8_t)list[i];
	}
	return border.node->n_list[0];
}

bool et_xnn_payload_may_be_reordered(const struct et_xnn_payload *payload)
{
	uint8_t order[ET_XNN_MAX_DIMS];
	for (uint32_t i = 0; i < payload->n_args; i++)
		if (et_xnn_payload_order(payload, i, order))
			return true;
	return false;
}

void et_xnn_payload_reorder(struct et_xnn_payload *payload, uint32_t arg)
{
	struct border border;
	if (!find_border(payload, arg, &border))
		return;
	struct et_xnn_value *outer = &payload->values[*border.arg], *inner = &payload->values[border.inner];
	inner->external = outer->external;
	inner->external_id = outer->external_id;
	outer->external = 0;
	outer->external_id = ET_XNN_NONE;
	outer->producer = ET_XNN_NONE;
	outer->n_users = 0;
	if (border.is_output)
		inner->n_users--;
	else
		inner->producer = ET_XNN_NONE;
	border.node->is_gone = true;
	*border.arg = border.inner;
}
