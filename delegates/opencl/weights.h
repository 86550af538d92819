/* SPDX-License-Identifier: BSD-3-Clause */
/* Constants in a device's memory. Payloads of one program share what has the same name in the program's named data. */
#ifndef DELEGATES_OPENCL_WEIGHTS_H
#define DELEGATES_OPENCL_WEIGHTS_H

#include "delegates/opencl/device.h"

struct ocl_weight {
	struct ocl_weight *next;
	uint32_t n_refs;
	uint64_t program; /* the number of the program, and */
	char key[68];     /* the name of the data; empty: it is shared with nobody */
	uint64_t n_bytes;
	cl_mem buffer;
};

/* Upload @n_bytes, or find them by program and key (NULL: never shared). *ret_is_new: this call uploaded them. On
 * success the caller owns one reference. ET_E_MEMORY_ALLOCATION_FAILED, ET_E_OUT_OF_RESOURCES, ET_E_BACKEND_CRASHED.
 * Any thread. */
enum et_status ocl_weight_get(struct ocl_device *device, uint64_t program, const char *key, const uint8_t *bytes,
	uint64_t n_bytes, struct ocl_weight **ret_weight, bool *ret_is_new, struct et_diag *diag);
void ocl_weight_unref(struct ocl_device *device, struct ocl_weight *weight);

#endif
