/* SPDX-License-Identifier: BSD-3-Clause */
/* Dead queues: those none of whose workers has come back from its instruction for the configuration's `dead_queue`. */
#ifndef DAEMON_LOOP_DEAD_QUEUE_H
#define DAEMON_LOOP_DEAD_QUEUE_H

#include <stddef.h>

struct inf_context;

/* Look for dead queues, end what holds them up if that can be ended, and count the others in context->n_dead_queues.
 * Call it about once a second, after inf_stall_watchdog_check. Loop thread. */
void inf_dead_queues_check(struct inf_context *context);
/* Write "no worker of queue cpu comes back; " for each queue that is counted. Returns the length. */
size_t inf_dead_queues_describe(const struct inf_context *context, char *to, size_t room);

#endif
