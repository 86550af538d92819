/* SPDX-License-Identifier: BSD-3-Clause */
/* Micro-kernels that convert a dense run of elements from one type to another; compiled once for each instruction set.
 *
 * Only conversions that some processors have vector instructions for are here. */
#ifndef RUNTIME_KERNELS_SIMD_CAST_UKERNELS_H
#define RUNTIME_KERNELS_SIMD_CAST_UKERNELS_H

#include "runtime/tensor.h"

/* Convert @n elements; @to and @from do not overlap. */
typedef void (*et_cast_fn)(size_t n, void *to, const void *from);

struct et_cast_ukernels {
	et_cast_fn cast[ET_BFLOAT16 + 1][ET_BOOL + 1]; /* [from][to]; NULL: no micro-kernel for this pair */
};

/* The best build for this processor. */
const struct et_cast_ukernels *et_cast_ukernels(void);

/* The micro-kernel from one type to another; NULL if there is none, whatever the types. */
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
