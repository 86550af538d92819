/* SPDX-License-Identifier: BSD-3-Clause */
/* Insertion points in a sorted row: searchsorted, bucketize.
 *
 * Integers are compared as integers, everything else as doubles. NaN sorts behind all numbers, as in PyTorch. Rows,
 * values and the sorter may lie in memory that a client changes, so only private copies are used. For a row that is not
 * sorted, the result is some position, but always within the row. */
#include "runtime/kernels/engine/index_copy.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/base/expand.h"

struct rows {
	const void *sorted; /* rows of @n numbers, one after another; a single row serves all values if @is_shared */
	const int64_t *sorter;
	int64_t n;
	bool is_shared, is_double, is_right;
	struct et_pace *pace;
};

/* Constants of a search, so that the loop is compiled for each combination. */
enum kind { IS_RIGHT = 1, IS_DOUBLE = 2, HAS_SORTER = 4 };

/* Whether @value belongs behind element @at of the row that starts at @row. */
ET_EXPANDED bool is_behind(const struct rows *rows, int64_t row, int64_t at, const void *value, unsigned kind)
{
	at = row + (kind & HAS_SORTER ? rows->sorter[row + at] : at);
	if (!(kind & IS_DOUBLE)) {
		int64_t element = ((const int64_t *)rows->sorted)[at], v = *(const int64_t *)value;
		return kind & IS_RIGHT ? element <= v : element < v;
	}
	double element = ((const double *)rows->sorted)[at], v = *(const double *)value;
	return kind & IS_RIGHT ? !(element > v) : !(element >= v);
}

/* Binary search. It halves the rest in every step, so no branch depends on the data. The steps are PyTorch's, because
 * they decide the result among NaNs and in rows that are not sorted. */
ET_EXPANDED int64_t position(const struct rows *rows, int64_t row, const void *value, unsigned kind)
{
	int64_t low = 0;
	for (int64_t left = rows->n; left > 0;) {
		int64_t half = left / 2, rest = left - half - 1;
		int64_t is_in_upper = -(int64_t)is_behind(rows, row, low + half, value, kind); /* a mask */
		low += (half + 1) & is_in_upper;
		left = half + ((rest - half) & is_in_upper);
	}
	return low;
}

ET_EXPANDED void find_all(const struct rows *rows, const uint8_t *wanted, int64_t *found, size_t n, size_t n_each,
	unsigned kind)
{
	int64_t row = 0;
	for (size_t i = 0, k = 0; i < n && !et_pace_must_stop(rows->pace, 64); i++, k++) {
		if (k == n_each && !rows->is_shared) {
			k = 0;
			row += rows->n;
		}
		found[i] = position(rows, row, wanted + i * sizeof(int64_t), kind);
	}
}

#define FIND_ALL(kind)                                          \
	case kind:                                              \
		find_all(rows, wanted, found, n, n_each, kind); \
		break
static void find_all_of_kind(const struct rows *rows, const uint8_t *wanted, int64_t *found, size_t n, size_t n_each)
{
	switch ((rows->is_right ? IS_RIGHT : 0) | (rows->is_double ? IS_DOUBLE : 0) | (rows->sorter ? HAS_SORTER : 0)) {
		FIND_ALL(0);
		FIND_ALL(1);
		FIND_ALL(2);
		FIND_ALL(3);
		FIND_ALL(4);
		FIND_ALL(5);
		FIND_ALL(6);
		FIND_ALL(7);
	}
}

static enum et_status read_sorter(struct et_kernel_ctx *ctx, struct rows *rows, const struct et_tensor *sorted,
	const struct et_tensor *sorter)
{
	struct et_view view;
	ET_TRY(et_require_type(ctx, sorter, ET_INT64, "the sorter"));
	ET_REQUIRE(ctx, sorter->n_dims == sorted->n_dims, "a sorter of rank %u", sorter->n_dims);
	for (size_t d = 0; d < sorted->n_dims; d++)
		ET_REQUIRE(ctx, sorter->sizes[d] == sorted->sizes[d], "a sorter of size %d in dimension %zu",
			sorter->sizes[d], d);
	rows->sorter = et_local_copy(ctx, sorter, ET_INT64, &view);
	if (!rows->sorter)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t i = 0, n = et_tensor_numel(sorter); i < n; i++)
		ET_REQUIRE(ctx, rows->sorter[i] >= 0 && rows->sorter[i] < rows->n, "index %lld of %lld",
			(long long)rows->sorter[i], (long long)rows->n);
	return ET_OK;
}

