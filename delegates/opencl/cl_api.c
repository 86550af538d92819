/* SPDX-License-Identifier: BSD-3-Clause */
/* The ICD loader is found with dlopen, and each function of the table with dlsym. A loader that lacks one of them is
 * older than OpenCL 1.2 and refused. */
#include "delegates/opencl/cl_api.h"

#include "runtime/base/checked.h"

#include <dlfcn.h>
#include <string.h>

enum et_status ocl_api_load(struct ocl_api *ret_api, const char *library, struct et_diag *diag)
{
	static const struct {
		const char *name;
		size_t offset;
	} functions[] = {
#define OCL_ROW(name) { "cl" #name, offsetof(struct ocl_api, name) },
		OCL_FUNCTIONS(OCL_ROW)
#undef OCL_ROW
	};
	struct ocl_api api = { .library = dlopen(library ? library : "libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL) };
	if (!api.library) {
		const char *why = dlerror();
		return et_fail(diag, ET_E_NOT_FOUND,
			"no OpenCL loader: install ocl-icd-libopencl1, or set `library` (%.120s)", why ? why : "");
	}
	for (size_t i = 0; i < ET_ARRAY_LEN(functions); i++) {
		void *symbol = dlsym(api.library, functions[i].name);
		if (!symbol)
			return et_fail(diag, ET_E_NOT_FOUND, "the OpenCL loader lacks %s: it is older than 1.2",
				functions[i].name);
		memcpy((char *)&api + functions[i].offset, &symbol, sizeof(symbol));
	}
	*ret_api = api;
	return ET_OK;
}

const char *ocl_error_name(cl_int error)
{
	static const struct {
		cl_int error;
		const char *name;
	} names[] = {
#define OCL_ROW(name) { name, #name },
		OCL_ROW(CL_DEVICE_NOT_FOUND) OCL_ROW(CL_DEVICE_NOT_AVAILABLE) OCL_ROW(
			CL_COMPILER_NOT_AVAILABLE) OCL_ROW(CL_MEM_OBJECT_ALLOCATION_FAILURE)
			OCL_ROW(CL_OUT_OF_RESOURCES) OCL_ROW(CL_OUT_OF_HOST_MEMORY) OCL_ROW(
				CL_BUILD_PROGRAM_FAILURE) OCL_ROW(CL_MISALIGNED_SUB_BUFFER_OFFSET)
				OCL_ROW(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) OCL_ROW(CL_INVALID_VALUE) OCL_ROW(
					CL_INVALID_DEVICE) OCL_ROW(CL_INVALID_CONTEXT) OCL_ROW(CL_INVALID_COMMAND_QUEUE)
					OCL_ROW(CL_INVALID_HOST_PTR) OCL_ROW(CL_INVALID_MEM_OBJECT) OCL_ROW(
						CL_INVALID_BINARY) OCL_ROW(CL_INVALID_BUILD_OPTIONS)
						OCL_ROW(CL_INVALID_PROGRAM) OCL_ROW(
							CL_INVALID_PROGRAM_EXECUTABLE) OCL_ROW(CL_INVALID_KERNEL_NAME)
							OCL_ROW(CL_INVALID_KERNEL) OCL_ROW(
								CL_INVALID_ARG_INDEX) OCL_ROW(CL_INVALID_ARG_VALUE)
								OCL_ROW(CL_INVALID_ARG_SIZE) OCL_ROW(
									CL_INVALID_KERNEL_ARGS)
									OCL_ROW(CL_INVALID_WORK_GROUP_SIZE) OCL_ROW(
										CL_INVALID_EVENT)
										OCL_ROW(CL_INVALID_OPERATION) OCL_ROW(
											CL_INVALID_BUFFER_SIZE){ -1001,
											"CL_PLATFORM_NOT_FOUND_KHR" },
#undef OCL_ROW
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(names); i++)
		if (names[i].error == error)
			return names[i].name;
	return "an unknown error";
}

enum et_status ocl_fail(struct et_diag *diag, cl_int error, const char *what)
{
	bool is_memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY;
	return et_fail(diag, is_memory ? ET_E_MEMORY_ALLOCATION_FAILED : ET_E_ACCESS_FAILED,
		"%s: OpenCL answers %d (%s)", what, (int)error, ocl_error_name(error));
}
