/* SPDX-License-Identifier: BSD-3-Clause */
/* The check of a whole graph, in the order in which it runs. What was made so far is known at each node, so a value
 * that is read too early, or written twice, is seen. Nothing is trusted but the arrays' lengths: indexes, kinds, sizes
 * and numbers may be anything. Time and memory are in proportion to the nodes and the items of their lists. */
#include "delegates/graph/operand_rules.h"
#include "delegates/graph/operators.h"
#include "delegates/graph/shapes.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <math.h>
#include <string.h>

enum { NOT_MADE, MADE, GONE }; /* GONE: it was a running value of a node before */

struct verifier {
	struct et_graph *graph;
	struct et_diag *diag;
	struct et_pool scratch;
	struct et_graph_size *sizes;
	uint8_t *state;    /* of each value: may it be read by now? */
	uint32_t n_values; /* without the numbers that were put in place of others */
	uint32_t node;
	struct et_graph_node part; /* of the node that is being checked */
};

static enum et_status no_memory(struct verifier *v)
{
	return et_fail(v->diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to check a graph");
}

static enum et_status refuse(struct verifier *v, const char *what, uint32_t arg)
{
	return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY, "node %u, %s: argument %u %s", v->node,
		v->part.op->name, arg, what);
}

static const struct et_graph_value *value_of(const struct verifier *v, uint32_t index)
{
	return &v->graph->values[index];
}

static bool is_readable(const struct verifier *v, uint32_t index)
{
	return index < v->n_values && v->state[index] == MADE;
}

/* --- arguments ------------------------------------------------------------------------------------ */

/* Put a number of the wanted kind in place of argument @arg. */
static enum et_status replace(struct verifier *v, uint32_t arg, const struct et_graph_value *number)
{
	uint32_t index = et_graph_add_value(v->graph, number);
	if (index == ET_GRAPH_NONE)
		return no_memory(v);
	v->part.args[arg] = index;
	return ET_OK;
}

/* Exporters merge numbers that Python thinks equal: 0, 0.0 and False. */
static enum et_status check_number(struct verifier *v, uint32_t arg, enum et_graph_kind wanted)
{
	const struct et_graph_value *value = value_of(v, v->part.args[arg]);
	struct et_graph_value number = { .kind = (uint8_t)wanted, .producer = ET_GRAPH_NONE };
	double d;
	if (value->kind == (uint8_t)wanted)
		return ET_OK;
	if (value->kind == ET_GRAPH_INT)
		d = (double)value->i;
	else if (value->kind == ET_GRAPH_DOUBLE)
		d = value->d;
	else if (value->kind == ET_GRAPH_BOOL)
		d = value->b;
	else
		return refuse(v, "is no number", arg);
	if (wanted == ET_GRAPH_DOUBLE) {
		number.d = d;
	} else if (wanted == ET_GRAPH_BOOL) {
		if (d != 0 && d != 1)
			return refuse(v, "is neither true nor false", arg);
		number.b = d != 0;
	} else {
		if (!(fabs(d) < 9e18) || d != floor(d))
			return refuse(v, "is no whole number", arg);
		number.i = (int64_t)d;
	}
	return replace(v, arg, &number);
}

static enum et_status check_int(struct verifier *v, uint32_t arg)
{
	uint32_t index = v->part.args[arg];
	if (value_of(v, index)->kind != ET_GRAPH_SYMBOL)
		return check_number(v, arg, ET_GRAPH_INT);
	return is_readable(v, index) ? ET_OK : refuse(v, "is read before it is computed", arg);
}

static enum et_status check_scalar(struct verifier *v, uint32_t arg)
{
	uint8_t kind = value_of(v, v->part.args[arg])->kind;
	if (kind == ET_GRAPH_DOUBLE)
		return ET_OK;
	return kind == ET_GRAPH_BOOL ? check_number(v, arg, ET_GRAPH_INT) : check_int(v, arg);
}

static enum et_status check_tensor(struct verifier *v, uint32_t arg)
{
	uint32_t index = v->part.args[arg];
	if (value_of(v, index)->kind != ET_GRAPH_TENSOR)
		return refuse(v, "is no tensor", arg);
	return is_readable(v, index) ? ET_OK : refuse(v, "is read before it is computed", arg);
}

