/* SPDX-License-Identifier: BSD-3-Clause */
/* Several clients and one copy of a model: each client gets its own results and never another client's. */
#include "tests/e2e/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { N_CLIENTS = 8, FRAME = 512, N_FRAMES = 86 };

static bool has_one_program(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == 1 && status->programs[0].methods == *(const uint32_t *)arg &&
	       status->copied_bytes == 0;
}

static void test_one_program(void **state)
{
	struct inferd *d[N_CLIENTS];
	struct inferd_binding *b[N_CLIENTS];
	uint32_t n = N_CLIENTS;
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "double/1/a.pte", e2e_program_double);
	e2e_start(&e, NULL);
	for (int i = 0; i < N_CLIENTS; i++) {
		d[i] = e2e_connect(&e);
		b[i] = e2e_bind(d[i], "double", NULL);
	}
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < N_CLIENTS; i++) {
			float y = e2e_infer(b[i], (float)(i + round), &rc);
			assert_int_equal(rc, 0);
			assert_true(y == 2 * (float)(i + round));
		}
	e2e_until(&e, has_one_program, &n);
	for (int i = 0; i < N_CLIENTS; i++)
		inferd_close(d[i]);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* All at once, in flight together. */
static void count_done(struct inferd_binding *b, int status, void *userdata)
{
	int *n = userdata;
	assert_int_equal(status, 0);
	++*n;
}

static void ignore_end(struct inferd_binding *b, int status, void *userdata)
{
}

