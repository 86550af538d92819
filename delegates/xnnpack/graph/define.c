/* SPDX-License-Identifier: BSD-3-Clause */
/* Defining each kind of node for XNNPACK: one short function each, named in the table of kind.c.
 *
 * Everything was checked before (payload_read.c, shape.c). A node that XNNPACK still refuses comes back as its
 * status. */
#include "delegates/xnnpack/ukernels/gemm.h"
#include "delegates/xnnpack/graph/deconvolution_cut.h"
#include "delegates/xnnpack/graph/shape.h"
#include "delegates/xnnpack/graph/subgraph.h"

#include <float.h>
#include <math.h>

/* Three of XNNPACK's functions are marked deprecated, in favour of functions that do the same under longer names. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define DEFINE(name) \
	enum xnn_status et_xnn_define_##name(const struct et_xnn_builder *builder, const struct et_xnn_node *node)

static uint32_t input(const struct et_xnn_builder *builder, const struct et_xnn_node *node, uint32_t slot)
{
	uint32_t value = node->inputs[slot];
	return value == ET_XNN_NONE ? XNN_INVALID_VALUE_ID : builder->ids[value];
}

static uint32_t output(const struct et_xnn_builder *builder, const struct et_xnn_node *node, uint32_t slot)
{
	return builder->ids[node->outputs[slot]];
}

/* XNNPACK takes lists as size_t. */
struct wide_list {
	size_t items[ET_XNN_MAX_DIMS];
};

static struct wide_list widen(const struct et_xnn_node *node, uint32_t slot)
{
	struct wide_list wide = { 0 };
	for (uint32_t i = 0; i < node->n_list[slot]; i++)
		wide.items[i] = node->list[slot][i];
	return wide;
}

/* --- elementwise nodes, in floats if the scales don't fit --- */

/* XNNPACK's ids of the values that a unary or binary node reads and writes. */
struct operands {
	uint32_t inputs[2], output;
};

static enum xnn_status define_inner(const struct et_xnn_builder *builder, enum xnn_datatype type, uint32_t index,
	uint32_t *ret_id)
{
	const struct et_xnn_shape *shape = &builder->payload->values[index].shape;
	return xnn_define_tensor_value(builder->subgraph, type, shape->n_dims, shape->dims, NULL, XNN_INVALID_VALUE_ID,
		0, ret_id);
}

static enum xnn_status define_float(const struct et_xnn_builder *builder, uint32_t index, uint32_t *ret_id)
{
	return define_inner(builder, xnn_datatype_fp32, index, ret_id);
}

static enum xnn_status define_convert(const struct et_xnn_builder *builder, uint32_t from, uint32_t to)
{
	return xnn_define_unary(builder->subgraph, xnn_unary_convert, NULL, from, to, 0);
}

/* Find the node's operands. If its scales do not fit: convert its inputs to floats, and define a float output, which
 * end_operands converts. */
static enum xnn_status begin_operands(const struct et_xnn_builder *builder, const struct et_xnn_node *node,
	struct operands *ret)
{
	enum xnn_status status = xnn_status_success;
	*ret = (struct operands){ .output = output(builder, node, 0) };
	for (uint32_t i = 0; i < node->kind->n_inputs; i++)
		ret->inputs[i] = input(builder, node, i);
	if (et_xnn_scales_fit(builder->payload, node))
		return status;
	for (uint32_t i = 0; i < node->kind->n_inputs && status == xnn_status_success; i++) {
		status = define_float(builder, node->inputs[i], &ret->inputs[i]);
		if (status == xnn_status_success)
			status = define_convert(builder, input(builder, node, i), ret->inputs[i]);
	}
	if (status != xnn_status_success || node->kind->types == ET_XNN_TYPES_CONVERT)
		return status; /* the node itself converts the floats */
	return define_float(builder, node->outputs[0], &ret->output);
}

static enum xnn_status end_operands(const struct et_xnn_builder *builder, const struct et_xnn_node *node,
	const struct operands *operands)
{
	uint32_t to = output(builder, node, 0);
	return operands->output == to ? xnn_status_success : define_convert(builder, operands->output, to);
}

/* Define a clamp of integers. XNNPACK would merge the clamp into the node above, whose integer kernels ignore
 * limits; a copy between them prevents that. XNNPACK converts the limits to integers, so they are brought into range
 * here. */
