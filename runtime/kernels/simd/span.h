/* SPDX-License-Identifier: BSD-3-Clause */
/* Spans: runs of numbers of one compute class. The engine calls the micro-kernels with them.
 *
 * This is the lowest header of the kernels. The micro-kernels (simd/) know nothing of tensors, views or operators; the
 * engine builds on both. */
#ifndef RUNTIME_KERNELS_SIMD_SPAN_H
#define RUNTIME_KERNELS_SIMD_SPAN_H

#include "runtime/tensor.h"

enum et_compute_class {
	ET_F32,
	ET_F64,
	ET_I64,
	ET_N_CLASSES,
	/* Integers in their own width: for loops whose operands all have one type. */
	ET_I32 = ET_N_CLASSES,
	ET_I16,
	ET_I8,
	ET_U8,
	ET_B8, /* bool: an input that is not 0 is true; an output is 0 or 1 */
	ET_N_SPANS,
};

enum { ET_SPAN_OPERANDS = 5 };

/* One call of a span function: @n results, from @n numbers of each operand. All have the same compute class. */
struct et_span {
	size_t n;
	void *out;
	const void *in[ET_SPAN_OPERANDS];
	enum et_scalar_type common; /* the element type that the operands were promoted to */
	bool divided_by_zero;       /* the span function sets it; the kernel then fails */
};
typedef void (*et_span_fn)(struct et_span *span);

/* Before a loop whose output is an operand's memory or touches none of it, so that no element waits for another one.
 * Without this promise the compiler leaves some in-place loops, or all of them, unvectorized. */
#if defined(__clang__)
#define ET_INDEPENDENT
#else
#define ET_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Rounds towards zero. A value that does not fit, and NaN, becomes INT64_MIN (undefined in C). */
static inline int64_t et_double_to_int(double value)
{
	return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

/* The same for int32: a value that does not fit becomes INT32_MIN, as in ExecuTorch on x86. */
static inline int32_t et_double_to_int32(double value)
{
	return value > -0x1p31 - 1 && value < 0x1p31 ? (int32_t)value : INT32_MIN;
}

#endif
