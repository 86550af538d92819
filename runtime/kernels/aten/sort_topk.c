/* SPDX-License-Identifier: BSD-3-Clause */
/* Ordering along one dimension: sort, topk, median.
 *
 * Each orders the indices of a line (dim_apply.h) by its values; NaN sorts above everything. sort is a stable merge
 * sort, as in PyTorch, and the median is the element that it would put in the middle. No document says which of several
 * equal values topk takes, and in which order. But programs are compared with ExecuTorch, which leaves this to the C++
 * library, libstdc++: introselect and introsort with these pivots, this limit on splits, and heaps behind it. So the
 * steps here are exactly those, and must not be replaced by others that sort as well. The lines are private copies of
 * the tensors' elements, which nobody changes meanwhile, so that each loop ends where it must. */
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/dim_apply.h"
#include "runtime/kernels/aten/view_copy.h"
#include "runtime/base/expand.h"

#include <math.h>

/* A line's number type and order are constants: everything below is compiled for each of the four combinations. */

enum order { ASCENDING = 0, DESCENDING = 1, INTS = 2 };

/* Whether index @a comes before @b. */
ET_EXPANDED bool comes_first(const struct et_dim_apply *line, int64_t a, int64_t b, enum order order)
{
	if (order & DESCENDING) {
		int64_t spare = a;
		a = b;
		b = spare;
	}
	if (order & INTS)
		return line->in_ints[a] < line->in_ints[b];
	double x = line->in[a], y = line->in[b];
	return x < y || (y != y && x == x);
}

enum { FEW = 16, N_SPLITS = 2 * 64 };

/* A run may end while a line is sorted, see et_must_stop. Its items are then in any order, but each is an index of the
 * line. */

/* Insert each item into those before it, behind equal ones. */
ET_EXPANDED void insert_sort(const struct et_dim_apply *line, int64_t *items, size_t n, enum order order)
{
	for (size_t i = 1; i < n && (n <= FEW || !et_pace_must_stop(line->pace, FEW)); i++) {
		int64_t item = items[i];
		size_t k = i;
		for (; k > 0 && comes_first(line, item, items[k - 1], order); k--)
			items[k] = items[k - 1];
		items[k] = item;
	}
}

enum { SHORT_RUN = 8 };

/* Sort @n indices; @spare has as much room. */
ET_EXPANDED void merge_sort(const struct et_dim_apply *line, int64_t *items, int64_t *spare, size_t n, enum order order)
{
	int64_t *from = items, *to = spare;
	for (size_t begin = 0; begin < n && !et_pace_must_stop(line->pace, SHORT_RUN); begin += SHORT_RUN)
		insert_sort(line, items + begin, n - begin < SHORT_RUN ? n - begin : SHORT_RUN, order);
	for (size_t width = SHORT_RUN; width < n; width *= 2) {
		for (size_t begin = 0; begin < n; begin += 2 * width) {
			size_t middle = begin + width < n ? begin + width : n;
			size_t end = middle + width < n ? middle + width : n;
			size_t k = begin, i = begin, j = middle;
			while (i < middle && j < end) {
				/* so many steps end neither of the two runs */
				size_t left = middle - i < end - j ? middle - i : end - j;
				size_t part_end = k + (left < ET_PACE_STEPS ? left : ET_PACE_STEPS);
				if (et_pace_must_stop(line->pace, part_end - k))
					return;
				while (k < part_end) {
					int64_t first = from[i], second = from[j];
					bool takes_second = comes_first(line, second, first, order);
					to[k++] = takes_second ? second : first;
					j += takes_second;
					i += !takes_second;
				}
			}
			memcpy(to + k, from + i, (middle - i) * sizeof(*from));
			memcpy(to + k + (middle - i), from + j, (end - j) * sizeof(*from));
		}
		int64_t *other = from;
		from = to;
		to = other;
	}
	if (from != items)
		memcpy(items, from, n * sizeof(*from));
}

static enum order order_of(const struct et_dim_apply *line, bool is_descending)
{
	return (enum order)((is_descending ? DESCENDING : ASCENDING) | (line->in_ints ? INTS : 0));
}