static enum xnn_status define_integer_limits(const struct et_xnn_builder *builder, const struct et_xnn_node *node,
	uint32_t from, uint32_t to)
{
	uint32_t copy;
	union xnn_unary_params params = { .clamp = { .min = fminf(fmaxf(node->min, -0x1p31f), 0x1.fffffep30f),
						  .max = fminf(fmaxf(node->max, -0x1p31f), 0x1.fffffep30f) } };
	enum xnn_status status = define_inner(builder, xnn_datatype_int32, node->outputs[0], &copy);
	if (status == xnn_status_success)
		status = xnn_define_copy(builder->subgraph, from, copy, 0);
	return status == xnn_status_success ? xnn_define_unary(builder->subgraph, xnn_unary_clamp, &params, copy, to, 0)
					    : status;
}

static bool is_integer(const struct et_xnn_builder *builder, const struct et_xnn_node *node)
{
	return builder->payload->values[node->outputs[0]].type == ET_XNN_INT32;
}

static bool is_limited(const struct et_xnn_node *node)
{
	return node->min != -INFINITY || node->max != INFINITY;
}

#ifdef __x86_64__
/* Define the reciprocal square root of floats. XNNPACK's kernels for x86-64 improve an estimate. For infinity they
 * multiply 0 with infinity: NaN, instead of the 0 that later versions and other processors give. So the input is
 * limited to the largest float, whose result is 1.5 * 2^-64 (one step of the kernel underflows there), and that
 * number is subtracted from all results. The subtraction changes only the results of the largest numbers. */
static enum xnn_status define_reciprocal_root(const struct et_xnn_builder *builder, const struct et_xnn_node *node)
{
	static const float least[1 + XNN_EXTRA_BYTES / sizeof(float)] = { 0x1.8p-64f };
	union xnn_unary_params finite = { .clamp = { .min = -INFINITY, .max = FLT_MAX } };
	struct xnn_binary_params unlimited = { -INFINITY, INFINITY };
	xnn_subgraph_t graph = builder->subgraph;
	uint32_t from, root, offset;
	enum xnn_status status = define_float(builder, node->inputs[0], &from);
	if (status == xnn_status_success)
		status = define_float(builder, node->outputs[0], &root);
	if (status == xnn_status_success)
		status = xnn_define_tensor_value(graph, xnn_datatype_fp32, 0, NULL, least, XNN_INVALID_VALUE_ID, 0,
			&offset);
	if (status == xnn_status_success)
		status = xnn_define_unary(graph, xnn_unary_clamp, &finite, input(builder, node, 0), from, 0);
	if (status == xnn_status_success)
		status = xnn_define_unary(graph, xnn_unary_reciprocal_square_root, NULL, from, root, node->flags);
	if (status == xnn_status_success)
		status = xnn_define_binary(graph, xnn_binary_subtract, &unlimited, root, offset,
			output(builder, node, 0), 0);
	return status;
}
#endif

DEFINE(unary)
{
	union xnn_unary_params params = { 0 };
	const union xnn_unary_params *given = &params;
	struct operands operands;
	switch ((enum xnn_unary_operator)node->kind->op) {
	case xnn_unary_clamp:
		params.clamp.min = node->min;
		params.clamp.max = node->max;
		if (is_integer(builder, node))
			return define_integer_limits(builder, node, input(builder, node, 0), output(builder, node, 0));
		break;
	case xnn_unary_leaky_relu:
		params.leaky_relu.negative_slope = node->number;
		break;
	case xnn_unary_elu:
		params.elu.alpha = node->number;
		break;
#ifdef __x86_64__
	case xnn_unary_reciprocal_square_root:
		if (builder->payload->values[node->inputs[0]].type == ET_XNN_FP32)
			return define_reciprocal_root(builder, node);
		given = NULL;
		break;
#endif
	default:
		given = NULL;
		break;
	}
	enum xnn_status status = begin_operands(builder, node, &operands);
	if (status != xnn_status_success)
		return status;
	status = xnn_define_unary(builder->subgraph, (enum xnn_unary_operator)node->kind->op, given, operands.inputs[0],
		operands.output, node->flags);
	return status == xnn_status_success ? end_operands(builder, node, &operands) : status;
}

