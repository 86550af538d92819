/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache folder of a host without a configured one: a tenant's, or that of a tool. Drivers want a folder that they
 * may write to, and others must not read what a hostile process has left there. So it is made for one backend, in the
 * folder for temporary files, and goes with it. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int et_plugin_make_private_cache(struct et_backend *b)
{
	const char *temporary = getenv("TMPDIR");
	if (b->config.cache_dir || b->private_cache[0] || b->config.isolation == ET_PLUGIN_IN_THREAD ||
		!b->config.path[0])
		return 0;
	char path[sizeof b->private_cache];
	int n = snprintf(path, sizeof path, "%s/inferd-cache-XXXXXX",
		temporary && temporary[0] == '/' ? temporary : "/tmp");
	if (n >= (int)sizeof path)
		return -ENAMETOOLONG;
	if (!mkdtemp(path))
		return -errno;
	memcpy(b->private_cache, path, sizeof path);
	return 0;
}

/* Remove what is in folder @fd, which this closes. The process that wrote there may have been hostile: no link is
 * followed, and folders deeper than @depth are left behind. */
static void empty(int fd, int depth)
{
	DIR *folder = fdopendir(fd);
	if (!folder) {
		close(fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(folder));) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || unlinkat(dirfd(folder), name, 0) == 0)
			continue;
		int inner = depth ? openat(dirfd(folder), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
		if (inner >= 0)
			empty(inner, depth - 1);
		unlinkat(dirfd(folder), name, AT_REMOVEDIR);
	}
	closedir(folder);
}

void et_plugin_remove_private_cache(struct et_backend *b)
{
	enum { MAX_DEPTH = 16 };
	if (!b->private_cache[0])
		return;
	int fd = open(b->private_cache, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		empty(fd, MAX_DEPTH);
	if (rmdir(b->private_cache) < 0 && errno != ENOENT)
		et_logf(b->log, ET_LOG_WARNING, "%s: %s can't be removed: %s", b->ops.name, b->private_cache,
			strerror(errno));
	b->private_cache[0] = '\0';
}
