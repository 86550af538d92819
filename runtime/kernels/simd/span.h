/* SPDX-License-Identifier: BSD-3-Clause */
/* Spans: runs of numbers of one compute class, which the engine's loops and the micro-kernels exchange.
 *
 * The lowest header of the kernels. The micro-kernels (simd/) know nothing of tensors, views and operators; the engine builds on both. */
#ifndef RUNTIME_KERNELS_SIMD_SPAN_H
#define RUNTIME_KERNELS_SIMD_SPAN_H

#include "runtime/tensor.h"

enum et_compute_class {
	ET_F32,
	ET_F64,
	ET_I64,
	ET_N_CLASSES,
	/* Integers as they lie, for loops over operands that are all of one type. */
	ET_I32 = ET_N_CLASSES,
	ET_I16,
	ET_I8,
	ET_U8,
	ET_B8, /* bool: whatever is not 0 is true, and what comes out is 0 or 1 */
	ET_N_SPANS,
};

enum { ET_SPAN_OPERANDS = 5 };

/* One call: @n results from as many of each operand, all of the same class. */
struct et_span {
	size_t n;
	void *out;
	const void *in[ET_SPAN_OPERANDS];
	enum et_scalar_type common; /* whose integers these are */
	bool divided_by_zero;       /* set it: the kernel then fails */
};
typedef void (*et_span_fn)(struct et_span *span);

/* The output is an operand's memory or touches none of it, so no element waits for another one: without knowing that
 * the compiler leaves operators in place, or all, unvectorized. */
#if defined(__clang__)
#define ET_INDEPENDENT
#else
#define ET_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Towards zero; what does not fit (and NaN) is INT64_MIN, where C says nothing. */
static inline int64_t et_double_to_int(double value)
{
	return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

/* The same for an int32, where what does not fit is INT32_MIN: as the original has it on x86. */
static inline int32_t et_double_to_int32(double value)
{
	return value > -0x1p31 - 1 && value < 0x1p31 ? (int32_t)value : INT32_MIN;
}

#endif