DEFINE(binary)
{
	struct xnn_binary_params params = { .output_min = node->min, .output_max = node->max };
	struct operands operands;
	enum xnn_status status = begin_operands(builder, node, &operands);
	bool is_apart = is_integer(builder, node) && is_limited(node);
	uint32_t out = operands.output;
	if (is_apart) {
		params = (struct xnn_binary_params){ -INFINITY, INFINITY };
		if (status == xnn_status_success)
			status = define_inner(builder, xnn_datatype_int32, node->outputs[0], &out);
	}
	if (status == xnn_status_success)
		status = xnn_define_binary(builder->subgraph, (enum xnn_binary_operator)node->kind->op, &params,
			operands.inputs[0], operands.inputs[1], out, node->flags);
	if (status == xnn_status_success && is_apart)
		status = define_integer_limits(builder, node, out, operands.output);
	return status == xnn_status_success ? end_operands(builder, node, &operands) : status;
}

DEFINE(softmax)
{
	return xnn_define_softmax(builder->subgraph, input(builder, node, 0), output(builder, node, 0), node->flags);
}

DEFINE(copy)
{
	return xnn_define_copy(builder->subgraph, input(builder, node, 0), output(builder, node, 0), node->flags);
}

DEFINE(nothing)
{
	(void)builder;
	(void)node;
	return xnn_status_unsupported_parameter;
}

/* Define a matrix of floats. */
static enum xnn_status define_matrix(const struct et_xnn_builder *builder, size_t n_rows, size_t n_columns,
	uint32_t *ret_id)
{
	const size_t dims[] = { n_rows, n_columns };
	return xnn_define_tensor_value(builder->subgraph, xnn_datatype_fp32, 2, dims, NULL, XNN_INVALID_VALUE_ID, 0,
		ret_id);
}

/* Define a float layer as a matrix product of @in[0] and @in[1], plus @in[2] if it is there. With few columns and a
 * computed filter XNNPACK's own layer loses NaNs (gemm.h); its matrix product does not. */
static enum xnn_status define_product(const struct et_xnn_builder *builder, const struct et_xnn_node *node,
	const uint32_t in[3], uint32_t out)
{
	xnn_subgraph_t graph = builder->subgraph;
	const struct et_xnn_shape *from = &builder->payload->values[node->inputs[0]].shape,
				  *filter = &builder->payload->values[node->inputs[1]].shape,
				  *to = &builder->payload->values[node->outputs[0]].shape;
	bool is_transposed = node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS, is_line = to->n_dims == 1,
	     has_bias = in[2] != XNN_INVALID_VALUE_ID;
	size_t n_in = filter->dims[is_transposed ? 0 : 1], n_out = filter->dims[is_transposed ? 1 : 0];
	uint32_t left = in[0], product = out, sum = out;
	struct xnn_binary_params limits = { .output_min = node->min, .output_max = node->max };
	enum xnn_status status = xnn_status_success;
	if (is_line || from->n_dims != to->n_dims || (node->flags & XNN_FLAG_TENSORFLOW_RESHAPE_2D)) {
		const size_t rows[] = { 0, n_in };
		status = define_matrix(builder, is_line ? 1 : to->dims[0], n_in, &left);
		if (status == xnn_status_success)
			status = xnn_define_static_reshape(graph, 2, rows, in[0], left, 0);
	}
	if (status == xnn_status_success && is_line)
		status = define_matrix(builder, 1, n_out, &sum);
	product = sum;
	if (status == xnn_status_success && (has_bias || is_limited(node)))
		status = is_line ? define_matrix(builder, 1, n_out, &product)
				 : define_float(builder, node->outputs[0], &product);
	if (status == xnn_status_success)
		status = xnn_define_batch_matrix_multiply(graph, left, in[1], product,
			is_transposed ? 0 : XNN_FLAG_TRANSPOSE_B);
	if (status == xnn_status_success && has_bias)
		status = xnn_define_binary(graph, xnn_binary_add, &limits, product, in[2], sum, 0);
	else if (status == xnn_status_success && is_limited(node))
		status = xnn_define_unary(graph, xnn_unary_clamp,
			&(union xnn_unary_params){ .clamp = { .min = node->min, .max = node->max } }, product, sum, 0);
	return status == xnn_status_success && is_line ? xnn_define_static_reshape(graph, 1, &n_out, sum, out, 0)
						       : status;
}

static size_t n_columns(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return payload->values[node->inputs[1]].shape.dims[node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS ? 1 : 0];
}

