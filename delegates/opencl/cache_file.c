/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of the cache folder.
 *
 * What must always be true: a file with a name of its own is whole; what is still being written has another name. What
 * was read has passed ocl_cache_check. Nothing here limits how much the folder takes. */
#include "delegates/opencl/cache_file.h"

#include "runtime/platform/platform.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char aside[] = ".ocl-";

enum { PATH_ROOM = 1024, OLD_SECONDS = 3600 };

void ocl_cache_key(const char *const *texts, size_t n_texts, char ret_key[OCL_KEY])
{
	char digests[8 * (OCL_KEY - 1) + 1] = "";
	assert(n_texts <= 8);
	for (size_t i = 0; i < n_texts; i++)
		et_platform_digest(texts[i], strlen(texts[i]), digests + i * (OCL_KEY - 1));
	et_platform_digest(digests, n_texts * (OCL_KEY - 1), ret_key);
}

static void put_path(char path[PATH_ROOM], const char *folder, enum ocl_cache_kind kind, const char *key)
{
	snprintf(path, PATH_ROOM, "%.800s/%.64s.%s", folder, key, ocl_cache_endings[kind]);
}

static bool read_all(int fd, uint8_t *to, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = read(fd, to + at, n - at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += (size_t)got;
	}
	return true;
}

static bool write_all(int fd, const uint8_t *from, size_t n)
{
	while (n) {
		ssize_t put = write(fd, from, n);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		from += put;
		n -= (size_t)put;
	}
	return true;
}

/* *ret_bytes is heap memory. */
static enum et_status read_file(int fd, uint8_t **ret_bytes, size_t *ret_n, struct et_diag *diag)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > OCL_MAX_CACHE_FILE)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "it is no file, or of %lld bytes", (long long)st.st_size);
	size_t n = (size_t)st.st_size;
	uint8_t *bytes = malloc(n + 1);
	if (!bytes)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a file of %zu bytes", n);
	if (!read_all(fd, bytes, n)) {
		free(bytes);
		return et_fail(diag, ET_E_INVALID_PROGRAM, "it can't be read: %s",
			errno ? strerror(errno) : "it is shorter now");
	}
	*ret_bytes = bytes;
	*ret_n = n;
	return ET_OK;
}

enum et_status ocl_cache_read(const char *folder, enum ocl_cache_kind kind, const char *key, uint8_t **ret_bytes,
	const uint8_t **ret_body, size_t *ret_n, struct et_diag *diag)
{
	char path[PATH_ROOM];
	uint8_t *bytes = NULL;
	size_t n = 0;
	put_path(path, folder, kind, key);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return ET_E_NOT_FOUND;
	if (fd < 0)
		return et_fail(diag, ET_E_ACCESS_FAILED, "%s", strerror(errno));
	enum et_status status = read_file(fd, &bytes, &n, diag);
	close(fd);
	if (status == ET_OK)
		status = ocl_cache_check(kind, key, bytes, n, ret_body, ret_n, diag);
	if (status != ET_OK) {
		free(bytes);
		return status;
	}
	*ret_bytes = bytes;
	return ET_OK;
}

static void sync_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

enum et_status ocl_cache_write(const char *folder, enum ocl_cache_kind kind, const char *key, const void *body,
	size_t n, struct et_diag *diag)
{
	struct ocl_cache_header header = ocl_cache_header(kind, key, body, n);
	char path[PATH_ROOM], temporary[PATH_ROOM];
	put_path(path, folder, kind, key);
	snprintf(temporary, sizeof(temporary), "%.800s/%s%.64s.XXXXXX", folder, aside, key);
	int fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return et_fail(diag, ET_E_ACCESS_FAILED, "%.200s can't be written: %s", folder, strerror(errno));
	bool is_written = write_all(fd, (const uint8_t *)&header, sizeof(header)) && write_all(fd, body, n) &&
			  fsync(fd) == 0;
	int error = errno;
	close(fd);
	if (!is_written || rename(temporary, path) < 0) {
		error = is_written ? errno : error;
		unlink(temporary);
		return et_fail(diag, ET_E_ACCESS_FAILED, "%.200s can't be written: %s", folder, strerror(error));
	}
	sync_folder(folder);
	return ET_OK;
}

void ocl_cache_remove(const char *folder, enum ocl_cache_kind kind, const char *key)
{
	char path[PATH_ROOM];
	put_path(path, folder, kind, key);
	unlink(path);
}

static void remove_if_old(int folder, const char *name)
{
	struct stat st;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - st.st_mtime > OLD_SECONDS)
		unlinkat(folder, name, 0);
}

void ocl_cache_each_request(const char *folder, bool (*fn)(void *self, const char *key), void *self)
{
	DIR *entries = opendir(folder);
	bool goes_on = entries;
	for (struct dirent *entry; goes_on && (entry = readdir(entries));) {
		const char *name = entry->d_name, *dot = strchr(name, '.');
		char key[OCL_KEY];
		if (strncmp(name, aside, sizeof(aside) - 1) == 0)
			remove_if_old(dirfd(entries), name);
		if (!dot || dot - name != OCL_KEY - 1 || strcmp(dot + 1, ocl_cache_endings[OCL_REQUEST]) != 0)
			continue;
		memcpy(key, name, OCL_KEY - 1);
		key[OCL_KEY - 1] = '\0';
		goes_on = fn(self, key);
	}
	if (entries)
		closedir(entries);
}
