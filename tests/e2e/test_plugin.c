/* A plug-in behind the real daemon: its queue, its crashes, and everybody else's requests meanwhile. */
#include "tests/e2e/harness.h"
#include "tests/support/make_program.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KILLED = 100 };

/* y = the plug-in's answer to x; see tests/plugins/plugin.c. */
static void start(struct e2e *e, const char *plugin, const char *more)
{
	static char config[2048];
	snprintf(config, sizeof config, "[backend test]\npath = %s/%s.so\nhost = %s\n%s", PLUGINS, plugin,
		HOST, more);
	e2e_start(e, config);
}

struct queues {
	uint32_t cpu, npu;
};

static bool are_running(const struct inf_server_status *status, const void *arg)
{
	const struct queues *wanted = arg;
	struct queues found = { 0, 0 };
	for (size_t i = 0; i < status->n_queues; i++) {
		if (strcmp(status->queues[i].name, "cpu") == 0)
			found.cpu = status->queues[i].running;
		if (strcmp(status->queues[i].name, "npu0") == 0)
			found.npu = status->queues[i].running;
	}
	return found.cpu == wanted->cpu && found.npu == wanted->npu;
}

static void test_runs(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	e2e_put_word(&e, "state");
	start(&e, "async", "");
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "scale", NULL), *s = e2e_bind(other, "state", &method);
	for (int i = 0; i < 50; i++) {
		assert_true(e2e_infer(b, (float)i, &rc) == 2 * (float)i && rc == 0);
		assert_true(e2e_infer(s, 1, &rc) == (float)(1 + i) && rc == 0);
	}
	assert_int_equal(inferd_method_reset(method), 0);
	assert_true(e2e_infer(s, 1, &rc) == 1 && rc == 0);
	inferd_close(d);
	inferd_close(other);
	e2e_until_clients(&e, 0);
	assert_int_equal(e2e_unload(&e, "scale"), INF_OK);
	assert_int_equal(e2e_unload(&e, "state"), INF_OK);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* What the configuration says for one model, and only that one; what makes no sense keeps it from being loaded. */
static void test_model_options(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "scale", "plain.pte");
	e2e_put_word_as(&e, "scale", "tripled.pte");
	e2e_put_word_as(&e, "scale", "mistaken.pte");
	start(&e, "async",
		"[model tripled]\ntest.factor = 3\nnobody.factor = 4\n[model mistaken]\ntest.tint = blue\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	assert_true(e2e_infer(e2e_bind(d, "plain", NULL), 5, &rc) == 10 && rc == 0);
	assert_true(e2e_infer(e2e_bind(d, "tripled", NULL), 5, &rc) == 15 && rc == 0);
	assert_int_not_equal(inferd_method_open(d, &method, "mistaken", NULL), 0);
	assert_non_null(strstr(inferd_error(d), "there is no such option"));
	inferd_close(d);
	e2e_deinit(&e);
}

