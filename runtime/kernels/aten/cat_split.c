/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that concatenate tensors, split them, or write one into part of another.
 *
 * The part is a view of the output (or of the input), made like the ones in view_copy.c; everything else is copies. */
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/aten/view_copy.h"

/* Whether cat skips @tensor: an empty tensor whose sizes or rank do not match the others. @like has the others' sizes.
 */
static bool is_skipped(const struct et_tensor *tensor, const struct et_tensor *like, size_t dim)
{
	if (et_tensor_numel(tensor))
		return false;
	for (size_t d = 0; d < like->n_dims && tensor->n_dims == like->n_dims; d++)
		if (d != dim && tensor->sizes[d] != like->sizes[d])
			return true;
	return tensor->n_dims != like->n_dims;
}

/* The tensor that the others must match: the first one with elements; if all are empty, the first whose rank is not 1.
 */
static const struct et_tensor *find_like(const struct et_evalue *tensors)
{
	const struct et_tensor *like = et_list_tensor(tensors, 0);
	for (size_t i = 0, n = et_list_len(tensors); i < n; i++) {
		const struct et_tensor *tensor = et_list_tensor(tensors, i);
		if (et_tensor_numel(tensor))
			return tensor;
		if (like->n_dims == 1)
			like = tensor;
	}
	return like;
}

static enum et_status run_cat(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *out = args[2]->tensor;
	size_t n = et_list_len(args[0]), dim;
	int64_t sizes[ET_MAX_DIMS], at = 0;
	struct et_view to, from;
	ET_REQUIRE(ctx, n > 0, "no tensors");
	const struct et_tensor *like = find_like(args[0]);
	ET_REQUIRE(ctx, like->n_dims > 0, "takes no 0-dimensional tensors");
	ET_TRY(et_get_dim(ctx, args[1]->i, like->n_dims, &dim));
	for (size_t d = 0; d < like->n_dims; d++)
		sizes[d] = like->sizes[d];
	sizes[dim] = 0;
	for (size_t i = 0; i < n; i++) {
		const struct et_tensor *tensor = et_list_tensor(args[0], i);
		if (is_skipped(tensor, like, dim))
			continue;
		ET_REQUIRE(ctx, tensor->n_dims == like->n_dims, "ranks %u and %u", tensor->n_dims, like->n_dims);
		for (size_t d = 0; d < like->n_dims; d++)
			ET_REQUIRE(ctx, d == dim || tensor->sizes[d] == like->sizes[d],
				"sizes %d and %d in dimension %zu", tensor->sizes[d], like->sizes[d], d);
		ET_REQUIRE(ctx, et_can_cast(tensor->type, out->type), "%s does not fit an output of %s",
			et_scalar_name(tensor->type), et_scalar_name(out->type));
		sizes[dim] += tensor->sizes[dim];
	}
	ET_TRY(et_resize(ctx, out, sizes, like->n_dims));
	for (size_t i = 0; i < n; i++) {
		if (is_skipped(et_list_tensor(args[0], i), like, dim))
			continue;
		et_view_of(&from, et_list_tensor(args[0], i));
		et_view_of(&to, out);
		et_view_slice(&to, dim, at, 1, from.sizes[dim]);
		at += from.sizes[dim];
		ET_TRY(et_view_cast(ctx, &to, &from));
	}
	return ET_OK;
}

static enum et_status run_stack(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *out = args[2]->tensor;
	size_t n = et_list_len(args[0]), dim;
	struct et_view to, from;
	ET_REQUIRE(ctx, n > 0, "no tensors");
	et_view_of(&from, et_list_tensor(args[0], 0));
	ET_REQUIRE(ctx, from.n_dims < ET_MAX_DIMS, "too many dimensions");
	ET_TRY(et_get_dim(ctx, args[1]->i, (size_t)from.n_dims + 1, &dim));
	et_view_insert(&from, dim, (int64_t)n, 0);
	ET_TRY(et_resize(ctx, out, from.sizes, from.n_dims));
	for (size_t i = 0; i < n; i++) {
		const struct et_tensor *first = et_list_tensor(args[0], 0), *tensor = et_list_tensor(args[0], i);
		ET_REQUIRE(ctx,
			tensor->n_dims == first->n_dims &&
				memcmp(tensor->sizes, first->sizes, first->n_dims * sizeof(int32_t)) == 0,
			"the sizes of tensor %zu differ from the first tensor's", i);
		ET_REQUIRE(ctx, et_can_cast(tensor->type, out->type), "%s does not fit an output of %s",
			et_scalar_name(tensor->type), et_scalar_name(out->type));
		et_view_of(&from, tensor);
		et_view_of(&to, out);
		et_view_select(&to, dim, (int64_t)i);
		ET_TRY(et_view_cast(ctx, &to, &from));
	}
	return ET_OK;
}

