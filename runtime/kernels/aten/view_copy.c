/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that rearrange a tensor's elements: one view, one copy.
 *
 * Each function changes the view of its input as the operator's name says and copies it to the output; types and dim
 * orders do not matter. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/aten/view_copy.h"

static enum et_status run_permute(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	uint8_t dims[ET_MAX_DIMS];
	size_t n = args[0]->tensor->n_dims;
	uint32_t seen = 0;
	ET_REQUIRE(ctx, et_list_len(args[1]) == n, "%zu dimensions for a tensor of %zu", et_list_len(args[1]), n);
	for (size_t d = 0; d < n; d++) {
		size_t dim;
		ET_TRY(et_get_dim(ctx, et_list_int(args[1], d), n, &dim));
		seen |= 1u << dim;
		dims[d] = (uint8_t)dim;
	}
	ET_REQUIRE(ctx, seen == (1u << n) - 1, "the dimensions are not a permutation");
	et_view_of(&view, args[0]->tensor);
	et_view_permute(&view, dims);
	return et_copy_view_to_output(ctx, &view, args[2]->tensor);
}

static enum et_status run_transpose(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	size_t a, b;
	ET_TRY(et_get_dim(ctx, args[1]->i, args[0]->tensor->n_dims, &a));
	ET_TRY(et_get_dim(ctx, args[2]->i, args[0]->tensor->n_dims, &b));
	et_view_of(&view, args[0]->tensor);
	if (view.n_dims)
		et_view_swap(&view, a, b);
	return et_copy_view_to_output(ctx, &view, args[3]->tensor);
}

static enum et_status run_t(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	et_view_of(&view, args[0]->tensor);
	ET_REQUIRE(ctx, view.n_dims <= 2, "takes up to 2 dimensions, not %u", view.n_dims);
	if (view.n_dims == 2)
		et_view_swap(&view, 0, 1);
	return et_copy_view_to_output(ctx, &view, args[1]->tensor);
}

static enum et_status run_flip(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	uint32_t dims = 0;
	if (et_list_len(args[1]))
		ET_TRY(et_get_dims(ctx, args[1], args[0]->tensor->n_dims, &dims));
	et_view_of(&view, args[0]->tensor);
	for (size_t d = 0; d < view.n_dims; d++) {
		if (dims >> d & 1)
			et_view_flip(&view, d);
	}
	return et_copy_view_to_output(ctx, &view, args[2]->tensor);
}

bool et_find_inner(const struct et_tensor *self, int64_t dim, size_t *ret_size, size_t *ret_inner)
{
	size_t d = (size_t)(dim < 0 ? dim + self->n_dims : dim), inner = 1;
	if (dim < -(int64_t)self->n_dims || d >= self->n_dims)
		return false;
	for (size_t i = 0; i < d; i++)
		if (self->sizes[i] != 1)
			return false;
	for (size_t i = d + 1; i < self->n_dims; i++)
		inner *= (size_t)self->sizes[i];
	*ret_size = (size_t)self->sizes[d];
	*ret_inner = inner;
	return true;
}

/* The range [from, to) that @start and @end mean in a dimension of @size elements. */
static void find_range(const struct et_evalue *start, const struct et_evalue *end, int64_t size, int64_t *ret_from,
	int64_t *ret_to)
{
	int64_t from = et_is_none(start) ? 0 : start->i, to = et_is_none(end) ? size : end->i;
	from = from < 0 ? from + size : from;
	to = to < 0 ? to + size : to;
	*ret_from = from < 0 ? 0 : from > size ? size : from;
	*ret_to = to < *ret_from ? *ret_from : to > size ? size : to;
}

enum et_status et_slice_view(struct et_kernel_ctx *ctx, struct et_view *view, int64_t dim,
	const struct et_evalue *start, const struct et_evalue *end, int64_t step)
{
	size_t d;
	ET_REQUIRE(ctx, view->n_dims > 0, "the tensor has no dimensions");
	ET_TRY(et_get_dim(ctx, dim, view->n_dims, &d));
	ET_REQUIRE(ctx, step > 0, "step %lld", (long long)step);
	int64_t from, to;
	find_range(start, end, view->sizes[d], &from, &to);
	et_view_slice(view, d, from, step, (to - from) / step + ((to - from) % step != 0));
	return ET_OK;
}

