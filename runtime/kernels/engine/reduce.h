/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduction engine: fold some dimensions of a tensor into one value each.
 *
 * An operator is a row: how to begin, how to take in a block of numbers, how to finish. The engine finds
 * the dimensions, resizes the outputs, walks what is kept and what is folded, and converts. Floats are
 * folded in double, integers in int64, so two step functions serve all types. */
#ifndef RUNTIME_KERNELS_ENGINE_REDUCE_H
#define RUNTIME_KERNELS_ENGINE_REDUCE_H

#include "runtime/kernels/engine/args.h"

/* What one result accumulates; rows use the members as they like, all zero to begin with but for n. */
struct et_reduce_state {
	double d, d2;
	int64_t i;
	int64_t index;
	int64_t n;         /* numbers taken in so far */
	double correction; /* of var: from the kernel's arguments */
	/* The type to which each operation rounds: half or bfloat16 where few numbers are folded, all of them in one block;
	 * float for a mean; otherwise ET_FLOAT64, which rounds nothing. */
	enum et_scalar_type rounding;
};

struct reduce_job;

/* @n results next to one another, the first of them at @place. */
typedef void (*et_reduce_many_fn)(const struct reduce_job *job, const struct et_place *place, size_t n);

struct et_reduce {
	void (*begin)(struct et_reduce_state *state); /* NULL: zeros */
	void (*step_doubles)(struct et_reduce_state *state, const double *numbers, size_t n);
	void (*step_ints)(struct et_reduce_state *state, const int64_t *numbers, size_t n); /* NULL: as doubles */
	/* As step_doubles, of floats where they lie; NULL: they are made doubles. */
	void (*step_floats)(struct et_reduce_state *state, const float *numbers, size_t n);
	/* Leave the result in d (or i) and that of a second output in d2, unless it is the index. */
	void (*finish)(struct et_reduce_state *state);
	bool is_index;  /* the (or the second) output is state->index */
	bool is_var;    /* the second output is the mean */
	bool needs_one; /* nothing folded is an error */
	/* The same of @n results next to one another, whose numbers lie in rows above each other. NULL: one by one. */
	et_reduce_many_fn columns;
	/* Of rows in one piece: what folds many of them; NULL, or it answers NULL: one by one. */
	et_reduce_many_fn (*rows)(const struct reduce_job *job);
	/* The same where integers are folded as such. */
	et_reduce_many_fn int_columns;
	/* The same where halves are folded into such and each operation is rounded, whether in rows or columns. */
	et_reduce_many_fn rounded;
	bool ends_early;  /* a result that is not 0 stays what it is */
	bool casts_first; /* floats are made integers one by one where the output is of integers */
	bool is_mean;     /* rounds to float but for a double output, however many numbers are folded */
};

static inline uint32_t et_all_dims(const struct et_tensor *tensor)
{
	return (1u << tensor->n_dims) - 1;
}

/* Fold the dimensions in @set of @self into @out (and @out2, if not NULL). */
enum et_status et_reduce(struct et_kernel_ctx *ctx, const struct et_reduce *reduce, const struct et_tensor *self,
	uint32_t set, bool keepdim, double correction, struct et_tensor *out, struct et_tensor *out2);

#endif
