/* SPDX-License-Identifier: BSD-3-Clause */
/* Spawner: a small process that starts the host processes for inferd.
 *
 * A new process begins with copies of its parent's descriptors, and closes them before it runs its program. Closing a
 * client's file may take any time: it asks the file system, which may be the client's own. So inferd, which holds
 * descriptors of its clients, does not start processes itself: the spawner does, which has no such descriptor. It ends
 * when inferd does. */
#ifndef DELEGATES_PLUGIN_PROXY_SPAWNER_H
#define DELEGATES_PLUGIN_PROXY_SPAWNER_H

#include <stdbool.h>
#include <sys/types.h>

/* Start the spawner, and do not wait for it. Before there are threads and clients. Without a spawner the functions
 * below do its work in this process. The caller's main must do as et_spawner_is_called says. 0 or negative errno. */
int et_spawner_start(void);
/* Whether a program that was called @name (argv[0]) has to call et_spawner_run and nothing else. */
bool et_spawner_is_called(const char *name);
_Noreturn void et_spawner_run(void);
/* Start host process @path, which is called @name, with its ends of the two sockets, and the pipe @output for what it
 * prints. The descriptors stay the caller's. A spawner that has ended is replaced; -EAGAIN: it has ended so often that
 * the next one has to wait. *@ret_pidfd is the caller's; it may be -1. Any thread. 0 or negative errno. */
int et_spawner_spawn(pid_t *ret_pid, int *ret_pidfd, const char *name, const char *path, int calls, int asks,
	int output);
/* Kill a process of et_spawner_spawn with its process group, and wait for its end. False: its wait status is not known,
 * since the spawner that started it has ended. @pidfd stays the caller's. Any thread. */
bool et_spawner_end(pid_t pid, int pidfd, int *ret_status);

#endif