static enum et_status run_slice(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	et_view_of(&view, args[0]->tensor);
	ET_TRY(et_slice_view(ctx, &view, args[1]->i, args[2], args[3], args[4]->i));
	return et_copy_view_to_output(ctx, &view, args[5]->tensor);
}

static bool find_slice(struct et_evalue *const *args, size_t *ret_first, size_t *ret_n)
{
	size_t size, inner;
	int64_t from, to;
	if (!et_find_inner(args[0]->tensor, args[1]->i, &size, &inner) || args[4]->i != 1)
		return false;
	find_range(args[2], args[3], (int64_t)size, &from, &to);
	*ret_first = (size_t)from * inner;
	*ret_n = (size_t)(to - from) * inner;
	return true;
}

static enum et_status run_narrow(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	size_t dim;
	int64_t start = args[2]->i, n = args[3]->i;
	et_view_of(&view, args[0]->tensor);
	ET_REQUIRE(ctx, view.n_dims > 0, "the tensor has no dimensions");
	ET_TRY(et_get_dim(ctx, args[1]->i, view.n_dims, &dim));
	int64_t size = view.sizes[dim];
	ET_REQUIRE(ctx, start >= -size && start <= size, "start %lld of %lld", (long long)start, (long long)size);
	start = start < 0 ? start + size : start;
	ET_REQUIRE(ctx, n >= 0 && n <= size - start, "%lld elements from %lld of %lld", (long long)n, (long long)start,
		(long long)size);
	et_view_slice(&view, dim, start, 1, n);
	return et_copy_view_to_output(ctx, &view, args[4]->tensor);
}

static bool find_narrow(struct et_evalue *const *args, size_t *ret_first, size_t *ret_n)
{
	size_t size, inner;
	int64_t start = args[2]->i, n = args[3]->i;
	if (!et_find_inner(args[0]->tensor, args[1]->i, &size, &inner))
		return false;
	start = start < 0 ? start + (int64_t)size : start;
	if (start < 0 || start > (int64_t)size || n < 0 || n > (int64_t)size - start)
		return false;
	*ret_first = (size_t)start * inner;
	*ret_n = (size_t)n * inner;
	return true;
}

static bool find_select(struct et_evalue *const *args, size_t *ret_first, size_t *ret_n)
{
	size_t size;
	int64_t index = args[2]->i;
	if (!et_find_inner(args[0]->tensor, args[1]->i, &size, ret_n))
		return false;
	index = index < 0 ? index + (int64_t)size : index;
	*ret_first = (size_t)index * *ret_n;
	return index >= 0 && index < (int64_t)size;
}

enum et_status et_select_view(struct et_kernel_ctx *ctx, struct et_view *view, int64_t dim, int64_t index)
{
	size_t d;
	ET_REQUIRE(ctx, view->n_dims > 0, "the tensor has no dimensions");
	ET_TRY(et_get_dim(ctx, dim, view->n_dims, &d));
	int64_t size = view->sizes[d];
	ET_REQUIRE(ctx, index >= -size && index < size, "index %lld of %lld", (long long)index, (long long)size);
	et_view_select(view, d, index < 0 ? index + size : index);
	return ET_OK;
}

static enum et_status run_select(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	et_view_of(&view, args[0]->tensor);
	ET_TRY(et_select_view(ctx, &view, args[1]->i, args[2]->i));
	return et_copy_view_to_output(ctx, &view, args[3]->tensor);
}

enum et_status et_diagonal_view(struct et_kernel_ctx *ctx, struct et_view *view, int64_t offset, int64_t dim1,
	int64_t dim2)
{
	size_t a, b;
	ET_REQUIRE(ctx, view->n_dims >= 2, "the tensor has fewer than 2 dimensions");
	ET_TRY(et_get_dim(ctx, dim1, view->n_dims, &a));
	ET_TRY(et_get_dim(ctx, dim2, view->n_dims, &b));
	ET_REQUIRE(ctx, a != b, "dimension %zu given twice", a);
	ET_REQUIRE(ctx, offset > -INT32_MAX && offset < INT32_MAX, "offset %lld", (long long)offset);
	int64_t rows = view->sizes[a], columns = view->sizes[b];
	int64_t down = offset < 0 ? -offset : 0, right = offset > 0 ? offset : 0;
	int64_t n = rows - down < columns - right ? rows - down : columns - right;
	int64_t stride = view->strides[a] + view->strides[b];
	n = n < 0 ? 0 : n;
	et_view_slice(view, a, down, 1, n);
	et_view_slice(view, b, n ? right : 0, 1, n);
	et_view_remove(view, a > b ? a : b);
	et_view_remove(view, a > b ? b : a);
	et_view_insert(view, view->n_dims, n, stride);
	return ET_OK;
}

