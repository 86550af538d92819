/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory and how many cores a cgroup leaves, from files in a temporary folder. */
#include "runtime/platform/cgroup.h"
#include "runtime/platform/platform.h"

#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static char root[64];

static int setup(void **state)
{
	snprintf(root, sizeof(root), "/tmp/inferd-test-cgroup-XXXXXX");
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

static void put_mib(const char *path, unsigned n)
{
	char text[32];
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)(n * MIB));
	put(path, text);
}

/* The room in MiB; -1: no limit. */
static long room(const char *membership)
{
	char path[PATH_MAX];
	put("membership", membership);
	snprintf(path, sizeof(path), "%s/membership", root);
	uint64_t n = et_platform_cgroup_memory_room(path, root);
	return n == UINT64_MAX ? -1 : (long)(n / MIB);
}

static void test_no_limit(void **state)
{
	assert_true(et_platform_cgroup_memory_room("/nonexistent", root) == UINT64_MAX);
	assert_int_equal(room(""), -1);
	assert_int_equal(room("0::/not/mounted\n"), -1);
	put("a/memory.max", "max\n");
	put("a/memory.high", "max\n");
	put_mib("a/memory.current", 100);
	assert_int_equal(room("0::/a\n"), -1);
}

/* The room leaves a reserve of 256 MiB, or a quarter of less than 1 GiB. */
static void test_version_2(void **state)
{
	put_mib("a/memory.max", 2048);
	put_mib("a/memory.current", 1024);
	assert_int_equal(room("0::/a\n"), 768);
	put("a/memory.stat", "anon 5\nfile 9\ninactive_anon 7\ninactive_file 104857600\nactive_file 5\n");
	assert_int_equal(room("0::/a/b\n"), 868);
	put_mib("a/memory.high", 1536);
	assert_int_equal(room("0::/a\n"), 356);
	put_mib("a/b/memory.max", 400);
	put_mib("a/b/memory.current", 100);
	assert_int_equal(room("0::/a/b\n"), 200);
	put_mib("a/b/memory.current", 500); /* it may be over memory.high */
	assert_int_equal(room("0::/a/b\n"), 0);
}

static void test_version_1(void **state)
{
	put("memory/a/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
	put_mib("memory/a/memory.usage_in_bytes", 100);
	assert_int_equal(room("4:memory:/a\n0::/\n"), -1);
	put_mib("memory/a/memory.limit_in_bytes", 1024);
	assert_int_equal(room("4:memory:/a\n"), 668);
	put("memory/a/memory.limit_in_bytes", "9223372036854771712\n");
	put_mib("memory/memory.limit_in_bytes", 2048);
	put_mib("memory/memory.usage_in_bytes", 1100);
	put("memory/memory.stat", "inactive_file 5\ntotal_inactive_file 104857600\n");
	assert_int_equal(room("4:memory:/a\n0::/\n"), 792);
	assert_int_equal(room("4:cpu:/a\n"), -1);
}

static void count(void *arg, const char *folder)
{
	unsigned *n = arg;
	++*n;
}

/* Each cgroup is looked at once: every look costs the kernel time, also while a client waits. */
static void test_looks_once(void **state)
{
	char path[PATH_MAX];
	unsigned n = 0;
	put("membership", "4:memory:/a/b\n5:cpu,cpuacct:/a\n");
	snprintf(path, sizeof(path), "%s/membership", root);
	et_platform_cgroup_walk(path, root, "memory", count, &n);
	assert_int_equal(n, 3); /* /a/b, /a, and the mount */
	n = 0;
	et_platform_cgroup_walk(path, root, "cpu", count, &n);
	assert_int_equal(n, 4); /* two names that the mount may have */
	n = 0;
	put("membership", "4:memory:/\n");
	et_platform_cgroup_walk(path, root, "memory", count, &n);
	assert_int_equal(n, 1);
}

static void test_nonsense(void **state)
{
	put("a/memory.max", "");
	put("a/memory.current", "x");
	assert_int_equal(room("0::/a\n"), -1);
	put("a/memory.max", "0\n");
	put("a/memory.current", "7\n");
	put("a/memory.stat", "inactive_file 99999999\n");
	assert_int_equal(room("0::/a\n"), 0);
	assert_int_equal(room("0:\nx\n::\n:::::\n"), -1);
}

/* --- processors ---------------------------------------------------------------------------------------------- */

static uint32_t quota(const char *membership)
{
	char path[PATH_MAX];
	put("membership", membership);
	snprintf(path, sizeof(path), "%s/membership", root);
	return et_platform_cgroup_cores(path, root);
}

static void test_no_quota(void **state)
{
	assert_int_equal(et_platform_cgroup_cores("/nonexistent", root), UINT32_MAX);
	assert_int_equal(quota(""), UINT32_MAX);
	assert_int_equal(quota("0::/not/mounted\n"), UINT32_MAX);
	put("a/cpu.max", "max 100000\n");
	assert_int_equal(quota("0::/a\n"), UINT32_MAX);
}

static void test_quota_of_version_2(void **state)
{
	put("a/cpu.max", "150000 100000\n");
	assert_int_equal(quota("0::/a\n"), 1);
	assert_int_equal(quota("0::/a/b/c\n"), 1); /* b and c are not mounted, or have none */
	put("a/b/cpu.max", "50000 100000\n");
	assert_int_equal(quota("0::/a/b\n"), 1); /* half a core */
	put("a/b/cpu.max", "800000 100000\n");
	assert_int_equal(quota("0::/a/b\n"), 1); /* the least of the path */
	put("a/cpu.max", "max 100000\n");
	assert_int_equal(quota("0::/a/b\n"), 8);
	put("cpu.max", "300000 100000\n"); /* a container's own root */
	assert_int_equal(quota("0::/\n"), 3);
	assert_int_equal(quota("0::/../outside\n"), 3);
}

static void test_quota_of_version_1(void **state)
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

static void test_quota_of_nonsense(void **state)
{
	put("a/cpu.max", "");
	assert_int_equal(quota("0::/a\n"), UINT32_MAX);
	put("a/cpu.max", "100000 0\n");
	assert_int_equal(quota("0::/a\n"), UINT32_MAX);
	put("a/cpu.max", "99999999999999999999 1\n");
	assert_int_equal(quota("0::/a\n"), UINT32_MAX);
	assert_int_equal(quota("0:\nx\n::\n:::::\n"), UINT32_MAX);
}

/* As many as the affinity has, or fewer if this test runs under a quota. */
static void test_affinity(void **state)
{
	cpu_set_t before, one;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_in_range(et_platform_n_cores(), 1, CPU_COUNT(&before));
	int core = 0;
	while (!CPU_ISSET(core, &before))
		core++;
	CPU_ZERO(&one);
	CPU_SET(core, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(et_platform_n_cores(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_version_2, setup, teardown),
		cmocka_unit_test_setup_teardown(test_version_1, setup, teardown),
		cmocka_unit_test_setup_teardown(test_looks_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_quota, setup, teardown),
		cmocka_unit_test_setup_teardown(test_quota_of_version_2, setup, teardown),
		cmocka_unit_test_setup_teardown(test_quota_of_version_1, setup, teardown),
		cmocka_unit_test_setup_teardown(test_quota_of_nonsense, setup, teardown),
		cmocka_unit_test(test_affinity),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
