/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators whose results hold elements of an argument, or one number. All are copies between two views, by the
 * elementwise kernel. A node whose results are aliases never comes here; an output of the graph does. */
#include "delegates/opencl/step.h"

#include "runtime/tensor.h"

#include <string.h>

static void set_compute(struct ocl_plan *plan, uint8_t type)
{
	plan->step->compute = ocl_is_float(type) ? ET_FLOAT32 : type == ET_INT64 ? ET_INT64 : ET_INT32;
}

static bool plan_copy(struct ocl_plan *plan)
{
	uint8_t type = ocl_result_type(plan, 0);
	if (ocl_arg_type(plan, 0) != type)
		return ocl_refuse(plan, "it changes the type");
	for (uint32_t i = 1; i < plan->node->n_results; i++)
		if (ocl_result_type(plan, i) != type)
			return ocl_refuse(plan, "results of two types");
	set_compute(plan, type);
	return ocl_plan_elementwise(plan, 0, "a", type, &type, 1);
}

/* Copy argument 0 to result @i; both views have the same sizes. */
static bool copy(struct ocl_call *call, uint32_t i, const struct ocl_view *to, const struct ocl_view *from)
{
	uint32_t values[] = { call->shapes.node->results[i], call->shapes.node->args[0] };
	struct ocl_view views[] = { *to, *from };
	return ocl_run_elementwise(call, 0, 1, values, views, NULL);
}

/* The same elements in the same order. */
static bool run_same(struct ocl_call *call)
{
	struct ocl_view to = ocl_view_of(et_graph_result(&call->shapes, 0));
	uint64_t n = ocl_view_numel(&to);
	if (n != ocl_numel(et_graph_arg(&call->shapes, 0)))
		return ocl_misfit(call, "the numbers of elements differ");
	to = (struct ocl_view){ .n_dims = 1, .dims = { (uint32_t)n }, .strides = { 1 } };
	return copy(call, 0, &to, &to);
}

static bool run_permute(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct ocl_view to = ocl_view_of(et_graph_result(&call->shapes, 0)), own = ocl_view_of(x), from = to;
	for (uint32_t i = 0; i < to.n_dims; i++) {
		uint32_t dim;
		if (!et_graph_dim(&call->shapes, et_graph_item(&call->shapes, 1, i), x->n_dims, &dim))
			return false;
		from.strides[i] = own.strides[dim];
	}
	return copy(call, 0, &to, &from);
}

static bool run_expand(struct ocl_call *call)
{
	const struct et_graph_size *result = et_graph_result(&call->shapes, 0);
	struct ocl_view to = ocl_view_of(result), from = ocl_view_as(et_graph_arg(&call->shapes, 0), result);
	return copy(call, 0, &to, &from);
}

static bool run_slice(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct ocl_view to = ocl_view_of(et_graph_result(&call->shapes, 0)), own = ocl_view_of(x), from = to;
	uint32_t dim;
	int64_t start = et_graph_int(&call->shapes, 2, 0), step = et_graph_int(&call->shapes, 4, 1);
	if (!et_graph_dim(&call->shapes, et_graph_int(&call->shapes, 1, 0), x->n_dims, &dim))
		return false;
	if (start < 0)
		start += x->dims[dim];
	start = start < 0 ? 0 : start > x->dims[dim] ? x->dims[dim] : start;
	for (uint32_t i = 0; i < to.n_dims; i++)
		from.strides[i] = own.strides[i];
	if (to.dims[dim] > 1)
		from.strides[dim] *= step; /* so it is below the dimension's size */
	from.start = start * own.strides[dim];
	return copy(call, 0, &to, &from);
}

static bool run_select(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct ocl_view to = ocl_view_of(et_graph_result(&call->shapes, 0)), own = ocl_view_of(x), from = to;
	uint32_t dim;
	int64_t index = et_graph_int(&call->shapes, 2, 0);
	if (!et_graph_dim(&call->shapes, et_graph_int(&call->shapes, 1, 0), x->n_dims, &dim))
		return false;
	for (uint32_t i = 0; i < to.n_dims; i++)
		from.strides[i] = own.strides[i + (i >= dim)];
	from.start = (index < 0 ? index + x->dims[dim] : index) * own.strides[dim];
	return copy(call, 0, &to, &from);
}

