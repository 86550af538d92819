/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns: which of the runs on a device may enqueue its next piece of work. */
#ifndef DELEGATES_OPENCL_TURNS_H
#define DELEGATES_OPENCL_TURNS_H

#include "delegates/opencl/device.h"

enum { OCL_MAX_TURN_NS = 20000000 };

/* A run of @priority (enum inferd_delegate_priority) begins or ends. Any thread. */
void ocl_turn_begin(struct ocl_device *device, uint32_t priority);
void ocl_turn_end(struct ocl_device *device, uint32_t priority);
/* Between two pieces of work of a run: wait while runs of a higher priority are under way, at most for OCL_MAX_TURN_NS,
 * and not if *@is_cancelled. For how long, in nanoseconds. Nothing of the run is enqueued. */
uint64_t ocl_turn_wait(struct ocl_device *device, uint32_t priority, const atomic_bool *is_cancelled);
/* Let a run that waits look whether it was cancelled. Any thread. */
void ocl_turn_wake(struct ocl_device *device);

#endif
