/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers with weights of 8 or 4 bits: their table, and the checks and arguments that both kernels share. Shape
 * rules let rows of weights be wider than the input's, so each run checks what it reads. */
#include "delegates/opencl/steps/quantized_layer.h"

#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <string.h>

const struct ocl_quantized_layer *ocl_quantized_layer_find(const struct et_graph_operator *op)
{
	static const struct ocl_quantized_layer layers[] = {
		{ "aten._weight_int8pack_mm.default", "", 1, 2, -1, -1, -1, -1, false },
		{ "et_vk.linear_dq8ca_q4gsw.default", "#define IS_4BIT\n#define IS_DYNAMIC\n", 3, 5, 6, 7, 1, 2, true },
		{ "et_vk.linear_q4gsw.default", "#define IS_4BIT\n", 1, 2, 3, 4, -1, -1, true },
		{ "et_vk.linear_qcs4w.default", "#define IS_4BIT\n#define EVEN_IS_HIGH\n", 1, 2, -1, -1, -1, -1, true },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(layers); i++)
		if (strcmp(layers[i].name, op->name) == 0)
			return &layers[i];
	return NULL;
}

uint32_t ocl_quantized_layer_types(struct ocl_plan *plan, const struct ocl_quantized_layer *layer,
	struct ocl_definition types[OCL_QUANTIZED_TYPES])
{
	uint32_t n = 0;
	if (!ocl_want(plan, 0, ET_FLOAT32) || !ocl_want(plan, layer->scales, ET_FLOAT32) ||
		(layer->bias >= 0 && !ocl_want(plan, layer->bias, ET_FLOAT32)) ||
		(layer->x_scale >= 0 && !ocl_want(plan, layer->x_scale, ET_FLOAT32)))
		return 0;
	types[n++] = (struct ocl_definition){ "T_A", ocl_arg_type(plan, 0) };
	types[n++] = (struct ocl_definition){ "T_W", ocl_arg_type(plan, (uint32_t)layer->w) };
	types[n++] = (struct ocl_definition){ "T_S", ocl_arg_type(plan, (uint32_t)layer->scales) };
	types[n++] = (struct ocl_definition){ "T_C",
		layer->bias < 0 ? ET_FLOAT32 : ocl_arg_type(plan, (uint32_t)layer->bias) };
	if (layer->x_scale >= 0) {
		types[n++] = (struct ocl_definition){ "T_XS", ocl_arg_type(plan, (uint32_t)layer->x_scale) };
		types[n++] = (struct ocl_definition){ "T_XZ", ocl_arg_type(plan, (uint32_t)layer->x_zero) };
	}
	return n;
}

bool ocl_quantized_layer_sizes(struct ocl_call *call, const struct ocl_quantized_layer *layer,
	struct ocl_quantized_sizes *ret_sizes)
{
	const struct et_graph_size *x = et_graph_arg(&call->shapes, 0),
				   *w = et_graph_arg(&call->shapes, (uint32_t)layer->w),
				   *scales = et_graph_arg(&call->shapes, (uint32_t)layer->scales);
	bool is_grouped = layer->group >= 0;
	uint64_t n_along = x->dims[x->n_dims - 1], n_columns = w->dims[0], n_rows = 1;
	uint64_t scale_columns = is_grouped && scales->n_dims ? scales->dims[scales->n_dims - 1] : n_columns;
	int64_t group = is_grouped ? et_graph_int(&call->shapes, (uint32_t)layer->group, 0) : INT32_MAX;
	if (group < 1 || (layer->is_4bit ? (n_along + 1) / 2 : n_along) > w->dims[1])
		return ocl_misfit(call, "rows of %llu, weights of %u bytes, groups of %lld",
			(unsigned long long)n_along, w->dims[1], (long long)group);
	if (scale_columns < n_columns)
		return ocl_misfit(call, "%llu scales for %llu columns", (unsigned long long)scale_columns,
			(unsigned long long)n_columns);
	if (group > (int64_t)n_along)
		group = n_along ? (int64_t)n_along : 1;
	for (uint32_t i = 0; i + 1u < x->n_dims; i++)
		n_rows = et_times(n_rows, x->dims[i]);
	*ret_sizes = (struct ocl_quantized_sizes){ n_rows, n_columns, n_along, scale_columns, group };
	return true;
}

void ocl_put_quantized_sizes(const struct ocl_call *call, struct ocl_launch *launch,
	const struct ocl_quantized_layer *layer, const struct ocl_quantized_sizes *sizes, uint64_t n)
{
	ocl_put_int(launch, (int64_t)n);
	ocl_put_int(launch, (int64_t)sizes->n_columns);
	ocl_put_int(launch, (int64_t)sizes->n_along);
	ocl_put_int(launch, et_graph_arg(&call->shapes, (uint32_t)layer->w)->dims[1]);
	ocl_put_int(launch, sizes->group);
	ocl_put_int(launch, (int64_t)sizes->scale_columns);
	ocl_put_int(launch, ocl_was_given(call, layer->bias));
}

void ocl_put_quantized_args(struct ocl_call *call, struct ocl_launch *launch, const struct ocl_quantized_layer *layer,
	const struct ocl_quantized_sizes *sizes)
{
	const uint32_t *args = call->shapes.node->args;
	uint32_t row_bytes = et_graph_arg(&call->shapes, (uint32_t)layer->w)->dims[1];
	uint64_t n_groups = sizes->n_along ? (sizes->n_along - 1) / (uint64_t)sizes->group + 1 : 0;
	ocl_put_tensor(call, launch, args[0], et_times(sizes->n_rows, sizes->n_along));
	ocl_put_tensor(call, launch, args[layer->w], et_times(sizes->n_columns, row_bytes));
	ocl_put_tensor(call, launch, args[layer->scales],
		n_groups ? et_times(n_groups - 1, sizes->scale_columns) + sizes->n_columns : 0);
	ocl_put_optional(call, launch, layer->bias, sizes->n_columns);
	if (layer->x_scale >= 0) {
		ocl_put_tensor(call, launch, args[layer->x_scale], sizes->n_rows);
		ocl_put_tensor(call, launch, args[layer->x_zero], sizes->n_rows);
	}
}
