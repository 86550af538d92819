/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether XNNPACK or our own GEMM computes fp32 layers, where that depends on the machine. */
#ifndef DELEGATES_XNNPACK_GEMM_CHOICE_H
#define DELEGATES_XNNPACK_GEMM_CHOICE_H

#include "runtime/base/alloc.h"

/* On a processor with AVX2 but without AVX-512: measure both, and make et_xnn_gemm return ours if it is faster. After
 * et_xnn_initialize. The first call of the process that has the memory decides, and takes less than a millisecond; the
 * memory from @allocator is free again when it returns. Without memory XNNPACK stays. Any thread. */
void et_xnn_choose_gemm(const struct et_allocator *allocator);

#endif
