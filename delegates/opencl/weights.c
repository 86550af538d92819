/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of a device's constants. Two payloads of one program that are made ready at the same time may both upload
 * the same constant; the second one to finish then gives its copy back. Uploading happens without the lock. */
#include "delegates/opencl/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ocl_weight *find(struct ocl_device *device, uint64_t program, const char *key, uint64_t n_bytes)
{
	if (!key || !key[0] || strlen(key) >= sizeof(((struct ocl_weight *)0)->key))
		return NULL;
	for (struct ocl_weight *w = device->weights; w; w = w->next)
		if (w->program == program && w->n_bytes == n_bytes && strcmp(w->key, key) == 0)
			return w;
	return NULL;
}

static struct ocl_weight *find_and_ref(struct ocl_device *device, uint64_t program, const char *key, uint64_t n_bytes)
{
	pthread_mutex_lock(&device->lock);
	struct ocl_weight *found = find(device, program, key, n_bytes);
	if (found)
		found->n_refs++;
	pthread_mutex_unlock(&device->lock);
	return found;
}

enum et_status ocl_weight_get(struct ocl_device *device, uint64_t program, const char *key, const uint8_t *bytes,
	uint64_t n_bytes, struct ocl_weight **ret_weight, bool *ret_is_new, struct et_diag *diag)
{
	struct ocl_weight *found = find_and_ref(device, program, key, n_bytes);
	*ret_is_new = !found;
	if (found) {
		*ret_weight = found;
		return ET_OK;
	}
	struct ocl_weight *w = calloc(1, sizeof(*w));
	if (!w)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a constant");
	*w = (struct ocl_weight){ .n_refs = 1, .program = program, .n_bytes = n_bytes };
	if (key && strlen(key) < sizeof(w->key))
		snprintf(w->key, sizeof(w->key), "%s", key);
	enum et_status status = ocl_buffer_new(device, n_bytes, bytes, &w->buffer, diag);
	if (status != ET_OK) {
		free(w);
		return status;
	}
	pthread_mutex_lock(&device->lock);
	found = find(device, program, key, n_bytes);
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
