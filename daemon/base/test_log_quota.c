/* SPDX-License-Identifier: BSD-3-Clause */
/* Log quotas on a virtual clock: a few lines in a minute, and the count of the others once it is over. */
#include "daemon/base/log_quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static char lines[2000];

static void write_line(void *self, enum et_log_level level, const char *text)
{
	size_t n = strlen(lines);
	snprintf(lines + n, sizeof(lines) - n, "%d %s\n", (int)level, text);
}

static const struct et_log log_ = { .max_level = ET_LOG_INFO, .write = write_line };

static int take(struct inf_log_quota *quota, enum inf_log_kind kind, int n, uint64_t now_ns)
{
	int n_taken = 0;
	for (int i = 0; i < n; i++)
		n_taken += inf_log_quota_take(quota, kind, now_ns);
	return n_taken;
}

static void test_minute(void **state)
{
	struct inf_log_quota quota = { 0 };
	uint64_t now_ns = 5;
	lines[0] = '\0';
	assert_int_equal(take(&quota, INF_LOG_OPENS, 100, now_ns), INF_LOG_QUOTA_LINES);
	/* each kind has its own */
	assert_int_equal(take(&quota, INF_LOG_LOADS, 3, now_ns), 3);
	inf_log_quota_report(&quota, &log_, 7, now_ns + INF_LOG_QUOTA_WINDOW_NS - 1, false);
	assert_string_equal(lines, "");
	now_ns += INF_LOG_QUOTA_WINDOW_NS;
	inf_log_quota_report(&quota, &log_, 7, now_ns, false);
	assert_string_equal(lines,
		"4 user 7: 90 more opens that failed are not in the log, at most 10 in a minute are\n");
	inf_log_quota_report(&quota, &log_, 7, now_ns, true); /* once */
	assert_int_equal(strlen(lines),
		strlen("4 user 7: 90 more opens that failed are not in the log, at most 10 in a "
		       "minute are\n"));
	/* a new minute begins with its first line */
	assert_int_equal(take(&quota, INF_LOG_OPENS, 11, now_ns), INF_LOG_QUOTA_LINES);
	lines[0] = '\0';
	inf_log_quota_report(&quota, &log_, 7, now_ns, true);
	assert_non_null(strstr(lines, "user 7: 1 more opens that failed"));
}

/* A count that nobody asked for is not lost when the next minute begins. */
static void test_late_report(void **state)
{
	struct inf_log_quota quota = { 0 };
	lines[0] = '\0';
	take(&quota, INF_LOG_SESSIONS, 15, 1);
	take(&quota, INF_LOG_SESSIONS, 15, 1 + INF_LOG_QUOTA_WINDOW_NS);
	inf_log_quota_report(&quota, &log_, 7, 2 * INF_LOG_QUOTA_WINDOW_NS + 1, false);
	assert_non_null(strstr(lines, "user 7: 10 more connections"));
}

static void test_no_quota(void **state)
{
	assert_int_equal(take(NULL, INF_LOG_OPENS, 1000, 1), 1000);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_minute),
		cmocka_unit_test(test_late_report),
		cmocka_unit_test(test_no_quota),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
