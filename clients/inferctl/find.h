/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the bundled programs that a command line means. */
#ifndef CLIENTS_INFERCTL_FIND_H
#define CLIENTS_INFERCTL_FIND_H

#include <stddef.h>

struct ctl_paths {
	char **items; /* in the order of the command line; those of a folder sorted by name */
	size_t n;
};

/* Add @path if it is a file, and every file below whose name ends in @suffix if it is a folder. Returns 0, or -1
 * with a sentence on stderr. Links to folders are followed only on the command line. */
int ctl_paths_add(struct ctl_paths *paths, const char *path, const char *suffix);
void ctl_paths_deinit(struct ctl_paths *paths);

#endif
