/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the reduction engine: what reduce.c is doing, and the folds of neighbours whose numbers lie in rows above each other. */
#ifndef RUNTIME_KERNELS_ENGINE_REDUCE_INTERNAL_H
#define RUNTIME_KERNELS_ENGINE_REDUCE_INTERNAL_H

#include "runtime/kernels/engine/reduce.h"

enum { ET_REDUCE_COLUMNS = 256 }; /* at once, at the most */

struct reduce_job {
	const struct et_reduce *reduce;
	struct et_walk kept;    /* view 0 and 1 are the outputs, the last one is the input */
	struct et_walk reduced; /* the input alone */
	const uint8_t *in;
	enum et_scalar_type in_type;
	bool is_double;
	et_store_fn store;      /* of the first output's numbers */
	et_reduce_many_fn many; /* ET_REDUCE_COLUMNS results at once, at the most; NULL: one after the other */
	bool is_staged;         /* it takes rows of floats, which halves are made first */
	size_t n_tiles;         /* of few columns are put side by side for it; 0: it goes along each as it lies */
	double correction;
	enum et_scalar_type rounding;
	struct et_tensor *outs[2];
};

static inline bool et_reduce_is_byte(enum et_scalar_type type)
{
	return type == ET_INT8 || type == ET_UINT8;
}

/* With these bits turned around, what is sought among bytes is the largest of unsigned ones. */
static inline uint8_t et_reduce_flip_sign(bool is_least, bool is_signed)
{
	return (uint8_t)((is_signed ? 0x80 : 0) ^ (is_least ? 0xff : 0));
}

/* Results of neighbours into one of the outputs. */
void et_reduce_give(const struct reduce_job *job, const struct et_place *place, size_t output,
	enum et_compute_class compute_class, const void *results, size_t n);
/* Of neighbours' sums what the fold makes of each, into the first output. */
void et_reduce_give_sums(const struct reduce_job *job, const struct et_place *place, double *sums, size_t n);

/* Of neighbours' sums of integers the same. */
void et_reduce_give_int_sums(const struct reduce_job *job, const struct et_place *place, const int64_t *sums, size_t n);
/* Whether sums of integers may be taken as such although floats are asked for: no sum on the way is rounded. */
bool et_reduce_is_exact(const struct reduce_job *job);

/* Members of struct et_reduce: columns, then int_columns. @n results, at most ET_REDUCE_COLUMNS, the first of them at @place. */
void et_reduce_sum_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_prod_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_mean_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_var_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_sum_int_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_prod_int_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
/* Member rounded. */
void et_reduce_var_rounded(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_prod_rounded(const struct reduce_job *job, const struct et_place *place, size_t n);
/* Both. */
void et_reduce_any_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_max_columns(const struct reduce_job *job, const struct et_place *place, size_t n);
void et_reduce_min_columns(const struct reduce_job *job, const struct et_place *place, size_t n);

#endif
