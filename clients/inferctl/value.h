/* SPDX-License-Identifier: BSD-3-Clause */
/* A value: an input or output of a model, with its description.
 *
 * The data is borrowed, from a bundled program, a region or a file in memory. It is dense in its dim order, at any
 * alignment, so read it only through ctl_value_at. */
#ifndef CLIENTS_INFERCTL_VALUE_H
#define CLIENTS_INFERCTL_VALUE_H

#include "runtime/program/bundle.h"
#include "runtime/tensor.h"

#include <jansson.h>

struct ctl_value {
	uint8_t tag;  /* enum et_tag: TENSOR, INT, BOOL, DOUBLE, STRING (data has its bytes), NONE (no value) */
	uint8_t type; /* enum et_scalar_type */
	uint8_t n_dims;
	uint8_t dim_order[ET_MAX_DIMS];
	int32_t sizes[ET_MAX_DIMS];
	const uint8_t *data;
	size_t n_bytes;
	int64_t i; /* INT and BOOL */
	double d;
};

/* A value of a bundle, which keeps its data. */
struct ctl_value ctl_value_from_bundle(const struct et_bundle_value *value);

/* One element as a number. If is_integer, compare i: a double would round integers beyond 2^53. */
struct ctl_number {
	bool is_integer;
	bool is_unsigned; /* i holds the bits of a uint64_t */
	int64_t i;
	double d; /* always set, perhaps rounded */
};

/* A complex tensor as a tensor of real numbers, with real and imaginary part as its last dimension. Other values are
 * returned unchanged. */
struct ctl_value ctl_value_parts(const struct ctl_value *value);

/* The number of elements: 1 for a scalar, 0 for NONE and where the product of the sizes overflows. */
size_t ctl_value_numel(const struct ctl_value *value);
/* The position in the data, counted in elements, of the element with row-major index @index. */
size_t ctl_value_place(const struct ctl_value *value, size_t index);
/* The element with row-major index @index, for any dim order. Zero if it is beyond the data. */
struct ctl_number ctl_value_at(const struct ctl_value *value, size_t index);
/* Whether both have the same memory layout: the same type and sizes, and dim orders that differ only in dimensions of
 * size 1. */
bool ctl_value_same_layout(const struct ctl_value *a, const struct ctl_value *b);
/* Copy @value's elements to @ret in the dim order of @like. @ret has room for @value's bytes; both have the same
 * number of dimensions, and each dim order is a permutation. */
void ctl_value_reorder(uint8_t *ret, const struct ctl_value *value, const struct ctl_value *like);

/* FP16, BF16, FP32, FP64 and the 8-bit floats. */
bool ctl_type_is_float(uint8_t type);
/* The type named "FP32" is ET_FLOAT32. -1: no tensor type has this name. */
int ctl_type_from_name(const char *name);

enum { CTL_SHAPE_TEXT = 16 * 12 + 4 };
/* "[1,3,224,224]" */
const char *ctl_shape_text(char *buffer, const int32_t *sizes, size_t n_dims);
/* "[0,285]": the coordinates of the element with row-major index @index */
const char *ctl_position_text(char *buffer, const struct ctl_value *value, size_t index);
/* "FP32 [1,3,224,224]", "INT 5"; a dim order that is not row-major is named, too. @buffer has CTL_VALUE_TEXT bytes. */
enum { CTL_VALUE_TEXT = 2 * CTL_SHAPE_TEXT + 48 };
const char *ctl_value_text(char *buffer, const struct ctl_value *value);
const char *ctl_number_text(char buffer[32], struct ctl_number number);

/* A scalar as JSON: a number (null for NaN and infinities; a BOOL is 0 or 1), or a string ("(no UTF-8)" if it is not
 * UTF-8). */
json_t *ctl_value_json(const struct ctl_value *value);
json_t *ctl_shape_json(const int32_t *sizes, size_t n_dims);

#endif
