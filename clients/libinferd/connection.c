/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection: send requests, receive replies, hand each reply to the call or the binding that waits for it.
 *
 * One thread at a time uses a connection, so there is no lock here.
 *
 * Only inferd_dispatch calls callbacks. A reply for a binding can arrive while the caller waits for another one; the
 * binding keeps the result, and an event fd makes inferd_get_fd's descriptor readable, so that the caller's event
 * loop calls inferd_dispatch.
 *
 * A connection that is lost stays lost: when the daemon goes away or sends a malformed reply, every request in
 * flight and every later call ends with INFERD_DISCONNECTED. The library does not connect again by itself, because
 * the state of Methods is lost with the connection; the application decides. */
#include "clients/libinferd/libinferd_internal.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MAX_WAITING_BYTES = 1024 * 1024 };

const char *inferd_status_text(int status)
{
	if (status < 0)
		status = -status;
	if (status == INFERD_DISCONNECTED)
		return "disconnected";
	const char *text = inf_status_text(status);
	return text ? text : "unknown status";
}

const char *inferd_error(const struct inferd *d)
{
	return d ? d->error : "out of memory"; /* inferd_open leaves NULL for this reason alone */
}

int inf_lib_fail(struct inferd *d, int status, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(d->error, sizeof d->error, format, args);
	va_end(args);
	return -status;
}

int inf_lib_take_options(struct inferd *d, void *ret_options, size_t n_bytes, const void *options)
{
	size_t n_given = 0;
	memset(ret_options, 0, n_bytes);
	if (!options)
		return 0;
	memcpy(&n_given, options, sizeof n_given);
	if (n_given < sizeof n_given) /* otherwise all options would be ignored silently */
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT,
			"the options' struct_size is %zu: set it to the struct's sizeof", n_given);
	memcpy(ret_options, options, n_given < n_bytes ? n_given : n_bytes);
	return 0;
}

/* ---- losing the connection ---- */

static int lose(struct inferd *d, const char *why)
{
	if (!d->is_lost) {
		d->is_lost = true;
		inf_lib_fail(d, INFERD_DISCONNECTED, "%s", why);
		while (!et_list_is_empty(&d->running))
			inf_lib_binding_disconnect(ET_CONTAINER_OF(d->running.next, struct inferd_binding,
				request_node));
	}
	return -INFERD_DISCONNECTED;
}

static int lost(struct inferd *d)
{
	return inf_lib_fail(d, INFERD_DISCONNECTED, "%s",
		d->is_open ? "the daemon closed the connection" : "not connected to the daemon");
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

void inf_lib_notice(struct inferd *d)
{
	bool is_due = !et_list_is_empty(&d->completed);
	if (is_due == d->is_raised)
		return;
	d->is_raised = is_due;
	uint64_t n = 1;
	ssize_t done = is_due ? write(d->event_fd, &n, sizeof n) : read(d->event_fd, &n, sizeof n);
	(void)done; /* the counter goes from 0 to 1 and back, which cannot fail */
}

static int sent(struct inferd *d, int rc)
{
	if (rc == 0 || rc == INF_CHANNEL_PENDING) {
		watch_writing(d, rc == INF_CHANNEL_PENDING);
		return 0;
	}
	if (rc == INF_CHANNEL_E_CLOSED && d->last_id == 1)
		return 0; /* the daemon may have sent a reason before it closed: receive it first */
	if (rc == INF_CHANNEL_E_CLOSED)
		return lose(d, "the daemon closed the connection");
	if (rc == INF_CHANNEL_E_FULL)
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED,
			"too many requests wait to be sent; the daemon does not read them");
	return inf_lib_fail(d, INFERD_INTERNAL, "cannot send the request: %s",
		rc < 0 ? strerror(-rc) : "the packet is too large for the socket");
}

