/* SPDX-License-Identifier: BSD-3-Clause */
/* The OpenCL plug-in in a process of its own, in the sandbox, with PoCL: what is compiled once is found again, a driver
 * that is missing or killed disturbs nobody else, and each client has its own state. Without PoCL only the first test
 * does anything. */
#include "tests/e2e/harness.h"
#include "tests/support/graph_rig.h"
#include "tests/support/make_program.h"
#include "tests/support/make_vulkan.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- programs ------------------------------------------------------------------------------------- */

/* A program that is one payload with the graph that @text describes; @sizes are those of its input and output. */
static void put_graph(struct e2e *e, const char *name, const char *text, const struct mk_tensor *tensor)
{
	struct graph_rig rig;
	struct make_program mk;
	size_t n;
	if (graph_rig_parse(&rig, text) != ET_OK)
		fail_msg("%s", rig.diag.text);
	uint8_t *payload = make_vulkan(&rig.graph, &n);
	mk_init(&mk);
	mk_method(&mk, "forward");
	int a = mk_tensor(&mk, tensor), b = mk_tensor(&mk, tensor);
	mk_call(&mk, mk_delegate(&mk, "VulkanBackend", payload, n, false, NULL, NULL), MK_ARGS(a, b));
	mk_input(&mk, a);
	mk_output(&mk, b);
	uint8_t *program = mk_finish(&mk, &n);
	e2e_put(e, name, program, n);
	free(program);
	free(payload);
	graph_rig_deinit(&rig);
}