/* A tensor that is split along a dimension. If it is row-major, a piece of it is equidistant runs. */
struct cut {
	const struct et_tensor *self;
	size_t dim;
	/* the number of runs (the dimensions outside); bytes from one index of the dimension to the next */
	size_t n_runs, step_bytes;
	bool has_runs;
};

static enum et_status begin_cut(struct et_kernel_ctx *ctx, struct cut *cut, const struct et_tensor *self, int64_t dim)
{
	ET_REQUIRE(ctx, self->n_dims > 0, "the tensor has no dimensions");
	ET_TRY(et_get_dim(ctx, dim, self->n_dims, &cut->dim));
	cut->self = self;
	cut->n_runs = 1;
	cut->step_bytes = et_element_bytes(self);
	cut->has_runs = et_dim_order_is_contiguous(self->dim_order, self->n_dims);
	for (size_t d = 0; d < cut->dim; d++)
		cut->n_runs *= (size_t)self->sizes[d];
	for (size_t d = cut->dim + 1; d < self->n_dims; d++)
		cut->step_bytes *= (size_t)self->sizes[d];
	return ET_OK;
}

/* Whether @out is row-major, has the tensor's type, and already has the sizes of a piece of @size indices (of a select:
 * without the dimension). */
static bool can_copy_runs(const struct cut *cut, const struct et_tensor *out, int64_t size, bool selects)
{
	const struct et_tensor *self = cut->self;
	size_t n_dims = self->n_dims;
	if (!cut->has_runs || out->type != self->type || out->n_dims != n_dims - selects ||
		!et_dim_order_is_contiguous(out->dim_order, out->n_dims))
		return false;
	for (size_t d = 0, k = 0; d < n_dims; d++) {
		if (d != cut->dim && out->sizes[k] != self->sizes[d])
			return false;
		if (d == cut->dim && !selects && out->sizes[k] != size)
			return false;
		k += !(d == cut->dim && selects);
	}
	return true;
}

/* Copy @size indices, starting at @start, to @out, which may have another type. @selects: one index, without its
 * dimension. */
static enum et_status copy_piece(struct et_kernel_ctx *ctx, const struct cut *cut, int64_t start, int64_t size,
	bool selects, struct et_tensor *out)
{
	struct et_view view;
	size_t n_bytes = (size_t)size * cut->step_bytes;
	if (can_copy_runs(cut, out, size, selects)) {
		const uint8_t *from = cut->self->data;
		if (n_bytes)
			et_copy_many_rows(ctx->compute, out->data, (ptrdiff_t)n_bytes,
				from + (size_t)start * cut->step_bytes,
				(ptrdiff_t)((size_t)cut->self->sizes[cut->dim] * cut->step_bytes), cut->n_runs,
				n_bytes);
		return ET_OK;
	}
	et_view_of(&view, cut->self);
	if (selects)
		et_view_select(&view, cut->dim, start);
	else
		et_view_slice(&view, cut->dim, start, 1, size);
	return et_cast_view_to_output(ctx, &view, out);
}

