/* SPDX-License-Identifier: BSD-3-Clause */
/* The format of cache files: the binary of a kernel as a driver compiled it, and the request for one, which says what
 * to compile. No files and no OpenCL here. */
#ifndef DELEGATES_OPENCL_CACHE_FORMAT_H
#define DELEGATES_OPENCL_CACHE_FORMAT_H

#include "runtime/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
	OCL_KEY = 65,                /* a SHA-256 in hexadecimal digits, with a NUL */
	OCL_MAX_DEFINITIONS = 512,   /* characters of a kernel's definitions, with a NUL */
	OCL_FAMILY = 32,             /* the same of a family's name */
	OCL_MAX_CACHE_FILE = 1 << 28 /* bytes */
};

enum ocl_cache_kind { OCL_BINARY, OCL_REQUEST, OCL_N_CACHE_KINDS };

struct ocl_cache_header {
	char magic[16];
	uint32_t kind; /* enum ocl_cache_kind */
	uint32_t zero;
	uint64_t n_body;
	char key[OCL_KEY - 1];
	char digest[OCL_KEY - 1]; /* of the body */
};

/* The endings of the files' names, by kind. */
extern const char *const ocl_cache_endings[OCL_N_CACHE_KINDS];

/* The header of a file with @key and these bytes. */
struct ocl_cache_header ocl_cache_header(enum ocl_cache_kind kind, const char *key, const uint8_t *body, size_t n);
/* Check the @n bytes of a file that should be of @kind and have @key; *ret_body is a part of them. ET_E_INVALID_PROGRAM
 * with a sentence: it is cut short, changed, or another file. */
enum et_status ocl_cache_check(enum ocl_cache_kind kind, const char *key, const uint8_t *bytes, size_t n,
	const uint8_t **ret_body, size_t *ret_n, struct et_diag *diag);

/* The kernel that a request asks for: its family and its definitions. */
struct ocl_request {
	char family[OCL_FAMILY], definitions[OCL_MAX_DEFINITIONS];
};
/* Read the body of a request. ET_E_INVALID_PROGRAM: it is none. */
enum et_status ocl_request_read(struct ocl_request *ret_request, const uint8_t *body, size_t n, struct et_diag *diag);
/* Write one into @room, of sizeof(struct ocl_request) bytes; its length. */
size_t ocl_request_write(const struct ocl_request *request, uint8_t *room);

#endif
