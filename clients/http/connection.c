/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of clients.
 *
 * libmicrohttpd's own limit on time is of inactivity: a client that sends a byte now and then keeps its connection,
 * and a suspended connection has no limit at all. So each activity has a deadline here, and who misses it is shut
 * down, which libmicrohttpd notices as the end of the connection. A suspended connection does not notice that its
 * client has gone either; its descriptor is watched for that.
 *
 * What must always be true: this file never closes a descriptor. */
#include "clients/http/connection.h"

#include "clients/http/head.h"
#include "clients/http/peer.h"
#include "clients/http/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define SOON_NS UINT64_C(100000000)

/* The client has closed its end. libmicrohttpd may not notice it if data came along with it, so what is still to come
 * has little time left. */
static void end_soon(struct http_connection *c)
{
	uint64_t soon_ns = http_now_ns() + SOON_NS;
	bool is_receiving = c->activity == HTTP_IDLE || c->activity == HTTP_RECEIVING;
	if (!c->is_half_closed || !is_receiving || c->deadline_ns <= soon_ns)
		return;
	c->deadline_ns = soon_ns;
	if (c->server->sweep_ns > soon_ns) /* others may be due earlier */
		c->server->sweep_ns = soon_ns;
}

static void on_hang_up(struct http_source *source, uint32_t events)
{
	struct http_connection *c = ET_CONTAINER_OF(source, struct http_connection, source);
	http_server_unwatch(c->server, source);
	c->is_half_closed = true;
	if (c->activity == HTTP_WAITING && c->request)
		http_request_hang_up(c->request);
	end_soon(c);
}

static void watch(struct http_connection *c)
{
	if (c->source.fd >= 0)
		return;
	c->source.fd = c->fd;
	if (http_server_watch(c->server, &c->source, EPOLLRDHUP) < 0) /* the deadline notices it later */
		c->source.fd = -1;
}

static int domain_of(int fd)
{
	int domain = 0;
	socklen_t n = sizeof(domain);
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n);
	return domain;
}

static bool uid_of(int fd, uid_t *ret)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);
	if (domain_of(fd) != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return false;
	*ret = peer.uid;
	return true;
}

static struct http_connection *connection_new(struct http_server *server, int fd)
{
	struct http_connection *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->server = server;
	c->fd = fd;
	c->source = (struct http_source){ .fd = -1, .ready = on_hang_up };
	c->is_unix = uid_of(fd, &c->uid);
	et_list_append(&server->connections, &c->node);
	server->n_connections++;
	http_connection_set(c, HTTP_IDLE);
	watch(c);
	return c;
}

static void connection_free(struct http_connection *c)
{
	struct http_server *server = c->server;
	http_server_unwatch(server, &c->source);
	http_peer_unref(c->peer);
	http_buffer_deinit(&c->head_text);
	http_head_free(c->head);
	et_list_remove(&c->node);
	server->n_connections--;
	free(c);
	http_server_accept_again(server);
}

void http_connection_notify(void *server, struct MHD_Connection *mhd, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
		*context = info ? connection_new(server, info->connect_fd) : NULL;
	} else if (*context) {
		connection_free(*context);
		*context = NULL;
	}
}

struct http_connection *http_connection_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info ? info->socket_context : NULL;
}

void http_connection_set(struct http_connection *c, enum http_activity activity)
{
	const struct inf_http_config *config = &c->server->config;
	const uint64_t limits[] = {
		[HTTP_IDLE] = c->is_used ? config->idle_timeout_ns : config->receive_timeout_ns,
		[HTTP_RECEIVING] = config->receive_timeout_ns,
		/* the daemon's answer has this limit; the rest is for the way back */
		[HTTP_WAITING] = config->request_timeout_ns + UINT64_C(5000000000),
		[HTTP_SENDING] = config->send_timeout_ns,
	};
	c->activity = activity;
	c->is_used |= activity != HTTP_IDLE;
	c->deadline_ns = http_now_ns() + limits[activity];
	if (activity == HTTP_WAITING)
		watch(c); /* it may have hung up already */
	end_soon(c);
}

bool http_connection_is_welcome(const struct http_server *server, int fd)
{
	unsigned n = 0;
	uid_t uid;
	if (!uid_of(fd, &uid) || uid == 0)
		return true;
	for (const struct et_list_node *node = server->connections.next; node != &server->connections;
		node = node->next) {
		const struct http_connection *c = ET_CONTAINER_OF(node, struct http_connection, node);
		n += c->is_unix && c->uid == uid;
	}
	return n < (server->config.connections + 1) / 2;
}

bool http_connection_has_room(struct http_server *server)
{
	struct http_connection *oldest = NULL;
	if (server->n_connections < server->config.connections)
		return true;
	for (struct et_list_node *node = server->connections.next; node != &server->connections; node = node->next) {
		struct http_connection *c = ET_CONTAINER_OF(node, struct http_connection, node);
		if (c->activity == HTTP_IDLE && !c->deadline_ns)
			return false; /* it is being closed: no other one must go */
		if (c->activity == HTTP_IDLE && (!oldest || c->deadline_ns < oldest->deadline_ns))
			oldest = c;
	}
	if (oldest) {
		oldest->deadline_ns = 0;
		shutdown(oldest->fd, SHUT_RDWR);
	}
	return false;
}

void http_connection_sweep(struct http_server *server, uint64_t now_ns)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &server->connections) {
		struct http_connection *c = ET_CONTAINER_OF(node, struct http_connection, node);
		if (c->deadline_ns && now_ns >= c->deadline_ns) {
			c->deadline_ns = 0;
			shutdown(c->fd, SHUT_RDWR);
		}
	}
}