static enum et_status run_split_sizes(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct cut cut;
	size_t n = et_list_len(args[1]);
	int64_t at = 0;
	ET_TRY(begin_cut(ctx, &cut, args[0]->tensor, args[2]->i));
	int32_t all = cut.self->sizes[cut.dim];
	ET_REQUIRE(ctx, et_list_len(args[3]) == n, "%zu sizes for %zu outputs", n, et_list_len(args[3]));
	for (size_t i = 0; i < n; i++) {
		int64_t size = et_list_int(args[1], i);
		ET_REQUIRE(ctx, size >= 0 && size <= all - at, "the sizes are more than %d", all);
		ET_TRY(copy_piece(ctx, &cut, at, size, false, et_list_tensor(args[3], i)));
		at += size;
	}
	ET_REQUIRE(ctx, at == all, "the sizes are less than %d", all);
	return ET_OK;
}

static enum et_status run_split(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct cut cut;
	int64_t piece = args[1]->i;
	size_t n = et_list_len(args[3]);
	ET_TRY(begin_cut(ctx, &cut, args[0]->tensor, args[2]->i));
	int64_t size = cut.self->sizes[cut.dim];
	ET_REQUIRE(ctx, piece > 0 || (piece == 0 && size == 0), "pieces of %lld", (long long)piece);
	int64_t n_pieces = size == 0 ? 1 : (size - 1) / (piece ? piece : 1) + 1;
	ET_REQUIRE(ctx, (int64_t)n == n_pieces, "%lld pieces for %zu outputs", (long long)n_pieces, n);
	for (size_t i = 0; i < n; i++) {
		int64_t at = (int64_t)i * piece;
		ET_TRY(copy_piece(ctx, &cut, at, size - at < piece ? size - at : piece, false,
			et_list_tensor(args[3], i)));
	}
	return ET_OK;
}

static enum et_status run_unbind(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct cut cut;
	size_t n = et_list_len(args[2]);
	ET_TRY(begin_cut(ctx, &cut, args[0]->tensor, args[1]->i));
	int32_t size = cut.self->sizes[cut.dim];
	ET_REQUIRE(ctx, (size_t)size == n, "%d slices for %zu outputs", size, n);
	for (size_t i = 0; i < n; i++)
		ET_TRY(copy_piece(ctx, &cut, (int64_t)i, 1, true, et_list_tensor(args[2], i)));
	return ET_OK;
}

enum { PATTERN = 64 }; /* bytes: a whole number of elements of each type */

/* A smaller tensor copied into the middle of a larger one whose dimensions are in the same order: the margins before
 * and after it are filled on the way. Dimensions are in memory order, the outermost first. */
struct margins {
	size_t n_dims; /* dimensions from here on have no margins */
	struct {
		int64_t before, kept, after;
		int64_t from_step, to_step; /* bytes from one index to the next */
	} dims[ET_MAX_DIMS];
	uint64_t pattern[PATTERN / sizeof(uint64_t)];
	size_t element_bytes;
};

/* One element of @bytes, repeated. */
static void make_pattern(uint64_t *pattern, const struct et_wide *element, size_t bytes)
{
	uint64_t first = element->words[0], second;
	for (size_t n = bytes; n < sizeof(first); n *= 2)
		first = (first & (((uint64_t)1 << (8 * n)) - 1)) | first << (8 * n);
	second = bytes == sizeof(*element) ? element->words[1] : first;
	for (size_t i = 0; i < PATTERN / sizeof(first); i += 2) {
		pattern[i] = first;
		pattern[i + 1] = second;
	}
}

static uint8_t *fill_margin(const struct margins *m, uint8_t *to, int64_t n_bytes)
{
	for (; n_bytes >= PATTERN; n_bytes -= PATTERN, to += PATTERN)
		memcpy(to, m->pattern, PATTERN);
	if (n_bytes)
		et_copy_bytes(to, (const uint8_t *)m->pattern, (size_t)n_bytes);
	return to + n_bytes;
}

static void copy_with_margins(const struct margins *m, size_t k, uint8_t *to, const uint8_t *from)
{
	const int64_t from_step = m->dims[k].from_step, to_step = m->dims[k].to_step, kept = m->dims[k].kept;
	to = fill_margin(m, to, m->dims[k].before * to_step);
	if (k + 1 == m->n_dims)
		et_copy_bytes(to, from, (size_t)(kept * to_step));
	for (int64_t i = 0; k + 1 < m->n_dims && i < kept; i++)
		copy_with_margins(m, k + 1, to + i * to_step, from + i * from_step);
	fill_margin(m, to + kept * to_step, m->dims[k].after * to_step);
}

