/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening sockets.
 *
 * Under systemd they come with the process (sd_listen_fds_with_names) and stay systemd's: clients that connect while
 * the daemon restarts just wait. Otherwise they are made at the configured paths: everybody who may enter the folder
 * may use inferd.sock (quotas are per user), only our own user and group the manager's. */
#include "daemon/loop/listener.h"

#include "daemon/loop/server.h"
#include "daemon/client/session.h"
#include "ipc/channel.h"
#include "runtime/base/checked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct inf_listener *l = ET_CONTAINER_OF(handle, struct inf_listener, poll);
	for (int i = 0; i < 32; i++) {
		int fd = inf_channel_accept(l->fd);
		if (fd == -ECONNABORTED || fd == -EINTR)
			continue;
		if (fd < 0) {
			if (fd != -EAGAIN) {
				/* Out of descriptors or memory: the client stays in the backlog, and looking at it
				 * again at once would only turn the loop. */
				uv_poll_stop(&l->poll);
				l->is_paused = true;
				et_logf(&l->server->log, ET_LOG_WARNING, "can't accept a client, waiting a moment: %s",
					strerror(-fd));
			}
			return;
		}
		inf_session_accept(l->server, fd, l->is_manager);
		if (inf_quota_is_overdrawn(&l->server->quota)) {
			uv_poll_stop(&l->poll);
			l->is_paused = true;
			return;
		}
	}
}

/* @fd is consumed in any case. */
static int add(struct inf_server *server, int fd, bool is_manager, const char *path)
{
	struct inf_listener *l = &server->listeners[server->n_listeners];
	if (server->n_listeners == INF_LISTENERS_MAX) {
		close(fd);
		return -EMFILE;
	}
	int rc = uv_poll_init(&server->loop, &l->poll, fd);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	l->server = server;
	l->fd = fd;
	l->is_manager = is_manager;
	l->is_open = true;
	snprintf(l->path, sizeof(l->path), "%s", path);
	server->n_listeners++;
	return uv_poll_start(&l->poll, UV_READABLE, on_poll);
}

static int make(struct inf_server *server, const char *path, bool is_manager)
{
	int fd = inf_channel_listen(path, is_manager ? 0660 : 0666);
	if (fd < 0) {
		et_logf(&server->log, ET_LOG_ERROR, "can't listen at %s: %s; %s names another place", path,
			fd == -EADDRINUSE ? "another daemon answers there" : strerror(-fd),
			is_manager ? "--manager-socket" : "--socket");
		return fd;
	}
	return add(server, fd, is_manager, path);
}

int inf_listeners_open(struct inf_server *server)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names), rc = 0;
	if (n < 0) {
		et_logf(&server->log, ET_LOG_ERROR, "can't take systemd's sockets: %s", strerror(-n));
		return n;
	}
	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i;
		if (rc == 0 && sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) <= 0) {
			et_logf(&server->log, ET_LOG_ERROR,
				"systemd passed '%s', which is no listening SOCK_SEQPACKET socket: use "
				"ListenSequentialPacket=",
				names && names[i] ? names[i] : "?");
			rc = -EINVAL;
		}
		if (rc == 0)
			rc = add(server, fd, names && names[i] && strstr(names[i], "manager"), "");
		else
			close(fd);
	}
	for (int i = 0; i < n && names; i++)
		free(names[i]);
	free(names);
	if (n > 0 || rc < 0)
		return rc;
	rc = make(server, server->config.socket, false);
	if (rc == 0 && server->config.manager_socket[0])
		rc = make(server, server->config.manager_socket, true);
	return rc;
}

void inf_listeners_resume(struct inf_server *server)
{
	for (uint32_t i = 0; i < server->n_listeners && !inf_quota_is_overdrawn(&server->quota); i++) {
		struct inf_listener *l = &server->listeners[i];
		if (l->is_open && l->is_paused && uv_poll_start(&l->poll, UV_READABLE, on_poll) == 0)
			l->is_paused = false;
	}
}

struct closing {
	struct inf_work work;
	int fd;
};

static void closing_run(struct inf_work *work)
{
	close(ET_CONTAINER_OF(work, struct closing, work)->fd);
}

static void closing_done(struct inf_work *work)
{
	free(ET_CONTAINER_OF(work, struct closing, work));
}

/* With the last close of a listening socket go those who were not accepted yet, and all that they have sent: as with any
 * other socket (session.c) that may take as long as somebody likes. Nobody reaps what is closed before the loop runs. */
static void close_socket(struct inf_server *server, int fd)
{
	struct closing *c = server->is_draining ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		close(fd);
		return;
	}
	*c = (struct closing){ { .run = closing_run, .done = closing_done }, fd };
	shutdown(fd, SHUT_RDWR); /* nobody more */
	inf_helper_post_for_user(server->helper, &c->work, server->listeners);
}

void inf_listeners_close(struct inf_server *server)
{
	for (uint32_t i = 0; i < server->n_listeners; i++) {
		struct inf_listener *l = &server->listeners[i];
		if (!l->is_open)
			continue;
		l->is_open = false;
		uv_poll_stop(&l->poll);
		uv_close((uv_handle_t *)&l->poll, NULL);
		if (l->path[0]) {
			unlink(l->path);
			close_socket(server, l->fd);
		} else { /* systemd has it, too: who waits there waits for the next daemon */
			close(l->fd);
		}
	}
}
