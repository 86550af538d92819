/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients beyond their limit of descriptors: they are turned away as often as they come, whatever they sent, and what
 * they sent is closed without holding up anybody. */
#include "tests/e2e/harness.h"
#include "runtime/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Who has no descriptor left is turned away as often as he comes, whatever he sent at once, and nothing of it stays. */
static void test_turned_away(void **state)
{
	enum { N = 40 };
	struct e2e_raw *raw[N];
	uint64_t method, binding, region;
	struct e2e e;
	int fd = memfd_create("sent", MFD_CLOEXEC);
	assert_true(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, "[limits]\nfds = 2\n"); /* one connection, and its region */
	struct e2e_raw *other = e2e_raw_new(e.socket, false);
	e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	for (int round = 0; round < 3; round++) {
		int n_fds = e2e_count_fds(e.pid);
		e2e_suspend(e.pid); /* so that they come at once, with what they sent */
		for (int i = 0; i < N; i++) {
			raw[i] = e2e_raw_new(e.socket, true);
			assert_true(e2e_raw_send_copies(raw[i], "odd", 4, fd, 1));
		}
		assert_int_equal(kill(e.pid, SIGCONT), 0);
		for (int i = 0; i < N; i++) {
			struct inf_reply reply;
			assert_true(e2e_raw_receive(raw[i], &reply));
			assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
			assert_non_null(strstr(reply.error, "the limit 'fds'"));
			e2e_raw_expect_end(raw[i]);
			e2e_raw_free(raw[i]);
		}
		while (e2e_count_fds(e.pid) > n_fds)
			assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
		assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
	}
	close(fd);
	e2e_raw_free(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A connection over the loopback interface, *ret_peer being the other end, with more sent than the peer takes:
 * whoever closes it last waits for the peer, for an hour if need be. */
static int make_lingering(int *ret_peer)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 3600 };
	static const char some[4096];
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof here;
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(listening >= 0 && fd >= 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&here, sizeof here), 0);
	assert_int_equal(listen(listening, 1), 0);
	assert_int_equal(getsockname(listening, (struct sockaddr *)&here, &n), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&here, sizeof here), 0);
	*ret_peer = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*ret_peer >= 0);
	close(listening);
	while (send(fd, some, sizeof some, MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
	return fd;
}

/* Another user, who is turned away @n times and has sent @lingering, which is closed here, the first time; 0
 * when he was told so each time. */
static int be_turned_away(struct e2e *e, int n, int lingering)
{
	int status, told[2];
	char byte = 0;
	assert_int_equal(pipe(told), 0);
	e2e_suspend(e->pid); /* so that what was sent is there when it is accepted */
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setgid(65534) || setuid(65534))
			_exit(2);
		for (int i = 0; i < n; i++) {
			struct inf_reply reply;
			struct e2e_raw *raw = e2e_raw_new(e->socket, true);
			if (i == 0 && (!e2e_raw_send_copies(raw, "odd", 4, lingering, 1) || close(lingering) < 0 ||
					      write(told[1], &byte, 1) != 1))
				_exit(3);
			if (!e2e_raw_receive(raw, &reply) || reply.status != INF_RESOURCE_EXHAUSTED)
				_exit(4);
			e2e_raw_free(raw);
		}
		_exit(0);
	}
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	close(lingering); /* so that the daemon's is the last one */
	assert_int_equal(kill(e->pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Whoever is turned away and has sent what does not close can come as often as he likes: others get in all the
 * while. */
static void test_turned_away_often(void **state)
{
	enum { ROUNDS = 3, N = 400 };
	uint64_t method, binding, region;
	int peers[ROUNDS];
	struct e2e e;
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be somebody else\n");
		skip();
	}
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	assert_int_equal(chmod(e.dir, 0755), 0);
	e2e_start(&e, "[user 65534]\nfds = 0\n");
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(be_turned_away(&e, N, make_lingering(&peers[i])), 0);
		struct e2e_raw *other = e2e_raw_new(e.socket, false);
		e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
		struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
		assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
		e2e_raw_free(other);
	}
	for (int i = 0; i < ROUNDS; i++)
		close(peers[i]);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Were there so many files in flight to it that a daemon with few descriptors could not hold them all, it accepts
 * nobody for a while: who is connected notices nothing, and when they close everybody who waited is heard. */
static void test_turned_away_lingering(void **state)
{
	enum { MOST = 800, FEW = 60, MANY = 100 };
	const struct rlimit descriptors = { MOST, MOST };
	static struct e2e_raw *raw[FEW + MANY];
	uint64_t method, binding, region;
	struct inf_reply reply;
	struct e2e e;
	int peer, lingering = make_lingering(&peer), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(null >= 0);
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start_limited(&e, "[limits]\nfds = 2\n", &descriptors);
	struct e2e_raw *other = e2e_raw_new(e.socket, false);
	e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	int n_fds = e2e_count_fds(e.pid), bound = (MOST - n_fds) / 2 / 4;
	assert_true(bound > FEW + 10 && bound < FEW + MANY - 10);
	/* So that what they sent is there when they are accepted. Once: whoever is stopped while he lingers does so
	 * no more. */
	e2e_suspend(e.pid);
	for (int i = 0; i < FEW + MANY; i++) {
		raw[i] = e2e_raw_new(e.socket, true);
		assert_true(e2e_raw_send_copies(raw[i], "odd", 4, i ? null : lingering, 1));
	}
	close(lingering);
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	for (int i = 0; i < FEW; i++) { /* each is told; they are not closed */
		assert_true(e2e_raw_receive(raw[i], &reply));
		assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
		assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
	}
	while (e2e_count_fds(e.pid) < n_fds + bound - 8)
		assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
	for (int i = 0; i < 300; i++) { /* and there it stops */
		assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
		assert_true(e2e_count_fds(e.pid) <= n_fds + bound + 8);
	}
	close(peer);
	for (int i = FEW; i < FEW + MANY; i++) {
		assert_true(e2e_raw_receive(raw[i], &reply));
		assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
	}
	for (int i = 0; i < FEW + MANY; i++) {
		e2e_raw_expect_end(raw[i]);
		e2e_raw_free(raw[i]);
	}
	close(null);
	e2e_raw_free(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Who has more sent than can be charged for, and does not let it close, has all of one packet open here and no more,
 * over however many connections; over one that sends no descriptors all goes on. */
static void test_surplus(void **state)
{
	enum { N = 12 };
	struct e2e_raw *raw[N];
	uint64_t method, binding, region;
	struct e2e e;
	int peer, lingering = make_lingering(&peer), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(null >= 0);
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, "[limits]\nfds = 23\n");
	struct e2e_raw *other = e2e_raw_new(e.socket, false);
	e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	for (int i = 0; i < N; i++)
		raw[i] = e2e_raw_new(e.socket, false);
	int n_fds = e2e_count_fds(e.pid);
	e2e_suspend(e.pid); /* so that the daemon's is the last one, and lingers */
	assert_true(e2e_raw_send_copies(raw[0], "odd", 4, lingering, 1));
	close(lingering);
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	e2e_raw_expect_end(raw[0]);
	for (int i = 1; i < N; i++) {
		assert_true(e2e_raw_send_copies(raw[i], "odd", 4, null, INF_CHANNEL_MAX_FDS));
		e2e_raw_expect_end(raw[i]);
		assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
	}
	assert_in_range(e2e_count_fds(e.pid), INF_CHANNEL_MAX_FDS, n_fds + INF_CHANNEL_MAX_FDS);
	close(peer);
	for (int i = 0; i < N; i++)
		e2e_raw_free(raw[i]);
	/* and when it has closed, and the loop has been told, all is as before */
	while (e2e_count_fds(e.pid) > n_fds - N)
		assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
	struct inf_request import = { .kind = INF_REQUEST_REGION_REGISTER,
		.region_register = { .name = "r", .byte_size = 64 } };
	struct inf_reply reply;
	bool is_heard;
	do {
		struct e2e_raw *again = e2e_raw_new(e.socket, false);
		e2e_raw_send(again, &import, null);
		is_heard = e2e_raw_receive(again, &reply);
		e2e_raw_free(again);
	} while (!is_heard);
	assert_int_equal(reply.status, INF_INVALID_ARGUMENT);
	assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
	close(null);
	e2e_raw_free(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* All users together hold all that they may, and each of many sends as many descriptors as a packet takes, which do not
 * close. The reserve bears one such packet, not one of each user, and the manager works. */
static void test_surplus_of_many(void **state)
{
	enum { USERS = 8, FIRST = 60000, FEW = 2600 };
	const struct rlimit descriptors = { FEW, FEW };
	struct e2e_raw *raw[USERS];
	int peers[USERS], lingering[USERS], fds[INF_CHANNEL_MAX_FDS];
	struct inf_reply reply;
	struct e2e e;
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be somebody else\n");
		skip();
	}
	e2e_init(&e);
	assert_int_equal(chmod(e.dir, 0755), 0);
	e2e_start_limited(&e, "[user 0]\nfds = 4096\n", &descriptors);
	for (int i = 0; i < USERS; i++) {
		assert_int_equal(seteuid(FIRST + (uid_t)i), 0);
		raw[i] = e2e_raw_new(e.socket, false);
		assert_int_equal(seteuid(0), 0);
	}
	struct e2e_raw *large = e2e_raw_new(e.socket, false);
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } };
	while ((reply = e2e_raw_call(large, create)).status == INF_OK)
		;
	assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(reply.error, "all users together hold "));
	int n_fds = e2e_count_fds(e.pid);
	e2e_suspend(e.pid); /* so that the daemon's descriptor is the last one, and lingers */
	for (int i = 0; i < USERS; i++) {
		lingering[i] = make_lingering(&peers[i]);
		fds[0] = lingering[i];
		for (int k = 1; k < INF_CHANNEL_MAX_FDS; k++)
			fds[k] = STDIN_FILENO;
		assert_true(e2e_raw_send_fds(raw[i], "odd", 4, fds, INF_CHANNEL_MAX_FDS));
		close(lingering[i]);
	}
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	for (int i = 0; i < USERS; i++)
		e2e_raw_expect_end(raw[i]);
	assert_in_range(e2e_count_fds(e.pid), n_fds + INF_CHANNEL_MAX_FDS / 2, n_fds + INF_CHANNEL_MAX_FDS + 8);
	struct e2e_raw *manager = e2e_raw_new(e.manager, false);
	assert_int_equal(e2e_raw_ask(manager, (struct inf_request){ .kind = INF_REQUEST_STATUS }), INF_OK);
	e2e_raw_free(manager);
	for (int i = 0; i < USERS; i++) {
		close(peers[i]);
		e2e_raw_free(raw[i]);
	}
	e2e_raw_free(large);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* What somebody has sent who was not accepted yet does not hold up the end of the daemon. */
static void test_slow_backlog(void **state)
{
	enum { N = 100 }; /* more than are accepted at a time */
	struct e2e_raw *raw[N];
	struct e2e e;
	int peer, lingering = make_lingering(&peer);
	e2e_init(&e);
	e2e_start(&e, "drain = 100ms\n");
	e2e_suspend(e.pid);
	for (int i = 0; i < N; i++)
		raw[i] = e2e_raw_new(e.socket, true);
	assert_true(e2e_raw_send_copies(raw[N - 1], "odd", 4, lingering, 1));
	close(lingering);
	assert_int_equal(kill(e.pid, SIGTERM), 0);
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	while (e2e_state_of(e.pid) != 'Z')
		sched_yield();
	assert_int_equal(e2e_wait(&e), 1);
	close(peer);
	for (int i = 0; i < N; i++)
		e2e_raw_free(raw[i]);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turned_away),
		cmocka_unit_test(test_turned_away_often),
		cmocka_unit_test(test_turned_away_lingering),
		cmocka_unit_test(test_surplus),
		cmocka_unit_test(test_surplus_of_many),
		cmocka_unit_test(test_slow_backlog),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
