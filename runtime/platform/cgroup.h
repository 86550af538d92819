/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of the cgroups in which this process runs. Any thread; every call reads files. */
#ifndef RUNTIME_PLATFORM_CGROUP_H
#define RUNTIME_PLATFORM_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ET_PLATFORM_CGROUP_MEMBERSHIP "/proc/self/cgroup"
#define ET_PLATFORM_CGROUP_ROOT       "/sys/fs/cgroup"

/* Read the beginning of the small file @folder/@name as a string; whether there is one. */
bool et_platform_read_text(const char *folder, const char *name, char *text, size_t room);

/* Call @look for the folder of each cgroup of version 1 (with @controller) and 2 that the file @membership (as
 * /proc/self/cgroup) names, mounted below @root (as /sys/fs/cgroup), and of the cgroups around them. */
typedef void (*et_platform_cgroup_fn)(void *arg, const char *folder);
void et_platform_cgroup_walk(const char *membership, const char *root, const char *controller,
	et_platform_cgroup_fn look, void *arg);

/* What may be used of the memory that the least of these cgroups leaves, beside a reserve (et_platform_room): its
 * memory.max or memory.high less what is used, but for files that the kernel takes back first. UINT64_MAX: no limit. */
uint64_t et_platform_cgroup_memory_room(const char *membership, const char *root);

/* The least CPU quota of these cgroups: whole cores, at least 1. UINT32_MAX: no quota. */
uint32_t et_platform_cgroup_cores(const char *membership, const char *root);

#endif
