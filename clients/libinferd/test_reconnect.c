/* SPDX-License-Identifier: BSD-3-Clause */
/* Test that libinferd connects again and restores everything. The central test ends the connection at each message of a
 * program that uses all calls, one after the other, before and after the daemon has answered it. */
#include "clients/libinferd/libinferd_internal.h"
#include "clients/libinferd/test_daemon.h"

#include "ipc/presence.h"
#include "runtime/platform/platform.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct inferd_open_options lasting = { .client_name = "lasting", .weight = 3, .reconnect_ms = 60000 };

struct outcome {
	bool is_done;
	int status, n;
};

static void on_done(struct inferd_binding *b, int status, void *userdata)
{
	struct outcome *o = userdata;
	o->is_done = true;
	o->status = status;
	o->n++;
}

static void on_method(struct inferd_method *m, int status, void *userdata)
{
	on_done(NULL, status, userdata);
}

static void on_opened(struct inferd *connection, int status, void *userdata)
{
	on_done(NULL, status, userdata);
}

/* The output of the last request has as many elements. */
static void assert_shape(const struct inferd_binding *b, int64_t n)
{
	int64_t shape[INFERD_MAX_DIMS];
	assert_int_equal(inferd_output_shape(b, 0, shape), 1);
	assert_int_equal(shape[0], n);
}

static void wait_for(const struct outcome *o)
{
	while (!o->is_done)
		assert_true(inferd_wait(d, -1) >= 0);
}

/* End the connection at the next message. */
static void cut_next(bool late)
{
	fake.cuts_late = late;
	fake.cut_at = fake.n_messages + 1;
}

static int memfd(const char *bytes, bool is_sealed)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(write(fd, bytes, strlen(bytes)), strlen(bytes));
	if (is_sealed) {
		assert_int_equal(ftruncate(fd, 4096), 0);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	}
	return fd;
}

/* Use every call. The answers do not depend on whether the connection was lost, and where. */
static void use_everything(void)
{
	struct inferd_method *own, *same, *number, *dynamic = NULL;
	struct inferd_region *r, *made;
	struct inferd_binding *b[4] = { NULL };
	struct outcome o[4] = { 0 }, opened = { 0 }, bound = { 0 };
	int program = memfd("P", false), memory = memfd("M", true);
	struct inferd_method_options shares = { .struct_size = sizeof shares };
	assert_int_equal(inferd_method_open_fd(d, &own, program, "double", NULL), 0);
	close(program);
	shares.share_with = own;
	assert_int_equal(inferd_method_open(d, &same, "double", &shares), 0);
	assert_int_equal(inferd_method_open(d, &number, "number", NULL), 0);
	assert_int_equal(inferd_bind(own, &b[0]), 0);
	assert_int_equal(inferd_region_import(d, &r, memory, 4096), 0);
	close(memory);
	struct inferd_slot in = { .region = r }, out = { .region = r, .offset = 64 };
	assert_int_equal(inferd_bind_slots(same, &b[1], &in, &out), 0);
	assert_int_equal(inferd_bind(number, &b[2]), 0);
	inferd_region_free(r);
	assert_int_equal(inferd_region_new(d, &made, 4096), 0);
	struct inferd_method_options method_options = {
		.struct_size = sizeof method_options, .opened = on_method, .userdata = &opened
	};
	assert_int_equal(inferd_method_open(d, &dynamic, "dynamic", &method_options), 0);
	wait_for(&opened);
	assert_int_equal(opened.status, 0);
	in.region = out.region = made;
	struct inferd_bind_options bind_options = {
		.struct_size = sizeof bind_options, .inputs = &in, .outputs = &out, .bound = on_done, .userdata = &bound
	};
	assert_int_equal(inferd_bind_with(dynamic, &b[3], &bind_options), 0);
	wait_for(&bound);
	assert_int_equal(bound.status, 0);
	inferd_region_free(made);
	assert_int_equal(inferd_set_input_shape(b[3], 0, (int64_t[]){ 3 }, 1), 0);
	assert_int_equal(inferd_set_scalar_int(b[2], 1, 2), 0);
	const float *before = inferd_input(b[0], 0);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 4; i++) {
			fill(b[i], (float)(10 * round + i));
			assert_int_equal(inferd_infer(b[i], NULL), 0);
			assert_doubled(b[i], (float)(10 * round + i));
			assert_shape(b[i], i == 3 ? 3 : N_FLOATS);
		}
	for (int i = 0; i < 4; i++) {
		fill(b[i], (float)i);
		assert_int_equal(inferd_infer_async(b[i], NULL, on_done, &o[i]), 0);
	}
	assert_int_equal(inferd_set_scalar_int(b[2], 1, 77), 0); /* for the next request, not this one */
	assert_int_equal(inferd_set_input_shape(b[3], 0, (int64_t[]){ 2 }, 1), 0);
	assert_int_equal(inferd_method_reset(number), 0);
	for (int i = 0; i < 4; i++) {
		wait_for(&o[i]);
		assert_int_equal(o[i].status, 0);
		assert_int_equal(o[i].n, 1);
		assert_doubled(b[i], (float)i);
		assert_shape(b[i], i == 3 ? 3 : N_FLOATS);
	}
	struct outcome cancelled = { 0 }, unbound = { 0 };
	assert_int_equal(inferd_infer_async(b[3], NULL, on_done, &cancelled), 0);
	assert_int_equal(inferd_cancel(b[3]), 0);
	wait_for(&cancelled);
	assert_true(cancelled.status == 0 || cancelled.status == -INFERD_CANCELLED);
	assert_int_equal(cancelled.n, 1);
	assert_int_equal(inferd_infer_async(b[2], NULL, on_done, &unbound), 0);
	inferd_unbind(b[2]);
	assert_ptr_equal(inferd_input(b[0], 0), before);
	inferd_method_close(own); /* the one that opened the program: the other Method goes on */
	assert_int_equal(inferd_infer(b[0], NULL), -INFERD_FAILED_PRECONDITION);
	inferd_unbind(b[0]);
	fill(b[1], 3);
	assert_int_equal(inferd_infer(b[1], NULL), 0);
	assert_doubled(b[1], 3);
	fill(b[3], 4);
	assert_int_equal(inferd_infer(b[3], NULL), 0);
	assert_doubled(b[3], 4);
	assert_shape(b[3], 2);
	assert_int_equal(unbound.n, 0);
}

