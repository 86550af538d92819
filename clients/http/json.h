/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON of clients, parsed by jansson within the gateway's memory. */
#ifndef CLIENTS_HTTP_JSON_H
#define CLIENTS_HTTP_JSON_H

#include <jansson.h>
#include <stddef.h>

/* Parse @text. 0: *ret is the caller's, who frees it with json_decref. Else an HTTP status with a sentence in @error,
 * and *ret is NULL: 400, it is not JSON; 503, the memory of the gateway is too small for its tree. */
unsigned http_json_parse(json_t **ret, const char *text, size_t n_bytes, char *error, size_t error_size);

#endif
