/* SPDX-License-Identifier: BSD-3-Clause */
/* Normalizations. Layer norm, group norm and RMS norm are one kernel over rows; batch norm has its statistics given. */
#include "delegates/opencl/step.h"

#include "runtime/tensor.h"

/* Rows of a tensor that are normalized. */
struct rows {
	uint64_t n, n_along, n_inner, n_groups; /* as kernels/norm.cl explains */
	uint64_t n_weights;
	uint32_t weight_arg, bias_arg;
	double eps;
	bool has_statistics;
};

static bool plan_norm(struct ocl_plan *plan, uint32_t w, uint32_t b, bool has_statistics)
{
	bool is_right = ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, (int)w, ET_FLOAT32) &&
			ocl_want(plan, (int)b, ET_FLOAT32) && ocl_want(plan, -1, ET_FLOAT32);
	if (!is_right)
		return false;
	if (!has_statistics)
		return OCL_USE(plan, 0, "norm", "", { "T_O", ocl_result_type(plan, 0) },
			{ "T_A", ocl_arg_type(plan, 0) }, { "T_W", ocl_arg_type(plan, w) },
			{ "T_B", ocl_arg_type(plan, b) });
	return ocl_want(plan, -2, ET_FLOAT32) && ocl_want(plan, -3, ET_FLOAT32) &&
	       OCL_USE(plan, 0, "norm", "#define HAS_STATISTICS\n", { "T_O", ocl_result_type(plan, 0) },
		       { "T_A", ocl_arg_type(plan, 0) }, { "T_W", ocl_arg_type(plan, w) },
		       { "T_B", ocl_arg_type(plan, b) }, { "T_M", ocl_result_type(plan, 1) },
		       { "T_R", ocl_result_type(plan, 2) });
}

static bool run_rows(struct ocl_call *call, const struct rows *rows)
{
	const struct et_graph_node *node = call->shapes.node;
	uint64_t n = ocl_numel(et_graph_arg(&call->shapes, 0));
	struct ocl_launch launch;
	if (n != rows->n * rows->n_along)
		return ocl_misfit(call, "%llu elements in %llu rows of %llu", (unsigned long long)n,
			(unsigned long long)rows->n, (unsigned long long)rows->n_along);
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)rows->n);
	ocl_put_int(&launch, (int64_t)rows->n_along);
	ocl_put_int(&launch, (int64_t)rows->n_inner);
	ocl_put_int(&launch, (int64_t)rows->n_groups);
	ocl_put_float(&launch, rows->eps);
	ocl_put_int(&launch, ocl_was_given(call, rows->weight_arg));
	ocl_put_int(&launch, rows->bias_arg && ocl_was_given(call, rows->bias_arg));
	ocl_put_tensor(call, &launch, node->results[0], n);
	ocl_put_tensor(call, &launch, node->args[0], n);
	ocl_put_optional(call, &launch, rows->weight_arg, rows->n_weights);
	if (rows->bias_arg) {
		ocl_put_optional(call, &launch, rows->bias_arg, rows->n_weights);
	} else {
		ocl_put_optional(call, &launch, rows->weight_arg, rows->n_weights);
	}
	if (rows->has_statistics) {
		ocl_put_tensor(call, &launch, node->results[1], rows->n);
		ocl_put_tensor(call, &launch, node->results[2], rows->n);
	}
	return ocl_start(call, &launch, rows->n, rows->n_along * 8);
}

/* x, shape, weight, bias, eps */
static bool plan_layer_norm(struct ocl_plan *plan)
{
	return plan_norm(plan, 2, 3, true);
}

static bool run_layer_norm(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct rows rows = { .n = 1,
		.n_along = 1,
		.n_inner = 1,
		.n_groups = 1,
		.weight_arg = 2,
		.bias_arg = 3,
		.eps = et_graph_double(&call->shapes, 4, 0),
		.has_statistics = true };
	uint32_t n_outer = x->n_dims - et_graph_n_items(&call->shapes, 1);
	for (uint32_t i = 0; i < x->n_dims; i++)
		*(i < n_outer ? &rows.n : &rows.n_along) *= x->dims[i];
	rows.n_weights = rows.n_along;
	return run_rows(call, &rows);
}

/* x, weight, bias, N, C, HW, groups, eps */
static bool plan_group_norm(struct ocl_plan *plan)
{
	return plan_norm(plan, 1, 2, true);
}

