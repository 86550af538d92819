/* SPDX-License-Identifier: BSD-3-Clause */
/* Session: one connection of one client, and the tables of what the client holds.
 *
 *     NEW     connected; only Hello is understood
 *     OPEN
 *     CLOSED  nothing is received or sent any more; freed with the last binding that a worker still uses
 *
 * When its socket ends, everything that the client held is given back at once, except for what a running request reads.
 * Loop thread only, except for inf_session_send. */
#ifndef DAEMON_CLIENT_SESSION_H
#define DAEMON_CLIENT_SESSION_H

#include "daemon/base/id_table.h"
#include "daemon/base/reply.h"
#include "daemon/client/quota.h"
#include "daemon/queue/scheduler.h"
#include "ipc/channel.h"
#include "ipc/message.h"
#include "ipc/spin.h"

#include <stdatomic.h>
#include <uv.h>

struct inf_context;
struct inf_session;

enum inf_session_state { INF_SESSION_NEW, INF_SESSION_OPEN, INF_SESSION_CLOSED };

enum { INF_SESSION_MAX_WAITING = 1 << 20 }; /* bytes of replies that a client has not read */

/* The events of a session, which lead upward; inf_session_requests (requests.h) in the daemon. */
struct inf_session_events {
	/* Handle @request, which came at @now_ns with as many descriptors as its message announces; they are
	 * consumed. The session is OPEN, or NEW for Hello. */
	void (*request)(struct inf_session *session, const struct inf_request *request, const int *fds, size_t n_fds,
		uint64_t now_ns);
	/* The session is CLOSED: empty its tables, and drop its requests that wait for a model. */
	void (*closed)(struct inf_session *session);
};

struct inf_session {
	struct et_list_node node; /* in the context's sessions */
	uint32_t n_refs;
	enum inf_session_state state;
	uint64_t id;
	struct inf_context *context;
	const struct inf_session_events *events;
	struct inf_channel channel;
	uv_poll_t poll;
	int polled;      /* events */
	bool is_held;    /* no more packets are read for now */
	bool is_manager; /* connected to the manager's socket; inf_session_may_manage says what follows */
	uint32_t pid;
	struct inf_quota_user *user;
	char name[INF_MAX_NAME + 1];
	uint32_t weight;                       /* 0: no Hello yet */
	bool hears_ends;                       /* the client is told when a run that was given up has ended */
	struct inf_flow flows[INF_QUEUES_MAX]; /* one for each queue, under its lock */

	/* The objects of the client; requests.c fills and empties these. */
	struct inf_table regions, methods, bindings; /* of struct inf_client_region, inf_method, inf_binding */
	uint64_t region_bytes, n_requests;
	struct et_list_node opens; /* requests that wait for a model */

	/* When its last quick request was answered (0: never), and whether the loop then polled for the next one. */
	uint64_t answered_ns;
	bool has_polled;
	struct inf_spin spin;

	_Atomic(uint32_t) n_in_flight;
	_Atomic(bool) wants_flush;
	_Atomic(int) send_error; /* why a reply could not be sent, as inf_channel_send says; 0: none */
};

/* A client has connected. @fd is consumed in any case. @events must outlive the session. False: it was turned away. */
bool inf_session_accept(struct inf_context *context, uv_loop_t *loop, const struct inf_session_events *events, int fd,
	bool is_manager);
/* End it: close the socket, give back what the client held. Twice is fine. @why is for the log. */
void inf_session_close(struct inf_session *session, const char *why);
struct inf_session *inf_session_ref(struct inf_session *session);
/* NULL is fine; returns NULL. */
struct inf_session *inf_session_unref(struct inf_session *session);
/* Do what a worker's inf_session_send could not: poll for writing, or end the session. */
void inf_session_attend(struct inf_session *session);

/* Around a quick request, one that runs on the loop thread. A client that gets an answer at once often asks again
 * at once: if it has done so lately, the loop polls for the next request before it sleeps. @now_ns is when this one
 * came. */
void inf_session_quick_came(struct inf_session *session, uint64_t now_ns);
void inf_session_quick_ended(struct inf_session *session);
/* Close descriptors that the client passed, see closing.h. A client whose user is at its limit is cut off, since it
 * could go on passing them. Until its surplus is closed, every connection of the same user over which more
 * descriptors come is cut off, too. */
void inf_session_close_fds(struct inf_session *session, const int *fds, size_t n_fds);

/* Read no more of the client's packets while @is_held; its replies are sent, and its end is seen. Loop thread. */
void inf_session_hold(struct inf_session *session, bool is_held);
/* Send what is in @buffer and close its descriptor. Any thread that holds a reference. */
void inf_session_send(struct inf_session *session, struct inf_reply_buffer *buffer);
/* Whether a line about what the client did may be logged now: see inf_log_quota_take. */
bool inf_session_may_log(struct inf_session *session, enum inf_log_kind kind);
/* Encode and send. */
void inf_session_reply(struct inf_session *session, const struct inf_reply *reply);
/* The same with a descriptor beside it, which stays the caller's. */
void inf_session_reply_fd(struct inf_session *session, const struct inf_reply *reply, int fd);
/* Reply to request @id that it was done, with nothing else to say. */
void inf_session_ok(struct inf_session *session, uint64_t id);
/* Reply to request @id with an error and a sentence. */
void inf_session_refuse(struct inf_session *session, uint64_t id, enum inf_status status, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
