/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators of int8 tensors with scale and zero point: (de)quantization, and the q8ta layers of ExecuTorch's Vulkan
 * backend. A layer computes in integers, scales the sum, adds the bias, applies relu and quantizes again. */
#include "delegates/opencl/steps/window.h"

#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <string.h>

/* --- between floats and integers ------------------------------------------------------------------ */

/* p: 0 scale, 1 zero point, 2 least, 3 most */
#define QUANTIZE "clamp(rint(a * p[4]) + p[1], p[2], p[3])"

static bool plan_quantize(struct ocl_plan *plan)
{
	uint8_t type = ocl_arg_type(plan, 0);
	return ocl_want(plan, 0, ET_FLOAT32) &&
	       ocl_plan_elementwise(plan, 0, QUANTIZE, ocl_result_type(plan, 0), &type, 1);
}

static bool plan_dequantize(struct ocl_plan *plan)
{
	uint8_t type = ocl_arg_type(plan, 0);
	return ocl_want(plan, -1, ET_FLOAT32) &&
	       ocl_plan_elementwise(plan, 0, "(a - p[1]) * p[0]", ocl_result_type(plan, 0), &type, 1);
}

/* x, scale, zero point, least, most */
static bool run_per_tensor(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	struct ocl_view view = ocl_view_of(et_graph_result(&call->shapes, 0));
	double scale = et_graph_double(&call->shapes, 1, 1);
	double numbers[8] = { scale, (double)et_graph_int(&call->shapes, 2, 0),
		(double)et_graph_int(&call->shapes, 3, 0), (double)et_graph_int(&call->shapes, 4, 0), 1 / scale };
	return ocl_run_elementwise(call, 0, 1, (uint32_t[]){ node->results[0], node->args[0] },
		(struct ocl_view[]){ view, view }, numbers);
}

/* x, scales, zero points or none, axis */
static bool plan_per_channel(struct ocl_plan *plan)
{
	uint8_t types[] = { ocl_arg_type(plan, 0), ocl_arg_type(plan, 1), ocl_arg_type(plan, 2) };
	bool has_zeros = ocl_has_arg(plan, 2);
	return ocl_want(plan, -1, ET_FLOAT32) && ocl_want(plan, 1, ET_FLOAT32) &&
	       ocl_plan_elementwise(plan, 0, has_zeros ? "(a - c) * b" : "a * b", ocl_result_type(plan, 0), types,
		       has_zeros ? 3 : 2);
}

static bool run_per_channel(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct ocl_view view = ocl_view_of(x), channels = view;
	bool has_zeros = ocl_was_given(call, 2);
	uint32_t axis;
	if (!et_graph_dim(&call->shapes, et_graph_int(&call->shapes, 3, 0), x->n_dims, &axis))
		return false;
	memset(channels.strides, 0, sizeof(channels.strides));
	channels.strides[axis] = 1;
	return ocl_run_elementwise(call, 0, has_zeros ? 3 : 2,
		(uint32_t[]){ node->results[0], node->args[0], node->args[1], node->args[2] },
		(struct ocl_view[]){ view, view, channels, channels }, NULL);
}

/* --- add(a, b, a's scale and zero point, b's, the result's, alpha) --------------------------------- */

static bool plan_add(struct ocl_plan *plan)
{
	uint8_t types[] = { ocl_arg_type(plan, 0), ocl_arg_type(plan, 1) };
	return ocl_want(plan, 0, ET_INT8) && ocl_want(plan, 1, ET_INT8) && ocl_want(plan, -1, ET_INT8) &&
	       ocl_plan_elementwise(plan, 0,
		       "clamp(rint(((a - p[1]) * p[0] + p[6] * ((b - p[3]) * p[2])) / p[4]) + p[5], -128.0f, 127.0f)",
		       ET_INT8, types, 2);
}

static bool run_add(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *result = et_graph_result(&call->shapes, 0);
	double numbers[8];
	for (uint32_t i = 0; i < 7; i++)
		numbers[i] = i % 2 && i < 6 ? (double)et_graph_int(&call->shapes, 2 + i, 0)
					    : et_graph_double(&call->shapes, 2 + i, 1);
	numbers[7] = 0;
	return ocl_run_elementwise(call, 0, 2, (uint32_t[]){ node->results[0], node->args[0], node->args[1] },
		(struct ocl_view[]){ ocl_view_of(result), ocl_view_as(et_graph_arg(&call->shapes, 0), result),
			ocl_view_as(et_graph_arg(&call->shapes, 1), result) },
		numbers);
}

/* --- layers: x, scale, zero point, weights, sums, scales, the result's scale and zero point, bias ---- */

