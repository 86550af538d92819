/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions of what lies in one piece, for which only some processors have vectors: compiled once for each instruction set. */
#ifndef RUNTIME_KERNELS_SIMD_CAST_UKERNELS_H
#define RUNTIME_KERNELS_SIMD_CAST_UKERNELS_H

#include "runtime/tensor.h"

/* @n elements; @to and @from don't overlap. */
typedef void (*et_cast_fn)(size_t n, void *to, const void *from);

struct et_cast_ukernels {
	et_cast_fn cast[ET_BFLOAT16 + 1][ET_BOOL + 1]; /* [from][to]; NULL: there is none */
};

/* The best one for this processor. */
const struct et_cast_ukernels *et_cast_ukernels(void);

/* From elements of one type to those of another; NULL: there is none, whatever the types. */
static inline et_cast_fn et_find_cast(enum et_scalar_type to, enum et_scalar_type from)
{
	return (unsigned)to <= ET_BOOL && (unsigned)from <= ET_BFLOAT16 ? et_cast_ukernels()->cast[from][to] : NULL;
}

extern const struct et_cast_ukernels et_cast_ukernels_base;
#ifdef __x86_64__
extern const struct et_cast_ukernels et_cast_ukernels_avx2;
extern const struct et_cast_ukernels et_cast_ukernels_avx512;
#endif

#endif
