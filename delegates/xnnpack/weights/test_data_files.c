/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters in a data file beside the program: their packed weights are persisted, and found again only for the same
 * contents of both files. */
#include "delegates/xnnpack/support/test_run.h"
#include "delegates/xnnpack/weights/weights.h"

#include "runtime/program/external_data.h"
#include "runtime/platform/platform.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { PATH_ROOM = 400, MAX_DATA = 4096, N_HEADER = 328, KEPT_BODY_AT = 4096 };

struct fixture {
	char top[64], dir[80], data[80];
	struct et_log log;
	struct et_platform_store *store;
	struct et_backend_entry entry;
	struct et_worker_threads *threads;
	unsigned n_lines;
	char line[512];
};
static struct fixture f;

static void write_line(void *self, enum et_log_level level, const char *text)
{
	f.n_lines++;
	snprintf(f.line, sizeof(f.line), "%s", text);
}

/* The paths of the persisted files, and their number. */
static unsigned list_files(const char *ending, char (*ret_paths)[PATH_ROOM], unsigned n_room)
{
	unsigned n = 0;
	DIR *dir = opendir(f.dir);
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		size_t n_name = strlen(entry->d_name), n_ending = strlen(ending);
		if (entry->d_name[0] == '.' || n_name < n_ending ||
			strcmp(entry->d_name + n_name - n_ending, ending) != 0)
			continue;
		if (n < n_room)
			snprintf(ret_paths[n], PATH_ROOM, "%s/%s", f.dir, entry->d_name);
		n++;
	}
	closedir(dir);
	return n;
}

/* The data file, with a bit changed in each byte from @change_from to @change_to of the floats; in place: the same
 * file. */