bool ocl_q8ta_check(struct ocl_plan *plan, uint32_t activation)
{
	const struct et_graph_value *text = &plan->graph->values[plan->node->args[activation]];
	const char *name = text->kind == ET_GRAPH_STRING ? text->string : "none";
	if (strcmp(name, "none") != 0 && strcmp(name, "relu") != 0)
		return ocl_refuse(plan, "the activation '%.40s'", name);
	return ocl_want(plan, 0, ET_INT8) && ocl_want(plan, 3, ET_INT8) && ocl_want(plan, 5, ET_FLOAT32) &&
	       ocl_want(plan, 8, ET_FLOAT32);
}

static bool plan_layer(struct ocl_plan *plan, const char *family, const char *more, uint32_t activation)
{
	return ocl_q8ta_check(plan, activation) && ocl_want(plan, -1, ET_INT8) &&
	       OCL_USE(plan, 0, family, more, { "T_O", ET_INT8 }, { "T_A", ET_INT8 }, { "T_W", ET_INT8 },
		       { "T_S", ocl_arg_type(plan, 5) }, { "T_C", ocl_arg_type(plan, 8) });
}

static bool is_relu(const struct ocl_call *call, uint32_t activation)
{
	const struct et_graph_value *text = &call->shapes.graph->values[call->shapes.node->args[activation]];
	return text->kind == ET_GRAPH_STRING && strcmp(text->string, "relu") == 0;
}

static void put_scales(struct ocl_call *call, struct ocl_launch *launch, uint32_t activation)
{
	ocl_put_float(launch, et_graph_double(&call->shapes, 1, 1));
	ocl_put_int(launch, et_graph_int(&call->shapes, 2, 0));
	ocl_put_float(launch, et_graph_double(&call->shapes, 6, 1));
	ocl_put_int(launch, et_graph_int(&call->shapes, 7, 0));
	ocl_put_int(launch, ocl_was_given(call, 8));
	ocl_put_int(launch, is_relu(call, activation));
}

void ocl_put_q8ta(struct ocl_call *call, struct ocl_launch *launch, uint64_t n_columns, uint32_t activation)
{
	ocl_put_tensor(call, launch, call->shapes.node->args[5], n_columns);
	ocl_put_float(launch, et_graph_double(&call->shapes, 1, 1));
	ocl_put_int(launch, et_graph_int(&call->shapes, 2, 0));
	ocl_put_float(launch, et_graph_double(&call->shapes, 6, 1));
	ocl_put_int(launch, et_graph_int(&call->shapes, 7, 0));
	ocl_put_int(launch, is_relu(call, activation));
}

/* The tensors, of which the result has @n elements in @n_columns channels. */
static void put_tensors(struct ocl_call *call, struct ocl_launch *launch, uint64_t n, uint64_t n_columns)
{
	const struct et_graph_node *node = call->shapes.node;
	ocl_put_tensor(call, launch, node->results[0], n);
	ocl_put_tensor(call, launch, node->args[0], ocl_numel(et_graph_arg(&call->shapes, 0)));
	ocl_put_tensor(call, launch, node->args[3], ocl_numel(et_graph_arg(&call->shapes, 3)));
	ocl_put_tensor(call, launch, node->args[5], n_columns);
	ocl_put_optional(call, launch, 8, n_columns);
}

static bool plan_linear(struct ocl_plan *plan)
{
	return plan_layer(plan, "q8ta_linear", "", 9);
}

static bool run_linear(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0), *w = et_graph_arg(&call->shapes, 3);
	uint64_t n_along = x->dims[x->n_dims - 1], n = ocl_numel(et_graph_result(&call->shapes, 0));
	struct ocl_launch launch;
	if (n_along > w->dims[1])
		return ocl_misfit(call, "rows of %llu for weights of %u", (unsigned long long)n_along, w->dims[1]);
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_int(&launch, w->dims[0]);
	ocl_put_int(&launch, (int64_t)n_along);
	ocl_put_int(&launch, w->dims[1]);
	put_scales(call, &launch, 9);
	put_tensors(call, &launch, n, w->dims[0]);
	return ocl_start(call, &launch, n, n_along * 2);
}

/* A convolution goes on: kernel, stride, padding, [output padding,] dilation, groups, activation. */
static bool plan_convolution(struct ocl_plan *plan)
{
	bool is_transposed = strstr(plan->step->row->text, "IS_TRANSPOSED") != NULL;
	return plan_layer(plan, "q8ta_convolution", plan->step->row->text, is_transposed ? 15 : 14);
}

