/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices of arguments become offsets into the caller's memory.
 *
 * A network that runs its steps one after the other has a payload for each step, and these differ only by the step
 * that each slices out of the same tensor. Where the slice begins is a place in the caller's memory; XNNPACK need
 * not know it. A slice from the first element of a tensor that begins there is the same. So payloads of such steps
 * become the same graph and share a model (deduplication.h), and each payload keeps its own offsets.
 *
 * A slice keeps the argument's shape, and so the distance between rows. XNNPACK is told that more elements lie
 * behind the offset than there are, but reads only the slice. Each run checks that the whole slice lies in the
 * argument. */
#include "delegates/xnnpack/graph/input_slices.h"

#include "delegates/xnnpack/graph/kind.h"

#include <string.h>

static bool is_slice(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_slice;
}

/* Extend @slice by the slice that @node takes; @slice has @n_before slices of the same argument already. */
static void add_slice(struct et_xnn_input_slice *slice, const struct et_xnn_node *node, uint32_t n_before)
{
	for (uint32_t i = 0; i < node->n_list[0]; i++) {
		uint32_t first = node->list[0][i], end = first + node->list[1][i];
		slice->first[i] = n_before && slice->first[i] < first ? slice->first[i] : first;
		slice->end[i] = slice->end[i] > end ? slice->end[i] : end;
	}
}

static bool begins_later(struct et_xnn_input_slice *slice)
{
	bool does = false;
	for (uint32_t i = 0; i < ET_XNN_MAX_DIMS; i++) {
		slice->end[i] = slice->first[i] ? slice->end[i] : 0;
		does = does || slice->first[i];
	}
	return does;
}

struct finder {
	struct et_xnn_input_slice *slices; /* one for each input */
	uint32_t *n_slices;                /* one for each input */
	uint32_t *input_of;                /* one for each value; NONE: the value is no input */
};

/* Find the inputs of which only slices are read, and these do not begin at the first element. They are put in front of
 * finder->slices. Returns their number. */
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
		uint32_t slice = finder->input_of[node->inputs[0]];
		for (uint32_t j = 0; slice != ET_XNN_NONE && j < node->n_list[0]; j++)
			node->list[0][j] -= finder->slices[slice].first[j];
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

enum et_status et_xnn_input_slice_apply(const struct et_xnn_input_slice *slice, const struct et_xnn_value *value,
	const struct et_xnn_shape *shape, uint8_t **data, struct et_diag *diag)
{
	size_t before = 0, step = et_xnn_type_bits(value->type) / 8;
	for (uint32_t i = shape->n_dims; i > 0; i--) {
		if (slice->end[i - 1] > shape->dims[i - 1])
			return et_fail(diag, ET_E_INVALID_ARGUMENT,
				"XNNPACK: input %u ends before the slice that is read of it", value->external_id);
		before += slice->first[i - 1] * step; /* lies in the argument, unless that is empty */
		step *= shape->dims[i - 1];
	}
	*data += before;
	return ET_OK;
}
