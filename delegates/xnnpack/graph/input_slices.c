/* SPDX-License-Identifier: BSD-3-Clause */
/* Where slices of arguments begin.
 *
 * A network that takes its steps one after the other has a payload for each of them, and these differ by nothing but the step that
 * each slices out of the same tensor. Where that begins is a place in the caller's memory rather than anything that
 * XNNPACK must know: a slice from the first element of what lies behind it is the same. So such payloads come out the same
 * (deduplication.h), and what tells one from another belongs to its model.
 *
 * Slices keep the argument's shape, and with it how far apart its rows lie. XNNPACK is told that there is more behind the place than
 * there is, and reads no more than what is sliced: that it all lies in the argument is checked here, for each run. */
#include "delegates/xnnpack/graph/input_slices.h"

#include "delegates/xnnpack/graph/kind.h"

#include <string.h>

static bool is_slice(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_slice;
}

/* What @node slices of the argument, beside the @n_before slices that @start knows. */
static void add_slice(struct et_xnn_input_slice *start, const struct et_xnn_node *node, uint32_t n_before)
{
	for (uint32_t i = 0; i < node->n_list[0]; i++) {
		uint32_t first = node->list[0][i], end = first + node->list[1][i];
		start->first[i] = n_before && start->first[i] < first ? start->first[i] : first;
		start->end[i] = start->end[i] > end ? start->end[i] : end;
	}
}

static bool begins_later(struct et_xnn_input_slice *start)
{
	bool does = false;
	for (uint32_t i = 0; i < ET_XNN_MAX_DIMS; i++) {
		start->end[i] = start->first[i] ? start->end[i] : 0;
		does = does || start->first[i];
	}
	return does;
}

struct finder {
	struct et_xnn_input_slice *slices; /* one an input */
	uint32_t *n_slices;                /* likewise */
	uint32_t *input_of;                /* of each value; NONE: it is none */
};

/* Leaves those of which something is to be taken, in front. Returns their number. */
static uint32_t find_slices(const struct finder *finder, const struct et_xnn_payload *payload)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < payload->n_values; i++)
		finder->input_of[i] = ET_XNN_NONE;
	for (uint32_t i = 0; i < payload->n_inputs; i++) {
		finder->input_of[payload->inputs[i]] = i;
		finder->slices[i] = (struct et_xnn_input_slice){ .input = i };
		finder->n_slices[i] = 0;
	}
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		uint32_t input = finder->input_of[node->inputs[0]];
		if (input != ET_XNN_NONE && is_slice(node))
			add_slice(&finder->slices[input], node, finder->n_slices[input]++);
	}
	for (uint32_t i = 0; i < payload->n_inputs; i++) {
		bool is_sliced = finder->n_slices[i] && begins_later(&finder->slices[i]) &&
				 finder->n_slices[i] == payload->values[payload->inputs[i]].n_users;
		if (is_sliced)
			finder->slices[n++] = finder->slices[i];
		else
			finder->input_of[payload->inputs[i]] = ET_XNN_NONE;
	}
	for (uint32_t i = 0; i < n; i++)
		finder->input_of[payload->inputs[finder->slices[i].input]] = i;
	return n;
}

static void shift_slices(const struct finder *finder, struct et_xnn_payload *payload)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		struct et_xnn_node *node = &payload->nodes[i];
		uint32_t start = finder->input_of[node->inputs[0]];
		for (uint32_t j = 0; start != ET_XNN_NONE && j < node->n_list[0]; j++)
			node->list[0][j] -= finder->slices[start].first[j];
	}
}

enum et_status et_xnn_input_slices_take(struct et_xnn_input_slices *ret_slices, struct et_xnn_payload *payload,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	struct et_pool scratch;
	et_pool_init(&scratch, allocator);
	struct finder finder = {
		.slices = ET_POOL_NEW_ARRAY(&scratch, struct et_xnn_input_slice, payload->n_inputs),
		.n_slices = ET_POOL_NEW_ARRAY(&scratch, uint32_t, payload->n_inputs),
		.input_of = ET_POOL_NEW_ARRAY(&scratch, uint32_t, payload->n_values),
	};
	struct et_xnn_input_slices slices = { 0 };
	bool has_memory = finder.slices && finder.n_slices && finder.input_of;
	if (has_memory)
		slices.n_slices = find_slices(&finder, payload);
	if (slices.n_slices) {
		size_t n_bytes = slices.n_slices * sizeof(*slices.slices);
		slices.slices = allocator->alloc(allocator->self, n_bytes, _Alignof(struct et_xnn_input_slice));
		has_memory = slices.slices != NULL;
		if (has_memory) {
			memcpy(slices.slices, finder.slices, n_bytes);
			shift_slices(&finder, payload);
		}
	}
	et_pool_deinit(&scratch);
	if (!has_memory)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to compile an XNNPACK payload");
	*ret_slices = slices;
	return ET_OK;
}

void et_xnn_input_slices_deinit(struct et_xnn_input_slices *slices, const struct et_allocator *allocator)
{
	if (slices->slices)
		allocator->free(allocator->self, slices->slices, slices->n_slices * sizeof(*slices->slices));
	*slices = (struct et_xnn_input_slices){ 0 };
}

enum et_status et_xnn_input_slice_apply(const struct et_xnn_input_slice *start, const struct et_xnn_value *value,
	const struct et_xnn_shape *shape, uint8_t **data, struct et_diag *diag)
{
	size_t before = 0, step = et_xnn_type_bits(value->type) / 8;
	for (uint32_t i = shape->n_dims; i > 0; i--) {
		if (start->end[i - 1] > shape->dims[i - 1])
			return et_fail(diag, ET_E_INVALID_ARGUMENT,
				"XNNPACK: input %u ends before what is sliced of it", value->external_id);
		before += start->first[i - 1] * step; /* in the argument, as long as that is not empty */
		step *= shape->dims[i - 1];
	}
	*data += before;
	return ET_OK;
}
