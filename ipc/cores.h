/* SPDX-License-Identifier: BSD-3-Clause */
/* Cores: how many this process may use, and whether other processes use them now. */
#ifndef IPC_CORES_H
#define IPC_CORES_H

#include <stdbool.h>
#include <stdint.h>

/* The cores that this process may use: those of its affinity, and at most the whole cores of its cgroup's CPU quota;
 * at least 1. Reads files: for the start. Any thread. */
uint32_t inf_n_cores(void);

/* Whether so many other threads run now, or want to, that @n_wanted threads which wait for each other would wait for
 * cores, too. One small read of /proc/loadavg, some microseconds; false if that is not possible. Any thread. */
bool inf_cores_are_busy(uint32_t n_wanted);

/* The steps of the two calls above, for their tests. */

/* The CPU quota of the cgroups of version 1 and 2 that the file @membership (as /proc/self/cgroup) names, mounted below
 * @root (as /sys/fs/cgroup), and of the cgroups around them: whole cores, 0 for less than one. UINT32_MAX: no quota. */
uint32_t inf_cores_of_quota(const char *membership, const char *root);
/* The same answer as inf_cores_are_busy from the text of /proc/loadavg, on a machine of @n_online cores. */
bool inf_cores_are_busy_by(const char *loadavg, uint32_t n_online, uint32_t n_wanted);

#endif
