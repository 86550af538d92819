/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of a device's constants. Two payloads of one program that are made ready at the same time may both upload
 * the same constant; the second one to finish then gives its copy back. Uploading happens without the lock. */
#include "delegates/opencl/weights.h"

#include "runtime/base/checked.h"
#include "runtime/base/fp16.h"
#include "runtime/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ocl_weight *find(struct ocl_device *device, const struct ocl_weight *like)
{
	for (struct ocl_weight *w = like->key[0] ? device->weights : NULL; w; w = w->next)
		if (w->program == like->program && w->n_bytes == like->n_bytes && strcmp(w->key, like->key) == 0)
			return w;
	return NULL;
}

static struct ocl_weight *find_and_ref(struct ocl_device *device, const struct ocl_weight *like)
{
	pthread_mutex_lock(&device->lock);
	struct ocl_weight *found = find(device, like);
	if (found)
		found->n_refs++;
	pthread_mutex_unlock(&device->lock);
	return found;
}

/* --- layouts -------------------------------------------------------------------------------------- */

uint64_t ocl_layout_bytes(const struct ocl_layout *layout, uint64_t n_bytes)
{
	uint64_t rows = layout->n_rows, n = n_bytes / et_scalar_size(layout->from);
	if (layout->kind == OCL_PANELS)
		rows = (rows + layout->n_lanes - 1) / layout->n_lanes * layout->n_lanes;
	if (layout->kind != OCL_AS_IS)
		n = et_times(rows, layout->n_along);
	return et_times(n, et_scalar_size(layout->to));
}

static void copy(const struct ocl_layout *layout, uint8_t *to, uint64_t to_at, const uint8_t *from, uint64_t from_at)
{
	size_t size = et_scalar_size(layout->to);
	float f;
	uint16_t half;
	if (layout->from == layout->to) {
		memcpy(to + to_at * size, from + from_at * size, size);
		return;
	}
	if (layout->from == ET_FLOAT16) {
		memcpy(&half, from + from_at * sizeof(half), sizeof(half));
		f = et_fp16_to_float(half);
	} else {
		f = (int8_t)from[from_at];
	}
	memcpy(to + to_at * sizeof(f), &f, sizeof(f));
}

/* The caller frees it. NULL without memory. */
static uint8_t *lay_out(const struct ocl_layout *layout, const uint8_t *bytes, uint64_t n_bytes)
{
	uint64_t n = n_bytes / et_scalar_size(layout->from);
	uint8_t *out = calloc(ocl_layout_bytes(layout, n_bytes) + 1, 1);
	if (!out)
		return NULL;
	for (uint64_t i = 0; layout->kind == OCL_AS_IS && i < n; i++)
		copy(layout, out, i, bytes, i);
	for (uint64_t row = 0; layout->kind != OCL_AS_IS && row < layout->n_rows; row++) {
		uint64_t lanes = layout->kind == OCL_PANELS ? layout->n_lanes : 1;
		uint64_t at = row / lanes * lanes * layout->n_along + row % lanes;
		for (uint64_t k = 0; k < layout->n_along; k++)
			copy(layout, out, at + k * lanes, bytes, row * layout->row_stride + k);
	}
	return out;
}

static void set_key(struct ocl_weight *w, const char *key, const struct ocl_layout *layout)
{
	if (key && key[0] && strlen(key) < 68)
		snprintf(w->key, sizeof(w->key), "%s %u:%u:%u:%u:%llux%llu", key, layout->kind, layout->from,
			layout->to, layout->n_lanes, (unsigned long long)layout->n_rows,
			(unsigned long long)layout->n_along);
}

static enum et_status upload(struct ocl_device *device, struct ocl_weight *w, const struct ocl_layout *layout,
	const uint8_t *bytes, uint64_t n_bytes, struct et_diag *diag)
{
	if (layout->kind == OCL_AS_IS && layout->from == layout->to)
		return ocl_buffer_new(device, n_bytes, bytes, &w->buffer, diag);
	uint8_t *out = lay_out(layout, bytes, n_bytes);
	if (!out)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a constant");
	enum et_status status = ocl_buffer_new(device, w->n_bytes, out, &w->buffer, diag);
	free(out);
	return status;
}

enum et_status ocl_weight_get(struct ocl_device *device, uint64_t program, const char *key,
	const struct ocl_layout *layout, const uint8_t *bytes, uint64_t n_bytes, struct ocl_weight **ret_weight,
	bool *ret_is_new, struct et_diag *diag)
{
	struct ocl_weight *w = calloc(1, sizeof(*w));
	if (!w)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a constant");
	*w = (struct ocl_weight){ .n_refs = 1, .program = program, .n_bytes = ocl_layout_bytes(layout, n_bytes) };
	set_key(w, key, layout);
	struct ocl_weight *found = find_and_ref(device, w);
	enum et_status status = found ? ET_OK : upload(device, w, layout, bytes, n_bytes, diag);
	*ret_is_new = !found;
	if (status != ET_OK || found) {
		free(w);
		*ret_weight = found;
		return status;
	}
	pthread_mutex_lock(&device->lock);
	found = find(device, w);
	if (found) {
		found->n_refs++;
	} else {
		w->next = device->weights;
		device->weights = w;
	}
	pthread_mutex_unlock(&device->lock);
	if (found) {
		ocl_buffer_free(device, w->buffer, w->n_bytes);
		free(w);
		*ret_is_new = false;
	}
	*ret_weight = found ? found : w;
	return ET_OK;
}

void ocl_weight_unref(struct ocl_device *device, struct ocl_weight *weight)
{
	pthread_mutex_lock(&device->lock);
	bool is_last = !--weight->n_refs;
	if (is_last) {
		struct ocl_weight **at = &device->weights;
		while (*at != weight)
			at = &(*at)->next;
		*at = weight->next;
	}
	pthread_mutex_unlock(&device->lock);
	if (is_last) {
		ocl_buffer_free(device, weight->buffer, weight->n_bytes);
		free(weight);
	}
}
