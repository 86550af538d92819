/* Reductions across rows: what is folded lies above each other, what is kept side by side.
 *
 * To go down one column after the other would touch a line of memory for each number. So many neighbours go down together,
 * with their results in an array, and the loops over a row are those that the compiler makes vectors of. Each result is
 * the same as by itself: it takes its numbers in the same order. */
#include "runtime/kernels/fold_columns.h"
#include "runtime/kernels/hot_spans.h"
#include "runtime/base/expand.h"

#include <string.h>

enum { SUMS = 32 /* abreast keep adders busy */ };

/* Where what is folded lies in rows above each other: the first one's elements at @place, and the way to the next. */
static const uint8_t *first_row(
	const struct fold_job *job, const struct et_place *place, int64_t *ret_row_bytes)
{
	int64_t bytes = (int64_t)et_scalar_size(job->in_type);
	*ret_row_bytes = job->folded.strides[0][0] * bytes;
	return job->in + place->offset[job->kept.n_views - 1] * bytes;
}

void et_fold_give(const struct fold_job *job, const struct et_place *place, size_t output,
	enum et_class class, const void *results, size_t n)
{
	const struct et_tensor *out = job->outs[output];
	et_storer(out->type, class)(
		(uint8_t *)out->data + (size_t)place->offset[output] * et_element_bytes(out),
		job->kept.strides[output][job->kept.n_dims - 1], results, n);
}

void et_fold_give_sums(const struct fold_job *job, const struct et_place *place, double *sums, size_t n)
{
	const double numel = (double)job->folded.numel;
	const bool is_plain_mean = job->fold->is_mean && job->rounding == ET_FLOAT64;
	for (size_t k = 0; k < n && is_plain_mean; k++)
		sums[k] /= numel;
	for (size_t k = 0; k < n && job->fold->finish && !is_plain_mean; k++) {
		struct et_fold_state state = { .d = sums[k],
			.n = (int64_t)job->folded.numel,
			.rounding = job->rounding,
			.correction = job->correction };
		job->fold->finish(&state);
		sums[k] = state.d;
	}
	et_fold_give(job, place, 0, ET_F64, sums, n);
}

/* How many rows of @n are taken as one: those that lie behind each other, so that there is something to go along. What
 * they come to each is put together afterwards. */
static size_t abreast(const struct fold_job *job, size_t n)
{
	size_t most = ET_FOLD_COLUMNS / n, numel = job->folded.numel;
	if (job->folded.strides[0][0] != (int64_t)n || most < 2 || numel == 0)
		return 1;
	return most < numel ? most : numel;
}

/* Halves onto halves until one row is left, for each number k with that at k + far: loops as long as they can be. */
#define PUT_TOGETHER(group, n, step)                                                            \
	for (size_t left = (group), half; left > 1; left -= half) {                             \
		half = left / 2;                                                                \
		ET_INDEPENDENT                                                                  \
		for (size_t k = 0, far = (left - half) * (n), end = half * (n); k < end; k++) { \
			step;                                                                   \
		}                                                                               \
	}

/* Doubles hold sums of floats exactly enough for any order. */
static void sum_float_rows(const struct fold_job *job, const uint8_t *in, double *sums, size_t n)
{
	const float *rows = (const float *)(const void *)in;
	const size_t n_rows = job->folded.numel;
	size_t group = abreast(job, n);
	double wide[ET_FOLD_COLUMNS];
	group = group < SUMS / n ? group : SUMS / n;
	if (group < 2) {
		et_hot_spans()->add_float_rows(n, sums, n_rows, rows, (ptrdiff_t)job->folded.strides[0][0]);
		return;
	}
	const size_t n_groups = n_rows / group, done = n_groups * group;
	memset(wide, 0, group * n * sizeof(*wide));
	et_hot_spans()->add_float_rows(group * n, wide, n_groups, rows, (ptrdiff_t)(group * n));
	et_hot_spans()->add_float_rows((n_rows - done) * n, wide, 1, rows + done * n, (ptrdiff_t)n);
	PUT_TOGETHER(group, n, wide[k] += wide[k + far])
	memcpy(sums, wide, n * sizeof(*sums));
}

