/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners: the sockets that clients connect to, made by systemd or by the daemon. Loop thread only. */
#ifndef DAEMON_LOOP_LISTENER_H
#define DAEMON_LOOP_LISTENER_H

#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct inf_context;

enum { INF_LISTENERS_MAX = 8 };

struct inf_listener {
	uv_poll_t poll;
	struct inf_context *context;
	int fd;
	bool is_manager, is_open, is_paused;
	char path[INF_CONFIG_PATH_MAX]; /* removed when it is closed; empty: systemd's socket */
};

struct inf_listeners {
	struct inf_listener items[INF_LISTENERS_MAX];
	uint32_t n;
};

/* Take the sockets that systemd passed; those named "manager" are manager sockets. If systemd passed none, make
 * those of the configuration. Clients become sessions of @context on @loop. 0, or negative errno with a sentence in
 * the log. */
int inf_listeners_open(struct inf_listeners *listeners, struct inf_context *context, uv_loop_t *loop);
/* Accept again if a lack of descriptors or memory, or too many unpaid descriptors, paused it. Call it now and then. */
void inf_listeners_resume(struct inf_listeners *listeners);
/* Accept no more clients, and remove the sockets that the daemon made. All zeros is fine, and so is a second call. */
void inf_listeners_close(struct inf_listeners *listeners);

#endif
