/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening sockets.
 *
 * systemd passes its sockets; then no Unix socket is made here. Addresses for TCP that the configuration names are
 * opened in any case. Who may use the Unix socket is up to its folder and mode: everybody, as with the daemon's own,
 * which counts what the gateway uses as the gateway's user. */
#include "clients/http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { BACKLOG = 128 };

/* @fd is consumed in any case. */
static int add(struct http_server *server, int fd, const char *path,
	void (*ready)(struct http_source *source, uint32_t events))
{
	struct http_listener *l = &server->listeners[server->n_listeners];
	int flags = fcntl(fd, F_GETFL);
	if (server->n_listeners == HTTP_MAX_LISTENERS || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		close(fd);
		return server->n_listeners == HTTP_MAX_LISTENERS ? -E2BIG : -errno;
	}
	*l = (struct http_listener){ .source = { .fd = fd, .ready = ready }, .server = server };
	snprintf(l->path, sizeof(l->path), "%s", path);
	server->n_listeners++;
	return http_server_watch(server, &l->source, EPOLLIN);
}

static int bind_and_listen(int family, const void *address, socklen_t n)
{
	int one = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (family != AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, address, n) < 0 || listen(fd, BACKLOG) < 0) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

static bool is_answered(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is = fd >= 0 && (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN);
	if (fd >= 0)
		close(fd);
	return is;
}

/* A socket that nobody answers at is left over from before. */
static int open_unix(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat file;
	snprintf(address.sun_path, sizeof(address.sun_path), "%.107s", path);
	if (lstat(path, &file) == 0) {
		if (!S_ISSOCK(file.st_mode))
			return -EEXIST;
		if (is_answered(&address))
			return -EADDRINUSE;
		unlink(path);
	}
	int fd = bind_and_listen(AF_UNIX, &address, sizeof(address));
	if (fd >= 0 && chmod(path, 0666) < 0) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

/* "127.0.0.1:8000" or "[::1]:8000". */
static int open_tcp(const char *text)
{
	char host[INF_CONFIG_NAME_MAX], *end;
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	bool is_6 = text[0] == '[';
	if (!n || (is_6 && text[n - 1] != ']'))
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)(is_6 ? n - 2 : n), is_6 ? text + 1 : text);
	unsigned long port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || port > 65535)
		return -EINVAL;
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	if (is_6)
		return inet_pton(AF_INET6, host, &v6.sin6_addr) == 1 ? bind_and_listen(AF_INET6, &v6, sizeof(v6))
								     : -EINVAL;
	return inet_pton(AF_INET, host, &v4.sin_addr) == 1 ? bind_and_listen(AF_INET, &v4, sizeof(v4)) : -EINVAL;
}

/* The port that the kernel has chosen for port 0 is in the log. */
static void log_address(const struct http_server *server, int fd, const char *name)
{
	struct sockaddr_in6 address;
	socklen_t n = sizeof(address);
	unsigned port = 0;
	if (getsockname(fd, (struct sockaddr *)&address, &n) == 0) /* the port is at the same place in both */
		port = ntohs(address.sin6_port);
	et_logf(&server->log, ET_LOG_INFO, "listening at %s, port %u", name, port);
}

int http_listeners_open(struct http_server *server, void (*ready)(struct http_source *source, uint32_t events))
{
	char name[INF_CONFIG_NAME_MAX];
	int n = sd_listen_fds(1), rc = 0;
	for (int i = 0; i < n && rc == 0; i++)
		rc = add(server, SD_LISTEN_FDS_START + i, "", ready);
	if (rc == 0 && n <= 0 && server->config.socket[0]) {
		int fd = open_unix(server->config.socket);
		rc = fd < 0 ? fd : add(server, fd, server->config.socket, ready);
		if (rc < 0)
			et_logf(&server->log, ET_LOG_ERROR, "can't listen at %s: %s", server->config.socket,
				rc == -EADDRINUSE ? "another program answers there" : strerror(-rc));
	}
	for (const char *at = server->config.listen.text; rc == 0 && inf_config_next_name(&at, name);) {
		int fd = open_tcp(name);
		rc = fd;
		if (fd >= 0) {
			log_address(server, fd, name);
			rc = add(server, fd, "", ready);
		}
		if (rc < 0)
			et_logf(&server->log, ET_LOG_ERROR, "can't listen at %s: %s", name,
				rc == -EINVAL ? "write an address and a port, such as 127.0.0.1:8000 or [::1]:8000"
					      : strerror(-rc));
	}
	if (rc == 0 && !server->n_listeners) {
		et_logf(&server->log, ET_LOG_ERROR, "there is no socket to listen at ('socket' and 'listen')");
		rc = -EINVAL;
	}
	return rc;
}

void http_listeners_close(struct http_server *server)
{
	while (server->n_listeners) {
		struct http_listener *l = &server->listeners[--server->n_listeners];
		int fd = l->source.fd;
		http_server_unwatch(server, &l->source);
		if (fd >= 0)
			close(fd);
		if (l->path[0])
			unlink(l->path);
	}
}

void http_listeners_notify(const char *text)
{
	sd_notify(0, text);
}

uint64_t http_listeners_watchdog_ns(void)
{
	uint64_t us = 0;
	return sd_watchdog_enabled(0, &us) > 0 && us < UINT64_MAX / 1000 ? us * 1000 : 0;
}
