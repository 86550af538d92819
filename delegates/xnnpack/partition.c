/* SPDX-License-Identifier: BSD-3-Clause */
/* Cutting a payload at its overrides.
 *
 * Nodes keep their order. Consecutive nodes that XNNPACK computes become a graph: copies of the nodes and of the values
 * that they name. A value from outside is an input of the graph, a value that is read outside is an output. To
 * subgraph.c such a graph is a payload like any other. A payload without overrides is one partition, itself.
 *
 * Boundary tensors lie in memory of the worker's (threads.h), planned as XNNPACK plans its own memory: values that
 * are never needed at the same time may share their place, the largest are placed first, and a result may lie over
 * an operand that no other node reads. Such an operand is a boundary tensor, too, also if it would not leave its
 * partition.
 *
 * A boundary tensor is a float tensor; or rows quantized at run time, if only overrides write and read them; or 8
 * bits, if an override is of 8 bits. A payload is not cut if another value would have to be a boundary tensor,
 * except at nodes that XNNPACK cannot do. It is not cut either if it would fall into more pieces than any network
 * has, since the time to plan grows with their square. */
#include "delegates/xnnpack/partition.h"

#include "delegates/xnnpack/ukernels/gemm_qs8.h"
#include "runtime/base/checked.h"

#include <math.h>
#include <string.h>

enum { MAX_OVERRIDES = 512, MAX_BOUNDARIES = 2048, PADDING = 128 /* XNNPACK reads whole vectors */ };

struct cut {
	const struct et_xnn_payload *payload;
	struct et_pool *pool;
	const struct et_xnn_override **overrides; /* one for each node; NULL: XNNPACK does it */
	uint32_t *partition_of;                   /* one for each node */
	uint32_t *last;                           /* one for each value: the last partition that reads it, or NONE */
	uint32_t *local;                          /* one for each value: its index in the graph at hand, or NONE */
	uint32_t *written_over;                   /* one for each value: the value it may be written over, or NONE */
	bool *is_overwritten;                     /* one for each value: another may be written over it */
	bool *is_along;                           /* one for each node: the override below does it along */
	bool is_required_only;                    /* overrides are used only where XNNPACK cannot do the node */
	bool has_required;                        /* there is a node that XNNPACK cannot do */
	bool has_bytes;                           /* an override is of 8 bits */
};

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to compile an XNNPACK payload");
}

/* Whether node @i itself has nothing to do. */
static bool is_idle(const struct cut *cut, uint32_t i)
{
	return cut->payload->nodes[i].is_view || cut->payload->nodes[i].is_gone || cut->is_along[i];
}

/* Leave the whole payload to XNNPACK. */
static enum et_status leave_whole(struct et_xnn_partitions *partitions, const struct cut *cut, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = cut->payload;
	uint32_t n = payload->n_inputs + payload->n_outputs;
	struct et_xnn_partition *partition = ET_POOL_NEW(cut->pool, struct et_xnn_partition);
	if (!partition)
		return no_memory(diag);
	*partition = (struct et_xnn_partition){ .graph = payload };
	*partitions = (struct et_xnn_partitions){ .partitions = partition, .n_partitions = 1, .n_xnnpack_args = n };
	return ET_OK;
}

/* XNNPACK does not know the layout in which overrides store quantized rows. So the node that writes rows and all
 * nodes that read them are overrides, or none is. */
static void settle_rows(struct cut *cut)
{
	enum { OVERRIDE_READER = 1, XNNPACK_READER = 2 };
	const struct et_xnn_payload *payload = cut->payload;
	uint32_t *readers = cut->last; /* cut->last is not needed yet */
	for (uint32_t i = 0; i < payload->n_values; i++)
		readers[i] = 0;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		for (uint32_t j = 0; j < node->kind->n_inputs && !is_idle(cut, i); j++)
			if (node->inputs[j] != ET_XNN_NONE)
				readers[node->inputs[j]] |= cut->overrides[i] ? OVERRIDE_READER : XNNPACK_READER;
	}
	/* Writers come before readers. */
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		if (!cut->overrides[i] || is_idle(cut, i))
			continue;
		uint32_t in = node->inputs[0], out = node->outputs[0];
		if (payload->values[out].quant == ET_XNN_QUANT_ROW && readers[out] != OVERRIDE_READER)
			cut->overrides[i] = NULL;
		uint32_t writer = payload->values[in].producer;
		if (payload->values[in].quant == ET_XNN_QUANT_ROW &&
			(readers[in] != OVERRIDE_READER || writer == ET_XNN_NONE || !cut->overrides[writer]))
			cut->overrides[i] = NULL;
	}
}

