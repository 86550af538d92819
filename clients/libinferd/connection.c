/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection: open it, greet the daemon, close it.
 *
 * One thread at a time uses a connection, so there is no lock here.
 *
 * To connect never blocks, so that an event loop can do it: if the daemon's backlog is full, the next attempt is
 * made a little later. Losing a connection and connecting again is in reconnect.c. An application that starts wants
 * to know that there is no daemon, so the first attempt must find one; from then on reconnect_ms holds, since a
 * daemon that ends during the greeting is probably just being restarted. */
#include "clients/libinferd/libinferd_internal.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
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

bool inf_lib_copy(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return *ret || !text;
}

/* ---- greeting ---- */

static const char *what_to_do(int error)
{
	if (error == ENOENT || error == ECONNREFUSED)
		return "; start the daemon with 'systemctl start inferd.socket', or set $INFERD_SOCKET to its "
		       "socket";
	return error == EACCES ? "; ask the administrator to add you to the group of the socket" : "";
}

int inf_lib_greet(struct inferd *d)
{
	int fd = inf_channel_connect_now(d->path);
	if (fd == -EAGAIN)
		return -INFERD_BUSY;
	if (fd < 0)
		return inf_lib_fail(d, fd == -EACCES ? INFERD_PERMISSION_DENIED : INFERD_DISCONNECTED,
			"cannot connect to inferd at %s: %s%s", d->path, strerror(-fd), what_to_do(-fd));
	int rc = inf_channel_init(&d->channel, fd, MAX_WAITING_BYTES, et_platform_allocator());
	if (rc) {
		close(fd);
		return inf_lib_fail(d, INFERD_INTERNAL, "cannot use the connection: %s", strerror(-rc));
	}
	d->has_channel = true;
	d->has_more = false;
	d->phase = INF_LIB_GREETING;
	struct epoll_event event = { .events = EPOLLIN };
	if (epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return inf_lib_fail(d, INFERD_INTERNAL, "cannot watch the connection: %s", strerror(errno));
	struct inf_request request = { .kind = INF_REQUEST_HELLO,
		.hello = { .protocol = INF_PROTOCOL,
			.client_name = d->client_name,
			.weight = d->weight,
			.oldest_protocol = INF_PROTOCOL_OLDEST,
			.hears_ends = true } };
	rc = inf_lib_send(d, &request, NULL, 0);
	d->hello_id = request.id;
	d->is_again |= !rc && d->reconnect_ms;
	return rc;
}

/* Check the daemon's Hello. 0, or negative with the sentence written. */
static int check_hello(struct inferd *d, const struct inf_reply *reply)
{
	const struct inf_hello_reply *hello = &reply->hello;
	if (reply->status != INF_OK)
		return inf_lib_fail(d, (int)reply->status, "%s",
			reply->error[0] ? reply->error : inferd_status_text((int)reply->status));
	if (reply->kind != INF_REPLY_HELLO)
		return inf_lib_fail(d, INFERD_INTERNAL, "the daemon sent a reply to another kind of request");
	if (hello->protocol < INF_PROTOCOL_OLDEST || hello->protocol > INF_PROTOCOL)
		return inf_lib_fail(d, INFERD_FAILED_PRECONDITION,
			"%s %s speaks the protocol's version %u, this library %d to %d; upgrade the older one",
			hello->server_name, hello->server_version, hello->protocol, INF_PROTOCOL_OLDEST, INF_PROTOCOL);
	uint32_t alignment = hello->tensor_alignment;
	if (alignment & (alignment - 1) || alignment > 65536)
		return inf_lib_fail(d, INFERD_INTERNAL, "the daemon asks for tensors aligned to %u bytes", alignment);
	d->tensor_alignment = alignment < 64 ? 64 : alignment;
	d->has_presence = hello->has_presence;
	return 0;
}

void inf_lib_greeted(struct inferd *d, const struct inf_reply *reply)
{
	/* who starts wants to know that a limit is reached */
	bool may_pass = reply->shutting_down || (reply->status == INF_RESOURCE_EXHAUSTED && d->ready_ns);
	int rc = check_hello(d, reply);
	if (rc && d->is_again && may_pass) {
		inf_lib_try_later(d);
		return;
	}
	if (rc) {
		char why[sizeof d->error];
		memcpy(why, d->error, sizeof why);
		inf_lib_give_up(d, -rc, why);
		return;
	}
	d->phase = INF_LIB_READY;
	d->ready_ns = et_platform_now_ns(NULL);
	if (d->opening.state == INF_LIB_RUNNING)
		inf_lib_op_end(d, &d->opening, 0, "");
	inf_lib_advance(d);
}

/* ---- opening and closing ---- */

static bool watch(struct inferd *d, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	return fd >= 0 && epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* An epoll fd over the socket, the event fd and the timer fd: one descriptor, readable whenever inferd_dispatch has
 * something to do. The socket behind it may change. */
static int make_events(struct inferd *d)
{
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (d->epoll_fd < 0 || !watch(d, d->event_fd) || !watch(d, d->timer_fd))
		return inf_lib_fail(d, INFERD_INTERNAL, "cannot make an event descriptor: %s", strerror(errno));
	return 0;
}

static void deliver_opened(struct inf_lib_op *op)
{
	struct inferd *d = ET_CONTAINER_OF(op, struct inferd, opening);
	d->opened(d, op->status, d->userdata);
}

/* Keep what the connection is to be like. 0, or negative with the sentence written. */
static int take_options(struct inferd *d, const struct inferd_open_options *given)
{
	struct inferd_open_options options;
	int rc = inf_lib_take_options(d, &options, sizeof options, given);
	if (rc)
		return rc;
	const char *socket = options.socket ? options.socket : getenv("INFERD_SOCKET");
	if (!inf_lib_copy(&d->path, socket && socket[0] ? socket : "/run/inferd/inferd.sock") ||
		!inf_lib_copy(&d->client_name,
			options.client_name ? options.client_name : program_invocation_short_name))
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	d->weight = options.weight;
	d->reconnect_ms = options.reconnect_ms;
	d->opened = options.opened;
	d->interrupted = options.interrupted;
	d->userdata = options.userdata;
	d->timeout_us = options.timeout_us;
	return 0;
}

static struct inferd *inferd_new(void)
{
	struct inferd *d = calloc(1, sizeof *d);
	uint8_t *packet = malloc(INF_MAX_PACKET);
	if (!d || !packet) {
		free(d);
		free(packet);
		return NULL;
	}
	d->packet = packet;
	d->phase = INF_LIB_LOST;
	d->epoll_fd = d->event_fd = d->timer_fd = -1;
	inf_spin_init(&d->spin, et_platform_n_cores() > 1 ? INF_LIB_SPIN_NS : 0);
	inf_codec_init(&d->encoder, et_platform_allocator());
	inf_codec_init(&d->decoder, et_platform_allocator());
	et_list_init(&d->methods);
	et_list_init(&d->regions);
	et_list_init(&d->bindings);
	et_list_init(&d->running);
	et_list_init(&d->completed);
	et_list_init(&d->orphans);
	inf_lib_op_init(&d->opening, INF_LIB_CONNECT);
	return d;
}

int inferd_open(struct inferd **ret, const char *socket)
{
	struct inferd_open_options options = { .struct_size = sizeof options, .socket = socket };
	return inferd_open_with(ret, &options);
}

int inferd_open_with(struct inferd **ret, const struct inferd_open_options *given)
{
	struct inferd *d = *ret = inferd_new();
	if (!d)
		return -INFERD_RESOURCE_EXHAUSTED;
	int rc = take_options(d, given);
	if (!rc)
		rc = make_events(d);
	if (rc)
		return rc;
	inf_lib_op_begin(d, &d->opening, d->timeout_us, d->opened ? deliver_opened : NULL);
	d->phase = INF_LIB_CONNECTING;
	inf_lib_try(d);
	if (!d->opened)
		return inf_lib_op_wait(d, &d->opening);
	inf_lib_settle(d);
	return 0;
}

void inferd_close(struct inferd *d)
{
	if (!d)
		return;
	d->phase = INF_LIB_LOST; /* send no requests: the daemon frees everything when the socket closes */
	inf_lib_forget(d);
	while (!et_list_is_empty(&d->bindings))
		inf_lib_binding_free(ET_CONTAINER_OF(d->bindings.next, struct inferd_binding, node));
	while (!et_list_is_empty(&d->regions))
		inferd_region_free(ET_CONTAINER_OF(d->regions.next, struct inferd_region, node));
	while (!et_list_is_empty(&d->methods))
		inferd_method_close(ET_CONTAINER_OF(d->methods.next, struct inferd_method, node));
	if (d->has_channel)
		inf_channel_deinit(&d->channel);
	const int fds[] = { d->epoll_fd, d->event_fd, d->timer_fd };
	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	inf_codec_deinit(&d->encoder);
	inf_codec_deinit(&d->decoder);
	free(d->path);
	free(d->client_name);
	free(d->packet);
	free(d);
}
