/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of run totals.
 *
 * What must always be true: each version is in the list at most once; the list is bounded, for versions come and go as
 * long as the daemon runs. */
#include "daemon/model/run_totals.h"

#include <stdlib.h>
#include <string.h>

static struct inf_run_totals *drop(struct inf_run_totals *t)
{
	et_list_remove(&t->node);
	free(t->model);
	free(t->version);
	free(t);
	return NULL;
}

void inf_run_totals_deinit(struct et_list_node *totals)
{
	while (!et_list_is_empty(totals))
		drop(ET_CONTAINER_OF(totals->next, struct inf_run_totals, node));
}

/* Take the version out of the list. NULL: it is not there; *ret_n is how many are. */
static struct inf_run_totals *take(struct et_list_node *totals, const char *model, const char *version, size_t *ret_n)
{
	*ret_n = 0;
	for (struct et_list_node *node = totals->next; node != totals; node = node->next, ++*ret_n) {
		struct inf_run_totals *t = ET_CONTAINER_OF(node, struct inf_run_totals, node);
		if (strcmp(t->model, model) == 0 && strcmp(t->version, version) == 0) {
			et_list_remove(node);
			return t;
		}
	}
	return NULL;
}

static struct inf_run_totals *make(const char *model, const char *version)
{
	struct inf_run_totals *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	et_list_init(&t->node);
	t->model = strdup(model);
	t->version = strdup(version);
	return t->model && t->version ? t : drop(t);
}

bool inf_run_totals_add(struct et_list_node *totals, const char *model, const char *version,
	const struct inf_run_stats *stats)
{
	size_t n;
	struct inf_run_counts counts = { 0 };
	inf_run_counts_add(&counts, stats);
	if (!counts.n_success && !counts.n_fail && !counts.n_runs)
		return true;
	struct inf_run_totals *t = take(totals, model, version, &n);
	if (!t && !(t = make(model, version)))
		return false;
	if (n >= INF_MAX_RUN_TOTALS)
		drop(ET_CONTAINER_OF(totals->next, struct inf_run_totals, node));
	inf_run_counts_add(&t->counts, stats);
	et_list_append(totals, &t->node);
	return true;
}
