/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients' memory as buffers of a device, where the device works on it in place. */
#ifndef DELEGATES_OPENCL_IMPORT_H
#define DELEGATES_OPENCL_IMPORT_H

#include "delegates/inferd-delegate.h"
#include "delegates/opencl/device.h"

struct inferd_delegate_buffer {
	struct ocl_device *device;
	cl_mem memory;
};

/* Find out whether a buffer over whole pages of ours is these pages: mapping it returns their address, and what a
 * command wrote is there. Drivers are free to copy instead. False: a call failed, so the device is of no use. The
 * device is open and has no runs. */
bool ocl_import_try(struct ocl_device *device, bool *ret_works);

/* E_UNSUPPORTED where the device would copy. The memory stays until ocl_import_free. Any thread. */
int ocl_import(struct ocl_device *device, const struct inferd_delegate_memory *memory,
	struct inferd_delegate_buffer **ret_buffer);
void ocl_import_free(struct inferd_delegate_buffer *buffer);

#endif
