/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention that an exporter wrote out: bmm(q, k), a scale, a mask, softmax, bmm with v, and views between three
 * dimensions and more. graph.attention takes the operands of the two products as they are, so it does not matter how
 * the views call the dimensions in front of the last two.
 *
 * If k is the transposition of rows, the rows are read, and nobody needs to transpose them. */
#include "delegates/graph/fuse.h"
#include "delegates/graph/operators.h"
#include "delegates/graph/passes.h"
#include "delegates/graph/text_internal.h"

#include <string.h>

struct match {
	const struct et_graph_node *scores; /* the first bmm */
	uint32_t mask;                      /* or ET_GRAPH_NONE */
	double scale;
};

static const struct et_graph_tensor *tensor_of(const struct et_graph *graph, uint32_t index)
{
	return graph->values[index].tensor;
}

static bool is_called(const struct et_graph_node *node, const char *name)
{
	return strcmp(node->op->name, name) == 0;
}

/* Follow @index back over views that keep the last two dimensions, and are read once. */
static uint32_t without_views(const struct et_graph *graph, uint32_t index)
{
	for (;;) {
		const struct et_graph_node *node = et_graph_only_read_once(graph, index, false);
		if (!node || !(is_called(node, "aten.view_copy.default") || is_called(node, "aten.squeeze_copy.dims") ||
				     is_called(node, "aten.unsqueeze_copy.default")))
			return index;
		const struct et_graph_tensor *to = tensor_of(graph, index), *from = tensor_of(graph, node->args[0]);
		if (to->n_dims < 2 || from->n_dims < 2 || !to->n_bytes ||
			memcmp(to->dims + to->n_dims - 2, from->dims + from->n_dims - 2, 2 * sizeof(uint32_t)) != 0)
			return index;
		index = node->args[0];
	}
}

static const struct et_graph_node *read_once(const struct et_graph *graph, uint32_t index, const char *name)
{
	const struct et_graph_node *node = et_graph_only_read_once(graph, index, false);
	return node && is_called(node, name) ? node : NULL;
}

/* Whether the mask's dimensions in front of the last two are ones, or those of the scores. */
static bool is_mask(const struct et_graph_tensor *mask, const struct et_graph_tensor *scores)
{
	bool is_one = true, is_all = mask->n_dims == scores->n_dims;
	for (uint32_t i = 0; i + 2 < mask->n_dims; i++) {
		is_one = is_one && mask->dims[i] == 1;
		is_all = is_all && mask->dims[i] == scores->dims[i];
	}
	return is_one || is_all;
}

static bool has_same_sizes(const struct et_graph *graph, uint32_t a, uint32_t b)
{
	const struct et_graph_tensor *x = tensor_of(graph, a), *y = tensor_of(graph, b);
	return x->n_dims == y->n_dims && memcmp(x->dims, y->dims, x->n_dims * sizeof(*x->dims)) == 0;
}

/* add(scores, mask, 1), where the scores are either operand. */
static uint32_t without_mask(const struct et_graph *graph, uint32_t index, struct match *match)
{
	const struct et_graph_node *node = read_once(graph, index, "aten.add.Tensor");
	double alpha;
	if (!node || !et_graph_number(graph, node->args[2], &alpha) || alpha != 1)
		return index;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t scores = node->args[i], mask = node->args[1 - i];
		if (!et_graph_only_read_once(graph, scores, false) || !has_same_sizes(graph, scores, index) ||
			graph->values[mask].origin == ET_GRAPH_STATE ||
			!is_mask(tensor_of(graph, mask), tensor_of(graph, scores)))
			continue;
		match->mask = mask;
		return scores;
	}
	return index;
}

/* mul(scores, c) or div(scores, c), where c is a constant of one element. */
static uint32_t without_scale(const struct et_graph *graph, uint32_t index, struct match *match)
{
	const struct et_graph_node *times = read_once(graph, index, "aten.mul.Tensor");
	const struct et_graph_node *node = times ? times : read_once(graph, index, "aten.div.Tensor");
	double d;
	for (uint32_t i = 0; node && i < (times ? 2 : 1); i++) {
		const struct et_graph_value *constant = &graph->values[node->args[1 - i]];
		if (constant->origin != ET_GRAPH_CONSTANT || !constant->tensor->data ||
			!has_same_sizes(graph, node->args[i], index))
			continue;
		uint64_t n = 1;
		for (uint32_t k = 0; k < constant->tensor->n_dims; k++)
			n *= constant->tensor->dims[k] == 1;
		if (!n || !et_graph_load(constant->tensor->data, constant->tensor->type, 0, &d) || (!times && d == 0))
			continue;
		match->scale = times ? d : 1 / d;
		return node->args[i];
	}
	return index;
}

