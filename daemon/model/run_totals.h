/* SPDX-License-Identifier: BSD-3-Clause */
/* Run totals: what was counted of a version of a model, summed over its loads.
 *
 * A version can be loaded several times, one after the other and beside each other. Its sums keep what was counted of
 * loads that are over, so that they never fall. Loop thread only. */
#ifndef DAEMON_MODEL_RUN_TOTALS_H
#define DAEMON_MODEL_RUN_TOTALS_H

#include "daemon/model/run_stats.h"
#include "runtime/base/list.h"

enum { INF_MAX_RUN_TOTALS = 1024 };

struct inf_run_totals {
	struct et_list_node node;
	char *model, *version;
	struct inf_run_counts counts;
};

/* @totals: a list of struct inf_run_totals by `node`, initialized by et_list_init. */
void inf_run_totals_deinit(struct et_list_node *totals);
/* A load of @version of @model is over, of which @stats was counted. Of INF_MAX_RUN_TOTALS versions, the one whose last
 * load has been over for longest is forgotten for another one. A load without requests changes nothing. False: no
 * memory, and the load is not in the sums. */
bool inf_run_totals_add(struct et_list_node *totals, const char *model, const char *version,
	const struct inf_run_stats *stats);

#endif
