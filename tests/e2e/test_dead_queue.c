/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue none of whose workers comes back: a plug-in's process is ended, and where there is none, the service
 * manager's watchdog is not fed. One worker that comes back is enough for neither to happen. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_WORKERS = 2 }; /* of the queue npu0, as the plug-in says */

#define THREAD  "isolation = thread\n"
#define PROCESS "isolation = process\n"

static char gate[128];

static void open_gate(void)
{
	int fd = open(gate, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
}

/* With a watchdog, so that the loop looks around ten times a second, and is to feed it. */
static void start(struct e2e *e, const char *server, const char *backend)
{
	char config[512];
	e2e_init(e);
	snprintf(config, sizeof(config), "%s[backend test]\npath = %s/sync.so\nhost = %s\ntimeout = 1h\n%s", server,
		PLUGINS, HOST, backend);
	snprintf(gate, sizeof(gate), "%s/gate", e->dir);
	assert_int_equal(mkfifo(gate, 0600), 0);
	setenv("INFERD_TEST_GATE", gate, 1);
	setenv("WATCHDOG_USEC", "200000", 1);
	e2e_put_word(e, "block");
	e2e_put_word(e, "hang");
	e2e_put_word(e, "scale");
	e2e_start(e, config);
	unsetenv("WATCHDOG_USEC");
}

/* The next message to the service manager. */
static const char *next_message(struct e2e *e)
{
	static char text[2048];
	struct pollfd p = { .fd = e->notify_fd, .events = POLLIN };
	if (poll(&p, 1, 30000) != 1)
		fail_msg("the daemon tells nothing");
	ssize_t n = recv(e->notify_fd, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = '\0';
	return text;
}

static void until_message(struct e2e *e, const char *word)
{
	while (!strstr(next_message(e), word))
		;
}

static void note(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

/* One request for each worker, or fewer. */
static void begin(struct inferd_binding **b, int *status, int n)
{
	for (int i = 0; i < n; i++) {
		*(float *)inferd_input(b[i], 0) = 1;
		status[i] = 1;
		assert_int_equal(inferd_infer_async(b[i], NULL, note, &status[i]), 0);
	}
}

static bool has_running(const struct inf_server_status *status, const void *n)
{
	for (size_t i = 0; i < status->n_queues; i++)
		if (strcmp(status->queues[i].name, "npu0") == 0)
			return status->queues[i].running == *(const uint32_t *)n;
	return false;
}

/* Let those go who wait at the gate, until all are answered with 0. */
static void finish(struct inferd *d, const int *status, int n)
{
	for (int i = 0; i < n; i++) {
		while (status[i] == 1) {
			open_gate();
			assert_true(inferd_wait(d, 10) >= 0);
		}
		assert_int_equal(status[i], 0);
	}
}

/* The plug-in is in the daemon: only a restart helps, and whoever comes back makes it needless. */
static void test_watchdog(void **state)
{
	struct inferd_binding *b[N_WORKERS];
	int status[N_WORKERS];
	struct e2e e;
	start(&e, "dead_queue = 300ms\n", THREAD);
	struct inferd *d = e2e_connect(&e);
	for (int i = 0; i < N_WORKERS; i++)
		b[i] = e2e_bind(d, "block", NULL);
	begin(b, status, N_WORKERS);
	until_message(&e, "STATUS=no worker of queue npu0 comes back; ");
	for (int n_status = 0; n_status < 5;) {
		const char *text = next_message(&e);
		assert_null(strstr(text, "WATCHDOG=1"));
		n_status += strstr(text, "STATUS=no worker of queue npu0 comes back; ") != NULL;
	}
	finish(d, status, N_WORKERS);
	until_message(&e, "WATCHDOG=1");
	while (strstr(next_message(&e), "comes back"))
		;
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* With one of two workers, or with `infinity`, the watchdog is fed. */
static void test_fed(void **state)
{
	static const struct {
		const char *server;
		uint32_t n;
	} rows[] = { { "dead_queue = 1s\n", N_WORKERS - 1 }, { "dead_queue = infinity\n", N_WORKERS },
		{ "dead_queue = 0\n", N_WORKERS }, { "dead_queue = 1s\n[model block]\nstall = 1h\n", N_WORKERS } };
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++) {
		struct inferd_binding *b[N_WORKERS];
		int status[N_WORKERS];
		struct e2e e;
		start(&e, rows[i].server, THREAD);
		struct inferd *d = e2e_connect(&e);
		for (int k = 0; k < N_WORKERS; k++)
			b[k] = e2e_bind(d, "block", NULL);
		begin(b, status, (int)rows[i].n);
		e2e_until(&e, has_running, &rows[i].n);
		for (int n_fed = 0; n_fed < 20;) {
			const char *text = next_message(&e);
			assert_null(strstr(text, "comes back"));
			n_fed += strstr(text, "WATCHDOG=1") != NULL;
		}
		finish(d, status, (int)rows[i].n);
		inferd_close(d);
		e2e_check_clean(&e);
		e2e_deinit(&e);
	}
}

/* Runs of one class that hang, in all @n workers that are there for it: the plug-in's process is ended, its runs with
 * it, and the daemon goes on. */
static void check_process(const char *backend, int n)
{
	struct inferd_binding *b[N_WORKERS];
	int status[N_WORKERS], rc;
	struct e2e e;
	start(&e, "dead_queue = 2s\n", backend);
	struct inferd *d = e2e_connect(&e);
	for (int i = 0; i < n; i++)
		b[i] = e2e_bind(d, "hang", NULL);
	struct inferd_binding *scale = e2e_bind(d, "scale", NULL);
	begin(b, status, n);
	for (int i = 0; i < n; i++) {
		while (status[i] == 1)
			assert_true(inferd_wait(d, 30000) > 0);
		assert_int_equal(status[i], -INFERD_BACKEND_CRASHED);
		assert_non_null(strstr(inferd_error(d), "held up every worker of its queue and was ended"));
	}
	assert_true(e2e_infer_until_served(scale, 3, &rc) == 6 && rc == 0);
	until_message(&e, "WATCHDOG=1");
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static void test_process(void **state)
{
	check_process(PROCESS, N_WORKERS);
}

/* The last worker of a device that takes turns is kept for higher classes, so that it helps none of those that wait. */
static void test_kept_worker(void **state)
{
	check_process(PROCESS "takes_turns = yes\n", N_WORKERS - 1);
}

static bool has_own_host(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_hosts; i++)
		if (status->hosts[i].own && status->hosts[i].pid) {
			*(pid_t *)arg = (pid_t)status->hosts[i].pid;
			return true;
		}
	return false;
}

/* The process of a user's own programs hangs, which has no time limit for a run: all workers of the CPU wait for it. */
static void test_own_programs(void **state)
{
	struct inferd_binding *b[N_WORKERS];
	struct inferd_method *m;
	int status[N_WORKERS], rc;
	char path[128];
	struct e2e e;
	pid_t pid = 0;
	start(&e, "dead_queue = 2s\nprogram_host = " PROGRAM_HOST "\n", PROCESS);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	snprintf(path, sizeof(path), "%s/double.pte", e.models);
	struct inferd *d = e2e_connect(&e);
	for (int i = 0; i < N_WORKERS; i++) {
		int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
		if (inferd_method_open_fd(d, &m, fd, "mine", NULL))
			fail_msg("%s", inferd_error(d));
		assert_int_equal(inferd_bind(m, &b[i]), 0);
		close(fd);
	}
	assert_true(e2e_infer(b[0], 3, &rc) == 6 && rc == 0);
	e2e_until(&e, has_own_host, &pid);
	e2e_suspend(pid);
	begin(b, status, N_WORKERS);
	for (int i = 0; i < N_WORKERS; i++) {
		while (status[i] == 1)
			assert_true(inferd_wait(d, 30000) > 0);
		assert_int_equal(status[i], -INFERD_BACKEND_CRASHED);
	}
	struct inferd_binding *model = e2e_bind(d, "double", NULL);
	assert_true(e2e_infer(model, 3, &rc) == 6 && rc == 0);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_watchdog),
		cmocka_unit_test(test_fed),
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_kept_worker),
		cmocka_unit_test(test_own_programs),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
