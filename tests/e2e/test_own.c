/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that clients bring: they run in a process of their user's, which may die without harm to anybody else. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"
#include "tests/support/make_program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static struct e2e e;
static struct inferd *d;

static void begin(const char *config)
{
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, config);
	d = e2e_connect(&e);
}

static void end(void)
{
	inferd_close(d);
	e2e_until_clients(&e, 0);
	e2e_deinit(&e);
}

static struct inferd_method *open_own(struct inferd *client, uint8_t *(*make)(size_t *))
{
	size_t n_bytes;
	uint8_t *bytes = make(&n_bytes);
	int fd = memfd_create("own", MFD_CLOEXEC);
	struct inferd_method *method;
	assert_true(fd >= 0 && write(fd, bytes, n_bytes) == (ssize_t)n_bytes);
	if (inferd_method_open_fd(client, &method, fd, "own", NULL))
		fail_msg("%s", inferd_error(client));
	close(fd);
	free(bytes);
	return method;
}

static struct inferd_binding *bind_own(struct inferd *client, uint8_t *(*make)(size_t *))
{
	struct inferd_binding *b;
	if (inferd_bind(open_own(client, make), &b))
		fail_msg("%s", inferd_error(client));
	return b;
}

/* The process of this user's programs: its number, or 0 if there is none. */
static bool take_pid(const struct inf_server_status *status, const void *arg)
{
	pid_t *pid = *(pid_t *const *)arg;
	*pid = 0;
	for (size_t i = 0; i < status->n_hosts; i++) {
		const struct inf_host_status *host = &status->hosts[i];
		if (strcmp(host->backend, "programs"))
			continue;
		assert_true(host->own);
		assert_int_equal(host->uid, getuid());
		*pid = (pid_t)host->pid;
	}
	return true;
}

static pid_t process(void)
{
	pid_t pid, *room = &pid;
	e2e_until(&e, take_pid, &room);
	return pid;
}

static int oom_score_of(pid_t pid)
{
	char path[64];
	int score = 0;
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &score), 1);
	fclose(file);
	return score;
}

static void ignore(struct inferd_binding *b, int status, void *userdata)
{
}

static bool has_copied_nothing(const struct inf_server_status *status, const void *arg)
{
	assert_int_equal(status->copied_bytes, 0);
	return true;
}

/* No process before the first program; one for all programs of the user; the daemon's own models need none. */
static void test_one_process(void **state)
{
	int rc;
	begin(NULL);
	struct inferd_binding *model = e2e_bind(d, "double", NULL);
	assert_true(e2e_infer(model, 3, &rc) == 6 && rc == 0);
	assert_int_equal(process(), 0);
	struct inferd_binding *own = bind_own(d, e2e_program_triple), *other = bind_own(d, e2e_program_double);
	pid_t pid = process();
	assert_int_not_equal(pid, 0);
	assert_int_equal(oom_score_of(pid), 500); /* the kernel ends it before the daemon */
	for (int i = 0; i < 100; i++) {
		assert_true(e2e_infer(own, (float)i, &rc) == 3 * (float)i && rc == 0);
		assert_true(e2e_infer(other, (float)i, &rc) == 2 * (float)i && rc == 0);
	}
	assert_int_equal(process(), pid);
	e2e_until(&e, has_copied_nothing, NULL);
	end();
}

/* Its state is the client's own, is reset, and is lost when the process ends. */
static void test_state(void **state)
{
	int rc;
	begin(NULL);
	struct inferd_method *method = open_own(d, e2e_program_accumulate);
	struct inferd_binding *b, *stranger = bind_own(d, e2e_program_accumulate);
	assert_int_equal(inferd_bind(method, &b), 0);
	assert_true(e2e_infer(b, 3, &rc) == 3 && rc == 0);
	assert_true(e2e_infer(b, 4, &rc) == 7 && rc == 0);
	assert_true(e2e_infer(stranger, 1, &rc) == 1 && rc == 0);
	assert_int_equal(inferd_method_reset(method), 0);
	assert_true(e2e_infer(b, 5, &rc) == 5 && rc == 0);
	assert_int_equal(kill(process(), SIGKILL), 0);
	do
		e2e_infer(b, 1, &rc);
	while (rc == -INFERD_BACKEND_CRASHED);
	assert_int_equal(rc, -INFERD_STATE_LOST);
	assert_int_equal(inferd_method_reset(method), 0);
	assert_true(e2e_infer(b, 2, &rc) == 2 && rc == 0);
	end();
}

