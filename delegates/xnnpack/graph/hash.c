/* SPDX-License-Identifier: BSD-3-Clause */
/* A digest of bytes that may be long: a signature has the digest of a filter's scales, deduplication one of the
 * graph. */
#include "delegates/xnnpack/graph/hash.h"

#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* Hash four words at a time, in streams that do not wait for each other: there are as many scales as channels. */
uint64_t et_xnn_hash_bytes(const void *bytes, size_t n_bytes)
{
	const uint8_t *from = bytes;
	uint64_t hash = UINT64_C(0xcbf29ce484222325), streams[4] = { hash, hash + 1, hash + 2, hash + 3 }, words[4];
	for (; n_bytes >= sizeof(words); from += sizeof(words), n_bytes -= sizeof(words)) {
		memcpy(words, from, sizeof(words));
		for (size_t i = 0; i < 4; i++)
			streams[i] = mix(streams[i], words[i]);
	}
	memset(words, 0, sizeof(words));
	memcpy(words, from, n_bytes);
	for (size_t i = 0; i < 4; i++)
		hash = mix(mix(hash, streams[i]), words[i]);
	return hash;
}
