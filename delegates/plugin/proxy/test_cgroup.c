/* SPDX-License-Identifier: BSD-3-Clause */
/* Cgroups of users' programs: in a folder that looks like one, and in the kernel's where this process may make them (as
 * root, with version 2 and its memory controller). */
#include "delegates/plugin/proxy/cgroup.h"

#include "runtime/platform/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char root[PATH_MAX / 4], folder[PATH_MAX / 2];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int setup(void **state)
{
	snprintf(root, sizeof root, "/tmp/inferd-test-cgroup-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Write @text to the file @name below the root, and make its folder. False: it can't be. */
static bool put(const char *name, const char *text)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", root, name);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		mkdir(path, 0755);
	}
	FILE *file = fopen(path, "we");
	bool is_written = file && fputs(text, file) >= 0;
	return file && fclose(file) == 0 && is_written;
}

static int find(const char *membership)
{
	char path[PATH_MAX];
	assert_true(put("membership", membership));
	snprintf(path, sizeof path, "%s/membership", root);
	return et_plugin_cgroup_find(path, root, folder, sizeof folder);
}

static void expect(const char *name, const char *text)
{
	char found[64], path[PATH_MAX], parent[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", root, name);
	snprintf(parent, sizeof parent, "%s", path);
	char *slash = strrchr(parent, '/');
	*slash = '\0';
	assert_true(et_platform_read_text(parent, slash + 1, found, sizeof found));
	assert_string_equal(found, text);
}

/* Only a process in "daemon", below a cgroup that has the controllers and can be written to, was given it. */
static void test_find(void **state)
{
	char path[PATH_MAX];
	assert_true(put("a/b/cgroup.controllers", "cpu io memory pids\n"));
	assert_true(put("a/b/cgroup.subtree_control", ""));
	assert_true(put("a/c/cgroup.controllers", "cpu pids\n"));
	assert_true(put("a/c/cgroup.subtree_control", ""));
	assert_int_equal(find("0::/a/b\n"), -ENOENT);
	assert_int_equal(find("0::/a/c/daemon\n"), -ENOENT);
	assert_int_equal(find("0::/a/d/daemon\n"), -ENOENT);
	assert_int_equal(find("4:memory:/a/b/daemon\n"), -ENOENT);
	assert_int_equal(find(""), -ENOENT);
	assert_int_equal(find("4:memory:/x\n0::/a/b/daemon\n"), 0);
	snprintf(path, sizeof path, "%s/a/b", root);
	assert_string_equal(folder, path);
	expect("a/b/cgroup.subtree_control", "+memory +pids");
	snprintf(path, sizeof path, "%s/a/b/cgroup.subtree_control", root);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(find("0::/a/b/daemon\n"), -ENOENT);
	assert_int_equal(et_plugin_cgroup_find("/nowhere", root, folder, sizeof folder), -ENOENT);
}

/* The limits are there before the process is. */
static void test_enter(void **state)
{
	char where[PATH_MAX];
	snprintf(where, sizeof where, "%s/a", root);
	assert_true(put("a/programs-7/memory.max", "") && put("a/programs-7/pids.max", ""));
	assert_int_equal(et_plugin_cgroup_enter(where, 7, 1234, 5000), -ENOENT);
	expect("a/programs-7/memory.max", "5000");
	assert_true(put("a/programs-7/cgroup.procs", ""));
	assert_int_equal(et_plugin_cgroup_enter(where, 7, 1234, 5000), 0);
	expect("a/programs-7/cgroup.procs", "1234");
	assert_true(put("a/programs-8/memory.max", "") && put("a/programs-8/pids.max", ""));
	assert_true(put("a/programs-8/cgroup.procs", ""));
	assert_int_equal(et_plugin_cgroup_enter(where, 8, 1, 0), 0);
	expect("a/programs-8/memory.max", "max");
	snprintf(where, sizeof where, "%s/b", root);
	assert_int_equal(et_plugin_cgroup_enter(where, 7, 1234, 5000), -ENOENT);
}

/* --- the kernel's ---------------------------------------------------------------------------------------------- */

enum { LIMIT = 32 << 20 };

/* In a process of its own, so that the test itself stays where it is: be inferd, with a host that touches more shared
 * memory than it may have. 77: cgroups can't be made here. */
static int be_inferd(const char *top)
{
	char path[PATH_MAX], text[32];
	int status = 0, gate[2];
	snprintf(root, sizeof root, "%s", top);
	snprintf(text, sizeof text, "%d", (int)getpid());
	snprintf(path, sizeof path, "%s/daemon", top);
	if (mkdir(top, 0755) < 0 || mkdir(path, 0755) < 0 || !put("daemon/cgroup.procs", text))
		return 77;
	if (et_plugin_cgroup_find(ET_PLATFORM_CGROUP_MEMBERSHIP, ET_PLATFORM_CGROUP_ROOT, folder, sizeof folder) < 0)
		return 77;
	if (strcmp(folder, top) != 0 || pipe(gate) < 0)
		return 1;
	pid_t host = fork();
	if (host == 0) {
		char go;
		if (read(gate[0], &go, 1) != 1)
			_exit(3);
		uint8_t *bytes = mmap(NULL, 2 * LIMIT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		memset(bytes, 1, 2 * LIMIT);
		_exit(0);
	}
	int rc = et_plugin_cgroup_enter(folder, 7, host, LIMIT);
	if (write(gate[1], "x", 1) != 1 || waitpid(host, &status, 0) != host)
		return 2;
	if (rc < 0 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		return 3;
	et_plugin_cgroup_remove(folder, 7);
	snprintf(path, sizeof path, "%s/programs-7", folder);
	return access(path, F_OK) == 0 ? 4 : 0;
}

static void test_kernel(void **state)
{
	char top[64], path[PATH_MAX];
	int status = 0;
	snprintf(top, sizeof top, "%s/inferd-test-%d", ET_PLATFORM_CGROUP_ROOT, (int)getpid());
	pid_t child = fork();
	if (child == 0)
		_exit(be_inferd(top));
	assert_int_equal(waitpid(child, &status, 0), child);
	snprintf(path, sizeof path, "%s/daemon", top);
	rmdir(path);
	rmdir(top);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_find, setup, teardown),
		cmocka_unit_test_setup_teardown(test_enter, setup, teardown),
		cmocka_unit_test(test_kernel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
