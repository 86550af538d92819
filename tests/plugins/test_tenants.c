/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of clients: they run in a process for each user, whose crashes affect no other user. */
#include "tests/plugins/killer.h"
#include "delegates/plugin/proxy/plugin.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "runtime/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 64, PAGE = 4096, N_CRASHES = 100, ANNA = 1001, BERT = 1002, CARL = 1003 };
#define MS UINT64_C(1000000)

/* Count the plug-ins that log their end. When @gate_at of them have, write a byte for each to @gate. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static int n_closing, n_closed, gate, gate_at;

static void count(void *self, enum et_log_level level, const char *text)
{
	pthread_mutex_lock(&log_lock);
	n_closed += strstr(text, "closed") != NULL;
	if (strstr(text, "closing") && ++n_closing == gate_at)
		for (int i = 0; i < gate_at; i++)
			while (write(gate, "", 1) < 0)
				;
	pthread_mutex_unlock(&log_lock);
}

/* Loggers read it meanwhile. */
static void open_gate_at(int n)
{
	pthread_mutex_lock(&log_lock);
	gate_at = n;
	pthread_mutex_unlock(&log_lock);
}

/* How many have ended since the last call. */
static int count_closed(void)
{
	pthread_mutex_lock(&log_lock);
	int n = n_closed;
	n_closing = n_closed = 0;
	pthread_mutex_unlock(&log_lock);
	return n;
}

static const struct et_log log_table = { .max_level = ET_LOG_DEBUG, .write = count };

struct plugin {
	struct et_plugin_config config;
	struct et_backend_entry entry;
};

static void open_plugin(struct plugin *p)
{
	struct et_diag diag = { "" };
	p->config.path = PLUGINS "/sync.so";
	p->config.host_path = HOST;
	if (et_plugin_open(&p->entry, &p->config, et_platform_allocator(), &log_table, &diag))
		fail_msg("%s", diag.text);
}

static void close_plugin(struct plugin *p)
{
	p->entry.ops->close(p->entry.backend);
}

/* A model with an instance. */
struct part {
	const struct et_backend_entry *entry;
	struct et_model *model;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct et_diag diag;
	enum et_status status;
};

static enum et_status make_ready(struct part *part, const struct plugin *p, const char *word, uint64_t tenant)
{
	const struct et_payload payload = { .bytes = (const uint8_t *)word,
		.n_bytes = strlen(word),
		.method = "forward",
		.n_args = 2,
		.tenant = tenant };
	struct et_model_info info = { 0 };
	*part = (struct part){ .entry = &p->entry };
	enum et_status status = p->entry.ops->compile(p->entry.backend, &payload, &part->model, &info, &part->diag);
	if (status)
		return status;
	assert_int_equal(p->entry.ops->threads_new(p->entry.backend, 0, 1, &part->threads, &part->diag), ET_OK);
	status = p->entry.ops->instance_new(part->model, part->threads, &part->instance, &part->diag);
	if (status) {
		p->entry.ops->threads_free(part->threads);
		p->entry.ops->model_free(part->model);
	}
	return status;
}

static void release(struct part *part)
{
	part->entry->ops->instance_free(part->instance);
	part->entry->ops->threads_free(part->threads);
	part->entry->ops->model_free(part->model);
}

static void done(void *self, enum et_status status, const char *reason)
{
	struct part *part = self;
	part->status = status;
	if (reason)
		et_fail(&part->diag, status, "%s", reason);
}

static enum et_status run(struct part *part, float *in, float *out)
{
	int32_t sizes[2][1] = { { N }, { N } }, strides[1] = { 1 };
	uint8_t order[1] = { 0 };
	struct et_tensor tensors[2] = {
		{ in, N, sizes[0], strides, order, ET_FLOAT32, 1, ET_STATIC, false },
		{ out, N, sizes[1], strides, order, ET_FLOAT32, 1, ET_STATIC, false },
	};
	struct et_evalue values[2] = { { .tag = ET_TAG_TENSOR, .tensor = &tensors[0] },
		{ .tag = ET_TAG_TENSOR, .tensor = &tensors[1] } };
	struct et_evalue *args[2] = { &values[0], &values[1] };
	struct et_completion completion = { part, done, .will_wait = true };
	enum et_status status = part->entry->ops->enqueue(part->instance, args, &completion, &part->diag);
	if (status != ET_PENDING)
		return status;
	part->entry->ops->wait(part->instance, 0);
	return part->status;
}

