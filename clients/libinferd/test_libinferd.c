/* SPDX-License-Identifier: BSD-3-Clause */
/* Test libinferd with a fake daemon: calls that block, requests that do not, and a daemon that goes.
 * test_deadline.c and test_reconnect.c test what the library does about time and lost connections. */
#include "clients/libinferd/test_daemon.h"

#include "runtime/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- synchronous ---- */

static void says_whom_to_ask_for_permission(void **state)
{
	char folder[] = "/tmp/libinferd.XXXXXX", inside[sizeof(folder) + 2];
	struct inferd *none;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chmod(folder, 0), 0);
	snprintf(inside, sizeof(inside), "%s/s", folder);
	uid_t uid = geteuid();
	assert_int_equal(seteuid(uid ? uid : 65534), 0); /* root passes every permission check */
	int rc = inferd_open(&none, inside);
	assert_int_equal(seteuid(uid), 0);
	rmdir(folder);
	assert_int_equal(rc, -INFERD_PERMISSION_DENIED);
	assert_non_null(strstr(inferd_error(none),
		": Permission denied; ask the administrator to add you to the group of the socket"));
	inferd_close(none);
}

static void says_why_it_cannot_connect(void **state)
{
	struct inferd *none;
	assert_int_equal(inferd_open(&none, "/no/such/socket"), -INFERD_DISCONNECTED);
	assert_string_equal(inferd_error(none),
		"cannot connect to inferd at /no/such/socket: No such file or directory; start the daemon with "
		"'systemctl start inferd.socket', or set $INFERD_SOCKET to its socket");
	assert_string_equal(inferd_error(NULL), "out of memory");
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(none, &m, "x", NULL), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_dispatch(none), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_wait(none, -1), -INFERD_DISCONNECTED);
	inferd_close(none);
	inferd_close(NULL);
	assert_string_equal(inferd_status_text(-INFERD_BUSY), "busy");
	assert_string_equal(inferd_status_text(INFERD_DISCONNECTED), "disconnected");
	assert_string_equal(inferd_status_text(12345), "unknown status");
}

static void infers(void **state)
{
	struct inferd_method *m;
	struct inferd_binding *b;
	struct inferd_method_options options = { .struct_size = sizeof options, .version = "7" };
	assert_int_equal(inferd_method_open(d, &m, "state", &options), 0);
	assert_int_equal(inferd_n_inputs(m), 1);
	assert_int_equal(inferd_n_outputs(m), 1);
	assert_string_equal(inferd_method_version(m), "7");
	assert_string_equal(inferd_method_backend(m), "fake");
	assert_true(inferd_method_is_stateful(m));
	const struct inferd_tensor_info *info = inferd_input_info(m, 0);
	assert_string_equal(info->name, "input_0");
	assert_string_equal(info->datatype, "FP32");
	assert_int_equal(info->shape[0], N_FLOATS);
	assert_int_equal(info->n_bytes, 16);
	assert_null(inferd_input_info(m, 1));
	assert_null(inferd_output_info(m, 1));

	assert_int_equal(inferd_bind(m, &b), 0);
	assert_int_equal(inferd_n_copied(b), 1);
	assert_int_equal((uintptr_t)inferd_input(b, 0) % 64, 0);
	assert_int_equal((uintptr_t)inferd_output(b, 0) % 64, 0);
	assert_ptr_not_equal(inferd_input(b, 0), inferd_output(b, 0));
	assert_null(inferd_input(b, 1));
	for (int i = 0; i < 5; i++) {
		fill(b, (float)i);
		assert_int_equal(inferd_infer(b, NULL), 0);
		assert_doubled(b, (float)i);
	}
	struct inferd_timing timing;
	inferd_last_timing(b, &timing);
	assert_int_equal(timing.queue_ns, 1000);
	assert_int_equal(timing.run_ns, 2000);
	int64_t shape[INFERD_MAX_DIMS];
	assert_int_equal(inferd_output_shape(b, 0, shape), 1);
	assert_int_equal(shape[0], N_FLOATS);
	assert_int_equal(inferd_output_shape(b, 1, shape), -INFERD_INVALID_ARGUMENT);
	double value;
	assert_int_equal(inferd_output_scalar(b, 0, &value), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_method_reset(m), 0);

	/* in any order: references keep a Method until its last binding is freed */
	inferd_method_close(m);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_FAILED_PRECONDITION);
	inferd_unbind(b);
	inferd_unbind(NULL);
	/* Read one more reply: closing a socket with unread data would reset it, and the daemon's next send would
	 * fail. */
	assert_int_equal(inferd_method_open(d, &m, "missing", NULL), -INFERD_NOT_FOUND);
	fake_end();
	assert_int_equal(fake.n_unregistered, 1);
	assert_int_equal(fake.n_unbound, 1);
	assert_int_equal(fake.n_closed, 1);
}

