/* Reductions along rows: what is folded lies one number behind the other, and rows are equally far apart.
 *
 * To go through the engine for each row takes longer than the numbers of a short one. So many rows are folded one after the
 * other by a loop that knows their type, into an array; and where a number has to wait for the one before, several
 * rows go abreast. Each result is the same as by itself. */
#include "runtime/kernels/fold_rows.h"
#include "runtime/kernels/hot.h"

#include <string.h>

enum { ABREAST = 8, GROUP = 32, SHORT_ROW = 64, BYTES = 16, RESULTS = ET_FOLD_COLUMNS };

/* The first row at @place, and how far apart they are. */
static const uint8_t *first_row(const struct fold_job *job, const struct et_place *place, int64_t *ret_step)
{
	const struct et_walk *kept = &job->kept;
	int64_t bytes = (int64_t)et_scalar_size(job->in_type);
	*ret_step = kept->strides[kept->n_views - 1][kept->n_dims - 1] * bytes;
	return job->in + place->offset[kept->n_views - 1] * bytes;
}

/* --- sums ------------------------------------------------------------------------------------------ */

/* Each in its order. */
#define ADD_ROWS(name, type, sum_type)                                                                      \
	static void name(                                                                                   \
		const struct fold_job *job, const struct et_place *place, size_t n_rows, sum_type *sums)    \
	{                                                                                                   \
		size_t r = 0, n = job->folded.numel;                                                        \
		int64_t step;                                                                               \
		const uint8_t *in = first_row(job, place, &step);                                           \
		for (; r + ABREAST <= n_rows; r += ABREAST, in += ABREAST * step) {                         \
			sum_type now[ABREAST] = { 0 };                                                      \
			for (size_t k = 0; k < n; k++) {                                                    \
				for (int64_t i = 0; i < ABREAST; i++)                                       \
					now[i] +=                                                           \
						(sum_type)((const type *)(const void *)(in + i * step))[k]; \
			}                                                                                   \
			memcpy(&sums[r], now, sizeof(now));                                                 \
		}                                                                                           \
		for (; r < n_rows; r++, in += step) {                                                       \
			sum_type now = 0;                                                                   \
			for (size_t k = 0; k < n; k++)                                                      \
				now += (sum_type)((const type *)(const void *)in)[k];                       \
			sums[r] = now;                                                                      \
		}                                                                                           \
	}
ADD_ROWS(add_floats, float, float)
ADD_ROWS(add_short, float, double)
ADD_ROWS(add_doubles, double, double)

static void sum_floats(const struct fold_job *job, const struct et_place *place, size_t n_rows)
{
	double sums[RESULTS];
	int64_t step;
	const uint8_t *in = first_row(job, place, &step);
	if (job->folded.numel < ABREAST)
		add_short(job, place, n_rows, sums);
	for (size_t r = 0; r < n_rows && job->folded.numel >= ABREAST; r++, in += step)
		sums[r] = et_hot()->sum(job->folded.numel, (const float *)(const void *)in);
	et_fold_give_sums(job, place, sums, n_rows);
}

static void sum_doubles(const struct fold_job *job, const struct et_place *place, size_t n_rows)
{
	double sums[RESULTS];
	add_doubles(job, place, n_rows, sums);
	et_fold_give_sums(job, place, sums, n_rows);
}

static void mean_floats(const struct fold_job *job, const struct et_place *place, size_t n_rows)
{
	float sums[RESULTS];
	add_floats(job, place, n_rows, sums);
	for (size_t r = 0; r < n_rows; r++)
		sums[r] /= (float)job->folded.numel;
	et_fold_give(job, place, 0, ET_F32, sums, n_rows);
}

#define ADD_INTS(type, value)                                              \
	for (size_t r = 0; r < n_rows; r++, in += step) {                  \
		const type *row = (const type *)(const void *)in;          \
		int64_t sum = 0;                                           \
		for (size_t k = 0; k < n; k++) /* vectors of all widths */ \
			sum += value;                                      \
		sums[r] = sum;                                             \
	}

static void add_ints(const struct fold_job *job, const struct et_place *place, size_t n_rows)
{
	int64_t sums[RESULTS], step;
	size_t n = job->folded.numel;
	const uint8_t *in = first_row(job, place, &step);
	if (job->in_type == ET_INT64)
		ADD_INTS(int64_t, row[k])
	else if (job->in_type == ET_INT32)
		ADD_INTS(int32_t, row[k])
	else if (job->in_type == ET_INT8)
		ADD_INTS(int8_t, row[k])
	else if (job->in_type == ET_UINT8)
		ADD_INTS(uint8_t, row[k])
	else
		ADD_INTS(uint8_t, row[k] != 0)
	et_fold_give(job, place, 0, ET_I64, sums, n_rows);
}