static void expect_scaled(struct part *part)
{
	float in[N], out[N];
	for (int i = 0; i < N; i++)
		in[i] = (float)i;
	if (run(part, in, out))
		fail_msg("%s", part->diag.text);
	for (int i = 0; i < N; i++)
		assert_true(out[i] == 2 * (float)i);
}

static enum et_status run_any(struct part *part)
{
	float in[N] = { 0 }, out[N];
	return run(part, in, out);
}

static struct et_plugin_state state_of(const struct plugin *p)
{
	struct et_plugin_state now;
	et_plugin_state(p->entry.backend, &now);
	return now;
}

static struct et_plugin_state tenant_state(const struct plugin *p, uint64_t tenant)
{
	struct et_plugin_state states[8];
	uint32_t n = et_plugin_tenant_states(p->entry.backend, states, ET_ARRAY_LEN(states));
	for (uint32_t i = 0; i < n; i++)
		if (states[i].tenant == tenant)
			return states[i];
	fail_msg("no process for tenant %u", (unsigned)tenant);
	return states[0];
}

static uint32_t n_tenants(const struct plugin *p)
{
	return et_plugin_tenant_states(p->entry.backend, NULL, 0);
}

/* Check that the parent's state is as if no tenant had ever existed. */
static void expect_unhurt(const struct plugin *p, struct part *model)
{
	struct et_diag diag = { "" };
	struct et_plugin_state now = state_of(p);
	expect_scaled(model);
	assert_int_equal(now.n_starts, 1);
	assert_int_equal(now.n_crashes, 0);
	assert_false(now.has_failed);
	assert_int_equal(p->entry.ops->health(p->entry.backend, &diag), ET_OK);
}

/* A client's payload crashes a hundred times, and a payload of the repository never notices. */
static void test_crashes(void **state)
{
	struct plugin p = { .config = { .max_crashes = 3, .crash_window_ns = MS } };
	struct part model, bad, good;
	open_plugin(&p);
	assert_int_equal(make_ready(&model, &p, "scale", 0), ET_OK);
	assert_int_equal(n_tenants(&p), 0); /* no client has brought a program yet */
	assert_int_equal(make_ready(&bad, &p, "exit", ANNA), ET_OK);
	assert_int_equal(make_ready(&good, &p, "scale", BERT), ET_OK);
	pid_t pid = state_of(&p).pid;
	while (tenant_state(&p, ANNA).n_crashes < N_CRASHES) {
		assert_int_equal(run_any(&bad), ET_E_BACKEND_CRASHED);
		expect_unhurt(&p, &model);
		expect_scaled(&good);
	}
	assert_int_equal(state_of(&p).pid, pid);
	assert_int_equal(tenant_state(&p, BERT).n_crashes, 0);
	assert_false(tenant_state(&p, ANNA).has_failed);
	assert_non_null(strstr(tenant_state(&p, ANNA).reason, "for user 1000' exited with status 3"));
	release(&bad);
	release(&good);
	expect_unhurt(&p, &model);
	release(&model);
	close_plugin(&p);
}

/* Stop @pid, and wait until it has stopped: its threads go on until its first one has seen the signal. */
static void stop(pid_t pid)
{
	char path[64], state = '?';
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	while (state != 'T') {
		FILE *file = fopen(path, "r");
		assert_non_null(file);
		assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
		fclose(file);
	}
}

static pid_t stopped;
static uint32_t n_asked;

static bool is_in_vain(void *arg)
{
	return true;
}

/* For so long that the process would be ended if that were wanted no more, then it goes on. */
static bool is_in_vain_at_first(void *arg)
{
	if (++n_asked == 30)
		kill(stopped, SIGCONT);
	return n_asked == 1;
}

/* A process that does not come to an end with what nobody waits for any more is ended, which is no crash. It is not if
 * somebody waits again. */
static void test_in_vain(void **state)
{
	struct plugin p = { .config.load_timeout_ns = 3600 * 1000 * MS };
	struct part first, second, third;
	open_plugin(&p);
	assert_int_equal(make_ready(&first, &p, "scale", ANNA), ET_OK);
	stopped = tenant_state(&p, ANNA).pid;
	stop(stopped);
	n_asked = 0;
	et_plugin_make_for(is_in_vain_at_first, NULL);
	assert_int_equal(make_ready(&second, &p, "scale", ANNA), ET_OK);
	assert_int_equal(tenant_state(&p, ANNA).pid, stopped);
	release(&second);
	stop(stopped);
	et_plugin_make_for(is_in_vain, NULL);
	assert_int_equal(make_ready(&second, &p, "scale", ANNA), ET_E_BACKEND_CRASHED);
	et_plugin_make_for(NULL, NULL);
	assert_int_equal(make_ready(&third, &p, "scale", ANNA), ET_OK);
	assert_int_not_equal(tenant_state(&p, ANNA).pid, stopped);
	assert_int_equal(tenant_state(&p, ANNA).n_crashes, 0);
	release(&third);
	release(&first);
	close_plugin(&p);
}