/* A payload that is none: options are looked at before it. */
static void put_for_xnnpack(struct e2e *e, const char *name)
{
	struct make_program mk;
	size_t n_bytes;
	mk_init(&mk);
	mk_method(&mk, "forward");
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	mk_call(&mk, mk_delegate(&mk, "XnnpackBackend", "nonsense", 8, false, NULL, NULL), MK_ARGS(x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	e2e_put(e, name, bytes, n_bytes);
	free(bytes);
}

static bool misses(const struct inf_server_status *status, const void *why)
{
	for (size_t i = 0; i < status->n_backends_missing; i++)
		if (strstr(status->backends_missing[i], why))
			return true;
	return false;
}

/* A backend that is compiled in has a section and models' options, too, and refuses what it does not know. */
static void test_compiled_in_options(void **state)
{
	struct e2e e;
	struct inferd_method *method;
	e2e_init(&e);
	e2e_start(&e, "[backend xnnpack]\ntint = blue\n");
	e2e_until(&e, misses, "XNNPACK has no option 'tint'");
	e2e_deinit(&e);
	/* a plug-in of that name has options of its own, and takes nothing away */
	char config[1024];
	int rc;
	e2e_init(&e);
	put_for_xnnpack(&e, "m.pte");
	snprintf(config, sizeof config, "[backend xnnpack]\npath = %s/sync.so\nhost = %s\ngreeting = hello\n",
		PLUGINS, HOST);
	e2e_put_word(&e, "scale");
	e2e_start(&e, config);
	struct inferd *d = e2e_connect(&e);
	assert_int_not_equal(inferd_method_open(d, &method, "m", NULL), 0);
	assert_non_null(strstr(inferd_error(d), "XNNPACK payload"));
	assert_true(e2e_infer(e2e_bind(d, "scale", NULL), 5, &rc) == 10 && rc == 0);
	inferd_close(d);
	e2e_deinit(&e);
	e2e_init(&e);
	put_for_xnnpack(&e, "m.pte");
	e2e_start(&e, "[model m]\nxnnpack.tone = deep\n");
	d = e2e_connect(&e);
	assert_int_not_equal(inferd_method_open(d, &method, "m", NULL), 0);
	assert_non_null(strstr(inferd_error(d), "XNNPACK has no option 'tone'"));
	inferd_close(d);
	e2e_deinit(&e);
}

static void ignore(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

/* The CPU and the NPU at the same time, for two clients; and a request that the NPU is at can be cancelled. */
static void test_two_queues(void **state)
{
	const struct queues both = { 1, 1 }, none = { 0, 0 };
	struct e2e e;
	int waits = -1, computes = -1;
	e2e_init(&e);
	e2e_put_word(&e, "wait");
	e2e_put_program(&e, "forever.pte", e2e_program_forever);
	start(&e, "async", "");
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "wait", NULL), *f = e2e_bind(other, "forever", NULL);
	assert_int_equal(inferd_infer_async(b, NULL, ignore, &waits), 0);
	assert_int_equal(inferd_infer_async(f, NULL, ignore, &computes), 0);
	e2e_until(&e, are_running, &both);
	inferd_close(d);
	inferd_close(other);
	e2e_until(&e, are_running, &none);
	e2e_deinit(&e);
}

/* A device that is at something long holds up nobody who has nothing to do with it, not even a model that is loaded. */
static void test_loads_meanwhile(void **state)
{
	const struct queues npu = { 0, 1 };
	struct e2e e;
	int waits = -1, rc;
	e2e_init(&e);
	e2e_put_word(&e, "wait");
	e2e_put_program(&e, "double.pte", e2e_program_double);
	start(&e, "async", "");
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "wait", NULL);
	assert_int_equal(inferd_infer_async(b, NULL, ignore, &waits), 0);
	e2e_until(&e, are_running, &npu);
	struct inferd_binding *f = e2e_bind(other, "double", NULL);
	assert_true(e2e_infer(f, 3, &rc) == 6 && rc == 0);
	inferd_close(other);
	e2e_until_clients(&e, 1);
	assert_int_equal(e2e_unload(&e, "double"), INF_OK);
	e2e_until(&e, are_running, &npu); /* still */
	inferd_close(d);
	e2e_deinit(&e);
}

/* A request's deadline passes while the plug-in works: it is asked to end, and the client hears why. */
static void test_deadline(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word(&e, "wait");
	e2e_put_word(&e, "scale");
	start(&e, "async", "");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "wait", NULL), *good = e2e_bind(d, "scale", NULL);
	struct inferd_request_options options = { .struct_size = sizeof options, .timeout_us = 20000 };
	for (int i = 0; i < 3; i++) {
		assert_int_equal(inferd_infer(b, &options), -INFERD_MISSED_DEADLINE);
		assert_true(e2e_infer(good, 3, &rc) == 6 && rc == 0);
	}
	inferd_close(d);
	e2e_deinit(&e);
}

static void test_crash(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	e2e_put_word(&e, "exit");
	e2e_put_word(&e, "hang");
	e2e_put_program(&e, "double.pte", e2e_program_double);
	start(&e, "sync", "timeout = 300ms\nmax_crashes = 100\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *good = e2e_bind(d, "scale", NULL), *exits = e2e_bind(d, "exit", NULL),
			      *hangs = e2e_bind(d, "hang", NULL), *cpu = e2e_bind(d, "double", NULL);
	struct inferd_binding *bad[] = { exits, hangs };
	assert_true(e2e_infer(good, 3, &rc) == 6 && rc == 0);
	for (int i = 0; i < 2; i++) {
		e2e_infer(bad[i], 1, &rc);
		assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
		assert_non_null(strstr(inferd_error(d), "host process of backend 'test'"));
		assert_true(e2e_infer(cpu, 3, &rc) == 6 && rc == 0);
		do
			e2e_infer(good, 3, &rc);
		while (rc == -INFERD_BACKEND_CRASHED);
		assert_int_equal(rc, 0);
	}
	inferd_close(d);
	e2e_deinit(&e);
}

static bool says_why(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_backends; i++)
		assert_string_not_equal(status->backends[i], "test");
	return status->n_backends_missing == 1 && strstr(status->backends_missing[0], arg);
}

