/* SPDX-License-Identifier: BSD-3-Clause */
/* Values: read elements of any type, alignment and dim order, in row-major order.
 *
 * This code judges results, so it is simple and slow on purpose: each element takes the same path. It does not rely on
 * aligned data or on a BOOL that is 0 or 1. The maker of a value (bundle reader, runtime, the daemon's metadata) has
 * checked its sizes; n_bytes is checked again before each read. */
#include "clients/inferctl/value.h"

#include "runtime/base/checked.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct ctl_value ctl_value_from_bundle(const struct et_bundle_value *value)
{
	struct ctl_value v = { .tag = value->tag };
	switch (value->tag) {
	case ET_TAG_INT:
		v.i = value->i;
		v.d = (double)value->i;
		break;
	case ET_TAG_BOOL:
		v.i = value->b;
		v.d = value->b;
		break;
	case ET_TAG_DOUBLE:
		v.d = value->d;
		break;
	case ET_TAG_TENSOR:
		v.type = value->tensor.type;
		v.n_dims = value->tensor.n_dims;
		v.data = value->tensor.data;
		v.n_bytes = value->tensor.n_bytes;
		memcpy(v.sizes, value->tensor.sizes, v.n_dims * sizeof(v.sizes[0]));
		memcpy(v.dim_order, value->tensor.dim_order, v.n_dims);
		break;
	default:
		v.tag = ET_TAG_NONE;
	}
	return v;
}

struct ctl_value ctl_value_parts(const struct ctl_value *value)
{
	struct ctl_value parts = *value;
	if (value->tag != ET_TAG_TENSOR || value->type < ET_COMPLEX32 || value->type > ET_COMPLEX128 ||
		value->n_dims == ET_MAX_DIMS)
		return parts;
	parts.type = (uint8_t)(ET_FLOAT16 + (value->type - ET_COMPLEX32));
	parts.dim_order[parts.n_dims] = parts.n_dims;
	parts.sizes[parts.n_dims++] = 2;
	return parts;
}

size_t ctl_value_numel(const struct ctl_value *value)
{
	size_t n = 1;
	if (value->tag != ET_TAG_TENSOR)
		return value->tag == ET_TAG_NONE ? 0 : 1;
	for (unsigned i = 0; i < value->n_dims; i++)
		if (value->sizes[i] < 0 || !et_mul(n, (size_t)value->sizes[i], &n))
			return 0;
	return n;
}

size_t ctl_value_place(const struct ctl_value *value, size_t index)
{
	size_t position[ET_MAX_DIMS], place = 0;
	if (et_dim_order_is_contiguous(value->dim_order, value->n_dims))
		return index;
	for (unsigned i = value->n_dims; i-- > 0;) {
		position[i] = index % (size_t)value->sizes[i];
		index /= (size_t)value->sizes[i];
	}
	for (unsigned i = 0; i < value->n_dims; i++) {
		unsigned dim = value->dim_order[i];
		place = place * (size_t)value->sizes[dim] + position[dim];
	}
	return place;
}

/* The magnitude of a float: its exponent, then @n_fraction bits of fraction. */
static double magnitude_of(int bits, int n_fraction, int bias)
{
	int exponent = bits >> n_fraction, fraction = bits & ((1 << n_fraction) - 1);
	return exponent ? ldexp(fraction + (1 << n_fraction), exponent - bias - n_fraction)
			: ldexp(fraction, 1 - bias - n_fraction);
}

/* IEEE 754 binary16 (fp16): sign, 5 bits of exponent, 10 bits of fraction. */
static double half_to_double(uint16_t bits)
{
	int rest = bits & 0x7fff;
	double magnitude = rest < 0x7c00 ? magnitude_of(rest, 10, 15) : rest == 0x7c00 ? (double)INFINITY : (double)NAN;
	return bits & 0x8000 ? -magnitude : magnitude;
}

/* 8-bit floats (OCP 8-bit Floating Point Specification 1.0): sign, exponent and fraction as the name says. E5M2 has
 * infinities and NaNs like fp16. FN: no infinities, and only the largest bit pattern is NaN. FNUZ: only the bit
 * pattern of -0 is NaN, and the bias is larger by one. */
static double float8_to_double(uint8_t type, uint8_t bits)
{
	bool is_e5 = type == ET_FLOAT8E5M2 || type == ET_FLOAT8E5M2FNUZ;
	bool is_fnuz = type == ET_FLOAT8E5M2FNUZ || type == ET_FLOAT8E4M3FNUZ;
	int rest = bits & 0x7f;
	if (type == ET_FLOAT8E5M2)
		return half_to_double((uint16_t)(bits << 8));
	if (is_fnuz ? bits == 0x80 : rest == 0x7f)
		return (double)NAN;
	double magnitude = magnitude_of(rest, is_e5 ? 2 : 3, (is_e5 ? 15 : 7) + is_fnuz);
	return bits & 0x80 ? -magnitude : magnitude;
}