static bool run_group_norm(struct ocl_call *call)
{
	int64_t n = et_graph_int(&call->shapes, 3, 0), n_channels = et_graph_int(&call->shapes, 4, 0),
		plane = et_graph_int(&call->shapes, 5, 0), n_groups = et_graph_int(&call->shapes, 6, 0);
	if (n < 0 || n_channels < 0 || plane < 1 || n_groups < 1 || n > INT32_MAX || n_channels > INT32_MAX ||
		plane > INT32_MAX || n_groups > INT32_MAX || n_channels % n_groups != 0)
		return ocl_misfit(call, "%lld channels of %lld elements in %lld groups", (long long)n_channels,
			(long long)plane, (long long)n_groups);
	struct rows rows = { .n = (uint64_t)(n * n_groups),
		.n_along = (uint64_t)(n_channels / n_groups * plane),
		.n_inner = (uint64_t)plane,
		.n_groups = (uint64_t)n_groups,
		.n_weights = (uint64_t)n_channels,
		.weight_arg = 1,
		.bias_arg = 2,
		.eps = et_graph_double(&call->shapes, 7, 0),
		.has_statistics = true };
	if (rows.n_along > INT32_MAX || rows.n > INT32_MAX)
		return ocl_misfit(call, "rows of %llu elements", (unsigned long long)rows.n_along);
	return run_rows(call, &rows);
}

/* x, weight, eps */
static bool plan_rms_norm(struct ocl_plan *plan)
{
	return plan_norm(plan, 1, 1, false);
}

static bool run_rms_norm(struct ocl_call *call)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	struct rows rows = { .n = 1,
		.n_along = 1,
		.n_inner = 1,
		.n_groups = 1,
		.weight_arg = 1,
		.eps = et_graph_double(&call->shapes, 2, 0) };
	for (uint32_t i = 0; i < x->n_dims; i++)
		*(i + 1u < x->n_dims ? &rows.n : &rows.n_along) *= x->dims[i];
	rows.n_weights = rows.n_along;
	return run_rows(call, &rows);
}

/* x, weight, bias, mean, variance, momentum, eps; the second and third result are empty */
static bool plan_batch_norm(struct ocl_plan *plan)
{
	for (int i = 0; i < 5; i++)
		if (!ocl_want(plan, i, ET_FLOAT32))
			return false;
	return ocl_want(plan, -1, ET_FLOAT32) &&
	       OCL_USE(plan, 0, "batch_norm", "", { "T_O", ocl_result_type(plan, 0) }, { "T_A", ocl_arg_type(plan, 0) },
		       { "T_W", ocl_arg_type(plan, 1) }, { "T_B", ocl_arg_type(plan, 2) },
		       { "T_M", ocl_arg_type(plan, 3) }, { "T_V", ocl_arg_type(plan, 4) });
}

static bool run_batch_norm(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0);
	uint64_t n = ocl_numel(x), n_inner = 1, n_channels = x->n_dims > 1 ? x->dims[1] : 0;
	struct ocl_launch launch;
	if (x->n_dims < 2)
		return ocl_misfit(call, "a tensor of %u dimensions", x->n_dims);
	for (uint32_t i = 2; i < x->n_dims; i++)
		n_inner *= x->dims[i];
	ocl_begin(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_int(&launch, (int64_t)n_channels);
	ocl_put_int(&launch, n ? (int64_t)n_inner : 1);
	ocl_put_float(&launch, et_graph_double(&call->shapes, 6, 0));
	ocl_put_int(&launch, ocl_was_given(call, 1));
	ocl_put_int(&launch, ocl_was_given(call, 2));
	ocl_put_tensor(call, &launch, node->results[0], n);
	ocl_put_tensor(call, &launch, node->args[0], n);
	ocl_put_optional(call, &launch, 1, n_channels);
	ocl_put_optional(call, &launch, 2, n_channels);
	ocl_put_tensor(call, &launch, node->args[3], n_channels);
	ocl_put_tensor(call, &launch, node->args[4], n_channels);
	return ocl_start(call, &launch, n, 8);
}

const struct ocl_row ocl_rows_norm[] = {
	{ "aten._native_batch_norm_legit_no_training.default", plan_batch_norm, run_batch_norm },
	{ "aten.native_group_norm.default", plan_group_norm, run_group_norm },
	{ "aten.native_layer_norm.default", plan_layer_norm, run_layer_norm },
	{ "et_vk.rms_norm.default", plan_rms_norm, run_rms_norm },
	{ NULL },
};
