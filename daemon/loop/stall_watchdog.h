/* SPDX-License-Identifier: BSD-3-Clause */
/* Stall watchdog: finds workers that do not come back from an instruction.
 *
 * An instruction cannot be interrupted, and some rightly take long. So a worker that is in one for longer than
 * `stall` does not end the daemon: the watchdog logs it, puts it into the list of stuck workers, and answers its
 * client. */
#ifndef DAEMON_LOOP_STALL_WATCHDOG_H
#define DAEMON_LOOP_STALL_WATCHDOG_H

struct inf_context;

/* Check all workers. Call it about once a second. Loop thread. */
void inf_stall_watchdog_check(struct inf_context *context);

#endif
