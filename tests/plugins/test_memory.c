/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory between inferd and a plug-in's host: what is used where it lies, what is copied, what is released, and what
 * happens when a client takes its memory away.
 *
 *     test_memory process|thread */
#include "tests/plugins/killer.h"
#include "delegates/inferd-delegate.h"
#include "delegates/plugin/proxy/plugin.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { N = 1024, PAGE = 4096, N_PAGES = 16 };

static enum et_plugin_isolation isolation;

static void drop(void *self, enum et_log_level level, const char *text)
{
}

static const struct et_log log_table = { .max_level = ET_LOG_DEBUG, .write = drop };

struct bench {
	struct et_plugin_config config;
	struct et_backend_entry entry;
	struct et_model *model;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct et_diag diag;
	/* a client's region */
	int fd;
	struct et_platform_mapping region;
	void *handle;
	/* the last run */
	enum et_status status;
	char reason[300];
	int32_t sizes[1];
	const struct et_trace *trace;
};

static void bench_open(struct bench *b, const char *plugin, const char *payload_text)
{
	static char path[600];
	struct et_payload payload = { .bytes = (const uint8_t *)payload_text,
		.n_bytes = strlen(payload_text),
		.method = "forward",
		.n_args = 2 };
	struct et_model_info info = { 0 };
	snprintf(path, sizeof path, "%s/%s.so", PLUGINS, plugin);
	b->config.path = path;
	b->config.host_path = HOST;
	b->config.isolation = isolation;
	b->config.max_crashes = 100;
	assert_int_equal(et_plugin_open(&b->entry, &b->config, et_platform_allocator(), &log_table, &b->diag), ET_OK);
	assert_int_equal(b->entry.ops->compile(b->entry.backend, &payload, &b->model, &info, &b->diag), ET_OK);
	assert_int_equal(b->entry.ops->threads_new(b->entry.backend, 0, 1, &b->threads, &b->diag), ET_OK);
	assert_int_equal(b->entry.ops->instance_new(b->model, b->threads, &b->instance, &b->diag), ET_OK);
}

static void bench_close(struct bench *b)
{
	b->entry.ops->instance_free(b->instance);
	b->entry.ops->model_free(b->model);
	b->entry.ops->threads_free(b->threads);
	b->entry.ops->close(b->entry.backend);
}

