/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in behind the real daemon: its queue, its crashes, and the requests of other clients meanwhile. */
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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLED = 100, N_KILLED_CLIENTS = 40 };

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
	e2e_start_plugin(&e, "async", "");
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
	e2e_start_plugin(&e, "async",
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
	snprintf(config, sizeof config, "[backend xnnpack]\npath = %s/sync.so\nhost = %s\ngreeting = hello\n", PLUGINS,
		HOST);
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
	e2e_start_plugin(&e, "async", "");
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
	e2e_start_plugin(&e, "async", "");
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
	e2e_start_plugin(&e, "async", "");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "wait", NULL), *good = e2e_bind(d, "scale", NULL);
	struct inferd_request_options options = { .struct_size = sizeof options, .timeout_us = 20000 };
	for (int i = 0; i < 3; i++) {
		/* the run before may go on after its deadline: then this one waits for it */
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
	e2e_start_plugin(&e, "sync", "timeout = 300ms\nmax_crashes = 100\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *good = e2e_bind(d, "scale", NULL), *exits = e2e_bind(d, "exit", NULL),
			      *hangs = e2e_bind(d, "hang", NULL), *cpu = e2e_bind(d, "double", NULL);
	struct inferd_binding *bad[] = { exits, hangs };
	/* a good run, too, may be kept from running for 300 ms, and is then taken for one that hangs */
	assert_true(e2e_infer_until_served(good, 3, &rc) == 6 && rc == 0);
	for (int i = 0; i < 2; i++) {
		e2e_infer(bad[i], 1, &rc);
		assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
		assert_non_null(strstr(inferd_error(d), "host process of backend 'test'"));
		assert_true(e2e_infer(cpu, 3, &rc) == 6 && rc == 0);
		assert_true(e2e_infer_until_served(good, 3, &rc) == 6 && rc == 0);
	}
	inferd_close(d);
	e2e_deinit(&e);
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
	assert_int_equal(status->n_hosts, 3); /* the last one read the program */
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
	e2e_start_plugin(&e, "sync", "max_crashes = 3\ncrash_window = 1ms\n");
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
	assert_true(e2e_infer_until_served(own, 3, &rc) == 6 && rc == 0);
	e2e_until(&e, copied_nothing, NULL);
	inferd_close(hostile);
	assert_true(e2e_infer(good, 3, &rc) == 6 && rc == 0);
	inferd_close(d);
	e2e_until_clients(&e, 0);
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

static int for_children_of(pid_t parent, int (*each)(pid_t pid, const char *name), const char *name)
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

static int pid_of_spawner(pid_t pid, const char *name)
{
	char path[64], comm[64] = "";
	snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
	FILE *file = fopen(path, "re");
	bool is_spawner = file && fgets(comm, sizeof comm, file) && strcmp(comm, "inferd-spawner\n") == 0;
	if (file)
		fclose(file);
	return is_spawner ? pid : 0;
}

/* Calls @each for the processes of plug-ins, which are the spawner's children; the sum of what it returns. */
static int for_children(pid_t parent, int (*each)(pid_t pid, const char *name), const char *name)
{
	return for_children_of(for_children_of(parent, pid_of_spawner, NULL), each, name);
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
	e2e_start_plugin(&e, "async", "");
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

static int pid_itself(pid_t pid, const char *name)
{
	return pid;
}

/* A host whose spawner was killed goes on; the next host is started by another spawner. */
static void test_killed_spawner(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	e2e_start_plugin(&e, "async", "max_crashes = 1000000\ncrash_window = 1ms\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "scale", NULL);
	for (int i = 0; i < 4; i++) {
		assert_true(e2e_infer(b, 1, &rc) == 2 && rc == 0);
		pid_t spawner = for_children_of(e.pid, pid_of_spawner, NULL);
		pid_t host = for_children_of(spawner, pid_itself, NULL);
		assert_true(spawner > 0 && host > 0);
		assert_int_equal(kill(spawner, SIGKILL), 0);
		assert_true(e2e_infer(b, 2, &rc) == 4 && rc == 0);
		assert_int_equal(kill(host, SIGKILL), 0);
		assert_true(e2e_infer_until_served(b, 3, &rc) == 6 && rc == 0);
		assert_int_not_equal(for_children_of(e.pid, pid_of_spawner, NULL), spawner);
		assert_int_not_equal(for_children(e.pid, pid_itself, NULL), host);
	}
	inferd_close(d);
	e2e_until_clients(&e, 0);
	assert_int_equal(e2e_unload(&e, "scale"), INF_OK);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

#ifdef INF_SANITIZED /* which maps memory of its own, more and more */
#define COUNTED_MAPS "/memfd:"
#else
#define COUNTED_MAPS ""
#endif

/* Under load: other clients notice nothing, and nothing is left behind. */
static void test_killed_often(void **state)
{
	struct e2e e;
	int rc, n_killed = 0, n_good = 0;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start_plugin(&e, "async", "max_crashes = 1000000\ncrash_window = 1ms\n");
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
			n_maps = n_maps_of(e.pid, COUNTED_MAPS);
		y = e2e_infer(cpu, (float)i, &rc);
		assert_true(rc == 0 && y == 2 * (float)i);
	}
	do
		e2e_infer(b, 1, &rc);
	while (rc);
	assert_true(e2e_count_fds(e.pid) <= n_fds + 4); /* two frames' activations, at most */
	assert_true(n_maps_of(e.pid, COUNTED_MAPS) <= n_maps + 8);
	inferd_close(d);
	inferd_close(other);
	e2e_until_clients(&e, 0);
	assert_int_equal(e2e_unload(&e, "scale"), INF_OK);
	assert_int_equal(e2e_unload(&e, "double"), INF_OK);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A client with requests in flight in the backend's process, in its user's own and in the daemon. */
static pid_t spawn_client(struct e2e *e)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct inferd *d = e2e_connect(e);
	struct inferd_method *m;
	struct inferd_binding *b[4] = { e2e_bind(d, "scale", &m) };
	if (inferd_bind(m, &b[1]) < 0)
		_exit(3);
	b[2] = bind_own(d, "scale");
	b[3] = e2e_bind(d, "double", NULL);
	e2e_ask_forever(d, b, 4);
}

static int count_one(pid_t pid, const char *name)
{
	return 1;
}

/* Clients are killed wherever their requests are: nothing of theirs is left, in no process. */
static void test_killed_clients(void **state)
{
	struct e2e e;
	int rc, status;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start_plugin(&e, "async", "");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "scale", NULL);
	for (int i = 0; i < N_KILLED_CLIENTS; i++) {
		pid_t pid = spawn_client(&e);
		e2e_until_clients(&e, 2);
		e2e_until_requests(&e, e2e_requests(&e) + (uint64_t)(i * 37 % 100));
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_true(e2e_infer(b, (float)i, &rc) == 2 * (float)i && rc == 0);
		e2e_until_clients(&e, 1);
		e2e_until_jobs(&e, 0, 0);
	}
	e2e_until(&e, copied_nothing, NULL);
	while (for_children(e.pid, count_one, NULL) > 1) /* their user's process has nothing to do any more */
		sched_yield();
	inferd_close(d);
	e2e_until_clients(&e, 0);
	while (n_maps_of_host(e.pid, "inferd-region"))
		sched_yield();
	assert_int_equal(e2e_unload(&e, "scale"), INF_OK);
	assert_int_equal(e2e_unload(&e, "double"), INF_OK);
	while (n_maps_of_host(e.pid, "inferd-activations"))
		sched_yield();
	assert_int_equal(n_maps_of(e.pid, "inferd-region"), 0);
	while (e2e_count_fds(e.pid) >
		e.n_fds + 2) /* what is known of that user's processes keeps two, however often it comes */
		sched_yield();
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
	e2e_start_plugin(&e, "sync", "load_timeout = 1h\n[limits]\nbytes = 3M\n");
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

/* y = lazy(x), by a payload or by an operator that leaves its output unwritten if x[0] is 0. The output lies in the
 * frame, which the users of the model borrow in turn. */
static uint8_t *make_lazy(size_t *ret_n_bytes, bool is_payload)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int t = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 });
	if (is_payload)
		mk_call(&mk, mk_delegate(&mk, "TestBackend", "lazy", 4, false, NULL, NULL), MK_ARGS(x, t));
	else
		mk_kernel(&mk, mk_operator(&mk, "test::plug_lazy", "out"), MK_ARGS(x, t, t));
	mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(y, t, mk_bool(&mk, false), y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

static uint8_t *make_lazy_payload(size_t *ret_n_bytes)
{
	return make_lazy(ret_n_bytes, true);
}

static uint8_t *make_lazy_operator(size_t *ret_n_bytes)
{
	return make_lazy(ret_n_bytes, false);
}

/* A user of the model, with a binding. */
struct user {
	struct e2e_raw *raw;
	uint64_t method, binding, region;
	float *floats;
};

static struct user user_new(struct e2e *e, uid_t uid, const char *model)
{
	struct user user;
	assert_int_equal(seteuid(uid), 0);
	user.raw = e2e_raw_new(e->socket, false);
	assert_int_equal(seteuid(0), 0);
	e2e_raw_bind(user.raw, model, &user.method, &user.binding, &user.region, &user.floats);
	return user;
}

/* The output after a run with @x in input element 0, and @rest in the others. */
static const float *run_as(struct user *user, float x, float rest)
{
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = user->binding } };
	for (int i = 0; i < 4; i++)
		user->floats[i] = i ? rest : x;
	assert_int_equal(e2e_raw_call(user->raw, infer).status, INF_OK);
	return user->floats + 16;
}

/* The first user writes a pattern, then the second one's run leaves the output unwritten. */
static void take_turns(struct e2e *e, const char *model)
{
	enum { NOBODY = 65534, N_ROUNDS = 20 };
	struct user ours = user_new(e, 0, model), nobody = user_new(e, NOBODY, model);
	for (int round = 1; round <= N_ROUNDS; round++) {
		const float *out = run_as(&ours, 1, (float)round);
		assert_true(out[0] == 2 && out[3] == 2 * (float)round);
		out = run_as(&nobody, 0, (float)round);
		for (int i = 0; i < 4; i++)
			assert_true(out[i] == 0);
	}
	e2e_raw_free(ours.raw);
	e2e_raw_free(nobody.raw);
}

/* Two users of one model whose engine leaves outputs unwritten: neither sees the other's values. */
static void test_two_users(void **state)
{
	static const char *const models[] = { "lazy", "lazy_payload", "lazy_operator" };
	struct e2e e;
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be another user\n");
		skip();
	}
	e2e_init(&e);
	assert_int_equal(chmod(e.dir, 0755), 0); /* so that the other user reaches the socket */
	e2e_put_word(&e, "lazy");
	e2e_put_program(&e, "lazy_payload.pte", make_lazy_payload);
	e2e_put_program(&e, "lazy_operator.pte", make_lazy_operator);
	e2e_start_plugin(&e, "sync", "");
	for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
		take_turns(&e, models[i]);
	e2e_deinit(&e);
}

/* A plug-in that can't be loaded is a backend that is missing, and the model says so. */
static void test_missing(void **state)
{
	struct e2e e;
	struct inferd_method *method;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	e2e_start_plugin(&e, "wrong_version", "");
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
		cmocka_unit_test(test_killed_spawner),
		cmocka_unit_test(test_killed_often),
		cmocka_unit_test(test_killed_clients),
		cmocka_unit_test(test_own_hangs),
		cmocka_unit_test(test_two_users),
		cmocka_unit_test(test_missing),
	};
	return e2e_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
