/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that take elements at places which tensors hold. The kernel reads each place once, and checks it: what is
 * out of range gives 0, and the run fails when all kernels have ended. */
#include "delegates/opencl/step.h"

#include "runtime/tensor.h"

#include <stdio.h>
#include <string.h>

enum { MAX_INDEXES = 4 };

/* One tensor of indexes: along which dimension of x, and its view with the sizes of the result. */
struct index {
	uint32_t value;
	struct ocl_view view;
	uint32_t n;   /* the size of the dimension */
	int64_t step; /* its stride */
};

static bool plan_gather(struct ocl_plan *plan, const uint8_t *types, uint32_t n)
{
	static const char *const names[] = { "T_I0", "T_I1", "T_I2", "T_I3" };
	struct ocl_definition definitions[1 + MAX_INDEXES] = { { "T_O", ocl_result_type(plan, 0) } };
	uint8_t type = ocl_result_type(plan, 0);
	char more[64];
	if (!n || n > MAX_INDEXES)
		return ocl_refuse(plan, "%u tensors of indexes, at most %u", n, MAX_INDEXES);
	for (uint32_t i = 0; i < n; i++) {
		if (types[i] != ET_INT32 && types[i] != ET_INT64)
			return ocl_refuse(plan, "indexes of %s", et_scalar_name(types[i]));
		definitions[1 + i] = (struct ocl_definition){ names[i], types[i] };
	}
	snprintf(more, sizeof(more), "#define INDEXES %u\n", n);
	plan->step->compute = ocl_is_float(type) ? ET_FLOAT32 : type == ET_INT64 ? ET_INT64 : ET_INT32;
	return ocl_use(plan, 0, "gather", definitions, 1 + n, more);
}

static bool run_gather(struct ocl_call *call, uint32_t x, const struct ocl_view *from, bool wraps,
	const struct index *indexes, uint32_t n)
{
	const struct et_graph_size *result = et_graph_result(&call->shapes, 0);
	struct ocl_view to = ocl_view_of(result);
	struct ocl_launch launch;
	uint64_t n_elements = ocl_numel(result);
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n_elements);
	ocl_put_int(&launch, to.n_dims);
	ocl_put_sizes(&launch, to.dims, 8);
	ocl_put_tensor(call, &launch, call->shapes.node->results[0], n_elements);
	/* All of x: its dimensions are the view's and those of the indexes. */
	ocl_put_tensor(call, &launch, x, ocl_numel(&call->shapes.sizes[x]));
	ocl_put_strides(&launch, from);
	ocl_put_int(&launch, wraps);
	ocl_put_error(call, &launch);
	for (uint32_t i = 0; i < n; i++) {
		ocl_put_view(call, &launch, indexes[i].value, &indexes[i].view);
		ocl_put_strides(&launch, &indexes[i].view);
		ocl_put_int(&launch, indexes[i].n);
		ocl_put_int(&launch, indexes[i].step);
	}
	return ocl_start(call, &launch, n_elements, 8);
}

/* --- embedding(weights, indices) ------------------------------------------------------------------ */

static bool plan_embedding(struct ocl_plan *plan)
{
	uint8_t type = ocl_arg_type(plan, 1);
	if (ocl_arg_type(plan, 0) != ocl_result_type(plan, 0))
		return ocl_refuse(plan, "it changes the type");
	return plan_gather(plan, &type, 1);
}

static bool run_embedding(struct ocl_call *call)
{
	const struct et_graph_size *w = et_graph_arg(&call->shapes, 0), *indices = et_graph_arg(&call->shapes, 1);
	struct ocl_view from = ocl_view_of(et_graph_result(&call->shapes, 0));
	struct index index = {
		.value = call->shapes.node->args[1], .view = ocl_view_of(indices), .n = w->dims[0], .step = w->dims[1]
	};
	memset(from.strides, 0, sizeof(from.strides));
	from.strides[from.n_dims - 1] = 1;
	index.view.n_dims = from.n_dims;
	memcpy(index.view.dims, from.dims, sizeof(from.dims));
	index.view.strides[from.n_dims - 1] = 0;
	return run_gather(call, call->shapes.node->args[0], &from, false, &index, 1);
}

/* --- gather(x, dim, indices) ---------------------------------------------------------------------- */