/* @item: the kind of its items besides symbols: ET_GRAPH_INT or ET_GRAPH_TENSOR. */
static enum et_status check_values(struct verifier *v, uint32_t arg, enum et_graph_kind item, bool may_lack)
{
	const struct et_graph_value *list = value_of(v, v->part.args[arg]);
	if (list->kind != ET_GRAPH_VALUES)
		return refuse(v, "is no list of values", arg);
	for (uint32_t i = 0; i < list->list.n; i++) {
		const struct et_graph_value *value = value_of(v, list->list.values[i]);
		bool is_made_here = value->kind == ET_GRAPH_TENSOR || value->kind == ET_GRAPH_SYMBOL;
		if (value->kind == ET_GRAPH_NULL && may_lack)
			continue;
		if (value->kind != (uint8_t)item && (item == ET_GRAPH_TENSOR || value->kind != ET_GRAPH_SYMBOL))
			return refuse(v, "has an item of a wrong kind", arg);
		if (is_made_here && !is_readable(v, list->list.values[i]))
			return refuse(v, "has an item that is read before it is computed", arg);
	}
	return ET_OK;
}

static enum et_status check_sizes(struct verifier *v, uint32_t arg)
{
	const struct et_graph_value *list = value_of(v, v->part.args[arg]);
	if (list->kind == ET_GRAPH_INTS)
		return ET_OK;
	/* An empty list has no kind of its own in Python. */
	if (list->kind == ET_GRAPH_DOUBLES || list->kind == ET_GRAPH_BOOLS)
		return list->list.n ? refuse(v, "is no list of whole numbers", arg) : ET_OK;
	return check_values(v, arg, ET_GRAPH_INT, false);
}

static enum et_status check_doubles(struct verifier *v, uint32_t arg)
{
	const struct et_graph_value *list = value_of(v, v->part.args[arg]);
	struct et_graph_value doubles = { .kind = ET_GRAPH_DOUBLES, .producer = ET_GRAPH_NONE };
	if (list->kind == ET_GRAPH_DOUBLES)
		return ET_OK;
	if (list->kind != ET_GRAPH_INTS)
		return refuse(v, "is no list of numbers", arg);
	doubles.list.n = list->list.n;
	doubles.list.doubles = ET_POOL_NEW_ARRAY(v->graph->pool, double, list->list.n);
	if (!doubles.list.doubles)
		return no_memory(v);
	for (uint32_t i = 0; i < list->list.n; i++)
		doubles.list.doubles[i] = (double)list->list.ints[i];
	return replace(v, arg, &doubles);
}

static enum et_status check_arg(struct verifier *v, uint32_t arg, char letter)
{
	const struct et_graph_value *value = value_of(v, v->part.args[arg]);
	if (letter == '_')
		return value->kind < ET_GRAPH_VALUES ? ET_OK : refuse(v, "is no literal", arg);
	if (value->kind == ET_GRAPH_NULL && strchr("tindbslf", letter))
		return ET_OK;
	switch (letter) {
	case 'T':
	case 't':
		return check_tensor(v, arg);
	case 'I':
	case 'i':
		return check_int(v, arg);
	case 'N':
	case 'n':
		return check_scalar(v, arg);
	case 'D':
	case 'd':
		return check_number(v, arg, ET_GRAPH_DOUBLE);
	case 'B':
	case 'b':
		return check_number(v, arg, ET_GRAPH_BOOL);
	case 'S':
	case 's':
		return value->kind == ET_GRAPH_STRING ? ET_OK : refuse(v, "is no text", arg);
	case 'L':
	case 'l':
		return check_sizes(v, arg);
	case 'f':
		return check_doubles(v, arg);
	case 'E':
		return check_values(v, arg, ET_GRAPH_TENSOR, false);
	default: /* O */
		return check_values(v, arg, ET_GRAPH_TENSOR, true);
	}
}

/* --- results -------------------------------------------------------------------------------------- */

static enum et_status check_sizes_of(struct verifier *v, uint32_t result)
{
	uint32_t index = v->graph->nodes[v->node].results[result];
	const struct et_graph_tensor *tensor = value_of(v, index)->tensor;
	const struct et_graph_size *size = &v->sizes[index];
	if (value_of(v, index)->kind != ET_GRAPH_TENSOR)
		return ET_OK;
	if (size->n_dims == tensor->n_dims &&
		memcmp(size->dims, tensor->dims, tensor->n_dims * sizeof(*size->dims)) == 0)
		return ET_OK;
	return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
		"node %u, %s: result %u is declared with other sizes than its arguments give", v->node,
		v->part.op->name, result);
}

