/* SPDX-License-Identifier: BSD-3-Clause */
/* Epilogues: the steps that a pass gave to a node (delegates/graph/graph.h), as instructions that the node's kernel
 * reads (kernels/prelude.cl). So a kernel is built once, whatever steps a payload's nodes have. A chain of elementwise
 * operators is nothing but an epilogue.
 *
 * Instructions compute in f32. Steps of 32-bit integers, which f32 cannot hold, are not fused. */
#ifndef DELEGATES_OPENCL_EPILOGUE_H
#define DELEGATES_OPENCL_EPILOGUE_H

#include "delegates/opencl/step.h"

/* For et_graph.may_fuse: whether a kernel can do @user as steps of @head. */
bool ocl_may_fuse(const struct et_graph *graph, const struct et_graph_node *head, const struct et_graph_node *user);

/* Write the steps' instructions for plan->step, behind the operator itself if @is_chain. False, without a sentence if
 * they are not possible. */
bool ocl_plan_epilogue(struct ocl_plan *plan, bool is_chain);
/* Only the range of a node without other steps than one clamp; false: it has others. */
bool ocl_plan_range(struct ocl_plan *plan);
/* Free the instructions. */
void ocl_epilogue_free(struct ocl_device *device, struct ocl_step *step);

/* Append result, its place and its type. */
void ocl_put_result(struct ocl_call *call, struct ocl_launch *launch, uint64_t n);
/* Append range, instructions, and the operands. The kernel counts the result's dimensions below @middle as one, those
 * from @inner on as one, and those between them as one. */
void ocl_put_epilogue(struct ocl_call *call, struct ocl_launch *launch, uint32_t middle, uint32_t inner);

/* Kernel @k of the device's width, built for the types: as ocl_use. */
bool ocl_use_lanes(struct ocl_plan *plan, uint32_t k, const char *family, const struct ocl_definition *types,
	uint32_t n_types, const char *more);
#define OCL_USE_LANES(plan, k, family, more, ...)                                      \
	ocl_use_lanes(plan, k, family, (const struct ocl_definition[]){ __VA_ARGS__ }, \
		sizeof((const struct ocl_definition[]){ __VA_ARGS__ }) / sizeof(struct ocl_definition), more)

#endif