static enum et_status run_diagonal(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	et_view_of(&view, args[0]->tensor);
	ET_TRY(et_diagonal_view(ctx, &view, args[1]->i, args[2]->i, args[3]->i));
	return et_copy_view_to_output(ctx, &view, args[4]->tensor);
}

enum et_status et_as_strided_view(struct et_kernel_ctx *ctx, struct et_view *view, const struct et_evalue *sizes,
	const struct et_evalue *strides, const struct et_evalue *offset)
{
	size_t numel = et_view_numel(view), n_dims = et_list_len(sizes), last;
	int64_t start = et_is_none(offset) ? 0 : offset->i;
	ET_REQUIRE(ctx, n_dims <= ET_MAX_DIMS && et_list_len(strides) == n_dims, "%zu sizes and %zu strides", n_dims,
		et_list_len(strides));
	ET_REQUIRE(ctx, start >= 0, "offset %lld", (long long)start);
	last = (size_t)start;
	bool is_empty = false;
	for (size_t d = 0; d < n_dims; d++) {
		int64_t size = et_list_int(sizes, d), stride = et_list_int(strides, d);
		size_t reach;
		ET_REQUIRE(ctx, size >= 0 && stride >= 0, "size %lld, stride %lld", (long long)size, (long long)stride);
		is_empty |= size == 0;
		ET_REQUIRE(ctx,
			size == 0 || (et_mul((size_t)(size - 1), (size_t)stride, &reach) && et_add(last, reach, &last)),
			"sizes and strides overflow");
		view->sizes[d] = size;
		view->strides[d] = stride;
	}
	ET_REQUIRE(ctx, is_empty || last < numel, "element %zu of a tensor of %zu", last, numel);
	view->n_dims = (uint8_t)n_dims;
	if (!is_empty)
		view->data += (size_t)start * et_scalar_size(view->type);
	return ET_OK;
}

static enum et_status run_as_strided(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	ET_TRY(et_require_contiguous(ctx, args[0]->tensor, "the input"));
	et_view_of(&view, args[0]->tensor);
	ET_TRY(et_as_strided_view(ctx, &view, args[1], args[2], args[3]));
	return et_copy_view_to_output(ctx, &view, args[4]->tensor);
}

static enum et_status run_unfold(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	size_t dim;
	int64_t size = args[2]->i, step = args[3]->i;
	et_view_of(&view, args[0]->tensor);
	ET_TRY(et_get_dim(ctx, args[1]->i, view.n_dims, &dim));
	if (view.n_dims == 0) { /* seen as 1-dimensional with 1 element; its one window is the result */
		ET_REQUIRE(ctx, size >= 0 && size <= 1 && step > 0,
			"a window of %lld with step %lld in a dimension of 1", (long long)size, (long long)step);
		et_view_insert(&view, 0, size, 1);
		return et_cast_view_to_output(ctx, &view, args[4]->tensor);
	}
	ET_REQUIRE(ctx, size >= 0 && size <= view.sizes[dim] && step > 0,
		"a window of %lld with step %lld in a dimension of %lld", (long long)size, (long long)step,
		(long long)view.sizes[dim]);
	int64_t stride = view.strides[dim];
	et_view_slice(&view, dim, 0, step, (view.sizes[dim] - size) / step + 1);
	et_view_insert(&view, view.n_dims, size, stride);
	return et_cast_view_to_output(ctx, &view, args[4]->tensor);
}

static enum et_status run_expand(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	int64_t sizes[ET_MAX_DIMS];
	size_t n = et_list_len(args[1]);
	et_view_of(&view, args[0]->tensor);
	ET_REQUIRE(ctx, n <= ET_MAX_DIMS && n >= view.n_dims, "%u dimensions to %zu", view.n_dims, n);
	for (size_t d = 0; d < n; d++) {
		size_t leading = n - view.n_dims;
		sizes[d] = et_list_int(args[1], d);
		if (sizes[d] == -1 && d >= leading)
			sizes[d] = view.sizes[d - leading];
		ET_REQUIRE(ctx, sizes[d] >= 0, "size %lld in dimension %zu", (long long)sizes[d], d);
	}
	ET_REQUIRE(ctx, et_view_broadcast(&view, sizes, n), "the input does not expand to these sizes");
	return et_copy_view_to_output(ctx, &view, args[3]->tensor);
}

