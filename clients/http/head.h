/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON of an inference request, checked and in a plain struct. No I/O. */
#ifndef CLIENTS_HTTP_HEAD_H
#define CLIENTS_HTTP_HEAD_H

#include "clients/http/memory.h"
#include "clients/inferd.h"

enum { HTTP_MAX_TENSORS = 64, HTTP_MAX_NAME = 256, HTTP_MAX_ID = 256 };

/* A part of a shared memory region that the client has registered. region "": none. */
struct http_place {
	char region[HTTP_MAX_NAME];
	uint64_t offset, n_bytes;
};

struct http_head_input {
	char name[HTTP_MAX_NAME];
	char datatype[8];
	size_t n_dims;
	int64_t shape[INFERD_MAX_DIMS];
	size_t n_elements, n_bytes; /* of the dense tensor */
	bool is_binary;             /* its bytes follow the JSON */
	struct http_place place;
	void *data; /* from JSON, row-major; NULL: binary or in shared memory */
};

struct http_head_output {
	char name[HTTP_MAX_NAME];
	bool is_binary;
	uint32_t n_classes; /* classification; 0: the tensor itself */
	struct http_place place;
};

struct http_head {
	char id[HTTP_MAX_ID];
	enum inferd_priority priority;
	uint64_t timeout_us;          /* 0: none */
	char sequence[HTTP_MAX_NAME]; /* "": none */
	bool is_start, is_end;
	bool is_binary;                 /* outputs, where none are named */
	size_t n_inputs, n_outputs;     /* no outputs: all */
	size_t n_binary_bytes;          /* that follow the JSON */
	struct http_head_input *inputs; /* http_alloc, as the next */
	struct http_head_output *outputs;
};

/* Read @n_bytes of JSON into *ret (http_head_free). 0, or an HTTP status with a sentence in @error. */
unsigned http_head_parse(struct http_head **ret, const char *text, size_t n_bytes, char *error, size_t error_size);
void http_head_free(struct http_head *head);

#endif
