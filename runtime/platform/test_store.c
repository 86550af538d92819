/* SPDX-License-Identifier: BSD-3-Clause */
/* The store in a folder: saved data is found again for the same program bytes and for no others, whatever happens to
 * the folder's files. */
#include "runtime/platform/platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_BODY = 9000, N_HEADER = 360 };

struct fixture {
	char top[64], dir[80], program[80];
	struct et_log log;
	struct et_platform_store *store;
	unsigned n_lines;
	char line[512];
};
static struct fixture f;

static void write_line(void *self, enum et_log_level level, const char *text)
{
	f.n_lines++;
	snprintf(f.line, sizeof(f.line), "%s", text);
}

static void write_file(const char *path, const void *bytes, size_t n, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static int set_up(void **state)
{
	f = (struct fixture){ .log = { .max_level = ET_LOG_WARNING, .write = write_line } };
	snprintf(f.top, sizeof(f.top), "/tmp/inferd-store-XXXXXX");
	if (!mkdtemp(f.top))
		return -1;
	snprintf(f.dir, sizeof(f.dir), "%s/kept", f.top);
	snprintf(f.program, sizeof(f.program), "%s/program.pte", f.top);
	if (mkdir(f.dir, 0700) < 0)
		return -1;
	write_file(f.program, "the bytes of a program", 22, 0);
	struct et_diag diag = { "" };
	f.store = et_platform_store_new(f.dir, 1 << 20, &f.log, &diag);
	return f.store ? 0 : -1;
}

/* Count the names in the folder with that ending. *ret_path: the path of the last one. */
static unsigned count_files(const char *ending, char ret_path[400])
{
	unsigned n = 0;
	DIR *dir = opendir(f.dir);
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		size_t n_name = strlen(entry->d_name), n_ending = strlen(ending);
		if (entry->d_name[0] == '.' && strncmp(entry->d_name, ".tmp", 4) != 0)
			continue;
		if (n_name < n_ending || strcmp(entry->d_name + n_name - n_ending, ending) != 0)
			continue;
		n++;
		if (ret_path)
			snprintf(ret_path, 400, "%s/%s", f.dir, entry->d_name);
	}
	if (dir)
		closedir(dir);
	return n;
}

static int tear_down(void **state)
{
	char path[400];
	et_platform_store_unref(f.store);
	while (count_files("", path))
		if (unlink(path) < 0)
			return -1;
	rmdir(f.dir);
	unlink(f.program);
	return rmdir(f.top);
}

static struct et_source open_program(bool is_mapped)
{
	struct et_source source;
	struct et_diag diag = { "" };
	assert_int_equal(is_mapped ? et_platform_source_map(&source, f.program, &diag)
				   : et_platform_source_open(&source, f.program, NULL, NULL, &diag),
		ET_OK);
	assert_int_equal(et_platform_store_bind(f.store, &source, NULL, "program", &diag), ET_OK);
	assert_non_null(source.store);
	return source;
}

static enum et_status keep_as(const struct et_source *source, const char *key, uint8_t fill)
{
	uint8_t *bytes = malloc(N_BODY);
	struct et_diag diag = { "" };
	for (size_t i = 0; i < N_BODY; i++)
		bytes[i] = (uint8_t)(fill + i * 7);
	struct et_store_piece pieces[] = { { bytes, 1 }, { bytes + 1, 0 }, { bytes + 1, N_BODY - 1 } };
	enum et_status status = source->store->keep(source->store->self, key, pieces, 3, &diag);
	if (status != ET_OK)
		assert_true(diag.text[0]);
	free(bytes);
	return status;
}