/* Killed again and again, with requests under way: those fail, and the next ones are served. The repository's models do
 * not notice. */
static void test_killed(void **state)
{
	int rc;
	begin(NULL);
	struct inferd *other = e2e_connect(&e);
	struct inferd_binding *model = e2e_bind(other, "double", NULL), *own = bind_own(d, e2e_program_triple);
	for (int i = 0; i < 3; i++) {
		assert_true(e2e_infer_until_served(own, 2, &rc) == 6 && rc == 0);
		assert_int_equal(kill(process(), SIGKILL), 0);
		assert_true(e2e_infer(model, 5, &rc) == 10 && rc == 0);
	}
	inferd_close(other);
	end();
}

/* A script in place of inferd-program-host: it waits at a FIFO, if there is a file "hold", and becomes the real one. */
static void make_slow_host(char *path, size_t room)
{
	char script[512], gate[160];
	snprintf(path, room, "%s/slow-host", e.dir);
	snprintf(gate, sizeof(gate), "%s/gate", e.dir);
	int n = snprintf(script, sizeof(script), "#!/bin/sh\n[ -e %s/hold ] && read line <%s\nexec %s\n", e.dir, gate,
		PROGRAM_HOST);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_true(fd >= 0 && write(fd, script, (size_t)n) == n);
	close(fd);
	assert_int_equal(mkfifo(gate, 0600), 0);
}

/* The process was killed, and does not come back for long. The only worker does not wait for it: requests of the
 * program are refused, and others of the same user are served. */
static void test_slow_start(void **state)
{
	char config[256], host[128], path[128];
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	make_slow_host(host, sizeof(host));
	snprintf(config, sizeof(config), "workers = 1\nprogram_host = %s\n", host);
	e2e_start(&e, config);
	d = e2e_connect(&e);
	struct inferd_binding *model = e2e_bind(d, "double", NULL), *own = bind_own(d, e2e_program_triple);
	assert_true(e2e_infer(own, 2, &rc) == 6 && rc == 0);
	snprintf(path, sizeof(path), "%s/hold", e.dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(kill(process(), SIGKILL), 0);
	do
		e2e_infer(own, 2, &rc);
	while (rc != -INFERD_BACKEND_CRASHED || !strstr(inferd_error(d), "try again in a moment"));
	for (int i = 0; i < 5; i++) {
		e2e_infer(own, 2, &rc);
		assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
		assert_true(e2e_infer(model, 5, &rc) == 10 && rc == 0);
	}
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/gate", e.dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	close(fd);
	assert_true(e2e_infer_until_served(own, 3, &rc) == 9 && rc == 0);
	end();
}

/* A client ends while the process for its program does not come to an end with what it makes. The process is ended,
 * long before load_timeout, and that is no crash: the next program is served at once. */
static void test_abandoned(void **state)
{
	char config[256], host[128], path[128];
	struct inf_request ask = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "own", "", "", "", true } };
	size_t n_bytes;
	uint8_t *bytes = e2e_program_triple(&n_bytes);
	int rc, own = memfd_create("own", MFD_CLOEXEC);
	assert_true(own >= 0 && write(own, bytes, n_bytes) == (ssize_t)n_bytes);
	e2e_init(&e);
	make_slow_host(host, sizeof(host));
	snprintf(config, sizeof(config), "program_host = %s\n", host);
	e2e_start(&e, config);
	d = e2e_connect(&e);
	snprintf(path, sizeof(path), "%s/hold", e.dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	e2e_raw_send(raw, &ask, own);
	pid_t pid;
	do
		pid = process();
	while (!pid);
	struct pollfd ended = { .fd = pidfd_open(pid, 0), .events = POLLIN };
	assert_true(ended.fd >= 0);
	e2e_raw_free(raw);
	assert_int_equal(poll(&ended, 1, 60 * 1000), 1);
	close(ended.fd);
	assert_int_equal(unlink(path), 0);
	struct inferd_binding *b = bind_own(d, e2e_program_triple);
	assert_true(e2e_infer(b, 2, &rc) == 6 && rc == 0);
	close(own);
	free(bytes);
	end();
}

