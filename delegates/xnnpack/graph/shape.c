/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes: for each kind of node, the output's shape from the inputs' shapes, and the shapes that a node must never
 * get.
 *
 * XNNPACK computes shapes as well, but takes much on trust. For one, it takes the channels of a convolution's input
 * to be those that the convolution was created with, whatever the tensor really has. So every shape passes through
 * here before XNNPACK sees it: the exported shapes when the payload is compiled, and the real ones whenever an
 * argument's shape changes. A node's function gets the shapes of all values: those of its inputs are known, those of
 * its outputs it writes.
 *
 * At run time an input may be empty (a batch of 0), and so may values computed from it. instance.c does not pass
 * empty shapes on, so it does not matter what XNNPACK would make of them. */
#include "delegates/xnnpack/graph/shape.h"

#include "runtime/base/checked.h"

#include <stdio.h>

#define INFER(name)                                                                                              \
	enum et_status et_xnn_infer_##name(const struct et_xnn_payload *payload, const struct et_xnn_node *node, \
		struct et_xnn_shape *shapes, struct et_diag *diag)

bool et_xnn_is_sane(const struct et_xnn_shape *shape)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++) {
		if (shape->dims[i] == 0)
			continue;
		if (shape->dims[i] > ET_XNN_MAX_ELEMENTS || n > ET_XNN_MAX_ELEMENTS / shape->dims[i])
			return false;
		n *= shape->dims[i];
	}
	return shape->n_dims <= ET_XNN_MAX_DIMS;
}

uint64_t et_xnn_count_dims(const size_t *dims, uint32_t n_dims)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		n *= dims[i];
	return n;
}

uint64_t et_xnn_count(const struct et_xnn_shape *shape)
{
	return et_xnn_count_dims(shape->dims, shape->n_dims);
}

bool et_xnn_is_empty(const struct et_xnn_shape *shape)
{
	return et_xnn_count(shape) == 0;
}

static enum et_status bad_shape(struct et_diag *diag, const struct et_xnn_node *node, const struct et_xnn_shape *shape)
{
	char text[128];
	et_xnn_shape_text(shape, text, sizeof(text));
	return et_xnn_node_fail(diag, ET_E_INVALID_ARGUMENT, node, "can't take an input of shape %s", text);
}

/* The shape of a filter, bias or slope contradicts the node's parameters. */
static enum et_status bad_weights(struct et_diag *diag, const struct et_xnn_node *node, const char *what)
{
	return et_xnn_node_fail(diag, ET_E_INVALID_PROGRAM, node, "has a %s of the wrong shape", what);
}

static bool is_shape(const struct et_xnn_shape *shape, uint32_t n_dims, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	const uint64_t dims[] = { a, b, c, d };
	if (shape->n_dims != n_dims)
		return false;
	for (uint32_t i = 0; i < n_dims; i++) {
		if (shape->dims[i] != dims[i])
			return false;
	}
	return true;
}

static bool has_bias(const struct et_xnn_node *node)
{
	return node->inputs[2] != ET_XNN_NONE;
}

INFER(same)
{
	shapes[node->outputs[0]] = shapes[node->inputs[0]];
	return ET_OK;
}

INFER(convert)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	const struct et_xnn_value *out = &payload->values[node->outputs[0]];
	if (out->type == ET_XNN_QDINT8 && out->n_row_dims > in->n_dims)
		return bad_shape(diag, node, in);
	shapes[node->outputs[0]] = *in;
	return ET_OK;
}

INFER(softmax)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	if (in->n_dims == 0)
		return bad_shape(diag, node, in);
	shapes[node->outputs[0]] = *in;
	return ET_OK;
}

/* Whether the bias has one number for each of @n_out channels. Leading dimensions of 1 are allowed: PyTorch's addmm has
 * them. */
