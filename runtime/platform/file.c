/* SPDX-License-Identifier: BSD-3-Clause */
/* A model file as bytes that no other process can change.
 *
 * Any process that may write a mapped file can truncate or rewrite it; then the bytes under a running model change or
 * disappear. So the contents are copied once, into an unlinked file. On a file system that shares extents (reflink)
 * this copies no data. The kernel can reclaim the pages of such a file, but not those of a memfd. So a memfd is used
 * only if there is no cache folder, or no room left in it.
 *
 * A tool that reads its own user's file for a moment may map the file itself (et_platform_source_map): everything
 * that decides an address is decoded once, and a page that disappears reads as zeros. */
#include "runtime/platform/file_internal.h"

#include "runtime/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Copy [done, n_bytes) with read and write. 0 or negative errno. If the file ends early, the copy is short. */
static int copy_by_hand(int to, int from, off_t done, off_t n_bytes)
{
	uint8_t piece[32 * 1024];
	while (done < n_bytes) {
		size_t wanted = n_bytes - done < (off_t)sizeof piece ? (size_t)(n_bytes - done) : sizeof piece;
		ssize_t n = pread(from, piece, wanted, done);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		ssize_t written = pwrite(to, piece, (size_t)n, done);
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		done += written;
	}
	return 0;
}

static int copy_contents(int to, int from, off_t n_bytes)
{
	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	loff_t in = 0, out = 0;
	while (in < n_bytes) {
		ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(n_bytes - in), 0);
		if (n < 0 && errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
			return -errno;
		if (n <= 0)
			break; /* the file system cannot copy between these two; some return 0 for that */
	}
	return copy_by_hand(to, from, in, n_bytes);
}

/* Create an unlinked file for the copy. *ret_is_memory: it is a memfd. Negative errno on failure. */
static int open_nameless(const char *cache_dir, bool *ret_is_memory)
{
	int fd = cache_dir ? open(cache_dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600) : -1;
	*ret_is_memory = fd < 0;
	if (fd < 0)
		fd = memfd_create("inferd-model", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

/* A resource that has run out may be available later; any other error is the file's fault. */
static enum et_status status_of(int error)
{
	switch (error) {
	case ENOMEM:
		return ET_E_MEMORY_ALLOCATION_FAILED;
	case EMFILE:
	case ENFILE:
	case ENOSPC:
	case EDQUOT:
		return ET_E_OUT_OF_RESOURCES;
	default:
		return ET_E_ACCESS_FAILED;
	}
}

static uint64_t ns_of(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
}

struct et_platform_identity et_platform_identity_of(const struct stat *st)
{
	return (struct et_platform_identity){
		.device = st->st_dev,
		.inode = st->st_ino,
		.n_bytes = (uint64_t)st->st_size,
		.mtime_ns = ns_of(&st->st_mtim),
		.ctime_ns = ns_of(&st->st_ctim),
	};
}

static int copy_to(int from, size_t n_bytes, const char *cache_dir, bool *ret_is_memory,
	struct et_platform_identity *ret_identity)
{
	bool is_memory;
	int fd = open_nameless(cache_dir, &is_memory);
	*ret_is_memory = is_memory;
	if (fd < 0)
		return fd;
	struct stat ours, theirs, before;
	int rc = fstat(from, &before) < 0 ? -errno : copy_contents(fd, from, (off_t)n_bytes);
	if (!rc && (fstat(fd, &ours) < 0 || fstat(from, &theirs) < 0))
		rc = -errno;
	if (!rc) {
		struct et_platform_identity first = et_platform_identity_of(&before);
		*ret_identity = et_platform_identity_of(&theirs);
		if (memcmp(&first, ret_identity, sizeof first) != 0)
			ret_identity->inode = 0;
	}
	if (!rc && ((size_t)ours.st_size != n_bytes || (size_t)theirs.st_size != n_bytes))
		rc = -ESTALE;
	if (!rc && is_memory && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

/* Make the copy. Returns its descriptor, or negative errno: -ESTALE if the file's size is not @n_bytes any more. */
static int copy_open(int from, size_t n_bytes, const char *cache_dir, struct et_platform_identity *ret_identity)
{
	bool is_memory;
	int fd = copy_to(from, n_bytes, cache_dir, &is_memory, ret_identity);
	if ((fd == -ENOSPC || fd == -EDQUOT) && !is_memory)
		fd = copy_to(from, n_bytes, NULL, &is_memory, ret_identity);
	return fd;
}

static void source_release(void *owner)
{
	struct et_platform_source *source = owner;
	et_store_binding_free(source->binding);
	et_platform_unmap(&source->mapping);
	if (source->fd >= 0)
		close(source->fd);
	free(source);
}

struct et_platform_source *et_platform_source_of(const struct et_source *source)
{
	return source->release == source_release ? source->owner : NULL;
}

/* Free only whole pages: the bytes at both ends may belong to neighbours. A later read brings the pages back from
 * the copy. */
static void source_drop(void *owner, size_t offset, size_t n)
{
	struct et_platform_source *source = owner;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t begin, end;
	if (!et_in_range(offset, n, source->mapping.n_bytes) || !et_align_up(offset, page, &begin))
		return;
	end = (offset + n) & ~(page - 1);
	if (begin < end)
		madvise((uint8_t *)source->mapping.bytes + begin, end - begin, MADV_DONTNEED);
}

/* Map @fd, which is the copy or the file itself (@is_original). On success the source owns @fd if @is_original. */
static enum et_status map_source(struct et_source *ret_source, int fd, size_t n_bytes, bool is_original,
	const struct et_platform_identity *identity, const char *name, struct et_diag *diag)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	struct et_platform_source *source = calloc(1, sizeof *source);
	int rc = source ? et_platform_map(&source->mapping, fd, n_bytes, false) : -ENOMEM;
	if (rc) {
		free(source);
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "%s: cannot map %zu bytes: %s", name, n_bytes,
			strerror(-rc));
	}
	source->fd = is_original ? fd : -1;
	source->identity = *identity;
	source->taken_ns = (int64_t)ns_of(&now);
	*ret_source = (struct et_source){
		.bytes = source->mapping.bytes,
		.n_bytes = n_bytes,
		.owner = source,
		.release = source_release,
		.drop = source_drop,
	};
	return ET_OK;
}

static enum et_status check_file(const struct stat *st, size_t n_bytes, const char *name, struct et_diag *diag)
{
	if (!S_ISREG(st->st_mode))
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "%s: it is not a regular file", name);
	if (!n_bytes)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "%s: the file is empty", name);
	if (n_bytes > PTRDIFF_MAX)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "%s: the file is too large", name);
	return ET_OK;
}