static void survives_an_end_at_each_message(void **state)
{
	for (int late = 0; late < 2; late++) {
		bool has_cut = true;
		for (uint32_t k = 1; has_cut; k++) { /* the first message is the first Hello */
			uint32_t before = fake.n_connections;
			fake.cuts_late = late;
			fake.cut_at = fake.n_messages + k;
			assert_int_equal(fake_connect(lasting), 0);
			int fd = inferd_get_fd(d);
			use_everything();
			assert_int_equal(inferd_get_fd(d), fd);
			assert_string_equal(fake.hello_name, "lasting");
			assert_int_equal(fake.hello_weight, 3);
			has_cut = fake.n_connections > before + 1;
			assert_in_range(fake.n_connections, before + 1, before + 2);
		}
	}
	assert_true(fake.n_connections >
		    160); /* it was cut at more than forty places, twice, each time after a connection */
}

static void a_lost_state_is_told_until_the_reset(void **state)
{
	struct inferd_method *m;
	struct inferd_binding *b;
	assert_int_equal(fake_connect(lasting), 0);
	assert_int_equal(inferd_method_open(d, &m, "state", NULL), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	/* the initial state is not lost */
	cut_next(false);
	bind_model("double");
	assert_int_equal(inferd_infer(b, NULL), 0);
	/* under way */
	cut_next(false);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_DISCONNECTED);
	for (int i = 0; i < 2; i++)
		assert_int_equal(inferd_infer(b, NULL), -INFERD_STATE_LOST);
	assert_non_null(strstr(inferd_error(d), "reset the Method"));
	assert_int_equal(inferd_method_reset(m), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	/* between two requests: the library notices it at the second */
	cut_next(true);
	assert_int_equal(inferd_infer(b, NULL), 0);
	uint32_t n = fake.n_connections;
	while (fake.n_connections == n)
		inferd_wait(d, 1);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_STATE_LOST);
}

static void a_request_that_changes_its_inputs_is_not_repeated(void **state)
{
	struct inferd_method *m;
	struct inferd_region *r, *same;
	struct inferd_binding *b;
	int memory = memfd("M", true);
	assert_int_equal(fake_connect(lasting), 0);
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	assert_int_equal(inferd_region_import(d, &r, memory, 4096), 0);
	assert_int_equal(inferd_region_import(d, &same, memory, 4096), 0); /* the same memory a second time */
	close(memory);
	for (int i = 0; i < 2; i++) {
		struct inferd_slot in = { .region = r, .offset = 128 }, out = { .region = i ? same : r, .offset = 128 };
		assert_int_equal(inferd_bind_slots(m, &b, &in, &out), 0);
		cut_next(false);
		assert_int_equal(inferd_infer(b, NULL), -INFERD_DISCONNECTED);
		assert_int_equal(fake.n_infers, i);
		assert_int_equal(inferd_infer(b, NULL), 0);
		assert_int_equal(fake.n_infers, i + 1);
	}
}

