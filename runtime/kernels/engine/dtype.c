/* SPDX-License-Identifier: BSD-3-Clause */
/* Loaders and storers for each element type, generated from one list of types.
 *
 * Each is a loop over a conversion that is one expression; unit stride is a separate loop, so that it vectorizes. Where
 * C leaves the conversion of a float to an integer undefined, it is fixed here: for int32, a value that does not fit,
 * and NaN, becomes INT32_MIN; for other integers the value is converted to int64 (NaN to INT64_MIN) and wrapped. */
#include "runtime/kernels/engine/dtype.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/simd/cast_ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"

static float from_bool(uint8_t value)
{
	return value != 0;
}

#define AS_IS(x) (x)

/* name, element in memory, its value as a number, conversions of a float, double or int64 to the element */
#define INTEGER_TYPES(X)                                         \
	X(UINT8, uint8_t, AS_IS, et_double_to_int, (uint8_t))    \
	X(INT8, int8_t, AS_IS, et_double_to_int, (int8_t))       \
	X(INT16, int16_t, AS_IS, et_double_to_int, (int16_t))    \
	X(INT32, int32_t, AS_IS, et_double_to_int32, (int32_t))  \
	X(INT64, int64_t, AS_IS, et_double_to_int, (int64_t))    \
	X(UINT16, uint16_t, AS_IS, et_double_to_int, (uint16_t)) \
	X(UINT32, uint32_t, AS_IS, et_double_to_int, (uint32_t))
#define OTHER_TYPES(X)                             \
	X(FLOAT32, float, AS_IS, AS_IS, (float))   \
	X(FLOAT64, double, AS_IS, AS_IS, (double)) \
	X(BOOL, uint8_t, from_bool, AS_IS, 0 !=)
#define HALF_TYPES(X)                                                    \
	X(BFLOAT16, uint16_t, et_bf16_to_float, AS_IS, et_float_to_bf16) \
	X(FLOAT16, uint16_t, et_fp16_to_float, AS_IS, et_float_to_fp16)
#define ELEMENT_TYPES(X) INTEGER_TYPES(X) OTHER_TYPES(X) HALF_TYPES(X)

#define LOADER(name, element, value, suffix, type, convert)                                              \
	static void load_##name##_##suffix(void *span, const void *elements, ptrdiff_t stride, size_t n) \
	{                                                                                                \
		type *to = span;                                                                         \
		const element *from = elements;                                                          \
		if (stride == 1) {                                                                       \
			for (size_t i = 0; i < n; i++)                                                   \
				to[i] = (type)convert(value(from[i]));                                   \
		} else if (stride == 0) {                                                                \
			type repeated = n ? (type)convert(value(*from)) : 0;                             \
			for (size_t i = 0; i < n; i++)                                                   \
				to[i] = repeated;                                                        \
		} else {                                                                                 \
			for (size_t i = 0; i < n; i++)                                                   \
				to[i] = (type)convert(value(from[(ptrdiff_t)i * stride]));               \
		}                                                                                        \
	}

#define STORER(name, element, suffix, type, whole, narrow)                                                \
	static void store_##name##_##suffix(void *elements, ptrdiff_t stride, const void *span, size_t n) \
	{                                                                                                 \
		element *to = elements;                                                                   \
		const type *from = span;                                                                  \
		if (stride == 1) {                                                                        \
			for (size_t i = 0; i < n; i++)                                                    \
				to[i] = (element)narrow(whole(from[i]));                                  \
		} else {                                                                                  \
			for (size_t i = 0; i < n; i++)                                                    \
				to[(ptrdiff_t)i * stride] = (element)narrow(whole(from[i]));              \
		}                                                                                         \
	}

/* An integer is read as int64 directly, because double would round it. */
#define TO_INT_UINT8    AS_IS
#define TO_INT_INT8     AS_IS
#define TO_INT_INT16    AS_IS
#define TO_INT_INT32    AS_IS
#define TO_INT_INT64    AS_IS
#define TO_INT_UINT16   AS_IS
#define TO_INT_UINT32   AS_IS
#define TO_INT_BOOL     AS_IS
#define TO_INT_FLOAT32  et_double_to_int
#define TO_INT_FLOAT64  et_double_to_int
#define TO_INT_FLOAT16  et_double_to_int
#define TO_INT_BFLOAT16 et_double_to_int