/* Find the nodes that an override does along with its own. */
static void find_along(struct cut *cut)
{
	const struct et_xnn_payload *payload = cut->payload;
	for (uint32_t i = 0; i < payload->n_nodes; i++)
		if (cut->overrides[i] && cut->overrides[i]->along) {
			uint32_t above = cut->overrides[i]->along(payload, &payload->nodes[i]);
			if (above != ET_XNN_NONE)
				cut->is_along[above] = true;
		}
}

/* Number the partition of each node, NONE for nodes that do nothing. Returns the number of partitions, or 0: the
 * payload stays whole. */
static uint32_t number_partitions(struct cut *cut)
{
	const struct et_xnn_payload *payload = cut->payload;
	uint32_t n_overrides = 0, n_partitions = 0;
	bool was_override = true;
	for (uint32_t i = 0; i < payload->n_nodes; i++)
		cut->is_along[i] = false;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_override *override = is_idle(cut, i)
								 ? NULL
								 : et_xnn_override_find(payload, &payload->nodes[i]);
		cut->has_required = cut->has_required || (override && override->is_required);
		cut->has_bytes = cut->has_bytes || (override && override->is_of_bytes);
		cut->overrides[i] = override && cut->is_required_only && !override->is_required ? NULL : override;
	}
	settle_rows(cut);
	find_along(cut);
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		if (is_idle(cut, i)) {
			cut->partition_of[i] = ET_XNN_NONE;
			continue;
		}
		n_overrides += cut->overrides[i] != NULL;
		if (n_overrides > MAX_OVERRIDES)
			return 0;
		n_partitions += was_override || cut->overrides[i];
		was_override = cut->overrides[i] != NULL;
		cut->partition_of[i] = n_partitions - 1;
	}
	return n_overrides ? n_partitions : 0;
}

/* Whether the value lies in an argument's memory. */
static bool is_argument(const struct cut *cut, uint32_t value)
{
	return cut->payload->values[value].external || cut->payload->values[value].stands_for != ET_XNN_NONE;
}

/* The partition that writes a value; NONE for inputs, views of inputs, and constants. */
static uint32_t partition_of_value(const struct cut *cut, uint32_t value)
{
	uint32_t producer = cut->payload->values[value].producer;
	return producer == ET_XNN_NONE ? ET_XNN_NONE : cut->partition_of[producer];
}

static bool is_boundary(const struct cut *cut, uint32_t value)
{
	uint32_t last = cut->last[value], first = partition_of_value(cut, value);
	return first != ET_XNN_NONE && last != ET_XNN_NONE && !is_argument(cut, value) &&
	       (last > first || cut->is_overwritten[value]);
}

static bool is_float(const struct et_xnn_value *value)
{
	return (value->type == ET_XNN_FP32 || value->type == ET_XNN_FP16) && value->quant == ET_XNN_QUANT_NONE;
}

/* The input that a value may be written over, because no other node reads that input; or NONE. XNNPACK writes over
 * inputs of these nodes, too, within its own memory. */
static uint32_t find_written_over(const struct cut *cut, uint32_t value)
{
	const struct et_xnn_payload *payload = cut->payload;
	const struct et_xnn_value *to = &payload->values[value];
	const struct et_xnn_node *node = &payload->nodes[to->producer];
	if (cut->overrides[to->producer] || !is_float(to) ||
		(node->kind->define != et_xnn_define_unary && node->kind->define != et_xnn_define_binary))
		return ET_XNN_NONE;
	for (uint32_t j = 0; j < node->kind->n_inputs; j++) {
		uint32_t in = node->inputs[j];
		const struct et_xnn_value *from = &payload->values[in];
		if (from->n_users == 1 && from->type == to->type && is_float(from) && !is_argument(cut, in) &&
			partition_of_value(cut, in) != ET_XNN_NONE &&
			et_xnn_n_elements(&from->shape) == et_xnn_n_elements(&to->shape))
			return in;
	}
	return ET_XNN_NONE;
}