/* The fill byte of what find returns, or -1. */
static int found_as(const struct et_source *source, const char *key)
{
	const uint8_t *bytes;
	size_t n_bytes;
	void *handle;
	if (source->store->find(source->store->self, key, &bytes, &n_bytes, &handle) != ET_OK)
		return -1;
	assert_int_equal(n_bytes, N_BODY);
	assert_int_equal((uintptr_t)bytes % ET_STORE_ALIGNMENT, 0);
	int fill = bytes[0];
	for (size_t i = 0; i < N_BODY; i++)
		assert_int_equal(bytes[i], (uint8_t)((size_t)fill + i * 7));
	for (size_t i = 0; i < ET_STORE_PADDING; i++)
		assert_int_equal(bytes[N_BODY + i], 0);
	source->store->release(source->store->self, handle);
	return fill;
}

static int found_anew(const char *key)
{
	struct et_source source = open_program(false);
	int fill = found_as(&source, key);
	source.release(source.owner);
	return fill;
}

static void keep_anew(const char *key, uint8_t fill)
{
	struct et_source source = open_program(false);
	assert_int_equal(keep_as(&source, key, fill), ET_OK);
	source.release(source.owner);
}

static void test_saved_and_found(void **state)
{
	for (int is_mapped = 0; is_mapped < 2; is_mapped++) {
		char key[16];
		snprintf(key, sizeof(key), "v%d", is_mapped);
		struct et_source source = open_program(is_mapped);
		assert_int_equal(found_as(&source, key), -1);
		assert_int_equal(keep_as(&source, key, 1), ET_OK);
		assert_int_equal(found_as(&source, key), 1);
		assert_int_equal(found_as(&source, "another"), -1);
		assert_int_equal(keep_as(&source, key, 2), ET_OK);
		source.release(source.owner);
		assert_int_equal(found_anew(key), 2);
	}
	assert_int_equal(f.n_lines, 0);
	assert_int_equal(count_files(".kept", NULL), 2);
	assert_int_equal(count_files(".tmp", NULL), 0);
}

static void test_another_program_finds_nothing(void **state)
{
	keep_anew("v", 1);
	/* in place, with the same length */
	write_file(f.program, "THE BYTES OF A PROGRAM", 22, 0);
	assert_int_equal(found_anew("v"), -1);
	keep_anew("v", 2);
	assert_int_equal(found_anew("v"), 2);
	assert_int_equal(count_files(".kept", NULL), 2);
	assert_int_equal(f.n_lines, 0);
}

/* Data made from the old bytes must not be saved for the new ones. */
static void test_a_program_file_changes_under_its_mapping(void **state)
{
	struct et_source source = open_program(true);
	write_file(f.program, "and more", 8, O_APPEND);
	assert_int_equal(keep_as(&source, "v", 1), ET_E_INVALID_STATE);
	source.release(source.owner);
	assert_int_equal(count_files(".kept", NULL), 0);
}

/* The pages of @bytes in this process's memory; 0 if the kernel does not tell. */
static size_t count_present(const uint8_t *bytes, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n_present = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; fd >= 0 && i < n / page; i++) {
		uint64_t entry = 0;
		off_t at = (off_t)(((uintptr_t)bytes / page + i) * sizeof(entry));
		n_present += pread(fd, &entry, sizeof(entry), at) == sizeof(entry) && entry >> 63;
	}
	if (fd >= 0)
		close(fd);
	return n_present;
}

/* All of a program is read to identify it; that must not keep all of it in memory. */
static void test_computing_a_digest_leaves_no_pages(void **state)
{
	enum { N = 1 << 20 };
	char *bytes = calloc(1, N);
	write_file(f.program, bytes, N, O_APPEND);
	struct et_source source = open_program(false);
	assert_memory_equal(source.bytes + 22, bytes, N);
	free(bytes);
	if (!count_present(source.bytes, N)) {
		source.release(source.owner);
		skip(); /* the pages of an emulated processor are not the kernel's */
	}
	assert_int_equal(keep_as(&source, "v", 1), ET_OK);
	assert_int_equal(count_present(source.bytes, N), 0);
	source.release(source.owner);
	assert_int_equal(found_anew("v"), 1);
}

