/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder of a store: names, records, and the limit on its size.
 *
 *     HEX.kept     data made from a program (store.c), or a copy of its file (store_copy.c); HEX is a digest of the
 *                  program's contents and the key
 *     HEX.seen     record: identity of the file HEX.kept when its checksum was right, and the boot in which it was
 *                  checked (store_check.c); the record's time is that of the last use
 *     HEX.program  record: digest of the contents of a program or data file; HEX is a digest of the file's identity
 *     .tmp-*       a file being written, which its writer has locked, or left behind by a process that died
 *
 * A record saves reading a file again: equal device, inode, size and times mean that nobody has written to it. But a
 * file can be written twice within one tick of its clock. So a record that was made too soon after the file's last
 * change is not certain, and the caller checks the contents again. */
#include "runtime/platform/store_internal.h"

#include "runtime/base/checked.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define RECORD_MAGIC   UINT64_C(0x31646e6572666e69) /* "infrend1" on a little-endian machine */
#define CERTAIN_NS     INT64_C(2000000000)
#define USED_LATELY_S  600
#define RECORD_ON_DISK 4096

static_assert(sizeof(struct et_store_record) == 8 * 9 + ET_SHA256_BYTES, "no padding in a record");

int64_t et_store_realtime_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void et_store_name(char ret_name[ET_STORE_NAME], const uint8_t digest[ET_SHA256_BYTES], const char *ending)
{
	static const char digits[] = "0123456789abcdef";
	for (unsigned i = 0; i < 16; i++) {
		ret_name[2 * i] = digits[digest[i] >> 4];
		ret_name[2 * i + 1] = digits[digest[i] & 15];
	}
	snprintf(ret_name + 32, ET_STORE_NAME - 32, "%s", ending);
}

uint64_t et_store_checksum(const void *bytes, size_t n_bytes)
{
	/* Each step is a bijection of the word and of the chain's value, so a single wrong word always changes the
	 * result. There are several independent chains, because a multiplication takes longer than starting the next
	 * one. */
	static const uint64_t prime = UINT64_C(0x9e3779b97f4a7c15);
	const uint8_t *from = bytes;
	uint64_t thread_sets[8], sum = n_bytes * prime;
	for (unsigned i = 0; i < 8; i++)
		thread_sets[i] = prime * (i + 1);
	for (; n_bytes >= sizeof(thread_sets); from += sizeof(thread_sets), n_bytes -= sizeof(thread_sets)) {
		uint64_t words[8];
		memcpy(words, from, sizeof(words));
		for (unsigned i = 0; i < 8; i++)
			thread_sets[i] = (thread_sets[i] ^ words[i]) * prime;
	}
	uint8_t rest[sizeof(thread_sets)] = { 0 };
	if (n_bytes)
		memcpy(rest, from, n_bytes);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t word;
		memcpy(&word, rest + i * sizeof(word), sizeof(word));
		thread_sets[i] = (thread_sets[i] ^ word) * prime;
		sum = (sum ^ thread_sets[i] ^ thread_sets[i] >> 29) * prime;
	}
	return sum ^ sum >> 32;
}

/* --- records ---------------------------------------------------------------------------------------- */

