/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that XNNPACK must not be given. */
#ifndef DELEGATES_XNNPACK_UNSUPPORTED_H
#define DELEGATES_XNNPACK_UNSUPPORTED_H

#include "delegates/xnnpack/graph/payload.h"

/* Check that XNNPACK can do each node that no override does, with these shapes, as far as XNNPACK would not say so
 * itself. After et_xnn_partitions_make. @shapes: one for each value. ET_E_NOT_SUPPORTED. */
enum et_status et_xnn_check_supported(const struct et_xnn_payload *payload, const struct et_xnn_shape *shapes,
	struct et_diag *diag);

#endif
