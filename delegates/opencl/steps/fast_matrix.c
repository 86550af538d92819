/* SPDX-License-Identifier: BSD-3-Clause */
/* Fast kernels of matrix products and linear layers: tiles in registers (kernels/gemm.cl), and rows of weights of 8 or
 * 4 bits (kernels/gemv_quantized.cl). Weights of linear layers are packed once, so they must be constants. */
#include "delegates/opencl/epilogue.h"
#include "delegates/opencl/steps/quantized_layer.h"

#include "delegates/opencl/run.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <string.h>

enum { INT8_PANELS = 4 }; /* as in gemm.cl */
enum { MAX_STEP = 32 };   /* elements that the kernel takes at once, at most */

static const struct et_graph_tensor *tensor_of(const struct et_graph *graph, const struct et_graph_node *node, int arg)
{
	return graph->values[node->args[arg]].tensor;
}

static bool is_packed_linear(const struct et_graph_operator *op, int *ret_w)
{
	*ret_w = strstr(op->name, "q8ta_linear") ? 3 : 1;
	return *ret_w == 3 || strcmp(op->name, "aten.linear.default") == 0;
}

bool ocl_matrix_is_fast(const struct et_graph *graph, const struct et_graph_node *node)
{
	const struct ocl_quantized_layer *layer = ocl_quantized_layer_find(node->op);
	const struct et_graph_tensor *x = tensor_of(graph, node, 0);
	int w;
	if (layer) {
		uint32_t n_along = x->dims[x->n_dims - 1];
		const struct et_graph_value *group = layer->group < 0 ? NULL : &graph->values[node->args[layer->group]];
		return n_along && n_along % MAX_STEP == 0 &&
		       (!group || (group->kind == ET_GRAPH_INT && group->i > 0 && group->i % MAX_STEP == 0));
	}
	if (!is_packed_linear(node->op, &w))
		return true;
	const struct et_graph_value *weights = &graph->values[node->args[w]];
	return weights->origin == ET_GRAPH_CONSTANT && x->dims[x->n_dims - 1] <= weights->tensor->dims[1];
}

/* --- tiles ---------------------------------------------------------------------------------------- */

struct product {
	uint64_t n_batches, n_rows, n_columns, n_along, b_batch;
	int bias;
	uint32_t n_panels; /* of WIDTH columns, for each work-item */
};

/* The arguments up to the bias. Answers how many work-items there are. */
static uint64_t begin_product(struct ocl_call *call, struct ocl_launch *launch, const struct product *p)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct ocl_device *device = call->run->model->device;
	uint64_t n_rows = et_times(p->n_batches, p->n_rows);
	uint64_t n_row_tiles = ocl_blocks(p->n_rows, device->n_tile_rows);
	uint64_t n_groups = ocl_blocks(p->n_columns, (uint64_t)device->n_lanes * p->n_panels);
	uint64_t n = et_times(et_times(n_row_tiles, n_groups), p->n_batches);
	ocl_begin_lanes(call, launch, 0);
	ocl_put_int(launch, (int64_t)n);
	ocl_put_sizes(launch,
		(uint32_t[]){
			(uint32_t)p->n_batches, (uint32_t)p->n_rows, (uint32_t)p->n_columns, (uint32_t)p->n_along },
		4);
	ocl_put_int(launch, (int64_t)n_row_tiles);
	ocl_put_int(launch, (int64_t)n_groups);
	ocl_put(launch, &p->b_batch, sizeof(p->b_batch));
	ocl_put_int(launch, ocl_was_given(call, p->bias));
	ocl_put_result(call, launch, et_times(n_rows, p->n_columns));
	ocl_put_tensor(call, launch, node->args[0], et_times(n_rows, p->n_along));
	if (call->step->packed_value != ET_GRAPH_NONE)
		ocl_put_packed(call, launch);
	else
		ocl_put_tensor(call, launch, node->args[1],
			et_times(p->b_batch ? p->n_batches : 1, et_times(p->n_along, p->n_columns)));
	ocl_put_optional(call, launch, p->bias, p->n_columns);
	return n;
}

