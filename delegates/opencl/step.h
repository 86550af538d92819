/* SPDX-License-Identifier: BSD-3-Clause */
/* A step runs one node of a graph. The row of the node's operator has two functions: plan, when a payload is made
 * ready, refuses what cannot be run and finds the kernels; run, in each run, computes their arguments from the sizes of
 * that run and starts them.
 *
 * Whatever a payload or a client says, a kernel must not leave its buffers: ocl_put_tensor and ocl_put_view check what
 * the kernel will reach against what is there, and indexes that lie in tensors are checked by the kernels. */
#ifndef DELEGATES_OPENCL_STEP_H
#define DELEGATES_OPENCL_STEP_H

#include "delegates/graph/operators.h"
#include "delegates/graph/shape_rules.h"
#include "delegates/opencl/model.h"
#include "delegates/opencl/programs.h"
#include "delegates/opencl/weights.h"

struct ocl_plan {
	struct ocl_device *device;
	const struct et_graph *graph;
	const struct et_graph_node *node;
	struct ocl_step *step;
	struct et_diag *diag;
	bool is_fast;          /* fast kernels may be used */
	enum et_status status; /* of what failed */
};

struct ocl_call;

struct ocl_row {
	const char *name; /* of the operator */
	bool (*plan)(struct ocl_plan *plan);
	bool (*run)(struct ocl_call *call);
	const char *text;                                          /* what plan wants to know: a C expression, say */
	bool (*numbers)(struct ocl_call *call, double numbers[8]); /* of the expression */
};

enum { OCL_MAX_KERNELS = 2, OCL_MAX_OPERANDS = 3 };

struct ocl_step {
	const struct ocl_row *row; /* NULL: the node needs no work */
	const struct ocl_kernel *kernels[OCL_MAX_KERNELS];
	uint8_t compute;  /* enum et_scalar_type: f32, i32, i64 */
	atomic_uint rate; /* how fast it was; 0: not known yet. In run.c */
	uint8_t variant;  /* what plan decided, and run wants to know */
	/* Weights in an order that a kernel wants, made of the constant packed_value; ET_GRAPH_NONE: there are none. */
	uint32_t packed_value;
	struct ocl_layout layout;
	struct ocl_weight *packed;
	/* The node's own steps: a range, instructions, and the tensors that they read; in epilogue.c. */
	float low, high;
	uint32_t n_operands, operands[OCL_MAX_OPERANDS];
	cl_mem code;
	uint64_t n_code_bytes;
};

/* The row of an operator's plain kernels; NULL: there is no kernel, so its programs are refused by its name. */
const struct ocl_row *ocl_row_find(const char *name);
/* The row of its fast kernels, which also run its steps; NULL: it has none. Their plan answers false without a status
 * where the plain kernel is to be used. */
const struct ocl_row *ocl_fast_row_find(const struct et_graph_operator *op);

/* --- for plan ------------------------------------------------------------------------------------- */

