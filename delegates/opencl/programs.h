/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels by what they were built from: a family (a file of kernels/) and its definitions. A device has each kernel
 * once, for all models, so a thousand models build what one would. */
#ifndef DELEGATES_OPENCL_PROGRAMS_H
#define DELEGATES_OPENCL_PROGRAMS_H

#include "delegates/opencl/device.h"

enum { OCL_MAX_DEFINITIONS = 512 };

/* A kernel of a device. clSetKernelArg is not safe for threads, so it is set and enqueued with the device's lock. */
struct ocl_kernel {
	cl_kernel handle;
	char family[32];
};

/* Find the kernel of @family with @definitions (lines of #define), or build it. The kernel lives as long as the device.
 * ET_E_MEMORY_ALLOCATION_FAILED; ET_E_NOT_SUPPORTED with the compiler's first line. Any thread. */
enum et_status ocl_kernel_get(struct ocl_device *device, const char *family, const char *definitions,
	const struct ocl_kernel **ret_kernel, struct et_diag *diag);

/* Free all kernels of a device that is closed. */
void ocl_programs_free(struct ocl_device *device);

/* The files of kernels/, which the build embeds: name and text. The last has no name. */
struct ocl_source {
	const char *name;
	const char *text;
};
extern const struct ocl_source ocl_sources[];

#endif
