/* Operators along one dimension: softmax, cumulative sums and products, sorting, the k largest, the median.
 *
 * Each is a function of one line (line.h). Sorting orders indices by merging, which is stable, with NaN
 * above everything, as in PyTorch. Softmax of floats has a way of its own over the tensor as it lies (hot.c), for which
 * the function of a line is the reference. */
#include "runtime/compute.h"
#include "runtime/kernels/hot.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/line.h"
#include "runtime/kernels/shape.h"

#include <math.h>

static double exponential(const struct et_line *line, double x)
{
	return line->is_single ? (double)expf((float)x) : exp(x);
}

static double largest(const struct et_line *line)
{
	double most = -INFINITY;
	for (size_t i = 0; i < line->n; i++)
		most = line->in[i] > most || line->in[i] != line->in[i] ? line->in[i] : most;
	return most;
}

static void softmax(struct et_line *line)
{
	double most = largest(line), sum = 0;
	for (size_t i = 0; i < line->n; i++) {
		line->out[i] = exponential(line, line->in[i] - most);
		sum += line->out[i];
	}
	for (size_t i = 0; i < line->n; i++)
		line->out[i] /= sum;
}

/* Of half types along the innermost dimension, PyTorch (and the original, which took it from there) keeps the sum and
 * its logarithm in the type; @line->arg then says which. */
static void log_softmax(struct et_line *line)
{
	double most = largest(line), sum = 0;
	for (size_t i = 0; i < line->n; i++)
		sum += exponential(line, line->in[i] - most);
	double rest = log(sum);
	if (line->arg) {
		enum et_scalar_type type = *(const uint8_t *)line->arg;
		rest = et_round_to(log(et_round_to(sum, type)), type);
	}
	for (size_t i = 0; i < line->n; i++)
		line->out[i] = line->in[i] - most - rest;
}

static void cumsum(struct et_line *line)
{
	double sum = 0;
	int64_t sum_ints = 0;
	for (size_t i = 0; i < line->n; i++) {
		if (line->in && line->arg)
			line->out[i] = sum = et_round_to(sum + line->in[i], *(const uint8_t *)line->arg);
		else if (line->in)
			line->out[i] = sum += line->in[i];
		else
			line->out_ints[i] = sum_ints += line->in_ints[i];
	}
}

static void cumprod(struct et_line *line)
{
	double product = 1;
	int64_t product_ints = 1;
	for (size_t i = 0; i < line->n; i++) {
		if (line->in)
			line->out[i] = product *= line->in[i];
		else
			line->out_ints[i] = product_ints *= line->in_ints[i];
	}
}

/* --- order --------------------------------------------------------------------------------------------- */

/* Which numbers a line has and which way it goes is the same for all of it: what follows is made for each of the four. */
#define INLINE static inline __attribute__((always_inline))

enum order { ASCENDING = 0, DESCENDING = 1, INTS = 2 };

/* Whether index @a comes before @b. */
INLINE bool comes_first(const struct et_line *line, int64_t a, int64_t b, enum order order)
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

/* @n indices in order, with as much @spare memory. */
INLINE void merge_sort(const struct et_line *line, int64_t *items, int64_t *spare, size_t n, enum order order)
{
	int64_t *from = items, *to = spare;
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t begin = 0; begin < n; begin += 2 * width) {
			size_t middle = begin + width < n ? begin + width : n;
			size_t end = middle + width < n ? middle + width : n;
			for (size_t k = begin, i = begin, j = middle; k < end; k++) {
				bool takes_right = i == middle ||
						   (j < end && comes_first(line, from[j], from[i], order));
				to[k] = takes_right ? from[j++] : from[i++];
			}
		}
		int64_t *other = from;
		from = to;
		to = other;
	}
	if (from != items)
		memcpy(items, from, n * sizeof(*from));
}

/* The memory of the output, which gets its values last. */
static int64_t *spare_of(const struct et_line *line)
{
	return line->in ? (int64_t *)line->out : line->out_ints;
}

