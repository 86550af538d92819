/* SPDX-License-Identifier: BSD-3-Clause */
/* One user at a limit and another one beside it: the refusal comes at once and names the limit and whose it is, and the
 * other user's requests succeed at the same time. Many users at their limits: the manager works. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, PATIENCE = 500 };

/* A connection of that user: the kernel notes the uid when it is made. */
static struct e2e_raw *connect_as(struct e2e *e, uid_t uid, bool is_silent)
{
	assert_int_equal(seteuid(uid), 0);
	struct e2e_raw *raw = e2e_raw_new(e->socket, is_silent);
	assert_int_equal(seteuid(0), 0);
	return raw;
}

static struct e2e_raw *connect_as_nobody(struct e2e *e, bool is_silent)
{
	return connect_as(e, NOBODY, is_silent);
}

struct nobody {
	struct e2e *e;
	struct e2e_raw *raw;
	uint64_t method, binding, region;
};

/* Each asks once more; false with the refusal in @ret, which is valid until the next call. */
static bool ask(struct nobody *n, struct inf_request request, struct inf_reply *ret)
{
	*ret = e2e_raw_call(n->raw, request);
	return ret->status == INF_OK;
}

static bool more_connections(struct nobody *n, struct inf_reply *ret)
{
	static struct e2e_raw *last; /* its packet holds the text; it is the first one too many */
	e2e_raw_free(last);
	last = connect_as_nobody(n->e, true);
	assert_true(e2e_raw_receive(last, ret));
	return ret->status == INF_OK;
}

static bool more_methods(struct nobody *n, struct inf_reply *ret)
{
	return ask(n,
		(struct inf_request){ .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "double", "", "", "", false } },
		ret);
}

static bool more_regions(struct nobody *n, struct inf_reply *ret)
{
	return ask(n, (struct inf_request){ .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } }, ret);
}

static bool more_bindings(struct nobody *n, struct inf_reply *ret)
{
	struct inf_slot in = { .region = n->region }, out = { .region = n->region, .offset = 64 };
	bool is_bound = ask(n, (struct inf_request){ .kind = INF_REQUEST_BIND, .bind = { n->method, 1, &in, 1, &out } },
		ret);
	if (is_bound)
		n->binding = ret->bound.binding;
	return is_bound;
}

/* Two of the endless one, each on its own binding: the second is answered. */
static bool more_requests(struct nobody *n, struct inf_reply *ret)
{
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = n->binding } };
	e2e_raw_send(n->raw, &infer, -1);
	e2e_until_jobs(n->e, 1, 0);
	assert_true(more_bindings(n, ret));
	infer.infer.binding = n->binding;
	return ask(n, infer, ret);
}

/* Several at once; what is not there is looked for. */
static bool more_opens(struct nobody *n, struct inf_reply *ret)
{
	enum { N = 12 };
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "nowhere", "", "", "", false } };
	static char text[INF_MAX_TEXT + 1];
	struct inf_reply reply;
	bool is_refused = false;
	for (int i = 0; i < N; i++)
		e2e_raw_send(n->raw, &open, -1);
	for (int i = 0; i < N; i++) {
		assert_true(e2e_raw_receive(n->raw, &reply));
		if (reply.status == INF_NOT_FOUND)
			continue;
		is_refused = true;
		*ret = reply;
		snprintf(text, sizeof(text), "%s", reply.error);
		ret->error = text;
	}
	return !is_refused;
}

/* Everything that there is a limit for. */
static void do_all(struct e2e *e)
{
	uint64_t method, binding, region;
	float *floats;
	struct e2e_raw *raw = e2e_raw_new(e->socket, false);
	e2e_raw_bind(raw, "double", &method, &binding, &region, &floats);
	for (int i = 0; i < 4; i++)
		floats[i] = (float)i;
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	assert_int_equal(e2e_raw_call(raw, infer).status, INF_OK);
	assert_true(floats[16 + 3] == 6);
	e2e_raw_free(raw);
}

