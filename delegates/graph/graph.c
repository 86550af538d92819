/* SPDX-License-Identifier: BSD-3-Clause */
/* Building a graph: arrays of values and nodes that grow, and the counts of who reads what. */
#include "delegates/graph/graph.h"

#include "delegates/graph/operators.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <string.h>

void et_graph_init(struct et_graph *graph, struct et_pool *pool)
{
	*graph = (struct et_graph){ .pool = pool };
}

/* Make room for one more item. The old array stays in the pool until the graph goes: at most as much again. */
static bool grow(struct et_graph *graph, void **items, uint32_t n, uint32_t *max, size_t item_bytes, uint32_t limit)
{
	if (n < *max)
		return true;
	if (n >= limit)
		return false;
	uint32_t new_max = *max < 32 ? 64 : *max * 2;
	void *room = et_pool_array(graph->pool, new_max, item_bytes);
	if (!room)
		return false;
	if (n)
		memcpy(room, *items, n * item_bytes);
	*items = room;
	*max = new_max;
	return true;
}

uint32_t et_graph_add_value(struct et_graph *graph, const struct et_graph_value *value)
{
	void *items = graph->values;
	if (!grow(graph, &items, graph->n_values, &graph->max_values, sizeof(*value), ET_GRAPH_MAX_VALUES))
		return ET_GRAPH_NONE;
	graph->values = items;
	graph->values[graph->n_values] = *value;
	return graph->n_values++;
}

struct et_graph_node *et_graph_add_node(struct et_graph *graph, const struct et_graph_operator *op, uint32_t n_args,
	uint32_t n_results)
{
	void *items = graph->nodes;
	if (!grow(graph, &items, graph->n_nodes, &graph->max_nodes, sizeof(*graph->nodes), ET_GRAPH_MAX_NODES))
		return NULL;
	graph->nodes = items;
	struct et_graph_node *node = &graph->nodes[graph->n_nodes];
	*node = (struct et_graph_node){ .op = op, .n_args = n_args, .n_results = n_results };
	node->args = ET_POOL_NEW_ARRAY(graph->pool, uint32_t, n_args);
	node->results = ET_POOL_NEW_ARRAY(graph->pool, uint32_t, n_results);
	if (!node->args || !node->results)
		return NULL;
	graph->n_nodes++;
	return node;
}

struct et_graph_step *et_graph_add_step(struct et_graph *graph, struct et_graph_node *node,
	const struct et_graph_operator *op, uint32_t n_args, uint8_t type)
{
	const struct et_graph_tensor *result = graph->values[node->results[0]].tensor;
	struct et_graph_value running = { .kind = ET_GRAPH_TENSOR, .producer = ET_GRAPH_NONE };
	struct et_graph_step *steps = ET_POOL_NEW_ARRAY(graph->pool, struct et_graph_step, node->n_steps + 1);
	uint32_t *args = ET_POOL_NEW_ARRAY(graph->pool, uint32_t, n_args);
	running.tensor = et_graph_new_tensor(graph, type, result->n_dims, result->dims);
	if (!steps || !args || !running.tensor || !et_graph_set_bytes(running.tensor))
		return NULL;
	uint32_t input = et_graph_add_value(graph, &running);
	if (input == ET_GRAPH_NONE)
		return NULL;
	if (node->n_steps)
		memcpy(steps, node->steps, node->n_steps * sizeof(*steps));
	struct et_graph_step *step = &steps[node->n_steps++];
	*step = (struct et_graph_step){ .op = op, .n_args = n_args, .args = args, .input = input };
	node->steps = steps;
	return step;
}

struct et_graph_node et_graph_part(const struct et_graph_node *node, uint32_t part)
{
	struct et_graph_node alone = { .op = node->op,
		.n_args = node->n_args,
		.args = node->args,
		.n_results = node->n_results,
		.results = node->results };
	if (part) {
		const struct et_graph_step *step = &node->steps[part - 1];
		alone.op = step->op;
		alone.n_args = step->n_args;
		alone.args = step->args;
	}
	if (part < node->n_steps)
		alone.results = &node->steps[part].input;
	return alone;
}

struct et_graph_tensor *et_graph_new_tensor(struct et_graph *graph, uint8_t type, uint32_t n_dims, const uint32_t *dims)
{
	struct et_graph_tensor *tensor = ET_POOL_NEW(graph->pool, struct et_graph_tensor);
	if (!tensor)
		return NULL;
	tensor->type = tensor->host_type = type;
	tensor->n_dims = (uint8_t)n_dims;
	tensor->constant = tensor->alias_of = ET_GRAPH_NONE;
	tensor->place = ET_GRAPH_NO_PLACE;
	memcpy(tensor->dims, dims, n_dims * sizeof(*dims));
	return tensor;
}

bool et_graph_set_bytes(struct et_graph_tensor *tensor)
{
	size_t n = et_scalar_size((enum et_scalar_type)tensor->type);
	for (uint32_t i = 0; i < tensor->n_dims; i++)
		if (!et_mul(n, tensor->dims[i], &n))
			return false;
	tensor->n_bytes = n;
	return true;
}

static void count_user(struct et_graph *graph, uint32_t index)
{
	struct et_graph_value *value = &graph->values[index];
	value->n_users++;
	if (value->kind != ET_GRAPH_VALUES)
		return;
	for (uint32_t i = 0; i < value->list.n; i++)
		graph->values[value->list.values[i]].n_users++;
}

void et_graph_count_users(struct et_graph *graph)
{
	for (uint32_t i = 0; i < graph->n_values; i++) {
		graph->values[i].n_users = 0;
		graph->values[i].producer = ET_GRAPH_NONE;
	}
	for (uint32_t n = 0; n < graph->n_nodes; n++) {
		const struct et_graph_node *node = &graph->nodes[n];
		for (uint32_t p = 0; p <= node->n_steps; p++) {
			struct et_graph_node part = et_graph_part(node, p);
			for (uint32_t i = 0; i < part.n_args; i++)
				count_user(graph, part.args[i]);
			for (uint32_t i = 0; i < part.n_results; i++)
				graph->values[part.results[i]].producer = n;
		}
	}
	for (uint32_t i = 0; i < graph->n_outputs; i++)
		count_user(graph, graph->outputs[i]);
}

const char *et_graph_kind_name(uint32_t kind)
{
	static const char *const names[ET_GRAPH_N_KINDS] = { "none", "int", "double", "bool", "string", "ints",
		"doubles", "bools", "values", "symbol", "tensor" };
	return kind < ET_GRAPH_N_KINDS ? names[kind] : "?";
}
