/* SPDX-License-Identifier: BSD-3-Clause */
/* A value: what goes into a model and what comes out, with its own description.
 *
 * The data is borrowed (from a bundled program, a region, a file in memory) and dense in its dim order; it
 * may lie at any alignment, so it is read through ctl_value_at only. */
#ifndef CLIENTS_INFERCTL_VALUE_H
#define CLIENTS_INFERCTL_VALUE_H

#include "runtime/program/bundle.h"
#include "runtime/tensor.h"

#include <jansson.h>

struct ctl_value {
	uint8_t tag;  /* enum et_tag: TENSOR, INT, BOOL, DOUBLE, STRING (its bytes are the data); NONE is no value */
	uint8_t type; /* enum et_scalar_type */
	uint8_t n_dims;
	uint8_t dim_order[ET_MAX_DIMS];
	int32_t sizes[ET_MAX_DIMS];
	const uint8_t *data;
	size_t n_bytes;
	int64_t i; /* INT and BOOL */
	double d;
};

/* The same value; its data stays the bundle's. */
struct ctl_value ctl_value_from_bundle(const struct et_bundle_value *value);

/* One element as a number. Integers beyond 2^53 need the exact form: is_integer says which to use. */
struct ctl_number {
	bool is_integer;
	bool is_unsigned; /* i holds the bits of a uint64_t */
	int64_t i;
	double d; /* always set, rounded if need be */
};

/* A tensor of complex numbers as one of their parts, which are its last dimension; any other value as it is. */
struct ctl_value ctl_value_parts(const struct ctl_value *value);

/* Elements; 1 for a number, 0 for nothing and for sizes whose product does not fit. */
size_t ctl_value_numel(const struct ctl_value *value);
/* Where element @index of the row-major order lies in the data, counted in elements. */
size_t ctl_value_place(const struct ctl_value *value, size_t index);
/* Element @index, counted in row-major order of the sizes, whatever the dim order. */
struct ctl_number ctl_value_at(const struct ctl_value *value, size_t index);
/* Whether both lay their elements out alike: same type and sizes, and dim orders that differ only in
 * dimensions of size 1. */
bool ctl_value_same_layout(const struct ctl_value *a, const struct ctl_value *b);
/* Copy @value's elements to @ret, which has room for as many bytes, in the dim order of @like: same number of
 * dimensions, each order a permutation. */
void ctl_value_reorder(uint8_t *ret, const struct ctl_value *value, const struct ctl_value *like);

/* FP16, BF16, FP32, FP64 */
bool ctl_type_is_float(uint8_t type);
/* "FP32" to ET_FLOAT32; -1 if no tensor can have it. */
int ctl_type_from_name(const char *name);

enum { CTL_SHAPE_TEXT = 16 * 12 + 4 };
/* "[1,3,224,224]" */
const char *ctl_shape_text(char *buffer, const int32_t *sizes, size_t n_dims);
/* "[0,285]": the position of element @index */
const char *ctl_position_text(char *buffer, const struct ctl_value *value, size_t index);
/* "FP32 [1,3,224,224]", "INT 5"; also names a dim order that is not row-major. Room for CTL_VALUE_TEXT. */
enum { CTL_VALUE_TEXT = 2 * CTL_SHAPE_TEXT + 48 };
const char *ctl_value_text(char *buffer, const struct ctl_value *value);
const char *ctl_number_text(char buffer[32], struct ctl_number number);

/* Of anything but a tensor: a number (null for what JSON has none of), a truth value as one, or a string, "(no UTF-8)" for
 * one that is none. */
json_t *ctl_value_json(const struct ctl_value *value);
json_t *ctl_shape_json(const int32_t *sizes, size_t n_dims);

#endif
