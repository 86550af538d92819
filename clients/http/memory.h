/* SPDX-License-Identifier: BSD-3-Clause */
/* What requests take of the gateway's memory: counted, and refused beyond a limit, before it is allocated.
 *
 * One thread. Counted are buffers, converted tensors, answers, the trees of jansson and the regions of bindings. The
 * memory of libmicrohttpd and libinferd is bounded by their numbers: connections, Methods, bindings. */
#ifndef CLIENTS_HTTP_MEMORY_H
#define CLIENTS_HTTP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set the limit on all that is counted; jansson allocates here from then on, and is never refused. */
void http_memory_init(uint64_t max_bytes);
/* Count @n_bytes that the caller is about to take elsewhere. False: they are too many. */
bool http_memory_charge(size_t n_bytes);
/* @n_bytes that were counted are gone. */
void http_memory_release(size_t n_bytes);
/* Bytes that are counted now. */
uint64_t http_memory_used(void);

/* jansson begins to parse. */
void http_memory_start_json(void);
/* Whether the limit lets jansson go on: it doubles its largest piece when that is full, a table or a string. */
bool http_memory_has_json_room(void);

/* Zeroed memory that is counted. NULL: the limit is reached, or there is none. */
void *http_alloc(size_t n_bytes);
/* Memory of http_alloc; NULL is fine. */
void http_free(void *memory);
/* A counted copy; NULL also if @text is NULL. */
char *http_strdup(const char *text);

/* Bytes that grow. All zeros but @max_bytes is an empty one. */
struct http_buffer {
	char *data;
	size_t n_bytes, n_room;
	size_t max_bytes;
	bool is_failed; /* an append did not fit; the content is incomplete */
};
/* Append. False: beyond @max_bytes, or no memory; is_failed stays set. */
bool http_buffer_add(struct http_buffer *buffer, const void *bytes, size_t n_bytes);
bool http_buffer_text(struct http_buffer *buffer, const char *text);
bool http_buffer_printf(struct http_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Append @text, which is UTF-8, as a JSON string with its quotes. */
bool http_buffer_quote(struct http_buffer *buffer, const char *text, size_t n_bytes);
void http_buffer_deinit(struct http_buffer *buffer);

#endif
