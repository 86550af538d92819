/* SHA-256 (FIPS 180-4), for the names of what is kept: two programs must never share one, however they were made. */
#ifndef RUNTIME_HOST_SHA256_H
#define RUNTIME_HOST_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { ET_SHA256_BYTES = 32 };

struct et_sha256 {
	uint32_t state[8];
	uint64_t n_bytes;
	uint8_t block[64]; /* what does not fill a block yet */
};
void et_sha256_init(struct et_sha256 *sha);
void et_sha256_add(struct et_sha256 *sha, const void *bytes, size_t n_bytes);
void et_sha256_end(struct et_sha256 *sha, uint8_t ret_digest[ET_SHA256_BYTES]);

#endif
