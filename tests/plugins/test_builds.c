/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in that compiles in a process of its own (builder.c), the environment of its processes, and their private
 * cache folder. */
#include "delegates/inferd-delegate.h"
#include "delegates/plugin/proxy/plugin.h"
#include "runtime/platform/platform.h"
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the log -------------------------------------------------------------------------------------- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[1 << 14];
static size_t n_log;

static void keep(void *self, enum et_log_level level, const char *text)
{
	pthread_mutex_lock(&log_lock);
	int n = snprintf(log_text + n_log, sizeof log_text - n_log, "%s\n", text);
	n_log = n_log + (size_t)n < sizeof log_text ? n_log + (size_t)n : n_log;
	pthread_mutex_unlock(&log_lock);
}

static const struct et_log log_table = { .max_level = ET_LOG_DEBUG, .write = keep };

/* The folder that the plug-in says is its own, when it has said so. */
static void find_folder(char *to, size_t room)
{
	static const char before[] = "my folder is ";
	const char *at = NULL;
	while (!at) {
		pthread_mutex_lock(&log_lock);
		at = strstr(log_text, before);
		if (at)
			snprintf(to, room, "%.*s", (int)strcspn(at + sizeof before - 1, "."), at + sizeof before - 1);
		pthread_mutex_unlock(&log_lock);
		sched_yield();
	}
}

/* --- a backend and a program ---------------------------------------------------------------------- */

struct subject {
	struct method_rig rig;
	struct et_plugin_config config;
	struct et_plugin_option mode;
	char cache[40];
};

static void start(struct subject *s, const char *mode)
{
	struct et_diag diag = { "" };
	static char path[600];
	snprintf(path, sizeof path, "%s/builder.so", PLUGINS);
	pthread_mutex_lock(&log_lock);
	log_text[n_log = 0] = '\0';
	pthread_mutex_unlock(&log_lock);
	s->mode = (struct et_plugin_option){ "BUILDER", mode };
	s->config.path = path;
	s->config.host_path = HOST;
	s->config.variables = &s->mode;
	s->config.n_variables = 1;
	if (et_plugin_open(&s->rig.backends[0], &s->config, et_platform_allocator(), &log_table, &diag))
		fail_msg("%s", diag.text);
	s->rig.n_backends = 1;
	rig_init(&s->rig);
}

/* The same with a cache folder of the test's. */
static void start_with_cache(struct subject *s, const char *mode)
{
	memcpy(s->cache, "/tmp/inferd-builds-XXXXXX", sizeof "/tmp/inferd-builds-XXXXXX");
	assert_non_null(mkdtemp(s->cache));
	s->config.cache_dir = s->cache;
	start(s, mode);
}

