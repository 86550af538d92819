/* SPDX-License-Identifier: BSD-3-Clause */
/* Good and bad plug-ins through the proxy: results, contained crashes, and error messages.
 *
 *     test_plugins process|thread    with thread only plug-ins that do no harm */
#include "delegates/plugin/proxy/plugin.h"
#include "delegates/plugin/host/sandbox.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "tests/plugins/killer.h"
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 1000 };

static enum et_plugin_isolation isolation;

/* --- the captured log ------------------------------------------------------------------------------- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t log_changed = PTHREAD_COND_INITIALIZER;
static char log_text[1 << 16];
static size_t n_log;

static void keep(void *self, enum et_log_level level, const char *text)
{
	pthread_mutex_lock(&log_lock);
	int n = snprintf(log_text + n_log, sizeof log_text - n_log, "%d %s\n", level, text);
	n_log = n_log + (size_t)n < sizeof log_text ? n_log + (size_t)n : n_log;
	pthread_cond_broadcast(&log_changed);
	pthread_mutex_unlock(&log_lock);
}

static const struct et_log log_table = { .max_level = ET_LOG_DEBUG, .write = keep };

static void clear_log(void)
{
	pthread_mutex_lock(&log_lock);
	log_text[n_log = 0] = '\0';
	pthread_mutex_unlock(&log_lock);
}

/* Wait until the log contains @text. If it never does, the test ends at its time limit, with the log on stderr. */
static void expect_log(const char *text)
{
	pthread_mutex_lock(&log_lock);
	while (!strstr(log_text, text)) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += 60;
		if (pthread_cond_timedwait(&log_changed, &log_lock, &until))
			fail_msg("'%s' is not in the log:\n%s", text, log_text);
	}
	pthread_mutex_unlock(&log_lock);
}

/* --- a program and a run ----------------------------------------------------------------------------- */

struct subject {
	struct method_rig rig;
	struct et_worker_threads *threads;
	struct et_worker_threads *thread_sets[4];
	struct et_plugin_config config;
	float in[N], out[N];
	bool will_wait; /* for each completion */
	struct rig_run run;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_done;
	enum et_status status;
	char reason[400];
};

static void done(void *self, enum et_status status, const char *reason)
{
	struct subject *s = self;
	pthread_mutex_lock(&s->lock);
	assert_false(s->is_done);
	s->status = status;
	snprintf(s->reason, sizeof s->reason, "%s", reason ? reason : "");
	s->is_done = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void open_plugin(struct subject *s, const char *name)
{
	static char path[600];
	snprintf(path, sizeof path, "%s/%s.so", PLUGINS, name);
	clear_log();
	s->config.path = path;
	s->config.host_path = HOST;
	s->config.isolation = isolation;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	struct et_diag diag = { "" };
	if (et_plugin_open(&s->rig.backends[0], &s->config, et_platform_allocator(), &log_table, &diag))
		fail_msg("%s", diag.text);
	s->rig.n_backends = 1;
	rig_init(&s->rig);
}

static void close_plugin(struct subject *s)
{
	s->rig.backends[0].ops->close(s->rig.backends[0].backend);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
}

static enum et_status try_program(struct subject *s, const char *payload, const char *key, const char *value)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	float factor = 5;
	mk_named_data(&mk, "factor", &factor, sizeof factor);
	int a = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(N) });
	int b = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(N) });
	int d = mk_delegate(&mk, "TestBackend", payload, strlen(payload), false, key, value);
	mk_call(&mk, d, MK_ARGS(a, b));
	mk_input(&mk, a);
	mk_output(&mk, b);
	return rig_try_plan(&s->rig, &mk);
}