/* The same for any sizes. False: the kernel must stop. */
static bool copy_many_with_margins(const struct margins *m, struct et_pace *pace, size_t k, uint8_t *to,
	const uint8_t *from)
{
	const int64_t from_step = m->dims[k].from_step, to_step = m->dims[k].to_step, kept = m->dims[k].kept;
	const int64_t n_before = m->dims[k].before * to_step, n_after = m->dims[k].after * to_step;
	const size_t n_words = (size_t)(n_before + kept * to_step + n_after) / sizeof(uint64_t);
	if (et_pace_must_stop(pace, n_words < ET_PACE_STEPS ? n_words : 1))
		return false;
	if (n_words < ET_PACE_STEPS) {
		copy_with_margins(m, k, to, from);
		return true;
	}
	const uint8_t *element = (const uint8_t *)m->pattern;
	et_fill_many(pace->compute, to, element, (size_t)n_before / m->element_bytes, m->element_bytes);
	to += n_before;
	if (k + 1 == m->n_dims)
		et_copy_many(pace->compute, to, from, (size_t)(kept * to_step));
	for (int64_t i = 0; k + 1 < m->n_dims && i < kept; i++)
		if (!copy_many_with_margins(m, pace, k + 1, to + i * to_step, from + i * from_step))
			return false;
	et_fill_many(pace->compute, to + kept * to_step, element, (size_t)n_after / m->element_bytes, m->element_bytes);
	return true;
}

/* Copy @from, which is not empty, into @out, @before from its start in each dimension, and fill the rest with @element.
 */
static void pad_and_copy(const struct et_compute *compute, struct et_tensor *out, const struct et_view *from,
	const int64_t *before, const struct et_wide *element)
{
	struct margins m;
	const size_t bytes = et_element_bytes(out);
	m.n_dims = 1;
	for (size_t k = 0; k < out->n_dims; k++) {
		size_t d = out->dim_order[k];
		m.dims[k].before = before[d];
		m.dims[k].kept = from->sizes[d];
		m.dims[k].after = out->sizes[d] - before[d] - from->sizes[d];
		m.dims[k].from_step = from->strides[d] * (int64_t)bytes;
		m.dims[k].to_step = (int64_t)out->strides[d] * (int64_t)bytes;
		/* if a dimension has no margins and the steps outside it are equal in both, it belongs to the run */
		if (k && (out->sizes[d] != from->sizes[d] || m.dims[k - 1].from_step != m.dims[k - 1].to_step))
			m.n_dims = k + 1;
	}
	m.element_bytes = bytes;
	make_pattern(m.pattern, element, bytes);
	struct et_pace pace = { compute };
	copy_many_with_margins(&m, &pace, 0, out->data, from->data);
}

