/* SPDX-License-Identifier: BSD-3-Clause */
/* The description of a convolution that its kernels share. */
#ifndef RUNTIME_KERNELS_ATEN_CONVOLUTION_H
#define RUNTIME_KERNELS_ATEN_CONVOLUTION_H

#include "runtime/kernels/engine/elementwise.h"

enum { ET_CONV_SPACE = 3 };

/* Sizes in elements; arrays of ET_CONV_SPACE are depth, height, width. */
struct et_conv {
	int64_t n_batch, n_groups;
	int64_t in_channels, out_channels; /* of one group */
	int64_t in[ET_CONV_SPACE], kernel[ET_CONV_SPACE], out[ET_CONV_SPACE];
	int64_t stride[ET_CONV_SPACE], padding[ET_CONV_SPACE], dilation[ET_CONV_SPACE];
	bool is_transposed;
	enum et_scalar_type type;    /* of the tensors, before any copy */
	bool rounds_parts;           /* round the contribution of each kernel position, and their sum */
	bool rounds_all;             /* round each product and each sum, to fp16 or bf16 */
	struct et_view x, weight, y; /* five-dimensional: batch (or output channel), channel, space */
	const struct et_view *bias;  /* one-dimensional, or NULL */
	const struct et_compute *compute;
};

/* The input position that an output position and a kernel position belong to, or -1. */
static inline int64_t et_conv_meet(const struct et_conv *c, size_t d, int64_t out, int64_t kernel)
{
	int64_t at;
	if (c->is_transposed) {
		uint32_t stride = (uint32_t)c->stride[d],
			 beyond; /* all terms are below 2^31, so the sum of two is below 2^32 */
		at = out + c->padding[d] - kernel * c->dilation[d];
		beyond = at < 0 || stride == 1 ? 0 : (uint32_t)at % stride;
		if (at < 0 || beyond)
			return -1;
		at = stride == 1 ? at : (uint32_t)at / stride;
	} else {
		at = out * c->stride[d] - c->padding[d] + kernel * c->dilation[d];
	}
	return at >= 0 && at < c->in[d] ? at : -1;
}

/* Output channels [begin, end) of all batch items of @conv. All tensors and the bias are double, or all are INT64. */
void et_conv_plain(void *conv, size_t begin, size_t end);
/* Output channels [begin, end) of all batch items of @conv, which has rounds_all: x and weight are float, the bias is
 * double, and y is the output itself, fp16 or bf16. */
void et_conv_fp16(void *conv, size_t begin, size_t end);

#endif
