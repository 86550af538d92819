/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels by what they were built from: a family (a file of kernels/) and its definitions. A device has each kernel
 * once, for all models, so a thousand models build what one would. A cache folder keeps what was built. */
#ifndef DELEGATES_OPENCL_PROGRAMS_H
#define DELEGATES_OPENCL_PROGRAMS_H

#include "delegates/opencl/cache_file.h"
#include "delegates/opencl/device.h"

/* A kernel of a device. clSetKernelArg is not safe for threads, so it is set and enqueued with the device's lock. */
struct ocl_kernel {
	cl_kernel handle;
	char family[OCL_FAMILY];
};

/* Stands for a kernel that another process has to build first (INFERD_DELEGATE_BUILDS_APART): its handle is NULL. The
 * model that has it can't run. */
extern const struct ocl_kernel ocl_kernel_to_build;

/* Find the kernel of @family with @definitions (lines of #define), load it from the cache, or build it. Where kernels
 * are built apart, it is requested in the cache folder, and *ret_kernel is &ocl_kernel_to_build. The kernel lives as
 * long as the device. ET_E_MEMORY_ALLOCATION_FAILED; ET_E_NOT_SUPPORTED with the compiler's first line. Any thread. */
enum et_status ocl_kernel_get(struct ocl_device *device, const char *family, const char *definitions,
	const struct ocl_kernel **ret_kernel, struct et_diag *diag);

/* Build what is requested in the cache folder for one of @n devices, and keep it there; a request for none of them is
 * dropped. Goes on after a failure, and answers the first one. */
enum et_status ocl_programs_build_requested(struct ocl_device *devices, uint32_t n, const char *folder,
	struct et_diag *diag);

/* Write into the log how many kernels were loaded and built since the last call, if there were any. */
void ocl_programs_log(struct ocl_device *device);

/* Free all kernels of a device that is closed. */
void ocl_programs_free(struct ocl_device *device);

/* The files of kernels/, which the build embeds: name and text. The last has no name. */
struct ocl_source {
	const char *name;
	const char *text;
};
extern const struct ocl_source ocl_sources[];

#endif