static void region_open(struct bench *b)
{
	b->fd = memfd_create("inferd-test-region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(b->fd >= 0);
	assert_int_equal(ftruncate(b->fd, N_PAGES * PAGE), 0);
	assert_int_equal(et_platform_map(&b->region, b->fd, N_PAGES * PAGE, true), 0);
	assert_int_equal(b->entry.ops->import_memory(b->entry.backend, b->fd, b->region.bytes, N_PAGES * PAGE,
				 &b->handle),
		ET_OK);
}

static void region_close(struct bench *b)
{
	if (b->handle)
		b->entry.ops->release_memory(b->entry.backend, b->handle);
	b->handle = NULL;
	et_platform_unmap(&b->region);
	close(b->fd);
}

static float *at(const struct bench *b, size_t offset)
{
	return (float *)(void *)((uint8_t *)b->region.bytes + offset);
}

static void done(void *self, enum et_status status, const char *reason)
{
	struct bench *b = self;
	b->status = status;
	snprintf(b->reason, sizeof b->reason, "%s", reason ? reason : "");
}

/* One run over @n floats, which the caller waits for; its status. */
static enum et_status run(struct bench *b, float *in, float *out, int32_t n)
{
	int32_t sizes[2][1] = { { n }, { n } }, strides[1] = { 1 };
	uint8_t order[1] = { 0 };
	struct et_tensor tensors[2] = {
		{ in, (size_t)n, sizes[0], strides, order, ET_FLOAT32, 1, ET_DYNAMIC_BOUND, false },
		{ out, (size_t)n, sizes[1], strides, order, ET_FLOAT32, 1, ET_DYNAMIC_BOUND, false },
	};
	struct et_evalue values[2] = { { .tag = ET_TAG_TENSOR, .tensor = &tensors[0] },
		{ .tag = ET_TAG_TENSOR, .tensor = &tensors[1] } };
	struct et_evalue *args[2] = { &values[0], &values[1] };
	struct et_completion completion = { b, done, .will_wait = true };
	b->diag.text[0] = '\0';
	enum et_status status = b->trace ? b->entry.ops->profile(b->instance, args, b->trace, 7, &b->diag)
					 : b->entry.ops->enqueue(b->instance, args, &completion, &b->diag);
	if (status == ET_PENDING) {
		b->entry.ops->wait(b->instance, 0);
		status = b->status;
	}
	b->sizes[0] = sizes[1][0];
	return status;
}

static void expect_scaled(struct bench *b, float *in, float *out, int32_t n, uint64_t n_copied)
{
	for (int32_t i = 0; i < n; i++)
		in[i] = (float)(i + 1);
	enum et_status status = run(b, in, out, n);
	if (status)
		fail_msg("%s %s", b->diag.text, b->reason);
	for (int32_t i = 0; i < n; i++)
		assert_true(out[i] == 2 * (float)(i + 1));
	assert_int_equal(b->entry.ops->copied_bytes(b->instance), n_copied);
}

static struct et_plugin_state state_of(const struct bench *b)
{
	struct et_plugin_state now;
	et_plugin_state(b->entry.backend, &now);
	return now;
}

/* --- copies -------------------------------------------------------------------------------------------------- */

static void test_where_it_lies(void **state)
{
	static const char *const plugins[] = { "sync", "async" };
	for (size_t p = 0; p < ET_ARRAY_LEN(plugins); p++) {
		struct bench b = { .fd = -1 };
		float own_in[N], own_out[N];
		const uint64_t n = N * sizeof(float);
		bench_open(&b, plugins[p], "scale");
		region_open(&b);
		for (int i = 0; i < 3; i++)
			expect_scaled(&b, at(&b, 0), at(&b, 2 * PAGE), N, 0);
		/* at the very end, in the middle of a page, and of no bytes */
		expect_scaled(&b, at(&b, N_PAGES * PAGE - n), at(&b, PAGE + 64), N, 0);
		expect_scaled(&b, at(&b, N_PAGES * PAGE - 64), at(&b, 192), 16, 0);
		expect_scaled(&b, at(&b, 0), at(&b, PAGE), 0, 0);
		/* one of both is not shared, or none is */
		expect_scaled(&b, own_in, at(&b, 2 * PAGE), N, n);
		expect_scaled(&b, at(&b, 0), own_out, N, n);
		expect_scaled(&b, own_in, own_out, N, 2 * n);
		expect_scaled(&b, own_in, own_out, 3, 2 * 3 * sizeof(float));
		/* misaligned: the device needs 64 */
		expect_scaled(&b, at(&b, 4), at(&b, 2 * PAGE), N, n);
		/* in place: the plug-in may rely on outputs that do not overlap inputs */
		float *both = at(&b, 0);
		for (int i = 0; i < N; i++)
			both[i] = (float)i;
		assert_int_equal(run(&b, both, both, N), ET_OK);
		for (int i = 0; i < N; i++)
			assert_true(both[i] == 2 * (float)i);
		assert_int_equal(b.entry.ops->copied_bytes(b.instance), n);
		assert_int_equal(state_of(&b).n_copied_bytes, 6 * n + 6 * sizeof(float));
		assert_int_equal(state_of(&b).n_crashes, 0);
		region_close(&b);
		bench_close(&b);
	}
}

/* An engine that leaves an output unwritten: the caller reads zeros from the stage, not what the run before, which may
 * be another client's, has left there. */
static void test_unwritten(void **state)
{
	struct bench b = { .fd = -1 };
	float in[N] = { 0 }, out[N];
	bench_open(&b, "sync", "lazy");
	for (int32_t n = N; n > 0; n = n * 3 / 4) { /* at other offsets in the same pages */
		expect_scaled(&b, in, out, N, 2 * sizeof in);
		in[0] = 0;
		assert_int_equal(run(&b, in, out, n), ET_OK);
		for (int32_t i = 0; i < n; i++)
			assert_true(out[i] == 0);
	}
	bench_close(&b);
}

/* --- released memory ----------------------------------------------------------------------------------------- */

static void test_release(void **state)
{
	struct bench b = { .fd = -1 };
	float own[N] = { 0 };
	bench_open(&b, "sync", "scale");
	for (int round = 0; round < 3; round++) {
		region_open(&b);
		pid_t pid = state_of(&b).pid;
		assert_int_equal(n_maps(pid, "inferd-test-region"), 0);
		expect_scaled(&b, at(&b, 0), at(&b, 4 * PAGE), N, 0);
		assert_int_equal(n_maps(pid, "inferd-test-region"), 2); /* an input's and an output's pages */
		b.entry.ops->release_memory(b.entry.backend, b.handle);
		b.handle = NULL;
		while (n_maps(pid, "inferd-test-region")) /* until the host has read it */
			sched_yield();
		/* not found by its address any more: copied */
		expect_scaled(&b, at(&b, 0), own, N, 2 * N * sizeof(float));
		region_close(&b);
	}
	assert_int_equal(state_of(&b).n_crashes, 0);
	bench_close(&b);
}

/* More areas than a host keeps mapped. */
static void test_bounded(void **state)
{
	enum { MANY = 400 };
	struct bench b = { .fd = -1 };
	bench_open(&b, "sync", "scale");
	region_open(&b);
	pid_t pid = state_of(&b).pid;
	for (int i = 0; i < MANY; i++)
		expect_scaled(&b, at(&b, (size_t)(i % 15) * PAGE), at(&b, 15 * PAGE + 64 * (size_t)(i % 60)), 1 + i % 4,
			0);
	for (size_t i = 0; i < 15; i++) /* whole ranges of different lengths */
		for (size_t k = i + 1; k < 15; k++)
			expect_scaled(&b, at(&b, i * PAGE), at(&b, 15 * PAGE), (int32_t)((k - i) * N > N ? N : 1), 0);
	if (isolation == ET_PLUGIN_IN_PROCESS)
		assert_true(n_maps(pid, "inferd-test-region") <= 256);
	region_close(&b);
	bench_close(&b);
}

/* More memory files than a host can have descriptors: the host forgets the one that was used longest ago, and gets it
 * again when it is next used. */
static void test_many_regions(void **state)
{
	enum { MANY = 1100 };
	static struct bench regions[MANY];
	struct bench b = { .fd = -1 };
	float own[N];
	bench_open(&b, "sync", "scale");
	region_open(&b);
	for (int i = 0; i < MANY; i++) { /* of one file, so that this process needs no more than one itself */
		assert_int_equal(et_platform_map(&regions[i].region, b.fd, N_PAGES * PAGE, true), 0);
		assert_int_equal(b.entry.ops->import_memory(b.entry.backend, b.fd, regions[i].region.bytes,
					 N_PAGES * PAGE, &regions[i].handle),
			ET_OK);
	}
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < MANY; i++) {
			expect_scaled(&b, at(&regions[i], 0), at(&regions[i], 2 * PAGE), 16, 0);
			expect_scaled(&b, at(&b, 0), at(&regions[i], 2 * PAGE), 16, 0);
		}
	expect_scaled(&b, own, at(&b, 2 * PAGE), N, N * sizeof(float)); /* and a stage */
	assert_int_equal(state_of(&b).n_crashes, 0);
	assert_int_equal(state_of(&b).n_starts, 1);
	for (int i = 0; i < MANY; i++) {
		b.entry.ops->release_memory(b.entry.backend, regions[i].handle);
		et_platform_unmap(&regions[i].region);
	}
	region_close(&b);
	bench_close(&b);
}

