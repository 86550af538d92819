/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection.
 *
 * Packets are taken while there are some, a bounded number at a time so that one client cannot keep the loop. A
 * packet that cannot be understood as a message ends the session it came by and no other.
 *
 * Closing comes in three steps. At once: the socket is shut down, the requests that wait, the numbers of everything it
 * held, so that all of it goes that nobody uses. (The socket's descriptor is closed beside the loop where in what
 * nobody read there are descriptors of the client's.) When its last running request ends: the regions and Methods that
 * one used. When libuv has let go of the poll handle as well: the struct. */
#include "daemon/client/session.h"

#include "daemon/loop/listener.h"
#include "daemon/client/requests.h"
#include "daemon/loop/server.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PACKETS_AT_A_TIME = 16 };

static const char *state_name(enum inf_session_state state)
{
	return state == INF_SESSION_NEW ? "new" : state == INF_SESSION_OPEN ? "open" : "closed";
}

static void set_state(struct inf_session *s, enum inf_session_state state, const char *why)
{
	if (state <= s->state) {
		et_logf(&s->server->log, ET_LOG_ERROR, "session %llu: refusing to go from %s to %s",
			(unsigned long long)s->id, state_name(s->state), state_name(state));
		return;
	}
	et_logf(&s->server->log, ET_LOG_DEBUG, "session %llu: %s -> %s (%s)", (unsigned long long)s->id,
		state_name(s->state), state_name(state), why);
	s->state = state;
}

struct inf_session *inf_session_ref(struct inf_session *s)
{
	s->n_refs++;
	return s;
}

struct inf_session *inf_session_unref(struct inf_session *s)
{
	if (!s || --s->n_refs)
		return NULL;
	inf_channel_deinit(&s->channel);
	inf_table_deinit(&s->regions);
	inf_table_deinit(&s->methods);
	inf_table_deinit(&s->bindings);
	inf_quota_discharge(s->user, INF_QUOTA_CONNECTIONS, 1);
	inf_quota_user_unref(s->user);
	et_logf(&s->server->log, ET_LOG_DEBUG, "session %llu: nothing is left of it", (unsigned long long)s->id);
	free(s);
	return NULL;
}

/* --- sending -------------------------------------------------------------------------------------- */

static void send_buffer(struct inf_session *s, struct inf_reply_buffer *buffer)
{
	int rc = buffer->n_bytes
			 ? inf_channel_send(&s->channel, buffer->packet, buffer->n_bytes, &buffer->fd, buffer->fd >= 0)
			 : -ENOMEM;
	if (rc == 0 || rc == INF_CHANNEL_E_CLOSED)
		return;
	if (rc == INF_CHANNEL_PENDING)
		atomic_store(&s->wants_flush, true);
	else
		atomic_store(&s->send_error, rc);
	inf_server_want_attention(s->server);
}

void inf_session_send(struct inf_session *s, struct inf_reply_buffer *buffer)
{
	send_buffer(s, buffer);
	if (buffer->fd >= 0)
		close(buffer->fd);
	buffer->fd = -1;
}

void inf_session_reply_fd(struct inf_session *s, const struct inf_reply *reply, int fd)
{
	struct inf_reply_buffer *buffer = &s->server->reply;
	const struct inf_reply refusal = { .id = reply->id,
		.status = INF_RESOURCE_EXHAUSTED,
		.error = "the daemon is out of memory or descriptors for the answer" };
	bool is_whole = inf_message_encode_reply(reply, buffer->packet, &buffer->n_bytes, &buffer->fd,
				&buffer->codec) == 0;
	if (!is_whole &&
		inf_message_encode_reply(&refusal, buffer->packet, &buffer->n_bytes, &buffer->fd, &buffer->codec) < 0) {
		buffer->n_bytes = 0; /* the session ends */
		buffer->fd = -1;
	}
	bool is_lent = is_whole && fd >= 0;
	if (is_lent)
		buffer->fd = fd;
	send_buffer(s, buffer);
	if (!is_lent && buffer->fd >= 0)
		close(buffer->fd);
	buffer->fd = -1;
}

void inf_session_reply(struct inf_session *s, const struct inf_reply *reply)
{
	inf_session_reply_fd(s, reply, -1);
}

void inf_session_ok(struct inf_session *s, uint64_t id)
{
	struct inf_reply reply = { .id = id };
	inf_session_reply(s, &reply);
}

void inf_session_refuse(struct inf_session *s, uint64_t id, enum inf_status status, const char *format, ...)
{
	char text[INF_MAX_TEXT + 1];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	et_logf(&s->server->log, ET_LOG_DEBUG, "session %llu request %llu: %s", (unsigned long long)s->id,
		(unsigned long long)id, text);
	struct inf_reply reply = { .id = id, .status = status, .error = text };
	inf_session_reply(s, &reply);
}

/* --- descriptors ---------------------------------------------------------------------------------- */

/* Who pays for a descriptor until it is closed. */
enum closing_cost {
	COST_FD,      /* charged to the user */
	COST_SURPLUS, /* the user has nothing left to be charged: it came beside a packet that was read */
	COST_UNPAID,  /* nor there: a connection that was turned away */
};

struct closing {
	struct inf_work work;
	int fd;
	struct inf_server *server;
	struct inf_quota_user *user; /* a reference */
	enum closing_cost cost;
};

static void closing_run(struct inf_work *work)
{
	close(ET_CONTAINER_OF(work, struct closing, work)->fd);
}

static void give_cost_back(struct inf_server *server, struct inf_quota_user *user, enum closing_cost cost)
{
	if (cost == COST_FD)
		inf_quota_discharge(user, INF_QUOTA_FDS, 1);
	if (cost == COST_SURPLUS)
		user->n_surplus_fds--;
	if (cost != COST_UNPAID)
		return;
	inf_quota_remove_unpaid(&server->quota);
	inf_listeners_resume(server);
}

static void closing_done(struct inf_work *work)
{
	struct closing *c = ET_CONTAINER_OF(work, struct closing, work);
	give_cost_back(c->server, c->user, c->cost);
	inf_quota_user_unref(c->user);
	free(c);
}

/* Close @fd beside the loop, and give back what it costs when it is done. */
static void close_beside(struct inf_server *server, struct inf_quota_user *user, int fd, enum closing_cost cost)
{
	struct closing *c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		give_cost_back(server, user, cost);
		return;
	}
	*c = (struct closing){ { .run = closing_run, .done = closing_done }, fd, server, user, cost };
	user->n_refs++;
	inf_helper_post_for_user(server->helper, &c->work, user);
}

