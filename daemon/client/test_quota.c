/* SPDX-License-Identifier: BSD-3-Clause */
/* Quotas: a limit holds exactly, for each user, and can change while users hold something. */
#include "daemon/client/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const struct inf_limits limits = {
	.connections = 2, .methods = 3, .regions = 4, .bindings = 5, .fds = 6, .requests = 7, .opens = 8, .bytes = 1000
};

static void test_limit(void **state)
{
	struct inf_quota quota;
	char text[200];
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &limits, NULL, 0);
	struct inf_quota_user *user = inf_quota_take_user(&quota, 7);
	static const uint64_t each[INF_N_QUOTAS] = { 2, 3, 4, 5, 6, 7, 8, 1000 };
	for (int kind = 0; kind < INF_N_QUOTAS; kind++) {
		for (uint64_t i = 0; i < each[kind]; i++)
			assert_true(inf_quota_charge(user, (enum inf_quota_kind)kind, 1));
		assert_false(inf_quota_charge(user, (enum inf_quota_kind)kind, 1));
		assert_false(inf_quota_charge(user, (enum inf_quota_kind)kind, UINT64_MAX));
		inf_quota_discharge(user, (enum inf_quota_kind)kind, 1);
		assert_false(inf_quota_charge(user, (enum inf_quota_kind)kind, 2));
		assert_true(inf_quota_charge(user, (enum inf_quota_kind)kind, 1));
		inf_quota_discharge(user, (enum inf_quota_kind)kind, each[kind]);
		assert_false(inf_quota_charge(user, (enum inf_quota_kind)kind, each[kind] + 1));
		assert_true(inf_quota_charge(user, (enum inf_quota_kind)kind, each[kind]));
	}
	inf_quota_explain(user, INF_QUOTA_METHODS, 1, text, sizeof(text));
	assert_string_equal(text, "the limit 'methods' of user 7 is reached: 3 of 3 in use, 1 more asked for");
	inf_quota_user_unref(user);
	inf_quota_deinit(&quota);
}

/* No request gets a higher class than its user may have, and a request for the default class is never refused. */
static void test_priorities(void **state)
{
	struct inf_limits own = limits;
	struct inf_quota quota;
	inf_quota_init(&quota);
	for (uint32_t highest = 0; highest < INF_N_CLASSES; highest++) {
		own.priority = highest;
		inf_quota_configure(&quota, &own, NULL, 0);
		struct inf_quota_user *user = inf_quota_take_user(&quota, 7);
		assert_string_equal(inf_config_priorities[highest], inf_class_name(user->highest));
		for (uint32_t asked = 0; asked < INF_N_CLASSES; asked++) {
			enum inf_class priority_class = INF_N_CLASSES;
			bool may = inf_quota_classify(user, (enum inf_class)asked, &priority_class);
			assert_true(may == (asked >= highest || asked == INF_CLASS_INTERACTIVE));
			assert_int_equal(priority_class, !may ? INF_N_CLASSES : asked > highest ? asked : highest);
		}
		inf_quota_user_unref(user);
	}
	inf_quota_deinit(&quota);
}

/* Divide so that all users together may hold @n_fds descriptors. */
static void divide_fds(struct inf_quota *quota, uint64_t n_fds)
{
	inf_quota_divide(quota, &(struct inf_quota_machine){ 2 * n_fds, UINT64_MAX, 0 });
	assert_int_equal(quota->all_users.max[INF_QUOTA_FDS], n_fds);
}

