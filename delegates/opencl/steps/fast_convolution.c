/* SPDX-License-Identifier: BSD-3-Clause */
/* Fast kernels of convolutions that are not transposed: as a matrix product (kernels/convolution_tile.cl), and with
 * weights for each channel alone (kernels/depthwise.cl). */
#include "delegates/opencl/epilogue.h"
#include "delegates/opencl/steps/window.h"

#include "delegates/opencl/run.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <string.h>

enum variant { TILE, DEPTHWISE };
enum { CHANNELS = 64, MAX_EXACT_TAPS = 512 }; /* as in the kernels */

/* Where the arguments are. */
struct form {
	const char *name;
	bool is_int8, has_pairs; /* padding in front and behind, for each dimension */
	uint32_t w, bias, stride, padding, dilation, groups;
};
static const struct form forms[] = {
	{ "aten.convolution.default", false, false, 1, 2, 3, 4, 5, 8 },
	{ "et_vk.q8ta_conv2d.default", true, false, 3, 8, 10, 11, 12, 13 },
	{ "et_vk.q8ta_conv2d_dw.default", true, false, 3, 8, 10, 11, 12, 13 },
	{ "et_vk.q8ta_conv2d_pw.default", true, false, 3, 8, 10, 11, 12, 13 },
	{ "graph.convolution", false, true, 1, 2, 3, 4, 5, 6 },
};

static const struct form *find_form(const struct et_graph_operator *op)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(forms); i++)
		if (strcmp(forms[i].name, op->name) == 0)
			return &forms[i];
	return NULL;
}

static bool is_q8ta_depthwise(const struct form *form)
{
	return strcmp(form->name, "et_vk.q8ta_conv2d_dw.default") == 0;
}

/* Item @index of the list of literals in argument @arg; 0: there is none above 0. */
static uint64_t item(const struct et_graph *graph, const struct et_graph_node *node, uint32_t arg, uint32_t index)
{
	const struct et_graph_value *list = &graph->values[node->args[arg]];
	return list->kind == ET_GRAPH_INTS && index < list->list.n && list->list.ints[index] > 0
		       ? (uint64_t)list->list.ints[index]
		       : 0;
}

static uint64_t int8_taps(const struct et_graph *graph, const struct et_graph_node *node)
{
	return et_times(item(graph, node, 9, 0), item(graph, node, 9, 1));
}

bool ocl_convolution_is_fast(const struct et_graph *graph, const struct et_graph_node *node)
{
	const struct form *form = find_form(node->op);
	if (!form)
		return false;
	bool is_aten = strcmp(form->name, "aten.convolution.default") == 0;
	if (is_aten || !form->is_int8)
		return !is_aten || !graph->values[node->args[6]].b;
	return is_q8ta_depthwise(form) ? int8_taps(graph, node) <= MAX_EXACT_TAPS
				       : graph->values[node->args[form->w]].origin == ET_GRAPH_CONSTANT;
}

/* --- plan ----------------------------------------------------------------------------------------- */

static bool plan_floats(struct ocl_plan *plan)
{
	const struct et_graph_value *values = plan->graph->values;
	const struct form *form = find_form(plan->node->op);
	const struct et_graph_tensor *x = values[plan->node->args[0]].tensor,
				     *result = values[plan->node->results[0]].tensor;
	const struct et_graph_value *groups = form ? &values[plan->node->args[form->groups]] : NULL;
	if (!groups || !ocl_convolution_is_fast(plan->graph, plan->node) || !ocl_plan_epilogue(plan, false))
		return false;
	bool is_depthwise = groups->kind == ET_GRAPH_INT && groups->i == x->dims[1] && groups->i == result->dims[1];
	plan->step->variant = is_depthwise ? DEPTHWISE : TILE;
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, 1, ET_FLOAT32) && ocl_want(plan, 2, ET_FLOAT32) &&
	       OCL_USE_LANES(plan, 0, is_depthwise ? "depthwise" : "convolution_tile", "",
		       { "T_A", ocl_arg_type(plan, 0) }, { "T_W", ocl_arg_type(plan, 1) },
		       { "T_C", ocl_arg_type(plan, 2) });
}