/* The same for one that inf_channel_detach has given: mostly there is nothing in it that could take long. */
static void close_socket(struct inf_server *server, struct inf_quota_user *user, int fd, enum closing_cost cost)
{
	if (inf_channel_has_unread_fds(fd)) {
		close_beside(server, user, fd, cost);
		return;
	}
	close(fd);
	give_cost_back(server, user, cost);
}

/* A memory file has no file system to ask, but giving back a large one takes its time, too. */
static bool is_soon_closed(int fd)
{
	enum { SMALL_BLOCKS = (1 << 20) / 512 };
	struct stat st;
	return fcntl(fd, F_GET_SEALS) >= 0 && fstat(fd, &st) == 0 && st.st_blocks <= SMALL_BLOCKS;
}

static void cut_off(struct inf_session *s, const char *why)
{
	if (s->state != INF_SESSION_CLOSED)
		et_logf(&s->server->log, ET_LOG_INFO,
			"session %llu (pid %u): ending it, it has passed what may take long to close: %s",
			(unsigned long long)s->id, s->pid, why);
	inf_session_close(s, "too many descriptors that take long to close");
}

void inf_session_close_fds(struct inf_session *s, const int *fds, size_t n_fds)
{
	for (size_t i = 0; i < n_fds; i++) {
		if (is_soon_closed(fds[i])) {
			close(fds[i]);
			continue;
		}
		bool is_charged = inf_quota_charge(s->user, INF_QUOTA_FDS, 1);
		s->user->n_surplus_fds += !is_charged;
		close_beside(s->server, s->user, fds[i], is_charged ? COST_FD : COST_SURPLUS);
		if (is_charged)
			continue;
		char why[400];
		inf_quota_explain(s->user, INF_QUOTA_FDS, 1, why, sizeof(why));
		cut_off(s, why);
	}
}