static void test_many_in_flight(void **state)
{
	enum { N = 64 };
	struct inferd_binding *b[N];
	struct inferd_method *m = NULL;
	struct e2e e;
	int n_done = 0;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	b[0] = e2e_bind(d, "double", &m);
	for (int i = 1; i < N; i++)
		assert_int_equal(inferd_bind(m, &b[i]), 0);
	for (int round = 0; round < 20; round++) {
		n_done = 0;
		for (int i = 0; i < N; i++) {
			*(float *)inferd_input(b[i], 0) = (float)(i * round);
			assert_int_equal(inferd_infer_async(b[i], NULL, count_done, &n_done), 0);
		}
		while (n_done < N)
			assert_true(inferd_wait(d, 30000) >= 0);
		for (int i = 0; i < N; i++)
			assert_true(*(float *)inferd_output(b[i], 0) == (float)(2 * i * round));
	}
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

struct frames {
	size_t n_clients;
	uint64_t n_bytes; /* of all; 0: any number */
	uint64_t *ret_bytes;
};

static bool has_frames(const struct inf_server_status *status, const void *arg)
{
	const struct frames *frames = arg;
	if (status->n_programs != 1 || !status->programs[0].frame_bytes ||
		status->n_clients != frames->n_clients + 1) /* the watcher */
		return false;
	*frames->ret_bytes = status->programs[0].frame_bytes;
	return !frames->n_bytes || frames->n_bytes == *frames->ret_bytes;
}

/* Each class interrupts the one below, whose request keeps its activations; they are not kept when all has ended. */
static void test_interrupted(void **state)
{
	static const enum inferd_priority classes[] = { INFERD_IDLE, INFERD_BATCH, INFERD_INTERACTIVE };
	struct inferd_method *m = NULL;
	struct inferd_binding *b;
	uint64_t n_bytes = 0, n_now;
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "forever.pte", e2e_program_forever);
	e2e_start(&e, "workers = 1\n");
	struct inferd *d = e2e_connect(&e);
	b = e2e_bind(d, "forever", &m);
	for (uint64_t i = 0; i < 3; i++) {
		struct inferd_request_options options = { .struct_size = sizeof(options), .priority = classes[i] };
		if (i)
			assert_int_equal(inferd_bind(m, &b), 0);
		*(float *)inferd_input(b, 0) = 1;
		assert_int_equal(inferd_infer_async(b, &options, ignore_end, NULL), 0);
		e2e_until(&e, has_frames, &(struct frames){ 1, (i + 1) * n_bytes, i ? &n_now : &n_bytes });
	}
	inferd_close(d);
	e2e_until(&e, has_frames, &(struct frames){ 0, n_bytes, &n_now });
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static void test_state_is_ones_own(void **state)
{
	struct inferd_method *m[3];
	struct inferd *d[3];
	struct inferd_binding *b[3];
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "sum.pte", e2e_program_accumulate);
	e2e_start(&e, NULL);
	for (int i = 0; i < 3; i++) {
		d[i] = e2e_connect(&e);
		b[i] = e2e_bind(d[i], "sum", &m[i]);
		assert_true(inferd_method_is_stateful(m[i]));
	}
	for (int round = 1; round <= 50; round++)
		for (int i = 0; i < 3; i++)
			assert_true(e2e_infer(b[i], (float)(i + 1), &rc) == (float)(round * (i + 1)) && rc == 0);
	assert_int_equal(inferd_method_reset(m[1]), 0);
	assert_true(e2e_infer(b[1], 5, &rc) == 5 && rc == 0);
	assert_true(e2e_infer(b[0], 1, &rc) == 51 && rc == 0);
	for (int i = 0; i < 3; i++)
		inferd_close(d[i]);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Requests of one stateful Method in flight together run in the order in which they were sent. */
static void test_state_in_order(void **state)
{
	enum { N = 16 };
	struct inferd_binding *b[N];
	struct inferd_method *m = NULL;
	struct e2e e;
	int n_done = 0;
	e2e_init(&e);
	e2e_put_program(&e, "sum.pte", e2e_program_accumulate);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	b[0] = e2e_bind(d, "sum", &m);
	for (int i = 1; i < N; i++)
		assert_int_equal(inferd_bind(m, &b[i]), 0);
	float sum = 0;
	for (int round = 0; round < 20; round++) {
		n_done = 0;
		for (int i = 0; i < N; i++) {
			*(float *)inferd_input(b[i], 0) = (float)(i + 1);
			assert_int_equal(inferd_infer_async(b[i], NULL, count_done, &n_done), 0);
		}
		while (n_done < N)
			assert_true(inferd_wait(d, 30000) >= 0);
		for (int i = 0; i < N; i++) {
			sum += (float)(i + 1);
			assert_true(*(float *)inferd_output(b[i], 0) == sum);
		}
	}
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static void test_variants(void **state)
{
	struct inferd_method_options options = { .struct_size = sizeof(options), .backend = "xnnpack" };
	struct inferd_method *m = NULL;
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_foreign);
	e2e_put_program(&e, "m/1/b.pte", e2e_program_double);
	e2e_put_program(&e, "m/2/c.pte", e2e_program_unknown);
	e2e_put_program(&e, "m/10/d.pte", e2e_program_triple);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);

	struct inferd_binding *b = e2e_bind(d, "m", &m); /* the newest is 10, not 2 */
	assert_string_equal(inferd_method_version(m), "10");
	assert_string_equal(inferd_method_backend(m), "portable");
	assert_true(e2e_infer(b, 1, &rc) == 3 && rc == 0);

	assert_true(inferd_method_open(d, &m, "m", &options) < 0);
	assert_non_null(strstr(inferd_error(d), "xnnpack"));
	assert_non_null(strstr(inferd_error(d), "portable"));

	options = (struct inferd_method_options){ .struct_size = sizeof(options), .version = "1" };
	assert_int_equal(inferd_method_open(d, &m, "m", &options), 0); /* a.pte can't, b.pte does */
	struct inf_request index = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	struct inf_reply reply = e2e_raw_call(e.watcher, index);
	assert_int_equal(reply.repository_index.n_models, 3);
	assert_string_equal(reply.repository_index.models[0].version, "1");
	assert_string_equal(reply.repository_index.models[0].state, "READY");
	assert_non_null(strstr(reply.repository_index.models[0].reason, "Backend 'NobodysBackend' is not available"));

	options.version = "2";
	assert_int_equal(inferd_method_open(d, &m, "m", &options), -INFERD_UNIMPLEMENTED);
	assert_non_null(strstr(inferd_error(d), "nobodys::operator"));
	assert_non_null(strstr(inferd_error(d), "c.pte"));
	options.version = "3";
	assert_int_equal(inferd_method_open(d, &m, "m", &options), -INFERD_NOT_FOUND);
	assert_non_null(strstr(inferd_error(d), "1, 2, 10"));
	assert_int_equal(inferd_method_open(d, &m, "nothing", NULL), -INFERD_NOT_FOUND);
	assert_string_equal(inferd_error(d), "no model 'nothing'; available models: m");
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A file that is replaced: who has it keeps it, the next load gets the new one. */
static bool has_programs(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == *(const size_t *)arg;
}

static void test_replaced_file(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "m.pte", e2e_program_double);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "m", NULL);
	e2e_put(&e, "m.pte", "gone", 4); /* truncated and overwritten in place */
	assert_true(e2e_infer(b, 2, &rc) == 4 && rc == 0);
	e2e_put_program(&e, "m.pte", e2e_program_triple);
	assert_true(e2e_infer(b, 2, &rc) == 4 && rc == 0);
	/* loaded again: who comes now gets the new one, who has the old one keeps it */
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	struct inferd *later = e2e_connect(&e);
	struct inferd_binding *other = e2e_bind(later, "m", NULL);
	assert_true(e2e_infer(other, 2, &rc) == 6 && rc == 0);
	assert_true(e2e_infer(b, 2, &rc) == 4 && rc == 0);
	e2e_until(&e, has_programs, &(size_t){ 2 });
	inferd_close(d);
	e2e_until(&e, has_programs, &(size_t){ 1 });
	/* nothing has changed: it is the same one */
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	e2e_until(&e, has_programs, &(size_t){ 1 });
	/* a newer version, and the file's own again */
	e2e_put_program(&e, "m/2/m.pte", e2e_program_double);
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	d = e2e_connect(&e);
	b = e2e_bind(d, "m", NULL);
	assert_true(e2e_infer(b, 2, &rc) == 4 && rc == 0);
	assert_true(e2e_infer(other, 2, &rc) == 6 && rc == 0);
	inferd_close(d);
	inferd_close(later);
	e2e_until_clients(&e, 0);
	e2e_put(&e, "m/2/m.pte", "gone", 4);
	e2e_put_program(&e, "m/2/m.pte", e2e_program_triple);
	assert_int_equal(e2e_unload(&e, "m"), INF_OK);
	d = e2e_connect(&e);
	b = e2e_bind(d, "m", NULL);
	assert_true(e2e_infer(b, 2, &rc) == 6 && rc == 0);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static void move(struct e2e *e, const char *from, const char *to)
{
	char paths[2][256];
	snprintf(paths[0], sizeof(paths[0]), "%s/%s", e->models, from);
	snprintf(paths[1], sizeof(paths[1]), "%s/%s", e->models, to);
	assert_int_equal(rename(paths[0], paths[1]), 0);
}

