/* SPDX-License-Identifier: BSD-3-Clause */
/* `tolerances.txt`: how closely outputs must match for the bundled programs of a folder.
 *
 * Each line is a rule: the beginning of a path, relative to the folder of tolerances.txt, then bounds: `atol X`,
 * `rtol X`, `cosine X`, `argmax`. A rule with only one of atol and rtol has 0 for the other. The first rule whose
 * path fits counts. '#' starts a comment. */
#ifndef CLIENTS_INFERCTL_TOLERANCES_H
#define CLIENTS_INFERCTL_TOLERANCES_H

#include "clients/inferctl/compare.h"

#include <stdio.h>

/* Find the rule for @path, which is relative to the folder of @file. 1: found, *ret is set. 0: there is none. -1: line
 * *ret_line is malformed. */
int ctl_tolerances_find(FILE *file, const char *path, struct ctl_tolerance *ret, unsigned *ret_line);

/* Search tolerances.txt beside @path and in every folder above it; the nearest one with a rule that fits counts.
 * Without a rule *ret keeps its value. Returns 0, or -1 with the message in @error. */
int ctl_tolerances_for(const char *path, struct ctl_tolerance *ret, char *error, size_t error_size);

#endif