void et_fold_sum_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	double sums[ET_FOLD_COLUMNS], row[ET_FOLD_COLUMNS];
	float floats[ET_FOLD_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F64);
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	size_t n_rows = job->folded.numel;
	ptrdiff_t step = (ptrdiff_t)job->folded.strides[0][0];
	bool is_half = et_type_is_half(job->in_type);
	memset(sums, 0, n * sizeof(*sums));
	if (job->in_type == ET_FLOAT32) {
		sum_float_rows(job, in, sums, n);
		n_rows = 0;
	} else if (job->in_type == ET_FLOAT64) {
		et_hot_spans()->add_double_rows(n, sums, n_rows, (const double *)(const void *)in, step);
		n_rows = 0;
	}
	for (size_t r = 0; r < n_rows; r++, in += row_bytes) {
		if (is_half) {
			et_loader(job->in_type, ET_F32)(floats, in, 1, n);
			et_hot_spans()->add_float_rows(n, sums, 1, floats, 0);
			continue;
		}
		load(row, in, 1, n);
		for (size_t k = 0; k < n; k++)
			sums[k] += row[k];
	}
	et_fold_give_sums(job, place, sums, n);
}

/* Of some of the neighbours, which lie @step apart. */
static void sum_distances(
	const struct fold_job *job, const uint8_t *in, ptrdiff_t step, double *sums, size_t n)
{
	enum et_scalar_type type = job->rounding;
	float means[ET_FOLD_COLUMNS] = { 0 }, squares[ET_FOLD_COLUMNS] = { 0 }, row[ET_FOLD_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F32);
	const ptrdiff_t row_bytes =
		(ptrdiff_t)job->folded.strides[0][0] * (ptrdiff_t)et_scalar_size(job->in_type);
	const size_t n_rows = job->folded.numel;
	for (size_t r = 0; r < n_rows; r++) {
		load(row, in + (ptrdiff_t)r * row_bytes, step, n);
		for (size_t k = 0; k < n; k++)
			means[k] += row[k];
		et_round_floats(type, means, n);
	}
	for (size_t k = 0; k < n; k++)
		means[k] = (float)et_round_to((double)means[k] / (double)n_rows, type);
	for (size_t r = 0; r < n_rows; r++) {
		load(row, in + (ptrdiff_t)r * row_bytes, step, n);
		for (size_t k = 0; k < n; k++)
			row[k] -= means[k];
		et_round_floats(type, row, n);
		for (size_t k = 0; k < n; k++)
			row[k] *= row[k];
		et_round_floats(type, row, n);
		for (size_t k = 0; k < n; k++)
			squares[k] += row[k];
		et_round_floats(type, squares, n);
	}
	for (size_t k = 0; k < n; k++)
		sums[k] = (double)squares[k];
}

/* The same of products: those of two halves are exact in float. */
static void multiply_halves(
	const struct fold_job *job, const uint8_t *in, ptrdiff_t step, double *products, size_t n)
{
	float now[ET_FOLD_COLUMNS], row[ET_FOLD_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F32);
	const ptrdiff_t row_bytes =
		(ptrdiff_t)job->folded.strides[0][0] * (ptrdiff_t)et_scalar_size(job->in_type);
	for (size_t k = 0; k < n; k++)
		now[k] = 1;
	for (size_t r = 0; r < job->folded.numel; r++) {
		load(row, in + (ptrdiff_t)r * row_bytes, step, n);
		for (size_t k = 0; k < n; k++)
			now[k] *= row[k];
		et_round_floats(job->rounding, now, n);
	}
	for (size_t k = 0; k < n; k++)
		products[k] = (double)now[k];
}

#define FOLD_ROUNDED(name, fold)                                                                    \
	void name(const struct fold_job *job, const struct et_place *place, size_t n)               \
	{                                                                                           \
		enum { AT_ONCE = 64 }; /* that many lines of memory stay near */                    \
		double results[ET_FOLD_COLUMNS];                                                    \
		const size_t in_view = job->kept.n_views - 1;                                       \
		const ptrdiff_t step = (ptrdiff_t)job->kept.strides[in_view][job->kept.n_dims - 1], \
				bytes = (ptrdiff_t)et_scalar_size(job->in_type);                    \
		const uint8_t *in = job->in + place->offset[in_view] * bytes;                       \
		for (size_t k = 0; k < n; k += AT_ONCE)                                             \
			fold(job, in + (ptrdiff_t)k * step * bytes, step, results + k,              \
				n - k < AT_ONCE ? n - k : AT_ONCE);                                 \
		et_fold_give_sums(job, place, results, n);                                          \
	}