int inf_lib_send(struct inferd *d, struct inf_request *request, const int *fds, size_t n_fds)
{
	if (!d->is_open || d->is_lost)
		return lost(d);
	request->id = ++d->last_id;
	struct et_diag diag = { "" };
	size_t n_bytes;
	int rc = inf_message_encode_request(request, d->packet, &n_bytes, &d->encoder, &diag);
	if (rc == INF_MESSAGE_E_INVALID)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "%s", diag.text);
	if (rc)
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	rc = inf_channel_send(&d->channel, d->packet, n_bytes, fds, n_fds);
	if (rc == -EBADF && n_fds)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "a descriptor that was passed is not open");
	return sent(d, rc);
}

void inf_lib_tell(struct inferd *d, struct inf_request *request)
{
	char error[sizeof d->error];
	memcpy(error, d->error, sizeof error);
	if (d->is_open && !d->is_lost)
		inf_lib_send(d, request, NULL, 0);
	memcpy(d->error, error, sizeof error); /* keep the sentence of the call before */
}

/* ---- receiving ---- */

static struct inferd_binding *find_running(struct inferd *d, uint64_t id)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &d->running) {
		struct inferd_binding *b = ET_CONTAINER_OF(node, struct inferd_binding, request_node);
		if (b->request_id == id)
			return b;
	}
	return NULL;
}

/* Hand a reply to the waiting call or to its binding. Replies to inf_lib_tell and for freed bindings are dropped. */
static void sort_reply(struct inferd *d, const struct inf_reply *reply, int *fds, size_t *n_fds)
{
	/* An error without an id: the daemon refuses the connection. */
	bool is_refusal = !reply->id && reply->status != INF_OK;
	if (d->awaited_id && (reply->id == d->awaited_id || is_refusal)) {
		d->awaited_id = 0;
		d->has_reply = true;
		d->reply = *reply;
		d->reply_fd = *n_fds ? fds[--*n_fds] : -1;
		return;
	}
	struct inferd_binding *b = find_running(d, reply->id);
	if (b)
		inf_lib_binding_complete(b, reply);
}

static int receive(struct inferd *d, bool waits)
{
	if (!d->is_open || d->is_lost)
		return lost(d);
	int fds[INF_MAX_PACKET_FDS];
	size_t n_bytes, n_fds;
	int rc = (waits ? inf_channel_wait : inf_channel_receive)(&d->channel, d->packet, INF_MAX_PACKET, &n_bytes, fds,
		&n_fds);
	if (rc == INF_CHANNEL_AGAIN)
		return 0;
	if (rc)
		return lose(d, rc != INF_CHANNEL_E_CLOSED ? "the connection to the daemon is broken"
			       : d->last_id == 1 ? "the daemon ended the connection without an answer; its log says "
						   "why (journalctl -u inferd)"
						 : "the daemon closed the connection");
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
		sort_reply(d, &reply, fds, &n_fds);
	inf_close_fds(fds, n_fds);
	if (rc) {
		char why[sizeof diag.text + 64];
		snprintf(why, sizeof why, "the daemon sent a malformed reply: %s", rc < 0 ? strerror(-rc) : diag.text);
		return lose(d, why);
	}
	return 1;
}

int inf_lib_receive(struct inferd *d)
{
	return receive(d, false);
}

int inf_lib_wait(struct inferd *d)
{
	if (!d->has_more)
		return receive(d, true);
	int rc = inf_lib_poll(d, -1);
	return rc ? rc : receive(d, false);
}

int inf_lib_poll(struct inferd *d, int timeout_ms)
{
	if (!d->is_open || d->is_lost)
		return lost(d);
	struct pollfd fd = { .fd = inf_channel_fd(&d->channel), .events = POLLIN };
	fd.events |= (short)(d->has_more ? POLLOUT : 0);
	if (poll(&fd, 1, timeout_ms) < 0 && errno != EINTR)
		return inf_lib_fail(d, INFERD_INTERNAL, "cannot wait for the daemon: %s", strerror(errno));
	return fd.revents & POLLOUT ? sent(d, inf_channel_flush(&d->channel)) : 0;
}

