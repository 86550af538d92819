/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers with weights of 8 or 4 bits: what their plain kernel (kernels/linear_quantized.cl) and their fast one
 * (kernels/gemv_quantized.cl) have in common. */
#ifndef DELEGATES_OPENCL_STEPS_QUANTIZED_LAYER_H
#define DELEGATES_OPENCL_STEPS_QUANTIZED_LAYER_H

#include "delegates/opencl/step.h"

/* Where a layer's arguments are; -1: there is none. */
struct ocl_quantized_layer {
	const char *name;        /* of the operator */
	const char *definitions; /* of the kernels */
	int w, scales, group, bias, x_scale, x_zero;
	bool is_4bit;
};

/* NULL: the operator is no such layer. */
const struct ocl_quantized_layer *ocl_quantized_layer_find(const struct et_graph_operator *op);

enum { OCL_QUANTIZED_TYPES = 6 };
/* Check the types of the arguments but for the weights, and define all of them in @types. How many there are; 0, with a
 * sentence: a type is wrong. */
uint32_t ocl_quantized_layer_types(struct ocl_plan *plan, const struct ocl_quantized_layer *layer,
	struct ocl_definition types[OCL_QUANTIZED_TYPES]);

struct ocl_quantized_sizes {
	uint64_t n_rows, n_columns, n_along, scale_columns;
	int64_t group; /* at most n_along, if that is not 0 */
};
/* The sizes of a run. False, with a sentence: they do not fit together. */
bool ocl_quantized_layer_sizes(struct ocl_call *call, const struct ocl_quantized_layer *layer,
	struct ocl_quantized_sizes *ret_sizes);
/* Append the number of work-items @n and the sizes; the result follows, then the arguments. */
void ocl_put_quantized_sizes(const struct ocl_call *call, struct ocl_launch *launch,
	const struct ocl_quantized_layer *layer, const struct ocl_quantized_sizes *sizes, uint64_t n);
void ocl_put_quantized_args(struct ocl_call *call, struct ocl_launch *launch, const struct ocl_quantized_layer *layer,
	const struct ocl_quantized_sizes *sizes);

#endif
