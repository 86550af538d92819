/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's status, and the models of the repository with their variants, as JSON for the page: the Open Inference
 * Protocol has no paths for them. */
#ifndef CLIENTS_HTTP_PAGE_OVERVIEW_H
#define CLIENTS_HTTP_PAGE_OVERVIEW_H

#include "clients/http/memory.h"
#include "ipc/message.h"

#include <sys/types.h>

/* Append @status as every client may see it: of connections and limits those of @uid, the gateway's own user. */
void http_overview_status(struct http_buffer *to, const struct inf_server_status *status, uid_t uid);
/* Append each version of each model, and why it serves or not. */
void http_overview_models(struct http_buffer *to, const struct inf_repository_index *index);

#endif