/* XNNPACK has no fp16 layer with a computed filter or bias: such a layer is computed in fp32. */
DEFINE(fully_connected)
{
	const struct et_xnn_value *values = builder->payload->values;
	uint32_t in[3], to = output(builder, node, 0), out = to;
	bool is_computed = et_xnn_has_computed_weights(builder->payload, node),
	     is_by_floats = values[node->inputs[0]].type == ET_XNN_FP16 && is_computed;
	enum xnn_status status = xnn_status_success;
	for (uint32_t i = 0; i < 3 && status == xnn_status_success; i++) {
		in[i] = input(builder, node, i);
		if (!is_by_floats || in[i] == XNN_INVALID_VALUE_ID || values[node->inputs[i]].type != ET_XNN_FP16)
			continue;
		status = define_float(builder, node->inputs[i], &in[i]);
		if (status == xnn_status_success)
			status = define_convert(builder, input(builder, node, i), in[i]);
	}
	if (status == xnn_status_success && is_by_floats)
		status = define_float(builder, node->outputs[0], &out);
	if (status == xnn_status_success)
		status = is_computed && et_xnn_gemm_is_narrow(n_columns(builder->payload, node))
				 ? define_product(builder, node, in, out)
				 : xnn_define_fully_connected(builder->subgraph, node->min, node->max, in[0], in[1],
					   in[2], out, node->flags);
	return status == xnn_status_success && out != to ? define_convert(builder, out, to) : status;
}

DEFINE(convolution)
{
	const uint32_t *n = node->numbers;
	return xnn_define_convolution_2d(builder->subgraph, n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_RIGHT],
		n[ET_XNN_PAD_BOTTOM], n[ET_XNN_PAD_LEFT], n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W], n[ET_XNN_STRIDE_H],
		n[ET_XNN_STRIDE_W], n[ET_XNN_DILATION_H], n[ET_XNN_DILATION_W], n[ET_XNN_GROUPS], n[ET_XNN_GROUP_IN],
		n[ET_XNN_GROUP_OUT], node->min, node->max, input(builder, node, 0), input(builder, node, 1),
		input(builder, node, 2), output(builder, node, 0), node->flags);
}

/* Each group has one input channel, so the number of groups is the number of input channels. */
DEFINE(depthwise)
{
	const uint32_t *n = node->numbers;
	return xnn_define_depthwise_convolution_2d(builder->subgraph, n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_RIGHT],
		n[ET_XNN_PAD_BOTTOM], n[ET_XNN_PAD_LEFT], n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W], n[ET_XNN_STRIDE_H],
		n[ET_XNN_STRIDE_W], n[ET_XNN_DILATION_H], n[ET_XNN_DILATION_W], n[ET_XNN_GROUP_OUT], n[ET_XNN_GROUPS],
		node->min, node->max, input(builder, node, 0), input(builder, node, 1), input(builder, node, 2),
		output(builder, node, 0), node->flags);
}

static enum xnn_status define_deconvolution(const struct et_xnn_builder *builder, const struct et_xnn_node *node,
	const uint32_t padding[4], uint32_t out)
{
	const uint32_t *n = node->numbers;
	return xnn_define_deconvolution_2d(builder->subgraph, padding[0], padding[1], padding[2], padding[3],
		n[ET_XNN_ADJUST_H], n[ET_XNN_ADJUST_W], n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W], n[ET_XNN_STRIDE_H],
		n[ET_XNN_STRIDE_W], n[ET_XNN_DILATION_H], n[ET_XNN_DILATION_W], n[ET_XNN_GROUPS], n[ET_XNN_GROUP_IN],
		n[ET_XNN_GROUP_OUT], node->min, node->max, input(builder, node, 0), input(builder, node, 1),
		input(builder, node, 2), out, node->flags);
}

/* Define a transposed convolution without its padding, then cut the padding off (deconvolution_cut.h). */
static enum xnn_status define_whole(const struct et_xnn_builder *builder, const struct et_xnn_node *node,
	const struct et_xnn_shape *out)
{
	static const uint32_t no_padding[4] = { 0 };
	const uint32_t *n = node->numbers;
	struct et_xnn_value whole = builder->payload->values[node->outputs[0]];
	const size_t offsets[] = { 0, n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_LEFT], 0 },
		     sizes[] = { 0, out->dims[1], out->dims[2], 0 };
	whole.shape = et_xnn_without_padding(node, out);
	whole.external = 0;
	uint32_t id;
	enum xnn_status status = et_xnn_define_value(builder->subgraph, &whole, &whole, ET_XNN_NONE, &id);
	if (status == xnn_status_success)
		status = define_deconvolution(builder, node, no_padding, id);
	return status == xnn_status_success
		       ? xnn_define_static_slice(builder->subgraph, 4, offsets, sizes, id, output(builder, node, 0), 0)
		       : status;
}

