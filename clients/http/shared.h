/* SPDX-License-Identifier: BSD-3-Clause */
/* "System shared memory": files of /dev/shm that clients have registered under a name, each for itself. */
#ifndef CLIENTS_HTTP_SHARED_H
#define CLIENTS_HTTP_SHARED_H

#include "clients/http/head.h"
#include "clients/http/request.h"

/* Answer a status, register or unregister request. */
void http_shared_answer(struct http_request *r);
/* Copy @n_bytes from or to the place, in a region that the client at @c has registered. 0, or an HTTP status with a
 * sentence in @error. */
unsigned http_shared_read(const struct http_connection *c, const struct http_place *place, void *to, size_t n_bytes,
	char *error, size_t error_size);
unsigned http_shared_write(const struct http_connection *c, const struct http_place *place, const void *from,
	size_t n_bytes, char *error, size_t error_size);
/* Forget all regions. */
void http_shared_deinit(void);

#endif
