/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of kernels of a device. A program is small, one kernel: drivers compile such programs on demand, and some
 * fail on large ones. Its text is the definitions, prelude.cl, and the family's file; the kernel has the family's name.
 *
 * Definitions come from tables of this folder and from the types of a payload's tensors, never from a payload's text,
 * so a device has a bounded number of kernels. */
#include "delegates/opencl/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ocl_program {
	struct ocl_program *next;
	struct ocl_kernel kernel;
	cl_program program;
	char definitions[OCL_MAX_DEFINITIONS];
};

static const char *source(const char *name)
{
	for (const struct ocl_source *s = ocl_sources; s->name; s++)
		if (strcmp(s->name, name) == 0)
			return s->text;
	return "";
}

static struct ocl_program *find(const struct ocl_device *device, const char *family, const char *definitions)
{
	for (struct ocl_program *p = device->programs; p; p = p->next)
		if (strcmp(p->kernel.family, family) == 0 && strcmp(p->definitions, definitions) == 0)
			return p;
	return NULL;
}

/* Refuse with the first line of what the compiler says. */
static enum et_status refuse_build(struct ocl_device *device, const struct ocl_program *p, cl_int error,
	struct et_diag *diag)
{
	char text[2048] = "";
	size_t n = 0;
	if (device->cl->GetProgramBuildInfo(p->program, device->id, CL_PROGRAM_BUILD_LOG, sizeof(text) - 1, text, &n) !=
		CL_SUCCESS)
		text[0] = 0;
	const char *line = strstr(text, "error");
	if (!line)
		line = text;
	return et_fail(diag, ET_E_NOT_SUPPORTED, "%s does not build the kernel %s (%s): %.*s", device->name,
		p->kernel.family, ocl_error_name(error), (int)strcspn(line, "\n"), line);
}

static enum et_status build(struct ocl_device *device, struct ocl_program *p, struct et_diag *diag)
{
	const struct ocl_api *cl = device->cl;
	const char *texts[] = { p->definitions, source("prelude"), source(p->kernel.family) };
	cl_int error;
	p->program = cl->CreateProgramWithSource(device->context, 3, texts, NULL, &error);
	if (!p->program)
		return ocl_device_fail(device, error, "clCreateProgramWithSource", diag);
	error = cl->BuildProgram(p->program, 1, &device->id, "-cl-std=CL1.2", NULL, NULL);
	if (error == CL_BUILD_PROGRAM_FAILURE)
		return refuse_build(device, p, error, diag);
	if (error != CL_SUCCESS)
		return ocl_device_fail(device, error, "clBuildProgram", diag);
	p->kernel.handle = cl->CreateKernel(p->program, p->kernel.family, &error);
	return p->kernel.handle ? ET_OK : ocl_device_fail(device, error, "clCreateKernel", diag);
}

static void free_program(struct ocl_device *device, struct ocl_program *p)
{
	if (p->kernel.handle)
		device->cl->ReleaseKernel(p->kernel.handle);
	if (p->program)
		device->cl->ReleaseProgram(p->program);
	free(p);
}

enum et_status ocl_kernel_get(struct ocl_device *device, const char *family, const char *definitions,
	const struct ocl_kernel **ret_kernel, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&device->build_lock);
	struct ocl_program *p = find(device, family, definitions);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (p && !atomic_load_explicit(&device->is_lost, memory_order_relaxed)) {
			snprintf(p->kernel.family, sizeof(p->kernel.family), "%s", family);
			snprintf(p->definitions, sizeof(p->definitions), "%s", definitions);
			status = build(device, p, diag);
		} else {
			status = et_fail(diag, p ? ET_E_BACKEND_CRASHED : ET_E_MEMORY_ALLOCATION_FAILED,
				p ? "%s is lost" : "no memory for a kernel of %s", device->name);
		}
		if (status == ET_OK) {
			p->next = device->programs;
			device->programs = p;
		} else if (p) {
			free_program(device, p);
		}
	}
	pthread_mutex_unlock(&device->build_lock);
	if (status == ET_OK)
		*ret_kernel = &p->kernel;
	return status;
}

void ocl_programs_free(struct ocl_device *device)
{
	while (device->programs) {
		struct ocl_program *p = device->programs;
		device->programs = p->next;
		free_program(device, p);
	}
}
