/* SPDX-License-Identifier: BSD-3-Clause */
/* Find the bundled programs that a command line names: files, and folders that hold them. */
#ifndef CLIENTS_INFERCTL_FIND_H
#define CLIENTS_INFERCTL_FIND_H

#include <stddef.h>

struct ctl_paths {
	char **items; /* in the order of the command line; within a folder sorted by name */
	size_t n;
};

/* Add @path if it is a file. If it is a folder, add each file below it whose name ends in @suffix. A symbolic link to a
 * folder is followed only if it is @path itself. Returns 0, or -1 with a message on stderr. */
int ctl_paths_add(struct ctl_paths *paths, const char *path, const char *suffix);
void ctl_paths_deinit(struct ctl_paths *paths);

#endif
