/* SPDX-License-Identifier: BSD-3-Clause */
/* Applications that do not notice that the daemon restarts: libinferd's reconnect_ms with the real daemon, which is
 * stopped, drained, killed, and comes back with other limits and models. clients/libinferd/test_reconnect.c ends the
 * connection at each message, test_each_call.c restarts the daemon in the middle of each call. */
#include "tests/e2e/harness.h"

#include "ipc/presence.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "tests/support/make_program.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct inferd *connect_lasting(struct e2e *e, uint32_t reconnect_ms)
{
	struct inferd *d = NULL;
	struct inferd_open_options options = {
		.struct_size = sizeof(options), .socket = e->socket, .reconnect_ms = reconnect_ms
	};
	if (inferd_open_with(&d, &options) < 0)
		fail_msg("%s", inferd_error(d));
	return d;
}

static void kill_daemon(struct e2e *e)
{
	assert_int_equal(kill(e->pid, SIGKILL), 0);
	assert_int_equal(e2e_wait(e), 128 + SIGKILL);
}

/* @kills: SIGKILL, otherwise as systemd restarts it. */
static void restart(struct e2e *e, bool kills, const char *config)
{
	if (kills)
		kill_daemon(e);
	else
		e2e_stop(e);
	e2e_start(e, config);
}

/* ---- under load ---- */

enum { N_CLIENTS = 8, N_RESTARTS = 20, N_KILLS = 5, N_BETWEEN = 20 };

struct client {
	struct e2e *e;
	pthread_t thread;
	unsigned index;
	_Atomic(uint64_t) n_answers;
	_Atomic(bool) *is_over;
	char error[1200]; /* empty: none */
};

static void check_answer(struct client *c, struct inferd_binding *b, int status, float x)
{
	const float *y = inferd_output(b, 0);
	if (status < 0)
		snprintf(c->error, sizeof(c->error), "%s", inferd_status_text(status));
	else if (y[0] != 2 * x || y[3] != 2 * x)
		snprintf(c->error, sizeof(c->error), "%g and %g are not twice %g", (double)y[0], (double)y[3],
			(double)x);
	atomic_fetch_add(&c->n_answers, 1);
}

struct flight {
	struct client *c;
	float x;
	bool is_over;
};

static void on_answer(struct inferd_binding *b, int status, void *userdata)
{
	struct flight *f = userdata;
	check_answer(f->c, b, status, f->x);
	f->is_over = true;
}

static void fill(struct inferd_binding *b, float x)
{
	for (int i = 0; i < 4; i++)
		((float *)inferd_input(b, 0))[i] = x;
	((float *)inferd_output(b, 0))[0] = -1;
}

/* Odd clients bring their program, and each third one has two requests in flight. */
static void *client_main(void *arg)
{
	struct client *c = arg;
	struct inferd *d = NULL;
	struct inferd_method *m = NULL;
	struct inferd_binding *b[2] = { NULL };
	struct inferd_open_options options = {
		.struct_size = sizeof(options), .socket = c->e->socket, .reconnect_ms = 100000
	};
	char path[256];
	snprintf(path, sizeof(path), "%s/double.pte", c->e->models);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (inferd_open_with(&d, &options) < 0 ||
		(c->index % 2 ? inferd_method_open_fd(d, &m, fd, "own", NULL)
			      : inferd_method_open(d, &m, "double", NULL)) < 0 ||
		inferd_bind(m, &b[0]) < 0 || inferd_bind(m, &b[1]) < 0)
		snprintf(c->error, sizeof(c->error), "%s", inferd_error(d));
	close(fd);
	for (float x = 0; !c->error[0] && !*c->is_over; x += 1) {
		if (c->index % 3) {
			fill(b[0], x);
			check_answer(c, b[0], inferd_infer(b[0], NULL), x);
			continue;
		}
		struct flight f[2] = { { c, x, false }, { c, x + 7, false } };
		for (int i = 0; i < 2; i++) {
			fill(b[i], f[i].x);
			if (inferd_infer_async(b[i], NULL, on_answer, &f[i]) < 0)
				snprintf(c->error, sizeof(c->error), "%s", inferd_error(d));
		}
		while (!c->error[0] && (!f[0].is_over || !f[1].is_over))
			inferd_wait(d, -1);
	}
	inferd_close(d);
	return NULL;
}