static void errors_are_sentences(void **state)
{
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(d, &m, "missing", NULL), -INFERD_NOT_FOUND);
	assert_string_equal(inferd_error(d), "there is no model 'missing'");
	assert_int_equal(inferd_method_open(d, &m, "\xff", NULL), -INFERD_INVALID_ARGUMENT);
	assert_non_null(strstr(inferd_error(d), "MethodOpen.model"));
	struct inferd_binding *b = bind_model("late");
	assert_int_equal(inferd_infer(b, NULL), -INFERD_MISSED_DEADLINE);
	assert_string_equal(inferd_error(d), "the deadline passed 3 ms before it could run");
	struct inferd_request_options options = { .struct_size = sizeof options, .priority = 17 };
	assert_int_equal(inferd_infer(b, &options), -INFERD_INVALID_ARGUMENT);
	b = bind_model("wrong");
	assert_int_equal(inferd_infer(b, NULL), -INFERD_INTERNAL);
}

/* Options without struct_size would be ignored silently. */
static void options_without_a_size_are_refused(void **state)
{
	struct inferd *none;
	struct inferd_method *m;
	struct inferd_method_options which = { .version = "7" };
	struct inferd_request_options how = { .timeout_us = 1 };
	struct inferd_open_options where = { .socket = "/no/such/socket" };
	assert_int_equal(inferd_method_open(d, &m, "double", &which), -INFERD_INVALID_ARGUMENT);
	assert_string_equal(inferd_error(d), "the options' struct_size is 0: set it to the struct's sizeof");
	struct inferd_binding *b = bind_model("double");
	assert_int_equal(inferd_infer(b, &how), -INFERD_INVALID_ARGUMENT);
	how.struct_size = sizeof how.struct_size; /* as with an older header, which had no other member */
	assert_int_equal(inferd_infer(b, &how), 0);
	assert_int_equal(inferd_open_with(&none, &where), -INFERD_INVALID_ARGUMENT);
	inferd_close(none);
}

static void programs_travel_by_descriptor(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(write(fd, "PTE", 3), 3);
	struct inferd_method *m;
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", NULL), 0);
	assert_int_equal(inferd_method_open_fd(d, &m, -1, "double", NULL), -INFERD_INVALID_ARGUMENT);

	int data_fds[16];
	for (int i = 0; i < 16; i++) {
		data_fds[i] = memfd_create("test", MFD_CLOEXEC);
		assert_int_equal(write(data_fds[i], &(char){ (char)('1' + i) }, 1), 1);
	}
	struct inferd_method_options options = {
		.struct_size = sizeof options, .data_fds = data_fds, .n_data_fds = 15
	};
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", &options), 0);
	assert_int_equal(inferd_method_open(d, &m, "double", &options), -INFERD_INVALID_ARGUMENT);
	options.n_data_fds = 16;
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", &options), -INFERD_INVALID_ARGUMENT);
	/* A program built with a header before data_fds passes a shorter struct. */
	options.struct_size = offsetof(struct inferd_method_options, data_fds);
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", &options), 0);
	for (int i = 0; i < 16; i++)
		close(data_fds[i]);
	close(fd);

	/* A closed descriptor is the caller's mistake; the connection goes on. */
	struct inferd_region *r;
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", NULL), -INFERD_INVALID_ARGUMENT);
	assert_string_equal(inferd_error(d), "a descriptor that was passed is not open");
	assert_int_equal(inferd_region_import(d, &r, -1, 64), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
}

static void profiles_are_there_until_the_next_request(void **state)
{
	struct inferd_request_options options = { .struct_size = sizeof options, .profile = true };
	struct inferd_binding *b = bind_model("double");
	size_t n_bytes = 1;
	assert_null(inferd_last_profile(b, &n_bytes));
	assert_int_equal(n_bytes, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(inferd_infer(b, &options), 0);
		const uint8_t *profile = inferd_last_profile(b, &n_bytes);
		assert_int_equal(n_bytes, 100000);
		assert_true(profile[0] == 7 && profile[1] == 0 && profile[99999] == 8);
	}
	options.priority = INFERD_BATCH; /* a profile was asked for, and the daemon sends none */
	assert_int_equal(inferd_infer(b, &options), 0);
	assert_null(inferd_last_profile(b, &n_bytes));
	options.priority = INFERD_INTERACTIVE;
	assert_int_equal(inferd_infer(b, &options), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_null(inferd_last_profile(b, &n_bytes));
	assert_int_equal(inferd_infer(b, &options), 0); /* freed with the binding */
}

static void large_answers_arrive(void **state)
{
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(d, &m, "large", NULL), 0);
	assert_int_equal(inferd_n_outputs(m), INF_MAX_SLOTS);
	assert_string_equal(inferd_output_info(m, INF_MAX_SLOTS - 1)->name,
		"a name that is rather long, to fill a packet");
}

static void imported_regions(void **state)
{
	struct inferd_method *m;
	struct inferd_region *r;
	struct inferd_binding *b;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(inferd_region_import(d, &r, fd, 4096), -INFERD_FAILED_PRECONDITION);
	assert_string_equal(inferd_error(d), inf_region_error_text(INF_REGION_E_UNSEALED));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(inferd_region_import(d, &r, fd, 4096), 0);
	close(fd);
	assert_int_equal(inferd_region_size(r), 4096);
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	struct inferd_slot in = { .region = r, .offset = 128 }, out = { .region = r, .offset = 100 };
	assert_int_equal(inferd_bind_slots(m, &b, &in, &out), -INFERD_INVALID_ARGUMENT);
	out.offset = 4096;
	assert_int_equal(inferd_bind_slots(m, &b, &in, &out), -INFERD_INVALID_ARGUMENT);
	out.offset = 1024;
	assert_int_equal(inferd_bind_slots(m, &b, &(struct inferd_slot){ 0 }, &out), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_bind_slots(m, &b, &in, &out), 0);
	uint8_t *data = inferd_region_data(r);
	assert_ptr_equal(inferd_input(b, 0), data + 128);
	inferd_region_free(r); /* the binding keeps it */
	inferd_region_free(NULL);
	fill(b, 3);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 3);
}