/* Too many crashes cost a pause, also if the tenant goes and comes back; a restart on request ends the pause. */
static void test_pause(void **state)
{
	struct plugin p = { .config = { .max_crashes = 2, .crash_window_ns = 3600000 * MS } };
	struct part model, bad;
	enum et_status status;
	struct et_diag diag = { "" };
	open_plugin(&p);
	assert_int_equal(make_ready(&model, &p, "scale", 0), ET_OK);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(make_ready(&bad, &p, "exit", ANNA), ET_OK);
		assert_int_equal(run_any(&bad), ET_E_BACKEND_CRASHED);
		assert_int_equal(tenant_state(&p, ANNA).n_crashes, i + 1);
		release(&bad);
	}
	status = make_ready(&bad, &p, "scale", ANNA);
	assert_int_equal(status, ET_E_BACKEND_DOWN);
	assert_non_null(strstr(bad.diag.text, "it is started again in"));
	assert_true(tenant_state(&p, ANNA).wait_ns > 3000000 * MS);
	assert_int_equal(tenant_state(&p, ANNA).n_starts, 2);
	expect_unhurt(&p, &model);
	assert_int_equal(make_ready(&bad, &p, "scale", BERT), ET_OK);
	expect_scaled(&bad);
	release(&bad);
	assert_int_equal(p.entry.ops->restart(p.entry.backend, &diag), ET_OK);
	assert_int_equal(make_ready(&bad, &p, "scale", ANNA), ET_OK);
	expect_scaled(&bad);
	release(&bad);
	release(&model);
	close_plugin(&p);
}

/* A tenant's host without users ends, after close was called, and is started again for the next user. */
static void test_idle(void **state)
{
	struct plugin p = { .config = { .idle_ns = MS } };
	struct part own;
	open_plugin(&p);
	count_closed();
	for (uint32_t i = 1; i <= 5; i++) {
		assert_int_equal(make_ready(&own, &p, "scale", ANNA), ET_OK);
		expect_scaled(&own);
		assert_int_equal(tenant_state(&p, ANNA).n_starts, i);
		release(&own);
		while (tenant_state(&p, ANNA).pid)
			sched_yield();
	}
	/* the host's last line is logged after its end: wait until the next host is there */
	assert_int_equal(make_ready(&own, &p, "scale", ANNA), ET_OK);
	release(&own);
	assert_true(count_closed() >= 5);
	assert_int_equal(tenant_state(&p, ANNA).n_crashes, 0);
	assert_int_equal(n_tenants(&p), 1);
	/* it never ends while it is used: each run finds a host, however close it comes to the idle end */
	for (int i = 0; i < 100; i++) {
		assert_int_equal(make_ready(&own, &p, "scale", ANNA), ET_OK);
		expect_scaled(&own);
		release(&own);
	}
	assert_int_equal(state_of(&p).n_starts, 1);
	close_plugin(&p);
}

/* Wait until the process of another tenant has ended. */
static void make_ready_in_time(struct part *part, const struct plugin *p, uint64_t tenant)
{
	enum et_status status;
	while ((status = make_ready(part, p, "scale", tenant)) == ET_E_OUT_OF_RESOURCES)
		sched_yield();
	assert_int_equal(status, ET_OK);
}

static void test_too_many(void **state)
{
	struct plugin p = { .config = { .max_tenants = 2, .idle_ns = MS } };
	struct part parts[2], more;
	open_plugin(&p);
	assert_int_equal(make_ready(&parts[0], &p, "scale", ANNA), ET_OK);
	assert_int_equal(make_ready(&parts[1], &p, "scale", BERT), ET_OK);
	assert_int_equal(make_ready(&more, &p, "scale", CARL), ET_E_OUT_OF_RESOURCES);
	assert_non_null(strstr(more.diag.text, "of 2 users already (own_processes)"));
	release(&parts[0]);
	make_ready_in_time(&parts[0], &p, CARL);
	expect_scaled(&parts[0]);
	expect_scaled(&parts[1]);
	release(&parts[0]);
	release(&parts[1]);
	/* more users than there are slots: unused ones make room */
	for (uint64_t tenant = 1; tenant <= 200; tenant++) {
		make_ready_in_time(&more, &p, tenant);
		expect_scaled(&more);
		release(&more);
	}
	assert_true(n_tenants(&p) <= 64);
	close_plugin(&p);
}

