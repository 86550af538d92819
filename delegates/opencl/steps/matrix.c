/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix products and linear layers, with weights of floats, 8 bits or 4 bits. Shape rules let the rows of weights be
 * wider than those of the input (padding, two weights a byte), so each layer checks what it reads. */
#include "delegates/opencl/step.h"

#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <string.h>

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
	bool has_bias = p->bias >= 0 && call->shapes.graph->values[node->args[p->bias]].kind != ET_GRAPH_NULL;
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
	ocl_put_int(&launch, has_bias);
	ocl_put_tensor(call, &launch, node->results[0], n);
	ocl_put_tensor(call, &launch, node->args[0], et_times(n_rows, p->n_along));
	ocl_put_tensor(call, &launch, node->args[1],
		et_times(p->b_batch ? p->n_batches : 1, et_times(p->n_along, p->n_columns)));
	if (has_bias) {
		ocl_put_tensor(call, &launch, node->args[p->bias], p->n_columns);
	} else {
		ocl_put_error(call, &launch);
		ocl_put(&launch, &(cl_ulong){ 0 }, sizeof(cl_ulong));
	}
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

/* Where the arguments of a layer are; -1: there is none. */
struct layer {
	int w, scales, group, bias, x_scale, x_zero;
};
static const struct layer int8_layer = { 1, 2, -1, -1, -1, -1 }, q4gsw_layer = { 1, 2, 3, 4, -1, -1 },
			  dq8ca_layer = { 3, 5, 6, 7, 1, 2 };

static bool plan_quantized(struct ocl_plan *plan, const struct layer *layer)
{
	bool is_dynamic = layer->x_scale >= 0;
	uint8_t w = ocl_arg_type(plan, (uint32_t)layer->w);
	if (w != ET_UINT8 && w != ET_INT8)
		return ocl_refuse(plan, "weights of %s", et_scalar_name(w));
	bool is_right = ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, layer->scales, ET_FLOAT32) &&
			ocl_want(plan, -1, ET_FLOAT32) &&
			(layer->bias < 0 || ocl_want(plan, layer->bias, ET_FLOAT32)) &&
			(!is_dynamic || (ocl_want(plan, layer->x_scale, ET_FLOAT32)));
	if (!is_right)
		return false;
	struct ocl_definition types[] = { { "T_O", ocl_result_type(plan, 0) }, { "T_A", ocl_arg_type(plan, 0) },
		{ "T_W", w }, { "T_S", ocl_arg_type(plan, (uint32_t)layer->scales) },
		{ "T_C", layer->bias < 0 ? ET_FLOAT32 : ocl_arg_type(plan, (uint32_t)layer->bias) },
		{ "T_XS", is_dynamic ? ocl_arg_type(plan, (uint32_t)layer->x_scale) : ET_FLOAT32 },
		{ "T_XZ", is_dynamic ? ocl_arg_type(plan, (uint32_t)layer->x_zero) : ET_FLOAT32 } };
	return ocl_use(plan, 0, "linear_quantized", types, is_dynamic ? 7 : 5, plan->step->row->text);
}

static bool run_quantized(struct ocl_call *call, const struct layer *layer)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0),
				   *w = et_graph_arg(&call->shapes, (uint32_t)layer->w),
				   *scales = et_graph_arg(&call->shapes, (uint32_t)layer->scales);
	bool is_4bit = strstr(call->step->row->text, "IS_4BIT") != NULL;
	bool has_bias = layer->bias >= 0 && call->shapes.graph->values[node->args[layer->bias]].kind != ET_GRAPH_NULL;
	uint64_t n_along = x->dims[x->n_dims - 1], n_columns = w->dims[0], n_rows = 1;
	int64_t group = layer->group >= 0 ? et_graph_int(&call->shapes, (uint32_t)layer->group, 0) : INT32_MAX;
	struct ocl_launch launch;
	if (group < 1 || (is_4bit ? (n_along + 1) / 2 : n_along) > w->dims[1])
		return ocl_misfit(call, "rows of %llu, weights of %u bytes, groups of %lld",
			(unsigned long long)n_along, w->dims[1], (long long)group);
	if (group > (int64_t)n_along)
		group = n_along ? (int64_t)n_along : 1;
	uint64_t n_groups = n_along ? (n_along - 1) / (uint64_t)group + 1 : 0;
	uint64_t scale_columns = layer->group >= 0 && scales->n_dims ? scales->dims[scales->n_dims - 1] : n_columns;
	if (scale_columns < n_columns)
		return ocl_misfit(call, "%llu scales for %llu columns", (unsigned long long)scale_columns,
			(unsigned long long)n_columns);
	for (uint32_t i = 0; i + 1u < x->n_dims; i++)
		n_rows = et_times(n_rows, x->dims[i]);
	uint64_t n = et_times(n_rows, n_columns);
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_int(&launch, (int64_t)n_columns);
	ocl_put_int(&launch, (int64_t)n_along);
	ocl_put_int(&launch, w->dims[1]);
	ocl_put_int(&launch, group);
	ocl_put_int(&launch, (int64_t)scale_columns);
	ocl_put_int(&launch, has_bias);
	ocl_put_tensor(call, &launch, node->results[0], n);
	ocl_put_tensor(call, &launch, node->args[0], et_times(n_rows, n_along));
	ocl_put_tensor(call, &launch, node->args[layer->w], et_times(n_columns, w->dims[1]));
	ocl_put_tensor(call, &launch, node->args[layer->scales],
		n_groups ? et_times(n_groups - 1, scale_columns) + n_columns : 0);
	if (has_bias) {
		ocl_put_tensor(call, &launch, node->args[layer->bias], n_columns);
	} else {
		ocl_put_error(call, &launch);
		ocl_put(&launch, &(cl_ulong){ 0 }, sizeof(cl_ulong));
	}
	if (layer->x_scale >= 0) {
		ocl_put_tensor(call, &launch, node->args[layer->x_scale], n_rows);
		ocl_put_tensor(call, &launch, node->args[layer->x_zero], n_rows);
	}
	return ocl_start(call, &launch, n, n_along * 4);
}

static bool plan_int8(struct ocl_plan *plan)
{
	return plan_quantized(plan, &int8_layer);
}

static bool run_int8(struct ocl_call *call)
{
	return run_quantized(call, &int8_layer);
}

static bool plan_q4gsw(struct ocl_plan *plan)
{
	return plan_quantized(plan, &q4gsw_layer);
}

static bool run_q4gsw(struct ocl_call *call)
{
	return run_quantized(call, &q4gsw_layer);
}

static bool plan_dq8ca(struct ocl_plan *plan)
{
	return plan_quantized(plan, &dq8ca_layer);
}

static bool run_dq8ca(struct ocl_call *call)
{
	return run_quantized(call, &dq8ca_layer);
}

const struct ocl_row ocl_rows_matrix[] = {
	{ "aten._weight_int8pack_mm.default", plan_int8, run_int8, "" },
	{ "aten.bmm.default", plan_matmul, run_matmul },
	{ "aten.linear.default", plan_linear, run_linear },
	{ "aten.mm.default", plan_matmul, run_matmul },
	{ "et_vk.linear_dq8ca_q4gsw.default", plan_dq8ca, run_dq8ca, "#define IS_4BIT\n#define IS_DYNAMIC\n" },
	{ "et_vk.linear_q4gsw.default", plan_q4gsw, run_q4gsw, "#define IS_4BIT\n" },
	{ "et_vk.linear_qcs4w.default", plan_int8, run_int8, "#define IS_4BIT\n#define EVEN_IS_HIGH\n" },
	{ NULL },
};
