/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to the service manager, in the protocol that sd_notify(3) documents.
 *
 * What must always be true: no call blocks. sd_notify blocks while the manager's socket is full, so a manager that
 * is slow or reads nothing would stop the loop or keep the daemon from ending. Periodic messages and STOPPING are
 * dropped when the socket is full. READY and RELOADING must arrive: the last one of each is kept, and sent in order
 * before the next message that finds room. */
#include "daemon/loop/notify.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

/* False: the socket is full. */
static bool tell(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t n = path ? strlen(path) : 0;
	if (n < 2 || n >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@')) {
		if (path) /* another kind of address: leave it to libsystemd */
			sd_notify(0, text);
		return true;
	}
	memcpy(address.sun_path, path, n);
	if (path[0] == '@') /* an abstract name */
		address.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	ssize_t rc = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	bool is_full = rc < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM);
	close(fd);
	return !is_full;
}

/* Messages that must arrive and are not sent yet; empty: none. */
static char reloading[80], ready[1000];

static bool tell_kept(char *text)
{
	if (text[0] && !tell(text))
		return false;
	text[0] = '\0';
	return true;
}

/* False: the socket is full. */
static bool tell_all_kept(void)
{
	return tell_kept(reloading) && tell_kept(ready);
}

static void tell_unless_full(const char *text)
{
	if (tell_all_kept())
		tell(text);
}

void inf_notify_ready(const char *status)
{
	snprintf(ready, sizeof(ready), "READY=1\nSTATUS=%s", status);
	tell_all_kept();
}

void inf_notify_status(const char *status)
{
	char text[1000];
	snprintf(text, sizeof(text), "STATUS=%s", status);
	tell_unless_full(text);
}

void inf_notify_reloading(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(reloading, sizeof(reloading), "RELOADING=1\nMONOTONIC_USEC=%llu",
		(unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
	ready[0] = '\0'; /* it ended an earlier reload; this one ends with another */
	tell_all_kept();
}

void inf_notify_stopping(void)
{
	tell_unless_full("STOPPING=1\nSTATUS=Letting running requests end");
}

void inf_notify_alive(void)
{
	tell_unless_full("WATCHDOG=1");
}

uint64_t inf_notify_watchdog_ns(void)
{
	uint64_t us;
	return sd_watchdog_enabled(0, &us) > 0 ? us * 1000 : 0;
}