/* Each dimension becomes two in both views: the repeats (stride 0 in the input) and, inside it, the dimension itself.
 */
static enum et_status run_repeat(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view, to;
	int64_t sizes[ET_MAX_DIMS];
	struct et_tensor *out = args[2]->tensor;
	size_t n = et_list_len(args[1]);
	et_view_of(&view, args[0]->tensor);
	ET_REQUIRE(ctx, n <= ET_MAX_DIMS && n >= view.n_dims, "%zu repeats for %u dimensions", n, view.n_dims);
	ET_TRY(et_require_same_type(ctx, args[0]->tensor, out));
	while (view.n_dims < n)
		et_view_insert(&view, 0, 1, 0);
	for (size_t d = 0; d < n; d++) {
		int64_t times = et_list_int(args[1], d);
		ET_REQUIRE(ctx, times >= 0 && times <= INT32_MAX, "%lld repeats", (long long)times);
		sizes[d] = times * view.sizes[d];
	}
	ET_TRY(et_resize(ctx, out, sizes, n));
	et_view_of(&to, out);
	for (size_t d = n; d-- > 0;) {
		int64_t size = view.sizes[d], times = et_list_int(args[1], d);
		to.sizes[d] = size;
		et_view_insert(&to, d, times, to.strides[d] * size);
		et_view_insert(&view, d, times, 0);
	}
	et_view_copy(ctx->compute, &to, &view);
	return ET_OK;
}

static enum et_status run_unsqueeze(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	size_t dim;
	et_view_of(&view, args[0]->tensor);
	ET_REQUIRE(ctx, view.n_dims < ET_MAX_DIMS, "too many dimensions");
	ET_TRY(et_get_dim(ctx, args[1]->i, (size_t)view.n_dims + 1, &dim));
	et_view_insert(&view, dim, 1, 0);
	return et_copy_view_to_output(ctx, &view, args[2]->tensor);
}

static enum et_status squeeze(struct et_kernel_ctx *ctx, const struct et_tensor *self, uint32_t dims,
	struct et_tensor *out)
{
	struct et_view view;
	et_view_of(&view, self);
	for (size_t d = view.n_dims; d-- > 0;) {
		if ((dims >> d & 1) && view.sizes[d] == 1)
			et_view_remove(&view, d);
	}
	return et_copy_view_to_output(ctx, &view, out);
}

static enum et_status run_squeeze(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return squeeze(ctx, args[0]->tensor, UINT32_MAX, args[1]->tensor);
}

static enum et_status run_squeeze_dim(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	size_t dim;
	ET_TRY(et_get_dim(ctx, args[1]->i, args[0]->tensor->n_dims, &dim));
	return squeeze(ctx, args[0]->tensor, 1u << dim, args[2]->tensor);
}

static enum et_status run_squeeze_dims(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	uint32_t dims = 0;
	if (et_list_len(args[1]))
		ET_TRY(et_get_dims(ctx, args[1], args[0]->tensor->n_dims, &dims));
	return squeeze(ctx, args[0]->tensor, dims, args[2]->tensor);
}

/* The same bytes with other sizes: only correct for row-major tensors. */
static enum et_status run_view_copy(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	int64_t sizes[ET_MAX_DIMS];
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_TRY(et_require_contiguous(ctx, self, "the input"));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	ET_TRY(et_get_view_sizes(ctx, args[1], et_tensor_numel(self), sizes, out->n_dims));
	ET_TRY(et_resize(ctx, out, sizes, out->n_dims));
	et_copy_many(ctx->compute, out->data, self->data, et_tensor_n_bytes(out));
	return ET_OK;
}

/* The elements in row-major order, as many as the new sizes hold; any further ones are zeros (PyTorch leaves them
 * undefined). */
