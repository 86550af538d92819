/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: what each message of a client does. */
#ifndef DAEMON_CLIENT_REQUESTS_H
#define DAEMON_CLIENT_REQUESTS_H

#include "daemon/client/session.h"

/* Handle @request of @session, which is OPEN (or NEW, for Hello), with the descriptors that came beside it: as many as
 * the message announces; they are consumed. @now_ns is when it came. */
void inf_request_handle(struct inf_session *session, const struct inf_request *request, const int *fds, size_t n_fds,
	uint64_t now_ns);
/* The session ends: requests that wait for a model are dropped. */
void inf_requests_drop(struct inf_session *session);
/* @method has changed over, or not: the reset that waited for that, if there is one, is done now. */
void inf_request_reset_now(struct inf_method *method);

#endif
