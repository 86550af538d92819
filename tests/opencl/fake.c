/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICD loader with one call that fails: every function passes on to libOpenCL, but the call with the number
 * fake_fail_at answers that the driver has no resources, as drivers do before they hang. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) atomic_long fake_n_calls, fake_fail_at;

static void *real(const char *name)
{
	static void *library;
	if (!library)
		library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, name) : NULL;
	if (!symbol)
		abort();
	return symbol;
}

static int fails(void)
{
	return atomic_fetch_add(&fake_n_calls, 1) + 1 == fake_fail_at;
}

#define FORWARD(result, name, params, args)                                   \
	__attribute__((visibility("default"))) result CL_API_CALL name params \
	{                                                                     \
		static __typeof__(&name) function;                            \
		void *symbol = function ? NULL : real(#name);                 \
		if (symbol)                                                   \
			memcpy(&function, &symbol, sizeof(symbol));           \
		FAIL return function args;                                    \
	}

#define FAIL         \
	if (fails()) \
		return CL_OUT_OF_RESOURCES;
FORWARD(cl_int, clGetPlatformIDs, (cl_uint n, cl_platform_id *ids, cl_uint *ret_n), (n, ids, ret_n))
FORWARD(cl_int, clGetPlatformInfo, (cl_platform_id id, cl_platform_info what, size_t n, void *value, size_t *ret_n),
	(id, what, n, value, ret_n))
FORWARD(cl_int, clGetDeviceIDs, (cl_platform_id id, cl_device_type type, cl_uint n, cl_device_id *ids, cl_uint *ret_n),
	(id, type, n, ids, ret_n))
FORWARD(cl_int, clGetDeviceInfo, (cl_device_id id, cl_device_info what, size_t n, void *value, size_t *ret_n),
	(id, what, n, value, ret_n))
FORWARD(cl_int, clBuildProgram,
	(cl_program program, cl_uint n, const cl_device_id *ids, const char *options,
		void(CL_CALLBACK *notify)(cl_program, void *), void *self),
	(program, n, ids, options, notify, self))
FORWARD(cl_int, clGetProgramInfo, (cl_program program, cl_program_info what, size_t n, void *value, size_t *ret_n),
	(program, what, n, value, ret_n))
FORWARD(cl_int, clGetProgramBuildInfo,
	(cl_program program, cl_device_id id, cl_program_build_info what, size_t n, void *value, size_t *ret_n),
	(program, id, what, n, value, ret_n))
FORWARD(cl_int, clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t n, const void *value),
	(kernel, index, n, value))
FORWARD(cl_int, clEnqueueNDRangeKernel,
	(cl_command_queue queue, cl_kernel kernel, cl_uint n_dims, const size_t *offset, const size_t *global,
		const size_t *local, cl_uint n_events, const cl_event *events, cl_event *event),
	(queue, kernel, n_dims, offset, global, local, n_events, events, event))
FORWARD(cl_int, clEnqueueWriteBuffer,
	(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t at, size_t n, const void *bytes,
		cl_uint n_events, const cl_event *events, cl_event *event),
	(queue, buffer, blocks, at, n, bytes, n_events, events, event))
FORWARD(cl_int, clEnqueueReadBuffer,
	(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t at, size_t n, void *bytes, cl_uint n_events,
		const cl_event *events, cl_event *event),
	(queue, buffer, blocks, at, n, bytes, n_events, events, event))
FORWARD(cl_int, clEnqueueCopyBuffer,
	(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t n, cl_uint n_events,
		const cl_event *events, cl_event *event),
	(queue, from, to, from_at, to_at, n, n_events, events, event))
FORWARD(cl_int, clEnqueueFillBuffer,
	(cl_command_queue queue, cl_mem buffer, const void *pattern, size_t n_pattern, size_t at, size_t n,
		cl_uint n_events, const cl_event *events, cl_event *event),
	(queue, buffer, pattern, n_pattern, at, n, n_events, events, event))
FORWARD(cl_int, clEnqueueUnmapMemObject,
	(cl_command_queue queue, cl_mem buffer, void *mapped, cl_uint n_events, const cl_event *events,
		cl_event *event),
	(queue, buffer, mapped, n_events, events, event))
FORWARD(cl_int, clFlush, (cl_command_queue queue), (queue))
FORWARD(cl_int, clFinish, (cl_command_queue queue), (queue))
FORWARD(cl_int, clWaitForEvents, (cl_uint n, const cl_event *events), (n, events))
FORWARD(cl_int, clGetEventInfo, (cl_event event, cl_event_info what, size_t n, void *value, size_t *ret_n),
	(event, what, n, value, ret_n))
#undef FAIL

/* What releases does not fail: an error there has nobody to be told. */
#define FAIL
FORWARD(cl_int, clReleaseContext, (cl_context context), (context))
FORWARD(cl_int, clReleaseCommandQueue, (cl_command_queue queue), (queue))
FORWARD(cl_int, clReleaseMemObject, (cl_mem buffer), (buffer))
FORWARD(cl_int, clReleaseProgram, (cl_program program), (program))
FORWARD(cl_int, clReleaseKernel, (cl_kernel kernel), (kernel))
FORWARD(cl_int, clReleaseEvent, (cl_event event), (event))
#undef FAIL

#define FAIL                                  \
	if (fails()) {                        \
		*error = CL_OUT_OF_RESOURCES; \
		return NULL;                  \
	}
FORWARD(cl_context, clCreateContext,
	(const cl_context_properties *properties, cl_uint n, const cl_device_id *ids,
		void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *self, cl_int *error),
	(properties, n, ids, notify, self, error))
FORWARD(cl_command_queue, clCreateCommandQueue,
	(cl_context context, cl_device_id id, cl_command_queue_properties properties, cl_int *error),
	(context, id, properties, error))
FORWARD(cl_mem, clCreateBuffer, (cl_context context, cl_mem_flags flags, size_t n, void *bytes, cl_int *error),
	(context, flags, n, bytes, error))
FORWARD(cl_program, clCreateProgramWithSource,
	(cl_context context, cl_uint n, const char **texts, const size_t *sizes, cl_int *error),
	(context, n, texts, sizes, error))
FORWARD(cl_program, clCreateProgramWithBinary,
	(cl_context context, cl_uint n, const cl_device_id *ids, const size_t *sizes, const unsigned char **binaries,
		cl_int *results, cl_int *error),
	(context, n, ids, sizes, binaries, results, error))
FORWARD(void *, clEnqueueMapBuffer,
	(cl_command_queue queue, cl_mem buffer, cl_bool blocks, cl_map_flags flags, size_t at, size_t n,
		cl_uint n_events, const cl_event *events, cl_event *event, cl_int *error),
	(queue, buffer, blocks, flags, at, n, n_events, events, event, error))
FORWARD(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *error), (program, name, error))