static uint64_t cost_of(const struct ocl_call *call, const struct product *p)
{
	const struct ocl_device *device = call->run->model->device;
	return et_times(p->n_along, 2ull * p->n_panels * device->n_lanes * device->n_tile_rows);
}

static bool plan_matmul(struct ocl_plan *plan)
{
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, 1, ET_FLOAT32) && ocl_plan_epilogue(plan, false) &&
	       OCL_USE_LANES(plan, 0, "gemm", "", { "T_A", ocl_arg_type(plan, 0) }, { "T_B", ocl_arg_type(plan, 1) },
		       { "T_C", ET_FLOAT32 });
}

static bool run_matmul(struct ocl_call *call)
{
	const struct et_graph_size *a = et_graph_arg(&call->shapes, 0), *b = et_graph_arg(&call->shapes, 1);
	uint32_t n_dims = a->n_dims;
	struct product p = { .n_batches = n_dims == 3 ? a->dims[0] : 1,
		.n_rows = a->dims[n_dims - 2],
		.n_columns = b->dims[n_dims - 1],
		.n_along = a->dims[n_dims - 1],
		.bias = -1,
		.n_panels = 1 };
	struct ocl_launch launch;
	if (n_dims == 3)
		p.b_batch = (uint64_t)b->dims[1] * b->dims[2];
	uint64_t n = begin_product(call, &launch, &p);
	ocl_put_epilogue(call, &launch, n_dims - 2, n_dims - 1);
	return ocl_start(call, &launch, n, cost_of(call, &p));
}

static void pack(struct ocl_plan *plan, int w, uint32_t n_along)
{
	const struct et_graph_tensor *weights = tensor_of(plan->graph, plan->node, w);
	ocl_pack(plan, (uint32_t)w,
		&(struct ocl_layout){ .kind = OCL_PANELS,
			.from = weights->type,
			.to = weights->type,
			.n_lanes = plan->device->n_lanes,
			.n_rows = weights->dims[0],
			.n_along = n_along,
			.row_stride = weights->dims[1] });
}

static bool plan_linear(struct ocl_plan *plan)
{
	if (!ocl_matrix_is_fast(plan->graph, plan->node))
		return false;
	pack(plan, 1, tensor_of(plan->graph, plan->node, 1)->dims[1]);
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, 1, ET_FLOAT32) && ocl_want(plan, 2, ET_FLOAT32) &&
	       ocl_plan_epilogue(plan, false) &&
	       OCL_USE_LANES(plan, 0, "gemm", "#define IS_PACKED\n", { "T_A", ocl_arg_type(plan, 0) },
		       { "T_B", ocl_arg_type(plan, 1) }, { "T_C", ocl_arg_type(plan, 2) });
}

/* All dimensions of x but the last are rows. */
static bool find_product(struct ocl_call *call, int w, struct product *p)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0),
				   *weights = et_graph_arg(&call->shapes, (uint32_t)w);
	*p = (struct product){ .n_batches = 1,
		.n_rows = 1,
		.n_columns = weights->dims[0],
		.n_along = x->dims[x->n_dims - 1],
		.bias = w == 1 ? 2 : 8,
		.n_panels = w == 1 ? 1 : INT8_PANELS };
	for (uint32_t i = 0; i + 1u < x->n_dims; i++)
		p->n_rows = et_times(p->n_rows, x->dims[i]);
	return p->n_along == call->step->layout.n_along ||
	       ocl_misfit(call, "rows of %llu for weights of %llu", (unsigned long long)p->n_along,
		       (unsigned long long)call->step->layout.n_along);
}

static bool run_linear(struct ocl_call *call)
{
	struct ocl_launch launch;
	struct product p;
	if (!find_product(call, 1, &p))
		return false;
	uint64_t n = begin_product(call, &launch, &p);
	ocl_put_epilogue(call, &launch, 0, et_graph_result(&call->shapes, 0)->n_dims - 1u);
	return ocl_start(call, &launch, n, cost_of(call, &p));
}