static bool fits_bias(const struct et_xnn_node *node, const struct et_xnn_shape *shapes, uint64_t n_out)
{
	const struct et_xnn_shape *bias = has_bias(node) ? &shapes[node->inputs[2]] : NULL;
	return !bias || (bias->n_dims > 0 && bias->dims[bias->n_dims - 1] == n_out && et_xnn_count(bias) == n_out);
}

/* Broadcasting: counted from the last, the dimensions are equal or one of them is 1. */
INFER(binary)
{
	const struct et_xnn_shape *a = &shapes[node->inputs[0]], *b = &shapes[node->inputs[1]];
	struct et_xnn_shape out = { .n_dims = a->n_dims > b->n_dims ? a->n_dims : b->n_dims };
	for (uint32_t i = 1; i <= out.n_dims; i++) {
		size_t of_a = i <= a->n_dims ? a->dims[a->n_dims - i] : 1;
		size_t of_b = i <= b->n_dims ? b->dims[b->n_dims - i] : 1;
		if (of_a != of_b && of_a != 1 && of_b != 1)
			return bad_shape(diag, node, b);
		out.dims[out.n_dims - i] = of_a == 1 ? of_b : of_a;
	}
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

INFER(fully_connected)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]], *filter = &shapes[node->inputs[1]];
	bool is_transposed = node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS;
	if (filter->n_dims != 2)
		return bad_weights(diag, node, "filter");
	size_t n_in = filter->dims[is_transposed ? 0 : 1];
	size_t n_out = filter->dims[is_transposed ? 1 : 0];
	if (n_in == 0 || n_out == 0)
		return bad_shape(diag, node, filter);
	if (!fits_bias(node, shapes, n_out))
		return bad_weights(diag, node, "bias");
	struct et_xnn_shape out = *in;
	if (node->flags & XNN_FLAG_TENSORFLOW_RESHAPE_2D) {
		if (et_xnn_count(in) % n_in != 0)
			return bad_shape(diag, node, in);
		out.n_dims = 2;
		out.dims[0] = et_xnn_count(in) / n_in;
	} else if (in->n_dims == 0 || in->dims[in->n_dims - 1] != n_in) {
		return bad_shape(diag, node, in);
	}
	const struct et_xnn_value *value = &payload->values[node->inputs[0]];
	if (value->type == ET_XNN_QDINT8 &&
		et_xnn_count_dims(in->dims + in->n_dims - value->n_row_dims, value->n_row_dims) != n_in)
		return bad_shape(diag, node, in); /* each row has one scale */
	out.dims[out.n_dims - 1] = n_out;
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* --- windows that slide over [batch, height, width, channels] --------------------------------------- */

/* The number of positions of a window along one axis; 0 if the parameters make no sense, @if_larger if the window is
 * larger than the padded axis. */
static uint64_t window_positions(uint64_t size, uint64_t before, uint64_t after, uint64_t kernel, uint64_t stride,
	uint64_t dilation, uint64_t if_larger)
{
	if (size == 0 || size > ET_XNN_MAX_ELEMENTS || kernel == 0 || stride == 0 || dilation == 0)
		return 0;
	uint64_t padded = size + before + after;      /* at most 2^31 + 2 * 2^32 */
	uint64_t reach = (kernel - 1) * dilation + 1; /* below 2^64 */
	return padded < reach ? if_larger : (padded - reach) / stride + 1;
}