static bool run_convolution(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0), *w = et_graph_arg(&call->shapes, 3);
	bool is_depthwise = strstr(call->step->row->text, "IS_DEPTHWISE") != NULL;
	uint32_t extra = strstr(call->step->row->text, "IS_TRANSPOSED") != NULL;
	struct ocl_convolution c = { .window = { 0 } };
	struct ocl_launch launch;
	for (uint32_t i = 0; i < 2; i++) {
		c.sizes[6 + i] = (uint32_t)ocl_spatial(call, 9, i, 1);
		c.window[i] = ocl_spatial(call, 10, i, 1);
		c.window[2 + i] = ocl_spatial(call, 11, i, 0);
		c.window[4 + i] = ocl_spatial(call, 12 + extra, i, 1);
	}
	c.window[6] = is_depthwise ? x->dims[1] : et_graph_int(&call->shapes, 13 + extra, 1);
	if (!ocl_convolution_check(call, &c))
		return false;
	/* Bytes of a row of weights, and how many of them the kernel reads. */
	uint64_t taps = et_times(c.sizes[6], c.sizes[7]), n_w = ocl_numel(w);
	uint64_t row = w->n_dims ? w->dims[w->n_dims - 1] : 0;
	bool fits;
	if (is_depthwise) {
		fits = row >= c.sizes[3] && et_times(taps, row) <= n_w;
	} else {
		row = w->n_dims && w->dims[0] ? n_w / w->dims[0] : 0;
		fits = et_times(taps, c.sizes[0] / (uint64_t)c.window[6]) <= row && et_times(c.sizes[3], row) <= n_w;
	}
	if (!fits)
		return ocl_misfit(call, "%llu weights, %llu in a row", (unsigned long long)n_w,
			(unsigned long long)row);
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)c.n);
	ocl_put_sizes(&launch, c.sizes, 8);
	ocl_put_ints(&launch, c.window, 8);
	ocl_put_int(&launch, (int64_t)row);
	put_scales(call, &launch, 14 + extra);
	put_tensors(call, &launch, c.n, c.sizes[3]);
	return ocl_start(call, &launch, c.n, c.cost * 2);
}

/* --- choose_qparams(x, mapping, block, type, least, most, eps) -------------------------------------- */

static bool plan_qparams(struct ocl_plan *plan)
{
	const struct et_graph_value *block = &plan->graph->values[plan->node->args[2]],
				    *least = &plan->graph->values[plan->node->args[4]],
				    *most = &plan->graph->values[plan->node->args[5]];
	const struct et_graph_tensor *x = plan->graph->values[plan->node->args[0]].tensor;
	if (block->kind != ET_GRAPH_INTS || block->list.n != x->n_dims || !x->n_dims)
		return ocl_refuse(plan, "a block that is not one row");
	for (uint32_t i = 0; i < x->n_dims; i++)
		if (block->list.ints[i] != (i + 1u < x->n_dims ? 1 : x->dims[i]))
			return ocl_refuse(plan, "a block that is not one row");
	if ((least->kind == ET_GRAPH_INT && least->i != -128) || (most->kind == ET_GRAPH_INT && most->i != 127))
		return ocl_refuse(plan, "another range than that of int8");
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, -1, ET_FLOAT32) &&
	       OCL_USE(plan, 0, "choose_qparams", "", { "T_O", ocl_result_type(plan, 0) },
		       { "T_Z", ocl_result_type(plan, 1) }, { "T_A", ocl_arg_type(plan, 0) });
}

static bool run_qparams(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	uint64_t n_along = x->dims[x->n_dims - 1], n = ocl_numel(x), n_rows = n_along ? n / n_along : 0;
	const double float_epsilon = 0x1p-23;
	struct ocl_launch launch;
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n_rows);
	ocl_put_int(&launch, (int64_t)n_along);
	ocl_put_float(&launch, et_graph_double(&call->shapes, 6, float_epsilon));
	ocl_put_tensor(call, &launch, node->results[0], n_rows);
	ocl_put_tensor(call, &launch, node->results[1], n_rows);
	ocl_put_tensor(call, &launch, node->args[0], n);
	return ocl_start(call, &launch, n_rows, n_along * 2);
}

const struct ocl_row ocl_rows_quantized[] = {
	{ "et_vk.q8ta_add.default", plan_add, run_add },
	{ "et_vk.q8ta_conv2d.default", plan_convolution, run_convolution, "" },
	{ "et_vk.q8ta_conv2d_dw.default", plan_convolution, run_convolution, "#define IS_DEPTHWISE\n" },
	{ "et_vk.q8ta_conv2d_pw.default", plan_convolution, run_convolution, "" },
	{ "et_vk.q8ta_conv2d_transposed.default", plan_convolution, run_convolution, "#define IS_TRANSPOSED\n" },
	{ "et_vk.q8ta_linear.default", plan_linear, run_linear },
	{ "et_vk.q8ta_linear_gemv.default", plan_linear, run_linear },
	{ "quantized_decomposed.dequantize_per_channel.default", plan_per_channel, run_per_channel },
	{ "quantized_decomposed.dequantize_per_tensor.default", plan_dequantize, run_per_tensor },
	{ "quantized_decomposed.quantize_per_tensor.default", plan_quantize, run_per_tensor },
	{ "torchao.choose_qparams_affine.default", plan_qparams, run_qparams },
	{ NULL },
};
