/* SPDX-License-Identifier: BSD-3-Clause */
/* A store in a folder: data that delegates made from a program, one file per key, found again by the program's
 * contents.
 *
 * A program is identified by the SHA-256 of its bytes; with data files, by the SHA-256 of all files' digests. A file's
 * digest is computed when something is first saved for it. Later loads find it under the file's identity
 * (store_folder.c), so no load reads the whole file for it, and programs that share a data file share its digest. If
 * the digest of one of the files is not known, find answers that nothing was saved.
 *
 *     header   magic, version, its own length, the digest, the key, length, checksum and SHA-256 of the body,
 *              and a checksum of the header
 *     body     the saved bytes, from ET_STORE_ALIGNMENT on
 *
 * The folder belongs to us, but a file in it may be damaged or planted. Only a regular file is opened that belongs to
 * us and that no other user may write. The header is read once, into memory of our own. The body is compared with its
 * checksum before anyone uses it (or was before, and the file has not been written to since). While it is in use it is
 * compared with its SHA-256 in the background, once a boot (store_check.c). A file that fails a check is logged and
 * deleted, and the delegate makes its data again.
 *
 * A new file is written under a temporary name, synced to disk, and renamed. So a reader sees all of it, or the file
 * before. Two writers at once write the same bytes; the later one wins. A mapping stays valid after its file was
 * replaced. */
#include "runtime/platform/store_internal.h"
#include "runtime/platform/cgroup.h"

#include "runtime/base/checked.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 2 };
#define MAGIC UINT64_C(0x70656b6472666e69) /* "infrdkep" on a little-endian machine */

struct header {
	uint64_t magic;
	uint32_t version, n_header;
	uint8_t digest[ET_SHA256_BYTES];
	uint64_t n_body, body_checksum;
	uint8_t body_digest[ET_SHA256_BYTES];
	char key[ET_STORE_MAX_KEY + 1]; /* padded with zeros */
	uint64_t checksum;              /* over all members above */
};
static_assert(sizeof(struct header) == 16 + 32 + 16 + 32 + 256 + 8, "no padding in a header");

/* --- identifying the program -------------------------------------------------------------------------- */

void et_store_program_name(char ret_name[ET_STORE_NAME], const struct et_platform_identity *identity)
{
	struct sha256_ctx sha;
	uint8_t digest[ET_SHA256_BYTES];
	sha256_init(&sha);
	sha256_update(&sha, sizeof(*identity), (const uint8_t *)identity);
	sha256_digest(&sha, sizeof(digest), digest);
	et_store_name(ret_name, digest, ".program");
}

void et_store_saved_name(char ret_name[ET_STORE_NAME], const uint8_t digest[ET_SHA256_BYTES], const char *key)
{
	struct sha256_ctx sha;
	uint8_t both[ET_SHA256_BYTES];
	sha256_init(&sha);
	sha256_update(&sha, ET_SHA256_BYTES, digest);
	sha256_update(&sha, strlen(key), (const uint8_t *)key);
	sha256_digest(&sha, sizeof(both), both);
	et_store_name(ret_name, both, ".kept");
}

static void set_digest(struct et_store_file *file, const uint8_t digest[ET_SHA256_BYTES])
{
	int state = ET_STORE_UNKNOWN; /* another thread may be setting the same digest */
	if (!atomic_compare_exchange_strong(&file->digest_state, &state, ET_STORE_BEING_SET))
		return;
	memcpy(file->digest, digest, ET_SHA256_BYTES);
	/* release: pairs with the acquire in et_store_look_digest_up */
	atomic_store_explicit(&file->digest_state, ET_STORE_KNOWN, memory_order_release);
}

enum { PIECE = 16 << 20 }; /* a stop is noticed after this many bytes */

static bool is_stopped(const struct et_platform_store *store)
{
	return atomic_load_explicit(&store->is_stopped, memory_order_relaxed);
}

/* Free the pages: all were read just now, and most will not be needed again. Later reads bring them back from the
 * copy. */
