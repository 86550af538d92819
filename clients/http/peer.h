/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer: one connection to the daemon, for one client over TCP, for all connections of one user of the Unix socket, or
 * for those of all browsers that show the gateway's page, with the Methods that it has open and their bindings.
 *
 * A request asks for a binding and waits until it has one; then it runs on it, and keeps it until its answer is sent,
 * because the answer is sent from the binding's memory. */
#ifndef CLIENTS_HTTP_PEER_H
#define CLIENTS_HTTP_PEER_H

#include "clients/http/server.h"
#include "clients/inferd.h"

#include <sys/types.h>

enum { HTTP_MAX_METHODS = 16, HTTP_MAX_SEQUENCES = 64, HTTP_MAX_BINDINGS = 16 };

/* Instead of a user: a browser has several connections, and a sequence of the page may use all of them. */
#define HTTP_PAGE_UID ((uid_t) - 1)

enum http_open_state { HTTP_OPENING, HTTP_OPEN, HTTP_GONE };

struct http_peer {
	struct et_list_node node; /* of server->peers, or of dead_peers */
	struct http_server *server;
	struct http_source source;
	struct inferd *d;
	enum http_open_state state;
	bool is_shared; /* by all connections with @uid */
	uid_t uid;
	unsigned n_refs; /* connections, and lent bindings */
	uint64_t unused_ns;
	char error[600]; /* GONE: why */
	int status;
	struct et_list_node methods, waiters;
};

struct http_method {
	struct et_list_node node; /* of peer->methods */
	struct http_peer *peer;
	struct inferd_method *m;
	enum http_open_state state;
	int status;
	char error[600];
	char model[256], version[16], sequence[256];
	bool is_retired; /* no request gets it any more */
	uint64_t opened_ns, used_ns;
	size_t n_bytes;              /* of a binding's region */
	unsigned n_bindings, n_lent; /* n_lent: also those that are being made */
	struct et_list_node bindings;
};

struct http_binding {
	struct et_list_node node; /* of method->bindings */
	struct http_method *method;
	struct inferd_binding *b;
	enum http_open_state state;
	bool is_lent;
	struct http_wait *maker; /* OPENING: who gets the error; NULL: nobody any more */
};

/* A request that waits for a binding. */
struct http_wait {
	struct et_list_node node; /* of peer->waiters while it waits */
	struct http_peer *peer;
	const char *model, *version, *sequence; /* the caller's, until it has ended */
	bool is_start;                          /* of the sequence */
	struct http_binding *making;            /* a binding that is being made for it; NULL: none */
	uint64_t deadline_ns;
	/* The wait has ended: @binding, or NULL and an HTTP status with a sentence. */
	void (*ended)(struct http_wait *wait, struct http_binding *binding, unsigned code, const char *error);
};

/* The peer that all connections with @uid share (a user of the Unix socket, or HTTP_PAGE_UID), or a new one for a
 * client over TCP; with one more reference. NULL: no memory. */
struct http_peer *http_peer_of(struct http_server *server, bool is_shared, uid_t uid);
/* Whether http_peer_of would return it for them. */
bool http_peer_is_of(const struct http_peer *peer, bool is_shared, uid_t uid);
struct http_peer *http_peer_ref(struct http_peer *peer);
void http_peer_unref(struct http_peer *peer); /* NULL is fine */
/* The connection ends; what uses it gets an error. It is freed when nobody holds a reference. */
void http_peer_close(struct http_peer *peer);
/* Handle what has arrived from the daemon. Not from a callback of libinferd. */
void http_peer_dispatch(struct http_peer *peer);
/* Wait for a binding. @wait->ended may be called before this returns. */
void http_peer_wait(struct http_peer *peer, struct http_wait *wait);
/* End a wait without a call of ended; also if it has ended. */
void http_peer_wait_no_more(struct http_wait *wait);
/* Give a binding back. @is_last: its sequence has ended, or its state is lost; NULL is fine. */
void http_binding_release(struct http_binding *binding, bool is_last);
/* Close what nobody has used for long, and end waits whose time is over. */
void http_peer_sweep(struct http_server *server, uint64_t now_ns);
/* Free peers that are gone. */
void http_peer_reap(struct http_server *server);
/* The HTTP status for a status of libinferd, negative or not. */
unsigned http_code_of(int status);

#endif