FOLD_ROUNDED(et_fold_var_rounded, sum_distances)
FOLD_ROUNDED(et_fold_prod_rounded, multiply_halves)

/* From @first on. Integers wrap around, whatever their order. */
#define FOLD_INTS(name, first, op)                                                             \
	void name(const struct fold_job *job, const struct et_place *place, size_t n)          \
	{                                                                                      \
		int64_t results[ET_FOLD_COLUMNS], row[ET_FOLD_COLUMNS];                        \
		et_load_fn load = et_loader(job->in_type, ET_I64);                             \
		int64_t row_bytes;                                                             \
		const uint8_t *in = first_row(job, place, &row_bytes);                         \
		const size_t n_rows = job->folded.numel, group = abreast(job, n);              \
		for (size_t k = 0; k < group * n; k++)                                         \
			results[k] = first;                                                    \
		for (size_t r = 0; r < n_rows; r += group, in += (int64_t)group * row_bytes) { \
			const int64_t *numbers = (const int64_t *)(const void *)in;            \
			const size_t part = (n_rows - r < group ? n_rows - r : group) * n;     \
			if (job->in_type != ET_INT64) {                                        \
				load(row, in, 1, part);                                        \
				numbers = row;                                                 \
			}                                                                      \
			for (size_t k = 0; k < part; k++)                                      \
				results[k] = results[k] op numbers[k];                         \
		}                                                                              \
		PUT_TOGETHER(group, n, results[k] = results[k] op results[k + far])            \
		et_fold_give(job, place, 0, ET_I64, results, n);                               \
	}
FOLD_INTS(et_fold_sum_int_columns, 0, +)
FOLD_INTS(et_fold_prod_int_columns, 1, *)

/* Floats without their sign, so that both zeros are none. */
#define ANY_COLUMNS(name, type)                                                                         \
	static void name(const struct fold_job *job, const struct et_place *place, size_t n, int shift) \
	{                                                                                               \
		type found[ET_FOLD_COLUMNS];                                                            \
		int64_t truths[ET_FOLD_COLUMNS], row_bytes;                                             \
		const uint8_t *in = first_row(job, place, &row_bytes);                                  \
		const size_t n_rows = job->folded.numel, group = abreast(job, n);                       \
		memset(found, 0, group *n * sizeof(*found));                                            \
		for (size_t r = 0; r < n_rows; r += group, in += (int64_t)group * row_bytes) {          \
			const type *row = (const type *)(const void *)in;                               \
			const size_t part = (n_rows - r < group ? n_rows - r : group) * n;              \
			for (size_t k = 0; k < part; k++)                                               \
				found[k] |= (type)(row[k] << shift);                                    \
		}                                                                                       \
		PUT_TOGETHER(group, n, found[k] |= found[k + far])                                      \
		for (size_t k = 0; k < n; k++)                                                          \
			truths[k] = found[k] != 0;                                                      \
		et_fold_give(job, place, 0, ET_I64, truths, n);                                         \
	}
ANY_COLUMNS(any_bytes, uint8_t)
ANY_COLUMNS(any_shorts, uint16_t)
ANY_COLUMNS(any_words, uint32_t)
ANY_COLUMNS(any_longs, uint64_t)

void et_fold_any_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	const size_t bytes = et_scalar_size(job->in_type);
	const int shift = et_type_is_float(job->in_type);
	(bytes == 1          ? any_bytes
		: bytes == 2 ? any_shorts
		: bytes == 4 ? any_words
			     : any_longs)(job, place, n, shift);
}

void et_fold_prod_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	double products[ET_FOLD_COLUMNS], row[ET_FOLD_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F64);
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	for (size_t k = 0; k < n; k++)
		products[k] = 1;
	for (size_t r = 0; r < job->folded.numel; r++, in += row_bytes) {
		if (job->in_type == ET_FLOAT32 && job->rounding == ET_FLOAT64) {
			for (size_t k = 0; k < n; k++)
				products[k] *= (double)((const float *)(const void *)in)[k];
			continue;
		}
		load(row, in, 1, n);
		for (size_t k = 0; k < n; k++)
			products[k] = job->rounding == ET_FLOAT64
					      ? products[k] * row[k]
					      : et_round_to(products[k] * row[k], job->rounding);
	}
	et_fold_give(job, place, 0, ET_F64, products, n);
}

