/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may do what, asked about peers that do not exist: numbers stand for users and groups. */
#include "daemon/client/access.h"

#include "runtime/base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static char lines[2000];

static void write_line(void *self, enum et_log_level level, const char *text)
{
	size_t n = strlen(lines);
	snprintf(lines + n, sizeof(lines) - n, "%s\n", text);
}

static const struct et_log log_ = { .max_level = ET_LOG_INFO, .write = write_line };

static struct inf_access *parse(const char *text)
{
	struct inf_config_error error = { "" };
	struct inf_config config;
	lines[0] = '\0';
	inf_config_init(&config);
	if (inf_config_parse(&config, text, "f", &error) < 0)
		fail_msg("%s", error.text);
	struct inf_access *access = inf_access_new(&config, &log_);
	assert_non_null(access);
	inf_config_deinit(&config);
	return access;
}

enum { MAX_GIDS = 4 };

struct question {
	uid_t uid;
	gid_t gids[MAX_GIDS]; /* until the first 0 */
	bool connect, manage_by_users, manage, open;
};

static struct inf_access_peer peer_of(const struct question *q)
{
	struct inf_access_peer peer = { .uid = q->uid, .gids = q->gids };
	while (peer.n_gids < MAX_GIDS && q->gids[peer.n_gids])
		peer.n_gids++;
	return peer;
}

static void check(const char *config, const struct question *questions, size_t n)
{
	struct inf_access *access = parse(config);
	for (size_t i = 0; i < n; i++) {
		struct inf_access_peer peer = peer_of(&questions[i]);
		const struct question *q = &questions[i];
		if (inf_access_may_connect(access, &peer) != q->connect ||
			inf_access_may_manage(access, &peer, false) != q->manage_by_users ||
			inf_access_may_manage(access, &peer, true) != q->manage ||
			inf_access_may_open(access, &peer, "cat") != q->open)
			fail_msg("'%s', question %zu", config, i);
		assert_true(inf_access_may_open(access, &peer, "dog")); /* no section speaks of it */
	}
	inf_access_free(access);
}

static void test_nothing_given(void **state)
{
	static const struct question questions[] = {
		{ 0, { 0 }, true, false, true, true },
		{ 1000, { 1000 }, true, false, true, true },
	};
	check("", questions, ET_ARRAY_LEN(questions));
	/* an empty list is none */
	check("[server]\nusers = 7\nusers =\n[model cat]\ngroups = 9\ngroups =\n", questions, ET_ARRAY_LEN(questions));
}

static void test_connect(void **state)
{
	static const struct question questions[] = {
		{ 0, { 0 }, true, false, true, true }, { 1000, { 5 }, true, false, true, true },
		{ 1001, { 5 }, false, false, true, true }, { 1001, { 77 }, true, false, true, true }, /* its group */
		{ 1001, { 5, 6, 8, 78 }, true, false, true, true }, /* a supplementary one */
		{ 77, { 5 }, false, false, true, true },            /* a user is no group */
	};
	check("[server]\nusers = 1000\ngroups = 77, 78\n", questions, ET_ARRAY_LEN(questions));
}

static void test_manage(void **state)
{
	static const struct question questions[] = {
		{ 0, { 0 }, true, true, true, true },
		{ 1000, { 5 }, true, true, true, true },
		{ 1001, { 5, 6, 77 }, true, true, true, true },
		{ 1001, { 5 }, false, false, false,
			false }, /* the manager's socket let it in, but the list does not name it */
		{ 1002, { 5 }, true, false, false, true },
	};
	check("[server]\nusers = 1002\nadministrators = 1000, @77\n[model cat]\nusers = 1002\n", questions,
		ET_ARRAY_LEN(questions));
}

static void test_open(void **state)
{
	static const struct question questions[] = {
		{ 0, { 0 }, true, false, true, true },
		{ 1000, { 5 }, true, false, true, true },
		{ 1001, { 5, 77 }, true, false, true, true },
		{ 1001, { 5 }, true, false, true, false },
		{ 5, { 6 }, true, false, true, false },
	};
	check("[model cat]\nusers = 1000\n[model cow]\nusers = 5\n[model cat]\ngroups = 77\n", questions,
		ET_ARRAY_LEN(questions));
}

/* A list of which nobody exists lets nobody in; it is not the same as no list. */
static void test_names_that_nobody_has(void **state)
{
	static const struct question questions[] = {
		{ 0, { 0 }, true, true, true, true },
		{ 1000, { 1000 }, false, false, false, false },
		{ (uid_t)-1, { (gid_t)-1 }, false, false, false, false },
	};
	static const char config[] = "[server]\nusers = no-such-user 4294967295\ngroups = no-such-group\n"
				     "administrators = @no-such-group, no-such-user, 99999999999999999999\n"
				     "[model cat]\nusers = no-such-user\n";
	check(config, questions, ET_ARRAY_LEN(questions));
	assert_non_null(strstr(lines, "[server] users: there is no user 'no-such-user'; it lets nobody in\n"));
	assert_non_null(strstr(lines, "[server] users: there is no user '4294967295'"));
	assert_non_null(strstr(lines, "[server] groups: there is no group 'no-such-group'"));
	assert_non_null(strstr(lines, "[server] administrators: there is no group 'no-such-group'"));
	assert_non_null(strstr(lines, "[model cat] users: there is no user 'no-such-user'"));
}

/* Names of this machine's databases. */
static void test_names(void **state)
{
	static const struct question questions[] = {
		{ 1, { 9 }, true, false, true, true },    /* daemon of Debian */
		{ 2, { 9, 1 }, true, false, true, true }, /* the group daemon */
		{ 2, { 9 }, false, false, true, true },
	};
	check("[server]\nusers = daemon\ngroups = daemon\n", questions, ET_ARRAY_LEN(questions));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_given),
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_manage),
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_names_that_nobody_has),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
