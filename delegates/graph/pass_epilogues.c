/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands before and behind a matrix product or a convolution, and can be done by its kernel.
 *
 * Zeros that constant_pad_nd puts around an input become padding of the convolution that reads it. The limits of a
 * convolution with a clamp become a step, so that there is one kind of convolution for them all. Then the operators
 * that read a result element by element become its steps: a bias, an activation, a residual, quantizing. */
#include "delegates/graph/fuse.h"
#include "delegates/graph/operators.h"
#include "delegates/graph/passes.h"

#include <string.h>

enum { X, WEIGHTS, BIAS, STRIDE, PADDING, DILATION, IS_TRANSPOSED, OUTPUT_PADDING, GROUPS, LEAST, MOST };

static bool is_called(const struct et_graph_node *node, const char *name)
{
	return strcmp(node->op->name, name) == 0;
}

/* conv_with_clamp: a convolution and a clamp. */
static bool split_clamp(struct et_graph *graph, struct et_graph_node *node)
{
	if (!is_called(node, "et_vk.conv_with_clamp.default"))
		return true;
	uint32_t least = node->args[LEAST], most = node->args[MOST];
	if (node->n_steps)
		return true;
	node->op = et_graph_operator_find("aten.convolution.default");
	node->n_args = LEAST;
	if (graph->values[least].kind == ET_GRAPH_NULL && graph->values[most].kind == ET_GRAPH_NULL)
		return true;
	struct et_graph_step *step = et_graph_add_step(graph, node, et_graph_operator_find("aten.clamp.default"), 3,
		graph->values[node->results[0]].tensor->type);
	if (!step)
		return false;
	step->args[0] = step->input;
	step->args[1] = least;
	step->args[2] = most;
	return true;
}

/* Item @index of a list of literals; the last one if there are fewer, @absent if there is none. */
static int64_t item(const struct et_graph *graph, uint32_t list, uint32_t index, int64_t absent)
{
	const struct et_graph_value *value = &graph->values[list];
	return value->list.n ? value->list.ints[index < value->list.n ? index : value->list.n - 1] : absent;
}

/* Whether the node puts zeros, and nothing else, around the last @n_spatial dimensions. */
static bool is_zeros_around(const struct et_graph *graph, const struct et_graph_node *pad, uint32_t n_spatial)
{
	const struct et_graph_value *pairs = &graph->values[pad->args[1]];
	double filling;
	if (pairs->kind != ET_GRAPH_INTS || !et_graph_number(graph, pad->args[2], &filling) || filling != 0)
		return false;
	for (uint32_t i = 0; i < pairs->list.n; i++)
		if (pairs->list.ints[i] < 0 || pairs->list.ints[i] > 1 << 16 ||
			(i >= 2 * n_spatial && pairs->list.ints[i] != 0))
			return false;
	return true;
}

static bool take_padding(struct et_graph *graph, struct et_graph_node *node)
{
	if (!is_called(node, "aten.convolution.default") || graph->values[node->args[IS_TRANSPOSED]].b)
		return true;
	const struct et_graph_node *pad = et_graph_made_by(graph, node->args[X], "aten.constant_pad_nd.default");
	uint32_t n_spatial = graph->values[node->args[X]].tensor->n_dims - 2u;
	if (!pad || graph->values[pad->args[0]].origin == ET_GRAPH_STATE || !is_zeros_around(graph, pad, n_spatial) ||
		graph->values[node->args[PADDING]].kind != ET_GRAPH_INTS)
		return true;
	struct et_graph_value ends = { .kind = ET_GRAPH_INTS, .producer = ET_GRAPH_NONE };
	const struct et_graph_value *pairs = &graph->values[pad->args[1]];
	ends.list.n = 2 * n_spatial;
	ends.list.ints = ET_POOL_NEW_ARRAY(graph->pool, int64_t, ends.list.n);
	if (!ends.list.ints)
		return false;
	for (uint32_t i = 0; i < n_spatial; i++) {
		uint32_t pair = 2 * (n_spatial - 1 - i); /* constant_pad_nd begins with the innermost dimension */
		int64_t both = item(graph, node->args[PADDING], i, 0);
		ends.list.ints[2 * i] = both + (pair < pairs->list.n ? pairs->list.ints[pair] : 0);
		ends.list.ints[2 * i + 1] = both + (pair + 1 < pairs->list.n ? pairs->list.ints[pair + 1] : 0);
	}
	uint32_t list = et_graph_add_value(graph, &ends);
	if (list == ET_GRAPH_NONE)
		return false;
	node->op = et_graph_operator_find("graph.convolution");
	node->args[X] = pad->args[0];
	node->args[PADDING] = list;
	node->args[6] = node->args[GROUPS];
	node->n_args = 7;
	return true;
}

static bool can_start(const struct et_graph_node *node)
{
	return node->op && (node->op->group == ET_GRAPH_MATRIX || strstr(node->op->name, "conv"));
}

enum et_status et_graph_fuse_epilogues(struct et_graph *graph, struct et_diag *diag)
{
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		struct et_graph_node *node = &graph->nodes[i];
		if (!split_clamp(graph, node) || !take_padding(graph, node))
			return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to fuse a graph's nodes");
	}
	et_graph_remove_dead(graph); /* what made zeros around inputs */
	return et_graph_fuse(graph, can_start, diag);
}