static enum et_status run_resize_copy(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[3]->tensor;
	int64_t sizes[ET_MAX_DIMS];
	size_t n = et_list_len(args[1]), n_kept;
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_REQUIRE(ctx, n <= ET_MAX_DIMS, "%zu dimensions", n);
	for (size_t d = 0; d < n; d++) {
		sizes[d] = et_list_int(args[1], d);
		ET_REQUIRE(ctx, sizes[d] >= 0, "size %lld of dimension %zu", (long long)sizes[d], d);
	}
	ET_TRY(et_resize(ctx, out, sizes, n));
	ET_TRY(et_require_row_major(ctx, self, "the input"));
	ET_TRY(et_require_row_major(ctx, out, "the output"));
	n_kept = et_tensor_n_bytes(self) < et_tensor_n_bytes(out) ? et_tensor_n_bytes(self) : et_tensor_n_bytes(out);
	et_copy_many(ctx->compute, out->data, self->data, n_kept);
	if (et_tensor_n_bytes(out) > n_kept)
		et_fill_many(ctx->compute, (uint8_t *)out->data + n_kept, &(const uint8_t){ 0 },
			et_tensor_n_bytes(out) - n_kept, 1);
	return ET_OK;
}

/* (N, C r r, H, W) to (N, C, H r, W r), and back: dimensions are split, moved, and joined on the other side. */
static enum et_status shuffle(struct et_kernel_ctx *ctx, struct et_evalue *const *args, bool is_reverse)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	struct et_view from, to;
	int64_t r = args[1]->i, sizes[ET_MAX_DIMS];
	ET_TRY(et_require_same_type(ctx, self, out));
	et_view_of(&from, self);
	ET_REQUIRE(ctx, from.n_dims >= 3 && from.n_dims < ET_MAX_DIMS, "rank %u", from.n_dims);
	ET_REQUIRE(ctx, r > 0 && r <= 32768, "factor %lld", (long long)r);
	size_t c = (size_t)from.n_dims - 3, h = c + 1, w = c + 2;
	memcpy(sizes, from.sizes, sizeof(sizes));
	if (is_reverse) {
		ET_REQUIRE(ctx, sizes[h] % r == 0 && sizes[w] % r == 0, "height or width is not a multiple of %lld",
			(long long)r);
		sizes[c] *= r * r;
		sizes[h] /= r;
		sizes[w] /= r;
	} else {
		ET_REQUIRE(ctx, sizes[c] % (r * r) == 0, "%lld channels are not a multiple of %lld squared",
			(long long)sizes[c], (long long)r);
		sizes[c] /= r * r;
		sizes[h] *= r;
		sizes[w] *= r;
	}
	ET_TRY(et_resize(ctx, out, sizes, from.n_dims));
	et_view_of(&to, out);
	/* Both views become (…, C, r, r, H, W). */
	struct et_view *wide = is_reverse ? &from : &to, *deep = is_reverse ? &to : &from;
	int64_t stride_h = wide->strides[h], stride_w = wide->strides[w], stride_c = deep->strides[c];
	wide->sizes[h] /= r;
	wide->sizes[w] /= r;
	wide->strides[h] *= r;
	wide->strides[w] *= r;
	et_view_insert(wide, h, r, stride_w);
	et_view_insert(wide, h, r, stride_h);
	deep->sizes[c] /= r * r;
	deep->strides[c] *= r * r;
	et_view_insert(deep, h, r, stride_c);
	et_view_insert(deep, h, r, stride_c * r);
	et_view_copy(ctx->compute, &to, &from);
	return ET_OK;
}

static enum et_status run_pixel_shuffle(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return shuffle(ctx, args, false);
}

static enum et_status run_pixel_unshuffle(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return shuffle(ctx, args, true);
}

/* (C, H, W) to square tiles of side r: (H / r * W / r, C, r, r). */
static enum et_status run_tile_crop(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	struct et_view from, to;
	int64_t r = args[1]->i;
	ET_TRY(et_require_same_type(ctx, self, out));
	et_view_of(&from, self);
	ET_REQUIRE(ctx, from.n_dims == 3, "rank %u", from.n_dims);
	ET_REQUIRE(ctx, r > 0 && from.sizes[1] % r == 0 && from.sizes[2] % r == 0,
		"height or width is not a multiple of %lld", (long long)r);
	int64_t n_down = from.sizes[1] / r, n_across = from.sizes[2] / r;
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ n_down * n_across, from.sizes[0], r, r }, 4));
	et_view_of(&to, out);
	/* Both views become (H / r, W / r, C, r, r). */
	int64_t stride_h = from.strides[1], stride_w = from.strides[2], stride = to.strides[0];
	from.sizes[1] = from.sizes[2] = r;
	et_view_insert(&from, 0, n_across, stride_w * r);
	et_view_insert(&from, 0, n_down, stride_h * r);
	to.sizes[0] = n_across;
	et_view_insert(&to, 0, n_down, stride * n_across);
	et_view_copy(ctx->compute, &to, &from);
	return ET_OK;
}