static void assert_ready(struct e2e *e)
{
	struct inf_request index = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	struct inf_reply reply = e2e_raw_call(e->watcher, index);
	assert_int_equal(reply.repository_index.n_models, 1);
	assert_string_equal(reply.repository_index.models[0].state, "READY");
}

/* There and back: what was loaded of these very files, and is in use, is what is served again. */
static void test_replaced_and_back(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/m.pte", e2e_program_double);
	e2e_start(&e, NULL);
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	struct inferd *first = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(first, "m", NULL);
	move(&e, "m", ".first");
	e2e_put_program(&e, "m/1/m.pte", e2e_program_triple);
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	struct inferd *second = e2e_connect(&e);
	struct inferd_binding *other = e2e_bind(second, "m", NULL);
	assert_true(e2e_infer(other, 2, &rc) == 6 && rc == 0);
	move(&e, "m", ".second");
	move(&e, ".first", "m");
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	assert_ready(&e);
	inferd_close(second);
	e2e_until(&e, has_programs, &(size_t){ 1 });
	assert_true(e2e_infer(b, 2, &rc) == 4 && rc == 0);
	inferd_close(first); /* which it outlives */
	e2e_until_clients(&e, 0);
	assert_ready(&e);
	second = e2e_connect(&e);
	other = e2e_bind(second, "m", NULL);
	assert_true(e2e_infer(other, 2, &rc) == 4 && rc == 0);
	inferd_close(second);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A newer version is taken away again: nobody gets it, not by its number either, until it is there again. */
static void test_version_gone(void **state)
{
	const struct inferd_method_options options = { .struct_size = sizeof(options), .version = "2" };
	struct inferd_method *m;
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/m.pte", e2e_program_double);
	e2e_put_program(&e, "m/2/m.pte", e2e_program_triple);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "m", NULL);
	move(&e, "m/2", ".gone");
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	assert_int_equal(inferd_method_open(d, &m, "m", &options), -INFERD_NOT_FOUND);
	assert_true(e2e_infer(b, 2, &rc) == 6 && rc == 0);
	b = e2e_bind(d, "m", &m);
	assert_string_equal(inferd_method_version(m), "1");
	assert_true(e2e_infer(b, 2, &rc) == 4 && rc == 0);
	move(&e, ".gone", "m/2");
	assert_int_equal(inferd_method_open(d, &m, "m", &options), 0);
	assert_string_equal(inferd_method_version(m), "2");
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static bool has_no_program(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == 0;
}

static bool has_one_left(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == 1;
}

/* What is deleted is gone for who comes, without anybody saying so: a version that is not the newest, then the rest.
 * Who has it keeps it, and when he lets go its memory goes. */
static void test_deleted(void **state)
{
	const struct inferd_method_options options = { .struct_size = sizeof(options), .version = "1" };
	struct inferd_method *m, *other;
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/m.pte", e2e_program_double);
	e2e_put_program(&e, "m/2/m.pte", e2e_program_triple);
	e2e_start(&e, "[model m]\npin = yes\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *newest = e2e_bind(d, "m", NULL), *b;
	assert_int_equal(inferd_method_open(d, &m, "m", &options), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	move(&e, "m/1", ".gone");
	while ((rc = inferd_method_open(d, &other, "m", &options)) == 0)
		inferd_method_close(other);
	assert_int_equal(rc, -INFERD_NOT_FOUND);
	assert_non_null(strstr(inferd_error(d), "no version '1'; there are: 2"));
	assert_true(e2e_infer(b, 2, &rc) == 4 && rc == 0);
	inferd_method_close(m);
	e2e_until(&e, has_one_left, NULL);
	move(&e, "m/2", ".gone2");
	while ((rc = inferd_method_open(d, &other, "m", NULL)) == 0)
		inferd_method_close(other);
	assert_int_equal(rc, -INFERD_NOT_FOUND);
	assert_true(e2e_infer(newest, 2, &rc) == 6 && rc == 0);
	inferd_close(d);
	e2e_until(&e, has_no_program, NULL);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Memory that the daemon has touched, but for files': its own, and what it shares with others. */
static size_t touched_bytes(pid_t pid)
{
	char path[64], line[256];
	unsigned long kb = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, "RssAnon:", 8) == 0 || strncmp(line, "RssShmem:", 9) == 0)
			kb += strtoul(strchr(line, ':') + 1, NULL, 10);
	fclose(file);
	assert_true(kb > 0);
	return kb * 1024;
}

/* A client that has a Method and a binding and does nothing costs kilobytes, whatever the model's activations: its
 * state, and no arena. */
static void test_idle_clients(void **state)
{
	enum { N = 1000, EACH = 64 * 1024, REGION = 4096 };
	static struct e2e_raw *raw[N];
	static float *floats[N];
	static uint64_t bindings[N];
	uint64_t method, region;
	struct rlimit limit;
	size_t before = 0;
	struct e2e e;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	e2e_init(&e);
	e2e_put_program(&e, "large.pte", e2e_program_large);
	e2e_start(&e, "[limits]\nconnections = 2000\nfds = 4096\n");
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < N; i++) {
			if (round == 0 && i == 1) /* the first one loads the model */
				before = touched_bytes(e.pid);
			if (round == 0) {
				raw[i] = e2e_raw_new(e.socket, false);
				e2e_raw_bind(raw[i], "large", &method, &bindings[i], &region, &floats[i]);
				floats[i][0] = (float)i;
			}
			struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = bindings[i] } };
			assert_int_equal(e2e_raw_call(raw[i], infer).status, INF_OK);
			/* each has a state of its own */
			assert_true(floats[i][16] == (float)((i + 1) * (round + 1)));
		}
		size_t after = touched_bytes(e.pid);
		size_t each = after > before ? (after - before) / (N - 1) : 0;
		print_message("%zu bytes for each idle client, %d of them its tensors\n", each, REGION);
