/* SPDX-License-Identifier: BSD-3-Clause */
/* Changing the repository's folder, step by step so that a crash at any step leaves it whole.
 *
 * A new version is built in a hidden folder of the repository, on the same file system. Each file is synced, then the
 * folders, then one rename makes all of it visible. The lock on the repository's folder lets one change happen at a
 * time, so a hidden folder that is there when the lock was taken belongs to nobody. */
#include "clients/inferctl/deploy/repository.h"

#include "clients/inferctl/ctl.h"
#include "config/model_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIDDEN      ".import-"
#define ROLLED_BACK ".rolled-back"
enum { NAME_ROOM = 600 };

static bool fail(const struct ctl_repository *r, const char *name)
{
	ctl_fail("%s/%s: %s%s", r->path, name, strerror(errno),
		errno == EACCES || errno == EPERM || errno == EROFS
			? ": who changes models must be able to write there, as root is"
			: "");
	return false;
}

/* Remove the file or folder @name below @at, whatever it holds. */
static bool remove_all(int at, const char *name)
{
	if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
		return true;
	if (errno != EISDIR && errno != EPERM)
		return false;
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	bool is_removed = folder;
	if (!folder) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	for (struct dirent *entry; (entry = readdir(folder));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			is_removed = remove_all(dirfd(folder), entry->d_name) && is_removed;
	closedir(folder);
	return is_removed && unlinkat(at, name, AT_REMOVEDIR) == 0;
}

static bool remove_left_over(const struct ctl_repository *r)
{
	int fd = openat(r->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	bool is_done = folder;
	if (!folder) {
		if (fd >= 0)
			close(fd);
		return fail(r, "");
	}
	for (struct dirent *entry; is_done && (entry = readdir(folder));)
		if (strncmp(entry->d_name, HIDDEN, sizeof(HIDDEN) - 1) == 0 && !remove_all(r->fd, entry->d_name))
			is_done = fail(r, entry->d_name);
	closedir(folder);
	return is_done;
}

bool ctl_repository_open(struct ctl_repository *ret, const char *path)
{
	*ret = (struct ctl_repository){ .path = path };
	ret->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->fd < 0 || flock(ret->fd, LOCK_EX) < 0) {
		fail(ret, "");
		ctl_repository_close(ret);
		return false;
	}
	if (remove_left_over(ret))
		return true;
	ctl_repository_close(ret);
	return false;
}

void ctl_repository_close(struct ctl_repository *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

/* --- versions ------------------------------------------------------------------------------------- */

static bool is_program(const char *name)
{
	size_t n = strlen(name);
	return name[0] != '.' &&
	       ((n > 4 && strcmp(name + n - 4, ".pte") == 0) || (n > 5 && strcmp(name + n - 5, ".bpte") == 0));
}

static int compare(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
	return x < y ? -1 : x > y;
}

/* The version that the entry of a model's folder stands for; -1: none. */
static long version_of(const char *name, bool has_rolled_back)
{
	char number[16];
	size_t n = strspn(name, "0123456789");
	if (!n || n >= sizeof(number) || (name[n] && (!has_rolled_back || strcmp(name + n, ROLLED_BACK) != 0)))
		return -1;
	memcpy(number, name, n);
	number[n] = '\0';
	return inf_version_is_valid(number) ? strtol(number, NULL, 10) : -1;
}

static size_t add_version(unsigned **versions, size_t n, unsigned version)
{
	for (size_t i = 0; i < n; i++)
		if ((*versions)[i] == version)
			return n;
	*versions = ctl_grow(*versions, n + 1, sizeof(**versions));
	(*versions)[n] = version;
	return n + 1;
}

/* Whether folder @name holds a program: without one it is no version, for the daemon neither. */
static bool has_program(int at, const char *name)
{
	bool is_found = false;
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; folder && !is_found && (entry = readdir(folder));)
		is_found = is_program(entry->d_name);
	if (folder)
		closedir(folder);
	else if (fd >= 0)
		close(fd);
	return is_found;
}

size_t ctl_repository_versions(struct ctl_repository *r, const char *model, bool has_rolled_back,
	unsigned **ret_versions)
{
	char flat[NAME_ROOM];
	struct stat st;
	size_t n = 0;
	*ret_versions = NULL;
	int fd = openat(r->fd, model, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		long version = version_of(entry->d_name, has_rolled_back);
		if (fstatat(dirfd(folder), entry->d_name, &st, 0) < 0)
			continue;
		if (version >= 0 && has_program(dirfd(folder), entry->d_name))
			n = add_version(ret_versions, n, (unsigned)version);
		else if (!S_ISDIR(st.st_mode) && is_program(entry->d_name))
			n = add_version(ret_versions, n, 1);
	}
	if (folder)
		closedir(folder);
	else if (fd >= 0)
		close(fd);
	for (int i = 0; i < 2; i++) {
		snprintf(flat, sizeof(flat), "%s%s", model, i ? ".bpte" : ".pte");
		if (fstatat(r->fd, flat, &st, 0) == 0)
			n = add_version(ret_versions, n, 1);
	}
	if (n)
		qsort(*ret_versions, n, sizeof(**ret_versions), compare);
	return n;
}

/* --- changes -------------------------------------------------------------------------------------- */

static bool sync_folder(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool is_synced = fd >= 0 && fsync(fd) == 0;
	int error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return is_synced;
}

/* Copy the file at @from to the new file @to below @at. */
static bool copy_file(int at, const char *to, const char *from)
{
	enum { PIECE = 1 << 18 };
	char *buffer = ctl_alloc(1, PIECE);
	int in = open(from, O_RDONLY | O_CLOEXEC), out = -1;
	ssize_t n = -1;
	if (in >= 0)
		out = openat(at, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	while (out >= 0 && (n = read(in, buffer, PIECE)) > 0) {
		for (ssize_t done = 0, step; done < n; done += step) {
			step = write(out, buffer + done, (size_t)(n - done));
			if (step < 0) {
				n = -1;
				break;
			}
		}
		if (n < 0)
			break;
	}
	/* the daemon is another user, whatever the umask says */
	bool is_whole = n == 0 && fchmod(out, 0644) == 0 && fsync(out) == 0;
	int error = errno;
	if (out >= 0 && close(out) < 0 && is_whole) {
		is_whole = false;
		error = errno;
	}
	if (in >= 0)
		close(in);
	free(buffer);
	errno = error;
	return is_whole;
}

static bool make_folder(int at, const char *name)
{
	return mkdirat(at, name, 0755) == 0 && fchmodat(at, name, 0755, 0) == 0;
}

/* Fill the hidden folder's version @inner, and make it complete on the disk. */
static bool build(struct ctl_repository *r, const char *hidden, const char *inner, const char *const *files,
	size_t n_files)
{
	if (!make_folder(r->fd, hidden) || !make_folder(r->fd, inner))
		return fail(r, inner);
	for (size_t i = 0; i < n_files; i++) {
		const char *slash = strrchr(files[i], '/');
		char *to = ctl_format("%s/%s", inner, slash ? slash + 1 : files[i]);
		bool is_copied = copy_file(r->fd, to, files[i]);
		if (!is_copied)
			ctl_fail("%s can't be copied to %s: %s", files[i], r->path, strerror(errno));
		free(to);
		if (!is_copied)
			return false;
	}
	return (sync_folder(r->fd, inner) && sync_folder(r->fd, hidden)) || fail(r, inner);
}

bool ctl_repository_add(struct ctl_repository *r, const char *model, unsigned version, const char *const *files,
	size_t n_files)
{
	char hidden[64], inner[128], to[NAME_ROOM];
	struct stat st;
	bool is_new = fstatat(r->fd, model, &st, 0) < 0;
	snprintf(hidden, sizeof(hidden), HIDDEN "%ld", (long)getpid());
	snprintf(inner, sizeof(inner), "%s/%u", hidden, version);
	snprintf(to, sizeof(to), "%s/%u", model, version);
	bool is_added = build(r, hidden, inner, files, n_files);
	/* a new model comes with its folder: nobody sees the model without the version */
	const char *built = is_new ? hidden : inner, *there = is_new ? model : to;
	if (is_added && renameat2(r->fd, built, r->fd, there, RENAME_NOREPLACE) < 0)
		is_added = fail(r, to);
	if (is_added && !(sync_folder(r->fd, model) && sync_folder(r->fd, "."))) {
		is_added = fail(r, to);
		renameat2(r->fd, there, r->fd, built, RENAME_NOREPLACE); /* a power failure might take it away later */
	}
	remove_all(r->fd, hidden);
	return is_added;
}

bool ctl_repository_withdraw(struct ctl_repository *r, const char *model, unsigned version)
{
	char hidden[64], from[NAME_ROOM];
	snprintf(hidden, sizeof(hidden), HIDDEN "%ld", (long)getpid());
	snprintf(from, sizeof(from), "%s/%u", model, version);
	if (renameat2(r->fd, from, r->fd, hidden, RENAME_NOREPLACE) < 0)
		return fail(r, from);
	remove_all(r->fd, hidden);
	unlinkat(r->fd, model, AT_REMOVEDIR); /* if nothing else is in it */
	sync_folder(r->fd, ".");
	return true;
}

bool ctl_repository_roll(struct ctl_repository *r, const char *model, unsigned version, bool is_back)
{
	char good[NAME_ROOM], rolled[NAME_ROOM];
	snprintf(good, sizeof(good), "%s/%u", model, version);
	snprintf(rolled, sizeof(rolled), "%s/%u" ROLLED_BACK, model, version);
	const char *from = is_back ? rolled : good, *to = is_back ? good : rolled;
	if (renameat2(r->fd, from, r->fd, to, RENAME_NOREPLACE) < 0)
		return fail(r, from);
	if (sync_folder(r->fd, model))
		return true;
	fail(r, model);
	renameat2(r->fd, to, r->fd, from, RENAME_NOREPLACE);
	return false;
}
