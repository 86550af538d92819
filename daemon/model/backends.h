/* SPDX-License-Identifier: BSD-3-Clause */
/* Backends: opens the daemon's backends into server->registry, and notes why others are missing. */
#ifndef DAEMON_MODEL_BACKENDS_H
#define DAEMON_MODEL_BACKENDS_H

struct inf_server;

/* Open all backends, as the configuration says. 0, even if some are missing, or -ENOMEM. */
int inf_backends_open(struct inf_server *server);
/* Close all backends. No request may run and no model may be loaded any more. Also fine after a failed open, or
 * none. */
void inf_backends_close(struct inf_server *server);

#endif
