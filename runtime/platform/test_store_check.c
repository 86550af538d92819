/* SPDX-License-Identifier: BSD-3-Clause */
/* Saved data in use is checked: what was changed below the file system, or by somebody who may write to the file, is
 * found, deleted, and its program marked. */
#include "runtime/platform/store_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_BODY = (5 << 20) / 2 + 77, BODY_CHECKSUM_AT = 56 }; /* several pieces; the offset in the file's header */

struct fixture {
	char top[64], dir[80], program[80];
	struct et_log log;
	struct et_platform_store *store;
	_Atomic(unsigned) n_lines;
	char line[512];
	uint8_t *body;
};
static struct fixture f;

static void write_line(void *self, enum et_log_level level, const char *text)
{
	f.n_lines++;
	snprintf(f.line, sizeof(f.line), "%s", text);
}

static void open_store(void)
{
	struct et_diag diag = { "" };
	f.store = et_platform_store_new(f.dir, 64 << 20, &f.log, &diag);
	assert_non_null(f.store);
}

static int set_up(void **state)
{
	f = (struct fixture){ .log = { .max_level = ET_LOG_WARNING, .write = write_line } };
	snprintf(f.top, sizeof(f.top), "/tmp/inferd-check-XXXXXX");
	if (!mkdtemp(f.top))
		return -1;
	snprintf(f.dir, sizeof(f.dir), "%s/kept", f.top);
	snprintf(f.program, sizeof(f.program), "%s/program.pte", f.top);
	if (mkdir(f.dir, 0700) < 0)
		return -1;
	int fd = open(f.program, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (write(fd, "a program", 9) != 9)
		return -1;
	close(fd);
	f.body = malloc(N_BODY);
	for (size_t i = 0; i < N_BODY; i++)
		f.body[i] = (uint8_t)(i * 7 + i / 4096);
	open_store();
	return 0;
}

static bool find_file(const char *ending, char ret_path[400])
{
	bool is_found = false;
	DIR *dir = opendir(f.dir);
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		size_t n = strlen(entry->d_name), n_ending = strlen(ending);
		if (entry->d_name[0] == '.' || n < n_ending || strcmp(entry->d_name + n - n_ending, ending) != 0)
			continue;
		snprintf(ret_path, 400, "%s/%s", f.dir, entry->d_name);
		is_found = true;
	}
	if (dir)
		closedir(dir);
	return is_found;
}

static int tear_down(void **state)
{
	char path[400];
	et_platform_store_unref(f.store);
	while (find_file("", path))
		if (unlink(path) < 0)
			return -1;
	free(f.body);
	rmdir(f.dir);
	unlink(f.program);
	return rmdir(f.top);
}

static struct et_source open_program(void)
{
	struct et_source source;
	struct et_diag diag = { "" };
	assert_int_equal(et_platform_source_open(&source, f.program, NULL, NULL, &diag), ET_OK);
	assert_int_equal(et_platform_store_bind(f.store, &source, NULL, "my program", &diag), ET_OK);
	return source;
}

static enum et_status keep(const struct et_source *source)
{
	struct et_diag diag = { "" };
	struct et_store_piece pieces[] = { { f.body, 1000 }, { f.body + 1000, N_BODY - 1000 } };
	return source->store->keep(source->store->self, "key", pieces, 2, &diag);
}

/* NULL: nothing is found. */
static const uint8_t *find(const struct et_source *source, void **ret_handle)
{
	const uint8_t *bytes;
	size_t n_bytes;
	if (source->store->find(source->store->self, "key", &bytes, &n_bytes, ret_handle) != ET_OK)
		return NULL;
	assert_int_equal(n_bytes, N_BODY);
	return bytes;
}

static void end(struct et_source *source, void *handle)
{
	if (handle)
		source->store->release(source->store->self, handle);
	source->release(source->owner);
}

/* Change one bit of the saved file, @where bytes behind its beginning. */
static void flip(off_t where)
{
	char path[400];
	uint8_t byte;
	assert_true(find_file(".kept", path));
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, where), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, where), 1);
	close(fd);
}

/* The same as it looks below the file system: its times tell nothing. A record says that the changed file was seen to
 * be right. */
static void flip_unseen(off_t where)
{
	char path[400], name[ET_STORE_NAME];
	struct stat st;
	struct timespec now;
	struct et_store_record record = { 0 };
	flip(where);
	assert_true(find_file(".kept", path));
	assert_int_equal(stat(path, &st), 0);
	clock_gettime(CLOCK_REALTIME, &now);
	record.identity = et_platform_identity_of(&st);
	record.seen_ns = ((int64_t)now.tv_sec + 60) * 1000000000;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, &record.contents, 8, BODY_CHECKSUM_AT), 8);
	close(fd);
	snprintf(name, sizeof(name), "%.32s.seen", strrchr(path, '/') + 1);
	et_store_record_write(f.store, name, &record);
}

