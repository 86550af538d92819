/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes: what each node makes of its inputs' shapes, and which it must never be given.
 *
 * XNNPACK computes shapes as well, but takes much on trust: the channels of a convolution's input, for one,
 * are those it was created with, whatever the tensor really has. So nothing reaches XNNPACK before it went through
 * here: the exported shapes when the payload is compiled, and the real ones whenever an argument's shape
 * changes. A node's function gets the shapes of all values; its inputs' are known, its outputs' it writes.
 *
 * At run time an input may be empty, and what is made of it: a batch of none. Such shapes go no further than here
 * (instance.c), so what XNNPACK would make of them does not matter. */
#include "delegates/xnnpack/ukernels/gemm_qs8.h"
#include "delegates/xnnpack/graph/subgraph.h"
#include "delegates/xnnpack/overrides/override.h"

#include "runtime/base/checked.h"

#include <math.h>
#include <string.h>

/* Beyond these nothing is honest; they keep products of two far from overflow. */
#define MAX_ELEMENTS    (UINT64_C(1) << 31)
#define MAX_INDIRECTION (UINT64_C(1) << 27) /* pointers in a convolution's or pooling's table */

#define INFER(name)                                                                                              \
	enum et_status et_xnn_infer_##name(const struct et_xnn_payload *payload, const struct et_xnn_node *node, \
		struct et_xnn_shape *shapes, struct et_diag *diag)

static uint64_t count(const struct et_xnn_shape *shape)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++)
		n *= shape->dims[i];
	return n;
}

static uint64_t count_dims(const size_t *dims, uint32_t n_dims)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		n *= dims[i];
	return n;
}

/* Also without its dimensions of size 0: nothing that is computed from the others overflows. */
static bool is_sane(const struct et_xnn_shape *shape)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++) {
		if (shape->dims[i] == 0)
			continue;
		if (shape->dims[i] > MAX_ELEMENTS || n > MAX_ELEMENTS / shape->dims[i])
			return false;
		n *= shape->dims[i];
	}
	return shape->n_dims <= ET_XNN_MAX_DIMS;
}

bool et_xnn_is_empty(const struct et_xnn_shape *shape)
{
	return count(shape) == 0;
}

static enum et_status bad_shape(struct et_diag *diag, const struct et_xnn_node *node, const struct et_xnn_shape *shape)
{
	char text[128];
	et_xnn_shape_text(shape, text, sizeof(text));
	return et_xnn_node_fail(diag, ET_E_INVALID_ARGUMENT, node, "can't take an input of shape %s", text);
}

/* A filter's, a bias's or a slope's shape is not what the node's parameters say. */
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

/* One number for each of @n_out channels; dimensions of 1 may be in front, as PyTorch's addmm has them. */
static bool fits_bias(const struct et_xnn_node *node, const struct et_xnn_shape *shapes, uint64_t n_out)
{
	const struct et_xnn_shape *bias = has_bias(node) ? &shapes[node->inputs[2]] : NULL;
	return !bias || (bias->n_dims > 0 && bias->dims[bias->n_dims - 1] == n_out && count(bias) == n_out);
}

/* Each dimension equal, or 1 in one of them, counted from the last. */
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
		if (count(in) % n_in != 0)
			return bad_shape(diag, node, in);
		out.n_dims = 2;
		out.dims[0] = count(in) / n_in;
	} else if (in->n_dims == 0 || in->dims[in->n_dims - 1] != n_in) {
		return bad_shape(diag, node, in);
	}
	const struct et_xnn_value *value = &payload->values[node->inputs[0]];
	if (value->type == ET_XNN_QDINT8 &&
		count_dims(in->dims + in->n_dims - value->n_row_dims, value->n_row_dims) != n_in)
		return bad_shape(diag, node, in); /* one scale a row */
	out.dims[out.n_dims - 1] = n_out;
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* --- windows that slide over [batch, height, width, channels] --------------------------------------- */

/* Positions along one axis; 0 if the parameters are nonsense. Where the window does not fit: @if_larger. */
static uint64_t window_positions(uint64_t size, uint64_t before, uint64_t after, uint64_t kernel, uint64_t stride,
	uint64_t dilation, uint64_t if_larger)
{
	if (size == 0 || size > MAX_ELEMENTS || kernel == 0 || stride == 0 || dilation == 0)
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
	if (!is_sane(&out) || kernel > MAX_INDIRECTION / (height * width))
		return bad_shape(diag, node, in);
	*ret_out = out;
	return ET_OK;
}

