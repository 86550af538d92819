/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions down columns: the reduced numbers are above each other, the results side by side.
 *
 * Going down one column after another would touch a cache line for each number. So many adjacent columns go down
 * together, with their results in an array, and the loops over a row vectorize. Each result is the same as if computed
 * alone: it takes its numbers in the same order. */
#include "runtime/kernels/engine/reduce_internal.h"
#include "runtime/kernels/simd/cast_ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/base/expand.h"

#include <string.h>

enum { SUMS = 32 /* independent sums that keep the adders busy */ };

/* The first row's elements at @place, and the distance in bytes to the next row. */
static const uint8_t *first_row(const struct reduce_job *job, const struct et_place *place, int64_t *ret_row_bytes)
{
	int64_t bytes = (int64_t)et_scalar_size(job->in_type);
	*ret_row_bytes = job->reduced.strides[0][0] * bytes;
	return job->in + place->offset[job->kept.n_views - 1] * bytes;
}

void et_reduce_store(const struct reduce_job *job, const struct et_place *place, size_t output,
	enum et_compute_class compute_class, const void *results, size_t n)
{
	const struct et_tensor *out = job->outs[output];
	et_storer(out->type,
		compute_class)((uint8_t *)out->data + (size_t)place->offset[output] * et_element_bytes(out),
		job->kept.strides[output][job->kept.n_dims - 1], results, n);
}

void et_reduce_store_sums(const struct reduce_job *job, const struct et_place *place, double *sums, size_t n)
{
	const double numel = (double)job->reduced.numel, freedom = numel - job->correction;
	const double divisor = !job->reduce->is_var ? numel : freedom > 0 ? freedom : 0;
	const bool is_divided = job->reduce->is_mean || job->reduce->is_var,
		   is_rounded = job->reduce->is_mean && job->rounding == ET_FLOAT32;
	if (is_divided) {
		for (size_t k = 0; k < n; k++)
			sums[k] /= divisor;
	}
	if (is_rounded) {
		for (size_t k = 0; k < n; k++)
			sums[k] = (double)(float)sums[k];
	}
	et_reduce_store(job, place, 0, ET_F64, sums, n);
}

bool et_reduce_is_exact(const struct reduce_job *job)
{
	const size_t n_bits = job->in_type == ET_BOOL ? 1 : 8 * et_scalar_size(job->in_type);
	if (!job->is_double || et_type_is_float(job->in_type) || n_bits > 32)
		return false;
	return job->rounding == ET_FLOAT64 || (n_bits <= 16 && job->reduced.numel <= (1u << 24) >> n_bits);
}

void et_reduce_store_int_sums(const struct reduce_job *job, const struct et_place *place, const int64_t *sums, size_t n)
{
	double doubles[ET_REDUCE_COLUMNS];
	if (!job->is_double) {
		et_reduce_store(job, place, 0, ET_I64, sums, n);
		return;
	}
	for (size_t k = 0; k < n; k++)
		doubles[k] = (double)sums[k];
	et_reduce_store_sums(job, place, doubles, n);
}

/* How many rows of @n numbers are treated as one long row, if rows are adjacent, so that loops are long enough. Their
 * partial results are combined afterwards. */
static size_t rows_as_one(const struct reduce_job *job, size_t n)
{
	size_t most = ET_REDUCE_COLUMNS / n, numel = job->reduced.numel;
	if (job->reduced.strides[0][0] != (int64_t)n || most < 2 || numel == 0)
		return 1;
	return most < numel ? most : numel;
}

/* Combine the second half of the rows with the first until one row is left: number k with number k + far, in loops as
 * long as possible. */
#define COMBINE_ROWS(group, n, step)                                                            \
	for (size_t left = (group), half; left > 1; left -= half) {                             \
		half = left / 2;                                                                \
		ET_INDEPENDENT                                                                  \
		for (size_t k = 0, far = (left - half) * (n), end = half * (n); k < end; k++) { \
			step;                                                                   \
		}                                                                               \
	}

/* Load some rows of @n columns as numbers of one class: as many as fit in ET_REDUCE_COLUMNS if rows are adjacent,
 * otherwise one. Returns how many. */
