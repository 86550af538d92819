/* SPDX-License-Identifier: BSD-3-Clause */
/* A model file as bytes that no other process can change.
 *
 * Any process that may write a mapped file can truncate or rewrite it; then the bytes under a running model change or
 * disappear. So the contents are copied once, into an unlinked file. On a file system that shares extents (reflink)
 * this copies no data. The kernel can reclaim the pages of such a file, but not those of a memfd. So a memfd is used
 * only if there is no cache folder, or no room left in it. A store may save the copy for the next process
 * (store_copy.c).
 *
 * A reserve of the disk and of the memory is left to others; of the memory of the machine and of the process's cgroups.
 * A file that does not fit beside it is refused before anything is written. The copy is made in pieces, and the room is
 * measured again before each one: other copies and other processes write at the same time. Holes of a file that we
 * opened ourselves are not written out; its whole size counts nevertheless, because the model's readers go through all
 * of it.
 *
 * A tool that reads its own user's file for a moment may map the file itself (et_platform_source_map): everything
 * that decides an address is decoded once, and a page that disappears reads as zeros. */
#include "runtime/platform/file_internal.h"

#include "runtime/base/checked.h"
#include "runtime/platform/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* A copy on its way. */
struct copy {
	int from, to;
	uint64_t n_bytes;
	const char *cache_dir; /* NULL: memory */
	const struct et_platform_copy_limits *limits;
	bool may_seek;                   /* @from is ours, so that its position may be moved */
	bool is_memory;                  /* @to is a memfd */
	bool is_by_hand;                 /* the kernel can't copy between these two files */
	bool is_written;                 /* the bytes were written, not referred to */
	uint64_t disk_room, memory_room; /* as last measured; UINT64_MAX: not known */
	struct et_platform_identity identity;
};

enum { PIECE = 16 << 20 }; /* a stop is noticed, and the room measured again, after this many bytes */

uint64_t et_platform_room(uint64_t n_free, uint64_t n_all)
{
	const uint64_t least = UINT64_C(256) << 20;
	uint64_t quarter = n_all / 4, part = n_all / 20;
	uint64_t reserve = least < quarter ? least : quarter;
	reserve = part > reserve ? part : reserve;
	return n_free > reserve ? n_free - reserve : 0;
}

static uint64_t disk_room(int fd)
{
	struct statvfs st;
	if (fstatvfs(fd, &st) < 0)
		return UINT64_MAX;
	return et_platform_room((uint64_t)st.f_bavail * st.f_frsize, (uint64_t)st.f_blocks * st.f_frsize);
}

uint64_t et_platform_memory_room(void)
{
	unsigned long long all = 0, available = 0;
	bool is_known = false;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");
	while (file && !is_known && fgets(line, sizeof line, file)) {
		sscanf(line, "MemTotal: %llu kB", &all);
		is_known = sscanf(line, "MemAvailable: %llu kB", &available) == 1;
	}
	if (file)
		fclose(file);
	uint64_t of_machine = is_known ? et_platform_room(available << 10, all << 10) : UINT64_MAX;
	uint64_t of_cgroup = et_platform_cgroup_memory_room(ET_PLATFORM_CGROUP_MEMBERSHIP, ET_PLATFORM_CGROUP_ROOT);
	return of_machine < of_cgroup ? of_machine : of_cgroup;
}

static bool is_stopped(const struct copy *copy)
{
	const struct et_platform_copy_limits *limits = copy->limits;
	return limits && limits->is_stopped && limits->is_stopped(limits->arg);
}

/* Whether the copy may go on with @n_left bytes to write: 0; -ENOSPC or -ENOMEM: there is no room; -ECANCELED. */
static int check_copy(struct copy *copy, uint64_t n_left)
{
	if (is_stopped(copy))
		return -ECANCELED;
	if (copy->is_memory) {
		copy->memory_room = et_platform_memory_room();
		return n_left > copy->memory_room ? -ENOMEM : 0;
	}
	copy->disk_room = disk_room(copy->to);
	return n_left > copy->disk_room ? -ENOSPC : 0;
}

/* Copy [at, end) with read and write. 0 or negative errno: -ESTALE if the file ends before. */
static int copy_by_hand(int to, int from, off_t at, off_t end)
{
	uint8_t bytes[32 * 1024];
	while (at < end) {
		size_t wanted = end - at < (off_t)sizeof bytes ? (size_t)(end - at) : sizeof bytes;
		ssize_t n = pread(from, bytes, wanted, at);
		if (n <= 0)
			return n < 0 ? -errno : -ESTALE;
		ssize_t written = pwrite(to, bytes, (size_t)n, at);
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		at += written;
	}
	return 0;
}

