/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types: how they are promoted, and how a run of elements becomes numbers to compute with.
 *
 * Twelve element types compute in three compute classes: float (for float, fp16 and bf16), double, and int64 (for every
 * integer and bool). A loader converts a strided run of elements to a dense span of one class, and a storer converts it
 * back. So an operator is written at most three times, not twelve, and its loop is a plain one that the compiler
 * vectorizes. int64 is exact for every narrower integer, and what wraps in the narrow type wraps the same way when the
 * wide result is stored.
 *
 * In the kernels "half" means fp16 or bf16, PyTorch's reduced floating point types; fp16 and bf16 name one of the two.
 */
#ifndef RUNTIME_KERNELS_ENGINE_DTYPE_H
#define RUNTIME_KERNELS_ENGINE_DTYPE_H

#include "runtime/base/fp16.h"
#include "runtime/kernels/simd/span.h"

#include <string.h>

/* Convert @n elements, @stride elements apart (0 repeats one, negative walks backwards), to a span of one class; and
 * back. */
typedef void (*et_load_fn)(void *span, const void *elements, ptrdiff_t stride, size_t n);
typedef void (*et_store_fn)(void *elements, ptrdiff_t stride, const void *span, size_t n);

/* For one type, by compute class; the classes before ET_N_CLASSES only. */
struct et_converters {
	et_load_fn load[ET_N_CLASSES];
	et_store_fn store[ET_N_CLASSES];
};
extern const struct et_converters et_converters[ET_UINT64 + 1];
et_load_fn et_narrow_loader(enum et_scalar_type type, enum et_compute_class as);
et_store_fn et_narrow_storer(enum et_scalar_type type, enum et_compute_class from);

/* NULL for a type that cannot be computed with. The narrow classes have loaders and storers only for their own type and
 * for bool. */
static inline et_load_fn et_loader(enum et_scalar_type type, enum et_compute_class as)
{
	if (as >= ET_N_CLASSES)
		return et_narrow_loader(type, as);
	return (unsigned)type <= ET_UINT64 ? et_converters[type].load[as] : NULL;
}
static inline et_store_fn et_storer(enum et_scalar_type type, enum et_compute_class from)
{
	if (from >= ET_N_CLASSES)
		return et_narrow_storer(type, from);
	return (unsigned)type <= ET_UINT64 ? et_converters[type].store[from] : NULL;
}

/* The narrow class whose values are exactly those of @type, or ET_N_SPANS. */
enum et_compute_class et_narrow_class_of(enum et_scalar_type type);
/* Whether a span of class @as has the same bytes as elements of @type. */
bool et_class_is_type(enum et_compute_class as, enum et_scalar_type type);
size_t et_class_size(enum et_compute_class as);

bool et_type_is_integral(enum et_scalar_type type); /* false for bool */
/* True for fp16 and bf16 too. */
static inline bool et_type_is_float(enum et_scalar_type type)
{
	return type == ET_FLOAT32 || type == ET_FLOAT64 || type == ET_FLOAT16 || type == ET_BFLOAT16;
}
/* Complex types have neither loader nor storer: see complex_elementwise.h. */
static inline bool et_type_is_complex(enum et_scalar_type type)
{
	return type >= ET_COMPLEX32 && type <= ET_COMPLEX128;
}

/* The class in which elements of @type are computed. */
static inline enum et_compute_class et_class_of(enum et_scalar_type type)
{
	if (type == ET_FLOAT64)
		return ET_F64;
	return et_type_is_float(type) ? ET_F32 : ET_I64;
}

/* The type of a complex number's parts; any other type is returned as it is. */
enum et_scalar_type et_real_type(enum et_scalar_type type);

/* PyTorch's type promotion. */
enum et_scalar_type et_promote(enum et_scalar_type a, enum et_scalar_type b);
/* Promotion of a tensor's type with a number: only a number of a higher category (bool < integer < float) counts. */
static inline enum et_scalar_type et_promote_number(enum et_scalar_type type, enum et_tag tag)
{
	if (tag == ET_TAG_DOUBLE)
		return et_type_is_float(type) || et_type_is_complex(type) ? type : ET_FLOAT32;
	if (tag == ET_TAG_INT)
		return type == ET_BOOL ? ET_INT64 : type;
	return type;
}
/* Whether a result of type @from may be stored as @to: not complex as real, not float as integer, and only bool as
 * bool. */
bool et_can_cast(enum et_scalar_type from, enum et_scalar_type to);

/* One element as a number, and back. */
double et_element_get_double(const void *element, enum et_scalar_type type);
int64_t et_element_get_int(const void *element, enum et_scalar_type type);
void et_element_set_double(void *element, enum et_scalar_type type, double value);
void et_element_set_int(void *element, enum et_scalar_type type, int64_t value);

/* ExecuTorch computes fp16 and bf16 in the type itself and rounds after each operation; only kernels that do this too
 * get the same numbers. A sum of more terms than this would have no correct digit left, so it is computed in float
 * instead. */
enum { ET_HALF_TERMS = 256 };

/* @value wrapped around to the integer type @type; 0 or 1 for bool. */
int64_t et_wrap(int64_t value, enum et_scalar_type type);

static inline bool et_type_is_half(enum et_scalar_type type)
{
	return type == ET_FLOAT16 || type == ET_BFLOAT16;
}

/* An element of @type (fp16 or bf16) as float, and back. */
static inline float et_half_to_float(uint16_t bits, enum et_scalar_type type)
{
	return type == ET_BFLOAT16 ? et_bf16_to_float(bits) : et_fp16_to_float(bits);
}
static inline uint16_t et_float_to_half(float value, enum et_scalar_type type)
{
	return type == ET_BFLOAT16 ? et_float_to_bf16(value) : et_float_to_fp16(value);
}

/* The result of an operation computed in float, rounded to @type (fp16 or bf16). */
static inline float et_round_half(float value, enum et_scalar_type type)
{
	return type == ET_BFLOAT16 ? et_bf16_to_float(et_float_to_bf16(value))
				   : et_fp16_to_float(et_float_to_fp16(value));
}

/* Round each of @n floats to @type (fp16 or bf16), in place. */
void et_round_floats(enum et_scalar_type type, float *floats, size_t n);

/* @value rounded to fp16, bf16 or float if @type is that; otherwise unchanged. Inline, so that a loop tests the type
 * once. */
static inline double et_round_to(double value, enum et_scalar_type type)
{
	if (et_type_is_half(type))
		return et_round_half((float)value, type);
	return type == ET_FLOAT32 ? (float)value : value;
}

#endif