static size_t load_rows(const struct reduce_job *job, enum et_compute_class compute_class, void *numbers,
	const uint8_t *in, size_t n_left, size_t n)
{
	const bool is_dense = job->reduced.strides[0][0] == (int64_t)n;
	const size_t most = is_dense ? ET_REDUCE_COLUMNS / n : 1, n_rows = most < n_left ? most : n_left;
	et_cast_fn cast = et_find_cast(compute_class == ET_F32 ? ET_FLOAT32 : ET_FLOAT64, job->in_type);
	if (cast)
		cast(n_rows * n, numbers, in);
	else
		et_loader(job->in_type, compute_class)(numbers, in, 1, n_rows * n);
	return n_rows;
}

/* Double is exact enough for sums of floats in any order, so enough rows are treated as one to keep the adders busy. */
static size_t sum_rows_as_one(const struct reduce_job *job, size_t n)
{
	const size_t group = rows_as_one(job, n), most = SUMS / n;
	return group < most ? group : most ? most : 1;
}

/* Add @n_rows rows to the sums of @group rows. */
#define ADD_FLOATS(name, type, add_rows)                                                                          \
	static void name(size_t group, size_t n, double *wide, size_t n_rows, const type *rows, ptrdiff_t step)   \
	{                                                                                                         \
		const size_t done = n_rows / group * group;                                                       \
		et_span_ukernels()->add_rows(group *n, wide, n_rows / group, rows, (ptrdiff_t)group * step);      \
		if (done < n_rows)                                                                                \
			et_span_ukernels()->add_rows((n_rows - done) * n, wide, 1, rows + (ptrdiff_t)done * step, \
				step);                                                                            \
	}
ADD_FLOATS(add_floats, float, add_float_rows)
ADD_FLOATS(add_doubles, double, add_double_rows)

void et_reduce_sum_columns(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	double wide[ET_REDUCE_COLUMNS], numbers[ET_REDUCE_COLUMNS];
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	const size_t n_rows = job->reduced.numel, group = job->in_type == ET_FLOAT64 ? 1 : sum_rows_as_one(job, n);
	const ptrdiff_t step = (ptrdiff_t)job->reduced.strides[0][0];
	if (et_reduce_is_exact(job)) {
		et_reduce_sum_int_columns(job, place, n);
		return;
	}
	memset(wide, 0, group * n * sizeof(*wide));
	if (job->in_type == ET_FLOAT32) {
		add_floats(group, n, wide, n_rows, (const float *)(const void *)in, step);
	} else if (job->in_type == ET_FLOAT64) {
		add_doubles(group, n, wide, n_rows, (const double *)(const void *)in, step);
	} else {
		const bool is_half = et_type_is_half(job->in_type);
		for (size_t r = 0, part; r < n_rows; r += part, in += (int64_t)part * row_bytes) {
			part = load_rows(job, is_half ? ET_F32 : ET_F64, numbers, in, n_rows - r, n);
			if (is_half)
				add_floats(group, n, wide, part, (const float *)(const void *)numbers, (ptrdiff_t)n);
			else
				add_doubles(group, n, wide, part, numbers, (ptrdiff_t)n);
		}
	}
	COMBINE_ROWS(group, n, wide[k] += wide[k + far])
	et_reduce_store_sums(job, place, wide, n);
}

/* Two passes: means, then squared differences. */
void et_reduce_var_columns(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	double wide[ET_REDUCE_COLUMNS], means[ET_REDUCE_COLUMNS], numbers[ET_REDUCE_COLUMNS];
	int64_t row_bytes;
	const uint8_t *first = first_row(job, place, &row_bytes);
	const size_t n_rows = job->reduced.numel, group = rows_as_one(job, n);
	for (size_t pass = 0; pass < 2; pass++) {
		const uint8_t *in = first;
		if (pass == 0)
			memset(means, 0, sizeof(means));
		memset(wide, 0, group * n * sizeof(*wide));
		for (size_t r = 0, part; r < n_rows; r += part, in += (int64_t)part * row_bytes) {
			part = load_rows(job, ET_F64, numbers, in, n_rows - r, n);
			for (size_t k = 0; k < part * n && pass == 0; k++)
				wide[k] += numbers[k];
			for (size_t k = 0; k < part * n && pass == 1; k++)
				wide[k] += (numbers[k] - means[k]) * (numbers[k] - means[k]);
		}
		COMBINE_ROWS(group, n, wide[k] += wide[k + far])
		for (size_t k = 0; k < group * n && pass == 0; k++)
			means[k] = k < n ? wide[k] / (double)n_rows : means[k - n];
	}
	et_reduce_store_sums(job, place, wide, n);
	if (job->outs[1])
		et_reduce_store(job, place, 1, ET_F64, means, n);
}

