/* SPDX-License-Identifier: BSD-3-Clause */
/* Method requests: opening, closing and resetting Methods. Each call answers its request, now or later. Loop thread
 * only. */
#ifndef DAEMON_CLIENT_METHOD_REQUESTS_H
#define DAEMON_CLIENT_METHOD_REQUESTS_H

#include "daemon/client/session.h"

struct inf_method;

/* @fds are consumed. */
void inf_method_request_open(struct inf_session *session, const struct inf_request *request, const int *fds,
	size_t n_fds);
void inf_method_request_close(struct inf_session *session, const struct inf_request *request);
void inf_method_request_reset(struct inf_session *session, const struct inf_request *request);
/* The Method with that id, for @request; NULL: there is none, and @request was refused. */
struct inf_method *inf_method_request_find(struct inf_session *session, const struct inf_request *request, uint64_t id);

#endif
