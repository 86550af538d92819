/* SPDX-License-Identifier: BSD-3-Clause */
/* The saved copy of a program's file: it is used only for exactly the file's contents, and whatever happens to the file
 * or to the copy, the program's bytes are right or the program is marked. */
#include "runtime/platform/store_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_PROGRAM = (1 << 20) + 4321, LONG_AGO_S = 100 };

struct fixture {
	char top[64], dir[80], program[80];
	struct et_log log;
	struct et_platform_store *store;
	unsigned n_lines;
	char line[512];
	uint8_t *bytes; /* of the program */
};
static struct fixture f;

static void write_line(void *self, enum et_log_level level, const char *text)
{
	f.n_lines++;
	snprintf(f.line, sizeof(f.line), "%s", text);
}

static void open_store(uint64_t max_bytes)
{
	struct et_diag diag = { "" };
	et_platform_store_unref(f.store);
	f.store = et_platform_store_new(f.dir, max_bytes, &f.log, &diag);
	assert_non_null(f.store);
}

static void write_program(uint8_t fill)
{
	for (size_t i = 0; i < N_PROGRAM; i++)
		f.bytes[i] = (uint8_t)(fill + i * 7 + i / 4096);
	int fd = open(f.program, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, f.bytes, N_PROGRAM), N_PROGRAM);
	close(fd);
}

static int set_up(void **state)
{
	f = (struct fixture){ .log = { .max_level = ET_LOG_NOTICE, .write = write_line } };
	snprintf(f.top, sizeof(f.top), "/tmp/inferd-copy-XXXXXX");
	if (!mkdtemp(f.top))
		return -1;
	snprintf(f.dir, sizeof(f.dir), "%s/kept", f.top);
	snprintf(f.program, sizeof(f.program), "%s/program.pte", f.top);
	f.bytes = malloc(N_PROGRAM);
	if (!f.bytes || mkdir(f.dir, 0700) < 0)
		return -1;
	write_program(1);
	open_store(64 << 20);
	return 0;
}

/* The names in the folder; each of them is called with @each, or NULL. */
static unsigned for_files(const char *ending, void (*each)(const char *path))
{
	unsigned n = 0;
	char path[400];
	DIR *dir = opendir(f.dir);
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		size_t n_name = strlen(entry->d_name), n_ending = strlen(ending);
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || n_name < n_ending ||
			strcmp(entry->d_name + n_name - n_ending, ending) != 0)
			continue;
		n++;
		snprintf(path, sizeof(path), "%s/%s", f.dir, entry->d_name);
		if (each)
			each(path);
	}
	if (dir)
		closedir(dir);
	return n;
}

static void delete(const char *path)
{
	unlink(path);
}

static int tear_down(void **state)
{
	et_platform_store_unref(f.store);
	for_files("", delete);
	free(f.bytes);
	rmdir(f.dir);
	unlink(f.program);
	return rmdir(f.top);
}

static struct et_source open_with(const struct et_platform_copy_limits *limits)
{
	struct et_source source;
	struct et_diag diag = { "" };
	assert_int_equal(et_platform_store_open(f.store, &source, f.program, f.top, limits, &diag), ET_OK);
	assert_int_equal(et_platform_store_bind(f.store, &source, NULL, "my program", &diag), ET_OK);
	return source;
}

static bool is_saved_copy(const struct et_source *source)
{
	return et_platform_source_of(source)->saved;
}

static bool is_right(const struct et_source *source)
{
	return source->n_bytes == N_PROGRAM && memcmp(source->bytes, f.bytes, N_PROGRAM) == 0;
}

static enum et_status keep(const struct et_source *source, const char *key)
{
	struct et_diag diag = { "" };
	struct et_store_piece piece = { "packed", 6 };
	return source->store->keep(source->store->self, key, &piece, 1, &diag);
}

