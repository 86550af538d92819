/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of the cache folder: the binary of a kernel as a driver compiled it, and the request for one, which says what
 * to compile. Each is named by its key, KEY.binary and KEY.request. No OpenCL here. */
#ifndef DELEGATES_OPENCL_CACHE_FILE_H
#define DELEGATES_OPENCL_CACHE_FILE_H

#include "runtime/base/status.h"

#include <stdbool.h>
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

/* The key of what is made from @n_texts texts, in this order. */
void ocl_cache_key(const char *const *texts, size_t n_texts, char ret_key[OCL_KEY]);

/* The header of a file with @key and these bytes. */
struct ocl_cache_header ocl_cache_header(enum ocl_cache_kind kind, const char *key, const uint8_t *body, size_t n);
/* Check the @n bytes of a file that should be of @kind and have @key; *ret_body is a part of them. ET_E_INVALID_PROGRAM
 * with a sentence: it is cut short, changed, or another file. */
enum et_status ocl_cache_check(enum ocl_cache_kind kind, const char *key, const uint8_t *bytes, size_t n,
	const uint8_t **ret_body, size_t *ret_n, struct et_diag *diag);

/* What a request asks for: the kernel's family and its definitions. */
struct ocl_request {
	char family[OCL_FAMILY], definitions[OCL_MAX_DEFINITIONS];
};
/* Read the body of a request. ET_E_INVALID_PROGRAM: it is none. */
enum et_status ocl_request_read(struct ocl_request *ret_request, const uint8_t *body, size_t n, struct et_diag *diag);
/* Write one into @room, of sizeof(struct ocl_request) bytes; its length. */
size_t ocl_request_write(const struct ocl_request *request, uint8_t *room);

/* Read the file in @folder and check it. *ret_bytes is the whole file, heap memory, of which *ret_body is a part.
 * ET_E_NOT_FOUND: there is none; ET_E_INVALID_PROGRAM: as ocl_cache_check; ET_E_MEMORY_ALLOCATION_FAILED;
 * ET_E_ACCESS_FAILED. Any thread, also while others write it. */
enum et_status ocl_cache_read(const char *folder, enum ocl_cache_kind kind, const char *key, uint8_t **ret_bytes,
	const uint8_t **ret_body, size_t *ret_n, struct et_diag *diag);
/* Write the file: aside, synced and renamed, so that nobody ever sees a part of it. ET_E_ACCESS_FAILED. Any thread. */
enum et_status ocl_cache_write(const char *folder, enum ocl_cache_kind kind, const char *key, const void *body,
	size_t n, struct et_diag *diag);
void ocl_cache_remove(const char *folder, enum ocl_cache_kind kind, const char *key);
/* Call @fn with the key of each request in @folder, until it answers false. Removes what a process that was killed has
 * left half written an hour ago. */
void ocl_cache_each_request(const char *folder, bool (*fn)(void *self, const char *key), void *self);

#endif
