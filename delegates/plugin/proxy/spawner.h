/* SPDX-License-Identifier: BSD-3-Clause */
/* Spawner: a small process that starts the host processes for inferd.
 *
 * A new process begins with copies of its parent's descriptors, and closes them before it runs its program. Closing a
 * client's file may take any time: it asks the file system, which may be the client's own. So inferd, which holds
 * descriptors of its clients, does not start processes itself: the spawner does, which was started before the first
 * client came and has no such descriptor. It ends when inferd does. */
#ifndef DELEGATES_PLUGIN_PROXY_SPAWNER_H
#define DELEGATES_PLUGIN_PROXY_SPAWNER_H

#include <stdbool.h>
#include <sys/types.h>

/* Start the spawner. While there is only one thread and no client. Without a spawner the functions below do its work
 * in this process. 0 or negative errno. */
int et_spawner_start(void);
/* Start host process @path, which is called @name, with its ends of the two sockets, and the pipe @output for what it
 * prints. The descriptors stay the caller's. Any thread. 0 or negative errno. */
int et_spawner_spawn(pid_t *ret_pid, const char *name, const char *path, int calls, int asks, int output);
/* Wait for the end of process @pid, which was killed, and return its wait status. Any thread. */
int et_spawner_wait(pid_t pid);

#endif