/* Unpaid descriptors count among those of all users, and have a bound of their own. */
static void test_unpaid(void **state)
{
	enum { MOST = 400 };
	struct inf_limits own = limits;
	struct inf_quota quota;
	uint64_t n = 0;
	own.fds = UINT32_MAX;
	own.given = INF_LIMIT_BIT_FDS;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &own, NULL, 0);
	divide_fds(&quota, MOST);
	struct inf_quota_total *total = &quota.all_users;
	struct inf_quota_user *user = inf_quota_take_user(&quota, 7);
	for (; !inf_quota_is_overdrawn(total); n++)
		inf_quota_add_unpaid(total);
	assert_int_equal(n, MOST / 4 + 1);
	assert_false(inf_quota_charge(user, INF_QUOTA_FDS, MOST - n + 1));
	assert_true(inf_quota_charge(user, INF_QUOTA_FDS, MOST - n));
	inf_quota_remove_unpaid(total);
	assert_false(inf_quota_is_overdrawn(total));
	assert_true(inf_quota_charge(user, INF_QUOTA_FDS, 1));
	inf_quota_discharge(user, INF_QUOTA_FDS, MOST - n + 1);
	while (--n)
		inf_quota_remove_unpaid(total);
	assert_true(inf_quota_charge(user, INF_QUOTA_FDS, MOST));
	/* beyond the total only a part of the reserve is for them */
	for (; !inf_quota_is_reserve_used(total); n++)
		inf_quota_add_unpaid(total);
	assert_int_equal(n, MOST / 8 + 1);
	assert_true(inf_quota_is_overdrawn(total));
	assert_false(inf_quota_is_overdrawn(&quota.all_managers));
	while (n--)
		inf_quota_remove_unpaid(total);
	inf_quota_discharge(user, INF_QUOTA_FDS, MOST);
	inf_quota_user_unref(user);
	inf_quota_deinit(&quota);
}

static void test_users_apart(void **state)
{
	struct inf_quota quota;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &limits, NULL, 0);
	struct inf_quota_user *a = inf_quota_take_user(&quota, 1), *b = inf_quota_take_user(&quota, 2);
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(inf_quota_take_user(&quota, 1), a);
	assert_true(inf_quota_charge(a, INF_QUOTA_CONNECTIONS, 2));
	assert_false(inf_quota_charge(a, INF_QUOTA_CONNECTIONS, 1));
	assert_true(inf_quota_charge(b, INF_QUOTA_CONNECTIONS, 2));
	inf_quota_user_unref(a);
	inf_quota_user_unref(a);
	inf_quota_user_unref(b);
	assert_true(et_list_is_empty(&quota.users));
	assert_null(inf_quota_user_unref(NULL));
	inf_quota_deinit(&quota);
}

/* Descriptors of all users together have a limit, too, and the sentence says which limit was reached. */
static void test_max_fds(void **state)
{
	struct inf_limits own = limits;
	struct inf_quota quota;
	char text[200];
	own.given = INF_LIMIT_BIT_FDS;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &own, NULL, 0);
	divide_fds(&quota, 8);
	struct inf_quota_user *a = inf_quota_take_user(&quota, 1), *b = inf_quota_take_user(&quota, 2);
	assert_true(inf_quota_charge(a, INF_QUOTA_FDS, 6));
	assert_true(inf_quota_charge(b, INF_QUOTA_FDS, 2));
	assert_false(inf_quota_charge(b, INF_QUOTA_FDS, 1));
	inf_quota_explain(b, INF_QUOTA_FDS, 1, text, sizeof(text));
	assert_string_equal(text,
		"all users together hold 8 of 8 descriptors, 1 more asked for (LimitNOFILE of inferd's service)");
	inf_quota_discharge(a, INF_QUOTA_FDS, 1);
	assert_true(inf_quota_charge(b, INF_QUOTA_FDS, 1));
	inf_quota_discharge(b, INF_QUOTA_FDS, 3);
	inf_quota_discharge(a, INF_QUOTA_FDS, 5);
	assert_int_equal(quota.all_users.used[INF_QUOTA_FDS], 0);
	inf_quota_user_unref(a);
	inf_quota_user_unref(b);
	inf_quota_deinit(&quota);
}

/* A limit that the configuration does not set is at most an eighth of what all users together may hold; one that it
 * sets is taken as written. */
