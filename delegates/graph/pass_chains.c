/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains of elementwise operators become one node each: the first operator with the others as its steps. */
#include "delegates/graph/fuse.h"
#include "delegates/graph/operators.h"
#include "delegates/graph/passes.h"

static bool can_start(const struct et_graph_node *node)
{
	return et_graph_operator_is_step(node->op);
}

enum et_status et_graph_fuse_chains(struct et_graph *graph, struct et_diag *diag)
{
	return et_graph_fuse(graph, can_start, diag);
}