enum et_status et_platform_source_import(struct et_source *ret_source, int fd, size_t n_bytes, const char *name,
	const char *cache_dir, struct et_diag *diag)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return et_fail(diag, ET_E_ACCESS_FAILED, "%s: cannot read it: %s", name, strerror(errno));
	enum et_status status = check_file(&st, n_bytes, name, diag);
	if (status != ET_OK)
		return status;
	struct et_platform_identity identity = { 0 };
	int copy = copy_open(fd, n_bytes, cache_dir, &identity);
	if (copy == -ESTALE)
		return et_fail(diag, ET_E_ACCESS_FAILED, "%s: its size changed while it was read", name);
	if (copy < 0)
		return et_fail(diag, status_of(-copy), "%s: cannot copy it: %s", name, strerror(-copy));
	status = map_source(ret_source, copy, n_bytes, false, &identity, name, diag);
	close(copy);
	return status;
}

/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
static enum et_status open_path(int *ret_fd, const char *path, struct stat *ret_st, struct et_diag *diag)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && fstat(fd, ret_st) == 0) {
		*ret_fd = fd;
		return ET_OK;
	}
	int error = errno;
	if (fd >= 0)
		close(fd);
	if (error == EACCES) /* name the user: whoever reads the text is rarely the daemon's user */
		return et_fail(diag, status_of(error), "%s: cannot open it: %s to user %u", path, strerror(error),
			(unsigned)geteuid());
	return et_fail(diag, status_of(error), "%s: cannot open it: %s", path, strerror(error));
}

enum et_status et_platform_source_open(struct et_source *ret_source, const char *path, const char *cache_dir,
	struct et_diag *diag)
{
	struct stat st;
	int fd = -1;
	enum et_status status = open_path(&fd, path, &st, diag);
	if (status != ET_OK)
		return status;
	status = et_platform_source_import(ret_source, fd, (size_t)st.st_size, path, cache_dir, diag);
	close(fd);
	return status;
}

enum et_status et_platform_source_map(struct et_source *ret_source, const char *path, struct et_diag *diag)
{
	struct stat st;
	int fd = -1;
	enum et_status status = open_path(&fd, path, &st, diag);
	if (status != ET_OK)
		return status;
	status = check_file(&st, (size_t)st.st_size, path, diag);
	if (status == ET_OK) {
		struct et_platform_identity identity = et_platform_identity_of(&st);
		status = map_source(ret_source, fd, (size_t)st.st_size, true, &identity, path, diag);
	}
	if (status != ET_OK)
		close(fd);
	return status;
}