static void open_program(struct subject *s, const char *payload)
{
	if (try_program(s, payload, NULL, NULL) ||
		et_method_new(&s->rig.method, s->rig.plan, &s->rig.allocator, &s->rig.diag) ||
		et_frame_new(&s->rig.frame, s->rig.plan, &s->rig.allocator, &s->rig.allocator, &s->rig.diag))
		fail_msg("%s", s->rig.diag.text);
	const struct et_backend_entry *entry = &s->rig.backends[0];
	assert_int_equal(entry->ops->threads_new(entry->backend, 0, 1, &s->thread_sets[0], &s->rig.diag), ET_OK);
	assert_int_equal(et_plan_prepare(s->rig.plan, 0, s->thread_sets, NULL, &s->rig.diag), ET_OK);
}

static void close_program(struct subject *s)
{
	s->rig.method = et_method_free(s->rig.method);
	et_plan_release(s->rig.plan, 0);
	s->rig.backends[0].ops->threads_free(s->thread_sets[0]);
	rig_close(&s->rig);
}

static void begin(struct subject *s)
{
	rig_run_init(&s->rig, &s->run);
	for (int i = 0; i < N; i++) {
		s->in[i] = (float)i;
		s->out[i] = -1;
	}
	rig_input(&s->run, 0, s->in, N);
	rig_output(&s->run, 0, s->out, N);
	s->run.run.completion = (struct et_completion){ s, done, s->will_wait };
	s->is_done = false;
	s->run.run.cancelled = false;
}

static enum et_status finish(struct subject *s)
{
	struct et_run *run = &s->run.run;
	enum et_stop stop;
	do {
		s->run.env.queue = run->queue;
		stop = et_run_advance(run, &s->run.env);
		if (stop == ET_STOP_PENDING) {
			if (s->will_wait)
				et_run_wait(run);
			pthread_mutex_lock(&s->lock);
			while (!s->is_done)
				pthread_cond_wait(&s->changed, &s->lock);
			s->is_done = false;
			pthread_mutex_unlock(&s->lock);
			et_run_resume(run, s->status, s->reason[0] ? s->reason : NULL);
			stop = ET_STOP_QUEUE;
		}
	} while (stop == ET_STOP_QUEUE);
	return et_run_end(run);
}

static enum et_status run(struct subject *s)
{
	begin(s);
	enum et_status status = et_run_begin(&s->run.run);
	return status ? status : finish(s);
}

static void expect_scaled(struct subject *s, float factor, float plus)
{
	enum et_status status = run(s);
	if (status)
		fail_msg("%s", s->run.run.diag.text);
	for (int i = 0; i < N; i++)
		assert_true(s->out[i] == factor * (float)i + plus);
}

static void expect_failure(struct subject *s, enum et_status expected, const char *text)
{
	assert_int_equal(run(s), expected);
	if (!strstr(s->run.run.diag.text, text))
		fail_msg("'%s' is not in: %s", text, s->run.run.diag.text);
}

/* A run has 300 ms, and may need more while the process gets no processor. So run until one succeeds. */
static void expect_scaled_once(struct subject *s)
{
	enum et_status status;
	while ((status = run(s)) == ET_E_BACKEND_CRASHED)
		;
	assert_int_equal(status, ET_OK);
	for (int i = 0; i < N; i++)
		assert_true(s->out[i] == 2 * (float)i);
}

static const char *const good[] = { "sync", "async" };

/* --- good plug-ins ------------------------------------------------------------------------------------- */