static void stop(struct subject *s)
{
	s->rig.backends[0].ops->close(s->rig.backends[0].backend);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

static void stop_and_remove(struct subject *s)
{
	stop(s);
	assert_int_equal(nftw(s->cache, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Make a program ready that is one payload. */
static enum et_status load_payload(struct subject *s, const char *payload)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	int a = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int b = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	mk_call(&mk, mk_delegate(&mk, "TestBackend", payload, strlen(payload), false, NULL, NULL), MK_ARGS(a, b));
	mk_input(&mk, a);
	mk_output(&mk, b);
	return rig_try_plan(&s->rig, &mk);
}

static enum et_status load(struct subject *s)
{
	return load_payload(s, "x");
}

static void expect_load(struct subject *s, enum et_status status, const char *text)
{
	enum et_status found = load(s);
	if (found != status || !strstr(s->rig.diag.text, text))
		fail_msg("status %#x, '%s', not %#x, '%s'", found, s->rig.diag.text, status, text);
	rig_close(&s->rig);
}

static size_t n_builds(const char *folder)
{
	char path[160];
	struct stat st;
	snprintf(path, sizeof path, "%s/count", folder);
	return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

/* --- tests ---------------------------------------------------------------------------------------- */

/* What was built stays for the next backend with that folder. */
static void test_builds_once(void **state)
{
	struct subject s = { .config = { 0 } }, next = { .config = { 0 } };
	start_with_cache(&s, "");
	expect_load(&s, ET_OK, "");
	expect_load(&s, ET_OK, "");
	assert_int_equal(n_builds(s.cache), 1);
	stop(&s);
	memcpy(next.cache, s.cache, sizeof next.cache);
	next.config.cache_dir = next.cache;
	start(&next, "");
	expect_load(&next, ET_OK, "");
	assert_int_equal(n_builds(s.cache), 1);
	stop_and_remove(&next);
}

/* A build that fails refuses the program, and the process that serves others does not notice. */
static void test_failures(void **state)
{
	static const struct {
		const char *mode, *says;
	} cases[] = {
		{ "crash", "the process that compiles for backend 'builder' was killed by signal 6" },
		{ "crash", "set build_tools = yes" },
		{ "refuse", "this device has no compiler" },
		{ "nothing", "what was compiled for it can't be used" },
		{ "child", "no process can be started" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct subject s = { .config = { 0 } };
		struct et_plugin_state after;
		start_with_cache(&s, cases[i].mode);
		expect_load(&s, ET_E_NOT_SUPPORTED, cases[i].says);
		expect_load(&s, ET_E_NOT_SUPPORTED, cases[i].says);
		assert_int_equal(n_builds(s.cache), 2);
		et_plugin_state(s.rig.backends[0].backend, &after);
		assert_int_equal(after.n_crashes, 0);
		assert_int_equal(after.n_starts, 1);
		stop_and_remove(&s);
	}
}

/* With build_tools a process may be started, and it ends with the one that compiles. */
static void test_process_group(void **state)
{
	struct subject s = { .config = { .has_build_tools = true, .load_timeout_ns = UINT64_C(3000000000) } };
	char path[160], number[16] = "";
	start_with_cache(&s, "child");
	expect_load(&s, ET_E_NOT_SUPPORTED, "the process that compiles for backend 'builder' did not answer in time");
	snprintf(path, sizeof path, "%s/child", s.cache);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(number, sizeof number, file));
	fclose(file);
	snprintf(path, sizeof path, "/proc/%s/stat", number);
	/* it may be reaped by now, or by nobody */
	for (char line[256] = "", *name_end; (file = fopen(path, "re")); sched_yield()) {
		bool is_read = fgets(line, sizeof line, file);
		fclose(file);
		name_end = is_read ? strrchr(line, ')') : NULL;
		if (name_end && name_end[2] == 'Z')
			break;
	}
	stop_and_remove(&s);
}

static void test_private_cache(void **state)
{
	struct subject s = { .config = { 0 } };
	char folder[100];
	start(&s, "");
	find_folder(folder, sizeof folder);
	assert_int_equal(access(folder, W_OK), 0);
	expect_load(&s, ET_OK, "");
	assert_int_equal(n_builds(folder), 1);
	stop(&s);
	assert_int_equal(access(folder, F_OK), -1);
}

/* Two backends with the same folder, at the same time. */
static void *load_there(void *arg)
{
	struct subject *s = arg;
	return load(s) == ET_OK ? s : NULL;
}

static void test_two_at_once(void **state)
{
	struct subject a = { .config = { 0 } }, b = { .config = { 0 } };
	pthread_t thread;
	void *result;
	start_with_cache(&a, "");
	memcpy(b.cache, a.cache, sizeof b.cache);
	b.config.cache_dir = b.cache;
	start(&b, "");
	assert_int_equal(pthread_create(&thread, NULL, load_there, &b), 0);
	assert_int_equal(load(&a), ET_OK);
	pthread_join(thread, &result);
	assert_non_null(result);
	rig_close(&a.rig);
	rig_close(&b.rig);
	stop(&b);
	stop_and_remove(&a);
}

/* What a plug-in says of its device is shown as it is, but for what can't be printed. */
static void test_device(void **state)
{
	struct subject s = { .config = { 0 } };
	struct et_device device;
	start(&s, "");
	s.rig.backends[0].ops->device(s.rig.backends[0].backend, 0, &device);
	assert_string_equal(device.name, "builder's device");
	assert_string_equal(device.driver, "builder? 7");
	assert_string_equal(device.features, "compiles");
	stop(&s);
}

/* --- runs ----------------------------------------------------------------------------------------- */

struct runner {
	struct et_worker_threads *threads, *sets[4];
	struct rig_run run;
	float in[4], out[4];
};

static void open_runner(struct subject *s, struct runner *r, const char *payload)
{
	const struct et_backend_entry *entry = &s->rig.backends[0];
	if (load_payload(s, payload) || et_method_new(&s->rig.method, s->rig.plan, &s->rig.allocator, &s->rig.diag) ||
		et_frame_new(&s->rig.frame, s->rig.plan, &s->rig.allocator, &s->rig.allocator, &s->rig.diag))
		fail_msg("%s", s->rig.diag.text);
	assert_int_equal(entry->ops->threads_new(entry->backend, 0, 1, &r->sets[0], &s->rig.diag), ET_OK);
	assert_int_equal(et_plan_prepare(s->rig.plan, 0, r->sets, NULL, &s->rig.diag), ET_OK);
}

static void close_runner(struct subject *s, struct runner *r)
{
	s->rig.method = et_method_free(s->rig.method);
	et_plan_release(s->rig.plan, 0);
	s->rig.backends[0].ops->threads_free(r->sets[0]);
	rig_close(&s->rig);
}

struct end {
	struct et_run *run;
	enum et_status status;
	bool is_done;
	char reason[200];
};

static void done(void *self, enum et_status status, const char *reason)
{
	struct end *end = self;
	end->status = status;
	end->is_done = true;
	snprintf(end->reason, sizeof end->reason, "%s", reason ? reason : "");
}

static enum et_status run_with(struct subject *s, struct runner *r, float x, uint8_t priority)
{
	struct end end = { .run = &r->run.run };
	struct et_run *run = &r->run.run;
	rig_run_init(&s->rig, &r->run);
	for (int i = 0; i < 4; i++)
		r->in[i] = x;
	rig_input(&r->run, 0, r->in, 4);
	rig_output(&r->run, 0, r->out, 4);
	run->completion = (struct et_completion){ &end, done, .will_wait = true, .priority = priority };
	enum et_status status = et_run_begin(run);
	if (status)
		return status;
	for (enum et_stop stop = ET_STOP_QUEUE; stop == ET_STOP_QUEUE;) {
		r->run.env.queue = run->queue;
		stop = et_run_advance(run, &r->run.env);
		if (stop != ET_STOP_PENDING)
			continue;
		et_run_wait(run);
		assert_true(end.is_done);
		et_run_resume(run, end.status, end.reason[0] ? end.reason : NULL);
		stop = ET_STOP_QUEUE;
	}
	return et_run_end(run);
}

/* The plug-in is told the priority, and says how long the device worked. */
static void test_priority_and_time(void **state)
{
	struct subject s = { .config = { 0 } };
	struct runner r = { .threads = NULL };
	start(&s, "");
	open_runner(&s, &r, "x");
	for (uint8_t priority = 0; priority <= INFERD_DELEGATE_PRIORITY_REALTIME; priority++) {
		assert_int_equal(run_with(&s, &r, 250, priority), ET_OK);
		assert_true(r.out[0] == (float)priority && r.out[1] == 250);
		assert_int_equal(r.run.run.device_ns, 250000);
	}
	close_runner(&s, &r);
	stop(&s);
}

/* A run that was cut short and has put the state back: the Method goes on. */
static void test_repeatable(void **state)
{
	struct subject s = { .config = { 0 } };
	struct runner r = { .threads = NULL };
	start(&s, "");
	open_runner(&s, &r, "sum");
	assert_int_equal(run_with(&s, &r, 2, 0), ET_OK);
	assert_int_equal(run_with(&s, &r, -1, 0), ET_E_INTERNAL);
	assert_int_equal(run_with(&s, &r, 3, 0), ET_OK);
	assert_true(r.out[0] == 5);
	close_runner(&s, &r);
	stop(&s);
}

int main(void)
{
	if (getenv("INFERD_EMULATED")) {
		puts("a host process can't be started under an emulator");
		return 77;
	}
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_builds_once), cmocka_unit_test(test_failures),
		cmocka_unit_test(test_process_group), cmocka_unit_test(test_private_cache),
		cmocka_unit_test(test_two_at_once), cmocka_unit_test(test_device),
		cmocka_unit_test(test_priority_and_time), cmocka_unit_test(test_repeatable) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