static bool plan_q8ta_linear(struct ocl_plan *plan)
{
	const struct et_graph_tensor *x = tensor_of(plan->graph, plan->node, 0);
	if (!ocl_matrix_is_fast(plan->graph, plan->node) || !ocl_q8ta_check(plan, 9))
		return false;
	pack(plan, 3, x->dims[x->n_dims - 1]);
	return ocl_plan_epilogue(plan, false) &&
	       OCL_USE_LANES(plan, 0, "gemm", "#define IS_PACKED\n#define IS_INT8\n", { "T_A", ET_INT8 },
		       { "T_B", ET_INT8 }, { "T_C", ocl_arg_type(plan, 8) }, { "T_S", ocl_arg_type(plan, 5) });
}

static bool run_q8ta_linear(struct ocl_call *call)
{
	struct ocl_launch launch;
	struct product p;
	if (!find_product(call, 3, &p))
		return false;
	uint64_t n = begin_product(call, &launch, &p);
	ocl_put_q8ta(call, &launch, p.n_columns, 9);
	ocl_put_epilogue(call, &launch, 0, et_graph_result(&call->shapes, 0)->n_dims - 1u);
	return ocl_start(call, &launch, n, cost_of(call, &p));
}

/* --- weights of 8 and 4 bits, by rows ------------------------------------------------------------- */

static bool plan_rows(struct ocl_plan *plan)
{
	const struct ocl_quantized_layer *layer = ocl_quantized_layer_find(plan->node->op);
	struct ocl_definition types[OCL_QUANTIZED_TYPES];
	uint8_t w = ocl_arg_type(plan, (uint32_t)layer->w);
	if (!ocl_matrix_is_fast(plan->graph, plan->node) || (w != ET_UINT8 && w != ET_INT8) ||
		!ocl_plan_epilogue(plan, false))
		return false;
	uint32_t n = ocl_quantized_layer_types(plan, layer, types);
	return n && ocl_use_lanes(plan, 0, "gemv_quantized", types, n, layer->definitions);
}

static bool run_rows(struct ocl_call *call)
{
	enum { COLUMNS = 4 }; /* as in the kernel */
	const struct ocl_quantized_layer *layer = ocl_quantized_layer_find(call->shapes.node->op);
	struct ocl_quantized_sizes sizes;
	struct ocl_launch launch;
	if (!ocl_quantized_layer_sizes(call, layer, &sizes))
		return false;
	if (sizes.n_along % MAX_STEP != 0 || sizes.group % MAX_STEP != 0)
		return ocl_misfit(call, "rows of %llu, groups of %lld", (unsigned long long)sizes.n_along,
			(long long)sizes.group);
	uint64_t n = et_times(sizes.n_rows, ocl_blocks(sizes.n_columns, COLUMNS));
	ocl_begin_lanes(call, &launch, 0);
	ocl_put_quantized_sizes(call, &launch, layer, &sizes, n);
	ocl_put_result(call, &launch, et_times(sizes.n_rows, sizes.n_columns));
	ocl_put_quantized_args(call, &launch, layer, &sizes);
	ocl_put_epilogue(call, &launch, 0, et_graph_result(&call->shapes, 0)->n_dims - 1u);
	return ocl_start(call, &launch, n, sizes.n_along * 2 * COLUMNS);
}

const struct ocl_row ocl_rows_fast_matrix[] = {
	{ "aten._weight_int8pack_mm.default", plan_rows, run_rows },
	{ "aten.bmm.default", plan_matmul, run_matmul },
	{ "aten.linear.default", plan_linear, run_linear },
	{ "aten.mm.default", plan_matmul, run_matmul },
	{ "et_vk.linear_dq8ca_q4gsw.default", plan_rows, run_rows },
	{ "et_vk.linear_q4gsw.default", plan_rows, run_rows },
	{ "et_vk.linear_qcs4w.default", plan_rows, run_rows },
	{ "et_vk.q8ta_linear.default", plan_q8ta_linear, run_q8ta_linear },
	{ "et_vk.q8ta_linear_gemv.default", plan_q8ta_linear, run_q8ta_linear },
	{ NULL },
};
