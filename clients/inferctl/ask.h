/* SPDX-License-Identifier: BSD-3-Clause */
/* Ask the daemon about itself: one request at a time, with the messages of ipc/message.h.
 *
 * libinferd has only what applications need, so the requests of an administrator are sent from here. */
#ifndef CLIENTS_INFERCTL_ASK_H
#define CLIENTS_INFERCTL_ASK_H

#include "clients/inferctl/ctl.h"
#include "ipc/message.h"

struct ctl_ask;

/* Connect to the daemon's socket, or to its manager socket (@is_manager), and say hello. If the daemon has no room
 * for this user's connection, try the manager socket. The caller closes *ret. On failure returns -1; @error has the
 * sentence and the next step. */
int ctl_ask_open(struct ctl_ask **ret, const struct ctl *ctl, bool is_manager, char *error, size_t error_size);
/* Send @request (its id is set here) and wait for the reply: up to 30 s, for a load without limit. The reply is valid
 * until the next call. Returns 0, a positive enum inf_status if the daemon refused, or -1 if the connection failed;
 * @error then has the sentence. */
int ctl_ask(struct ctl_ask *ask, struct inf_request *request, struct inf_reply *ret_reply, char *error,
	size_t error_size);
/* NULL is fine. */
void ctl_ask_close(struct ctl_ask *ask);

/* Connect and send one request. On CTL_OK the caller closes *ret_ask when it is done with the reply. On CTL_FAILED the
 * message is printed and there is nothing to close. */
int ctl_ask_once(const struct ctl *ctl, bool is_manager, struct inf_request *request, struct ctl_ask **ret_ask,
	struct inf_reply *ret_reply);

/* The same for the list of the repository's models. */
int ctl_ask_index(const struct ctl *ctl, struct ctl_ask **ret_ask, struct inf_reply *ret_reply);

/* The path of the socket in use. */
const char *ctl_socket_path(const struct ctl *ctl);

#endif
