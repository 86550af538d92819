/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that reduce groups of rows: _embedding_bag (sum, mean or maximum of the rows of each bag) and index_reduce
 * (rows of one tensor combined into rows of another). Indices are used from private copies only. */
#include "runtime/kernels/engine/index_copy.h"
#include "runtime/kernels/kernels.h"

#include <math.h>

enum bag_mode { BAG_SUM, BAG_MEAN, BAG_MAX };

struct bags {
	const struct et_tensor *weight, *factors;
	const int64_t *indices, *offsets;
	size_t n_indices, n_bags;
	int64_t padding;
	enum bag_mode mode;
};

enum { COLUMNS = 256 };

/* Reduce @n columns, starting at @column, of the rows that indices [begin, end) name. Returns how many rows counted;
 * @ret_rows: the row with the maximum, for each column. */
static int64_t reduce_bag(const struct bags *b, size_t begin, size_t end, size_t column, size_t n, double *results,
	int64_t *ret_rows)
{
	double row_numbers[COLUMNS];
	size_t bytes = et_element_bytes(b->weight), width = (size_t)b->weight->sizes[1];
	et_load_fn load = et_loader(b->weight->type, ET_F64);
	int64_t n_rows = 0;
	for (size_t k = 0; k < n; k++) {
		results[k] = 0;
		ret_rows[k] = 0;
	}
	for (size_t i = begin; i < end; i++) {
		int64_t row = b->indices[i];
		if (row == b->padding)
			continue;
		load(row_numbers, (const uint8_t *)b->weight->data + ((size_t)row * width + column) * bytes, 1, n);
		if (b->factors) {
			double factor = et_element_get_double((const uint8_t *)b->factors->data +
								      i * et_element_bytes(b->factors),
				b->factors->type);
			for (size_t k = 0; k < n; k++)
				row_numbers[k] *= factor;
		}
		for (size_t k = 0; k < n && b->mode != BAG_MAX; k++)
			results[k] += row_numbers[k];
		for (size_t k = 0; k < n && b->mode == BAG_MAX; k++) {
			bool is_better = n_rows == 0 || row_numbers[k] > results[k];
			results[k] = is_better ? row_numbers[k] : results[k];
			ret_rows[k] = is_better ? row : ret_rows[k];
		}
		n_rows++;
	}
	for (size_t k = 0; k < n && b->mode == BAG_MEAN && n_rows; k++)
		results[k] /= (double)n_rows;
	return n_rows;
}

/* Outputs that only training reads. Their sizes are the ones PyTorch plans; for some sums it takes a short path that
 * does not fill the bag of each index. */
static enum et_status size_side_outputs(struct et_kernel_ctx *ctx, const struct bags *b, struct et_evalue *const *outs,
	int64_t n_columns)
{
	bool is_short = b->mode == BAG_SUM && b->padding < 0 &&
			(b->weight->type == ET_FLOAT32 || b->weight->type == ET_FLOAT16);
	for (size_t k = 1; k < 4; k++)
		ET_TRY(et_require_type(ctx, outs[k]->tensor, ET_INT64, "a side output"));
	ET_TRY(et_resize(ctx, outs[1]->tensor, (const int64_t[]){ is_short ? 0 : (int64_t)b->n_indices }, 1));
	ET_TRY(et_resize(ctx, outs[2]->tensor, (const int64_t[]){ (int64_t)b->n_bags }, 1));
	return et_resize(ctx, outs[3]->tensor, (const int64_t[]){ (int64_t)b->n_bags, n_columns },
		b->mode == BAG_MAX ? 2 : 1);
}

static enum et_status read_bags(struct et_kernel_ctx *ctx, struct et_evalue *const *args, struct bags *b)
{
	struct et_view view;
	const struct et_tensor *indices = args[1]->tensor, *offsets = args[2]->tensor;
	ET_REQUIRE(ctx,
		et_type_is_integral(indices->type) && et_type_is_integral(offsets->type) && indices->n_dims == 1 &&
			offsets->n_dims == 1,
		"takes lists of indices and offsets");
	b->n_indices = et_tensor_numel(indices);
	b->n_bags = et_tensor_numel(offsets);
	ET_REQUIRE(ctx, !args[7]->b || b->n_bags > 0, "include_last_offset without offsets");
	b->n_bags -= args[7]->b ? 1 : 0;
	b->indices = et_local_copy(ctx, indices, ET_INT64, &view);
	b->offsets = et_local_copy(ctx, offsets, ET_INT64, &view);
	if (!b->indices || !b->offsets)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t i = 0; i < b->n_indices; i++)
		ET_REQUIRE(ctx, b->indices[i] >= 0 && b->indices[i] < b->weight->sizes[0], "index %lld of %d",
			(long long)b->indices[i], b->weight->sizes[0]);
	for (size_t i = 0; i < b->n_bags; i++)
		ET_REQUIRE(ctx, b->offsets[i] >= (i ? b->offsets[i - 1] : 0) && b->offsets[i] <= (int64_t)b->n_indices,
			"offset %lld of %zu indices", (long long)b->offsets[i], b->n_indices);
	return ET_OK;
}

