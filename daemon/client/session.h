/* SPDX-License-Identifier: BSD-3-Clause */
/* Session: one connection of one client, and everything it holds.
 *
 *     NEW     connected; only Hello is understood
 *     OPEN
 *     CLOSED  nothing is received or sent any more; it goes with the last binding that a worker still uses
 *
 * What a client held is given back the moment its socket ends, but for what a running request reads. Loop thread only,
 * but for inf_session_send. */
#ifndef DAEMON_CLIENT_SESSION_H
#define DAEMON_CLIENT_SESSION_H

#include "daemon/client/binding.h"
#include "daemon/client/quota.h"
#include "daemon/base/reply.h"
#include "daemon/model/repository.h"
#include "daemon/queue/scheduler.h"
#include "daemon/base/id_table.h"
#include "ipc/channel.h"
#include "ipc/spin.h"

#include <stdatomic.h>
#include <uv.h>

struct inf_server;

enum inf_session_state { INF_SESSION_NEW, INF_SESSION_OPEN, INF_SESSION_CLOSED };

enum { INF_SESSION_MAX_WAITING = 1 << 20 }; /* bytes of replies that a client has not read */

struct inf_session {
	struct et_list_node node;
	uint32_t n_refs;
	enum inf_session_state state;
	uint64_t id;
	struct inf_server *server;
	struct inf_channel channel;
	uv_poll_t poll;
	int polled; /* events */
	bool is_manager;
	uint32_t pid;
	struct inf_quota_user *user;
	char name[INF_MAX_NAME + 1];
	uint32_t weight;                       /* 0: it has not said Hello */
	struct inf_flow flows[INF_QUEUES_MAX]; /* one a queue, under its lock */

	struct inf_table regions, methods, bindings;
	uint64_t region_bytes, n_requests;
	struct et_list_node opens; /* requests that wait for a model */

	/* When its last quick request was answered, 0: never; and whether the loop then looked around for the next. */
	uint64_t answered_ns;
	bool has_polled;
	struct inf_spin spin;

	_Atomic(uint32_t) n_in_flight;
	_Atomic(bool) wants_flush;
	_Atomic(int) send_error; /* why a reply could not be sent, as inf_channel_send says; 0: none */
};

/* A client has connected; @fd is consumed in any case. */
void inf_session_accept(struct inf_server *server, int fd, bool is_manager);
/* End it: close the socket, give back what it held. Twice is fine. @why is for the log. */
void inf_session_close(struct inf_session *session, const char *why);
struct inf_session *inf_session_ref(struct inf_session *session);
/* NULL is fine; returns NULL. */
struct inf_session *inf_session_unref(struct inf_session *session);
/* Do what a worker could not: poll for writing, end it. */
void inf_session_attend(struct inf_session *session);

/* A quick request has come that was received at @now_ns; it has been answered on the loop's thread. Who gets an answer
 * at once often asks again at once: if it was so before, the loop looks around for that before it sleeps. */
void inf_session_quick_came(struct inf_session *session, uint64_t now_ns);
void inf_session_quick_ended(struct inf_session *session);
/* Close what the client has passed. A file system of its own may take as long as it likes for that, so it happens beside
 * the loop, charged until it is done; a client at its limit is cut off, as it could go on. So is, until what came beyond it
 * is closed, each connection of the same user over which more descriptors come. */
void inf_session_close_fds(struct inf_session *session, const int *fds, size_t n_fds);

/* Send what is in @buffer and close its descriptor. Any thread that keeps the session. */
void inf_session_send(struct inf_session *session, struct inf_reply_buffer *buffer);
/* Encode and send. */
void inf_session_reply(struct inf_session *session, const struct inf_reply *reply);
/* The same with a descriptor beside it, which stays the caller's. */
void inf_session_reply_fd(struct inf_session *session, const struct inf_reply *reply, int fd);
/* The reply to request @id that says no more than that it was done. */
void inf_session_ok(struct inf_session *session, uint64_t id);
/* A refusal with a sentence. */
void inf_session_refuse(struct inf_session *session, uint64_t id, enum inf_status status, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