/* Call @call, a function whose last argument is the order. */
#define IN_ORDER(order, call, ...)                            \
	do {                                                  \
		switch (order) {                              \
		case ASCENDING:                               \
			call(__VA_ARGS__, ASCENDING);         \
			break;                                \
		case DESCENDING:                              \
			call(__VA_ARGS__, DESCENDING);        \
			break;                                \
		case INTS:                                    \
			call(__VA_ARGS__, INTS);              \
			break;                                \
		default:                                      \
			call(__VA_ARGS__, INTS | DESCENDING); \
			break;                                \
		}                                             \
	} while (0)

/* Set the indices to 0, 1, 2 … */
static void fill_indices(struct et_dim_apply *line)
{
	for (size_t i = 0; i < line->n; i++)
		line->index[i] = (int64_t)i;
}

/* The values of the first n_out indices. */
static void gather_values(struct et_dim_apply *line)
{
	for (size_t i = 0; i < line->n_out; i++) {
		if (line->in)
			line->out[i] = line->in[line->index[i]];
		else
			line->out_ints[i] = line->in_ints[line->index[i]];
	}
}

static void sort_indices(struct et_dim_apply *line, bool is_descending)
{
	/* the output's memory is free until the values are stored, so it is the spare room */
	int64_t *spare = line->in ? (int64_t *)line->out : line->out_ints;
	fill_indices(line);
	IN_ORDER(order_of(line, is_descending), merge_sort, line, line->index, spare, line->n);
}

static void sort(struct et_dim_apply *line)
{
	const bool *is_descending = line->arg;
	sort_indices(line, *is_descending);
	gather_values(line);
}

/* --- the C++ library's steps ------------------------------------------------------------------------------ */

static void swap(int64_t *a, int64_t *b)
{
	int64_t spare = *a;
	*a = *b;
	*b = spare;
}

/* Move the median of items[1], the middle and the last one to items[0], split the rest around it, and return where the
 * second part begins. */
ET_EXPANDED size_t split(const struct et_dim_apply *line, int64_t *items, size_t n, enum order order)
{
	int64_t *a = &items[1], *b = &items[n / 2], *c = &items[n - 1];
	if (comes_first(line, *a, *b, order))
		swap(items, comes_first(line, *b, *c, order) ? b : comes_first(line, *a, *c, order) ? c : a);
	else
		swap(items, comes_first(line, *a, *c, order) ? a : comes_first(line, *b, *c, order) ? c : b);
	for (size_t low = 1, high = n;; low++) {
		while (comes_first(line, items[low], items[0], order))
			low++;
		do
			high--;
		while (comes_first(line, items[0], items[high], order));
		if (low >= high || et_pace_must_stop(line->pace, 1))
			return low;
		swap(&items[low], &items[high]);
	}
}

/* Sink @item into the hole of a heap of @n, whose top is the item that comes last: all the way down, then up again. */
ET_EXPANDED void sink(const struct et_dim_apply *line, int64_t *heap, size_t hole, size_t n, int64_t item,
	enum order order)
{
	size_t top = hole, child = hole;
	while (child < (n - 1) / 2) {
		child = 2 * (child + 1);
		if (comes_first(line, heap[child], heap[child - 1], order))
			child--;
		heap[hole] = heap[child];
		hole = child;
	}
	if (n % 2 == 0 && child == (n - 2) / 2) {
		child = 2 * child + 1;
		heap[hole] = heap[child];
		hole = child;
	}
	for (; hole > top && comes_first(line, heap[(hole - 1) / 2], item, order); hole = (hole - 1) / 2)
		heap[hole] = heap[(hole - 1) / 2];
	heap[hole] = item;
}

/* Make a heap of the first @k of @n items. */
ET_EXPANDED void heap_select(const struct et_dim_apply *line, int64_t *items, size_t k, size_t n, enum order order)
{
	for (size_t parent = k / 2; parent-- > 0 && !et_pace_must_stop(line->pace, FEW);)
		sink(line, items, parent, k, items[parent], order);
	for (size_t i = k; i < n && !et_pace_must_stop(line->pace, 1); i++) {
		int64_t item = items[i];
		if (comes_first(line, item, items[0], order)) {
			items[i] = items[0];
			sink(line, items, 0, k, item, order);
		}
	}
}