/* What the index says of @model: its state and backend; its reason must have @text in it. */
static void expect_index(
	struct e2e *e, const char *model, const char *model_state, const char *backend, const char *text)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX,
		.repository_index = { "", false } };
	struct inf_reply reply = e2e_raw_call(e->watcher, request);
	assert_int_equal(reply.kind, INF_REPLY_REPOSITORY_INDEX);
	for (size_t i = 0; i < reply.repository_index.n_models; i++) {
		const struct inf_model_index *found = &reply.repository_index.models[i];
		if (strcmp(found->name, model) != 0)
			continue;
		assert_string_equal(found->state, model_state);
		assert_string_equal(found->backend, backend);
		if (!strstr(found->reason, text))
			fail_msg("'%s' does not say '%s'", found->reason, text);
		return;
	}
	fail_msg("no model %s", model);
}

/* Until a request is answered with anything but BACKEND_CRASHED. */
static float infer_until_served(struct inferd_binding *b, float x, int *ret_status)
{
	float y;
	do
		y = e2e_infer(b, x, ret_status);
	while (*ret_status == -INFERD_BACKEND_CRASHED);
	return y;
}

static bool copied_nothing(const struct inf_server_status *status, const void *arg)
{
	assert_int_equal(status->copied_bytes, 0);
	return true;
}

/* --- programs that clients bring ------------------------------------------------------------------------- */

/* A program that hands its input to the plug-in with that word. */
static int make_own(const char *word)
{
	size_t n_bytes;
	uint8_t *bytes = e2e_program_word(word, &n_bytes);
	int fd = memfd_create("own", MFD_CLOEXEC);
	assert_true(fd >= 0 && write(fd, bytes, n_bytes) == (ssize_t)n_bytes);
	free(bytes);
	return fd;
}

/* The same for a client that brings it along. */
static struct inferd_binding *bind_own(struct inferd *d, const char *word)
{
	struct inferd_method *method;
	struct inferd_binding *b;
	int fd = make_own(word);
	if (inferd_method_open_fd(d, &method, fd, "own", NULL) || inferd_bind(method, &b))
		fail_msg("%s", inferd_error(d));
	close(fd);
	return b;
}

static bool knows_whose(const struct inf_server_status *status, const void *arg)
{
	const uint32_t *n_crashes = arg;
	assert_int_equal(status->n_backends_missing, 0);
	assert_int_equal(status->n_hosts, 2);
	assert_false(status->hosts[0].own);
	assert_int_equal(status->hosts[0].starts, 1);
	assert_int_equal(status->hosts[0].crashes, 0);
	assert_true(status->hosts[1].own);
	assert_int_equal(status->hosts[1].uid, getuid());
	assert_string_equal(status->hosts[1].backend, "test");
	return status->hosts[1].crashes >= *n_crashes && strstr(status->hosts[1].reason, "for user");
}

/* A client's own payload crashes a hundred times: a model of the repository on the same backend never fails, nor is the
 * backend given up. */
static void test_own_crashes(void **state)
{
	const uint32_t n_crashes = KILLED;
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	start(&e, "sync", "max_crashes = 3\ncrash_window = 1ms\n");
	struct inferd *d = e2e_connect(&e), *hostile = e2e_connect(&e);
	struct inferd_binding *good = e2e_bind(d, "scale", NULL), *bad = bind_own(hostile, "exit"),
			      *own = bind_own(hostile, "scale");
	for (uint32_t i = 0, n = 0; n < n_crashes; i++) {
		e2e_infer(bad, 1, &rc);
		assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
		n += strstr(inferd_error(hostile), "exited with status 3") != NULL;
		assert_true(e2e_infer(good, (float)i, &rc) == 2 * (float)i && rc == 0);
	}
	e2e_until(&e, knows_whose, &n_crashes);
	assert_true(infer_until_served(own, 3, &rc) == 6 && rc == 0);
	e2e_until(&e, copied_nothing, NULL);
	inferd_close(hostile);
	assert_true(e2e_infer(good, 3, &rc) == 6 && rc == 0);
	inferd_close(d);
	e2e_until_clients(&e, 0);
	e2e_deinit(&e);
}

