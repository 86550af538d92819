/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside runtime/platform: the folder of a store, and the files in it. */
#ifndef RUNTIME_PLATFORM_STORE_INTERNAL_H
#define RUNTIME_PLATFORM_STORE_INTERNAL_H

#include "runtime/base/list.h"
#include "runtime/base/ref.h"
#include "runtime/platform/file_internal.h"

#include <pthread.h>
#include <stdatomic.h>

/* Digests are SHA-256, by Nettle: two programs must never share a name, even if they were made on purpose. */
enum { ET_SHA256_BYTES = 32 };

enum { ET_STORE_NAME = 48 }; /* 32 hexadecimal digits, a suffix, a NUL */

enum { ET_STORE_BOOT_ID = 40 }; /* a UUID as text, and a NUL */

enum { ET_STORE_CHECKED = 256 }; /* files that a store remembers to have checked, the latest ones */

struct et_platform_store {
	struct et_ref ref;
	pthread_mutex_t lock;     /* for the next three */
	struct et_list_node uses; /* struct et_store_use by node */
	struct et_platform_identity checked[ET_STORE_CHECKED];
	uint32_t n_checked;       /* so far; the next place, modulo ET_STORE_CHECKED */
	_Atomic(bool) is_stopped; /* work that takes long ends soon */
	int dir_fd;
	char boot_id[ET_STORE_BOOT_ID]; /* the kernel's; empty: not known */
	uint64_t max_bytes;
	const struct et_log *log;
	char path[];
};

enum et_store_digest_state { ET_STORE_UNKNOWN, ET_STORE_BEING_SET, ET_STORE_KNOWN };

/* One of a program's files: the `.pte` or a `.ptd`. */
struct et_store_file {
	const struct et_platform_source *source;
	_Atomic(int) digest_state; /* enum et_store_digest_state */
	uint8_t digest[ET_SHA256_BYTES];
};

/* The store of one program: what et_source.store points to. */
struct et_store_binding {
	struct et_store table;
	struct et_platform_store *store; /* holds a reference */
	const char *name;                /* for log lines */
	_Atomic(bool) is_damaged;        /* a file that find has handed out, or the saved copy of the program */
	_Atomic(bool) has_saved;         /* there is saved data for it */
	uint32_t n_files;
	struct et_store_file files[]; /* the program's own file, then its data files */
};

/* --- store.c --- */

/* The key of the saved copy of a program's file (store_copy.c). No delegate can use it. */
#define ET_STORE_COPY_KEY "program's file"

struct et_store_use;
/* The name of the record with the digest of the file with this identity. */
void et_store_program_name(char ret_name[ET_STORE_NAME], const struct et_platform_identity *identity);
/* The name of the file for @key and the contents with @digest. */
void et_store_saved_name(char ret_name[ET_STORE_NAME], const uint8_t digest[ET_SHA256_BYTES], const char *key);
/* The digest of one file, if it was computed before. */
bool et_store_look_digest_up(struct et_platform_store *store, struct et_store_file *file,
	uint8_t ret_digest[ET_SHA256_BYTES]);
/* Find, check and map what was saved as @key for the contents with @digest. NULL: nothing, or it is damaged, which is
 * logged with the name @program. The caller sets is_damaged and calls et_store_use_begin. */
struct et_store_use *et_store_find(struct et_platform_store *store, const uint8_t digest[ET_SHA256_BYTES],
	const char *key, const char *program);
/* Save @pieces as @key for the contents with @digest, and delete what the folder then has too much. 0 or negative
 * errno; -ECANCELED: the store was stopped. */
int et_store_save(struct et_platform_store *store, const uint8_t digest[ET_SHA256_BYTES], const char *key,
	const struct et_store_piece *pieces, size_t n_pieces);

/* --- store_folder.c --- */

/* Write the first 16 bytes of @digest as hexadecimal digits, then @ending. */
void et_store_name(char ret_name[ET_STORE_NAME], const uint8_t digest[ET_SHA256_BYTES], const char *ending);
/* A checksum against damage: any change within one 64-bit word changes it. Not cryptographic; as fast as reading
 * memory. */
uint64_t et_store_checksum(const void *bytes, size_t n_bytes);

/* CLOCK_REALTIME. */
int64_t et_store_realtime_ns(void);

/* A record: facts about a file that nobody has written to since. */
struct et_store_record {
	uint64_t magic;
	struct et_platform_identity identity;
	int64_t seen_ns;   /* CLOCK_REALTIME when the file's bytes were read */
	uint64_t contents; /* et_store_checksum of the bytes */
	uint8_t digest
		[ET_SHA256_BYTES]; /* of a program's bytes; of saved data: the boot in which it was checked, or zeros */
	uint64_t check;            /* checksum of all members above */
};

/* Read the record @name. False: there is none for @identity. *ret_is_certain: it was made so long after the file's
 * last change that a later change would show. Marks the record as used. */
bool et_store_record_read(struct et_platform_store *store, const char *name,
	const struct et_platform_identity *identity, struct et_store_record *ret_record, bool *ret_is_certain);
/* Record of HEX.kept, @kept. */
void et_store_seen_name(char ret_name[ET_STORE_NAME], const char *kept);
/* Write the record @name; fills in magic and check. A failure only costs time later. */
void et_store_record_write(struct et_platform_store *store, const char *name, struct et_store_record *record);

/* Create a new file with a temporary name and lock it. Returns its descriptor, or negative errno. Rename the file
 * before the descriptor is closed: an unlocked one may be deleted. */
int et_store_temporary(struct et_platform_store *store, char ret_name[ET_STORE_NAME + 40]);
/* Delete the temporary files whose writers have died: nobody has locked them. Another process that is just creating one
 * may lose it; it then says that nothing was saved. */
void et_store_delete_abandoned(struct et_platform_store *store);
/* Delete the least recently used files until the rest fits the limit, but never @spare. */
void et_store_prune(struct et_platform_store *store, const char *spare);
/* What the files of the folder have together, as the limit counts them. */
uint64_t et_store_n_bytes(struct et_platform_store *store);

/* --- store_check.c --- */

/* A saved file that find has handed out. */
struct et_store_use {
	struct et_list_node node;             /* in the store's uses */
	uint32_t n_refs;                      /* under the store's lock, as the next four */
	int fd;                               /* until it is checked; then -1 */
	bool is_checked;                      /* by this process, or by another one since the machine was started */
	struct et_platform_identity identity; /* when it was mapped, or checked */
	_Atomic(bool) *is_damaged;            /* of its program; NULL: the use has ended */
	struct et_platform_mapping mapping;
	uint8_t digest[ET_SHA256_BYTES]; /* of the body */
	char name[ET_STORE_NAME];
	char program[]; /* for log lines */
};
/* Whether @record, which is certain, says that the file of @use has been checked since the machine was started. */
bool et_store_is_checked(const struct et_platform_store *store, const struct et_store_use *use,
	const struct et_store_record *record);
/* Add @use, which is filled in up to its n_refs. */
void et_store_use_begin(struct et_platform_store *store, struct et_store_use *use);
/* Remove it, if it was added, and free it when it is not being checked any more. */
void et_store_use_end(struct et_platform_store *store, struct et_store_use *use);
/* Check the files in use that were not checked yet or have changed since: those whose programs have the mark @of, or
 * all (NULL). Whether one is damaged. */
bool et_store_check_uses(struct et_platform_store *store, const _Atomic(bool) *of);
/* Check the file of @use, which was added, even if it was checked before. Whether it is damaged. */
bool et_store_check_use(struct et_platform_store *store, struct et_store_use *use);

#endif
