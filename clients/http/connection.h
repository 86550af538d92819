/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's connection: who it is, and until when it has to do what it does now. */
#ifndef CLIENTS_HTTP_CONNECTION_H
#define CLIENTS_HTTP_CONNECTION_H

#include "clients/http/memory.h"
#include "clients/http/server.h"

#include <sys/types.h>

struct http_head;
struct http_peer;
struct http_request;

enum http_activity {
	HTTP_IDLE,      /* between requests; the first one is being received */
	HTTP_RECEIVING, /* a request's headers are here */
	HTTP_WAITING,   /* for the daemon */
	HTTP_SENDING,
};

struct http_connection {
	struct et_list_node node; /* of server->connections */
	struct http_server *server;
	struct http_source source; /* whether the client hangs up */
	int fd;                    /* libmicrohttpd's */
	bool is_unix;
	bool is_used;        /* it has had a request */
	bool is_half_closed; /* the client sends nothing more */
	uid_t uid;           /* is_unix */
	enum http_activity activity;
	uint64_t deadline_ns;
	struct http_peer *peer; /* the connection to the daemon; NULL: none yet */
	struct http_request *request;
	struct http_buffer head_text; /* the JSON of its last inference, if that is worth keeping, */
	struct http_head *head;       /* what was parsed from it; NULL: none */
};

/* For MHD_OPTION_NOTIFY_CONNECTION. */
void http_connection_notify(void *server, struct MHD_Connection *mhd, void **context,
	enum MHD_ConnectionNotificationCode code);
/* The connection of @mhd; NULL if there was no memory for it. */
struct http_connection *http_connection_of(struct MHD_Connection *mhd);
/* What it does from now on, which sets its deadline. */
void http_connection_set(struct http_connection *c, enum http_activity activity);
/* Whether there is room for another client. If all connections are taken, of those without a request the one whose
 * deadline is the first is shut down, and room is there when it has ended. */
bool http_connection_has_room(struct http_server *server);
/* Whether the client at the socket @fd may connect: one user of the Unix socket may have half of all connections,
 * unless it is root. */
bool http_connection_is_welcome(const struct http_server *server, int fd);
/* Shut down connections whose deadline has passed. */
void http_connection_sweep(struct http_server *server, uint64_t now_ns);

#endif