/* A daemon that answers is come back to as soon after each restart; one that does not is left alone longer. */
static void an_answer_ends_the_row_of_brief_connections(void **state)
{
	assert_int_equal(fake_connect(lasting), 0);
	struct inferd_binding *b = bind_model("double");
	for (int i = 0; i < 4; i++) {
		uint64_t n = fake.n_connections;
		cut_next(false);
		fill(b, 1);
		assert_int_equal(inferd_infer(b, NULL), 0); /* repeated on the next connection */
		assert_true(fake.n_connections > n);
		assert_int_equal(d->n_brief, 0);
	}
	cut_next(false);
	struct inferd_binding *next = bind_model("double"); /* no request */
	assert_non_null(next);
	assert_int_equal(d->n_brief, 1);
}

static void another_signature_is_refused(void **state)
{
	assert_int_equal(fake_connect(lasting), 0);
	struct inferd_binding *b = bind_model("double");
	fake.is_changed = true;
	cut_next(false);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_FAILED_PRECONDITION);
	assert_string_equal(inferd_error(d),
		"the daemon restarted, and model 'double' now has another input_0: open the Method again");
	assert_int_equal(inferd_infer(b, NULL), -INFERD_FAILED_PRECONDITION);
	cut_next(true);
	struct inferd_binding *next = bind_model("double");
	fill(next, 2);
	assert_int_equal(inferd_infer(next, NULL), 0);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_FAILED_PRECONDITION);
}

static void a_daemon_that_shuts_down_loses_no_request(void **state)
{
	assert_int_equal(fake_connect(lasting), 0);
	struct inferd_binding *b = bind_model("double");
	struct inferd_method *m;
	fill(b, 6);
	fake.is_draining = true;
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 6);
	fake.is_draining = true;
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	fake.is_draining = true;
	assert_int_equal(inferd_bind(m, &b), 0);
	fake.is_draining = true;
	assert_int_equal(inferd_method_reset(m), 0);
	fake.is_draining = true;
	b = bind_model("state");
	assert_int_equal(inferd_infer(b, NULL), 0);
	fake.is_draining = true;
	assert_int_equal(inferd_infer(b, NULL), -INFERD_DISCONNECTED);
	/* as often as it likes */
	b = bind_model("double");
	fake.n_drains_at_infer = 5;
	assert_int_equal(inferd_infer(b, NULL), 0);
	/* without reconnect_ms, as before */
	assert_int_equal(fake_connect((struct inferd_open_options){ 0 }), 0);
	b = bind_model("double");
	fake.is_draining = true;
	assert_int_equal(inferd_infer(b, NULL), -INFERD_UNAVAILABLE);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_DISCONNECTED);
}

/* A daemon that every such request ends: the request does not end one after the other. */
static void a_deadly_request_is_given_up(void **state)
{
	assert_int_equal(fake_connect(lasting), 0);
	struct inferd_binding *b = bind_model("vanish"), *other = bind_model("double");
	assert_int_equal(inferd_infer(b, NULL), -INFERD_DISCONNECTED);
	assert_string_equal(inferd_error(d), "the daemon ended each time that it had the request");
	assert_int_equal(fake.n_infers, 2);
	fill(other, 1);
	assert_int_equal(inferd_infer(other, NULL), 0);
	assert_doubled(other, 1);
}

/* An application that starts in an upgrade finds the old daemon on its way out. */
static void opening_survives_a_restart(void **state)
{
	struct outcome o = { 0 };
	struct inferd_open_options options = lasting;
	fake.n_drains_at_hello = 3;
	assert_int_equal(fake_connect(lasting), 0);
	assert_int_equal(fake.n_connections, 4);
	options.opened = on_opened;
	options.userdata = &o;
	fake.n_drains_at_hello = 2;
	assert_int_equal(fake_connect(options), 0);
	wait_for(&o);
	assert_int_equal(o.status, 0);
	assert_int_equal(o.n, 1);
	assert_int_equal(fake.n_connections, 7);
	/* for reconnect_ms, and no longer than the call's timeout */
	fake.n_drains_at_hello = UINT32_MAX;
	assert_int_equal(fake_connect((struct inferd_open_options){ .reconnect_ms = 50 }), -INFERD_DISCONNECTED);
	assert_string_equal(inferd_error(d), "the daemon ended before it answered, and no other one did within 50 ms");
	assert_int_equal(inferd_dispatch(d), -INFERD_DISCONNECTED);
	assert_string_equal(inferd_error(d), "not connected to the daemon");
	assert_int_equal(fake_connect((struct inferd_open_options){ .reconnect_ms = 60000, .timeout_us = 50000 }),
		-INFERD_MISSED_DEADLINE);
	/* not without it, nor if nobody listens */
	assert_int_equal(fake_connect((struct inferd_open_options){ 0 }), -INFERD_UNAVAILABLE);
	fake.n_drains_at_hello = 0;
	cut_next(false);
	assert_int_equal(fake_connect((struct inferd_open_options){ 0 }), -INFERD_DISCONNECTED);
	unlink(fake_path);
	assert_int_equal(fake_connect(lasting), -INFERD_DISCONNECTED);
	assert_non_null(strstr(inferd_error(d), "systemctl start inferd.socket"));
}

