/* Reductions across rows: what is folded lies above each other, what is kept side by side.
 *
 * To go down one column after the other would touch a line of memory for each number. So many neighbours go down together,
 * with their results in an array, and the loops over a row are those that the compiler makes vectors of. Each result is
 * the same as by itself: it takes its numbers in the same order. */
#include "runtime/kernels/fold_columns.h"

#include <string.h>

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
	for (size_t k = 0; k < n && job->fold->finish; k++) {
		struct et_fold_state state = {
			.d = sums[k], .n = (int64_t)job->folded.numel, .rounding = job->rounding
		};
		job->fold->finish(&state);
		sums[k] = state.d;
	}
	et_fold_give(job, place, 0, ET_F64, sums, n);
}

void et_fold_sum_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	double sums[ET_FOLD_COLUMNS] = { 0 }, row[ET_FOLD_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F64);
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	for (size_t r = 0; r < job->folded.numel; r++, in += row_bytes) {
		if (job->in_type == ET_FLOAT32) {
			for (size_t k = 0; k < n; k++)
				sums[k] += (double)((const float *)in)[k];
			continue;
		}
		load(row, in, 1, n);
		for (size_t k = 0; k < n; k++)
			sums[k] += row[k];
	}
	et_fold_give_sums(job, place, sums, n);
}

void et_fold_sum_int_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	int64_t sums[ET_FOLD_COLUMNS] = { 0 }, row[ET_FOLD_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_I64);
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	for (size_t r = 0; r < job->folded.numel; r++, in += row_bytes) {
		const int64_t *numbers = (const int64_t *)(const void *)in;
		if (job->in_type != ET_INT64) {
			load(row, in, 1, n);
			numbers = row;
		}
		for (size_t k = 0; k < n; k++)
			sums[k] += numbers[k];
	}
	et_fold_give(job, place, 0, ET_I64, sums, n);
}

void et_fold_any_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	uint8_t found[ET_FOLD_COLUMNS] = { 0 };
	double row[ET_FOLD_COLUMNS];
	int64_t truths[ET_FOLD_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F64);
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	for (size_t r = 0; r < job->folded.numel; r++, in += row_bytes) {
		if (et_scalar_size(job->in_type) == 1) {
			for (size_t k = 0; k < n; k++)
				found[k] |= in[k];
			continue;
		}
		if (job->in_type == ET_FLOAT32) {
			for (size_t k = 0; k < n; k++)
				found[k] |= ((const float *)(const void *)in)[k] != 0;
			continue;
		}
		load(row, in, 1, n);
		for (size_t k = 0; k < n; k++)
			found[k] |= row[k] != 0;
	}
	for (size_t k = 0; k < n; k++)
		truths[k] = found[k] != 0;
	et_fold_give(job, place, 0, ET_I64, truths, n);
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
		if (job->in_type == ET_FLOAT32) {
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
	float sums[ET_FOLD_COLUMNS] = { 0 }, loaded[ET_FOLD_COLUMNS];
	et_load_fn load = et_loader(job->in_type, ET_F32);
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

/* The first of the largest (or smallest) floats, and NaN before all others. */
#define CHOOSE_COLUMNS(name, no_better)                                                              \
	void name(const struct fold_job *job, const struct et_place *place, size_t n)                \
	{                                                                                            \
		float best[ET_FOLD_COLUMNS];                                                         \
		int32_t where[ET_FOLD_COLUMNS] = { 0 };                                              \
		size_t row = (size_t)job->folded.strides[0][0];                                      \
		const float *in =                                                                    \
			(const float *)(const void *)job->in + place->offset[job->kept.n_views - 1]; \
		memcpy(best, in, n * sizeof(*best));                                                 \
		for (size_t r = 1; r < job->folded.numel; r++) {                                     \
			for (size_t k = 0; k < n; k++) {                                             \
				float number = in[r * row + k];                                      \
				bool is_better = !(number no_better best[k]) & (best[k] == best[k]); \
				where[k] = is_better ? (int32_t)r : where[k];                        \
				best[k] = is_better ? number : best[k];                              \
			}                                                                            \
		}                                                                                    \
		give_best(job, place, best, where, n);                                               \
	}

static void give_best(const struct fold_job *job, const struct et_place *place, const float *best,
	const int32_t *where, size_t n)
{
	double values[ET_FOLD_COLUMNS];
	int64_t indices[ET_FOLD_COLUMNS];
	for (size_t k = 0; k < n; k++) {
		values[k] = (double)best[k];
		indices[k] = where[k];
	}
	bool is_index_only = job->fold->is_index && !job->outs[1];
	if (is_index_only)
		et_fold_give(job, place, 0, ET_I64, indices, n);
	else
		et_fold_give(job, place, 0, ET_F64, values, n);
	if (job->outs[1])
		et_fold_give(job, place, 1, ET_I64, indices, n);
}

CHOOSE_COLUMNS(et_fold_max_columns, <=)
CHOOSE_COLUMNS(et_fold_min_columns, >=)

static void extreme_columns_of_bytes(
	const struct fold_job *job, const struct et_place *place, bool is_least, size_t n)
{
	uint8_t most[ET_FOLD_COLUMNS] = { 0 };
	int64_t results[ET_FOLD_COLUMNS];
	bool is_signed = job->in_type == ET_INT8;
	uint8_t turn = et_fold_turned_bits(is_least, is_signed);
	int64_t row_bytes;
	const uint8_t *row = first_row(job, place, &row_bytes);
	for (size_t r = 0; r < job->folded.numel; r++, row += row_bytes) {
		for (size_t k = 0; k < n; k++) {
			uint8_t number = row[k] ^ turn;
			most[k] = number > most[k] ? number : most[k];
		}
	}
	for (size_t k = 0; k < n; k++)
		results[k] = is_signed ? (int8_t)(most[k] ^ turn) : most[k] ^ turn;
	et_fold_give(job, place, 0, ET_I64, results, n);
}

/* The least is what of the largest of all complements is the complement. */
static void extreme_int_columns(
	const struct fold_job *job, const struct et_place *place, bool is_least, size_t n)
{
	int64_t most[ET_FOLD_COLUMNS], row[ET_FOLD_COLUMNS], turn = is_least ? -1 : 0;
	et_load_fn load = et_loader(job->in_type, ET_I64);
	int64_t row_bytes;
	const uint8_t *in = first_row(job, place, &row_bytes);
	if (et_fold_is_byte(job->in_type)) {
		extreme_columns_of_bytes(job, place, is_least, n);
		return;
	}
	for (size_t k = 0; k < n; k++)
		most[k] = INT64_MIN;
	for (size_t r = 0; r < job->folded.numel; r++, in += row_bytes) {
		load(row, in, 1, n);
		for (size_t k = 0; k < n; k++) {
			int64_t number = row[k] ^ turn;
			most[k] = number > most[k] ? number : most[k];
		}
	}
	for (size_t k = 0; k < n; k++)
		most[k] ^= turn;
	et_fold_give(job, place, 0, ET_I64, most, n);
}

void et_fold_max_int_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	extreme_int_columns(job, place, false, n);
}

void et_fold_min_int_columns(const struct fold_job *job, const struct et_place *place, size_t n)
{
	extreme_int_columns(job, place, true, n);
}
