/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of tensors.
 *
 * What must always be true: as many elements are written as the caller has asked for, and the memory for them is
 * charged first; a number that the datatype cannot hold is refused and not cut. */
#include "clients/http/element.h"

#include "runtime/base/checked.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum kind { BOOLEAN, SIGNED, UNSIGNED, REAL, HALF, BRAIN };

static const struct type {
	const char *name;
	size_t size;
	enum kind kind;
} types[] = { { "FP32", 4, REAL }, { "BOOL", 1, BOOLEAN }, { "UINT8", 1, UNSIGNED }, { "UINT16", 2, UNSIGNED },
	{ "UINT32", 4, UNSIGNED }, { "UINT64", 8, UNSIGNED }, { "INT8", 1, SIGNED }, { "INT16", 2, SIGNED },
	{ "INT32", 4, SIGNED }, { "INT64", 8, SIGNED }, { "FP16", 2, HALF }, { "BF16", 2, BRAIN },
	{ "FP64", 8, REAL } };

static const struct type *find(const char *name)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(types); i++)
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	return NULL;
}

size_t http_element_size(const char *datatype)
{
	const struct type *type = find(datatype);
	return type ? type->size : 0;
}

bool http_element_has_json(const char *datatype)
{
	const struct type *type = find(datatype);
	return type && type->kind != HALF && type->kind != BRAIN;
}

/* --- from JSON -------------------------------------------------------------------------------------- */

struct cursor {
	const struct type *type;
	char *to;
	size_t n, max;
	const char *refusal;
};

static void store_integer(struct cursor *c, int64_t value)
{
	size_t bits = 8 * c->type->size;
	bool fits = c->type->kind == UNSIGNED
			    ? value >= 0 && (bits == 64 || (uint64_t)value >> bits == 0)
			    : bits == 64 || (value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1));
	if (!fits)
		c->refusal = "a number is outside the range of the datatype";
	else
		memcpy(c->to + c->n * c->type->size, &value,
			c->type->size); /* little-endian machines only, as inferd */
}

static void store_real(struct cursor *c, double value)
{
	float narrow = (float)value;
	if (c->type->size == 4 && !isfinite(narrow))
		c->refusal = "a number is outside the range of the datatype";
	else if (c->type->size == 4)
		memcpy(c->to + c->n * 4, &narrow, 4);
	else
		memcpy(c->to + c->n * 8, &value, 8);
}

static void store(struct cursor *c, const json_t *item)
{
	if (c->n == c->max)
		c->refusal = "there are more numbers than the shape has";
	else if (c->type->kind == BOOLEAN &&
		 (json_is_boolean(item) || (json_is_integer(item) && json_integer_value(item) >> 1 == 0)))
		c->to[c->n] = json_is_true(item) || (json_is_integer(item) && json_integer_value(item));
	else if (c->type->kind == REAL && json_is_number(item))
		store_real(c, json_number_value(item));
	else if ((c->type->kind == SIGNED || c->type->kind == UNSIGNED) && json_is_integer(item))
		store_integer(c, json_integer_value(item));
	else
		c->refusal = "an element is not of the datatype";
	c->n++;
}

/* As deep as jansson nests, which is limited. */
static void walk(struct cursor *c, const json_t *array)
{
	size_t n = json_array_size(array);
	for (size_t i = 0; i < n && !c->refusal; i++) {
		const json_t *item = json_array_get(array, i);
		if (json_is_array(item))
			walk(c, item);
		else
			store(c, item);
	}
}

unsigned http_elements_from_json(const json_t *data, const char *datatype, size_t n_elements, void **ret, char *error,
	size_t error_size)
{
	struct cursor c = { .type = find(datatype), .max = n_elements };
	size_t n_bytes;
	if (!c.type || !json_is_array(data)) {
		snprintf(error, error_size, "'data' is not an array");
		return 400;
	}
	if (!et_mul(n_elements, c.type->size, &n_bytes) || !(c.to = http_alloc(n_bytes))) {
		snprintf(error, error_size, "the gateway has no memory left for this tensor");
		return 503;
	}
	walk(&c, data);
	if (!c.refusal && c.n != n_elements)
		c.refusal = "there are fewer numbers than the shape has";
	if (c.refusal) {
		snprintf(error, error_size, "%s", c.refusal);
		http_free(c.to);
		return 400;
	}
	*ret = c.to;
	return 0;
}

