/* SPDX-License-Identifier: BSD-3-Clause */
/* A process of a user's programs that misbehaves on purpose (stubborn_host.c): the daemon ends it, its user is told,
 * and other users' requests go on. */
#include "tests/e2e/harness.h"

#include "runtime/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };

/* A run has to end after DEADLINE_MS and the 15 ms of program_stop. MAX_MS is far more than that takes, and less than
 * any other limit on a run. */
enum { DEADLINE_MS = 100, MAX_MS = 5000 };

static struct e2e e;

static void begin(void)
{
	e2e_init(&e);
	assert_int_equal(chmod(e.dir, 0755), 0); /* so that another user reaches the socket */
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, "program_host = " STUBBORN_HOST "\nworkers = 3\nprogram_stop = 15ms\n");
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
	bool has_come;
	int status;
	uint64_t at_ns;
};

static void note_end(struct inferd_binding *b, int status, void *userdata)
{
	*(struct end *)userdata = (struct end){ true, status, et_platform_now_ns(NULL) };
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

/* Two runs in the process: the deadline of one passes. The process is ended, and with it the other one. */
static void test_ignores_the_stop(void **state)
{
	struct end late = { false, 0, 0 }, beside = { false, 0, 0 };
	int rc, n = 0;
	begin();
	struct inferd *d = e2e_connect(&e), *other = connect_as_other();
	struct inferd_binding *forever[2] = { bind_own(d, e2e_program_forever), bind_own(d, e2e_program_forever) };
	struct inferd_binding *model = e2e_bind(other, "double", NULL);
	struct inferd_binding *own = getuid() == 0 ? bind_own(other, e2e_program_triple) : NULL;
	struct inferd_request_options options = { .struct_size = sizeof(options), .timeout_us = DEADLINE_MS * 1000 };
	uint64_t began_ns = et_platform_now_ns(NULL);
	assert_int_equal(inferd_infer_async(forever[0], &options, note_end, &late), 0);
	assert_int_equal(inferd_infer_async(forever[1], NULL, note_end, &beside), 0);
	do {
		assert_true(e2e_infer(model, 5, &rc) == 10 && rc == 0);
		assert_true(!own || (e2e_infer(own, 5, &rc) == 15 && rc == 0));
		n++;
		assert_true(inferd_dispatch(d) >= 0);
	} while (!late.has_come || !beside.has_come);
	assert_int_equal(late.status, -INFERD_MISSED_DEADLINE);
	assert_int_equal(beside.status, -INFERD_BACKEND_CRASHED);
	assert_in_range((beside.at_ns - began_ns) / 1000000, DEADLINE_MS, MAX_MS);
	assert_true(n > 1);
	/* who lost a run is served again, and the other user kept its process */
	assert_true(e2e_infer_until_served(bind_own(d, e2e_program_triple), 2, &rc) == 6 && rc == 0);
	assert_true(!own || (e2e_infer(own, 7, &rc) == 21 && rc == 0));
	inferd_close(d);
	inferd_close(other);
	e2e_until_clients(&e, 0);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crash_while_reading),
		cmocka_unit_test(test_ignores_the_stop),
	};
	return e2e_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