static void write_data(size_t change_from, size_t change_to)
{
	static const char name[] = DATA_FILES "/weights.ptd";
	uint8_t bytes[MAX_DATA];
	int from = open(name, O_RDONLY | O_CLOEXEC), to = open(f.data, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(from >= 0 && to >= 0);
	ssize_t n = read(from, bytes, sizeof(bytes));
	assert_in_range(n, 1, sizeof(bytes) - 1);
	for (size_t i = change_from; i < change_to; i++)
		bytes[(size_t)n - 1 - i] ^= 1; /* the floats' lowest bits, from the file's end */
	assert_int_equal(write(to, bytes, (size_t)n), n);
	close(from);
	close(to);
}

static int set_up(void **state)
{
	struct et_diag diag = { "" };
	f = (struct fixture){ .log = { .max_level = ET_LOG_WARNING, .write = write_line } };
	snprintf(f.top, sizeof(f.top), "/tmp/inferd-data-XXXXXX");
	if (!mkdtemp(f.top))
		return -1;
	snprintf(f.dir, sizeof(f.dir), "%s/kept", f.top);
	snprintf(f.data, sizeof(f.data), "%s/weights.ptd", f.top);
	if (mkdir(f.dir, 0700) < 0)
		return -1;
	write_data(0, 0);
	f.store = et_platform_store_new(f.dir, 1 << 20, &f.log, &diag);
	if (!f.store ||
		et_direct_open(&f.entry, &et_xnnpack_delegate, NULL, et_platform_allocator(), NULL, &diag) != ET_OK)
		return -1;
	return f.entry.ops->threads_new(f.entry.backend, 0, 1, &f.threads, &diag) == ET_OK ? 0 : -1;
}

static int tear_down(void **state)
{
	char paths[1][PATH_ROOM];
	f.entry.ops->threads_free(f.threads);
	f.entry.ops->close(f.entry.backend);
	et_platform_store_unref(f.store);
	while (list_files("", paths, 1))
		if (unlink(paths[0]) < 0)
			return -1;
	unlink(f.data);
	return rmdir(f.dir) < 0 ? -1 : rmdir(f.top);
}

struct loaded {
	struct et_platform_data *data;
	struct test_model model;
	struct et_xnn_weights_stats stats;
};

static struct loaded load(const char *name)
{
	struct loaded loaded = { .data = et_platform_data_new() };
	struct et_source data, source;
	struct et_diag diag = { "" };
	char path[PATH_ROOM];
	snprintf(path, sizeof(path), "%s/%s.bpte", DATA_FILES, name);
	assert_int_equal(et_platform_source_open(&data, f.data, NULL, NULL, &diag), ET_OK);
	assert_int_equal(et_platform_data_add(loaded.data, &data, f.data, &diag), ET_OK);
	assert_int_equal(et_platform_source_open(&source, path, NULL, NULL, &diag), ET_OK);
	const struct et_external_data *external = et_platform_data_table(loaded.data);
	assert_int_equal(et_platform_store_bind(f.store, &source, external, name, &diag), ET_OK);
	enum et_status status = test_model_open_source(&loaded.model, &source, external, "forward", &f.entry,
		et_platform_allocator(), &diag);
	assert_string_equal(diag.text, "");
	assert_int_equal(status, ET_OK);
	assert_int_equal(loaded.model.method->n_delegates, 1);
	return loaded;
}

/* The worst difference from what PyTorch computed. */
static double run(struct loaded *loaded)
{
	struct test_instance instance;
	struct et_diag diag = { "" };
	double worst = 0;
	assert_int_equal(test_instance_new(&instance, &loaded->model, f.threads, &diag), ET_OK);
	const struct et_bundle_suite *suite = &loaded->model.bundle.suites[0];
	assert_true(suite->n_cases > 0);
	for (uint32_t i = 0; i < suite->n_cases; i++) {
		double one;
		bool passed;
		assert_int_equal(test_instance_run(&instance, &suite->cases[i], 1e-3, 0, &one, &passed, &diag), ET_OK);
		worst = one > worst ? one : worst;
	}
	test_instance_free(&instance);
	return worst;
}

static void unload(struct loaded *loaded)
{
	test_model_close(&loaded->model);
	et_platform_data_unref(loaded->data);
}

/* Load, run, persist, unload. */
static struct et_xnn_weights_stats go_through(const char *name, double *ret_worst)
{
	struct et_xnn_weights_stats stats;
	struct et_diag diag = { "" };
	struct loaded loaded = load(name);
	*ret_worst = run(&loaded);
	et_xnnpack_weights_stats(et_direct_model(loaded.model.model[0]), &stats);
	assert_int_equal(f.entry.ops->keep(loaded.model.model[0], &diag), ET_OK);
	unload(&loaded);
	return stats;
}

static void must_be_new(const char *name, bool is_right)
{
	double worst;
	struct et_xnn_weights_stats stats = go_through(name, &worst);
	assert_true(stats.n_packed > 0);
	assert_int_equal(stats.n_mapped, 0);
	assert_int_equal(worst < 1e-5, is_right);
}

static void must_be_kept(const char *name, bool is_right)
{
	double worst;
	struct et_xnn_weights_stats stats = go_through(name, &worst);
	assert_int_equal(stats.n_packings, 0);
	assert_true(stats.n_mapped > 0);
	assert_int_equal(worst < 1e-5, is_right);
}

static void test_found_again(void **state)
{
	must_be_new("first", true);
	must_be_kept("first", true);
	assert_int_equal(list_files(".kept", NULL, 0), 1);
	assert_int_equal(f.n_lines, 0);
}

/* The names in the data file stay, but the floats differ: so do the results, and another file is persisted. */
static void test_data_changes_under_its_name(void **state)
{
	must_be_new("first", true);
	write_data(0, 160);
	struct loaded changed = load("first");
	double worst = run(&changed);
	assert_true(worst > 0);
	unload(&changed);
	double again;
	struct et_xnn_weights_stats stats = go_through("first", &again);
	assert_true(stats.n_packed > 0);
	assert_int_equal(stats.n_mapped, 0);
	assert_true(worst == again);
	/* it is found and computes the same; with the old contents the old file is found */
	stats = go_through("first", &again);
	assert_int_equal(stats.n_packings, 0);
	assert_true(worst == again);
	assert_int_equal(list_files(".kept", NULL, 0), 2);
	write_data(0, 0);
	/* a rewritten file has no digest yet: it is made when something is persisted for it */
	must_be_new("first", true);
	must_be_kept("first", true);
	assert_int_equal(list_files(".kept", NULL, 0), 2);
	assert_int_equal(f.n_lines, 0);
}

/* A file is copied when it is opened: the loaded program does not change, and its packed weights are persisted for
 * those bytes. */
static void test_data_changes_while_loaded(void **state)
{
	struct et_diag diag = { "" };
	struct loaded loaded = load("first");
	write_data(0, 160); /* the file was copied: the loaded program and its packed weights do not change */
	assert_true(run(&loaded) < 1e-5);
	assert_int_equal(f.entry.ops->keep(loaded.model.model[0], &diag), ET_OK);
	unload(&loaded);
	double worst;
	struct et_xnn_weights_stats stats = go_through("first", &worst);
	assert_true(stats.n_packed > 0);
	assert_true(worst > 0);
}

/* Two programs with one data file: each finds its own packed weights, and the file's digest is made once. */
static void test_two_programs_share_it(void **state)
{
	must_be_new("first", true);
	must_be_new("second", true);
	for (int i = 0; i < 2; i++) {
		must_be_kept("first", true);
		must_be_kept("second", true);
	}
	assert_int_equal(list_files(".kept", NULL, 0), 2);
	assert_int_equal(list_files(".program", NULL, 0), 3);
	/* both at once, in one process */
	struct loaded first = load("first"), second = load("second");
	assert_true(run(&first) < 1e-5);
	assert_true(run(&second) < 1e-5);
	unload(&first);
	assert_true(run(&second) < 1e-5);
	unload(&second);
	/* when the file has changed neither finds its packed weights any more */
	write_data(0, 160);
	double worst;
	assert_int_equal(go_through("first", &worst).n_mapped, 0);
	assert_int_equal(go_through("second", &worst).n_mapped, 0);
	assert_int_equal(f.n_lines, 0);
}

/* Packed weights under another program's name, or damaged anywhere: reported, deleted, packed again. */
static void test_hostile_files(void **state)
{
	char paths[2][PATH_ROOM];
	struct stat st;
	double worst;
	must_be_new("first", true);
	must_be_new("second", true);
	assert_int_equal(list_files(".kept", paths, 2), 2);
	char aside[100];
	snprintf(aside, sizeof(aside), "%s/aside", f.top);
	assert_int_equal(rename(paths[0], aside), 0);
	assert_int_equal(rename(paths[1], paths[0]), 0);
	assert_int_equal(rename(aside, paths[1]), 0);
	must_be_new("first", true);
	must_be_new("second", true);
	assert_int_equal(f.n_lines, 2);
	assert_non_null(strstr(f.line, "another program or key"));
	must_be_kept("first", true);

	assert_int_equal(list_files(".kept", paths, 2), 2);
	for (int which = 0; which < 2; which++) {
		assert_int_equal(stat(paths[which], &st), 0);
		for (off_t at = 0; at < st.st_size; at += at < N_HEADER ? 23 : 1009) {
			uint8_t byte;
			if (at >= N_HEADER && at < KEPT_BODY_AT)
				continue; /* between header and body lies nothing */
			int fd = open(paths[which], O_RDWR | O_CLOEXEC);
			assert_true(fd >= 0);
			assert_int_equal(pread(fd, &byte, 1, at), 1);
			byte ^= 4;
			assert_int_equal(pwrite(fd, &byte, 1, at), 1);
			close(fd);
			unsigned n_lines = f.n_lines;
			bool is_first = go_through("first", &worst).n_packed > 0;
			assert_true(worst < 1e-5);
			bool is_second = go_through("second", &worst).n_packed > 0;
			assert_true(worst < 1e-5);
			assert_true(is_first != is_second);
			assert_int_equal(f.n_lines, n_lines + 1);
			assert_non_null(strstr(f.line, "made again"));
		}
	}
}

struct dropping {
	struct et_source source;
	size_t n_dropped;
};

static void note_drop(void *owner, size_t offset, size_t n)
{
	struct dropping *dropping = owner;
	assert_true(offset <= dropping->source.n_bytes && n <= dropping->source.n_bytes - offset);
	dropping->n_dropped += n;
}

/* A filter is not read again after packing: its pages may leave memory, also those of the data file. */
static void test_packed_data_is_dropped(void **state)
{
	struct et_diag diag = { "" };
	struct et_source program;
	struct dropping dropping = { .n_dropped = 0 };
	struct et_external *external;
	struct test_model model;
	assert_int_equal(et_platform_source_open(&dropping.source, f.data, NULL, NULL, &diag), ET_OK);
	struct et_source data = { .bytes = dropping.source.bytes,
		.n_bytes = dropping.source.n_bytes,
		.owner = &dropping,
		.drop = note_drop };
	assert_int_equal(et_external_open(&external, &data, NULL, et_platform_allocator(), &diag), ET_OK);
	assert_int_equal(et_platform_source_open(&program, DATA_FILES "/first.bpte", NULL, NULL, &diag), ET_OK);
	assert_int_equal(test_model_open_source(&model, &program, et_external_data(external), "forward", &f.entry,
				 et_platform_allocator(), &diag),
		ET_OK);
	/* a convolution's 3 by 3 by 3 by 8 floats and one's 8 by 5, at least */
	assert_true(dropping.n_dropped >= (216 + 40) * sizeof(float));
	assert_true(dropping.n_dropped <= dropping.source.n_bytes);
	test_model_close(&model);
	et_external_free(external);
	dropping.source.release(dropping.source.owner);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(found_again),
		TEST(data_changes_under_its_name),
		TEST(data_changes_while_loaded),
		TEST(two_programs_share_it),
		TEST(hostile_files),
		TEST(packed_data_is_dropped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
