/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that make tensors from numbers.
 *
 * empty gives zeros, because the memory may still hold another client's data. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/aten/view_copy.h"

#include <math.h>

enum { BLOCK = 256 };

enum et_status et_number_element(struct et_kernel_ctx *ctx, enum et_scalar_type type, const struct et_evalue *number,
	struct et_wide *ret_element)
{
	struct et_wide element = { { 0 } };
	ET_REQUIRE(ctx, et_loader(et_real_type(type), ET_F64), "cannot fill %s", et_scalar_name(type));
	if (et_type_is_complex(type))
		et_element_set_complex(&element, type, et_number_double(number));
	else if (number->tag == ET_TAG_DOUBLE)
		et_element_set_double(&element, type, number->d);
	else
		et_element_set_int(&element, type, et_number_int(number));
	*ret_element = element;
	return ET_OK;
}

void et_fill_with(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_wide *element)
{
	/* a tensor's elements are dense */
	et_fill_many(ctx->compute, out->data, (const uint8_t *)element, et_tensor_numel(out), et_element_bytes(out));
}

enum et_status et_fill(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_evalue *number)
{
	struct et_wide element;
	ET_TRY(et_number_element(ctx, out->type, number, &element));
	et_fill_with(ctx, out, &element);
	return ET_OK;
}

static enum et_status resize_to_list(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_evalue *list)
{
	int64_t sizes[ET_MAX_DIMS];
	size_t n = et_list_len(list);
	ET_REQUIRE(ctx, n <= ET_MAX_DIMS, "%zu dimensions", n);
	for (size_t d = 0; d < n; d++)
		sizes[d] = et_list_int(list, d);
	return et_resize(ctx, out, sizes, n);
}

static enum et_status run_full(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(resize_to_list(ctx, args[2]->tensor, args[0]));
	return et_fill(ctx, args[2]->tensor, args[1]);
}

static enum et_status run_full_like(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(et_resize_like(ctx, args[3]->tensor, args[0]->tensor));
	return et_fill(ctx, args[3]->tensor, args[1]);
}

static enum et_status run_fill(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(et_resize_like(ctx, args[2]->tensor, args[0]->tensor));
	return et_fill(ctx, args[2]->tensor, args[1]);
}

static enum et_status run_fill_tensor(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *value = args[1]->tensor;
	struct et_view view, like;
	ET_REQUIRE(ctx, et_tensor_numel(value) == 1, "the value has more than one element");
	et_view_of(&like, args[0]->tensor);
	et_view_of(&view, value);
	view.n_dims = 0;
	et_view_broadcast(&view, like.sizes, like.n_dims);
	return et_cast_view_to_output(ctx, &view, args[2]->tensor);
}

/* The row is the number to fill with; the sizes are the first argument, the output is the last. */
static enum et_status run_constant(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	size_t n_inputs = 1;
	while (ctx->kernel->signature[n_inputs] != '>')
		n_inputs++;
	struct et_tensor *out = args[n_inputs]->tensor;
	ET_TRY(resize_to_list(ctx, out, args[0]));
	return et_fill(ctx, out, ctx->kernel->row);
}
static const struct et_evalue zero = { .tag = ET_TAG_INT, .i = 0 };
static const struct et_evalue one_value = { .tag = ET_TAG_INT, .i = 1 };

static enum et_status run_scalar_tensor(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(et_resize(ctx, args[1]->tensor, NULL, 0));
	return et_fill(ctx, args[1]->tensor, args[0]);
}

/* For float and double, without a block in between. */
#define ARANGE(name, type)                                                                                     \
	static void name(const struct et_compute *compute, struct et_tensor *out, double start, double step)   \
	{                                                                                                      \
		type *to = out->data;                                                                          \
		struct et_pace pace = { compute };                                                             \
		for (size_t at = 0, part; (part = et_pace_chunk(&pace, at, et_tensor_numel(out))); at += part) \
			for (int32_t i = (int32_t)at; i < (int32_t)(at + part); i++)                           \
				to[i] = (type)(start + (double)i * step);                                      \
	}
