/* SPDX-License-Identifier: BSD-3-Clause */
/* The graph in Graphviz's language: a box for each node, an edge for each tensor or symbol that a node makes and
 * another one reads. Constants are not drawn: they would be most of the picture. */
#include "delegates/graph/operators.h"
#include "delegates/graph/text.h"

#include <stdio.h>
#include <string.h>

static void put(const struct et_graph_sink *sink, const char *text)
{
	sink->write(sink->self, text, strlen(text));
}

/* Whether the value lies nowhere: it goes from a part of its node to the next. */
static bool is_running(const struct et_graph *graph, uint32_t index)
{
	uint32_t producer = graph->values[index].producer;
	const struct et_graph_node *node = producer == ET_GRAPH_NONE ? NULL : &graph->nodes[producer];
	for (uint32_t i = 0; node && i < node->n_steps; i++)
		if (node->steps[i].input == index)
			return true;
	return false;
}

static void put_edge(const struct et_graph *graph, const struct et_graph_sink *sink, uint32_t index, const char *to)
{
	const struct et_graph_value *value = &graph->values[index];
	char text[64 + 12 * ET_GRAPH_MAX_DIMS];
	size_t n = 0;
	if (value->kind == ET_GRAPH_VALUES) {
		for (uint32_t i = 0; i < value->list.n; i++)
			put_edge(graph, sink, value->list.values[i], to);
		return;
	}
	if (value->kind != ET_GRAPH_TENSOR && value->kind != ET_GRAPH_SYMBOL)
		return;
	if (value->origin == ET_GRAPH_CONSTANT || is_running(graph, index))
		return;
	if (value->producer != ET_GRAPH_NONE)
		n = (size_t)snprintf(text, sizeof(text), "  n%u -> %s [label=\"", value->producer, to);
	else
		n = (size_t)snprintf(text, sizeof(text), "  v%u -> %s [label=\"", index, to);
	for (uint32_t i = 0; value->kind == ET_GRAPH_TENSOR && i < value->tensor->n_dims; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u", i ? "x" : "", value->tensor->dims[i]);
	snprintf(text + n, sizeof(text) - n, "\"];\n");
	put(sink, text);
}

static void put_sources(const struct et_graph *graph, const struct et_graph_sink *sink)
{
	char text[64];
	for (uint32_t i = 0; i < graph->n_values; i++) {
		const struct et_graph_value *value = &graph->values[i];
		bool is_source = value->kind == ET_GRAPH_TENSOR || value->kind == ET_GRAPH_SYMBOL;
		if (!is_source || (value->origin != ET_GRAPH_INPUT && value->origin != ET_GRAPH_STATE))
			continue;
		snprintf(text, sizeof(text), "  v%u [label=\"%s\" shape=ellipse];\n", i,
			value->origin == ET_GRAPH_INPUT ? "input" : "state");
		put(sink, text);
	}
}

void et_graph_print_dot(const struct et_graph *graph, const struct et_graph_sink *sink)
{
	char text[256], name[32];
	put(sink, "digraph {\n  node [shape=box];\n");
	put_sources(graph, sink);
	for (uint32_t n = 0; n < graph->n_nodes; n++) {
		const struct et_graph_node *node = &graph->nodes[n];
		snprintf(text, sizeof(text), "  n%u [label=\"%.100s", n, node->op->name);
		snprintf(name, sizeof(name), "n%u", n);
		put(sink, text);
		for (uint32_t i = 0; i < node->n_steps; i++) {
			put(sink, "\\n| ");
			put(sink, node->steps[i].op->name);
		}
		put(sink, "\"];\n");
		for (uint32_t p = 0; p <= node->n_steps; p++) {
			struct et_graph_node part = et_graph_part(node, p);
			for (uint32_t i = 0; i < part.n_args; i++)
				put_edge(graph, sink, part.args[i], name);
		}
	}
	for (uint32_t i = 0; i < graph->n_outputs; i++) {
		snprintf(text, sizeof(text), "  out%u [label=\"output %u\" shape=ellipse];\n", i, i);
		snprintf(name, sizeof(name), "out%u", i);
		put(sink, text);
		put_edge(graph, sink, graph->outputs[i], name);
	}
	put(sink, "}\n");
}
