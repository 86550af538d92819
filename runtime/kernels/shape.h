/* The views that slice, select, diagonal and as_strided make, checked: their scatter operators write
 * through the same ones. And a fill, which padding needs too. */
#ifndef RUNTIME_KERNELS_SHAPE_H
#define RUNTIME_KERNELS_SHAPE_H

#include "runtime/kernels/args.h"

/* @start and @end may be None, count from the end, and reach beyond it. */
enum et_status et_slice_view(struct et_kernel_ctx *ctx, struct et_view *view, int64_t dim,
	const struct et_evalue *start, const struct et_evalue *end, int64_t step);
enum et_status et_select_view(struct et_kernel_ctx *ctx, struct et_view *view, int64_t dim, int64_t index);
/* The diagonal becomes the last dimension. */
enum et_status et_diagonal_view(
	struct et_kernel_ctx *ctx, struct et_view *view, int64_t offset, int64_t dim1, int64_t dim2);
/* Sizes and strides as given, over all of the memory behind @view, and not beyond it. */
enum et_status et_as_strided_view(struct et_kernel_ctx *ctx, struct et_view *view,
	const struct et_evalue *sizes, const struct et_evalue *strides, const struct et_evalue *offset);

/* Every element of @out, as it is sized now, becomes @number. */
enum et_status et_fill(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_evalue *number);

#endif
