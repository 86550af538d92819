/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolutions, pooling and resizing of floats. The shape rules (delegates/graph/window_rules.c) have bounded kernels,
 * strides, padding and dilation by 2^20. */
#include "delegates/opencl/steps/window.h"

#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <math.h>

int64_t ocl_spatial(struct ocl_call *call, uint32_t arg, uint32_t index, int64_t absent)
{
	uint32_t n = et_graph_n_items(&call->shapes, arg);
	return n ? et_graph_item(&call->shapes, arg, index < n ? index : n - 1) : absent;
}

/* The sizes of [N, C, H, W] or [N, C, W]. */
static void put_sizes(const struct et_graph_size *size, uint32_t *to)
{
	to[0] = size->dims[1];
	to[1] = size->n_dims == 4 ? size->dims[2] : 1;
	to[2] = size->dims[size->n_dims - 1];
}

bool ocl_convolution_check(struct ocl_call *call, struct ocl_convolution *c)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0), *result = et_graph_result(&call->shapes, 0);
	int64_t groups = c->window[6];
	put_sizes(x, c->sizes);
	put_sizes(result, c->sizes + 3);
	c->n = ocl_numel(result);
	c->n_x = ocl_numel(x);
	if (groups < 1 || c->sizes[0] % groups != 0 || c->sizes[3] % groups != 0 || !c->sizes[3])
		return ocl_misfit(call, "%u and %u channels in %lld groups", c->sizes[0], c->sizes[3],
			(long long)groups);
	for (uint32_t i = 0; i < 8; i++)
		if (c->sizes[i] > 1 << 30)
			return ocl_misfit(call, "a size of %u", c->sizes[i]);
	c->cost = et_times(et_times(c->sizes[0] / (uint64_t)groups, c->sizes[6]), c->sizes[7]);
	return true;
}

/* --- convolution ---------------------------------------------------------------------------------- */

static bool plan_convolution(struct ocl_plan *plan)
{
	const struct et_graph_value *is_transposed = &plan->graph->values[plan->node->args[6]];
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, 1, ET_FLOAT32) && ocl_want(plan, 2, ET_FLOAT32) &&
	       ocl_want(plan, -1, ET_FLOAT32) &&
	       OCL_USE(plan, 0, "convolution", is_transposed->b ? "#define IS_TRANSPOSED\n" : "",
		       { "T_O", ocl_result_type(plan, 0) }, { "T_A", ocl_arg_type(plan, 0) },
		       { "T_W", ocl_arg_type(plan, 1) }, { "T_C", ocl_arg_type(plan, 2) });
}

/* x, w, bias, stride, padding, dilation, is_transposed, output padding, groups, and the range of conv_with_clamp */
static bool run_convolution_in(struct ocl_call *call, double low, double high)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *w = et_graph_arg(&call->shapes, 1);
	bool is_transposed = et_graph_bool(&call->shapes, 6);
	/* A list of one item holds for both dimensions; with one dimension, it is the width's. */
	uint32_t skip = w->n_dims == 4 ? 0 : 1;
	struct ocl_convolution c = { .window = { 1, 1, 0, 0, 1, 1, et_graph_int(&call->shapes, 8, 1) } };
	struct ocl_launch launch;
	for (uint32_t i = skip; i < 2; i++) {
		c.window[i] = ocl_spatial(call, 3, i - skip, 1);
		c.window[2 + i] = ocl_spatial(call, 4, i - skip, 0);
		c.window[4 + i] = ocl_spatial(call, 5, i - skip, 1);
	}
	c.sizes[6] = w->n_dims == 4 ? w->dims[2] : 1;
	c.sizes[7] = w->dims[w->n_dims - 1];
	if (!ocl_convolution_check(call, &c))
		return false;
	uint64_t groups = (uint64_t)c.window[6];
	uint64_t n_w = et_times(is_transposed ? et_times(c.sizes[0], c.sizes[3] / groups)
					      : et_times(c.sizes[3], c.sizes[0] / groups),
		et_times(c.sizes[6], c.sizes[7]));
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)c.n);
	ocl_put_sizes(&launch, c.sizes, 8);
	ocl_put_ints(&launch, c.window, 8);
	ocl_put_float(&launch, low);
	ocl_put_float(&launch, high);
	ocl_put_int(&launch, ocl_was_given(call, 2));
	ocl_put_tensor(call, &launch, node->results[0], c.n);
	ocl_put_tensor(call, &launch, node->args[0], c.n_x);
	ocl_put_tensor(call, &launch, node->args[1], n_w);
	ocl_put_optional(call, &launch, 2, c.sizes[3]);
	return ocl_start(call, &launch, c.n, c.cost * 2);
}

