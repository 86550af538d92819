/* SPDX-License-Identifier: BSD-3-Clause */
/* Persisted weights, or the saved copy of a program, that are damaged: the file is replaced, and clients get right
 * answers again without a failed request. A program's file that changes changes no answer of the model. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"
#include "runtime/platform/store_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The damage: in the middle of the file, where the weights are. The checksum's offset in the file's header. */
enum { N_DAMAGE = 256 << 10, BODY_CHECKSUM_AT = 56, KEY_AT = 96, N_OUTPUTS = 1000 };

struct world {
	struct e2e e;
	char cache[96], config[160], kept[400];
	struct inferd *d;
	float right[N_OUTPUTS];
	uint8_t good[N_DAMAGE];
	off_t where;
	bool wants_copy; /* `kept` is the saved copy of the program, not the packed weights */
};

/* Whether the saved file @path is the copy of a program. */
static bool is_copy(const char *path)
{
	char key[ET_STORE_MAX_KEY + 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool is_read = fd >= 0 && pread(fd, key, sizeof key - 1, KEY_AT) == (ssize_t)sizeof key - 1;
	if (fd >= 0)
		close(fd);
	return is_read && strcmp(key, ET_STORE_COPY_KEY) == 0;
}

/* Whether there is a saved file of the kind that the test wants; then its path is in w->kept. */
static bool find_kept(struct world *w)
{
	bool is_found = false;
	DIR *dir = opendir(w->cache);
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		char path[sizeof w->kept];
		snprintf(path, sizeof path, "%s/%s", w->cache, entry->d_name);
		if (strstr(entry->d_name, ".kept") && is_copy(path) == w->wants_copy) {
			memcpy(w->kept, path, sizeof path);
			is_found = true;
		}
	}
	if (dir)
		closedir(dir);
	return is_found;
}

static void infer(struct inferd_binding *b, float *ret_outputs)
{
	float *input = inferd_input(b, 0);
	for (int i = 0; i < 3 * 224 * 224; i++)
		input[i] = (float)(i % 97) / 48 - 1;
	int rc = inferd_infer(b, NULL);
	if (rc)
		fail_msg("a request failed: %d", rc);
	memcpy(ret_outputs, inferd_output(b, 0), N_OUTPUTS * sizeof(float));
}

static void expect_right(const struct world *w, struct inferd_binding *b)
{
	float outputs[N_OUTPUTS];
	infer(b, outputs);
	assert_memory_equal(outputs, w->right, sizeof outputs);
}

/* Whether the daemon has mapped the file. */
static bool is_mapped(const struct world *w)
{
	char path[64], line[512];
	bool is_found = false;
	snprintf(path, sizeof path, "/proc/%d/maps", (int)w->e.pid);
	FILE *file = fopen(path, "re");
	while (file && !is_found && fgets(line, sizeof line, file))
		is_found = strstr(line, strrchr(w->kept, '/') + 1) && !strstr(line, "(deleted)");
	if (file)
		fclose(file);
	return is_found;
}

static struct inferd_binding *start_again(struct world *w)
{
	e2e_start(&w->e, w->config);
	w->d = e2e_connect(&w->e);
	struct inferd_binding *b = e2e_bind(w->d, "net", NULL);
	assert_true(is_mapped(w));
	return b;
}

static bool is_kept(const struct inf_server_status *status, const void *arg)
{
	return find_kept((struct world *)arg);
}

static void note_kept(struct world *w)
{
	struct stat st;
	e2e_until(&w->e, is_kept, w);
	assert_int_equal(stat(w->kept, &st), 0);
	w->where = st.st_size / 2 & ~4095;
	assert_true(st.st_size - w->where > N_DAMAGE);
	int fd = open(w->kept, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, w->good, N_DAMAGE, w->where), N_DAMAGE);
	close(fd);
	assert_false(is_mapped(w)); /* the daemon packed these weights itself */
	inferd_close(w->d);
	e2e_stop(&w->e);
}

static void init(struct world *w)
{
	e2e_init(&w->e);
	snprintf(w->cache, sizeof w->cache, "%s/cache", w->e.dir);
	assert_int_equal(mkdir(w->cache, 0700), 0);
	snprintf(w->config, sizeof w->config, "cache = %s\n", w->cache);
}

