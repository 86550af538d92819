/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels of cadence:: share: the rows' kinds, and numbers with a scale and a zero point. */
#ifndef RUNTIME_KERNELS_CADENCE_CADENCE_H
#define RUNTIME_KERNELS_CADENCE_CADENCE_H

#include "runtime/kernels/engine/args.h"

#include <math.h>

/* What tells rows of one function apart. */
struct et_cadence_kind {
	bool is_typed; /* all quantized tensors are of @type */
	bool is_channels_last;
	bool is_product;    /* of the elementwise ones */
	bool is_transposed; /* rows for a transposed convolution */
	bool is_half;       /* pairs of a rotation stand half a head apart */
	bool is_quantized;  /* where there is a plain one, too */
	const char *as;     /* the operator that does it */
	uint8_t type;
	uint8_t rank; /* of the input; 0: any that the operator knows */
};

static inline const struct et_cadence_kind *et_cadence_kind_of(const struct et_kernel_ctx *ctx)
{
	return ctx->kernel->row;
}

/* Beyond every zero point that a type of 16 bits can have. */
enum { ET_ZERO_MAX = 65535 };

/* How real numbers are seen in integers. */
struct et_qparams {
	float scale, zero;
	float least, most; /* of the type */
};

static inline bool et_is_8_bits(enum et_scalar_type type)
{
	return type == ET_INT8 || type == ET_UINT8;
}

/* Of 8 or 16 bits, and as the operator's name promises. */
enum et_status et_require_quantized(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, const char *what);
/* Number @index of a tensor that has one for all or @n of them; a plain number is for all. */
enum et_status et_get_number(struct et_kernel_ctx *ctx, const struct et_evalue *value, size_t index, size_t n,
	const char *what, double *ret);
enum et_status et_get_zero_at(struct et_kernel_ctx *ctx, const struct et_evalue *value, size_t index, size_t n,
	int32_t *ret);
enum et_status et_get_scale_at(struct et_kernel_ctx *ctx, const struct et_evalue *multiplier,
	const struct et_evalue *shift, size_t index, size_t n, float *ret);
/* Those of @tensor, of a quantized type. @scale may be NULL: 1. */
enum et_status et_get_qparams(struct et_kernel_ctx *ctx, const struct et_evalue *scale, const struct et_evalue *zero,
	const struct et_tensor *tensor, const char *what, struct et_qparams *ret);

/* How many numbers of @x are normalized together: @shape names its last dimensions. */
enum et_status et_get_normalized(struct et_kernel_ctx *ctx, const struct et_tensor *x, const struct et_evalue *shape,
	size_t *ret_n);

/* @value times @factor, which is one divided by the scale. NaN, too, lies within the type. */
static inline float et_quantized(const struct et_qparams *q, float value, float factor)
{
	float number = q->zero + rintf(value * factor);
	return !(number > q->least) ? q->least : number > q->most ? q->most : number;
}

/* Do it as operator @name, which exists; @args are as its signature has them. */
enum et_status et_cadence_run_as(struct et_kernel_ctx *ctx, const char *name, struct et_evalue *const *args);

/* Rows of one operand times rows of the other: linear, matmul and convolution. */
enum et_status et_cadence_linear(struct et_kernel_ctx *ctx, struct et_evalue *const *args);
enum et_status et_cadence_matmul(struct et_kernel_ctx *ctx, struct et_evalue *const *args);
enum et_status et_cadence_conv(struct et_kernel_ctx *ctx, struct et_evalue *const *args);
enum et_status et_cadence_max_pool(struct et_kernel_ctx *ctx, struct et_evalue *const *args);

#endif