static bool finds(const struct et_source *source, const char *key)
{
	const uint8_t *bytes;
	size_t n_bytes;
	void *handle;
	if (source->store->find(source->store->self, key, &bytes, &n_bytes, &handle) != ET_OK)
		return false;
	source->store->release(source->store->self, handle);
	return true;
}

/* Make the record @path say that the file's bytes were read long after its last change. */
static void age(const char *path)
{
	struct et_store_record record;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &record, sizeof(record), 0), sizeof(record));
	record.seen_ns += LONG_AGO_S * INT64_C(1000000000);
	record.check = et_store_checksum(&record, offsetof(struct et_store_record, check));
	assert_int_equal(pwrite(fd, &record, sizeof(record), 0), sizeof(record));
	close(fd);
}

/* Load the program for the first time, and save what was made of it and a copy. */
static void load_first(void)
{
	struct et_source source = open_with(NULL);
	assert_false(is_saved_copy(&source));
	if (!et_platform_source_of(&source)->is_written) {
		source.release(source.owner);
		skip(); /* the file system copies by reference: there is nothing to save */
	}
	et_platform_store_save_copy(&source);
	assert_int_equal(for_files(".kept", NULL), 0); /* nothing else was saved for it */
	assert_int_equal(keep(&source, "key"), ET_OK);
	et_platform_store_save_copy(&source);
	assert_int_equal(for_files(".kept", NULL), 2);
	et_platform_store_save_copy(&source); /* there is one */
	assert_true(is_right(&source));
	source.release(source.owner);
}

/* The program is opened again. Returns whether it was the saved copy; in any case the bytes must be right. */
static bool opens_copy(void)
{
	struct et_source source = open_with(NULL);
	bool is_copy = is_saved_copy(&source);
	assert_true(is_right(&source));
	source.release(source.owner);
	return is_copy;
}

static void test_next_load_opens_the_copy(void **state)
{
	char hex[ET_PLATFORM_DIGEST], expected[ET_PLATFORM_DIGEST];
	load_first();
	assert_false(opens_copy()); /* the program may have been written again since, without another time */
	for_files(".program", age);
	struct et_source source = open_with(NULL), other = open_with(NULL);
	assert_true(is_saved_copy(&source) && is_saved_copy(&other));
	assert_int_equal((uintptr_t)source.bytes % 4096, 0);
	assert_true(is_right(&source));
	for (size_t i = 0; i < ET_STORE_PADDING; i++)
		assert_int_equal(source.bytes[N_PROGRAM + i], 0);
	assert_true(finds(&source, "key"));
	assert_int_equal(keep(&source, "another"), ET_OK);
	et_platform_store_save_copy(&source);
	assert_int_equal(for_files(".kept", NULL), 3);
	et_platform_digest(f.bytes, N_PROGRAM, expected);
	et_platform_source_digest(&source, hex);
	assert_string_equal(hex, expected);
	source.drop(source.owner, 0, N_PROGRAM);
	assert_true(is_right(&source));
	source.release(source.owner);
	assert_false(et_platform_store_check(f.store));
	assert_false(et_platform_store_is_damaged(other.store));
	other.release(other.owner);
	assert_int_equal(f.n_lines, 0);
}

/* Nothing of the copy is read that nobody asks for, once it is known to be right. */
static void test_reads_only_what_is_asked_for(void **state)
{
	unsigned char pages[N_PROGRAM / 4096];
	size_t n_present = 0;
	load_first();
	for_files(".program", age);
	assert_true(opens_copy());
	for_files(".seen", age);
	struct et_source source = open_with(NULL);
	assert_true(is_saved_copy(&source));
	if (sysconf(_SC_PAGESIZE) == 4096) {
		int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
		for (size_t i = 0; fd >= 0 && i < sizeof(pages); i++) {
			uint64_t entry = 0;
			off_t at = (off_t)(((uintptr_t)source.bytes / 4096 + i) * sizeof(entry));
			n_present += pread(fd, &entry, sizeof(entry), at) == sizeof(entry) && entry >> 63;
		}
		if (fd >= 0)
			close(fd);
		assert_int_equal(n_present, 0);
	}
	assert_true(is_right(&source));
	source.release(source.owner);
}

