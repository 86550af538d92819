/* SPDX-License-Identifier: BSD-3-Clause */
/* The gateway: one thread, one epoll, its listening sockets, connections, peers and questions.
 *
 * Each descriptor that is waited for is a source. libmicrohttpd has an epoll of its own, which is one of them; it runs
 * after the others, once in each turn of the loop. What ends in a turn is freed at its end, so that no source that the
 * kernel has reported is gone. */
#ifndef CLIENTS_HTTP_SERVER_H
#define CLIENTS_HTTP_SERVER_H

#include "config/http_conf.h"
#include "ipc/spin.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

struct http_source {
	int fd; /* -1: none */
	void (*ready)(struct http_source *source, uint32_t events);
};

enum { HTTP_MAX_LISTENERS = 16 };

struct http_listener {
	struct http_source source;
	struct http_server *server;
	char path[108]; /* of a socket that this process has made; "": another one */
};

struct http_server {
	struct inf_http_config config;
	struct et_log log;
	struct MHD_Daemon *mhd;
	int epoll_fd;
	struct http_source mhd_source, signal_source;
	struct http_listener listeners[HTTP_MAX_LISTENERS];
	size_t n_listeners;
	bool is_paused;    /* listeners wait for a connection to end */
	bool is_accepting; /* libmicrohttpd has a connection that it starts in this turn */
	bool is_stopping;
	bool is_ended;        /* no request begins or goes on */
	bool has_resumed;     /* libmicrohttpd has something to do */
	uint64_t stop_ns;     /* when a stop waits no longer */
	uint64_t sweep_ns;    /* when deadlines are looked at next */
	uint64_t watchdog_ns; /* how often systemd wants to hear of the loop; 0: never */
	uint64_t alive_ns;    /* when it hears next */
	struct inf_spin spin; /* whether to poll for the daemon's next answer */
	struct et_list_node connections, peers, dead_peers, asks, dead_asks;
	unsigned n_connections, n_asks;
};

/* Open the sockets and start. 0, or negative errno after a line in the log. */
int http_server_init(struct http_server *server);
/* Serve until SIGTERM or SIGINT. 0, or negative errno. */
int http_server_run(struct http_server *server);
/* Close everything; also after a failed http_server_init. */
void http_server_deinit(struct http_server *server);

/* Wait for @events on source->fd. 0, or negative errno. */
int http_server_watch(struct http_server *server, struct http_source *source, uint32_t events);
/* Wait no more. The descriptor stays open. */
void http_server_unwatch(struct http_server *server, struct http_source *source);
/* A connection has ended: accept again. */
void http_server_accept_again(struct http_server *server);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t http_now_ns(void);

#endif