static enum et_status search_rows(struct et_kernel_ctx *ctx, struct rows *rows, const struct et_tensor *sorted,
	const struct et_evalue *sorter, const struct et_tensor *values, bool is_int32, struct et_tensor *out)
{
	struct et_view view, to;
	ET_TRY(et_require_type(ctx, out, is_int32 ? ET_INT32 : ET_INT64, "the output"));
	ET_REQUIRE(ctx, sorted->n_dims >= 1, "a sorted sequence of rank 0");
	rows->n = sorted->sizes[sorted->n_dims - 1];
	rows->is_shared = sorted->n_dims == 1;
	rows->is_double = et_type_is_float(sorted->type) || et_type_is_float(values->type);
	if (!rows->is_shared) {
		ET_REQUIRE(ctx, values->n_dims == sorted->n_dims, "ranks %u and %u", sorted->n_dims, values->n_dims);
		for (size_t d = 0; d + 1 < sorted->n_dims; d++)
			ET_REQUIRE(ctx, sorted->sizes[d] == values->sizes[d], "sizes differ in dimension %zu", d);
	}
	enum et_scalar_type type = rows->is_double ? ET_FLOAT64 : ET_INT64;
	rows->sorted = et_local_copy(ctx, sorted, type, &view);
	if (!rows->sorted)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	if (sorter && !et_is_none(sorter))
		ET_TRY(read_sorter(ctx, rows, sorted, sorter->tensor));
	const uint8_t *wanted = et_local_copy(ctx, values, type, &view);
	int64_t *found = et_kernel_scratch(ctx, et_tensor_numel(values) * sizeof(*found) + 1);
	if (!wanted || !found)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	ET_TRY(et_resize_like(ctx, out, values));
	struct et_pace pace = { ctx->compute };
	rows->pace = &pace;
	size_t n_each = values->n_dims ? (size_t)values->sizes[values->n_dims - 1] : 1;
	find_all_of_kind(rows, wanted, found, et_tensor_numel(values), n_each);
	view.data = (uint8_t *)found;
	view.type = ET_INT64;
	et_view_of(&to, out);
	return et_view_cast(ctx, &to, &view);
}

/* sorted sequence, values, out_int32, right, side, sorter > out */
static enum et_status run_searchsorted(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct rows rows = { .is_right = args[3]->b };
	if (!et_is_none(args[4])) {
		bool is_right = et_string_is(args[4], "right");
		ET_REQUIRE(ctx, is_right || et_string_is(args[4], "left"), "side must be 'left' or 'right'");
		ET_REQUIRE(ctx, is_right || !rows.is_right, "side is 'left' but right is true");
		rows.is_right = is_right;
	}
	return search_rows(ctx, &rows, args[0]->tensor, args[5], args[1]->tensor, args[2]->b, args[6]->tensor);
}

/* values, boundaries, out_int32, right > out */
static enum et_status run_bucketize(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct rows rows = { .is_right = args[3]->b };
	ET_REQUIRE(ctx, args[1]->tensor->n_dims == 1, "boundaries of rank %u", args[1]->tensor->n_dims);
	return search_rows(ctx, &rows, args[1]->tensor, NULL, args[0]->tensor, args[2]->b, args[4]->tensor);
}

static const struct et_kernel rows[] = {
	{ "aten::bucketize.Tensor_out", "TTBB>T", run_bucketize },
	{ "aten::searchsorted.Tensor_out", "TTBBct>T", run_searchsorted },
};

ET_KERNEL_TABLE(searchsorted);
