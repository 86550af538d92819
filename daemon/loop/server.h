/* SPDX-License-Identifier: BSD-3-Clause */
/* Server: everything that there is one of, and the loop that drives it.
 *
 * The loop thread owns all of it but what is marked otherwise. */
#ifndef DAEMON_LOOP_SERVER_H
#define DAEMON_LOOP_SERVER_H

#include "config/config.h"
#include "daemon/base/helper.h"
#include "daemon/queue/queues.h"
#include "daemon/client/quota.h"
#include "daemon/base/reply.h"
#include "daemon/model/repository.h"
#include "daemon/model/shared_memory.h"
#include "daemon/loop/stall_watchdog.h"
#include "runtime/base/list.h"

#include <stdatomic.h>
#include <uv.h>

enum { INF_TENSOR_ALIGNMENT = 64, INF_LISTENERS_MAX = 8 };

struct inf_binding;
struct inf_session;

struct inf_listener {
	uv_poll_t poll;
	struct inf_server *server;
	int fd;
	bool is_manager, is_open, is_paused;
	char path[INF_CONFIG_PATH_MAX]; /* to be removed at the end; empty: somebody else's */
};

struct inf_server {
	uv_loop_t loop;
	uv_async_t async;
	uv_idle_t polling; /* active while the loop looks around instead of sleeping */
	uint64_t poll_until_ns;
	uv_signal_t signals[3];
	uv_timer_t tick, deadline, drain;
	bool has_loop;

	struct inf_config config;
	char config_path[INF_CONFIG_PATH_MAX];                                   /* empty: none */
	int (*reload)(struct inf_server *server, struct inf_config *ret_config); /* reads it again */
	struct et_log log;
	struct inf_quota quota;
	struct inf_quota_rule *rules;

	struct et_backend_entry backends[INF_BACKENDS_MAX];
	char missing[INF_BACKENDS_MAX][400]; /* "opencl: no platform found" */
	uint32_t n_missing;
	uint32_t n_compiled_in; /* of the backends; those after them are plug-ins */
	struct et_registry registry;
	struct inf_shared_pages shared_pages;

	struct inf_queues queues;              /* cpu first */
	const struct et_kernel_table **tables; /* those compiled in, and plug-ins' */
	struct inf_stall_watchdog watchdog;
	struct inf_helper *helper;
	struct et_platform_store *store; /* or NULL */
	struct inf_repository *repository;

	struct inf_listener listeners[INF_LISTENERS_MAX];
	uint32_t n_listeners;
	struct et_list_node sessions;
	uint32_t n_sessions;
	uint64_t n_sessions_made;

	struct inf_codec request_codec;
	struct inf_reply_buffer reply;
	uint8_t packet[INF_MAX_PACKET + 1];

	uint64_t started_ns, drain_until_ns, next_deadline_ns;
	bool is_draining, is_stopped;
	bool is_abandoned; /* the end came before some worker did */

	/* Any thread. */
	_Atomic(struct inf_binding *) deferred;
	_Atomic(bool) has_attention;    /* some session wants it */
	_Atomic(bool) has_crashed;      /* a backend's process, maybe once too often */
	_Atomic(uint32_t) n_unanswered; /* requests from their submission until their reply is sent */
	_Atomic(uint64_t) n_requests, n_failed, copied_bytes;
};

/* Start everything: backends, workers, sockets. @server->config is set, @server->log too. 0, or negative with a
 * sentence in the log; inf_server_deinit is to be called in either case. */
int inf_server_init(struct inf_server *server);
/* Serve until a signal ends it. 0, or negative. -ETIMEDOUT: all is done that can be, but some thread does not come back;
 * the process must end without inf_server_deinit, which would wait for it. */
int inf_server_run(struct inf_server *server);
void inf_server_deinit(struct inf_server *server);

/* Ask the loop to look around. Any thread; @self is the server. */
void inf_server_notify(void *self);
/* The last reference on @binding is gone. Any thread. */
void inf_server_defer_free(struct inf_server *server, struct inf_binding *binding);
/* A session wants the loop: something waits to be sent, or it is to end. Any thread. */
void inf_server_want_attention(struct inf_server *server);
/* A request ended with BACKEND_CRASHED. Any thread. */
void inf_server_crashed(struct inf_server *server);
void inf_server_count(struct inf_server *server, bool is_success, uint64_t copied_bytes);
/* NULL: there is no such queue. Any thread. */
struct inf_pool *inf_server_pool(struct inf_server *server, struct et_queue_id queue);
/* Another request is likely to come before then: do not sleep until it is there or the time is up. */
void inf_server_poll_until(struct inf_server *server, uint64_t until_ns);
/* Something may expire then. */
void inf_server_expect_deadline(struct inf_server *server, uint64_t deadline_ns);
/* Take no new work, let what runs end, then stop. */
void inf_server_drain(struct inf_server *server);

#endif