/* The digest of a program that was copied is that of the copy, known to the store or not. */
static void test_digest(void **state)
{
	char hex[ET_PLATFORM_DIGEST], expected[ET_PLATFORM_DIGEST];
	struct et_source source = open_with(NULL);
	et_platform_digest(f.bytes, N_PROGRAM, expected);
	et_platform_source_digest(&source, hex);
	assert_string_equal(hex, expected);
	uint8_t *old = f.bytes;
	f.bytes = malloc(N_PROGRAM);
	write_program(9);
	memset(hex, 0, sizeof(hex));
	et_platform_source_digest(&source, hex);
	assert_string_equal(hex, expected);
	free(f.bytes);
	f.bytes = old;
	assert_true(is_right(&source));
	source.release(source.owner);
}

/* While a program runs from the copy, its file is rewritten in place, truncated, deleted and replaced. */
static void test_file_changes_while_it_is_open(void **state)
{
	load_first();
	for_files(".program", age);
	struct et_source source = open_with(NULL);
	assert_true(is_saved_copy(&source));
	uint8_t *old = f.bytes;
	f.bytes = malloc(N_PROGRAM);
	write_program(77); /* in place, the same length */
	assert_false(opens_copy());
	assert_memory_equal(source.bytes, old, N_PROGRAM);
	assert_int_equal(truncate(f.program, 10), 0);
	assert_memory_equal(source.bytes, old, N_PROGRAM);
	source.drop(source.owner, 0, N_PROGRAM);
	assert_memory_equal(source.bytes, old, N_PROGRAM);
	assert_int_equal(unlink(f.program), 0);
	write_program(78); /* another file */
	assert_false(opens_copy());
	assert_memory_equal(source.bytes, old, N_PROGRAM);
	assert_false(et_platform_store_check(f.store));
	assert_false(et_platform_store_is_damaged(source.store));
	source.release(source.owner);
	/* the old contents again, in another file: nothing is known of it until its digest is computed */
	memcpy(f.bytes, old, N_PROGRAM);
	free(old);
	assert_int_equal(unlink(f.program), 0);
	write_program(1);
	assert_false(opens_copy());
	struct et_source again = open_with(NULL);
	assert_int_equal(keep(&again, "key"), ET_OK);
	again.release(again.owner);
	for_files(".program", age);
	assert_true(opens_copy());
	assert_int_equal(f.n_lines, 0);
}

/* With the same times, too, as far as a file's owner can set them. */
static void test_file_with_old_times(void **state)
{
	struct stat st;
	load_first();
	for_files(".program", age);
	assert_int_equal(stat(f.program, &st), 0);
	write_program(50);
	struct timespec times[2] = { st.st_atim, st.st_mtim };
	assert_int_equal(utimensat(AT_FDCWD, f.program, times, 0), 0);
	assert_false(opens_copy());
}

/* --- the copy is changed ---------------------------------------------------------------------------------- */

static off_t flip_at;

static void flip(const char *path)
{
	uint8_t byte;
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	if (fstat(fd, &st) == 0 && st.st_size > N_PROGRAM) {
		assert_int_equal(pread(fd, &byte, 1, flip_at), 1);
		byte ^= 1;
		assert_int_equal(pwrite(fd, &byte, 1, flip_at), 1);
	}
	close(fd);
}

static void cut(const char *path)
{
	struct stat st;
	if (stat(path, &st) == 0 && st.st_size > N_PROGRAM)
		assert_int_equal(truncate(path, 4096), 0);
}

static void share(const char *path)
{
	assert_int_equal(chmod(path, 0622), 0);
}