/* A restart is answered when the old process has ended. */
static void test_restarted(void **state)
{
	int rc;
	begin(NULL);
	struct inferd_binding *own = bind_own(d, e2e_program_triple);
	for (int i = 0; i < 20; i++) {
		assert_true(e2e_infer_until_served(own, 2, &rc) == 6 && rc == 0);
		pid_t pid = process();
		assert_int_not_equal(pid, 0);
		assert_int_equal(e2e_restart_backend(&e, "programs"), INF_OK);
		assert_int_equal(kill(pid, 0), -1);
		assert_int_equal(errno, ESRCH);
	}
	end();
}

/* Whether a thread of @pid has a lower priority than this process. */
static bool has_low_priority(pid_t pid)
{
	char path[300], line[512];
	const struct dirent *entry;
	const int usual = getpriority(PRIO_PROCESS, 0);
	bool is_low = false;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)pid, entry->d_name);
		FILE *file = fopen(path, "re");
		long nice = 0;
		const char *at = file && fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
		if (at &&
			sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %ld", &nice) == 1)
			is_low = is_low || nice > usual;
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return is_low;
}

/* The kernel lists a thread a moment longer than it lives. */
static void until_usual_priority(pid_t pid)
{
	while (has_low_priority(pid))
		sched_yield();
}

/* A client's program is made at a low priority: no queue has granted that a core. It runs at the usual one. */
static void test_low_priority(void **state)
{
	struct inf_request ask = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "own", "", "", "", true } };
	bool has_been_low = false;
	int rc;
	begin(NULL);
	struct inferd_binding *own = bind_own(d, e2e_program_triple);
	pid_t pid = process();
	until_usual_priority(pid);
	for (int i = 0; i < 50 && !has_been_low; i++) {
		struct e2e_raw *raw = e2e_raw_new(e.socket, false);
		struct pollfd reply = { .fd = raw->channel.fd, .events = POLLIN };
		int fd = open(TEST_MODELS "/efficientnet_lite0_int8.pte", O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		e2e_raw_send(raw, &ask, fd);
		while (poll(&reply, 1, 0) == 0)
			has_been_low = has_been_low || has_low_priority(pid);
		close(fd);
		e2e_raw_free(raw);
		e2e_until_clients(&e, 1);
	}
	assert_true(has_been_low);
	until_usual_priority(pid);
	assert_true(e2e_infer(own, 2, &rc) == 6 && rc == 0);
	end();
}

