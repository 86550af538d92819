/* SPDX-License-Identifier: BSD-3-Clause */
/* Constants in fp16 and bf16 that become fp32 before they are packed. */
#ifndef DELEGATES_XNNPACK_WEIGHTS_FP16_WEIGHTS_H
#define DELEGATES_XNNPACK_WEIGHTS_FP16_WEIGHTS_H

#include "delegates/xnnpack/weights/weights.h"

/* Widen the constants that XNNPACK wants as fp32, before filters are claimed: each becomes a new value of @payload,
 * whose data @weights owns. @pool: the payload's. Refusals as et_xnn_weights_copy's. */
enum et_status et_xnn_widen_fp16(struct et_xnn_payload *payload, struct et_xnn_weights *weights, struct et_pool *pool,
	struct et_diag *diag);
/* How @value was made from the file's constant: ET_XNN_AS_IT_IS, ET_XNN_FROM_FP16 or ET_XNN_FROM_BF16. */
enum et_xnn_remade et_xnn_remade_of(const struct et_xnn_value *value);

#endif
