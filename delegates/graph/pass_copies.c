/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that return an argument as it is. Sizes of tensors are upper bounds, so equal sizes alone prove nothing: each
 * rule holds for all sizes that a run may have. */
#include "delegates/graph/operators.h"
#include "delegates/graph/passes.h"

#include <string.h>

struct pass {
	struct et_graph *graph;
	uint32_t *stands_for; /* for each value: the one to read instead, or itself */
	bool *is_output;
};

static const struct et_graph_value *arg_of(const struct pass *pass, const struct et_graph_node *node, uint32_t arg)
{
	return &pass->graph->values[node->args[arg]];
}

static bool is_int(const struct et_graph_value *value, int64_t i)
{
	return value->kind == ET_GRAPH_INT && value->i == i;
}

/* Whether the slice goes from the first element to at least the last one that can be. */
static bool is_whole_slice(const struct pass *pass, const struct et_graph_node *node, const struct et_graph_tensor *x)
{
	const struct et_graph_value *dim = arg_of(pass, node, 1), *from = arg_of(pass, node, 2),
				    *to = arg_of(pass, node, 3);
	if (dim->kind != ET_GRAPH_INT || !is_int(arg_of(pass, node, 4), 1) ||
		(from->kind != ET_GRAPH_NULL && !is_int(from, 0)))
		return false;
	uint32_t n = x->dims[dim->i < 0 ? dim->i + x->n_dims : dim->i];
	return to->kind == ET_GRAPH_NULL || (to->kind == ET_GRAPH_INT && to->i >= n);
}

static bool is_identity_order(const struct et_graph_value *order, uint32_t n_dims)
{
	for (uint32_t i = 0; i < order->list.n; i++)
		if (order->kind != ET_GRAPH_INTS ||
			(order->list.ints[i] < 0 ? order->list.ints[i] + n_dims : order->list.ints[i]) != i)
			return false;
	return true;
}

/* Every dimension keeps its size, or is 1 and stays it. */
static bool is_same_expand(const struct et_graph_value *sizes, const struct et_graph_tensor *x)
{
	if (sizes->kind != ET_GRAPH_INTS || sizes->list.n != x->n_dims)
		return false;
	for (uint32_t i = 0; i < x->n_dims; i++)
		if (sizes->list.ints[i] != -1 && !(sizes->list.ints[i] == 1 && x->dims[i] == 1))
			return false;
	return true;
}

static bool returns_its_argument(const struct pass *pass, const struct et_graph_node *node)
{
	const char *name = node->op->name;
	const struct et_graph_value *x = node->n_args ? arg_of(pass, node, 0) : NULL;
	const struct et_graph_value *result = &pass->graph->values[node->results[0]];
	if (!x || x->kind != ET_GRAPH_TENSOR || node->n_results != 1 || node->n_steps ||
		result->kind != ET_GRAPH_TENSOR || pass->is_output[node->results[0]] ||
		x->tensor->type != result->tensor->type)
		return false;
	if (x->origin == ET_GRAPH_STATE) /* a later node may change it; the copy stays */
		return false;
	if (strcmp(name, "aten.clone.default") == 0 || strcmp(name, "et_vk.prepack.default") == 0 ||
		strcmp(name, "dim_order_ops._to_dim_order_copy.default") == 0)
		return true;
	if (strcmp(name, "aten.slice_copy.Tensor") == 0)
		return is_whole_slice(pass, node, x->tensor);
	if (strcmp(name, "aten.permute_copy.default") == 0)
		return is_identity_order(arg_of(pass, node, 1), x->tensor->n_dims);
	if (strcmp(name, "aten.expand_copy.default") == 0)
		return is_same_expand(arg_of(pass, node, 1), x->tensor);
	return false;
}

static void replace(struct pass *pass, uint32_t *index)
{
	struct et_graph_value *value = &pass->graph->values[*index];
	*index = pass->stands_for[*index];
	/* Lists may belong to several nodes: what was replaced once stands for itself. */
	for (uint32_t i = 0; value->kind == ET_GRAPH_VALUES && i < value->list.n; i++)
		value->list.values[i] = pass->stands_for[value->list.values[i]];
}

static void run(struct pass *pass)
{
	struct et_graph *graph = pass->graph;
	uint32_t n = 0;
	for (uint32_t i = 0; i < graph->n_values; i++)
		pass->stands_for[i] = i;
	for (uint32_t i = 0; i < graph->n_outputs; i++)
		pass->is_output[graph->outputs[i]] = true;
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		struct et_graph_node *node = &graph->nodes[i];
		for (uint32_t p = 0; p <= node->n_steps; p++) {
			struct et_graph_node part = et_graph_part(node, p);
			for (uint32_t k = 0; k < part.n_args; k++)
				replace(pass, &part.args[k]);
		}
		if (returns_its_argument(pass, node))
			pass->stands_for[node->results[0]] = node->args[0];
		else
			graph->nodes[n++] = *node;
	}
	graph->n_nodes = n;
	et_graph_count_users(graph);
}

enum et_status et_graph_remove_copies(struct et_graph *graph, struct et_diag *diag)
{
	struct et_pool scratch;
	et_pool_init(&scratch, &graph->pool->allocator);
	struct pass pass = { .graph = graph };
	pass.stands_for = ET_POOL_NEW_ARRAY(&scratch, uint32_t, graph->n_values);
	pass.is_output = ET_POOL_NEW_ARRAY(&scratch, bool, graph->n_values);
	bool has_room = pass.stands_for && pass.is_output;
	if (has_room)
		run(&pass);
	et_pool_deinit(&scratch);
	return has_room ? ET_OK : et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to simplify a graph");
}
