/* SPDX-License-Identifier: BSD-3-Clause */
/* Cores: how many this process may use, and whether other processes use them now.
 *
 * In a cgroup with a CPU quota of 1.5 cores a process may run on all processors, but after 150 ms of a core in a
 * period of 100 ms the kernel stops all its threads until the next period. Four threads use that up in 38 ms. So the
 * quota counts, not the number of processors. A quota belongs to a cgroup and all those inside it, so the whole path
 * up to the mount is read. In a container the path may name folders that are not mounted there: these are skipped.
 *
 * Whether the cores are busy is one look at the number of runnable threads of the whole machine. The share of time that
 * others used lately (/proc/stat) would be smoother, but a client that prepares its inputs on all cores and then waits
 * for the answer is no neighbour of its own request. A single look may be wrong; callers look again soon. */
#include "ipc/cores.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- how many ------------------------------------------------------------------------------------------------- */

/* Read the beginning of a small file as a string; whether there is one. */
static bool read_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, room - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool read_file(const char *folder, const char *name, char *text, size_t room)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
	return n > 0 && (size_t)n < sizeof(path) && read_text(path, text, room);
}

/* The quota of one cgroup, of either version. */
static uint32_t quota_of(const char *folder)
{
	char text[64], period_text[64];
	long long quota = -1, period = 0;
	if (read_file(folder, "cpu.max", text, sizeof(text))) {
		if (sscanf(text, "%lld %lld", &quota, &period) != 2) /* "max 100000" */
			return UINT32_MAX;
	} else if (read_file(folder, "cpu.cfs_quota_us", text, sizeof(text)) &&
		   read_file(folder, "cpu.cfs_period_us", period_text, sizeof(period_text))) {
		quota = strtoll(text, NULL, 10);
		period = strtoll(period_text, NULL, 10);
	}
	if (quota < 0 || period <= 0 || quota / period >= UINT32_MAX)
		return UINT32_MAX;
	return (uint32_t)(quota / period);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The least quota of the cgroup @path of the hierarchy @root/@mount and of those around it. */
static uint32_t quota_of_path(const char *root, const char *mount, const char *path)
{
	char folder[PATH_MAX];
	uint32_t quota = UINT32_MAX;
	bool is_outside = strstr(path, "/..") != NULL; /* of the namespace that is mounted */
	int top = snprintf(folder, sizeof(folder), "%s%s", root, mount);
	if (top < 0 || (size_t)top + strlen(path) >= sizeof(folder))
		return UINT32_MAX;
	if (!is_outside)
		snprintf(folder + top, sizeof(folder) - (size_t)top, "%s", path);
	for (;;) {
		quota = least(quota, quota_of(folder));
		char *slash = strrchr(folder + top, '/');
		if (!slash)
			return quota;
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

uint32_t inf_cores_of_quota(const char *membership, const char *root)
{
	uint32_t quota = UINT32_MAX;
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
			quota = least(quota, quota_of_path(root, "", path));
			quota = least(quota, quota_of_path(root, "/unified", path));
		} else if (has_word(controllers, "cpu") && strlen(controllers) < sizeof(mount) - 1) {
			snprintf(mount, sizeof(mount), "/%s", controllers);
			quota = least(quota, quota_of_path(root, mount, path));
			quota = least(quota, quota_of_path(root, "/cpu", path));
		}
	}
	if (file)
		fclose(file);
	return quota;
}

uint32_t inf_n_cores(void)
{
	cpu_set_t set;
	long n_online = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t n = n_online > 0 ? (uint32_t)n_online : 1;
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		n = (uint32_t)CPU_COUNT(&set);
	uint32_t quota = inf_cores_of_quota("/proc/self/cgroup", "/sys/fs/cgroup");
	return quota == 0 ? 1 : least(n, quota);
}

/* --- whether they are busy ------------------------------------------------------------------------------------ */

bool inf_cores_are_busy_by(const char *loadavg, uint32_t n_online, uint32_t n_wanted)
{
	/* the caller, a worker that polls for its next request, and the client that polls for its answer */
	enum { N_OURS = 3 };
	unsigned n_running = 0;
	if (sscanf(loadavg, "%*s %*s %*s %u/", &n_running) != 1)
		return false;
	uint32_t n_others = n_running > N_OURS ? n_running - N_OURS : 0;
	/* a quarter of the threads may share a core: on a large machine something always runs */
	return (uint64_t)n_others + n_wanted - n_wanted / 4 > n_online;
}

bool inf_cores_are_busy(uint32_t n_wanted)
{
	char text[128];
	long n_online = sysconf(_SC_NPROCESSORS_ONLN);
	return read_text("/proc/loadavg", text, sizeof(text)) &&
	       inf_cores_are_busy_by(text, n_online > 0 ? (uint32_t)n_online : 1, n_wanted);
}