static void test_share(void **state)
{
	static const struct inf_quota_machine large = { UINT64_MAX, UINT64_MAX, 0 }, small = { 160, 1 << 20, 0 };
	struct inf_config_user camera = { .limits = { .bytes = 5 << 20, .given = INF_LIMIT_BIT_BYTES } };
	struct inf_quota_rule rule = { 5, &camera };
	struct inf_limits own = { .connections = 256, .methods = 1024, .fds = 4096, .bytes = 2U << 30 };
	struct inf_quota quota;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &own, &rule, 1);
	inf_quota_divide(&quota, &small);
	struct inf_quota_user *user = inf_quota_take_user(&quota, 7), *other = inf_quota_take_user(&quota, 5);
	assert_int_equal(user->limits[INF_QUOTA_CONNECTIONS], 10); /* of 80 */
	assert_int_equal(user->limits[INF_QUOTA_FDS], 10);
	assert_int_equal(user->limits[INF_QUOTA_METHODS], 1024);
	assert_int_equal(user->limits[INF_QUOTA_BYTES], (1 << 20) * 7 / 8 / 8);
	assert_int_equal(other->limits[INF_QUOTA_FDS], 10);
	assert_int_equal(other->limits[INF_QUOTA_BYTES], 5 << 20);
	own.given = INF_LIMIT_BIT_FDS | INF_LIMIT_BIT_CONNECTIONS;
	inf_quota_configure(&quota, &own, &rule, 1);
	assert_int_equal(user->limits[INF_QUOTA_CONNECTIONS], 256);
	assert_int_equal(user->limits[INF_QUOTA_FDS], 4096);
	assert_int_equal(user->limits[INF_QUOTA_BYTES], (1 << 20) * 7 / 8 / 8);
	own.given = 0;
	inf_quota_configure(&quota, &own, &rule, 1);
	inf_quota_divide(&quota, &large); /* a large machine: the configured defaults */
	assert_int_equal(user->limits[INF_QUOTA_CONNECTIONS], 256);
	assert_int_equal(user->limits[INF_QUOTA_FDS], 4096);
	assert_int_equal(user->limits[INF_QUOTA_BYTES], 2U << 30);
	inf_quota_user_unref(user);
	inf_quota_user_unref(other);
	inf_quota_deinit(&quota);
}

/* The process for a user's programs may hold what it holds already, whatever account of the user pays for it, and what
 * is free. */
static void test_program_room(void **state)
{
	struct inf_quota quota;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &limits, NULL, 0);
	struct inf_quota_user *user = inf_quota_take_user(&quota, 7), *manager = inf_quota_take_manager(&quota, 7);
	struct inf_quota_user *other = inf_quota_take_user(&quota, 8);
	assert_int_equal(inf_quota_program_room(user), 1000);
	assert_true(inf_quota_charge(user, INF_QUOTA_BYTES, 700)); /* a region */
	assert_int_equal(inf_quota_program_room(user), 300);
	assert_true(inf_quota_charge(user, INF_QUOTA_BYTES, 200)); /* a program */
	inf_quota_count_program(user, 200);
	assert_int_equal(inf_quota_program_room(user), 300);
	assert_true(inf_quota_charge(manager, INF_QUOTA_BYTES, 50));
	inf_quota_count_program(manager, 50);
	assert_int_equal(inf_quota_program_room(user), 350);
	assert_true(inf_quota_charge(other, INF_QUOTA_BYTES, 60));
	inf_quota_count_program(other, 60);
	assert_int_equal(inf_quota_program_room(user), 350);
	inf_quota_count_program(user, (uint64_t)-200);
	inf_quota_discharge(user, INF_QUOTA_BYTES, 900);
	inf_quota_discharge(manager, INF_QUOTA_BYTES, 50);
	inf_quota_count_program(manager, (uint64_t)-50);
	inf_quota_discharge(other, INF_QUOTA_BYTES, 60);
	assert_int_equal(inf_quota_program_room(user), 1000);
	inf_quota_user_unref(user);
	inf_quota_user_unref(manager);
	inf_quota_user_unref(other);
	inf_quota_deinit(&quota);
}

