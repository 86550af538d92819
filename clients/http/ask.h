/* SPDX-License-Identifier: BSD-3-Clause */
/* A question to the daemon that inferd.h has no call for: the repository, statistics, loading. Each has a connection of
 * its own and never blocks. */
#ifndef CLIENTS_HTTP_ASK_H
#define CLIENTS_HTTP_ASK_H

#include "clients/http/server.h"
#include "ipc/channel.h"
#include "ipc/message.h"

enum { HTTP_MAX_ASKS = 32 };

struct http_ask {
	struct et_list_node node; /* of server->asks, or of dead_asks */
	struct http_server *server;
	struct http_source source;
	struct inf_channel channel;
	struct inf_codec encode, decode;
	uint64_t deadline_ns;
	void *userdata;
	/* The answer, valid during the call; or NULL and an HTTP status with a sentence. Called once, unless
	 * http_ask_drop comes first. */
	void (*ended)(void *userdata, const struct inf_reply *reply, unsigned code, const char *error);
};

/* Ask. @is_manager: at the manager's socket. *ret is the server's; it is gone when @ended is called, or by
 * http_ask_drop. 0, or an HTTP status with *ret_error a sentence. */
unsigned http_ask_start(struct http_ask **ret, struct http_server *server, bool is_manager, struct inf_request *request,
	uint64_t deadline_ns,
	void (*ended)(void *userdata, const struct inf_reply *reply, unsigned code, const char *error), void *userdata,
	const char **ret_error);
void http_ask_drop(struct http_ask *ask); /* NULL is fine */
/* End questions whose time is over. */
void http_ask_sweep(struct http_server *server, uint64_t now_ns);
/* Free those that have ended. */
void http_ask_reap(struct http_server *server);

#endif