#ifndef INF_SANITIZED /* whose allocator keeps more */
		assert_true(each <= EACH + REGION);
#endif
	}
	for (int i = 0; i < N; i++) {
		munmap(floats[i], REGION);
		e2e_raw_free(raw[i]);
	}
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A client's own program: shared by those who pass the same file, gone with them. */
static void test_own_program(void **state)
{
	struct inferd_method *m[2];
	struct inferd_binding *b = NULL;
	uint32_t two = 2;
	char path[128];
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_start(&e, NULL);
	e2e_put_program(&e, "../own.pte", e2e_program_double);
	snprintf(path, sizeof(path), "%s/own.pte", e.dir);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	struct inferd *d = e2e_connect(&e);
	for (int i = 0; i < 2; i++)
		if (inferd_method_open_fd(d, &m[i], fileno(file), "own", NULL) < 0)
			fail_msg("%s", inferd_error(d));
	fclose(file);
	e2e_until(&e, has_one_program, &two);
	assert_int_equal(inferd_bind(m[1], &b), 0);
	assert_true(e2e_infer(b, 4, &rc) == 8 && rc == 0);
	inferd_close(d);
	e2e_until(&e, has_no_program, NULL);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Two streams of silero_vad, interleaved, each equal to the reference. */
static void test_silero(void **state)
{
	size_t n_frames, n_probs;
	struct inferd *d[2];
	struct inferd_binding *b[2];
	struct e2e e;
	e2e_init(&e);
	float *frames = e2e_read(SHARED_MODELS "/silero_vad/speech_frames.f32", &n_frames);
	float *probs = e2e_read(SHARED_MODELS "/silero_vad/speech_prob.f32", &n_probs);
	if (!frames || !probs || !e2e_put_file(&e, "silero.pte", SHARED_MODELS "/silero_vad/xnnpack.pte")) {
		print_message("SKIPPED: " SHARED_MODELS "/silero_vad is not there\n");
		free(frames);
		free(probs);
		e2e_deinit(&e);
		skip();
	}
	assert_int_equal(n_frames, FRAME * N_FRAMES * 4);
	assert_int_equal(n_probs, N_FRAMES * 4);
	e2e_start(&e, NULL);
	for (int i = 0; i < 2; i++) {
		d[i] = e2e_connect(&e);
		b[i] = e2e_bind(d[i], "silero", NULL);
	}
	/* the second begins ten frames later, so that a leak of state would show */
	for (int at = 0; at < N_FRAMES + 10; at++)
		for (int i = 0; i < 2; i++) {
			int frame = at - 10 * i;
			if (frame < 0 || frame >= N_FRAMES)
				continue;
			memcpy(inferd_input(b[i], 0), frames + frame * FRAME, FRAME * 4);
			assert_int_equal(inferd_infer(b[i], NULL), 0);
			float p = *(float *)inferd_output(b[i], 0);
			if (fabsf(p - probs[frame]) > 1e-4f)
				fail_msg("stream %d frame %d: %g, expected %g", i, frame, (double)p,
					(double)probs[frame]);
		}
	for (int i = 0; i < 2; i++)
		inferd_close(d[i]);
	free(frames);
	free(probs);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_program),
		cmocka_unit_test(test_many_in_flight),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_state_is_ones_own),
		cmocka_unit_test(test_state_in_order),
		cmocka_unit_test(test_variants),
		cmocka_unit_test(test_replaced_file),
		cmocka_unit_test(test_replaced_and_back),
		cmocka_unit_test(test_version_gone),
		cmocka_unit_test(test_deleted),
		cmocka_unit_test(test_own_program),
		cmocka_unit_test(test_idle_clients),
		cmocka_unit_test(test_silero),
	};
	return e2e_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