DEFINE(deconvolution)
{
	const uint32_t *n = node->numbers;
	const struct et_xnn_payload *payload = builder->payload;
	uint32_t value = node->outputs[0];
	const struct et_xnn_shape *out = &payload->values[value].shape;
	if (builder->shapes)
		out = &builder->shapes[payload->whole ? payload->whole[value] : value];
	return et_xnn_is_below_stride(node, out)
		       ? define_whole(builder, node, out)
		       : define_deconvolution(builder, node, n + ET_XNN_PAD_TOP, output(builder, node, 0));
}

DEFINE(average_pooling)
{
	const uint32_t *n = node->numbers;
	return xnn_define_average_pooling_2d(builder->subgraph, n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_RIGHT],
		n[ET_XNN_PAD_BOTTOM], n[ET_XNN_PAD_LEFT], n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W], n[ET_XNN_STRIDE_H],
		n[ET_XNN_STRIDE_W], node->min, node->max, input(builder, node, 0), output(builder, node, 0),
		node->flags);
}

DEFINE(max_pooling)
{
	const uint32_t *n = node->numbers;
	return xnn_define_max_pooling_2d(builder->subgraph, n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_RIGHT],
		n[ET_XNN_PAD_BOTTOM], n[ET_XNN_PAD_LEFT], n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W], n[ET_XNN_STRIDE_H],
		n[ET_XNN_STRIDE_W], n[ET_XNN_DILATION_H], n[ET_XNN_DILATION_W], node->min, node->max,
		input(builder, node, 0), output(builder, node, 0), node->flags);
}

DEFINE(global_pooling)
{
	return xnn_define_global_average_pooling_2d(builder->subgraph, node->min, node->max, input(builder, node, 0),
		output(builder, node, 0), node->flags);
}

DEFINE(transpose)
{
	struct wide_list order = widen(node, 0);
	return xnn_define_static_transpose(builder->subgraph, node->n_list[0], order.items, input(builder, node, 0),
		output(builder, node, 0), node->flags);
}

DEFINE(reshape)
{
	struct wide_list shape = widen(node, 0);
	return xnn_define_static_reshape(builder->subgraph, node->n_list[0], shape.items, input(builder, node, 0),
		output(builder, node, 0), node->flags);
}

DEFINE(slice)
{
	struct wide_list offsets = widen(node, 0), sizes = widen(node, 1);
	return xnn_define_static_slice(builder->subgraph, node->n_list[0], offsets.items, sizes.items,
		input(builder, node, 0), output(builder, node, 0), node->flags);
}

/* NaN as a padding value becomes the largest 8-bit number, as in ExecuTorch; XNNPACK's own result depends on its
 * compiler. */
DEFINE(pad)
{
	struct wide_list before = widen(node, 0), after = widen(node, 1);
	bool is_largest = isnan(node->number) && et_xnn_is_8_bit(&builder->payload->values[node->outputs[0]]);
	return xnn_define_static_constant_pad(builder->subgraph, before.items, after.items,
		is_largest ? INFINITY : node->number, input(builder, node, 0), output(builder, node, 0), node->flags);
}

DEFINE(resize)
{
	return xnn_define_static_resize_bilinear_2d(builder->subgraph, node->numbers[ET_XNN_NEW_H],
		node->numbers[ET_XNN_NEW_W], input(builder, node, 0), output(builder, node, 0), node->flags);
}

DEFINE(matmul)
{
	return xnn_define_batch_matrix_multiply(builder->subgraph, input(builder, node, 0), input(builder, node, 1),
		output(builder, node, 0), node->flags);
}

DEFINE(concatenate)
{
	xnn_subgraph_t graph = builder->subgraph;
	uint32_t in[ET_XNN_MAX_INPUTS], out = output(builder, node, 0);
	for (uint32_t i = 0; i < node->kind->n_inputs; i++)
		in[i] = input(builder, node, i);
	int32_t axis = (int32_t)et_xnn_axis(node, builder->payload->values[node->inputs[0]].shape.n_dims);
	switch (node->kind->n_inputs) {
	case 2:
		return xnn_define_concatenate2(graph, axis, in[0], in[1], out, node->flags);
	case 3:
		return xnn_define_concatenate3(graph, axis, in[0], in[1], in[2], out, node->flags);
	case 4:
		return xnn_define_concatenate4(graph, axis, in[0], in[1], in[2], in[3], out, node->flags);
	default:
		return xnn_define_concatenate5(graph, axis, in[0], in[1], in[2], in[3], in[4], out, node->flags);
	}
}
