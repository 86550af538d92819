/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of all kernel tables, in which the runtime looks operators up by name. A table's rows are sorted by name
 * (test_tables.c). A new family is one line here and one in kernels.h. */
#include "runtime/kernels/kernels.h"

const struct et_kernel_table *const et_kernel_tables[] = {
	&et_kernels_softmax_cumsum,
	&et_kernels_attention,
	&et_kernels_convolution_backward,
	&et_kernels_embedding_bag,
	&et_kernels_binary,
	&et_kernels_cadence,
	&et_kernels_cadence_float_ops,
	&et_kernels_cadence_im2row_copy,
	&et_kernels_complex_elementwise,
	&et_kernels_convolution,
	&et_kernels_copy,
	&et_kernels_distance,
	&et_kernels_fft,
	&et_kernels_fill,
	&et_kernels_gather,
	&et_kernels_hadamard,
	&et_kernels_index,
	&et_kernels_cat_split,
	&et_kernels_pad_nearest,
	&et_kernels_matmul,
	&et_kernels_trilinear,
	&et_kernels_norm,
	&et_kernels_pool,
	&et_kernels_prim,
	&et_kernels_quantized,
	&et_kernels_random,
	&et_kernels_sort_topk,
	&et_kernels_gated_delta_rule,
	&et_kernels_reduction,
	&et_kernels_upsample,
	&et_kernels_searchsorted,
	&et_kernels_view_copy,
	&et_kernels_special,
	&et_kernels_unary,
};
_Static_assert(ET_ARRAY_LEN(et_kernel_tables) <= ET_KERNEL_TABLES_MAX, "lists of tables have room for them");
const size_t et_n_kernel_tables = ET_ARRAY_LEN(et_kernel_tables);