/* weight, indices, offsets, scale gradient, mode, sparse, factors or None, include last offset, padding index > out,
 * bag of each index, size of each bag, rows of the maximum */
static enum et_status run_embedding_bag(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_evalue *const *outs = args + 9;
	struct et_tensor *out = outs[0]->tensor;
	struct bags b = {
		.weight = args[0]->tensor,
		.factors = et_is_none(args[6]) ? NULL : args[6]->tensor,
		.padding = args[8]->i,
		.mode = (enum bag_mode)args[4]->i,
	};
	ET_REQUIRE(ctx, b.weight->n_dims == 2 && et_type_is_float(b.weight->type), "a weight of %s, rank %u",
		et_scalar_name(b.weight->type), b.weight->n_dims);
	ET_REQUIRE(ctx, args[4]->i >= BAG_SUM && args[4]->i <= BAG_MAX, "mode %lld", (long long)args[4]->i);
	ET_TRY(et_require_same_type(ctx, b.weight, out));
	ET_TRY(et_require_contiguous(ctx, b.weight, "the weight"));
	ET_TRY(read_bags(ctx, args, &b));
	ET_REQUIRE(ctx, !b.factors || (et_tensor_numel(b.factors) == b.n_indices && et_type_is_float(b.factors->type)),
		"per_sample_weights do not fit the indices");
	int64_t n_columns = b.weight->sizes[1];
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ (int64_t)b.n_bags, n_columns }, 2));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	ET_TRY(size_side_outputs(ctx, &b, outs, n_columns));
	int64_t *bag_of = outs[1]->tensor->data, *sizes = outs[2]->tensor->data, *largest = outs[3]->tensor->data;
	/* some indices may belong to no bag */
	et_fill_many(ctx->compute, outs[1]->tensor->data, &(const uint8_t){ 0 }, et_tensor_n_bytes(outs[1]->tensor), 1);
	struct et_pace pace = { ctx->compute };
	for (size_t bag = 0; bag < b.n_bags && !et_pace_must_stop(&pace, 1); bag++) {
		size_t begin = (size_t)b.offsets[bag];
		size_t end = bag + 1 < b.n_bags || args[7]->b ? (size_t)b.offsets[bag + 1] : b.n_indices;
		int64_t n = 0, rows_of[COLUMNS];
		end = end < b.n_indices ? end : b.n_indices;
		const size_t n_steps = ((end > begin ? end - begin : 0) + 1) * COLUMNS;
		for (size_t column = 0, part; column < (size_t)n_columns && !et_pace_must_stop(&pace, n_steps);
			column += part) {
			double results[COLUMNS];
			size_t at = bag * (size_t)n_columns + column;
			part = (size_t)n_columns - column < COLUMNS ? (size_t)n_columns - column : COLUMNS;
			n = reduce_bag(&b, begin, end, column, part, results, rows_of);
			et_storer(out->type, ET_F64)((uint8_t *)out->data + at * et_element_bytes(out), 1, results,
				part);
			if (b.mode == BAG_MAX)
				memcpy(largest + at, rows_of, part * sizeof(*rows_of));
		}
		for (size_t i = begin; et_tensor_n_bytes(outs[1]->tensor) && i < end; i++)
			bag_of[i] = (int64_t)bag;
		sizes[bag] = b.mode == BAG_SUM ? 0 : n;
		if (b.mode != BAG_MAX)
			largest[bag] = sizes[bag];
	}
	return ET_OK;
}

/* --- index_reduce --------------------------------------------------------------------------------------------- */

enum reduction { REDUCE_PROD, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN, N_REDUCTIONS };

static double reduce(enum reduction reduction, double a, double b)
{
	switch (reduction) {
	case REDUCE_PROD:
		return a * b;
	case REDUCE_MEAN:
		return a + b;
	case REDUCE_MAX:
		return a != a || a > b ? a : b;
	default:
		return a != a || a < b ? a : b;
	}
}

static int64_t reduce_ints(enum reduction reduction, int64_t a, int64_t b)
{
	switch (reduction) {
	case REDUCE_PROD:
		return (int64_t)((uint64_t)a * (uint64_t)b);
	case REDUCE_MEAN:
		return (int64_t)((uint64_t)a + (uint64_t)b);
	case REDUCE_MAX:
		return a > b ? a : b;
	default:
		return a < b ? a : b;
	}
}

/* Combine every row of @from along @dim into the row of @sum that its index names, and count them. Both are copies of
 * elements of @type: floats as double, rounded to the type after each step; integers as int64, wrapped to it. */
