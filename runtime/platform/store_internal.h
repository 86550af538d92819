/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside runtime/platform: the folder of a store, and the files in it. */
#ifndef RUNTIME_PLATFORM_STORE_INTERNAL_H
#define RUNTIME_PLATFORM_STORE_INTERNAL_H

#include "runtime/base/ref.h"
#include "runtime/platform/file_internal.h"

/* A digest is SHA-256, by Nettle: two programs must never share a name, however they were made. */
enum { ET_SHA256_BYTES = 32 };

enum { ET_STORE_NAME = 48 }; /* 32 hexadecimal digits, an ending, a zero */

struct et_platform_store {
	struct et_ref ref;
	int dir_fd;
	uint64_t max_bytes;
	const struct et_log *log;
	char path[];
};

/* The first 16 bytes of @digest in hexadecimal digits, and @ending. */
void et_store_name(char ret_name[ET_STORE_NAME], const uint8_t digest[ET_SHA256_BYTES], const char *ending);
/* Damage shows: any change within one 64-bit word changes it. Not for secrets: as fast as memory is read. */
uint64_t et_store_checksum(const void *bytes, size_t n_bytes);

/* What was found out about a file that nobody has written to since. */
struct et_store_record {
	uint64_t magic;
	struct et_platform_identity identity;
	int64_t seen_ns;   /* CLOCK_REALTIME when the file's bytes were looked at */
	uint64_t contents; /* et_store_checksum of them */
	uint8_t digest[ET_SHA256_BYTES];
	uint64_t check; /* of all the above */
};

/* False if there is none for @identity under @name. *ret_is_certain: it was seen so long after its last change that a
 * later change would show. Marks the record as used. */
bool et_store_record_read(struct et_platform_store *store, const char *name,
	const struct et_platform_identity *identity, struct et_store_record *ret_record, bool *ret_is_certain);
/* Fills in magic and check. Failing costs time later and nothing else. */
void et_store_record_write(struct et_platform_store *store, const char *name, struct et_store_record *record);

/* A new file that is not there yet under a name of its own, or negative errno. */
int et_store_temporary(struct et_platform_store *store, char ret_name[ET_STORE_NAME + 40]);
/* Delete what was not used for longest until the rest fits, but not @spare. */
void et_store_prune(struct et_platform_store *store, const char *spare);

#endif
