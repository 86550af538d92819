/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may connect, manage, open a model, and bring programs, for users and groups that the kernel names; what others
 * see and what they don't; and that a reload changes it for what comes, not for what is open. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANNA = 60001, BOB = 60002, VIDEO = 60101, VISITORS = 60102, NONE = 60199 };

static bool is_root(void)
{
	if (getuid() == 0)
		return true;
	print_message("SKIPPED: only root can be somebody else\n");
	return false;
}

/* Be that user, in these groups (0: none), until be_root. The kernel notes both when a connection is made. */
static void be(uid_t uid, gid_t gid, gid_t supplementary)
{
	assert_int_equal(setgroups(supplementary != 0, &supplementary), 0);
	assert_int_equal(setegid(gid), 0);
	assert_int_equal(seteuid(uid), 0);
}

static void be_root(void)
{
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setegid(0), 0);
	assert_int_equal(setgroups(0, NULL), 0);
}

static struct e2e_raw *connect_as(const char *path, uid_t uid, gid_t gid, gid_t supplementary, bool is_silent)
{
	be(uid, gid, supplementary);
	struct e2e_raw *raw = e2e_raw_new(path, is_silent);
	be_root();
	return raw;
}

static struct e2e_raw *anna(struct e2e *e)
{
	return connect_as(e->socket, ANNA, NONE, 0, false);
}

static struct e2e_raw *bob(struct e2e *e)
{
	return connect_as(e->socket, BOB, NONE, 0, false);
}

static void start(struct e2e *e, const char *config)
{
	e2e_init(e);
	assert_int_equal(chmod(e->dir, 0755), 0);
	e2e_put_program(e, "double.pte", e2e_program_double);
	e2e_put_program(e, "secret.pte", e2e_program_double);
	e2e_start(e, config);
}

static void expect_refusal(struct inf_reply reply, const char *says)
{
	if (reply.status != INF_PERMISSION_DENIED || !strstr(reply.error, says))
		fail_msg("status %d, '%s', expected '%s'", (int)reply.status, reply.error ? reply.error : "", says);
}

static void expect_turned_away(const char *path, uid_t uid, gid_t gid, gid_t supplementary, const char *says)
{
	struct e2e_raw *raw = connect_as(path, uid, gid, supplementary, true);
	struct inf_reply reply;
	assert_true(e2e_raw_receive(raw, &reply));
	expect_refusal(reply, says);
	e2e_raw_expect_end(raw);
	e2e_raw_free(raw);
}

static void test_connect(void **state)
{
	static const char says[] =
		"may not use inferd; ask the administrator: 'users' and 'groups' of [server] in inferd.conf";
	struct inferd *d = NULL;
	struct e2e e;
	if (!is_root())
		skip();
	start(&e, "users = 60001\ngroups = 60101\n");
	e2e_raw_free(anna(&e));
	e2e_raw_free(connect_as(e.socket, BOB, VIDEO, 0, false));
	e2e_raw_free(connect_as(e.socket, BOB, NONE, VIDEO, false));
	e2e_raw_free(connect_as(e.socket, 0, 0, 0, false));
	expect_turned_away(e.socket, BOB, NONE, 0, says);
	expect_turned_away(e.socket, BOB, NONE, VISITORS, "user 60002 may not");
	be(BOB, NONE, 0);
	assert_int_equal(inferd_open(&d, e.socket), -INFERD_PERMISSION_DENIED);
	assert_non_null(strstr(inferd_error(d), says));
	inferd_close(d);
	be_root();

	/* a reload decides about those who come; who is there stays */
	struct e2e_raw *there = anna(&e);
	e2e_reload(&e, "users = 60002\n");
	e2e_raw_free(bob(&e));
	expect_turned_away(e.socket, ANNA, NONE, VIDEO, says);
	uint64_t method, binding, region;
	e2e_raw_bind(there, "double", &method, &binding, &region, NULL);
	e2e_raw_free(there);
	e2e_reload(&e, "");
	e2e_raw_free(anna(&e));
	/* nobody of these exists */
	e2e_reload(&e, "users = no-such-user\ngroups = no-such-group\n");
	expect_turned_away(e.socket, ANNA, NONE, VIDEO, says);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static bool is_in_index(struct e2e_raw *raw, const char *model)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX };
	struct inf_reply reply = e2e_raw_call(raw, request);
	assert_int_equal(reply.status, INF_OK);
	for (size_t i = 0; i < reply.repository_index.n_models; i++)
		if (strcmp(reply.repository_index.models[i].name, model) == 0)
			return true;
	return false;
}

