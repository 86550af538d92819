/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizing and dequantizing tensors whose output has the input's layout: loops over all elements at once, for
 * quantized.c. */
#ifndef RUNTIME_KERNELS_QUANTIZED_QUANTIZE_CONTIGUOUS_H
#define RUNTIME_KERNELS_QUANTIZED_QUANTIZE_CONTIGUOUS_H

#include "runtime/kernels/engine/args.h"

struct et_limits {
	double least, most;
};

/* *@ret_is_done false: the call is not of this kind, and nothing was changed. @out is resized; its type can hold
 * @limits. @scale and @zero are numbers, or tensors that broadcast. Returns what a resize returns. */
enum et_status et_quantize_contiguous(struct et_kernel_ctx *ctx, const struct et_tensor *x,
	const struct et_evalue *scale, const struct et_evalue *zero, const struct et_limits *limits,
	struct et_tensor *out, bool *ret_is_done);
enum et_status et_dequantize_contiguous(struct et_kernel_ctx *ctx, const struct et_tensor *x,
	const struct et_evalue *scale, const struct et_evalue *zero, struct et_tensor *out, bool *ret_is_done);

#endif