static void test_every_damaged_byte_is_found(void **state)
{
	char path[400];
	uint8_t byte;
	for (off_t at = 0; at < N_HEADER + 40; at++) {
		/* every byte of the header, then some of the body and its last one */
		off_t where = at < N_HEADER ? at : at == N_HEADER ? 4096 + N_BODY - 1 : 4096 + (at - N_HEADER) * 200;
		keep_anew("v", 7);
		assert_int_equal(count_files(".kept", path), 1);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(pread(fd, &byte, 1, where), 1);
		byte ^= (uint8_t)(1 << at % 8);
		assert_int_equal(pwrite(fd, &byte, 1, where), 1);
		close(fd);
		f.n_lines = 0;
		assert_int_equal(found_anew("v"), -1);
		assert_int_equal(f.n_lines, 1);
		assert_non_null(strstr(f.line, "program: "));
		assert_int_equal(count_files(".kept", NULL), 0); /* saved again */
	}
}

static void test_truncated_or_longer_files(void **state)
{
	static const off_t lengths[] = { 0, 1, N_HEADER - 1, N_HEADER, 4095, 4096, 4097, 4096 + N_BODY - 1,
		4096 + N_BODY + 1, 65536 };
	char path[400];
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		keep_anew("v", 3);
		assert_int_equal(count_files(".kept", path), 1);
		assert_int_equal(truncate(path, lengths[i]), 0);
		f.n_lines = 0;
		assert_int_equal(found_anew("v"), -1);
		assert_int_equal(f.n_lines, 1);
	}
}

static void test_foreign_files(void **state)
{
	char path[400], other[400];
	keep_anew("one", 1);
	assert_int_equal(count_files(".kept", path), 1);
	snprintf(other, sizeof(other), "%s", path);
	char aside[100];
	snprintf(aside, sizeof(aside), "%s/aside", f.top);
	assert_int_equal(rename(path, aside), 0);
	keep_anew("two", 2);
	assert_int_equal(count_files(".kept", path), 1);

	/* data of another key */
	assert_int_equal(rename(aside, path), 0);
	assert_int_equal(found_anew("two"), -1);
	assert_non_null(strstr(f.line, "another program or key"));
	/* a file that others may write */
	keep_anew("two", 2);
	assert_int_equal(chmod(path, 0622), 0);
	assert_int_equal(found_anew("two"), -1);
	/* a link to a good file */
	keep_anew("two", 2);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(found_anew("two"), -1);
	assert_int_equal(f.n_lines, 3);
}

static void test_damaged_records_cost_only_time(void **state)
{
	char path[400];
	keep_anew("v", 5);
	assert_int_equal(found_anew("v"), 5);
	assert_int_equal(count_files(".seen", path), 1);
	write_file(path, "xxxxxxxxxxxxxxxx", 16, 0);
	assert_int_equal(found_anew("v"), 5);
	assert_int_equal(count_files(".program", path), 1);
	write_file(path, "xxxxxxxxxxxxxxxx", 16, 0);
	assert_int_equal(found_anew("v"), -1); /* the program counts as new */
	keep_anew("v", 6);
	assert_int_equal(found_anew("v"), 6);
	assert_int_equal(f.n_lines, 0);
}

static void test_folders(void **state)
{
	struct et_diag diag = { "" };
	char path[400];
	assert_null(et_platform_store_new("/nowhere/at/all", 1, NULL, &diag));
	assert_int_equal(chmod(f.dir, 0777), 0);
	assert_null(et_platform_store_new(f.dir, 1, NULL, &diag));
	assert_int_equal(chmod(f.dir, 0700), 0);
	/* a file that disappears */
	struct et_source source = open_program(false);
	assert_int_equal(keep_as(&source, "v", 1), ET_OK);
	while (count_files("", path))
		assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(f.dir), 0);
	assert_int_equal(keep_as(&source, "v", 1), ET_E_ACCESS_FAILED);
	assert_int_equal(found_as(&source, "v"), -1);
	source.release(source.owner);
}