static struct inf_reply ask_open(struct e2e_raw *raw, const char *model, uint64_t share_with)
{
	struct inf_request request = { .kind = INF_REQUEST_METHOD_OPEN,
		.method_open = {
			.model = model, .version = "", .method = "", .backend = "", .share_with = share_with } };
	return e2e_raw_call(raw, request);
}

/* Bob does not learn that the model exists, is loaded, or who may open it. */
static void expect_hidden(struct e2e_raw *raw)
{
	struct inf_request metadata = { .kind = INF_REQUEST_MODEL_METADATA, .model_metadata = { "secret", "", "" } };
	struct inf_request ready = { .kind = INF_REQUEST_MODEL_READY, .model_ready = { "secret", "" } };
	struct inf_request statistics = { .kind = INF_REQUEST_MODEL_STATISTICS, .model_statistics = { "", "" } };
	struct inf_request status = { .kind = INF_REQUEST_STATUS };
	struct inf_reply reply;
	assert_false(is_in_index(raw, "secret"));
	assert_true(is_in_index(raw, "double"));
	expect_refusal(ask_open(raw, "secret", 0),
		"you may not open model 'secret'; ask the administrator: 'users' and 'groups' of [model secret] in inferd.conf");
	expect_refusal(e2e_raw_call(raw, metadata), "you may not open model 'secret'");
	reply = e2e_raw_call(raw, ready);
	assert_true(reply.status == INF_OK && !reply.model_ready.ready);
	reply = e2e_raw_call(raw, statistics);
	assert_int_equal(reply.status, INF_OK);
	for (size_t i = 0; i < reply.model_statistics.n_model_stats; i++)
		assert_string_not_equal(reply.model_statistics.model_stats[i].name, "secret");
	statistics.model_statistics.name = "secret";
	assert_int_equal(e2e_raw_call(raw, statistics).status, INF_NOT_FOUND);
	reply = e2e_raw_call(raw, status);
	for (size_t i = 0; i < reply.server_status.n_programs; i++)
		assert_string_not_equal(reply.server_status.programs[i].name, "secret");
	reply = ask_open(raw, "nowhere", 0);
	assert_int_equal(reply.status, INF_NOT_FOUND);
	assert_true(strstr(reply.error, "available models: double") && !strstr(reply.error, "secret"));
}

