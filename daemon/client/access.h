/* SPDX-License-Identifier: BSD-3-Clause */
/* Access: who may connect, who may manage, and who may open which model.
 *
 * The configuration's keys `users`, `groups` and `administrators`, with the names looked up. Who a client is, the
 * kernel says: the uid, the gid and the supplementary groups that its process had when it connected. A reload makes a
 * new one; what a client has open stays open. Loop thread only. */
#ifndef DAEMON_CLIENT_ACCESS_H
#define DAEMON_CLIENT_ACCESS_H

#include "config/config.h"
#include "runtime/base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct inf_session;

/* Users and groups that a key, or a pair of keys, names. */
struct inf_access_list {
	bool is_given; /* false: it says nothing about anybody */
	uid_t *uids;
	gid_t *gids;
	size_t n_uids, n_gids;
};

struct inf_access_model {
	char name[INF_CONFIG_NAME_MAX];
	struct inf_access_list openers;
};

struct inf_access {
	struct inf_access_list clients, administrators;
	struct inf_access_model *models; /* only those that not everyone may open */
	size_t n_models;
};

/* A client as the kernel describes it. */
struct inf_access_peer {
	uid_t uid;
	const gid_t *gids; /* the first one is its group, the others are supplementary */
	size_t n_gids;
};

/* Look up the names of @config. A name that nobody has is logged and lets nobody in. NULL: no memory. */
struct inf_access *inf_access_new(const struct inf_config *config, const struct et_log *log);
/* NULL is fine; returns NULL. */
struct inf_access *inf_access_free(struct inf_access *access);

/* root may connect and open every model, whatever the configuration says, and so may administrators. */
bool inf_access_may_connect(const struct inf_access *access, const struct inf_access_peer *peer);
bool inf_access_may_open(const struct inf_access *access, const struct inf_access_peer *peer, const char *model);
/* @is_manager: it is connected to the manager's socket, which decides if `administrators` is not given. */
bool inf_access_may_manage(const struct inf_access *access, const struct inf_access_peer *peer, bool is_manager);
/* Whether it sees what other users do: who may manage, and root. */
bool inf_access_sees_all(const struct inf_access *access, const struct inf_access_peer *peer, bool is_manager);

/* The client of @session. The groups are valid until the next call. */
struct inf_access_peer inf_access_peer_of(const struct inf_session *session);
/* The same questions about the client of a session, in the configuration of now. */
bool inf_session_may_manage(const struct inf_session *session);
bool inf_session_sees_all(const struct inf_session *session);
bool inf_session_may_open(const struct inf_session *session, const char *model);

#endif