bool et_store_record_read(struct et_platform_store *store, const char *name,
	const struct et_platform_identity *identity, struct et_store_record *ret_record, bool *ret_is_certain)
{
	struct et_store_record record;
	int fd = openat(store->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool is_right = pread(fd, &record, sizeof(record), 0) == (ssize_t)sizeof(record) &&
			record.magic == RECORD_MAGIC &&
			record.check == et_store_checksum(&record, offsetof(struct et_store_record, check)) &&
			memcmp(&record.identity, identity, sizeof(*identity)) == 0;
	/* The last use need not be exact to the minute, and a load must not wait for a file system's journal. */
	struct stat st;
	if (is_right && (fstat(fd, &st) < 0 || time(NULL) - st.st_mtim.tv_sec >= USED_LATELY_S))
		futimens(fd, NULL);
	close(fd);
	if (!is_right)
		return false;
	*ret_is_certain = record.seen_ns - (int64_t)identity->ctime_ns > CERTAIN_NS &&
			  record.seen_ns - (int64_t)identity->mtime_ns > CERTAIN_NS;
	*ret_record = record;
	return true;
}

void et_store_record_write(struct et_platform_store *store, const char *name, struct et_store_record *record)
{
	char temporary[ET_STORE_NAME + 40];
	int fd = et_store_temporary(store, temporary);
	if (fd < 0)
		return;
	record->magic = RECORD_MAGIC;
	record->check = et_store_checksum(record, offsetof(struct et_store_record, check));
	bool is_written = write(fd, record, sizeof(*record)) == (ssize_t)sizeof(*record);
	if (!is_written || renameat(store->dir_fd, temporary, store->dir_fd, name) < 0)
		unlinkat(store->dir_fd, temporary, 0);
	close(fd);
}

int et_store_temporary(struct et_platform_store *store, char ret_name[ET_STORE_NAME + 40])
{
	static _Atomic(unsigned) counter;
	for (int i = 0; i < 100; i++) {
		snprintf(ret_name, ET_STORE_NAME + 40, ".tmp-%ld-%u-%llx", (long)getpid(),
			atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed),
			(unsigned long long)et_platform_now_ns(NULL));
		int fd = openat(store->dir_fd, ret_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0) {
			flock(fd, LOCK_EX | LOCK_NB); /* see et_store_delete_abandoned; closing unlocks */
			return fd;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

void et_store_delete_abandoned(struct et_platform_store *store)
{
	int dir_fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
	if (!dir && dir_fd >= 0)
		close(dir_fd);
	for (const struct dirent *found; dir && (found = readdir(dir));) {
		if (strncmp(found->d_name, ".tmp-", 5) != 0)
			continue;
		int fd = openat(store->dir_fd, found->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			unlinkat(store->dir_fd, found->d_name, 0);
		if (fd >= 0)
			close(fd);
	}
	if (dir)
		closedir(dir);
}

/* --- the limit on the size ---------------------------------------------------------------------------- */

struct entry {
	char name[ET_STORE_NAME];
	uint64_t n_bytes;
	struct timespec used;
};

static int by_use(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

static bool ends_with(const char *name, const char *ending)
{
	size_t n = strlen(name), n_ending = strlen(ending);
	return n == 32 + n_ending && strcmp(name + 32, ending) == 0;
}

void et_store_seen_name(char ret_name[ET_STORE_NAME], const char *kept)
{
	snprintf(ret_name, ET_STORE_NAME, "%.32s.seen", kept);
}

/* False: not a file that counts. */
static bool look_at(const struct et_platform_store *store, const char *name, struct entry *ret_entry)
{
	char seen[ET_STORE_NAME];
	struct stat st;
	bool is_kept = ends_with(name, ".kept");
	if ((!is_kept && !ends_with(name, ".program")) || fstatat(store->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	snprintf(ret_entry->name, sizeof(ret_entry->name), "%s", name);
	ret_entry->n_bytes = RECORD_ON_DISK + (is_kept ? (uint64_t)st.st_size : 0);
	ret_entry->used = st.st_mtim;
	et_store_seen_name(seen, name);
	if (is_kept && fstatat(store->dir_fd, seen, &st, AT_SYMLINK_NOFOLLOW) == 0)
		ret_entry->used = st.st_mtim;
	return true;
}

/* List the files that count. *ret_entries is the caller's to free; returns how many there are. */
static size_t list_entries(struct et_platform_store *store, struct entry **ret_entries, uint64_t *ret_n_bytes)
{
	struct entry *entries = NULL;
	size_t n = 0, n_room = 0;
	uint64_t n_bytes = 0;
	*ret_entries = NULL;
	*ret_n_bytes = 0;
	int fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	for (const struct dirent *found; (found = readdir(dir));) {
		if (n == n_room) {
			size_t n_more = n_room ? 2 * n_room : 64;
			struct entry *more = reallocarray(entries, n_more, sizeof(*entries));
			if (!more)
				break;
			entries = more;
			n_room = n_more;
		}
		if (look_at(store, found->d_name, &entries[n]))
			n_bytes += entries[n++].n_bytes;
	}
	closedir(dir);
	*ret_entries = entries;
	*ret_n_bytes = n_bytes;
	return n;
}

uint64_t et_store_n_bytes(struct et_platform_store *store)
{
	struct entry *entries;
	uint64_t n_bytes;
	list_entries(store, &entries, &n_bytes);
	free(entries);
	return n_bytes;
}

void et_store_prune(struct et_platform_store *store, const char *spare)
{
	struct entry *entries;
	uint64_t n_bytes;
	char seen[ET_STORE_NAME];
	size_t n = list_entries(store, &entries, &n_bytes);
	if (n)
		qsort(entries, n, sizeof(*entries), by_use);
	for (size_t i = 0; i < n && n_bytes > store->max_bytes; i++) {
		if (strcmp(entries[i].name, spare) == 0)
			continue;
		unlinkat(store->dir_fd, entries[i].name, 0);
		et_store_seen_name(seen, entries[i].name);
		if (ends_with(entries[i].name, ".kept")) {
			unlinkat(store->dir_fd, seen, 0);
			et_logf(store->log, ET_LOG_INFO, "%s/%s: deleted, to keep the folder within %llu bytes",
				store->path, entries[i].name, (unsigned long long)store->max_bytes);
		}
		n_bytes -= entries[i].n_bytes;
	}
	free(entries);
}
