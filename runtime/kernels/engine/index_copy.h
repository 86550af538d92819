/* SPDX-License-Identifier: BSD-3-Clause */
/* Local copies of what decides addresses: indices and masks may lie in memory that a client changes while a
 * kernel runs, so they are copied to scratch, checked there and used from there. */
#ifndef RUNTIME_KERNELS_ENGINE_INDEX_COPY_H
#define RUNTIME_KERNELS_ENGINE_INDEX_COPY_H

#include "runtime/kernels/engine/args.h"

/* The elements of @tensor as @type, row-major, in scratch memory, truths as 0 and 1; @ret_view shows them. NULL: no memory, or
 * not convertible (with a sentence). */
void *et_local_copy(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, enum et_scalar_type type,
	struct et_view *ret_view);

#endif
