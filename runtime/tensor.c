/* SPDX-License-Identifier: BSD-3-Clause */
/* A tensor's header, and how it may change.
 *
 * What must always be true: strides follow from sizes and dim order, so only this file changes sizes, and it changes
 * the strides with them. A tensor without elements has strides, too, but no code may compute an address from them; they
 * wrap around instead of overflowing.
 *
 * The type table has the name and the size of every number of the schema's ScalarType. */
#include "runtime/tensor.h"
#include "runtime/base/checked.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct et_scalar_row et_scalar_rows[] = {
	[ET_UINT8] = { 1, "UINT8" },
	[ET_INT8] = { 1, "INT8" },
	[ET_INT16] = { 2, "INT16" },
	[ET_INT32] = { 4, "INT32" },
	[ET_INT64] = { 8, "INT64" },
	[ET_FLOAT16] = { 2, "FP16" },
	[ET_FLOAT32] = { 4, "FP32" },
	[ET_FLOAT64] = { 8, "FP64" },
	[ET_COMPLEX32] = { 4, "COMPLEX32" },
	[ET_COMPLEX64] = { 8, "COMPLEX64" },
	[ET_COMPLEX128] = { 16, "COMPLEX128" },
	[ET_BOOL] = { 1, "BOOL" },
	[ET_QINT8] = { 1, "QINT8" },
	[ET_QUINT8] = { 1, "QUINT8" },
	[ET_QINT32] = { 4, "QINT32" },
	[ET_BFLOAT16] = { 2, "BF16" },
	[ET_QUINT4X2] = { 1, "QUINT4X2" },
	[ET_QUINT2X4] = { 1, "QUINT2X4" },
	[ET_BITS1X8] = { 1, "BITS1X8" },
	[ET_BITS2X4] = { 1, "BITS2X4" },
	[ET_BITS4X2] = { 1, "BITS4X2" },
	[ET_BITS8] = { 1, "BITS8" },
	[ET_BITS16] = { 2, "BITS16" },
	[ET_FLOAT8E5M2] = { 1, "FP8E5M2" },
	[ET_FLOAT8E4M3FN] = { 1, "FP8E4M3FN" },
	[ET_FLOAT8E5M2FNUZ] = { 1, "FP8E5M2FNUZ" },
	[ET_FLOAT8E4M3FNUZ] = { 1, "FP8E4M3FNUZ" },
	[ET_UINT16] = { 2, "UINT16" },
	[ET_UINT32] = { 4, "UINT32" },
	[ET_UINT64] = { 8, "UINT64" },
};

extern inline size_t et_scalar_size(enum et_scalar_type type);

const char *et_scalar_name(enum et_scalar_type type)
{
	return (size_t)type < ET_ARRAY_LEN(et_scalar_rows) ? et_scalar_rows[type].name : "UNKNOWN";
}

const char *et_tag_name(enum et_tag tag)
{
	static const char names[][19] = {
		[0] = "unknown",
		[ET_TAG_NONE] = "None",
		[ET_TAG_INT] = "Int",
		[ET_TAG_BOOL] = "Bool",
		[ET_TAG_DOUBLE] = "Double",
		[ET_TAG_TENSOR] = "Tensor",
		[ET_TAG_STRING] = "String",
		[ET_TAG_INT_LIST] = "IntList",
		[ET_TAG_DOUBLE_LIST] = "DoubleList",
		[ET_TAG_BOOL_LIST] = "BoolList",
		[ET_TAG_TENSOR_LIST] = "TensorList",
		[ET_TAG_OPTIONAL_TENSOR_LIST] = "OptionalTensorList",
	};
	return (size_t)tag < ET_ARRAY_LEN(names) ? names[tag] : names[0];
}

extern inline size_t et_tensor_numel(const struct et_tensor *tensor);

size_t et_tensor_n_bytes(const struct et_tensor *tensor)
{
	return et_tensor_numel(tensor) * et_scalar_size(tensor->type);
}

bool et_dim_order_is_valid(const uint8_t *dim_order, size_t n_dims)
{
	if (n_dims > ET_MAX_DIMS)
		return false;
	uint32_t seen = 0;
	for (size_t i = 0; i < n_dims; i++) {
		if (dim_order[i] >= n_dims)
			return false;
		seen |= 1u << dim_order[i];
	}
	return seen == (1u << n_dims) - 1;
}

extern inline bool et_dim_order_is_contiguous(const uint8_t *dim_order, size_t n_dims);

bool et_dim_order_is_channels_last(const uint8_t *dim_order, size_t n_dims)
{
	if (n_dims < 3 || dim_order[0] != 0 || dim_order[n_dims - 1] != 1)
		return false;
	for (size_t i = 1; i + 1 < n_dims; i++) {
		if (dim_order[i] != i + 1)
			return false;
	}
	return true;
}

void et_dim_order_to_strides(const int32_t *sizes, const uint8_t *dim_order, size_t n_dims, int32_t *ret_strides)
{
	uint32_t stride = 1;
	for (size_t i = n_dims; i-- > 0;) {
		uint8_t dim = dim_order[i];
		ret_strides[dim] = (int32_t)stride;
		/* ExecuTorch counts a dimension of size 0 as 1. */
		stride *= sizes[dim] ? (uint32_t)sizes[dim] : 1;
	}
}

bool et_sizes_are_addressable(const int32_t *sizes, const uint8_t *dim_order, size_t n_dims, size_t *ret_numel)
{
	size_t n = 1;
	size_t stride = 1;
	bool is_empty = false;
	for (size_t i = n_dims; i-- > 0;) {
		int32_t size = sizes[dim_order[i]];
		if (size < 0 || !et_mul(n, (size_t)size, &n))
			return false;
		if (stride > INT32_MAX)
			return false;
		is_empty |= size == 0;
		if (!et_mul(stride, size ? (size_t)size : 1, &stride))
			return false;
	}
	*ret_numel = is_empty ? 0 : n;
	return true;
}

enum et_status et_tensor_resize(struct et_tensor *tensor, const int32_t *sizes, size_t n_dims)
{
	if (n_dims != tensor->n_dims)
		return ET_E_NOT_SUPPORTED;
	if (n_dims == 0 || memcmp(sizes, tensor->sizes, n_dims * sizeof *sizes) == 0)
		return ET_OK;
	size_t n;
	if (tensor->dynamism == ET_STATIC || !et_sizes_are_addressable(sizes, tensor->dim_order, n_dims, &n) ||
		n > tensor->capacity)
		return ET_E_NOT_SUPPORTED;
	memcpy(tensor->sizes, sizes, n_dims * sizeof *sizes);
	et_dim_order_to_strides(sizes, tensor->dim_order, n_dims, tensor->strides);
	return ET_OK;
}

const char *et_sizes_text(char *buffer, size_t room, const int32_t *sizes, size_t n_dims)
{
	size_t n = 0;
	for (size_t d = 0; d < n_dims && n + 16 < room; d++)
		n += (size_t)snprintf(buffer + n, room - n, "%s%" PRId32, d ? "," : "[", sizes[d]);
	snprintf(buffer + n, room - n, "%s]", n_dims ? "" : "[");
	return buffer;
}
