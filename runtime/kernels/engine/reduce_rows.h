/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the reduction engine: reductions of dense rows, many rows at a time. */
#ifndef RUNTIME_KERNELS_ENGINE_REDUCE_ROWS_H
#define RUNTIME_KERNELS_ENGINE_REDUCE_ROWS_H

#include "runtime/kernels/engine/reduce_internal.h"

/* Members rows of struct et_reduce: the function that reduces @job's rows, each of at least one number; NULL: one
 * result at a time. */
et_reduce_many_fn et_reduce_sum_rows(const struct reduce_job *job);
et_reduce_many_fn et_reduce_mean_rows(const struct reduce_job *job);
et_reduce_many_fn et_reduce_var_rows(const struct reduce_job *job);
et_reduce_many_fn et_reduce_prod_rows(const struct reduce_job *job);
et_reduce_many_fn et_reduce_any_rows(const struct reduce_job *job);
et_reduce_many_fn et_reduce_max_rows(const struct reduce_job *job);
et_reduce_many_fn et_reduce_min_rows(const struct reduce_job *job);
et_reduce_many_fn et_reduce_argmax_rows(const struct reduce_job *job);
et_reduce_many_fn et_reduce_argmin_rows(const struct reduce_job *job);

/* Whether any number of @tensor is not 0. */
bool et_reduce_is_any(const struct et_compute *compute, const struct et_tensor *tensor);

#endif
