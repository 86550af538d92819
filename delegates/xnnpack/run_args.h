/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a run. */
#ifndef DELEGATES_XNNPACK_RUN_ARGS_H
#define DELEGATES_XNNPACK_RUN_ARGS_H

#include "delegates/xnnpack/graph/payload.h"

/* Check that @arg is a tensor of the dtype of @value, and has memory. @side: "input" or "output", for the message.
 * ET_E_INVALID_TYPE, ET_E_INVALID_STATE. */
enum et_status et_xnn_arg_check(const struct et_xnn_value *value, const struct inferd_delegate_arg *arg,
	const char *side, struct et_diag *diag);
/* The shape of an input as it lies in memory, outermost dimension first: so XNNPACK sees it. ET_E_INVALID_ARGUMENT. */
enum et_status et_xnn_arg_shape(const struct et_xnn_value *value, const struct inferd_delegate_arg *tensor,
	struct et_xnn_shape *ret_shape, struct et_diag *diag);
/* Set the sizes of an output to the shape that the run gives it. ET_E_NOT_SUPPORTED: the tensor cannot take that
 * shape. */
enum et_status et_xnn_arg_resize(const struct et_xnn_value *value, const struct et_xnn_shape *shape,
	struct inferd_delegate_arg *arg, struct et_diag *diag);
/* XNNPACK writes indexes as 32-bit integers. Widen them in place, for a 64-bit tensor, which has room for both. */
void et_xnn_arg_widen_indexes(const struct inferd_delegate_arg *tensor, const struct et_xnn_shape *shape);

#endif