static void test_limits(void **state)
{
	static const struct {
		const char *name, *value, *model; /* that he has open */
		bool (*more)(struct nobody *n, struct inf_reply *ret);
	} rows[] = {
		{ "connections", "1", "double", more_connections },
		{ "methods", "3", "double", more_methods },
		{ "regions", "3", "double", more_regions },
		{ "bindings", "3", "double", more_bindings },
		{ "fds", "4", "double", more_regions },
		{ "bytes", "64K", "double", more_regions },
		{ "requests", "1", "forever", more_requests },
		{ "opens", "1", "double", more_opens },
	};
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be somebody else\n");
		skip();
	}
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++) {
		char config[64], wanted[64];
		struct inf_reply reply;
		struct e2e e;
		e2e_init(&e);
		assert_int_equal(chmod(e.dir, 0755), 0);
		e2e_put_program(&e, "double.pte", e2e_program_double);
		e2e_put_program(&e, "forever.pte", e2e_program_forever);
		snprintf(config, sizeof(config), "[user %d]\n%s = %s\n", NOBODY, rows[i].name, rows[i].value);
		snprintf(wanted, sizeof(wanted), "the limit '%s' of user %d is reached", rows[i].name, NOBODY);
		e2e_start(&e, config);
		struct nobody n = { .e = &e, .raw = connect_as_nobody(&e, false) };
		e2e_raw_bind(n.raw, rows[i].model, &n.method, &n.binding, &n.region, NULL);
		int k = 0;
		while (rows[i].more(&n, &reply) && k < PATIENCE)
			k++;
		if (k == PATIENCE || reply.status != INF_RESOURCE_EXHAUSTED || !strstr(reply.error, wanted))
			fail_msg("%s: '%s'", rows[i].name, k == PATIENCE ? "" : reply.error);
		for (int round = 0; round < 3; round++)
			do_all(&e);
		e2e_raw_free(n.raw);
		e2e_until_clients(&e, 0);
		/* and what was given back is there again */
		n = (struct nobody){ .e = &e, .raw = connect_as_nobody(&e, false) };
		e2e_raw_bind(n.raw, rows[i].model, &n.method, &n.binding, &n.region, NULL);
		e2e_raw_free(n.raw);
		e2e_check_clean(&e);
		e2e_deinit(&e);
	}
}

