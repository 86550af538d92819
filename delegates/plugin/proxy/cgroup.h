/* SPDX-License-Identifier: BSD-3-Clause */
/* Cgroup: limit the processes of users' programs with cgroups of their own, where systemd has delegated one to
 * inferd. */
#ifndef DELEGATES_PLUGIN_PROXY_CGROUP_H
#define DELEGATES_PLUGIN_PROXY_CGROUP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Find the cgroup that was delegated to this process, and turn on the controllers memory and pids for what is made in
 * it. @membership is /proc/self/cgroup, @root is /sys/fs/cgroup. On success its folder is in @ret_folder, of @room
 * bytes. 0, or negative errno: -ENOENT if nothing was delegated, or another error if it can't be used. Any thread. */
int et_plugin_cgroup_find(const char *membership, const char *root, char *ret_folder, size_t room);
/* Move process @pid, which has one thread, into @uid's cgroup in @folder. That is made if need be, and what it holds is
 * limited to @n_bytes (0: any amount) and to the threads that a host may need. 0 or negative errno; then the process is
 * where it was. */
int et_plugin_cgroup_enter(const char *folder, uint64_t uid, pid_t pid, uint64_t n_bytes);
/* Remove @uid's cgroup, if there is one and its process has ended. */
void et_plugin_cgroup_remove(const char *folder, uint64_t uid);

#endif