/* --- receiving ------------------------------------------------------------------------------------ */

static void poll_for(struct inf_session *s, int events);

/* What comes beside a packet is ours with it, and may be more than its user can be charged for. One such packet a user is
 * borne; a second one, while what came with the first is not closed, stays in the socket, which goes as a whole. */
static bool may_receive(struct inf_session *s)
{
	bool has_fds = false;
	if (!s->user->n_surplus_fds)
		return true;
	if (inf_channel_peek(&s->channel, &has_fds) == INF_CHANNEL_AGAIN)
		return false;
	if (has_fds)
		cut_off(s, "what its user passed before, beyond the limit 'fds', is not closed yet");
	return !has_fds;
}

/* False: there is no more, or it has ended. */
static bool receive_one(struct inf_session *s)
{
	struct inf_server *server = s->server;
	struct inf_request request;
	struct et_diag diag = { "" };
	int fds[INF_CHANNEL_MAX_FDS];
	size_t n_bytes, n_fds = 0;
	if (!may_receive(s))
		return false;
	int rc = inf_channel_receive_all(&s->channel, server->packet, sizeof(server->packet), &n_bytes, fds, &n_fds);
	if (rc == INF_CHANNEL_AGAIN)
		return false;
	if (rc) {
		inf_session_close_fds(s, fds, n_fds);
		inf_session_close(s, rc == INF_CHANNEL_E_CLOSED   ? "end of file"
				     : rc == INF_CHANNEL_E_BROKEN ? "truncated packet"
								  : strerror(-rc));
		return false;
	}
	uint64_t now_ns = et_platform_now_ns(NULL);
	rc = n_bytes > INF_MAX_PACKET
		     ? INF_MESSAGE_E_MALFORMED
		     : inf_message_decode_request(&request, server->packet, n_bytes, &server->request_codec, &diag);
	if (rc == INF_MESSAGE_E_INVALID) {
		inf_session_close_fds(s, fds, n_fds);
		inf_session_refuse(s, request.id, INF_INVALID_ARGUMENT, "%s: %s", inf_request_kind_name(request.kind),
			diag.text);
		return s->state != INF_SESSION_CLOSED;
	}
	if (rc || n_fds != inf_request_n_fds(&request)) {
		et_logf(&server->log, ET_LOG_INFO, "session %llu (pid %u): ending it, malformed message: %s",
			(unsigned long long)s->id, s->pid,
			rc ? diag.text : "descriptors that its message does not announce");
		inf_session_close_fds(s, fds, n_fds);
		inf_session_close(s, "malformed message");
		return false;
	}
	if (s->state == INF_SESSION_NEW && request.kind == INF_REQUEST_HELLO && request.hello.protocol == INF_PROTOCOL)
		set_state(s, INF_SESSION_OPEN, "hello");
	inf_request_handle(s, &request, fds, n_fds, now_ns);
	return s->state != INF_SESSION_CLOSED;
}

void inf_session_quick_came(struct inf_session *s, uint64_t now_ns)
{
	if (s->answered_ns)
		inf_spin_note(&s->spin, now_ns - s->answered_ns < s->spin.window_ns, s->has_polled);
}

void inf_session_quick_ended(struct inf_session *s)
{
	s->answered_ns = et_platform_now_ns(NULL);
	s->has_polled = inf_spin_is_due(&s->spin);
	if (s->has_polled)
		inf_server_poll_until(s->server, s->answered_ns + s->spin.window_ns);
}

static void end_unsent(struct inf_session *s, int rc)
{
	const char *why = rc == INF_CHANNEL_E_FULL        ? "it does not read its replies"
			  : rc == INF_CHANNEL_E_TOO_LARGE ? "a reply is larger than its socket takes"
							  : strerror(-rc);
	et_logf(&s->server->log, ET_LOG_INFO, "session %llu (pid %u): ending it, a reply can't be sent: %s",
		(unsigned long long)s->id, s->pid, why);
	inf_session_close(s, "replies not sent");
}