static void test_runs(void **state)
{
	static const struct et_plugin_option options[] = { { "greeting", "hello from the options" } };
	for (size_t i = 0; i < ET_ARRAY_LEN(good); i++) {
		struct subject s = { .config = { .options = options, .n_options = 1 } };
		struct et_plugin_state after;
		open_plugin(&s, good[i]);
		expect_log("hello from the options");
		assert_string_equal(s.rig.backends[0].ops->id, "TestBackend");
		assert_string_equal(s.rig.backends[0].ops->name, "test");
		open_program(&s, "scale");
		assert_int_equal(s.rig.info->first_queue.kind, ET_QUEUE_NPU);
		for (int k = 0; k < 20; k++) {
			s.will_wait = k % 3 != 0;
			expect_scaled(&s, 2, 0);
		}
		et_plugin_state(s.rig.backends[0].backend, &after);
		assert_int_equal(after.n_runs, 20);
		assert_int_equal(after.n_copied_bytes, 20 * 2 * N * sizeof(float));
		assert_int_equal(after.n_crashes, 0);
		assert_int_equal(after.n_in_flight, 0);
		close_program(&s);
		open_program(&s, "named");
		expect_scaled(&s, 5, 0);
		close_program(&s);
		close_plugin(&s);
	}
}

static void test_specs(void **state)
{
	struct subject s = { 0 };
	open_plugin(&s, "sync");
	rig_init(&s.rig);
	assert_int_equal(try_program(&s, "scale", "factor", "7"), ET_OK);
	rig_close(&s.rig);
	rig_init(&s.rig);
	assert_int_equal(try_program(&s, "refuse", NULL, NULL), ET_E_NOT_SUPPORTED);
	assert_non_null(strstr(s.rig.diag.text, "operator 'warp' can't be run"));
	rig_close(&s.rig);
	rig_init(&s.rig);
	assert_int_equal(try_program(&s, "much more than one word", NULL, NULL), ET_E_INVALID_PROGRAM);
	rig_close(&s.rig);
	close_plugin(&s);
}

/* A payload gets the options of its model for this backend, and they override the program's specs. */
static void test_model_options(void **state)
{
	static const struct et_option items[] = { { "other", "factor", "9" }, { "test", "factor", "3" },
		{ "test", "tint", "blue" } };
	struct subject s = { 0 };
	open_plugin(&s, "sync");
	rig_init(&s.rig);
	s.rig.options = (struct et_options){ items, 2 };
	open_program(&s, "scale");
	expect_scaled(&s, 3, 0);
	close_program(&s);
	rig_init(&s.rig);
	s.rig.options.n = 3;
	assert_int_equal(try_program(&s, "scale", NULL, NULL), ET_E_INVALID_PROGRAM);
	assert_non_null(strstr(s.rig.diag.text, "there is no such option"));
	rig_close(&s.rig);
	close_plugin(&s);
}

static void test_probe(void **state)
{
	static const struct {
		const char *payload;
		uint32_t readiness;
		const char *reason;
	} cases[] = { { "scale", 2, "" }, { "named", 1, "elsewhere" }, { "a sentence, not a word", 0, "no word" } };
	struct subject s = { 0 };
	open_plugin(&s, "sync");
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct et_payload payload = { .bytes = (const uint8_t *)cases[i].payload,
			.n_bytes = strlen(cases[i].payload),
			.method = "forward" };
		struct et_diag diag = { "" };
		uint32_t readiness = 9;
		assert_int_equal(et_plugin_probe(s.rig.backends[0].backend, &payload, &readiness, &diag), ET_OK);
		assert_int_equal(readiness, cases[i].readiness);
		assert_non_null(strstr(diag.text, cases[i].reason));
	}
	close_plugin(&s);
}

static void test_state(void **state)
{
	struct subject s = { 0 };
	open_plugin(&s, "sync");
	open_program(&s, "state");
	assert_true(s.rig.info->is_stateful);
	expect_scaled(&s, 1, 0);
	expect_scaled(&s, 1, 1);
	et_method_reset(s.rig.method);
	expect_scaled(&s, 1, 0);
	close_program(&s);
	close_plugin(&s);
}

