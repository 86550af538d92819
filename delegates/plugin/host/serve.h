/* SPDX-License-Identifier: BSD-3-Clause */
/* Serve: answer inferd's calls with a plug-in's functions, in a host process or on a thread of inferd. */
#ifndef DELEGATES_PLUGIN_HOST_SERVE_H
#define DELEGATES_PLUGIN_HOST_SERVE_H

#include <stdbool.h>

struct et_serve_options {
	int calls, asks; /* the host's ends of both sockets; et_plugin_serve closes them, unless is_process */
	bool is_process; /* a process of its own: enter the sandbox, and end within 5 s when inferd is gone */
};

/* Answer calls until the other side closes its end, then free everything. Starts threads, which have ended when it
 * returns. 0, or negative errno if a packet was malformed or could not be sent. */
int et_plugin_serve(const struct et_serve_options *options);

#endif
