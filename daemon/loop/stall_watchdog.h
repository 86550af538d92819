/* SPDX-License-Identifier: BSD-3-Clause */
/* Watch: workers that do not come back from an instruction.
 *
 * An instruction cannot be interrupted, and some rightly take long, so a worker that is in one for longer than `stall`
 * is not a reason to end the daemon: it is logged, shown in the status, and its client told. Loop thread only. */
#ifndef DAEMON_LOOP_STALL_WATCHDOG_H
#define DAEMON_LOOP_STALL_WATCHDOG_H

#include "runtime/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inf_server;
struct inf_stall_watchdog {
	struct et_list_node stuck;
	uint32_t n_stuck;
};

void inf_stall_watchdog_init(struct inf_stall_watchdog *watchdog);
/* All zeros is fine. */
void inf_stall_watchdog_deinit(struct inf_stall_watchdog *watchdog);
/* Look at all workers; call now and then. */
void inf_stall_watchdog_check(struct inf_server *server);
/* How many workers of the queue with that index are stuck. */
uint32_t inf_stall_watchdog_count(const struct inf_stall_watchdog *watchdog, uint32_t queue);
/* Which one that is, by the index of its queue, in the order in which they were found. False: there are not so many. */
bool inf_stall_watchdog_stuck_at(const struct inf_stall_watchdog *watchdog, uint32_t index, uint32_t *ret_queue,
	uint32_t *ret_worker);
/* A sentence for each stuck worker, in the order in which they were found. False: there are not so many. */
bool inf_stall_watchdog_describe(const struct inf_server *server, uint32_t index, char *to, size_t room);
/* The same for the thread that loads models. */
bool inf_stall_watchdog_helper(const struct inf_server *server, char *to, size_t room);

#endif