/* Until each client has had so many more answers. */
static void wait_for_answers(struct client *clients)
{
	uint64_t before[N_CLIENTS];
	for (int i = 0; i < N_CLIENTS; i++)
		before[i] = clients[i].n_answers;
	for (int i = 0; i < N_CLIENTS; i++)
		while (clients[i].n_answers < before[i] + N_BETWEEN) {
			if (clients[i].error[0])
				fail_msg("client %d: %s", i, clients[i].error);
			sched_yield();
		}
}

static void test_under_load(void **state)
{
	static struct client clients[N_CLIENTS];
	_Atomic(bool) is_over = false;
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	memset(clients, 0, sizeof(clients));
	for (unsigned i = 0; i < N_CLIENTS; i++) {
		clients[i].e = &e;
		clients[i].index = i;
		clients[i].is_over = &is_over;
		assert_int_equal(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]), 0);
	}
	for (int i = 0; i < N_RESTARTS + N_KILLS; i++) {
		wait_for_answers(clients);
		restart(&e, i % 5 == 4, NULL);
	}
	wait_for_answers(clients);
	is_over = true;
	for (int i = 0; i < N_CLIENTS; i++) {
		pthread_join(clients[i].thread, NULL);
		assert_string_equal(clients[i].error, "");
	}
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* ---- a daemon that is another than before ---- */

static uint8_t *program_wide(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(8), .arena = arena });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(8), .arena = arena, .offset = 32 });
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, mk_int(&mk, 1), y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

static void expect_answer(struct inferd_binding *b, float x)
{
	int rc;
	float y = e2e_infer(b, x, &rc);
	assert_int_equal(rc, 0);
	assert_true(y == 2 * x);
}

