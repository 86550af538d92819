/* SPDX-License-Identifier: BSD-3-Clause */
/* Cores: how many this process may use, and whether other processes use them now.
 *
 * In a cgroup with a CPU quota of 1.5 cores a process may run on all processors, but after 150 ms of a core in a
 * period of 100 ms the kernel stops all its threads until the next period. Four threads use that up in 38 ms. So the
 * quota counts, not the number of processors.
 *
 * Whether the cores are busy is one look at the number of runnable threads of the whole machine. The share of time that
 * others used lately (/proc/stat) would be smoother, but a client that prepares its inputs on all cores and then waits
 * for the answer is no neighbour of its own request. A single look may be wrong; callers look again soon. */
#include "ipc/cores.h"

#include "runtime/platform/cgroup.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- how many ------------------------------------------------------------------------------------------------- */

/* The quota of one cgroup, of either version. */
static uint32_t quota_of(const char *folder)
{
	char text[64], period_text[64];
	long long quota = -1, period = 0;
	if (et_platform_read_text(folder, "cpu.max", text, sizeof(text))) {
		if (sscanf(text, "%lld %lld", &quota, &period) != 2) /* "max 100000" */
			return UINT32_MAX;
	} else if (et_platform_read_text(folder, "cpu.cfs_quota_us", text, sizeof(text)) &&
		   et_platform_read_text(folder, "cpu.cfs_period_us", period_text, sizeof(period_text))) {
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

static void look_at_quota(void *arg, const char *folder)
{
	uint32_t *quota = arg;
	*quota = least(*quota, quota_of(folder));
}

uint32_t inf_cores_of_quota(const char *membership, const char *root)
{
	uint32_t quota = UINT32_MAX;
	et_platform_cgroup_walk(membership, root, "cpu", look_at_quota, &quota);
	return quota;
}

uint32_t inf_n_cores(void)
{
	cpu_set_t set;
	long n_online = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t n = n_online > 0 ? (uint32_t)n_online : 1;
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		n = (uint32_t)CPU_COUNT(&set);
	uint32_t quota = inf_cores_of_quota(ET_PLATFORM_CGROUP_MEMBERSHIP, ET_PLATFORM_CGROUP_ROOT);
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
	return et_platform_read_text("/proc", "loadavg", text, sizeof(text)) &&
	       inf_cores_are_busy_by(text, n_online > 0 ? (uint32_t)n_online : 1, n_wanted);
}
