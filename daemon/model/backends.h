/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's backends: server->registry, and why those that it lacks are missing. */
#ifndef DAEMON_MODEL_BACKENDS_H
#define DAEMON_MODEL_BACKENDS_H

struct inf_server;

/* Open them all, as the configuration says. 0 whatever is missing, or -ENOMEM. */
int inf_backends_open(struct inf_server *server);
/* Nothing runs and nothing is loaded any more. Also after a failure, and where nothing was opened. */
void inf_backends_close(struct inf_server *server);

#endif
