/* SPDX-License-Identifier: BSD-3-Clause */
/* A lane is what one run in flight needs on a device: an in-order queue, the arena for the tensors of the run, and a
 * word in which kernels say that an index was out of range. Lanes serve all models, so the arenas of a device are as
 * many as its runs in flight, each as large as the largest model that it has run. */
#ifndef DELEGATES_OPENCL_LANE_H
#define DELEGATES_OPENCL_LANE_H

#include "delegates/opencl/device.h"

struct ocl_lane {
	struct ocl_device *device;
	struct ocl_lane *next;
	bool is_taken;
	cl_command_queue queue;
	cl_mem arena, error;
	uint64_t n_arena_bytes;
};

/* Take a lane whose arena has @n_bytes; waits while all are taken. The caller gives it back. The arena holds what an
 * earlier run left. ET_E_MEMORY_ALLOCATION_FAILED, ET_E_OUT_OF_RESOURCES, ET_E_BACKEND_CRASHED. Any thread. */
enum et_status ocl_lane_take(struct ocl_device *device, uint64_t n_bytes, struct ocl_lane **ret_lane,
	struct et_diag *diag);
/* Nothing that was enqueued is under way any more. */
void ocl_lane_give(struct ocl_lane *lane);

/* Free all lanes of a device that is closed. */
void ocl_lanes_free(struct ocl_device *device);

#endif