/* Send what waits, and see to it that the rest follows. */
static void flush(struct inf_session *s)
{
	int rc = inf_channel_flush(&s->channel);
	if (rc == 0)
		poll_for(s, UV_READABLE);
	else if (rc == INF_CHANNEL_PENDING)
		poll_for(s, UV_READABLE | UV_WRITABLE);
	else if (rc != INF_CHANNEL_E_CLOSED) /* which receiving sees */
		end_unsent(s, rc);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct inf_session *s = ET_CONTAINER_OF(handle, struct inf_session, poll);
	inf_session_ref(s);
	if (status < 0)
		inf_session_close(s, uv_strerror(status));
	if (s->state != INF_SESSION_CLOSED && (events & UV_WRITABLE))
		flush(s);
	if (s->state != INF_SESSION_CLOSED && (events & (UV_READABLE | UV_DISCONNECT)))
		for (int i = 0; i < PACKETS_AT_A_TIME && receive_one(s); i++)
			/* who has one request at a time has sent nothing more: asking would only cost time */
			if (atomic_load_explicit(&s->n_in_flight, memory_order_relaxed) <= 1)
				break;
	inf_session_unref(s);
}

static void poll_for(struct inf_session *s, int events)
{
	if (s->polled != events && uv_poll_start(&s->poll, events, on_poll) == 0)
		s->polled = events;
}

void inf_session_attend(struct inf_session *s)
{
	if (s->state == INF_SESSION_CLOSED)
		return;
	int rc = atomic_exchange(&s->send_error, 0);
	if (rc)
		end_unsent(s, rc);
	else if (atomic_exchange(&s->wants_flush, false))
		flush(s);
}

/* --- life ----------------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
	inf_session_unref(ET_CONTAINER_OF(handle, struct inf_session, poll));
}

void inf_session_close(struct inf_session *s, const char *why)
{
	uint32_t at = 0;
	void *object;
	if (s->state == INF_SESSION_CLOSED)
		return;
	set_state(s, INF_SESSION_CLOSED, why);
	/* libuv first: after the close the number of the descriptor may be another thread's. */
	uv_close((uv_handle_t *)&s->poll, on_closed);
	close_socket(s->server, s->user, inf_channel_detach(&s->channel), COST_FD);
	inf_requests_drop(s);
	while ((object = inf_table_next(&s->bindings, &at))) {
		struct inf_binding *binding = object;
		inf_job_cancel(binding, INF_CANCELLED, "its client is gone");
		inf_table_remove(&s->bindings, binding->id);
		inf_binding_drop(binding);
	}
	for (at = 0; (object = inf_table_next(&s->methods, &at));) {
		struct inf_method *method = object;
		inf_table_remove(&s->methods, method->id);
		inf_method_unref(method);
	}
	inf_client_region_drop_all(s);
	et_list_remove(&s->node);
	s->server->n_sessions--;
	/* tests/bench/kills.c waits for this line and the one in inf_session_unref */
	et_logf(&s->server->log, ET_LOG_DEBUG, "session %llu: what waited or lay idle is free",
		(unsigned long long)s->id);
}

/* Say why; the client has not been made a session. */
static void turn_away(struct inf_server *server, struct inf_channel *channel, const char *why)
{
	struct inf_reply reply = { .status = INF_RESOURCE_EXHAUSTED, .error = why };
	struct inf_reply_buffer *buffer = &server->reply;
	if (inf_message_encode_reply(&reply, buffer->packet, &buffer->n_bytes, &buffer->fd, &buffer->codec) == 0)
		inf_channel_send(channel, buffer->packet, buffer->n_bytes, NULL, 0);
}