/* Damage that is there when the program is opened: the file is copied again, and the copy is deleted. */
static void test_damaged_copy(void **state)
{
	static const off_t places[] = { 0, 8, 60, 70, 100, 4096, 4096 + N_PROGRAM / 2, 4096 + N_PROGRAM - 1 };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) + 2; i++) {
		load_first();
		for_files(".program", age);
		assert_true(opens_copy());
		f.n_lines = 0;
		if (i < sizeof(places) / sizeof(places[0])) {
			flip_at = places[i];
			for_files(".kept", flip);
		} else {
			for_files(".kept", i % 2 ? cut : share);
		}
		assert_false(opens_copy());
		assert_int_equal(f.n_lines, 1);
		assert_int_equal(for_files(".kept", NULL), 1);
		for_files("", delete);
	}
}

/* Damage while the program is open: no SIGBUS ends the process, and the program is marked. */
static void test_copy_is_cut_while_it_is_open(void **state)
{
	et_platform_install_sigbus_guard();
	load_first();
	for_files(".program", age);
	struct et_source source = open_with(NULL);
	assert_true(is_saved_copy(&source));
	source.drop(source.owner, 0, N_PROGRAM);
	for_files(".kept", cut);
	volatile uint8_t last = source.bytes[N_PROGRAM - 1];
	assert_int_equal(last, 0);
	assert_true(et_platform_store_check(f.store));
	assert_true(et_platform_store_is_damaged(source.store));
	source.release(source.owner);
	assert_false(opens_copy());
}

static void test_copy_is_written_while_it_is_open(void **state)
{
	load_first();
	for_files(".program", age);
	struct et_source source = open_with(NULL);
	assert_true(is_saved_copy(&source));
	assert_false(et_platform_store_check(f.store));
	flip_at = 4096 + 5000;
	for_files(".kept", flip);
	assert_true(et_platform_store_check(f.store));
	assert_true(et_platform_store_is_damaged(source.store));
	assert_int_equal(keep(&source, "key"), ET_E_INVALID_STATE); /* what was made of it may be wrong */
	source.release(source.owner);
	assert_false(opens_copy());
}

/* Make the record of the copy say that its bytes, as they are now, were seen to be right and checked: as if they had
 * changed below the file system. */
static struct stat copy_now;

static void note_copy(const char *path)
{
	struct stat st;
	if (stat(path, &st) == 0 && st.st_size > N_PROGRAM)
		copy_now = st;
}

static void trust(const char *path)
{
	struct et_store_record record;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &record, sizeof(record), 0), sizeof(record));
	if (record.identity.inode == copy_now.st_ino) {
		record.identity = et_platform_identity_of(&copy_now);
		record.seen_ns += LONG_AGO_S * INT64_C(1000000000);
		record.check = et_store_checksum(&record, offsetof(struct et_store_record, check));
		assert_int_equal(pwrite(fd, &record, sizeof(record), 0), sizeof(record));
	}
	close(fd);
}

/* Whoever can make nothing of the program asks, and opens it anew. */
static void test_asked_for_damage(void **state)
{
	load_first();
	for_files(".program", age);
	struct et_source source = open_with(NULL);
	assert_true(is_saved_copy(&source));
	assert_false(et_platform_source_check(&source));
	source.release(source.owner);
	flip_at = 4096 + 6000;
	for_files(".kept", flip);
	for_files(".kept", note_copy);
	for_files(".seen", trust);
	source = open_with(NULL);
	assert_true(is_saved_copy(&source));
	assert_false(is_right(&source));
	assert_true(et_platform_source_check(&source));
	assert_true(et_platform_source_check(&source));
	assert_true(et_platform_store_is_damaged(source.store));
	source.release(source.owner);
	source = open_with(NULL);
	assert_false(is_saved_copy(&source));
	assert_true(is_right(&source));
	assert_false(et_platform_source_check(&source)); /* nothing that can be damaged */
	source.release(source.owner);
}