static enum order order_of(const struct et_line *line, bool is_descending)
{
	return (enum order)((is_descending ? DESCENDING : ASCENDING) | (line->in_ints ? INTS : 0));
}

/* @call of a function that takes the order last. */
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

/* Indices of the line in order, into line->index. The output's memory serves as the other half. */
static void sort_indices(struct et_line *line, bool is_descending)
{
	for (size_t i = 0; i < line->n; i++)
		line->index[i] = (int64_t)i;
	IN_ORDER(order_of(line, is_descending), merge_sort, line, line->index, spare_of(line), line->n);
}

/* The values at the first n_out indices. */
static void take_values(struct et_line *line)
{
	for (size_t i = 0; i < line->n_out; i++) {
		if (line->in)
			line->out[i] = line->in[line->index[i]];
		else
			line->out_ints[i] = line->in_ints[line->index[i]];
	}
}

static void sort(struct et_line *line)
{
	const bool *is_descending = line->arg;
	sort_indices(line, *is_descending);
	take_values(line);
}

/* The first few of the sorted line without sorting the rest. */
INLINE void select_first(struct et_line *line, enum order order)
{
	size_t n_found = 0;
	for (size_t i = 0; i < line->n; i++) {
		int64_t index = (int64_t)i;
		size_t at = n_found < line->n_out ? n_found++ : line->n_out;
		if (at == line->n_out && !comes_first(line, index, line->index[--at], order))
			continue;
		for (; at > 0 && comes_first(line, index, line->index[at - 1], order); at--)
			line->index[at] = line->index[at - 1];
		line->index[at] = index;
	}
	take_values(line);
}

static void swap(int64_t *a, int64_t *b)
{
	int64_t spare = *a;
	*a = *b;
	*b = spare;
}

INLINE void insert_sort(const struct et_line *line, int64_t *items, size_t n, enum order order)
{
	for (size_t i = 1; i < n; i++) {
		int64_t item = items[i];
		size_t k = i;
		for (; k > 0 && comes_first(line, item, items[k - 1], order); k--)
			items[k] = items[k - 1];
		items[k] = item;
	}
}

/* Move the median of items[1], the middle and the last one to items[0], split the rest around it and return
 * where the second part begins. */
INLINE size_t split(const struct et_line *line, int64_t *items, size_t n, enum order order)
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
		if (low >= high)
			return low;
		swap(&items[low], &items[high]);
	}
}

/* The k first ones in order. Which of several equal ones are taken, and in which order, is not said anywhere,
 * but programs are compared with the original: so this selects as it does where k is 17 or less and more than a 64th
 * of the line, by quickselect with these pivots, then insertion. Elsewhere the original takes a heap or introsort, and equal
 * ones come in another order here: as they lie, where many are merged. */
INLINE void topk_in(struct et_line *line, enum order order)
{
	size_t first = 0, end = line->n, k = line->n_out, splits = 0;
	if (k == 0)
		return;
	if (k * 64 <= line->n) {
		if (k <= 64)
			select_first(line, order);
		else
			sort(line);
		return;
	}
	for (size_t i = 0; i < line->n; i++)
		line->index[i] = (int64_t)i;
	while (end - first > 3 && splits++ < 128) {
		size_t at = first + split(line, line->index + first, end - first, order);
		if (at <= k - 1)
			first = at;
		else
			end = at;
	}
	if (end - first > 3) { /* bad luck with pivots */
		sort(line);
		return;
	}
	insert_sort(line, line->index + first, end - first, order);
	if (k <= 17)
		insert_sort(line, line->index, k - 1, order);
	else
		merge_sort(line, line->index, spare_of(line), k - 1, order);
	take_values(line);
}

static void topk(struct et_line *line)
{
	const bool *is_descending = line->arg;
	IN_ORDER(order_of(line, *is_descending), topk_in, line);
}

/* The lower one of the two in the middle; the first NaN, if there is one and it counts. */
static void median_of(struct et_line *line, bool skips_nan)
{
	size_t n = line->n;
	sort_indices(line, false);
	while (line->in && n && line->in[line->index[n - 1]] != line->in[line->index[n - 1]])
		n--;
	size_t middle = n < line->n && !skips_nan ? n : n ? (n - 1) / 2 : 0;
	line->index[0] = line->index[middle];
	take_values(line);
}

