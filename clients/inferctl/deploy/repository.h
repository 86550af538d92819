/* SPDX-License-Identifier: BSD-3-Clause */
/* The repository's folder, as import and rollback change it.
 *
 * Each change is one rename of files that are complete and on the disk, so whoever looks, after a crash too, finds the
 * repository of before or of after. Folders whose name begins with ".import-" are work in progress: the daemon ignores
 * them, and the next change removes them. */
#ifndef CLIENTS_INFERCTL_DEPLOY_REPOSITORY_H
#define CLIENTS_INFERCTL_DEPLOY_REPOSITORY_H

#include <stdbool.h>
#include <stddef.h>

struct ctl_repository {
	int fd; /* of the folder; it holds the lock against other changes */
	const char *path;
};

/* Open the folder at @path, which must outlive @ret, wait for the lock, and remove what was left half-done. Functions
 * here that return false have printed why. */
bool ctl_repository_open(struct ctl_repository *ret, const char *path);
void ctl_repository_close(struct ctl_repository *repository);

/* The versions of @model, ascending. @has_rolled_back: also those that were rolled back. Returns how many there are;
 * the caller frees *ret_versions. A program that lies beside the folders of versions counts as version 1. */
size_t ctl_repository_versions(struct ctl_repository *repository, const char *model, bool has_rolled_back,
	unsigned **ret_versions);

/* Copy @files to MODEL/VERSION, which does not exist. On failure nothing has changed. */
bool ctl_repository_add(struct ctl_repository *repository, const char *model, unsigned version,
	const char *const *files, size_t n_files);
/* Take MODEL/VERSION, which ctl_repository_add has made, out again. */
bool ctl_repository_withdraw(struct ctl_repository *repository, const char *model, unsigned version);
/* Rename the folder of the version, so that it is none any more (@is_back: so that it is one again). */
bool ctl_repository_roll(struct ctl_repository *repository, const char *model, unsigned version, bool is_back);

#endif
