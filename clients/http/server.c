/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of the gateway.
 *
 * libmicrohttpd is given accepted connections and an epoll of its own, and runs when this loop says so: one thread, so
 * nothing here is locked. In each turn the sources come first, then libmicrohttpd, then what has ended is freed.
 *
 * What must always be true: no call blocks. The daemon is asked by descriptors only, clients are read and written by
 * libmicrohttpd without waiting, and files of clients are read only where they are memory. */
#include "clients/http/server.h"

#include "clients/http/ask.h"
#include "clients/http/connection.h"
#include "clients/http/infer.h"
#include "clients/http/listener.h"
#include "clients/http/memory.h"
#include "clients/http/peer.h"
#include "clients/http/request.h"
#include "clients/http/shared.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND   UINT64_C(1000000000)
#define SWEEP_NS (SECOND / 2)
#define SPIN_NS  UINT64_C(50000)
enum { MAX_EVENTS = 64, CONNECTION_MEMORY = 96 << 10, DRAIN_S = 10 };

uint64_t http_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

int http_server_watch(struct http_server *server, struct http_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };
	return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0 ? -errno : 0;
}

void http_server_unwatch(struct http_server *server, struct http_source *source)
{
	if (source->fd >= 0)
		epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->fd = -1;
}

/* --- clients ------------------------------------------------------------------------------------------ */

static void pause_accepting(struct http_server *server)
{
	struct epoll_event nothing = { .events = 0 };
	for (size_t i = 0; i < server->n_listeners && !server->is_paused; i++) {
		nothing.data.ptr = &server->listeners[i].source;
		epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listeners[i].source.fd, &nothing);
	}
	server->is_paused = true;
}

void http_server_accept_again(struct http_server *server)
{
	struct epoll_event event = { .events = EPOLLIN };
	for (size_t i = 0; i < server->n_listeners && server->is_paused && !server->is_stopping; i++) {
		event.data.ptr = &server->listeners[i].source;
		epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listeners[i].source.fd, &event);
	}
	server->is_paused = false;
}

/* One client in each turn of the loop: libmicrohttpd starts its connection only when it runs, and until then it is
 * neither counted nor known as its user's. */
static void on_client(struct http_source *source, uint32_t events)
{
	struct http_listener *l = ET_CONTAINER_OF(source, struct http_listener, source);
	struct http_server *server = l->server;
	struct sockaddr_storage address;
	socklen_t n = sizeof(address);
	if (server->is_stopping || server->is_accepting)
		return;
	if (!http_connection_has_room(server)) {
		pause_accepting(server);
		return;
	}
	int fd = accept4(source->fd, (struct sockaddr *)&address, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ECONNABORTED && errno != EINTR) {
			et_logf(&server->log, ET_LOG_WARNING, "can't accept a client, waiting a moment: %s",
				strerror(errno));
			pause_accepting(server); /* the next sweep accepts again */
		}
		return;
	}
	if (!http_connection_is_welcome(server, fd))
		close(fd);
	else if (MHD_add_connection(server->mhd, fd, (const struct sockaddr *)&address, n) == MHD_YES)
		server->has_resumed = server->is_accepting = true; /* MHD_add_connection closes what it refuses */
}

/* --- start and end ------------------------------------------------------------------------------------ */

static void on_mhd(struct http_source *source, uint32_t events)
{
	struct http_server *server = ET_CONTAINER_OF(source, struct http_server, mhd_source);
	server->has_resumed = true;
}

static void on_signal(struct http_source *source, uint32_t events)
{
	struct http_server *server = ET_CONTAINER_OF(source, struct http_server, signal_source);
	struct signalfd_siginfo info;
	if (read(source->fd, &info, sizeof(info)) != sizeof(info) || server->is_stopping)
		return;
	server->is_stopping = true;
	server->stop_ns = http_now_ns() + DRAIN_S * SECOND;
	http_listeners_close(server);
	http_listeners_notify("STOPPING=1");
}

/* Paths stay encoded: route.c decodes them after it has split them. */
static size_t keep_encoded(void *userdata, struct MHD_Connection *mhd, char *text)
{
	return strlen(text);
}

__attribute__((format(printf, 2, 0))) static void log_mhd(void *userdata, const char *format, va_list args)
{
	struct http_server *server = userdata;
	char text[400];
	if (!et_log_wants(&server->log, ET_LOG_DEBUG))
		return;
	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\r\n")] = '\0';
	et_logf(&server->log, ET_LOG_DEBUG, "libmicrohttpd: %s", text);
}

static int start_mhd(struct http_server *server)
{
	server->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET |
					       MHD_USE_ERROR_LOG,
		0, NULL, NULL, http_request_handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_mhd, server,
		MHD_OPTION_NOTIFY_COMPLETED, http_request_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
		http_connection_notify, server, MHD_OPTION_UNESCAPE_CALLBACK, keep_encoded, server,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
		server->config.connections + 1, MHD_OPTION_END);
	if (!server->mhd)
		return -ENOMEM;
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOTSUP;
	server->mhd_source = (struct http_source){ .fd = info->epoll_fd, .ready = on_mhd };
	return http_server_watch(server, &server->mhd_source, EPOLLIN);
}

