/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to the service manager: which arrive, and that a manager that never reads does not hold up the daemon. */
#include "daemon/loop/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

static int listen_abstract(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char name[64];
	int n = snprintf(name, sizeof(name), "@inferd-test-notify-%d", (int)getpid());
	memcpy(address.sun_path, name, (size_t)n);
	address.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)),
		0);
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
	return fd;
}

static void a_listener_that_never_reads_does_not_block(void **state)
{
	int fd = listen_abstract();
	for (int i = 0; i < 5000; i++) { /* far more than any queue holds */
		inf_notify_status("busy");
		inf_notify_alive();
	}
	inf_notify_stopping();
	char text[64] = "";
	assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "STATUS=busy");
	close(fd);
}

/* Kept messages arrive in order when the manager reads again, after whatever filled its socket; of each kind the
 * last one. */
static void kept_messages_arrive(void **state)
{
	int fd = listen_abstract();
	char text[400];
	ssize_t n;
	for (int i = 0; i < 5000; i++)
		inf_notify_status("busy");
	for (int i = 0; i < 3; i++) {
		inf_notify_reloading();
		snprintf(text, sizeof(text), "done %d", i);
		inf_notify_ready(text);
	}
	while ((n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT)) > 0) {
		text[n] = '\0';
		assert_string_equal(text, "STATUS=busy");
	}
	inf_notify_alive();
	static const char *const begin_with[] = { "RELOADING=1\nMONOTONIC_USEC=", "READY=1\nSTATUS=done 2",
		"WATCHDOG=1" };
	for (size_t i = 0; i < 3; i++) {
		n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
		assert_true(n > 0);
		text[n] = '\0';
		if (strncmp(text, begin_with[i], strlen(begin_with[i])) != 0)
			fail_msg("'%s', not '%s'", text, begin_with[i]);
	}
	assert_int_equal(recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT), -1);
	close(fd);
}

static void no_listener(void **state)
{
	setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
	inf_notify_status("x");
	setenv("NOTIFY_SOCKET", "relative", 1);
	inf_notify_status("x");
	unsetenv("NOTIFY_SOCKET");
	inf_notify_status("x");
	inf_notify_alive();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listener_that_never_reads_does_not_block),
		cmocka_unit_test(kept_messages_arrive),
		cmocka_unit_test(no_listener),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
