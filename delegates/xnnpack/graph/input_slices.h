/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices of arguments, as offsets into the caller's memory. */
#ifndef DELEGATES_XNNPACK_GRAPH_INPUT_SLICES_H
#define DELEGATES_XNNPACK_GRAPH_INPUT_SLICES_H

#include "delegates/xnnpack/graph/payload.h"

/* An argument of which only slices are read. */
struct et_xnn_input_slice {
	uint32_t input; /* index in the payload's inputs */
	/* For each dimension: the first element that a slice reads, and the end of the last slice. 0, 0: the
	 * dimension is not cut. */
	uint32_t first[ET_XNN_MAX_DIMS], end[ET_XNN_MAX_DIMS];
};

/* The sliced arguments of a payload, by rising input. { 0 }: none. */
struct et_xnn_input_slices {
	struct et_xnn_input_slice *slices;
	uint32_t n_slices;
};

/* Take the offsets out of @payload, whose shapes were checked: its slices of an argument begin at the first element
 * that one of them reads. The caller deinits *@ret_slices. ET_E_MEMORY_ALLOCATION_FAILED: the payload has not
 * changed. */
enum et_status et_xnn_input_slices_take(struct et_xnn_input_slices *ret_slices, struct et_xnn_payload *payload,
	const struct et_allocator *allocator, struct et_diag *diag);
void et_xnn_input_slices_deinit(struct et_xnn_input_slices *slices, const struct et_allocator *allocator);
/* Move *@data, the memory of an argument with that value and shape, to the first element that is read.
 * ET_E_INVALID_ARGUMENT: the argument ends before the slice. */
enum et_status et_xnn_input_slice_apply(const struct et_xnn_input_slice *slice, const struct et_xnn_value *value,
	const struct et_xnn_shape *shape, uint8_t **data, struct et_diag *diag);

#endif