static void drop_pages(const struct et_platform_source *source)
{
	madvise((void *)(uintptr_t)source->mapping.bytes, source->mapping.n_bytes, MADV_DONTNEED);
}

bool et_store_look_digest_up(struct et_platform_store *store, struct et_store_file *file,
	uint8_t ret_digest[ET_SHA256_BYTES])
{
	const struct et_platform_source *source = file->source;
	char name[ET_STORE_NAME];
	struct et_store_record record;
	bool is_certain;
	/* acquire: pairs with the release in set_digest */
	if (atomic_load_explicit(&file->digest_state, memory_order_acquire) == ET_STORE_KNOWN) {
		memcpy(ret_digest, file->digest, ET_SHA256_BYTES);
		return true;
	}
	et_store_program_name(name, &source->identity);
	if (!et_store_record_read(store, name, &source->identity, &record, &is_certain))
		return false;
	if (!is_certain) {
		uint64_t contents = et_store_checksum(source->mapping.bytes, source->mapping.n_bytes);
		drop_pages(source);
		if (record.contents != contents)
			return false;
		record.seen_ns = source->taken_ns;
		et_store_record_write(store, name, &record);
	}
	memcpy(ret_digest, record.digest, ET_SHA256_BYTES);
	set_digest(file, record.digest);
	return true;
}

/* False: the store was stopped meanwhile. */
static bool make_digest(struct et_platform_store *store, struct et_store_file *file,
	uint8_t ret_digest[ET_SHA256_BYTES])
{
	const struct et_platform_source *source = file->source;
	const uint8_t *bytes = source->mapping.bytes;
	struct et_store_record record = { .identity = source->identity, .seen_ns = source->taken_ns };
	struct sha256_ctx sha;
	char name[ET_STORE_NAME];
	sha256_init(&sha);
	for (size_t at = 0, n; at < source->mapping.n_bytes; at += n) {
		if (is_stopped(store))
			return false;
		n = source->mapping.n_bytes - at < PIECE ? source->mapping.n_bytes - at : PIECE;
		sha256_update(&sha, n, bytes + at);
	}
	sha256_digest(&sha, sizeof(record.digest), record.digest);
	record.contents = et_store_checksum(bytes, source->mapping.n_bytes);
	drop_pages(source);
	memcpy(ret_digest, record.digest, ET_SHA256_BYTES);
	et_store_program_name(name, &source->identity);
	et_store_record_write(store, name, &record);
	set_digest(file, record.digest);
	return true;
}

/* The digest of all files together; for a single file its own. False: one of them is not known. With @makes it
 * computes those; false is then that the store was stopped. */
static bool find_digest(struct et_store_binding *binding, bool makes, uint8_t ret_digest[ET_SHA256_BYTES])
{
	struct sha256_ctx all;
	sha256_init(&all);
	for (uint32_t i = 0; i < binding->n_files; i++) {
		if (!et_store_look_digest_up(binding->store, &binding->files[i], ret_digest)) {
			if (!makes || !make_digest(binding->store, &binding->files[i], ret_digest))
				return false;
		}
		sha256_update(&all, ET_SHA256_BYTES, ret_digest);
	}
	if (binding->n_files > 1)
		sha256_digest(&all, ET_SHA256_BYTES, ret_digest);
	return true;
}

/* Whether the file still has the bytes from which the data was made. A copy's bytes never change. */
static bool is_unchanged(const struct et_platform_source *source)
{
	struct stat st;
	if (source->fd < 0)
		return true;
	if (et_platform_mapping_faulted(&source->mapping) || fstat(source->fd, &st) < 0)
		return false;
	struct et_platform_identity now = et_platform_identity_of(&st);
	return memcmp(&now, &source->identity, sizeof(now)) == 0;
}

/* --- finding ------------------------------------------------------------------------------------------ */

static uint64_t header_checksum(const struct header *header)
{
	return et_store_checksum(header, offsetof(struct header, checksum));
}