/* Payloads' descriptors count, too: memory files make room for them, and too many payloads are refused, while all
 * others run. Payloads that are dropped after init do not count. */
static void test_many_payloads(void **state)
{
	enum { MANY = 1100, REGIONS = 520 };
	static struct et_model *model[MANY];
	static struct bench regions[REGIONS];
	struct bench b = { .fd = -1 };
	struct et_payload payload = {
		.bytes = (const uint8_t *)"hoard", .n_bytes = 5, .method = "forward", .n_args = 2
	};
	struct et_model_info info = { 0 };
	struct rlimit files, more;
	enum et_status status = ET_OK;
	int n = 0;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	more = files;
	more.rlim_cur = more.rlim_max; /* here there is one for each payload, too */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &more), 0);
	if (more.rlim_cur < 3 * MANY) {
		print_message("SKIPPED: no room for so many descriptors here\n");
		skip();
	}
	bench_open(&b, "sync", "scale");
	region_open(&b);
	for (int i = 0; i < REGIONS; i++) {
		assert_int_equal(et_platform_map(&regions[i].region, b.fd, N_PAGES * PAGE, true), 0);
		assert_int_equal(b.entry.ops->import_memory(b.entry.backend, b.fd, regions[i].region.bytes,
					 N_PAGES * PAGE, &regions[i].handle),
			ET_OK);
		expect_scaled(&b, at(&regions[i], 0), at(&regions[i], 2 * PAGE), 16, 0);
	}
	for (; n < MANY && !status; n += !status)
		status = b.entry.ops->compile(b.entry.backend, &payload, &model[n], &info, &b.diag);
	assert_int_equal(status, ET_E_OUT_OF_RESOURCES);
	assert_non_null(strstr(b.diag.text, "payloads already"));
	assert_true(n > 600);
	for (int i = 0; i < REGIONS; i++)
		expect_scaled(&b, at(&regions[i], 0), at(&regions[i], 2 * PAGE), 16, 0);
	b.entry.ops->model_free(model[--n]);
	assert_int_equal(b.entry.ops->compile(b.entry.backend, &payload, &model[n++], &info, &b.diag), ET_OK);
	while (n)
		b.entry.ops->model_free(model[--n]);
	payload.bytes = (const uint8_t *)"scale";
	for (; n < MANY; n++)
		if (b.entry.ops->compile(b.entry.backend, &payload, &model[n], &info, &b.diag))
			fail_msg("payload %d: %s", n, b.diag.text);
	while (n)
		b.entry.ops->model_free(model[--n]);
	payload.bytes = (const uint8_t *)"hoard";
	for (; n < 600; n++)
		assert_int_equal(b.entry.ops->compile(b.entry.backend, &payload, &model[n], &info, &b.diag), ET_OK);
	while (n)
		b.entry.ops->model_free(model[--n]);
	expect_scaled(&b, at(&regions[0], 0), at(&regions[0], 2 * PAGE), 16, 0);
	assert_int_equal(state_of(&b).n_crashes, 0);
	for (int i = 0; i < REGIONS; i++) {
		b.entry.ops->release_memory(b.entry.backend, regions[i].handle);
		et_platform_unmap(&regions[i].region);
	}
	region_close(&b);
	bench_close(&b);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* A new host gets the memory again. */
