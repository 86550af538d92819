/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the reduction engine: the job of reduce.c, and the reductions of columns (reduce_columns.c). */
#ifndef RUNTIME_KERNELS_ENGINE_REDUCE_INTERNAL_H
#define RUNTIME_KERNELS_ENGINE_REDUCE_INTERNAL_H

#include "runtime/kernels/engine/reduce.h"

enum { ET_REDUCE_COLUMNS = 256 }; /* at most, in one call */

struct reduce_job {
	const struct et_compute *compute;
	const struct et_reduce *reduce;
	struct et_walk kept;    /* views 0 and 1 are the outputs, the last one is the input */
	struct et_walk reduced; /* the input alone */
	const uint8_t *in;
	enum et_scalar_type in_type;
	bool is_double;
	et_store_fn store;      /* for the first output's numbers */
	et_reduce_many_fn many; /* computes up to ET_REDUCE_COLUMNS results at once; NULL: one at a time */
	bool is_staged;         /* many takes rows of floats, so fp16 and bf16 are converted first */
	size_t n_tiles;         /* how many tiles of few columns are gathered side by side for many; 0: not gathered */
	double correction;
	enum et_scalar_type rounding;
	struct et_tensor *outs[2];
};

static inline bool et_reduce_is_byte(enum et_scalar_type type)
{
	return type == ET_INT8 || type == ET_UINT8;
}

/* XOR with these bits turns a search for the smallest (or largest) of signed (or unsigned) bytes into one for the
 * largest unsigned byte. */
static inline uint8_t et_reduce_flip_sign(bool is_least, bool is_signed)
{
	return (uint8_t)((is_signed ? 0x80 : 0) ^ (is_least ? 0xff : 0));
}

/* Store adjacent results into one of the outputs. */
void et_reduce_store(const struct reduce_job *job, const struct et_place *place, size_t output,
	enum et_compute_class compute_class, const void *results, size_t n);
/* Finish adjacent sums (divide them for a mean or variance) and store them into the first output. */
void et_reduce_store_sums(const struct reduce_job *job, const struct et_place *place, double *sums, size_t n);

/* The same for sums of integers. */
void et_reduce_store_int_sums(const struct reduce_job *job, const struct et_place *place, const int64_t *sums,
	size_t n);
/* Whether a float sum of integers may be computed in int64: no partial sum would be rounded. */
bool et_reduce_is_exact(const struct reduce_job *job);

/* Members of struct et_reduce: columns, then int_columns. @n results, at most ET_REDUCE_COLUMNS, the first of them at
 * @place. */
void et_reduce_sum_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_prod_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_mean_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_var_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_sum_int_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_prod_int_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
/* Member rounded. */
void et_reduce_var_rounded(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_prod_rounded(const struct reduce_job *job, const struct et_place *place, size_t n);
/* Members columns and int_columns. */
void et_reduce_any_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_max_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_min_columns(const struct reduce_job *job, const struct et_place *place, size_t n);

#endif