static void reduce_rows(struct et_view *sum, const struct et_view *from, size_t dim, const int64_t *indices,
	enum reduction reduction, int64_t *counts, enum et_scalar_type type, struct et_pace *pace)
{
	for (int64_t i = 0; i < from->sizes[dim]; i++) {
		struct et_view to, row;
		struct et_walk walk;
		struct et_place place;
		bool is_first = counts[indices[i]]++ == 0;
		et_view_clone(&to, sum);
		et_view_clone(&row, from);
		et_view_select(&to, dim, indices[i]);
		et_view_select(&row, dim, i);
		et_walk_init(&walk, (const struct et_view *[]){ &to, &row }, 2);
		et_place_seek(&place, &walk, 0);
		for (size_t k = 0; k < walk.numel && !et_pace_must_stop(pace, 1); k++) {
			if (to.type == ET_INT64) {
				int64_t *a = (int64_t *)to.data + place.offset[0];
				int64_t b = ((const int64_t *)row.data)[place.offset[1]];
				*a = is_first ? b : et_wrap(reduce_ints(reduction, *a, b), type);
			} else {
				double *a = (double *)to.data + place.offset[0];
				double b = ((const double *)row.data)[place.offset[1]];
				*a = is_first ? b : et_round_to(reduce(reduction, *a, b), type);
			}
			et_place_advance(&place, &walk, 1);
		}
	}
}

/* self, dim, index, source, reduction, include self > out */
static enum et_status run_index_reduce(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const char *const names[N_REDUCTIONS] = { "prod", "mean", "amax", "amin" };
	const struct et_tensor *self = args[0]->tensor, *index = args[2]->tensor, *source = args[3]->tensor;
	struct et_tensor *out = args[6]->tensor;
	struct et_view sum, from, to, view;
	size_t dim;
	enum reduction reduction = 0;
	while (reduction < N_REDUCTIONS && !et_string_is(args[4], names[reduction]))
		reduction++;
	ET_REQUIRE(ctx, reduction < N_REDUCTIONS, "reduce must be 'prod', 'mean', 'amax' or 'amin'");
	ET_TRY(et_require_same_type(ctx, self, source));
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_REQUIRE(ctx, index->n_dims <= 1 && et_type_is_integral(index->type), "an index of %s",
		et_scalar_name(index->type));
	ET_TRY(et_get_dim(ctx, args[1]->i, self->n_dims, &dim));
	const int64_t *indices = et_local_copy(ctx, index, ET_INT64, &view);
	enum et_scalar_type type = et_type_is_float(self->type) ? ET_FLOAT64 : ET_INT64;
	if (!indices || !et_local_copy(ctx, self, type, &sum) || !et_local_copy(ctx, source, type, &from))
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (struct et_view *v = &sum; v; v = v == &sum ? &from : NULL) {
		if (v->n_dims == 0)
			et_view_insert(v, 0, 1, 1);
	}
	ET_REQUIRE(ctx, from.n_dims == sum.n_dims && from.sizes[dim] == (int64_t)et_tensor_numel(index),
		"the source does not fit the index");
	for (size_t d = 0; d < sum.n_dims; d++)
		ET_REQUIRE(ctx, d == dim || from.sizes[d] == sum.sizes[d], "sizes differ in dimension %zu", d);
	int64_t n = sum.sizes[dim];
	int64_t *counts = et_kernel_scratch(ctx, (size_t)n * sizeof(*counts) + 1);
	if (!counts)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (int64_t i = 0; i < n; i++)
		counts[i] = args[5]->b ? 1 : 0;
	for (size_t i = 0; i < et_tensor_numel(index); i++)
		ET_REQUIRE(ctx, indices[i] >= 0 && indices[i] < n, "index %lld of %lld", (long long)indices[i],
			(long long)n);
	struct et_pace pace = { ctx->compute };
	reduce_rows(&sum, &from, dim, indices, reduction, counts, self->type, &pace);
	for (int64_t i = 0; reduction == REDUCE_MEAN && i < n; i++) {
		struct et_view row;
		et_view_clone(&row, &sum);
		et_view_select(&row, dim, i);
		struct et_walk walk;
		struct et_place place;
		et_walk_init(&walk, (const struct et_view *[]){ &row }, 1);
		et_place_seek(&place, &walk, 0);
		for (size_t k = 0; counts[i] > 1 && k < walk.numel; k++) {
			if (type == ET_INT64) {
				int64_t *element = (int64_t *)row.data + place.offset[0];
				int64_t rest = *element % counts[i];
				*element = *element / counts[i] - (rest < 0);
			} else {
				((double *)row.data)[place.offset[0]] /= (double)counts[i];
			}
			et_place_advance(&place, &walk, 1);
		}
	}
	ET_TRY(et_resize_like(ctx, out, self));
	et_view_of(&to, out);
	if (to.n_dims == 0)
		et_view_remove(&sum, 0);
	return et_cast_view_to_output(ctx, &sum, out);
}

static const struct et_kernel rows[] = {
	{ "aten::_embedding_bag.out", "TTTBIBtBI>TTTT", run_embedding_bag },
	{ "aten::_embedding_bag_forward_only.out", "TTTBIBtBI>TTTT", run_embedding_bag },
	{ "aten::index_reduce.out", "TITTCB>T", run_index_reduce },
};

ET_KERNEL_TABLE(embedding_bag);