static void numbers_and_shapes(void **state)
{
	struct inferd_binding *b = bind_model("number");
	double value;
	assert_int_equal(inferd_infer(b, NULL), -INFERD_INVALID_ARGUMENT);
	assert_non_null(strstr(inferd_error(d), "input_1 is a number"));
	assert_int_equal(inferd_set_scalar(b, 0, 2), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_scalar(b, 2, 2), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_scalar(b, 1, 1e300), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_scalar(b, 1, 2.9), 0);
	fill(b, 1);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 1);
	assert_int_equal(inferd_output_scalar(b, 0, &value), 0);
	assert_true(value == 0.25);
	assert_int_equal(inferd_set_scalar_int(b, 1, -1), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_true(*(float *)inferd_output(b, 0) == -1);

	b = bind_model("dynamic");
	int64_t shape[INFERD_MAX_DIMS] = { 3 };
	assert_int_equal(inferd_set_input_shape(b, 0, shape, 2), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_input_shape(b, 1, shape, 1), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ 5 }, 1), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ -1 }, 1), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_int_equal(inferd_output_shape(b, 0, shape), 1);
	assert_int_equal(shape[0], N_FLOATS);
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ 3 }, 1), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_int_equal(inferd_output_shape(b, 0, shape), 1);
	assert_int_equal(shape[0], 3);
	b = bind_model("double");
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ 3 }, 1), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ 4 }, 1), 0);
}

/* ---- asynchronous ---- */

struct log {
	int n;
	struct inferd_binding *order[8];
	int statuses[8];
	int n_more; /* to be started from the callback */
};

static void done(struct inferd_binding *b, int status, void *userdata)
{
	struct log *log = userdata;
	log->order[log->n] = b;
	log->statuses[log->n++] = status;
	if (log->n_more) {
		log->n_more--;
		assert_int_equal(inferd_infer_async(b, NULL, done, log), 0);
	}
}

static void replies_in_any_order(void **state)
{
	struct log log = { 0 };
	struct inferd_binding *b[3];
	for (int i = 0; i < 3; i++) {
		b[i] = bind_model("hold");
		fill(b[i], (float)i);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(inferd_infer_async(b[i], NULL, done, &log), 0);
	assert_int_equal(inferd_infer_async(b[0], NULL, done, &log), -INFERD_BUSY);
	assert_int_equal(inferd_infer(b[0], NULL), -INFERD_BUSY);
	assert_int_equal(inferd_infer_async(b[0], NULL, NULL, NULL), -INFERD_INVALID_ARGUMENT);
	int n = 0;
	while (n < 3) {
		assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, -1), 1);
		int rc = inferd_dispatch(d);
		assert_true(rc >= 0);
		n += rc;
	}
	assert_int_equal(log.n, 3);
	for (int i = 0; i < 3; i++) {
		assert_ptr_equal(log.order[i], b[2 - i]);
		assert_int_equal(log.statuses[i], 0);
		assert_doubled(b[i], (float)i);
	}
	assert_int_equal(inferd_wait(d, 0), 0);
}