static int copy_piece(struct copy *copy, off_t at, off_t end)
{
	loff_t in = at, out = at;
	while (in < end && !copy->is_by_hand) {
		ssize_t n = copy_file_range(copy->from, &in, copy->to, &out, (size_t)(end - in), 0);
		if (n < 0 && errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
			return -errno;
		copy->is_by_hand = n <= 0; /* some file systems return 0 for what they cannot do */
	}
	return copy_by_hand(copy->to, copy->from, in, end);
}

/* The next bytes to copy, from @at on, at most PIECE: [*ret_begin, *ret_end). Holes are passed over where the file's
 * position may be moved. False: the rest of the file is a hole. */
static bool next_piece(const struct copy *copy, off_t at, off_t *ret_begin, off_t *ret_end)
{
	off_t end = (off_t)copy->n_bytes;
	if (copy->may_seek) {
		off_t data = lseek(copy->from, at, SEEK_DATA);
		if (data >= end || (data < 0 && errno == ENXIO))
			return false;
		off_t hole = data < 0 ? -1 : lseek(copy->from, data, SEEK_HOLE);
		at = data < 0 ? at : data;
		end = hole > at && hole < end ? hole : end;
	}
	*ret_begin = at;
	*ret_end = end - at > PIECE ? at + PIECE : end;
	return true;
}

static int copy_contents(struct copy *copy)
{
	off_t begin = 0, end = 0;
	if (is_stopped(copy))
		return -ECANCELED;
	if (!copy->is_memory && ioctl(copy->to, FICLONE, copy->from) == 0)
		return 0;
	copy->is_written = true;
	int rc = check_copy(copy, copy->n_bytes);
	if (!rc && ftruncate(copy->to, (off_t)copy->n_bytes) < 0) /* the holes stay holes */
		rc = -errno;
	while (!rc && end < (off_t)copy->n_bytes && next_piece(copy, end, &begin, &end)) {
		rc = check_copy(copy, copy->n_bytes - (uint64_t)begin);
		if (!rc)
			rc = copy_piece(copy, begin, end);
	}
	return rc;
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

/* Negative errno, or the copy's descriptor. */
static int copy_once(struct copy *copy)
{
	int fd = open_nameless(copy->cache_dir, &copy->is_memory);
	copy->to = fd;
	if (fd < 0)
		return fd;
	struct stat ours, theirs, before;
	int rc = fstat(copy->from, &before) < 0 ? -errno : copy_contents(copy);
	if (!rc && (fstat(fd, &ours) < 0 || fstat(copy->from, &theirs) < 0))
		rc = -errno;
	if (!rc) {
		struct et_platform_identity first = et_platform_identity_of(&before);
		copy->identity = et_platform_identity_of(&theirs);
		if (memcmp(&first, &copy->identity, sizeof first) != 0)
			copy->identity.inode = 0;
	}
	if (!rc && ((uint64_t)ours.st_size != copy->n_bytes || (uint64_t)theirs.st_size != copy->n_bytes))
		rc = -ESTALE;
	if (!rc && copy->is_memory &&
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

/* Make the copy. Returns its descriptor, or negative errno: -ESTALE if the file's size is not n_bytes any more. */
static int copy_open(struct copy *copy)
{
	int fd = copy_once(copy);
	if ((fd == -ENOSPC || fd == -EDQUOT) && !copy->is_memory) {
		copy->cache_dir = NULL;
		fd = copy_once(copy);
	}
	return fd;
}

static enum et_status fail_copy(const struct copy *copy, int error, const char *name, struct et_diag *diag)
{
	unsigned long long n = copy->n_bytes >> 20, disk = copy->disk_room >> 20, memory = copy->memory_room >> 20;
	if (error == ESTALE)
		return et_fail(diag, ET_E_ACCESS_FAILED, "%s: its size changed while it was read", name);
	if (error == ECANCELED)
		return et_fail(diag, ET_E_CANCELLED, "%s: it was not copied: nobody waits for it any more", name);
	if (error != ENOSPC && error != EDQUOT && error != ENOMEM)
		return et_fail(diag, status_of(error), "%s: cannot copy it: %s", name, strerror(error));
	if (copy->memory_room != UINT64_MAX && copy->disk_room != UINT64_MAX)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES,
			"%s: its copy takes %llu MiB; beside a reserve, %llu MiB of the cache folder's disk and %llu "
			"MiB of memory are free",
			name, n, disk, memory);
	if (copy->memory_room != UINT64_MAX)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES,
			"%s: its copy takes %llu MiB; beside a reserve, %llu MiB of memory are free", name, n, memory);
	return et_fail(diag, status_of(error), "%s: cannot copy it: %s", name, strerror(error));
}

static void source_release(void *owner)
{
	struct et_platform_source *source = owner;
	bool is_saved = source->saved; /* then the mapping is the store's */
	et_store_leave(source);
	if (!is_saved)
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

void et_platform_source_make(struct et_source *ret_source, struct et_platform_source *own)
{
	*ret_source = (struct et_source){
		.bytes = own->mapping.bytes,
		.n_bytes = own->mapping.n_bytes,
		.owner = own,
		.release = source_release,
		.drop = source_drop,
	};
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
	et_platform_source_make(ret_source, source);
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

/* A file may have a long hole behind its contents, which takes no room on the disk or in a clone. But whoever reads all
 * of it, as for its digest, would be busy for hours. */
static enum et_status check_extent(const struct copy *copy, const char *name, struct et_diag *diag)
{
	uint8_t head[64];
	if (!copy->limits || !copy->limits->extent)
		return ET_OK;
	ssize_t n = pread(copy->from, head, sizeof head, 0);
	uint64_t extent = n > 0 ? copy->limits->extent(head, (size_t)n) : 0;
	if (!extent || copy->n_bytes <= extent || copy->n_bytes - extent <= PIECE)
		return ET_OK;
	return et_fail(diag, ET_E_INVALID_ARGUMENT,
		"%s: the file has %llu MiB, but what it contains ends after %llu MiB", name,
		(unsigned long long)(copy->n_bytes >> 20), (unsigned long long)((extent >> 20) + 1));
}

enum et_status et_platform_check_size(const struct et_platform_copy_limits *limits, uint64_t n_bytes, const char *name,
	struct et_diag *diag)
{
	if (!limits || n_bytes <= limits->max_bytes)
		return ET_OK;
	return et_fail(diag, ET_E_OUT_OF_RESOURCES,
		"%s: the file has %llu MiB, more than the %llu MiB that the memory budget leaves it", name,
		(unsigned long long)(n_bytes >> 20), (unsigned long long)(limits->max_bytes >> 20));
}

/* Make the copy, unless it is refused. *ret_fd is the caller's. */
static enum et_status copy_file(int *ret_fd, struct copy *copy, const char *name, struct et_diag *diag)
{
	const struct et_platform_copy_limits *limits = copy->limits;
	struct stat st;
	if (fstat(copy->from, &st) < 0)
		return et_fail(diag, ET_E_ACCESS_FAILED, "%s: cannot read it: %s", name, strerror(errno));
	enum et_status status = check_file(&st, copy->n_bytes, name, diag);
	if (status != ET_OK)
		return status;
	status = et_platform_check_size(limits, copy->n_bytes, name, diag);
	if (status == ET_OK)
		status = check_extent(copy, name, diag);
	if (status != ET_OK)
		return status;
	copy->disk_room = copy->memory_room = UINT64_MAX;
	int fd = copy_open(copy);
	if (fd < 0)
		return fail_copy(copy, -fd, name, diag);
	*ret_fd = fd;
	return ET_OK;
}

static enum et_status copy_source(struct et_source *ret_source, struct copy *copy, const char *name,
	struct et_diag *diag)
{
	int fd = -1;
	enum et_status status = copy_file(&fd, copy, name, diag);
	if (status != ET_OK)
		return status;
	status = map_source(ret_source, fd, copy->n_bytes, false, &copy->identity, name, diag);
	close(fd);
	struct et_platform_source *own = status == ET_OK ? et_platform_source_of(ret_source) : NULL;
	if (own)
		own->is_written = copy->is_written;
	return status;
}

enum et_status et_platform_source_import(struct et_source *ret_source, int fd, size_t n_bytes, const char *name,
	const char *cache_dir, const struct et_platform_copy_limits *limits, struct et_diag *diag)
{
	struct copy copy = { .from = fd, .n_bytes = n_bytes, .cache_dir = cache_dir, .limits = limits };
	return copy_source(ret_source, &copy, name, diag);
}

enum et_status et_platform_copy(int *ret_fd, int fd, size_t n_bytes, const char *name, const char *cache_dir,
	const struct et_platform_copy_limits *limits, struct et_diag *diag)
{
	struct copy copy = { .from = fd, .n_bytes = n_bytes, .cache_dir = cache_dir, .limits = limits };
	char path[40];
	int writable = -1;
	enum et_status status = copy_file(&writable, &copy, name, diag);
	if (status != ET_OK)
		return status;
	snprintf(path, sizeof path, "/proc/self/fd/%d", writable);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	int error = errno;
	close(writable);
	return *ret_fd >= 0 ? ET_OK : et_fail(diag, status_of(error), "%s: %s", name, strerror(error));
}

/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
enum et_status et_platform_open_path(int *ret_fd, const char *path, struct stat *ret_st, struct et_diag *diag)
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
	const struct et_platform_copy_limits *limits, struct et_diag *diag)
{
	struct stat st;
	int fd = -1;
	enum et_status status = et_platform_open_path(&fd, path, &st, diag);
	if (status != ET_OK)
		return status;
	struct copy copy = {
		.from = fd, .n_bytes = (uint64_t)st.st_size, .cache_dir = cache_dir, .limits = limits, .may_seek = true
	};
	status = copy_source(ret_source, &copy, path, diag);
	close(fd);
	return status;
}

enum et_status et_platform_source_map(struct et_source *ret_source, const char *path, struct et_diag *diag)
{
	struct stat st;
	int fd = -1;
	enum et_status status = et_platform_open_path(&fd, path, &st, diag);
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
