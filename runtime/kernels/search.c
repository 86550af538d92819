/* Where numbers would stand in a sorted row: searchsorted, bucketize.
 *
 * Integers are compared as integers, anything else as doubles. A NaN stands behind all numbers, as in PyTorch.
 * Rows, what is searched for and the sorter may lie in memory that a client changes, so that only local copies
 * are used; a row that is not sorted gives some position, but always one of the row. */
#include "runtime/kernels/index.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/map.h"

struct rows {
	const void
		*sorted; /* rows of @n, one after the other; a single one serves all values if @is_shared */
	const int64_t *sorter;
	int64_t n;
	bool is_shared, is_double, is_right;
};

/* Whether @value stands behind element @at of the row that begins at @row. */
static bool is_behind(const struct rows *rows, int64_t row, int64_t at, const void *value)
{
	at = row + (rows->sorter ? rows->sorter[row + at] : at);
	if (!rows->is_double) {
		int64_t element = ((const int64_t *)rows->sorted)[at], v = *(const int64_t *)value;
		return rows->is_right ? element <= v : element < v;
	}
	double element = ((const double *)rows->sorted)[at], v = *(const double *)value;
	return rows->is_right ? !(element > v) : !(element >= v);
}

static int64_t position(const struct rows *rows, int64_t row, const void *value)
{
	int64_t low = 0, high = rows->n;
	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		if (is_behind(rows, row, middle, value))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static enum et_status read_sorter(struct et_kernel_ctx *ctx, struct rows *rows,
	const struct et_tensor *sorted, const struct et_tensor *sorter)
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
	for (size_t i = 0; i < et_tensor_numel(sorter); i++)
		ET_REQUIRE(ctx, rows->sorter[i] >= 0 && rows->sorter[i] < rows->n, "index %lld of %lld",
			(long long)rows->sorter[i], (long long)rows->n);
	return ET_OK;
}

static enum et_status search(struct et_kernel_ctx *ctx, struct rows *rows, const struct et_tensor *sorted,
	const struct et_evalue *sorter, const struct et_tensor *values, bool is_int32, struct et_tensor *out)
{
	struct et_view view, to;
	ET_TRY(et_require_type(ctx, out, is_int32 ? ET_INT32 : ET_INT64, "the output"));
	ET_REQUIRE(ctx, sorted->n_dims >= 1, "a sorted sequence of rank 0");
	rows->n = sorted->sizes[sorted->n_dims - 1];
	rows->is_shared = sorted->n_dims == 1;
	rows->is_double = et_type_is_float(sorted->type) || et_type_is_float(values->type);
	if (!rows->is_shared) {
		ET_REQUIRE(ctx, values->n_dims == sorted->n_dims, "ranks %u and %u", sorted->n_dims,
			values->n_dims);
		for (size_t d = 0; d + 1 < sorted->n_dims; d++)
			ET_REQUIRE(ctx, sorted->sizes[d] == values->sizes[d], "sizes differ in dimension %zu",
				d);
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
	size_t n_each = values->n_dims ? (size_t)values->sizes[values->n_dims - 1] : 1;
	for (size_t i = 0; i < et_tensor_numel(values); i++) {
		int64_t row = rows->is_shared ? 0 : (int64_t)(i / n_each) * rows->n;
		found[i] = position(rows, row, wanted + i * sizeof(int64_t));
	}
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
		ET_REQUIRE(ctx, is_right || !rows.is_right, "side 'left' and right");
		rows.is_right = is_right;
	}
	return search(ctx, &rows, args[0]->tensor, args[5], args[1]->tensor, args[2]->b, args[6]->tensor);
}

/* values, boundaries, out_int32, right > out */
static enum et_status run_bucketize(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct rows rows = { .is_right = args[3]->b };
	ET_REQUIRE(ctx, args[1]->tensor->n_dims == 1, "boundaries of rank %u", args[1]->tensor->n_dims);
	return search(ctx, &rows, args[1]->tensor, NULL, args[0]->tensor, args[2]->b, args[4]->tensor);
}

static const struct et_kernel rows[] = {
	{ "aten::bucketize.Tensor_out", "TTBB>T", run_bucketize },
	{ "aten::searchsorted.Tensor_out", "TTBBct>T", run_searchsorted },
};

ET_KERNEL_TABLE(search);
