/* SPDX-License-Identifier: BSD-3-Clause */
/* Places in the arena of a run. Nodes are walked in the order in which they run. A result gets the first hole that is
 * large enough, else memory behind all others; a tensor that is not read any more becomes a hole, and holes beside each
 * other become one. Only MAX_TRIES holes are looked at, so that the time is in proportion to the graph's size whatever
 * the lifetimes are.
 *
 * What must always be true: holes are sorted by their place, do not touch each other, and end within the arena. */
#include "delegates/graph/passes.h"
#include "runtime/base/checked.h"

#include <string.h>

enum { MAX_TRIES = 256 };

struct hole {
	uint64_t at, n;
};

struct placer {
	struct et_graph *graph;
	uint64_t align, n_arena;
	uint32_t *owner;       /* for each value: the tensor whose memory it has */
	uint32_t *last_reader; /* for each owner: the last node that reads it or an alias; NONE: it is never free */
	uint32_t *next;        /* for each value: another one with the same last reader */
	uint32_t *first;       /* for each node: the first value that is not read after it */
	struct hole holes[MAX_TRIES];
	uint32_t n_holes;
};

static void read_by(struct placer *p, uint32_t index, uint32_t node)
{
	const struct et_graph_value *value = &p->graph->values[index];
	for (uint32_t i = 0; value->kind == ET_GRAPH_VALUES && i < value->list.n; i++)
		read_by(p, value->list.values[i], node);
	if (value->kind == ET_GRAPH_TENSOR)
		p->last_reader[p->owner[index]] = node;
}

/* A node's argument comes before its result, so its owner is known by then. */
static void made_by(struct placer *p, uint32_t index, uint32_t node)
{
	const struct et_graph_value *value = &p->graph->values[index];
	if (value->kind == ET_GRAPH_TENSOR && value->tensor->alias_of != ET_GRAPH_NONE)
		p->owner[index] = p->owner[value->tensor->alias_of];
	read_by(p, index, node); /* what is never read lives as long as its node */
}

static void find_lifetimes(struct placer *p)
{
	struct et_graph *graph = p->graph;
	memset(p->last_reader, 0xff, graph->n_values * sizeof(*p->last_reader));
	for (uint32_t i = 0; i < graph->n_values; i++)
		p->owner[i] = i;
	memset(p->first, 0xff, graph->n_nodes * sizeof(*p->first));
	for (uint32_t n = 0; n < graph->n_nodes; n++) {
		const struct et_graph_node *node = &graph->nodes[n];
		for (uint32_t k = 0; k <= node->n_steps; k++) {
			struct et_graph_node part = et_graph_part(node, k);
			for (uint32_t i = 0; i < part.n_args; i++)
				read_by(p, part.args[i], n);
		}
		for (uint32_t i = 0; i < node->n_results; i++)
			made_by(p, node->results[i], n);
	}
	for (uint32_t i = 0; i < graph->n_outputs; i++)
		p->last_reader[p->owner[graph->outputs[i]]] = ET_GRAPH_NONE; /* the caller */
	for (uint32_t i = 0; i < graph->n_values; i++) {
		uint32_t last = p->last_reader[i];
		if (last == ET_GRAPH_NONE)
			continue;
		p->next[i] = p->first[last];
		p->first[last] = i;
	}
}

static bool size_of(const struct placer *p, const struct et_graph_tensor *tensor, uint64_t *ret_n)
{
	size_t n;
	if (!et_align_up(tensor->n_bytes ? tensor->n_bytes : 1, p->align, &n))
		return false;
	*ret_n = n;
	return true;
}

static bool take(struct placer *p, uint64_t n, uint64_t *ret_at)
{
	for (uint32_t i = 0; i < p->n_holes; i++) {
		struct hole *hole = &p->holes[i];
		if (hole->n < n)
			continue;
		*ret_at = hole->at;
		hole->at += n;
		hole->n -= n;
		if (!hole->n)
			memmove(hole, hole + 1, (--p->n_holes - i) * sizeof(*hole));
		return true;
	}
	const struct hole *last = p->n_holes ? &p->holes[p->n_holes - 1] : NULL;
	if (last && last->at + last->n == p->n_arena) { /* it becomes larger */
		p->n_arena = last->at;
		p->n_holes--;
	}
	*ret_at = p->n_arena;
	return !__builtin_add_overflow(p->n_arena, n, &p->n_arena);
}

