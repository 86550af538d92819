/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions along some dimensions, and softmax. The row of a reduction has its definitions: what is better, whether
 * elements are added, whether the place is the result. */
#include "delegates/opencl/step.h"

#include "runtime/tensor.h"

#include <string.h>

static bool plan_reduce(struct ocl_plan *plan)
{
	uint8_t x = ocl_arg_type(plan, 0), result = ocl_result_type(plan, 0);
	bool is_index = strstr(plan->step->row->text, "IS_INDEX") != NULL;
	if (is_index && !ocl_want(plan, -1, ET_INT32))
		return false;
	plan->step->compute = ocl_is_float(x) || (!is_index && ocl_is_float(result)) ? ET_FLOAT32
			      : x == ET_INT64 || result == ET_INT64                  ? ET_INT64
										     : ET_INT32;
	return OCL_USE(plan, 0, "reduce", plan->step->row->text, { "T_O", result }, { "T_A", x });
}

/* @is_reduced: for each dimension of x. */
static bool run_reduced(struct ocl_call *call, const bool *is_reduced)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct ocl_view own = ocl_view_of(x), kept = { 0 }, reduced = { 0 };
	for (uint32_t i = 0; i < x->n_dims; i++) {
		struct ocl_view *to = is_reduced[i] ? &reduced : &kept;
		to->dims[to->n_dims] = x->dims[i];
		to->strides[to->n_dims++] = own.strides[i];
	}
	uint64_t n = ocl_view_numel(&kept), n_inner = ocl_view_numel(&reduced);
	struct ocl_launch launch;
	if (!n_inner && !strstr(call->step->row->text, "IS_SUM") && n)
		return ocl_misfit(call, "nothing to choose from");
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_int(&launch, kept.n_dims);
	ocl_put_sizes(&launch, kept.dims, 8);
	ocl_put_strides(&launch, &kept);
	ocl_put_int(&launch, (int64_t)n_inner);
	ocl_put_int(&launch, reduced.n_dims);
	ocl_put_sizes(&launch, reduced.dims, 8);
	ocl_put_strides(&launch, &reduced);
	ocl_put_tensor(call, &launch, node->results[0], n);
	ocl_put_tensor(call, &launch, node->args[0], ocl_numel(x));
	return ocl_start(call, &launch, n, n_inner * 4);
}

static bool run_reduce(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	bool is_reduced[ET_GRAPH_MAX_DIMS] = { false };
	uint32_t n = et_graph_n_items(&call->shapes, 1);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t dim;
		if (!et_graph_dim(&call->shapes, et_graph_item(&call->shapes, 1, i), x->n_dims, &dim))
			return false;
		is_reduced[dim] = true;
	}
	if (!n)
		memset(is_reduced, true, sizeof(is_reduced));
	return run_reduced(call, is_reduced);
}

static bool run_reduce_one(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	bool is_reduced[ET_GRAPH_MAX_DIMS] = { false };
	uint32_t dim;
	if (call->shapes.graph->values[call->shapes.node->args[1]].kind == ET_GRAPH_NULL) {
		memset(is_reduced, true, sizeof(is_reduced));
	} else {
		if (!et_graph_dim(&call->shapes, et_graph_int(&call->shapes, 1, 0), x->n_dims, &dim))
			return false;
		is_reduced[dim] = true;
	}
	return run_reduced(call, is_reduced);
}

/* --- softmax -------------------------------------------------------------------------------------- */

static bool plan_softmax(struct ocl_plan *plan)
{
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, -1, ET_FLOAT32) &&
	       OCL_USE(plan, 0, "softmax", "", { "T_O", ocl_result_type(plan, 0) }, { "T_A", ocl_arg_type(plan, 0) });
}

static bool run_softmax(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	uint64_t n = ocl_numel(x), n_inner = 1, n_along;
	struct ocl_launch launch;
	uint32_t dim;
	if (!et_graph_dim(&call->shapes, et_graph_int(&call->shapes, 1, 0), x->n_dims, &dim))
		return false;
	for (uint32_t i = dim + 1; i < x->n_dims; i++)
		n_inner *= x->dims[i];
	n_along = x->n_dims ? x->dims[dim] : 1;
	uint64_t n_rows = n ? n / n_along : 0;
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n_rows);
	ocl_put_int(&launch, (int64_t)n_along);
	ocl_put_int(&launch, n ? (int64_t)n_inner : 1);
	ocl_put_tensor(call, &launch, call->shapes.node->results[0], n);
	ocl_put_tensor(call, &launch, call->shapes.node->args[0], n);
	return ocl_start(call, &launch, n_rows, n_along * 16);
}

const struct ocl_row ocl_rows_reduce[] = {
	{ "aten._softmax.default", plan_softmax, run_softmax },
	{ "aten.amax.default", plan_reduce, run_reduce, "#define BETTER >\n" },
	{ "aten.amin.default", plan_reduce, run_reduce, "#define BETTER <\n" },
	{ "aten.argmax.default", plan_reduce, run_reduce_one, "#define BETTER >\n#define IS_INDEX\n" },
	{ "aten.argmin.default", plan_reduce, run_reduce_one, "#define BETTER <\n#define IS_INDEX\n" },
	{ "aten.mean.dim", plan_reduce, run_reduce, "#define IS_SUM\n#define IS_MEAN\n" },
	{ "aten.sum.dim_IntList", plan_reduce, run_reduce, "#define IS_SUM\n" },
	{ NULL },
};
