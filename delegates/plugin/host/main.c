/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd-delegate-host: the process around one plug-in. Only inferd starts it, and hands it two sockets. */
#include "delegates/plugin/host/serve.h"
#include "delegates/plugin/wire.h"
#include "runtime/platform/platform.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_socket(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int main(void)
{
	if (!is_socket(ET_PLUGIN_CALLS_FD) || !is_socket(ET_PLUGIN_ASKS_FD)) {
		fputs("inferd-delegate-host is started by inferd; to try a plug-in, run "
		      "inferd-delegate-check\n",
			stderr);
		return 2;
	}
	/* line by line, so that what the library prints reaches the log even if it crashes in the next moment */
	setvbuf(stdout, NULL, _IOLBF, 0);
	et_platform_install_sigbus_guard(); /* clients' memory */
	struct et_serve_options options = { ET_PLUGIN_CALLS_FD, ET_PLUGIN_ASKS_FD, true };
	int rc = et_plugin_serve(&options);
	fflush(stdout);
	_exit(rc < 0); /* without the library's destructors: they could only hang or crash */
}
