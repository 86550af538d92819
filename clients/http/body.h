/* SPDX-License-Identifier: BSD-3-Clause */
/* The body of a request as it arrives: counted, and inflated where it is compressed. */
#ifndef CLIENTS_HTTP_BODY_H
#define CLIENTS_HTTP_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct z_stream_s;

struct http_body {
	struct z_stream_s *inflate;  /* NULL: the body is not compressed */
	bool is_inflated;            /* the end of the compressed data has come */
	uint64_t n_bytes, max_bytes; /* after inflation */
	/* A piece of the body. 0, or an HTTP status: then there are no further calls, the rest is dropped. */
	unsigned (*sink)(void *userdata, const char *data, size_t n_bytes);
	void *userdata;
	bool is_dropping;
	bool is_paused; /* the sink does not want more in this call */
};

/* Prepare for a body with that Content-Encoding (NULL: none) of at most @max_bytes. 0, or an HTTP status with
 * *ret_error a sentence. */
unsigned http_body_init(struct http_body *body, const char *encoding, uint64_t max_bytes, const char **ret_error);
void http_body_deinit(struct http_body *body);
/* Take a part of @data; *ret_n_taken says how much: little compressed data may be much work. 0, or an HTTP status with
 * *ret_error a sentence (NULL: the sink has said it). */
unsigned http_body_feed(struct http_body *body, const char *data, size_t n_bytes, size_t *ret_n_taken,
	const char **ret_error);
/* The body has ended. 0, or an HTTP status: it was cut off. */
unsigned http_body_end(const struct http_body *body, const char **ret_error);

#endif