static double bf16_to_double(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float f;
	memcpy(&f, &wide, sizeof(f));
	return (double)f;
}

#define READ_INTEGER(type)                                                        \
	do {                                                                      \
		type x;                                                           \
		memcpy(&x, at, sizeof(x));                                        \
		return (struct ctl_number){ true, false, (int64_t)x, (double)x }; \
	} while (0)

struct ctl_number ctl_value_at(const struct ctl_value *value, size_t index)
{
	struct ctl_number none = { false, false, 0, 0 };
	size_t size = et_scalar_size(value->type), place;
	const uint8_t *at;
	uint16_t bits;

	if (value->tag == ET_TAG_DOUBLE)
		return (struct ctl_number){ false, false, 0, value->d };
	if (value->tag == ET_TAG_INT || value->tag == ET_TAG_BOOL)
		return (struct ctl_number){ true, false, value->i, (double)value->i };
	if (value->tag != ET_TAG_TENSOR || !size)
		return none;
	place = ctl_value_place(value, index);
	if (place >= value->n_bytes / size)
		return none;
	at = value->data + place * size;
	switch ((enum et_scalar_type)value->type) {
	case ET_UINT8:
	case ET_QUINT8:
	case ET_QUINT4X2:
	case ET_QUINT2X4:
	case ET_BITS1X8:
	case ET_BITS2X4:
	case ET_BITS4X2:
	case ET_BITS8:
		READ_INTEGER(uint8_t);
	case ET_BOOL:
		return (struct ctl_number){ true, false, *at != 0, *at != 0 };
	case ET_INT8:
	case ET_QINT8:
		READ_INTEGER(int8_t);
	case ET_INT16:
		READ_INTEGER(int16_t);
	case ET_UINT16:
	case ET_BITS16:
		READ_INTEGER(uint16_t);
	case ET_INT32:
	case ET_QINT32:
		READ_INTEGER(int32_t);
	case ET_UINT32:
		READ_INTEGER(uint32_t);
	case ET_INT64:
		READ_INTEGER(int64_t);
	case ET_UINT64: {
		uint64_t x;
		memcpy(&x, at, sizeof(x));
		return (struct ctl_number){ true, true, (int64_t)x, (double)x };
	}
	case ET_FLOAT16:
	case ET_BFLOAT16:
		memcpy(&bits, at, sizeof(bits));
		return (struct ctl_number){ false, false, 0,
			value->type == ET_FLOAT16 ? half_to_double(bits) : bf16_to_double(bits) };
	case ET_FLOAT8E5M2:
	case ET_FLOAT8E4M3FN:
	case ET_FLOAT8E5M2FNUZ:
	case ET_FLOAT8E4M3FNUZ:
		return (struct ctl_number){ false, false, 0, float8_to_double(value->type, *at) };
	case ET_FLOAT32: {
		float f;
		memcpy(&f, at, sizeof(f));
		return (struct ctl_number){ false, false, 0, (double)f };
	}
	case ET_FLOAT64: {
		double d;
		memcpy(&d, at, sizeof(d));
		return (struct ctl_number){ false, false, 0, d };
	}
	default:
		return none;
	}
}

bool ctl_value_same_layout(const struct ctl_value *a, const struct ctl_value *b)
{
	uint8_t order_a[ET_MAX_DIMS], order_b[ET_MAX_DIMS];
	unsigned n_a = 0, n_b = 0;
	if (a->type != b->type || a->n_dims != b->n_dims ||
		memcmp(a->sizes, b->sizes, a->n_dims * sizeof(a->sizes[0])) != 0)
		return false;
	for (unsigned i = 0; i < a->n_dims; i++) {
		if (a->sizes[a->dim_order[i]] != 1)
			order_a[n_a++] = a->dim_order[i];
		if (b->sizes[b->dim_order[i]] != 1)
			order_b[n_b++] = b->dim_order[i];
	}
	return n_a == n_b && memcmp(order_a, order_b, n_a) == 0;
}

