/* SPDX-License-Identifier: BSD-3-Clause */
/* What shape rules read and write: sizes of arguments, numbers that are literals or symbols. */
#include "delegates/graph/shapes.h"

#include "delegates/graph/operators.h"
#include "delegates/graph/shape_rules.h"
#include "runtime/base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct et_graph_value *arg_value(const struct et_graph_shapes *s, uint32_t arg)
{
	return &s->graph->values[s->node->args[arg]];
}

const struct et_graph_size *et_graph_arg(const struct et_graph_shapes *s, uint32_t arg)
{
	return arg_value(s, arg)->kind == ET_GRAPH_TENSOR ? &s->sizes[s->node->args[arg]] : NULL;
}

struct et_graph_size *et_graph_result(const struct et_graph_shapes *s, uint32_t result)
{
	return &s->sizes[s->node->results[result]];
}

static int64_t number(struct et_graph_shapes *s, uint32_t index, int64_t absent)
{
	const struct et_graph_value *value = &s->graph->values[index];
	if (value->kind == ET_GRAPH_INT)
		return value->i;
	if (value->kind != ET_GRAPH_SYMBOL)
		return absent;
	s->is_unknown |= !s->sizes[index].is_known;
	return s->sizes[index].symbol;
}

int64_t et_graph_int(struct et_graph_shapes *s, uint32_t arg, int64_t absent)
{
	return number(s, s->node->args[arg], absent);
}

double et_graph_double(const struct et_graph_shapes *s, uint32_t arg, double absent)
{
	const struct et_graph_value *value = arg_value(s, arg);
	if (value->kind == ET_GRAPH_INT)
		return (double)value->i;
	return value->kind == ET_GRAPH_DOUBLE ? value->d : absent;
}

bool et_graph_bool(const struct et_graph_shapes *s, uint32_t arg)
{
	const struct et_graph_value *value = arg_value(s, arg);
	return value->kind == ET_GRAPH_BOOL && value->b;
}

uint32_t et_graph_n_items(const struct et_graph_shapes *s, uint32_t arg)
{
	const struct et_graph_value *value = arg_value(s, arg);
	return value->kind >= ET_GRAPH_INTS && value->kind <= ET_GRAPH_VALUES ? value->list.n : 0;
}

int64_t et_graph_item(struct et_graph_shapes *s, uint32_t arg, uint32_t index)
{
	const struct et_graph_value *value = arg_value(s, arg);
	return value->kind == ET_GRAPH_INTS ? value->list.ints[index] : number(s, value->list.values[index], 0);
}

const struct et_graph_size *et_graph_tensor_item(const struct et_graph_shapes *s, uint32_t arg, uint32_t index)
{
	uint32_t item = arg_value(s, arg)->list.values[index];
	return s->graph->values[item].kind == ET_GRAPH_TENSOR ? &s->sizes[item] : NULL;
}

bool et_graph_dim(struct et_graph_shapes *s, int64_t dim, uint32_t n_dims, uint32_t *ret_dim)
{
	int64_t n = n_dims ? n_dims : 1; /* as in PyTorch: a number has dimension 0 */
	if (dim < -n || dim >= n)
		return et_graph_misfit(s, "dimension %lld of %u", (long long)dim, n_dims);
	*ret_dim = (uint32_t)(dim < 0 ? dim + n : dim);
	return true;
}

bool et_graph_take_size(const struct et_graph_shapes *s, int64_t size, uint32_t *ret_size)
{
	if (size < 0 || size > UINT32_MAX)
		return et_graph_misfit(s, "a size of %lld", (long long)size);
	*ret_size = (uint32_t)size;
	return true;
}

bool et_graph_misfit(const struct et_graph_shapes *s, const char *format, ...)
{
	char text[200];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	et_fail(s->diag, ET_E_INVALID_ARGUMENT, "node %u, %s: %s", s->index, s->node->op->name, text);
	return false;
}

void et_graph_largest_sizes(const struct et_graph *graph, struct et_graph_size *sizes)
{
	memset(sizes, 0, graph->n_values * sizeof(*sizes));
	for (uint32_t i = 0; i < graph->n_values; i++) {
		if (graph->values[i].kind != ET_GRAPH_TENSOR)
			continue;
		const struct et_graph_tensor *tensor = graph->values[i].tensor;
		sizes[i].n_dims = tensor->n_dims;
		memcpy(sizes[i].dims, tensor->dims, sizeof(sizes[i].dims));
	}
}

static uint64_t numel(const uint32_t *dims, uint32_t n_dims)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		n = et_times(n, dims[i]);
	return n;
}

/* A place has room for the declared sizes. The elements count: one size may become larger when another one shrinks. */
static bool is_within_declared(struct et_graph_shapes *s)
{
	for (uint32_t i = 0; i < s->node->n_results; i++) {
		const struct et_graph_value *value = &s->graph->values[s->node->results[i]];
		const struct et_graph_size *size = et_graph_result(s, i);
		if (value->kind != ET_GRAPH_TENSOR)
			continue;
		if (size->n_dims != value->tensor->n_dims ||
			numel(size->dims, size->n_dims) > numel(value->tensor->dims, value->tensor->n_dims))
			return et_graph_misfit(s, "result %u is declared with other sizes than its arguments give", i);
	}
	return true;
}

/* A step leaves the sizes as they are. */
static bool is_same_size(struct et_graph_shapes *s, const struct et_graph_size *before)
{
	const struct et_graph_size *size = et_graph_result(s, 0);
	return (size->n_dims == before->n_dims &&
		       memcmp(size->dims, before->dims, size->n_dims * sizeof(*size->dims)) == 0) ||
	       et_graph_misfit(s, "the step changes the sizes");
}

enum et_status et_graph_infer(const struct et_graph *graph, uint32_t node, struct et_graph_size *sizes,
	struct et_diag *diag)
{
	struct et_diag why = { "" };
	struct et_graph_node part;
	struct et_graph_shapes s = { .graph = graph, .node = &part, .index = node, .sizes = sizes, .diag = &why };
	bool is_right = true;
	for (uint32_t i = 0; i <= graph->nodes[node].n_steps && is_right; i++) {
		const struct et_graph_size *before = i ? &sizes[graph->nodes[node].steps[i - 1].input] : NULL;
		part = et_graph_part(&graph->nodes[node], i);
		is_right = part.op->infer(&s);
		if (s.is_unknown)
			return ET_E_NOT_SUPPORTED;
		is_right = is_right && (!before || is_same_size(&s, before)) && part.op->fits(&s) &&
			   is_within_declared(&s);
	}
	return is_right ? ET_OK : et_fail(diag, ET_E_INVALID_ARGUMENT, "%s", why.text);
}

enum et_status et_graph_fits(const struct et_graph *graph, uint32_t node, struct et_graph_size *sizes,
	struct et_diag *diag)
{
	struct et_diag why = { "" };
	struct et_graph_node part;
	struct et_graph_shapes s = { .graph = graph, .node = &part, .index = node, .sizes = sizes, .diag = &why };
	bool is_right = true;
	for (uint32_t i = 0; i <= graph->nodes[node].n_steps && is_right; i++) {
		part = et_graph_part(&graph->nodes[node], i);
		is_right = part.op->fits(&s);
	}
	return is_right ? ET_OK : et_fail(diag, ET_E_INVALID_ARGUMENT, "%s", why.text);
}