void et_fold_mean_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	float sums[ET_FOLD_COLUMNS], loaded[ET_FOLD_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F32);
	memset(sums, 0, n * sizeof(*sums));
	if (job->rounding == ET_FLOAT64 || !load) {
		et_fold_sum_columns(job, place, n);
		return;
	}
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	for (size_t r = 0; r < job->folded.numel; r++, in += row_bytes) {
		const float *row = (const float *)(const void *)in;
		if (job->in_type != ET_FLOAT32) {
			load(loaded, in, 1, n);
			row = loaded;
		}
		for (size_t k = 0; k < n; k++)
			sums[k] += row[k];
	}
	for (size_t k = 0; k < n; k++)
		sums[k] /= (float)job->folded.numel;
	et_fold_give(job, place, 0, ET_F32, sums, n);
}

/* Into the outputs, which may hold the place alone. */
static void give_best(const struct fold_job *job, const struct et_place *place, enum et_class class,
	const void *values, const int64_t *where, size_t n)
{
	if (!job->fold->is_index || job->outs[1])
		et_fold_give(job, place, 0, class, values, n);
	if (job->fold->is_index)
		et_fold_give(job, place, job->outs[1] ? 1 : 0, ET_I64, where, n);
}

/* The first of the largest (or smallest), and NaN before all others. What has no span of its own is loaded into one. Of what was
 * found abreast that in the first row is the first. */
#define CHOOSE_COLUMNS(name, type, index, class, wide, wide_class, take, merge)                            \
	ET_EXPANDED void name##_of(                                                                        \
		const struct fold_job *job, const struct et_place *place, size_t n, const bool has_places) \
	{                                                                                                  \
		type best[ET_FOLD_COLUMNS], loaded[ET_FOLD_COLUMNS];                                       \
		index where[ET_FOLD_COLUMNS];                                                              \
		wide values[ET_FOLD_COLUMNS];                                                              \
		int64_t indices[ET_FOLD_COLUMNS], row_bytes;                                               \
		const uint8_t *in = first_row(job, place, &row_bytes);                                     \
		const size_t n_rows = job->folded.numel, group = abreast(job, n);                          \
		bool is_direct = et_class_is_type(class, job->in_type);                                    \
		et_load_fn load = et_loader(job->in_type, class);                                          \
		load(best, in, 1, group *n);                                                               \
		memset(where, 0, group *n * sizeof(*where));                                               \
		for (size_t r = group; r < n_rows; r += group) {                                           \
			const type *row = loaded;                                                          \
			const size_t part = (n_rows - r < group ? n_rows - r : group) * n;                 \
			in += (int64_t)group * row_bytes;                                                  \
			if (is_direct)                                                                     \
				row = (const type *)(const void *)in;                                      \
			else                                                                               \
				load(loaded, in, 1, part);                                                 \
			take(part, best, has_places ? where : NULL, row, (index)r);                        \
		}                                                                                          \
		for (size_t g = 1; has_places && g < group; g++) {                                         \
			for (size_t k = 0; k < n; k++)                                                     \
				where[g * n + k] += (index)g;                                              \
		}                                                                                          \
		for (size_t left = group, half; left > 1; left -= half) {                                  \
			half = left / 2;                                                                   \
			merge(half *n, best, has_places ? where : NULL, best + (left - half) * n,          \
				where + (left - half) * n);                                                \
		}                                                                                          \
		for (size_t k = 0; k < n; k++)                                                             \
			values[k] = (wide)best[k];                                                         \
		for (size_t k = 0; has_places && k < n; k++)                                               \
			indices[k] = (int64_t)where[k];                                                    \
		give_best(job, place, wide_class, values, indices, n);                                     \
	}                                                                                                  \
	static void name(const struct fold_job *job, const struct et_place *place, size_t n)               \
	{                                                                                                  \
		if (job->fold->is_index)                                                                   \
			name##_of(job, place, n, true);                                                    \
		else                                                                                       \
			name##_of(job, place, n, false);                                                   \
	}