/* Go from the last node to the first: a value that is written over becomes a boundary tensor, too. */
static void find_all_written_over(struct cut *cut)
{
	const struct et_xnn_payload *payload = cut->payload;
	for (uint32_t i = 0; i < payload->n_values; i++) {
		cut->written_over[i] = ET_XNN_NONE;
		cut->is_overwritten[i] = false;
	}
	for (uint32_t i = payload->n_nodes; i-- > 0;) {
		const struct et_xnn_node *node = &payload->nodes[i];
		uint32_t out = node->outputs[0];
		if (is_idle(cut, i) || payload->values[out].producer != i || !is_boundary(cut, out))
			continue;
		uint32_t over = cut->written_over[out] = find_written_over(cut, out);
		if (over != ET_XNN_NONE)
			cut->is_overwritten[over] = true;
	}
}

/* The number of boundary tensors, or NONE if a value may not be one. */
static uint32_t count_boundaries(struct cut *cut)
{
	const struct et_xnn_payload *payload = cut->payload;
	uint32_t n = 0;
	for (uint32_t i = 0; i < payload->n_values; i++)
		cut->last[i] = cut->local[i] = ET_XNN_NONE;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		for (uint32_t j = 0; j < node->kind->n_inputs && !is_idle(cut, i); j++)
			if (node->inputs[j] != ET_XNN_NONE)
				cut->last[node->inputs[j]] = cut->partition_of[i];
	}
	find_all_written_over(cut);
	for (uint32_t i = 0; i < payload->n_values; i++) {
		const struct et_xnn_value *value = &payload->values[i];
		if (!is_boundary(cut, i))
			continue;
		bool is_plain = cut->has_required ? value->quant != ET_XNN_QUANT_ROW
						  : is_float(value) || (cut->has_bytes && et_xnn_is_8_bit(value));
		bool is_rows = value->quant == ET_XNN_QUANT_ROW && cut->overrides[value->producer];
		if ((!is_plain && !is_rows) || n == MAX_BOUNDARIES)
			return ET_XNN_NONE;
		n++;
	}
	return n;
}

/* A graph for XNNPACK while it is being made. */
struct copy {
	struct et_xnn_payload *graph;
	uint32_t *inputs, *outputs; /* the graph's, by local index */
	uint32_t *whole;            /* the index in the whole payload of each local value */
	uint32_t partition;
};

/* The graph's index of @value; it is copied there if it is new. */
static uint32_t localize(struct cut *cut, struct copy *copy, uint32_t value)
{
	struct et_xnn_payload *graph = copy->graph;
	if (value == ET_XNN_NONE || cut->local[value] != ET_XNN_NONE)
		return value == ET_XNN_NONE ? ET_XNN_NONE : cut->local[value];
	uint32_t at = cut->local[value] = graph->n_values++;
	struct et_xnn_value *to = &graph->values[at];
	*to = cut->payload->values[value];
	copy->whole[at] = value;
	bool is_inside = partition_of_value(cut, value) == copy->partition;
	to->producer = ET_XNN_NONE;
	to->external = 0;
	to->seen_as = to->stands_for = ET_XNN_NONE;
	if (to->data)
		return at;
	if (!is_inside) {
		to->external = ET_XNN_IS_INPUT;
		copy->inputs[graph->n_inputs++] = at;
	} else if (is_argument(cut, value) || is_boundary(cut, value)) {
		to->external = ET_XNN_IS_OUTPUT;
		copy->outputs[graph->n_outputs++] = at;
	}
	return at;
}

/* Make the limits of a binary node a clamp of its own. XNNPACK does so anyway, from memory to memory. If the result
 * is an output, both steps can use the output's memory: @node writes an output, and the clamp writes the same tensor
 * again. */
static void limit_apart(struct copy *copy, struct et_xnn_node *node)
{
	struct et_xnn_payload *graph = copy->graph;
	uint32_t limited = node->outputs[0], at = graph->n_values++;
	graph->values[at] = graph->values[limited];
	graph->values[at].producer = graph->n_nodes;
	copy->whole[at] = copy->whole[limited];
	copy->outputs[graph->n_outputs++] = at;
	struct et_xnn_node *limit = &graph->nodes[++graph->n_nodes];
	*limit = *node;
	limit->kind = et_xnn_kind_at(ET_XNN_KIND_CLAMP);
	limit->inputs[0] = at;
	graph->values[limited].producer = graph->n_nodes;
	node->outputs[0] = at;
	node->min = -INFINITY;
	node->max = INFINITY;
}

