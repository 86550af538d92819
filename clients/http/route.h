/* SPDX-License-Identifier: BSD-3-Clause */
/* From a path of the Open Inference Protocol to what it asks for. No I/O; hostile paths are refused here. */
#ifndef CLIENTS_HTTP_ROUTE_H
#define CLIENTS_HTTP_ROUTE_H

#include <stdbool.h>

enum http_route_kind {
	HTTP_ROUTE_NONE, /* there is no such path */
	HTTP_ROUTE_SERVER,
	HTTP_ROUTE_LIVE,
	HTTP_ROUTE_READY,
	HTTP_ROUTE_MODEL,
	HTTP_ROUTE_MODEL_READY,
	HTTP_ROUTE_CONFIG,
	HTTP_ROUTE_STATS,
	HTTP_ROUTE_INFER,
	HTTP_ROUTE_INDEX,
	HTTP_ROUTE_LOAD,
	HTTP_ROUTE_UNLOAD,
	HTTP_ROUTE_TRACE,
	HTTP_ROUTE_LOGGING,
	HTTP_ROUTE_METRICS,
	HTTP_ROUTE_MEMORY_STATUS,
	HTTP_ROUTE_MEMORY_REGISTER,
	HTTP_ROUTE_MEMORY_UNREGISTER,
	HTTP_ROUTE_PAGE,            /* for browsers; this and what follows only where `page = yes` */
	HTTP_ROUTE_OVERVIEW_STATUS, /* what the page reads */
	HTTP_ROUTE_OVERVIEW_MODELS,
};

struct http_route {
	enum http_route_kind kind;
	bool is_cuda;         /* MEMORY_*: of CUDA's shared memory */
	char model[256];      /* "": all models, where a path has none */
	char version[16];     /* "": the one that serves */
	char region[256];     /* MEMORY_*; "": all */
	bool is_get, is_post; /* the methods that the path has */
	const char *refusal;  /* NONE: a sentence */
};

/* Whether the path is there only where `page = yes`. */
bool http_route_is_of_page(const struct http_route *route);

/* Read @path, which is still percent-encoded, as far as its '?'. */
void http_route_parse(struct http_route *ret, const char *path);

#endif