static enum et_status slide(const struct et_xnn_node *node, const struct et_xnn_shape *in, uint64_t n_channels,
	uint64_t if_larger, struct et_xnn_shape *ret_out, struct et_diag *diag)
{
	const uint32_t *n = node->numbers;
	uint64_t height = window_positions(in->dims[1], n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_BOTTOM], n[ET_XNN_KERNEL_H],
		n[ET_XNN_STRIDE_H], n[ET_XNN_DILATION_H], if_larger);
	uint64_t width = window_positions(in->dims[2], n[ET_XNN_PAD_LEFT], n[ET_XNN_PAD_RIGHT], n[ET_XNN_KERNEL_W],
		n[ET_XNN_STRIDE_W], n[ET_XNN_DILATION_W], if_larger);
	if (height == 0 || width == 0)
		return bad_shape(diag, node, in);
	struct et_xnn_shape out = { .n_dims = 4, .dims = { in->dims[0], height, width, n_channels } };
	uint64_t kernel = (uint64_t)n[ET_XNN_KERNEL_H] * n[ET_XNN_KERNEL_W];
	if (!et_xnn_is_sane(&out) || kernel > ET_XNN_MAX_INDIRECTION / (height * width))
		return bad_shape(diag, node, in);
	*ret_out = out;
	return ET_OK;
}

/* Check channels, groups and the shapes of the filter and the bias. @ret_in, @ret_out: channels of all groups
 * together. */
static enum et_status check_groups(const struct et_xnn_node *node, const struct et_xnn_shape *shapes, bool is_depthwise,
	uint64_t *ret_in, uint64_t *ret_out, struct et_diag *diag)
{
	const uint32_t *n = node->numbers;
	uint64_t group_in = n[ET_XNN_GROUP_IN], group_out = n[ET_XNN_GROUP_OUT], groups = n[ET_XNN_GROUPS];
	if (group_in == 0 || group_out == 0 || groups == 0 || group_in > ET_XNN_MAX_ELEMENTS ||
		group_out > ET_XNN_MAX_ELEMENTS || groups > ET_XNN_MAX_ELEMENTS ||
		groups * group_in > ET_XNN_MAX_ELEMENTS || groups * group_out > ET_XNN_MAX_ELEMENTS ||
		(is_depthwise && group_in != 1))
		return et_xnn_node_fail(diag, ET_E_INVALID_PROGRAM, node,
			"has %u groups of %u input and %u output channels", n[ET_XNN_GROUPS], n[ET_XNN_GROUP_IN],
			n[ET_XNN_GROUP_OUT]);
	uint64_t out = groups * group_out;
	const struct et_xnn_shape *filter = &shapes[node->inputs[1]];
	uint64_t height = n[ET_XNN_KERNEL_H], width = n[ET_XNN_KERNEL_W];
	bool fits = is_depthwise ? is_shape(filter, 4, 1, height, width, out)
				 : is_shape(filter, 4, out, height, width, group_in);
	if (!fits)
		return bad_weights(diag, node, "filter");
	if (!fits_bias(node, shapes, out))
		return bad_weights(diag, node, "bias");
	*ret_in = groups * group_in;
	*ret_out = out;
	return ET_OK;
}

static enum et_status infer_convolution(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, bool is_depthwise, struct et_diag *diag)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	const struct et_xnn_value *value = &payload->values[node->inputs[0]];
	uint64_t n_in = 0, n_out = 0;
	enum et_status status = check_groups(node, shapes, is_depthwise, &n_in, &n_out, diag);
	if (status != ET_OK)
		return status;
	if (in->n_dims != 4 || in->dims[3] != n_in || (value->type == ET_XNN_QDINT8 && value->n_row_dims != 3))
		return bad_shape(diag, node, in);
	return slide(node, in, n_out, 0, &shapes[node->outputs[0]], diag);
}

INFER(convolution)
{
	return infer_convolution(payload, node, shapes, false, diag);
}

INFER(depthwise)
{
	return infer_convolution(payload, node, shapes, true, diag);
}

