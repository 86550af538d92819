/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns. A device works on what was enqueued first, so a run of a low priority must not have much enqueued: it waits
 * for its last piece of work, and then for runs of a higher priority to end. If there is no end of these, it goes on
 * with a piece of some milliseconds after each OCL_MAX_TURN_NS: the host's scheduler has let it run, perhaps for its
 * age. */
#include "delegates/opencl/turns.h"

#include "runtime/platform/platform.h"

static uint32_t class_of(uint32_t priority)
{
	return priority < OCL_N_PRIORITIES ? priority : OCL_N_PRIORITIES - 1;
}

void ocl_turn_begin(struct ocl_device *device, uint32_t priority)
{
	pthread_mutex_lock(&device->lock);
	device->n_running_of[class_of(priority)]++;
	pthread_mutex_unlock(&device->lock);
}

void ocl_turn_end(struct ocl_device *device, uint32_t priority)
{
	pthread_mutex_lock(&device->lock);
	device->n_running_of[class_of(priority)]--;
	pthread_cond_broadcast(&device->turn_changed);
	pthread_mutex_unlock(&device->lock);
}

static bool must_wait(const struct ocl_device *device, uint32_t priority)
{
	bool is_higher = false;
	for (uint32_t i = class_of(priority) + 1; i < OCL_N_PRIORITIES; i++)
		is_higher |= device->n_running_of[i] != 0;
	return is_higher && priority != INFERD_DELEGATE_PRIORITY_UNKNOWN;
}

uint64_t ocl_turn_wait(struct ocl_device *device, uint32_t priority, const atomic_bool *is_cancelled)
{
	uint64_t began = et_platform_now_ns(NULL), until = began + OCL_MAX_TURN_NS;
	const struct timespec end = { (time_t)(until / 1000000000u), (long)(until % 1000000000u) };
	bool is_over = false;
	pthread_mutex_lock(&device->lock);
	bool has_waited = must_wait(device, priority);
	while (!is_over && must_wait(device, priority) && !atomic_load_explicit(is_cancelled, memory_order_relaxed))
		is_over = pthread_cond_timedwait(&device->turn_changed, &device->lock, &end) != 0;
	pthread_mutex_unlock(&device->lock);
	return has_waited ? et_platform_now_ns(NULL) - began : 0;
}

void ocl_turn_wake(struct ocl_device *device)
{
	pthread_mutex_lock(&device->lock);
	pthread_cond_broadcast(&device->turn_changed);
	pthread_mutex_unlock(&device->lock);
}