#define CONVERTERS(name, element, value, whole, narrow)           \
	LOADER(name, element, value, f32, float, AS_IS)           \
	LOADER(name, element, value, f64, double, AS_IS)          \
	LOADER(name, element, value, i64, int64_t, TO_INT_##name) \
	STORER(name, element, f32, float, whole, narrow)          \
	STORER(name, element, f64, double, whole, narrow)         \
	STORER(name, element, i64, int64_t, AS_IS, narrow)

/* et_float_to_fp16 and et_float_to_bf16 take a float, so doubles and integers are deliberately narrowed to float. */
ELEMENT_TYPES(CONVERTERS)

#define INTEGER_STORER(name, element, value, whole, narrow)                                           \
	static void store_floats_##name(void *elements, ptrdiff_t stride, const void *span, size_t n) \
	{                                                                                             \
		et_cast_fn cast = et_find_cast(ET_##name, ET_FLOAT32);                                \
		if (stride == 1 && cast)                                                              \
			cast(n, elements, span);                                                      \
		else                                                                                  \
			store_##name##_f32(elements, stride, span, n);                                \
	}
INTEGER_TYPES(INTEGER_STORER)

/* Long runs of fp16 and bf16 use the micro-kernels. */
enum { LONG_RUN = 16, PART = 128 };

static void load_bf16(void *span, const void *elements, ptrdiff_t stride, size_t n)
{
	if (stride != 1 || n < LONG_RUN)
		load_BFLOAT16_f32(span, elements, stride, n);
	else
		et_span_ukernels()->from_bf16(n, span, elements);
}

static void store_bf16(void *elements, ptrdiff_t stride, const void *span, size_t n)
{
	if (stride != 1 || n < LONG_RUN)
		store_BFLOAT16_f32(elements, stride, span, n);
	else
		et_span_ukernels()->to_bf16(n, elements, span);
}

static void load_fp16(void *span, const void *elements, ptrdiff_t stride, size_t n)
{
	if (stride != 1 || n < LONG_RUN)
		load_FLOAT16_f32(span, elements, stride, n);
	else
		et_ukernels()->from_fp16(n, span, elements);
}

static void store_fp16(void *elements, ptrdiff_t stride, const void *span, size_t n)
{
	if (stride != 1 || n < LONG_RUN)
		store_FLOAT16_f32(elements, stride, span, n);
	else
		et_ukernels()->to_fp16(n, elements, span);
}

static void load_fp16_as_doubles(void *span, const void *elements, ptrdiff_t stride, size_t n)
{
	float part[PART];
	double *to = span;
	if (stride != 1 || n < LONG_RUN) {
		load_FLOAT16_f64(span, elements, stride, n);
		return;
	}
	for (size_t i = 0; i < n; i += PART) {
		size_t m = n - i < PART ? n - i : PART;
		et_ukernels()->from_fp16(m, part, (const uint16_t *)elements + i);
		for (size_t k = 0; k < m; k++)
			to[i + k] = (double)part[k];
	}
}

static void store_doubles_as_fp16(void *elements, ptrdiff_t stride, const void *span, size_t n)
{
	float part[PART];
	const double *from = span;
	if (stride != 1 || n < LONG_RUN) {
		store_FLOAT16_f64(elements, stride, span, n);
		return;
	}
	for (size_t i = 0; i < n; i += PART) {
		size_t m = n - i < PART ? n - i : PART;
		for (size_t k = 0; k < m; k++)
			part[k] = (float)from[i + k];
		et_ukernels()->to_fp16(m, (uint16_t *)elements + i, part);
	}
}

void et_round_floats(enum et_scalar_type type, float *floats, size_t n)
{
	uint16_t half[PART];
	if (n < LONG_RUN) {
		for (size_t i = 0; i < n && type == ET_BFLOAT16; i++)
			floats[i] = et_round_half(floats[i], ET_BFLOAT16);
		for (size_t i = 0; i < n && type != ET_BFLOAT16; i++)
			floats[i] = et_round_half(floats[i], ET_FLOAT16);
		return;
	}
	for (size_t i = 0, part; i < n; i += part) {
		part = n - i < PART ? n - i : PART;
		et_storer(type, ET_F32)(half, 1, floats + i, part);
		et_loader(type, ET_F32)(floats + i, half, 1, part);
	}
}

/* The narrow classes convert their own type, and bool as 0 and 1. */
#define NARROW_TYPES(X) \
	X(i32, int32_t) \
	X(i16, int16_t) \
	X(i8, int8_t)   \
	X(u8, uint8_t)
#define NARROW(suffix, type)                             \
	LOADER(SAME, type, AS_IS, suffix, type, AS_IS)   \
	STORER(SAME, type, suffix, type, AS_IS, AS_IS)   \
	LOADER(BOOL, uint8_t, 0 !=, suffix, type, AS_IS) \
	STORER(BOOL, uint8_t, suffix, type, AS_IS, 0 !=)
NARROW_TYPES(NARROW)

static const struct {
	enum et_scalar_type type;
	size_t n_bytes;
	et_load_fn load, load_bool;
	et_store_fn store, store_bool;
} narrow[] = {
	{ ET_INT32, 4, load_SAME_i32, load_BOOL_i32, store_SAME_i32, store_BOOL_i32 },
	{ ET_INT16, 2, load_SAME_i16, load_BOOL_i16, store_SAME_i16, store_BOOL_i16 },
	{ ET_INT8, 1, load_SAME_i8, load_BOOL_i8, store_SAME_i8, store_BOOL_i8 },
	{ ET_UINT8, 1, load_SAME_u8, load_BOOL_u8, store_SAME_u8, store_BOOL_u8 },
	{ ET_BOOL, 1, load_BOOL_u8, load_BOOL_u8, store_BOOL_u8, store_BOOL_u8 },
};
_Static_assert(sizeof(narrow) / sizeof(*narrow) == ET_N_SPANS - ET_N_CLASSES, "a row for each narrow class");

const struct et_converters et_converters[ET_UINT64 + 1] = {
#define ROW(name, element, value, whole, narrow)                                \
	[ET_##name] = {                                                         \
		{ load_##name##_f32, load_##name##_f64, load_##name##_i64 },    \
		{ store_##name##_f32, store_##name##_f64, store_##name##_i64 }, \
	},
	OTHER_TYPES(ROW)
#define INTEGER_ROW(name, element, value, whole, narrow)                         \
	[ET_##name] = {                                                          \
		{ load_##name##_f32, load_##name##_f64, load_##name##_i64 },     \
		{ store_floats_##name, store_##name##_f64, store_##name##_i64 }, \
	},
		INTEGER_TYPES(INTEGER_ROW)[ET_FLOAT16] = { { load_fp16, load_fp16_as_doubles, load_FLOAT16_i64 },
			{ store_fp16, store_doubles_as_fp16, store_FLOAT16_i64 } },
	[ET_BFLOAT16] = { { load_bf16, load_BFLOAT16_f64, load_BFLOAT16_i64 },
		{ store_bf16, store_BFLOAT16_f64, store_BFLOAT16_i64 } },
};

et_load_fn et_narrow_loader(enum et_scalar_type type, enum et_compute_class as)
{
	return type == narrow[as - ET_N_CLASSES].type ? narrow[as - ET_N_CLASSES].load
	       : type == ET_BOOL                      ? narrow[as - ET_N_CLASSES].load_bool
						      : NULL;
}

et_store_fn et_narrow_storer(enum et_scalar_type type, enum et_compute_class from)
{
	return type == narrow[from - ET_N_CLASSES].type ? narrow[from - ET_N_CLASSES].store
	       : type == ET_BOOL                        ? narrow[from - ET_N_CLASSES].store_bool
							: NULL;
}

/* uint64 has no loader, so it is not one. */
bool et_type_is_integral(enum et_scalar_type type)
{
	return type <= ET_INT64 || type == ET_UINT16 || type == ET_UINT32;
}

/* The complex types are in the same order as the types of their parts. */
enum et_scalar_type et_real_type(enum et_scalar_type type)
{
	return et_type_is_complex(type) ? ET_FLOAT16 + (type - ET_COMPLEX32) : type;
}

enum et_compute_class et_narrow_class_of(enum et_scalar_type type)
{
	switch (type) {
	case ET_INT32:
		return ET_I32;
	case ET_INT16:
		return ET_I16;
	case ET_INT8:
		return ET_I8;
	case ET_UINT8:
		return ET_U8;
	case ET_BOOL:
		return ET_B8;
	default:
		return ET_N_SPANS;
	}
}

bool et_class_is_type(enum et_compute_class as, enum et_scalar_type type)
{
	if (as >= ET_N_CLASSES)
		return type == narrow[as - ET_N_CLASSES].type;
	return (as == ET_F32 && type == ET_FLOAT32) || (as == ET_F64 && type == ET_FLOAT64) ||
	       (as == ET_I64 && type == ET_INT64);
}

size_t et_class_size(enum et_compute_class as)
{
	if (as >= ET_N_CLASSES)
		return narrow[as - ET_N_CLASSES].n_bytes;
	return as == ET_F32 ? 4 : 8;
}

enum et_scalar_type et_promote(enum et_scalar_type a, enum et_scalar_type b)
{
	if (a == b)
		return a;
	if (a == ET_BOOL)
		return b;
	if (b == ET_BOOL)
		return a;
	if (et_type_is_complex(a) || et_type_is_complex(b)) {
		enum et_scalar_type real = et_promote(et_real_type(a), et_real_type(b));
		return ET_COMPLEX32 + (real == ET_BFLOAT16 ? ET_FLOAT32 : real) - ET_FLOAT16;
	}
	bool a_is_float = et_type_is_float(a), b_is_float = et_type_is_float(b);
	if (a_is_float != b_is_float)
		return a_is_float ? a : b;
	if (a_is_float) {
		if (a == ET_FLOAT64 || b == ET_FLOAT64)
			return ET_FLOAT64;
		return ET_FLOAT32; /* also for fp16 with bf16, as neither holds the other's values */
	}
	if (et_scalar_size(a) == et_scalar_size(b)) /* a signed and an unsigned type: the next larger signed type */
		return et_scalar_size(a) == 1 ? ET_INT16 : et_scalar_size(a) == 2 ? ET_INT32 : ET_INT64;
	return et_scalar_size(a) > et_scalar_size(b) ? a : b;
}

bool et_can_cast(enum et_scalar_type from, enum et_scalar_type to)
{
	if (et_type_is_complex(from) || et_type_is_complex(to))
		return et_type_is_complex(to);
	if (et_type_is_float(from) && !et_type_is_float(to))
		return false;
	return from == ET_BOOL || to != ET_BOOL;
}

double et_element_get_double(const void *element, enum et_scalar_type type)
{
	double value = 0;
	et_load_fn load = et_loader(type, ET_F64);
	if (load)
		load(&value, element, 1, 1);
	return value;
}

int64_t et_element_get_int(const void *element, enum et_scalar_type type)
{
	int64_t value = 0;
	et_load_fn load = et_loader(type, ET_I64);
	if (load)
		load(&value, element, 1, 1);
	return value;
}

void et_element_set_double(void *element, enum et_scalar_type type, double value)
{
	et_store_fn store = et_storer(type, ET_F64);
	if (store)
		store(element, 1, &value, 1);
}

void et_element_set_int(void *element, enum et_scalar_type type, int64_t value)
{
	et_store_fn store = et_storer(type, ET_I64);
	if (store)
		store(element, 1, &value, 1);
}

int64_t et_wrap(int64_t value, enum et_scalar_type type)
{
	switch (type) {
	case ET_UINT8:
		return (uint8_t)value;
	case ET_INT8:
		return (int8_t)value;
	case ET_INT16:
		return (int16_t)value;
	case ET_INT32:
		return (int32_t)value;
	case ET_UINT16:
		return (uint16_t)value;
	case ET_UINT32:
		return (uint32_t)value;
	case ET_BOOL:
		return value != 0;
	default:
		return value;
	}
}
