/* SPDX-License-Identifier: BSD-3-Clause */
/* The SHA-256 of a file's contents, as sha256sum(1) prints it: how people see that two files are the same. */
#include "runtime/platform/platform.h"

#include <nettle/sha2.h>
#include <stdio.h>

void et_platform_digest(const void *bytes, size_t n_bytes, char ret_hex[ET_PLATFORM_DIGEST])
{
	struct sha256_ctx sha;
	uint8_t digest[SHA256_DIGEST_SIZE];
	sha256_init(&sha);
	sha256_update(&sha, n_bytes, bytes);
	sha256_digest(&sha, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
}