/* A hole too many is forgotten: its memory is not used again. */
static void give(struct placer *p, uint64_t at, uint64_t n)
{
	uint32_t i = 0;
	while (i < p->n_holes && p->holes[i].at < at)
		i++;
	bool joins_before = i > 0 && p->holes[i - 1].at + p->holes[i - 1].n == at;
	bool joins_behind = i < p->n_holes && at + n == p->holes[i].at;
	if (joins_before && joins_behind) {
		p->holes[i - 1].n += n + p->holes[i].n;
		memmove(&p->holes[i], &p->holes[i + 1], (--p->n_holes - i) * sizeof(*p->holes));
	} else if (joins_before) {
		p->holes[i - 1].n += n;
	} else if (joins_behind) {
		p->holes[i].at = at;
		p->holes[i].n += n;
	} else if (p->n_holes < MAX_TRIES) {
		memmove(&p->holes[i + 1], &p->holes[i], (p->n_holes++ - i) * sizeof(*p->holes));
		p->holes[i] = (struct hole){ at, n };
	}
}

static bool place_all(struct placer *p)
{
	struct et_graph *graph = p->graph;
	for (uint32_t n = 0; n < graph->n_nodes; n++) {
		const struct et_graph_node *node = &graph->nodes[n];
		for (uint32_t i = 0; i < node->n_results; i++) {
			const struct et_graph_value *value = &graph->values[node->results[i]];
			uint64_t n_bytes;
			if (value->kind != ET_GRAPH_TENSOR || value->tensor->alias_of != ET_GRAPH_NONE ||
				value->tensor->place == ET_GRAPH_OUTPUT_PLACE)
				continue;
			if (!size_of(p, value->tensor, &n_bytes) || !take(p, n_bytes, &value->tensor->place))
				return false;
		}
		for (uint32_t i = p->first[n]; i != ET_GRAPH_NONE; i = p->next[i]) {
			const struct et_graph_tensor *tensor = graph->values[i].tensor;
			uint64_t n_bytes;
			if (tensor->place < ET_GRAPH_OUTPUT_PLACE && size_of(p, tensor, &n_bytes))
				give(p, tensor->place, n_bytes);
		}
	}
	return true;
}

enum et_status et_graph_place(struct et_graph *graph, uint64_t align, uint64_t *ret_n_bytes, struct et_diag *diag)
{
	struct et_pool scratch;
	et_pool_init(&scratch, &graph->pool->allocator);
	struct placer *p = ET_POOL_NEW(&scratch, struct placer);
	enum et_status status = ET_E_MEMORY_ALLOCATION_FAILED;
	if (p) {
		*p = (struct placer){ .graph = graph, .align = align };
		p->owner = ET_POOL_NEW_ARRAY(&scratch, uint32_t, graph->n_values);
		p->last_reader = ET_POOL_NEW_ARRAY(&scratch, uint32_t, graph->n_values);
		p->next = ET_POOL_NEW_ARRAY(&scratch, uint32_t, graph->n_values);
		p->first = ET_POOL_NEW_ARRAY(&scratch, uint32_t, graph->n_nodes);
	}
	if (p && p->owner && p->last_reader && p->next && p->first) {
		for (uint32_t i = 0; i < graph->n_values; i++)
			if (graph->values[i].kind == ET_GRAPH_TENSOR)
				graph->values[i].tensor->place = ET_GRAPH_NO_PLACE;
		for (uint32_t i = 0; i < graph->n_outputs; i++) {
			const struct et_graph_value *output = &graph->values[graph->outputs[i]];
			bool is_made = output->origin == ET_GRAPH_OF_NODE;
			if (output->kind == ET_GRAPH_TENSOR && !(is_made && output->tensor->needs_place))
				output->tensor->place = ET_GRAPH_OUTPUT_PLACE;
		}
		find_lifetimes(p);
		status = place_all(p) ? ET_OK : ET_E_OUT_OF_RESOURCES;
		*ret_n_bytes = p->n_arena;
	}
	et_pool_deinit(&scratch);
	return status ? et_fail(diag, status, "no memory for the tensors of a graph") : ET_OK;
}
