/* SPDX-License-Identifier: BSD-3-Clause */
/* In an int8 model an activation stands between dequantize and quantize, since only the layers themselves compute in
 * integers. If both have the same scale and zero point, relu, hardtanh and clamp are a clamp of the integers:
 * quantizing is monotonic, and takes what was dequantized back to the same integer. With other scales the three stay,
 * and become steps of what makes the integers.
 *
 * Only 8-bit integers: a float holds each of their multiples of the scale closely enough to come back. */
#include "delegates/graph/fuse.h"
#include "delegates/graph/operators.h"
#include "delegates/graph/passes.h"
#include "runtime/tensor.h"

#include <math.h>
#include <string.h>

#define DEQUANTIZE "quantized_decomposed.dequantize_per_tensor.default"
#define QUANTIZE   "quantized_decomposed.quantize_per_tensor.default"

struct range {
	double least, most;
};

/* The limits that the activation sets; false if it does something else. */
static bool limit(const struct et_graph *graph, const struct et_graph_node *node, struct range *range)
{
	double least = -INFINITY, most = INFINITY;
	if (strcmp(node->op->name, "aten.relu.default") == 0) {
		least = 0;
	} else if (strcmp(node->op->name, "aten.hardtanh.default") == 0 ||
		   strcmp(node->op->name, "aten.clamp.default") == 0) {
		bool has_least = graph->values[node->args[1]].kind != ET_GRAPH_NULL;
		bool has_most = graph->values[node->args[2]].kind != ET_GRAPH_NULL;
		if ((has_least && !et_graph_number(graph, node->args[1], &least)) ||
			(has_most && !et_graph_number(graph, node->args[2], &most)) || !(least <= most))
			return false;
	} else {
		return false;
	}
	/* the later limits are these */
	range->least = range->least < least ? least : range->least > most ? most : range->least;
	range->most = range->most < least ? least : range->most > most ? most : range->most;
	return true;
}

/* As the kernels do: in f32, half to even. */
static int64_t quantize(double number, double scale, int64_t zero, int64_t least, int64_t most)
{
	double q = (double)rintf((float)number / (float)scale) + (double)zero;
	return q<(double)least ? least : q>(double) most ? most : (int64_t)q;
}

/* The dequantize node before the activations that end in @index; *range: their limits together. */
static const struct et_graph_node *before_activations(const struct et_graph *graph, uint32_t index, struct range *range)
{
	const struct et_graph_node *nodes[8];
	uint32_t n = 0;
	const struct et_graph_node *node;
	while (!et_graph_made_by(graph, index, DEQUANTIZE)) {
		node = et_graph_only_read_once(graph, index, false);
		if (!node || n == sizeof(nodes) / sizeof(nodes[0]) ||
			graph->values[node->args[0]].kind != ET_GRAPH_TENSOR)
			return NULL;
		nodes[n++] = node;
		index = node->args[0];
	}
	while (n > 0)
		if (!limit(graph, nodes[--n], range))
			return NULL;
	return et_graph_made_by(graph, index, DEQUANTIZE);
}

static bool is_same_double(const struct et_graph *graph, uint32_t a, uint32_t b)
{
	return graph->values[a].d == graph->values[b].d;
}

static bool simplify(struct et_graph *graph, struct et_graph_node *node)
{
	struct range range = { -INFINITY, INFINITY };
	if (strcmp(node->op->name, QUANTIZE) != 0 || node->n_steps)
		return true;
	const struct et_graph_node *from = before_activations(graph, node->args[0], &range);
	const struct et_graph_value *zero = &graph->values[node->args[2]], *least = &graph->values[node->args[3]],
				    *most = &graph->values[node->args[4]];
	if (!from || zero->kind != ET_GRAPH_INT || graph->values[from->args[2]].kind != ET_GRAPH_INT)
		return true;
	uint8_t type = graph->values[node->results[0]].tensor->type;
	double scale = graph->values[node->args[1]].d;
	if (graph->values[from->args[0]].origin == ET_GRAPH_STATE ||
		graph->values[from->results[0]].tensor->type != ET_FLOAT32 ||
		graph->values[from->args[0]].tensor->type != type || (type != ET_INT8 && type != ET_UINT8) ||
		!is_same_double(graph, from->args[1], node->args[1]) || graph->values[from->args[2]].i != zero->i ||
		!(scale > 0) || zero->i < least->i || zero->i > most->i)
		return true;
	int64_t low = quantize(range.least, scale, zero->i, least->i, most->i);
	int64_t high = quantize(range.most, scale, zero->i, least->i, most->i);
	bool is_whole = low == (type == ET_INT8 ? INT8_MIN : 0) && high == (type == ET_INT8 ? INT8_MAX : UINT8_MAX);
	uint32_t *args = ET_POOL_NEW_ARRAY(graph->pool, uint32_t, 3);
	if (!args)
		return false;
	args[0] = from->args[0];
	args[1] = is_whole ? et_graph_add_null(graph) : et_graph_add_int(graph, low);
	args[2] = is_whole ? args[1] : et_graph_add_int(graph, high);
	if (args[1] == ET_GRAPH_NONE || args[2] == ET_GRAPH_NONE)
		return false;
	node->op = et_graph_operator_find(is_whole ? "aten.clone.default" : "aten.clamp.default");
	node->n_args = is_whole ? 2 : 3;
	node->args = args;
	return true;
}

enum et_status et_graph_simplify_quantized(struct et_graph *graph, struct et_diag *diag)
{
	et_graph_count_users(graph);
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		if (!simplify(graph, &graph->nodes[i]))
			return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to simplify a graph");
	et_graph_remove_dead(graph);
	return ET_OK;
}
