/* SPDX-License-Identifier: BSD-3-Clause */
/* Read and write NumPy's .npy files: format 1.0 (reading also 2.0 and 3.0), C or Fortran order, little-endian.
 *
 * Source: numpy/lib/format, "A simple file format for NumPy arrays". NumPy has no bf16, so it is written as uint16. */
#ifndef CLIENTS_INFERCTL_NPY_H
#define CLIENTS_INFERCTL_NPY_H

#include "clients/inferctl/value.h"

#include <stdio.h>

/* Read a whole .npy file. On success ret->data points into *ret_memory, which the caller frees. On failure returns
 * -1 with the message in @error, and there is nothing to free. */
int ctl_npy_read(FILE *file, struct ctl_value *ret, void **ret_memory, char *error, size_t error_size);

/* Write a tensor, or a scalar as an array without dimensions. Returns 0, or -1 with errno set. */
int ctl_npy_write(FILE *file, const struct ctl_value *value);

#endif
