/* SPDX-License-Identifier: BSD-3-Clause */
/* Notify: telling systemd the state of the daemon. Without NOTIFY_SOCKET every call does nothing, and no call
 * blocks. Loop thread only. */
#ifndef DAEMON_LOOP_NOTIFY_H
#define DAEMON_LOOP_NOTIFY_H

#include <stdint.h>

/* READY=1, with a line of status. If the socket is full, this message is kept and sent before the next one. */
void inf_notify_ready(const char *status);
/* A line for `systemctl status`. */
void inf_notify_status(const char *status);
/* RELOADING=1, kept likewise; inf_notify_ready follows when the reload is over. */
void inf_notify_reloading(void);
/* STOPPING=1. */
void inf_notify_stopping(void);
/* WATCHDOG=1. */
void inf_notify_alive(void);
/* systemd's limit between two inf_notify_alive; call it at half of that. 0: systemd wants none. */
uint64_t inf_notify_watchdog_ns(void);

#endif
