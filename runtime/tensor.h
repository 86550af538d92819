/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors and EValues: what instructions work on.
 *
 * A tensor is a header over memory that it does not own: the Program's file (constants), the Method's state, a frame's
 * activations, or a client's shared memory. Sizes and strides are in elements. The dim order lists the dimensions from
 * outermost to innermost: row-major NCHW is (0,1,2,3), channels last is (0,2,3,1). Memory is always dense: no gaps, no
 * overlap.
 *
 * An EValue is one entry of a method's value table. It points to its tensor or list, so after a MoveCall two values
 * share one tensor, as in ExecuTorch.
 *
 * Source: ExecuTorch schema/program.fbs and schema/scalar_type.fbs. */
#ifndef RUNTIME_TENSOR_H
#define RUNTIME_TENSOR_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ET_MAX_DIMS = 16 };

/* The numbers of ExecuTorch's ScalarType. An element of types 16 to 21 is one byte, which holds several numbers.
 * These types and the float8 types are only carried, never computed with. A complex element is its real part
 * followed by its imaginary part, each an fp16, float or double. */
enum et_scalar_type {
	ET_UINT8 = 0,
	ET_INT8 = 1,
	ET_INT16 = 2,
	ET_INT32 = 3,
	ET_INT64 = 4,
	ET_FLOAT16 = 5,
	ET_FLOAT32 = 6,
	ET_FLOAT64 = 7,
	ET_COMPLEX32 = 8,
	ET_COMPLEX64 = 9,
	ET_COMPLEX128 = 10,
	ET_BOOL = 11,
	ET_QINT8 = 12,
	ET_QUINT8 = 13,
	ET_QINT32 = 14,
	ET_BFLOAT16 = 15,
	ET_QUINT4X2 = 16,
	ET_QUINT2X4 = 17,
	ET_BITS1X8 = 18,
	ET_BITS2X4 = 19,
	ET_BITS4X2 = 20,
	ET_BITS8 = 21,
	ET_BITS16 = 22,
	ET_FLOAT8E5M2 = 23,
	ET_FLOAT8E4M3FN = 24,
	ET_FLOAT8E5M2FNUZ = 25,
	ET_FLOAT8E4M3FNUZ = 26,
	ET_UINT16 = 27,
	ET_UINT32 = 28,
	ET_UINT64 = 29,
};

struct et_scalar_row {
	uint8_t n_bytes;
	char name[15];
};
extern const struct et_scalar_row et_scalar_rows[ET_UINT64 + 1];
/* Bytes of one element; 0 for an unknown type. */
inline size_t et_scalar_size(enum et_scalar_type type)
{
	return (size_t)type <= ET_UINT64 ? et_scalar_rows[type].n_bytes : 0;
}
/* The type's name in the Open Inference Protocol: "FP32", "INT64", … Never NULL. */
const char *et_scalar_name(enum et_scalar_type type);

enum et_dynamism {
	ET_STATIC = 0,          /* the sizes never change */
	ET_DYNAMIC_BOUND = 1,   /* sizes may change, up to the planned number of elements */
	ET_DYNAMIC_UNBOUND = 2, /* refused at load, as in ExecuTorch */
};

struct et_tensor {
	void *data;               /* NULL while unbound */
	size_t capacity;          /* elements that fit behind data, by plan */
	int32_t *sizes;           /* n_dims entries: the current sizes */
	int32_t *strides;         /* n_dims entries; they follow from sizes and dim order */
	const uint8_t *dim_order; /* n_dims entries, a permutation */
	uint8_t type;             /* enum et_scalar_type */
	uint8_t n_dims;
	uint8_t dynamism; /* enum et_dynamism */
	bool is_constant; /* data is the Program's: never write to it */
};

/* Number of elements at the current sizes. A 0-dimensional tensor has one. */
inline size_t et_tensor_numel(const struct et_tensor *tensor)
{
	size_t n = 1;
	for (size_t i = 0; i < tensor->n_dims; i++)
		n *= (size_t)tensor->sizes[i];
	return n;
}
size_t et_tensor_n_bytes(const struct et_tensor *tensor);

/* Set an output's sizes, as ExecuTorch's resize_tensor does. The rank may not change. A static tensor takes only the
 * sizes that it has; a dynamic tensor any sizes that fit its capacity. Otherwise answers ET_E_NOT_SUPPORTED and
 * changes nothing. */
enum et_status et_tensor_resize(struct et_tensor *tensor, const int32_t *sizes, size_t n_dims);

/* Compute the strides of a dense tensor. @dim_order must be a permutation of 0 … n_dims - 1. */
void et_dim_order_to_strides(const int32_t *sizes, const uint8_t *dim_order, size_t n_dims, int32_t *ret_strides);
/* Whether a tensor of these sizes is addressable: no size is negative, the number of elements fits size_t, strides
 * fit int32_t (an empty dimension counts as 1). @dim_order must be a permutation. */
bool et_sizes_are_addressable(const int32_t *sizes, const uint8_t *dim_order, size_t n_dims, size_t *ret_numel);
/* Whether @dim_order is a permutation of 0 … n_dims - 1. */
bool et_dim_order_is_valid(const uint8_t *dim_order, size_t n_dims);
/* Write the sizes as "[1,3,224,224]" into @buffer, and return it. ET_SIZES_TEXT bytes are always enough; the text is
 * cut short in less. */
enum { ET_SIZES_TEXT = 2 + 12 * ET_MAX_DIMS };
const char *et_sizes_text(char *buffer, size_t room, const int32_t *sizes, size_t n_dims);
/* Whether it is row-major: 0, 1, 2, … */
inline bool et_dim_order_is_contiguous(const uint8_t *dim_order, size_t n_dims)
{
	for (size_t i = 0; i < n_dims; i++) {
		if (dim_order[i] != i)
			return false;
	}
	return true;
}
/* Whether it is batch, then space, then channels: (0,2,1), (0,2,3,1), (0,2,3,4,1). */
bool et_dim_order_is_channels_last(const uint8_t *dim_order, size_t n_dims);

/* The numbers of the schema's union KernelTypes. */
enum et_tag {
	ET_TAG_NONE = 1,
	ET_TAG_INT,
	ET_TAG_BOOL,
	ET_TAG_DOUBLE,
	ET_TAG_TENSOR,
	ET_TAG_STRING,
	ET_TAG_INT_LIST,
	ET_TAG_DOUBLE_LIST,
	ET_TAG_BOOL_LIST,
	ET_TAG_TENSOR_LIST,
	ET_TAG_OPTIONAL_TENSOR_LIST,
};
const char *et_tag_name(enum et_tag tag);

struct et_evalue;

/* n items, of the kind that the EValue's tag names. */
struct et_list {
	uint32_t n;
	union {
		struct et_evalue *
			/* INT_LIST, TENSOR_LIST, OPTIONAL_TENSOR_LIST: EValues of the value table, never NULL */
			*values;
		const double *doubles; /* DOUBLE_LIST */
		const uint8_t *bools;  /* BOOL_LIST, 0 or 1 */
		const char *chars;     /* STRING, NUL-terminated too */
	};
};

struct et_evalue {
	union {
		int64_t i;
		double d;
		bool b;
		struct et_tensor *tensor;
		const struct et_list *list;
	};
	uint8_t tag; /* enum et_tag */
};

#endif