/* Channels, groups and the shapes of the filter and the bias. @ret_in, @ret_out: channels in all. */
static enum et_status check_groups(const struct et_xnn_node *node, const struct et_xnn_shape *shapes, bool is_depthwise,
	uint64_t *ret_in, uint64_t *ret_out, struct et_diag *diag)
{
	const uint32_t *n = node->numbers;
	uint64_t group_in = n[ET_XNN_GROUP_IN], group_out = n[ET_XNN_GROUP_OUT], groups = n[ET_XNN_GROUPS];
	if (group_in == 0 || group_out == 0 || groups == 0 || group_in > MAX_ELEMENTS || group_out > MAX_ELEMENTS ||
		groups > MAX_ELEMENTS || groups * group_in > MAX_ELEMENTS || groups * group_out > MAX_ELEMENTS ||
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
	if (!is_sane(&out) || kernel > MAX_INDIRECTION / (out.dims[1] * out.dims[2]))
		return bad_shape(diag, node, in);
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* The average's window has no dilation; the file says 0 or 1 there. */
INFER(pooling)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	struct et_xnn_node copy = *node;
	uint32_t *n = copy.numbers;
	if (node->kind->define == et_xnn_define_average_pooling)
		n[ET_XNN_DILATION_H] = n[ET_XNN_DILATION_W] = 1;
	if (in->n_dims != 4)
		return bad_shape(diag, node, in);
	/* One that is larger than its input, as a dynamic one may be, stands at one position, over all of it. */
	struct et_xnn_shape out;
	enum et_status status = slide(&copy, in, in->dims[3], 1, &out, diag);
	if (status != ET_OK)
		return status;
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* Windows tile the padded picture; what is left over at its end is in none. */
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
	if (in->n_dims != 4 || height == 0 || width == 0 || height > MAX_INDIRECTION / 4 / width)
		return bad_shape(diag, node, in);
	struct et_xnn_shape out = { .n_dims = 4, .dims = { in->dims[0], height, width, in->dims[3] } };
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* --- moving things about ---------------------------------------------------------------------------- */

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
			return et_xnn_node_fail(diag, ET_E_INVALID_PROGRAM, node, "has no permutation");
		seen |= 1u << from;
		out.dims[i] = in->dims[from];
	}
	shapes[node->outputs[0]] = out;
	return ET_OK;
}

/* One new dimension may be 0: it takes what remains. */
INFER(reshape)
{
	const struct et_xnn_shape *in = &shapes[node->inputs[0]];
	struct et_xnn_shape out = { .n_dims = node->n_list[0] };
	uint32_t open = ET_XNN_NONE;
	uint64_t n = 1, total = count(in);
	for (uint32_t i = 0; i < out.n_dims; i++) {
		out.dims[i] = node->list[0][i];
		if (out.dims[i] == 0) {
			if (open != ET_XNN_NONE)
				return et_xnn_node_fail(diag, ET_E_INVALID_PROGRAM, node, "leaves two dimensions open");
			open = i;
			continue;
		}
		if (out.dims[i] > MAX_ELEMENTS || n * out.dims[i] > MAX_ELEMENTS)
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

/* A size of 0 is all of the dimension. */
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

/* The axis may be negative, as two's complement. */
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
	/* One scale a row of a, one a column of b: several matrices in b would need more scales than it has. */
	if (value->type == ET_XNN_QDINT8 &&
		(value->n_row_dims != 1 || count_dims(b->dims, b->n_dims - 2) != 1 ||
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
			(!is_sane(&shapes[i]) || (value->data && et_xnn_is_empty(&shapes[i]))))
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "XNNPACK value %u is empty or absurdly large",
				value->id);
	}
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		enum et_status status = node->is_gone ? ET_OK : node->kind->infer(payload, node, shapes, diag);
		if (status != ET_OK)
			return status;
		if (!node->is_gone && !is_sane(&shapes[node->outputs[0]]))
			return et_xnn_node_fail(diag, ET_E_INVALID_ARGUMENT, node, "makes an absurdly large output");
	}
	return ET_OK;
}

/* XNNPACK takes outputs of a transposed convolution a stride apart together, and writes far behind its table where a stride
 * begins behind the last output. */
bool et_xnn_is_below_stride(const struct et_xnn_node *node, const struct et_xnn_shape *out)
{
	const uint32_t *n = node->numbers;
	return et_xnn_override_has_subconvs(node) &&
	       (out->dims[1] < n[ET_XNN_STRIDE_H] || out->dims[2] < n[ET_XNN_STRIDE_W]);
}