static bool plan_gather_dim(struct ocl_plan *plan)
{
	uint8_t type = ocl_arg_type(plan, 2);
	if (ocl_arg_type(plan, 0) != ocl_result_type(plan, 0))
		return ocl_refuse(plan, "it changes the type");
	return plan_gather(plan, &type, 1);
}

static bool run_gather_dim(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0), *result = et_graph_result(&call->shapes, 0);
	struct ocl_view from = ocl_view_of(x);
	uint32_t dim;
	if (!et_graph_dim(&call->shapes, et_graph_int(&call->shapes, 1, 0), x->n_dims, &dim))
		return false;
	for (uint32_t i = 0; i < x->n_dims; i++)
		if (i != dim && result->dims[i] > x->dims[i])
			return ocl_misfit(call, "%u indices for a size of %u", result->dims[i], x->dims[i]);
	struct index index = { .value = call->shapes.node->args[2],
		.view = ocl_view_of(result),
		.n = x->n_dims ? x->dims[dim] : 1,
		.step = x->n_dims ? from.strides[dim] : 1 };
	if (x->n_dims)
		from.strides[dim] = 0;
	return run_gather(call, call->shapes.node->args[0], &from, false, &index, 1);
}

/* --- index(x, tensors) ---------------------------------------------------------------------------- */

static bool plan_index(struct ocl_plan *plan)
{
	const struct et_graph_value *list = &plan->graph->values[plan->node->args[1]];
	uint8_t types[ET_GRAPH_MAX_DIMS];
	uint32_t n = 0;
	if (ocl_arg_type(plan, 0) != ocl_result_type(plan, 0))
		return ocl_refuse(plan, "it changes the type");
	for (uint32_t i = 0; i < list->list.n && n < ET_GRAPH_MAX_DIMS; i++) {
		const struct et_graph_value *item = &plan->graph->values[list->list.values[i]];
		if (item->kind == ET_GRAPH_TENSOR)
			types[n++] = item->tensor->type;
	}
	return plan_gather(plan, types, n);
}

/* The dimensions that have indices became one block of dimensions: where they are if they follow each other, else in
 * front (shape_rules.c). */
static bool run_index(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0), *result = et_graph_result(&call->shapes, 0);
	const struct et_graph_value *list = &call->shapes.graph->values[call->shapes.node->args[1]];
	struct ocl_view own = ocl_view_of(x), from = ocl_view_of(result);
	struct index indexes[MAX_INDEXES];
	uint32_t n = 0, first = 0, last = 0, n_block = result->n_dims, at;
	for (uint32_t i = 0; i < list->list.n; i++) {
		if (!et_graph_tensor_item(&call->shapes, 1, i))
			continue;
		if (!n)
			first = i;
		last = i;
		if (n == MAX_INDEXES)
			return ocl_misfit(call, "too many indexes");
		indexes[n++] = (struct index){ .value = list->list.values[i], .n = x->dims[i], .step = own.strides[i] };
	}
	n_block = result->n_dims + n - x->n_dims;
	at = last - first + 1 == n ? first : 0;
	/* Dimensions of x without an index keep their stride. */
	memset(from.strides, 0, sizeof(from.strides));
	for (uint32_t i = 0, to = 0; i < x->n_dims; i++) {
		if (i < list->list.n && et_graph_tensor_item(&call->shapes, 1, i))
			continue;
		if (to == at)
			to += n_block;
		if (to < ET_GRAPH_MAX_DIMS)
			from.strides[to] = own.strides[i];
		to++;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct et_graph_size block = { .n_dims = (uint8_t)n_block };
		memcpy(block.dims, result->dims + at, n_block * sizeof(*block.dims));
		struct ocl_view view = ocl_view_as(&call->shapes.sizes[indexes[i].value], &block);
		indexes[i].view = ocl_view_of(result);
		memset(indexes[i].view.strides, 0, sizeof(view.strides));
		memcpy(indexes[i].view.strides + at, view.strides, n_block * sizeof(*view.strides));
	}
	return run_gather(call, call->shapes.node->args[0], &from, true, indexes, n);
}

const struct ocl_row ocl_rows_gather[] = {
	{ "aten.embedding.default", plan_embedding, run_embedding },
	{ "aten.gather.default", plan_gather_dim, run_gather_dim },
	{ "aten.index.Tensor", plan_index, run_index },
	{ NULL },
};
