/* SPDX-License-Identifier: BSD-3-Clause */
/* Inference requests. */
#ifndef CLIENTS_HTTP_INFER_H
#define CLIENTS_HTTP_INFER_H

#include "clients/http/head.h"
#include "clients/http/peer.h"
#include "clients/http/request.h"

struct http_infer {
	struct http_request *request;
	struct http_wait wait;
	struct http_binding *binding; /* lent; NULL: not yet */
	bool is_waiting, is_running, is_raw;
	bool is_checked;            /* the head was compared with the Method */
	bool is_last;               /* the binding's Method is not to be used again */
	uint64_t n_head;            /* bytes of JSON in the body; UINT64_MAX: all of it */
	struct http_buffer text;    /* the JSON; kept after it was parsed if the next request may have the same */
	struct http_buffer pending; /* what follows the JSON, while there is no binding */
	uint64_t began_ns;
	bool has_spun;
	struct http_head *head;           /* NULL: not here yet */
	size_t input;                     /* of the head: the binary one that comes now */
	size_t n_done;                    /* bytes of it that are here */
	size_t indices[HTTP_MAX_TENSORS]; /* of the head's inputs among the Method's */
	char *staging[HTTP_MAX_TENSORS];  /* http_alloc: binary inputs that are not written where they belong at once */
};

/* The headers are here. The request may sleep. */
void http_infer_start(struct http_request *r);
/* The body is here, or what the request has slept for: go on. The request sleeps, or has an answer. */
void http_infer_run(struct http_request *r);
/* The client has gone. True: nothing is in flight, so nothing else will wake the request. */
bool http_infer_cancel(struct http_request *r);
/* Free r->infer. Its binding is given back, unless an answer took it. */
void http_infer_free(struct http_request *r);

/* The element datatype of the protocol for an input or output; NULL: it has no value to pass. */
const char *http_infer_datatype(const struct inferd_tensor_info *info);

#endif
