/* SPDX-License-Identifier: BSD-3-Clause */
/* Closing: descriptors of clients that may take long to close.
 *
 * Each call consumes its descriptor, and closes it at once or on a helper's thread. A user pays for a descriptor
 * until it is closed. Loop thread only. */
#ifndef DAEMON_CLIENT_CLOSING_H
#define DAEMON_CLIENT_CLOSING_H

#include <stdbool.h>

struct inf_context;
struct inf_quota_user;

/* Close a descriptor that a client of @user passed beside a packet. False: the user's limit left no room to charge
 * it; it counts in user->n_surplus_fds until it is closed. */
bool inf_close_passed(struct inf_context *context, struct inf_quota_user *user, int fd);
/* Close a session's socket, which inf_channel_detach returned and for which @user is charged a descriptor. */
void inf_close_socket(struct inf_context *context, struct inf_quota_user *user, int fd);
/* Close the socket of a client of @user that was turned away, which inf_channel_detach returned. Nothing is charged
 * for it yet. */
void inf_close_turned_away(struct inf_context *context, struct inf_quota_user *user, int fd);

#endif