static void median(struct et_line *line)
{
	median_of(line, false);
}

static void nanmedian(struct et_line *line)
{
	median_of(line, true);
}

/* --- kernels ------------------------------------------------------------------------------------------- */

struct along {
	et_line_fn fn;
	bool is_float;         /* takes floats only */
	bool rounds_innermost; /* of half types, along the innermost dimension: the function is told the type */
	bool rounds_short;     /* of half types, short lines */
	bool is_softmax;       /* of floats there is a faster way */
	bool is_log;           /* its logarithm */
};

/* The type in whose arithmetic to compute, for the function's arg; or NULL. */
static const uint8_t *rounding_type(const struct along *along, const struct et_lines *lines)
{
	size_t n_dims = lines->self->n_dims;
	if (!et_type_is_half(lines->out->type))
		return NULL;
	if ((along->rounds_innermost && n_dims && lines->dim == n_dims - 1) ||
		(along->rounds_short && lines->n_out <= ET_HALF_TERMS))
		return &lines->out->type;
	return NULL;
}

/* --- softmax of floats ----------------------------------------------------------------------------------- */

enum { WORK_PER_TASK = 1 << 14 };

struct softmax {
	const float *x;
	float *y;
	size_t n, stride; /* of a line; as many lines lie next to each other */
	bool is_log;
};

static void softmax_range(void *arg, size_t begin, size_t end)
{
	const struct softmax *s = arg;
	for (size_t i = begin; i < end;) {
		size_t column = i % s->stride,
		       n = s->stride - column < end - i ? s->stride - column : end - i;
		size_t at = i / s->stride * s->stride * s->n + column;
		if (s->stride == 1)
			et_hot()->softmax_row(s->n, s->y + at, s->x + at, s->is_log);
		else
			et_hot()->softmax_columns(n, s->n, s->y + at, s->x + at, s->stride, s->is_log);
		i += n;
	}
}

/* If @lines are floats that lie alike in both tensors; *ret_is_done: they were. */
static enum et_status softmax_floats(
	struct et_kernel_ctx *ctx, const struct et_lines *lines, bool is_log, bool *ret_is_done)
{
	const struct et_tensor *self = lines->self;
	struct et_tensor *out = lines->out;
	*ret_is_done = false;
	if (self->type != ET_FLOAT32 || out->type != ET_FLOAT32 || self->n_dims == 0)
		return ET_OK;
	ET_TRY(et_resize_like(ctx, out, self));
	size_t numel = et_tensor_numel(self);
	if (memcmp(self->strides, out->strides, self->n_dims * sizeof(*self->strides)) != 0 || numel == 0)
		return ET_OK;
	struct softmax job = {
		.x = self->data,
		.y = out->data,
		.n = (size_t)lines->n_out,
		.stride = (size_t)self->strides[lines->dim],
		.is_log = is_log,
	};
	et_parallel_for(ctx->compute, softmax_range, &job, numel / job.n, WORK_PER_TASK / job.n + 1);
	*ret_is_done = true;
	return ET_OK;
}

/* self, dim … > out */
static enum et_status run_along(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct along *along = ctx->kernel->row;
	const struct et_tensor *self = args[0]->tensor;
	struct et_lines lines = {
		.fn = along->fn,
		.takes_ints = !along->is_float,
		.self = self,
		.keepdim = true,
		.out = args[strlen(ctx->kernel->signature) - 2]->tensor,
	};
	ET_TRY(et_get_dim(ctx, args[1]->i, self->n_dims, &lines.dim));
	ET_REQUIRE(ctx, !along->is_float || et_type_is_float(lines.out->type), "an output of %s",
		et_scalar_name(lines.out->type));
	lines.n_out = self->n_dims ? self->sizes[lines.dim] : 1;
	lines.arg = rounding_type(along, &lines);
	bool is_done = false;
	if (along->is_softmax)
		ET_TRY(softmax_floats(ctx, &lines, along->is_log, &is_done));
	return is_done ? ET_OK : et_run_lines(ctx, &lines);
}