/* Sum of squared differences with rounding after each operation, for some of the columns, which are @step apart. */
static void sum_squared_differences(const struct reduce_job *job, const uint8_t *in, ptrdiff_t step, double *sums,
	double *ret_means, size_t n)
{
	enum et_scalar_type type = job->rounding;
	float means[ET_REDUCE_COLUMNS] = { 0 }, squares[ET_REDUCE_COLUMNS] = { 0 }, row[ET_REDUCE_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F32);
	const ptrdiff_t row_bytes = (ptrdiff_t)job->reduced.strides[0][0] * (ptrdiff_t)et_scalar_size(job->in_type);
	const size_t n_rows = job->reduced.numel;
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
	for (size_t k = 0; k < n; k++) {
		sums[k] = (double)squares[k];
		ret_means[k] = (double)means[k];
	}
}

/* The same for products. The product of two fp16 or bf16 numbers is exact in float. */
static void multiply_half(const struct reduce_job *job, const uint8_t *in, ptrdiff_t step, double *products,
	double *ret_means, size_t n)
{
	float now[ET_REDUCE_COLUMNS], row[ET_REDUCE_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F32);
	const ptrdiff_t row_bytes = (ptrdiff_t)job->reduced.strides[0][0] * (ptrdiff_t)et_scalar_size(job->in_type);
	for (size_t k = 0; k < n; k++)
		now[k] = 1;
	for (size_t r = 0; r < job->reduced.numel; r++) {
		load(row, in + (ptrdiff_t)r * row_bytes, step, n);
		for (size_t k = 0; k < n; k++)
			now[k] *= row[k];
		et_round_floats(job->rounding, now, n);
	}
	for (size_t k = 0; k < n; k++)
		products[k] = (double)now[k];
}

#define REDUCE_ROUNDED(name, reduce)                                                                        \
	void name(const struct reduce_job *job, const struct et_place *place, size_t n)                     \
	{                                                                                                   \
		enum { AT_ONCE = 64 }; /* columns at a time, so that their cache lines stay in the cache */ \
		double results[ET_REDUCE_COLUMNS], means[ET_REDUCE_COLUMNS];                                \
		const size_t in_view = job->kept.n_views - 1;                                               \
		const ptrdiff_t step = (ptrdiff_t)job->kept.strides[in_view][job->kept.n_dims - 1],         \
				bytes = (ptrdiff_t)et_scalar_size(job->in_type);                            \
		const uint8_t *in = job->in + place->offset[in_view] * bytes;                               \
		for (size_t k = 0; k < n; k += AT_ONCE)                                                     \
			reduce(job, in + (ptrdiff_t)k * step * bytes, step, results + k, means + k,         \
				n - k < AT_ONCE ? n - k : AT_ONCE);                                         \
		et_reduce_store_sums(job, place, results, n);                                               \
		if (job->outs[1])                                                                           \
			et_reduce_store(job, place, 1, ET_F64, means, n);                                   \
	}
REDUCE_ROUNDED(et_reduce_var_rounded, sum_squared_differences)
REDUCE_ROUNDED(et_reduce_prod_rounded, multiply_half)

/* @first is the start value. Integers wrap around, in any order. */
#define REDUCE_INTS(name, first, op)                                                           \
	void name(const struct reduce_job *job, const struct et_place *place, size_t n)        \
	{                                                                                      \
		int64_t results[ET_REDUCE_COLUMNS], row[ET_REDUCE_COLUMNS];                    \
		et_load_fn load = et_loader(job->in_type, ET_I64);                             \
		int64_t row_bytes;                                                             \
		const uint8_t *in = first_row(job, place, &row_bytes);                         \
		const size_t n_rows = job->reduced.numel, group = rows_as_one(job, n);         \
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
		COMBINE_ROWS(group, n, results[k] = results[k] op results[k + far])            \
		et_reduce_store_int_sums(job, place, results, n);                              \
	}
