/* SPDX-License-Identifier: BSD-3-Clause */
/* Dead code: from the last node to the first, so that what only a dead node reads is dead as well. */
#include "delegates/graph/operators.h"
#include "delegates/graph/passes.h"

static void release(struct et_graph *graph, uint32_t index)
{
	struct et_graph_value *value = &graph->values[index];
	value->n_users--;
	if (value->kind != ET_GRAPH_VALUES)
		return;
	for (uint32_t i = 0; i < value->list.n; i++)
		graph->values[value->list.values[i]].n_users--;
}

static bool is_dead(const struct et_graph *graph, const struct et_graph_node *node)
{
	for (uint32_t i = 0; i < node->n_results; i++)
		if (graph->values[node->results[i]].n_users)
			return false;
	return !node->op->n_states;
}

void et_graph_remove_dead(struct et_graph *graph)
{
	uint32_t n = 0;
	et_graph_count_users(graph);
	for (uint32_t i = graph->n_nodes; i-- > 0;) {
		struct et_graph_node *node = &graph->nodes[i];
		if (!is_dead(graph, node))
			continue;
		for (uint32_t p = 0; p <= node->n_steps; p++) {
			struct et_graph_node part = et_graph_part(node, p);
			for (uint32_t k = 0; k < part.n_args; k++)
				release(graph, part.args[k]);
		}
		node->op = NULL;
	}
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		if (graph->nodes[i].op)
			graph->nodes[n++] = graph->nodes[i];
	graph->n_nodes = n;
	et_graph_count_users(graph);
}