static void note_status(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

struct endless {
	struct inferd *client;
	struct inferd_binding *b;
	int status;
};

/* The client's events are handled meanwhile: its request may wait in the library until the one before has ended, or may
 * have to be asked again. */
static bool runs_endless(const struct inf_server_status *status, const void *arg)
{
	struct endless *run = *(struct endless *const *)arg;
	assert_true(inferd_dispatch(run->client) >= 0);
	if (run->status != 1) {
		assert_int_equal(run->status, -INFERD_BACKEND_CRASHED);
		run->status = 1;
		assert_int_equal(inferd_infer_async(run->b, NULL, note_status, &run->status), 0);
		return false;
	}
	return status->queues[0].running == 1 && status->queues[0].waiting == 0;
}

/* Begin a run that never ends. On a loaded machine the process may have been killed for a late run before; it is made
 * again meanwhile, and the daemon answers that one may try again. */
static void begin_endless(struct endless *run)
{
	run->status = 1;
	assert_int_equal(inferd_infer_async(run->b, NULL, note_status, &run->status), 0);
	e2e_until(&e, runs_endless, &run);
}

/* A program that never ends: its deadline ends it, and so does the end of its client. The process goes on. */
static void test_endless(void **state)
{
	int rc;
	begin(NULL);
	struct inferd *hostile = e2e_connect(&e);
	struct inferd_binding *forever = bind_own(hostile, e2e_program_forever), *own = bind_own(d, e2e_program_triple);
	struct inferd_request_options options = { .struct_size = sizeof(options), .timeout_us = 50000 };
	assert_int_equal(inferd_infer(forever, &options), -INFERD_MISSED_DEADLINE);
	assert_true(e2e_infer_until_served(own, 2, &rc) == 6 && rc == 0);
	begin_endless(&(struct endless){ .client = hostile, .b = forever });
	inferd_close(hostile);
	e2e_until_jobs(&e, 0, 0);
	assert_true(e2e_infer_until_served(own, 3, &rc) == 9 && rc == 0);
	end();
}

/* While a client's endless programs run, a request of a higher class gets its turn: they give way between slices. */
static void test_gives_way(void **state)
{
	int rc;
	begin(NULL);
	struct inferd *hostile = e2e_connect(&e);
	struct inferd_request_options low = { .struct_size = sizeof(low), .priority = INFERD_IDLE };
	for (int i = 0; i < 4; i++) /* more than there are workers */
		assert_int_equal(inferd_infer_async(bind_own(hostile, e2e_program_forever), &low, ignore, NULL), 0);
	struct inferd_binding *model = e2e_bind(d, "double", NULL), *own = bind_own(d, e2e_program_triple);
	for (int i = 0; i < 20; i++) {
		assert_true(e2e_infer(model, (float)i, &rc) == 2 * (float)i && rc == 0);
		assert_true(e2e_infer(own, (float)i, &rc) == 3 * (float)i && rc == 0);
	}
	inferd_close(hostile);
	end();
}

/* y = x + x, behind a product of two matrices of bytes that takes a second of one core. */
static uint8_t *make_product(size_t *ret_n_bytes)
{
	enum { N = 1000 };
	struct make_program mk;
	int m[2];
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 2 * N * N + 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1), .arena = arena }),
	    y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1), .arena = arena, .offset = 16 });
	for (uint64_t i = 0; i < 2; i++)
		m[i] = mk_tensor(&mk,
			&(struct mk_tensor){
				.type = ET_UINT8, MK_SIZES(N, N), .arena = arena, .offset = 64 + i * N * N });
	int n = mk_int(&mk, N), two = mk_int(&mk, 2), one = mk_int(&mk, 1);
	int sizes = mk_slots(&mk, ET_TAG_INT_LIST, MK_ARGS(n, n));
	mk_kernel(&mk, mk_operator(&mk, "aten::full", "out"), MK_ARGS(sizes, two, m[0], m[0]));
	mk_kernel(&mk, mk_operator(&mk, "aten::mm", "out"), MK_ARGS(m[0], m[0], m[1], m[1]));
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, one, y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

/* Whether this user may raise the priority of a process again. */
static bool may_raise_priority(void)
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(setpriority(PRIO_PROCESS, 0, 10) || setpriority(PRIO_PROCESS, 0, 0));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

/* A client's program keeps the only worker with one long instruction. Its process gets a low priority while another
 * user is served beside it, and the usual one when the instruction has ended. */
static void test_long_instruction(void **state)
{
	enum { N_TRIES = 100 };
	bool has_been_low = false;
	int rc, status = 1;
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be somebody else\n");
		skip();
	}
	begin("workers = 1\n");
	assert_int_equal(chmod(e.dir, 0755), 0);
	assert_int_equal(seteuid(NOBODY), 0);
	struct inferd *other = e2e_connect(&e);
	assert_int_equal(seteuid(0), 0);
	struct inferd_binding *model = e2e_bind(other, "double", NULL), *own = bind_own(d, make_product);
	pid_t pid = process();
	until_usual_priority(pid);
	/* on a machine with other work the instruction may have ended before the process is looked at */
	for (int i = 0; i < N_TRIES && !has_been_low; i++) {
		*(float *)inferd_input(own, 0) = 4;
		status = 1;
		assert_int_equal(inferd_infer_async(own, NULL, note_status, &status), 0);
		while (status == 1 && !has_been_low) {
			assert_true(e2e_infer(model, 5, &rc) == 10 && rc == 0);
			has_been_low = has_low_priority(pid);
			assert_true(inferd_dispatch(d) >= 0);
		}
		while (status == 1)
			assert_true(inferd_wait(d, 1000) >= 0);
		assert_int_equal(status, 0);
		assert_true(*(float *)inferd_output(own, 0) == 8);
	}
	assert_true(has_been_low);
	if (may_raise_priority())
		until_usual_priority(pid);
	inferd_close(other);
	end();
}