/* The model's weights are persisted in a cache folder, and @w knows the right answer. The daemon has ended. */
static void begin(struct world *w)
{
	init(w);
	assert_true(e2e_put_file(&w->e, "net.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	e2e_start(&w->e, w->config);
	w->d = e2e_connect(&w->e);
	struct inferd_binding *b = e2e_bind(w->d, "net", NULL);
	infer(b, w->right);
	note_kept(w);
}

static void end(struct world *w)
{
	inferd_close(w->d);
	e2e_deinit(&w->e);
}

/* Change the file in place, by way of a mapping. */
static void damage(const struct world *w)
{
	int fd = open(w->kept, O_RDWR | O_CLOEXEC);
	uint8_t *bytes = mmap(NULL, N_DAMAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, w->where);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	for (size_t i = 0; i < N_DAMAGE; i += 8)
		bytes[i] ^= 0x41;
	assert_int_equal(msync(bytes, N_DAMAGE, MS_SYNC), 0);
	munmap(bytes, N_DAMAGE);
	close(fd);
}

/* A record that the file was seen to be right: as if it had changed below the file system. */
static void pretend_it_was_seen(const struct world *w)
{
	char name[ET_STORE_NAME];
	struct stat st;
	struct timespec now;
	struct et_diag diag = { "" };
	struct et_store_record record = { 0 };
	struct et_platform_store *store = et_platform_store_new(w->cache, UINT64_MAX, NULL, &diag);
	assert_non_null(store);
	int fd = open(w->kept, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, &record.contents, 8, BODY_CHECKSUM_AT), 8);
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	clock_gettime(CLOCK_REALTIME, &now);
	record.identity = et_platform_identity_of(&st);
	record.seen_ns = ((int64_t)now.tv_sec + 60) * 1000000000;
	snprintf(name, sizeof name, "%.32s.seen", strrchr(w->kept, '/') + 1);
	et_store_record_write(store, name, &record);
	et_platform_store_unref(store);
}

/* Whether the file is there and has its contents of old. */
static bool is_replaced(struct world *w)
{
	static uint8_t now[N_DAMAGE];
	int fd = open(w->kept, O_RDONLY | O_CLOEXEC);
	bool is_good = fd >= 0 && pread(fd, now, N_DAMAGE, w->where) == N_DAMAGE && memcmp(now, w->good, N_DAMAGE) == 0;
	if (fd >= 0)
		close(fd);
	return is_good;
}

/* What 'inferctl why' shows. */
static void expect_reason(struct world *w, const char *why)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	struct inf_reply reply = e2e_raw_call(w->e.watcher, request);
	assert_int_equal(reply.repository_index.n_models, 1);
	assert_string_equal(reply.repository_index.models[0].state, "READY");
	assert_string_equal(reply.repository_index.models[0].reason, why);
}

static void test_damaged_while_the_daemon_was_stopped(void **state)
{
	static struct world w;
	float outputs[N_OUTPUTS];
	begin(&w);
	damage(&w);
	pretend_it_was_seen(&w);
	struct inferd_binding *b = start_again(&w);
	while (!is_replaced(&w))
		infer(b, outputs);
	expect_right(&w, b);
	expect_right(&w, e2e_bind(w.d, "net", NULL));
	expect_reason(&w, "its persisted weights were damaged, and it was loaded anew");
	end(&w);
}

static void count(struct inferd_binding *b, int status, void *userdata)
{
	if (status)
		fail_msg("a request failed: %d", status);
	*(bool *)userdata = false;
}

/* Of a client that has a request in flight at all times, of one that asks now and then, and of one that asked for the
 * backend. */
