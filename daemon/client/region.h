/* SPDX-License-Identifier: BSD-3-Clause */
/* Client region: memory that one client shares with the daemon. It lives until the client drops it and the last
 * binding that uses it is freed. Loop thread only. */
#ifndef DAEMON_CLIENT_REGION_H
#define DAEMON_CLIENT_REGION_H

#include "daemon/client/quota.h"
#include "daemon/model/shared_memory.h"
#include "ipc/message.h"
#include "ipc/region.h"

struct inf_session;
struct inf_context;

struct inf_client_region {
	uint64_t id;
	uint32_t n_refs;
	uint64_t n_bytes;
	struct inf_region *region;
	struct inf_shared shared;
	struct inf_context *context;
	struct inf_quota_user *user; /* a reference; charged: a region, a descriptor, its bytes */
	char name[INF_MAX_NAME + 1]; /* the client chose it; "" for none */
};

/* The handlers of messages about regions; each has answered its request when it returns. */
void inf_client_region_create(struct inf_session *session, const struct inf_request *request);
/* @fd is consumed. */
void inf_client_region_register(struct inf_session *session, const struct inf_request *request, int fd);
void inf_client_region_unregister(struct inf_session *session, const struct inf_request *request);
void inf_client_region_status(struct inf_session *session, const struct inf_request *request);

/* NULL: @session has no such region. */
struct inf_client_region *inf_client_region_find(const struct inf_session *session, uint64_t id);
/* NULL is fine; returns NULL. With the last reference the memory is freed, perhaps on a helper's thread, and then
 * discharged. */
struct inf_client_region *inf_client_region_unref(struct inf_client_region *region);
/* Drop every region of @session. Bindings that a run still uses keep their references. */
void inf_client_region_drop_all(struct inf_session *session);

#endif
