/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of kernels of a device, and their binaries in the cache folder. A program is small, one kernel: drivers
 * compile such programs on demand, and some fail on large ones. Its text is the definitions, prelude.cl, and the
 * family's file; the kernel has the family's name.
 *
 * Definitions come from tables of this folder and from the types of a payload's tensors, never from a payload's text,
 * so a device has a bounded number of kernels.
 *
 * The key of a binary is made of all that decides it: source, options, platform, device, driver. A file that is
 * damaged, or that the driver refuses, is removed and built anew. */
#include "delegates/opencl/programs.h"

#include "runtime/base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ocl_program {
	struct ocl_program *next;
	struct ocl_kernel kernel;
	cl_program program;
	char definitions[OCL_MAX_DEFINITIONS];
};

const struct ocl_kernel ocl_kernel_to_build = { .handle = NULL };

static const char options[] = "-cl-std=CL1.2";

__attribute__((format(printf, 3, 4))) static void say(const struct ocl_device *device, int level, const char *format,
	...)
{
	char text[400];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	device->host->log(device->host->self, level, text);
}

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

static enum et_status make_kernel(struct ocl_device *device, struct ocl_program *p, struct et_diag *diag)
{
	cl_int error;
	p->kernel.handle = device->cl->CreateKernel(p->program, p->kernel.family, &error);
	return p->kernel.handle ? ET_OK : ocl_device_fail(device, error, "clCreateKernel", diag);
}

static enum et_status build(struct ocl_device *device, struct ocl_program *p, struct et_diag *diag)
{
	const struct ocl_api *cl = device->cl;
	const char *texts[] = { p->definitions, source("prelude"), source(p->kernel.family) };
	cl_int error;
	p->program = cl->CreateProgramWithSource(device->context, 3, texts, NULL, &error);
	if (!p->program)
		return ocl_device_fail(device, error, "clCreateProgramWithSource", diag);
	error = cl->BuildProgram(p->program, 1, &device->id, options, NULL, NULL);
	if (error == CL_BUILD_PROGRAM_FAILURE)
		return refuse_build(device, p, error, diag);
	if (error != CL_SUCCESS)
		return ocl_device_fail(device, error, "clBuildProgram", diag);
	device->n_built++;
	return make_kernel(device, p, diag);
}

/* --- binaries ------------------------------------------------------------------------------------- */

static void make_key(const struct ocl_device *device, const char *family, const char *definitions,
	char ret_key[OCL_KEY])
{
	const char *texts[] = { definitions, source("prelude"), source(family), options, device->platform, device->name,
		device->driver };
	ocl_cache_key(texts, ET_ARRAY_LEN(texts), ret_key);
}

/* Make the program of a binary. False: the driver does not take it; *ret_status says whether it is lost, too. */
static bool take_binary(struct ocl_device *device, struct ocl_program *p, const uint8_t *binary, size_t n,
	enum et_status *ret_status, struct et_diag *diag)
{
	const struct ocl_api *cl = device->cl;
	cl_int error, binary_error = CL_SUCCESS;
	p->program = cl->CreateProgramWithBinary(device->context, 1, &device->id, &n, &binary, &binary_error, &error);
	if (p->program)
		error = cl->BuildProgram(p->program, 1, &device->id, options, NULL, NULL);
	if (error == CL_SUCCESS) {
		*ret_status = make_kernel(device, p, diag);
		return *ret_status == ET_OK;
	}
	if (p->program)
		cl->ReleaseProgram(p->program);
	p->program = NULL;
	if (error != CL_INVALID_BINARY && error != CL_BUILD_PROGRAM_FAILURE)
		*ret_status = ocl_device_fail(device, error, "clCreateProgramWithBinary", diag);
	else
		*ret_status = et_fail(diag, ET_E_INVALID_PROGRAM, "the driver refuses it: %s", ocl_error_name(error));
	return false;
}

/* Load the kernel from the cache. ET_E_NOT_FOUND: it has to be built. */
static enum et_status load(struct ocl_device *device, struct ocl_program *p, const char *key, struct et_diag *diag)
{
	struct et_diag why = { "" };
	uint8_t *bytes;
	const uint8_t *binary;
	size_t n;
	enum et_status status = ocl_cache_read(device->host->cache_dir, OCL_BINARY, key, &bytes, &binary, &n, &why);
	if (status == ET_OK) {
		if (take_binary(device, p, binary, n, &status, &why))
			device->n_loaded++;
		free(bytes);
	}
	if (status == ET_OK || status == ET_E_NOT_FOUND)
		return status;
	if (status == ET_E_BACKEND_CRASHED || status == ET_E_MEMORY_ALLOCATION_FAILED)
		return et_fail(diag, status, "%s", why.text);
	say(device, 4, "%s: the cache's file %.16s... of kernel %s is not used: %s", device->name, key,
		p->kernel.family, why.text);
	ocl_cache_remove(device->host->cache_dir, OCL_BINARY, key);
	return ET_E_NOT_FOUND;
}