/* NULL, or what is wrong with the header. */
static const char *check_header(const struct header *header, const uint8_t *digest, const char *key, uint64_t n_file)
{
	if (header->magic != MAGIC)
		return "not a file of this store";
	if (header->version != VERSION || header->n_header != sizeof(*header))
		return "of another version";
	if (header->checksum != header_checksum(header))
		return "damaged header";
	if (memcmp(header->digest, digest, ET_SHA256_BYTES) != 0 ||
		memchr(header->key, 0, sizeof(header->key)) == NULL || strcmp(header->key, key) != 0)
		return "for another program or key";
	if (!header->n_body || !et_in_range(ET_STORE_ALIGNMENT, header->n_body, n_file) ||
		n_file != ET_STORE_ALIGNMENT + header->n_body)
		return "truncated";
	return NULL;
}

/* Whether the body's checksum is right, now or when it was last checked. */
static bool check_body(struct et_platform_store *store, struct et_store_use *use, const struct header *header)
{
	struct et_store_record record;
	char name[ET_STORE_NAME];
	bool is_certain = false;
	et_store_seen_name(name, use->name);
	if (et_store_record_read(store, name, &use->identity, &record, &is_certain) && is_certain &&
		record.contents == header->body_checksum) {
		use->is_checked = et_store_is_checked(store, use, &record);
		return true;
	}
	record = (struct et_store_record){ .identity = use->identity, .seen_ns = et_store_realtime_ns() };
	record.contents = et_store_checksum((const uint8_t *)use->mapping.bytes + ET_STORE_ALIGNMENT, header->n_body);
	if (record.contents != header->body_checksum)
		return false;
	et_store_record_write(store, name, &record);
	return true;
}

/* The digest that the body must have; NULL: that is not known before. */
static const uint8_t *expected_digest(const char *key, const uint8_t *digest)
{
	return strcmp(key, ET_STORE_COPY_KEY) == 0 ? digest : NULL;
}

/* Check and map the saved file use->fd. NULL, or what is wrong with it. */
static const char *open_kept(struct et_platform_store *store, struct et_store_use *use, const uint8_t *digest,
	const char *key)
{
	int fd = use->fd;
	struct stat st;
	struct header header;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return "another user may write to it";
	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return "truncated";
	const char *wrong = check_header(&header, digest, key, (uint64_t)st.st_size);
	const uint8_t *expected = expected_digest(key, digest);
	if (!wrong && expected && memcmp(header.body_digest, expected, ET_SHA256_BYTES) != 0)
		wrong = "for another program or key";
	if (wrong)
		return wrong;
	if (et_platform_map(&use->mapping, fd, (size_t)st.st_size, false) < 0)
		return "it cannot be mapped";
	use->identity = et_platform_identity_of(&st);
	memcpy(use->digest, header.body_digest, sizeof(use->digest));
	if (check_body(store, use, &header))
		return NULL;
	et_platform_unmap(&use->mapping);
	return "damaged";
}

/* NULL: no memory. */
static struct et_store_use *use_new(int fd, const char *saved, const char *program)
{
	size_t n_name = strlen(program) + 1;
	struct et_store_use *use = calloc(1, sizeof(*use) + n_name);
	if (!use)
		return NULL;
	use->fd = fd;
	memcpy(use->name, saved, sizeof(use->name));
	memcpy(use->program, program, n_name);
	return use;
}

