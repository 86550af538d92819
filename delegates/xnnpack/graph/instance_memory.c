/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory an instance takes, before it takes any.
 *
 * A value lives from the node that writes it to the last node that reads it, and its memory is used again
 * afterwards. A payload can ask for any amount of memory; the limit is checked here, for the exported shapes and
 * again for the shapes of each run.
 *
 * XNNPACK plans its workspace in the same way, but its plan may lose most of the memory to gaps: it places values from
 * the largest to the smallest, each behind a value that lives at the same time or between two of those, but never
 * before the first. A chain of concatenations, each a little larger than the one before, takes the sum of all. So
 * et_xnn_workspace_bytes repeats XNNPACK's plan (src/memory-planner.c), without the values that XNNPACK writes over
 * their input. It takes as long as XNNPACK does, quadratic time, and is for the exported shapes alone; a workspace that
 * grows with the shapes of a run is bounded by XNNPACK's allocator (allocator.h). */
#include "delegates/xnnpack/graph/instance_memory.h"

#include "delegates/xnnpack/graph/deconvolution_cut.h"
#include "delegates/xnnpack/graph/shape.h"
#include "delegates/xnnpack/ukernels/gemm_qs8.h"

#include <math.h>
#include <stdlib.h>

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
	uint32_t *last_users, uint64_t max_bytes, struct et_xnn_memory_need *ret_need, struct et_diag *diag)
{
	uint64_t now = 0, most = 0, tables = 0, own;
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
	own = et_xnn_runtime_bytes(payload) + tables;
	*ret_need = (struct et_xnn_memory_need){ .own = own, .shared = most };
	return ET_OK;
}

/* --- XNNPACK's plan ------------------------------------------------------------------------------- */

/* A value in the workspace, or (first == last) what an operator needs while it runs. */
struct record {
	uint64_t size, offset;
	uint32_t first, last; /* nodes */
};

struct block {
	uint64_t start, end;
};

static int compare_size(const void *a, const void *b)
{
	const struct record *x = a, *y = b;
	return (y->size > x->size) - (y->size < x->size);
}

static int compare_start(const void *a, const void *b)
{
	const struct block *x = a, *y = b;
	return (x->start > y->start) - (x->start < y->start);
}

/* Where XNNPACK places @size bytes that live as long as @blocks: in the smallest gap between two of them that is large
 * enough, or behind the last one. */
static uint64_t find_place(struct block *blocks, size_t n, uint64_t size)
{
	uint64_t at = 0, end = 0, smallest = UINT64_MAX;
	if (n)
		qsort(blocks, n, sizeof(*blocks), compare_start);
	for (size_t i = 0; i < n; i++) {
		uint64_t gap = i && blocks[i].start > end ? blocks[i].start - end : 0;
		if (gap >= size && gap < smallest) {
			smallest = gap;
			at = end;
		}
		end = blocks[i].end > end ? blocks[i].end : end;
	}
	return smallest == UINT64_MAX ? end : at;
}

static uint64_t padded(uint64_t n_bytes)
{
	enum { PADDING = 128 };
	return n_bytes ? (n_bytes + 2 * PADDING - 1) / PADDING * PADDING : 0;
}

static uint64_t plan(struct record *records, size_t n, struct block *blocks)
{
	uint64_t most = 0;
	if (n)
		qsort(records, n, sizeof(*records), compare_size);
	for (size_t i = 0; i < n; i++) {
		struct record *record = &records[i];
		size_t n_blocks = 0;
		for (size_t j = 0; j < i; j++)
			if (records[j].first <= record->last && record->first <= records[j].last)
				blocks[n_blocks++] = (struct block){ records[j].offset,
					records[j].offset + records[j].size };
		record->offset = find_place(blocks, n_blocks, record->size);
		if (record->offset + record->size > most)
			most = record->offset + record->size;
	}
	return most;
}

static void note_use(struct record *record, uint32_t node)
{
	record->first = record->first == UINT32_MAX ? node : record->first;
	record->last = node;
}

enum et_status et_xnn_workspace_bytes(const struct et_xnn_payload *graph, const struct et_xnn_shape *shapes,
	struct et_pool *scratch, uint64_t *ret_bytes, struct et_diag *diag)
{
	enum { MANY = 8192 };
	size_t most = (size_t)graph->n_values + graph->n_nodes, n = 0;
	*ret_bytes = 0;
	if (most > MANY)
		return ET_OK;
	struct record *records = ET_POOL_NEW_ARRAY(scratch, struct record, most);
	struct block *blocks = ET_POOL_NEW_ARRAY(scratch, struct block, most);
	struct et_xnn_shape *own_shapes = ET_POOL_NEW_ARRAY(scratch, struct et_xnn_shape, graph->n_values);
	if (!records || !blocks || !own_shapes)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to compile an XNNPACK payload");
	for (uint32_t i = 0; i < graph->n_values; i++) {
		records[i].first = UINT32_MAX;
		own_shapes[i] = shapes[graph->whole ? graph->whole[i] : i];
	}
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		const struct et_xnn_node *node = &graph->nodes[i];
		if (node->is_gone || node->is_view)
			continue;
		for (uint32_t j = 0; j < node->kind->n_inputs; j++)
			if (node->inputs[j] != ET_XNN_NONE)
				note_use(&records[node->inputs[j]], i);
		for (uint32_t j = 0; j < node->kind->n_outputs; j++)
			note_use(&records[node->outputs[j]], i);
	}
	for (uint32_t i = 0; i < graph->n_values; i++) {
		records[n] = records[i];
		records[n].size = padded(value_bytes(graph, own_shapes, i));
		n += records[n].size && records[n].first != UINT32_MAX;
	}
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		const struct et_xnn_node *node = &graph->nodes[i];
		uint64_t size = node->is_gone || node->is_view ? 0 : padded(scratch_bytes(graph, node, own_shapes));
		if (size)
			records[n++] = (struct record){ .size = size, .first = i, .last = i };
	}
	*ret_bytes = plan(records, n, blocks);
	return ET_OK;
}
