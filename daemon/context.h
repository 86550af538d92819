/* SPDX-License-Identifier: BSD-3-Clause */
/* Context: what there is one of in the daemon and what more than one folder needs.
 *
 * The server (daemon/loop) makes it, owns it and hands it down; a session, a binding and a job keep a pointer to
 * it. It has no libuv handle: code below the loop asks the loop for something through `events`, which lead upward.
 *
 * Everything here belongs to the loop thread, except for what is marked otherwise. */
#ifndef DAEMON_CONTEXT_H
#define DAEMON_CONTEXT_H

#include "config/config.h"
#include "daemon/base/helper.h"
#include "daemon/base/reply.h"
#include "daemon/model/backends.h"
#include "daemon/model/fallback.h"
#include "daemon/model/repository.h"
#include "daemon/queue/queues.h"
#include "daemon/queue/stuck.h"
#include "runtime/base/list.h"

#include <stdatomic.h>

struct inf_access;
struct inf_binding;
struct inf_quota;

/* The requests to the loop that the context's users can make. */
struct inf_context_events {
	void *self;
	/* Have the loop call two functions soon: inf_repository_poll, which also takes finished work back from the
	 * helper, and inf_requests_move_idle. Any thread. */
	void (*notify)(void *self);
	/* The last reference on @binding is gone: free it on the loop thread (inf_binding_free). Any thread. */
	void (*defer_free)(void *self, struct inf_binding *binding);
	/* Have the loop call inf_session_attend for the sessions: a reply waits until the socket has room, or could not
	 * be sent. Any thread. */
	void (*want_attention)(void *self);
	/* A request ended with BACKEND_CRASHED, or the runs of a model have failed too often: call inf_fallback_check.
	 * Any thread. */
	void (*backend_crashed)(void *self);
	/* Another request is likely to come before @until_ns: poll without sleeping until then. */
	void (*poll_until)(void *self, uint64_t until_ns);
	/* A request may expire at @deadline_ns. */
	void (*expect_deadline)(void *self, uint64_t deadline_ns);
	/* Accept clients again. Accepting pauses while the daemon holds too many descriptors that no user could be
	 * charged for; one of these has been closed now. */
	void (*resume_accepting)(void *self);
};

struct inf_context {
	struct inf_config config;
	struct et_log log; /* any thread */
	struct inf_context_events events;

	struct inf_access *access;
	struct inf_quota *quota;
	struct inf_backends backends;
	struct inf_queues queues; /* cpu first; any thread once they are started */
	struct inf_stuck_workers stuck;
	struct inf_helper *helper;
	struct et_platform_store *store; /* NULL: packed weights are not kept */
	struct inf_repository *repository;
	struct inf_fallback fallback;

	struct et_list_node sessions; /* of struct inf_session */
	uint32_t n_sessions;
	uint64_t n_sessions_made;
	uint64_t started_ns;
	uint32_t n_cores;          /* that this process may use */
	bool has_presence;         /* it holds the presence lock of the applications' socket while it is not draining */
	_Atomic(bool) is_draining; /* no new clients and requests; any thread */
	struct inf_dead_queue dead_queues[INF_QUEUES_MAX];
	uint32_t n_dead_queues; /* that no plug-in's process holds up: the daemon asks to be restarted */
	char reload_note[800];  /* what the last reload left to do; empty: nothing */

	/* For the packet that is being decoded and for the reply that is being sent. */
	struct inf_codec request_codec;
	uint8_t packet[INF_MAX_PACKET + 1];
	struct inf_reply_buffer reply;

	/* Any thread. */
	_Atomic(bool) has_idle_methods; /* a Method that waits to move to another model may be idle */
	_Atomic(uint32_t) n_unanswered; /* requests from their submission until their reply is sent */
	_Atomic(uint64_t) n_requests, n_failed, copied_bytes;
};

/* Whether a refusal with @status is due to the end of this daemon alone, so that the next daemon may take the request.
 * Any thread. */
static inline bool inf_context_ends(const struct inf_context *context, enum inf_status status)
{
	return status == INF_UNAVAILABLE && atomic_load_explicit(&context->is_draining, memory_order_relaxed);
}

/* Count a request that was answered. Any thread. */
static inline void inf_context_count(struct inf_context *context, bool is_success, uint64_t copied_bytes)
{
	atomic_fetch_add_explicit(&context->n_requests, 1, memory_order_relaxed);
	if (!is_success)
		atomic_fetch_add_explicit(&context->n_failed, 1, memory_order_relaxed);
	if (copied_bytes)
		atomic_fetch_add_explicit(&context->copied_bytes, copied_bytes, memory_order_relaxed);
}

#endif