/* y = 2 x */
static void put_double(struct e2e *e, const char *name)
{
	put_graph(e, name,
		"%0: f32[4] = input\n%1: f32[4] = aten.add.Tensor(%0, %0, 1)\n"
		"%2: f32[4] = aten.relu.default(%1)\nreturn %2\n",
		&(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
}

/* Seconds of work for any driver here. */
static void put_long(struct e2e *e, const char *name)
{
	enum { N_STEPS = 400 };
	static char text[N_STEPS * 64];
	size_t n = (size_t)snprintf(text, sizeof(text), "%%0: f32[1024, 1024] = input\n");
	for (int i = 1; i <= N_STEPS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
			"%%%d: f32[1024, 1024] = aten.mm.default(%%%d, %%0)\n", i, i - 1);
	snprintf(text + n, sizeof(text) - n, "return %%%d\n", N_STEPS);
	put_graph(e, name, text, &(struct mk_tensor){ MK_FP32, MK_SIZES(1024, 1024) });
}

/* --- the daemon ----------------------------------------------------------------------------------- */

static bool is_missing(const struct inf_server_status *status)
{
	for (size_t i = 0; i < status->n_backends_missing; i++)
		if (strncmp(status->backends_missing[i], "opencl: ", 8) == 0)
			return true;
	return false;
}

/* Start the daemon with its log in the file @log; @more goes into the section of the backend. */
static void start(struct e2e *e, const char *log, const char *more)
{
	char config[2048], path[128];
	snprintf(config, sizeof(config),
		"cache = %s\nlog_level = info\nbackends = opencl, xnnpack, portable\n"
		"[backend opencl]\npath = %s\nhost = %s\nplatforms = Portable Computing Language\ndevices = cpu\n"
		"build_tools = yes\nload_timeout = 10m\ntimeout = 10m\nmax_crashes = 1000\n%s",
		e->dir, OPENCL_PLUGIN, HOST, more);
	snprintf(path, sizeof(path), "%s/%s", e->dir, log);
	int saved = dup(STDERR_FILENO), file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(saved >= 0 && file >= 0);
	dup2(file, STDERR_FILENO);
	close(file);
	e2e_start(e, config);
	dup2(saved, STDERR_FILENO);
	close(saved);
}

/* The same; false where there is no PoCL. */
static bool start_with_pocl(struct e2e *e, const char *log)
{
	start(e, log, "");
	struct inf_request request = { .kind = INF_REQUEST_STATUS };
	struct inf_reply reply = e2e_raw_call(e->watcher, request);
	assert_int_equal(reply.kind, INF_REPLY_SERVER_STATUS);
	if (!is_missing(&reply.server_status))
		return true;
	print_message("skipped: %s\n", reply.server_status.backends_missing[0]);
	e2e_deinit(e);
	return false;
}

/* The sums of the log's lines "N kernels from the cache, M compiled". */
static void count_kernels(struct e2e *e, const char *log, long *ret_found, long *ret_compiled)
{
	static const char middle[] = " kernels from the cache, ";
	char path[128];
	size_t n;
	snprintf(path, sizeof(path), "%s/%s", e->dir, log);
	char *text = e2e_read(path, &n);
	assert_non_null(text);
	*ret_found = *ret_compiled = 0;
	for (char *at = text; (at = memmem(at, n - (size_t)(at - text), middle, sizeof(middle) - 1));) {
		char *number = at;
		while (number > text && number[-1] >= '0' && number[-1] <= '9')
			number--;
		*ret_found += strtol(number, NULL, 10);
		at += sizeof(middle) - 1;
		*ret_compiled += strtol(at, NULL, 10);
	}
	free(text);
}

static pid_t host_of(const struct inf_server_status *status)
{
	for (size_t i = 0; i < status->n_hosts; i++)
		if (strcmp(status->hosts[i].backend, "opencl") == 0 && !status->hosts[i].own)
			return (pid_t)status->hosts[i].pid;
	return 0;
}

static bool has_host(const struct inf_server_status *status, const void *arg)
{
	*(pid_t *)(uintptr_t)arg = host_of(status);
	return host_of(status) != 0;
}

struct running {
	uint32_t cpu, gpu;
};

static bool are_running(const struct inf_server_status *status, const void *arg)
{
	const struct running *wanted = arg;
	struct running found = { 0 };
	for (size_t i = 0; i < status->n_queues; i++) {
		if (strcmp(status->queues[i].name, "cpu") == 0)
			found.cpu = status->queues[i].running;
		if (strcmp(status->queues[i].name, "gpu0") == 0)
			found.gpu = status->queues[i].running;
	}
	return found.cpu == wanted->cpu && found.gpu == wanted->gpu;
}

static void note(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

static void wait_for(struct inferd *d, const int *status)
{
	while (*status == 1)
		assert_true(inferd_wait(d, 60000) >= 0);
}

/* What inferctl prints. */
static void run_inferctl(struct e2e *e, const char *command, const char *argument, char *to, size_t room)
{
	int pipes[2], status;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		execl(INFERCTL, "inferctl", command, "--socket", e->socket, "--manager", e->manager, argument,
			(char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	size_t at = 0;
	for (ssize_t n; at + 1 < room && (n = read(pipes[0], to + at, room - 1 - at)) > 0;)
		at += (size_t)n;
	to[at] = '\0';
	close(pipes[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 127);
}

/* --- tests ---------------------------------------------------------------------------------------- */

/* No driver: the model's next variant serves, and inferctl says why. */
static void test_no_driver(void **state)
{
	struct e2e e;
	struct inferd_method *method;
	char text[4096];
	int rc;
	e2e_init(&e);
	put_double(&e, "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_double);
	start(&e, "log", "vendors = /nonexistent/drivers\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "m", &method);
	assert_string_equal(inferd_method_backend(method), "portable");
	assert_true(e2e_infer(b, 3, &rc) == 6 && rc == 0);
	run_inferctl(&e, "why", "m", text, sizeof(text));
	if (!strstr(text, "OpenCL"))
		fail_msg("inferctl why does not say why: %s", text);
	inferd_close(d);
	e2e_deinit(&e);
}

/* Kernels are compiled once, by a process apart, and found again by the next daemon. */
static void test_compiles_once(void **state)
{
	long n_found, n_compiled, n_first;
	char text[4096];
	struct e2e e;
	int rc;
	e2e_init(&e);
	put_double(&e, "double.pte");
	if (!start_with_pocl(&e, "first"))
		skip();
	struct inferd *d = e2e_connect(&e);
	assert_true(e2e_infer(e2e_bind(d, "double", NULL), 3, &rc) == 6 && rc == 0);
	run_inferctl(&e, "status", NULL, text, sizeof(text));
	if (!strstr(text, "gpu0: ") || !strstr(text, "driver "))
		fail_msg("inferctl status does not show the device: %s", text);
	inferd_close(d);
	e2e_stop(&e);
	count_kernels(&e, "first", &n_first, &n_compiled);
	assert_true(n_first > 0);
	assert_int_equal(n_compiled, n_first);
	assert_true(start_with_pocl(&e, "second"));
	d = e2e_connect(&e);
	assert_true(e2e_infer(e2e_bind(d, "double", NULL), 4, &rc) == 8 && rc == 0);
	inferd_close(d);
	e2e_stop(&e);
	count_kernels(&e, "second", &n_found, &n_compiled);
	assert_int_equal(n_found, n_first);
	assert_int_equal(n_compiled, 0);
	e2e_deinit(&e);
}

/* Both queues run at the same time, and both runs end when they are asked to. */
static void test_both_queues(void **state)
{
	static const char *const names[] = { "forever", "long" };
	struct inferd *d[2];
	struct inferd_binding *b[2];
	int status[2];
	struct e2e e;
	e2e_init(&e);
	put_long(&e, "long.pte");
	e2e_put_program(&e, "forever.pte", e2e_program_forever);
	if (!start_with_pocl(&e, "log"))
		skip();
	for (int i = 0; i < 2; i++) {
		d[i] = e2e_connect(&e);
		b[i] = e2e_bind(d[i], names[i], NULL);
	}
	for (int i = 0; i < 2; i++) {
		status[i] = 1;
		assert_int_equal(inferd_infer_async(b[i], NULL, note, &status[i]), 0);
	}
	e2e_until(&e, are_running, &(struct running){ 1, 1 });
	for (int i = 0; i < 2; i++) {
		assert_int_equal(inferd_cancel(b[i]), 0);
		wait_for(d[i], &status[i]);
		assert_int_equal(status[i], -INFERD_CANCELLED);
		inferd_close(d[i]);
	}
	e2e_deinit(&e);
}

/* Two long runs of a low priority are under way, as many as the device takes, and a third waits. A request of a higher
 * priority does not wait for their end. */
static void test_goes_first(void **state)
{
	enum { N_LONG = 3, N_RUNNING = 2, N_REQUESTS = 5 };
	const struct inferd_request_options batch = { .struct_size = sizeof(batch), .priority = INFERD_BATCH };
	struct inferd *d[N_LONG];
	struct inferd_binding *b[N_LONG];
	int status[N_LONG], rc;
	struct e2e e;
	e2e_init(&e);
	put_long(&e, "long.pte");
	put_double(&e, "double.pte");
	if (!start_with_pocl(&e, "log"))
		skip();
	struct inferd *other = e2e_connect(&e);
	struct inferd_binding *urgent = e2e_bind(other, "double", NULL);
	for (int i = 0; i < N_LONG; i++) {
		d[i] = e2e_connect(&e);
		b[i] = e2e_bind(d[i], "long", NULL);
	}
	for (int i = 0; i < N_LONG; i++) {
		status[i] = 1;
		assert_int_equal(inferd_infer_async(b[i], &batch, note, &status[i]), 0);
	}
	e2e_until(&e, are_running, &(struct running){ 0, N_RUNNING });
	for (int i = 0; i < N_REQUESTS; i++)
		assert_true(e2e_infer(urgent, (float)i, &rc) == 2 * (float)i && rc == 0);
	for (int i = 0; i < N_LONG; i++) {
		assert_true(inferd_wait(d[i], 0) >= 0);
		assert_int_equal(status[i], 1); /* not at its end */
		assert_int_equal(inferd_cancel(b[i]), 0);
		wait_for(d[i], &status[i]);
		assert_int_equal(status[i], -INFERD_CANCELLED);
		inferd_close(d[i]);
	}
	inferd_close(other);
	e2e_deinit(&e);
}

/* The driver's process is killed in a run: that run ends, requests on the CPU do not notice, and the models are
 * back. */
static void test_killed(void **state)
{
	enum { N_KILLS = 5, N_REQUESTS = 50 };
	struct e2e e;
	int rc;
	e2e_init(&e);
	put_long(&e, "long.pte");
	put_double(&e, "double.pte");
	e2e_put_program(&e, "cpu.pte", e2e_program_double);
	if (!start_with_pocl(&e, "log"))
		skip();
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *endless = e2e_bind(d, "long", NULL), *small = e2e_bind(d, "double", NULL),
			      *cpu = e2e_bind(other, "cpu", NULL);
	for (int i = 0; i < N_KILLS; i++) {
		int status = 1;
		pid_t pid = 0;
		assert_true(e2e_infer_until_served(small, (float)i, &rc) == 2 * (float)i && rc == 0);
		assert_int_equal(inferd_infer_async(endless, NULL, note, &status), 0);
		e2e_until(&e, are_running, &(struct running){ 0, 1 });
		e2e_until(&e, has_host, &pid);
		for (int k = 0; k < N_REQUESTS; k++) {
			if (k == N_REQUESTS / 2)
				assert_int_equal(kill(pid, SIGKILL), 0);
			assert_true(e2e_infer(cpu, (float)k, &rc) == 2 * (float)k && rc == 0);
		}
		wait_for(d, &status);
		assert_int_equal(status, -INFERD_BACKEND_CRASHED);
	}
	assert_true(e2e_infer_until_served(small, 7, &rc) == 14 && rc == 0);
	inferd_close(d);
	inferd_close(other);
	e2e_deinit(&e);
}

/* --- states --------------------------------------------------------------------------------------- */

enum { N_TOKENS = 12, N_LOGITS = 512 };

struct talk {
	struct inferd *d;
	struct inferd_binding *b;
	float logits[N_LOGITS];
};

static void open_llama(struct e2e *e, struct talk *talk)
{
	static const int64_t one_token[] = { 1, 1 };
	struct inferd_method *method;
	talk->d = e2e_connect(e);
	talk->b = e2e_bind(talk->d, "llama", &method);
	assert_string_equal(inferd_method_backend(method), "opencl");
	assert_int_equal(inferd_n_inputs(method), 2);
	assert_true(inferd_output_info(method, 0)->n_bytes >= N_LOGITS * sizeof(float));
	assert_int_equal(inferd_set_input_shape(talk->b, 0, one_token, 2), 0);
}

/* Token number @i of client @who. */
static void say(struct talk *talk, int who, int i)
{
	*(int64_t *)inferd_input(talk->b, 0) = (7 * i + 3 * who * who + 1) % 100;
	*(int64_t *)inferd_input(talk->b, 1) = i;
	if (inferd_infer(talk->b, NULL))
		fail_msg("%s", inferd_error(talk->d));
	memcpy(talk->logits, inferd_output(talk->b, 0), sizeof(talk->logits));
}

/* Two clients of a language model take turns: each gets what it gets alone. */
static void test_two_talks(void **state)
{
	static float alone[2][N_TOKENS][N_LOGITS];
	static struct talk talks[2];
	struct e2e e;
	e2e_init(&e);
	if (!e2e_put_file(&e, "llama.bpte", LLAMA)) {
		e2e_deinit(&e);
		print_message("skipped: %s is not there\n", LLAMA);
		skip();
	}
	if (!start_with_pocl(&e, "log"))
		skip();
	for (int who = 0; who < 2; who++) {
		open_llama(&e, &talks[who]);
		for (int i = 0; i < N_TOKENS; i++) {
			say(&talks[who], who, i);
			memcpy(alone[who][i], talks[who].logits, sizeof(talks[who].logits));
		}
		inferd_close(talks[who].d);
	}
	assert_memory_not_equal(alone[0], alone[1], sizeof(alone[0]));
	for (int who = 0; who < 2; who++)
		open_llama(&e, &talks[who]);
	for (int i = 0; i < N_TOKENS; i++)
		for (int who = 0; who < 2; who++) {
			say(&talks[who], who, i);
			assert_memory_equal(talks[who].logits, alone[who][i], sizeof(talks[who].logits));
		}
	for (int who = 0; who < 2; who++)
		inferd_close(talks[who].d);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_no_driver), cmocka_unit_test(test_compiles_once),
		cmocka_unit_test(test_both_queues), cmocka_unit_test(test_goes_first), cmocka_unit_test(test_killed),
		cmocka_unit_test(test_two_talks) };
	return e2e_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
