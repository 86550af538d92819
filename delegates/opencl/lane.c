/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes are made when they are first needed, at most OCL_MAX_IN_FLIGHT of a device. An arena that is too small for a
 * run is replaced by one of the right size; it never shrinks. */
#include "delegates/opencl/lane.h"

#include <stdlib.h>

static void free_lane(struct ocl_lane *lane)
{
	const struct ocl_api *cl = lane->device->cl;
	if (lane->queue)
		cl->ReleaseCommandQueue(lane->queue);
	ocl_buffer_free(lane->device, lane->arena, lane->n_arena_bytes);
	ocl_buffer_free(lane->device, lane->error, sizeof(cl_int));
	free(lane);
}

static enum et_status make(struct ocl_device *device, struct ocl_lane **ret_lane, struct et_diag *diag)
{
	cl_int error;
	struct ocl_lane *lane = calloc(1, sizeof(*lane));
	if (!lane)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a queue");
	lane->device = device;
	lane->is_taken = true;
	lane->queue = device->cl->CreateCommandQueue(device->context, device->id, 0, &error);
	enum et_status status = lane->queue ? ET_OK : ocl_device_fail(device, error, "clCreateCommandQueue", diag);
	if (status == ET_OK)
		status = ocl_buffer_new(device, sizeof(cl_int), NULL, &lane->error, diag);
	if (status != ET_OK) {
		free_lane(lane);
		return status;
	}
	pthread_mutex_lock(&device->lock);
	lane->next = device->lanes;
	device->lanes = lane;
	pthread_mutex_unlock(&device->lock);
	*ret_lane = lane;
	return ET_OK;
}

/* A free lane, or NULL: then one may be made if *@ret_may_make. With the lock. */
static struct ocl_lane *find_free(struct ocl_device *device, bool *ret_may_make)
{
	uint32_t n = 0;
	for (struct ocl_lane *lane = device->lanes; lane; lane = lane->next, n++)
		if (!lane->is_taken)
			return lane;
	*ret_may_make = n < OCL_MAX_IN_FLIGHT;
	return NULL;
}

static enum et_status make_larger(struct ocl_lane *lane, uint64_t n_bytes, struct et_diag *diag)
{
	if (lane->arena && lane->n_arena_bytes >= n_bytes)
		return ET_OK;
	ocl_buffer_free(lane->device, lane->arena, lane->n_arena_bytes);
	lane->arena = NULL;
	lane->n_arena_bytes = 0;
	enum et_status status = ocl_buffer_new(lane->device, n_bytes, NULL, &lane->arena, diag);
	if (status == ET_OK)
		lane->n_arena_bytes = n_bytes;
	return status;
}

/* Wait for a free lane, or make one. */
static enum et_status find_or_make(struct ocl_device *device, struct ocl_lane **ret_lane, struct et_diag *diag)
{
	bool may_make = false;
	pthread_mutex_lock(&device->lock);
	struct ocl_lane *lane = find_free(device, &may_make);
	while (!lane && !may_make) {
		pthread_cond_wait(&device->lane_is_free, &device->lock);
		lane = find_free(device, &may_make);
	}
	if (lane)
		lane->is_taken = true;
	pthread_mutex_unlock(&device->lock);
	*ret_lane = lane;
	if (lane)
		return ET_OK;
	/* Two threads may make one at the same time: then there is one more than needed. */
	return make(device, ret_lane, diag);
}

enum et_status ocl_lane_take(struct ocl_device *device, uint64_t n_bytes, struct ocl_lane **ret_lane,
	struct et_diag *diag)
{
	struct ocl_lane *lane = NULL;
	enum et_status status = find_or_make(device, &lane, diag);
	if (status != ET_OK || !lane)
		return status;
	status = make_larger(lane, n_bytes, diag);
	if (status != ET_OK)
		ocl_lane_give(lane);
	else
		*ret_lane = lane;
	return status;
}

void ocl_lane_give(struct ocl_lane *lane)
{
	pthread_mutex_lock(&lane->device->lock);
	lane->is_taken = false;
	pthread_cond_signal(&lane->device->lane_is_free);
	pthread_mutex_unlock(&lane->device->lock);
}

void ocl_lanes_free(struct ocl_device *device)
{
	while (device->lanes) {
		struct ocl_lane *lane = device->lanes;
		device->lanes = lane->next;
		free_lane(lane);
	}
}
