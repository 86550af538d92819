/* SPDX-License-Identifier: BSD-3-Clause */
/* Serve: the host's side of a plug-in, in a process of its own or on a thread. */
#ifndef DELEGATES_PLUGIN_HOST_SERVE_H
#define DELEGATES_PLUGIN_HOST_SERVE_H

#include <stdbool.h>

struct et_serve_options {
	int calls, asks; /* taken over */
	bool is_process; /* enter the sandbox; end in a hurry when inferd is gone */
};

/* Answer until the other side closes its end, then let everything go. Starts threads, which have ended when it
 * returns. Negative errno if the other side does not speak as it should. */
int et_plugin_serve(const struct et_serve_options *options);

#endif