static void test_after_crash(void **state)
{
	struct bench b = { .fd = -1 };
	bench_open(&b, "sync", "scale");
	region_open(&b);
	expect_scaled(&b, at(&b, 0), at(&b, 4 * PAGE), N, 0);
	struct et_plugin_state now = state_of(&b);
	assert_int_equal(kill(now.pid, SIGKILL), 0);
	while (state_of(&b).n_crashes == 0)
		sched_yield();
	expect_scaled(&b, at(&b, 0), at(&b, 4 * PAGE), N, 0);
	assert_int_equal(state_of(&b).n_starts, 2);
	region_close(&b);
	bench_close(&b);
}

/* --- what is contained --------------------------------------------------------------------------------------- */

/* When the pages of a client's memory go away, only that client's run fails. */
static void test_taken_away(void **state)
{
	struct bench b = { .fd = -1 };
	float own[N], out[N];
	et_platform_install_sigbus_guard(); /* again, since cmocka has put its own handler there */
	bench_open(&b, "async", "scale");
	for (int round = 0; round < 3; round++) {
		region_open(&b);
		if (round)
			expect_scaled(&b, at(&b, 0), at(&b, 4 * PAGE), N, 0);
		/* inferd itself does not touch the pages; a region's seals forbid this truncation, but not every
		 * fault */
		assert_int_equal(ftruncate(b.fd, 4 * PAGE), 0);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(run(&b, at(&b, 0), at(&b, 4 * PAGE), N), ET_E_ACCESS_FAILED);
			if (round)
				assert_non_null(strstr(b.reason, "memory of argument 1 went away"));
			else /* it was gone before the host had seen it */
				assert_non_null(strstr(b.diag.text, "smaller than it was"));
		}
		assert_int_equal(ftruncate(b.fd, 0), 0);
		assert_int_equal(run(&b, at(&b, 0), at(&b, 4 * PAGE), N), ET_E_ACCESS_FAILED);
		if (round)
			assert_non_null(strstr(b.reason, "memory of argument 0 went away"));
		expect_scaled(&b, own, out, N, 2 * N * sizeof(float));
		region_close(&b);
	}
	assert_int_equal(state_of(&b).n_crashes, 0);
	bench_close(&b);
}

/* Inputs can't be written, nor the pages in front of an output's first page and behind its last. */
static void test_strays(void **state)
{
	static const char *const words[] = { "scribble", "wild", "before" };
	for (size_t w = 0; w < ET_ARRAY_LEN(words); w++) {
		struct bench b = { .fd = -1 };
		bench_open(&b, "sync", words[w]);
		region_open(&b);
		memset(b.region.bytes, 7, N_PAGES * PAGE);
		assert_int_equal(run(&b, at(&b, 0), at(&b, 8 * PAGE), N), ET_E_BACKEND_CRASHED);
		const uint8_t *bytes = b.region.bytes;
		for (size_t i = 0; i < N_PAGES * PAGE; i++)
			assert_true(bytes[i] == 7 || i / PAGE == 8);
		region_close(&b);
		bench_close(&b);
	}
}