static void deadlines_go_on(void **state)
{
	const struct inferd_request_options brief = { .struct_size = sizeof brief, .timeout_us = 50000 };
	struct outcome o = { 0 }, cancelled = { 0 }, closed = { 0 };
	assert_int_equal(fake_connect(lasting), 0);
	struct inferd_binding *b = bind_model("double"), *c = bind_model("double"), *e;
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	assert_int_equal(inferd_bind(m, &e), 0);
	char moved[sizeof fake_path + 2];
	snprintf(moved, sizeof moved, "%s.m", fake_path);
	assert_int_equal(rename(fake_path, moved), 0); /* no daemon listens there */
	cut_next(false);
	assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
	assert_int_equal(inferd_infer_async(b, &brief, on_done, &o), 0);
	assert_int_equal(inferd_infer_async(c, NULL, on_done, &cancelled), 0);
	assert_int_equal(inferd_infer_async(e, NULL, on_done, &closed), 0);
	assert_int_equal(inferd_cancel(c), 0);
	inferd_method_close(m);
	wait_for(&o);
	wait_for(&cancelled);
	wait_for(&closed);
	assert_int_equal(o.status, -INFERD_MISSED_DEADLINE);
	assert_int_equal(cancelled.status, -INFERD_CANCELLED);
	assert_int_equal(closed.status, -INFERD_CANCELLED);
	assert_int_equal(rename(moved, fake_path), 0);
	fill(b, 9);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 9);
}

static void a_daemon_that_never_comes_back_ends_everything(void **state)
{
	struct outcome o[2] = { 0 };
	assert_int_equal(fake_connect((struct inferd_open_options){ .reconnect_ms = 100 }), 0);
	struct inferd_binding *b = bind_model("double"), *state_b = bind_model("state");
	struct inferd_method *m;
	assert_int_equal(inferd_infer(state_b, NULL), 0);
	unlink(fake_path);
	cut_next(false);
	assert_int_equal(inferd_infer_async(state_b, NULL, on_done, &o[1]), 0);
	assert_int_equal(inferd_infer_async(b, NULL, on_done, &o[0]), 0);
	while (!o[0].is_done || !o[1].is_done) {
		assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, -1), 1);
		inferd_dispatch(d);
	}
	assert_true(o[0].n == 1 && o[1].n == 1);
	assert_int_equal(o[0].status, -INFERD_DISCONNECTED);
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_dispatch(d), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_DISCONNECTED);
}

/* systemd's socket takes a connection while no daemon runs, and would start one: only a daemon that runs is asked. */
static void a_stopped_daemon_is_not_started(void **state)
{
	fake.has_presence = true;
	int lock = inf_presence_hold(fake_path);
	assert_true(lock >= 0);
	assert_int_equal(fake_connect(lasting), 0);
	struct inferd_binding *b = bind_model("double");
	struct outcome o = { 0 };
	uint32_t n = fake.n_connections;
	close(lock);
	cut_next(false);
	fill(b, 8);
	assert_int_equal(inferd_infer_async(b, NULL, on_done, &o), 0);
	/* it looks for the daemon now and then, and does not connect */
	const uint64_t until_ns = et_platform_now_ns(NULL) + 50 * 1000 * 1000;
	while (et_platform_now_ns(NULL) < until_ns)
		assert_int_equal(inferd_wait(d, 10), 0);
	assert_int_equal(fake.n_connections, n);
	lock = inf_presence_hold(fake_path);
	wait_for(&o);
	assert_int_equal(o.status, 0);
	assert_doubled(b, 8);
	assert_int_equal(fake.n_connections, n + 1);
	close(lock);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up_alone, fake_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(survives_an_end_at_each_message),
		TEST(a_lost_state_is_told_until_the_reset),
		TEST(a_request_that_changes_its_inputs_is_not_repeated),
		TEST(an_answer_ends_the_row_of_brief_connections),
		TEST(another_signature_is_refused),
		TEST(a_daemon_that_shuts_down_loses_no_request),
		TEST(a_deadly_request_is_given_up),
		TEST(opening_survives_a_restart),
		TEST(deadlines_go_on),
		TEST(a_daemon_that_never_comes_back_ends_everything),
		TEST(a_stopped_daemon_is_not_started),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