int inf_lib_call(struct inferd *d, struct inf_request *request, const int *fds, size_t n_fds, enum inf_reply_kind kind)
{
	int rc = inf_lib_send(d, request, fds, n_fds);
	if (rc)
		return rc;
	d->awaited_id = request->id;
	d->has_reply = false;
	do {
		rc = inf_lib_wait(d);
	} while (rc >= 0 && !d->has_reply);
	inf_lib_notice(d);
	if (rc < 0) {
		d->awaited_id = 0;
		return rc;
	}
	if (d->reply.status == INF_OK && d->reply.kind == kind)
		return 0;
	if (d->reply_fd >= 0)
		close(d->reply_fd);
	if (d->reply.status == INF_OK)
		return inf_lib_fail(d, INFERD_INTERNAL, "the daemon sent a reply to another kind of request");
	return inf_lib_fail(d, (int)d->reply.status, "%s",
		d->reply.error[0] ? d->reply.error : inferd_status_text((int)d->reply.status));
}

/* ---- events ---- */

int inferd_get_fd(const struct inferd *d)
{
	return d->epoll_fd;
}

/* Call the callbacks that are due. Returns how many. */
static int deliver(struct inferd *d)
{
	int n = 0;
	/* Only the callbacks that are due now: a request that a callback starts is delivered next time, so this
	 * ends. */
	struct et_list_node due;
	et_list_init(&due);
	while (!et_list_is_empty(&d->completed)) {
		struct et_list_node *node = d->completed.next;
		et_list_remove(node);
		et_list_append(&due, node);
	}
	while (!et_list_is_empty(&due)) {
		struct inferd_binding *b = ET_CONTAINER_OF(due.next, struct inferd_binding, request_node);
		et_list_remove(&b->request_node);
		b->state = INF_LIB_IDLE;
		if (b->status)
			inf_lib_fail(d, -b->status, "%s", b->error);
		n++;
		/* the callback may free b */
		b->done(b, b->status, b->userdata);
	}
	inf_lib_notice(d);
	return n;
}

int inferd_dispatch(struct inferd *d)
{
	int rc = 0;
	if (d->has_more && !d->is_lost)
		sent(d, inf_channel_flush(&d->channel));
	do {
		rc = inf_lib_receive(d);
	} while (rc > 0);
	int n = deliver(d);
	return n ? n : rc;
}

int inferd_wait(struct inferd *d, int timeout_ms)
{
	if (et_list_is_empty(&d->completed)) {
		int rc = inf_lib_poll(d, timeout_ms);
		if (rc && et_list_is_empty(&d->completed))
			return rc;
	}
	return inferd_dispatch(d);
}

/* ---- opening and closing ---- */

/* An epoll fd over the socket and the event fd: one descriptor, readable whenever inferd_dispatch has something to
 * do. */
static int make_events(struct inferd *d)
{
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event event = { .events = EPOLLIN };
	if (d->epoll_fd < 0 || d->event_fd < 0 || epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, d->event_fd, &event) < 0 ||
		epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, inf_channel_fd(&d->channel), &event) < 0)
		return inf_lib_fail(d, INFERD_INTERNAL, "cannot make an event descriptor: %s", strerror(errno));
	return 0;
}

static const char *what_to_do(int error)
{
	if (error == ENOENT || error == ECONNREFUSED)
		return "; start the daemon with 'systemctl start inferd.socket', or set $INFERD_SOCKET to its "
		       "socket";
	return error == EACCES ? "; ask the administrator to add you to the group of the socket" : "";
}

static int connect_to(struct inferd *d, const char *path)
{
	int fd = inf_channel_connect(path);
	if (fd < 0)
		return inf_lib_fail(d, fd == -EACCES ? INFERD_PERMISSION_DENIED : INFERD_DISCONNECTED,
			"cannot connect to inferd at %s: %s%s", path, strerror(-fd), what_to_do(-fd));
	int rc = inf_channel_init(&d->channel, fd, MAX_WAITING_BYTES, et_platform_allocator());
	if (rc) {
		close(fd);
		return inf_lib_fail(d, INFERD_INTERNAL, "cannot use the connection: %s", strerror(-rc));
	}
	d->is_open = true;
	return make_events(d);
}

