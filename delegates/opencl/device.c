/* SPDX-License-Identifier: BSD-3-Clause */
/* Platforms and devices. A device is taken if one of the words of `devices` is its kind or a part of its name. Every
 * device has a context of its own, so that a device that fails does not take the others with it.
 *
 * After an error other than "no memory" the device is lost: some drivers hang in the next call (CL_OUT_OF_RESOURCES is
 * the known case), so nothing more is asked of the context, and the process is started anew. */
#include "delegates/opencl/device.h"

#include "delegates/opencl/import.h"
#include "runtime/base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_PLATFORMS = 16, MAX_FOUND = 64, WORK_GROUP = 64 };

static bool is_wanted(const struct ocl_options *options, cl_device_type type, const char *name)
{
	const char *list = options->devices;
	return ocl_list_has(list, "all") || ((type & CL_DEVICE_TYPE_GPU) && ocl_list_has(list, "gpu")) ||
	       ((type & CL_DEVICE_TYPE_CPU) && ocl_list_has(list, "cpu")) ||
	       ((type & CL_DEVICE_TYPE_ACCELERATOR) && ocl_list_has(list, "accelerator")) ||
	       ocl_list_matches(list, name);
}

static void get_text(const struct ocl_api *cl, cl_device_id id, cl_device_info what, char *text, size_t n)
{
	char found[1024] = "";
	if (cl->GetDeviceInfo(id, what, sizeof(found), found, NULL) != CL_SUCCESS)
		found[0] = 0;
	found[sizeof(found) - 1] = 0;
	snprintf(text, n, "%.*s", (int)n - 1, found + strspn(found, " "));
}

/* The words for extensions that the device has. */
static void find_features(struct ocl_device *device)
{
	static const struct {
		const char *extension, *word;
	} features[] = { { "cl_khr_fp16", "fp16" }, { "cl_khr_fp64", "fp64" }, { "cl_khr_subgroups", "subgroups" },
		{ "cl_khr_integer_dot_product", "integer-dot-product" }, { "cl_khr_command_buffer", "command-buffers" },
		{ "cl_khr_external_memory_dma_buf", "dma-buf" } };
	char extensions[8192] = "";
	size_t n = 0;
	if (device->cl->GetDeviceInfo(device->id, CL_DEVICE_EXTENSIONS, sizeof(extensions) - 1, extensions, NULL) !=
		CL_SUCCESS)
		return;
	for (size_t i = 0; i < ET_ARRAY_LEN(features) && n < sizeof(device->features); i++)
		if (strstr(extensions, features[i].extension))
			n += (size_t)snprintf(device->features + n, sizeof(device->features) - n, "%s%s", n ? " " : "",
				features[i].word);
}

/* Open device @id as @device. Answers false where it lacks something: a compiler, say. */
static bool open_device(struct ocl_device *device, const struct ocl_api *cl, cl_device_id id, cl_device_type type,
	const char *platform)
{
	cl_bool has_compiler = CL_FALSE, is_available = CL_FALSE;
	pthread_condattr_t monotonic;
	cl_ulong memory = 0, max_alloc = 0;
	cl_uint width = 0, half_width = 0;
	size_t group = 0;
	cl_int error;
	*device = (struct ocl_device){ .cl = cl, .id = id, .is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0 };
	cl->GetDeviceInfo(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof(has_compiler), &has_compiler, NULL);
	cl->GetDeviceInfo(id, CL_DEVICE_AVAILABLE, sizeof(is_available), &is_available, NULL);
	cl->GetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(memory), &memory, NULL);
	cl->GetDeviceInfo(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(max_alloc), &max_alloc, NULL);
	cl->GetDeviceInfo(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(group), &group, NULL);
	get_text(cl, id, CL_DEVICE_NAME, device->name, sizeof(device->name));
	get_text(cl, id, CL_DRIVER_VERSION, device->driver, sizeof(device->driver));
	snprintf(device->platform, sizeof(device->platform), "%s", platform);
	device->memory_bytes = memory;
	device->max_alloc_bytes = max_alloc;
	device->work_group_size = group && group < WORK_GROUP ? 1 : WORK_GROUP;
	/* Tiles are as large as the registers of the processor, and of a GPU's work-item, hold. */
	cl->GetDeviceInfo(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof(width), &width, NULL);
	cl->GetDeviceInfo(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, sizeof(half_width), &half_width, NULL);
	device->n_lanes = device->is_cpu ? 16 : 4;
	device->n_tile_rows = device->is_cpu && width >= 16 ? 8 : 4;
	device->has_half = half_width > 0;
	if (!has_compiler || !is_available || !max_alloc)
		return false;
	device->context = cl->CreateContext(NULL, 1, &id, NULL, NULL, &error);
	if (!device->context)
		return false;
	find_features(device);
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_init(&device->build_lock, NULL);
	pthread_cond_init(&device->lane_is_free, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&device->turn_changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (ocl_import_try(device, &device->imports))
		return true;
	ocl_device_close(device);
	return false;
}

/* What was found and not taken, for the sentence. */
struct found {
	uint32_t n_platforms, n_devices;
	char name[64]; /* of a device that was not taken */
};