/* Given up after so many crashes: the status says so, and why. */
static void test_gives_up(void **state)
{
	struct e2e e;
	int rc, n = 0;
	e2e_init(&e);
	e2e_put_word(&e, "exit");
	start(&e, "sync", "max_crashes = 2\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "exit", NULL);
	do {
		e2e_infer(b, 1, &rc);
		assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
		n++;
	} while (!strstr(inferd_error(d), "has failed 2 times"));
	assert_true(n >= 3);
	e2e_until(&e, says_why,
		"test: failed 2 times: the host process of backend 'test' exited with status 3");
	expect_index(&e, "exit", "FAILED", "", "backend 'test' failed 2 times");
	assert_true(inferd_method_open(d, &method, "exit", NULL) == -INFERD_BACKEND_CRASHED);
	assert_non_null(strstr(inferd_error(d), "'inferctl restart test'"));
	inferd_close(d);
	e2e_deinit(&e);
}

/* --- a backend that is given up, and its models ---------------------------------------------------------- */

/* With a file that means trouble for the plug-in's `moody` and `moods`; it is there from the start. */
static void start_in_trouble(struct e2e *e, char *trouble, size_t room)
{
	char more[200];
	e2e_put(e, "../trouble", "", 0);
	snprintf(trouble, room, "%s/trouble", e->dir);
	snprintf(more, sizeof more, "max_crashes = 2\ntrouble = %s\n", trouble);
	start(e, "async", more);
}

static bool serves(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_programs; i++)
		if (status->programs[i].methods && strcmp(status->programs[i].backend, arg) == 0)
			return true;
	return false;
}

static enum inf_status restart(struct e2e *e, const char *backend)
{
	struct inf_request request = { .kind = INF_REQUEST_BACKEND_RESTART, .backend_restart = { backend } };
	return e2e_raw_call(e->watcher, request).status;
}

/* The model goes on with its next variant, for the clients that have it open and for new ones; who asked for that very
 * backend stays with it; after a restart everybody is back. */