static void test_damaged_while_in_use(void **state)
{
	static struct world w;
	begin(&w);
	struct inferd_binding *b = start_again(&w), *two[2];
	struct inferd_method *m, *own_method;
	struct inferd *busy = e2e_connect(&w.e);
	struct inferd_binding *own;
	bool is_busy[2] = { false, false };
	float outputs[N_OUTPUTS];
	two[0] = e2e_bind(busy, "net", &m);
	assert_int_equal(inferd_bind(m, &two[1]), 0);
	assert_int_equal(inferd_method_open(w.d, &own_method, "net",
				 &(struct inferd_method_options){
					 .struct_size = sizeof(struct inferd_method_options), .backend = "xnnpack" }),
		0);
	assert_int_equal(inferd_bind(own_method, &own), 0);
	infer(two[0], outputs);
	infer(two[1], outputs);
	damage(&w);
	while (!is_replaced(&w)) {
		for (int i = 0; i < 2; i++)
			if (!is_busy[i]) {
				is_busy[i] = true;
				assert_int_equal(inferd_infer_async(two[i], NULL, count, &is_busy[i]), 0);
			}
		assert_true(inferd_wait(busy, 60000) >= 0);
		infer(b, outputs);
	}
	while (is_busy[0] || is_busy[1])
		assert_true(inferd_wait(busy, 60000) >= 0);
	expect_right(&w, b);
	expect_right(&w, own);
	expect_right(&w, two[0]);
	expect_right(&w, two[1]);
	inferd_close(busy);
	end(&w);
}

/* A state that was computed with damaged weights is not used again; the client is told. */
static void test_damaged_with_a_state(void **state)
{
	enum { FRAME = 512, N = 5 };
	static struct world w;
	size_t n_frames;
	float right[N];
	int rc;
	init(&w);
	float *frames = e2e_read(SHARED_MODELS "/silero_vad/speech_frames.f32", &n_frames);
	if (!frames || !e2e_put_file(&w.e, "net.pte", SHARED_MODELS "/silero_vad/xnnpack.pte")) {
		print_message("SKIPPED: " SHARED_MODELS "/silero_vad is not there\n");
		free(frames);
		e2e_deinit(&w.e);
		skip();
	}
	e2e_start(&w.e, w.config);
	w.d = e2e_connect(&w.e);
	struct inferd_method *m;
	struct inferd_binding *b = e2e_bind(w.d, "net", NULL);
	for (int i = 0; i < N; i++) {
		memcpy(inferd_input(b, 0), frames + i * FRAME, FRAME * 4);
		assert_int_equal(inferd_infer(b, NULL), 0);
		right[i] = *(float *)inferd_output(b, 0);
	}
	note_kept(&w);
	e2e_start(&w.e, w.config);
	w.d = e2e_connect(&w.e);
	b = e2e_bind(w.d, "net", &m);
	assert_true(is_mapped(&w));
	damage(&w);
	do {
		memcpy(inferd_input(b, 0), frames, FRAME * 4);
		rc = inferd_infer(b, NULL);
	} while (rc == 0);
	assert_int_equal(rc, -INFERD_STATE_LOST);
	assert_non_null(strstr(inferd_error(w.d), "its model was loaded anew; reset the Method first"));
	assert_int_equal(inferd_method_reset(m), 0);
	for (int i = 0; i < N; i++) {
		memcpy(inferd_input(b, 0), frames + i * FRAME, FRAME * 4);
		assert_int_equal(inferd_infer(b, NULL), 0);
		assert_true(*(float *)inferd_output(b, 0) == right[i]);
	}
	free(frames);
	end(&w);
}

/* Its Methods were told nothing yet when the daemon ends. */
static void test_damaged_at_the_end(void **state)
{
	static struct world w;
	begin(&w);
	start_again(&w);
	damage(&w);
	end(&w);
}

/* --- the saved copy of the program ------------------------------------------------------------------------ */

