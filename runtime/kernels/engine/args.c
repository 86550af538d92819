/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that many kernels share, and their error texts.
 *
 * Whatever a client or a program can get wrong becomes ET_E_INVALID_ARGUMENT with a text; the run puts the instruction
 * and its operator in front. Nothing here touches an element. */
#include "runtime/kernels/engine/elementwise.h"

#include <stdarg.h>
#include <stdio.h>

enum et_status et_refuse(struct et_kernel_ctx *ctx, const char *format, ...)
{
	char text[240];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return et_fail(ctx->diag, ET_E_INVALID_ARGUMENT, "%s", text);
}

double et_number_double(const struct et_evalue *value)
{
	switch (value->tag) {
	case ET_TAG_DOUBLE:
		return value->d;
	case ET_TAG_INT:
		return (double)value->i;
	case ET_TAG_BOOL:
		return value->b;
	default:
		return 0;
	}
}

int64_t et_number_int(const struct et_evalue *value)
{
	switch (value->tag) {
	case ET_TAG_DOUBLE:
		return et_double_to_int(value->d);
	case ET_TAG_INT:
		return value->i;
	case ET_TAG_BOOL:
		return value->b;
	default:
		return 0;
	}
}

enum et_status et_get_dim(struct et_kernel_ctx *ctx, int64_t dim, size_t n_dims, size_t *ret_dim)
{
	int64_t n = n_dims ? (int64_t)n_dims : 1;
	ET_REQUIRE(ctx, dim >= -n && dim < n, "dimension %lld of a tensor with %zu", (long long)dim, n_dims);
	*ret_dim = (size_t)(dim < 0 ? dim + n : dim);
	return ET_OK;
}

enum et_status et_get_dims(struct et_kernel_ctx *ctx, const struct et_evalue *list, size_t n_dims, uint32_t *ret_set)
{
	uint32_t set = 0;
	size_t n = et_list_len(list);
	for (size_t i = 0; i < n; i++) {
		size_t dim;
		ET_TRY(et_get_dim(ctx, et_list_int(list, i), n_dims, &dim));
		ET_REQUIRE(ctx, !(set >> dim & 1), "dimension %zu is listed twice", dim);
		set |= 1u << dim;
	}
	*ret_set = n ? set : (1u << n_dims) - 1;
	return ET_OK;
}

static void print_sizes(char *text, size_t n_text, const int64_t *sizes, size_t n_dims)
{
	size_t used = 0;
	text[0] = '\0';
	for (size_t d = 0; d < n_dims && used < n_text; d++)
		used += (size_t)snprintf(text + used, n_text - used, d ? ",%lld" : "%lld", (long long)sizes[d]);
}

enum et_status et_resize(struct et_kernel_ctx *ctx, struct et_tensor *out, const int64_t *sizes, size_t n_dims)
{
	int32_t narrow[ET_MAX_DIMS];
	char wanted[96];
	enum et_status status = n_dims <= ET_MAX_DIMS ? ET_OK : ET_E_NOT_SUPPORTED;
	bool is_sized = n_dims == out->n_dims; /* nearly always true */
	for (size_t d = 0; is_sized && d < n_dims; d++)
		is_sized = sizes[d] == out->sizes[d];
	if (is_sized)
		return ET_OK;
	for (size_t d = 0; status == ET_OK && d < n_dims; d++) {
		if (sizes[d] < 0 || sizes[d] > INT32_MAX)
			status = ET_E_NOT_SUPPORTED;
		else
			narrow[d] = (int32_t)sizes[d];
	}
	if (status == ET_OK)
		status = et_tensor_resize(out, narrow, n_dims);
	if (status == ET_OK)
		return ET_OK;
	print_sizes(wanted, sizeof(wanted), sizes, n_dims);
	return et_fail(ctx->diag, status, "the output cannot take the sizes [%s]", wanted);
}

