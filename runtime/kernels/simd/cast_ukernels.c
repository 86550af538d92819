/* SPDX-License-Identifier: BSD-3-Clause */
/* Dense conversions between element types; compiled once for each instruction set, like ukernels.c.
 *
 * A float becomes the same integer as in et_double_to_int and et_double_to_int32 (span.h), on every processor. Floats
 * that an int32 holds need no special care: one loop over a piece converts them all, and also finds out whether one was
 * outside. Only such a piece is then converted again, number by number. */
#include "runtime/kernels/simd/cast_ukernels.h"
#include "runtime/kernels/simd/span.h"
#include "runtime/base/fp16.h"

enum { PIECE = 256 };

#define CAST(name, from, to, expression)                      \
	static void name(size_t n, void *out, const void *in) \
	{                                                     \
		const from *elements = in;                    \
		to *converted = out;                          \
		ET_INDEPENDENT                                \
		for (size_t i = 0; i < n; i++) {              \
			const from x = elements[i];           \
			converted[i] = (to)(expression);      \
		}                                             \
	}

/* value(x) gives an element as a @real. */
#define FLOAT_CAST(name, from, real, value, to, whole)                                          \
	CAST(name##_to_##to##_plain, from, to##_t, whole((double)value(x)))                     \
	static bool name##_to_##to##_fitting(size_t n, to##_t *converted, const from *elements) \
	{                                                                                       \
		int32_t outside = 0;                                                            \
		ET_INDEPENDENT                                                                  \
		for (size_t i = 0; i < n; i++) {                                                \
			const real x = value(elements[i]);                                      \
			const bool fits = x > -(real)0x1p31 && x < (real)0x1p31;                \
			converted[i] = (to##_t)(int32_t)(fits ? x : 0);                         \
			outside |= !fits;                                                       \
		}                                                                               \
		return !outside;                                                                \
	}                                                                                       \
	static void name##_to_##to(size_t n, void *out, const void *in)                         \
	{                                                                                       \
		for (size_t i = 0; i < n; i += PIECE) {                                         \
			const size_t part = n - i < PIECE ? n - i : PIECE;                      \
			const from *elements = (const from *)in + i;                            \
			if (!name##_to_##to##_fitting(part, (to##_t *)out + i, elements))       \
				name##_to_##to##_plain(part, (to##_t *)out + i, elements);      \
		}                                                                               \
	}
#define FLOAT_CASTS(name, from, real, value)                           \
	FLOAT_CAST(name, from, real, value, uint8, et_double_to_int)   \
	FLOAT_CAST(name, from, real, value, int8, et_double_to_int)    \
	FLOAT_CAST(name, from, real, value, int16, et_double_to_int)   \
	FLOAT_CAST(name, from, real, value, int32, et_double_to_int32) \
	FLOAT_CAST(name, from, real, value, int64, et_double_to_int)   \
	CAST(name##_to_bool, from, uint8_t, value(x) != 0)
#define AS_IS(x) (x)
FLOAT_CASTS(f32, float, float, AS_IS)
FLOAT_CASTS(f64, double, double, AS_IS)
FLOAT_CASTS(bf16, uint16_t, float, et_bf16_to_float)

#define FLOATS_OF(from)                         \
	CAST(from##_to_f32, from##_t, float, x) \
	CAST(from##_to_f64, from##_t, double, x)
FLOATS_OF(uint8)
FLOATS_OF(int8)
FLOATS_OF(int16)
FLOATS_OF(int32)
FLOATS_OF(int64)
CAST(bool_to_f32, uint8_t, float, x != 0)
CAST(bool_to_f64, uint8_t, double, x != 0)

/* Casts between integers. Types that differ only in the sign have the same bytes, so their entries copy. */
#define WRAP(from, to) CAST(from##_to_##to, from##_t, to##_t, x)
#define TRUTH(from)    CAST(from##_to_bool, from##_t, uint8_t, x != 0)
WRAP(uint8, int8)
WRAP(uint8, int16)
WRAP(uint8, int32)
WRAP(uint8, int64)
TRUTH(uint8)
WRAP(int8, uint8)
WRAP(int8, int16)
WRAP(int8, int32)
WRAP(int8, int64)
TRUTH(int8)
WRAP(int16, uint8)
WRAP(int16, int8)
WRAP(int16, int32)
WRAP(int16, int64)
TRUTH(int16)
WRAP(int32, uint8)
WRAP(int32, int8)
WRAP(int32, int16)
WRAP(int32, int64)
TRUTH(int32)
WRAP(int64, uint8)
WRAP(int64, int8)
WRAP(int64, int16)
WRAP(int64, int32)
TRUTH(int64)
#define NUMBER(to) CAST(bool_to_##to, uint8_t, to##_t, x != 0)
NUMBER(uint8)
NUMBER(int8)
NUMBER(int16)
NUMBER(int32)
NUMBER(int64)

/* clang-format off */
const struct et_cast_ukernels ET_CAST_UKERNELS_NAME = {
	.cast = {
		[ET_UINT8] = { [ET_INT8] = uint8_to_int8, [ET_INT16] = uint8_to_int16, [ET_INT32] = uint8_to_int32,
			[ET_INT64] = uint8_to_int64, [ET_BOOL] = uint8_to_bool,
			[ET_FLOAT32] = uint8_to_f32, [ET_FLOAT64] = uint8_to_f64 },
		[ET_INT8] = { [ET_UINT8] = int8_to_uint8, [ET_INT16] = int8_to_int16, [ET_INT32] = int8_to_int32,
			[ET_INT64] = int8_to_int64, [ET_BOOL] = int8_to_bool,
			[ET_FLOAT32] = int8_to_f32, [ET_FLOAT64] = int8_to_f64 },
		[ET_INT16] = { [ET_UINT8] = int16_to_uint8, [ET_INT8] = int16_to_int8, [ET_INT32] = int16_to_int32,
			[ET_INT64] = int16_to_int64, [ET_BOOL] = int16_to_bool,
			[ET_FLOAT32] = int16_to_f32, [ET_FLOAT64] = int16_to_f64 },
		[ET_INT32] = { [ET_UINT8] = int32_to_uint8, [ET_INT8] = int32_to_int8, [ET_INT16] = int32_to_int16,
			[ET_INT64] = int32_to_int64, [ET_BOOL] = int32_to_bool,
			[ET_FLOAT32] = int32_to_f32, [ET_FLOAT64] = int32_to_f64 },
		[ET_INT64] = { [ET_UINT8] = int64_to_uint8, [ET_INT8] = int64_to_int8, [ET_INT16] = int64_to_int16,
			[ET_INT32] = int64_to_int32, [ET_FLOAT32] = int64_to_f32, [ET_FLOAT64] = int64_to_f64,
			[ET_BOOL] = int64_to_bool },
		[ET_FLOAT32] = { [ET_UINT8] = f32_to_uint8, [ET_INT8] = f32_to_int8, [ET_INT16] = f32_to_int16,
			[ET_INT32] = f32_to_int32, [ET_INT64] = f32_to_int64, [ET_BOOL] = f32_to_bool },
		[ET_FLOAT64] = { [ET_UINT8] = f64_to_uint8, [ET_INT8] = f64_to_int8, [ET_INT16] = f64_to_int16,
			[ET_INT32] = f64_to_int32, [ET_INT64] = f64_to_int64, [ET_BOOL] = f64_to_bool },
		[ET_BFLOAT16] = { [ET_UINT8] = bf16_to_uint8, [ET_INT8] = bf16_to_int8, [ET_INT16] = bf16_to_int16,
			[ET_INT32] = bf16_to_int32, [ET_INT64] = bf16_to_int64, [ET_BOOL] = bf16_to_bool },
		[ET_BOOL] = { [ET_UINT8] = bool_to_uint8, [ET_INT8] = bool_to_int8, [ET_INT16] = bool_to_int16,
			[ET_INT32] = bool_to_int32, [ET_INT64] = bool_to_int64,
			[ET_FLOAT32] = bool_to_f32, [ET_FLOAT64] = bool_to_f64 },
	},
};
/* clang-format on */
