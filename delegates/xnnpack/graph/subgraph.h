/* SPDX-License-Identifier: BSD-3-Clause */
/* From a decoded payload to XNNPACK's graph. */
#ifndef DELEGATES_XNNPACK_GRAPH_SUBGRAPH_H
#define DELEGATES_XNNPACK_GRAPH_SUBGRAPH_H

#include "delegates/xnnpack/graph/kind.h"

#include <stdio.h>

/* --- shape.c -------------------------------------------------------------------------------------- */

/* Shapes of all values. @shapes: one a value; those of the inputs are given, the others are written, also on
 * failure. If an input is empty, so may others be: those XNNPACK must not see. ET_E_INVALID_ARGUMENT or
 * ET_E_INVALID_PROGRAM if a node can't work with what it gets. */
enum et_status et_xnn_infer_shapes(const struct et_xnn_payload *payload, struct et_xnn_shape *shapes,
	struct et_diag *diag);
/* Whether a transposed convolution of XNNPACK's may fall below its stride: then it is made whole and cut, which a runtime does for
 * the shapes that it was made for alone; and whether one that was made for @a does so for @b, each one a value. */
bool et_xnn_may_be_cut(const struct et_xnn_payload *payload);
bool et_xnn_is_cut_alike(const struct et_xnn_payload *payload, const struct et_xnn_shape *a,
	const struct et_xnn_shape *b);
/* Whether XNNPACK can do its nodes with these shapes, as far as it would not say so itself. ET_E_NOT_SUPPORTED. */
enum et_status et_xnn_check_theirs(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes,
	struct et_diag *diag);
/* What a context with these shapes takes, about. ET_E_OUT_OF_RESOURCES if it is more than @max_bytes. @last_users: scratch,
 * one a value. */
enum et_status et_xnn_check_memory(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes,
	uint32_t *last_users, uint64_t max_bytes, size_t *ret_bytes, struct et_diag *diag);
/* Whether a dimension has size 0. */
bool et_xnn_is_empty(const struct et_xnn_shape *shape);
/* "[1,3,224,224]" */
void et_xnn_shape_text(const struct et_xnn_shape *shape, char *ret_text, size_t n);
/* A concatenation's axis, counted from the first; at or above @n_dims if it makes no sense. */
uint32_t et_xnn_axis(const struct et_xnn_node *node, uint32_t n_dims);

/* --- subgraph.c -------------------------------------------------------------------------------------- */

/* What a node's define function sees. */
struct et_xnn_builder {
	const struct et_xnn_payload *payload;
	const struct et_xnn_shape
		*shapes;     /* that it is made for, of the whole payload's values; NULL: as they are declared */
	const uint32_t *ids; /* what XNNPACK calls the values */
	xnn_subgraph_t subgraph;
};

/* Tell XNNPACK about @value. @arg: the argument whose memory it has, or itself. @end: the place among the arguments of one that is
 * an output only since the graph ends there; NONE: it is not. */
enum xnn_status et_xnn_define_value(xnn_subgraph_t subgraph, const struct et_xnn_value *value,
	const struct et_xnn_value *arg, uint32_t end, uint32_t *ret_id);

/* "out of memory", "unsupported parameter" … Never NULL. */
const char *et_xnn_status_text(enum xnn_status status);
enum et_status et_xnn_status_of(enum xnn_status status);

/* Define the values and the first @n_nodes nodes. Making a runtime changes a subgraph, so each runtime
 * takes a new one. @shapes: as a builder's. @ids: scratch, one a value. On success the caller deletes *@ret_subgraph. */
enum et_status et_xnn_graph_build(xnn_subgraph_t *ret_subgraph, const struct et_xnn_payload *payload,
	const struct et_xnn_shape *shapes, uint32_t n_nodes, uint32_t *ids, struct et_diag *diag);

/* What a runtime is made with. */
struct et_xnn_runtime_use {
	const struct et_xnn_shape *shapes; /* as a builder's */
	xnn_weights_cache_t weights;
	xnn_workspace_t workspace;
	pthreadpool_t threads; /* NULL: none */
	uint32_t flags;        /* 0 or XNN_FLAG_BASIC_PROFILING */
};
/* Build and make a runtime; if XNNPACK refuses, find out which node it was. @ids: scratch, one a value. */
enum et_status et_xnn_runtime_new(xnn_runtime_t *ret_runtime, const struct et_xnn_payload *payload,
	const struct et_xnn_runtime_use *use, uint32_t *ids, struct et_diag *diag);

#endif
