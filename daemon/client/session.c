/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection: receiving requests, sending replies, ending.
 *
 * The session takes a bounded number of packets at a time, so that one client cannot keep the loop to itself. A
 * packet that is not a well-formed message ends its session and no other. What a message means is not known here:
 * requests.c handles it, reached through the session's events.
 *
 * Closing comes in three steps. At once: the socket is closed (beside the loop if unread messages carry
 * descriptors, see closing.c), waiting requests are dropped, and the tables are emptied, which frees whatever no
 * request uses. When the last running request ends: its regions and Methods are freed. When libuv is done with the
 * poll handle as well: the struct is freed. */
#include "daemon/client/session.h"

#include "daemon/client/access.h"
#include "daemon/client/closing.h"
#include "daemon/base/text.h"
#include "daemon/context.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PACKETS_AT_A_TIME = 16 };

static const char *state_name(enum inf_session_state state)
{
	return state == INF_SESSION_NEW ? "new" : state == INF_SESSION_OPEN ? "open" : "closed";
}

static void set_state(struct inf_session *s, enum inf_session_state state, const char *why)
{
	if (state <= s->state) {
		et_logf(&s->context->log, ET_LOG_ERROR, "session %llu: refusing to go from %s to %s",
			(unsigned long long)s->id, state_name(s->state), state_name(state));
		return;
	}
	et_logf(&s->context->log, ET_LOG_DEBUG, "session %llu: %s -> %s (%s)", (unsigned long long)s->id,
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
	et_logf(&s->context->log, ET_LOG_DEBUG, "session %llu: freed", (unsigned long long)s->id);
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
	s->context->events.want_attention(s->context->events.self);
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
	struct inf_reply_buffer *buffer = &s->context->reply;
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
	et_logf(&s->context->log, ET_LOG_DEBUG, "session %llu request %llu: %s", (unsigned long long)s->id,
		(unsigned long long)id, text);
	struct inf_reply reply = {
		.id = id, .status = status, .error = text, .shutting_down = inf_context_ends(s->context, status)
	};
	inf_session_reply(s, &reply);
}

bool inf_session_may_log(struct inf_session *s, enum inf_log_kind kind)
{
	return inf_log_quota_take(&s->user->log_quota, kind, et_platform_now_ns(NULL));
}

/* --- receiving ------------------------------------------------------------------------------------ */

static void cut_off(struct inf_session *s, const char *why)
{
	if (s->state != INF_SESSION_CLOSED && inf_session_may_log(s, INF_LOG_SESSIONS))
		et_logf(&s->context->log, ET_LOG_INFO,
			"session %llu (pid %u): ending it, it passed descriptors that may take long to close: %s",
			(unsigned long long)s->id, s->pid, why);
	inf_session_close(s, "too many descriptors that take long to close");
}

void inf_session_close_fds(struct inf_session *s, const int *fds, size_t n_fds)
{
	for (size_t i = 0; i < n_fds; i++) {
		if (inf_close_passed(s->context, s->user, fds[i]))
			continue;
		char why[400];
		inf_quota_explain(s->user, INF_QUOTA_FDS, 1, why, sizeof(why));
		cut_off(s, why);
	}
}

static void poll_for(struct inf_session *s, int events);

/* Receiving a packet receives its descriptors, perhaps more than its user can be charged for. The daemon bears this
 * once for each user: while that surplus is not closed, another packet with descriptors stays in the socket, and
 * the session ends. So many users may not do this at a time that nothing is left of the reserve. */
static bool may_receive(struct inf_session *s)
{
	bool has_fds = false;
	if (!s->user->n_surplus_fds && !inf_quota_is_reserve_used(s->user->total))
		return true;
	if (inf_channel_peek(&s->channel, &has_fds) == INF_CHANNEL_AGAIN)
		return false;
	if (has_fds)
		cut_off(s, "descriptors that were passed before, beyond the limit 'fds', are not closed yet");
	return !has_fds;
}

/* False: no packet is left, or the session has ended. */
static bool receive_one(struct inf_session *s)
{
	struct inf_context *context = s->context;
	struct inf_request request;
	struct et_diag diag = { "" };
	int fds[INF_CHANNEL_MAX_FDS];
	size_t n_bytes, n_fds = 0;
	if (!may_receive(s))
		return false;
	int rc = inf_channel_receive_all(&s->channel, context->packet, sizeof(context->packet), &n_bytes, fds, &n_fds);
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
		     : inf_message_decode_request(&request, context->packet, n_bytes, &context->request_codec, &diag);
	if (rc == INF_MESSAGE_E_INVALID) {
		inf_session_close_fds(s, fds, n_fds);
		inf_session_refuse(s, request.id, INF_INVALID_ARGUMENT, "%s: %s", inf_request_kind_name(request.kind),
			diag.text);
		return s->state != INF_SESSION_CLOSED;
	}
	if (rc || n_fds != inf_request_n_fds(&request)) {
		if (inf_session_may_log(s, INF_LOG_SESSIONS))
			et_logf(&context->log, ET_LOG_INFO, "session %llu (pid %u): ending it, malformed message: %s",
				(unsigned long long)s->id, s->pid,
				rc ? diag.text : "not as many descriptors as its message announces");
		inf_session_close_fds(s, fds, n_fds);
		inf_session_close(s, "malformed message");
		return false;
	}
	if (s->state == INF_SESSION_NEW && request.kind == INF_REQUEST_HELLO && inf_protocol_choose(&request.hello))
		set_state(s, INF_SESSION_OPEN, "hello");
	s->events->request(s, &request, fds, n_fds, now_ns);
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
		s->context->events.poll_until(s->context->events.self, s->answered_ns + s->spin.window_ns);
}

static void end_unsent(struct inf_session *s, int rc)
{
	const char *why = rc == INF_CHANNEL_E_FULL        ? "it does not read its replies"
			  : rc == INF_CHANNEL_E_TOO_LARGE ? "a reply is larger than its socket takes"
							  : strerror(-rc);
	if (inf_session_may_log(s, INF_LOG_SESSIONS))
		et_logf(&s->context->log, ET_LOG_INFO, "session %llu (pid %u): ending it, a reply can't be sent: %s",
			(unsigned long long)s->id, s->pid, why);
	inf_session_close(s, "replies not sent");
}

/* Send replies that wait; poll for writing if some of them still do. */
static void flush(struct inf_session *s)
{
	int rc = inf_channel_flush(&s->channel);
	if (rc == 0)
		poll_for(s, UV_READABLE);
	else if (rc == INF_CHANNEL_PENDING)
		poll_for(s, UV_READABLE | UV_WRITABLE);
	else if (rc != INF_CHANNEL_E_CLOSED) /* receive_one sees that */
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
			/* a client with one request at a time has sent no other: receiving would only cost time */
			if (atomic_load_explicit(&s->n_in_flight, memory_order_relaxed) <= 1)
				break;
	inf_session_unref(s);
}

static void poll_for(struct inf_session *s, int events)
{
	if (s->is_held)
		events = (events & ~UV_READABLE) | UV_DISCONNECT;
	if (s->polled != events && uv_poll_start(&s->poll, events, on_poll) == 0)
		s->polled = events;
}

void inf_session_hold(struct inf_session *s, bool is_held)
{
	if (s->is_held == is_held || s->state == INF_SESSION_CLOSED)
		return;
	s->is_held = is_held;
	flush(s); /* polls for what is due now */
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
	if (s->state == INF_SESSION_CLOSED)
		return;
	set_state(s, INF_SESSION_CLOSED, why);
	/* libuv first: after the close another thread may get the same descriptor number. */
	uv_close((uv_handle_t *)&s->poll, on_closed);
	inf_close_socket(s->context, s->user, inf_channel_detach(&s->channel));
	s->events->closed(s);
	et_list_remove(&s->node);
	s->context->n_sessions--;
	/* tests/bench/kills.c waits for this line and the one in inf_session_unref */
	et_logf(&s->context->log, ET_LOG_DEBUG, "session %llu: closed, its idle objects are free",
		(unsigned long long)s->id);
}

/* Send @why to a client that gets no session. */
static void turn_away(struct inf_context *context, struct inf_channel *channel, enum inf_status status, const char *why)
{
	struct inf_reply reply = { .status = status, .error = why };
	struct inf_reply_buffer *buffer = &context->reply;
	if (inf_message_encode_reply(&reply, buffer->packet, &buffer->n_bytes, &buffer->fd, &buffer->codec) == 0)
		inf_channel_send(channel, buffer->packet, buffer->n_bytes, NULL, 0);
}

/* Whether the client of @s, which is not charged for yet, gets a session; then it is charged. Else the status and the
 * sentence for it. */
static enum inf_status admit(struct inf_session *s, char *why, size_t room)
{
	struct inf_context *context = s->context;
	const struct inf_charge charges[] = { { INF_QUOTA_CONNECTIONS, 1 }, { INF_QUOTA_FDS, 1 } };
	struct inf_access_peer peer = inf_access_peer_of(s);
	unsigned long uid = (unsigned long)peer.uid;
	if (s->is_manager && !inf_access_may_manage(context->access, &peer, true)) {
		inf_text(why, room,
			"user %lu may not manage inferd; ask the administrator: 'administrators' of [server] in "
			"inferd.conf says who may",
			uid);
		return INF_PERMISSION_DENIED;
	}
	if (!s->is_manager && !inf_access_may_connect(context->access, &peer)) {
		inf_text(why, room,
			"user %lu may not use inferd; ask the administrator: 'users' and 'groups' of [server] in "
			"inferd.conf say who may",
			uid);
		return INF_PERMISSION_DENIED;
	}
	inf_quota_add_groups(s->user, peer.gids, peer.n_gids);
	return inf_quota_charge_all(s->user, charges, ET_ARRAY_LEN(charges), why, room) ? INF_OK
											: INF_RESOURCE_EXHAUSTED;
}

bool inf_session_accept(struct inf_context *context, uv_loop_t *loop, const struct inf_session_events *events, int fd,
	bool is_manager)
{
	struct inf_session *s = calloc(1, sizeof(*s));
	struct inf_peer peer = { .pidfd = -1 };
	char why[400] = "";
	if (!s || inf_channel_init(&s->channel, fd, INF_SESSION_MAX_WAITING, et_platform_allocator()) < 0) {
		close(fd);
		free(s);
		return false;
	}
	s->channel.is_wary = true;
	int rc = inf_channel_peer(&s->channel, &peer);
	if (peer.pidfd >= 0)
		close(peer.pidfd);
	if (rc == 0)
		s->user = is_manager ? inf_quota_take_manager(context->quota, peer.uid)
				     : inf_quota_take_user(context->quota, peer.uid);
	if (!s->user) {
		inf_channel_deinit(&s->channel);
		free(s);
		return false;
	}
	s->context = context;
	s->is_manager = is_manager;
	enum inf_status status = admit(s, why, sizeof(why));
	if (status != INF_OK) {
		if (inf_session_may_log(s, INF_LOG_SESSIONS))
			et_logf(&context->log, ET_LOG_INFO, "turning pid %ld away: %s", (long)peer.pid, why);
		turn_away(context, &s->channel, status, why);
		inf_close_turned_away(context, s->user, inf_channel_detach(&s->channel));
		inf_channel_deinit(&s->channel);
		inf_quota_user_unref(s->user);
		free(s);
		return false;
	}
	s->n_refs = 1; /* the poll handle's */
	s->events = events;
	s->id = ++context->n_sessions_made;
	s->pid = (uint32_t)peer.pid;
	for (uint32_t i = 0; i < INF_QUEUES_MAX; i++)
		inf_flow_init(&s->flows[i], &s->user->groups[i], s->user->weight);
	et_list_init(&s->opens);
	inf_spin_init(&s->spin, context->n_cores > 1 ? context->config.spin_ns : 0);
	et_list_append(&context->sessions, &s->node);
	context->n_sessions++;
	if (uv_poll_init(loop, &s->poll, inf_channel_fd(&s->channel)) < 0) {
		et_list_remove(&s->node);
		context->n_sessions--;
		inf_close_socket(context, s->user, inf_channel_detach(&s->channel));
		inf_session_unref(s);
		return false;
	}
	et_logf(&context->log, ET_LOG_DEBUG, "session %llu: pid %u, uid %u%s", (unsigned long long)s->id, s->pid,
		(unsigned)s->user->uid, is_manager ? ", manager" : "");
	poll_for(s, UV_READABLE);
	return true;
}
