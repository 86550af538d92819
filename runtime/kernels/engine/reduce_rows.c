/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions along dense rows at equal distances.
 *
 * Going through the engine for each row would take longer than the numbers of a short one. So many rows are reduced one
 * after the other, into an array, by a loop that knows their type; where a number has to wait for the one before it,
 * several rows are reduced in parallel. Each result is the same as if computed alone. */
#include "runtime/kernels/engine/reduce_rows.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"

#include <math.h>
#include <string.h>

enum {
	ABREAST = 8,
	GROUP = 32,
	SHORT_SUM = 32,
	SHORT_ROW = 64,
	NARROW_ROW = 33 /* bytes; for types of one or two bytes */,
	BYTES = 16,
	RESULTS = ET_REDUCE_COLUMNS
};

/* The first row at @place, and the distance in bytes to the next row. */
static const uint8_t *first_row(const struct reduce_job *job, const struct et_place *place, int64_t *ret_step)
{
	const struct et_walk *kept = &job->kept;
	int64_t bytes = (int64_t)et_scalar_size(job->in_type);
	*ret_step = kept->strides[kept->n_views - 1][kept->n_dims - 1] * bytes;
	return job->in + place->offset[kept->n_views - 1] * bytes;
}

/* --- sums ------------------------------------------------------------------------------------------ */

/* Each row in its order, starting from @first; next(now, x) takes in one number. */
#define REDUCE_ROWS(name, type, sum_type, first, next)                                                              \
	static void name(const struct reduce_job *job, const struct et_place *place, size_t n_rows, sum_type *sums) \
	{                                                                                                           \
		size_t r = 0, n = job->reduced.numel;                                                               \
		int64_t step;                                                                                       \
		const uint8_t *in = first_row(job, place, &step);                                                   \
		for (; r + ABREAST <= n_rows; r += ABREAST, in += ABREAST * step) {                                 \
			sum_type now[ABREAST];                                                                      \
			for (size_t i = 0; i < ABREAST; i++)                                                        \
				now[i] = first;                                                                     \
			for (size_t k = 0; k < n; k++) {                                                            \
				for (int64_t i = 0; i < ABREAST; i++) {                                             \
					const type x = ((const type *)(const void *)(in + i * step))[k];            \
					now[i] = (sum_type)next(now[i], x);                                         \
				}                                                                                   \
			}                                                                                           \
			memcpy(&sums[r], now, sizeof(now));                                                         \
		}                                                                                                   \
		for (; r < n_rows; r++, in += step) {                                                               \
			sum_type now = first;                                                                       \
			for (size_t k = 0; k < n; k++) {                                                            \
				const type x = ((const type *)(const void *)in)[k];                                 \
				now = (sum_type)next(now, x);                                                       \
			}                                                                                           \
			sums[r] = now;                                                                              \
		}                                                                                                   \
	}
#define PLUS(now, x)        ((now) + (x))
#define PLUS_BF16(now, x)   ((now) + et_bf16_to_float(x))
#define PLUS_FLOAT(now, x)  ((now) + (float)(x))
#define PLUS_DOUBLE(now, x) ((now) + (double)(x))
#define TIMES(now, x)       ((now) * (x))
#define TIMES_TRUTH(now, x) ((now) * ((x) != 0))
REDUCE_ROWS(add_floats, float, float, 0, PLUS)
REDUCE_ROWS(add_doubles, double, double, 0, PLUS)
REDUCE_ROWS(add_floats_as_doubles, float, double, 0, PLUS_DOUBLE)
REDUCE_ROWS(add_bf16, uint16_t, float, 0, PLUS_BF16)
REDUCE_ROWS(add_shorts_as_floats, int16_t, float, 0, PLUS_FLOAT)
REDUCE_ROWS(add_words_as_floats, int32_t, float, 0, PLUS_FLOAT)
REDUCE_ROWS(add_longs_as_floats, int64_t, float, 0, PLUS_FLOAT)
REDUCE_ROWS(add_longs_as_doubles, int64_t, double, 0, PLUS_DOUBLE)

