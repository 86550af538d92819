/* SPDX-License-Identifier: BSD-3-Clause */
/* What the passes that fuse nodes share: who reads a value, literals, and moving a node into the one that reads it. */
#ifndef DELEGATES_GRAPH_FUSE_H
#define DELEGATES_GRAPH_FUSE_H

#include "delegates/graph/graph.h"

/* The node that makes @index, if it makes nothing else, has no steps unless @may_have_steps, and nothing but one
 * argument of one node reads its result; NULL otherwise. Counts of users must hold. */
struct et_graph_node *et_graph_only_read_once(const struct et_graph *graph, uint32_t index, bool may_have_steps);
/* The node of operator @name, without steps, that makes @index; NULL: another one. */
struct et_graph_node *et_graph_made_by(const struct et_graph *graph, uint32_t index, const char *name);

/* The number in a literal of any kind; false: it is of another kind. */
bool et_graph_number(const struct et_graph *graph, uint32_t index, double *ret_number);
/* New literals: their index, or ET_GRAPH_NONE without memory. */
uint32_t et_graph_add_int(struct et_graph *graph, int64_t i);
uint32_t et_graph_add_double(struct et_graph *graph, double d);
uint32_t et_graph_add_bool(struct et_graph *graph, bool b);
uint32_t et_graph_add_null(struct et_graph *graph);

/* Make nodes that may be steps (operators.h) steps of the node whose result they read, if nothing else reads it, it has
 * the same sizes, and @can_start says that it takes steps. The node then runs where its last step ran, so nodes that
 * read a state are left alone. Counts of users must hold; afterwards they do. */
enum et_status et_graph_fuse(struct et_graph *graph, bool (*can_start)(const struct et_graph_node *node),
	struct et_diag *diag);

#endif
