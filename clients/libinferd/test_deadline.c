/* SPDX-License-Identifier: BSD-3-Clause */
/* Test that no call of libinferd outlasts its timeout, and that none blocks that has a callback, while the daemon is
 * stopped as by SIGSTOP. */
#include "clients/libinferd/test_daemon.h"

#include "runtime/platform/platform.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { SHORT_US = 30 * 1000 };
#define PATIENCE_NS 30000000000 /* only a call that hangs takes longer */

static const struct inferd_request_options brief = { .struct_size = sizeof brief, .timeout_us = SHORT_US };

static uint64_t began_ns;

static void begin(void)
{
	began_ns = et_platform_now_ns(NULL);
}

/* It ended after its timeout, and not much later. */
static void assert_in_time(void)
{
	uint64_t took_ns = et_platform_now_ns(NULL) - began_ns;
	assert_in_range(took_ns, SHORT_US * 1000 - 1000, PATIENCE_NS);
}

/* Handle events until @done, which a callback sets. */
static void dispatch_until(const _Bool *done)
{
	while (!*done) {
		assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, -1), 1);
		inferd_dispatch(d);
	}
}

struct outcome {
	bool is_done;
	int status, n;
};

static void note(struct outcome *o, int status)
{
	o->is_done = true;
	o->status = status;
	o->n++;
}

static void on_done(struct inferd_binding *b, int status, void *userdata)
{
	note(userdata, status);
}

static void on_opened(struct inferd *connection, int status, void *userdata)
{
	assert_ptr_equal(connection, d);
	note(userdata, status);
}

static void on_method(struct inferd_method *m, int status, void *userdata)
{
	note(userdata, status);
}

static void on_bound(struct inferd_binding *b, int status, void *userdata)
{
	note(userdata, status);
}

/* Wait until the daemon has read as many messages. */
static void until_messages(uint32_t n)
{
	while (fake.n_messages < n)
		poll(NULL, 0, 1);
}

static void a_request_ends_though_the_daemon_is_stopped(void **state)
{
	struct inferd_binding *b = bind_model("double");
	fill(b, 1);
	assert_int_equal(inferd_infer(b, &brief), 0);
	fake.is_stopped = true;
	begin();
	assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
	assert_in_time();
	assert_string_equal(inferd_error(d), "the request's timeout passed, and the daemon has not answered");
	/* The daemon has not answered the request before: these are not sent to it. */
	for (int i = 0; i < 2; i++) {
		begin();
		assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
		assert_in_time();
		assert_string_equal(inferd_error(d), "the request's timeout passed before the daemon could be asked");
	}
	fake.is_stopped = false;
	fill(b, 7);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 7);
	assert_int_equal(fake.n_infers, 3);
}

static void on_signal(int number)
{
}

static bool on_interrupted(void *userdata)
{
	return ++*(int *)userdata == 3;
}

/* The third of many signals ends the call, and the binding takes the next request. */
static void a_signal_ends_a_call(void **state)
{
	int n = 0;
	struct sigaction action = { .sa_handler = on_signal }, before;
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { 0 };
	struct inferd_open_options options = { .interrupted = on_interrupted, .userdata = &n };
	assert_int_equal(fake_connect(options), 0);
	struct inferd_binding *b = bind_model("double");
	sigaction(SIGALRM, &action, &before);
	fake.is_stopped = true;
	n = 0; /* it may be asked without a signal, too */
	setitimer(ITIMER_REAL, &often, NULL);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_MISSED_DEADLINE);
	assert_int_equal(n, 3);
	fake.is_stopped = false;
	fill(b, 7);
	assert_int_equal(inferd_infer(b, NULL), 0); /* signals that end nothing */
	assert_doubled(b, 7);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
}

static void a_callback_comes_once(void **state)
{
	struct outcome o = { 0 };
	struct inferd_binding *b = bind_model("double");
	fake.is_stopped = true;
	begin();
	assert_int_equal(inferd_infer_async(b, &brief, on_done, &o), 0);
	dispatch_until(&o.is_done);
	assert_in_time();
	assert_int_equal(o.status, -INFERD_MISSED_DEADLINE);
	fake.is_stopped = false;
	fill(b, 3);
	assert_int_equal(inferd_infer(b, NULL), 0); /* receives the late reply first */
	assert_doubled(b, 3);
	assert_int_equal(inferd_dispatch(d), 0);
	assert_int_equal(o.n, 1);
	/* a timer that is still set wakes the loop, and nothing more */
	assert_int_equal(inferd_wait(d, 100), 0);
}

