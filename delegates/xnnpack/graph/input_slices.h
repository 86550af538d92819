/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in its arguments a payload begins to read, where that is not their first element. */
#ifndef DELEGATES_XNNPACK_GRAPH_INPUT_SLICES_H
#define DELEGATES_XNNPACK_GRAPH_INPUT_SLICES_H

#include "delegates/xnnpack/graph/payload.h"

/* Of one argument, of which nothing but slices is read. */
struct et_xnn_input_slice {
	uint32_t input; /* place in the payload's inputs */
	/* What is before the first element of all of them, and where the last one of them ends; 0, 0: they may be whole. */
	uint32_t first[ET_XNN_MAX_DIMS], end[ET_XNN_MAX_DIMS];
};

/* By rising input. None: { 0 }. */
struct et_xnn_input_slices {
	struct et_xnn_input_slice *slices;
	uint32_t n_slices;
};

/* @payload, whose shapes were checked, has its slices of arguments begin at the first element that any of them reads, and what was in
 * front of that becomes the caller's, to be freed by et_xnn_input_slices_deinit. ET_E_MEMORY_ALLOCATION_FAILED: nothing has changed. */
enum et_status et_xnn_input_slices_take(struct et_xnn_input_slices *ret_slices, struct et_xnn_payload *payload,
	const struct et_allocator *allocator, struct et_diag *diag);
void et_xnn_input_slices_deinit(struct et_xnn_input_slices *slices, const struct et_allocator *allocator);
/* Move *@data, an argument of that value and shape, to where it is read from. ET_E_INVALID_ARGUMENT: it ends before what is sliced. */
enum et_status et_xnn_input_slice_apply(const struct et_xnn_input_slice *start, const struct et_xnn_value *value,
	const struct et_xnn_shape *shape, uint8_t **data, struct et_diag *diag);

#endif
