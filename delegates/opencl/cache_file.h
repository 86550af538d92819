/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of the cache folder. Each is named by its key, KEY.binary and KEY.request. No OpenCL here. */
#ifndef DELEGATES_OPENCL_CACHE_FILE_H
#define DELEGATES_OPENCL_CACHE_FILE_H

#include "delegates/opencl/cache_format.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The key of what is made from @n_texts texts, in this order. */
void ocl_cache_key(const char *const *texts, size_t n_texts, char ret_key[OCL_KEY]);

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