static bool is_known_int(const struct fold_job *job)
{
	return !job->is_double && (job->in_type == ET_INT64 || job->in_type == ET_INT32 ||
					  job->in_type == ET_BOOL || et_fold_is_byte(job->in_type));
}

et_fold_many_fn et_fold_sum_rows(const struct fold_job *job)
{
	if (job->in_type == ET_FLOAT64)
		return sum_doubles;
	return job->in_type == ET_FLOAT32 ? sum_floats : is_known_int(job) ? add_ints : NULL;
}

et_fold_many_fn et_fold_mean_rows(const struct fold_job *job)
{
	if (job->rounding == ET_FLOAT64)
		return job->in_type == ET_FLOAT32 || job->in_type == ET_FLOAT64 ? et_fold_sum_rows(job)
										: NULL;
	return job->in_type == ET_FLOAT32 ? mean_floats : NULL;
}

/* --- whether there is any -------------------------------------------------------------------------- */

#define ANY_IN(type)                                                         \
	for (size_t k = 0; k < n && !any; k += SHORT_ROW) {                  \
		size_t part = n - k < SHORT_ROW ? n - k : SHORT_ROW;         \
		for (size_t i = 0; i < part; i++)                            \
			any |= ((const type *)(const void *)in)[k + i] != 0; \
	}

static void find_any(const struct fold_job *job, const struct et_place *place, size_t n_rows)
{
	int64_t found[RESULTS], step;
	size_t n = job->folded.numel;
	const uint8_t *in = first_row(job, place, &step);
	for (size_t r = 0; r < n_rows; r++, in += step) {
		if (job->in_type == ET_FLOAT32) {
			int32_t any = 0; /* as wide as the numbers: vectors of both */
			ANY_IN(float)
			found[r] = any;
		} else {
			uint8_t any = 0;
			ANY_IN(uint8_t)
			found[r] = any;
		}
	}
	et_fold_give(job, place, 0, ET_I64, found, n_rows);
}

et_fold_many_fn et_fold_any_rows(const struct fold_job *job)
{
	bool is_byte = job->in_type == ET_BOOL || et_fold_is_byte(job->in_type);
	return is_byte || job->in_type == ET_FLOAT32 ? find_any : NULL;
}

/* --- extremes -------------------------------------------------------------------------------------- */

#define TURN_4(v, by) __builtin_shufflevector(v, v, (by), (by) + 1, ((by) + 2) % 4, ((by) + 3) % 4)
#define TURN_2(v, by) __builtin_shufflevector(v, v, (by) % 2, ((by) + 1) % 2)
/* Of one number or more in N lanes; NaN if one is. */
#define TAKE_BETTER(no_better)                          \
	take = ~(next no_better most) & (most == most); \
	most = (lanes)((take & (masks)next) | (~take & (masks)most))
#define EXTREME_OF(name, type, mask, N, no_better)                                       \
	static type name(size_t n, const type *x)                                        \
	{                                                                                \
		enum { LANES = (N) };                                                    \
		typedef type lanes __attribute__((vector_size(LANES * sizeof(type))));   \
		typedef mask masks __attribute__((vector_size(LANES * sizeof(type))));   \
		lanes most, next;                                                        \
		masks take;                                                              \
		if (n < LANES) {                                                         \
			type one = x[0];                                                 \
			for (size_t k = 1; k < n; k++)                                   \
				one = !(x[k] no_better one) && one == one ? x[k] : one;  \
			return one;                                                      \
		}                                                                        \
		memcpy(&most, x, sizeof(most));                                          \
		for (size_t k = LANES; k + LANES <= n; k += LANES) {                     \
			memcpy(&next, x + k, sizeof(next));                              \
			TAKE_BETTER(no_better);                                          \
		}                                                                        \
		memcpy(&next, x + n - LANES, sizeof(next)); /* some of them once more */ \
		TAKE_BETTER(no_better);                                                  \
		if (LANES == 4) {                                                        \
			next = TURN_##N(most, 2);                                        \
			TAKE_BETTER(no_better);                                          \
		}                                                                        \
		next = TURN_##N(most, 1);                                                \
		TAKE_BETTER(no_better);                                                  \
		return most[0];                                                          \
	}