static void test_cancel(void **state)
{
	struct subject s = { 0 };
	open_plugin(&s, "async");
	open_program(&s, "wait");
	begin(&s);
	assert_int_equal(et_run_begin(&s.run.run), ET_OK);
	s.run.env.queue = s.run.run.queue;
	assert_int_equal(et_run_advance(&s.run.run, &s.run.env), ET_STOP_PENDING);
	et_run_cancel(&s.run.run);
	pthread_mutex_lock(&s.lock);
	while (!s.is_done)
		pthread_cond_wait(&s.changed, &s.lock);
	pthread_mutex_unlock(&s.lock);
	et_run_resume(&s.run.run, s.status, s.reason);
	assert_int_equal(et_run_end(&s.run.run), ET_E_CANCELLED);
	close_program(&s);
	close_plugin(&s);
}

/* A waiting thread cancels its run at the deadline, whether it receives or another thread does. */
static void test_deadline(void **state)
{
	struct subject s = { .will_wait = true };
	open_plugin(&s, "async");
	open_program(&s, "wait");
	for (int i = 0; i < 3; i++) {
		begin(&s);
		s.run.run.deadline_ns = et_platform_now_ns(NULL) + 1000000;
		assert_int_equal(et_run_begin(&s.run.run), ET_OK);
		assert_int_equal(finish(&s), ET_E_CANCELLED);
		assert_non_null(strstr(s.run.run.diag.text, "it was cancelled"));
	}
	close_program(&s);
	rig_init(&s.rig);
	open_program(&s, "scale");
	expect_scaled(&s, 2, 0);
	close_program(&s);
	close_plugin(&s);
}

static void test_kernel(void **state)
{
	struct subject s = { 0 };
	const struct et_kernel *found;
	float in[N], out[N];
	int32_t sizes[] = { N }, strides[] = { 1 };
	uint8_t order[] = { 0 };
	open_plugin(&s, "sync");
	const struct et_kernel_table *table = et_plugin_kernels(s.rig.backends[0].backend);
	assert_non_null(table);
	found = et_kernel_table_find(table, "test::plug_scale.out");
	assert_non_null(found);
	for (int i = 0; i < N; i++)
		in[i] = (float)i;
	struct et_tensor a = { .data = in,
		.capacity = N,
		.sizes = sizes,
		.strides = strides,
		.dim_order = order,
		.type = ET_FLOAT32,
		.n_dims = 1 };
	struct et_tensor b = a;
	b.data = out;
	struct et_evalue values[] = { { .tag = ET_TAG_TENSOR, .tensor = &a }, { .tag = ET_TAG_DOUBLE, .d = 1.5 },
		{ .tag = ET_TAG_TENSOR, .tensor = &b } };
	struct et_evalue *args[] = { &values[0], &values[1], &values[2] };
	struct et_diag diag = { "" };
	struct et_kernel_ctx ctx = { .kernel = found, .diag = &diag };
	for (int k = 0; k < 3; k++) {
		memset(out, 0xff, sizeof out);
		assert_int_equal(found->run(&ctx, args), ET_OK);
		for (int i = 0; i < N; i++)
			assert_true(out[i] == 1.5F * (float)i);
	}
	a.type = b.type = ET_INT32;
	assert_int_equal(found->run(&ctx, args), ET_E_INVALID_PROGRAM);
	assert_non_null(strstr(diag.text, "takes floats"));
	close_plugin(&s);
}

/* --- refused plug-ins ---------------------------------------------------------------------------------- */

