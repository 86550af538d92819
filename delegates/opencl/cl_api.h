/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenCL's functions, found when the plug-in is opened. The plug-in does not link the ICD loader: a machine without it
 * gets a sentence, not a plug-in that cannot be loaded. All calls of OpenCL go through this table. */
#ifndef DELEGATES_OPENCL_CL_API_H
#define DELEGATES_OPENCL_CL_API_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "runtime/base/status.h"

/* The functions of OpenCL 1.2 that are used; without their prefix "cl". */
#define OCL_FUNCTIONS(X)           \
	X(GetPlatformIDs)          \
	X(GetPlatformInfo)         \
	X(GetDeviceIDs)            \
	X(GetDeviceInfo)           \
	X(CreateContext)           \
	X(ReleaseContext)          \
	X(CreateCommandQueue)      \
	X(ReleaseCommandQueue)     \
	X(CreateBuffer)            \
	X(ReleaseMemObject)        \
	X(CreateProgramWithSource) \
	X(CreateProgramWithBinary) \
	X(GetProgramInfo)          \
	X(BuildProgram)            \
	X(GetProgramBuildInfo)     \
	X(ReleaseProgram)          \
	X(CreateKernel)            \
	X(ReleaseKernel)           \
	X(SetKernelArg)            \
	X(EnqueueNDRangeKernel)    \
	X(EnqueueWriteBuffer)      \
	X(EnqueueReadBuffer)       \
	X(EnqueueCopyBuffer)       \
	X(EnqueueFillBuffer)       \
	X(EnqueueMapBuffer)        \
	X(EnqueueUnmapMemObject)   \
	X(Flush)                   \
	X(Finish)                  \
	X(WaitForEvents)           \
	X(GetEventInfo)            \
	X(ReleaseEvent)

struct ocl_api {
	void *library;
#define OCL_MEMBER(name) __typeof__(&cl##name) name;
	OCL_FUNCTIONS(OCL_MEMBER)
#undef OCL_MEMBER
};

/* Load the ICD loader: the file @library, or by its usual name if that is NULL. ET_E_NOT_FOUND with a sentence. The
 * library stays loaded until the process ends, since drivers leave threads and handlers behind. */
enum et_status ocl_api_load(struct ocl_api *ret_api, const char *library, struct et_diag *diag);

/* "CL_OUT_OF_RESOURCES"; "an unknown error" for an unknown number. */
const char *ocl_error_name(cl_int error);

/* Fail with the name of @what and of @error. ET_E_MEMORY_ALLOCATION_FAILED if there is no memory for it; else
 * ET_E_ACCESS_FAILED. */
enum et_status ocl_fail(struct et_diag *diag, cl_int error, const char *what);

#endif