/* The daemon runs the request that libinferd has given up: the state advances unseen. */
static void a_state_that_advanced_unseen_is_lost(void **state)
{
	struct inferd_method *m;
	struct inferd_binding *b, *other;
	assert_int_equal(inferd_method_open(d, &m, "state", NULL), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	assert_int_equal(inferd_bind(m, &other), 0);
	fake.is_stopped = true;
	assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
	assert_int_equal(inferd_infer(other, &brief), -INFERD_MISSED_DEADLINE); /* it waits for the first one */
	fake.is_stopped = false;
	until_messages(8); /* Hello, MethodOpen, RegionCreate, Bind, the same for the other binding, Infer, Cancel */
	assert_true(inferd_wait(d, -1) >= 0);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_STATE_LOST);
	assert_int_equal(inferd_infer(other, NULL), -INFERD_STATE_LOST);
	assert_int_equal(inferd_method_reset(m), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_int_equal(fake.n_infers, 2);
}

/* A request that was never sent leaves nothing behind for those after it. */
static void a_second_miss_leaves_the_first_one_be(void **state)
{
	const struct inferd_request_options patient = { .struct_size = sizeof patient, .timeout_us = 30000000 };
	struct inferd_method *m;
	struct inferd_binding *b;
	assert_int_equal(inferd_method_open(d, &m, "state", NULL), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	fake.is_stopped = true;
	assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
	assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
	fake.is_stopped = false;
	assert_int_equal(inferd_method_reset(m), 0);
	fill(b, 4);
	assert_int_equal(inferd_infer(b, &patient), 0);
	assert_doubled(b, 4);
	assert_int_equal(fake.n_infers, 2);
}

/* The daemon answers at the deadline, and says later that the run has ended: no other request of the binding is sent
 * before that. */
static void a_binding_waits_for_a_run_that_goes_on(void **state)
{
	struct inferd_method *m;
	struct inferd_binding *b, *other = bind_model("double");
	assert_int_equal(inferd_method_open(d, &m, "linger", NULL), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	for (int is_late = 0; is_late < 2; is_late++) { /* libinferd has answered before */
		struct outcome o = { 0 };
		uint32_t n = fake.n_infers;
		fake.n_lingers = 1;
		fake.is_stopped = is_late;
		assert_int_equal(inferd_infer(b, is_late ? &brief : NULL), -INFERD_MISSED_DEADLINE);
		fake.is_stopped = false;
		assert_non_null(strstr(inferd_error(d), is_late ? "has not answered" : "it does not end yet"));
		begin();
		assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
		assert_in_time();
		assert_string_equal(inferd_error(d), "the request's timeout passed before the daemon could be asked");
		fill(b, 2);
		assert_int_equal(inferd_infer_async(b, NULL, on_done, &o), 0);
		assert_int_equal(inferd_infer(other, NULL), 0);
		assert_int_equal(fake.n_infers, n + 2);
		assert_int_equal(inferd_dispatch(d), 0);
		assert_int_equal(inferd_method_reset(m), 0); /* the run ends */
		dispatch_until(&o.is_done);
		assert_int_equal(o.status, 0);
		assert_doubled(b, 2);
		assert_int_equal(fake.n_infers, n + 3);
	}
}

/* Nobody knows when a stuck worker comes back, and a daemon of an earlier version does not say: it answers BUSY. */
static void nothing_waits_for_a_stuck_run(void **state)
{
	struct inferd_method *m;
	struct inferd_binding *b;
	struct outcome o = { 0 };
	assert_int_equal(inferd_method_open(d, &m, "linger", NULL), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	fake.n_lingers = 1;
	assert_int_equal(inferd_infer(b, NULL), -INFERD_MISSED_DEADLINE);
	assert_int_equal(inferd_infer_async(b, NULL, on_done, &o), 0);
	fake.is_stuck = true;
	assert_int_equal(inferd_method_reset(m), 0);
	dispatch_until(&o.is_done);
	assert_int_equal(o.status, -INFERD_BUSY);
	assert_int_equal(inferd_method_reset(m), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	fake.is_old = true;
	fake.n_lingers = 1;
	assert_int_equal(inferd_infer(b, NULL), -INFERD_MISSED_DEADLINE);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_BUSY);
}

/* A late run holds up nothing after its binding has gone or its Method was reset. */
static void a_run_that_goes_on_may_be_left(void **state)
{
	struct inferd_method *m;
	struct inferd_binding *b, *next;
	assert_int_equal(inferd_method_open(d, &m, "linger", NULL), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	assert_int_equal(inferd_bind(m, &next), 0);
	fake.n_lingers = 1;
	assert_int_equal(inferd_infer(b, NULL), -INFERD_MISSED_DEADLINE);
	inferd_unbind(b);
	assert_int_equal(inferd_method_reset(m), 0); /* the run ends: nobody waits for that */
	fill(next, 6);
	assert_int_equal(inferd_infer(next, NULL), 0);
	assert_doubled(next, 6);
}

static void opening_ends_in_time(void **state)
{
	inferd_close(d);
	d = NULL;
	fake.is_stopped = true;
	begin();
	assert_int_equal(fake_connect((struct inferd_open_options){ .timeout_us = SHORT_US }), -INFERD_MISSED_DEADLINE);
	assert_in_time();
	assert_string_equal(inferd_error(d), "the daemon did not answer within the call's timeout");
	struct outcome o = { 0 };
	struct inferd_open_options options = { .timeout_us = SHORT_US, .opened = on_opened, .userdata = &o };
	begin();
	assert_int_equal(fake_connect(options), 0);
	assert_int_equal(o.n, 0);
	dispatch_until(&o.is_done);
	assert_in_time();
	assert_int_equal(o.status, -INFERD_MISSED_DEADLINE);
	assert_int_equal(inferd_dispatch(d), -INFERD_DISCONNECTED);
	assert_int_equal(o.n, 1);
	fake.is_stopped = false;
}

/* Calls that take no timeout have that of the connection. */
static void other_calls_have_the_timeout_of_the_connection(void **state)
{
	struct inferd_method *m;
	struct inferd_region *r = NULL;
	struct inferd_binding *b;
	int rc;
	do /* a busy machine may need longer */
		rc = fake_connect((struct inferd_open_options){ .timeout_us = SHORT_US });
	while (rc == -INFERD_MISSED_DEADLINE);
	assert_int_equal(rc, 0);
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	fake.is_stopped = true;
	begin();
	assert_int_equal(inferd_method_reset(m), -INFERD_MISSED_DEADLINE);
	assert_in_time();
	begin();
	assert_int_equal(inferd_region_new(d, &r, 4096), -INFERD_MISSED_DEADLINE);
	assert_in_time();
	begin();
	assert_int_equal(inferd_region_import(d, &r, fd, 4096), -INFERD_MISSED_DEADLINE);
	assert_in_time();
	assert_null(r);
	fake.is_stopped = false;
	/* the replies before are here, too, and are none of these calls' */
	do
		rc = inferd_method_reset(m);
	while (rc == -INFERD_MISSED_DEADLINE);
	assert_int_equal(rc, 0);
	fill(b, 7);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 7);
	close(fd);
	fake_end();
	assert_int_equal(fake.n_unregistered, 2);
}

/* What the daemon makes after the call has ended is freed there. */
static void what_comes_late_is_closed(void **state)
{
	struct inferd_method *m, *late = NULL;
	struct inferd_binding *b = NULL;
	struct inferd_method_options method_options = { .struct_size = sizeof method_options, .timeout_us = SHORT_US };
	struct inferd_bind_options bind_options = { .struct_size = sizeof bind_options, .timeout_us = SHORT_US };
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	fake.is_stopped = true;
	begin();
	assert_int_equal(inferd_method_open(d, &late, "double", &method_options), -INFERD_MISSED_DEADLINE);
	assert_in_time();
	assert_null(late);
	begin();
	assert_int_equal(inferd_bind_with(m, &b, &bind_options), -INFERD_MISSED_DEADLINE);
	assert_in_time();
	assert_null(b);
	fake.is_stopped = false;
	assert_int_equal(inferd_method_open(d, &late, "double", NULL), 0); /* the replies before are here, too */
	assert_int_equal(inferd_method_open(d, &late, "missing", NULL), -INFERD_NOT_FOUND);
	fake_end();
	assert_int_equal(fake.n_closed, 1);
	assert_int_equal(fake.n_unregistered, 1);
}

static void nothing_blocks_that_has_a_callback(void **state)
{
	struct outcome opened = { 0 }, method = { 0 }, bound = { 0 }, done = { 0 };
	struct inferd_method *m = NULL;
	struct inferd_binding *b = NULL;
	struct inferd_open_options open_options = { .opened = on_opened, .userdata = &opened };
	fake.is_stopped = true;
	assert_int_equal(fake_connect(open_options), 0);
	int fd = inferd_get_fd(d);
	assert_int_equal(inferd_dispatch(d), 0);
	fake.is_stopped = false;
	dispatch_until(&opened.is_done);
	assert_int_equal(opened.status, 0);

	fake.is_stopped = true;
	struct inferd_method_options method_options = {
		.struct_size = sizeof method_options, .opened = on_method, .userdata = &method
	};
	assert_int_equal(inferd_method_open(d, &m, "double", &method_options), 0);
	assert_non_null(m);
	assert_int_equal(inferd_n_inputs(m), 0);
	assert_int_equal(inferd_bind(m, &b), -INFERD_FAILED_PRECONDITION);
	assert_int_equal(inferd_method_reset(m), -INFERD_FAILED_PRECONDITION);
	fake.is_stopped = false;
	dispatch_until(&method.is_done);
	assert_int_equal(method.status, 0);
	assert_int_equal(inferd_n_inputs(m), 1);

	fake.is_stopped = true;
	struct inferd_bind_options bind_options = {
		.struct_size = sizeof bind_options, .bound = on_bound, .userdata = &bound
	};
	assert_int_equal(inferd_bind_with(m, &b, &bind_options), 0);
	assert_null(inferd_input(b, 0));
	assert_int_equal(inferd_infer_async(b, NULL, on_done, &done), -INFERD_BUSY);
	fake.is_stopped = false;
	dispatch_until(&bound.is_done);
	assert_int_equal(bound.status, 0);
	fill(b, 5);
	assert_int_equal(inferd_infer_async(b, NULL, on_done, &done), 0);
	dispatch_until(&done.is_done);
	assert_int_equal(done.status, 0);
	assert_doubled(b, 5);
	assert_int_equal(inferd_get_fd(d), fd);
	assert_true(opened.n == 1 && method.n == 1 && bound.n == 1 && done.n == 1);
}

/* Objects that are freed before the daemon has made them; and failures that a callback reports. */
static void callbacks_of_what_is_freed_do_not_come(void **state)
{
	struct outcome o = { 0 };
	struct inferd_method *m = NULL, *missing = NULL;
	struct inferd_binding *b = NULL;
	struct inferd_method_options method_options = {
		.struct_size = sizeof method_options, .opened = on_method, .userdata = &o
	};
	struct inferd_bind_options bind_options = {
		.struct_size = sizeof bind_options, .bound = on_bound, .userdata = &o
	};
	fake.is_stopped = true;
	assert_int_equal(inferd_method_open(d, &m, "double", &method_options), 0);
	inferd_method_close(m);
	fake.is_stopped = false;
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	fake.is_stopped = true;
	assert_int_equal(inferd_bind_with(m, &b, &bind_options), 0);
	inferd_unbind(b);
	fake.is_stopped = false;
	assert_int_equal(inferd_method_open(d, &missing, "missing", &method_options), 0);
	dispatch_until(&o.is_done);
	assert_int_equal(o.n, 1);
	assert_int_equal(o.status, -INFERD_NOT_FOUND);
	assert_string_equal(inferd_error(d), "there is no model 'missing'");
	inferd_method_close(missing);
	assert_int_equal(inferd_bind_with(m, &b, &(struct inferd_bind_options){ 0 }), -INFERD_INVALID_ARGUMENT);
	fake_end();
	assert_int_equal(fake.n_closed, 1);
	assert_int_equal(fake.n_unregistered, 1);
}

static void only_versions_in_common_are_spoken(void **state)
{
	assert_int_equal(fake.hello_oldest, INF_PROTOCOL_OLDEST);
	assert_int_equal(fake.hello_newest, INF_PROTOCOL);
	fake.protocol = INF_PROTOCOL + 1;
	assert_int_equal(fake_connect((struct inferd_open_options){ 0 }), -INFERD_FAILED_PRECONDITION);
	assert_non_null(strstr(inferd_error(d), "fake 0 speaks the protocol's version 2, this library 1 to 1"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up, fake_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_request_ends_though_the_daemon_is_stopped),
		TEST(a_signal_ends_a_call),
		TEST(a_callback_comes_once),
		TEST(a_state_that_advanced_unseen_is_lost),
		TEST(a_second_miss_leaves_the_first_one_be),
		TEST(a_binding_waits_for_a_run_that_goes_on),
		TEST(nothing_waits_for_a_stuck_run),
		TEST(a_run_that_goes_on_may_be_left),
		TEST(opening_ends_in_time),
		TEST(other_calls_have_the_timeout_of_the_connection),
		TEST(what_comes_late_is_closed),
		TEST(nothing_blocks_that_has_a_callback),
		TEST(callbacks_of_what_is_freed_do_not_come),
		TEST(only_versions_in_common_are_spoken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