EXTREME_OF(max_of_short, float, int32_t, 4, <=)
EXTREME_OF(min_of_short, float, int32_t, 4, >=)
EXTREME_OF(max_of_doubles, double, int64_t, 2, <=)
EXTREME_OF(min_of_doubles, double, int64_t, 2, >=)
EXTREME_OF(max_of_words, int32_t, int32_t, 4, <=)
EXTREME_OF(min_of_words, int32_t, int32_t, 4, >=)

static float extreme_of_floats(size_t n, const float *x, bool is_least)
{
	if (n > SHORT_ROW)
		return is_least ? et_hot()->smallest(n, x) : et_hot()->largest(n, x);
	return is_least ? min_of_short(n, x) : max_of_short(n, x);
}

/* Four at a time, which do not wait for each other. */
static int64_t extreme_of_longs(size_t n, const int64_t *x, bool is_least)
{
	int64_t turn = is_least ? -1 : 0, most[4] = { INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN };
	size_t k = 0;
	for (; k + ET_ARRAY_LEN(most) <= n; k += ET_ARRAY_LEN(most)) {
		for (size_t i = 0; i < ET_ARRAY_LEN(most); i++)
			most[i] = (x[k + i] ^ turn) > most[i] ? x[k + i] ^ turn : most[i];
	}
	for (; k < n; k++)
		most[0] = (x[k] ^ turn) > most[0] ? x[k] ^ turn : most[0];
	for (size_t i = 1; i < ET_ARRAY_LEN(most); i++)
		most[0] = most[i] > most[0] ? most[i] : most[0];
	return most[0] ^ turn;
}