static void test_falls(void **state)
{
	struct e2e e;
	char trouble[128];
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "moody", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	start_in_trouble(&e, trouble, sizeof trouble);
	struct inferd *d = e2e_connect(&e), *late = e2e_connect(&e);
	struct inferd_method *method, *stays_method;
	struct inferd_binding *b = e2e_bind(d, "m", &method), *idle = e2e_bind(d, "m", NULL), *stays;
	assert_string_equal(inferd_method_backend(method), "test");
	assert_int_equal(
		inferd_method_open(d, &stays_method, "m",
			&(struct inferd_method_options){
				.struct_size = sizeof(struct inferd_method_options), .backend = "test" }),
		0);
	assert_int_equal(inferd_bind(stays_method, &stays), 0);
	e2e_infer(b, 1, &rc);
	assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
	assert_true(infer_until_served(b, 5, &rc) == 15 && rc == 0);
	assert_true(e2e_infer(idle, 2, &rc) == 6 && rc == 0);
	e2e_infer(stays, 1, &rc);
	assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
	struct inferd_binding *fresh = e2e_bind(late, "m", &method);
	assert_string_equal(inferd_method_backend(method), "portable");
	assert_true(e2e_infer(fresh, 3, &rc) == 9 && rc == 0);
	e2e_until(&e, says_why, "test: failed 2 times: ");
	expect_index(&e, "m", "READY", "portable", "a.pte: backend 'test' failed 2 times");

	assert_int_equal(unlink(trouble), 0);
	assert_int_equal(restart(&e, "portable"), INF_NOT_FOUND);
	assert_int_equal(restart(&e, "xnnpack"), INF_FAILED_PRECONDITION);
	assert_int_equal(restart(&e, "test"), INF_OK);
	assert_true(e2e_infer(stays, 4, &rc) == 8 && rc == 0);
	while (e2e_infer(b, 4, &rc) != 8)
		assert_int_equal(rc, 0);
	assert_true(e2e_infer(idle, 4, &rc) == 8 && rc == 0);
	assert_true(e2e_infer(fresh, 4, &rc) == 8 && rc == 0);
	expect_index(&e, "m", "READY", "test", "");
	inferd_close(d);
	inferd_close(late);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* So does a model that has nothing of the plug-in's but an operator. */
static void test_falls_by_an_operator(void **state)
{
	struct make_program mk;
	struct e2e e;
	size_t n_bytes;
	int rc;
	e2e_init(&e);
	mk_init(&mk);
	mk_method(&mk, "forward");
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	mk_kernel(&mk, mk_operator(&mk, "test::plug_scale", "out"), MK_ARGS(x, mk_double(&mk, 2), y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	e2e_put(&e, "m/1/a.pte", bytes, n_bytes);
	free(bytes);
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	e2e_put_word(&e, "exit");
	start(&e, "sync", "max_crashes = 2\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "m", NULL), *bad = e2e_bind(d, "exit", NULL);
	assert_true(e2e_infer(b, 5, &rc) == 10 && rc == 0);
	do
		e2e_infer(bad, 1, &rc);
	while (!strstr(inferd_error(d), "has failed 2 times"));
	assert_true(infer_until_served(b, 5, &rc) == 15 && rc == 0);
	assert_int_equal(restart(&e, "test"), INF_OK);
	while (e2e_infer(b, 5, &rc) != 10)
		assert_int_equal(rc, 0);
	inferd_close(d);
	e2e_deinit(&e);
}

/* What had a state says that it is lost, once, whatever was there to go on with. */
static void test_falls_with_state(void **state)
{
	struct e2e e;
	char trouble[128];
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "moods", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_accumulate);
	start_in_trouble(&e, trouble, sizeof trouble);
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "m", &method);
	do {
		e2e_infer(b, 1, &rc);
		assert_true(rc == -INFERD_BACKEND_CRASHED || rc == -INFERD_STATE_LOST);
		if (rc == -INFERD_STATE_LOST)
			assert_int_equal(inferd_method_reset(method), 0);
		e2e_infer(b, 10, &rc);
	} while (rc);
	assert_true(e2e_infer(b, 5, &rc) == 15 && rc == 0);
	e2e_until(&e, serves, "portable");
	/* its state is well there: it does not go back */
	assert_int_equal(unlink(trouble), 0);
	assert_int_equal(restart(&e, "test"), INF_OK);
	assert_true(e2e_infer(b, 1, &rc) == 16 && rc == 0);
	struct inferd_method *fresh;
	do {
		e2e_bind(d, "m", &fresh);
	} while (strcmp(inferd_method_backend(fresh), "test") != 0);
	assert_true(e2e_infer(b, 1, &rc) == 17 && rc == 0);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A variant with other inputs is no successor for who has the model open, but for others. */
static void test_falls_not(void **state)
{
	struct e2e e;
	char trouble[128];
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "moods", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple); /* which has no state */
	start_in_trouble(&e, trouble, sizeof trouble);
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "m", &method);
	do {
		e2e_infer(b, 1, &rc);
		assert_true(rc == -INFERD_BACKEND_CRASHED || rc == -INFERD_STATE_LOST);
		if (rc == -INFERD_STATE_LOST)
			assert_int_equal(inferd_method_reset(method), 0);
	} while (!strstr(inferd_error(d), "has failed 2 times"));
	struct inferd_binding *fresh = e2e_bind(d, "m", NULL);
	assert_true(e2e_infer(fresh, 3, &rc) == 9 && rc == 0);
	e2e_infer(b, 1, &rc);
	assert_true(rc == -INFERD_BACKEND_CRASHED || rc == -INFERD_STATE_LOST);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Backends are asked before anything is loaded: who can't run a payload is passed over, who would compile it anew says
 * so; and a payload that kills its backend is not tried for ever. */
static void test_asked_first(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "babble", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	e2e_put_word(&e, "babble");
	e2e_put_word(&e, "stale");
	e2e_put_word(&e, "die");
	e2e_put_word(&e, "scale");
	start(&e, "sync", "");
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "m", &method);
	assert_string_equal(inferd_method_backend(method), "portable");
	assert_true(e2e_infer(b, 3, &rc) == 9 && rc == 0);
	expect_index(&e, "m", "READY", "portable", "a.pte: test can't run it here: it is no word");
	assert_int_equal(inferd_method_open(d, &method, "babble", NULL), -INFERD_FAILED_PRECONDITION);
	assert_non_null(strstr(inferd_error(d), "it is no word"));
	struct inferd_binding *stale = e2e_bind(d, "stale", NULL);
	assert_true(e2e_infer(stale, 3, &rc) == 6 && rc == 0);
	expect_index(&e, "stale", "READY", "test",
		"stale.pte: test compiles it anew: it was made for the engine of last year");
	for (int i = 0; i < 10; i++)
		assert_int_equal(inferd_method_open(d, &method, "die", NULL), -INFERD_FAILED_PRECONDITION);
	assert_non_null(strstr(inferd_error(d), "host process of backend 'test'"));
	do /* after two crashes there is a pause */
		rc = inferd_method_open(d, &method, "scale", NULL);
	while (rc == -INFERD_BACKEND_CRASHED);
	assert_int_equal(rc, 0);
	inferd_close(d);
	e2e_deinit(&e);
}

/* --- killed from outside --------------------------------------------------------------------------------- */

/* y = 4 * x over two calls, with what lies between them in an arena of the daemon's. */
static void put_twice(struct e2e *e)
{
	struct make_program mk;
	size_t n_bytes;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(16) });
	int t = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(16), .arena = arena });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(16) });
	int first = mk_delegate(&mk, "TestBackend", "scale", 5, false, NULL, NULL);
	int second = mk_delegate(&mk, "TestBackend", "scale", 5, false, NULL, NULL);
	mk_call(&mk, first, MK_ARGS(x, t));
	mk_call(&mk, second, MK_ARGS(t, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	e2e_put(e, "twice_scaled.pte", bytes, n_bytes);
	free(bytes);
}

/* Its mappings with that name. */
static int n_maps_of(pid_t pid, const char *name)
{
	char path[64], line[600];
	int n = 0;
	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file))
		n += strstr(line, name) != NULL;
	if (file)
		fclose(file);
	return n;
}

