/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening sockets.
 *
 * systemd passes its sockets to the process (sd_listen_fds_with_names) and keeps them: a client that connects while
 * the daemon restarts just waits. Without systemd the daemon makes sockets at the configured paths: every user who
 * may enter the folder may use inferd.sock (quotas are per user), and only the daemon's own user and group may use
 * the manager's.
 *
 * The limits on what all users together hold (quota.c) leave descriptors for managers. The daemon itself may need those
 * for models, or the limit of the process may have been lowered. So a few spare descriptors are open, and are closed
 * when a manager can't be accepted otherwise. Users wait in the backlog meanwhile.
 *
 * A client that is turned away can connect again at once, and 50,000 times a second cost the loop most of a core. So a
 * listener that turned many away in a row rests for REST_TIMES as long as that took: the loop spends at most a quarter
 * of its time on it, and who is served already keeps the rest. New clients wait in the backlog for that moment. */
#include "daemon/loop/listener.h"

#include "daemon/client/quota.h"
#include "daemon/client/requests.h"
#include "daemon/context.h"
#include "ipc/channel.h"
#include "ipc/presence.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { MAX_AT_ONCE = 32, MANY = MAX_AT_ONCE / 2, REST_TIMES = 3 };

static void open_spares(struct inf_listeners *listeners)
{
	while (listeners->n_spares < INF_LISTENERS_SPARES) {
		int fd = eventfd(0, EFD_CLOEXEC);
		if (fd < 0)
			return;
		listeners->spares[listeners->n_spares++] = fd;
	}
}

static void close_spares(struct inf_listeners *listeners)
{
	while (listeners->n_spares)
		close(listeners->spares[--listeners->n_spares]);
}

static struct inf_quota_total *total_of(const struct inf_listener *l)
{
	return l->is_manager ? &l->context->quota->all_managers : &l->context->quota->all_users;
}

static void on_poll(uv_poll_t *handle, int status, int events);

static void on_rested(uv_timer_t *handle)
{
	struct inf_listener *l = ET_CONTAINER_OF(handle, struct inf_listener, rest);
	l->is_resting = false;
	if (!l->is_paused && uv_poll_start(&l->poll, UV_READABLE, on_poll) < 0)
		l->is_paused = true; /* inf_listeners_resume tries again */
}

static void rest(struct inf_listener *l, uint64_t busy_ns)
{
	if (uv_timer_start(&l->rest, on_rested, REST_TIMES * busy_ns / 1000000 + 1, 0) < 0)
		return;
	uv_poll_stop(&l->poll);
	l->is_resting = true;
}

/* How many were turned away. */
static int accept_some(struct inf_listener *l, uv_loop_t *loop)
{
	int n_turned_away = 0;
	for (int i = 0; i < MAX_AT_ONCE; i++) {
		int fd = inf_channel_accept(l->fd);
		if (fd == -ECONNABORTED || fd == -EINTR)
			continue;
		if ((fd == -EMFILE || fd == -ENFILE) && l->is_manager && l->all->n_spares) {
			et_logf(&l->context->log, ET_LOG_WARNING,
				"no descriptor is left; giving up %u spare ones for a manager", l->all->n_spares);
			close_spares(l->all);
			continue;
		}
		if (fd < 0) {
			if (fd != -EAGAIN) {
				/* Out of descriptors or memory: the client stays in the backlog, and trying again at
				 * once would only keep the loop busy. */
				uv_poll_stop(&l->poll);
				l->is_paused = true;
				et_logf(&l->context->log, ET_LOG_WARNING, "can't accept a client, waiting a moment: %s",
					strerror(-fd));
			}
			break;
		}
		n_turned_away += !inf_session_accept(l->context, loop, &inf_session_requests, fd, l->is_manager);
		if (inf_quota_is_overdrawn(total_of(l))) {
			uv_poll_stop(&l->poll);
			l->is_paused = true;
			break;
		}
	}
	return n_turned_away;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct inf_listener *l = ET_CONTAINER_OF(handle, struct inf_listener, poll);
	uint64_t began_ns = et_platform_now_ns(NULL);
	if (accept_some(l, handle->loop) >= MANY)
		rest(l, et_platform_now_ns(NULL) - began_ns);
}

/* Tell clients that lost their connection that a daemon serves @fd again. Without it they find out by connecting. */
static void hold_presence(struct inf_listeners *listeners, struct inf_context *context, int fd)
{
	struct sockaddr_un address = { 0 };
	socklen_t n = sizeof(address) - 1; /* a path that fills its field has no NUL */
	if (context->has_presence || getsockname(fd, (struct sockaddr *)&address, &n) < 0 || !address.sun_path[0])
		return;
	int lock = inf_presence_hold(address.sun_path);
	if (lock >= 0)
		listeners->presence = lock;
	context->has_presence = lock >= 0;
}