static void declare_sizes(struct verifier *v, uint32_t index)
{
	const struct et_graph_tensor *tensor = value_of(v, index)->tensor;
	if (value_of(v, index)->kind != ET_GRAPH_TENSOR)
		return;
	v->sizes[index].n_dims = tensor->n_dims;
	memcpy(v->sizes[index].dims, tensor->dims, sizeof(tensor->dims));
}

/* A result that lies in another tensor's memory lies in that of the first argument, and within it. */
static enum et_status check_alias(struct verifier *v, uint32_t result)
{
	const struct et_graph_node *node = &v->graph->nodes[v->node];
	const struct et_graph_tensor *tensor = value_of(v, node->results[result])->tensor;
	if (value_of(v, node->results[result])->kind != ET_GRAPH_TENSOR || tensor->alias_of == ET_GRAPH_NONE)
		return ET_OK;
	const struct et_graph_value *of = node->n_args && node->args[0] == tensor->alias_of
						  ? value_of(v, tensor->alias_of)
						  : &(struct et_graph_value){ .kind = ET_GRAPH_NULL };
	uint64_t n = of->kind == ET_GRAPH_TENSOR ? et_scalar_size((enum et_scalar_type)tensor->type) : 0;
	for (uint32_t i = tensor->alias_dim + 1; n && i < of->tensor->n_dims; i++)
		n = et_times(n, of->tensor->dims[i]);
	n = et_times(n, tensor->alias_start);
	if (of->kind != ET_GRAPH_TENSOR || of->tensor->type != tensor->type ||
		(tensor->n_bytes && !et_in_range(n, tensor->n_bytes, of->tensor->n_bytes)))
		return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
			"node %u, %s: result %u does not lie in argument 0", v->node, node->op->name, result);
	return ET_OK;
}

static enum et_status check_types(struct verifier *v)
{
	struct et_diag why = { "" };
	struct et_graph_shapes s = {
		.graph = v->graph, .node = &v->part, .index = v->node, .sizes = v->sizes, .diag = &why
	};
	return et_graph_types_fit(&s) ? ET_OK : et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY, "%s", why.text);
}

/* The results of a part are made by it alone. */
static enum et_status check_results(struct verifier *v)
{
	const struct et_graph_node *node = &v->part;
	uint8_t wanted = strchr(node->op->signature, '>')[1] == 'I' ? ET_GRAPH_SYMBOL : ET_GRAPH_TENSOR;
	for (uint32_t i = 0; i < node->n_results; i++) {
		uint32_t index = node->results[i];
		if (index >= v->n_values || value_of(v, index)->kind != wanted)
			return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY, "node %u, %s: result %u is no %s",
				v->node, node->op->name, i, et_graph_kind_name(wanted));
		if (value_of(v, index)->origin != ET_GRAPH_OF_NODE || v->state[index] != NOT_MADE)
			return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
				"node %u, %s: result %u is written twice, or is no result", v->node, node->op->name, i);
		v->state[index] = MADE;
		v->sizes[index].is_known = false;
	}
	return check_types(v);
}

static enum et_status check_part(struct verifier *v)
{
	const struct et_graph_node *node = &v->part;
	uint32_t n_results, n_args = et_graph_operator_n_args(node->op, &n_results);
	enum et_status status = ET_OK;
	if (node->n_args != n_args || (n_results != UINT32_MAX && node->n_results != n_results))
		return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
			"node %u, %s: %u arguments and %u results, not %u and %u", v->node, node->op->name,
			node->n_args, node->n_results, n_args, n_results);
	for (uint32_t i = 0; i < n_args && status == ET_OK; i++) {
		if (node->args[i] >= v->n_values)
			return refuse(v, "does not exist", i);
		status = check_arg(v, i, node->op->signature[i]);
	}
	for (uint32_t i = 0; i < node->op->n_states && status == ET_OK; i++)
		if (value_of(v, node->args[3 + i])->origin != ET_GRAPH_STATE)
			status = refuse(v, "is no state, but would be changed", 3 + i);
	return status == ET_OK ? check_results(v) : status;
}

/* The running value is read by the step that it goes into, and by nothing else. */
static enum et_status check_step(struct verifier *v, const struct et_graph_step *step)
{
	bool is_read = false;
	for (uint32_t i = 0; i < step->n_args; i++)
		is_read |= step->args[i] == step->input;
	if (!et_graph_operator_is_step(step->op) || !is_read || v->graph->nodes[v->node].n_results != 1)
		return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
			"node %u, %s: it is no step, or does not read the running value", v->node, step->op->name);
	enum et_status status = check_part(v);
	v->state[step->input] = GONE;
	return status;
}

