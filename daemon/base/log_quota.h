/* SPDX-License-Identifier: BSD-3-Clause */
/* Log quota: how many lines of the log one user may cause, for each kind of line.
 *
 * Some lines concern what a client did: an open that failed, a connection that was ended. Each user may cause a few of
 * each kind in a minute; further ones are counted instead, and the count is logged later. Loop thread only. */
#ifndef DAEMON_BASE_LOG_QUOTA_H
#define DAEMON_BASE_LOG_QUOTA_H

#include "runtime/base/log.h"

#include <stdbool.h>
#include <stdint.h>

enum inf_log_kind {
	INF_LOG_OPENS,    /* an open failed */
	INF_LOG_LOADS,    /* a load, with all lines about its model */
	INF_LOG_SESSIONS, /* a connection was refused or ended */
	INF_LOG_RUNS,     /* a request was given up */
	INF_N_LOG_KINDS,
};

enum { INF_LOG_QUOTA_LINES = 10 };
#define INF_LOG_QUOTA_WINDOW_NS UINT64_C(60000000000)

/* All zeros is a quota of which nothing is used. */
struct inf_log_quota {
	struct {
		uint64_t until_ns; /* end of the present minute; 0: none */
		uint32_t n_lines, n_suppressed;
	} kinds[INF_N_LOG_KINDS];
};

/* Whether one more line of that kind may be logged at @now_ns; else it is counted. NULL: always. */
bool inf_log_quota_take(struct inf_log_quota *quota, enum inf_log_kind kind, uint64_t now_ns);
/* Log how many lines of each kind were not logged because of user @uid, once their minute is over; @is_final: at once.
 */
void inf_log_quota_report(struct inf_log_quota *quota, const struct et_log *log, unsigned long uid, uint64_t now_ns,
	bool is_final);

#endif