REDUCE_INTS(et_reduce_sum_int_columns, 0, +)
REDUCE_INTS(et_reduce_prod_int_columns, 1, *)

/* The sign bit of floats is shifted out, so that both zeros count as 0. */
#define ANY_COLUMNS(name, type)                                                                           \
	static void name(const struct reduce_job *job, const struct et_place *place, size_t n, int shift) \
	{                                                                                                 \
		type found[ET_REDUCE_COLUMNS];                                                            \
		int64_t truths[ET_REDUCE_COLUMNS], row_bytes;                                             \
		const uint8_t *in = first_row(job, place, &row_bytes);                                    \
		const size_t n_rows = job->reduced.numel, group = rows_as_one(job, n);                    \
		memset(found, 0, group *n * sizeof(*found));                                              \
		for (size_t r = 0; r < n_rows; r += group, in += (int64_t)group * row_bytes) {            \
			const type *row = (const type *)(const void *)in;                                 \
			const size_t part = (n_rows - r < group ? n_rows - r : group) * n;                \
			for (size_t k = 0; k < part; k++)                                                 \
				found[k] |= (type)(row[k] << shift);                                      \
		}                                                                                         \
		COMBINE_ROWS(group, n, found[k] |= found[k + far])                                        \
		for (size_t k = 0; k < n; k++)                                                            \
			truths[k] = found[k] != 0;                                                        \
		et_reduce_store(job, place, 0, ET_I64, truths, n);                                        \
	}
ANY_COLUMNS(any_bytes, uint8_t)
ANY_COLUMNS(any_shorts, uint16_t)
ANY_COLUMNS(any_words, uint32_t)
ANY_COLUMNS(any_longs, uint64_t)

void et_reduce_any_columns(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	const size_t bytes = et_scalar_size(job->in_type);
	const int shift = et_type_is_float(job->in_type);
	(bytes == 1 ? any_bytes : bytes == 2 ? any_shorts : bytes == 4 ? any_words : any_longs)(job, place, n, shift);
}

/* Rows of few columns, combined as vectors; lanes behind the row's end hold arbitrary numbers. Up to LANES numbers
 * behind the last row may be read. The mean of 65,536 rows of 4 floats, as coordinates of boxes are, takes 2.4 times as
 * long with a loop over the columns, their product 2.3 times. */
enum { LANES = 8, VECTOR_BYTES = 16 /* exists on every processor */ };
#define REDUCE_FEW(name, type, op)                                                         \
	static void name(size_t n, type *results, size_t n_rows, const type *rows)         \
	{                                                                                  \
		enum { VECTORS = LANES * sizeof(type) / VECTOR_BYTES };                    \
		typedef type lanes __attribute__((vector_size(VECTOR_BYTES)));             \
		type padded[LANES] = { 0 };                                                \
		lanes now[VECTORS], row[VECTORS];                                          \
		memcpy(padded, results, n * sizeof(type));                                 \
		memcpy(now, padded, sizeof(now));                                          \
		for (size_t r = 0; r < n_rows; r++, rows += n) {                           \
			ET_UNROLL                                                          \
			for (size_t i = 0; i < VECTORS; i++) {                             \
				memcpy(&row[i], rows + i * LANES / VECTORS, VECTOR_BYTES); \
				now[i] = now[i] op row[i];                                 \
			}                                                                  \
		}                                                                          \
		memcpy(padded, now, sizeof(now));                                          \
		memcpy(results, padded, n * sizeof(type));                                 \
	}
REDUCE_FEW(add_few, float, +)
REDUCE_FEW(multiply_few, double, *)

void et_reduce_prod_columns(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	double products[ET_REDUCE_COLUMNS], numbers[ET_REDUCE_COLUMNS + LANES] = { 0 };
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	const bool is_rounded = job->rounding != ET_FLOAT64;
	for (size_t k = 0; k < n; k++)
		products[k] = 1;
	for (size_t r = 0, part; r < job->reduced.numel; r += part, in += (int64_t)part * row_bytes) {
		part = load_rows(job, ET_F64, numbers, in, job->reduced.numel - r, n);
		if (n <= LANES && !is_rounded) {
			multiply_few(n, products, part, numbers);
			continue;
		}
		for (size_t i = 0; i < part; i++) {
			for (size_t k = 0; k < n; k++)
				products[k] *= numbers[i * n + k];
			for (size_t k = 0; k < n && is_rounded; k++)
				products[k] = et_round_to(products[k], job->rounding);
		}
	}
	et_reduce_store(job, place, 0, ET_F64, products, n);
}