INFER(deconvolution)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	const struct et_xnn_value *value = &payload->values[node->inputs[0]];
	const uint32_t *n = node->numbers;
	uint64_t n_in = 0, n_out = 0;
	enum et_status status = check_groups(node, shapes, false, &n_in, &n_out, diag);
	if (status != ET_OK)
		return status;
	if (in->n_dims != 4 || in->dims[3] != n_in || (value->type == ET_XNN_QDINT8 && value->n_row_dims != 3))
		return bad_shape(diag, node, in);
	struct et_xnn_shape out = { .n_dims = 4, .dims = { in->dims[0], 0, 0, n_out } };
	for (uint32_t axis = 0; axis < 2; axis++) {
		uint64_t kernel = n[ET_XNN_KERNEL_H + axis], stride = n[ET_XNN_STRIDE_H + axis];
		uint64_t dilation = n[ET_XNN_DILATION_H + axis], adjust = n[ET_XNN_ADJUST_H + axis];
		uint64_t padding = axis == 0 ? (uint64_t)n[ET_XNN_PAD_TOP] + n[ET_XNN_PAD_BOTTOM]
					     : (uint64_t)n[ET_XNN_PAD_LEFT] + n[ET_XNN_PAD_RIGHT];
		/* Small enough that no sum below can overflow. */
		if (kernel == 0 || stride == 0 || dilation == 0 || kernel > UINT16_MAX || stride > UINT16_MAX ||
			dilation > UINT16_MAX || adjust >= stride)
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"has kernel %u, stride %u, dilation %u, adjustment %u", (unsigned)kernel,
				(unsigned)stride, (unsigned)dilation, (unsigned)adjust);
		if (in->dims[1 + axis] == 0)
			return bad_shape(diag, node, in);
		uint64_t whole = stride * (in->dims[1 + axis] - 1) + adjust + (kernel - 1) * dilation + 1;
		if (whole <= padding)
			return bad_shape(diag, node, in);
		out.dims[1 + axis] = whole - padding;
	}
	uint64_t kernel = (uint64_t)n[ET_XNN_KERNEL_H] * n[ET_XNN_KERNEL_W];
	if (!et_xnn_is_sane(&out) || kernel > ET_XNN_MAX_INDIRECTION / (out.dims[1] * out.dims[2]))
		return bad_shape(diag, node, in);
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* The window of an average pooling has no dilation; the file says 0 or 1 there. */
INFER(pooling)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	struct et_xnn_node copy = *node;
	uint32_t *n = copy.numbers;
	if (node->kind->define == et_xnn_define_average_pooling)
		n[ET_XNN_DILATION_H] = n[ET_XNN_DILATION_W] = 1;
	if (in->n_dims != 4)
		return bad_shape(diag, node, in);
	/* A window larger than its input (a dynamic input may be small) has one position, over the whole input. */
	struct et_xnn_shape out;
	enum et_status status = slide(&copy, in, in->dims[3], 1, &out, diag);
	if (status != ET_OK)
		return status;
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* Windows tile the padded image; pixels left over at its end belong to no window. */
INFER(argmax)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	struct et_xnn_node copy = *node;
	uint32_t *n = copy.numbers;
	if (in->n_dims != 4)
		return bad_shape(diag, node, in);
	for (uint32_t axis = 0; axis < 2; axis++) {
		n[ET_XNN_STRIDE_H + axis] = n[ET_XNN_KERNEL_H + axis];
		n[ET_XNN_DILATION_H + axis] = 1;
	}
	struct et_xnn_shape out;
	enum et_status status = slide(&copy, in, in->dims[3], 0, &out, diag);
	if (status != ET_OK)
		return status;
	for (uint32_t i = 0; i < 2; i++) {
		const struct et_xnn_value *value = &payload->values[node->outputs[i]];
		if (value->n_users == 0 && !value->external)
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"with an output that nothing uses is not supported");
	}
	shapes[node->outputs[0]] = shapes[node->outputs[1]] = out;
	return ET_OK;
}

INFER(global_pooling)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	if (in->n_dims < 3)
		return bad_shape(diag, node, in);
	uint32_t last = in->n_dims - 1;
	struct et_xnn_shape out = *in;
	out.dims[last - 2] = out.dims[last - 1] = 1;
	if (!(node->flags & XNN_FLAG_KEEP_DIMS)) {
		out.n_dims = last - 1;
		out.dims[last - 2] = in->dims[last];
	}
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