static void open_platform(struct ocl_device *devices, uint32_t *n, const struct ocl_api *cl, cl_platform_id platform,
	const struct ocl_options *options, struct found *found)
{
	char text[256] = "", name[64];
	cl_device_id ids[MAX_FOUND];
	cl_uint n_ids = 0;
	cl->GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(text) - 1, text, NULL);
	snprintf(name, sizeof(name), "%.63s", text);
	if (options->platforms && !ocl_list_matches(options->platforms, text))
		return;
	found->n_platforms++;
	if (cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_FOUND, ids, &n_ids) != CL_SUCCESS)
		return;
	for (cl_uint i = 0; i < n_ids && i < MAX_FOUND && *n < OCL_MAX_DEVICES; i++) {
		cl_device_type type = 0;
		cl->GetDeviceInfo(ids[i], CL_DEVICE_TYPE, sizeof(type), &type, NULL);
		get_text(cl, ids[i], CL_DEVICE_NAME, text, sizeof(found->name));
		if (!is_wanted(options, type, text) || !open_device(&devices[*n], cl, ids[i], type, name)) {
			memcpy(found->name, text, sizeof(found->name));
			found->n_devices++;
			continue;
		}
		devices[*n].index = *n;
		++*n;
	}
}

enum et_status ocl_devices_open(struct ocl_device *devices, uint32_t *ret_n, const struct ocl_api *cl,
	const struct inferd_delegate_host *host, const struct ocl_options *options, struct et_diag *diag)
{
	cl_platform_id platforms[MAX_PLATFORMS];
	cl_uint n_platforms = 0;
	struct found found = { 0 };
	uint32_t n = 0;
	cl_int error = cl->GetPlatformIDs(MAX_PLATFORMS, platforms, &n_platforms);
	if (error != CL_SUCCESS || !n_platforms)
		return et_fail(diag, ET_E_NOT_FOUND, "no OpenCL driver is installed (%s)",
			error ? ocl_error_name(error) : "no platform");
	for (cl_uint i = 0; i < n_platforms && i < MAX_PLATFORMS; i++)
		open_platform(devices, &n, cl, platforms[i], options, &found);
	for (uint32_t i = 0; i < n; i++) {
		devices[i].host = host;
		devices[i].builds_apart = INFERD_DELEGATE_HAS(host, flags) &&
					  (host->flags & INFERD_DELEGATE_BUILDS_APART) && host->cache_dir;
	}
	if (!n && found.n_devices)
		return et_fail(diag, ET_E_NOT_FOUND, "no OpenCL device suits `devices = %.80s`: '%s' does not",
			options->devices, found.name);
	if (!n)
		return et_fail(diag, ET_E_NOT_FOUND, "%u OpenCL platforms, %u of them asked, have no device",
			n_platforms, found.n_platforms);
	*ret_n = n;
	return ET_OK;
}

void ocl_device_close(struct ocl_device *device)
{
	device->cl->ReleaseContext(device->context);
	pthread_cond_destroy(&device->lane_is_free);
	pthread_cond_destroy(&device->turn_changed);
	pthread_mutex_destroy(&device->build_lock);
	pthread_mutex_destroy(&device->lock);
}

static void count_bytes(struct ocl_device *device, uint64_t plus, uint64_t minus)
{
	pthread_mutex_lock(&device->lock);
	device->n_used_bytes += plus;
	device->n_used_bytes -= minus;
	pthread_mutex_unlock(&device->lock);
}

enum et_status ocl_buffer_new(struct ocl_device *device, uint64_t n_bytes, const void *bytes, cl_mem *ret_buffer,
	struct et_diag *diag)
{
	cl_int error;
	if (atomic_load_explicit(&device->is_lost, memory_order_relaxed))
		return et_fail(diag, ET_E_BACKEND_CRASHED, "%s is lost", device->name);
	if (n_bytes > device->max_alloc_bytes)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES, "a buffer of %llu bytes is needed, %s has at most %llu",
			(unsigned long long)n_bytes, device->name, (unsigned long long)device->max_alloc_bytes);
	uint64_t n_real = n_bytes && bytes ? n_bytes : n_bytes + 1;
	cl_mem buffer = device->cl->CreateBuffer(device->context,
		CL_MEM_READ_WRITE | (n_bytes && bytes ? CL_MEM_COPY_HOST_PTR : 0), n_real,
		n_bytes && bytes ? (void *)(uintptr_t)bytes : NULL, &error);
	if (!buffer)
		return ocl_device_fail(device, error, "clCreateBuffer", diag);
	count_bytes(device, n_bytes, 0);
	*ret_buffer = buffer;
	return ET_OK;
}

void ocl_buffer_free(struct ocl_device *device, cl_mem buffer, uint64_t n_bytes)
{
	if (!buffer)
		return;
	device->cl->ReleaseMemObject(buffer);
	count_bytes(device, 0, n_bytes);
}

enum et_status ocl_device_fail(struct ocl_device *device, cl_int error, const char *what, struct et_diag *diag)
{
	enum et_status status = ocl_fail(diag, error, what);
	if (status == ET_E_MEMORY_ALLOCATION_FAILED)
		return status;
	atomic_store_explicit(&device->is_lost, true, memory_order_relaxed);
	return ET_E_BACKEND_CRASHED;
}
