/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix products and linear layers, with weights of floats, 8 bits or 4 bits. Shape rules let the rows of weights be
 * wider than those of the input (padding, two weights a byte), so each layer checks what it reads. */
#include "delegates/opencl/steps/quantized_layer.h"

#include "runtime/base/checked.h"
#include "runtime/tensor.h"

/* --- floats --------------------------------------------------------------------------------------- */

/* @bias: the argument, or -1. */
static bool plan_floats(struct ocl_plan *plan, int bias)
{
	bool is_right = ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, 1, ET_FLOAT32) &&
			ocl_want(plan, -1, ET_FLOAT32) && (bias < 0 || ocl_want(plan, bias, ET_FLOAT32));
	return is_right && OCL_USE(plan, 0, "matmul", "", { "T_O", ocl_result_type(plan, 0) },
				   { "T_A", ocl_arg_type(plan, 0) }, { "T_B", ocl_arg_type(plan, 1) },
				   { "T_C", bias < 0 ? ET_FLOAT32 : ocl_arg_type(plan, (uint32_t)bias) });
}

struct product {
	uint64_t n_batches, n_rows, n_columns, n_along;
	int64_t b_batch, b_along, b_column;
	int bias;
};

static bool run_product(struct ocl_call *call, const struct product *p)
{
	const struct et_graph_node *node = call->shapes.node;
	uint64_t n_rows = et_times(p->n_batches, p->n_rows), n = et_times(n_rows, p->n_columns);
	struct ocl_launch launch;
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_int(&launch, (int64_t)p->n_rows);
	ocl_put_int(&launch, (int64_t)p->n_columns);
	ocl_put_int(&launch, (int64_t)p->n_along);
	ocl_put_int(&launch, p->b_batch);
	ocl_put_int(&launch, p->b_along);
	ocl_put_int(&launch, p->b_column);
	ocl_put_int(&launch, ocl_was_given(call, p->bias));
	ocl_put_tensor(call, &launch, node->results[0], n);
	ocl_put_tensor(call, &launch, node->args[0], et_times(n_rows, p->n_along));
	ocl_put_tensor(call, &launch, node->args[1],
		et_times(p->b_batch ? p->n_batches : 1, et_times(p->n_along, p->n_columns)));
	ocl_put_optional(call, &launch, p->bias, p->n_columns);
	return ocl_start(call, &launch, n, p->n_along * 2);
}

static bool plan_linear(struct ocl_plan *plan)
{
	return plan_floats(plan, 2);
}

static bool plan_matmul(struct ocl_plan *plan)
{
	return plan_floats(plan, -1);
}

static bool run_linear(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0), *w = et_graph_arg(&call->shapes, 1);
	uint64_t n_along = w->dims[1];
	if (x->dims[x->n_dims - 1] != n_along)
		return ocl_misfit(call, "rows of %u for weights of %llu", x->dims[x->n_dims - 1],
			(unsigned long long)n_along);
	struct product p = { .n_batches = 1,
		.n_rows = 1,
		.n_columns = w->dims[0],
		.n_along = n_along,
		.b_along = 1,
		.b_column = w->dims[1],
		.bias = 2 };
	for (uint32_t i = 0; i + 1u < x->n_dims; i++)
		p.n_rows = et_times(p.n_rows, x->dims[i]);
	return run_product(call, &p);
}

static bool run_matmul(struct ocl_call *call)
{
	const struct et_graph_size *a = et_graph_arg(&call->shapes, 0), *b = et_graph_arg(&call->shapes, 1);
	uint32_t n = a->n_dims;
	struct product p = { .n_batches = n == 3 ? a->dims[0] : 1,
		.n_rows = a->dims[n - 2],
		.n_columns = b->dims[n - 1],
		.n_along = a->dims[n - 1],
		.b_along = b->dims[n - 1],
		.b_column = 1,
		.bias = -1 };
	if (n == 3)
		p.b_batch = (int64_t)b->dims[1] * b->dims[2];
	return run_product(call, &p);
}

/* --- weights of 8 and 4 bits ---------------------------------------------------------------------- */

static bool plan_quantized(struct ocl_plan *plan)
{
	const struct ocl_quantized_layer *layer = ocl_quantized_layer_find(plan->node->op);
	struct ocl_definition types[1 + OCL_QUANTIZED_TYPES] = { { "T_O", ocl_result_type(plan, 0) } };
	uint8_t w = ocl_arg_type(plan, (uint32_t)layer->w);
	if (w != ET_UINT8 && w != ET_INT8)
		return ocl_refuse(plan, "weights of %s", et_scalar_name(w));
	uint32_t n = ocl_want(plan, -1, ET_FLOAT32) ? ocl_quantized_layer_types(plan, layer, types + 1) : 0;
	return n && ocl_use(plan, 0, "linear_quantized", types, 1 + n, layer->definitions);
}

static bool run_quantized(struct ocl_call *call)
{
	const struct ocl_quantized_layer *layer = ocl_quantized_layer_find(call->shapes.node->op);
	struct ocl_quantized_sizes sizes;
	struct ocl_launch launch;
	if (!ocl_quantized_layer_sizes(call, layer, &sizes))
		return false;
	uint64_t n = et_times(sizes.n_rows, sizes.n_columns);
	ocl_begin(call, &launch, 0);
	ocl_put_quantized_sizes(call, &launch, layer, &sizes, n);
	ocl_put_tensor(call, &launch, call->shapes.node->results[0], n);
	ocl_put_quantized_args(call, &launch, layer, &sizes);
	return ocl_start(call, &launch, n, sizes.n_along * 4);
}

const struct ocl_row ocl_rows_matrix[] = {
	{ "aten._weight_int8pack_mm.default", plan_quantized, run_quantized },
	{ "aten.bmm.default", plan_matmul, run_matmul },
	{ "aten.linear.default", plan_linear, run_linear },
	{ "aten.mm.default", plan_matmul, run_matmul },
	{ "et_vk.linear_dq8ca_q4gsw.default", plan_quantized, run_quantized },
	{ "et_vk.linear_q4gsw.default", plan_quantized, run_quantized },
	{ "et_vk.linear_qcs4w.default", plan_quantized, run_quantized },
	{ NULL },
};