/* Calls @each for the daemon's children; the sum of what it returns. */
static int for_children(pid_t parent, int (*each)(pid_t pid, const char *name), const char *name)
{
	int n = 0;
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	while (proc && (entry = readdir(proc))) {
		char path[300], comm[64];
		int pid, ppid;
		snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
		FILE *file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%d (%63[^)]) %*c %d", &pid, comm, &ppid) == 3 && ppid == parent)
			n += each(pid, name);
		fclose(file);
	}
	closedir(proc);
	return n;
}

static int n_maps_of_host(pid_t parent, const char *name)
{
	return for_children(parent, n_maps_of, name);
}

/* Tensors stay where they lie, also between two parts of a program; a client that has gone takes its memory along. */
static void test_memory(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	put_twice(&e);
	start(&e, "async", "");
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "scale", NULL), *t = e2e_bind(other, "twice_scaled", NULL);
	for (int i = 0; i < 20; i++) {
		assert_true(e2e_infer(b, (float)i, &rc) == 2 * (float)i && rc == 0);
		assert_true(e2e_infer(t, (float)i, &rc) == 4 * (float)i && rc == 0);
	}
	e2e_until(&e, copied_nothing, NULL);
	assert_true(n_maps_of_host(e.pid, "inferd-activations") >= 2);
	assert_true(n_maps_of_host(e.pid, "inferd-region") >= 4);
	inferd_close(d);
	inferd_close(other);
	e2e_until_clients(&e, 0);
	while (n_maps_of_host(e.pid, "inferd-region")) /* until the host has read it */
		sched_yield();
	assert_int_equal(e2e_unload(&e, "scale"), INF_OK);
	assert_int_equal(e2e_unload(&e, "twice_scaled"), INF_OK);
	while (n_maps_of_host(e.pid, "inferd-activations"))
		sched_yield();
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static int kill_one(pid_t pid, const char *name)
{
	return kill(pid, SIGKILL) == 0;
}

static int kill_pondering(pid_t pid, const char *name)
{
	return n_maps_of(pid, "test-pondering") && kill_one(pid, name);
}

/* Kill the daemon's child, whichever it is now. */
static int kill_host(pid_t parent)
{
	return for_children(parent, kill_one, NULL);
}