struct et_store_use *et_store_find(struct et_platform_store *store, const uint8_t digest[ET_SHA256_BYTES],
	const char *key, const char *program)
{
	char saved[ET_STORE_NAME];
	et_store_saved_name(saved, digest, key);
	int fd = openat(store->dir_fd, saved, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return NULL;
	int error = errno;
	struct et_store_use *use = fd < 0 ? NULL : use_new(fd, saved, program);
	const char *wrong = fd < 0 ? strerror(error) : use ? open_kept(store, use, digest, key) : "no memory";
	if (!wrong)
		return use;
	et_logf(store->log, ET_LOG_WARNING, "%s: the data saved for it in %s/%s is not used (%s); it is made again",
		program, store->path, saved, wrong);
	unlinkat(store->dir_fd, saved, 0);
	if (fd >= 0)
		close(fd);
	free(use);
	return NULL;
}

static enum et_status find(void *self, const char *key, const uint8_t **ret_bytes, size_t *ret_n_bytes,
	void **ret_handle)
{
	struct et_store_binding *binding = self;
	struct et_platform_store *store = binding->store;
	uint8_t digest[ET_SHA256_BYTES];
	if (strcmp(key, ET_STORE_COPY_KEY) == 0 || !find_digest(binding, false, digest))
		return ET_E_NOT_FOUND;
	struct et_store_use *use = et_store_find(store, digest, key, binding->name);
	if (!use)
		return ET_E_NOT_FOUND;
	*ret_bytes = (const uint8_t *)use->mapping.bytes + ET_STORE_ALIGNMENT;
	*ret_n_bytes = use->mapping.n_bytes - ET_STORE_ALIGNMENT;
	*ret_handle = use;
	use->is_damaged = &binding->is_damaged;
	et_store_use_begin(store, use);
	atomic_store_explicit(&binding->has_saved, true, memory_order_relaxed);
	return ET_OK;
}

static void release(void *self, void *handle)
{
	struct et_store_binding *binding = self;
	et_store_use_end(binding->store, handle);
}

/* --- saving ------------------------------------------------------------------------------------------- */

static int write_all(int fd, const void *bytes, size_t n_bytes, off_t offset)
{
	const uint8_t *from = bytes;
	while (n_bytes) {
		ssize_t n = pwrite(fd, from, n_bytes, offset);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		from += n;
		offset += n;
		n_bytes -= (size_t)n;
	}
	return 0;
}

/* Write @piece at @offset, and to the disk as it goes, so that a stop is noticed also on a slow one. 0, or negative
 * errno. */
static int write_piece(const struct et_platform_store *store, int fd, const struct et_store_piece *piece, off_t offset)
{
	for (size_t at = 0, n; at < piece->n_bytes; at += n) {
		n = piece->n_bytes - at < PIECE ? piece->n_bytes - at : PIECE;
		int rc = is_stopped(store) ? -ECANCELED
					   : write_all(fd, (const uint8_t *)piece->bytes + at, n, offset + (off_t)at);
		if (!rc && n == PIECE && fdatasync(fd) < 0)
			rc = -errno;
		if (rc)
			return rc;
	}
	return 0;
}

/* Write header and body to @fd. The checksum is computed from the file's contents. 0, or negative errno. */
static int write_kept(const struct et_platform_store *store, int fd, const uint8_t *digest, const char *key,
	const struct et_store_piece *pieces, size_t n_pieces)
{
	struct header header = { .magic = MAGIC, .version = VERSION, .n_header = sizeof(header) };
	struct et_platform_mapping mapping = { 0 };
	struct sha256_ctx sha;
	sha256_init(&sha);
	memcpy(header.digest, digest, ET_SHA256_BYTES);
	memcpy(header.key, key, strlen(key));
	for (size_t i = 0; i < n_pieces; i++) {
		int rc = write_piece(store, fd, &pieces[i], (off_t)(ET_STORE_ALIGNMENT + header.n_body));
		if (rc)
			return rc;
		header.n_body += pieces[i].n_bytes;
		sha256_update(&sha, pieces[i].n_bytes, pieces[i].bytes);
	}
	sha256_digest(&sha, sizeof(header.body_digest), header.body_digest);
	const uint8_t *expected = expected_digest(key, digest);
	if (expected && memcmp(header.body_digest, expected, ET_SHA256_BYTES) != 0)
		return -ESTALE;
	int rc = header.n_body ? et_platform_map(&mapping, fd, ET_STORE_ALIGNMENT + header.n_body, false) : -EINVAL;
	if (rc)
		return rc;
	header.body_checksum = et_store_checksum((const uint8_t *)mapping.bytes + ET_STORE_ALIGNMENT, header.n_body);
	et_platform_unmap(&mapping);
	header.checksum = header_checksum(&header);
	rc = write_all(fd, &header, sizeof(header), 0);
	if (rc)
		return rc;
	return fsync(fd) < 0 ? -errno : 0;
}

int et_store_save(struct et_platform_store *store, const uint8_t digest[ET_SHA256_BYTES], const char *key,
	const struct et_store_piece *pieces, size_t n_pieces)
{
	char temporary[ET_STORE_NAME + 40], saved[ET_STORE_NAME];
	et_store_saved_name(saved, digest, key);
	int fd = et_store_temporary(store, temporary);
	if (fd < 0)
		return fd;
	int rc = write_kept(store, fd, digest, key, pieces, n_pieces);
	if (!rc && renameat(store->dir_fd, temporary, store->dir_fd, saved) < 0)
		rc = -errno;
	if (rc)
		unlinkat(store->dir_fd, temporary, 0);
	close(fd); /* and with it the lock: see et_store_delete_abandoned */
	if (rc)
		return rc;
	fsync(store->dir_fd);
	et_store_prune(store, saved);
	return 0;
}

static enum et_status keep(void *self, const char *key, const struct et_store_piece *pieces, size_t n_pieces,
	struct et_diag *diag)
{
	struct et_store_binding *binding = self;
	struct et_platform_store *store = binding->store;
	uint8_t digest[ET_SHA256_BYTES];
	uint64_t n_bytes = ET_STORE_ALIGNMENT;
	if (strlen(key) > ET_STORE_MAX_KEY)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "the key is too long");
	if (strcmp(key, ET_STORE_COPY_KEY) == 0)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "the key '%s' is the store's own", key);
	for (size_t i = 0; i < n_pieces; i++)
		n_bytes += pieces[i].n_bytes;
	if (n_bytes > store->max_bytes)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES,
			"%s: %llu bytes to save, more than the %llu that %s may hold", binding->name,
			(unsigned long long)n_bytes, (unsigned long long)store->max_bytes, store->path);
	/* the pieces may lie in what find has returned: damage must not get a digest of its own */
	et_store_check_uses(store, &binding->is_damaged);
	if (et_platform_store_is_damaged(&binding->table))
		return et_fail(diag, ET_E_INVALID_STATE, "%s: what was saved for it before is damaged", binding->name);
	if (!find_digest(binding, true, digest) || is_stopped(store))
		return et_fail(diag, ET_E_CANCELLED, "%s: nothing is saved for it any more", binding->name);
	for (uint32_t i = 0; i < binding->n_files; i++)
		if (!is_unchanged(binding->files[i].source))
			return et_fail(diag, ET_E_INVALID_STATE,
				"%s: %s was changed meanwhile; nothing is saved for it", binding->name,
				i ? "one of its data files" : "the file");
	int rc = et_store_save(store, digest, key, pieces, n_pieces);
	if (rc == -ECANCELED)
		return et_fail(diag, ET_E_CANCELLED, "%s: nothing is saved for it any more", binding->name);
	if (rc)
		return et_fail(diag, ET_E_ACCESS_FAILED, "%s: cannot save %llu bytes in %s: %s", binding->name,
			(unsigned long long)n_bytes, store->path, strerror(-rc));
	atomic_store_explicit(&binding->has_saved, true, memory_order_relaxed);
	return ET_OK;
}