static void expect_loaded_anew(void)
{
	struct et_source source = open_program();
	void *handle = NULL;
	assert_null(find(&source, &handle));
	assert_int_equal(keep(&source), ET_OK);
	const uint8_t *bytes = find(&source, &handle);
	assert_non_null(bytes);
	assert_memory_equal(bytes, f.body, N_BODY);
	assert_false(et_platform_store_check(f.store));
	assert_false(et_platform_store_is_damaged(source.store));
	end(&source, handle);
}

static void test_right_data_stays(void **state)
{
	struct et_source source = open_program();
	void *handle;
	assert_false(et_platform_store_is_damaged(NULL));
	assert_false(et_platform_store_check(f.store)); /* nothing is in use */
	assert_int_equal(keep(&source), ET_OK);
	assert_non_null(find(&source, &handle));
	assert_false(et_platform_store_check(f.store));
	assert_false(et_platform_store_check(f.store));
	assert_false(et_platform_store_is_damaged(source.store));
	/* replaced, while the old contents are in use */
	assert_int_equal(keep(&source), ET_OK);
	assert_false(et_platform_store_check(f.store));
	end(&source, handle);
	assert_int_equal(f.n_lines, 0);
}

static void test_damage_below_the_file_system(void **state)
{
	static const off_t places[] = { ET_STORE_ALIGNMENT, (1 << 20) - 1, 1 << 20, (2 << 20) + 5,
		ET_STORE_ALIGNMENT + N_BODY - 1 };
	char path[400];
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct et_source source = open_program(), other = open_program();
		void *handle, *other_handle;
		assert_int_equal(keep(&source), ET_OK);
		flip_unseen(places[i]);
		f.n_lines = 0;
		assert_non_null(find(&source, &handle)); /* nobody can see it yet */
		assert_non_null(find(&other, &other_handle));
		assert_int_equal(f.n_lines, 0);
		assert_true(et_platform_store_check(f.store));
		assert_int_equal(f.n_lines, 1);
		assert_non_null(strstr(f.line, "my program: "));
		assert_non_null(strstr(f.line, ".kept, packed weights saved for it, is damaged"));
		assert_true(et_platform_store_is_damaged(source.store));
		assert_true(et_platform_store_is_damaged(other.store));
		assert_false(find_file(".kept", path));
		assert_false(find_file(".seen", path));
		assert_false(et_platform_store_check(f.store)); /* it is said once */
		/* what was made with it is not saved */
		assert_int_equal(keep(&source), ET_E_INVALID_STATE);
		end(&source, handle);
		end(&other, other_handle);
		expect_loaded_anew();
	}
}

static void open_store_again(void)
{
	f.store = et_platform_store_unref(f.store);
	open_store();
}

/* Change the record of the saved file: it was made a minute later, when that was certain, and has @mark. */
static struct et_store_record change_record(const uint8_t *mark)
{
	char path[400];
	struct et_store_record record;
	assert_true(find_file(".seen", path));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, &record, sizeof(record), 0), sizeof(record));
	close(fd);
	record.seen_ns += INT64_C(60000000000);
	if (mark)
		memcpy(record.digest, mark, sizeof(record.digest));
	et_store_record_write(f.store, strrchr(path, '/') + 1, &record);
	return record;
}

/* Whether a process that begins now would read the saved file. */
static bool is_read_again(void)
{
	void *handle;
	struct et_source source = open_program();
	assert_non_null(find(&source, &handle));
	bool is_checked = ((struct et_store_use *)handle)->is_checked;
	end(&source, handle);
	return !is_checked;
}

/* What a process does that finds the saved file right. */
static void check_in_use(void)
{
	struct et_source source = open_program();
	void *handle;
	assert_non_null(find(&source, &handle));
	assert_false(et_platform_store_check(f.store));
	end(&source, handle);
}

static void keep_and_check(void)
{
	struct et_source source = open_program();
	assert_int_equal(keep(&source), ET_OK);
	end(&source, NULL);
	check_in_use();
}

static void test_once_a_boot(void **state)
{
	keep_and_check();
	open_store_again();
	assert_true(is_read_again()); /* the file might have been written again within a tick of its clock */
	check_in_use();
	change_record(NULL);
	open_store_again();
	assert_false(is_read_again());
	f.store->boot_id[0] ^= 1; /* the machine was started again */
	assert_true(is_read_again());
	f.store->boot_id[0] = '\0'; /* it is not known */
	assert_true(is_read_again());
	open_store_again();
	assert_false(is_read_again());
	flip(N_BODY); /* somebody writes to it, and undoes that */
	flip(N_BODY);
	assert_true(is_read_again());
	change_record(NULL);
	assert_true(is_read_again()); /* the mark is of the file as it was */
}