static void test_disk_full(void **state)
{
	keep_anew("v", 4);
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		struct rlimit limit = { 8192, 8192 };
		signal(SIGXFSZ, SIG_IGN);
		struct et_source source = open_program(false);
		bool is_refused = setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
				  keep_as(&source, "v", 9) == ET_E_ACCESS_FAILED && found_as(&source, "v") == 4;
		source.release(source.owner);
		_exit(is_refused ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(found_anew("v"), 4);
	assert_int_equal(count_files(".tmp", NULL), 0);
	DIR *dir = opendir(f.dir);
	for (const struct dirent *entry; (entry = readdir(dir));)
		assert_int_not_equal(strncmp(entry->d_name, ".tmp", 4), 0);
	closedir(dir);
}

static void test_least_recently_used_is_deleted_first(void **state)
{
	struct et_diag diag = { "" };
	struct et_source source;
	et_platform_store_unref(f.store);
	/* room for two, with their records */
	f.store = et_platform_store_new(f.dir, 2 * (4096 + N_BODY + 4096) + 4096 + 100, &f.log, &diag);
	source = open_program(false);
	struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	char path[400];
	assert_int_equal(keep_as(&source, "one", 1), ET_OK);
	assert_int_equal(count_files(".kept", path), 1);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	assert_int_equal(keep_as(&source, "two", 2), ET_OK);
	assert_int_equal(found_as(&source, "one"), 1); /* "one" was used, so "two" is deleted next */
	assert_int_equal(keep_as(&source, "three", 3), ET_OK);
	assert_int_equal(found_as(&source, "one"), 1);
	assert_int_equal(found_as(&source, "two"), -1);
	assert_int_equal(found_as(&source, "three"), 3);
	source.release(source.owner);
	/* data larger than the whole limit is not written */
	et_platform_store_unref(f.store);
	f.store = et_platform_store_new(f.dir, 100, &f.log, &diag);
	source = open_program(false);
	assert_int_equal(keep_as(&source, "four", 4), ET_E_OUT_OF_RESOURCES);
	source.release(source.owner);
}

static void *keep_and_find(void *arg)
{
	struct et_source source = open_program(false);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(keep_as(&source, "v", (uint8_t)(uintptr_t)arg), ET_OK);
		int fill = found_as(&source, "v");
		assert_true(fill >= 1 && fill <= 4);
	}
	source.release(source.owner);
	return NULL;
}

static void test_writers_at_once(void **state)
{
	pthread_t threads[4];
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, keep_and_find, (void *)(i + 1)), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(f.n_lines, 0);
	assert_int_equal(count_files(".kept", NULL), 1);
}

/* Opening a folder deletes what a killed writer left there, but not what another process is writing. */
static void test_leftovers_are_deleted(void **state)
{
	char left[400], written[400];
	struct et_diag diag = { "" };
	snprintf(left, sizeof(left), "%s/.tmp-1-2-3", f.dir);
	snprintf(written, sizeof(written), "%s/.tmp-4-5-6", f.dir);
	write_file(left, "half", 4, 0);
	write_file(written, "half", 4, 0);
	int fd = open(written, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	et_platform_store_unref(f.store);
	f.store = et_platform_store_new(f.dir, 1 << 20, &f.log, &diag);
	assert_non_null(f.store);
	assert_int_equal(access(left, F_OK), -1);
	assert_int_equal(access(written, F_OK), 0);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(saved_and_found),
		TEST(another_program_finds_nothing),
		TEST(a_program_file_changes_under_its_mapping),
		TEST(computing_a_digest_leaves_no_pages),
		TEST(every_damaged_byte_is_found),
		TEST(truncated_or_longer_files),
		TEST(foreign_files),
		TEST(damaged_records_cost_only_time),
		TEST(folders),
		TEST(disk_full),
		TEST(least_recently_used_is_deleted_first),
		TEST(leftovers_are_deleted),
		TEST(writers_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
