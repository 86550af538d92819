/* SPDX-License-Identifier: BSD-3-Clause */
/* NumPy's .npy files: format 1.0 (and 2.0 when reading), C or Fortran order, little-endian.
 *
 * Source: numpy/lib/format, "A simple file format for NumPy arrays". BF16, which NumPy does not know, is written
 * as uint16 bits. */
#ifndef CLIENTS_INFERCTL_NPY_H
#define CLIENTS_INFERCTL_NPY_H

#include "clients/inferctl/value.h"

#include <stdio.h>

/* Read a whole .npy. On success ret->data points into *ret_memory, which the caller frees; else returns -1 with
 * a sentence in @error and nothing to free. */
int ctl_npy_read(FILE *file, struct ctl_value *ret, void **ret_memory, char *error, size_t error_size);

/* Write a value; a number becomes a 0-dimensional array. Returns 0, or -1 with errno set. */
int ctl_npy_write(FILE *file, const struct ctl_value *value);

#endif
