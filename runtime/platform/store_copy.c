/* SPDX-License-Identifier: BSD-3-Clause */
/* The saved copy of a program's file.
 *
 * A program is read from a private copy, so that nobody changes the bytes under a running model (file.c). To make the
 * copy is the largest part of loading a program whose packed weights were saved: the weights in the file are most of
 * its bytes, and nobody reads them again. So the copy is saved as well, and the next load maps it. Of a mapped file
 * only the pages are read that somebody asks for.
 *
 * It is a file of the store like the others: named by the SHA-256 of its contents, private to our user, compared with
 * its checksum before its first use after a change, checked in the background once a boot while it is in use. If it is
 * damaged, it is deleted, and its program is loaded anew (is_damaged of the binding). Its SHA-256 in the header is that
 * of the program. A copy from which no program can be made is checked at once, since no background check would come to
 * it.
 *
 * What must always be true: it stands for the program's file only if the file's identity is in a record that is certain
 * (store_folder.c), which is to say that nobody has written to the file since its digest was computed. Otherwise the
 * file is copied, as if there were no store. Later changes of the program's file have no effect on either copy. */
#include "runtime/platform/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The saved copy of the file with that identity; NULL: there is none, or it may not be used. */
static struct et_store_use *find_copy(struct et_platform_store *store, const struct et_platform_identity *identity,
	const char *path, int64_t *ret_seen_ns)
{
	char name[ET_STORE_NAME];
	struct et_store_record record;
	bool is_certain;
	et_store_program_name(name, identity);
	if (!et_store_record_read(store, name, identity, &record, &is_certain) || !is_certain)
		return NULL;
	struct et_store_use *use = et_store_find(store, record.digest, ET_STORE_COPY_KEY, path);
	if (use && use->mapping.n_bytes - ET_STORE_ALIGNMENT != identity->n_bytes) {
		et_store_use_end(store, use);
		return NULL;
	}
	*ret_seen_ns = record.seen_ns;
	return use;
}

static bool open_copy(struct et_platform_store *store, struct et_source *ret_source, const char *path,
	const struct et_platform_identity *identity)
{
	int64_t seen_ns;
	struct et_store_use *use = find_copy(store, identity, path, &seen_ns);
	struct et_platform_source *own = use ? calloc(1, sizeof(*own)) : NULL;
	if (use && !own)
		et_store_use_end(store, use);
	if (!own)
		return false;
	own->mapping = use->mapping;
	own->mapping.bytes = (uint8_t *)use->mapping.bytes + ET_STORE_ALIGNMENT;
	own->mapping.n_bytes -= ET_STORE_ALIGNMENT;
	own->fd = -1;
	own->identity = *identity;
	own->taken_ns = seen_ns;
	own->saved = use;
	et_platform_source_make(ret_source, own);
	return true;
}

enum et_status et_platform_store_open(struct et_platform_store *store, struct et_source *ret_source, const char *path,
	const char *cache_dir, const struct et_platform_copy_limits *limits, struct et_diag *diag)
{
	struct stat st;
	int fd = -1;
	enum et_status status = et_platform_open_path(&fd, path, &st, diag);
	if (status != ET_OK)
		return status;
	close(fd); /* it may be read */
	struct et_platform_identity identity = et_platform_identity_of(&st);
	if (S_ISREG(st.st_mode) && identity.n_bytes) {
		status = et_platform_check_size(limits, identity.n_bytes, path, diag);
		if (status != ET_OK)
			return status;
		if (open_copy(store, ret_source, path, &identity))
			return ET_OK;
	}
	return et_platform_source_open(ret_source, path, cache_dir, limits, diag);
}

bool et_platform_source_check(const struct et_source *source)
{
	struct et_platform_source *own = et_platform_source_of(source);
	if (!own || !own->saved || !own->binding)
		return false;
	return et_platform_store_is_damaged(&own->binding->table) ||
	       et_store_check_use(own->binding->store, own->saved);
}

/* Whether the folder and its disk have room for @n_bytes more. */
static bool has_room(struct et_platform_store *store, uint64_t n_bytes)
{
	struct statvfs st;
	uint64_t n_used = et_store_n_bytes(store);
	if (n_used > store->max_bytes || n_bytes > store->max_bytes - n_used)
		return false;
	return fstatvfs(store->dir_fd, &st) < 0 ||
	       n_bytes <= et_platform_room((uint64_t)st.f_bavail * st.f_frsize, (uint64_t)st.f_blocks * st.f_frsize);
}

void et_platform_store_save_copy(const struct et_source *source)
{
	struct et_platform_source *own = et_platform_source_of(source);
	struct et_store_binding *binding = own ? own->binding : NULL;
	char name[ET_STORE_NAME];
	uint8_t digest[ET_SHA256_BYTES];
	if (!binding || !own->is_written || !atomic_load_explicit(&binding->has_saved, memory_order_relaxed))
		return;
	struct et_platform_store *store = binding->store;
	if (atomic_load_explicit(&store->is_stopped, memory_order_relaxed) ||
		!et_store_look_digest_up(store, &binding->files[0], digest))
		return;
	et_store_saved_name(name, digest, ET_STORE_COPY_KEY);
	if (faccessat(store->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return;
	/* two records of a page belong to it */
	uint64_t n_bytes = (uint64_t)own->mapping.n_bytes + 3 * ET_STORE_ALIGNMENT;
	if (!has_room(store, n_bytes)) {
		et_logf(store->log, ET_LOG_DEBUG, "%s: no room in %s to save a copy of it", binding->name, store->path);
		return;
	}
	struct et_store_piece piece = { own->mapping.bytes, own->mapping.n_bytes };
	int rc = et_store_save(store, digest, ET_STORE_COPY_KEY, &piece, 1);
	if (rc && rc != -ECANCELED)
		et_logf(store->log, ET_LOG_NOTICE, "%s: cannot save a copy of it in %s: %s", binding->name, store->path,
			strerror(-rc));
	/* all were read just now, and most will not be needed again */
	madvise((void *)(uintptr_t)own->mapping.bytes, own->mapping.n_bytes, MADV_DONTNEED);
}

void et_platform_source_digest(const struct et_source *source, char ret_hex[ET_PLATFORM_DIGEST])
{
	static const char digits[] = "0123456789abcdef";
	struct et_platform_source *own = et_platform_source_of(source);
	struct et_store_binding *binding = own ? own->binding : NULL;
	uint8_t digest[ET_SHA256_BYTES];
	if (!binding || !et_store_look_digest_up(binding->store, &binding->files[0], digest)) {
		et_platform_digest(source->bytes, source->n_bytes, ret_hex);
		return;
	}
	for (unsigned i = 0; i < ET_SHA256_BYTES; i++) {
		ret_hex[2 * i] = digits[digest[i] >> 4];
		ret_hex[2 * i + 1] = digits[digest[i] & 15];
	}
	ret_hex[ET_PLATFORM_DIGEST - 1] = '\0';
}
