/* SPDX-License-Identifier: BSD-3-Clause */
/* Reload: the configuration read again while the daemon runs. Loop thread. */
#ifndef DAEMON_LOOP_RELOAD_H
#define DAEMON_LOOP_RELOAD_H

struct inf_server;

/* Read it and use what can change. */
void inf_reload(struct inf_server *server);
/* Users and limits as the configuration at hand says, the names of the sections looked up. */
void inf_reload_limits(struct inf_server *server);

#endif