void et_reduce_mean_columns(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	float sums[ET_REDUCE_COLUMNS] = { 0 }, numbers[ET_REDUCE_COLUMNS + LANES] = { 0 };
	if (job->rounding == ET_FLOAT64 || et_reduce_is_exact(job)) {
		et_reduce_sum_columns(job, place, n);
		return;
	}
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	for (size_t r = 0, part; r < job->reduced.numel; r += part, in += (int64_t)part * row_bytes) {
		const float *rows = numbers;
		if (job->in_type == ET_FLOAT32 && n > LANES) {
			rows = (const float *)(const void *)in;
			part = 1;
		} else {
			part = load_rows(job, ET_F32, numbers, in, job->reduced.numel - r, n);
		}
		if (n <= LANES)
			add_few(n, sums, part, rows);
		for (size_t i = 0; i < part && n > LANES; i++) {
			for (size_t k = 0; k < n; k++)
				sums[k] += rows[i * n + k];
		}
	}
	for (size_t k = 0; k < n; k++)
		sums[k] /= (float)job->reduced.numel;
	et_reduce_store(job, place, 0, ET_F32, sums, n);
}

/* Store values and indices, or the index alone. */
static void store_best(const struct reduce_job *job, const struct et_place *place, enum et_compute_class compute_class,
	const void *values, const int64_t *where, size_t n)
{
	if (!job->reduce->is_index || job->outs[1])
		et_reduce_store(job, place, 0, compute_class, values, n);
	if (job->reduce->is_index)
		et_reduce_store(job, place, job->outs[1] ? 1 : 0, ET_I64, where, n);
}

/* The first of the largest (or smallest) numbers; NaN wins. A type without a span of its own is loaded into one. Of
 * equal numbers found in parallel, the one with the lower row wins. */
#define CHOOSE_COLUMNS(name, type, index, compute_class, wide, wide_class, update, merge)                \
	ET_EXPANDED void name##_of(const struct reduce_job *job, const struct et_place *place, size_t n, \
		const bool has_places)                                                                   \
	{                                                                                                \
		type best[ET_REDUCE_COLUMNS], loaded[ET_REDUCE_COLUMNS];                                 \
		index where[ET_REDUCE_COLUMNS];                                                          \
		wide values[ET_REDUCE_COLUMNS];                                                          \
		int64_t indices[ET_REDUCE_COLUMNS], row_bytes;                                           \
		const uint8_t *in = first_row(job, place, &row_bytes);                                   \
		const size_t n_rows = job->reduced.numel, group = rows_as_one(job, n);                   \
		bool is_direct = et_class_is_type(compute_class, job->in_type);                          \
		et_load_fn load = et_loader(job->in_type, compute_class);                                \
		load(best, in, 1, group *n);                                                             \
		memset(where, 0, group *n * sizeof(*where));                                             \
		for (size_t r = group; r < n_rows; r += group) {                                         \
			const type *row = loaded;                                                        \
			const size_t part = (n_rows - r < group ? n_rows - r : group) * n;               \
			in += (int64_t)group * row_bytes;                                                \
			if (is_direct)                                                                   \
				row = (const type *)(const void *)in;                                    \
			else                                                                             \
				load(loaded, in, 1, part);                                               \
			update(part, best, has_places ? where : NULL, row, (index)r);                    \
		}                                                                                        \
		for (size_t g = 1; has_places && g < group; g++) {                                       \
			for (size_t k = 0; k < n; k++)                                                   \
				where[g * n + k] += (index)g;                                            \
		}                                                                                        \
		for (size_t left = group, half; left > 1; left -= half) {                                \
			half = left / 2;                                                                 \
			merge(half *n, best, has_places ? where : NULL, best + (left - half) * n,        \
				where + (left - half) * n);                                              \
		}                                                                                        \
		for (size_t k = 0; k < n; k++)                                                           \
			values[k] = (wide)best[k];                                                       \
		for (size_t k = 0; has_places && k < n; k++)                                             \
			indices[k] = (int64_t)where[k];                                                  \
		store_best(job, place, wide_class, values, indices, n);                                  \
	}                                                                                                \
	static void name(const struct reduce_job *job, const struct et_place *place, size_t n)           \
	{                                                                                                \
		if (job->reduce->is_index)                                                               \
			name##_of(job, place, n, true);                                                  \
		else                                                                                     \
			name##_of(job, place, n, false);                                                 \
	}
