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

/* Unpaid descriptors count among those of all users, and have a bound of their own. */
static void test_unpaid(void **state)
{
	enum { MOST = 400 };
	struct inf_limits own = limits;
	struct inf_quota quota;
	uint64_t n = 0;
	own.fds = UINT32_MAX;
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &own, NULL, 0);
	inf_quota_set_max_fds(&quota, MOST);
	struct inf_quota_user *user = inf_quota_take_user(&quota, 7);
	for (; !inf_quota_is_overdrawn(&quota); n++)
		inf_quota_add_unpaid(&quota);
	assert_int_equal(n, MOST / 4 + 1);
	assert_false(inf_quota_charge(user, INF_QUOTA_FDS, MOST - n + 1));
	assert_true(inf_quota_charge(user, INF_QUOTA_FDS, MOST - n));
	inf_quota_remove_unpaid(&quota);
	assert_false(inf_quota_is_overdrawn(&quota));
	assert_true(inf_quota_charge(user, INF_QUOTA_FDS, 1));
	inf_quota_discharge(user, INF_QUOTA_FDS, MOST - n + 1);
	while (--n)
		inf_quota_remove_unpaid(&quota);
	assert_true(inf_quota_charge(user, INF_QUOTA_FDS, MOST));
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
	struct inf_quota quota;
	char text[200];
	inf_quota_init(&quota);
	inf_quota_configure(&quota, &limits, NULL, 0);
	inf_quota_set_max_fds(&quota, 8);
	struct inf_quota_user *a = inf_quota_take_user(&quota, 1), *b = inf_quota_take_user(&quota, 2);
	assert_true(inf_quota_charge(a, INF_QUOTA_FDS, 6));
	assert_true(inf_quota_charge(b, INF_QUOTA_FDS, 2));
	assert_false(inf_quota_charge(b, INF_QUOTA_FDS, 1));
	inf_quota_explain(b, INF_QUOTA_FDS, 1, text, sizeof(text));
	assert_non_null(strstr(text, "8 of the 8 descriptors"));
	inf_quota_discharge(a, INF_QUOTA_FDS, 1);
	assert_true(inf_quota_charge(b, INF_QUOTA_FDS, 1));
	inf_quota_discharge(b, INF_QUOTA_FDS, 3);
	inf_quota_discharge(a, INF_QUOTA_FDS, 5);
	assert_int_equal(quota.n_fds, 0);
	inf_quota_user_unref(a);
	inf_quota_user_unref(b);
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
	assert_int_equal(quota.n_fds, 0);
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
	struct inf_config_user camera = { .weight = 3, .limits = { .methods = 1, .given = INF_LIMIT_BIT_METHODS } };
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_priorities),
		cmocka_unit_test(test_unpaid),
		cmocka_unit_test(test_users_apart),
		cmocka_unit_test(test_max_fds),
		cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_comes_back),
		cmocka_unit_test(test_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