static bool run_convolution(struct ocl_call *call)
{
	return run_convolution_in(call, (double)call->step->low, (double)call->step->high);
}

static bool run_convolution_clamped(struct ocl_call *call)
{
	return run_convolution_in(call, et_graph_double(&call->shapes, 9, -INFINITY),
		et_graph_double(&call->shapes, 10, INFINITY));
}

/* --- pooling -------------------------------------------------------------------------------------- */

/* H, W, OH, OW, KH, KW, and the window but for its dilation. */
static bool put_pool(struct ocl_call *call, struct ocl_launch *launch, uint64_t *ret_n, uint64_t *ret_cost,
	int dilation)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0), *result = et_graph_result(&call->shapes, 0);
	uint32_t sizes[8] = { x->dims[x->n_dims - 2], x->dims[x->n_dims - 1], result->dims[x->n_dims - 2],
		result->dims[x->n_dims - 1] };
	int64_t window[8] = { 0 };
	for (uint32_t i = 0; i < 2; i++) {
		int64_t kernel = ocl_spatial(call, 1, i, 1);
		sizes[4 + i] = (uint32_t)kernel;
		window[i] = ocl_spatial(call, 2, i, kernel);
		window[2 + i] = ocl_spatial(call, 3, i, 0);
		window[4 + i] = dilation < 0 ? 1 : ocl_spatial(call, (uint32_t)dilation, i, 1);
	}
	*ret_n = ocl_numel(result);
	*ret_cost = et_times(sizes[4], sizes[5]);
	ocl_begin(call, launch, 0);
	ocl_put_int(launch, (int64_t)*ret_n);
	ocl_put_sizes(launch, sizes, 8);
	ocl_put_ints(launch, window, 8);
	return true;
}

static bool plan_max_pool(struct ocl_plan *plan)
{
	uint8_t type = ocl_arg_type(plan, 0);
	plan->step->compute = ocl_is_float(type) ? ET_FLOAT32 : type == ET_INT64 ? ET_INT64 : ET_INT32;
	if (ocl_result_type(plan, 0) != type)
		return ocl_refuse(plan, "it changes the type");
	return ocl_want(plan, -2, ET_INT32) && OCL_USE(plan, 0, "pool", "#define IS_MAX\n", { "T_O", type },
						       { "T_A", type }, { "T_I", ocl_result_type(plan, 1) });
}

/* x, kernel, stride, padding, dilation, ceil */
static bool run_max_pool(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	struct ocl_launch launch;
	uint64_t n, cost;
	if (!put_pool(call, &launch, &n, &cost, 4))
		return false;
	ocl_put_int(&launch, 0);
	ocl_put_int(&launch, 0);
	ocl_put_tensor(call, &launch, node->results[0], n);
	ocl_put_tensor(call, &launch, node->args[0], ocl_numel(et_graph_arg(&call->shapes, 0)));
	ocl_put_tensor(call, &launch, node->results[1], n);
	return ocl_start(call, &launch, n, cost);
}

