/* SPDX-License-Identifier: BSD-3-Clause */
/* `tolerances.txt`: how closely the files of a folder are to be met.
 *
 * One rule a line: a path or the beginning of one, relative to the folder that holds tolerances.txt, then kinds and
 * bounds: `atol X`, `rtol X`, `cosine X`, `argmax`. What a rule does not bound is exact (bound 0). The first
 * rule whose beginning fits counts. '#' starts a comment. */
#ifndef CLIENTS_INFERCTL_TOLERANCES_H
#define CLIENTS_INFERCTL_TOLERANCES_H

#include "clients/inferctl/compare.h"

#include <stdio.h>

/* The rule for @path (relative to the folder of @file). 1: found, *ret is set. 0: none. -1: a line that is no rule;
 * *ret_line says which. */
int ctl_tolerances_find(FILE *file, const char *path, struct ctl_tolerance *ret, unsigned *ret_line);

/* Look beside @path and in every folder above it; the nearest file with a rule that fits counts. *ret is left
 * alone if there is none. Returns 0, or -1 with a sentence in @error. */
int ctl_tolerances_for(const char *path, struct ctl_tolerance *ret, char *error, size_t error_size);

#endif