/* Padding counts from the last dimension backwards: (before, after), (before, after) …; negative padding crops. */
static enum et_status run_pad(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[3]->tensor;
	size_t n = et_list_len(args[1]);
	int64_t sizes[ET_MAX_DIMS], margins[ET_MAX_DIMS] = { 0 };
	struct et_wide element;
	struct et_view from, to;
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_REQUIRE(ctx, n % 2 == 0 && n / 2 <= self->n_dims, "%zu paddings for %u dimensions", n, self->n_dims);
	et_view_of(&from, self);
	for (size_t d = 0; d < self->n_dims; d++)
		sizes[d] = self->sizes[d];
	for (size_t i = 0; i < n / 2; i++) {
		size_t d = self->n_dims - 1 - i;
		int64_t before = et_list_int(args[1], 2 * i), after = et_list_int(args[1], 2 * i + 1);
		ET_REQUIRE(ctx, before > -INT32_MAX && before < INT32_MAX && after > -INT32_MAX && after < INT32_MAX,
			"padding %lld, %lld", (long long)before, (long long)after);
		sizes[d] += before + after;
		ET_REQUIRE(ctx, sizes[d] >= 0, "padding %lld, %lld of size %d", (long long)before, (long long)after,
			self->sizes[d]);
	}
	ET_TRY(et_resize(ctx, out, sizes, self->n_dims));
	ET_TRY(et_number_element(ctx, out->type, args[2], &element));
	et_view_of(&to, out);
	for (size_t i = 0; i < n / 2; i++) {
		size_t d = self->n_dims - 1 - i;
		int64_t before = et_list_int(args[1], 2 * i), after = et_list_int(args[1], 2 * i + 1);
		int64_t cut = (before < 0 ? -before : 0) + (after < 0 ? -after : 0);
		int64_t kept = from.sizes[d] > cut ? from.sizes[d] - cut : 0;
		margins[d] = before > 0 ? before : 0;
		et_view_slice(&from, d, before < 0 ? -before : 0, 1, kept);
		et_view_slice(&to, d, margins[d], 1, kept);
	}
	if (self->n_dims && et_view_numel(&from) && !memcmp(self->dim_order, out->dim_order, self->n_dims)) {
		pad_and_copy(ctx->compute, out, &from, margins, &element);
		return ET_OK;
	}
	et_fill_with(ctx, out, &element);
	et_view_copy(ctx->compute, &to, &from);
	return ET_OK;
}

/* Scatter: copy self to the output; the caller then changes @to into a part of it, and end_scatter copies the source
 * there. */
static enum et_status begin_scatter(struct et_kernel_ctx *ctx, const struct et_tensor *self, struct et_tensor *out,
	struct et_view *to)
{
	struct et_view from;
	et_view_of(&from, self);
	ET_TRY(et_copy_view_to_output(ctx, &from, out));
	et_view_of(to, out);
	return ET_OK;
}

static enum et_status end_scatter(struct et_kernel_ctx *ctx, const struct et_tensor *src, const struct et_view *to)
{
	struct et_view from;
	et_view_of(&from, src);
	ET_REQUIRE(ctx,
		from.n_dims == to->n_dims && memcmp(from.sizes, to->sizes, from.n_dims * sizeof(from.sizes[0])) == 0,
		"the source's sizes differ from those of the part it is written to");
	return et_view_cast(ctx, to, &from);
}

static enum et_status run_slice_scatter(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view to;
	if (et_tensor_numel(args[0]->tensor) == 0) /* whatever the source is */
		return et_resize_like(ctx, args[6]->tensor, args[0]->tensor);
	ET_TRY(begin_scatter(ctx, args[0]->tensor, args[6]->tensor, &to));
	ET_TRY(et_slice_view(ctx, &to, args[2]->i, args[3], args[4], args[5]->i));
	return end_scatter(ctx, args[1]->tensor, &to);
}

static enum et_status run_select_scatter(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view to;
	ET_TRY(begin_scatter(ctx, args[0]->tensor, args[4]->tensor, &to));
	ET_TRY(et_select_view(ctx, &to, args[2]->i, args[3]->i));
	return end_scatter(ctx, args[1]->tensor, &to);
}

static enum et_status run_diagonal_scatter(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view to;
	ET_TRY(begin_scatter(ctx, args[0]->tensor, args[5]->tensor, &to));
	ET_TRY(et_diagonal_view(ctx, &to, args[2]->i, args[3]->i, args[4]->i));
	return end_scatter(ctx, args[1]->tensor, &to);
}

static enum et_status run_as_strided_scatter(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view to;
	ET_TRY(et_require_contiguous(ctx, args[5]->tensor, "the output"));
	ET_TRY(begin_scatter(ctx, args[0]->tensor, args[5]->tensor, &to));
	ET_TRY(et_as_strided_view(ctx, &to, args[2], args[3], args[4]));
	return end_scatter(ctx, args[1]->tensor, &to);
}

/* How many elements of a row are on and below the diagonal. */
static int64_t lower_part(int64_t row, int64_t width, int64_t diagonal)
{
	int64_t n = row + diagonal + 1;
	return n < 0 ? 0 : n > width ? width : n;
}

