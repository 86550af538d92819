/* SPDX-License-Identifier: BSD-3-Clause */
/* Listener: the sockets that clients connect to, made by systemd or by ourselves. Loop thread only. */
#ifndef DAEMON_LOOP_LISTENER_H
#define DAEMON_LOOP_LISTENER_H

struct inf_server;

/* Take the sockets that systemd passed, those named "manager" as manager sockets; where it passed none, make those of
 * the configuration. Negative errno, with a sentence in the log. */
int inf_listeners_open(struct inf_server *server);
/* Look again where accepting failed for want of something; call now and then. */
void inf_listeners_resume(struct inf_server *server);
/* Accept no more; remove what we made. Twice is fine. */
void inf_listeners_close(struct inf_server *server);

#endif
