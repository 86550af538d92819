/* SPDX-License-Identifier: BSD-3-Clause */
/* The views of slice, select, diagonal and as_strided, with their checks: their scatter operators write through the
 * same views. Also fills, which padding needs too. */
#ifndef RUNTIME_KERNELS_ATEN_VIEW_COPY_H
#define RUNTIME_KERNELS_ATEN_VIEW_COPY_H

#include "runtime/kernels/engine/args.h"

/* @start and @end may be None, may count from the end, and may be out of range. */
enum et_status et_slice_view(struct et_kernel_ctx *ctx, struct et_view *view, int64_t dim,
	const struct et_evalue *start, const struct et_evalue *end, int64_t step);
enum et_status et_select_view(struct et_kernel_ctx *ctx, struct et_view *view, int64_t dim, int64_t index);
/* Whether what @self has at one index of @dim follows each other if @self is row-major. *@ret_size: that of @dim;
 * *@ret_inner: the number of elements at one index. False, too, if there is no such dimension. */
bool et_find_inner(const struct et_tensor *self, int64_t dim, size_t *ret_size, size_t *ret_inner);
/* The diagonal becomes the last dimension. */
enum et_status et_diagonal_view(struct et_kernel_ctx *ctx, struct et_view *view, int64_t offset, int64_t dim1,
	int64_t dim2);
/* Sizes and strides as given, which must stay within the memory of @view. */
enum et_status et_as_strided_view(struct et_kernel_ctx *ctx, struct et_view *view, const struct et_evalue *sizes,
	const struct et_evalue *strides, const struct et_evalue *offset);

/* @number as an element of @type; a type that cannot hold numbers is refused. */
enum et_status et_number_element(struct et_kernel_ctx *ctx, enum et_scalar_type type, const struct et_evalue *number,
	struct et_wide *ret_element);
/* Set every element of @out, at its current sizes, to @element, which has its type. */
void et_fill_with(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_wide *element);
/* The same with a number. */
enum et_status et_fill(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_evalue *number);

#endif