/* Bytes of all users together have a limit, too, without those set aside for models. */
static void test_max_bytes(void **state)
{
	struct inf_limits own = limits;
	struct inf_quota quota;
	char text[200];
	own.bytes = 600;
	own.given = INF_LIMIT_BIT_BYTES;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &own, NULL, 0);
	inf_quota_divide(&quota, &(struct inf_quota_machine){ UINT64_MAX, 1600, 400 });
	struct inf_quota_user *a = inf_quota_take_user(&quota, 1), *b = inf_quota_take_user(&quota, 2);
	assert_true(inf_quota_charge(a, INF_QUOTA_BYTES, 600));
	assert_false(inf_quota_charge(b, INF_QUOTA_BYTES, 401));
	inf_quota_explain(b, INF_QUOTA_BYTES, 401, text, sizeof(text));
	assert_string_equal(text,
		"all users together hold 600 of 1000 bytes, 401 more asked for (memory of the machine, or of inferd's "
		"service)");
	assert_true(inf_quota_charge(b, INF_QUOTA_BYTES, 400));
	inf_quota_discharge(a, INF_QUOTA_BYTES, 600);
	inf_quota_discharge(b, INF_QUOTA_BYTES, 400);
	inf_quota_divide(&quota, &(struct inf_quota_machine){ UINT64_MAX, 1600, UINT64_MAX });
	assert_int_equal(quota.all_users.max[INF_QUOTA_BYTES], 400); /* models do not get everything */
	inf_quota_user_unref(a);
	inf_quota_user_unref(b);
	inf_quota_deinit(&quota);
}

/* A manager gets in whatever all users hold, the same user among them, and whatever the limits say. */
static void test_manager(void **state)
{
	struct inf_limits own = { .given = INF_LIMIT_BIT_CONNECTIONS | INF_LIMIT_BIT_FDS, .opens = 1 };
	struct inf_config_user section = { .limits = { .fds = 40, .given = INF_LIMIT_BIT_FDS } };
	struct inf_quota_rule rule = { 1, &section };
	struct inf_quota quota;
	uint64_t n = 0;
	char text[200];
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &own, &rule, 1);
	divide_fds(&quota, 40);
	struct inf_quota_user *user = inf_quota_take_user(&quota, 1), *manager = inf_quota_take_manager(&quota, 1);
	assert_ptr_not_equal(user, manager);
	assert_ptr_equal(inf_quota_take_manager(&quota, 1), manager);
	inf_quota_user_unref(manager);
	assert_true(inf_quota_charge(user, INF_QUOTA_FDS, 40));
	assert_true(inf_quota_charge(user, INF_QUOTA_OPENS, 1));
	assert_true(inf_quota_charge(manager, INF_QUOTA_OPENS, 1));
	assert_true(inf_quota_charge(manager, INF_QUOTA_CONNECTIONS, 1));
	while (inf_quota_charge(manager, INF_QUOTA_FDS, 1)) /* not without end: users' part stays theirs */
		n++;
	assert_int_equal(n, 40 / 8 + 4);
	inf_quota_explain(manager, INF_QUOTA_FDS, 1, text, sizeof(text));
	assert_non_null(strstr(text, "the limit 'fds' of user 1 is reached: 9 of 9"));
	inf_quota_user_unref(user);
	inf_quota_user_unref(manager);
	inf_quota_deinit(&quota);
}