static bool run_split(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct ocl_view own = ocl_view_of(x);
	const struct et_graph_node *node = call->shapes.node;
	int64_t start = 0;
	uint32_t dim;
	if (!et_graph_dim(&call->shapes, et_graph_int(&call->shapes, 2, 0), x->n_dims, &dim))
		return false;
	for (uint32_t i = 0; i < node->n_results; i++) {
		struct ocl_view to = ocl_view_of(et_graph_result(&call->shapes, i)), from = to;
		memcpy(from.strides, own.strides, sizeof(own.strides));
		from.start = start * own.strides[dim];
		start += to.dims[dim];
		if (call->shapes.graph->values[node->results[i]].tensor->alias_of == ET_GRAPH_NONE &&
			!copy(call, i, &to, &from))
			return false;
	}
	return true;
}

static bool run_flip(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct ocl_view to = ocl_view_of(et_graph_result(&call->shapes, 0)), from = to;
	uint32_t is_flipped = 0;
	for (uint32_t i = 0; i < et_graph_n_items(&call->shapes, 1); i++) {
		uint32_t dim;
		if (!et_graph_dim(&call->shapes, et_graph_item(&call->shapes, 1, i), x->n_dims, &dim))
			return false;
		is_flipped |= 1u << dim;
	}
	for (uint32_t dim = 0; dim < x->n_dims; dim++) {
		if (!(is_flipped & 1u << dim) || !x->dims[dim])
			continue;
		from.start += (int64_t)(x->dims[dim] - 1) * from.strides[dim];
		from.strides[dim] = -from.strides[dim];
	}
	return copy(call, 0, &to, &from);
}

/* --- several tensors ------------------------------------------------------------------------------ */

static bool plan_cat(struct ocl_plan *plan)
{
	uint8_t type = ocl_result_type(plan, 0);
	const struct et_graph_value *list = &plan->graph->values[plan->node->args[0]];
	for (uint32_t i = 0; i < list->list.n; i++)
		if (plan->graph->values[list->list.values[i]].tensor->type != type)
			return ocl_refuse(plan, "tensors of two types");
	set_compute(plan, type);
	return ocl_plan_elementwise(plan, 0, "a", type, &type, 1);
}

static bool run_cat(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_value *list = &call->shapes.graph->values[node->args[0]];
	struct ocl_view whole = ocl_view_of(et_graph_result(&call->shapes, 0));
	int64_t start = 0;
	uint32_t dim;
	if (!et_graph_dim(&call->shapes, et_graph_int(&call->shapes, 1, 0), whole.n_dims, &dim))
		return false;
	for (uint32_t i = 0; i < list->list.n; i++) {
		const struct et_graph_size *x = et_graph_tensor_item(&call->shapes, 0, i);
		struct ocl_view to = ocl_view_of(x), from = to;
		uint32_t values[] = { node->results[0], list->list.values[i] };
		if (!ocl_view_numel(&to)) /* also the empty tensor that goes with everything */
			continue;
		memcpy(to.strides, whole.strides, sizeof(to.strides));
		to.start = start * whole.strides[dim];
		start += to.dims[dim];
		if (!ocl_run_elementwise(call, 0, 1, values, (struct ocl_view[]){ to, from }, NULL))
			return false;
	}
	return true;
}

/* --- numbers -------------------------------------------------------------------------------------- */

static bool plan_fill(struct ocl_plan *plan)
{
	set_compute(plan, ocl_result_type(plan, 0));
	return ocl_plan_elementwise(plan, 0, "p[0]", ocl_result_type(plan, 0), NULL, 0);
}

/* Fill the result with the number in argument @arg. */
static bool fill(struct ocl_call *call, uint32_t arg)
{
	struct ocl_view to = ocl_view_of(et_graph_result(&call->shapes, 0));
	bool is_symbol = call->shapes.graph->values[call->shapes.node->args[arg]].kind == ET_GRAPH_SYMBOL;
	double numbers[8] = { is_symbol ? (double)et_graph_int(&call->shapes, arg, 0)
					: et_graph_double(&call->shapes, arg, 0) };
	return ocl_run_elementwise(call, 0, 0, &call->shapes.node->results[0], &to, numbers);
}

