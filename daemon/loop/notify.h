/* SPDX-License-Identifier: BSD-3-Clause */
/* Notify: telling systemd how we are. Everything is a no-op where nobody asked (no NOTIFY_SOCKET), and nothing waits for
 * who does not listen. On one thread. */
#ifndef DAEMON_LOOP_NOTIFY_H
#define DAEMON_LOOP_NOTIFY_H

#include <stdint.h>

/* READY=1, with a line of status. If it does not fit now it, and what is below, is sent before what is told next. */
void inf_notify_ready(const char *status);
/* A line for `systemctl status`. */
void inf_notify_status(const char *status);
/* RELOADING=1; ready follows. */
void inf_notify_reloading(void);
/* STOPPING=1. */
void inf_notify_stopping(void);
/* WATCHDOG=1. */
void inf_notify_alive(void);
/* How often systemd wants to hear that; 0: never. */
uint64_t inf_notify_watchdog_ns(void);

#endif