static void test_tables(void **state)
{
	static const struct {
		const char *name, *text;
	} cases[] = { { "wrong_version", "made for version 2." }, { "wrong_size", "has 96 bytes" },
		{ "no_symbol", "does not export inferd_delegate_entry" }, { "no_function", "lacks one of open" },
		{ "half_buffers", "buffer_alloc without buffer_map" }, { "not_here", "no such device" },
		{ "no_table", "does not work with version 1." }, { "crashes", "killed by signal 6" },
		{ "absent", "absent.so" } };
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		char path[600];
		struct et_backend_entry entry;
		struct et_diag diag = { "" };
		snprintf(path, sizeof path, "%s/%s.so", PLUGINS, cases[i].name);
		struct et_plugin_config config = { .path = path, .host_path = HOST, .isolation = isolation };
		if (isolation == ET_PLUGIN_IN_THREAD && strcmp(cases[i].name, "crashes") == 0)
			continue;
		assert_int_equal(et_plugin_open(&entry, &config, et_platform_allocator(), &log_table, &diag),
			ET_E_NOT_FOUND);
		if (!strstr(diag.text, cases[i].text))
			fail_msg("%s: '%s' is not in: %s", cases[i].name, cases[i].text, diag.text);
	}
	struct et_backend_entry entry;
	struct et_diag diag = { "" };
	struct et_plugin_config config = { .path = "x.so", .host_path = "/nonexistent/host" };
	assert_int_equal(et_plugin_open(&entry, &config, et_platform_allocator(), &log_table, &diag), ET_E_NOT_FOUND);
	if (getenv("INFERD_EMULATED"))
		return; /* qemu's user mode starts a missing file without an error, and the child ends */
	assert_non_null(strstr(diag.text, "/nonexistent/host: No such file or directory; install"));
	assert_non_null(strstr(diag.text, "set host to its path"));
}

static void test_sizes(void **state)
{
	struct subject s = { 0 };
	open_plugin(&s, "sync");
	open_program(&s, "sizes");
	expect_failure(&s, ET_E_INTERNAL, "which the program does not allow");
	close_program(&s);
	close_plugin(&s);
}

/* --- contained crashes --------------------------------------------------------------------------------- */

static void test_crashes(void **state)
{
	static const struct {
		const char *payload, *text;
	} cases[] = { { "crash", "killed by signal 11" }, { "exit", "exited with status 3" },
		{ "wild", "killed by signal 11" }, { "hang", "did not answer in time" } };
	for (size_t g = 0; g < 2 * ET_ARRAY_LEN(good); g++)
		for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
			bool hangs = strcmp(cases[i].payload, "hang") == 0;
			/* under a sanitizer a bad access ends with a report and another status */
			const char *text = strstr(cases[i].text, "signal 11") && INF_SANITIZED_HOST ? "host process of"
												    : cases[i].text;
			struct subject s = { .config = {
						     .run_timeout_ns = hangs ? 300000000 : 0, .max_crashes = 100 } };
			struct et_plugin_state after;
			s.will_wait = g % 2;
			open_plugin(&s, good[g / 2]);
			open_program(&s, cases[i].payload);
			expect_failure(&s, ET_E_BACKEND_CRASHED, text);
			close_program(&s);
			rig_init(&s.rig);
			open_program(&s, "scale");
			if (hangs)
				expect_scaled_once(&s);
			else
				expect_scaled(&s, 2, 0);
			et_plugin_state(s.rig.backends[0].backend, &after);
			assert_true(hangs ? after.n_starts >= 2 : after.n_starts == 2);
			assert_int_equal(after.n_crashes, after.n_starts - 1);
			close_program(&s);
			close_plugin(&s);
		}
}

static void test_init_crash(void **state)
{
	struct subject s = { 0 };
	open_plugin(&s, "sync");
	rig_init(&s.rig);
	assert_int_equal(try_program(&s, "die", NULL, NULL), ET_E_BACKEND_CRASHED);
	assert_non_null(strstr(s.rig.diag.text, "killed by signal 6"));
	rig_close(&s.rig);
	close_plugin(&s);
}

