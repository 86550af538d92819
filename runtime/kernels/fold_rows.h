/* Inside the reduction engine: the folds of rows that lie in one piece, many rows at a time. */
#ifndef RUNTIME_KERNELS_FOLD_ROWS_H
#define RUNTIME_KERNELS_FOLD_ROWS_H

#include "runtime/kernels/fold_columns.h"

/* Members of struct et_fold: what folds @job's rows, all of one number or more; NULL: they are folded one by one. */
et_fold_many_fn et_fold_sum_rows(const struct fold_job *job);
et_fold_many_fn et_fold_mean_rows(const struct fold_job *job);
et_fold_many_fn et_fold_var_rows(const struct fold_job *job);
et_fold_many_fn et_fold_prod_rows(const struct fold_job *job);
et_fold_many_fn et_fold_any_rows(const struct fold_job *job);
et_fold_many_fn et_fold_max_rows(const struct fold_job *job);
et_fold_many_fn et_fold_min_rows(const struct fold_job *job);
et_fold_many_fn et_fold_argmax_rows(const struct fold_job *job);
et_fold_many_fn et_fold_argmin_rows(const struct fold_job *job);

/* Whether any of all of @tensor's numbers is not 0. */
bool et_fold_is_any(const struct et_tensor *tensor);

#endif