static enum et_status run_topk(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	bool is_descending = args[3]->b;
	struct et_lines lines = {
		.fn = topk,
		.takes_ints = true,
		.self = self,
		.n_out = args[1]->i,
		.keepdim = true,
		.out = args[5]->tensor,
		.indices = args[6]->tensor,
		.arg = &is_descending,
	};
	ET_TRY(et_get_dim(ctx, args[2]->i, self->n_dims, &lines.dim));
	int64_t n = self->n_dims ? self->sizes[lines.dim] : 1;
	ET_REQUIRE(ctx, lines.n_out >= 0 && lines.n_out <= n, "%lld of %lld", (long long)lines.n_out,
		(long long)n);
	return et_run_lines(ctx, &lines);
}

static enum et_status run_sort(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	bool is_descending = args[2]->b;
	struct et_lines lines = {
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
	return et_run_lines(ctx, &lines);
}

static enum et_status run_median_dim(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct along *along = ctx->kernel->row;
	const struct et_tensor *self = args[0]->tensor;
	struct et_lines lines = {
		.fn = along->fn,
		.takes_ints = true,
		.self = self,
		.n_out = 1,
		.keepdim = args[2]->b,
		.out = args[3]->tensor,
		.indices = args[4]->tensor,
	};
	ET_TRY(et_get_dim(ctx, args[1]->i, self->n_dims, &lines.dim));
	ET_REQUIRE(ctx, self->n_dims == 0 || self->sizes[lines.dim] > 0, "nothing to choose from");
	return et_run_lines(ctx, &lines);
}

/* Of all elements: the tensor as one line. */
static enum et_status run_median(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct along *along = ctx->kernel->row;
	struct et_tensor flat = *args[0]->tensor;
	size_t numel = et_tensor_numel(&flat);
	ET_REQUIRE(ctx, numel <= INT32_MAX && (numel > 0 || et_type_is_float(flat.type)),
		"%zu elements to choose from", numel);
	if (numel == 0) {
		ET_TRY(et_resize(ctx, args[1]->tensor, NULL, 0));
		return et_fill(
			ctx, args[1]->tensor, &(const struct et_evalue){ .tag = ET_TAG_DOUBLE, .d = NAN });
	}
	flat.n_dims = 1;
	flat.sizes = (int32_t[]){ (int32_t)numel };
	flat.strides = (int32_t[]){ 1 };
	struct et_lines lines = {
		.fn = along->fn,
		.takes_ints = true,
		.self = &flat,
		.n_out = 1,
		.out = args[1]->tensor,
	};
	return et_run_lines(ctx, &lines);
}

#define ALONG(...)            \
	&(const struct along) \
	{                     \
		__VA_ARGS__   \
	}
static const struct et_kernel rows[] = {
	{ "aten::_log_softmax.out", "TIB>T", run_along,
		ALONG(log_softmax, .is_float = true, .rounds_innermost = true, .is_softmax = true,
			.is_log = true) },
	{ "aten::_softmax.out", "TIB>T", run_along, ALONG(softmax, .is_float = true, .is_softmax = true) },
	{ "aten::cumprod.out", "TIi>T", run_along, ALONG(cumprod) },
	{ "aten::cumsum.out", "TIi>T", run_along, ALONG(cumsum, .rounds_short = true) },
	{ "aten::median.dim_values", "TIB>TT", run_median_dim, ALONG(median) },
	{ "aten::median.out", "T>T", run_median, ALONG(median) },
	{ "aten::nanmedian.dim_values", "TIB>TT", run_median_dim, ALONG(nanmedian) },
	{ "aten::nanmedian.out", "T>T", run_median, ALONG(nanmedian) },
	{ "aten::sort.values", "TIB>TT", run_sort },
	{ "aten::topk.values", "TIIBB>TT", run_topk },
};

ET_KERNEL_TABLE(along);
