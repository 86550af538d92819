/* SPDX-License-Identifier: BSD-3-Clause */
/* Serve: answer inferd's calls with a plug-in's functions, in a host process or on a thread of inferd. */
#ifndef DELEGATES_PLUGIN_HOST_SERVE_H
#define DELEGATES_PLUGIN_HOST_SERVE_H

#include "delegates/inferd-delegate.h"

#include <stdbool.h>

struct et_serve_options {
	int calls, asks; /* the host's ends of both sockets; et_plugin_serve closes them, unless is_process */
	bool is_process; /* a process of its own: enter the sandbox, and end within 5 s when inferd is gone */
	const struct inferd_delegate *table; /* serve this table, instead of a plug-in's; NULL: the plug-in of START */
	/* Write the stand-in program of a payload, see delegates/program/engine.h; NULL: there are none. */
	int (*describe)(void *self, const struct inferd_delegate_payload *payload, uint8_t **ret_bytes,
		size_t *ret_n_bytes, struct inferd_delegate_message *message);
	bool is_strict; /* enter the strict sandbox */
};

/* Answer calls until the other side closes its end, then free everything. Starts threads, which have ended when it
 * returns. 0, or negative errno if a packet was malformed or could not be sent. */
int et_plugin_serve(const struct et_serve_options *options);

#endif
