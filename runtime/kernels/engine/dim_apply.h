/* SPDX-License-Identifier: BSD-3-Clause */
/* The line engine: operators along one dimension that need a whole line of numbers at once.
 *
 * softmax, cumsum, sort, topk, median … take a line of the input and give a line of each output. The
 * engine finds the lines, loads each into a contiguous buffer of doubles or int64 and stores what comes
 * back, so that the function sees plain arrays. */
#ifndef RUNTIME_KERNELS_ENGINE_DIM_APPLY_H
#define RUNTIME_KERNELS_ENGINE_DIM_APPLY_H

#include "runtime/kernels/engine/args.h"

struct et_dim_apply {
	size_t n, n_out;
	/* One of these pairs, by class; the other is NULL. */
	const double *in;
	double *out;
	const int64_t *in_ints;
	int64_t *out_ints;
	int64_t *index;  /* n_out of the second output; at least n of room; NULL if there is none */
	bool is_single;  /* in came from float or less: float precision will do */
	const void *arg; /* the kernel's */
};
typedef void (*et_dim_apply_fn)(struct et_dim_apply *line);

/* @self along @dim into @out, whose lines are @n_out long, and if not NULL @indices, of the same sizes.
 * What goes into integers is int64 if @takes_ints, floats as soon as they are loaded. Resizes; @keepdim: false
 * leaves the dimension away (n_out is 1). @self is 0-dimensional: one line of 1. */
struct et_dim_apply_lines {
	et_dim_apply_fn fn;
	bool takes_ints;
	const struct et_tensor *self;
	size_t dim;
	int64_t n_out;
	bool keepdim;
	struct et_tensor *out, *indices;
	const void *arg;
};
/* Answers: ET_E_INVALID_ARGUMENT, ET_E_MEMORY_ALLOCATION_FAILED, what a resize answers. */
enum et_status et_dim_apply_run(struct et_kernel_ctx *ctx, const struct et_dim_apply_lines *lines);

#endif
