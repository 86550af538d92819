/* SPDX-License-Identifier: BSD-3-Clause */
/* Checking the files of a store that are in use.
 *
 * A checksum is compared when a file is first mapped after a change (store.c). It cannot show what happens later below
 * the file system: a disk that returns other bytes than were written. So each file that is in use is read through
 * once a boot, and again when somebody has written to it since. Its contents are compared with the SHA-256 that was
 * computed while it was written.
 *
 * A mark in the file's record (store_folder.c) says that this boot's check is done, so a process that is started often
 * does not read all files each time. The mark is a SHA-256 over the boot's id, the file's identity and its digest: one
 * of another boot or file, or a damaged one, means that the file is read. Damage below the file system after the check
 * shows at the next boot, as it would if one process had run all the time.
 *
 * The file is read by way of the page cache: these are the bytes that the mapping shows, and what is not in memory yet
 * comes from the disk. Pages that only the check has brought in are dropped again.
 *
 * A damaged file is deleted and its programs are marked. Its mappings stay until their owners release them. */
#include "runtime/platform/store_internal.h"

#include "runtime/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 1 << 20 }; /* a stop is noticed after this many bytes */

/* --- files in use ------------------------------------------------------------------------------------- */

static struct et_store_use *use_at(struct et_list_node *node)
{
	return ET_CONTAINER_OF(node, struct et_store_use, node);
}

