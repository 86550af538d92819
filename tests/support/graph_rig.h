/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs from texts, and texts from graphs, for tests. */
#ifndef TESTS_SUPPORT_GRAPH_RIG_H
#define TESTS_SUPPORT_GRAPH_RIG_H

#include "delegates/graph/text.h"

struct graph_rig {
	struct et_graph graph;
	struct et_pool pool;
	struct et_diag diag;
	char *text; /* graph_rig_text's last answer */
	size_t n_text, n_room;
};

/* The graph that @text describes; its status is that of et_graph_parse. */
enum et_status graph_rig_parse(struct graph_rig *rig, const char *text);
/* The graph as text, which lives until the next call or graph_rig_deinit. */
const char *graph_rig_text(struct graph_rig *rig);
/* The same in Graphviz's language. */
const char *graph_rig_dot(struct graph_rig *rig);
void graph_rig_deinit(struct graph_rig *rig);

#endif
