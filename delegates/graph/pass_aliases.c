/* SPDX-License-Identifier: BSD-3-Clause */
/* Results that lie where an argument lies. A tensor is row-major and dense, so a view has the argument's bytes in the
 * same order, and a part along the outermost dimension that is not 1 is one piece of them. Where the piece begins
 * follows from the sizes of the run: alias_start rows of the argument, counted along alias_dim. */
#include "delegates/graph/operators.h"
#include "delegates/graph/passes.h"

#include <string.h>

static bool is_output(const struct et_graph *graph, uint32_t index)
{
	for (uint32_t i = 0; i < graph->n_outputs; i++)
		if (graph->outputs[i] == index)
			return true;
	return false;
}

static void set_alias(struct et_graph *graph, uint32_t result, uint32_t of, uint32_t dim, uint64_t start)
{
	const struct et_graph_value *value = &graph->values[result];
	if (value->tensor->type != graph->values[of].tensor->type || is_output(graph, result))
		return;
	value->tensor->alias_of = of;
	value->tensor->alias_dim = (uint8_t)dim;
	value->tensor->alias_start = start;
}

/* Whether argument @arg names a dimension with nothing but ones before it. */
static bool is_outermost(const struct et_graph *graph, const struct et_graph_node *node, uint32_t arg,
	uint32_t *ret_dim)
{
	const struct et_graph_tensor *x = graph->values[node->args[0]].tensor;
	const struct et_graph_value *dim = &graph->values[node->args[arg]];
	if (dim->kind != ET_GRAPH_INT)
		return false;
	*ret_dim = (uint32_t)(dim->i < 0 ? dim->i + x->n_dims : dim->i);
	for (uint32_t i = 0; i < *ret_dim; i++)
		if (x->dims[i] != 1)
			return false;
	return true;
}

/* A start that does not depend on the sizes of the run: from the front. */
static bool take_start(const struct et_graph_value *value, int64_t *ret_start)
{
	*ret_start = value->kind == ET_GRAPH_INT ? value->i : 0;
	return (value->kind == ET_GRAPH_INT || value->kind == ET_GRAPH_NULL) && *ret_start >= 0;
}

static void slice(struct et_graph *graph, const struct et_graph_node *node)
{
	const struct et_graph_value *step = &graph->values[node->args[4]];
	uint32_t dim;
	int64_t start;
	if (!is_outermost(graph, node, 1, &dim) || !take_start(&graph->values[node->args[2]], &start) ||
		step->kind != ET_GRAPH_INT || step->i != 1)
		return;
	/* A run may have fewer rows than that: then the piece is empty. */
	set_alias(graph, node->results[0], node->args[0], dim, (uint64_t)start);
}

static void select(struct et_graph *graph, const struct et_graph_node *node)
{
	uint32_t dim;
	int64_t start;
	if (graph->values[node->args[2]].kind == ET_GRAPH_INT && is_outermost(graph, node, 1, &dim) &&
		take_start(&graph->values[node->args[2]], &start))
		set_alias(graph, node->results[0], node->args[0], dim, (uint64_t)start);
}

static void split(struct et_graph *graph, const struct et_graph_node *node)
{
	const struct et_graph_value *sizes = &graph->values[node->args[1]];
	uint64_t start = 0;
	uint32_t dim;
	if (sizes->kind != ET_GRAPH_INTS || !is_outermost(graph, node, 2, &dim))
		return;
	for (uint32_t i = 0; i < node->n_results; i++) {
		set_alias(graph, node->results[i], node->args[0], dim, start);
		start += (uint64_t)sizes->list.ints[i];
	}
}

void et_graph_find_aliases(struct et_graph *graph)
{
	for (uint32_t i = 0; i < graph->n_values; i++)
		if (graph->values[i].kind == ET_GRAPH_TENSOR)
			graph->values[i].tensor->alias_of = ET_GRAPH_NONE;
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		const struct et_graph_node *node = &graph->nodes[i];
		const char *name = node->op->name;
		if (!node->n_args || node->n_steps || graph->values[node->args[0]].kind != ET_GRAPH_TENSOR ||
			graph->values[node->args[0]].origin == ET_GRAPH_STATE)
			continue;
		if (strcmp(name, "aten.view_copy.default") == 0 || strcmp(name, "aten.unsqueeze_copy.default") == 0 ||
			strcmp(name, "aten.squeeze_copy.dims") == 0)
			set_alias(graph, node->results[0], node->args[0], 0, 0);
		else if (strcmp(name, "aten.slice_copy.Tensor") == 0)
			slice(graph, node);
		else if (strcmp(name, "aten.select_copy.int") == 0)
			select(graph, node);
		else if (strcmp(name, "aten.split_with_sizes_copy.default") == 0)
			split(graph, node);
	}
}