struct et_xnn_shape et_xnn_without_padding(const struct et_xnn_node *node, const struct et_xnn_shape *out)
{
	const uint32_t *n = node->numbers;
	struct et_xnn_shape whole = *out;
	whole.dims[1] += (size_t)n[ET_XNN_PAD_TOP] + n[ET_XNN_PAD_BOTTOM];
	whole.dims[2] += (size_t)n[ET_XNN_PAD_LEFT] + n[ET_XNN_PAD_RIGHT];
	return whole;
}

static bool is_theirs(const struct et_xnn_node *node)
{
	return !node->is_ours && !node->is_gone && !node->is_view;
}

/* Whether that transposed convolution would have to be made whole and cut (define.c), and cannot be. */
static bool is_too_large_to_cut(const struct et_xnn_node *node, const struct et_xnn_shape *out)
{
	const struct et_xnn_shape whole = et_xnn_without_padding(node, out);
	uint64_t kernel = (uint64_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W];
	return et_xnn_is_below_stride(node, out) &&
	       (!is_sane(&whole) || kernel > MAX_INDIRECTION / (whole.dims[1] * whole.dims[2]));
}

bool et_xnn_may_be_cut(const struct et_xnn_payload *payload)
{
	bool may_be = false;
	for (uint32_t i = 0; i < payload->n_nodes; i++)
		may_be = may_be ||
			 (is_theirs(&payload->nodes[i]) && et_xnn_override_may_be_below_stride(&payload->nodes[i]));
	return may_be;
}

bool et_xnn_is_cut_alike(const struct et_xnn_payload *payload, const struct et_xnn_shape *a,
	const struct et_xnn_shape *b)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		const struct et_xnn_shape *of_a = &a[node->outputs[0]], *of_b = &b[node->outputs[0]];
		if (is_theirs(node) && (et_xnn_is_below_stride(node, of_a) || et_xnn_is_below_stride(node, of_b)) &&
			(of_a->dims[1] != of_b->dims[1] || of_a->dims[2] != of_b->dims[2]))
			return false;
	}
	return true;
}

enum et_status et_xnn_check_theirs(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes,
	struct et_diag *diag)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		const struct et_xnn_shape *out = &shapes[node->outputs[0]];
		if (!is_theirs(node))
			continue;
		if (is_too_large_to_cut(node, out))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"has an output of %zu × %zu, less than its stride of %u × %u, and a padding "
				"that is absurdly large",
				out->dims[1], out->dims[2], node->numbers[ET_XNN_STRIDE_H],
				node->numbers[ET_XNN_STRIDE_W]);
		if (et_xnn_override_needs_copy_int32(payload, node))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"moves %s, of a payload that is too large to be cut",
				et_xnn_type_name(payload->values[node->inputs[0]].type));
		if (et_xnn_override_needs_quotient(payload, node))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"divides %s, of a payload that is too large to be cut",
				et_xnn_type_name(payload->values[node->inputs[0]].type));
		if (et_xnn_override_needs_average(node))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"has a window of %u × %u with a padding of as much", node->numbers[ET_XNN_KERNEL_H],
				node->numbers[ET_XNN_KERNEL_W]);
		if (node->kind->define == et_xnn_define_nothing)
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"is in a payload that is too large to be cut");
		if (et_xnn_override_needs_pool(payload, node))
			return et_xnn_node_fail(diag, ET_E_NOT_SUPPORTED, node,
				"has a window, strides, gaps and padding that are not supported together "
				"here");
	}
	return ET_OK;
}

/* --- memory --------------------------------------------------------------------------------------------- */

static uint64_t value_bytes(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes, uint32_t index)
{
	if (index == ET_XNN_NONE || payload->values[index].data || payload->values[index].external ||
		payload->values[index].stands_for != ET_XNN_NONE)
		return 0;
	const struct et_xnn_value *value = &payload->values[index];
	const struct et_xnn_shape *shape = &shapes[index];
	uint64_t n = count(shape), n_deep;
	struct et_xnn_rows rows;
	if (value->quant != ET_XNN_QUANT_ROW)
		return n * et_xnn_type_bits(value->type) / 8;
	/* Ours are no smaller than XNNPACK's. */
	n_deep = count_dims(shape->dims + shape->n_dims - value->n_row_dims, value->n_row_dims);
	return n_deep && et_xnn_rows(&rows, n / n_deep, n_deep) ? rows.n_bytes : n;
}