enum { N_QUICK = 300 };

/* Have so many short runs that the loop thread would begin the next one itself, were this not a client's program. */
static struct inferd_binding *bind_quick(struct inferd *client)
{
	struct inferd_binding *b = bind_own(client, e2e_program_moody);
	*(bool *)inferd_input(b, 1) = true;
	for (int i = 0; i < N_QUICK; i++) {
		*(float *)inferd_input(b, 0) = (float)i;
		if (inferd_infer(b, NULL))
			fail_msg("%s", inferd_error(client));
		assert_true(*(float *)inferd_output(b, 0) == 2 * (float)i);
	}
	return b;
}

/* All of them are served while the run of another client is under way. */
static void expect_served(struct inferd_binding *model)
{
	int rc;
	for (int i = 0; i < N_QUICK; i++)
		assert_true(e2e_infer(model, (float)i, &rc) == 2 * (float)i && rc == 0);
}

/* A program whose runs were all short begins one that does not end: the loop thread does not wait for it. */
static void test_moody(void **state)
{
	int status = 1;
	begin(NULL);
	struct inferd *other = e2e_connect(&e);
	struct inferd_binding *b = bind_quick(d), *model = e2e_bind(other, "double", NULL);
	struct inferd_request_options options = { .struct_size = sizeof(options), .timeout_us = 50000 };
	*(bool *)inferd_input(b, 1) = false;
	assert_int_equal(inferd_infer_async(b, NULL, note_status, &status), 0);
	expect_served(model);
	e2e_until_jobs(&e, 1, 0);
	assert_int_equal(inferd_cancel(b), 0);
	while (status == 1)
		assert_true(inferd_wait(d, 30000) >= 0);
	assert_int_equal(status, -INFERD_CANCELLED);
	inferd_close(d);
	d = e2e_connect(&e);
	b = bind_quick(d);
	*(bool *)inferd_input(b, 1) = false;
	assert_int_equal(inferd_infer(b, &options), -INFERD_MISSED_DEADLINE);
	inferd_close(other);
	end();
}

/* What the daemon refuses: a file that is no program, a program that nothing here can run, one that needs more than its
 * user may have. */
static void test_refused(void **state)
{
	static const struct {
		uint8_t *(*make)(size_t *);
		int rc;
		const char *text;
	} cases[] = {
		{ e2e_program_foreign, INFERD_UNIMPLEMENTED, "is not available. Available backends: [XnnpackBackend]" },
		{ e2e_program_unknown, INFERD_UNIMPLEMENTED, "" },
		{ e2e_program_hoarder, INFERD_RESOURCE_EXHAUSTED, "bytes" },
	};
	begin("[limits]\nbytes = 8M\n");
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		size_t n_bytes;
		uint8_t *bytes = cases[i].make(&n_bytes);
		struct inferd_method *method;
		int fd = memfd_create("own", MFD_CLOEXEC);
		assert_true(write(fd, bytes, n_bytes) == (ssize_t)n_bytes);
		assert_int_equal(inferd_method_open_fd(d, &method, fd, "own", NULL), -cases[i].rc);
		if (!strstr(inferd_error(d), cases[i].text))
			fail_msg("'%s' is not in: %s", cases[i].text, inferd_error(d));
		assert_int_equal(ftruncate(fd, 20), 0);
		assert_int_equal(inferd_method_open_fd(d, &method, fd, "own", NULL), -INFERD_FAILED_PRECONDITION);
		close(fd);
		free(bytes);
	}
	end();
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_process),
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_slow_start),
		cmocka_unit_test(test_abandoned),
		cmocka_unit_test(test_restarted),
		cmocka_unit_test(test_low_priority),
		cmocka_unit_test(test_long_instruction),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_gives_way),
		cmocka_unit_test(test_moody),
		cmocka_unit_test(test_refused),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