/* The rows of weights as floats, which hold int8 exactly. */
static bool pack_rows(struct ocl_plan *plan, const struct form *form)
{
	const struct et_graph_value *values = plan->graph->values;
	const struct et_graph_tensor *w = values[plan->node->args[form->w]].tensor,
				     *x = values[plan->node->args[0]].tensor;
	const struct et_graph_value *groups = &values[plan->node->args[form->groups]];
	uint64_t n_channels = values[plan->node->results[0]].tensor->dims[1];
	if (groups->kind != ET_GRAPH_INT || groups->i < 1 || !w->n_dims || !n_channels)
		return false;
	uint64_t n_along = et_times(int8_taps(plan->graph, plan->node), x->dims[1] / (uint64_t)groups->i);
	uint64_t row = w->dims[0] ? w->n_bytes / w->dims[0] : 0;
	if (!n_along || n_along > row || w->dims[0] < n_channels)
		return false;
	ocl_pack(plan, form->w,
		&(struct ocl_layout){ .kind = OCL_ROWS,
			.from = ET_INT8,
			.to = ET_FLOAT32,
			.n_rows = n_channels,
			.n_along = n_along,
			.row_stride = row });
	return true;
}

static bool plan_int8(struct ocl_plan *plan)
{
	const struct form *form = find_form(plan->node->op);
	bool is_depthwise = form && is_q8ta_depthwise(form);
	if (!form || !ocl_convolution_is_fast(plan->graph, plan->node) || !ocl_q8ta_check(plan, 14) ||
		(!is_depthwise && !pack_rows(plan, form)) || !ocl_plan_epilogue(plan, false))
		return false;
	plan->step->variant = is_depthwise ? DEPTHWISE : TILE;
	return OCL_USE_LANES(plan, 0, is_depthwise ? "depthwise" : "convolution_tile", "#define IS_INT8\n",
		{ "T_A", ET_INT8 }, { "T_W", is_depthwise ? ET_INT8 : ET_FLOAT32 }, { "T_C", ocl_arg_type(plan, 8) },
		{ "T_S", ocl_arg_type(plan, 5) });
}

/* --- run ------------------------------------------------------------------------------------------ */

static bool find_window(struct ocl_call *call, const struct form *form, struct ocl_convolution *c)
{
	const struct et_graph_size *w = et_graph_arg(&call->shapes, form->w), *x = et_graph_arg(&call->shapes, 0);
	/* A list of one item holds for both dimensions; with one dimension, it is the width's. */
	uint32_t skip = x->n_dims == 4 ? 0 : 1;
	*c = (struct ocl_convolution){ .window = { 1, 1, 0, 0, 1, 1, et_graph_int(&call->shapes, form->groups, 1) } };
	for (uint32_t i = skip; i < 2; i++) {
		c->window[i] = ocl_spatial(call, form->stride, i - skip, 1);
		c->window[2 + i] = ocl_spatial(call, form->padding, (i - skip) * (form->has_pairs ? 2 : 1), 0);
		c->window[4 + i] = ocl_spatial(call, form->dilation, i - skip, 1);
	}
	if (is_q8ta_depthwise(form))
		c->window[6] = x->dims[1];
	c->sizes[6] = form->is_int8 ? (uint32_t)ocl_spatial(call, 9, 0, 1) : x->n_dims == 4 ? w->dims[2] : 1;
	c->sizes[7] = form->is_int8 ? (uint32_t)ocl_spatial(call, 9, 1, 1) : w->dims[w->n_dims - 1];
	return ocl_convolution_check(call, c);
}

/* Without a window, the rows of an image are one row. */
static void join_rows(struct ocl_convolution *c)
{
	if (c->sizes[6] != 1 || c->sizes[7] != 1 || c->window[0] != 1 || c->window[1] != 1 || c->window[2] ||
		c->window[3] || c->sizes[1] != c->sizes[4] || c->sizes[2] != c->sizes[5])
		return;
	c->sizes[2] *= c->sizes[1];
	c->sizes[5] = c->sizes[2];
	c->sizes[1] = c->sizes[4] = 1;
}

/* The weights, and the rest but for the epilogue. */
static void put_rest(struct ocl_call *call, struct ocl_launch *launch, const struct form *form,
	const struct ocl_convolution *c, uint64_t n_weights)
{
	const struct et_graph_node *node = call->shapes.node;
	ocl_put_int(launch, ocl_was_given(call, form->bias));
	ocl_put_result(call, launch, c->n);
	ocl_put_tensor(call, launch, node->args[0], c->n_x);
	if (call->step->packed_value != ET_GRAPH_NONE)
		ocl_put_packed(call, launch);
	else
		ocl_put_tensor(call, launch, node->args[form->w], n_weights);
	ocl_put_optional(call, launch, form->bias, c->sizes[3]);
	if (form->is_int8)
		ocl_put_q8ta(call, launch, c->sizes[3], 14);
	ocl_put_epilogue(call, launch, 1, 2);
}