static int watch_signals(struct http_server *server)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
		return -errno;
	int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	server->signal_source = (struct http_source){ .fd = fd, .ready = on_signal };
	return http_server_watch(server, &server->signal_source, EPOLLIN);
}

int http_server_init(struct http_server *server)
{
	struct et_list_node *lists[] = { &server->connections, &server->peers, &server->dead_peers, &server->asks,
		&server->dead_asks };
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		et_list_init(lists[i]);
	server->mhd_source.fd = server->signal_source.fd = -1;
	http_memory_init(server->config.memory);
	inf_spin_init(&server->spin, et_platform_n_cores() > 1 ? SPIN_NS : 0);
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int rc = server->epoll_fd < 0 ? -errno : watch_signals(server);
	if (rc == 0)
		rc = start_mhd(server);
	if (rc < 0) {
		et_logf(&server->log, ET_LOG_ERROR, "can't start: %s", strerror(-rc));
		return rc;
	}
	return http_listeners_open(server, on_client);
}

static void sweep(struct http_server *server, uint64_t now_ns)
{
	server->sweep_ns = now_ns + SWEEP_NS;
	http_connection_sweep(server, now_ns);
	http_peer_sweep(server, now_ns);
	http_ask_sweep(server, now_ns);
	http_server_accept_again(server);
	if (server->watchdog_ns && now_ns >= server->alive_ns) {
		server->alive_ns = now_ns + server->watchdog_ns / 4;
		http_listeners_notify("WATCHDOG=1");
	}
}

static int timeout_ms(const struct http_server *server)
{
	uint64_t mhd_ms, now = http_now_ns(), ms = server->sweep_ns > now ? (server->sweep_ns - now) / 1000000 + 1 : 0;
	if (server->has_resumed)
		return 0;
	return (int)(MHD_get_timeout64(server->mhd, &mhd_ms) == MHD_YES && mhd_ms < ms ? mhd_ms : ms);
}

static bool has_ended(const struct http_server *server)
{
	if (!server->is_stopping)
		return false;
	if (http_now_ns() >= server->stop_ns)
		return true;
	for (const struct et_list_node *node = server->connections.next; node != &server->connections;
		node = node->next)
		if (ET_CONTAINER_OF(node, struct http_connection, node)->request)
			return false;
	return true;
}

int http_server_run(struct http_server *server)
{
	struct epoll_event events[MAX_EVENTS];
	server->watchdog_ns = http_listeners_watchdog_ns();
	http_listeners_notify("READY=1");
	while (!has_ended(server)) {
		int n = epoll_wait(server->epoll_fd, events, MAX_EVENTS, timeout_ms(server));
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++) {
			struct http_source *source = events[i].data.ptr;
			if (source->fd >= 0) /* else it has ended in this turn */
				source->ready(source, events[i].events);
		}
		uint64_t mhd_ms;
		if (server->has_resumed || (MHD_get_timeout64(server->mhd, &mhd_ms) == MHD_YES && !mhd_ms)) {
			server->has_resumed = server->is_accepting = false;
			MHD_run(server->mhd);
		}
		uint64_t now = http_now_ns();
		if (now >= server->sweep_ns)
			sweep(server, now);
		http_peer_reap(server);
		http_ask_reap(server);
	}
	return 0;
}

void http_server_deinit(struct http_server *server)
{
	http_listeners_close(server);
	server->is_ended = true; /* libmicrohttpd aborts the process if it is stopped while a request is suspended */
	for (struct et_list_node *node = server->connections.next; node && node != &server->connections;
		node = node->next) {
		struct http_request *r = ET_CONTAINER_OF(node, struct http_connection, node)->request;
		if (r && r->is_suspended) { /* a request in flight ends with its binding, without a callback */
			http_request_hang_up(r);
			http_request_wake(r);
		}
	}
	if (server->mhd) {
		MHD_run(server->mhd);
		MHD_stop_daemon(server->mhd);
	}
	http_server_unwatch(server, &server->mhd_source);
	while (server->peers.next && server->peers.next != &server->peers)
		http_peer_close(ET_CONTAINER_OF(server->peers.next, struct http_peer, node));
	while (server->asks.next && server->asks.next != &server->asks)
		http_ask_drop(ET_CONTAINER_OF(server->asks.next, struct http_ask, node));
	if (server->dead_peers.next) {
		http_peer_reap(server);
		http_ask_reap(server);
	}
	http_shared_deinit();
	if (server->signal_source.fd >= 0)
		close(server->signal_source.fd);
	if (server->epoll_fd > 0)
		close(server->epoll_fd);
}