static void test_other_than_before(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	struct inferd *d = connect_lasting(&e, 100000);
	struct inferd_binding *b = e2e_bind(d, "double", NULL);
	expect_answer(b, 1);
	/* lower limits, and as before again */
	restart(&e, false, "[limits]\nmethods = 0\n");
	e2e_infer(b, 2, &rc);
	assert_int_equal(rc, -INFERD_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(inferd_error(d), "methods"));
	restart(&e, false, "[limits]\nregions = 0\n");
	e2e_infer(b, 2, &rc);
	assert_int_equal(rc, -INFERD_RESOURCE_EXHAUSTED);
	restart(&e, true, NULL);
	expect_answer(b, 2);
	/* without the model; it comes back while the daemon runs */
	char path[256], away[256];
	snprintf(path, sizeof(path), "%s/double.pte", e.models);
	snprintf(away, sizeof(away), "%s/away", e.dir);
	e2e_stop(&e);
	assert_int_equal(rename(path, away), 0);
	e2e_start(&e, NULL);
	e2e_infer(b, 3, &rc);
	assert_int_equal(rc, -INFERD_NOT_FOUND);
	assert_int_equal(rename(away, path), 0);
	expect_answer(b, 3);
	/* with a broken one */
	e2e_stop(&e);
	e2e_put(&e, "double.pte", "nonsense that is no program", 27);
	e2e_start(&e, NULL);
	e2e_infer(b, 4, &rc);
	assert_int_equal(rc, -INFERD_FAILED_PRECONDITION);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	restart(&e, false, NULL);
	expect_answer(b, 4);
	/* with other inputs and outputs */
	e2e_stop(&e);
	e2e_put_program(&e, "double.pte", program_wide);
	e2e_start(&e, NULL);
	for (int i = 0; i < 2; i++) {
		e2e_infer(b, 5, &rc);
		assert_int_equal(rc, -INFERD_FAILED_PRECONDITION);
		assert_non_null(strstr(inferd_error(d), "now has another input_0: open the Method again"));
	}
	expect_answer(e2e_bind(d, "double", NULL), 6);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static void test_state(void **state)
{
	struct inferd_method *m;
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "accumulate.pte", e2e_program_accumulate);
	e2e_start(&e, NULL);
	struct inferd *d = connect_lasting(&e, 100000);
	struct inferd_binding *b = e2e_bind(d, "accumulate", &m);
	restart(&e, false, NULL); /* the initial state is not lost */
	assert_true(e2e_infer(b, 3, &rc) == 3 && rc == 0);
	for (int kills = 0; kills < 2; kills++) {
		restart(&e, kills, NULL);
		for (int i = 0; i < 2; i++) {
			e2e_infer(b, 3, &rc);
			assert_int_equal(rc, -INFERD_STATE_LOST);
		}
		assert_int_equal(inferd_method_reset(m), 0);
		assert_true(e2e_infer(b, 3, &rc) == 3 && rc == 0);
		assert_true(e2e_infer(b, 3, &rc) == 6 && rc == 0);
	}
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* ---- deadlines ---- */

static void test_stopped(void **state)
{
	const struct inferd_request_options brief = { .struct_size = sizeof(brief), .timeout_us = 50000 };
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e), *late = NULL;
	struct inferd_binding *b = e2e_bind(d, "double", NULL);
	expect_answer(b, 1);
	e2e_suspend(e.pid);
	assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
	assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
	struct inferd_open_options options = {
		.struct_size = sizeof(options), .socket = e.socket, .timeout_us = 50000
	};
	assert_int_equal(inferd_open_with(&late, &options), -INFERD_MISSED_DEADLINE);
	inferd_close(late);
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	expect_answer(b, 2);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* ---- coming back, or not ---- */

static void test_never(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	assert_true(inf_presence_is_held(e.socket));
	struct inferd *d = connect_lasting(&e, 200);
	struct inferd_binding *b = e2e_bind(d, "double", NULL);
	kill_daemon(&e);
	assert_false(inf_presence_is_held(e.socket));
	e2e_infer(b, 1, &rc);
	assert_int_equal(rc, -INFERD_DISCONNECTED);
	assert_non_null(strstr(inferd_error(d), "no daemon came back within 200 ms"));
	assert_int_equal(inferd_wait(d, -1), -INFERD_DISCONNECTED);
	inferd_close(d);
	e2e_start(&e, NULL);
	e2e_stop(&e);
	assert_false(inf_presence_is_held(e.socket));
	e2e_deinit(&e);
}

static void on_answered(struct inferd_binding *b, int status, void *userdata)
{
	size_t *n = userdata;
	assert_int_equal(status, 0);
	--*n;
}

/* Many clients at once: all come back, and each has its answer. */
static void test_crowd(void **state)
{
	enum { N = 1000 };
	static struct inferd *d[N];
	static struct inferd_binding *b[N];
	const struct rlimit many = { 16384, 16384 };
	struct rlimit before;
	struct e2e e;
	size_t n_open = N;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	if (before.rlim_max < many.rlim_max) {
		print_message("skipped: the limit of open files is %lu\n", (unsigned long)before.rlim_max);
		skip();
	}
	struct rlimit now = { many.rlim_cur, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	const char *config = "[limits]\nconnections = 2000\nfds = 12000\nmethods = 2000\nregions = 2000\nbytes = 1G\n";
	e2e_start(&e, config);
	for (int i = 0; i < N; i++) {
		d[i] = connect_lasting(&e, 100000);
		b[i] = e2e_bind(d[i], "double", NULL);
	}
	restart(&e, true, config);
	for (int i = 0; i < N; i++) {
		fill(b[i], (float)i);
		assert_int_equal(inferd_infer_async(b[i], NULL, on_answered, &n_open), 0);
	}
	while (n_open)
		for (int i = 0; i < N; i++)
			assert_true(inferd_wait(d[i], 0) >= 0);
	for (int i = 0; i < N; i++) {
		assert_true(*(float *)inferd_output(b[i], 0) == 2 * (float)i);
		inferd_close(d[i]);
	}
	e2e_check_clean(&e);
	e2e_deinit(&e);
	setrlimit(RLIMIT_NOFILE, &before);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_under_load),
		cmocka_unit_test(test_other_than_before),
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_never),
		cmocka_unit_test(test_crowd),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
