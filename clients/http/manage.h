/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that the daemon answers without running a model: metadata, configuration, statistics, the repository. */
#ifndef CLIENTS_HTTP_MANAGE_H
#define CLIENTS_HTTP_MANAGE_H

#include "clients/http/request.h"
#include "ipc/message.h"

/* Ask the daemon; the request sleeps until it has an answer, or has one at once. */
void http_manage_start(struct http_request *r);

/* Append to the answer what Prometheus reads: first of the models, then of the daemon and the gateway. */
void http_metrics_models(struct http_request *r, const struct inf_model_statistics *stats);
void http_metrics_status(struct http_request *r, const struct inf_server_status *status);

#endif