/* With @turn's bits turned around in each; so is the result. */
static uint8_t extreme_of_bytes(size_t n, const uint8_t *x, uint8_t turn)
{
	typedef uint8_t bytes __attribute__((vector_size(BYTES)));
	bytes lanes = { 0 }, next;
	uint8_t most = 0;
	if (n < BYTES) {
		for (size_t k = 0; k < n; k++) {
			uint8_t number = x[k] ^ turn;
			most = number > most ? number : most;
		}
		return most;
	}
	for (size_t k = 0; k < n; k += BYTES) {
		memcpy(&next, k + BYTES <= n ? x + k : x + n - BYTES,
			sizeof(next)); /* some of them once more */
		next ^= turn;
		bytes take = (bytes)(next > lanes);
		lanes = (take & next) | (~take & lanes);
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

/* Of rows that are shorter than vectors: so many of them are put side by side. */
static void extreme_abreast(
	double *results, size_t n_rows, const uint8_t *in, int64_t step, size_t n, bool is_least)
{
	float columns[ABREAST][GROUP], most[GROUP];
	for (size_t r = 0; r < n_rows; r += GROUP) {
		size_t part = n_rows - r < GROUP ? n_rows - r : GROUP;
		for (size_t i = 0; i < part; i++, in += step) {
			for (size_t k = 0; k < n; k++)
				columns[k][i] =
					((const float *)(const void *)in)[k] * (is_least ? -1.0f : 1.0f);
		}
		memcpy(most, columns[0], sizeof(most));
		for (size_t k = 1; k < n; k++) {
			for (size_t i = 0; i < part; i++) {
				float number = columns[k][i];
				bool is_better = !(number <= most[i]) & (most[i] == most[i]);
				most[i] = is_better ? number : most[i];
			}
		}
		for (size_t i = 0; i < part; i++)
			results[r + i] = (double)most[i] * (is_least ? -1 : 1);
	}
}

static void extreme_floats(
	const struct fold_job *job, const struct et_place *place, size_t n_rows, bool is_least)
{
	double results[RESULTS];
	size_t n = job->folded.numel;
	int64_t step;
	const uint8_t *in = first_row(job, place, &step);
	if (job->in_type == ET_FLOAT32 && n <= ABREAST)
		extreme_abreast(results, n_rows, in, step, n, is_least);
	else if (job->in_type == ET_FLOAT32)
		EACH_ROW(float, (double)extreme_of_floats(n, row, is_least))
	else if (is_least)
		EACH_ROW(double, min_of_doubles(n, row))
	else
		EACH_ROW(double, max_of_doubles(n, row))
	et_fold_give(job, place, 0, ET_F64, results, n_rows);
}

static void extreme_ints(
	const struct fold_job *job, const struct et_place *place, size_t n_rows, bool is_least)
{
	int64_t results[RESULTS], step;
	size_t n = job->folded.numel;
	const uint8_t *in = first_row(job, place, &step);
	uint8_t turn = et_fold_turned_bits(is_least, job->in_type == ET_INT8);
	if (job->in_type == ET_INT64)
		EACH_ROW(int64_t, extreme_of_longs(n, row, is_least))
	else if (job->in_type == ET_INT32)
		EACH_ROW(int32_t, is_least ? min_of_words(n, row) : max_of_words(n, row))
	else if (job->in_type == ET_INT8)
		EACH_ROW(uint8_t, (int8_t)(extreme_of_bytes(n, row, turn) ^ turn))
	else /* whatever is not 0 is true */
		EACH_ROW(uint8_t, extreme_of_bytes(n, row, turn) ^ turn)
	for (size_t r = 0; r < n_rows && job->in_type == ET_BOOL; r++)
		results[r] = results[r] != 0;
	et_fold_give(job, place, 0, ET_I64, results, n_rows);
}

static void largest(const struct fold_job *job, const struct et_place *place, size_t n)
{
	(job->is_double ? extreme_floats : extreme_ints)(job, place, n, false);
}

static void smallest(const struct fold_job *job, const struct et_place *place, size_t n)
{
	(job->is_double ? extreme_floats : extreme_ints)(job, place, n, true);
}

static bool has_extremes(const struct fold_job *job)
{
	return is_known_int(job) || job->in_type == ET_FLOAT32 || job->in_type == ET_FLOAT64;
}

et_fold_many_fn et_fold_max_rows(const struct fold_job *job)
{
	return has_extremes(job) ? largest : NULL;
}

et_fold_many_fn et_fold_min_rows(const struct fold_job *job)
{
	return has_extremes(job) ? smallest : NULL;
}

/* --- and where they are ---------------------------------------------------------------------------- */

/* The first that is @sought, which is there; of NaNs any is. */
static size_t find_float(size_t n, const float *x, float sought)
{
	size_t k = 0;
	for (int32_t is_here = 0; k + GROUP <= n; k += GROUP) {
		for (size_t i = k; i < k + GROUP; i++)
			is_here |= x[i] == sought || x[i] != x[i];
		if (is_here)
			break;
	}
	while (k + 1 < n && x[k] != sought && x[k] == x[k])
		k++;
	return k;
}

static size_t find_byte(size_t n, const uint8_t *x, uint8_t sought)
{
	const uint8_t *place = memchr(x, sought, n);
	return place ? (size_t)(place - x) : 0;
}

static void choose_floats(
	const struct fold_job *job, const struct et_place *place, size_t n_rows, bool is_least)
{
	double results[RESULTS];
	int64_t indices[RESULTS], step;
	size_t n = job->folded.numel;
	const uint8_t *in = first_row(job, place, &step);
	for (size_t r = 0; r < n_rows; r++, in += step) {
		const float *row = (const float *)(const void *)in;
		size_t where = find_float(n, row, extreme_of_floats(n, row, is_least));
		results[r] = (double)row[where];
		indices[r] = (int64_t)where;
	}
	if (job->outs[1])
		et_fold_give(job, place, 0, ET_F64, results, n_rows);
	et_fold_give(job, place, job->outs[1] ? 1 : 0, ET_I64, indices, n_rows);
}

static void choose_bytes(
	const struct fold_job *job, const struct et_place *place, size_t n_rows, bool is_least)
{
	int64_t results[RESULTS], indices[RESULTS], step;
	size_t n = job->folded.numel;
	const uint8_t *in = first_row(job, place, &step);
	bool is_signed = job->in_type == ET_INT8;
	uint8_t turn = et_fold_turned_bits(is_least, is_signed);
	for (size_t r = 0; r < n_rows; r++, in += step) {
		uint8_t most = extreme_of_bytes(n, in, turn) ^ turn;
		results[r] = is_signed ? (int8_t)most : most;
		indices[r] = (int64_t)find_byte(n, in, most);
	}
	if (job->outs[1])
		et_fold_give(job, place, 0, ET_I64, results, n_rows);
	et_fold_give(job, place, job->outs[1] ? 1 : 0, ET_I64, indices, n_rows);
}

static void choose_largest(const struct fold_job *job, const struct et_place *place, size_t n)
{
	(job->is_double ? choose_floats : choose_bytes)(job, place, n, false);
}

static void choose_smallest(const struct fold_job *job, const struct et_place *place, size_t n)
{
	(job->is_double ? choose_floats : choose_bytes)(job, place, n, true);
}

static bool has_choice(const struct fold_job *job)
{
	return job->is_double ? job->in_type == ET_FLOAT32 : et_fold_is_byte(job->in_type);
}

et_fold_many_fn et_fold_argmax_rows(const struct fold_job *job)
{
	return has_choice(job) ? choose_largest : NULL;
}

et_fold_many_fn et_fold_argmin_rows(const struct fold_job *job)
{
	return has_choice(job) ? choose_smallest : NULL;
}
