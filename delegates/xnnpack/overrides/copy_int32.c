/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements put elsewhere, of datatypes that XNNPACK does not move: int32 and qint32.
 *
 * Each such node is one block that is copied, or several (what is concatenated), from steps of their own in the input to steps of
 * their own in the output; a padding is written first. That is the number itself, as PyTorch has it: the original writes the
 * upper half of a float. */
#include "delegates/xnnpack/graph/shape.h"
#include "delegates/xnnpack/overrides/override.h"

#include <math.h>
#include <string.h>

/* Elements of @n_bytes, @dims of them, that lie as many bytes apart as the steps say. */
struct block {
	uint32_t n_dims;
	size_t n_bytes;
	size_t dims[ET_XNN_MAX_DIMS], from_steps[ET_XNN_MAX_DIMS], to_steps[ET_XNN_MAX_DIMS];
};

static void copy(const struct block *block, uint32_t dim, const uint8_t *from, uint8_t *to)
{
	if (dim == block->n_dims) {
		memcpy(to, from, block->n_bytes);
		return;
	}
	size_t n = block->dims[dim];
	if (dim + 1 == block->n_dims && block->from_steps[dim] == block->n_bytes &&
		block->to_steps[dim] == block->n_bytes) {
		if (n) /* else there may be no memory */
			memcpy(to, from, n * block->n_bytes);
		return;
	}
	for (size_t i = 0; i < n; i++)
		copy(block, dim + 1, from + i * block->from_steps[dim], to + i * block->to_steps[dim]);
}

/* How many bytes apart neighbours in each dimension lie; returns those of all. */
static size_t find_steps(const struct et_xnn_shape *shape, size_t n_bytes, size_t *ret_steps)
{
	for (uint32_t i = shape->n_dims; i > 0; i--) {
		ret_steps[i - 1] = n_bytes;
		n_bytes *= shape->dims[i - 1];
	}
	return n_bytes;
}

/* Input @in of @node, to its place in an output of that shape; what lies in front of the place is added to *@from and *@to. */
static struct block block_of(const struct et_xnn_node *node, size_t n_bytes, const struct et_xnn_shape *in,
	const struct et_xnn_shape *out, const uint8_t **from, uint8_t **to)
{
	struct block block = { .n_dims = in->n_dims, .n_bytes = n_bytes };
	size_t steps[ET_XNN_MAX_DIMS] = { 0 };
	size_t n_in = find_steps(in, n_bytes, steps);
	if (node->kind->define == et_xnn_define_copy || node->kind->define == et_xnn_define_reshape)
		return (struct block){ 1, n_bytes, { n_in / n_bytes }, { n_bytes }, { n_bytes } };
	find_steps(out, n_bytes, block.to_steps);
	for (uint32_t i = 0; i < in->n_dims; i++) {
		bool is_transposed = node->kind->define == et_xnn_define_transpose;
		block.from_steps[i] = steps[is_transposed ? node->list[0][i] : i];
		block.dims[i] = in->dims[i] < out->dims[i] && !is_transposed ? in->dims[i] : out->dims[i];
		if (node->kind->define == et_xnn_define_slice)
			*from += node->list[0][i] * steps[i];
		else if (node->kind->define == et_xnn_define_pad)
			*to += node->list[0][i] * block.to_steps[i];
	}
	return block;
}

/* @n elements with what is padded with. */
static void fill(const struct et_xnn_node *node, const struct et_xnn_value *out, int32_t *to, size_t n)
{
	float number = node->number;
	if (out->type == ET_XNN_QINT32)
		number = rintf(number / out->scale + (float)out->zero_point);
	int32_t integer = number >= 0x1p31f ? INT32_MAX : number > -0x1p31f ? (int32_t)number : INT32_MIN;
	for (size_t i = 0; i < n; i++)
		to[i] = integer;
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values;
	const struct et_xnn_shape *out = &run->shapes[node->outputs[0]];
	uint8_t *next = run->memory[node->outputs[0]];
	size_t n_bytes = sizeof(int32_t), steps[ET_XNN_MAX_DIMS] = { 0 };
	size_t n_out = find_steps(out, n_bytes, steps);
	if (node->kind->define == et_xnn_define_pad)
		fill(node, &values[node->outputs[0]], (int32_t *)(void *)next, n_out / n_bytes);
	for (uint32_t i = 0; i < node->kind->n_inputs; i++) {
		uint32_t input = node->inputs[i];
		const struct et_xnn_shape *in = &run->shapes[input];
		const uint8_t *from = et_xnn_override_read(run, input);
		uint8_t *to = next;
		struct block block = block_of(node, n_bytes, in, out, &from, &to);
		copy(&block, 0, from, to);
		if (i + 1 == node->kind->n_inputs)
			break;
		uint32_t axis = et_xnn_axis(node, in->n_dims);
		next += in->dims[axis] * steps[axis];
	}
}

const struct et_xnn_override et_xnn_override_copy_int32 = {
	.name = "Move (ND, S32)",
	.takes = et_xnn_moves_int32,
	.is_required = true,
	.run = run,
};