/* @fd is consumed in any case. */
static int add(struct inf_listeners *listeners, struct inf_context *context, uv_loop_t *loop, int fd, bool is_manager,
	const char *path)
{
	struct inf_listener *l = &listeners->items[listeners->n];
	if (listeners->n == INF_LISTENERS_MAX) {
		close(fd);
		return -EMFILE;
	}
	int rc = uv_poll_init(loop, &l->poll, fd);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	uv_timer_init(loop, &l->rest); /* never fails */
	l->context = context;
	l->all = listeners;
	l->fd = fd;
	l->is_manager = is_manager;
	l->is_open = true;
	snprintf(l->path, sizeof(l->path), "%s", path);
	listeners->n++;
	if (!is_manager)
		hold_presence(listeners, context, fd);
	return uv_poll_start(&l->poll, UV_READABLE, on_poll);
}

static int make(struct inf_listeners *listeners, struct inf_context *context, uv_loop_t *loop, const char *path,
	bool is_manager)
{
	int fd = inf_channel_listen(path, is_manager ? 0660 : 0666);
	if (fd < 0) {
		et_logf(&context->log, ET_LOG_ERROR, "can't listen at %s: %s; %s names another place", path,
			fd == -EADDRINUSE ? "another daemon answers there" : strerror(-fd),
			is_manager ? "--manager-socket" : "--socket");
		return fd;
	}
	return add(listeners, context, loop, fd, is_manager, path);
}

int inf_listeners_open(struct inf_listeners *listeners, struct inf_context *context, uv_loop_t *loop)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names), rc = 0;
	if (n < 0) {
		et_logf(&context->log, ET_LOG_ERROR, "can't take systemd's sockets: %s", strerror(-n));
		return n;
	}
	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i;
		if (rc == 0 && sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) <= 0) {
			et_logf(&context->log, ET_LOG_ERROR,
				"systemd passed '%s', which is not a listening SOCK_SEQPACKET socket: use "
				"ListenSequentialPacket=",
				names && names[i] ? names[i] : "?");
			rc = -EINVAL;
		}
		if (rc == 0)
			rc = add(listeners, context, loop, fd, names && names[i] && strstr(names[i], "manager"), "");
		else
			close(fd);
	}
	for (int i = 0; i < n && names; i++)
		free(names[i]);
	free(names);
	open_spares(listeners);
	if (n > 0 || rc < 0)
		return rc;
	rc = make(listeners, context, loop, context->config.socket, false);
	if (rc == 0 && context->config.manager_socket[0])
		rc = make(listeners, context, loop, context->config.manager_socket, true);
	return rc;
}

void inf_listeners_resume(struct inf_listeners *listeners)
{
	for (uint32_t i = 0; i < listeners->n; i++) {
		struct inf_listener *l = &listeners->items[i];
		if (inf_quota_is_overdrawn(total_of(l)))
			continue;
		if (l->is_manager && !atomic_load(&total_of(l)->used[INF_QUOTA_FDS]))
			open_spares(listeners);
		if (l->is_open && l->is_paused && l->is_resting)
			l->is_paused = false; /* on_rested starts it */
		else if (l->is_open && l->is_paused && uv_poll_start(&l->poll, UV_READABLE, on_poll) == 0)
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

/* The last close of a listening socket closes the connections that were not accepted yet, with all that those
 * clients have sent. As with a session's socket (daemon/client/closing.c) that may take as long as a client likes,
 * so a helper's thread does it; not before the loop runs, since only the loop reaps such work. */
static void close_socket(const struct inf_listeners *listeners, const struct inf_context *context, int fd)
{
	struct closing *c = context->is_draining ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		close(fd);
		return;
	}
	*c = (struct closing){ { .run = closing_run, .done = closing_done }, fd };
	shutdown(fd, SHUT_RDWR); /* no further client */
	inf_helper_post_for_user(context->helper, &c->work, listeners);
}

void inf_listeners_close(struct inf_listeners *listeners)
{
	close_spares(listeners);
	/* before any session ends: a client that then connected to systemd's socket would start the next daemon */
	if (listeners->presence > 0)
		close(listeners->presence);
	listeners->presence = 0;
	for (uint32_t i = 0; i < listeners->n; i++) {
		struct inf_listener *l = &listeners->items[i];
		if (!l->is_open)
			continue;
		l->is_open = false;
		uv_poll_stop(&l->poll);
		uv_close((uv_handle_t *)&l->poll, NULL);
		uv_close((uv_handle_t *)&l->rest, NULL);
		if (l->path[0]) {
			unlink(l->path);
			close_socket(listeners, l->context, l->fd);
		} else { /* systemd keeps it: clients that wait there wait for the next daemon */
			close(l->fd);
		}
	}
}
