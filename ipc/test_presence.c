/* SPDX-License-Identifier: BSD-3-Clause */
/* Test the presence lock between two processes: the kernel releases it with its holder. */
#include "ipc/presence.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void is_seen_while_it_is_held(void **state)
{
	char folder[] = "/tmp/inferd-presence.XXXXXX", path[64], other[64];
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/a.sock", folder);
	snprintf(other, sizeof other, "%s/b.sock", folder);
	assert_false(inf_presence_is_held(path));
	int first = inf_presence_hold(path), second = inf_presence_hold(path);
	assert_true(first >= 0 && second >= 0); /* a new daemon may start while the old one ends */
	assert_true(inf_presence_is_held(path));
	assert_false(inf_presence_is_held(other));
	close(first);
	assert_true(inf_presence_is_held(path));
	close(second);
	assert_false(inf_presence_is_held(path));
	rmdir(folder);
}

static void ends_with_its_holder(void **state)
{
	char folder[] = "/tmp/inferd-presence.XXXXXX", path[64], byte;
	int told[2];
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/a.sock", folder);
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (inf_presence_hold(path) < 0 || write(told[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(told[0], &byte, 1), 1);
	assert_true(inf_presence_is_held(path));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(inf_presence_is_held(path));
	close(told[0]);
	close(told[1]);
	rmdir(folder);
}

static void what_cannot_be_found_out_counts_as_held(void **state)
{
	assert_true(inf_presence_is_held("/no/such/folder/a.sock"));
	assert_true(inf_presence_hold("/no/such/folder/a.sock") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_seen_while_it_is_held),
		cmocka_unit_test(ends_with_its_holder),
		cmocka_unit_test(what_cannot_be_found_out_counts_as_held),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
