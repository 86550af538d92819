/* SPDX-License-Identifier: BSD-3-Clause */
/* A plain interpreter of graphs, for tests of passes: a graph must give the same before and after. */
#ifndef TESTS_SUPPORT_GRAPH_EVAL_H
#define TESTS_SUPPORT_GRAPH_EVAL_H

#include "delegates/graph/graph.h"

#include <stddef.h>
#include <stdint.h>

/* Run a verified graph with its largest sizes. Inputs are made of @seed and their position; constants whose data the
 * graph does not have, of @seed and their number. The elements of all outputs, one after the other, for free(); NULL
 * with the operator's name in the diagnosis if an operator is none of those that are known here, or sizes depend on
 * data. */
double *graph_eval(const struct et_graph *graph, uint64_t seed, size_t *ret_n, struct et_diag *diag);

#endif
