/* SPDX-License-Identifier: BSD-3-Clause */
/* Server: the libuv loop, its handles, and the start and end of the daemon. Only main.c and server.c include this.
 *
 * The loop thread owns everything except for what is marked otherwise. */
#ifndef DAEMON_LOOP_SERVER_H
#define DAEMON_LOOP_SERVER_H

#include "daemon/client/quota.h"
#include "daemon/context.h"
#include "daemon/loop/listener.h"

#include <stdatomic.h>
#include <uv.h>

struct inf_server {
	struct inf_context context;
	/* Reads the configuration again, for SIGHUP; NULL: it cannot be read again. */
	int (*load_config)(struct inf_config *ret_config, struct inf_config_error *ret_error);

	uv_loop_t loop;
	uv_async_t async;  /* another thread has something for the loop */
	uv_idle_t polling; /* active while the loop polls without sleeping */
	uint64_t poll_until_ns;
	uv_signal_t signals[3];
	uv_timer_t tick, deadline, drain;
	bool has_loop;

	struct inf_quota quota;
	struct inf_listeners listeners;
	uint64_t drain_until_ns, next_deadline_ns;
	uint64_t began_ns; /* when it began to serve */
	bool is_ready;     /* and the service manager is told so */
	bool is_stopped;
	bool is_abandoned; /* the end came before a worker came back */

	/* Any thread. */
	_Atomic(struct inf_binding *) deferred; /* a list of those to be freed */
	_Atomic(bool) has_attention;            /* some session wants attention */
	_Atomic(bool) has_crashed;              /* a backend's process crashed, perhaps for the last time it may */
};

/* Start everything: backends, workers, sockets. The caller has set context.config and context.log; all else is zeros.
 * 0, or negative with a sentence in the log. Call inf_server_deinit in either case. */
int inf_server_init(struct inf_server *server);
/* Serve until a signal ends it. 0, or negative. -ETIMEDOUT: everything that can end has ended, but some thread does
 * not come back; the process must end without inf_server_deinit, which would wait for that thread. */
int inf_server_run(struct inf_server *server);
void inf_server_deinit(struct inf_server *server);
/* Take no new work, let running requests end, then stop the loop. */
void inf_server_drain(struct inf_server *server);

#endif