/* Run inferctl with the daemon's sockets; its exit status. */
static int run_inferctl(const struct e2e *e, const char *command, const char *argument)
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(null, STDOUT_FILENO);
		execl(INFERCTL, "inferctl", command, "--socket", e->socket, "--manager", e->manager, argument,
			(char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* What an administrator needs works on a new connection of the manager's socket, and with inferctl. "double" is loaded
 * before and after. */
static void check_manager(struct e2e *e)
{
	struct e2e_raw *manager = e2e_raw_new(e->manager, false);
	struct inf_request status = { .kind = INF_REQUEST_STATUS };
	struct inf_request index = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	struct inf_request load = { .kind = INF_REQUEST_REPOSITORY_MODEL_LOAD,
		.repository_model_load = { "", "double" } };
	struct inf_request unload = { .kind = INF_REQUEST_REPOSITORY_MODEL_UNLOAD,
		.repository_model_unload = { "", "double" } };
	assert_int_equal(e2e_raw_call(manager, status).status, INF_OK);
	assert_int_equal(e2e_raw_call(manager, index).status, INF_OK);
	assert_int_equal(e2e_raw_call(manager, unload).status, INF_OK);
	assert_int_equal(e2e_raw_call(manager, load).status, INF_OK);
	e2e_raw_free(manager);
	assert_int_equal(run_inferctl(e, "unload", "double"), 0);
	assert_int_equal(run_inferctl(e, "load", "double"), 0);
}

/* Many users take all the descriptors that they get. One who comes then is told so, the manager works. */
static void test_all_users(void **state)
{
	enum { FEW = 128, FIRST = 60000, MOST_USERS = 24, MOST = 128 };
	const struct rlimit descriptors = { FEW, FEW };
	static struct inferd *d[MOST];
	struct inf_reply reply;
	struct e2e e;
	int n = 0, n_users = 0, n_of_first = 0;
	bool is_full = false;
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be somebody else\n");
		skip();
	}
	e2e_init(&e);
	assert_int_equal(chmod(e.dir, 0755), 0);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start_limited(&e, NULL, &descriptors);
	assert_int_equal(e2e_load(&e, "double"), INF_OK);
	struct e2e_raw *bystander = e2e_raw_new(e.socket, false);
	while (!is_full && n_users < MOST_USERS) {
		uid_t uid = FIRST + (uid_t)n_users++;
		int rc = 0;
		assert_int_equal(seteuid(uid), 0);
		while (n < MOST && (rc = inferd_open(&d[n], e.socket)) == 0)
			n++;
		assert_int_equal(seteuid(0), 0);
		assert_int_equal(rc, -INFERD_RESOURCE_EXHAUSTED);
		is_full = strstr(inferd_error(d[n]), "all users together hold ");
		assert_true(is_full || strstr(inferd_error(d[n]), "the limit 'connections' of user "));
		inferd_close(d[n]);
		if (n_users == 1)
			n_of_first = n;
	}
	assert_true(is_full);
	assert_true(n_users >= 8); /* an eighth for each */
	assert_int_equal(n_of_first, (n + 1) / 8);
	/* a user without anything is told, as often as it comes */
	for (int i = 0; i < 3; i++) {
		struct e2e_raw *late = connect_as(&e, FIRST + MOST_USERS, true);
		assert_true(e2e_raw_receive(late, &reply));
		assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
		assert_non_null(strstr(reply.error, "all users together hold "));
		assert_non_null(strstr(reply.error, " descriptors, 1 more asked for"));
		e2e_raw_expect_end(late);
		e2e_raw_free(late);
	}
	check_manager(&e);
	/* these ask the users' socket, are turned away, and ask the manager's */
	assert_int_equal(run_inferctl(&e, "status", NULL), 0);
	assert_int_equal(run_inferctl(&e, "models", NULL), 0);
	struct inf_request status = { .kind = INF_REQUEST_STATUS };
	assert_int_equal(e2e_raw_call(bystander, status).status, INF_OK);
	e2e_raw_free(bystander);
	while (n)
		inferd_close(d[--n]);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* The machine's memory is a limit for all users together, also where one user's limit is larger; nothing is made. */
static void test_all_bytes(void **state)
{
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { UINT64_C(1) << 50 } };
	char config[64];
	struct e2e e;
	e2e_init(&e);
	snprintf(config, sizeof(config), "[user %u]\nbytes = 2000T\n", (unsigned)getuid());
	e2e_start(&e, config);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	struct inf_reply reply = e2e_raw_call(raw, create);
	assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(reply.error, "all users together hold 0 of "));
	assert_non_null(strstr(reply.error, " bytes, 1125899906842624 more asked for"));
	create.region_create.byte_size = 4096;
	assert_int_equal(e2e_raw_call(raw, create).status, INF_OK);
	e2e_raw_free(raw);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* The process has no descriptor left at all: those kept open for a manager are given up. */
static void test_last_descriptors(void **state)
{
	struct rlimit before, few;
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	assert_int_equal(e2e_load(&e, "double"), INF_OK);
	assert_int_equal(prlimit(e.pid, RLIMIT_NOFILE, NULL, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)e2e_count_fds(e.pid) - 2; /* '.' and '..' are none: not one more than are open */
	assert_int_equal(prlimit(e.pid, RLIMIT_NOFILE, &few, NULL), 0);
	check_manager(&e);
	assert_int_equal(prlimit(e.pid, RLIMIT_NOFILE, &before, NULL), 0);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_all_users),
		cmocka_unit_test(test_all_bytes),
		cmocka_unit_test(test_last_descriptors),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
