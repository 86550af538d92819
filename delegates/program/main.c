/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd-program-host: the process that runs the programs which one user brings. Only inferd starts it, and hands it
 * two sockets. It is a plug-in's host with the engine of this folder in place of the plug-in, and a tighter sandbox. */
#include "delegates/plugin/host/serve.h"
#include "delegates/plugin/wire.h"
#include "delegates/program/engine.h"
#include "runtime/platform/platform.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define OOM_SCORE "500"         /* of 1000, beside the share of memory that it uses */
enum { STACK_BYTES = 1 << 20 }; /* stacks count for the process's memory limit, used or not */

static bool is_socket(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static void set_stack_size(void)
{
	pthread_attr_t attr;
	if (pthread_attr_init(&attr))
		return;
	if (pthread_attr_setstacksize(&attr, STACK_BYTES) == 0)
		pthread_setattr_default_np(&attr);
	pthread_attr_destroy(&attr);
}

/* If the machine's memory ends, the kernel is to end such a process before inferd, which serves all users. */
static void offer_to_be_killed(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, OOM_SCORE, sizeof OOM_SCORE - 1) < 0)
		fputs("/proc/self/oom_score_adj can't be written\n", stderr);
	close(fd);
}

int main(void)
{
	if (!is_socket(ET_PLUGIN_CALLS_FD) || !is_socket(ET_PLUGIN_ASKS_FD)) {
		fputs("inferd-program-host is started by inferd\n", stderr);
		return 2;
	}
	/* line by line, so that what is printed reaches the log even if the process ends in the next moment */
	setvbuf(stdout, NULL, _IOLBF, 0);
	et_platform_install_sigbus_guard(); /* clients' memory */
	set_stack_size();
	offer_to_be_killed();
	et_program_warm(); /* reads what the processor can do, which the sandbox forbids afterwards */
	struct et_serve_options options = {
		.calls = ET_PLUGIN_CALLS_FD,
		.asks = ET_PLUGIN_ASKS_FD,
		.is_process = true,
		.table = &et_program_engine,
		.describe = et_program_describe,
		.is_strict = true,
	};
	int rc = et_plugin_serve(&options);
	fflush(stdout);
	_exit(rc < 0);
}
