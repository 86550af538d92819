/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known before any run is computed once. Constants that are views of others share their bytes; a constant that
 * is computed has few elements, so that a graph does not grow by folding. Numbers are computed as the kernels do, in
 * f32.
 *
 * A node that is folded stays until dead code goes; who read its result reads the constant or the literal. */
#include "delegates/graph/fuse.h"
#include "delegates/graph/operators.h"
#include "delegates/graph/passes.h"
#include "delegates/graph/shapes.h"
#include "delegates/graph/text_internal.h"
#include "runtime/tensor.h"

#include <string.h>

enum { MAX_BYTES = 4096 };

struct pass {
	struct et_graph *graph;
	struct et_graph_size *sizes;
	uint32_t *stands_for; /* for each value that was there: the one to read instead, or itself */
	uint32_t n_values;
	bool has_memory;
};

static bool is_called(const struct et_graph_node *node, const char *name)
{
	return strcmp(node->op->name, name) == 0;
}

static const struct et_graph_value *arg_of(const struct pass *pass, const struct et_graph_node *node, uint32_t arg)
{
	return &pass->graph->values[node->args[arg]];
}

static void stand_for(struct pass *pass, uint32_t index, uint32_t other)
{
	if (other == ET_GRAPH_NONE)
		pass->has_memory = false;
	else
		pass->stands_for[index] = other;
}

static bool is_output(const struct et_graph *graph, uint32_t index)
{
	for (uint32_t i = 0; i < graph->n_outputs; i++)
		if (graph->outputs[i] == index)
			return true;
	return false;
}

/* A constant with the sizes and the type of @index, and room for its elements if @data is NULL. */
static void make_constant(struct pass *pass, uint32_t index, const uint8_t *data, uint32_t number)
{
	struct et_graph_value value = {
		.kind = ET_GRAPH_TENSOR, .origin = ET_GRAPH_CONSTANT, .producer = ET_GRAPH_NONE
	};
	const struct et_graph_tensor *like = pass->graph->values[index].tensor;
	value.tensor = et_graph_new_tensor(pass->graph, like->type, like->n_dims, like->dims);
	if (value.tensor) {
		value.tensor->n_bytes = like->n_bytes;
		value.tensor->data = data;
		value.tensor->constant = number;
	}
	stand_for(pass, index, value.tensor ? et_graph_add_value(pass->graph, &value) : ET_GRAPH_NONE);
}

/* --- symbols -------------------------------------------------------------------------------------- */

static void compute_number(struct pass *pass, const struct et_graph_node *node)
{
	struct et_diag unused = { "" };
	uint32_t result = node->results[0];
	bool is_size = is_called(node, "sym_size.int");
	if (is_output(pass->graph, result) || (is_size && node->args[0] >= pass->n_values) ||
		(is_size && arg_of(pass, node, 0)->origin != ET_GRAPH_CONSTANT) ||
		is_called(node, "et_vk.select_as_symint.default"))
		return;
	for (uint32_t i = is_size; i < node->n_args; i++)
		if (arg_of(pass, node, i)->kind != ET_GRAPH_INT)
			return;
	if (et_graph_infer(pass->graph, (uint32_t)(node - pass->graph->nodes), pass->sizes, &unused) == ET_OK)
		stand_for(pass, result, et_graph_add_int(pass->graph, pass->sizes[result].symbol));
}

/* A list of literals alone becomes a list of ints. */
static void compute_list(struct pass *pass, uint32_t *arg)
{
	const struct et_graph_value *list = &pass->graph->values[*arg];
	struct et_graph_value ints = { .kind = ET_GRAPH_INTS, .producer = ET_GRAPH_NONE, .list.n = list->list.n };
	if (list->kind != ET_GRAPH_VALUES || !list->list.n)
		return;
	for (uint32_t i = 0; i < list->list.n; i++)
		if (pass->graph->values[list->list.values[i]].kind != ET_GRAPH_INT)
			return;
	ints.list.ints = ET_POOL_NEW_ARRAY(pass->graph->pool, int64_t, ints.list.n);
	pass->has_memory = pass->has_memory && ints.list.ints;
	for (uint32_t i = 0; i < ints.list.n && ints.list.ints; i++)
		ints.list.ints[i] = pass->graph->values[list->list.values[i]].i;
	uint32_t index = ints.list.ints ? et_graph_add_value(pass->graph, &ints) : ET_GRAPH_NONE;
	if (index == ET_GRAPH_NONE)
		pass->has_memory = false;
	else
		*arg = index;
}

/* --- constants ------------------------------------------------------------------------------------ */

static void compute_full(struct pass *pass, const struct et_graph_node *node)
{
	const struct et_graph_tensor *like = pass->graph->values[node->results[0]].tensor;
	size_t n = like->n_bytes / et_scalar_size((enum et_scalar_type)like->type);
	double number;
	if (arg_of(pass, node, 0)->kind != ET_GRAPH_INTS || !like->n_bytes || like->n_bytes > MAX_BYTES ||
		!et_graph_number(pass->graph, node->args[1], &number))
		return;
	uint8_t *data = et_pool_alloc(pass->graph->pool, like->n_bytes + 64, 64); /* kernels read whole vectors */
	pass->has_memory = pass->has_memory && data;
	for (size_t i = 0; i < n && data; i++)
		if (!et_graph_store(data, like->type, i, number))
			return;
	if (data)
		make_constant(pass, node->results[0], data, ET_GRAPH_NONE);
}