/* A copy with a right header of its own, for other contents: its SHA-256 must be the program's. */
static void test_copy_of_other_contents(void **state)
{
	uint8_t digest[ET_SHA256_BYTES] = { 1, 2, 3 };
	struct et_store_piece piece = { f.bytes, N_PROGRAM };
	assert_true(et_store_save(f.store, digest, ET_STORE_COPY_KEY, &piece, 1) < 0);
	assert_int_equal(for_files("", NULL), 0);
	assert_int_equal(et_store_save(f.store, digest, "key", &piece, 1), 0);
}

static void test_delegates_cannot_name_it(void **state)
{
	load_first();
	for_files(".program", age);
	struct et_source source = open_with(NULL);
	assert_false(finds(&source, ET_STORE_COPY_KEY));
	assert_int_equal(keep(&source, ET_STORE_COPY_KEY), ET_E_INVALID_ARGUMENT);
	source.release(source.owner);
	assert_true(opens_copy());
}

/* --- limits ----------------------------------------------------------------------------------------------- */

static void test_no_room(void **state)
{
	open_store(N_PROGRAM + 3 * 4096 + 2000); /* for the copy alone, but not beside what was packed */
	struct et_source source = open_with(NULL);
	assert_int_equal(keep(&source, "key"), ET_OK);
	et_platform_store_save_copy(&source);
	assert_int_equal(for_files(".kept", NULL), 1);
	assert_true(finds(&source, "key"));
	source.release(source.owner);
	for_files(".program", age);
	assert_false(opens_copy());
}

/* A store that is stopped saves nothing more, also in the middle. */
static void test_stop(void **state)
{
	uint8_t digest[ET_SHA256_BYTES] = { 1 };
	struct et_store_piece piece = { f.bytes, N_PROGRAM };
	struct et_source source = open_with(NULL);
	assert_int_equal(keep(&source, "key"), ET_OK);
	et_platform_store_stop(f.store);
	et_platform_store_save_copy(&source);
	assert_int_equal(for_files(".kept", NULL), 1);
	assert_int_equal(et_store_save(f.store, digest, "key", &piece, 1), -ECANCELED);
	assert_int_equal(for_files("", NULL), 2); /* with the program's record; nothing is left half-written */
	assert_int_equal(f.n_lines, 0);
	source.release(source.owner);
}

static void test_budget(void **state)
{
	struct et_source source;
	struct et_diag diag = { "" };
	struct et_platform_copy_limits limits = { .max_bytes = N_PROGRAM - 1 };
	load_first();
	for_files(".program", age);
	assert_int_equal(et_platform_store_open(f.store, &source, f.program, f.top, &limits, &diag),
		ET_E_OUT_OF_RESOURCES);
	assert_non_null(strstr(diag.text, "memory budget"));
	limits.max_bytes++;
	source = open_with(&limits);
	assert_true(is_saved_copy(&source));
	source.release(source.owner);
}

static void test_no_such_file(void **state)
{
	struct et_source source;
	struct et_diag diag = { "" };
	assert_int_equal(et_platform_store_open(f.store, &source, "/nowhere/at/all", f.top, NULL, &diag),
		ET_E_ACCESS_FAILED);
	assert_int_equal(et_platform_store_open(f.store, &source, f.top, f.top, NULL, &diag), ET_E_INVALID_ARGUMENT);
	/* one that is never bound */
	load_first();
	for_files(".program", age);
	assert_int_equal(et_platform_store_open(f.store, &source, f.program, f.top, NULL, &diag), ET_OK);
	assert_true(is_saved_copy(&source));
	source.release(source.owner);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(next_load_opens_the_copy),
		TEST(reads_only_what_is_asked_for),
		TEST(digest),
		TEST(file_changes_while_it_is_open),
		TEST(file_with_old_times),
		TEST(damaged_copy),
		TEST(copy_is_cut_while_it_is_open),
		TEST(copy_is_written_while_it_is_open),
		TEST(asked_for_damage),
		TEST(copy_of_other_contents),
		TEST(delegates_cannot_name_it),
		TEST(no_room),
		TEST(stop),
		TEST(budget),
		TEST(no_such_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