static void sum_of_floats(const struct reduce_job *job, const struct et_place *place, size_t n_rows, double *sums)
{
	int64_t step;
	const uint8_t *in = first_row(job, place, &step);
	if (job->reduced.numel < SHORT_SUM) {
		add_floats_as_doubles(job, place, n_rows, sums);
		return;
	}
	for (size_t r = 0; r < n_rows; r++, in += step)
		sums[r] = et_ukernels()->sum(job->reduced.numel, (const float *)(const void *)in);
}

static void sum_of_doubles(const struct reduce_job *job, const struct et_place *place, size_t n_rows, double *sums)
{
	int64_t step;
	const uint8_t *in = first_row(job, place, &step);
	if (job->reduced.numel < SHORT_SUM) {
		add_doubles(job, place, n_rows, sums);
		return;
	}
	for (size_t r = 0; r < n_rows; r++, in += step)
		sums[r] = et_span_ukernels()->sum_doubles(job->reduced.numel, (const double *)(const void *)in);
}

/* For float, double and int64. */
static void sum_doubles(const struct reduce_job *job, const struct et_place *place, size_t n_rows)
{
	double sums[RESULTS];
	(job->in_type == ET_FLOAT32        ? sum_of_floats
		: job->in_type == ET_INT64 ? add_longs_as_doubles
					   : sum_of_doubles)(job, place, n_rows, sums);
	et_reduce_store_sums(job, place, sums, n_rows);
}

/* Sums in float, in order. */
static void mean_floats(const struct reduce_job *job, const struct et_place *place, size_t n_rows)
{
	static void (*const fns[])(const struct reduce_job *job, const struct et_place *place, size_t n_rows,
		float *sums) = {
		[ET_FLOAT32] = add_floats,
		[ET_BFLOAT16] = add_bf16,
		[ET_INT16] = add_shorts_as_floats,
		[ET_INT32] = add_words_as_floats,
		[ET_INT64] = add_longs_as_floats,
	};
	float sums[RESULTS];
	fns[job->in_type](job, place, n_rows, sums);
	for (size_t r = 0; r < n_rows; r++)
		sums[r] /= (float)job->reduced.numel;
	et_reduce_store(job, place, 0, ET_F32, sums, n_rows);
}

#define ADD_INTS(type, value)                                                   \
	for (size_t r = 0; r < n_rows; r++, in += step) {                       \
		const type *row = (const type *)(const void *)in;               \
		int64_t sum = 0;                                                \
		for (size_t k = 0; k < n; k++) /* vectorizes for every width */ \
			sum += value;                                           \
		sums[r] = sum;                                                  \
	}

static void add_ints(const struct reduce_job *job, const struct et_place *place, size_t n_rows)
{
	int64_t sums[RESULTS], step;
	size_t n = job->reduced.numel;
	const uint8_t *in = first_row(job, place, &step);
	if (job->in_type == ET_INT64)
		ADD_INTS(int64_t, row[k])
	else if (job->in_type == ET_INT32)
		ADD_INTS(int32_t, row[k])
	else if (job->in_type == ET_INT16)
		ADD_INTS(int16_t, row[k])
	else if (job->in_type == ET_INT8)
		ADD_INTS(int8_t, row[k])
	else if (job->in_type == ET_UINT8)
		ADD_INTS(uint8_t, row[k])
	else
		ADD_INTS(uint8_t, row[k] != 0)
	et_reduce_store_int_sums(job, place, sums, n_rows);
}

static bool is_int(enum et_scalar_type type)
{
	return type == ET_INT64 || type == ET_INT32 || type == ET_INT16 || type == ET_BOOL || et_reduce_is_byte(type);
}

static bool is_known_int(const struct reduce_job *job)
{
	return !job->is_double && is_int(job->in_type);
}

static bool is_exact(const struct reduce_job *job)
{
	return is_int(job->in_type) && et_reduce_is_exact(job);
}