/* A tenant's runs use memory where it lies. Its host gets only the memory of these runs, and forgets it when the memory
 * is released. */
static void test_memory(void **state)
{
	struct plugin p = { 0 };
	struct part own, model;
	struct {
		int fd;
		struct et_platform_mapping mapping;
		void *handle;
	} regions[2];
	open_plugin(&p);
	assert_int_equal(make_ready(&model, &p, "scale", 0), ET_OK);
	assert_int_equal(make_ready(&own, &p, "scale", ANNA), ET_OK);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 2; i++) {
			regions[i].fd = memfd_create(i ? "inferd-test-anna" : "inferd-test-model",
				MFD_CLOEXEC | MFD_ALLOW_SEALING);
			assert_int_equal(ftruncate(regions[i].fd, 4 * PAGE), 0);
			assert_int_equal(et_platform_map(&regions[i].mapping, regions[i].fd, 4 * PAGE, true), 0);
			assert_int_equal(p.entry.ops->import_memory(p.entry.backend, regions[i].fd,
						 regions[i].mapping.bytes, 4 * PAGE, &regions[i].handle),
				ET_OK);
			float *in = (float *)(void *)regions[i].mapping.bytes, *out = in + 2 * PAGE / sizeof *in;
			struct part *part = i ? &own : &model;
			for (int k = 0; k < N; k++)
				in[k] = (float)k;
			for (int k = 0; k < 3; k++)
				assert_int_equal(run(part, in, out), ET_OK);
			assert_true(out[3] == 6);
			assert_int_equal(p.entry.ops->copied_bytes(part->instance), 0);
		}
		pid_t pid = tenant_state(&p, ANNA).pid;
		assert_true(n_maps(pid, "inferd-test-anna") > 0);
		assert_int_equal(n_maps(pid, "inferd-test-model"), 0);
		assert_int_equal(n_maps(state_of(&p).pid, "inferd-test-anna"), 0);
		if (round == 1) { /* the next process gets the memory again */
			assert_int_equal(kill(pid, SIGKILL), 0);
			float *in = (float *)(void *)regions[1].mapping.bytes;
			while (run(&own, in, in + PAGE / sizeof *in))
				;
			assert_int_equal(p.entry.ops->copied_bytes(own.instance), 0);
			pid = tenant_state(&p, ANNA).pid;
		}
		for (int i = 0; i < 2; i++)
			p.entry.ops->release_memory(p.entry.backend, regions[i].handle);
		while (n_maps(pid, "inferd-test-anna"))
			sched_yield();
		for (int i = 0; i < 2; i++) {
			et_platform_unmap(&regions[i].mapping);
			close(regions[i].fd);
		}
	}
	release(&own);
	release(&model);
	close_plugin(&p);
}

/* Runs @kernel for @tenant, @n times. */
static void run_kernel(const struct et_kernel *kernel, uint64_t tenant, int n)
{
	float in[N] = { 4 }, out[N] = { 0 };
	int32_t sizes[1] = { N }, strides[1] = { 1 };
	uint8_t order[1] = { 0 };
	struct et_tensor a = { in, N, sizes, strides, order, ET_FLOAT32, 1, ET_STATIC, false }, b = a;
	b.data = out;
	struct et_evalue values[3] = { { .tag = ET_TAG_TENSOR, .tensor = &a }, { .tag = ET_TAG_DOUBLE, .d = 1.5 },
		{ .tag = ET_TAG_TENSOR, .tensor = &b } };
	struct et_evalue *args[3] = { &values[0], &values[1], &values[2] };
	struct et_diag diag = { "" };
	struct et_kernel_ctx ctx = { .kernel = kernel, .diag = &diag, .tenant = tenant };
	for (int i = 0; i < n; i++)
		if (kernel->run(&ctx, args))
			fail_msg("%s", diag.text);
	assert_true(out[0] == 6);
}

static void *run_meanwhile(void *kernel)
{
	run_kernel(kernel, 0, 100);
	return NULL;
}