static bool run_full(struct ocl_call *call)
{
	return fill(call, 1);
}

static bool plan_arange(struct ocl_plan *plan)
{
	set_compute(plan, ocl_result_type(plan, 0));
	return ocl_plan_elementwise(plan, 0, "p[0] + i * p[1]", ocl_result_type(plan, 0), NULL, 0);
}

static bool run_arange(struct ocl_call *call)
{
	struct ocl_view to = ocl_view_of(et_graph_result(&call->shapes, 0));
	double numbers[8];
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t arg = 2 * i;
		bool is_symbol = call->shapes.graph->values[call->shapes.node->args[arg]].kind == ET_GRAPH_SYMBOL;
		numbers[i] = is_symbol ? (double)et_graph_int(&call->shapes, arg, 0)
				       : et_graph_double(&call->shapes, arg, i);
	}
	return ocl_run_elementwise(call, 0, 0, &call->shapes.node->results[0], &to, numbers);
}

/* Kernel 0 fills the result, then kernel 1 copies what of the argument lies in it. */
static bool plan_pad(struct ocl_plan *plan)
{
	uint8_t type = ocl_result_type(plan, 0);
	if (ocl_arg_type(plan, 0) != type)
		return ocl_refuse(plan, "it changes the type");
	return plan_fill(plan) && ocl_plan_elementwise(plan, 1, "a", type, &type, 1);
}

static bool run_pad(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct ocl_view whole = ocl_view_of(et_graph_result(&call->shapes, 0)), own = ocl_view_of(x), to = whole,
			from = own;
	uint32_t values[] = { call->shapes.node->results[0], call->shapes.node->args[0] };
	for (uint32_t i = 0; i < et_graph_n_items(&call->shapes, 1) / 2; i++) {
		uint32_t dim = x->n_dims - 1 - i;
		int64_t before = et_graph_item(&call->shapes, 1, 2 * i),
			behind = et_graph_item(&call->shapes, 1, 2 * i + 1);
		/* negative: so many elements of the argument are left out */
		int64_t n = (int64_t)x->dims[dim] + (before < 0 ? before : 0) + (behind < 0 ? behind : 0);
		to.dims[dim] = from.dims[dim] = n > 0 ? (uint32_t)n : 0;
		to.start += (before > 0 ? before : 0) * whole.strides[dim];
		from.start += (before < 0 ? -before : 0) * own.strides[dim];
	}
	for (uint32_t i = 0; i < x->n_dims; i++)
		to.dims[i] = from.dims[i];
	return fill(call, 2) && ocl_run_elementwise(call, 1, 1, values, (struct ocl_view[]){ to, from }, NULL);
}

const struct ocl_row ocl_rows_movement[] = {
	{ "aten.arange.start_step", plan_arange, run_arange },
	{ "aten.cat.default", plan_cat, run_cat },
	{ "aten.clone.default", plan_copy, run_same },
	{ "aten.constant_pad_nd.default", plan_pad, run_pad },
	{ "aten.expand_copy.default", plan_copy, run_expand },
	{ "aten.flip.default", plan_copy, run_flip },
	{ "aten.full.default", plan_fill, run_full },
	{ "aten.full_like.default", plan_fill, run_full },
	{ "aten.permute_copy.default", plan_copy, run_permute },
	{ "aten.select_copy.int", plan_copy, run_select },
	{ "aten.slice_copy.Tensor", plan_copy, run_slice },
	{ "aten.split_with_sizes_copy.default", plan_copy, run_split },
	{ "aten.squeeze_copy.dims", plan_copy, run_same },
	{ "aten.unsqueeze_copy.default", plan_copy, run_same },
	{ "aten.view_copy.default", plan_copy, run_same },
	{ "et_vk.prepack.default", plan_copy, run_same },
	{ NULL },
};