static int say_hello(struct inferd *d, const struct inferd_open_options *options)
{
	const char *name = options->client_name ? options->client_name : program_invocation_short_name;
	struct inf_request request = { .kind = INF_REQUEST_HELLO,
		.hello = { .protocol = INF_PROTOCOL, .client_name = name, .weight = options->weight } };
	int rc = inf_lib_call(d, &request, NULL, 0, INF_REPLY_HELLO);
	if (rc)
		return rc;
	const struct inf_hello_reply *hello = &d->reply.hello;
	if (d->reply_fd >= 0)
		close(d->reply_fd);
	if (hello->protocol != INF_PROTOCOL)
		return inf_lib_fail(d, INFERD_FAILED_PRECONDITION, "%s %s speaks protocol %u, this library %d",
			hello->server_name, hello->server_version, hello->protocol, INF_PROTOCOL);
	uint32_t alignment = hello->tensor_alignment;
	if (alignment & (alignment - 1) || alignment > 65536)
		return inf_lib_fail(d, INFERD_INTERNAL, "the daemon asks for tensors aligned to %u bytes", alignment);
	d->tensor_alignment = alignment < 64 ? 64 : alignment;
	return 0;
}

int inferd_open(struct inferd **ret, const char *socket)
{
	struct inferd_open_options options = { .struct_size = sizeof options, .socket = socket };
	return inferd_open_with(ret, &options);
}

int inferd_open_with(struct inferd **ret, const struct inferd_open_options *given)
{
	struct inferd_open_options options;
	struct inferd *d = calloc(1, sizeof *d);
	uint8_t *packet = malloc(INF_MAX_PACKET);
	*ret = d && packet ? d : NULL;
	if (!*ret) {
		free(d);
		free(packet);
		return -INFERD_RESOURCE_EXHAUSTED;
	}
	d->packet = packet;
	d->epoll_fd = d->event_fd = d->reply_fd = -1;
	inf_spin_init(&d->spin, et_platform_n_cores() > 1 ? INF_LIB_SPIN_NS : 0);
	inf_codec_init(&d->encoder, et_platform_allocator());
	inf_codec_init(&d->decoder, et_platform_allocator());
	et_list_init(&d->methods);
	et_list_init(&d->regions);
	et_list_init(&d->bindings);
	et_list_init(&d->running);
	et_list_init(&d->completed);
	int rc = inf_lib_take_options(d, &options, sizeof options, given);
	const char *socket = options.socket;
	if (!socket)
		socket = getenv("INFERD_SOCKET");
	if (!socket || !socket[0])
		socket = "/run/inferd/inferd.sock";
	if (!rc)
		rc = connect_to(d, socket);
	if (!rc)
		rc = say_hello(d, &options);
	if (rc)
		d->is_lost = true; /* every later call fails */
	return rc;
}

void inferd_close(struct inferd *d)
{
	if (!d)
		return;
	d->is_lost = true; /* send no requests: the daemon frees everything when the socket closes */
	while (!et_list_is_empty(&d->bindings))
		inf_lib_binding_free(ET_CONTAINER_OF(d->bindings.next, struct inferd_binding, node));
	while (!et_list_is_empty(&d->regions))
		inferd_region_free(ET_CONTAINER_OF(d->regions.next, struct inferd_region, node));
	while (!et_list_is_empty(&d->methods))
		inferd_method_close(ET_CONTAINER_OF(d->methods.next, struct inferd_method, node));
	if (d->is_open)
		inf_channel_deinit(&d->channel);
	if (d->epoll_fd >= 0)
		close(d->epoll_fd);
	if (d->event_fd >= 0)
		close(d->event_fd);
	inf_codec_deinit(&d->encoder);
	inf_codec_deinit(&d->decoder);
	free(d->packet);
	free(d);
}
