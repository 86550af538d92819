/* SPDX-License-Identifier: BSD-3-Clause */
/* Constants in a device's memory. Payloads of one program share what has the same name in the program's named data. */
#ifndef DELEGATES_OPENCL_WEIGHTS_H
#define DELEGATES_OPENCL_WEIGHTS_H

#include "delegates/opencl/device.h"

/* How a constant lies in the device's memory. */
enum ocl_layout_kind {
	OCL_AS_IS,
	OCL_ROWS,   /* n_rows of n_along elements, without what a row has behind them */
	OCL_PANELS, /* [rows / n_lanes, n_along, n_lanes]: n_lanes rows side by side; rows that are missing are 0 */
};

struct ocl_layout {
	uint8_t kind;
	uint8_t from, to; /* enum et_scalar_type; equal, or to f32 from f16 or i8 */
	uint32_t n_lanes;
	uint64_t n_rows, n_along, row_stride; /* not of OCL_AS_IS; row_stride in elements, of what is given */
};

struct ocl_weight {
	struct ocl_weight *next;
	uint32_t n_refs;
	uint64_t program; /* the number of the program, and */
	char key[160];    /* the name of the data, and the layout; empty: it is shared with nobody */
	uint64_t n_bytes;
	cl_mem buffer;
};

/* The bytes that @n_bytes take in that layout. */
uint64_t ocl_layout_bytes(const struct ocl_layout *layout, uint64_t n_bytes);

/* Upload @n_bytes in @layout, or find them by program, layout and key (NULL: never shared). The layout reads no more
 * than @n_bytes. *ret_is_new: this call uploaded them. On
 * success the caller owns one reference. ET_E_MEMORY_ALLOCATION_FAILED, ET_E_OUT_OF_RESOURCES, ET_E_BACKEND_CRASHED.
 * Any thread. */
enum et_status ocl_weight_get(struct ocl_device *device, uint64_t program, const char *key,
	const struct ocl_layout *layout, const uint8_t *bytes, uint64_t n_bytes, struct ocl_weight **ret_weight,
	bool *ret_is_new, struct et_diag *diag);
void ocl_weight_unref(struct ocl_device *device, struct ocl_weight *weight);

#endif