void ctl_value_reorder(uint8_t *ret, const struct ctl_value *value, const struct ctl_value *like)
{
	size_t n = ctl_value_numel(value), n_element = et_scalar_size(value->type);
	struct ctl_value to = *value;
	memcpy(to.dim_order, like->dim_order, to.n_dims);
	for (size_t i = 0; i < n; i++)
		memcpy(ret + ctl_value_place(&to, i) * n_element, value->data + ctl_value_place(value, i) * n_element,
			n_element);
}

bool ctl_type_is_float(uint8_t type)
{
	return type == ET_FLOAT16 || type == ET_BFLOAT16 || type == ET_FLOAT32 || type == ET_FLOAT64 ||
	       (type >= ET_FLOAT8E5M2 && type <= ET_FLOAT8E4M3FNUZ);
}

int ctl_type_from_name(const char *name)
{
	for (int type = 0; name && type <= ET_UINT64; type++)
		if (strcmp(et_scalar_name((enum et_scalar_type)type), name) == 0)
			return type;
	return -1;
}

const char *ctl_shape_text(char *buffer, const int32_t *sizes, size_t n_dims)
{
	size_t n = 0;
	buffer[n++] = '[';
	for (size_t i = 0; i < n_dims && i < ET_MAX_DIMS; i++)
		n += (size_t)snprintf(buffer + n, CTL_SHAPE_TEXT - n, "%s%d", i ? "," : "", sizes[i]);
	buffer[n++] = ']';
	buffer[n] = 0;
	return buffer;
}

const char *ctl_position_text(char *buffer, const struct ctl_value *value, size_t index)
{
	int32_t position[ET_MAX_DIMS] = { 0 };
	unsigned n_dims = value->tag == ET_TAG_TENSOR ? value->n_dims : 0;
	for (unsigned i = n_dims; i-- > 0;) {
		size_t size = value->sizes[i] > 0 ? (size_t)value->sizes[i] : 1;
		position[i] = (int32_t)(index % size);
		index /= size;
	}
	return ctl_shape_text(buffer, position, n_dims);
}

const char *ctl_value_text(char *buffer, const struct ctl_value *value)
{
	char shape[CTL_SHAPE_TEXT];
	switch (value->tag) {
	case ET_TAG_TENSOR: {
		char order[CTL_SHAPE_TEXT];
		int32_t dims[ET_MAX_DIMS];
		bool is_plain = et_dim_order_is_contiguous(value->dim_order, value->n_dims);
		for (unsigned i = 0; i < value->n_dims; i++)
			dims[i] = value->dim_order[i];
		snprintf(buffer, CTL_VALUE_TEXT, "%s %s%s%s", et_scalar_name(value->type),
			ctl_shape_text(shape, value->sizes, value->n_dims), is_plain ? "" : " in dim order ",
			is_plain ? "" : ctl_shape_text(order, dims, value->n_dims));
		break;
	}
	case ET_TAG_INT:
		snprintf(buffer, CTL_VALUE_TEXT, "INT %" PRId64, value->i);
		break;
	case ET_TAG_BOOL:
		snprintf(buffer, CTL_VALUE_TEXT, "BOOL %s", value->i ? "true" : "false");
		break;
	case ET_TAG_DOUBLE:
		snprintf(buffer, CTL_VALUE_TEXT, "DOUBLE %g", value->d);
		break;
	case ET_TAG_STRING:
		snprintf(buffer, CTL_VALUE_TEXT, "STRING of %zu bytes", value->n_bytes);
		break;
	default:
		snprintf(buffer, CTL_VALUE_TEXT, "nothing");
	}
	return buffer;
}

const char *ctl_number_text(char buffer[32], struct ctl_number number)
{
	if (number.is_integer && number.is_unsigned)
		snprintf(buffer, 32, "%" PRIu64, (uint64_t)number.i);
	else if (number.is_integer)
		snprintf(buffer, 32, "%" PRId64, number.i);
	else if (isnan(number.d))
		snprintf(buffer, 32, "nan"); /* without its sign, which has no meaning */
	else
		snprintf(buffer, 32, "%.7g", number.d);
	return buffer;
}

json_t *ctl_value_json(const struct ctl_value *value)
{
	if (value->tag == ET_TAG_STRING) {
		json_t *text = json_stringn((const char *)value->data, value->n_bytes);
		return text ? text : json_string("(no UTF-8)");
	}
	json_t *number = value->tag == ET_TAG_DOUBLE ? json_real(value->d) : json_integer(value->i);
	return number ? number : json_null();
}

json_t *ctl_shape_json(const int32_t *sizes, size_t n_dims)
{
	json_t *shape = json_array();
	for (size_t i = 0; i < n_dims; i++)
		json_array_append_new(shape, json_integer(sizes[i]));
	return shape;
}
