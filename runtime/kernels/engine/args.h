/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of arguments for all kernels: dimensions counted from the end, lists, shapes, error texts.
 *
 * The signature already guarantees the tag of each EValue. Values are checked here, at each run. */
#ifndef RUNTIME_KERNELS_ENGINE_ARGS_H
#define RUNTIME_KERNELS_ENGINE_ARGS_H

#include "runtime/base/checked.h"
#include "runtime/kernel.h"
#include "runtime/kernels/engine/dtype.h"
#include "runtime/kernels/engine/view.h"

/* Set the error text, without the operator's name (the run adds it). Returns ET_E_INVALID_ARGUMENT. */
enum et_status et_refuse(struct et_kernel_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define ET_REQUIRE(ctx, condition, ...)               \
	do {                                          \
		if (!(condition)) {                   \
			et_refuse(ctx, __VA_ARGS__);  \
			return ET_E_INVALID_ARGUMENT; \
		}                                     \
	} while (0)
#define ET_TRY(call)                             \
	do {                                     \
		enum et_status status_ = (call); \
		if (status_ != ET_OK)            \
			return status_;          \
	} while (0)

static inline bool et_is_none(const struct et_evalue *value)
{
	return value->tag == ET_TAG_NONE;
}

/* The value of an Int, a Double or a Bool. */
double et_number_double(const struct et_evalue *value);
int64_t et_number_int(const struct et_evalue *value);

/* A negative @dim counts from the end; a 0-dimensional tensor has dimension 0, as in PyTorch. */
enum et_status et_get_dim(struct et_kernel_ctx *ctx, int64_t dim, size_t n_dims, size_t *ret_dim);
/* Item @index of an int list. */
static inline int64_t et_list_int(const struct et_evalue *list, size_t index)
{
	return list->list->values[index]->i;
}
static inline size_t et_list_len(const struct et_evalue *list)
{
	return et_is_none(list) ? 0 : list->list->n;
}
/* Item @d of an option: a single item applies to all dimensions; @otherwise if the list is NULL, None or empty. */
static inline int64_t et_list_int_or(const struct et_evalue *list, size_t d, int64_t otherwise)
{
	size_t n = list ? et_list_len(list) : 0;
	return n == 0 ? otherwise : et_list_int(list, d < n ? d : n - 1);
}
static inline struct et_tensor *et_list_tensor(const struct et_evalue *list, size_t index)
{
	return list->list->values[index]->tensor;
}
/* NULL for None. */
static inline struct et_tensor *et_list_optional(const struct et_evalue *list, size_t index)
{
	const struct et_evalue *value = list->list->values[index];
	return value && value->tag == ET_TAG_TENSOR ? value->tensor : NULL;
}
static inline bool et_string_is(const struct et_evalue *string, const char *text)
{
	return string->tag == ET_TAG_STRING && strcmp(string->list->chars, text) == 0;
}

/* The dimensions in @list (None or empty: all) as a bit set; a dimension listed twice is refused. */
enum et_status et_get_dims(struct et_kernel_ctx *ctx, const struct et_evalue *list, size_t n_dims, uint32_t *ret_set);

/* Resize an output; sets an error text if the output cannot take the sizes. */
enum et_status et_resize(struct et_kernel_ctx *ctx, struct et_tensor *out, const int64_t *sizes, size_t n_dims);
enum et_status et_resize_like(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_tensor *like);

/* The sizes of a view of @numel elements, from a list of @n_dims sizes. One of them may be -1: it is computed from the
 * others. */
enum et_status et_get_view_sizes(struct et_kernel_ctx *ctx, const struct et_evalue *list, size_t numel,
	int64_t *ret_sizes, size_t n_dims);

enum et_status et_require_type(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, enum et_scalar_type type,
	const char *what);
enum et_status et_require_same_type(struct et_kernel_ctx *ctx, const struct et_tensor *a, const struct et_tensor *b);
/* Whether both have the same rank and dim order. Once they are resized to the same sizes, elements correspond by their
 * offset. */
bool et_has_same_layout(const struct et_tensor *a, const struct et_tensor *b);
/* Refuse a dim order that is not row-major; ranks without a choice of dim order always pass. */
enum et_status et_require_contiguous(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, const char *what);

/* The same, but also accepts a tensor whose strides are row-major because the other dimensions have size 1. Call it for
 * an output after it is resized. */
enum et_status et_require_row_major(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, const char *what);

/* Resize @out to the view's sizes and copy the view there; the types must be equal. */
enum et_status et_copy_view_to_output(struct et_kernel_ctx *ctx, const struct et_view *view, struct et_tensor *out);
/* The same with type conversion. */
enum et_status et_cast_view_to_output(struct et_kernel_ctx *ctx, const struct et_view *view, struct et_tensor *out);

static inline size_t et_element_bytes(const struct et_tensor *tensor)
{
	return et_scalar_size(tensor->type);
}

#endif
