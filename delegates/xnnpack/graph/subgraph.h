/* SPDX-License-Identifier: BSD-3-Clause */
/* Building XNNPACK's subgraph and runtime from a decoded payload. */
#ifndef DELEGATES_XNNPACK_GRAPH_SUBGRAPH_H
#define DELEGATES_XNNPACK_GRAPH_SUBGRAPH_H

#include "delegates/xnnpack/graph/kind.h"

#include <stdio.h>

/* What a node's define function gets. */
struct et_xnn_builder {
	const struct et_xnn_payload *payload;
	/* The shapes that the graph is made for, one for each value of the whole payload; NULL: the declared ones. */
	const struct et_xnn_shape *shapes;
	const uint32_t *ids; /* XNNPACK's ids of the values */
	xnn_subgraph_t subgraph;
};

/* Define @value for XNNPACK. @arg: the argument whose memory the value has, or @value itself. @end: the external id
 * of a value that is an output only because the graph was cut short behind it; XNN_INVALID_VALUE_ID: it is no such
 * value. */
enum xnn_status et_xnn_define_value(xnn_subgraph_t subgraph, const struct et_xnn_value *value,
	const struct et_xnn_value *arg, uint32_t end, uint32_t *ret_id);

/* "out of memory", "unsupported parameter" … Never NULL. */
const char *et_xnn_status_text(enum xnn_status status);
/* The status of the runtime for an answer of XNNPACK. */
enum et_status et_xnn_status_of(enum xnn_status status);

/* Make a subgraph of the values and the first @n_nodes nodes. XNNPACK changes a subgraph while it makes a runtime,
 * so each runtime takes a new one. @shapes: as in a builder. @ids: scratch, one for each value. On success the
 * caller deletes *@ret_subgraph. */
enum et_status et_xnn_graph_build(xnn_subgraph_t *ret_subgraph, const struct et_xnn_payload *payload,
	const struct et_xnn_shape *shapes, uint32_t n_nodes, uint32_t *ids, struct et_diag *diag);

/* The options of a runtime. */
struct et_xnn_runtime_use {
	const struct et_xnn_shape *shapes; /* as in a builder */
	xnn_weights_cache_t weights;
	xnn_workspace_t workspace;
	pthreadpool_t threads; /* NULL: none */
	uint32_t flags;        /* 0 or XNN_FLAG_BASIC_PROFILING */
};
/* Make a subgraph and its runtime, which the caller deletes. If XNNPACK refuses, the message names the node. @ids:
 * scratch, one for each value. */
enum et_status et_xnn_runtime_new(xnn_runtime_t *ret_runtime, const struct et_xnn_payload *payload,
	const struct et_xnn_runtime_use *use, uint32_t *ids, struct et_diag *diag);

#endif