/* Up to two pieces for each dimension: the part that moves up and the part that wraps around; all combinations are
 * copied. */
static enum et_status run_roll(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[3]->tensor;
	struct et_view from, to;
	int64_t shifts[ET_MAX_DIMS] = { 0 };
	size_t n = et_list_len(args[1]);
	bool is_flat = et_list_len(args[2]) == 0;
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_REQUIRE(ctx, is_flat ? n == 1 : n == et_list_len(args[2]), "%zu shifts for %zu dimensions", n,
		et_list_len(args[2]));
	ET_TRY(et_resize_like(ctx, out, self));
	et_view_of(&from, self);
	et_view_of(&to, out);
	if (is_flat) {
		ET_TRY(et_require_contiguous(ctx, self, "the input"));
		ET_TRY(et_require_contiguous(ctx, out, "the output"));
		from.sizes[0] = to.sizes[0] = (int64_t)et_tensor_numel(self);
		from.strides[0] = to.strides[0] = 1;
		from.n_dims = to.n_dims = 1;
	}
	if (et_view_numel(&from) == 0)
		return ET_OK;
	for (size_t i = 0; i < n; i++) {
		size_t dim = 0;
		if (!is_flat)
			ET_TRY(et_get_dim(ctx, et_list_int(args[2], i), from.n_dims, &dim));
		if (from.n_dims) /* a 0-dimensional tensor stays as it is */
			shifts[dim] = (shifts[dim] + et_list_int(args[1], i) % from.sizes[dim]) % from.sizes[dim];
	}
	for (uint32_t piece = 0; piece < 1u << from.n_dims; piece++) {
		struct et_view part, place;
		bool is_empty = false;
		et_view_clone(&part, &from);
		et_view_clone(&place, &to);
		for (size_t d = 0; d < from.n_dims && !is_empty; d++) {
			int64_t size = from.sizes[d], shift = shifts[d] < 0 ? shifts[d] + size : shifts[d];
			bool wraps = piece >> d & 1;
			int64_t moved = wraps ? shift : size - shift;
			is_empty = moved == 0;
			et_view_slice(&part, d, wraps ? size - shift : 0, 1, moved);
			et_view_slice(&place, d, wraps ? 0 : shift, 1, moved);
		}
		if (!is_empty)
			et_view_copy(ctx->compute, &place, &part);
	}
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::as_strided_copy.out", "TVVi>T", run_as_strided },
	{ "aten::diagonal_copy.out", "TIII>T", run_diagonal },
	{ "aten::expand_copy.out", "TVB>T", run_expand, .only_copies = true },
	{ "aten::flip.out", "TV>T", run_flip },
	{ "aten::narrow_copy.out", "TIII>T", run_narrow, .find_part = find_narrow },
	{ "aten::permute_copy.out", "TV>T", run_permute },
	{ "aten::pixel_shuffle.out", "TI>T", run_pixel_shuffle },
	{ "aten::pixel_unshuffle.out", "TI>T", run_pixel_unshuffle },
	{ "aten::repeat.out", "TV>T", run_repeat },
	{ "aten::resize.out", "TVi>T", run_resize_copy },
	{ "aten::roll.out", "TVV>T", run_roll },
	{ "aten::select_copy.int_out", "TII>T", run_select, .find_part = find_select },
	{ "aten::slice_copy.Tensor_out", "TIiiI>T", run_slice, .find_part = find_slice },
	{ "aten::squeeze_copy.dim_out", "TI>T", run_squeeze_dim, .only_copies = true },
	{ "aten::squeeze_copy.dims_out", "TV>T", run_squeeze_dims, .only_copies = true },
	{ "aten::squeeze_copy.out", "T>T", run_squeeze, .only_copies = true },
	{ "aten::t_copy.out", "T>T", run_t },
	{ "aten::transpose_copy.int_out", "TII>T", run_transpose },
	{ "aten::unfold_copy.out", "TIII>T", run_unfold },
	{ "aten::unsqueeze_copy.out", "TI>T", run_unsqueeze, .only_copies = true },
	{ "aten::view_copy.out", "TV>T", run_view_copy, .only_copies = true },
	{ "preprocess::tile_crop.out", "TI>T", run_tile_crop },
};

ET_KERNEL_TABLE(view_copy);