/* A plug-in's operators run in the tenant's process, too, also if a tenant comes while they run in another process. */
static void test_kernel(void **state)
{
	struct plugin p = { 0 };
	pthread_t thread;
	open_plugin(&p);
	const struct et_kernel *kernel = et_kernel_table_find(et_plugin_kernels(p.entry.backend),
		"test::plug_scale.out");
	assert_non_null(kernel);
	run_kernel(kernel, ANNA, 3);
	assert_int_equal(state_of(&p).n_runs, 0);
	assert_int_equal(tenant_state(&p, ANNA).n_runs, 3);
	run_kernel(kernel, 0, 1);
	assert_int_equal(state_of(&p).n_runs, 1);
	assert_int_equal(pthread_create(&thread, NULL, run_meanwhile, (void *)kernel), 0);
	run_kernel(kernel, BERT, 3);
	run_kernel(kernel, CARL, 3);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(state_of(&p).n_runs, 101);
	close_plugin(&p);
}

/* A program with only such operators keeps its tenant's process as long as the program exists. */
static void test_held_kernel(void **state)
{
	struct plugin p = { .config = { .idle_ns = MS, .max_tenants = 1 } };
	struct et_diag diag = { "" };
	void *held, *other;
	open_plugin(&p);
	const struct et_kernel *kernel = et_kernel_table_find(et_plugin_kernels(p.entry.backend),
		"test::plug_scale.out");
	assert_non_null(kernel);
	assert_int_equal(kernel->hold(kernel, ANNA, &held, &diag), ET_OK);
	pid_t pid = tenant_state(&p, ANNA).pid;
	assert_true(pid > 0);
	/* a process can't be had later either, so loading fails now */
	assert_int_equal(kernel->hold(kernel, BERT, &other, &diag), ET_E_OUT_OF_RESOURCES);
	for (int i = 0; i < 100; i++)
		run_kernel(kernel, ANNA, 1);
	assert_int_equal(tenant_state(&p, ANNA).pid, pid);
	assert_int_equal(tenant_state(&p, ANNA).n_starts, 1);
	kernel->release(held);
	while (tenant_state(&p, ANNA).pid)
		sched_yield();
	assert_int_equal(kernel->hold(kernel, 0, &held, &diag), ET_OK);
	kernel->release(held);
	close_plugin(&p);
}

/* All hosts end at the same time: each waits for the others here, and none is killed. */
static void test_close(void **state)
{
	char dir[] = "/tmp/inferd-tenants-XXXXXX", path[64];
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/gate", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	const struct et_plugin_option option = { "gate", path };
	struct plugin p = { .config = { .options = &option, .n_options = 1 } };
	struct part parts[2];
	open_plugin(&p);
	assert_int_equal(make_ready(&parts[0], &p, "scale", ANNA), ET_OK);
	assert_int_equal(make_ready(&parts[1], &p, "scale", BERT), ET_OK);
	release(&parts[0]);
	release(&parts[1]);
	count_closed();
	gate = open(path, O_RDWR | O_CLOEXEC);
	assert_true(gate >= 0);
	open_gate_at(3);
	close_plugin(&p);
	open_gate_at(0);
	assert_int_equal(count_closed(), 3);
	close(gate);
	unlink(path);
	rmdir(dir);
}

/* With tenancy TOGETHER programs of clients run in the one process, with REFUSED nowhere; in a thread always
 * together. */
static void test_otherwise(void **state)
{
	struct plugin together = { .config = { .tenancy = ET_PLUGIN_TOGETHER } },
		      refused = { .config = { .tenancy = ET_PLUGIN_REFUSED } },
		      thread = { .config = { .isolation = ET_PLUGIN_IN_THREAD } };
	struct part own;
	open_plugin(&together);
	assert_int_equal(make_ready(&own, &together, "scale", ANNA), ET_OK);
	expect_scaled(&own);
	assert_int_equal(n_tenants(&together), 0);
	assert_int_equal(state_of(&together).n_runs, 1);
	release(&own);
	close_plugin(&together);

	open_plugin(&refused);
	assert_int_equal(make_ready(&own, &refused, "scale", ANNA), ET_E_NOT_SUPPORTED);
	assert_non_null(strstr(own.diag.text, "own_programs = refused"));
	assert_int_equal(make_ready(&own, &refused, "scale", 0), ET_OK);
	expect_scaled(&own);
	release(&own);
	close_plugin(&refused);

	open_plugin(&thread);
	assert_int_equal(make_ready(&own, &thread, "scale", ANNA), ET_OK);
	expect_scaled(&own);
	assert_int_equal(n_tenants(&thread), 0);
	release(&own);
	close_plugin(&thread);
}

int main(void)
{
	if (getenv("INFERD_EMULATED")) {
		puts("skipped: an emulated process can't start another that is emulated");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crashes),
		cmocka_unit_test(test_in_vain),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_held_kernel),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_otherwise),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
