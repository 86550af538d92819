/* SPDX-License-Identifier: BSD-3-Clause */
/* Several runs at once through one plug-in, whose host may be killed at any moment.
 *
 *     test_many process|thread    with thread no host is killed */
#include "delegates/plugin/proxy/plugin.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "tests/plugins/killer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 1000 };

static enum et_plugin_isolation isolation;

static void drop(void *self, enum et_log_level level, const char *text)
{
}

static const struct et_log log_table = { .max_level = ET_LOG_DEBUG, .write = drop };

/* A plug-in, and one payload of it. */
struct subject {
	struct et_plugin_config config;
	struct et_backend_entry entry;
	struct et_model *model;
};

static void subject_open(struct subject *s, const char *name)
{
	static char path[600];
	struct et_payload payload = {
		.bytes = (const uint8_t *)"scale", .n_bytes = 5, .method = "forward", .n_args = 2
	};
	struct et_model_info info = { 0 };
	struct et_diag diag = { "" };
	snprintf(path, sizeof path, "%s/%s.so", PLUGINS, name);
	s->config.path = path;
	s->config.host_path = HOST;
	s->config.isolation = isolation;
	if (et_plugin_open(&s->entry, &s->config, et_platform_allocator(), &log_table, &diag) ||
		s->entry.ops->compile(s->entry.backend, &payload, &s->model, &info, &diag))
		fail_msg("%s", diag.text);
}

static void subject_close(struct subject *s)
{
	s->entry.ops->model_free(s->model);
	s->entry.ops->close(s->entry.backend);
}

static struct et_plugin_state state_of(const struct subject *s)
{
	struct et_plugin_state now;
	et_plugin_state(s->entry.backend, &now);
	return now;
}

/* A thread that waits for a completion. */
struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_done;
	enum et_status status;
};