/* --- to JSON ---------------------------------------------------------------------------------------- */

static int64_t integer_at(const char *at, const struct type *type)
{
	uint64_t raw = 0;
	memcpy(&raw, at, type->size);
	unsigned shift = (unsigned)(64 - 8 * type->size);
	return type->kind == SIGNED ? (int64_t)(raw << shift) >> shift : (int64_t)raw;
}

static double real_at(const char *at, size_t size)
{
	float narrow;
	double wide;
	memcpy(&narrow, at, 4);
	if (size == 4)
		return (double)narrow;
	memcpy(&wide, at, 8);
	return wide;
}

double http_element_value(const void *data, const char *datatype, size_t index)
{
	const struct type *type = find(datatype);
	if (!type)
		return 0;
	const char *at = (const char *)data + index * type->size;
	uint16_t half;
	float value;
	switch (type->kind) {
	case REAL:
		return real_at(at, type->size);
	case BRAIN: {
		memcpy(&half, at, 2);
		uint32_t bits = (uint32_t)half << 16;
		memcpy(&value, &bits, 4);
		return (double)value;
	}
	case HALF: {
		memcpy(&half, at, 2);
		int exponent = half >> 10 & 31, mantissa = half & 1023;
		double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
			      : exponent     ? ldexp(1024 + mantissa, exponent - 25)
					     : ldexp(mantissa, -24);
		return half >> 15 ? -size : size;
	}
	case UNSIGNED:
		return (double)(uint64_t)integer_at(at, type);
	default:
		return (double)integer_at(at, type);
	}
}

bool http_elements_to_json(struct http_buffer *to, const void *data, const char *datatype, size_t n_elements,
	bool *ret_is_finite)
{
	const struct type *type = find(datatype);
	char text[48];
	*ret_is_finite = true;
	if (!type)
		return false;
	http_buffer_add(to, "[", 1);
	for (size_t i = 0; i < n_elements; i++) {
		const char *at = (const char *)data + i * type->size;
		int n;
		text[0] = ',';
		if (type->kind == REAL) {
			double value = real_at(at, type->size);
			if (!isfinite(value)) {
				*ret_is_finite = false;
				return false;
			}
			n = snprintf(text + 1, sizeof(text) - 1, "%.*g", type->size == 4 ? 9 : 17, value);
		} else if (type->kind == BOOLEAN) {
			n = snprintf(text + 1, sizeof(text) - 1, "%s", *at ? "true" : "false");
		} else if (type->kind == UNSIGNED) {
			n = snprintf(text + 1, sizeof(text) - 1, "%" PRIu64, (uint64_t)integer_at(at, type));
		} else {
			n = snprintf(text + 1, sizeof(text) - 1, "%" PRId64, integer_at(at, type));
		}
		if (!http_buffer_add(to, i ? text : text + 1, (size_t)n + (i ? 1 : 0)))
			return false;
	}
	return http_buffer_add(to, "]", 1);
}

/* --- order of dimensions ------------------------------------------------------------------------------ */

bool http_is_row_major(const struct inferd_tensor_info *info)
{
	for (size_t i = 0; i < info->n_dims; i++)
		if (info->dim_order[i] != i)
			return false;
	return true;
}

void http_permute(void *to, const void *from, const struct inferd_tensor_info *info, const int64_t *shape,
	size_t element_size, bool to_rows)
{
	size_t strides[INFERD_MAX_DIMS], index[INFERD_MAX_DIMS] = { 0 }, n = info->n_dims, stride = 1, n_all = 1,
					 other = 0;
	for (size_t i = n; i-- > 0;) {
		strides[info->dim_order[i]] = stride;
		stride *= (size_t)shape[info->dim_order[i]];
		n_all *= (size_t)shape[i];
	}
	for (size_t row = 0; row < n_all; row++) {
		char *target = (char *)to + (to_rows ? row : other) * element_size;
		const char *source = (const char *)from + (to_rows ? other : row) * element_size;
		if (element_size == 4)
			memcpy(target, source, 4);
		else
			memcpy(target, source, element_size);
		for (size_t i = n; i-- > 0;) {
			other += strides[i];
			if (++index[i] < (size_t)shape[i])
				break;
			other -= strides[i] * (size_t)shape[i];
			index[i] = 0;
		}
	}
}
