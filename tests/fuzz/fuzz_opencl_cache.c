/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is a file of the OpenCL plug-in's cache folder, then the body of one. What is written is read
 * again, and no changed file is taken. */
#include "delegates/opencl/cache_format.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const char key[OCL_KEY] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/* What a file holds is within the file. */
static void try_file(const uint8_t *bytes, size_t n)
{
	for (int kind = 0; kind < OCL_N_CACHE_KINDS; kind++) {
		struct et_diag diag = { "" };
		const uint8_t *body;
		size_t n_body;
		if (ocl_cache_check((enum ocl_cache_kind)kind, key, bytes, n, &body, &n_body, &diag) != ET_OK) {
			if (!diag.text[0])
				abort();
		} else if (body < bytes || n_body > n || body + n_body != bytes + n) {
			abort();
		}
	}
}

static void try_request(const uint8_t *body, size_t n)
{
	struct ocl_request request;
	uint8_t again[sizeof(request)];
	struct et_diag diag = { "" };
	if (ocl_request_read(&request, body, n, &diag) != ET_OK) {
		if (!diag.text[0])
			abort();
		return;
	}
	if (ocl_request_write(&request, again) != n || memcmp(again, body, n) != 0)
		abort();
}

/* A file with this body is taken, and not with one bit changed, one byte less or one more. */
static void try_changes(const uint8_t *body, size_t n)
{
	struct ocl_cache_header header = ocl_cache_header(OCL_BINARY, key, body, n);
	size_t n_file = sizeof(header) + n, n_found;
	uint8_t *file = calloc(1, n_file + 1);
	const uint8_t *found;
	if (!file)
		abort();
	memcpy(file, &header, sizeof(header));
	if (n)
		memcpy(file + sizeof(header), body, n);
	if (ocl_cache_check(OCL_BINARY, key, file, n_file, &found, &n_found, NULL) != ET_OK || n_found != n)
		abort();
	if (ocl_cache_check(OCL_BINARY, key, file, n_file - 1, &found, &n_found, NULL) == ET_OK ||
		ocl_cache_check(OCL_BINARY, key, file, n_file + 1, &found, &n_found, NULL) == ET_OK ||
		ocl_cache_check(OCL_REQUEST, key, file, n_file, &found, &n_found, NULL) == ET_OK)
		abort();
	if (n >= 8) {
		file[body[0] % 16 + sizeof(header) - 8] ^= 1; /* in the digest or in the body */
		if (ocl_cache_check(OCL_BINARY, key, file, n_file, &found, &n_found, NULL) == ET_OK)
			abort();
	}
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	try_file(bytes, n_bytes);
	try_request(bytes, n_bytes);
	try_changes(bytes, n_bytes);
	return 0;
}
