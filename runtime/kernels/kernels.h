/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel tables of this folder, one for each family of operators; kernels.c lists them all. */
#ifndef RUNTIME_KERNELS_KERNELS_H
#define RUNTIME_KERNELS_KERNELS_H

#include "runtime/kernel.h"
#include "runtime/base/checked.h"

#define ET_KERNEL_TABLE(name) const struct et_kernel_table et_kernels_##name = { rows, ET_ARRAY_LEN(rows) }

extern const struct et_kernel_table et_kernels_attention;
extern const struct et_kernel_table et_kernels_binary;
extern const struct et_kernel_table et_kernels_cadence;
extern const struct et_kernel_table et_kernels_cadence_float_ops;
extern const struct et_kernel_table et_kernels_cadence_im2row_copy;
extern const struct et_kernel_table et_kernels_cat_split;
extern const struct et_kernel_table et_kernels_complex_elementwise;
extern const struct et_kernel_table et_kernels_convolution;
extern const struct et_kernel_table et_kernels_convolution_backward;
extern const struct et_kernel_table et_kernels_copy;
extern const struct et_kernel_table et_kernels_distance;
extern const struct et_kernel_table et_kernels_embedding_bag;
extern const struct et_kernel_table et_kernels_fft;
extern const struct et_kernel_table et_kernels_fill;
extern const struct et_kernel_table et_kernels_gated_delta_rule;
extern const struct et_kernel_table et_kernels_gather;
extern const struct et_kernel_table et_kernels_hadamard;
extern const struct et_kernel_table et_kernels_index;
extern const struct et_kernel_table et_kernels_matmul;
extern const struct et_kernel_table et_kernels_norm;
extern const struct et_kernel_table et_kernels_pad_nearest;
extern const struct et_kernel_table et_kernels_pool;
extern const struct et_kernel_table et_kernels_prim;
extern const struct et_kernel_table et_kernels_quantized;
extern const struct et_kernel_table et_kernels_random;
extern const struct et_kernel_table et_kernels_reduction;
extern const struct et_kernel_table et_kernels_searchsorted;
extern const struct et_kernel_table et_kernels_softmax_cumsum;
extern const struct et_kernel_table et_kernels_sort_topk;
extern const struct et_kernel_table et_kernels_special;
extern const struct et_kernel_table et_kernels_trilinear;
extern const struct et_kernel_table et_kernels_unary;
extern const struct et_kernel_table et_kernels_upsample;
extern const struct et_kernel_table et_kernels_view_copy;

/* An attention's guard for rows that are masked as a whole. */
extern const struct et_kernel_sequence et_masked_rows;

/* x, scale, zero point, smallest, largest, dtype > out */
enum et_status et_quantize_run(struct et_kernel_ctx *ctx, struct et_evalue *const *args);
/* x, scale, zero point, smallest, largest, dtype, out dtype > out */
enum et_status et_dequantize_run(struct et_kernel_ctx *ctx, struct et_evalue *const *args);

#endif