static bool run_tile(struct ocl_call *call, const struct form *form, struct ocl_convolution *c)
{
	uint32_t n_lanes = call->run->model->device->n_lanes;
	uint64_t groups = (uint64_t)c->window[6],
		 n_along = et_times(et_times(c->sizes[0] / groups, c->sizes[6]), c->sizes[7]);
	struct ocl_launch launch;
	join_rows(c);
	if (form->is_int8 && (c->sizes[3] != call->step->layout.n_rows || n_along != call->step->layout.n_along))
		return ocl_misfit(call, "%u channels of %llu weights", c->sizes[3], (unsigned long long)n_along);
	uint64_t n_blocks = ocl_blocks(c->sizes[3] / groups, CHANNELS), n_segments = ocl_blocks(c->sizes[5], n_lanes);
	uint64_t n_batches = et_graph_result(&call->shapes, 0)->dims[0];
	uint64_t n = et_times(et_times(et_times(n_blocks, groups), n_segments), et_times(c->sizes[4], n_batches));
	ocl_begin_lanes(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_sizes(&launch, c->sizes, 8);
	ocl_put_ints(&launch, c->window, 8);
	ocl_put(&launch, &c->n_x, sizeof(c->n_x));
	ocl_put_int(&launch, (int64_t)n_blocks);
	ocl_put_int(&launch, (int64_t)n_segments);
	put_rest(call, &launch, form, c, et_times(c->sizes[3], n_along));
	uint64_t n_rows = c->sizes[3] / groups < CHANNELS ? c->sizes[3] / groups : CHANNELS;
	return ocl_start(call, &launch, n, et_times(n_along, 2 * n_rows * n_lanes));
}

static bool run_depthwise(struct ocl_call *call, const struct form *form, struct ocl_convolution *c)
{
	const struct ocl_device *device = call->run->model->device;
	const struct et_graph_size *w = et_graph_arg(&call->shapes, form->w);
	uint64_t taps = et_times(c->sizes[6], c->sizes[7]), row = w->dims[w->n_dims - 1];
	uint64_t n_segments = ocl_blocks(c->sizes[5], device->n_lanes),
		 n_blocks = ocl_blocks(c->sizes[4], device->n_tile_rows);
	struct ocl_launch launch;
	if (c->window[6] != c->sizes[0] || c->sizes[3] != c->sizes[0] || (form->is_int8 && row < c->sizes[3]))
		return ocl_misfit(call, "%u and %u channels in %lld groups", c->sizes[0], c->sizes[3],
			(long long)c->window[6]);
	uint64_t n_batches = et_graph_result(&call->shapes, 0)->dims[0];
	uint64_t n = et_times(et_times(n_segments, n_blocks), et_times(c->sizes[0], n_batches));
	ocl_begin_lanes(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_sizes(&launch, c->sizes, 8);
	ocl_put_ints(&launch, c->window, 8);
	ocl_put(&launch, &c->n_x, sizeof(c->n_x));
	ocl_put_int(&launch, (int64_t)n_segments);
	ocl_put_int(&launch, (int64_t)n_blocks);
	ocl_put_int(&launch, form->is_int8 ? 1 : (int64_t)taps);
	ocl_put_int(&launch, form->is_int8 ? (int64_t)row : 1);
	put_rest(call, &launch, form, c, form->is_int8 ? et_times(taps, row) : et_times(c->sizes[3], taps));
	return ocl_start(call, &launch, n, et_times(taps, 2ull * device->n_lanes * device->n_tile_rows));
}

static bool run_convolution(struct ocl_call *call)
{
	const struct form *form = find_form(call->shapes.node->op);
	struct ocl_convolution c;
	if (!form || !find_window(call, form, &c))
		return false;
	return call->step->variant == DEPTHWISE ? run_depthwise(call, form, &c) : run_tile(call, form, &c);
}

const struct ocl_row ocl_rows_fast_convolution[] = {
	{ "aten.convolution.default", plan_floats, run_convolution },
	{ "et_vk.q8ta_conv2d.default", plan_int8, run_convolution },
	{ "et_vk.q8ta_conv2d_dw.default", plan_int8, run_convolution },
	{ "et_vk.q8ta_conv2d_pw.default", plan_int8, run_convolution },
	{ "graph.convolution", plan_floats, run_convolution },
	{ NULL },
};
