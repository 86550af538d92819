/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening sockets, those of systemd and our own, and messages to the service manager. */
#ifndef CLIENTS_HTTP_LISTENER_H
#define CLIENTS_HTTP_LISTENER_H

#include "clients/http/server.h"

/* Open all sockets of the configuration and of systemd, and watch them. 0, or negative errno after a line in the
 * log. */
int http_listeners_open(struct http_server *server, void (*ready)(struct http_source *source, uint32_t events));
/* Close them; also if there are none. */
void http_listeners_close(struct http_server *server);
/* Tell the service manager, if there is one: "READY=1", "STOPPING=1", "WATCHDOG=1". */
void http_listeners_notify(const char *text);
/* After how long without "WATCHDOG=1" the service manager ends this process; 0: never. */
uint64_t http_listeners_watchdog_ns(void);

#endif
