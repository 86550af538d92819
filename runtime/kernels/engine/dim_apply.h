/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine for operators along one dimension that need all numbers of a line at once: softmax, cumsum, sort, topk,
 * median …
 *
 * A line is the numbers along that dimension at one position of the other dimensions. The engine finds the lines, loads
 * each into a dense buffer of doubles or int64, calls the function, and stores what it returns; so the function sees
 * plain arrays. */
#ifndef RUNTIME_KERNELS_ENGINE_DIM_APPLY_H
#define RUNTIME_KERNELS_ENGINE_DIM_APPLY_H

#include "runtime/kernels/engine/args.h"

struct et_dim_apply {
	size_t n, n_out;
	/* One of these two pairs, by compute class; the other is NULL. */
	const double *in;
	double *out;
	const int64_t *in_ints;
	int64_t *out_ints;
	int64_t *index;       /* n_out numbers of the second output, with room for at least n; NULL if there is none */
	bool is_single;       /* the input has at most float precision, so float results will do */
	const void *arg;      /* the kernel's own data */
	struct et_pace *pace; /* for functions that take long for a line */
};
typedef void (*et_dim_apply_fn)(struct et_dim_apply *line);

/* Apply @fn to the lines of @self along @dim. The lines of @out, and of @indices if not NULL, have length @n_out.
 * @takes_ints: lines of an integer output are int64; otherwise lines are doubles. Both outputs are resized; without
 * @keepdim the dimension is removed (n_out is 1). A 0-dimensional @self is one line of length 1. */
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
/* Returns ET_E_INVALID_ARGUMENT, ET_E_MEMORY_ALLOCATION_FAILED, or what a resize returns. */
enum et_status et_dim_apply_run(struct et_kernel_ctx *ctx, const struct et_dim_apply_lines *lines);

#endif
