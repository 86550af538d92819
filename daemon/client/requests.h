/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: the handlers of what clients ask. Loop thread only. */
#ifndef DAEMON_CLIENT_REQUESTS_H
#define DAEMON_CLIENT_REQUESTS_H

#include "daemon/client/session.h"

struct inf_method;

/* The events of sessions: handle every message that a client can send, and give up what a closed session held. */
extern const struct inf_session_events inf_session_requests;

/* Move the idle Methods of every session to the successors of their models. The loop calls it after events of other
 * threads, and every request before it is handled, so that a client that has the answer to its last request finds the
 * Method moved. Costs nothing unless inf_methods_note_idle was called. */
void inf_requests_move_idle(struct inf_context *context);
/* Answer requests that wait in a queue with @status and @why: all of them, or, unless @like is NULL, those on the
 * model or the shared state of @like. */
void inf_requests_stop_waiting(struct inf_context *context, const struct inf_method *like, enum inf_status status,
	const char *why);

#endif
