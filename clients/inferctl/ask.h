/* SPDX-License-Identifier: BSD-3-Clause */
/* Ask: questions about the daemon itself, one at a time, over the plain messages of ipc/message.h. libinferd runs
 * models; what an administrator wants to know is asked here. */
#ifndef CLIENTS_INFERCTL_ASK_H
#define CLIENTS_INFERCTL_ASK_H

#include "clients/inferctl/ctl.h"
#include "ipc/message.h"

struct ctl_ask;

/* Connect to the daemon's socket, or (@is_manager) to its manager's, and greet it. A daemon that has no room for this
 * user's connection is asked at its manager's socket, if this user may. On failure returns -1 with the
 * sentence and the next step in @error. */
int ctl_ask_open(struct ctl_ask **ret, const struct ctl *ctl, bool is_manager, char *error, size_t error_size);
/* Send @request (its id is set here) and wait for the answer, which is valid until the next call. 0; a positive
 * enum inf_status when the daemon refused; -1 when the connection failed. @error has the sentence of either. */
int ctl_ask(struct ctl_ask *ask, struct inf_request *request, struct inf_reply *ret_reply, char *error,
	size_t error_size);
/* NULL is fine. */
void ctl_ask_close(struct ctl_ask *ask);

/* All in one: connect, ask one question, complain on stderr. The caller closes *ret_ask when done with the reply.
 * CTL_OK or CTL_FAILED. */
int ctl_ask_once(const struct ctl *ctl, bool is_manager, struct inf_request *request, struct ctl_ask **ret_ask,
	struct inf_reply *ret_reply);

/* The path of the socket in use. */
const char *ctl_socket_path(const struct ctl *ctl);

#endif
