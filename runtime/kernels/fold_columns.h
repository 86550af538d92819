/* Inside the reduction engine: what fold.c is doing, and the folds of neighbours whose numbers lie in rows above each other. */
#ifndef RUNTIME_KERNELS_FOLD_COLUMNS_H
#define RUNTIME_KERNELS_FOLD_COLUMNS_H

#include "runtime/kernels/fold.h"

enum { ET_FOLD_COLUMNS = 256 }; /* at once, at the most */

struct fold_job {
	const struct et_fold *fold;
	struct et_walk kept;   /* view 0 and 1 are the outputs, the last one is the input */
	struct et_walk folded; /* the input alone */
	const uint8_t *in;
	enum et_scalar_type in_type;
	bool is_double;
	et_store_fn store;    /* of the first output's numbers */
	et_fold_many_fn many; /* ET_FOLD_COLUMNS results at once, at the most; NULL: one after the other */
	bool is_staged;       /* it takes rows of floats, which halves are made first */
	size_t n_sheets; /* of few columns are put side by side for it; 0: it goes along each as it lies */
	double correction;
	enum et_scalar_type rounding;
	struct et_tensor *outs[2];
};

static inline bool et_fold_is_byte(enum et_scalar_type type)
{
	return type == ET_INT8 || type == ET_UINT8;
}

/* With these bits turned around, what is sought among bytes is the largest of unsigned ones. */
static inline uint8_t et_fold_turned_bits(bool is_least, bool is_signed)
{
	return (uint8_t)((is_signed ? 0x80 : 0) ^ (is_least ? 0xff : 0));
}

/* Results of neighbours into one of the outputs. */
void et_fold_give(const struct fold_job *job, const struct et_place *place, size_t output,
	enum et_class class, const void *results, size_t n);
/* Of neighbours' sums what the fold makes of each, into the first output. */
void et_fold_give_sums(const struct fold_job *job, const struct et_place *place, double *sums, size_t n);

/* Of neighbours' sums of integers the same. */
void et_fold_give_int_sums(
	const struct fold_job *job, const struct et_place *place, const int64_t *sums, size_t n);
/* Whether sums of integers may be taken as such although floats are asked for: no sum on the way is rounded. */
bool et_fold_is_exact(const struct fold_job *job);

/* Members of struct et_fold: columns, then int_columns. @n results, at most ET_FOLD_COLUMNS, the first of them at @place. */
void et_fold_sum_columns(const struct fold_job *job, const struct et_place *place, size_t n);
void et_fold_prod_columns(const struct fold_job *job, const struct et_place *place, size_t n);
void et_fold_mean_columns(const struct fold_job *job, const struct et_place *place, size_t n);
void et_fold_var_columns(const struct fold_job *job, const struct et_place *place, size_t n);
void et_fold_sum_int_columns(const struct fold_job *job, const struct et_place *place, size_t n);
void et_fold_prod_int_columns(const struct fold_job *job, const struct et_place *place, size_t n);
/* Member rounded. */
void et_fold_var_rounded(const struct fold_job *job, const struct et_place *place, size_t n);
void et_fold_prod_rounded(const struct fold_job *job, const struct et_place *place, size_t n);
/* Both. */
void et_fold_any_columns(const struct fold_job *job, const struct et_place *place, size_t n);
void et_fold_max_columns(const struct fold_job *job, const struct et_place *place, size_t n);
void et_fold_min_columns(const struct fold_job *job, const struct et_place *place, size_t n);

#endif
