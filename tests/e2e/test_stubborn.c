/* SPDX-License-Identifier: BSD-3-Clause */
/* A process of a user's programs that misbehaves on purpose (stubborn_host.c): the daemon ends it, its user is told,
 * and other users' requests go on. */
#include "tests/e2e/harness.h"

#include "runtime/platform/platform.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };

enum { DEADLINE_MS = 1000 }; /* on a busy machine, too, the run begins before it */

static struct e2e e;

static void begin(void)
{
	e2e_init(&e);
	assert_int_equal(chmod(e.dir, 0755), 0); /* so that another user reaches the socket */
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, "program_host = " STUBBORN_HOST "\nworkers = 3\nprogram_stop = 10ms\n");
}

static int open_bytes(struct inferd *client, const uint8_t *bytes, size_t n_bytes, struct inferd_method **ret_method)
{
	int fd = memfd_create("own", MFD_CLOEXEC);
	assert_true(fd >= 0 && write(fd, bytes, n_bytes) == (ssize_t)n_bytes);
	int rc = inferd_method_open_fd(client, ret_method, fd, "own", NULL);
	close(fd);
	return rc;
}

static struct inferd_binding *bind_own(struct inferd *client, uint8_t *(*make)(size_t *))
{
	size_t n_bytes;
	uint8_t *bytes = make(&n_bytes);
	struct inferd_method *method;
	struct inferd_binding *b;
	if (open_bytes(client, bytes, n_bytes, &method) || inferd_bind(method, &b))
		fail_msg("%s", inferd_error(client));
	free(bytes);
	return b;
}

static void test_crash_while_reading(void **state)
{
	static const uint8_t nonsense[100] = "this is no program";
	struct inferd_method *method;
	int rc;
	begin();
	struct inferd *d = e2e_connect(&e);
	assert_int_equal(open_bytes(d, nonsense, sizeof nonsense, &method), -INFERD_BACKEND_CRASHED);
	static const char *const said[] = { "the process that reads this user's programs", "signal 6" };
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (!strstr(inferd_error(d), said[i]))
			fail_msg("'%s' is not in: %s", said[i], inferd_error(d));
	/* the next program finds another process */
	assert_true(e2e_infer(bind_own(d, e2e_program_triple), 2, &rc) == 6 && rc == 0);
	inferd_close(d);
	e2e_until_clients(&e, 0);
	e2e_deinit(&e);
}

struct end {
	_Atomic(bool) has_come;
	int status;
	uint64_t at_ns;
	struct inferd *client; /* of wait_for_end */
};

static void note_end(struct inferd_binding *b, int status, void *userdata)
{
	struct end *end = userdata;
	end->status = status;
	end->at_ns = et_platform_now_ns(NULL);
	atomic_store(&end->has_come, true);
}

/* A thread of its own, so that the end is noted when it comes. */
static void *wait_for_end(void *arg)
{
	struct end *end = arg;
	while (!atomic_load(&end->has_come) && inferd_wait(end->client, 1000) >= 0)
		;
	return NULL;
}

/* A connection of another user, if this one is root. */
static struct inferd *connect_as_other(void)
{
	bool is_root = getuid() == 0;
	assert_true(!is_root || seteuid(NOBODY) == 0);
	struct inferd *d = e2e_connect(&e);
	assert_true(!is_root || seteuid(0) == 0);
	return d;
}

enum stop { BY_DEADLINE, BY_CANCEL, BY_DEATH, N_STOPS };

/* Two runs in the process, of two connections of its user. One of them is to stop, and does not. The process is ended,
 * and with it the other run; another user's requests go on meanwhile. How long that takes is a row of
 * tests/bench/bench.py. */
static void stop_one_of_two(enum stop stop)
{
	static const char *const names[N_STOPS] = { "deadline", "cancellation", "end of the client" };
	struct end late = { .status = 1 }, beside = { .status = 1 };
	pthread_t waiting;
	struct inferd_request_options options = { .struct_size = sizeof(options) };
	int rc;
	begin();
	struct inferd *late_client = e2e_connect(&e), *d = e2e_connect(&e), *other = connect_as_other();
	struct inferd_binding *forever = bind_own(late_client, e2e_program_forever),
			      *forever_beside = bind_own(d, e2e_program_forever);
	struct inferd_binding *model = e2e_bind(other, "double", NULL);
	struct inferd_binding *own = getuid() == 0 ? bind_own(other, e2e_program_triple) : NULL;
	options.timeout_us = stop == BY_DEADLINE ? DEADLINE_MS * 1000 : 0;
	assert_int_equal(inferd_infer_async(forever_beside, NULL, note_end, &beside), 0);
	uint64_t to_stop_ns = et_platform_now_ns(NULL) + options.timeout_us * 1000;
	assert_int_equal(inferd_infer_async(forever, &options, note_end, &late), 0);
	if (stop != BY_DEADLINE) {
		e2e_until_jobs(&e, 2, 0);
		/* the process reads runs in their order: it has begun the others */
		assert_true(e2e_infer(bind_own(d, e2e_program_triple), 2, &rc) == 6 && rc == 0);
	}
	beside.client = d;
	assert_int_equal(pthread_create(&waiting, NULL, wait_for_end, &beside), 0);
	if (stop != BY_DEADLINE)
		to_stop_ns = et_platform_now_ns(NULL);
	if (stop == BY_CANCEL)
		assert_int_equal(inferd_cancel(forever), 0);
	if (stop == BY_DEATH) {
		inferd_close(late_client);
		late_client = NULL;
	}
	do {
		assert_true(e2e_infer(model, 5, &rc) == 10 && rc == 0);
		assert_true(!own || (e2e_infer(own, 5, &rc) == 15 && rc == 0));
		assert_true(!late_client || inferd_dispatch(late_client) >= 0);
	} while ((late_client && !atomic_load(&late.has_come)) || !atomic_load(&beside.has_come));
	assert_int_equal(pthread_join(waiting, NULL), 0);
	assert_int_equal(beside.status, -INFERD_BACKEND_CRASHED);
	if (stop != BY_DEATH)
		assert_int_equal(late.status, stop == BY_DEADLINE ? -INFERD_MISSED_DEADLINE : -INFERD_CANCELLED);
	print_message("the process was ended %.1f ms after the %s\n",
		(double)((int64_t)(beside.at_ns - to_stop_ns)) / 1e6, names[stop]);
	/* who lost a run is served again, and the other user kept its process */
	assert_true(e2e_infer_until_served(bind_own(d, e2e_program_triple), 2, &rc) == 6 && rc == 0);
	assert_true(!own || (e2e_infer(own, 7, &rc) == 21 && rc == 0));
	inferd_close(late_client);
	inferd_close(d);
	inferd_close(other);
	e2e_until_clients(&e, 0);
	e2e_deinit(&e);
}

static void test_ignores_its_deadline(void **state)
{
	stop_one_of_two(BY_DEADLINE);
}

static void test_ignores_a_cancellation(void **state)
{
	stop_one_of_two(BY_CANCEL);
}

static void test_outlives_its_client(void **state)
{
	stop_one_of_two(BY_DEATH);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crash_while_reading),
		cmocka_unit_test(test_ignores_its_deadline),
		cmocka_unit_test(test_ignores_a_cancellation),
		cmocka_unit_test(test_outlives_its_client),
	};
	return e2e_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