ARANGE(arange_floats, float)
ARANGE(arange_doubles, double)

static enum et_status arange(struct et_kernel_ctx *ctx, double start, double end, double step, struct et_tensor *out)
{
	if (out->type == ET_INT64) { /* PyTorch truncates before it counts */
		start = trunc(start);
		end = trunc(end);
		step = trunc(step);
	}
	double n = ceil((end - start) / step);
	ET_REQUIRE(ctx, n >= 0 && n <= INT32_MAX, "from %g to %g by %g", start, end, step);
	ET_REQUIRE(ctx, et_loader(out->type, ET_F64), "cannot fill %s", et_scalar_name(out->type));
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ (int64_t)n }, 1));
	if (out->type == ET_FLOAT32 || out->type == ET_FLOAT64) {
		(out->type == ET_FLOAT32 ? arange_floats : arange_doubles)(ctx->compute, out, start, step);
		return ET_OK;
	}
	/* Whole numbers below 2^52 are exact in double and in int64. */
	bool is_whole = et_type_is_integral(out->type) && fabs(start) < 0x1p52 && fabs(step * n) < 0x1p52 &&
			floor(start) == start && floor(step) == step;
	union {
		double d[BLOCK];
		int64_t i[BLOCK];
	} block;
	et_store_fn store = et_storer(out->type, is_whole ? ET_I64 : ET_F64);
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < (size_t)n && !et_pace_must_stop(&pace, BLOCK); i += BLOCK) {
		size_t part = (size_t)n - i < BLOCK ? (size_t)n - i : BLOCK;
		for (size_t k = 0; is_whole && k < part; k++)
			block.i[k] = (int64_t)start + (int64_t)(i + k) * (int64_t)step;
		for (size_t k = 0; !is_whole && k < part; k++)
			block.d[k] = start + (double)(int32_t)(i + k) * step;
		store((uint8_t *)out->data + i * et_element_bytes(out), 1, &block, part);
	}
	return ET_OK;
}

static enum et_status run_arange(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return arange(ctx, 0, et_number_double(args[0]), 1, args[1]->tensor);
}

static enum et_status run_arange_start(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return arange(ctx, et_number_double(args[0]), et_number_double(args[1]), et_number_double(args[2]),
		args[3]->tensor);
}

/* Memory without values is zeroed. The row is the index of the sizes argument; the strides or dim order come next. The
 * program also gives the output a dim order, which is used. */
static enum et_status run_empty_laid_out(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	size_t first = *(const size_t *)ctx->kernel->row;
	struct et_tensor *out = args[first + 2]->tensor;
	ET_REQUIRE(ctx, et_list_len(args[first + 1]) == et_list_len(args[first]), "a layout of %zu dimensions for %zu",
		et_list_len(args[first + 1]), et_list_len(args[first]));
	ET_TRY(resize_to_list(ctx, out, args[first]));
	return et_fill(ctx, out, &zero);
}
static const size_t sizes_first = 0, sizes_second = 1;

/* How many of the @n_columns elements of row @row are on or below the diagonal. */
static int64_t below_diagonal(int64_t row, int64_t n_columns, int64_t offset)
{
	int64_t n = row + offset + 1;
	return n < 0 ? 0 : n < n_columns ? n : n_columns;
}

/* The same for all rows together, computed without visiting them, since there may be any number: none up to row @ramp,
 * then one more in each row, and all columns from row @full on. The result is below 2^62. */
static int64_t n_below_diagonal(int64_t n_rows, int64_t n_columns, int64_t offset)
{
	int64_t ramp = offset > -1 ? 0 : -1 - offset, full = n_columns - offset - 1;
	ramp = ramp < n_rows ? ramp : n_rows;
	full = full < ramp ? ramp : full < n_rows ? full : n_rows;
	return (full - ramp) * (ramp + full + 1 + 2 * offset) / 2 + (n_rows - full) * n_columns;
}

