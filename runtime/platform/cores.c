/* SPDX-License-Identifier: BSD-3-Clause */
/* The number of cores that threads which wait for each other may use, in the daemon and in any other process.
 *
 * In a cgroup with a CPU quota of 1.5 cores a process may run on all processors, but after 150 ms of a core in a
 * period of 100 ms the kernel stops all its threads until the next period. Four threads use that up in 38 ms. So the
 * quota counts, not the number of processors. */
#include "runtime/platform/cgroup.h"
#include "runtime/platform/platform.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

uint32_t et_platform_cgroup_cores(const char *membership, const char *root)
{
	uint32_t quota = UINT32_MAX;
	et_platform_cgroup_walk(membership, root, "cpu", look_at_quota, &quota);
	return quota ? quota : 1;
}

uint32_t et_platform_n_cores(void)
{
	cpu_set_t set;
	long n_online = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t n = n_online > 0 ? (uint32_t)n_online : 1;
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		n = (uint32_t)CPU_COUNT(&set);
	return least(n, et_platform_cgroup_cores(ET_PLATFORM_CGROUP_MEMBERSHIP, ET_PLATFORM_CGROUP_ROOT));
}
