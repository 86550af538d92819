/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of this process's cgroups.
 *
 * A limit belongs to a cgroup and all those inside it, so the whole path up to the mount is read. In a container the
 * path may name folders that are not mounted there: these are skipped. */
#include "runtime/platform/cgroup.h"

#include "runtime/platform/platform.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the folders ---------------------------------------------------------------------------------------------- */

bool et_platform_read_text(const char *folder, const char *name, char *text, size_t room)
{
	char path[PATH_MAX];
	int n_path = snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = n_path > 0 && (size_t)n_path < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, room - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Look at the cgroup @path of the hierarchy @root/@mount and at those around it. */
static void walk_path(const char *root, const char *mount, const char *path, et_platform_cgroup_fn look, void *arg)
{
	char folder[PATH_MAX];
	bool is_outside = strstr(path, "/..") != NULL; /* of the namespace that is mounted */
	int top = snprintf(folder, sizeof(folder), "%s%s", root, mount);
	if (top < 0 || (size_t)top + strlen(path) >= sizeof(folder))
		return;
	if (!is_outside && strcmp(path, "/") != 0) /* the mount itself comes last anyway */
		snprintf(folder + top, sizeof(folder) - (size_t)top, "%s", path);
	for (;;) {
		look(arg, folder);
		char *slash = strrchr(folder + top, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
			return true;
	}
	return false;
}

void et_platform_cgroup_walk(const char *membership, const char *root, const char *controller,
	et_platform_cgroup_fn look, void *arg)
{
	char line[PATH_MAX], mount[128];
	FILE *file = fopen(membership, "re");
	while (file && fgets(line, sizeof(line), file)) { /* "4:cpu,cpuacct:/path", and of version 2 "0::/path" */
		line[strcspn(line, "\n")] = '\0';
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		controllers++;
		if (controllers[0] == '\0') {
			walk_path(root, "", path, look, arg);
			walk_path(root, "/unified", path, look, arg);
		} else if (has_word(controllers, controller) && strlen(controllers) < sizeof(mount) - 1) {
			snprintf(mount, sizeof(mount), "/%s", controllers);
			walk_path(root, mount, path, look, arg);
			if (strcmp(controllers, controller) == 0)
				continue;
			snprintf(mount, sizeof(mount), "/%s", controller);
			walk_path(root, mount, path, look, arg);
		}
	}
	if (file)
		fclose(file);
}

/* --- memory --------------------------------------------------------------------------------------------------- */

/* The number in the file; UINT64_MAX: "max", none, or no such file. */
static uint64_t read_number(const char *folder, const char *name)
{
	char text[64];
	unsigned long long n;
	return et_platform_read_text(folder, name, text, sizeof(text)) && sscanf(text, "%llu", &n) == 1 ? n
													: UINT64_MAX;
}

/* Version 1 writes no limit as the largest whole number of pages. */
#define NO_LIMIT ((uint64_t)INT64_MAX & ~UINT64_C(0xffff))

/* Bytes of files that the kernel takes back first; 0 if it does not tell. */
static uint64_t inactive_file(const char *folder)
{
	char path[PATH_MAX], line[128];
	unsigned long long n = 0, total = 0;
	int n_path = snprintf(path, sizeof(path), "%s/memory.stat", folder);
	FILE *file = n_path > 0 && (size_t)n_path < sizeof(path) ? fopen(path, "re") : NULL;
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "total_inactive_file %llu", &total) == 1) /* version 1: with the cgroups inside */
			n = total;
		else
			sscanf(line, "inactive_file %llu", &n);
	if (file)
		fclose(file);
	return n;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void look_at_memory(void *arg, const char *folder)
{
	uint64_t *room = arg;
	const char *usage = "memory.current";
	uint64_t limit = least(read_number(folder, "memory.max"), read_number(folder, "memory.high"));
	if (limit == UINT64_MAX) {
		usage = "memory.usage_in_bytes";
		limit = read_number(folder, "memory.limit_in_bytes");
	}
	/* most cgroups have no limit, and the kernel sums up all of their memory for each reader of memory.stat */
	uint64_t used = limit < NO_LIMIT ? read_number(folder, usage) : UINT64_MAX;
	if (used == UINT64_MAX)
		return;
	used -= least(used, inactive_file(folder));
	*room = least(*room, et_platform_room(limit > used ? limit - used : 0, limit));
}

uint64_t et_platform_cgroup_memory_room(const char *membership, const char *root)
{
	uint64_t room = UINT64_MAX;
	et_platform_cgroup_walk(membership, root, "memory", look_at_memory, &room);
	return room;
}