INFER(resize)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	uint64_t height = node->numbers[ET_XNN_NEW_H], width = node->numbers[ET_XNN_NEW_W];
	if (in->n_dims != 4 || height == 0 || width == 0 || height > ET_XNN_MAX_INDIRECTION / 4 / width)
		return bad_shape(diag, node, in);
	struct et_xnn_shape out = { .n_dims = 4, .dims = { in->dims[0], height, width, in->dims[3] } };
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* --- nodes that move elements ---------------------------------------------------------------------------- */

INFER(transpose)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	struct et_xnn_shape out = { .n_dims = in->n_dims };
	uint32_t seen = 0;
	if (node->n_list[0] != in->n_dims || in->n_dims == 0)
		return bad_shape(diag, node, in);
	for (uint32_t i = 0; i < in->n_dims; i++) {
		uint32_t from = node->list[0][i];
		if (from >= in->n_dims || (seen & 1u << from))
			return et_xnn_node_fail(diag, ET_E_INVALID_PROGRAM, node, "has a list that is no permutation");
		seen |= 1u << from;
		out.dims[i] = in->dims[from];
	}
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* One new dimension may be 0: its size follows from the number of elements. */
INFER(reshape)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	struct et_xnn_shape out = { .n_dims = node->n_list[0] };
	uint32_t open = ET_XNN_NONE;
	uint64_t n = 1, total = et_xnn_count(in);
	for (uint32_t i = 0; i < out.n_dims; i++) {
		out.dims[i] = node->list[0][i];
		if (out.dims[i] == 0) {
			if (open != ET_XNN_NONE)
				return et_xnn_node_fail(diag, ET_E_INVALID_PROGRAM, node, "leaves two dimensions open");
			open = i;
			continue;
		}
		if (out.dims[i] > ET_XNN_MAX_ELEMENTS || n * out.dims[i] > ET_XNN_MAX_ELEMENTS)
			return bad_shape(diag, node, in);
		n *= out.dims[i];
	}
	if (open != ET_XNN_NONE && total % n == 0)
		out.dims[open] = total / n;
	else if (n != total)
		return bad_shape(diag, node, in);
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* A size of 0 means the whole dimension. */
INFER(slice)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	struct et_xnn_shape out = { .n_dims = in->n_dims };
	if (in->n_dims == 0 || node->n_list[0] != in->n_dims || node->n_list[1] != in->n_dims)
		return bad_shape(diag, node, in);
	for (uint32_t i = 0; i < in->n_dims; i++) {
		uint32_t offset = node->list[0][i], size = node->list[1][i];
		if (size == 0 ? offset != 0 : !et_in_range(offset, size, in->dims[i]))
			return bad_shape(diag, node, in);
		out.dims[i] = size == 0 ? in->dims[i] : size;
	}
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

INFER(pad)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	struct et_xnn_shape out = { .n_dims = in->n_dims };
	if (in->n_dims == 0 || node->n_list[0] != in->n_dims || node->n_list[1] != in->n_dims)
		return bad_shape(diag, node, in);
	for (uint32_t i = 0; i < in->n_dims; i++)
		out.dims[i] = in->dims[i] + node->list[0][i] + node->list[1][i];
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* The file may have a negative axis, as two's complement. */
uint32_t et_xnn_axis(const struct et_xnn_node *node, uint32_t n_dims)
{
	uint32_t axis = node->numbers[ET_XNN_AXIS];
	return axis > INT32_MAX ? axis + n_dims : axis;
}

