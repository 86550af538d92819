/* SPDX-License-Identifier: BSD-3-Clause */
/* What every kernel asks of its arguments: dimensions counted from the end, lists, shapes, sentences.
 *
 * The signature already guarantees the kind of each EValue; values are checked here, at each run. */
#ifndef RUNTIME_KERNELS_ENGINE_ARGS_H
#define RUNTIME_KERNELS_ENGINE_ARGS_H

#include "runtime/base/checked.h"
#include "runtime/kernel.h"
#include "runtime/kernels/engine/dtype.h"
#include "runtime/kernels/engine/view.h"

/* Write the sentence, without the operator's name, which the run puts in front. ET_E_INVALID_ARGUMENT. */
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

/* A number of any kind. */
double et_number_double(const struct et_evalue *value);
int64_t et_number_int(const struct et_evalue *value);

/* @dim counted from the end if negative; a 0-dimensional tensor has dimension 0, as in PyTorch. */
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

/* The dimensions in @list (None or empty: all) as a bit set; refuses repetition. */
enum et_status et_get_dims(struct et_kernel_ctx *ctx, const struct et_evalue *list, size_t n_dims, uint32_t *ret_set);

/* Resize an output, with a sentence if it cannot take the sizes. */
enum et_status et_resize(struct et_kernel_ctx *ctx, struct et_tensor *out, const int64_t *sizes, size_t n_dims);
enum et_status et_resize_like(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_tensor *like);

/* Sizes of a view of @numel elements, from a list of @n_dims in which one may be -1: the rest. */
enum et_status et_get_view_sizes(struct et_kernel_ctx *ctx, const struct et_evalue *list, size_t numel,
	int64_t *ret_sizes, size_t n_dims);

enum et_status et_require_type(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, enum et_scalar_type type,
	const char *what);
enum et_status et_require_same_type(struct et_kernel_ctx *ctx, const struct et_tensor *a, const struct et_tensor *b);
/* Of one rank and dim order: resized to the same sizes, elements correspond as they lie in memory. */
bool et_lie_alike(const struct et_tensor *a, const struct et_tensor *b);
/* Row-major, or a rank at which dim orders make no difference. */
enum et_status et_require_contiguous(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, const char *what);

/* Or lies as if it were, since what says otherwise are dimensions of size 1. Of an output: once it has its sizes. */
enum et_status et_require_row_major(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, const char *what);

/* Resize @out to the view and copy it there; types must be equal. */
enum et_status et_give_view(struct et_kernel_ctx *ctx, const struct et_view *view, struct et_tensor *out);
/* The same, converting. */
enum et_status et_give_view_cast(struct et_kernel_ctx *ctx, const struct et_view *view, struct et_tensor *out);

static inline size_t et_element_bytes(const struct et_tensor *tensor)
{
	return et_scalar_size(tensor->type);
}

#endif