ET_EXPANDED void heap_sort(const struct et_dim_apply *line, int64_t *items, size_t n, enum order order)
{
	while (n-- > 1 && !et_pace_must_stop(line->pace, FEW)) {
		int64_t item = items[n];
		items[n] = items[0];
		sink(line, items, 0, n, item, order);
	}
}

/* How often @n may be split in two before heaps take over. */
static size_t split_limit(size_t n)
{
	size_t limit = 0;
	while (n >>= 1)
		limit += 2;
	return limit;
}

/* Put item @k in its place, and everything that comes before it to its left. */
ET_EXPANDED void intro_select(const struct et_dim_apply *line, int64_t *items, size_t k, size_t n, enum order order)
{
	for (size_t limit = split_limit(n); n > 3 && !et_pace_must_stop(line->pace, n);) {
		if (limit-- == 0) {
			heap_select(line, items, k + 1, n, order);
			swap(items, items + k);
			return;
		}
		size_t at = split(line, items, n, order);
		if (at <= k) {
			items += at;
			n -= at;
			k -= at;
		} else {
			n = at;
		}
	}
	insert_sort(line, items, n, order);
}

ET_EXPANDED void intro_sort(const struct et_dim_apply *line, int64_t *items, size_t n, enum order order)
{
	struct {
		int64_t *items;
		size_t n, limit;
	} left[N_SPLITS], part = { items, n, split_limit(n) };
	for (size_t n_left = 0;; part = left[--n_left]) {
		while (part.n > FEW && part.limit > 0 && !et_pace_must_stop(line->pace, part.n)) {
			size_t at = split(line, part.items, part.n, order);
			part.limit--;
			left[n_left] = part;
			left[n_left++].n = at;
			part.items += at;
			part.n -= at;
		}
		if (part.n > FEW) {
			heap_select(line, part.items, part.n, part.n, order);
			heap_sort(line, part.items, part.n, order);
		}
		if (n_left == 0)
			break;
	}
	insert_sort(line, items, n, order);
}

/* --- functions of a line --------------------------------------------------------------------------------------- */

struct topk {
	bool is_descending, is_sorted;
};

/* The first k; in order if @is_sorted. */
ET_EXPANDED void topk_in(struct et_dim_apply *line, bool is_sorted, enum order order)
{
	size_t k = line->n_out;
	if (k * 64 <= line->n) {
		heap_select(line, line->index, k, line->n, order);
		heap_sort(line, line->index, k, order);
	} else {
		intro_select(line, line->index, k - 1, line->n, order);
		if (is_sorted)
			intro_sort(line, line->index, k - 1, order);
	}
}

static void topk(struct et_dim_apply *line)
{
	const struct topk *topk = line->arg;
	if (line->n_out == 0)
		return;
	fill_indices(line);
	IN_ORDER(order_of(line, topk->is_descending), topk_in, line, topk->is_sorted);
	gather_values(line);
}

/* The k-th index in order; of several equal values, the one that a stable sort would put there. */
ET_EXPANDED void select_one(struct et_dim_apply *line, size_t k, enum order order)
{
	size_t n_before = 0;
	fill_indices(line);
	intro_select(line, line->index, k, line->n, order);
	int64_t found = line->index[k];
	for (size_t i = 0; i < line->n; i++)
		n_before += comes_first(line, (int64_t)i, found, order);
	for (size_t i = 0, left = k - n_before + 1; left; i++) {
		left -= !comes_first(line, (int64_t)i, found, order) && !comes_first(line, found, (int64_t)i, order);
		line->index[0] = (int64_t)i;
	}
}

/* The lower one of the two in the middle; if NaN counts, the first NaN. */
static void median(struct et_dim_apply *line)
{
	const bool *skips_nan = line->arg;
	size_t n = line->n;
	for (size_t i = 0; line->in && i < line->n; i++)
		n -= line->in[i] != line->in[i];
	size_t middle = n < line->n && !*skips_nan ? n : n ? (n - 1) / 2 : 0;
	IN_ORDER(order_of(line, false), select_one, line, middle);
	gather_values(line);
}

