/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether other processes use the cores: one look at the number of runnable threads of the whole machine. The share of
 * time that others used lately (/proc/stat) would be smoother, but a client that prepares its inputs on all cores and
 * then waits for the answer is no neighbour of its own request. A single look may be wrong; callers look again soon. */
#include "ipc/cores.h"

#include "runtime/platform/cgroup.h"

#include <stdio.h>
#include <unistd.h>

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
