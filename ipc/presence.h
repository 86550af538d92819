/* SPDX-License-Identifier: BSD-3-Clause */
/* Presence: whether a daemon serves a socket, found out without connecting to it.
 *
 * systemd keeps a daemon's socket open while the daemon does not run, and starts the daemon for a client that
 * connects. So a client that only wants to use a daemon that runs anyway must not try by connecting. */
#ifndef IPC_PRESENCE_H
#define IPC_PRESENCE_H

#include <stdbool.h>

/* Hold the presence lock of the socket at @path until the returned descriptor is closed, or this process ends.
 * Negative errno: the folder of @path cannot be opened for reading, or has no locks. Any thread. */
int inf_presence_hold(const char *path);
/* Whether a process holds the presence lock of the socket at @path. Also true if that cannot be found out. Any
 * thread. */
bool inf_presence_is_held(const char *path);

#endif