/* After a restart payloads are made ready again, and an instance with a state reports that the state is lost. */
static void test_revival(void **state)
{
	struct subject s = { .config = { .max_crashes = 1000 } };
	struct et_plugin_state now;
	open_plugin(&s, "async");
	open_program(&s, "scale");
	expect_scaled(&s, 2, 0);
	et_plugin_state(s.rig.backends[0].backend, &now);
	assert_int_equal(kill(now.pid, SIGKILL), 0);
	expect_log("killed by signal 9");
	expect_scaled(&s, 2, 0);
	close_program(&s);

	rig_init(&s.rig);
	open_program(&s, "state");
	expect_scaled(&s, 1, 0);
	et_plugin_state(s.rig.backends[0].backend, &now);
	clear_log();
	assert_int_equal(kill(now.pid, SIGKILL), 0);
	expect_log("killed by signal 9");
	/* the second crash in a row: a pause first */
	while (run(&s) == ET_E_BACKEND_CRASHED)
		et_method_reset(s.rig.method);
	close_program(&s);
	close_plugin(&s);
}

static void test_state_lost(void **state)
{
	struct subject s = { 0 };
	struct et_plugin_state now;
	open_plugin(&s, "sync");
	open_program(&s, "state");
	expect_scaled(&s, 1, 0);
	expect_scaled(&s, 1, 1);
	et_plugin_state(s.rig.backends[0].backend, &now);
	assert_int_equal(kill(now.pid, SIGKILL), 0);
	expect_log("killed by signal 9");
	expect_failure(&s, ET_E_STATE_LOST, "the state is lost");
	et_method_reset(s.rig.method);
	expect_scaled(&s, 1, 0);
	close_program(&s);
	close_plugin(&s);
}

static void test_gives_up(void **state)
{
	struct subject s = { .config = { .max_crashes = 3 } };
	struct et_plugin_state now;
	open_plugin(&s, "sync");
	open_program(&s, "exit");
	do {
		assert_int_equal(run(&s), ET_E_BACKEND_CRASHED);
		et_plugin_state(s.rig.backends[0].backend, &now);
	} while (!now.has_failed);
	assert_int_equal(now.n_crashes, 3);
	expect_failure(&s, ET_E_BACKEND_CRASHED, "has failed 3 times");
	assert_non_null(strstr(now.reason, "exited with status 3"));
	expect_log("the backend has failed");
	close_program(&s);
	close_plugin(&s);
}

static void test_prints(void **state)
{
	struct subject s = { 0 };
	open_plugin(&s, "sync");
	open_program(&s, "print");
	expect_scaled(&s, 2, 0);
	expect_log("test: a line on stdout");
	expect_log("test: ?[31mand one on stderr");
	close_program(&s);
	close_plugin(&s);
}

static void test_completions(void **state)
{
	struct subject s = { .config = { .max_crashes = 100 } };
	open_plugin(&s, "async");
	open_program(&s, "twice");
	for (int i = 0; i < 10; i++)
		expect_scaled(&s, 2, 0);
	expect_log("reported the end of a run that is not running");
	close_program(&s);
	open_program(&s, "late");
	begin(&s);
	assert_int_equal(run(&s), ET_OK); /* done was called before submit failed */
	expect_log("refused a run that it also reported as ended");
	close_program(&s);
	clear_log();
	open_program(&s, "posthumous");
	expect_scaled(&s, 2, 0);
	close_program(&s);
	expect_log("reported the end of a run that is not running");
	close_plugin(&s);
	s.config.run_timeout_ns = 300000000;
	open_plugin(&s, "async");
	open_program(&s, "never");
	expect_failure(&s, ET_E_BACKEND_CRASHED, "did not answer in time");
	close_program(&s);
	close_plugin(&s);
}

/* A cancelled run that does not end is ended after cancel_timeout. */
static void test_ignores_cancel(void **state)
{
	struct subject s = { .config = { .cancel_timeout_ns = 1000000, .max_crashes = 100 }, .will_wait = true };
	open_plugin(&s, "async");
	open_program(&s, "never");
	begin(&s);
	s.run.run.deadline_ns = et_platform_now_ns(NULL) + 1000000;
	assert_int_equal(et_run_begin(&s.run.run), ET_OK);
	assert_int_equal(finish(&s), ET_E_BACKEND_CRASHED);
	assert_non_null(strstr(s.run.run.diag.text, "did not end a cancelled run in time"));
	close_program(&s);
	rig_init(&s.rig);
	open_program(&s, "scale");
	expect_scaled(&s, 2, 0);
	close_program(&s);
	close_plugin(&s);
}

