/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire: send requests, receive replies, hand each reply to whom it belongs.
 *
 * A blocking call without a deadline sleeps in the receive itself: one system call for each request. Only where
 * something has a time (a deadline, the next attempt to connect) or packets wait to be sent, it polls.
 *
 * Whatever ends the connection is found here and goes to inf_lib_lose. A daemon that talks nonsense ends it for good:
 * the next one would talk nonsense too. */
#include "clients/libinferd/libinferd_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int inf_lib_lost(struct inferd *d)
{
	return inf_lib_fail(d, INFERD_DISCONNECTED, "%s",
		d->ready_ns ? "the daemon closed the connection" : "not connected to the daemon");
}

/* ---- sending ---- */

/* Watch the socket for writing, too, while packets wait to be sent. */
static void watch_writing(struct inferd *d, bool has_more)
{
	if (has_more == d->has_more)
		return;
	d->has_more = has_more;
	struct epoll_event event = { .events = EPOLLIN | (has_more ? EPOLLOUT : 0) };
	epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, inf_channel_fd(&d->channel), &event);
}

static int sent(struct inferd *d, int rc)
{
	if (rc == 0 || rc == INF_CHANNEL_PENDING) {
		watch_writing(d, rc == INF_CHANNEL_PENDING);
		return 0;
	}
	if (rc == INF_CHANNEL_E_CLOSED && d->phase == INF_LIB_GREETING)
		return 0; /* the daemon may have sent a reason before it closed: receive it first */
	if (rc == INF_CHANNEL_E_CLOSED) {
		inf_lib_lose(d, "the daemon closed the connection");
		return inf_lib_lost(d);
	}
	if (rc == INF_CHANNEL_E_FULL)
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED,
			"too many requests wait to be sent; the daemon does not read them");
	return inf_lib_fail(d, INFERD_INTERNAL, "cannot send the request: %s",
		rc < 0 ? strerror(-rc) : "the packet is too large for the socket");
}

int inf_lib_send(struct inferd *d, struct inf_request *request, const int *fds, size_t n_fds)
{
	if (!d->has_channel || d->phase == INF_LIB_LOST)
		return inf_lib_lost(d);
	request->id = ++d->last_id;
	struct et_diag diag = { "" };
	size_t n_bytes;
	int rc = inf_message_encode_request(request, d->packet, &n_bytes, &d->encoder, &diag);
	if (rc == INF_MESSAGE_E_INVALID)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "%s", diag.text);
	if (rc)
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	return sent(d, inf_channel_send(&d->channel, d->packet, n_bytes, fds, n_fds));
}

void inf_lib_tell(struct inferd *d, struct inf_request *request)
{
	if (d->phase != INF_LIB_READY && d->phase != INF_LIB_LEAVING)
		return;
	char error[sizeof d->error];
	memcpy(error, d->error, sizeof error);
	inf_lib_send(d, request, NULL, 0);
	memcpy(d->error, error, sizeof error); /* keep the sentence of the call before */
}

void inf_lib_flush(struct inferd *d)
{
	if (d->has_more)
		sent(d, inf_channel_flush(&d->channel));
}

/* ---- receiving ---- */

/* The operation that waits for the reply to @id. */
static struct inf_lib_op *find_running(struct inferd *d, uint64_t id)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &d->running) {
		struct inf_lib_op *op = ET_CONTAINER_OF(node, struct inf_lib_op, node);
		if (op->request_id == id)
			return op;
	}
	return NULL;
}

/* Hand a reply to whom it belongs. Replies to inf_lib_tell and for freed objects are dropped. */
static void sort_reply(struct inferd *d, const struct inf_reply *reply, int fd)
{
	if (d->phase == INF_LIB_GREETING) {
		/* an error without an id: the daemon refuses the connection */
		if (reply->id == d->hello_id || (!reply->id && reply->status != INF_OK))
			inf_lib_greeted(d, reply);
		return;
	}
	struct inf_lib_op *op = reply->id ? find_running(d, reply->id) : NULL;
	if (op && op->kind == INF_LIB_REQUEST)
		inf_lib_request_answered(ET_CONTAINER_OF(op, struct inferd_binding, op), reply);
	else if (op && op->kind == INF_LIB_METHOD_RESET)
		inf_lib_reset_answered(ET_CONTAINER_OF(op, struct inferd_method, op), reply);
	else if (reply->id)
		inf_lib_answered(d, reply, fd);
}

static int receive(struct inferd *d, bool waits)
{
	if (!d->has_channel || d->phase == INF_LIB_LOST)
		return -INFERD_DISCONNECTED;
	int fds[INF_MAX_PACKET_FDS];
	size_t n_bytes, n_fds;
	int rc = (waits ? inf_channel_wait : inf_channel_receive)(&d->channel, d->packet, INF_MAX_PACKET, &n_bytes, fds,
		&n_fds);
	if (rc == INF_CHANNEL_AGAIN)
		return 0;
	if (rc) {
		inf_lib_lose(d, rc != INF_CHANNEL_E_CLOSED ? "the connection to the daemon is broken"
				: d->phase == INF_LIB_GREETING
					? "the daemon ended the connection without an answer; its log says why "
					  "(journalctl -u inferd)"
					: "the daemon closed the connection");
		return -INFERD_DISCONNECTED;
	}
	struct inf_reply reply;
	struct et_diag diag = { "" };
	rc = inf_message_decode_reply(&reply, d->packet, n_bytes, &d->decoder, &diag);
	if (!rc && reply.kind == INF_REPLY_ATTACHED) {
		struct inf_reply outer = reply;
		rc = n_fds == 1 ? inf_message_decode_attached(&reply, &outer, fds[0], &d->decoder, &diag)
				: INF_MESSAGE_E_MALFORMED;
		inf_close_fds(fds, n_fds);
		n_fds = 0;
	}
	if (!rc)
		sort_reply(d, &reply, n_fds ? fds[0] : -1);
	inf_close_fds(fds, n_fds);
	if (rc) {
		char why[sizeof diag.text + 64];
		snprintf(why, sizeof why, "the daemon sent a malformed reply: %s", rc < 0 ? strerror(-rc) : diag.text);
		inf_lib_give_up(d, INFERD_DISCONNECTED, why);
		return -INFERD_DISCONNECTED;
	}
	return 1;
}

int inf_lib_receive(struct inferd *d)
{
	return receive(d, false);
}

void inf_lib_wait(struct inferd *d)
{
	if (d->has_channel && !d->has_more && !inf_lib_is_timed(d)) {
		receive(d, true);
		return;
	}
	inf_lib_poll(d, -1);
	receive(d, false);
	inf_lib_tick(d);
}

void inf_lib_poll(struct inferd *d, int timeout_ms)
{
	if (d->phase == INF_LIB_LOST)
		return;
	inf_lib_arm(d);
	struct pollfd fds[2] = { { .fd = d->timer_fd, .events = POLLIN },
		{ .fd = d->has_channel ? inf_channel_fd(&d->channel) : -1, .events = POLLIN } };
	fds[1].events |= (short)(d->has_more ? POLLOUT : 0);
	if (poll(fds, 2, timeout_ms) < 0 && errno != EINTR) {
		char why[128];
		snprintf(why, sizeof why, "cannot wait for the daemon: %s", strerror(errno));
		inf_lib_give_up(d, INFERD_INTERNAL, why);
	} else if (fds[1].revents & POLLOUT) {
		inf_lib_flush(d);
	}
}