static bool scalar(const struct pass *pass, const struct et_graph_node *node, uint32_t arg, float *ret_f)
{
	const struct et_graph_value *value = arg_of(pass, node, arg);
	double d;
	if (value->kind != ET_GRAPH_TENSOR || value->origin != ET_GRAPH_CONSTANT || !value->tensor->data ||
		value->tensor->type != ET_FLOAT32 || value->tensor->n_bytes != sizeof(float) ||
		!et_graph_load(value->tensor->data, ET_FLOAT32, 0, &d))
		return false;
	*ret_f = (float)d;
	return true;
}

static void compute_scalars(struct pass *pass, const struct et_graph_node *node)
{
	bool is_add = is_called(node, "aten.add.Tensor"), is_sub = is_called(node, "aten.sub.Tensor");
	bool is_mul = is_called(node, "aten.mul.Tensor"), is_div = is_called(node, "aten.div.Tensor");
	double alpha = 1;
	float a, b, result;
	if ((!is_add && !is_sub && !is_mul && !is_div) || !scalar(pass, node, 0, &a) || !scalar(pass, node, 1, &b) ||
		((is_add || is_sub) && !et_graph_number(pass->graph, node->args[2], &alpha)))
		return;
	if (is_mul || is_div)
		result = is_mul ? a * b : a / b;
	else
		result = is_add ? a + (float)alpha * b : a - (float)alpha * b;
	uint8_t *data = et_pool_alloc(pass->graph->pool, sizeof(float) + 64, 64);
	pass->has_memory = pass->has_memory && data;
	if (!data)
		return;
	memcpy(data, &result, sizeof(result));
	make_constant(pass, node->results[0], data, ET_GRAPH_NONE);
}

static void compute_view(struct pass *pass, const struct et_graph_node *node)
{
	const struct et_graph_value *x = arg_of(pass, node, 0);
	if (x->origin == ET_GRAPH_CONSTANT &&
		x->tensor->n_bytes == pass->graph->values[node->results[0]].tensor->n_bytes)
		make_constant(pass, node->results[0], x->tensor->data, x->tensor->constant);
}

static void compute(struct pass *pass, const struct et_graph_node *node)
{
	if (node->n_steps || node->n_results != 1)
		return;
	if (node->op->group == ET_GRAPH_NUMBER) {
		compute_number(pass, node);
		return;
	}
	if (is_output(pass->graph, node->results[0]))
		return;
	if (is_called(node, "aten.full.default"))
		compute_full(pass, node);
	else if (is_called(node, "aten.view_copy.default") || is_called(node, "aten.squeeze_copy.dims") ||
		 is_called(node, "aten.unsqueeze_copy.default"))
		compute_view(pass, node);
	else
		compute_scalars(pass, node);
}

static void replace(struct pass *pass, uint32_t *arg)
{
	struct et_graph_value *value = &pass->graph->values[*arg];
	if (*arg >= pass->n_values)
		return;
	*arg = pass->stands_for[*arg];
	for (uint32_t i = 0; value->kind == ET_GRAPH_VALUES && i < value->list.n; i++)
		if (value->list.values[i] < pass->n_values)
			value->list.values[i] = pass->stands_for[value->list.values[i]];
	compute_list(pass, arg);
}

static void run(struct pass *pass)
{
	struct et_graph *graph = pass->graph;
	for (uint32_t i = 0; i < pass->n_values; i++)
		pass->stands_for[i] = i;
	et_graph_largest_sizes(graph, pass->sizes);
	for (uint32_t n = 0; n < graph->n_nodes && pass->has_memory; n++) {
		const struct et_graph_node *node = &graph->nodes[n];
		for (uint32_t p = 0; p <= node->n_steps; p++) {
			struct et_graph_node part = et_graph_part(node, p);
			for (uint32_t i = 0; i < part.n_args; i++)
				replace(pass, &part.args[i]);
		}
		if (pass->has_memory)
			compute(pass, node);
	}
}

enum et_status et_graph_precompute(struct et_graph *graph, struct et_diag *diag)
{
	struct et_pool scratch;
	et_pool_init(&scratch, &graph->pool->allocator);
	struct pass pass = { .graph = graph, .n_values = graph->n_values, .has_memory = true };
	pass.sizes = ET_POOL_NEW_ARRAY(&scratch, struct et_graph_size, graph->n_values);
	pass.stands_for = ET_POOL_NEW_ARRAY(&scratch, uint32_t, graph->n_values);
	pass.has_memory = pass.sizes && pass.stands_for;
	if (pass.has_memory)
		run(&pass);
	et_pool_deinit(&scratch);
	if (!pass.has_memory)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to fold a graph's constants");
	et_graph_remove_dead(graph);
	return ET_OK;
}