static void test_cage(void **state)
{
	char cache[] = "/tmp/inferd-plugin-XXXXXX", kept[100];
	assert_non_null(mkdtemp(cache));
	snprintf(kept, sizeof kept, "%s/kept", cache);
	struct subject s = { .config = { .cache_dir = cache } };
	struct et_plugin_state now;
	open_plugin(&s, "sync");
	et_plugin_state(s.rig.backends[0].backend, &now);
	assert_true(now.sandbox & ET_SANDBOX_NO_NEW_PRIVS);
	open_program(&s, "cage");
	assert_int_equal(run(&s), ET_OK);
	if (now.sandbox & ET_SANDBOX_CALLS) {
		for (int i = 0; i < 4; i++)
			assert_true(s.out[i] == 0);
		assert_int_equal((unsigned)s.out[6], 0);
	}
	assert_int_equal((unsigned)s.out[7], 0);
	if (now.sandbox & ET_SANDBOX_FILES)
		assert_true(s.out[4] == 0);
	assert_true(s.out[5] == 1);
	close_program(&s);
	close_plugin(&s);
	unlink(kept);
	rmdir(cache);
}

/* Processes are killed at any moment: no run is lost or answered twice, and no descriptor is leaked. */
static void test_killed_often(void **state)
{
	struct subject s = { .config = { .max_crashes = 1000, .crash_window_ns = 1 } };
	size_t n_files = n_open_files();
	open_plugin(&s, "async");
	open_program(&s, "scale");
	struct killer killer;
	killer_start(&killer, s.rig.backends[0].backend, 3);
	struct et_plugin_state now;
	do {
		s.will_wait = !s.will_wait;
		enum et_status status = run(&s);
		assert_true(status == ET_OK || status == ET_E_BACKEND_CRASHED);
		for (int i = 0; i < N && status == ET_OK; i++)
			assert_true(s.out[i] == 2 * (float)i);
		et_plugin_state(s.rig.backends[0].backend, &now);
	} while (now.n_crashes < 100);
	killer_stop(&killer);
	while (run(&s) == ET_E_BACKEND_CRASHED)
		;
	expect_scaled(&s, 2, 0);
	close_program(&s);
	close_plugin(&s);
	assert_int_equal(n_open_files(), n_files);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "process") == 0 && getenv("INFERD_EMULATED")) {
		puts("SKIP: an emulated process cannot start another program of its architecture");
		return 77;
	}
	const struct CMUnitTest harmless[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_specs),
		cmocka_unit_test(test_model_options),
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_sizes),
	};
	const struct CMUnitTest harmful[] = {
		cmocka_unit_test(test_crashes),
		cmocka_unit_test(test_init_crash),
		cmocka_unit_test(test_revival),
		cmocka_unit_test(test_state_lost),
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_prints),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_ignores_cancel),
		cmocka_unit_test(test_cage),
		cmocka_unit_test(test_killed_often),
	};
	isolation = argc > 1 && strcmp(argv[1], "thread") == 0 ? ET_PLUGIN_IN_THREAD : ET_PLUGIN_IN_PROCESS;
	if (isolation == ET_PLUGIN_IN_PROCESS && getenv("INFERD_EMULATED")) {
		puts("skipped: an emulated process can't start another that is emulated");
		return 77;
	}
	int n_failed = cmocka_run_group_tests_name("plug-ins that mean well", harmless, NULL, NULL);
	if (isolation == ET_PLUGIN_IN_PROCESS)
		n_failed += cmocka_run_group_tests_name("plug-ins that do harm", harmful, NULL, NULL);
	return n_failed;
}