bool et_platform_store_is_damaged(const struct et_store *store)
{
	/* acquire: pairs with the release in store_check.c */
	return store && store->keep == keep &&
	       atomic_load_explicit(&((struct et_store_binding *)store->self)->is_damaged, memory_order_acquire);
}

/* --- opening a folder, binding a program to it -------------------------------------------------------- */

struct et_platform_store *et_platform_store_new(const char *dir, uint64_t max_bytes, const struct et_log *log,
	struct et_diag *diag)
{
	struct stat st;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		et_fail(diag, ET_E_ACCESS_FAILED, "%s: %s", dir, strerror(errno));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
		et_fail(diag, ET_E_ACCESS_FAILED, "%s: the folder belongs to another user, or others may write to it",
			dir);
		close(fd);
		return NULL;
	}
	struct et_platform_store *store = calloc(1, sizeof(*store) + strlen(dir) + 1);
	if (!store) {
		et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "%s: no memory", dir);
		close(fd);
		return NULL;
	}
	et_ref_init(&store->ref);
	pthread_mutex_init(&store->lock, NULL);
	et_list_init(&store->uses);
	store->dir_fd = fd;
	et_platform_read_text("/proc/sys/kernel/random", "boot_id", store->boot_id, sizeof(store->boot_id));
	store->max_bytes = max_bytes;
	store->log = log;
	memcpy(store->path, dir, strlen(dir));
	et_store_delete_abandoned(store);
	return store;
}