static void callbacks_start_the_next(void **state)
{
	struct log log = { .n_more = 5 };
	struct inferd_binding *b = bind_model("double");
	assert_int_equal(inferd_infer_async(b, NULL, done, &log), 0);
	while (log.n < 6)
		assert_true(inferd_wait(d, -1) >= 0);
}

/* A reply that arrives while another call waits is kept for inferd_dispatch, and the descriptor becomes readable. */
static void callbacks_come_from_dispatch_only(void **state)
{
	struct log log = { 0 };
	struct inferd_binding *a = bind_model("double"), *b = bind_model("double");
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), 0);
	assert_int_equal(inferd_infer(b, NULL), 0); /* answered after a's */
	assert_int_equal(log.n, 0);
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), -INFERD_BUSY);
	assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, -1), 1);
	assert_int_equal(inferd_dispatch(d), 1);
	assert_int_equal(log.n, 1);
	assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, 0), 0);
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), 0);
	assert_int_equal(inferd_method_open(d, &(struct inferd_method *){ NULL }, "missing", NULL), -INFERD_NOT_FOUND);
	assert_int_equal(inferd_wait(d, -1), 1); /* does not block while a callback is due */
}

static void cancelling(void **state)
{
	struct log log = { 0 };
	struct inferd_binding *b = bind_model("silent");
	assert_int_equal(inferd_cancel(b), 0); /* nothing to cancel */
	assert_int_equal(inferd_infer_async(b, NULL, done, &log), 0);
	assert_int_equal(inferd_cancel(b), 0);
	while (!log.n)
		assert_true(inferd_wait(d, -1) >= 0);
	assert_int_equal(log.statuses[0], -INFERD_CANCELLED);
	assert_string_equal(inferd_error(d), "cancelled by the client");
	/* unbound while in flight: no callback, and the late reply is dropped */
	assert_int_equal(inferd_infer_async(b, NULL, done, &log), 0);
	inferd_unbind(b);
	b = bind_model("double");
	fill(b, 5);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 5);
	assert_int_equal(log.n, 1);
}

static void strange_replies_are_ignored(void **state)
{
	struct inferd_binding *b = bind_model("strange");
	fill(b, 4);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 4);
}

/* ---- when the daemon goes ---- */

static void lost_connections_end_everything(const char *model)
{
	struct log log = { 0 };
	struct inferd_binding *a = bind_model("silent"), *b = bind_model("silent"), *last = bind_model(model);
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), 0);
	assert_int_equal(inferd_infer_async(b, NULL, done, &log), 0);
	assert_int_equal(inferd_infer(last, NULL), -INFERD_DISCONNECTED);
	assert_string_not_equal(inferd_error(d), "");
	assert_int_equal(log.n, 0);
	assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, -1), 1);
	assert_int_equal(inferd_dispatch(d), 2);
	assert_int_equal(log.statuses[0], -INFERD_DISCONNECTED);
	assert_int_equal(log.statuses[1], -INFERD_DISCONNECTED);
	assert_int_equal(inferd_dispatch(d), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_wait(d, -1), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_infer(a, NULL), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), -INFERD_DISCONNECTED);
	inferd_unbind(a);
}

static void daemon_vanishes(void **state)
{
	lost_connections_end_everything("vanish");
}

static void daemon_talks_nonsense(void **state)
{
	lost_connections_end_everything("malformed");
}

static void daemon_vanishes_in_a_call(void **state)
{
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(d, &m, "vanish", NULL), 0);
	assert_int_equal(inferd_method_reset(m), -INFERD_DISCONNECTED);
	assert_string_equal(inferd_error(d), "the daemon closed the connection");
}

static void closing_with_requests_in_flight(void **state)
{
	struct log log = { 0 };
	assert_int_equal(inferd_infer_async(bind_model("silent"), NULL, done, &log), 0);
	fake_end();
	assert_int_equal(log.n, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up, fake_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(says_why_it_cannot_connect),
		TEST(says_whom_to_ask_for_permission),
		TEST(infers),
		TEST(errors_are_sentences),
		TEST(options_without_a_size_are_refused),
		TEST(programs_travel_by_descriptor),
		TEST(profiles_are_there_until_the_next_request),
		TEST(large_answers_arrive),
		TEST(imported_regions),
		TEST(numbers_and_shapes),
		TEST(replies_in_any_order),
		TEST(callbacks_start_the_next),
		TEST(callbacks_come_from_dispatch_only),
		TEST(cancelling),
		TEST(strange_replies_are_ignored),
		TEST(daemon_vanishes),
		TEST(daemon_talks_nonsense),
		TEST(daemon_vanishes_in_a_call),
		TEST(closing_with_requests_in_flight),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