/* rows, columns, diagonal offset > the indices of the elements below the diagonal, or above it (row): first all row
 * indices, then all column indices. */
static enum et_status run_triangle_indices(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	bool is_upper = *(const bool *)ctx->kernel->row;
	int64_t n_rows = args[0]->i, n_columns = args[1]->i, offset = args[2]->i;
	struct et_tensor *out = args[3]->tensor;
	ET_REQUIRE(ctx, n_rows >= 0 && n_rows <= INT32_MAX && n_columns >= 0 && n_columns <= INT32_MAX,
		"%lld rows and %lld columns", (long long)n_rows, (long long)n_columns);
	/* Larger offsets make no difference. */
	offset = offset < -n_rows ? -n_rows : offset > n_columns ? n_columns : offset;
	/* The elements above a diagonal are those that are not below the diagonal before it. */
	offset -= is_upper;
	ET_REQUIRE(ctx, et_loader(out->type, ET_F64), "cannot fill %s", et_scalar_name(out->type));
	et_store_fn store = et_storer(out->type, ET_I64);
	/* Rows without elements are skipped, since there may be any number. */
	int64_t first = is_upper || offset > -1 ? 0 : -1 - offset;
	if (is_upper && n_rows > n_columns - offset)
		n_rows = n_columns - offset;
	if (n_columns == 0)
		n_rows = 0;
	int64_t n = n_below_diagonal(n_rows, n_columns, offset);
	if (is_upper)
		n = n_rows * n_columns - n;
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ 2, n }, 2));
	struct et_view to;
	et_view_of(&to, out);
	int64_t at = 0;
	struct et_pace pace = { ctx->compute };
	for (int64_t row = first; row < n_rows && at < n && !et_pace_must_stop(&pace, 1); row++) {
		int64_t below = below_diagonal(row, n_columns, offset);
		int64_t end = is_upper ? n_columns : below;
		for (int64_t column = is_upper ? below : 0; column < end && !et_pace_must_stop(&pace, 1);
			column++, at++) {
			uint8_t *data = to.data + (size_t)(at * to.strides[1]) * et_element_bytes(out);
			store(data, 1, &row, 1);
			store(data + (size_t)to.strides[0] * et_element_bytes(out), 1, &column, 1);
		}
	}
	return ET_OK;
}
static const bool lower = false, upper = true;

static const struct et_kernel rows[] = {
	{ "aten::arange.out", "S>T", run_arange },
	{ "aten::arange.start_out", "SSS>T", run_arange_start },
	{ "aten::empty.out", "Vi>T", run_constant, &zero },
	{ "aten::empty_permuted.out", "VV>T", run_empty_laid_out, &sizes_first },
	{ "aten::empty_strided.out", "VV>T", run_empty_laid_out, &sizes_first },
	{ "aten::fill.Scalar_out", "TS>T", run_fill },
	{ "aten::fill.Tensor_out", "TT>T", run_fill_tensor },
	{ "aten::full.out", "VS>T", run_full },
	{ "aten::full_like.out", "TSi>T", run_full_like },
	{ "aten::new_empty_strided.out", "TVV>T", run_empty_laid_out, &sizes_second },
	{ "aten::ones.out", "V>T", run_constant, &one_value },
	{ "aten::scalar_tensor.out", "S>T", run_scalar_tensor },
	{ "aten::tril_indices.out", "III>T", run_triangle_indices, &lower },
	{ "aten::triu_indices.out", "III>T", run_triangle_indices, &upper },
	{ "aten::zeros.out", "V>T", run_constant, &zero },
	{ "dim_order_ops::_empty_dim_order.out", "Vv>T", run_constant, &zero },
};

ET_KERNEL_TABLE(fill);
