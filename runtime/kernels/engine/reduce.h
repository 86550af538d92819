/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduction engine: reduce some dimensions of a tensor to one value each.
 *
 * An operator is a row: how to begin, how to take in a block of numbers, how to finish. The engine finds the
 * dimensions, resizes the outputs, walks the kept and the reduced dimensions, and converts. Floats are accumulated in
 * double, integers in int64, so two step functions serve all types. */
#ifndef RUNTIME_KERNELS_ENGINE_REDUCE_H
#define RUNTIME_KERNELS_ENGINE_REDUCE_H

#include "runtime/kernels/engine/args.h"

/* The accumulator of one result. Rows use the members as they like; all but n, correction and rounding start as zero.
 */
struct et_reduce_state {
	double d, d2;
	int64_t i;
	int64_t index;
	int64_t n;         /* numbers taken in so far */
	double correction; /* of var: from the kernel's arguments */
	/* The type to which each operation is rounded: fp16 or bf16 if few numbers are reduced (all of them in one
	 * block); float for a mean; otherwise ET_FLOAT64, which rounds nothing. */
	enum et_scalar_type rounding;
};

struct reduce_job;

/* Compute @n adjacent results, the first of them at @place. */
typedef void (*et_reduce_many_fn)(const struct reduce_job *job, const struct et_place *place, size_t n);

struct et_reduce {
	void (*begin)(struct et_reduce_state *state); /* NULL: start with zeros */
	void (*step_doubles)(struct et_reduce_state *state, const double *numbers, size_t n);
	/* NULL: integers are converted to double */
	void (*step_ints)(struct et_reduce_state *state, const int64_t *numbers, size_t n);
	/* Like step_doubles, for floats in place; NULL: they are converted to double. */
	void (*step_floats)(struct et_reduce_state *state, const float *numbers, size_t n);
	/* Leave the result in d (or i), and that of a second output in d2 unless it is the index. */
	void (*finish)(struct et_reduce_state *state);
	bool is_index;  /* the output, or the second one if there are two, is state->index */
	bool is_var;    /* the second output is the mean */
	bool needs_one; /* reducing no numbers at all is an error */
	/* Many results at once: n adjacent results, whose numbers are in the rows above each other. NULL: one result at
	 * a time. */
	et_reduce_many_fn columns;
	/* Chooses the function for dense rows, many at once. NULL, or it returns NULL: one result at a time. */
	et_reduce_many_fn (*rows)(const struct reduce_job *job);
	/* Like columns, for integers that are accumulated as int64. */
	et_reduce_many_fn int_columns;
	/* Many results at once, for fp16 and bf16 whose operations are rounded; in rows or in columns. */
	et_reduce_many_fn rounded;
	bool ends_early;  /* a result that is not 0 cannot change any more */
	bool casts_first; /* for an integer output, each float is converted to an integer first */
	bool is_mean;     /* rounds to float unless the output is double, however many numbers are reduced */
};

static inline uint32_t et_all_dims(const struct et_tensor *tensor)
{
	return (1u << tensor->n_dims) - 1;
}

/* Reduce the dimensions in @set of @self to @out (and @out2, if not NULL). */
enum et_status et_reduce(struct et_kernel_ctx *ctx, const struct et_reduce *reduce, const struct et_tensor *self,
	uint32_t set, bool keepdim, double correction, struct et_tensor *out, struct et_tensor *out2);

#endif