static void done(void *self, enum et_status status, const char *reason)
{
	struct waiter *w = self;
	pthread_mutex_lock(&w->lock);
	assert_false(w->is_done);
	w->status = status;
	w->is_done = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static const char *const good[] = { "sync", "async" };

/* Several threads run at once, some of them attended: each gets its own answer, whichever thread received it. */
enum { N_RUNNERS = 5, N_EACH = 300 };

struct runner {
	struct et_backend_entry entry;
	struct et_model *model;
	pthread_t thread;
	bool will_wait, may_crash;
	float factor;
	_Atomic(uint32_t) *n_left; /* NULL: N_EACH runs; else until it is 0 */
	uint32_t n_good, n_wrong, n_crashed;
};

static void run_many(struct runner *r, struct et_instance *instance, struct et_worker_threads *threads)
{
	float in[N], out[N];
	int32_t sizes[] = { N }, strides[] = { 1 };
	uint8_t order[] = { 0 };
	struct et_tensor a = { in, N, sizes, strides, order, ET_FLOAT32, 1, ET_STATIC, false }, b = a;
	struct et_evalue values[] = { { .tag = ET_TAG_TENSOR, .tensor = &a }, { .tag = ET_TAG_TENSOR, .tensor = &b } };
	struct et_evalue *args[] = { &values[0], &values[1] };
	struct waiter w = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	b.data = out;
	for (uint32_t k = 0; r->n_left ? *r->n_left > 0 : k < N_EACH; k++) {
		struct et_completion completion = { &w, done, r->will_wait };
		struct et_diag diag = { "" };
		for (int i = 0; i < N; i++)
			in[i] = (float)k + (float)i * r->factor;
		w.is_done = false;
		enum et_status status = r->entry.ops->enqueue(instance, args, &completion, &diag);
		if (status == ET_PENDING) {
			if (r->will_wait)
				r->entry.ops->wait(instance, k % 2 ? 0 : UINT64_MAX);
			pthread_mutex_lock(&w.lock);
			while (!w.is_done)
				pthread_cond_wait(&w.changed, &w.lock);
			pthread_mutex_unlock(&w.lock);
			status = w.status;
		}
		bool is_right = status == ET_OK;
		for (int i = 0; i < N && is_right; i++)
			is_right = out[i] == 2 * in[i];
		r->n_good += is_right;
		r->n_crashed += status == ET_E_BACKEND_CRASHED;
		r->n_wrong += !is_right && status != ET_E_BACKEND_CRASHED;
	}
}

static void *runner_main(void *arg)
{
	struct runner *r = arg;
	struct et_worker_threads *threads;
	struct et_instance *instance = NULL;
	struct et_diag diag = { "" };
	if (r->entry.ops->threads_new(r->entry.backend, 0, 1, &threads, &diag)) {
		r->n_wrong++;
		return NULL;
	}
	while (r->entry.ops->instance_new(r->model, threads, &instance, &diag) == ET_E_BACKEND_CRASHED && r->may_crash)
		;
	if (instance)
		run_many(r, instance, threads);
	else
		r->n_wrong++;
	if (instance)
		r->entry.ops->instance_free(instance);
	r->entry.ops->threads_free(threads);
	return NULL;
}

/* Whether the status says that the host was ending. */
static bool ask_again(struct subject *s)
{
	struct runner one = { .entry = s->entry, .model = s->model, .may_crash = true, .will_wait = true };
	runner_main(&one);
	return one.n_crashed || one.n_wrong;
}

static void start_runners(struct subject *s, struct runner *runners, _Atomic(uint32_t) *n_left)
{
	for (int i = 0; i < N_RUNNERS; i++) {
		runners[i] = (struct runner){ .entry = s->entry,
			.model = s->model,
			.will_wait = i != 1,
			.may_crash = n_left != NULL,
			.factor = (float)(i + 1),
			.n_left = n_left };
		assert_int_equal(pthread_create(&runners[i].thread, NULL, runner_main, &runners[i]), 0);
	}
}

static void test_many(void **state)
{
	for (size_t g = 0; g < ET_ARRAY_LEN(good); g++) {
		struct subject s = { 0 };
		struct runner runners[N_RUNNERS];
		subject_open(&s, good[g]);
		start_runners(&s, runners, NULL);
		for (int i = 0; i < N_RUNNERS; i++) {
			pthread_join(runners[i].thread, NULL);
			assert_int_equal(runners[i].n_good, N_EACH);
		}
		assert_int_equal(state_of(&s).n_in_flight + state_of(&s).n_waiting, 0);
		subject_close(&s);
	}
}

/* --- killed hosts ---------------------------------------------------------------------------------------- */

/* The descriptors, mappings and heap bytes of this process. */
struct holdings {
	size_t n_files, n_maps, n_heap;
};

static struct holdings holdings_now(void)
{
	struct holdings now = { .n_files = n_open_files() };
	char line[600];
	FILE *file = fopen("/proc/self/maps", "re");
	assert_non_null(file);
	while (fgets(line, sizeof line, file))
		now.n_maps += strchr(line, '\n') != NULL;
	fclose(file);
	struct mallinfo2 heap = mallinfo2();
	now.n_heap = heap.uordblks + heap.hblkhd;
	return now;
}

/* Run on several threads until the host has crashed @n_crashes times more. */
static void kill_among_many(struct subject *s, uint32_t n_crashes)
{
	struct runner runners[N_RUNNERS];
	_Atomic(uint32_t) n_left = 1;
	struct killer killer;
	uint32_t last = state_of(s).n_crashes + n_crashes;
	start_runners(s, runners, &n_left);
	/* of twice as many runs as there are runners, half are over */
	killer_start(&killer, s->entry.backend, 2 * N_RUNNERS);
	while (state_of(s).n_crashes < last)
		sched_yield();
	killer_stop(&killer);
	n_left = 0;
	uint32_t n_good = 0;
	for (int i = 0; i < N_RUNNERS; i++) {
		pthread_join(runners[i].thread, NULL);
		assert_int_equal(runners[i].n_wrong, 0);
		n_good += runners[i].n_good;
	}
	assert_true(n_good > 0);
}

/* As above, and then wait until the host answers again. Returns what the process holds after that. */
static struct holdings held_after(struct subject *s, uint32_t n_crashes)
{
	kill_among_many(s, n_crashes);
	while (ask_again(s))
		;
	return holdings_now();
}

/* A hundred hosts are killed under load: no run gets a wrong answer, and no descriptor, mapping or byte is leaked.
 * The first few crashes bring all caches to their size. Gaps in the heap may make a few bytes count as used; a leak
 * for each host would show again after the next hundred. (Sanitizers have their own heap, and check for leaks
 * themselves.) */
static void test_killed_among_many(void **state)
{
	struct subject s = { .config = { .max_crashes = 1000000, .crash_window_ns = 1 } };
	size_t n_files = n_open_files();
	subject_open(&s, "async");
	struct holdings before = held_after(&s, 20);
	bool has_grown = true;
	for (int i = 0; i < 4 && has_grown; i++) {
		struct holdings after = held_after(&s, 100);
		assert_int_equal(after.n_files, before.n_files);
		has_grown = !INF_SANITIZED_HOST && (after.n_maps > before.n_maps || after.n_heap > before.n_heap);
		before = after;
	}
	assert_false(has_grown);
	subject_close(&s);
	assert_int_equal(n_open_files(), n_files);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest harmless[] = { cmocka_unit_test(test_many) };
	const struct CMUnitTest harmful[] = { cmocka_unit_test(test_killed_among_many) };
	isolation = argc > 1 && strcmp(argv[1], "thread") == 0 ? ET_PLUGIN_IN_THREAD : ET_PLUGIN_IN_PROCESS;
	if (isolation == ET_PLUGIN_IN_PROCESS && getenv("INFERD_EMULATED")) {
		puts("skipped: an emulated process can't start another that is emulated");
		return 77;
	}
	int n_failed = cmocka_run_group_tests_name("several at once", harmless, NULL, NULL);
	if (isolation == ET_PLUGIN_IN_PROCESS)
		n_failed += cmocka_run_group_tests_name("and killed", harmful, NULL, NULL);
	return n_failed;
}
