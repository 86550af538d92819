/* SPDX-License-Identifier: BSD-3-Clause */
/* The presence lock.
 *
 * It is a shared open-file-description lock on one byte of the folder in which the socket lies; the byte's number is a
 * hash of the socket's name. A lock on the folder needs no file of its own and only the right to read the folder,
 * which the daemon has in its sandbox. The kernel releases the lock when its holder ends, however it ends.
 *
 * The lock proves nothing: every user who may read the folder may hold it. A client that is deceived connects, which it
 * may do at any time. */
#include "ipc/presence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Open the folder of @path, and describe the lock of the socket's name. The folder's descriptor, or negative errno. */
static int open_folder(const char *path, short kind, struct flock *ret_lock)
{
	char folder[4096];
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	int n = slash ? snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path)
		      : snprintf(folder, sizeof folder, ".");
	if (n < 0 || (size_t)n >= sizeof folder)
		return -ENAMETOOLONG;
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 0x100000001b3;
	*ret_lock = (struct flock){ .l_type = kind, .l_whence = SEEK_SET, .l_start = (off_t)(hash >> 2), .l_len = 1 };
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int inf_presence_hold(const char *path)
{
	struct flock lock;
	int fd = open_folder(path, F_RDLCK, &lock);
	if (fd < 0)
		return fd;
	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return fd;
	int rc = -errno;
	close(fd);
	return rc;
}

bool inf_presence_is_held(const char *path)
{
	struct flock lock;
	int fd = open_folder(path, F_WRLCK, &lock);
	if (fd < 0)
		return true;
	bool is_free = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
	close(fd);
	return !is_free;
}