/* The old values are always read, so that the loop becomes vectors without branches. */
#define UPDATE_COLUMNS(name, type, index, not_better)                                                       \
	static void name(size_t n, type *best, index *where, const type *row, index r)                      \
	{                                                                                                   \
		ET_INDEPENDENT                                                                              \
		for (size_t k = 0; where && k < n; k++) {                                                   \
			const type number = row[k], now = best[k];                                          \
			const index at = where[k];                                                          \
			bool is_better = !(number not_better now) & (now == now);                           \
			where[k] = is_better ? r : at;                                                      \
			best[k] = is_better ? number : now;                                                 \
		}                                                                                           \
		ET_INDEPENDENT                                                                              \
		for (size_t k = 0; !where && k < n; k++) {                                                  \
			const type number = row[k], now = best[k];                                          \
			best[k] = (!(number not_better now) & (now == now)) ? number : now;                 \
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
			bool is_better = !(number not_better now) & (now == now);                           \
			bool is_same = (number == now) | ((number != number) & (now != now));               \
			bool is_first = is_better | (is_same & (row < at));                                 \
			where[k] = is_first ? row : at;                                                     \
			best[k] = is_first ? number : now;                                                  \
		}                                                                                           \
	}
#define CHOOSE_BOTH(suffix, type, index, compute_class, wide, wide_class)                                 \
	UPDATE_COLUMNS(larger_##suffix, type, index, <=)                                                  \
	UPDATE_COLUMNS(smaller_##suffix, type, index, >=)                                                 \
	CHOOSE_COLUMNS(largest_##suffix, type, index, compute_class, wide, wide_class, larger_##suffix,   \
		merge_larger_##suffix)                                                                    \
	CHOOSE_COLUMNS(smallest_##suffix, type, index, compute_class, wide, wide_class, smaller_##suffix, \
		merge_smaller_##suffix)
/* The index has the width of the numbers where there are vector instructions for it. */
CHOOSE_BOTH(floats, float, int32_t, ET_F32, double, ET_F64)
CHOOSE_BOTH(doubles, double, double, ET_F64, double, ET_F64)
CHOOSE_BOTH(words, int32_t, int32_t, ET_I32, int64_t, ET_I64)
CHOOSE_BOTH(shorts, int16_t, int32_t, ET_I16, int64_t, ET_I64)
CHOOSE_BOTH(signed_bytes, int8_t, int32_t, ET_I8, int64_t, ET_I64)
CHOOSE_BOTH(bytes, uint8_t, int32_t, ET_U8, int64_t, ET_I64)
/* int64 has vector instructions on some processors only. */
CHOOSE_COLUMNS(largest_longs, int64_t, int64_t, ET_I64, int64_t, ET_I64, et_span_ukernels()->larger_longs,
	et_span_ukernels()->merge_larger_longs)
CHOOSE_COLUMNS(smallest_longs, int64_t, int64_t, ET_I64, int64_t, ET_I64, et_span_ukernels()->smaller_longs,
	et_span_ukernels()->merge_smaller_longs)

static const struct {
	et_reduce_many_fn largest, smallest;
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

/* The class in which numbers are compared. */
static enum et_compute_class class_of(const struct reduce_job *job)
{
	enum et_compute_class narrow = et_narrow_class_of(job->in_type);
	if (job->is_double)
		return et_type_is_half(job->in_type) || job->in_type == ET_FLOAT32 ? ET_F32 : ET_F64;
	return narrow == ET_N_SPANS ? ET_I64 : narrow;
}

void et_reduce_max_columns(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	choices[class_of(job)].largest(job, place, n);
}

void et_reduce_min_columns(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	choices[class_of(job)].smallest(job, place, n);
}