et_reduce_many_fn et_reduce_sum_rows(const struct reduce_job *job)
{
	if (is_known_int(job) || is_exact(job))
		return add_ints;
	return job->is_double && (job->in_type == ET_FLOAT64 || job->in_type == ET_FLOAT32 || job->in_type == ET_INT64)
		       ? sum_doubles
		       : NULL;
}

et_reduce_many_fn et_reduce_mean_rows(const struct reduce_job *job)
{
	if (job->rounding == ET_FLOAT64 || is_exact(job))
		return et_reduce_sum_rows(job);
	return job->in_type == ET_FLOAT32 || job->in_type == ET_BFLOAT16 || job->in_type == ET_INT16 ||
			       job->in_type == ET_INT32 || job->in_type == ET_INT64
		       ? mean_floats
		       : NULL;
}

/* --- variances ------------------------------------------------------------------------------------- */

/* Four independent sums. */
#define SQUARED(x) (((double)(x) - mean) * ((double)(x) - mean))
#define SQUARES(type, ukernels)                                                                                  \
	for (size_t r = 0; r < n_rows; r++, in += step) {                                                        \
		const type *row = (const type *)(const void *)in;                                                \
		const double mean = means[r] / (double)n;                                                        \
		double sums[4] = { 0 };                                                                          \
		size_t k = 0;                                                                                    \
		for (; n < SHORT_SUM && k + 4 <= n; k += 4) {                                                    \
			for (size_t i = 0; i < 4; i++)                                                           \
				sums[i] += SQUARED(row[k + i]);                                                  \
		}                                                                                                \
		for (; n < SHORT_SUM && k < n; k++)                                                              \
			sums[0] += SQUARED(row[k]);                                                              \
		means[r] = mean;                                                                                 \
		squares[r] = n < SHORT_SUM ? (sums[0] + sums[1]) + (sums[2] + sums[3]) : ukernels(n, row, mean); \
	}

static void var_floats(const struct reduce_job *job, const struct et_place *place, size_t n_rows)
{
	double means[RESULTS], squares[RESULTS];
	const size_t n = job->reduced.numel;
	int64_t step;
	const uint8_t *in = first_row(job, place, &step);
	(job->in_type == ET_FLOAT32 ? sum_of_floats : sum_of_doubles)(job, place, n_rows, means);
	if (job->in_type == ET_FLOAT32)
		SQUARES(float, et_ukernels()->squares)
	else
		SQUARES(double, et_span_ukernels()->squares_of_doubles)
	et_reduce_store_sums(job, place, squares, n_rows);
	if (job->outs[1])
		et_reduce_store(job, place, 1, ET_F64, means, n_rows);
}

et_reduce_many_fn et_reduce_var_rows(const struct reduce_job *job)
{
	return job->rounding == ET_FLOAT64 && (job->in_type == ET_FLOAT32 || job->in_type == ET_FLOAT64) ? var_floats
													 : NULL;
}

/* --- products -------------------------------------------------------------------------------------- */