static bool is_limited_apart(const struct cut *cut, const struct et_xnn_node *node)
{
	const struct et_xnn_value *out = &cut->payload->values[node->outputs[0]];
	return node->kind->define == et_xnn_define_binary && is_float(out) &&
	       (node->min != -INFINITY || node->max != INFINITY) &&
	       (is_argument(cut, node->outputs[0]) || is_boundary(cut, node->outputs[0]));
}

/* Make the graph of nodes @begin to @end. */
static enum et_status copy_graph(struct cut *cut, struct et_xnn_partition *partition, uint32_t begin, uint32_t end,
	struct et_diag *diag)
{
	const struct et_xnn_payload *payload = cut->payload;
	struct et_pool *pool = cut->pool;
	size_t n = 0, n_nodes = 0;
	for (uint32_t i = begin; i < end; i++) {
		size_t n_limited = !is_idle(cut, i) && is_limited_apart(cut, &payload->nodes[i]);
		n += payload->nodes[i].kind->n_inputs + payload->nodes[i].kind->n_outputs + n_limited;
		n_nodes += 1 + n_limited;
	}
	struct et_xnn_payload *graph = ET_POOL_NEW(pool, struct et_xnn_payload);
	struct copy copy = { .graph = graph, .partition = cut->partition_of[begin] };
	copy.inputs = ET_POOL_NEW_ARRAY(pool, uint32_t, n);
	copy.outputs = ET_POOL_NEW_ARRAY(pool, uint32_t, n);
	copy.whole = ET_POOL_NEW_ARRAY(pool, uint32_t, n);
	if (!graph || !copy.inputs || !copy.outputs || !copy.whole)
		return no_memory(diag);
	graph->values = ET_POOL_NEW_ARRAY(pool, struct et_xnn_value, n);
	graph->nodes = ET_POOL_NEW_ARRAY(pool, struct et_xnn_node, n_nodes);
	if (!graph->values || !graph->nodes)
		return no_memory(diag);
	for (uint32_t i = begin; i < end; i++) {
		if (is_idle(cut, i))
			continue;
		struct et_xnn_node *node = &graph->nodes[graph->n_nodes];
		*node = payload->nodes[i];
		for (uint32_t j = 0; j < node->kind->n_inputs; j++)
			node->inputs[j] = localize(cut, &copy, node->inputs[j]);
		for (uint32_t j = 0; j < node->kind->n_outputs; j++) {
			node->outputs[j] = localize(cut, &copy, node->outputs[j]);
			graph->values[node->outputs[j]].producer = graph->n_nodes;
		}
		if (is_limited_apart(cut, &payload->nodes[i]))
			limit_apart(&copy, node);
		graph->n_nodes++;
	}
	for (uint32_t i = begin; i < end; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		for (uint32_t j = 0; j < node->kind->n_inputs; j++)
			if (node->inputs[j] != ET_XNN_NONE)
				cut->local[node->inputs[j]] = ET_XNN_NONE;
		for (uint32_t j = 0; j < node->kind->n_outputs; j++)
			cut->local[node->outputs[j]] = ET_XNN_NONE;
	}
	graph->inputs = copy.inputs;
	graph->outputs = copy.outputs;
	graph->n_externs = graph->n_inputs + graph->n_outputs;
	graph->whole = copy.whole;
	for (uint32_t i = 0; i < graph->n_inputs; i++)
		graph->values[copy.inputs[i]].external_id = i;
	for (uint32_t i = 0; i < graph->n_outputs; i++)
		graph->values[copy.outputs[i]].external_id = graph->n_inputs + i;
	*partition = (struct et_xnn_partition){ .graph = graph };
	return ET_OK;
}

