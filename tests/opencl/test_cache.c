/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels in the cache folder: found again, also by another process; compiled anew where a file is damaged; requested
 * where another process compiles. */
#include "delegates/opencl/cache_file.h"
#include "tests/opencl/rig.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char relu[] = "%0: f32[2] = input\n%1: f32[2] = aten.relu.default(%0)\nreturn %1\n";

static char folder[64];

/* --- the log -------------------------------------------------------------------------------------- */

static char log_text[1 << 14];

static void keep(void *self, int level, const char *text)
{
	size_t n = strlen(log_text);
	snprintf(log_text + n, sizeof(log_text) - n, "%d %s\n", level, text);
}

/* --- a plug-in with a cache ----------------------------------------------------------------------- */

static int make_folder(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/inferd-kernels-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

static int remove_folder(void **state)
{
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* False: there is no driver. */
static bool open_with_cache(struct rig *rig, uint32_t flags)
{
	rig_load(rig);
	rig->host.cache_dir = folder;
	rig->host.flags = flags;
	rig->host.log = keep;
	log_text[0] = '\0';
	return rig_open_driver(rig);
}

static int init(struct rig *rig, struct inferd_delegate_model **ret_model)
{
	struct inferd_delegate_model_info info;
	return rig_init(rig, relu, ret_model, &info);
}

static void expect_log(const char *text)
{
	if (!strstr(log_text, text))
		fail_msg("the log does not say '%s':\n%s", text, log_text);
}

/* Load the model, run it, and close; the log then says @text. */
static void use(const char *text)
{
	struct inferd_delegate_instance *instance;
	struct inferd_delegate_model *model;
	struct rig_run run = { .n = 0 };
	struct rig rig;
	assert_true(open_with_cache(&rig, 0));
	if (init(&rig, &model))
		fail_msg("%s", rig.message.text);
	assert_int_equal(rig.table->instance_new(model, &instance, &rig.message), 0);
	rig_arg(&run, "f32[2]{-1, 2}");
	rig_arg(&run, "f32[2]");
	assert_int_equal(rig_execute(&rig, model, instance, &run), 0);
	rig_expect(&run, 1, "f32[2]{0, 2}", "a run");
	rig.table->instance_free(instance);
	rig.table->destroy(model);
	rig_close(&rig);
	expect_log(text);
}

static bool has_driver(void)
{
	struct rig rig;
	bool has = open_with_cache(&rig, 0);
	rig_close(&rig);
	return has;
}

/* The one file in the folder whose name ends with @ending, its path; how many there are. */
static int find_files(const char *ending, char *path, size_t room)
{
	DIR *entries = opendir(folder);
	int n = 0;
	assert_non_null(entries);
	for (struct dirent *entry; (entry = readdir(entries));) {
		size_t n_name = strlen(entry->d_name), n_ending = strlen(ending);
		if (n_name < n_ending || strcmp(entry->d_name + n_name - n_ending, ending) != 0)
			continue;
		snprintf(path, room, "%s/%s", folder, entry->d_name);
		n++;
	}
	closedir(entries);
	return n;
}

/* --- tests ---------------------------------------------------------------------------------------- */

static void test_found_again(void **state)
{
	char path[400];
	if (!has_driver())
		skip();
	use(": 0 kernels from the cache, 1 compiled");
	assert_int_equal(find_files(".binary", path, sizeof(path)), 1);
	assert_int_equal(find_files(".request", path, sizeof(path)), 0);
	use(": 1 kernels from the cache, 0 compiled");
}

/* Put @n bytes into the binary's file. */
static void put(const char *path, const void *bytes, size_t n)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

/* What is cut short, changed, or of another driver is said to be so, and compiled anew. */
static void test_damaged(void **state)
{
	static uint8_t bytes[1 << 22];
	struct ocl_cache_header header;
	char path[400], key[OCL_KEY] = "";
	if (!has_driver())
		skip();
	use("1 compiled");
	assert_int_equal(find_files(".binary", path, sizeof(path)), 1);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	size_t n = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	assert_true(n > sizeof(header) && n < sizeof(bytes));
	memcpy(&header, bytes, sizeof(header));
	memcpy(key, header.key, sizeof(header.key));

	put(path, bytes, n - 1);
	use("of kernel chain is not used: it has ");
	expect_log("1 compiled");
	use("1 kernels from the cache, 0 compiled");
	put(path, bytes, 40);
	use("is not used: it is cut short: 40 bytes");
	put(path, "", 0);
	use("is not used: it is cut short: 0 bytes");
	bytes[n - 1] ^= 1;
	put(path, bytes, n);
	use("is not used: its checksum is wrong");
	/* whole, but no driver made it */
	memset(bytes + sizeof(header), 'x', 100);
	header = ocl_cache_header(OCL_BINARY, key, bytes + sizeof(header), 100);
	memcpy(bytes, &header, sizeof(header));
	put(path, bytes, sizeof(header) + 100);
	use("is not used: the driver refuses it: CL_INVALID_BINARY");
	use("1 kernels from the cache, 0 compiled");
	/* a folder in its place */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	use("is not used: it is no file");
	assert_int_equal(rmdir(path), 0);
}

/* Where another process compiles: init requests what it needs, and finds it when that process has ended. */
static void test_requests(void **state)
{
	struct inferd_delegate_model *model;
	struct rig serves, builds;
	char path[400];
	if (!open_with_cache(&serves, INFERD_DELEGATE_BUILDS_APART))
		skip();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(init(&serves, &model), INFERD_DELEGATE_TO_BUILD);
		assert_string_equal(serves.message.text, "1 kernels have to be compiled first");
		assert_int_equal(find_files(".request", path, sizeof(path)), 1);
	}
	assert_true(open_with_cache(&builds, 0));
	assert_int_equal(builds.table->build(builds.self, &builds.message), 0);
	expect_log(": 0 kernels from the cache, 1 compiled");
	assert_int_equal(builds.table->build(builds.self, &builds.message), 0);
	rig_close(&builds);
	assert_int_equal(find_files(".request", path, sizeof(path)), 0);
	assert_int_equal(find_files(".binary", path, sizeof(path)), 1);
	log_text[0] = '\0';
	assert_int_equal(init(&serves, &model), 0);
	expect_log(": 1 kernels from the cache, 0 compiled");
	serves.table->destroy(model);
	rig_close(&serves);
}

/* Requests that nobody of this version wrote. */
static void test_bad_requests(void **state)
{
	static const char body[] = "elementwise\0#error \"no kernel\"\n";
	static const char *const texts[] = { "anything" };
	char path[400], key[OCL_KEY];
	struct et_diag diag = { "" };
	struct rig rig;
	if (!open_with_cache(&rig, 0))
		skip();
	ocl_cache_key(texts, 1, key);
	/* whole, but of no device here: it is dropped */
	assert_int_equal(ocl_cache_write(folder, OCL_REQUEST, key, body, sizeof(body), &diag), ET_OK);
	assert_int_equal(rig.table->build(rig.self, &rig.message), 0);
	assert_int_equal(find_files(".request", path, sizeof(path)), 0);
	/* damaged */
	snprintf(path, sizeof(path), "%s/%s.request", folder, key);
	put(path, body, sizeof(body));
	assert_int_equal(rig.table->build(rig.self, &rig.message), INFERD_DELEGATE_E_INVALID);
	assert_string_equal(rig.message.text, "it is cut short: 32 bytes");
	assert_int_equal(rig.table->build(rig.self, &rig.message), 0);
	rig_close(&rig);
}

/* Processes that write the same file at the same time: everybody ends well, and what is there is whole. */
static void test_many_writers(void **state)
{
	enum { N_WRITERS = 8, N_TIMES = 50, N_BYTES = 20000 };
	static const char *const texts[] = { "the same" };
	static uint8_t body[N_BYTES];
	pid_t pids[N_WRITERS];
	char key[OCL_KEY], path[400];
	ocl_cache_key(texts, 1, key);
	memset(body, 7, sizeof(body));
	for (int i = 0; i < N_WRITERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		for (int k = 0; pids[i] == 0 && k < N_TIMES; k++) {
			struct et_diag diag = { "" };
			uint8_t *bytes = NULL;
			const uint8_t *found;
			size_t n;
			if (ocl_cache_write(folder, OCL_BINARY, key, body, sizeof(body), &diag) != ET_OK ||
				ocl_cache_read(folder, OCL_BINARY, key, &bytes, &found, &n, &diag) != ET_OK ||
				n != sizeof(body) || memcmp(found, body, n) != 0)
				_exit(1);
			free(bytes);
		}
		if (pids[i] == 0)
			_exit(0);
	}
	for (int i = 0; i < N_WRITERS; i++) {
		int status;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(find_files("", path, sizeof(path)), 3); /* with . and .. */
}

/* Each call of OpenCL that fails once, with a cache: it ends with a sentence, and what it left is found again or made
 * anew. */
static bool attempt(struct rig *rig)
{
	struct inferd_delegate_model *model;
	rig_load(rig);
	rig->host.cache_dir = folder;
	rig->host.log = keep;
	log_text[0] = '\0';
	rig_set(rig, "library", FAKE);
	rig_set_driver(rig);
	if (rig_open(rig))
		return false;
	int result = init(rig, &model);
	if (!result)
		rig->table->destroy(model);
	return !result;
}

static void test_failing_calls(void **state)
{
	void *fake = dlopen(FAKE, RTLD_NOW | RTLD_LOCAL);
	struct rig rig;
	if (!has_driver())
		skip();
	assert_non_null(fake);
	atomic_long *n_calls = dlsym(fake, "fake_n_calls"), *fail_at = dlsym(fake, "fake_fail_at");
	assert_non_null(n_calls);
	assert_non_null(fail_at);
	for (int is_cached = 0; is_cached < 2; is_cached++) {
		long n = 0, n_failed = 0;
		do {
			char path[400];
			if (!is_cached && find_files(".binary", path, sizeof(path)))
				assert_int_equal(unlink(path), 0);
			*n_calls = 0;
			*fail_at = ++n;
			bool is_done = attempt(&rig);
			n_failed += !is_done;
			if (!is_done && !rig.message.text[0])
				fail_msg("call %ld fails without a sentence", n);
			*fail_at = 0;
			rig_close(&rig);
		} while (*n_calls >= n);
		assert_true(n_failed > 3);
	}
	use("1 kernels from the cache, 0 compiled");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
	const struct CMUnitTest tests[] = { TEST(test_found_again), TEST(test_damaged), TEST(test_requests),
		TEST(test_bad_requests), TEST(test_many_writers), TEST(test_failing_calls) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