INFER(concatenate)
{
	struct et_xnn_shape out = shapes[node->inputs[0]];
	uint32_t axis = et_xnn_axis(node, out.n_dims);
	if (axis >= out.n_dims)
		return bad_shape(diag, node, &out);
	for (uint32_t i = 1; i < node->kind->n_inputs; i++) {
		const struct et_xnn_shape *in = &shapes[node->inputs[i]];
		if (in->n_dims != out.n_dims)
			return bad_shape(diag, node, in);
		for (uint32_t j = 0; j < out.n_dims; j++) {
			if (j != axis && in->dims[j] != out.dims[j])
				return bad_shape(diag, node, in);
		}
		out.dims[axis] += in->dims[axis];
	}
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

INFER(matmul)
{
	const struct et_xnn_shape *a = &shapes[node->inputs[0]], *b = &shapes[node->inputs[1]];
	if (a->n_dims < 2)
		return bad_shape(diag, node, a);
	if (b->n_dims < 2)
		return bad_shape(diag, node, b);
	bool is_transposed = node->flags & XNN_FLAG_TRANSPOSE_B;
	size_t inner = a->dims[a->n_dims - 1];
	if (b->dims[b->n_dims - (is_transposed ? 1 : 2)] != inner)
		return bad_shape(diag, node, b);
	const struct et_xnn_value *value = &payload->values[node->inputs[0]];
	/* Each row of a has a scale, and each column of b: several matrices in b would need more scales than b has. */
	if (value->type == ET_XNN_QDINT8 &&
		(value->n_row_dims != 1 || et_xnn_count_dims(b->dims, b->n_dims - 2) != 1 ||
			payload->values[node->inputs[1]].channel_dim != b->n_dims - (is_transposed ? 2 : 1)))
		return bad_shape(diag, node, b);
	struct et_xnn_shape out = { .n_dims = a->n_dims > b->n_dims ? a->n_dims : b->n_dims };
	for (uint32_t i = 3; i <= out.n_dims; i++) {
		size_t of_a = i <= a->n_dims ? a->dims[a->n_dims - i] : 1;
		size_t of_b = i <= b->n_dims ? b->dims[b->n_dims - i] : 1;
		if (of_a != of_b && of_a != 1 && of_b != 1)
			return bad_shape(diag, node, b);
		out.dims[out.n_dims - i] = of_a == 1 ? of_b : of_a;
	}
	out.dims[out.n_dims - 2] = a->dims[a->n_dims - 2];
	out.dims[out.n_dims - 1] = b->dims[b->n_dims - (is_transposed ? 2 : 1)];
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* --- the whole graph ---------------------------------------------------------------------------------- */

void et_xnn_shape_text(const struct et_xnn_shape *shape, char *ret_text, size_t n)
{
	size_t at = 0;
	at += (size_t)snprintf(ret_text, n, "[");
	for (uint32_t i = 0; i < shape->n_dims && at < n; i++)
		at += (size_t)snprintf(ret_text + at, n - at, i == 0 ? "%zu" : ",%zu", shape->dims[i]);
	if (at < n)
		snprintf(ret_text + at, n - at, "]");
}

enum et_status et_xnn_infer_shapes(const struct et_xnn_payload *payload, struct et_xnn_shape *shapes,
	struct et_diag *diag)
{
	for (uint32_t i = 0; i < payload->n_values; i++) {
		const struct et_xnn_value *value = &payload->values[i];
		if (value->data)
			shapes[i] = value->shape;
		if ((value->data || value->external == ET_XNN_IS_INPUT) &&
			(!et_xnn_is_sane(&shapes[i]) || (value->data && et_xnn_is_empty(&shapes[i]))))
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "XNNPACK value %u is empty or absurdly large",
				value->id);
	}
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		enum et_status status = node->is_gone ? ET_OK : node->kind->infer(payload, node, shapes, diag);
		if (status != ET_OK)
			return status;
		if (!node->is_gone && !et_xnn_is_sane(&shapes[node->outputs[0]]))
			return et_xnn_node_fail(diag, ET_E_INVALID_ARGUMENT, node, "makes an absurdly large output");
	}
	return ET_OK;
}
