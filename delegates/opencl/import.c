/* SPDX-License-Identifier: BSD-3-Clause */
/* Import of clients' memory by CL_MEM_USE_HOST_PTR. Only whole pages are imported, and only where a trial on the open
 * device showed that nothing is copied: some drivers copy memory that is not aligned to pages, others copy always. */
#include "delegates/opencl/import.h"

#include <stdlib.h>
#include <string.h>

enum { N_TRIAL = 64 << 10, PAGE = 4096 };

/* The pages at @bytes, filled with ones, become a buffer. */
static bool try_buffer(struct ocl_device *device, cl_command_queue queue, cl_mem buffer, const uint8_t *bytes,
	bool *ret_works)
{
	const struct ocl_api *cl = device->cl;
	const cl_uchar two = 2;
	cl_int error;
	void *mapped = cl->EnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, N_TRIAL, 0, NULL, NULL, &error);
	if (mapped && cl->EnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL) != CL_SUCCESS) {
		/* A buffer that stays mapped keeps the context, and all its memory. */
		cl->EnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL);
		return false;
	}
	if (!mapped ||
		cl->EnqueueFillBuffer(queue, buffer, &two, sizeof(two), 0, N_TRIAL, 0, NULL, NULL) != CL_SUCCESS ||
		cl->Finish(queue) != CL_SUCCESS)
		return false;
	*ret_works = mapped == bytes && bytes[0] == two && bytes[N_TRIAL - 1] == two;
	return true;
}

bool ocl_import_try(struct ocl_device *device, bool *ret_works)
{
	const struct ocl_api *cl = device->cl;
	void *bytes = NULL;
	bool is_right = false;
	cl_int error;
	if (posix_memalign(&bytes, PAGE, N_TRIAL))
		return false;
	memset(bytes, 1, N_TRIAL);
	cl_command_queue queue = cl->CreateCommandQueue(device->context, device->id, 0, &error);
	cl_mem buffer = queue ? cl->CreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, N_TRIAL,
					bytes, &error)
			      : NULL;
	if (buffer) {
		is_right = try_buffer(device, queue, buffer, bytes, ret_works);
		cl->Finish(queue);
		cl->ReleaseMemObject(buffer);
	}
	if (queue)
		cl->ReleaseCommandQueue(queue);
	free(bytes);
	return is_right;
}

int ocl_import(struct ocl_device *device, const struct inferd_delegate_memory *memory,
	struct inferd_delegate_buffer **ret_buffer)
{
	cl_int error;
	if (!device->imports || memory->kind != INFERD_DELEGATE_MEMFD || !memory->data || !memory->n_bytes ||
		memory->n_bytes > device->max_alloc_bytes ||
		atomic_load_explicit(&device->is_lost, memory_order_relaxed))
		return INFERD_DELEGATE_E_UNSUPPORTED;
	struct inferd_delegate_buffer *buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return INFERD_DELEGATE_E_MEMORY;
	buffer->device = device;
	buffer->memory = device->cl->CreateBuffer(device->context,
		CL_MEM_USE_HOST_PTR | (memory->is_written ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY), memory->n_bytes,
		memory->data, &error);
	if (!buffer->memory) {
		free(buffer);
		return INFERD_DELEGATE_E_UNSUPPORTED; /* runs do without */
	}
	*ret_buffer = buffer;
	return INFERD_DELEGATE_OK;
}

void ocl_import_free(struct inferd_delegate_buffer *buffer)
{
	if (!buffer)
		return;
	buffer->device->cl->ReleaseMemObject(buffer->memory);
	free(buffer);
}