static void test_models(void **state)
{
	uint64_t method, binding, region;
	float *floats;
	struct e2e e;
	if (!is_root())
		skip();
	start(&e, "[model secret]\nusers = 60001\ngroups = 60101\n[model absent]\nusers = 60001\n");
	struct e2e_raw *hers = anna(&e), *his = bob(&e);
	expect_hidden(his);
	/* the answer does not tell whether there is such a model */
	expect_refusal(ask_open(his, "absent", 0), "you may not open model 'absent'");
	assert_int_equal(ask_open(hers, "absent", 0).status, INF_NOT_FOUND);
	assert_true(is_in_index(hers, "secret"));
	e2e_raw_bind(hers, "secret", &method, &binding, &region, &floats);
	expect_hidden(his); /* loaded or not */
	struct e2e_raw *by_group = connect_as(e.socket, BOB, NONE, VIDEO, false), *root = e2e_raw_new(e.socket, false);
	assert_int_equal(ask_open(by_group, "secret", 0).status, INF_OK);
	assert_int_equal(ask_open(root, "secret", 0).status, INF_OK);
	assert_true(is_in_index(e.watcher, "secret"));

	/* what is open stays; nothing new is opened, not beside it either */
	e2e_reload(&e, "[model secret]\nusers = 60002\n");
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	floats[0] = 4;
	assert_int_equal(e2e_raw_call(hers, infer).status, INF_OK);
	assert_true(floats[16] == 8);
	expect_hidden(hers);
	expect_refusal(ask_open(hers, "", method), "you may not open model 'secret'");
	assert_int_equal(ask_open(his, "secret", 0).status, INF_OK);
	e2e_raw_free(hers);
	e2e_raw_free(his);
	e2e_raw_free(by_group);
	e2e_raw_free(root);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A refusal for want of memory names the models that hold it, but not those that the client may not open. */
static void test_budget(void **state)
{
	char config[128];
	struct e2e e;
	if (!is_root())
		skip();
	start(&e, "");
	assert_int_equal(e2e_load(&e, "double"), INF_OK);
	unsigned long long budget = e2e_memory_of(&e, "double") * 3 / 2;
	assert_int_equal(e2e_unload(&e, "double"), INF_OK);
	snprintf(config, sizeof(config), "memory_budget = %llu\n[model secret]\nusers = 60001\n", budget);
	e2e_reload(&e, config);
	struct e2e_raw *hers = anna(&e), *his = bob(&e);
	assert_int_equal(ask_open(hers, "secret", 0).status, INF_OK);
	struct inf_reply reply = ask_open(his, "double", 0);
	assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
	assert_true(strstr(reply.error, "memory budget") && !strstr(reply.error, "secret"));
	snprintf(config, sizeof(config), "memory_budget = %llu\n", budget);
	e2e_reload(&e, config);
	reply = ask_open(his, "double", 0);
	assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(reply.error, "'secret' holds"));
	e2e_raw_free(hers);
	e2e_raw_free(his);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static struct inf_reply ask_load(struct e2e_raw *raw)
{
	struct inf_request load = { .kind = INF_REQUEST_REPOSITORY_MODEL_LOAD,
		.repository_model_load = { "", "double" } };
	return e2e_raw_call(raw, load);
}

/* Run inferctl as that user, with the daemon's sockets; its exit status, and what it prints in @out. */
static int run_inferctl(const struct e2e *e, uid_t uid, const char *command, const char *argument, char *out,
	size_t room)
{
	int told[2], status;
	size_t n = 0;
	assert_int_equal(pipe(told), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(told[1], STDOUT_FILENO);
		dup2(told[1], STDERR_FILENO);
		if (setgroups(0, NULL) < 0 || setgid(NONE) < 0 || setuid(uid) < 0)
			_exit(126);
		execl(INFERCTL, "inferctl", command, "--socket", e->socket, "--manager", e->manager, argument,
			(char *)NULL);
		_exit(127);
	}
	close(told[1]);
	for (ssize_t got; n < room - 1 && (got = read(told[0], out + n, room - 1 - n)) > 0;)
		n += (size_t)got;
	out[n] = '\0';
	close(told[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* inferctl finds the socket at which its user may do most. */
static void test_inferctl(void **state)
{
	char out[8192];
	struct e2e e;
	if (!is_root())
		skip();
	e2e_init(&e);
	int rc = run_inferctl(&e, ANNA, "--version", NULL, out, sizeof(out));
	e2e_deinit(&e);
	if (rc == 127) {
		print_message("SKIPPED: other users may not enter the folder of inferctl\n");
		skip();
	}
	start(&e, "administrators = 60001\n[model secret]\nusers = 60001\n");
	assert_int_equal(chmod(e.manager, 0660), 0);
	if (run_inferctl(&e, ANNA, "load", "double", out, sizeof(out)))
		fail_msg("%s", out);
	assert_int_not_equal(run_inferctl(&e, BOB, "load", "double", out, sizeof(out)), 0);
	assert_non_null(strstr(out, "'administrators' of [server] in inferd.conf"));
	assert_int_equal(run_inferctl(&e, BOB, "models", NULL, out, sizeof(out)), 0);
	assert_true(strstr(out, "double") && !strstr(out, "secret"));
	assert_int_not_equal(run_inferctl(&e, BOB, "bench", "secret", out, sizeof(out)), 0);
	assert_non_null(strstr(out, "you may not open model 'secret'; ask the administrator"));
	/* whom the manager's socket lets in sees everything there, but not if `administrators` leaves it out */
	assert_int_equal(chmod(e.manager, 0666), 0);
	assert_int_equal(run_inferctl(&e, BOB, "models", NULL, out, sizeof(out)), 0);
	assert_null(strstr(out, "secret"));
	e2e_reload(&e, "[model secret]\nusers = 60001\n");
	assert_int_equal(run_inferctl(&e, BOB, "models", NULL, out, sizeof(out)), 0);
	assert_non_null(strstr(out, "secret"));
	e2e_until_clients(&e, 0);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static void test_administrators(void **state)
{
	static const char says[] = "'administrators' of [server] in inferd.conf";
	struct e2e e;
	if (!is_root())
		skip();
	start(&e, "");
	assert_int_equal(chmod(e.manager, 0666), 0);
	/* not given: the manager's socket decides */
	struct e2e_raw *raw = anna(&e), *manager = connect_as(e.manager, BOB, NONE, 0, false);
	expect_refusal(ask_load(raw), "is for administrators: connect to the manager socket");
	assert_int_equal(ask_load(manager).status, INF_OK);
	/* given: it restricts, also who is connected, and extends */
	e2e_reload(&e, "administrators = 60001, @60101\nusers = 60002\n[model secret]\nusers = 60002\n");
	expect_refusal(ask_load(manager), says);
	assert_int_equal(ask_load(raw).status, INF_OK);
	expect_turned_away(e.manager, BOB, NONE, VISITORS, says);
	e2e_raw_free(connect_as(e.manager, BOB, NONE, VIDEO, false));
	e2e_raw_free(connect_as(e.manager, 0, 0, 0, false));
	e2e_raw_free(raw);
	raw = anna(&e); /* `users` does not name her, nor does the model */
	assert_int_equal(ask_load(raw).status, INF_OK);
	assert_int_equal(ask_open(raw, "secret", 0).status, INF_OK);
	e2e_raw_free(raw);
	raw = bob(&e);
	expect_refusal(ask_load(raw), says);
	e2e_raw_free(raw);
	e2e_raw_free(manager);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static struct inf_reply bring(struct e2e_raw *raw, const struct e2e *e)
{
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "mine", "", "", "", true } };
	char path[128];
	snprintf(path, sizeof(path), "%s/double.pte", e->models);
	int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	struct inf_reply reply = e2e_raw_call_fd(raw, open, fd);
	close(fd);
	return reply;
}

static void test_own_programs(void **state)
{
	static const char says[] =
		"may not bring programs; ask the administrator: 'own_programs' of [limits], [user NAME]";
	struct e2e e;
	if (!is_root())
		skip();
	start(&e, "program_host = " PROGRAM_HOST "\n[user 60001]\nown_programs = no\n");
	struct e2e_raw *hers = anna(&e), *his = bob(&e);
	expect_refusal(bring(hers, &e), says);
	struct inf_reply reply = bring(his, &e);
	assert_int_equal(reply.status, INF_OK);
	uint64_t method = reply.method_opened.method;
	e2e_reload(&e,
		"program_host = " PROGRAM_HOST "\n[limits]\nown_programs = no\n[user 60001]\nown_programs = yes\n"
		"[group 60101]\nown_programs = yes\n[group 60102]\nown_programs = no\n");
	assert_int_equal(bring(hers, &e).status, INF_OK);
	expect_refusal(bring(his, &e), "user 60002 may not bring programs");
	expect_refusal(ask_open(his, "", method), says);
	assert_int_equal(ask_open(his, "double", 0).status, INF_OK); /* the models are there for all */
	/* the more generous group of his connections */
	struct e2e_raw *visitor = connect_as(e.socket, BOB, VISITORS, 0, false);
	expect_refusal(bring(visitor, &e), says);
	struct e2e_raw *video = connect_as(e.socket, BOB, VISITORS, VIDEO, false);
	assert_int_equal(bring(video, &e).status, INF_OK);
	e2e_raw_free(hers);
	e2e_raw_free(his);
	e2e_raw_free(visitor);
	e2e_raw_free(video);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* How many Methods the client of @raw gets, and closes again. */
static int count_methods(struct e2e_raw *raw)
{
	uint64_t ids[16];
	int n = 0;
	struct inf_reply reply;
	while ((reply = ask_open(raw, "double", 0)).status == INF_OK && n < 16)
		ids[n++] = reply.method_opened.method;
	for (int i = 0; i < n; i++) {
		struct inf_request close = { .kind = INF_REQUEST_METHOD_CLOSE, .method_close = { ids[i] } };
		assert_int_equal(e2e_raw_call(raw, close).status, INF_OK);
	}
	return n;
}

/* A user in a hundred groups gets the most generous limit, before and after reloads that change the groups. */
static void test_group_limits(void **state)
{
	enum { N = 100 };
	gid_t gids[N];
	struct e2e e;
	if (!is_root())
		skip();
	/* the first connection gets what its groups give, too */
	start(&e,
		"[limits]\nmethods = 7\nconnections = 0\n[user 60001]\nconnections = 1\n[group 61001]\nconnections = 1\n"
		"[group 61099]\nmethods = 4\n[group 61050]\nmethods = 3\n[group 62000]\nmethods = 9\n[user 0]\n"
		"connections = 9\n");
	for (gid_t i = 0; i < N; i++)
		gids[i] = 61000 + i;
	assert_int_equal(setgroups(N, gids), 0);
	assert_int_equal(setegid(NONE), 0);
	assert_int_equal(seteuid(BOB), 0);
	struct e2e_raw *his = e2e_raw_new(e.socket, false);
	be_root();
	struct e2e_raw *hers = anna(&e);
	assert_int_equal(count_methods(his), 4);
	assert_int_equal(count_methods(hers), 7);
	e2e_reload(&e, "[group 61000]\nmethods = 2\n[group 60199]\nmethods = 5\n[group no-such-group]\nmethods = 1\n");
	assert_int_equal(count_methods(his), 5);
	assert_int_equal(count_methods(hers), 5); /* her group, not a supplementary one */
	e2e_reload(&e, "[group 61000]\nmethods = 2\n[user 60002]\nmethods = 1\n");
	assert_int_equal(count_methods(his), 1);
	e2e_raw_free(his);
	e2e_raw_free(hers);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

struct seen {
	size_t n_clients, n_users;
	bool has_anna, has_programs; /* hers */
	bool has_host, has_host_pid; /* of the plug-in */
};

static struct seen look(struct e2e_raw *raw)
{
	struct inf_request request = { .kind = INF_REQUEST_STATUS };
	struct inf_reply reply = e2e_raw_call(raw, request);
	const struct inf_server_status *s = &reply.server_status;
	assert_int_equal(reply.status, INF_OK);
	assert_true(s->n_queues && s->uptime_ns);
	struct seen seen = { .n_clients = s->n_clients, .n_users = s->n_users };
	for (size_t i = 0; i < s->n_clients; i++)
		seen.has_anna |= s->clients[i].uid == ANNA;
	for (size_t i = 0; i < s->n_users; i++)
		seen.has_anna |= s->users[i].uid == ANNA;
	for (size_t i = 0; i < s->n_hosts; i++) {
		seen.has_anna |= s->hosts[i].own && s->hosts[i].uid == ANNA;
		if (s->hosts[i].own) {
			assert_true(s->hosts[i].pid);
			continue;
		}
		seen.has_host = true;
		seen.has_host_pid = s->hosts[i].pid;
	}
	for (size_t i = 0; i < s->n_programs; i++)
		seen.has_programs |= strcmp(s->programs[i].name, "mine") == 0;
	return seen;
}

#define PLUGIN "[backend test]\npath = " PLUGINS "/sync.so\nhost = " HOST "\n"

static void test_status(void **state)
{
	struct inf_request statistics = { .kind = INF_REQUEST_MODEL_STATISTICS, .model_statistics = { "", "" } };
	struct e2e e;
	if (!is_root())
		skip();
	start(&e, "program_host = " PROGRAM_HOST "\n" PLUGIN);
	struct e2e_raw *hers = anna(&e), *his = bob(&e), *also_his = bob(&e), *root = e2e_raw_new(e.socket, false);
	assert_int_equal(bring(hers, &e).status, INF_OK);
	struct seen seen = look(his);
	assert_true(seen.n_clients == 2 && seen.n_users == 1 && !seen.has_anna && !seen.has_programs);
	assert_true(seen.has_host && !seen.has_host_pid);
	assert_int_equal(e2e_raw_call(his, statistics).model_statistics.n_model_stats, 0);
	seen = look(hers);
	assert_true(seen.n_clients == 1 && seen.has_anna && seen.has_programs);
	assert_int_equal(e2e_raw_call(hers, statistics).model_statistics.n_model_stats, 1);
	struct e2e_raw *all[] = { root, e.watcher };
	for (size_t i = 0; i < ET_ARRAY_LEN(all); i++) {
		seen = look(all[i]);
		assert_true(seen.n_clients == 5 && seen.has_anna && seen.has_programs);
		assert_true(seen.has_host && seen.has_host_pid);
	}
	e2e_reload(&e, "program_host = " PROGRAM_HOST "\nadministrators = 60002\n" PLUGIN);
	assert_true(look(his).has_anna);
	e2e_raw_free(hers);
	e2e_raw_free(his);
	e2e_raw_free(also_his);
	e2e_raw_free(root);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* --- the log -------------------------------------------------------------------------------------- */

/* The log of the daemon that start_logged started goes to this file. */
static char log_path[128];

static void start_logged(struct e2e *e, const char *config)
{
	e2e_init(e);
	assert_int_equal(chmod(e->dir, 0755), 0);
	snprintf(log_path, sizeof(log_path), "%s/log", e->dir);
	int file = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), before = dup(STDERR_FILENO);
	assert_true(file >= 0 && before >= 0);
	e2e_put_program(e, "unknown.pte", e2e_program_unknown);
	e2e_put_program(e, "double.pte", e2e_program_double);
	dup2(file, STDERR_FILENO);
	setenv("E2E_LOG", "info", 1);
	e2e_start(e, config);
	unsetenv("E2E_LOG");
	dup2(before, STDERR_FILENO);
	close(before);
	close(file);
}

static size_t count_lines(const char *text)
{
	size_t n = 0;
	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

static void test_log(void **state)
{
	enum { N = 100, MOST = 60 };
	size_t n_bytes;
	struct e2e e;
	if (!is_root())
		skip();
	start_logged(&e, "program_host = " PROGRAM_HOST "\n");
	struct e2e_raw *his = bob(&e);
	char path[128];
	snprintf(path, sizeof(path), "%s/unknown.pte", e.models);
	for (int i = 0; i < N; i++) {
		struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN,
			.method_open = { "mine", "", "", "", true } };
		int fd = openat(AT_FDCWD, i % 2 ? log_path : path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_not_equal(e2e_raw_call_fd(his, open, fd).status, INF_OK);
		close(fd);
		assert_int_not_equal(ask_open(his, "unknown", 0).status, INF_OK);
		assert_int_equal(bring(his, &e).status, INF_OK); /* good ones, too: each is loaded and unloaded */
		e2e_raw_free(his);
		his = bob(&e);
		struct e2e_raw *mumbler = bob(&e);
		assert_int_equal(send(inf_channel_fd(&mumbler->channel), "\xff\xff", 2, MSG_NOSIGNAL), 2);
		e2e_raw_expect_end(mumbler);
		e2e_raw_free(mumbler);
	}
	/* another user's line is there */
	struct e2e_raw *hers = anna(&e);
	assert_int_not_equal(ask_open(hers, "unknown", 0).status, INF_OK);
	e2e_raw_free(hers);
	e2e_raw_free(his);
	e2e_until_clients(&e, 0);
	e2e_stop(&e);
	char *log = e2e_read(log_path, &n_bytes);
	assert_non_null(log);
	log[n_bytes] = '\0';
	if (count_lines(log) > MOST)
		fail_msg("%zu lines:\n%s", count_lines(log), log);
	if (!strstr(log, "user 60002: 190 more opens that failed are not in the log, at most 10 in a minute are") ||
		!strstr(log, "user 60002: 90 more connections that were refused or ended are not in the log") ||
		!strstr(log, " more loads of models are not in the log") || strstr(log, "user 60001: "))
		fail_msg("%s", log);
	free(log);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_administrators),
		cmocka_unit_test(test_inferctl),
		cmocka_unit_test(test_own_programs),
		cmocka_unit_test(test_group_limits),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_log),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