/* Under load: other clients notice nothing, and nothing is left behind. */
static void test_killed_often(void **state)
{
	struct e2e e;
	int rc, n_killed = 0, n_good = 0;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	e2e_put_program(&e, "double.pte", e2e_program_double);
	start(&e, "async", "max_crashes = 1000000\ncrash_window = 1ms\n");
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "scale", NULL), *cpu = e2e_bind(other, "double", NULL);
	int n_fds = e2e_count_fds(e.pid), n_maps = 0;
	for (int i = 0; n_killed < KILLED || n_good < KILLED; i++) {
		float y = e2e_infer(b, (float)i, &rc);
		assert_true(rc == 0 ? y == 2 * (float)i : rc == -INFERD_BACKEND_CRASHED);
		n_good += rc == 0;
		if (rc == 0 && n_killed < KILLED)
			n_killed += kill_host(e.pid);
		if (rc == 0 && n_killed == 10)
			n_maps = n_maps_of(e.pid, "");
		y = e2e_infer(cpu, (float)i, &rc);
		assert_true(rc == 0 && y == 2 * (float)i);
	}
	do
		e2e_infer(b, 1, &rc);
	while (rc);
	assert_true(e2e_count_fds(e.pid) <= n_fds + 4); /* two frames' activations, at most */
	assert_true(n_maps_of(e.pid, "") <= n_maps + 8);
	inferd_close(d);
	inferd_close(other);
	e2e_until_clients(&e, 0);
	assert_int_equal(e2e_unload(&e, "scale"), INF_OK);
	assert_int_equal(e2e_unload(&e, "double"), INF_OK);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A client's own program hangs while it is made ready: that is its user's, and no concern of anybody who has a model
 * loaded or unloaded, or gives memory back. */
static void test_own_hangs(void **state)
{
	enum { LARGE = 2 << 20 };
	struct inferd_region *region;
	struct inf_reply reply;
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	e2e_put_program(&e, "double.pte", e2e_program_double);
	start(&e, "sync", "load_timeout = 1h\n[limits]\nbytes = 3M\n");
	struct e2e_raw *hostile = e2e_raw_new(e.socket, false);
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN,
		.method_open = { "own", "", "", "", .from_fd = true } };
	int fd = make_own("ponder");
	e2e_raw_send(hostile, &open, fd);
	close(fd);
	while (!n_maps_of_host(e.pid, "test-pondering"))
		sched_yield();

	struct inferd *d = e2e_connect(&e);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(e2e_load(&e, "double"), INF_OK);
		assert_int_equal(e2e_load(&e, "scale"), INF_OK);
		assert_int_equal(e2e_unload(&e, "double"), INF_OK);
		assert_int_equal(e2e_unload(&e, "scale"), INF_OK);
	}
	for (int i = 0; i < 3; i++) { /* there is room for one */
		do
			rc = inferd_region_new(d, &region, LARGE);
		while (rc == -INFERD_RESOURCE_EXHAUSTED);
		assert_int_equal(rc, 0);
		inferd_region_free(region);
	}
	assert_true(e2e_infer(e2e_bind(d, "scale", NULL), 3, &rc) == 6 && rc == 0);
	inferd_close(d);

	struct pollfd answer = { .fd = inf_channel_fd(&hostile->channel), .events = POLLIN };
	assert_int_equal(poll(&answer, 1, 0), 0); /* it still hangs */
	do
		for_children(e.pid, kill_pondering, NULL); /* it may be tried once more */
	while (poll(&answer, 1, 10) == 0);
	assert_true(e2e_raw_receive(hostile, &reply));
	assert_int_not_equal(reply.status, INF_OK);
	e2e_raw_free(hostile);
	e2e_until_clients(&e, 0);
	e2e_deinit(&e);
}

/* A plug-in that can't be loaded is a backend that is missing, and the model says so. */
static void test_missing(void **state)
{
	struct e2e e;
	struct inferd_method *method;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	start(&e, "wrong_version", "");
	struct inferd *d = e2e_connect(&e);
	assert_true(inferd_method_open(d, &method, "scale", NULL) != 0);
	assert_non_null(strstr(inferd_error(d), "TestBackend"));
	inferd_close(d);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_model_options),
		cmocka_unit_test(test_compiled_in_options),
		cmocka_unit_test(test_two_queues),
		cmocka_unit_test(test_loads_meanwhile),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_crash),
		cmocka_unit_test(test_own_crashes),
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_falls),
		cmocka_unit_test(test_falls_by_an_operator),
		cmocka_unit_test(test_falls_with_state),
		cmocka_unit_test(test_falls_not),
		cmocka_unit_test(test_asked_first),
		cmocka_unit_test(test_killed_often),
		cmocka_unit_test(test_own_hangs),
		cmocka_unit_test(test_missing),
	};
	return e2e_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