/* The output is zeros, then row by row the elements on and below the diagonal are copied. */
static enum et_status run_tril(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	struct et_view from, to;
	int64_t diagonal = args[1]->i;
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_REQUIRE(ctx, self->n_dims >= 2, "the tensor has fewer than 2 dimensions");
	ET_REQUIRE(ctx, diagonal > -INT32_MAX && diagonal < INT32_MAX, "diagonal %lld", (long long)diagonal);
	ET_TRY(et_resize_like(ctx, out, self));
	if (et_tensor_numel(out) == 0) /* however many rows it has */
		return ET_OK;
	et_fill_with(ctx, out, &(const struct et_wide){ { 0 } });
	et_view_of(&from, self);
	et_view_of(&to, out);
	size_t row_dim = (size_t)from.n_dims - 2;
	int64_t n_rows = from.sizes[row_dim], width = from.sizes[row_dim + 1];
	struct et_pace pace = { ctx->compute };
	if (et_has_same_layout(self, out) && et_dim_order_is_contiguous(out->dim_order, out->n_dims)) {
		size_t row_bytes = (size_t)width * et_element_bytes(out), n_bytes = et_tensor_n_bytes(out);
		int64_t row = 0;
		for (size_t at = 0; at < n_bytes; at += row_bytes) {
			size_t n = (size_t)lower_part(row, width, diagonal) * et_element_bytes(out);
			if (!et_copy_paced(&pace, (uint8_t *)out->data + at, (const uint8_t *)self->data + at, n))
				break;
			row = row + 1 < n_rows ? row + 1 : 0;
		}
		return ET_OK;
	}
	const size_t n_planes = et_tensor_numel(out) / (size_t)(n_rows * width);
	for (int64_t row = 0; row < n_rows; row++) {
		struct et_view from_row, to_row;
		int64_t n = lower_part(row, width, diagonal);
		if (et_pace_must_stop(&pace, (size_t)n * n_planes + 1))
			break;
		et_view_clone(&from_row, &from);
		et_view_clone(&to_row, &to);
		et_view_select(&from_row, row_dim, row);
		et_view_select(&to_row, row_dim, row);
		et_view_slice(&from_row, row_dim, 0, 1, n);
		et_view_slice(&to_row, row_dim, 0, 1, n);
		et_view_copy(ctx->compute, &to_row, &from_row);
	}
	return ET_OK;
}

/* All of the tensor, along the dimension that argument @dim names. */
static bool find_all(struct et_evalue *const *args, size_t dim, size_t *ret_first, size_t *ret_n)
{
	size_t size, inner;
	if (!et_find_inner(args[0]->tensor, args[dim]->i, &size, &inner))
		return false;
	*ret_first = 0;
	*ret_n = size * inner;
	return true;
}

static bool find_split(struct et_evalue *const *args, size_t *ret_first, size_t *ret_n)
{
	return find_all(args, 2, ret_first, ret_n);
}

static bool find_unbound(struct et_evalue *const *args, size_t *ret_first, size_t *ret_n)
{
	return find_all(args, 1, ret_first, ret_n);
}

static const struct et_kernel rows[] = {
	{ "aten::as_strided_scatter.out", "TTVVi>T", run_as_strided_scatter },
	{ "aten::cat.out", "LI>T", run_cat, .is_orderless = true },
	{ "aten::constant_pad_nd.out", "TVS>T", run_pad },
	{ "aten::diagonal_scatter.out", "TTIII>T", run_diagonal_scatter },
	{ "aten::select_scatter.out", "TTII>T", run_select_scatter },
	{ "aten::slice_scatter.out", "TTIiiI>T", run_slice_scatter },
	{ "aten::split_copy.Tensor_out", "TII>L", run_split, .is_orderless = true, .find_part = find_split },
	{ "aten::split_with_sizes_copy.out", "TVI>L", run_split_sizes, .is_orderless = true, .find_part = find_split },
	{ "aten::stack.out", "LI>T", run_stack },
	{ "aten::tril.out", "TI>T", run_tril },
	{ "aten::unbind_copy.int_out", "TI>L", run_unbind, .find_part = find_unbound },
};

ET_KERNEL_TABLE(cat_split);