/* Let the record of the program's digest be certain, as if its file had been written long ago. */
static void age_program(const struct world *w)
{
	DIR *dir = opendir(w->cache);
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		char path[400];
		struct et_store_record record;
		snprintf(path, sizeof path, "%s/%s", w->cache, entry->d_name);
		if (!strstr(entry->d_name, ".program"))
			continue;
		int fd = open(path, O_RDWR | O_CLOEXEC);
		assert_int_equal(pread(fd, &record, sizeof record, 0), sizeof record);
		record.seen_ns += INT64_C(60000000000);
		record.check = et_store_checksum(&record, offsetof(struct et_store_record, check));
		assert_int_equal(pwrite(fd, &record, sizeof record, 0), sizeof record);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

/* Whether the folder's file system copies by reference: then no copy is saved, as another one costs nothing. */
static bool copies_by_reference(const char *dir)
{
	char names[2][120];
	int fds[2];
	for (int i = 0; i < 2; i++) {
		snprintf(names[i], sizeof names[i], "%s/clone-%d", dir, i);
		fds[i] = open(names[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	}
	bool is_cloned = write(fds[0], "x", 1) == 1 && ioctl(fds[1], FICLONE, fds[0]) == 0;
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		unlink(names[i]);
	}
	return is_cloned;
}

static void begin_copy(struct world *w)
{
	if (copies_by_reference("/tmp")) {
		print_message("SKIPPED: the file system of /tmp copies by reference\n");
		skip();
	}
	*w = (struct world){ .wants_copy = true };
	begin(w);
	age_program(w);
}

/* The daemon runs, and has opened the saved copy in place of the program's file. */
static struct inferd_binding *begin_with_copy(struct world *w)
{
	begin_copy(w);
	return start_again(w);
}

/* Write @n zeros over the program's file in place, from its middle on; then cut it off there. */
static void spoil_program(const struct world *w, size_t n)
{
	static const uint8_t zeros[N_DAMAGE];
	char path[400];
	struct stat st;
	snprintf(path, sizeof path, "%s/net.pte", w->e.models);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	for (size_t at = 0; at < n; at += sizeof zeros)
		assert_int_equal(pwrite(fd, zeros, sizeof zeros, st.st_size / 2 + (off_t)at), sizeof zeros);
	if (!n)
		assert_int_equal(ftruncate(fd, st.st_size / 2), 0);
	close(fd);
}

static void test_program_changes_under_its_copy(void **state)
{
	static struct world w;
	struct inferd_binding *b = begin_with_copy(&w);
	expect_right(&w, b);
	spoil_program(&w, 1 << 20);
	expect_right(&w, b);
	expect_right(&w, e2e_bind(w.d, "net", NULL));
	spoil_program(&w, 0);
	expect_right(&w, b);
	/* another daemon does not take the copy for the file that is there now */
	inferd_close(w.d);
	e2e_stop(&w.e);
	e2e_start(&w.e, w.config);
	w.d = e2e_connect(&w.e);
	struct inferd_method *m;
	assert_int_not_equal(inferd_method_open(w.d, &m, "net", NULL), 0);
	assert_true(e2e_put_file(&w.e, "net.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	expect_right(&w, e2e_bind(w.d, "net", NULL));
	end(&w);
}

static void test_damaged_copy_in_use(void **state)
{
	static struct world w;
	float outputs[N_OUTPUTS];
	struct inferd_binding *b = begin_with_copy(&w);
	expect_right(&w, b);
	damage(&w);
	while (!is_replaced(&w))
		infer(b, outputs);
	expect_right(&w, b);
	expect_right(&w, e2e_bind(w.d, "net", NULL));
	expect_reason(&w, "its persisted weights were damaged, and it was loaded anew");
	end(&w);
}

/* Below the file system, before the daemon starts: it finds out while it serves. */
static void test_damaged_copy_before_the_start(void **state)
{
	static struct world w;
	float outputs[N_OUTPUTS];
	begin_copy(&w);
	damage(&w);
	pretend_it_was_seen(&w);
	struct inferd_binding *b = start_again(&w);
	while (!is_replaced(&w))
		infer(b, outputs);
	expect_right(&w, b);
	end(&w);
}

/* Damage with which the copy is no program: the first client does not notice. */
static void test_copy_that_is_no_program(void **state)
{
	static struct world w;
	begin_copy(&w);
	int fd = open(w.kept, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd,
				 "\xff\xff\xff\xff"
				 "damage",
				 10, ET_STORE_ALIGNMENT),
		10);
	close(fd);
	pretend_it_was_seen(&w);
	e2e_start(&w.e, w.config);
	w.d = e2e_connect(&w.e);
	expect_right(&w, e2e_bind(w.d, "net", NULL));
	assert_false(is_mapped(&w));
	end(&w);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_while_the_daemon_was_stopped),
		cmocka_unit_test(test_damaged_while_in_use),
		cmocka_unit_test(test_damaged_with_a_state),
		cmocka_unit_test(test_damaged_at_the_end),
		cmocka_unit_test(test_program_changes_under_its_copy),
		cmocka_unit_test(test_damaged_copy_in_use),
		cmocka_unit_test(test_damaged_copy_before_the_start),
		cmocka_unit_test(test_copy_that_is_no_program),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