/* What there was is read in any case, so that these are vectors and no branches. */
#define TAKE_COLUMNS(name, type, index, no_better)                                                          \
	static void name(size_t n, type *best, index *where, const type *row, index r)                      \
	{                                                                                                   \
		ET_INDEPENDENT                                                                              \
		for (size_t k = 0; where && k < n; k++) {                                                   \
			const type number = row[k], now = best[k];                                          \
			const index at = where[k];                                                          \
			bool is_better = !(number no_better now) & (now == now);                            \
			where[k] = is_better ? r : at;                                                      \
			best[k] = is_better ? number : now;                                                 \
		}                                                                                           \
		ET_INDEPENDENT                                                                              \
		for (size_t k = 0; !where && k < n; k++) {                                                  \
			const type number = row[k], now = best[k];                                          \
			best[k] = (!(number no_better now) & (now == now)) ? number : now;                  \
		}                                                                                           \
	}                                                                                                   \
	static void merge_##name(size_t n, type *best, index *where, const type *others, const index *rows) \
	{                                                                                                   \
		if (!where) {                                                                               \
			name(n, best, NULL, others, 0);                                                     \
			return;                                                                             \
		}                                                                                           \
		ET_INDEPENDENT                                                                              \
		for (size_t k = 0; k < n; k++) {                                                            \
			const type number = others[k], now = best[k];                                       \
			const index row = rows[k], at = where[k];                                           \
			bool is_better = !(number no_better now) & (now == now);                            \
			bool is_same = (number == now) | ((number != number) & (now != now));               \
			bool is_first = is_better | (is_same & (row < at));                                 \
			where[k] = is_first ? row : at;                                                     \
			best[k] = is_first ? number : now;                                                  \
		}                                                                                           \
	}
#define CHOOSE_BOTH(suffix, type, index, class, wide, wide_class)                                 \
	TAKE_COLUMNS(larger_##suffix, type, index, <=)                                            \
	TAKE_COLUMNS(smaller_##suffix, type, index, >=)                                           \
	CHOOSE_COLUMNS(largest_##suffix, type, index, class, wide, wide_class, larger_##suffix,   \
		merge_larger_##suffix)                                                            \
	CHOOSE_COLUMNS(smallest_##suffix, type, index, class, wide, wide_class, smaller_##suffix, \
		merge_smaller_##suffix)
/* Places are as wide as numbers, where there are vectors of them. */
CHOOSE_BOTH(floats, float, int32_t, ET_F32, double, ET_F64)
CHOOSE_BOTH(doubles, double, double, ET_F64, double, ET_F64)
CHOOSE_BOTH(words, int32_t, int32_t, ET_I32, int64_t, ET_I64)
CHOOSE_BOTH(shorts, int16_t, int32_t, ET_I16, int64_t, ET_I64)
CHOOSE_BOTH(signed_bytes, int8_t, int32_t, ET_I8, int64_t, ET_I64)
CHOOSE_BOTH(bytes, uint8_t, int32_t, ET_U8, int64_t, ET_I64)
/* int64 has them on some processors only. */
CHOOSE_COLUMNS(largest_longs, int64_t, int64_t, ET_I64, int64_t, ET_I64, et_hot_spans()->larger_longs,
	et_hot_spans()->merge_larger_longs)
CHOOSE_COLUMNS(smallest_longs, int64_t, int64_t, ET_I64, int64_t, ET_I64, et_hot_spans()->smaller_longs,
	et_hot_spans()->merge_smaller_longs)

static const struct {
	et_fold_many_fn largest, smallest;
} choices[] = {
	[ET_F32] = { largest_floats, smallest_floats },
	[ET_F64] = { largest_doubles, smallest_doubles },
	[ET_I64] = { largest_longs, smallest_longs },
	[ET_I32] = { largest_words, smallest_words },
	[ET_I16] = { largest_shorts, smallest_shorts },
	[ET_I8] = { largest_signed_bytes, smallest_signed_bytes },
	[ET_U8] = { largest_bytes, smallest_bytes },
	[ET_B8] = { largest_bytes, smallest_bytes },
};

/* In which numbers to compare. */
static enum et_class class_of(const struct fold_job *job)
{
	enum et_class narrow = et_narrow_class_of(job->in_type);
	if (job->is_double)
		return et_type_is_half(job->in_type) || job->in_type == ET_FLOAT32 ? ET_F32 : ET_F64;
	return narrow == ET_N_SPANS ? ET_I64 : narrow;
}

void et_fold_max_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	choices[class_of(job)].largest(job, place, n);
}

void et_fold_min_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	choices[class_of(job)].smallest(job, place, n);
}
