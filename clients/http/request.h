/* SPDX-License-Identifier: BSD-3-Clause */
/* One HTTP request, from its headers to the end of its answer. */
#ifndef CLIENTS_HTTP_REQUEST_H
#define CLIENTS_HTTP_REQUEST_H

#include "clients/http/body.h"
#include "clients/http/connection.h"
#include "clients/http/memory.h"
#include "clients/http/route.h"

struct http_infer;
struct http_ask;

enum http_phase {
	HTTP_PHASE_START,   /* the headers are here; maybe suspended until a model is ready */
	HTTP_PHASE_BODY,    /* the body is coming */
	HTTP_PHASE_WAITING, /* the daemon works; suspended */
	HTTP_PHASE_ANSWER,  /* there is an answer to queue */
	HTTP_PHASE_QUEUED,
};

struct http_request {
	struct http_server *server;
	struct http_connection *connection;
	struct MHD_Connection *mhd;
	struct http_route route;
	enum http_phase phase;
	bool is_post, is_suspended, is_gone; /* gone: the client has hung up */
	bool is_of_page;                     /* the gateway's own page sends it */
	uint64_t deadline_ns;
	struct http_body body;
	struct http_buffer text;       /* a body that is JSON, of requests that are no inference */
	unsigned code;                 /* of the answer; 0: none yet */
	struct http_buffer answer;     /* JSON */
	struct MHD_Response *response; /* instead of answer */
	struct http_infer *infer;
	struct http_ask *ask;
	bool is_second; /* the ask is about the answer of the first one */
};

/* For MHD_start_daemon: the handler of all requests, and the end of each. */
enum MHD_Result http_request_handle(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
	const char *version, const char *data, size_t *n_bytes, void **context);
void http_request_completed(void *server, struct MHD_Connection *mhd, void **context,
	enum MHD_RequestTerminationCode code);

/* The client has gone while the request waited. */
void http_request_hang_up(struct http_request *r);
/* The request waits for something that calls http_request_wake. */
void http_request_sleep(struct http_request *r);
void http_request_wake(struct http_request *r);
/* The answer is {"error": ...}; the first one wins. */
void http_request_fail(struct http_request *r, unsigned code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The value of a header of the request; NULL: absent. */
const char *http_request_header(const struct http_request *r, const char *name);
/* Read a header that is a number of bytes. 0; 1: absent; -1: not a number. */
int http_request_number(const struct http_request *r, const char *name, uint64_t *ret);

#endif