enum et_status et_resize_like(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_tensor *like)
{
	int64_t sizes[ET_MAX_DIMS];
	bool is_sized = out->n_dims == like->n_dims; /* nearly always true */
	for (size_t d = 0; is_sized && d < like->n_dims; d++)
		is_sized = out->sizes[d] == like->sizes[d];
	for (size_t d = 0; !is_sized && d < like->n_dims; d++)
		sizes[d] = like->sizes[d];
	return is_sized ? ET_OK : et_resize(ctx, out, sizes, like->n_dims);
}

enum et_status et_require_type(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, enum et_scalar_type type,
	const char *what)
{
	ET_REQUIRE(ctx, tensor->type == type, "%s is %s, expected %s", what, et_scalar_name(tensor->type),
		et_scalar_name(type));
	return ET_OK;
}

enum et_status et_require_same_type(struct et_kernel_ctx *ctx, const struct et_tensor *a, const struct et_tensor *b)
{
	ET_REQUIRE(ctx, a->type == b->type, "tensors of %s and %s, expected one type", et_scalar_name(a->type),
		et_scalar_name(b->type));
	return ET_OK;
}

bool et_has_same_layout(const struct et_tensor *a, const struct et_tensor *b)
{
	bool is_same = a->n_dims == b->n_dims;
	for (size_t d = 0; is_same && d < a->n_dims; d++)
		is_same = a->dim_order[d] == b->dim_order[d];
	return is_same;
}

enum et_status et_require_contiguous(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, const char *what)
{
	ET_REQUIRE(ctx, et_dim_order_is_contiguous(tensor->dim_order, tensor->n_dims), "%s must be in row-major order",
		what);
	return ET_OK;
}

enum et_status et_require_row_major(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, const char *what)
{
	int64_t stride = 1;
	for (size_t d = tensor->n_dims; d-- > 0 && et_tensor_numel(tensor);) {
		ET_REQUIRE(ctx, tensor->sizes[d] == 1 || tensor->strides[d] == stride, "%s must be in row-major order",
			what);
		stride *= tensor->sizes[d];
	}
	return ET_OK;
}

enum et_status et_get_view_sizes(struct et_kernel_ctx *ctx, const struct et_evalue *list, size_t numel,
	int64_t *ret_sizes, size_t n_dims)
{
	size_t rest = n_dims, known = 1;
	ET_REQUIRE(ctx, et_list_len(list) == n_dims, "%zu sizes for an output of rank %zu", et_list_len(list), n_dims);
	for (size_t d = 0; d < n_dims; d++) {
		int64_t size = et_list_int(list, d);
		ET_REQUIRE(ctx, size >= -1 && size <= INT32_MAX, "size %lld", (long long)size);
		ET_REQUIRE(ctx, size != -1 || rest == n_dims, "more than one size is -1");
		ret_sizes[d] = size;
		if (size == -1)
			rest = d;
		else
			ET_REQUIRE(ctx, et_mul(known, (size_t)size, &known), "the sizes overflow");
	}
	if (rest < n_dims) {
		ET_REQUIRE(ctx, known != 0, "a size of -1 is ambiguous beside a size of 0");
		ret_sizes[rest] = (int64_t)(numel / known);
		known *= numel / known;
	}
	ET_REQUIRE(ctx, known == numel, "%zu elements viewed as %zu", numel, known);
	return ET_OK;
}

enum et_status et_copy_view_to_output(struct et_kernel_ctx *ctx, const struct et_view *view, struct et_tensor *out)
{
	ET_REQUIRE(ctx, view->type == out->type, "an output of %s, expected %s", et_scalar_name(out->type),
		et_scalar_name(view->type));
	return et_cast_view_to_output(ctx, view, out);
}

enum et_status et_cast_view_to_output(struct et_kernel_ctx *ctx, const struct et_view *view, struct et_tensor *out)
{
	struct et_view to;
	ET_TRY(et_resize(ctx, out, view->sizes, view->n_dims));
	et_view_of(&to, out);
	return et_view_cast(ctx, &to, view);
}