static bool plan_avg_pool(struct ocl_plan *plan)
{
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, -1, ET_FLOAT32) &&
	       OCL_USE(plan, 0, "pool", "", { "T_O", ocl_result_type(plan, 0) }, { "T_A", ocl_arg_type(plan, 0) });
}

/* x, kernel, stride, padding, ceil, count_include_pad, divisor */
static bool run_avg_pool(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	struct ocl_launch launch;
	uint64_t n, cost;
	if (!put_pool(call, &launch, &n, &cost, -1))
		return false;
	ocl_put_int(&launch, et_graph_bool(&call->shapes, 5));
	ocl_put_int(&launch, et_graph_int(&call->shapes, 6, 0));
	ocl_put_tensor(call, &launch, node->results[0], n);
	ocl_put_tensor(call, &launch, node->args[0], ocl_numel(et_graph_arg(&call->shapes, 0)));
	return ocl_start(call, &launch, n, cost);
}

/* --- resizing ------------------------------------------------------------------------------------- */

static bool plan_resize(struct ocl_plan *plan)
{
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, -1, ET_FLOAT32) &&
	       OCL_USE(plan, 0, "resize", plan->step->row->text, { "T_O", ocl_result_type(plan, 0) },
		       { "T_A", ocl_arg_type(plan, 0) });
}

/* Elements of x for each of the result. PyTorch takes the factor, where there is one, rather than the sizes' ratio. */
static double scale(struct ocl_call *call, uint32_t i, uint32_t factors_arg, bool aligns_corners)
{
	uint32_t in = et_graph_arg(&call->shapes, 0)->dims[2 + i], out = et_graph_result(&call->shapes, 0)->dims[2 + i];
	const struct et_graph_value *factors = &call->shapes.graph->values[call->shapes.node->args[factors_arg]];
	if (aligns_corners)
		return out > 1 ? (double)(in - 1) / (out - 1) : 0;
	if (factors->kind == ET_GRAPH_DOUBLES && factors->list.n == 2 && factors->list.doubles[i] > 0)
		return 1 / factors->list.doubles[i];
	return out ? (double)in / out : 0;
}

static bool run_resize(struct ocl_call *call, uint32_t factors_arg, bool aligns_corners)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0), *result = et_graph_result(&call->shapes, 0);
	uint32_t sizes[4] = { x->dims[2], x->dims[3], result->dims[2], result->dims[3] };
	uint64_t n = ocl_numel(result);
	struct ocl_launch launch;
	if (n && (!x->dims[2] || !x->dims[3]))
		return ocl_misfit(call, "an input without elements");
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_sizes(&launch, sizes, 4);
	ocl_put_float(&launch, scale(call, 0, factors_arg, aligns_corners));
	ocl_put_float(&launch, scale(call, 1, factors_arg, aligns_corners));
	ocl_put_int(&launch, aligns_corners);
	ocl_put_tensor(call, &launch, node->results[0], n);
	ocl_put_tensor(call, &launch, node->args[0], ocl_numel(x));
	return ocl_start(call, &launch, n, 8);
}

static bool run_nearest(struct ocl_call *call)
{
	return run_resize(call, 2, false);
}

static bool run_bilinear(struct ocl_call *call)
{
	return run_resize(call, 3, et_graph_bool(&call->shapes, 2));
}

const struct ocl_row ocl_rows_window[] = {
	{ "aten.avg_pool2d.default", plan_avg_pool, run_avg_pool },
	{ "aten.convolution.default", plan_convolution, run_convolution },
	{ "aten.max_pool2d_with_indices.default", plan_max_pool, run_max_pool },
	{ "aten.upsample_bilinear2d.vec", plan_resize, run_bilinear, "#define IS_BILINEAR\n" },
	{ "aten.upsample_nearest2d.vec", plan_resize, run_nearest, "" },
	{ "et_vk.conv_with_clamp.default", plan_convolution, run_convolution_clamped },
	{ NULL },
};