/* Tables of pointers, one a position and element of the window, that convolutions and the like keep. */
static uint64_t table_bytes(const struct et_xnn_node *node, const struct et_xnn_shape *shapes)
{
	struct et_xnn_shape out = shapes[node->outputs[0]];
	uint64_t window = 0;
	if (et_xnn_is_below_stride(node, &out))
		out = et_xnn_without_padding(node, &out);
	if (node->kind->infer == et_xnn_infer_resize)
		window = 4;
	else if (node->kind->fields[0] == ET_XNN_FIELD_NUMBER + ET_XNN_PAD_TOP)
		window = (uint64_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W];
	return window > 1 ? out.dims[1] * out.dims[2] * window * sizeof(void *) : 0;
}

/* What XNNPACK takes beside a node's own values while it runs. */
static uint64_t scratch_bytes(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	const struct et_xnn_shape *shapes)
{
	enum { TILE = 64 }; /* columns are packed in tiles; no processor's are wider */
	const struct et_xnn_shape *second = &shapes[node->inputs[1]], *out = &shapes[node->outputs[0]];
	bool is_clamped = node->min != -INFINITY || node->max != INFINITY;
	/* floats beside the 8 bits */
	if (!et_xnn_scales_fit(payload, node))
		return (count(&shapes[node->inputs[0]]) + count(out) + (node->kind->n_inputs > 1 ? count(second) : 0)) *
		       sizeof(float) * (is_clamped ? 2 : 1);
	struct et_xnn_shape whole = et_xnn_is_below_stride(node, out) ? et_xnn_without_padding(node, out)
								      : (struct et_xnn_shape){ .n_dims = 1 };
	/* limits become a node of their own */
	uint8_t type = payload->values[node->outputs[0]].type;
	bool is_integer = type == ET_XNN_INT32; /* of which there is a copy, too */
	if (is_clamped &&
		(node->kind->define == et_xnn_define_binary || node->kind->define == et_xnn_define_global_pooling ||
			(is_integer && node->kind->define == et_xnn_define_unary)))
		return count(out) * et_xnn_type_bits(type) / 8 * (is_integer ? 2 : 1);
	/* a right side that is computed is packed for each run */
	bool is_product = node->kind->infer == et_xnn_infer_matmul || et_xnn_has_computed_weights(payload, node);
	if (!is_product)
		return count(&whole) * et_xnn_type_bits(type) / 8;
	uint64_t columns = out->dims[out->n_dims - 1], elements = count(second);
	uint64_t packed = (elements / columns + count_dims(second->dims, second->n_dims - 2)) * (columns + TILE);
	/* halves by way of floats; a reshaped copy, a product before something is added, and before its limits */
	if (node->kind->has_filter)
		packed += 2 * count(&shapes[node->inputs[0]]) + 3 * count(out) + elements;
	return packed * sizeof(float);
}

/* Values live from the node that writes them to the last that reads them; the memory of those that are gone is
 * used again. That is what XNNPACK does, but for what its plan loses to fragments. */
enum et_status et_xnn_check_memory(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes,
	uint32_t *last_users, uint64_t max_bytes, size_t *ret_bytes, struct et_diag *diag)
{
	uint64_t now = 0, most = 0, tables = 0;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		for (uint32_t j = 0; j < payload->nodes[i].kind->n_inputs && !payload->nodes[i].is_gone; j++) {
			if (payload->nodes[i].inputs[j] != ET_XNN_NONE)
				last_users[payload->nodes[i].inputs[j]] = i;
		}
	}
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		if (node->is_gone)
			continue;
		for (uint32_t j = 0; j < node->kind->n_outputs; j++)
			now += value_bytes(payload, shapes, node->outputs[j]);
		uint64_t here = now + scratch_bytes(payload, node, shapes);
		most = here > most ? here : most;
		tables += table_bytes(node, shapes);
		if (most + tables > max_bytes)
			return et_xnn_node_fail(diag, ET_E_OUT_OF_RESOURCES, node,
				"brings the memory of one context above the limit of %llu MiB",
				(unsigned long long)(max_bytes >> 20));
		for (uint32_t j = 0; j < node->kind->n_inputs; j++) {
			uint32_t index = node->inputs[j];
			if (index == ET_XNN_NONE || last_users[index] != i)
				continue;
			now -= value_bytes(payload, shapes, index);
			last_users[index] = ET_XNN_NONE; /* a node may read it twice */
		}
	}
	*ret_bytes = (size_t)(most + tables);
	return ET_OK;
}
