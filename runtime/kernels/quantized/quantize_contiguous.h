/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizing and dequantizing where numbers and results lie alike: what quantized.c does, by loops over all of them at once. */
#ifndef RUNTIME_KERNELS_QUANTIZED_QUANTIZE_CONTIGUOUS_H
#define RUNTIME_KERNELS_QUANTIZED_QUANTIZE_CONTIGUOUS_H

#include "runtime/kernels/engine/args.h"

struct et_limits {
	double least, most;
};

/* *@ret_is_done false: it is not like that, and nothing has happened. Resizes @out, whose type takes @limits. @scale and
 * @zero are numbers, or tensors that broadcast. Answers what a resize answers. */
enum et_status et_quantize_alike(struct et_kernel_ctx *ctx, const struct et_tensor *x, const struct et_evalue *scale,
	const struct et_evalue *zero, const struct et_limits *limits, struct et_tensor *out, bool *ret_is_done);
enum et_status et_dequantize_alike(struct et_kernel_ctx *ctx, const struct et_tensor *x, const struct et_evalue *scale,
	const struct et_evalue *zero, struct et_tensor *out, bool *ret_is_done);

#endif
