/* SPDX-License-Identifier: BSD-3-Clause */
/* Measure how long the daemon keeps what belongs to a client that was killed.
 *
 *     kills SOCKET MODEL N <LOG
 *
 * LOG is the log of a daemon with log_level = debug, through a pipe. N clients, one after the other, keep requests
 * in flight until each is killed at a random moment. Each line of the log gets a time stamp when it arrives. This
 * process asks for real-time scheduling, so that it measures the daemon even if all cores are busy. The times from
 * kill() to these lines are measured:
 *     idle   its queued requests have ended, and its bindings, Methods and regions that no run uses are freed
 *     rest   nothing is left of it, measured from the end of its last running segment
 * The result is JSON: {"n", "n_running", "idle_p50_ms", "idle_max_ms", "rest_p50_ms", "rest_max_ms", "is_realtime"}.
 * n_running counts the clients that were killed while one of their requests ran. */
#include "clients/inferd.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_IN_FLIGHT = 8, MAX_KILLS = 10000, PATIENCE_MS = 30000, LATEST_MS = 40 };

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* --- the client that is killed -------------------------------------------------------------------- */

static void again(struct inferd_binding *b, int status, void *userdata)
{
	if (status < 0 || inferd_infer_async(b, NULL, again, NULL) < 0)
		_exit(3);
}

static void be_a_client(const char *socket, const char *model)
{
	struct inferd *d = NULL;
	struct inferd_method *m = NULL;
	struct inferd_binding *b = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (inferd_open(&d, socket) < 0 || inferd_method_open(d, &m, model, NULL) < 0)
		_exit(3);
	for (int i = 0; i < N_IN_FLIGHT; i++)
		if (inferd_bind(m, &b) < 0 || inferd_infer_async(b, NULL, again, NULL) < 0)
			_exit(3);
	while (inferd_wait(d, -1) >= 0)
		;
	_exit(3);
}

/* --- the log -------------------------------------------------------------------------------------- */

static struct {
	char bytes[1 << 16];
	size_t n, at;
	double came_ms;
} input;

/* The next line, which is valid until the next call; NULL: none until @deadline_ms. */
static char *next_line(double deadline_ms)
{
	for (;;) {
		char *line = input.bytes + input.at;
		char *end = memchr(line, '\n', input.n - input.at);
		if (end) {
			*end = '\0';
			input.at = (size_t)(end + 1 - input.bytes);
			return line;
		}
		memmove(input.bytes, line, input.n - input.at);
		input.n -= input.at;
		input.at = 0;
		double left_ms = deadline_ms - now_ms();
		struct timespec wait = { (time_t)(left_ms / 1e3), (long)(left_ms * 1e6) % 1000000000 };
		struct pollfd p = { .fd = 0, .events = POLLIN };
		if (left_ms <= 0 || input.n == sizeof(input.bytes) || ppoll(&p, 1, &wait, NULL) <= 0)
			return NULL;
		ssize_t n = read(0, input.bytes + input.n, sizeof(input.bytes) - input.n);
		if (n <= 0)
			return NULL;
		input.came_ms = now_ms();
		input.n += (size_t)n;
	}
}

struct victim {
	unsigned long long session; /* 0: not seen yet */
	unsigned pid;
	int n_running;
	bool has_run;
	double segment_ms, idle_ms, gone_ms; /* 0: not yet */
};

static void follow(struct victim *v, const char *line)
{
	unsigned long long session, job;
	unsigned pid;
	char from[16], to[16];
	int n = 0;
	if (sscanf(line, "session %llu: pid %u,", &session, &pid) == 2 && pid == v->pid)
		v->session = session;
	if (sscanf(line, "session %llu%n", &session, &n) != 1 || !v->session || session != v->session)
		return;
	line += n;
	if (sscanf(line, " job %llu: %15s -> %15s", &job, from, to) == 3) {
		v->n_running += (strcmp(to, "running") == 0) - (strcmp(from, "running") == 0);
		v->has_run = v->has_run || v->n_running;
		if (strcmp(from, "running") == 0)
			v->segment_ms = input.came_ms;
	} else if (strcmp(line, ": closed, its idle objects are free") == 0) {
		v->idle_ms = input.came_ms;
	} else if (strcmp(line, ": freed") == 0) {
		v->gone_ms = input.came_ms;
	}
}

static int fail(const char *what)
{
	fprintf(stderr, "kills: %s\n", what);
	return 1;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double idle_ms[MAX_KILLS], rest_ms[MAX_KILLS];
	char *end = NULL;
	long n_wanted = argc == 4 ? strtol(argv[3], &end, 10) : 0;
	int n = n_wanted <= MAX_KILLS && end && !*end ? (int)n_wanted : 0, n_running = 0;
	struct sched_param param = { .sched_priority = 1 };
	if (n < 1) {
		fprintf(stderr, "usage: kills SOCKET MODEL N <LOG\n");
		return 2;
	}
	bool is_realtime = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0;
	srandom(1);
	for (int i = 0; i < n; i++) {
		struct victim v = { 0 };
		const char *line;
		pid_t pid = fork();
		if (pid < 0)
			return fail("can't fork");
		if (!pid)
			be_a_client(argv[1], argv[2]);
		v.pid = (unsigned)pid;
		while (!v.has_run) {
			if (!(line = next_line(now_ms() + PATIENCE_MS)))
				return fail("no request of a new client has run; is the daemon's log_level "
					    "debug?");
			follow(&v, line);
		}
		double moment_ms = now_ms() + (double)(random() % (LATEST_MS * 1000)) / 1e3;
		while ((line = next_line(moment_ms)))
			follow(&v, line);
		double killed_ms = now_ms();
		int n_at_once = v.n_running;
		v.segment_ms = 0;
		if (kill(pid, SIGKILL) < 0)
			return fail("can't kill");
		while (!v.gone_ms) {
			if (!(line = next_line(killed_ms + PATIENCE_MS)))
				return fail("something is left of a client");
			follow(&v, line);
		}
		int status;
		if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
			return fail("a client had ended by itself");
		if (!v.idle_ms)
			return fail("a client went without a word");
		n_running += n_at_once > 0;
		idle_ms[i] = v.idle_ms - killed_ms;
		rest_ms[i] = v.gone_ms - (v.segment_ms > killed_ms ? v.segment_ms : killed_ms);
	}
	qsort(idle_ms, (size_t)n, sizeof(*idle_ms), by_value);
	qsort(rest_ms, (size_t)n, sizeof(*rest_ms), by_value);
	printf("{\"n\": %d, \"n_running\": %d, \"idle_p50_ms\": %.3f, \"idle_max_ms\": %.3f, "
	       "\"rest_p50_ms\": %.3f, "
	       "\"rest_max_ms\": %.3f, \"is_realtime\": %s}\n",
		n, n_running, idle_ms[n / 2], idle_ms[n - 1], rest_ms[n / 2], rest_ms[n - 1],
		is_realtime ? "true" : "false");
	return 0;
}