/* --- kernels ------------------------------------------------------------------------------------------- */

static enum et_status run_topk(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct topk options = { .is_descending = args[3]->b, .is_sorted = args[4]->b };
	struct et_dim_apply_lines lines = {
		.fn = topk,
		.takes_ints = true,
		.self = self,
		.n_out = args[1]->i,
		.keepdim = true,
		.out = args[5]->tensor,
		.indices = args[6]->tensor,
		.arg = &options,
	};
	ET_TRY(et_get_dim(ctx, args[2]->i, self->n_dims, &lines.dim));
	int64_t n = self->n_dims ? self->sizes[lines.dim] : 1;
	ET_REQUIRE(ctx, lines.n_out >= 0 && lines.n_out <= n, "k is %lld, the dimension has %lld elements",
		(long long)lines.n_out, (long long)n);
	if (self->n_dims == 0)
		lines.n_out = 1; /* a 0-dimensional tensor always gives its element */
	return et_dim_apply_run(ctx, &lines);
}

static enum et_status run_sort(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	bool is_descending = args[2]->b;
	struct et_dim_apply_lines lines = {
		.fn = sort,
		.takes_ints = true,
		.self = self,
		.keepdim = true,
		.out = args[3]->tensor,
		.indices = args[4]->tensor,
		.arg = &is_descending,
	};
	ET_TRY(et_get_dim(ctx, args[1]->i, self->n_dims, &lines.dim));
	lines.n_out = self->n_dims ? self->sizes[lines.dim] : 1;
	return et_dim_apply_run(ctx, &lines);
}

static enum et_status run_median_dim(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_dim_apply_lines lines = {
		.fn = median,
		.arg = ctx->kernel->row,
		.takes_ints = true,
		.self = self,
		.n_out = 1,
		.keepdim = args[2]->b,
		.out = args[3]->tensor,
		.indices = args[4]->tensor,
	};
	ET_TRY(et_get_dim(ctx, args[1]->i, self->n_dims, &lines.dim));
	ET_REQUIRE(ctx, self->n_dims == 0 || self->sizes[lines.dim] > 0, "the reduced dimensions are empty");
	return et_dim_apply_run(ctx, &lines);
}

/* The median of all elements: the tensor as one line. */
static enum et_status run_median(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor flat = *args[0]->tensor;
	size_t numel = et_tensor_numel(&flat);
	ET_REQUIRE(ctx, numel <= INT32_MAX && (numel > 0 || et_type_is_float(flat.type)), "a median of %zu elements",
		numel);
	if (numel == 0) {
		ET_TRY(et_resize(ctx, args[1]->tensor, NULL, 0));
		return et_fill(ctx, args[1]->tensor, &(const struct et_evalue){ .tag = ET_TAG_DOUBLE, .d = NAN });
	}
	flat.n_dims = 1;
	flat.sizes = (int32_t[]){ (int32_t)numel };
	flat.strides = (int32_t[]){ 1 };
	struct et_dim_apply_lines lines = {
		.fn = median,
		.arg = ctx->kernel->row,
		.takes_ints = true,
		.self = &flat,
		.n_out = 1,
		.out = args[1]->tensor,
	};
	return et_dim_apply_run(ctx, &lines);
}

static const bool counts_nan = false, skips_nan = true;
static const struct et_kernel rows[] = {
	{ "aten::median.dim_values", "TIB>TT", run_median_dim, &counts_nan },
	{ "aten::median.out", "T>T", run_median, &counts_nan },
	{ "aten::nanmedian.dim_values", "TIB>TT", run_median_dim, &skips_nan },
	{ "aten::nanmedian.out", "T>T", run_median, &skips_nan },
	{ "aten::sort.values", "TIB>TT", run_sort, NULL },
	{ "aten::topk.values", "TIIBB>TT", run_topk, NULL },
};

ET_KERNEL_TABLE(sort_topk);