static enum et_status cut_up(struct et_xnn_partitions *partitions, struct cut *cut, uint32_t n_partitions,
	uint32_t n_boundaries, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = cut->payload;
	struct et_xnn_partitions made = { 0 };
	made.partitions = ET_POOL_NEW_ARRAY(cut->pool, struct et_xnn_partition, n_partitions);
	made.boundaries = ET_POOL_NEW_ARRAY(cut->pool, struct et_xnn_boundary, n_boundaries);
	if (!made.partitions || !made.boundaries)
		return no_memory(diag);
	for (uint32_t begin = 0, end; begin < payload->n_nodes; begin = end) {
		end = begin + 1;
		if (is_idle(cut, begin))
			continue;
		struct et_xnn_partition *partition = &made.partitions[made.n_partitions++];
		while (end < payload->n_nodes &&
			(is_idle(cut, end) || cut->partition_of[end] == cut->partition_of[begin]))
			end++;
		if (cut->overrides[begin]) {
			*partition = (struct et_xnn_partition){ .override = cut->overrides[begin],
				.node = &payload->nodes[begin] };
			continue;
		}
		enum et_status status = copy_graph(cut, partition, begin, end, diag);
		if (status != ET_OK)
			return status;
		made.n_xnnpack_args += partition->graph->n_externs;
	}
	for (uint32_t i = 0; i < payload->n_values; i++) {
		if (!is_boundary(cut, i))
			continue;
		cut->local[i] = made.n_boundaries;
		made.boundaries[made.n_boundaries++] = (struct et_xnn_boundary){
			.value = i,
			.written_over = ET_XNN_NONE,
			.overwritten_by = ET_XNN_NONE,
			.first = partition_of_value(cut, i),
			.last = cut->last[i],
			.is_rows = payload->values[i].quant == ET_XNN_QUANT_ROW,
			.n_bytes = (uint8_t)(et_xnn_type_bits(payload->values[i].type) / 8),
		};
	}
	for (uint32_t i = 0; i < made.n_boundaries; i++) {
		uint32_t over = cut->written_over[made.boundaries[i].value];
		if (over == ET_XNN_NONE)
			continue;
		made.boundaries[i].written_over = cut->local[over];
		made.boundaries[cut->local[over]].overwritten_by = i;
	}
	*partitions = made;
	return ET_OK;
}

/* Try to cut with all overrides, then with the required ones only. Returns the number of partitions, or 0: the
 * payload stays whole. */
static uint32_t plan_cut(struct cut *cut, uint32_t *ret_boundaries)
{
	for (int i = 0; i < 2; i++) {
		uint32_t n_partitions = number_partitions(cut), n_boundaries = n_partitions ? count_boundaries(cut) : 0;
		if (n_partitions && n_boundaries != ET_XNN_NONE) {
			*ret_boundaries = n_boundaries;
			return n_partitions;
		}
		if (!cut->has_required)
			break;
		cut->is_required_only = true;
	}
	return 0;
}

static void note_overridden(struct et_xnn_payload *payload, const struct et_xnn_partitions *partitions,
	const struct cut *cut)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++)
		payload->nodes[i].is_overridden = partitions->partitions[0].graph != payload && cut->is_along[i];
	for (uint32_t i = 0; i < partitions->n_partitions; i++)
		if (partitions->partitions[i].override)
			payload->nodes[partitions->partitions[i].node - payload->nodes].is_overridden = true;
}

enum et_status et_xnn_partitions_make(struct et_xnn_partitions *ret_partitions, struct et_xnn_payload *payload,
	struct et_pool *pool, struct et_diag *diag)
{
	struct et_pool scratch;
	et_pool_init(&scratch, &pool->allocator);
	struct cut cut = {
		.payload = payload,
		.pool = pool,
		.overrides = ET_POOL_NEW_ARRAY(&scratch, const struct et_xnn_override *, payload->n_nodes),
		.partition_of = ET_POOL_NEW_ARRAY(&scratch, uint32_t, payload->n_nodes),
		.last = ET_POOL_NEW_ARRAY(&scratch, uint32_t, payload->n_values),
		.local = ET_POOL_NEW_ARRAY(&scratch, uint32_t, payload->n_values),
		.written_over = ET_POOL_NEW_ARRAY(&scratch, uint32_t, payload->n_values),
		.is_overwritten = ET_POOL_NEW_ARRAY(&scratch, bool, payload->n_values),
		.is_along = ET_POOL_NEW_ARRAY(&scratch, bool, payload->n_nodes),
	};
	enum et_status status;
	if (cut.overrides && cut.partition_of && cut.last && cut.local && cut.written_over && cut.is_overwritten &&
		cut.is_along) {
		uint32_t n_boundaries = 0, n_partitions = plan_cut(&cut, &n_boundaries);
		if (n_partitions)
			status = cut_up(ret_partitions, &cut, n_partitions, n_boundaries, diag);
		else
			status = leave_whole(ret_partitions, &cut, diag);
		if (status == ET_OK)
			note_overridden(payload, ret_partitions, &cut);
	} else {
		status = no_memory(diag);
	}
	et_pool_deinit(&scratch);
	return status;
}

/* --- memory for boundary tensors --------------------------------------------------------------------------- */

