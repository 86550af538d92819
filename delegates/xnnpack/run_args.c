/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a run: whether XNNPACK may be given them, their shapes as XNNPACK sees them, and the outputs' new
 * shapes.
 *
 * The daemon checked that the tensors are sound; whether they are what the payload was compiled for is checked here,
 * for each run. */
#include "delegates/xnnpack/run_args.h"

#include "delegates/xnnpack/graph/shape.h"

#include "runtime/base/checked.h"

#include <string.h>

/* Whether the argument of @value may have dtype @type. */
static bool type_fits(const struct et_xnn_value *value, uint8_t type)
{
	if (value->is_index)
		return type == ET_INT64 || type == ET_INT32;
	switch (value->type) {
	case ET_XNN_FP32:
		return type == ET_FLOAT32;
	case ET_XNN_FP16:
		return type == ET_FLOAT16;
	case ET_XNN_BF16:
		return type == ET_BFLOAT16;
	case ET_XNN_QINT8:
		return type == ET_INT8 || type == ET_QINT8;
	case ET_XNN_QUINT8:
		return type == ET_UINT8 || type == ET_QUINT8;
	case ET_XNN_QINT32:
	case ET_XNN_INT32:
		return type == ET_INT32 || type == ET_QINT32;
	default:
		return false;
	}
}

enum et_status et_xnn_arg_check(const struct et_xnn_value *value, const struct inferd_delegate_arg *arg,
	const char *side, struct et_diag *diag)
{
	if (arg->kind != INFERD_DELEGATE_TENSOR)
		return et_fail(diag, ET_E_INVALID_TYPE, "XNNPACK: %s %u is %s, expected a tensor", side,
			value->external_id, et_tag_name((enum et_tag)arg->kind));
	if (!type_fits(value, arg->type))
		return et_fail(diag, ET_E_INVALID_TYPE, "XNNPACK: %s %u is %s, the payload says %s", side,
			value->external_id, et_scalar_name((enum et_scalar_type)arg->type),
			value->is_index ? "indexes" : et_xnn_type_name(value->type));
	if (!arg->data)
		return et_fail(diag, ET_E_INVALID_STATE, "XNNPACK: %s %u has no memory", side, value->external_id);
	return ET_OK;
}

enum et_status et_xnn_arg_shape(const struct et_xnn_value *value, const struct inferd_delegate_arg *tensor,
	struct et_xnn_shape *ret_shape, struct et_diag *diag)
{
	if (tensor->n_dims == 0 && value->shape.n_dims == 1) {
		/* The exporter writes a single number as one dimension of size 1. */
		*ret_shape = (struct et_xnn_shape){ .n_dims = 1, .dims = { 1 } };
		return ET_OK;
	}
	if (tensor->n_dims != value->shape.n_dims)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "XNNPACK: input %u has %u dimensions, expected %u",
			value->external_id, tensor->n_dims, value->shape.n_dims);
	struct et_xnn_shape shape = { .n_dims = tensor->n_dims };
	for (uint32_t i = 0; i < tensor->n_dims; i++) {
		int32_t size = tensor->sizes[tensor->dim_order[i]];
		if (size < 0)
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "XNNPACK: input %u has a negative size",
				value->external_id);
		shape.dims[i] = (size_t)size;
	}
	*ret_shape = shape;
	return ET_OK;
}

enum et_status et_xnn_arg_resize(const struct et_xnn_value *value, const struct et_xnn_shape *shape,
	struct inferd_delegate_arg *arg, struct et_diag *diag)
{
	if (arg->n_dims == 0 && shape->n_dims == 1 && shape->dims[0] == 1)
		return ET_OK; /* see et_xnn_arg_shape */
	bool fits = arg->n_dims == shape->n_dims, is_same = fits;
	for (uint32_t i = 0; i < shape->n_dims && fits; i++) {
		int32_t *size = &arg->sizes[arg->dim_order[i]];
		is_same = is_same && *size == (int32_t)shape->dims[i]; /* below 2^31: shape.c */
		*size = (int32_t)shape->dims[i];
	}
	if (is_same)
		return ET_OK;
	fits = fits && !(arg->flags & INFERD_DELEGATE_FIXED_SIZES);
	size_t n_bytes = et_scalar_size((enum et_scalar_type)arg->type);
	for (uint32_t i = 0; i < shape->n_dims && fits; i++)
		fits = et_mul(n_bytes, shape->dims[i], &n_bytes);
	if (fits && n_bytes <= arg->n_bytes)
		return ET_OK;
	char text[128];
	et_xnn_shape_text(shape, text, sizeof(text));
	return et_fail(diag, ET_E_NOT_SUPPORTED, "XNNPACK: output %u comes out as %s, which its tensor can't take",
		value->external_id, text);
}

void et_xnn_arg_widen_indexes(const struct inferd_delegate_arg *tensor, const struct et_xnn_shape *shape)
{
	size_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++)
		n *= shape->dims[i];
	for (size_t i = n; i > 0; i--) { /* the last one first: each lies behind those that are still to be read */
		int32_t index;
		memcpy(&index, (const uint8_t *)tensor->data + (i - 1) * sizeof(index), sizeof(index));
		int64_t wide = index;
		memcpy((uint8_t *)tensor->data + (i - 1) * sizeof(wide), &wide, sizeof(wide));
	}
}
