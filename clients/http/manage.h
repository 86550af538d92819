/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that the daemon answers without running a model: metadata, configuration, statistics, the repository. */
#ifndef CLIENTS_HTTP_MANAGE_H
#define CLIENTS_HTTP_MANAGE_H

#include "clients/http/request.h"

/* Ask the daemon; the request sleeps until it has an answer, or has one at once. */
void http_manage_start(struct http_request *r);

#endif
