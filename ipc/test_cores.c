/* SPDX-License-Identifier: BSD-3-Clause */
/* How many cores a cgroup's quota leaves, from files in a temporary folder, and when cores count as busy. */
#include "ipc/cores.h"

#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

static char root[64];

static int setup(void **state)
{
	snprintf(root, sizeof(root), "/tmp/inferd-test-cores-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int teardown(void **state)
{
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Write @text to the file @path below the root, and make its folders. */
static void put(const char *path, const char *text)
{
	char name[PATH_MAX];
	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (char *slash = name + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		mkdir(name, 0700);
	}
	FILE *file = fopen(name, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static uint32_t quota(const char *membership)
{
	char path[PATH_MAX];
	put("membership", membership);
	snprintf(path, sizeof(path), "%s/membership", root);
	return inf_cores_of_quota(path, root);
}

static void test_no_quota(void **state)
{
	assert_int_equal(inf_cores_of_quota("/nonexistent", root), UINT32_MAX);
	assert_int_equal(quota(""), UINT32_MAX);
	assert_int_equal(quota("0::/not/mounted\n"), UINT32_MAX);
	put("a/cpu.max", "max 100000\n");
	assert_int_equal(quota("0::/a\n"), UINT32_MAX);
}

static void test_version_2(void **state)
{
	put("a/cpu.max", "150000 100000\n");
	assert_int_equal(quota("0::/a\n"), 1);
	assert_int_equal(quota("0::/a/b/c\n"), 1); /* b and c are not mounted, or have none */
	put("a/b/cpu.max", "50000 100000\n");
	assert_int_equal(quota("0::/a/b\n"), 0);
	put("a/b/cpu.max", "800000 100000\n");
	assert_int_equal(quota("0::/a/b\n"), 1); /* the least of the path */
	put("a/cpu.max", "max 100000\n");
	assert_int_equal(quota("0::/a/b\n"), 8);
	put("cpu.max", "300000 100000\n"); /* a container's own root */
	assert_int_equal(quota("0::/\n"), 3);
	assert_int_equal(quota("0::/../outside\n"), 3);
}

static void test_version_1(void **state)
{
	put("cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
	put("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
	assert_int_equal(quota("3:memory:/a\n4:cpu,cpuacct:/a\n0::/\n"), 2);
	put("cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
	assert_int_equal(quota("4:cpu,cpuacct:/a\n"), UINT32_MAX);
	put("cpu/cpu.cfs_quota_us", "150000\n");
	put("cpu/cpu.cfs_period_us", "50000\n");
	assert_int_equal(quota("1:cpu:/a/path/of/the/host\n"), 3);
	assert_int_equal(quota("1:cpuset:/\n"), UINT32_MAX);
}

static void test_nonsense(void **state)
{
	put("a/cpu.max", "");
	assert_int_equal(quota("0::/a\n"), UINT32_MAX);
	put("a/cpu.max", "100000 0\n");
	assert_int_equal(quota("0::/a\n"), UINT32_MAX);
	put("a/cpu.max", "99999999999999999999 1\n");
	assert_int_equal(quota("0::/a\n"), UINT32_MAX);
	assert_int_equal(quota("0:\nx\n::\n:::::\n"), UINT32_MAX);
}

/* The daemon's own threads and its client do not count. */
static void test_busy(void **state)
{
	assert_false(inf_cores_are_busy_by("0.10 0.20 0.30 1/200 4711\n", 4, 4));
	assert_false(inf_cores_are_busy_by("0.10 0.20 0.30 4/200 4711\n", 4, 4));
	assert_true(inf_cores_are_busy_by("0.10 0.20 0.30 5/200 4711\n", 4, 4));
	assert_true(inf_cores_are_busy_by("0.10 0.20 0.30 4/200 4711\n", 2, 2));
	assert_false(inf_cores_are_busy_by("0.10 0.20 0.30 12/900 4711\n", 64, 64));
	assert_true(inf_cores_are_busy_by("0.10 0.20 0.30 40/900 4711\n", 64, 64));
	assert_false(inf_cores_are_busy_by("0.10 0.20 0.30 12/900 4711\n", 64, 4));
	assert_false(inf_cores_are_busy_by("", 4, 4));
	assert_false(inf_cores_are_busy_by("nonsense", 4, 4));
}

static void test_at_least_one(void **state)
{
	assert_true(inf_n_cores() >= 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_quota, setup, teardown),
		cmocka_unit_test_setup_teardown(test_version_2, setup, teardown),
		cmocka_unit_test_setup_teardown(test_version_1, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_at_least_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
