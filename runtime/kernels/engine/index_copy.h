/* SPDX-License-Identifier: BSD-3-Clause */
/* Private copies of tensors that decide addresses. Indices and masks may lie in memory that a client changes while a
 * kernel runs, so kernels copy them to scratch memory, check the copy and use only the copy. */
#ifndef RUNTIME_KERNELS_ENGINE_INDEX_COPY_H
#define RUNTIME_KERNELS_ENGINE_INDEX_COPY_H

#include "runtime/kernels/engine/args.h"

/* The elements of @tensor as @type, row-major, in scratch memory; bool as 0 and 1. @ret_view is a view of them. NULL:
 * no memory, or not convertible (with an error text). */
void *et_local_copy(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, enum et_scalar_type type,
	struct et_view *ret_view);

#endif
