/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners: the sockets that clients connect to, made by systemd or by the daemon. Loop thread only. */
#ifndef DAEMON_LOOP_LISTENER_H
#define DAEMON_LOOP_LISTENER_H

#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct inf_context;

enum {
	INF_LISTENERS_MAX = 8,
	/* Descriptors that are open only to be given up for a manager: for its connection, the peer's pidfd, a reply in
	 * a memory file, and a folder that a request of the manager reads. */
	INF_LISTENERS_SPARES = 4,
};

struct inf_listeners;

struct inf_listener {
	uv_poll_t poll;
	uv_timer_t rest; /* runs while is_resting */
	struct inf_context *context;
	struct inf_listeners *all;
	int fd;
	bool is_manager, is_open, is_paused, is_resting;
	char path[INF_CONFIG_PATH_MAX]; /* removed when it is closed; empty: systemd's socket */
};

struct inf_listeners {
	struct inf_listener items[INF_LISTENERS_MAX];
	uint32_t n;
	int presence; /* the lock that says that this daemon serves applications (ipc/presence.h); at most 0: none */
	int spares[INF_LISTENERS_SPARES];
	uint32_t n_spares;
};

/* Take the sockets that systemd passed; those named "manager" are manager sockets. If systemd passed none, make
 * those of the configuration. Clients become sessions of @context on @loop. 0, or negative errno with a sentence in
 * the log. */
int inf_listeners_open(struct inf_listeners *listeners, struct inf_context *context, uv_loop_t *loop);
/* Accept again if a lack of descriptors or memory, or too many unpaid descriptors, paused it; open spare descriptors
 * again when the manager has left. Call it now and then. */
void inf_listeners_resume(struct inf_listeners *listeners);
/* Accept no more clients, and remove the sockets that the daemon made. All zeros is fine, and so is a second call. */
void inf_listeners_close(struct inf_listeners *listeners);

#endif
