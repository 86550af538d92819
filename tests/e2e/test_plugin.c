/* A plug-in behind the real daemon: its queue, its crashes, and everybody else's requests meanwhile. */
#include "tests/e2e/harness.h"
#include "tests/support/make_program.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KILLED = 100 };

/* y = the plug-in's answer to x; see tests/plugins/plugin.c. */
static void put_word(struct e2e *e, const char *word)
{
	struct make_program mk;
	char name[64];
	size_t n_bytes;
	mk_init(&mk);
	mk_method(&mk, "forward");
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int delegate = mk_delegate(&mk, "TestBackend", word, strlen(word), false, NULL, NULL);
	mk_call(&mk, delegate, MK_ARGS(x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	snprintf(name, sizeof name, "%s.pte", word);
	e2e_put(e, name, bytes, n_bytes);
	free(bytes);
}

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
	put_word(&e, "scale");
	put_word(&e, "state");
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
	put_word(&e, "wait");
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

static void test_crash(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	put_word(&e, "scale");
	put_word(&e, "exit");
	put_word(&e, "hang");
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

/* Given up after so many crashes: the status says so, and why. */
static void test_gives_up(void **state)
{
	struct e2e e;
	int rc, n = 0;
	e2e_init(&e);
	put_word(&e, "exit");
	start(&e, "sync", "max_crashes = 2\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "exit", NULL);
	do {
		e2e_infer(b, 1, &rc);
		assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
		n++;
	} while (!strstr(inferd_error(d), "has failed 2 times"));
	assert_true(n >= 3);
	e2e_until(&e, says_why,
		"test: failed 2 times: the host process of backend 'test' exited with status 3");
	inferd_close(d);
	e2e_deinit(&e);
}

/* Kill the daemon's child, whichever it is now. */
static int kill_host(pid_t parent)
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
			n += kill(pid, SIGKILL) == 0;
		fclose(file);
	}
	closedir(proc);
	return n;
}

/* Under load: other clients notice nothing, and nothing is left behind. */
static void test_killed_often(void **state)
{
	struct e2e e;
	int rc, n_killed = 0, n_good = 0;
	e2e_init(&e);
	put_word(&e, "scale");
	e2e_put_program(&e, "double.pte", e2e_program_double);
	start(&e, "async", "max_crashes = 1000000\ncrash_window = 1ms\n");
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "scale", NULL), *cpu = e2e_bind(other, "double", NULL);
	int n_fds = e2e_count_fds(e.pid);
	for (int i = 0; n_killed < KILLED || n_good < KILLED; i++) {
		float y = e2e_infer(b, (float)i, &rc);
		assert_true(rc == 0 ? y == 2 * (float)i : rc == -INFERD_BACKEND_CRASHED);
		n_good += rc == 0;
		if (rc == 0 && n_killed < KILLED)
			n_killed += kill_host(e.pid);
		y = e2e_infer(cpu, (float)i, &rc);
		assert_true(rc == 0 && y == 2 * (float)i);
	}
	do
		e2e_infer(b, 1, &rc);
	while (rc);
	assert_true(e2e_count_fds(e.pid) <= n_fds + 4); /* two stages, at most */
	inferd_close(d);
	inferd_close(other);
	e2e_until_clients(&e, 0);
	assert_int_equal(e2e_unload(&e, "scale"), INF_OK);
	assert_int_equal(e2e_unload(&e, "double"), INF_OK);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A plug-in that can't be loaded is a backend that is missing, and the model says so. */
static void test_missing(void **state)
{
	struct e2e e;
	struct inferd_method *method;
	e2e_init(&e);
	put_word(&e, "scale");
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
		cmocka_unit_test(test_two_queues),
		cmocka_unit_test(test_crash),
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_killed_often),
		cmocka_unit_test(test_missing),
	};
	return e2e_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
