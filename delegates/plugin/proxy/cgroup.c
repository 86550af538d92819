/* SPDX-License-Identifier: BSD-3-Clause */
/* Cgroups for users' programs.
 *
 * A process's RLIMIT_DATA counts what it maps for itself. A cgroup counts all that it touches first: also the pages
 * of shared memory, and what the kernel keeps for it. If its memory ends the kernel kills this process and no other.
 *
 * systemd delegates the service's cgroup (Delegate=memory pids) and starts inferd in the cgroup "daemon" below it
 * (DelegateSubgroup=), since a cgroup with processes of its own can't give controllers to those inside it. Each user
 * gets "programs-UID" beside that. Nothing else may be written to (ProtectControlGroups=, ReadWritePaths=).
 *
 * Only version 2 of cgroups is meant: systemd does not delegate the controllers of version 1 to other users than
 * root. */
#include "delegates/plugin/proxy/cgroup.h"

#include "runtime/platform/cgroup.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char my_name[] = "/daemon"; /* DelegateSubgroup= of systemd/inferd.service.in */

/* Write @text to the file @name of the cgroup @folder. 0 or negative errno. */
static int write_text(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
		return -ENAMETOOLONG;
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

/* The cgroup of version 2 that this process is in: a path below the root. */
static bool find_own(const char *membership, char *path, size_t room)
{
	FILE *file = fopen(membership, "re");
	bool is_found = false;
	while (file && !is_found && fgets(path, (int)room, file)) {
		path[strcspn(path, "\n")] = '\0';
		is_found = strncmp(path, "0::", 3) == 0;
	}
	if (file)
		fclose(file);
	if (is_found)
		memmove(path, path + 3, strlen(path + 3) + 1);
	return is_found;
}

int et_plugin_cgroup_find(const char *membership, const char *root, char *ret_folder, size_t room)
{
	char own[PATH_MAX], controllers[256];
	size_t n_mine = strlen(my_name);
	if (!find_own(membership, own, sizeof own) || strlen(own) < n_mine)
		return -ENOENT;
	char *mine = own + strlen(own) - n_mine;
	if (strcmp(mine, my_name) != 0)
		return -ENOENT;
	*mine = '\0';
	if (snprintf(ret_folder, room, "%s%s", root, own) >= (int)room)
		return -ENAMETOOLONG;
	if (!et_platform_read_text(ret_folder, "cgroup.controllers", controllers, sizeof controllers) ||
		!strstr(controllers, "memory") || !strstr(controllers, "pids"))
		return -ENOENT;
	return write_text(ret_folder, "cgroup.subtree_control", "+memory +pids");
}

static int name_folder(char *path, size_t room, const char *folder, uint64_t uid)
{
	return snprintf(path, room, "%s/programs-%" PRIu64, folder, uid) < (int)room ? 0 : -ENAMETOOLONG;
}

/* Threads that a host may need: some that serve, and the worker threads of as many runs as there are cores, each with
 * all cores. */
static unsigned long max_threads(void)
{
	unsigned long n = (unsigned long)et_platform_n_cores();
	return 1024 + n * n;
}

int et_plugin_cgroup_enter(const char *folder, uint64_t uid, pid_t pid, uint64_t n_bytes)
{
	char path[PATH_MAX], text[32];
	int rc = name_folder(path, sizeof path, folder, uid);
	if (rc < 0)
		return rc;
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	snprintf(text, sizeof text, "%" PRIu64, n_bytes);
	rc = write_text(path, "memory.max", n_bytes ? text : "max");
	snprintf(text, sizeof text, "%lu", max_threads());
	if (!rc)
		rc = write_text(path, "pids.max", text);
	snprintf(text, sizeof text, "%d", (int)pid);
	if (!rc)
		rc = write_text(path, "cgroup.procs", text);
	if (rc)
		rmdir(path);
	return rc;
}

void et_plugin_cgroup_remove(const char *folder, uint64_t uid)
{
	char path[PATH_MAX];
	if (name_folder(path, sizeof path, folder, uid) == 0)
		rmdir(path);
}