struct et_platform_store *et_platform_store_ref(struct et_platform_store *store)
{
	et_ref_get(&store->ref);
	return store;
}

struct et_platform_store *et_platform_store_unref(struct et_platform_store *store)
{
	if (store && et_ref_put(&store->ref)) {
		close(store->dir_fd);
		pthread_mutex_destroy(&store->lock);
		free(store);
	}
	return NULL;
}

/* File @index of the program: number 0 is its own, data files follow; NULL beyond the last. */
static const struct et_source *file_at(const struct et_source *program, const struct et_external_data *external,
	uint32_t number)
{
	if (!number)
		return program;
	return external ? external->source_at(external->self, number - 1) : NULL;
}

/* The number of files; 0 if the external data does not tell which files it has. */
static uint32_t count_files(const struct et_source *program, const struct et_external_data *external)
{
	uint32_t n = 0;
	if (external && !external->source_at)
		return 0;
	for (const struct et_source *file; (file = file_at(program, external, n)); n++) {
		const struct et_platform_source *own = et_platform_source_of(file);
		if (!own || !own->identity.inode)
			return 0;
	}
	return n;
}

enum et_status et_platform_store_bind(struct et_platform_store *store, struct et_source *source,
	const struct et_external_data *external, const char *name, struct et_diag *diag)
{
	struct et_platform_source *own = et_platform_source_of(source);
	uint32_t n_files = count_files(source, external);
	if (own && own->binding)
		source->store = &own->binding->table;
	if (!n_files || own->binding)
		return ET_OK; /* a file that file.c did not open cannot be identified: no store for this program */
	size_t n_bytes = sizeof(struct et_store_binding) + n_files * sizeof(struct et_store_file);
	struct et_store_binding *binding = calloc(1, n_bytes + strlen(name) + 1);
	if (!binding)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "%s: no memory", name);
	binding->table = (struct et_store){
		.self = binding,
		.find = find,
		.release = release,
		.keep = keep,
	};
	binding->store = et_platform_store_ref(store);
	binding->n_files = n_files;
	for (uint32_t i = 0; i < n_files; i++) {
		binding->files[i].source = et_platform_source_of(file_at(source, external, i));
		atomic_init(&binding->files[i].digest_state, ET_STORE_UNKNOWN);
	}
	binding->name = memcpy((char *)binding + n_bytes, name, strlen(name) + 1);
	own->binding = binding;
	source->store = &binding->table;
	if (own->saved) {
		own->saved->is_damaged = &binding->is_damaged;
		et_store_use_begin(store, own->saved);
	}
	return ET_OK;
}

void et_store_leave(struct et_platform_source *source)
{
	struct et_store_binding *binding = source->binding;
	if (source->saved)
		et_store_use_end(binding ? binding->store : NULL, source->saved);
	if (!binding)
		return;
	et_platform_store_unref(binding->store);
	free(binding);
}