/* inf_quota_charge_all charges all or nothing, and the sentence names the charge that did not fit. */
static void test_all_at_once(void **state)
{
	const struct inf_charge charges[] = { { INF_QUOTA_REGIONS, 1 }, { INF_QUOTA_FDS, 2 },
		{ INF_QUOTA_BYTES, 400 } };
	struct inf_quota quota;
	char text[200] = "";
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &limits, NULL, 0);
	struct inf_quota_user *user = inf_quota_take_user(&quota, 7);
	assert_true(inf_quota_charge_all(user, charges, 3, text, sizeof(text)));
	assert_true(inf_quota_charge_all(user, charges, 3, text, sizeof(text)));
	assert_string_equal(text, "");
	assert_false(inf_quota_charge_all(user, charges, 3, text, sizeof(text)));
	assert_string_equal(text, "the limit 'bytes' of user 7 is reached: 800 of 1000 in use, 400 more asked for");
	assert_int_equal(user->used[INF_QUOTA_REGIONS], 2);
	assert_int_equal(user->used[INF_QUOTA_FDS], 4);
	inf_quota_discharge_all(user, charges, 3);
	inf_quota_discharge_all(user, charges, 3);
	for (int kind = 0; kind < INF_N_QUOTAS; kind++)
		assert_int_equal(user->used[kind], 0);
	assert_int_equal(quota.all_users.used[INF_QUOTA_FDS], 0);
	inf_quota_user_unref(user);
	inf_quota_deinit(&quota);
}

/* A user who comes back has the share of the queues that it had, unless too many users came and went meanwhile. */
static void test_comes_back(void **state)
{
	struct inf_quota quota;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &limits, NULL, 0);
	for (uint32_t n_others = 0; n_others < 2 * INF_QUOTA_MAX_ABSENT; n_others++) {
		struct inf_quota_user *user = inf_quota_take_user(&quota, 1);
		struct inf_use *use = &user->groups[3].classes[INF_CLASS_BATCH].use;
		use->virtual_ns = 5;
		inf_quota_user_unref(user);
		for (uint32_t i = 0; i < n_others; i++)
			inf_quota_user_unref(inf_quota_take_user(&quota, 1000 * (n_others + 1) + i));
		assert_true(quota.n_absent <= INF_QUOTA_MAX_ABSENT);
		user = inf_quota_take_user(&quota, 1);
		use = &user->groups[3].classes[INF_CLASS_BATCH].use;
		assert_int_equal(use->virtual_ns, n_others < INF_QUOTA_MAX_ABSENT ? 5 : 0);
		assert_int_equal(user->groups[3].weight, 1);
		inf_quota_user_unref(user);
	}
	inf_quota_deinit(&quota);
}

static void test_rules(void **state)
{
	struct inf_config_user camera = { .weight = 3,
		.limits = { .methods = 1, .given = INF_LIMIT_BIT_METHODS | INF_LIMIT_BIT_WEIGHT } };
	struct inf_quota_rule rule = { 5, &camera };
	struct inf_quota quota;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &limits, &rule, 1);
	struct inf_quota_user *user = inf_quota_take_user(&quota, 5);
	assert_int_equal(user->weight, 3);
	assert_int_equal(user->groups[INF_QUEUES_MAX - 1].weight, 3);
	assert_true(inf_quota_charge(user, INF_QUOTA_METHODS, 1));
	assert_false(inf_quota_charge(user, INF_QUOTA_METHODS, 1));
	assert_true(inf_quota_charge(user, INF_QUOTA_REGIONS, 4));

	inf_quota_configure(&quota, &limits, NULL, 0);
	assert_int_equal(user->weight, 1);
	assert_int_equal(user->groups[0].weight, 1);
	assert_true(inf_quota_charge(user, INF_QUOTA_METHODS, 2));
	inf_quota_configure(&quota, &limits, &rule, 1); /* 3 in use, 1 allowed */
	assert_false(inf_quota_charge(user, INF_QUOTA_METHODS, 1));
	assert_true(inf_quota_charge(user, INF_QUOTA_METHODS, 0)); /* charging nothing is never refused */
	inf_quota_discharge(user, INF_QUOTA_METHODS, 3);
	assert_true(inf_quota_charge(user, INF_QUOTA_METHODS, 1));
	inf_quota_user_unref(user);
	inf_quota_deinit(&quota);
}