/* Mostly there is nothing in it that could keep anybody. Where its client has sent descriptors at once, it is closed beside
 * the loop, and counts until it is. Who is turned away for having no descriptors left can't be charged for this one: it is
 * one of those for all users together, of which there is a bound, or connecting would be a way to have all of them. To
 * come near it takes as many such files in flight, which the kernel counts against their sender. At the bound nobody is
 * accepted for a while, since the kernel says who somebody is only then: whoever is connected notices nothing, and the rest
 * waits in the kernel's backlog, where it costs its sender. */
static void close_turned_away(struct inf_server *server, struct inf_quota_user *user, struct inf_channel *channel)
{
	int fd = inf_channel_detach(channel);
	if (!inf_channel_has_unread_fds(fd)) {
		close(fd);
		return;
	}
	enum closing_cost cost = inf_quota_charge(user, INF_QUOTA_FDS, 1) ? COST_FD : COST_UNPAID;
	if (cost == COST_UNPAID)
		inf_quota_add_unpaid(&server->quota);
	if (inf_quota_is_overdrawn(&server->quota))
		et_logf(&server->log, ET_LOG_WARNING,
			"user %lu: %llu connections that were turned away are not closed yet, for what was "
			"sent over "
			"them; accepting nobody until one is",
			(unsigned long)user->uid, (unsigned long long)server->quota.n_unpaid);
	close_beside(server, user, fd, cost);
}

void inf_session_accept(struct inf_server *server, int fd, bool is_manager)
{
	struct inf_session *s = calloc(1, sizeof(*s));
	struct inf_peer peer = { .pidfd = -1 };
	char why[400] = "";
	if (!s || inf_channel_init(&s->channel, fd, INF_SESSION_MAX_WAITING, et_platform_allocator()) < 0) {
		close(fd);
		free(s);
		return;
	}
	s->channel.is_wary = true;
	int rc = inf_channel_peer(&s->channel, &peer);
	if (peer.pidfd >= 0)
		close(peer.pidfd);
	if (rc < 0 || !(s->user = inf_quota_take_user(&server->quota, peer.uid))) {
		inf_channel_deinit(&s->channel);
		free(s);
		return;
	}
	enum inf_quota_kind kind = INF_QUOTA_CONNECTIONS;
	bool fits = inf_quota_charge(s->user, INF_QUOTA_CONNECTIONS, 1);
	if (fits && !inf_quota_charge(s->user, INF_QUOTA_FDS, 1)) {
		inf_quota_discharge(s->user, INF_QUOTA_CONNECTIONS, 1);
		kind = INF_QUOTA_FDS;
		fits = false;
	}
	if (!fits) {
		inf_quota_explain(s->user, kind, 1, why, sizeof(why));
		et_logf(&server->log, ET_LOG_INFO, "turning pid %ld away: %s", (long)peer.pid, why);
		turn_away(server, &s->channel, why);
		close_turned_away(server, s->user, &s->channel);
		inf_channel_deinit(&s->channel);
		inf_quota_user_unref(s->user);
		free(s);
		return;
	}
	s->n_refs = 1; /* the poll handle's */
	s->server = server;
	s->id = ++server->n_sessions_made;
	s->is_manager = is_manager;
	s->pid = (uint32_t)peer.pid;
	for (uint32_t i = 0; i < INF_QUEUES_MAX; i++)
		inf_flow_init(&s->flows[i], &s->user->groups[i], s->user->weight);
	et_list_init(&s->opens);
	inf_spin_init(&s->spin, sysconf(_SC_NPROCESSORS_ONLN) > 1 ? server->config.spin_ns : 0);
	et_list_append(&server->sessions, &s->node);
	server->n_sessions++;
	if (uv_poll_init(&server->loop, &s->poll, inf_channel_fd(&s->channel)) < 0) {
		et_list_remove(&s->node);
		server->n_sessions--;
		close_socket(server, s->user, inf_channel_detach(&s->channel), COST_FD);
		inf_session_unref(s);
		return;
	}
	et_logf(&server->log, ET_LOG_DEBUG, "session %llu: pid %u, uid %u%s", (unsigned long long)s->id, s->pid,
		(unsigned)s->user->uid, is_manager ? ", manager" : "");
	poll_for(s, UV_READABLE);
}
