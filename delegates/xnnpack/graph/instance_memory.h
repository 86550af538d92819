/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory an instance takes. */
#ifndef DELEGATES_XNNPACK_GRAPH_INSTANCE_MEMORY_H
#define DELEGATES_XNNPACK_GRAPH_INSTANCE_MEMORY_H

#include "delegates/xnnpack/graph/payload.h"

/* Estimate the bytes that an instance takes with these shapes, one for each value. ET_E_OUT_OF_RESOURCES if that is
 * more than @max_bytes. @last_users: scratch, one for each value. */
enum et_status et_xnn_check_memory(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes,
	uint32_t *last_users, uint64_t max_bytes, size_t *ret_bytes, struct et_diag *diag);

#endif