static enum et_status check_node(struct verifier *v)
{
	const struct et_graph_node *node = &v->graph->nodes[v->node];
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i <= node->n_steps && status == ET_OK; i++) {
		v->part = et_graph_part(node, i);
		status = i ? check_step(v, &node->steps[i - 1]) : check_part(v);
	}
	if (status != ET_OK)
		return status;
	v->part = et_graph_part(node, 0);
	status = et_graph_infer(v->graph, v->node, v->sizes, v->diag);
	if (status != ET_OK && status != ET_E_NOT_SUPPORTED)
		return ET_E_DELEGATE_INVALID_COMPATIBILITY;
	if (status == ET_E_NOT_SUPPORTED) { /* the sizes depend on a symbol: the largest are declared */
		for (uint32_t p = 0; p <= node->n_steps; p++) {
			struct et_graph_node part = et_graph_part(node, p);
			for (uint32_t i = 0; i < part.n_results; i++)
				declare_sizes(v, part.results[i]);
		}
		if (et_graph_fits(v->graph, v->node, v->sizes, v->diag) != ET_OK)
			return ET_E_DELEGATE_INVALID_COMPATIBILITY;
	}
	for (uint32_t i = 0; i < node->n_results; i++)
		if (check_sizes_of(v, i) != ET_OK || check_alias(v, i) != ET_OK)
			return ET_E_DELEGATE_INVALID_COMPATIBILITY;
	return ET_OK;
}

/* --- the graph ------------------------------------------------------------------------------------ */

static enum et_status check_values_of_graph(struct verifier *v)
{
	for (uint32_t i = 0; i < v->n_values; i++) {
		const struct et_graph_value *value = value_of(v, i);
		bool is_source = (value->kind == ET_GRAPH_TENSOR || value->kind == ET_GRAPH_SYMBOL) &&
				 value->origin != ET_GRAPH_OF_NODE;
		v->state[i] = is_source ? MADE : NOT_MADE;
		if (is_source && value->kind == ET_GRAPH_TENSOR && value->tensor->alias_of != ET_GRAPH_NONE)
			return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
				"value %u: what no node makes lies in another tensor", i);
		for (uint32_t k = 0; value->kind == ET_GRAPH_VALUES && k < value->list.n; k++)
			if (value->list.values[k] >= v->n_values ||
				value_of(v, value->list.values[k])->kind == ET_GRAPH_VALUES)
				return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
					"value %u: item %u does not exist, or is a list", i, k);
	}
	return ET_OK;
}

static enum et_status check_ends(struct verifier *v, const uint32_t *ends, uint32_t n, bool is_input)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct et_graph_value *value = ends[i] < v->n_values ? value_of(v, ends[i]) : NULL;
		bool is_right = value && (value->kind == ET_GRAPH_TENSOR || value->kind == ET_GRAPH_SYMBOL) &&
				(is_input ? value->origin == ET_GRAPH_INPUT : is_readable(v, ends[i]));
		if (!is_right)
			return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY, "%s %u of the graph is none",
				is_input ? "input" : "output", i);
		for (uint32_t k = 0; k < i && is_input; k++)
			if (ends[k] == ends[i])
				return et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
					"inputs %u and %u of the graph are one", k, i);
	}
	return n || is_input ? ET_OK
			     : et_fail(v->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY, "the graph has no outputs");
}

enum et_status et_graph_verify(struct et_graph *graph, struct et_diag *diag)
{
	struct verifier v = { .graph = graph, .diag = diag, .n_values = graph->n_values };
	enum et_status status = ET_OK;
	et_pool_init(&v.scratch, &graph->pool->allocator);
	v.sizes = ET_POOL_NEW_ARRAY(&v.scratch, struct et_graph_size, graph->n_values);
	v.state = ET_POOL_NEW_ARRAY(&v.scratch, uint8_t, graph->n_values);
	if (!v.sizes || !v.state)
		status = no_memory(&v);
	if (status == ET_OK) {
		et_graph_largest_sizes(graph, v.sizes);
		status = check_values_of_graph(&v);
	}
	if (status == ET_OK)
		status = check_ends(&v, graph->inputs, graph->n_inputs, true);
	for (v.node = 0; v.node < graph->n_nodes && status == ET_OK; v.node++)
		status = check_node(&v);
	if (status == ET_OK)
		status = check_ends(&v, graph->outputs, graph->n_outputs, false);
	if (status == ET_OK)
		et_graph_count_users(graph);
	et_pool_deinit(&v.scratch);
	return status;
}
