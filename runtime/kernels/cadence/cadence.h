/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts that cadence::'s kernels share: the kinds of their rows, and numbers with a scale and a zero point. */
#ifndef RUNTIME_KERNELS_CADENCE_CADENCE_H
#define RUNTIME_KERNELS_CADENCE_CADENCE_H

#include "runtime/kernels/engine/args.h"

#include <math.h>

/* The differences between rows that share a function. */
struct et_cadence_kind {
	bool is_typed; /* all quantized tensors have type @type */
	bool is_channels_last;
	bool is_product;         /* an elementwise operator multiplies instead of adding */
	bool is_transposed;      /* im2row for a transposed convolution */
	bool is_half_head_apart; /* rope: the two numbers of a pair are half a head apart */
	bool is_quantized;       /* the operator also exists without quantization */
	const char *as;          /* name of the operator that computes it */
	uint8_t type;
	uint8_t rank; /* of the input; 0: any rank that the operator takes */
};

static inline const struct et_cadence_kind *et_cadence_kind_of(const struct et_kernel_ctx *ctx)
{
	return ctx->kernel->row;
}

/* No 16-bit type has a zero point beyond this. */
enum { ET_ZERO_MAX = 65535 };

/* How integers represent real numbers: real = (integer - zero) * scale. */
struct et_qparams {
	float scale, zero;
	float least, most; /* of the type */
};

static inline bool et_is_8_bits(enum et_scalar_type type)
{
	return type == ET_INT8 || type == ET_UINT8;
}

/* Require 8 or 16 bits, and the type that the operator's name promises. */
enum et_status et_require_quantized(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, const char *what);
/* Number @index of a tensor that has one number for all, or @n numbers; a plain number is for all. */
enum et_status et_get_number(struct et_kernel_ctx *ctx, const struct et_evalue *value, size_t index, size_t n,
	const char *what, double *ret);
enum et_status et_get_zero_at(struct et_kernel_ctx *ctx, const struct et_evalue *value, size_t index, size_t n,
	int32_t *ret);
enum et_status et_get_scale_at(struct et_kernel_ctx *ctx, const struct et_evalue *multiplier,
	const struct et_evalue *shift, size_t index, size_t n, float *ret);
/* The quantization of @tensor, which must have a quantized type. @scale may be NULL: 1. */
enum et_status et_get_qparams(struct et_kernel_ctx *ctx, const struct et_evalue *scale, const struct et_evalue *zero,
	const struct et_tensor *tensor, const char *what, struct et_qparams *ret);

/* How many numbers of @x are normalized together: those of its last dimensions, which must be @shape. */
enum et_status et_get_normalized(struct et_kernel_ctx *ctx, const struct et_tensor *x, const struct et_evalue *shape,
	size_t *ret_n);

/* Quantize @value; @factor is 1 / scale. NaN becomes the type's least number. */
static inline float et_quantized(const struct et_qparams *q, float value, float factor)
{
	float number = q->zero + rintf(value * factor);
	return !(number > q->least) ? q->least : number > q->most ? q->most : number;
}

/* Run operator @name, which exists, with the arguments of its signature. */
enum et_status et_cadence_run_as(struct et_kernel_ctx *ctx, const char *name, struct et_evalue *const *args);

/* Rows of one operand times rows of the other: linear, matmul and convolution; and max pool. */
enum et_status et_cadence_linear(struct et_kernel_ctx *ctx, struct et_evalue *const *args);
enum et_status et_cadence_matmul(struct et_kernel_ctx *ctx, struct et_evalue *const *args);
enum et_status et_cadence_conv(struct et_kernel_ctx *ctx, struct et_evalue *const *args);
enum et_status et_cadence_max_pool(struct et_kernel_ctx *ctx, struct et_evalue *const *args);

#endif
