/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and making a client's program takes a core that no queue has granted: the process that runs it asks nobody.
 * So that happens on a thread of a low priority, which gives way to runs, of this user's and of all others.
 *
 * The lowest priority (SCHED_IDLE) would be too low: beside runs that keep all cores busy for long, no program could be
 * opened within the time that INIT has. With this nice value it has a tenth of a core there.
 *
 * A thread that has lowered its priority may raise it again only where the service allows that (LimitNICE), so each
 * program gets a thread of its own. */
#include "delegates/plugin/host/host_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { NICE = 10 };

struct making {
	struct host *host;
	const struct et_plugin_init *init;
	int fd;
	struct et_plugin_answer *answer;
};

/* Once for a process: it is denied for good. */
static void say_denied(struct host *host, int error)
{
	static atomic_flag is_said = ATOMIC_FLAG_INIT;
	char text[160];
	if (atomic_flag_test_and_set(&is_said))
		return;
	snprintf(text, sizeof text, "clients' programs are made at the usual priority, not a low one: setpriority: %s",
		strerror(error));
	et_hosted_log(host, ET_LOG_WARNING, text);
}

static void *make(void *arg)
{
	const struct making *making = arg;
	if (setpriority(PRIO_PROCESS, 0, NICE) < 0)
		say_denied(making->host, errno);
	et_hosted_init(making->host, making->init, making->fd, making->answer);
	return NULL;
}

void et_hosted_init_at_low_priority(struct host *host, const struct et_plugin_init *init, int fd,
	struct et_plugin_answer *answer)
{
	struct making making = { host, init, fd, answer };
	pthread_t thread;
	if (pthread_create(&thread, NULL, make, &making))
		et_hosted_init(host, init, fd, answer);
	else
		pthread_join(thread, NULL);
}