static bool is_same(const struct et_platform_identity *a, const struct et_platform_identity *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool is_same_file(const struct et_platform_identity *a, const struct et_platform_identity *b)
{
	return a->device == b->device && a->inode == b->inode;
}

static void make_mark(const struct et_platform_store *store, const struct et_platform_identity *identity,
	const uint8_t digest[ET_SHA256_BYTES], uint8_t ret_mark[ET_SHA256_BYTES])
{
	struct sha256_ctx sha;
	sha256_init(&sha);
	sha256_update(&sha, sizeof(store->boot_id), (const uint8_t *)store->boot_id);
	sha256_update(&sha, sizeof(*identity), (const uint8_t *)identity);
	sha256_update(&sha, ET_SHA256_BYTES, digest);
	sha256_digest(&sha, ET_SHA256_BYTES, ret_mark);
}

bool et_store_is_checked(const struct et_platform_store *store, const struct et_store_use *use,
	const struct et_store_record *record)
{
	uint8_t mark[ET_SHA256_BYTES];
	make_mark(store, &use->identity, use->digest, mark);
	return store->boot_id[0] && memcmp(mark, record->digest, sizeof(mark)) == 0;
}

/* Put the mark into the file's record: all bytes were right, and read at @read_ns or later. */
static void save_mark(struct et_platform_store *store, const struct et_store_use *use,
	const struct et_platform_identity *identity, int64_t read_ns)
{
	struct et_store_record record;
	char name[ET_STORE_NAME];
	bool is_certain;
	et_store_seen_name(name, use->name);
	if (!store->boot_id[0] || !et_store_record_read(store, name, identity, &record, &is_certain))
		return;
	record.seen_ns = read_ns;
	make_mark(store, identity, use->digest, record.digest);
	et_store_record_write(store, name, &record);
}

void et_store_use_begin(struct et_platform_store *store, struct et_store_use *use)
{
	int fd = -1;
	use->n_refs = 1;
	pthread_mutex_lock(&store->lock);
	for (uint32_t i = 0; i < ET_STORE_CHECKED && !use->is_checked; i++)
		use->is_checked = store->checked[i].inode && is_same(&store->checked[i], &use->identity);
	if (use->is_checked) {
		fd = use->fd;
		use->fd = -1;
	}
	et_list_append(&store->uses, &use->node); /* from here on a check may close use->fd */
	pthread_mutex_unlock(&store->lock);
	if (fd >= 0)
		close(fd);
}

static void free_use(struct et_store_use *use)
{
	et_platform_unmap(&use->mapping);
	if (use->fd >= 0)
		close(use->fd);
	free(use);
}

void et_store_use_end(struct et_platform_store *store, struct et_store_use *use)
{
	if (!use->is_damaged) { /* it was never added; only its owner writes the pointer */
		free_use(use);
		return;
	}
	pthread_mutex_lock(&store->lock);
	et_list_remove(&use->node);
	use->is_damaged = NULL; /* it belongs to the caller */
	bool is_last = !--use->n_refs;
	pthread_mutex_unlock(&store->lock);
	if (is_last)
		free_use(use);
}

/* --- reading one file --------------------------------------------------------------------------------- */

/* Whether a page of the piece [@at, @at + @n) is in memory, or may be. */
static bool is_present(const struct et_store_use *use, size_t at, size_t n)
{
	unsigned char pages[PIECE / 4096];
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n_pages = (n + page - 1) / page;
	if (mincore((uint8_t *)use->mapping.bytes + at, n, pages) < 0)
		return true;
	for (size_t i = 0; i < n_pages; i++)
		if (pages[i] & 1)
			return true;
	return false;
}

/* Read [@at, @at + @n) into @bytes. 0 or an errno: ENODATA if the file ends before. */
static int read_all(int fd, uint8_t *bytes, size_t n, size_t at)
{
	while (n) {
		ssize_t n_read = pread(fd, bytes, n, (off_t)at);
		if (n_read < 0 && errno == EINTR)
			continue;
		if (n_read <= 0)
			return n_read < 0 ? errno : ENODATA;
		bytes += n_read;
		at += (size_t)n_read;
		n -= (size_t)n_read;
	}
	return 0;
}

enum found { RIGHT, DAMAGED, UNKNOWN };

/* Compare the body of the file @fd, in the room of @bytes. With DAMAGED *ret_why is a text. */
static enum found compare(const struct et_platform_store *store, const struct et_store_use *use, int fd, uint8_t *bytes,
	const char **ret_why)
{
	struct sha256_ctx sha;
	uint8_t digest[ET_SHA256_BYTES];
	size_t n_file = use->mapping.n_bytes;
	sha256_init(&sha);
	for (size_t at = 0, n; at < n_file; at += n) {
		n = n_file - at < PIECE ? n_file - at : PIECE;
		if (atomic_load_explicit(&store->is_stopped, memory_order_relaxed))
			return UNKNOWN;
		bool was_present = is_present(use, at, n);
		int error = read_all(fd, bytes, n, at);
		if (error == ENOMEM)
			return UNKNOWN;
		if (error) {
			*ret_why = error == ENODATA ? "it was truncated" : strerror(error);
			return DAMAGED;
		}
		size_t n_header = at ? 0 : ET_STORE_ALIGNMENT;
		sha256_update(&sha, n - n_header, bytes + n_header);
		if (!was_present)
			posix_fadvise(fd, (off_t)at, (off_t)n, POSIX_FADV_DONTNEED);
	}
	sha256_digest(&sha, sizeof(digest), digest);
	*ret_why = "its contents are not those that were written";
	if (memcmp(digest, use->digest, sizeof(digest)) != 0)
		return DAMAGED;
	*ret_why = "a part of it could not be read";
	return et_platform_mapping_faulted(&use->mapping) ? DAMAGED : RIGHT;
}

/* --- checking ----------------------------------------------------------------------------------------- */

/* A descriptor of the file if it has to be read, or @is_forced, else -1. Called under the lock. */
static int open_to_check(const struct et_platform_store *store, const struct et_store_use *use, bool is_forced)
{
	struct stat st;
	if (!use->is_checked)
		return fcntl(use->fd, F_DUPFD_CLOEXEC, 0);
	if (fstatat(store->dir_fd, use->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	struct et_platform_identity now = et_platform_identity_of(&st);
	if (!is_same_file(&now, &use->identity) || (is_same(&now, &use->identity) && !is_forced))
		return -1; /* another file by now; or this one, unchanged */
	return openat(store->dir_fd, use->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* Called under the lock. */
static void note_right(struct et_platform_store *store, struct et_store_use *use,
	const struct et_platform_identity *identity)
{
	use->identity = *identity;
	use->is_checked = true;
	if (use->fd >= 0)
		close(use->fd);
	use->fd = -1;
	store->checked[store->n_checked++ % ET_STORE_CHECKED] = *identity;
}

/* Mark all that use the file of @use, and delete it. Called under the lock. */
static void note_damaged(struct et_platform_store *store, const struct et_store_use *use)
{
	struct stat st;
	char seen[ET_STORE_NAME];
	for (struct et_list_node *node = store->uses.next; node != &store->uses; node = node->next) {
		struct et_store_use *other = use_at(node);
		if (is_same_file(&other->identity, &use->identity))
			atomic_store_explicit(other->is_damaged, true, memory_order_release);
	}
	if (fstatat(store->dir_fd, use->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	struct et_platform_identity now = et_platform_identity_of(&st);
	if (!is_same_file(&now, &use->identity))
		return;
	unlinkat(store->dir_fd, use->name, 0);
	et_store_seen_name(seen, use->name);
	unlinkat(store->dir_fd, seen, 0);
}

/* Check the file of @use if that is due or @is_forced. Called under the lock, which it gives up while it reads; the
 * caller holds a reference. Whether it found damage. */
static bool check(struct et_platform_store *store, struct et_store_use *use, bool is_forced)
{
	struct stat st;
	const char *why = "";
	if (!use->is_damaged || atomic_load_explicit(use->is_damaged, memory_order_relaxed))
		return false;
	int fd = open_to_check(store, use, is_forced);
	if (fd < 0)
		return false;
	struct et_platform_identity known = use->identity, before = { 0 }, after = { 0 };
	pthread_mutex_unlock(&store->lock);
	uint8_t *bytes = malloc(PIECE);
	if (fstat(fd, &st) == 0)
		before = et_platform_identity_of(&st);
	bool is_ours = is_same_file(&before, &known);
	int64_t read_ns = et_store_realtime_ns();
	enum found found = bytes && is_ours ? compare(store, use, fd, bytes, &why) : UNKNOWN;
	if (fstat(fd, &st) == 0)
		after = et_platform_identity_of(&st);
	free(bytes);
	close(fd);
	if (found == RIGHT && is_same(&before, &after))
		save_mark(store, use, &after, read_ns);
	if (found == DAMAGED)
		et_logf(store->log, ET_LOG_WARNING,
			"%s: %s/%s, packed weights saved for it, is damaged (%s); it is deleted, and the models that "
			"use it are loaded anew",
			use->program, store->path, use->name, why);
	pthread_mutex_lock(&store->lock);
	if (found == RIGHT && is_same(&before, &after)) /* else it is read again at the next check */
		note_right(store, use, &after);
	if (found == DAMAGED)
		note_damaged(store, use);
	return found == DAMAGED;
}

bool et_store_check_uses(struct et_platform_store *store, const _Atomic(bool) *of)
{
	bool has_damage = false;
	pthread_mutex_lock(&store->lock);
	for (struct et_list_node *node = store->uses.next; node != &store->uses;) {
		struct et_store_use *use = use_at(node);
		use->n_refs++;
		if (!of || use->is_damaged == of)
			has_damage |= check(store, use, false);
		/* a use that ended meanwhile is in no list; the rest is checked with the next call */
		node = et_list_is_empty(node) ? &store->uses : node->next;
		if (!--use->n_refs)
			free_use(use);
	}
	pthread_mutex_unlock(&store->lock);
	return has_damage;
}

bool et_store_check_use(struct et_platform_store *store, struct et_store_use *use)
{
	pthread_mutex_lock(&store->lock);
	use->n_refs++;
	bool has_damage = check(store, use, true);
	use->n_refs--; /* the caller's reference is left */
	pthread_mutex_unlock(&store->lock);
	return has_damage;
}

bool et_platform_store_check(struct et_platform_store *store)
{
	return et_store_check_uses(store, NULL);
}

void et_platform_store_stop(struct et_platform_store *store)
{
	atomic_store_explicit(&store->is_stopped, true, memory_order_relaxed);
}