/* Write the binary of a program that was built into the cache. */
static enum et_status keep(struct ocl_device *device, const struct ocl_program *p, const char *key,
	struct et_diag *diag)
{
	const struct ocl_api *cl = device->cl;
	size_t n = 0;
	cl_int error = cl->GetProgramInfo(p->program, CL_PROGRAM_BINARY_SIZES, sizeof(n), &n, NULL);
	if (error != CL_SUCCESS)
		return ocl_device_fail(device, error, "clGetProgramInfo", diag);
	if (!n || n > OCL_MAX_CACHE_FILE / 2)
		return et_fail(diag, ET_E_NOT_SUPPORTED, "%s gives a binary of %zu bytes for the kernel %s",
			device->name, n, p->kernel.family);
	uint8_t *binary = malloc(n);
	if (!binary)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a binary of %zu bytes", n);
	error = cl->GetProgramInfo(p->program, CL_PROGRAM_BINARIES, sizeof(binary), &binary, NULL);
	enum et_status status = error == CL_SUCCESS
					? ocl_cache_write(device->host->cache_dir, OCL_BINARY, key, binary, n, diag)
					: ocl_device_fail(device, error, "clGetProgramInfo", diag);
	free(binary);
	return status;
}

static enum et_status ask_for(struct ocl_device *device, const struct ocl_program *p, const char *key,
	struct et_diag *diag)
{
	struct ocl_request request;
	uint8_t body[sizeof(request)];
	memcpy(request.family, p->kernel.family, sizeof(request.family));
	memcpy(request.definitions, p->definitions, sizeof(request.definitions));
	size_t n = ocl_request_write(&request, body);
	return ocl_cache_write(device->host->cache_dir, OCL_REQUEST, key, body, n, diag);
}

/* Build the kernel, and keep its binary if there is a cache. A binary that can't be kept is built again next time. */
static enum et_status build_here(struct ocl_device *device, struct ocl_program *p, const char *key,
	struct et_diag *diag)
{
	struct et_diag why = { "" };
	enum et_status status = build(device, p, diag);
	if (status != ET_OK || !device->host->cache_dir)
		return status;
	status = keep(device, p, key, &why);
	if (status == ET_E_BACKEND_CRASHED)
		return et_fail(diag, status, "%s", why.text);
	if (status != ET_OK)
		say(device, 4, "%s: a kernel is not kept: %s", device->name, why.text);
	return ET_OK;
}

/* Load or build the kernel, or request it: then p->kernel.handle stays NULL. */
static enum et_status make(struct ocl_device *device, struct ocl_program *p, struct et_diag *diag)
{
	char key[OCL_KEY];
	if (!device->host->cache_dir)
		return build_here(device, p, "", diag);
	make_key(device, p->kernel.family, p->definitions, key);
	enum et_status status = load(device, p, key, diag);
	if (status != ET_E_NOT_FOUND)
		return status;
	return device->builds_apart ? ask_for(device, p, key, diag) : build_here(device, p, key, diag);
}

/* --- the table ------------------------------------------------------------------------------------ */

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
			status = make(device, p, diag);
		} else {
			status = et_fail(diag, p ? ET_E_BACKEND_CRASHED : ET_E_MEMORY_ALLOCATION_FAILED,
				p ? "%s is lost" : "no memory for a kernel of %s", device->name);
		}
		bool is_made = p && p->kernel.handle && status == ET_OK;
		if (is_made) {
			p->next = device->programs;
			device->programs = p;
		} else if (p) {
			free_program(device, p);
			p = NULL;
		}
	}
	pthread_mutex_unlock(&device->build_lock);
	if (status == ET_OK)
		*ret_kernel = p ? &p->kernel : &ocl_kernel_to_build;
	return status;
}

/* --- requests ------------------------------------------------------------------------------------- */

struct builder {
	struct ocl_device *devices;
	uint32_t n;
	const char *folder;
	enum et_status status;
	struct et_diag *diag;
};

/* Build what request @key asks for, on the device that has this key for it. The request goes first: if the compiler
 * crashes, the next process does not meet it again. */
static bool build_one(void *self, const char *key)
{
	struct builder *builder = self;
	struct et_diag why = { "" };
	struct ocl_request wanted;
	const struct ocl_kernel *kernel;
	uint8_t *bytes;
	const uint8_t *body;
	size_t n;
	enum et_status status = ocl_cache_read(builder->folder, OCL_REQUEST, key, &bytes, &body, &n, &why);
	ocl_cache_remove(builder->folder, OCL_REQUEST, key);
	if (status == ET_OK) {
		status = ocl_request_read(&wanted, body, n, &why);
		free(bytes);
	}
	for (uint32_t i = 0; i < builder->n && status == ET_OK; i++) {
		char own[OCL_KEY];
		make_key(&builder->devices[i], wanted.family, wanted.definitions, own);
		if (strcmp(own, key) == 0)
			status = ocl_kernel_get(&builder->devices[i], wanted.family, wanted.definitions, &kernel, &why);
	}
	if (status == ET_E_NOT_FOUND) /* another process was faster */
		return true;
	if (status != ET_OK && builder->status == ET_OK)
		builder->status = et_fail(builder->diag, status, "%s", why.text);
	return status != ET_E_BACKEND_CRASHED;
}

enum et_status ocl_programs_build_requested(struct ocl_device *devices, uint32_t n, const char *folder,
	struct et_diag *diag)
{
	struct builder builder = { devices, n, folder, ET_OK, diag };
	ocl_cache_each_request(folder, build_one, &builder);
	return builder.status;
}

void ocl_programs_log(struct ocl_device *device)
{
	pthread_mutex_lock(&device->build_lock);
	uint32_t n_loaded = device->n_loaded, n_built = device->n_built;
	device->n_loaded = device->n_built = 0;
	pthread_mutex_unlock(&device->build_lock);
	if (n_loaded || n_built)
		say(device, 6, "%s: %u kernels from the cache, %u compiled", device->name, n_loaded, n_built);
}

void ocl_programs_free(struct ocl_device *device)
{
	while (device->programs) {
		struct ocl_program *p = device->programs;
		device->programs = p->next;
		free_program(device, p);
	}
}