#define MULTIPLY_ROWS(name, type, product_type, compute_class, next)                                \
	REDUCE_ROWS(name##_products, type, product_type, 1, next)                                   \
	static void name(const struct reduce_job *job, const struct et_place *place, size_t n_rows) \
	{                                                                                           \
		product_type products[RESULTS];                                                     \
		name##_products(job, place, n_rows, products);                                      \
		et_reduce_store(job, place, 0, compute_class, products, n_rows);                    \
	}
MULTIPLY_ROWS(multiply_floats, float, double, ET_F64, TIMES)
MULTIPLY_ROWS(multiply_doubles, double, double, ET_F64, TIMES)
MULTIPLY_ROWS(multiply_longs, int64_t, int64_t, ET_I64, TIMES)
MULTIPLY_ROWS(multiply_words, int32_t, int64_t, ET_I64, TIMES)
MULTIPLY_ROWS(multiply_shorts, int16_t, int64_t, ET_I64, TIMES)
MULTIPLY_ROWS(multiply_signed_bytes, int8_t, int64_t, ET_I64, TIMES)
MULTIPLY_ROWS(multiply_bytes, uint8_t, int64_t, ET_I64, TIMES)
MULTIPLY_ROWS(multiply_truths, uint8_t, int64_t, ET_I64, TIMES_TRUTH)

et_reduce_many_fn et_reduce_prod_rows(const struct reduce_job *job)
{
	static const et_reduce_many_fn ints[] = {
		[ET_INT64] = multiply_longs,
		[ET_INT32] = multiply_words,
		[ET_INT16] = multiply_shorts,
		[ET_INT8] = multiply_signed_bytes,
		[ET_UINT8] = multiply_bytes,
		[ET_BOOL] = multiply_truths,
	};
	if (job->is_double && job->rounding != ET_FLOAT64) /* each product must be rounded to fp16 or bf16 */
		return NULL;
	if (job->is_double)
		return job->in_type == ET_FLOAT32   ? multiply_floats
		       : job->in_type == ET_FLOAT64 ? multiply_doubles
						    : NULL;
	return is_known_int(job) ? ints[job->in_type] : NULL;
}

/* --- any ------------------------------------------------------------------------------------------- */

#define ANY_IN(type)                                                         \
	for (size_t k = 0; k < n && !any; k += SHORT_ROW) {                  \
		size_t part = n - k < SHORT_ROW ? n - k : SHORT_ROW;         \
		for (size_t i = 0; i < part; i++)                            \
			any |= ((const type *)(const void *)in)[k + i] != 0; \
	}

#define ANY_ROWS(name, type, flag)                                                                  \
	static void name(const struct reduce_job *job, const struct et_place *place, size_t n_rows) \
	{                                                                                           \
		int64_t found[RESULTS], step;                                                       \
		size_t n = job->reduced.numel;                                                      \
		const uint8_t *in = first_row(job, place, &step);                                   \
		for (size_t r = 0; r < n_rows; r++, in += step) {                                   \
			flag any = 0; /* as wide as the numbers, so that both are vectors */        \
			ANY_IN(type)                                                                \
			found[r] = any;                                                             \
		}                                                                                   \
		et_reduce_store(job, place, 0, ET_I64, found, n_rows);                              \
	}
ANY_ROWS(any_bytes, uint8_t, uint8_t)
ANY_ROWS(any_shorts, int16_t, int16_t)
ANY_ROWS(any_words, int32_t, int32_t)
ANY_ROWS(any_longs, int64_t, int64_t)
ANY_ROWS(any_floats, float, int32_t)
ANY_ROWS(any_doubles, double, int64_t)

/* Whether a bit of @mask is set in one of the @left bytes. */
static bool is_any_of(const uint8_t *bytes, size_t left, uint64_t mask)
{
	enum { WORDS = 16 };
	uint64_t words[WORDS], any = 0;
	for (size_t part = sizeof(*words); left && !any; left -= part, bytes += part, part = sizeof(words)) {
		part = part < left ? part : left;
		memset(words, 0, part < sizeof(words) ? sizeof(words) : 0);
		memcpy(words, bytes, part);
		for (size_t i = 0; i < (part + 7) / 8; i++)
			any |= words[i] & mask;
	}
	return any;
}

bool et_reduce_is_any(const struct et_compute *compute, const struct et_tensor *tensor)
{
	const size_t size = et_scalar_size(tensor->type), n_bytes = et_tensor_n_bytes(tensor);
	/* The sign bit of floats is masked, so that both zeros count as 0. */
	const uint64_t ones = UINT64_MAX, mask = !et_type_is_float(tensor->type) ? ones
						 : size == 2                     ? ones / 0xffff * 0x7fff
						 : size == 4                     ? ones / 0xffffffff * 0x7fffffff
										 : ones >> 1;
	struct et_pace pace = { compute };
	bool is_any = false;
	for (size_t at = 0, part; !is_any && (part = et_pace_chunk(&pace, at, n_bytes)); at += part)
		is_any = is_any_of((const uint8_t *)tensor->data + at, part, mask);
	return is_any;
}

et_reduce_many_fn et_reduce_any_rows(const struct reduce_job *job)
{
	enum et_scalar_type type = job->in_type;
	if (type == ET_BOOL || et_reduce_is_byte(type))
		return any_bytes;
	return type == ET_INT16     ? any_shorts
	       : type == ET_INT32   ? any_words
	       : type == ET_INT64   ? any_longs
	       : type == ET_FLOAT32 ? any_floats
	       : type == ET_FLOAT64 ? any_doubles
				    : NULL;
}

/* --- extremes -------------------------------------------------------------------------------------- */

#define ROTATE_4(v, by) __builtin_shufflevector(v, v, (by), (by) + 1, ((by) + 2) % 4, ((by) + 3) % 4)
/* Vectors of N lanes; @n is at least 1; NaN if one is. */
#define KEEP_BETTER(not_better)                               \
	is_better = ~(next not_better most) & (most == most); \
	most = (lanes)((is_better & (masks)next) | (~is_better & (masks)most))
#define EXTREME_OF(name, type, mask, N, not_better)                                             \
	static type name(size_t n, const type *x)                                               \
	{                                                                                       \
		enum { LANES = (N) };                                                           \
		typedef type lanes __attribute__((vector_size(LANES * sizeof(type))));          \
		typedef mask masks __attribute__((vector_size(LANES * sizeof(type))));          \
		lanes most, next;                                                               \
		masks is_better;                                                                \
		if (n < LANES) {                                                                \
			type one = x[0];                                                        \
			for (size_t k = 1; k < n; k++)                                          \
				one = !(x[k] not_better one) && one == one ? x[k] : one;        \
			return one;                                                             \
		}                                                                               \
		memcpy(&most, x, sizeof(most));                                                 \
		for (size_t k = LANES; k + LANES <= n; k += LANES) {                            \
			memcpy(&next, x + k, sizeof(next));                                     \
			KEEP_BETTER(not_better);                                                \
		}                                                                               \
		memcpy(&next, x + n - LANES, sizeof(next)); /* overlaps numbers already seen */ \
		KEEP_BETTER(not_better);                                                        \
		next = ROTATE_##N(most, 2);                                                     \
		KEEP_BETTER(not_better);                                                        \
		next = ROTATE_##N(most, 1);                                                     \
		KEEP_BETTER(not_better);                                                        \
		return most[0];                                                                 \
	}
EXTREME_OF(max_of_short, float, int32_t, 4, <=)
EXTREME_OF(min_of_short, float, int32_t, 4, >=)

/* For integers, which the compiler vectorizes. */
#define EXTREME_OF_INTS(name, type, better)                    \
	static type name(size_t n, const type *x)              \
	{                                                      \
		type most = x[0];                              \
		for (size_t k = 1; k < n; k++)                 \
			most = x[k] better most ? x[k] : most; \
		return most;                                   \
	}
EXTREME_OF_INTS(max_of_words, int32_t, >)
EXTREME_OF_INTS(min_of_words, int32_t, <)
EXTREME_OF_INTS(max_of_shorts, int16_t, >)
EXTREME_OF_INTS(min_of_shorts, int16_t, <)

static float extreme_of_floats(size_t n, const float *x, bool is_least)
{
	if (n > SHORT_ROW)
		return is_least ? et_ukernels()->smallest(n, x) : et_ukernels()->largest(n, x);
	return is_least ? min_of_short(n, x) : max_of_short(n, x);
}

static double extreme_of_doubles(size_t n, const double *x, bool is_least)
{
	return is_least ? et_span_ukernels()->smallest_double(n, x) : et_span_ukernels()->largest_double(n, x);
}

static int64_t extreme_of_longs(size_t n, const int64_t *x, bool is_least)
{
	return is_least ? et_span_ukernels()->smallest_long(n, x) : et_span_ukernels()->largest_long(n, x);
}

/* The largest byte after XOR with @flip_sign; the result is still flipped. */
static uint8_t extreme_of_bytes(size_t n, const uint8_t *x, uint8_t flip_sign)
{
	typedef uint8_t bytes __attribute__((vector_size(BYTES)));
	bytes lanes = { 0 }, next;
	uint8_t most = 0;
	if (n < BYTES) {
		for (size_t k = 0; k < n; k++) {
			uint8_t number = x[k] ^ flip_sign;
			most = number > most ? number : most;
		}
		return most;
	}
	for (size_t k = 0; k < n; k += BYTES) {
		/* the last vector may overlap the one before */
		memcpy(&next, k + BYTES <= n ? x + k : x + n - BYTES, sizeof(next));
		next ^= flip_sign;
		bytes is_better = (bytes)(next > lanes);
		lanes = (is_better & next) | (~is_better & lanes);
	}
	for (size_t i = 0; i < BYTES; i++)
		most = lanes[i] > most ? lanes[i] : most;
	return most;
}

#define EACH_ROW(type, value)                                     \
	for (size_t r = 0; r < n_rows; r++, in += step) {         \
		const type *row = (const type *)(const void *)in; \
		results[r] = value;                               \
	}

/* Several short adjacent rows; false: the rows are not of this kind. */
static bool store_extremes_of_short_rows(const struct reduce_job *job, const struct et_place *place, size_t n_rows,
	bool is_least)
{
	const size_t n = job->reduced.numel, row_bytes = n * et_scalar_size(job->in_type);
	const enum et_compute_class narrow = et_narrow_class_of(job->in_type),
				    compute_class = narrow == ET_N_SPANS ? et_class_of(job->in_type) : narrow;
	const struct et_span_ukernels *ukernels = et_span_ukernels();
	int64_t results[RESULTS], wide[RESULTS], step; /* for results of any type, with room for the widest */
	const uint8_t *in = first_row(job, place, &step);
	if (row_bytes >= (row_bytes <= 2 * n ? NARROW_ROW : ET_SHORT_ROW) || step != (int64_t)row_bytes ||
		n_rows < ABREAST)
		return false;
	(is_least ? ukernels->smallest_of_rows : ukernels->largest_of_rows)[compute_class](n_rows, n, results, in);
	if (et_storer(job->outs[0]->type, compute_class)) {
		et_reduce_store(job, place, 0, compute_class, results, n_rows);
		return true;
	}
	et_loader(job->in_type, ET_I64)(wide, results, 1, n_rows);
	et_reduce_store(job, place, 0, ET_I64, wide, n_rows);
	return true;
}

static void extreme_floats(const struct reduce_job *job, const struct et_place *place, size_t n_rows, bool is_least)
{
	const struct et_span_ukernels *ukernels = et_span_ukernels();
	double results[RESULTS];
	size_t n = job->reduced.numel;
	int64_t step;
	const uint8_t *in = first_row(job, place, &step);
	if (store_extremes_of_short_rows(job, place, n_rows, is_least))
		return;
	if (job->in_type == ET_FLOAT64)
		(is_least ? ukernels->smallest_of_doubles : ukernels->largest_of_doubles)(n_rows, n, results,
			(const double *)(const void *)in, (ptrdiff_t)(step / (int64_t)sizeof(double)));
	else
		EACH_ROW(float, (double)extreme_of_floats(n, row, is_least))
	et_reduce_store(job, place, 0, ET_F64, results, n_rows);
}

static void extreme_ints(const struct reduce_job *job, const struct et_place *place, size_t n_rows, bool is_least)
{
	const struct et_span_ukernels *ukernels = et_span_ukernels();
	int64_t results[RESULTS], step;
	size_t n = job->reduced.numel;
	const uint8_t *in = first_row(job, place, &step);
	uint8_t flip_sign = et_reduce_flip_sign(is_least, job->in_type == ET_INT8);
	if (store_extremes_of_short_rows(job, place, n_rows, is_least))
		return;
	if (job->in_type == ET_INT64)
		(is_least ? ukernels->smallest_of_longs : ukernels->largest_of_longs)(n_rows, n, results,
			(const int64_t *)(const void *)in, (ptrdiff_t)(step / (int64_t)sizeof(int64_t)));
	else if (job->in_type == ET_INT32)
		EACH_ROW(int32_t, is_least ? min_of_words(n, row) : max_of_words(n, row))
	else if (job->in_type == ET_INT16)
		EACH_ROW(int16_t, is_least ? min_of_shorts(n, row) : max_of_shorts(n, row))
	else if (job->in_type == ET_INT8)
		EACH_ROW(uint8_t, (int8_t)(extreme_of_bytes(n, row, flip_sign) ^ flip_sign))
	else /* bool: any byte that is not 0 is true */
		EACH_ROW(uint8_t, extreme_of_bytes(n, row, flip_sign) ^ flip_sign)
	for (size_t r = 0; r < n_rows && job->in_type == ET_BOOL; r++)
		results[r] = results[r] != 0;
	et_reduce_store(job, place, 0, ET_I64, results, n_rows);
}

static void largest(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	(job->is_double ? extreme_floats : extreme_ints)(job, place, n, false);
}

static void smallest(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	(job->is_double ? extreme_floats : extreme_ints)(job, place, n, true);
}

static bool has_extremes(const struct reduce_job *job)
{
	return is_known_int(job) || job->in_type == ET_FLOAT32 || job->in_type == ET_FLOAT64;
}

et_reduce_many_fn et_reduce_max_rows(const struct reduce_job *job)
{
	return has_extremes(job) ? largest : NULL;
}

et_reduce_many_fn et_reduce_min_rows(const struct reduce_job *job)
{
	return has_extremes(job) ? smallest : NULL;
}

/* --- indices of extremes --------------------------------------------------------------------------- */

/* The first number equal to @sought, which is in x; any NaN if @sought is NaN. */
#define FIND(name, type, flag)                                                \
	static size_t name(size_t n, const type *x, type sought)              \
	{                                                                     \
		size_t k = 0;                                                 \
		for (flag is_here = 0; k + GROUP <= n; k += GROUP) {          \
			for (size_t i = k; i < k + GROUP; i++)                \
				is_here |= (x[i] == sought) | (x[i] != x[i]); \
			if (is_here)                                          \
				break;                                        \
		}                                                             \
		while (k + 1 < n && x[k] != sought && x[k] == x[k])           \
			k++;                                                  \
		return k;                                                     \
	}
FIND(find_float, float, int32_t)
FIND(find_double, double, int64_t)
FIND(find_long, int64_t, int64_t)
FIND(find_word, int32_t, int32_t)
FIND(find_short, int16_t, int16_t)

static size_t find_byte(size_t n, const uint8_t *x, uint8_t sought)
{
	const uint8_t *place = memchr(x, sought, n);
	return place ? (size_t)(place - x) : 0;
}

static size_t find_signed_byte(size_t n, const int8_t *x, int8_t sought)
{
	return find_byte(n, (const uint8_t *)x, (uint8_t)sought);
}

/* The first true (or false) number; 0 if there is none. */
static size_t find_truth(size_t n, const uint8_t *x, bool sought)
{
	size_t k = 0;
	if (!sought)
		return find_byte(n, x, 0);
	for (uint8_t any = 0; k + GROUP <= n; k += GROUP) {
		for (size_t i = k; i < k + GROUP; i++)
			any |= x[i];
		if (any)
			break;
	}
	while (k < n && !x[k])
		k++;
	return k < n ? k : 0;
}

static void store_indices(const struct reduce_job *job, const struct et_place *place,
	enum et_compute_class compute_class, const void *values, const int64_t *indices, size_t n_rows)
{
	if (job->outs[1])
		et_reduce_store(job, place, 0, compute_class, values, n_rows);
	et_reduce_store(job, place, job->outs[1] ? 1 : 0, ET_I64, indices, n_rows);
}

#define CHOOSE_ROWS(name, type, wide, compute_class, find, extreme)                                                \
	static void name(const struct reduce_job *job, const struct et_place *place, size_t n_rows, bool is_least) \
	{                                                                                                          \
		wide results[RESULTS];                                                                             \
		int64_t indices[RESULTS], step;                                                                    \
		size_t n = job->reduced.numel;                                                                     \
		const uint8_t *in = first_row(job, place, &step);                                                  \
		for (size_t r = 0; r < n_rows; r++, in += step) {                                                  \
			const type *row = (const type *)(const void *)in;                                          \
			size_t where = find(n, row, extreme);                                                      \
			results[r] = (wide)row[where];                                                             \
			indices[r] = (int64_t)where;                                                               \
		}                                                                                                  \
		store_indices(job, place, compute_class, results, indices, n_rows);                                \
	}
CHOOSE_ROWS(choose_floats, float, double, ET_F64, find_float, extreme_of_floats(n, row, is_least))
CHOOSE_ROWS(choose_doubles, double, double, ET_F64, find_double, extreme_of_doubles(n, row, is_least))
CHOOSE_ROWS(choose_longs, int64_t, int64_t, ET_I64, find_long, extreme_of_longs(n, row, is_least))
CHOOSE_ROWS(choose_words, int32_t, int64_t, ET_I64, find_word, is_least ? min_of_words(n, row) : max_of_words(n, row))
CHOOSE_ROWS(choose_shorts, int16_t, int64_t, ET_I64, find_short,
	is_least ? min_of_shorts(n, row) : max_of_shorts(n, row))
CHOOSE_ROWS(choose_signed_bytes, int8_t, int64_t, ET_I64, find_signed_byte,
	(int8_t)(extreme_of_bytes(n, in, et_reduce_flip_sign(is_least, true)) ^ et_reduce_flip_sign(is_least, true)))
CHOOSE_ROWS(choose_bytes, uint8_t, int64_t, ET_I64, find_byte,
	extreme_of_bytes(n, in, et_reduce_flip_sign(is_least, false)) ^ et_reduce_flip_sign(is_least, false))

static void choose_truths(const struct reduce_job *job, const struct et_place *place, size_t n_rows, bool is_least)
{
	int64_t results[RESULTS], indices[RESULTS], step;
	size_t n = job->reduced.numel;
	const uint8_t *in = first_row(job, place, &step);
	for (size_t r = 0; r < n_rows; r++, in += step) {
		size_t where = find_truth(n, in, !is_least);
		results[r] = in[where] != 0;
		indices[r] = (int64_t)where;
	}
	store_indices(job, place, ET_I64, results, indices, n_rows);
}

static void choose(const struct reduce_job *job, const struct et_place *place, size_t n, bool is_least)
{
	if (job->is_double)
		(job->in_type == ET_FLOAT32 ? choose_floats : choose_doubles)(job, place, n, is_least);
	else if (job->in_type == ET_INT64)
		choose_longs(job, place, n, is_least);
	else if (job->in_type == ET_INT32)
		choose_words(job, place, n, is_least);
	else if (job->in_type == ET_INT16)
		choose_shorts(job, place, n, is_least);
	else if (job->in_type == ET_INT8)
		choose_signed_bytes(job, place, n, is_least);
	else if (job->in_type == ET_UINT8)
		choose_bytes(job, place, n, is_least);
	else
		choose_truths(job, place, n, is_least);
}

static void choose_largest(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	choose(job, place, n, false);
}

static void choose_smallest(const struct reduce_job *job, const struct et_place *place, size_t n)
{
	choose(job, place, n, true);
}

static bool has_choice(const struct reduce_job *job)
{
	return is_known_int(job) || (job->is_double && (job->in_type == ET_FLOAT32 || job->in_type == ET_FLOAT64));
}

et_reduce_many_fn et_reduce_argmax_rows(const struct reduce_job *job)
{
	return has_choice(job) ? choose_largest : NULL;
}

et_reduce_many_fn et_reduce_argmin_rows(const struct reduce_job *job)
{
	return has_choice(job) ? choose_smallest : NULL;
}