/* A record that is damaged, or says something else, only makes the file to be read again. */
static void test_hostile_records(void **state)
{
	char path[400];
	uint8_t bytes[sizeof(struct et_store_record)], mark[ET_SHA256_BYTES];
	keep_and_check();
	open_store_again();
	struct et_store_record good = change_record(NULL);
	assert_true(find_file(".seen", path));
	for (size_t i = 0; i < sizeof(good); i++) {
		memcpy(bytes, &good, sizeof(bytes));
		bytes[i] ^= 0x40;
		int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
		assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
		close(fd);
		assert_true(is_read_again());
	}
	for (size_t i = 0; i < sizeof(mark); i++) {
		memcpy(mark, good.digest, sizeof(mark));
		mark[i] ^= 1;
		change_record(mark);
		assert_true(is_read_again());
	}
	change_record(good.digest);
	assert_false(is_read_again());
	assert_int_equal(truncate(path, sizeof(good) - 1), 0);
	assert_true(is_read_again());
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0); /* it cannot hold up the load */
	assert_true(is_read_again());
	assert_int_equal(f.n_lines, 0);
}

/* After a restart of the machine each file is read again. */
static void test_damage_while_nobody_runs(void **state)
{
	struct et_source source = open_program();
	void *handle;
	assert_int_equal(keep(&source), ET_OK);
	assert_non_null(find(&source, &handle));
	assert_false(et_platform_store_check(f.store));
	end(&source, handle);
	open_store_again();
	flip_unseen(N_BODY / 2);
	source = open_program();
	assert_non_null(find(&source, &handle));
	assert_true(et_platform_store_check(f.store));
	end(&source, handle);
	expect_loaded_anew();
}

/* Before anything is saved from data in use it is checked, or damage would get a digest of its own. */
static void test_damage_is_not_saved(void **state)
{
	struct et_source source = open_program();
	void *handle;
	assert_int_equal(keep(&source), ET_OK);
	flip_unseen(N_BODY / 2);
	assert_non_null(find(&source, &handle));
	assert_int_equal(keep(&source), ET_E_INVALID_STATE);
	assert_true(et_platform_store_is_damaged(source.store));
	end(&source, handle);
	expect_loaded_anew();
}

static void test_written_to_while_in_use(void **state)
{
	char path[400];
	for (int way = 0; way < 3; way++) {
		struct et_source source = open_program();
		void *handle;
		if (!way)
			assert_int_equal(keep(&source), ET_OK);
		assert_non_null(find(&source, &handle));
		assert_false(et_platform_store_check(f.store));
		assert_true(find_file(".kept", path));
		if (way == 0) {
			flip(N_BODY - 5);
		} else if (way == 1) {
			int fd = open(path, O_RDWR | O_CLOEXEC);
			uint8_t *mapped = mmap(NULL, N_BODY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			assert_ptr_not_equal(mapped, MAP_FAILED);
			mapped[N_BODY / 2] ^= 1;
			assert_int_equal(msync(mapped, N_BODY, MS_SYNC), 0);
			munmap(mapped, N_BODY);
			close(fd);
		} else {
			assert_int_equal(truncate(path, N_BODY / 2), 0);
		}
		assert_true(et_platform_store_check(f.store));
		assert_true(et_platform_store_is_damaged(source.store));
		end(&source, handle);
		expect_loaded_anew();
	}
}

static void test_stop(void **state)
{
	struct et_source source = open_program();
	void *handle;
	assert_int_equal(keep(&source), ET_OK);
	flip_unseen(N_BODY / 2);
	assert_non_null(find(&source, &handle));
	et_platform_store_stop(f.store);
	assert_false(et_platform_store_check(f.store));
	assert_int_equal(keep(&source), ET_E_CANCELLED);
	end(&source, handle);
}

static void *keep_and_find(void *arg)
{
	for (int i = 0; i < 10; i++) {
		struct et_source source = open_program();
		void *handle = NULL;
		assert_int_equal(keep(&source), ET_OK);
		assert_non_null(find(&source, &handle));
		end(&source, handle);
	}
	*(_Atomic(bool) *)arg = true;
	return NULL;
}

static void test_uses_end_while_they_are_checked(void **state)
{
	static _Atomic(bool) is_done[2];
	pthread_t threads[2];
	for (int i = 0; i < 2; i++) {
		is_done[i] = false;
		assert_int_equal(pthread_create(&threads[i], NULL, keep_and_find, &is_done[i]), 0);
	}
	while (!is_done[0] || !is_done[1])
		assert_false(et_platform_store_check(f.store));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(f.n_lines, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(right_data_stays),
		TEST(damage_below_the_file_system),
		TEST(once_a_boot),
		TEST(hostile_records),
		TEST(damage_while_nobody_runs),
		TEST(damage_is_not_saved),
		TEST(written_to_while_in_use),
		TEST(stop),
		TEST(uses_end_while_they_are_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
