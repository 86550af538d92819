/* SPDX-License-Identifier: BSD-3-Clause */
/* Walk folders for bundled programs.
 *
 * The result is sorted, so that two runs over a folder verify the same files in the same order, and their raw outputs
 * have the same names. */
#include "clients/inferctl/find.h"
#include "clients/inferctl/ctl.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void add(struct ctl_paths *paths, const char *path)
{
	paths->items = ctl_grow(paths->items, paths->n + 1, sizeof(*paths->items));
	paths->items[paths->n++] = ctl_format("%s", path);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int walk(struct ctl_paths *paths, const char *folder, const char *suffix)
{
	char *root = ctl_format("%s", folder), *roots[] = { root, NULL };
	size_t n_suffix = strlen(suffix);
	FTS *fts;
	FTSENT *entry;
	int rc = 0;

	for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; n--)
		root[n - 1] = 0;
	fts = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	while (fts && (entry = fts_read(fts))) {
		if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR) {
			ctl_fail("%s: %s", entry->fts_path, strerror(entry->fts_errno));
			rc = -1;
		}
		if ((entry->fts_info == FTS_F || entry->fts_info == FTS_SL) && entry->fts_namelen >= n_suffix &&
			strcmp(entry->fts_name + entry->fts_namelen - n_suffix, suffix) == 0)
			add(paths, entry->fts_path);
	}
	if (fts)
		fts_close(fts);
	free(root);
	return rc;
}

int ctl_paths_add(struct ctl_paths *paths, const char *path, const char *suffix)
{
	struct stat status;
	if (stat(path, &status) < 0) {
		ctl_fail("%s: %s", path, strerror(errno));
		return -1;
	}
	if (S_ISDIR(status.st_mode))
		return walk(paths, path, suffix);
	add(paths, path);
	return 0;
}

void ctl_paths_deinit(struct ctl_paths *paths)
{
	for (size_t i = 0; i < paths->n; i++)
		free(paths->items[i]);
	free(paths->items);
	*paths = (struct ctl_paths){ 0 };
}