/* Whether @index, the first operand of the second bmm, is the softmax of scores. */
static bool find(const struct et_graph *graph, uint32_t index, struct match *match)
{
	*match = (struct match){ .mask = ET_GRAPH_NONE, .scale = 1 };
	const struct et_graph_node *softmax = read_once(graph, without_views(graph, index), "aten._softmax.default");
	if (!softmax)
		return false;
	const struct et_graph_value *dim = &graph->values[softmax->args[1]];
	uint32_t x = softmax->args[0], n_dims = tensor_of(graph, x)->n_dims;
	if (dim->kind != ET_GRAPH_INT || (dim->i != -1 && dim->i != n_dims - 1) || n_dims < 2)
		return false;
	x = without_mask(graph, without_views(graph, x), match);
	x = without_scale(graph, without_views(graph, x), match);
	match->scores = read_once(graph, without_views(graph, x), "aten.bmm.default");
	if (!match->scores || tensor_of(graph, match->scores->args[0])->n_dims != 3)
		return false;
	/* a state may change before the second bmm */
	return graph->values[match->scores->args[0]].origin != ET_GRAPH_STATE &&
	       graph->values[match->scores->args[1]].origin != ET_GRAPH_STATE;
}

/* Whether the permutation swaps the last two of @n dimensions. */
static bool is_transposition(const struct et_graph *graph, const struct et_graph_node *node, uint32_t n)
{
	const struct et_graph_value *order = &graph->values[node->args[1]];
	for (uint32_t i = 0; order->kind == ET_GRAPH_INTS && i < n; i++) {
		int64_t wanted = i + 2 == n ? n - 1 : i + 1 == n ? n - 2 : i;
		if ((order->list.ints[i] < 0 ? order->list.ints[i] + n : order->list.ints[i]) != wanted)
			return false;
	}
	return order->kind == ET_GRAPH_INTS && n >= 2;
}

/* The rows of which @k is the transposition, or ET_GRAPH_NONE. A squeeze between them is done again, in place of the
 * node that made the scores. */
static uint32_t rows_of(struct et_graph *graph, uint32_t k, struct et_graph_node *slot, bool *has_memory)
{
	const struct et_graph_node *squeeze = et_graph_made_by(graph, k, "aten.squeeze_copy.dims");
	const struct et_graph_node *permute = et_graph_made_by(graph, squeeze ? squeeze->args[0] : k,
		"aten.permute_copy.default");
	uint32_t n_dims = permute ? tensor_of(graph, permute->args[0])->n_dims : 0;
	const struct et_graph_value *dims = squeeze ? &graph->values[squeeze->args[1]] : NULL;
	if (!permute || !is_transposition(graph, permute, n_dims) ||
		graph->values[permute->args[0]].origin == ET_GRAPH_STATE)
		return ET_GRAPH_NONE;
	if (!squeeze)
		return permute->args[0];
	for (uint32_t i = 0; i < dims->list.n; i++)
		if (dims->kind != ET_GRAPH_INTS || dims->list.ints[i] < 0 || dims->list.ints[i] + 2 >= n_dims)
			return ET_GRAPH_NONE;
	const struct et_graph_tensor *before = tensor_of(graph, k);
	uint32_t sizes[3] = { before->dims[0], before->dims[2], before->dims[1] };
	struct et_graph_value rows = { .kind = ET_GRAPH_TENSOR, .producer = ET_GRAPH_NONE };
	rows.tensor = et_graph_new_tensor(graph, before->type, 3, sizes);
	uint32_t *args = ET_POOL_NEW_ARRAY(graph->pool, uint32_t, 2),
		 *results = ET_POOL_NEW_ARRAY(graph->pool, uint32_t, 1);
	*has_memory = rows.tensor && args && results && et_graph_set_bytes(rows.tensor);
	uint32_t index = *has_memory ? et_graph_add_value(graph, &rows) : ET_GRAPH_NONE;
	*has_memory = index != ET_GRAPH_NONE;
	if (!*has_memory)
		return ET_GRAPH_NONE;
	args[0] = permute->args[0];
	args[1] = squeeze->args[1];
	results[0] = index;
	*slot = (struct et_graph_node){
		.op = squeeze->op, .n_args = 2, .args = args, .n_results = 1, .results = results
	};
	return index;
}

static bool replace(struct et_graph *graph, struct et_graph_node *node, const struct match *match)
{
	bool has_memory = true;
	uint32_t *args = ET_POOL_NEW_ARRAY(graph->pool, uint32_t, 6);
	if (!args)
		return false;
	args[0] = match->scores->args[0];
	args[1] = match->scores->args[1];
	args[2] = node->args[1];
	uint32_t rows = rows_of(graph, args[1], (struct et_graph_node *)match->scores, &has_memory);
	if (!has_memory)
		return false;
	if (rows != ET_GRAPH_NONE)
		args[1] = rows;
	args[3] = match->mask == ET_GRAPH_NONE ? et_graph_add_null(graph) : match->mask;
	args[4] = et_graph_add_double(graph, match->scale);
	args[5] = et_graph_add_bool(graph, rows != ET_GRAPH_NONE);
	for (uint32_t i = 0; i < 6; i++)
		if (args[i] == ET_GRAPH_NONE)
			return false;
	node->op = et_graph_operator_find("graph.attention");
	node->n_args = 6;
	node->args = args;
	return true;
}

enum et_status et_graph_fuse_attention(struct et_graph *graph, struct et_diag *diag)
{
	struct match match;
	et_graph_count_users(graph);
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		struct et_graph_node *node = &graph->nodes[i];
		if (!is_called(node, "aten.bmm.default") || node->n_steps ||
			tensor_of(graph, node->args[1])->n_dims != 3 || !find(graph, node->args[0], &match))
			continue;
		if (!replace(graph, node, &match))
			return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to fuse a graph's nodes");
	}
	et_graph_remove_dead(graph);
	return ET_OK;
}