/* Groups: the most generous section wins key by key, and the user's own section wins over groups. */
static void test_groups(void **state)
{
	enum { VIDEO = 44, VISITORS = 45, NONE = 46, ME = 5 };
	struct inf_config_user me = { .weight = 1, .limits = { .methods = 2, .given = INF_LIMIT_BIT_METHODS } };
	struct inf_config_user video = { .weight = 9,
		.limits = { .methods = 100,
			.regions = 10,
			.priority = 0,
			.bytes = 5000,
			.own_programs = true,
			.given = INF_LIMIT_BIT_METHODS | INF_LIMIT_BIT_REGIONS | INF_LIMIT_BIT_PRIORITY |
				 INF_LIMIT_BIT_BYTES | INF_LIMIT_BIT_OWN_PROGRAMS | INF_LIMIT_BIT_WEIGHT } };
	struct inf_config_user visitors = { .weight = 4,
		.limits = { .regions = 1,
			.priority = 3,
			.bytes = 6000,
			.opens = 2,
			.own_programs = false,
			.given = INF_LIMIT_BIT_REGIONS | INF_LIMIT_BIT_PRIORITY | INF_LIMIT_BIT_BYTES |
				 INF_LIMIT_BIT_OPENS | INF_LIMIT_BIT_OWN_PROGRAMS | INF_LIMIT_BIT_WEIGHT } };
	struct inf_quota_rule rules[] = { { VISITORS, &visitors, true }, { VIDEO, &video, true }, { ME, &me, false },
		{ VIDEO, &me, false } }; /* a user whose number is the group's */
	const gid_t many[] = { 1, 2, VISITORS, 3, VIDEO }, visitor[] = { NONE, VISITORS }, none[] = { NONE };
	struct inf_limits all = limits;
	struct inf_quota quota;
	all.own_programs = true;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &all, rules, 4);
	assert_true(inf_quota_has_groups(&quota));

	struct inf_quota_user *user = inf_quota_take_user(&quota, ME);
	inf_quota_add_groups(user, none, 1);
	assert_int_equal(user->limits[INF_QUOTA_REGIONS], limits.regions);
	assert_true(user->may_bring && user->weight == 1);
	inf_quota_add_groups(user, visitor, 2); /* less than [limits] */
	assert_int_equal(user->limits[INF_QUOTA_REGIONS], 1);
	assert_int_equal(user->limits[INF_QUOTA_OPENS], 2);
	assert_int_equal(user->limits[INF_QUOTA_BYTES], 6000);
	assert_int_equal(user->highest, 3);
	assert_true(!user->may_bring && user->weight == 4);
	inf_quota_add_groups(user, many, 5);
	assert_int_equal(user->limits[INF_QUOTA_REGIONS], 10);
	assert_int_equal(user->limits[INF_QUOTA_OPENS], 2);
	assert_int_equal(user->limits[INF_QUOTA_BYTES], 6000);
	assert_int_equal(user->limits[INF_QUOTA_METHODS], 2); /* its own section */
	assert_int_equal(user->highest, 0);
	assert_true(user->may_bring && user->weight == 9 && user->groups[0].weight == 9);
	inf_quota_add_groups(user, visitor, 2); /* takes nothing away */
	assert_int_equal(user->limits[INF_QUOTA_REGIONS], 10);

	/* a reload forgets them until they are added again; a new first connection does, too */
	inf_quota_configure(&quota, &all, rules, 4);
	assert_int_equal(user->limits[INF_QUOTA_REGIONS], limits.regions);
	inf_quota_add_groups(user, many, 5);
	inf_quota_user_unref(user);
	user = inf_quota_take_user(&quota, ME);
	assert_int_equal(user->limits[INF_QUOTA_REGIONS], limits.regions);
	assert_int_equal(user->weight, 1);
	inf_quota_user_unref(user);

	inf_quota_configure(&quota, &all, rules + 2, 2);
	assert_false(inf_quota_has_groups(&quota));
	inf_quota_deinit(&quota);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_priorities),
		cmocka_unit_test(test_unpaid),
		cmocka_unit_test(test_users_apart),
		cmocka_unit_test(test_max_fds),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_program_room),
		cmocka_unit_test(test_max_bytes),
		cmocka_unit_test(test_manager),
		cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_comes_back),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_groups),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