/* Answer false: the operator is named in front of the sentence. */
bool ocl_refuse(struct ocl_plan *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The type of argument or result @i, a tensor; ET_FLOAT32 if it was left out. */
uint8_t ocl_arg_type(const struct ocl_plan *plan, uint32_t i);
uint8_t ocl_result_type(const struct ocl_plan *plan, uint32_t i);
bool ocl_is_float(uint8_t type);
/* Whether argument @i was given. */
bool ocl_has_arg(const struct ocl_plan *plan, uint32_t i);
/* Refuse an argument (a result if @i is negative: -1 is the first) whose type is not @type; ET_FLOAT32 stands for f16,
 * too, and ET_INT32 for i64. An argument that was left out has any type. */
bool ocl_want(struct ocl_plan *plan, int i, uint8_t type);
/* Find or build kernel @k of the step: @types are pairs of a definition's letters and a type, as "T_O" ET_FLOAT32. */
struct ocl_definition {
	const char *name;
	uint8_t type;
};
bool ocl_use(struct ocl_plan *plan, uint32_t k, const char *family, const struct ocl_definition *types,
	uint32_t n_types, const char *more);
#define OCL_USE(plan, k, family, more, ...)                                      \
	ocl_use(plan, k, family, (const struct ocl_definition[]){ __VA_ARGS__ }, \
		sizeof((const struct ocl_definition[]){ __VA_ARGS__ }) / sizeof(struct ocl_definition), more)

/* Upload argument @arg, a constant, with this layout for the step, and not as it is. */
void ocl_pack(struct ocl_plan *plan, uint32_t arg, const struct ocl_layout *layout);

/* --- for run -------------------------------------------------------------------------------------- */

struct ocl_run;
struct ocl_call {
	struct et_graph_shapes shapes; /* the node, its sizes, the diagnosis: for et_graph_arg and its like */
	const struct ocl_step *step;
	struct ocl_run *run;
	enum et_status status;
};

/* Answer false with a sentence: an argument of the run does not suit. */
bool ocl_misfit(struct ocl_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct ocl_view {
	uint32_t n_dims;
	uint32_t dims[ET_GRAPH_MAX_DIMS];
	int64_t strides[ET_GRAPH_MAX_DIMS]; /* in elements */
	int64_t start;
};
/* A dense tensor. */
struct ocl_view ocl_view_of(const struct et_graph_size *size);
/* The tensor as if it had the sizes of @to: dimensions that are repeated have stride 0. */
struct ocl_view ocl_view_as(const struct et_graph_size *size, const struct et_graph_size *to);
uint64_t ocl_view_numel(const struct ocl_view *view);

/* Drop dimensions of 1, and join neighbours that follow each other in all @n views, which have the same dims. The
 * number of dimensions that are left. */
uint32_t ocl_views_simplify(struct ocl_view *views, uint32_t n);
/* How many blocks of @size it takes for @n. */
uint64_t ocl_blocks(uint64_t n, uint64_t size);

enum { OCL_MAX_KERNEL_ARGS = 48, OCL_MAX_ARG_BYTES = 64 };
struct ocl_launch {
	const struct ocl_kernel *kernel;
	uint32_t n_args;
	size_t local;  /* work-items of a group */
	bool is_wrong; /* an argument did not suit: it is not started */
	struct {
		size_t n;
		uint8_t bytes[OCL_MAX_ARG_BYTES];
	} args[OCL_MAX_KERNEL_ARGS];
};

/* Begin a launch of the step's kernel @kernel, with no arguments yet. */
void ocl_begin(struct ocl_call *call, struct ocl_launch *launch, uint32_t kernel);
/* Work-items of a group of kernels of the device's width: a work-item is much work, so a CPU gets groups of one. */
uint64_t ocl_lanes_group(const struct ocl_device *device);
/* ocl_begin for such a kernel. */
void ocl_begin_lanes(struct ocl_call *call, struct ocl_launch *launch, uint32_t kernel);
/* Append an argument of @n bytes, which are copied. */
void ocl_put(struct ocl_launch *launch, const void *bytes, size_t n);
/* Append an int or a uint of 32 bits; a number that is neither makes the launch wrong. */
void ocl_put_int(struct ocl_launch *launch, int64_t i);
/* Append a float. */
void ocl_put_float(struct ocl_launch *launch, double d);
/* Eight numbers of 32 bits; n of them given. */
void ocl_put_ints(struct ocl_launch *launch, const int64_t *ints, uint32_t n);
/* Eight, or (n = 4) four. */
void ocl_put_sizes(struct ocl_launch *launch, const uint32_t *sizes, uint32_t n);
/* Buffer and place of the tensor @value, of which the kernel reaches elements below @n. */
void ocl_put_tensor(struct ocl_call *call, struct ocl_launch *launch, uint32_t value, uint64_t n);
/* The step's packed weights. */
void ocl_put_packed(struct ocl_call *call, struct ocl_launch *launch);
/* Whether the node has argument @arg, and it is not None; -1: it has none. */
bool ocl_was_given(const struct ocl_call *call, int arg);
/* ocl_put_tensor for argument @arg, if it was given; else what ocl_put_nothing appends. */
void ocl_put_optional(struct ocl_call *call, struct ocl_launch *launch, int arg, uint64_t n);
/* A buffer and a place that the kernel does not look at. */
void ocl_put_nothing(struct ocl_call *call, struct ocl_launch *launch);
/* The same without its strides, for a kernel that reaches the elements of @view. */
void ocl_put_view(struct ocl_call *call, struct ocl_launch *launch, uint32_t value, const struct ocl_view *view);
void ocl_put_strides(struct ocl_launch *launch, const struct ocl_view *view);
/* The word for indexes out of range. */
void ocl_put_error(struct ocl_call *call, struct ocl_launch *launch);
/* Start @n work-items, each of about @cost operations. With 0 nothing is started. */
bool ocl_start(struct ocl_call *call, struct ocl_launch *launch, uint64_t n, uint64_t cost);

/* Elementwise kernel @k over @n operands: views[0] is the result's, all have the same dims. In steps/elementwise.c. */
bool ocl_run_elementwise(struct ocl_call *call, uint32_t k, uint32_t n, const uint32_t *values,
	const struct ocl_view *views, const double *numbers);
/* Find kernel @k for an expression of @n operands with these types. */
bool ocl_plan_elementwise(struct ocl_plan *plan, uint32_t k, const char *expression, uint8_t result,
	const uint8_t *types, uint32_t n);

/* Chains of elementwise operators; in epilogue.c. */
bool ocl_plan_chain(struct ocl_plan *plan);
bool ocl_run_chain(struct ocl_call *call);

/* The layers of int8 tensors: x, scale, zero point, weights, sums, scales, the result's scale and zero point, bias ...
 * Types and the activation, argument @activation; and arguments of kernels: scales, numbers, whether it is relu. In
 * steps/quantized.c. */
bool ocl_q8ta_check(struct ocl_plan *plan, uint32_t activation);
void ocl_put_q8ta(struct ocl_call *call, struct ocl_launch *launch, uint64_t n_columns, uint32_t activation);

/* Whether the fast kernels take the node, and its steps. */
bool ocl_matrix_is_fast(const struct et_graph *graph, const struct et_graph_node *node);
bool ocl_convolution_is_fast(const struct et_graph *graph, const struct et_graph_node *node);

/* The rows of each file; the last has no name. */
extern const struct ocl_row ocl_rows_elementwise[], ocl_rows_movement[], ocl_rows_gather[], ocl_rows_reduce[],
	ocl_rows_norm[], ocl_rows_matrix[], ocl_rows_window[], ocl_rows_quantized[], ocl_rows_attention[],
	ocl_rows_fast_matrix[], ocl_rows_fast_convolution[];

#endif
