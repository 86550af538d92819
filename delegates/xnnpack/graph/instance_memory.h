/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory an instance takes. */
#ifndef DELEGATES_XNNPACK_GRAPH_INSTANCE_MEMORY_H
#define DELEGATES_XNNPACK_GRAPH_INSTANCE_MEMORY_H

#include "delegates/xnnpack/graph/payload.h"

enum {
	ET_XNN_PLAN_BYTES = 256, /* of a table of XNNPACK's memory planner, for each value and node */
	ET_XNN_NODE_BYTES = 2048,
	ET_XNN_VALUE_BYTES = 512,
};

/* Bytes that XNNPACK's runtimes of a payload take before they have been told shapes, without filters. */
static inline uint64_t et_xnn_runtime_bytes(const struct et_xnn_payload *payload)
{
	return (uint64_t)payload->n_nodes * ET_XNN_NODE_BYTES + (uint64_t)payload->n_values * ET_XNN_VALUE_BYTES;
}

struct et_xnn_memory_need {
	uint64_t own;    /* runtimes and indirection tables */
	uint64_t shared; /* the largest that any moment of a run takes of memory that all instances of a worker share */
};

/* Estimate the bytes that an instance takes with these shapes, one for each value. ET_E_OUT_OF_RESOURCES if that is
 * more than @max_bytes. @last_users: scratch, one for each value. */
enum et_status et_xnn_check_memory(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes,
	uint32_t *last_users, uint64_t max_bytes, struct et_xnn_memory_need *ret_need, struct et_diag *diag);
/* The bytes of the workspace that XNNPACK will plan for the values of @graph, one partition, as it is. @shapes: one for
 * each value of the whole payload. 0: the graph has too many nodes to plan it twice. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_workspace_bytes(const struct et_xnn_payload *graph, const struct et_xnn_shape *shapes,
	struct et_pool *scratch, uint64_t *ret_bytes, struct et_diag *diag);

#endif