/* The bytes of a boundary tensor with padding behind; SIZE_MAX if they overflow. */
static size_t size_of(const struct et_xnn_boundary *boundary, const struct et_xnn_shape *shapes)
{
	const struct et_xnn_shape *shape = &shapes[boundary->value];
	uint32_t n_dims = boundary->is_rows ? shape->n_dims - 1 : shape->n_dims;
	size_t n = boundary->is_rows ? 1 : boundary->n_bytes;
	bool fits = true;
	for (uint32_t i = 0; i < n_dims; i++)
		fits = fits && et_mul(n, shape->dims[i], &n);
	struct et_xnn_rows rows;
	if (boundary->is_rows) {
		fits = fits && et_xnn_rows(&rows, n, shape->dims[n_dims]);
		n = fits ? rows.n_bytes : 0;
	}
	return fits && et_add(n, PADDING, &n) && et_align_up(n, ET_XNN_MEMORY_ALIGNMENT, &n) ? n : SIZE_MAX;
}

/* Whether boundary tensor @i is written over another one: with these shapes the sizes may differ. */
static bool is_written_over(const struct et_xnn_partitions *partitions, const struct et_xnn_shape *shapes, uint32_t i)
{
	const struct et_xnn_boundary *boundary = &partitions->boundaries[i];
	return boundary->written_over != ET_XNN_NONE &&
	       et_xnn_n_elements(&shapes[boundary->value]) ==
		       et_xnn_n_elements(&shapes[partitions->boundaries[boundary->written_over].value]);
}

/* The last partition that needs the memory of boundary tensor @i, or of those that are written over it. */
static uint32_t last_of(const struct et_xnn_partitions *partitions, const struct et_xnn_shape *shapes, uint32_t i)
{
	uint32_t under = partitions->boundaries[i].overwritten_by;
	for (; under != ET_XNN_NONE && is_written_over(partitions, shapes, under);
		under = partitions->boundaries[i].overwritten_by)
		i = under;
	return partitions->boundaries[i].last;
}

/* Place @order[n] in the first gap that is large enough. @order[0..n) are placed, in the order of their offsets. */
static bool place(const struct et_xnn_partitions *partitions, const struct et_xnn_shape *shapes, size_t *offsets,
	uint32_t *order, uint32_t n, size_t *most)
{
	uint32_t index = order[n];
	const struct et_xnn_boundary *boundary = &partitions->boundaries[index];
	size_t size = size_of(boundary, shapes), at = 0, end;
	uint32_t last = last_of(partitions, shapes, index);
	for (uint32_t i = 0; i < n; i++) {
		const struct et_xnn_boundary *other = &partitions->boundaries[order[i]];
		if (other->first > last || last_of(partitions, shapes, order[i]) < boundary->first)
			continue;
		if (offsets[order[i]] >= at && offsets[order[i]] - at >= size)
			break;
		end = offsets[order[i]] + size_of(other, shapes);
		at = end > at ? end : at;
	}
	if (!et_add(at, size, &end))
		return false;
	uint32_t to = n;
	for (; to > 0 && offsets[order[to - 1]] > at; to--)
		order[to] = order[to - 1];
	order[to] = index;
	offsets[index] = at;
	*most = end > *most ? end : *most;
	return true;
}

bool et_xnn_partitions_plan(const struct et_xnn_partitions *partitions, const struct et_xnn_shape *shapes,
	size_t *offsets, uint32_t *order, size_t *ret_bytes)
{
	size_t most = 0;
	uint32_t n_places = 0;
	for (uint32_t i = 0; i < partitions->n_boundaries; i++)
		if (!is_written_over(partitions, shapes, i))
			order[n_places++] = i;
	for (uint32_t n = 0; n < n_places; n++) {
		uint32_t largest = n;
		for (uint32_t i = n + 1; i < n_places; i++)
			if (size_of(&partitions->boundaries[order[i]], shapes) >
				size_of(&partitions->boundaries[order[largest]], shapes))
				largest = i;
		uint32_t index = order[largest];
		order[largest] = order[n];
		order[n] = index;
		if (!place(partitions, shapes, offsets, order, n, &most))
			return false;
	}
	for (uint32_t n = 0; n < n_places; n++)
		for (uint32_t at = order[n], under = partitions->boundaries[at].overwritten_by;
			under != ET_XNN_NONE && is_written_over(partitions, shapes, under);
			at = under, under = partitions->boundaries[at].overwritten_by)
			offsets[under] = offsets[at];
	*ret_bytes = most;
	return true;
}