/* --- buffers, profiles, devices ------------------------------------------------------------------------------ */

/* A plug-in with buffer_import gets the same buffer with the argument in each run, and computes through it. */
static void test_buffers(void **state)
{
	struct bench b = { .fd = -1 };
	float own[N];
	bench_open(&b, "buffers", "buffer");
	region_open(&b);
	for (int i = 0; i < 5; i++)
		expect_scaled(&b, at(&b, 64), at(&b, 4 * PAGE + 128), N, 0);
	/* the stage is imported, too */
	assert_int_equal(run(&b, own, own, 1), ET_OK);
	region_close(&b);
	bench_close(&b);
}

struct times {
	uint32_t n_begun, n_ended, n_parts;
	uint64_t ns[4];
	char names[4][56];
};

static void begin(void *self, uint32_t instruction)
{
	assert_int_equal(instruction, 7);
	((struct times *)self)->n_begun++;
}

static void end(void *self, uint32_t instruction)
{
	((struct times *)self)->n_ended++;
}

static void part(void *self, const char *name, uint64_t ns)
{
	struct times *times = self;
	assert_true(times->n_parts < ET_ARRAY_LEN(times->ns));
	times->ns[times->n_parts] = ns;
	snprintf(times->names[times->n_parts++], sizeof times->names[0], "%s", name);
}

static void test_profile(void **state)
{
	static const char *const plugins[] = { "sync", "async" };
	for (size_t p = 0; p < ET_ARRAY_LEN(plugins); p++) {
		struct bench b = { .fd = -1 };
		struct times times = { 0 };
		const struct et_trace trace = { &times, begin, end, part };
		float in[N], out[N];
		bench_open(&b, plugins[p], "scale");
		expect_scaled(&b, in, out, N, 2 * N * sizeof(float));
		b.trace = &trace;
		expect_scaled(&b, in, out, N, 2 * N * sizeof(float));
		assert_true(times.n_begun == 1 && times.n_ended == 1);
		assert_int_equal(times.n_parts, 2);
		assert_string_equal(times.names[0], "load");
		assert_string_equal(times.names[1], "multiply");
		assert_true(times.ns[0] == 1000 && times.ns[1] == 2000);
		b.trace = NULL;
		expect_scaled(&b, in, out, N, 2 * N * sizeof(float));
		assert_int_equal(times.n_parts, 2);
		bench_close(&b);
	}
}

/* The plug-in lost its device: the run fails, and the next run has a new process. */
static void test_lost(void **state)
{
	struct bench b = { .fd = -1 };
	float in[N], out[N];
	bench_open(&b, "sync", "lost");
	pid_t pid = state_of(&b).pid;
	assert_int_equal(run(&b, in, out, N), ET_E_BACKEND_CRASHED);
	assert_non_null(strstr(b.reason, "the bus was reset"));
	while (state_of(&b).n_crashes == 0)
		sched_yield();
	assert_non_null(strstr(state_of(&b).reason, "lost its device"));
	assert_int_equal(run(&b, in, out, N), ET_E_BACKEND_CRASHED);
	assert_true(state_of(&b).pid != pid);
	bench_close(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest harmless[] = {
		cmocka_unit_test(test_where_it_lies),
		cmocka_unit_test(test_unwritten),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_many_regions),
		cmocka_unit_test(test_many_payloads),
		cmocka_unit_test(test_taken_away),
		cmocka_unit_test(test_buffers),
		cmocka_unit_test(test_profile),
	};
	const struct CMUnitTest processes[] = {
		cmocka_unit_test(test_release),
		cmocka_unit_test(test_after_crash),
		cmocka_unit_test(test_strays),
		cmocka_unit_test(test_lost),
	};
	isolation = argc > 1 && strcmp(argv[1], "thread") == 0 ? ET_PLUGIN_IN_THREAD : ET_PLUGIN_IN_PROCESS;
	if (isolation == ET_PLUGIN_IN_PROCESS && getenv("INFERD_EMULATED")) {
		puts("skipped: an emulated process can't start another that is emulated");
		return 77;
	}
	int n_failed = cmocka_run_group_tests_name("in both", harmless, NULL, NULL);
	if (isolation == ET_PLUGIN_IN_PROCESS)
		n_failed += cmocka_run_group_tests_name("in a process", processes, NULL, NULL);
	return n_failed;
}
