/* SPDX-License-Identifier: BSD-3-Clause */
/* The OpenCL devices that the options allow, each with a context of its own. */
#ifndef DELEGATES_OPENCL_DEVICE_H
#define DELEGATES_OPENCL_DEVICE_H

#include "delegates/opencl/cl_api.h"
#include "delegates/opencl/options.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	OCL_MAX_DEVICES = 8, /* of a plug-in, by inferd-delegate.h */
	/* Runs at once: two, so that the host works on one while the device works on the other, and one of a higher
	 * priority, which makes them wait. */
	OCL_MAX_IN_FLIGHT = 3,
	OCL_N_PRIORITIES = 5, /* enum inferd_delegate_priority */
};

struct ocl_program;
struct ocl_weight;
struct ocl_lane;

struct ocl_device {
	const struct ocl_api *cl;
	const struct inferd_delegate_host *host;
	bool builds_apart; /* kernels that are not in the cache are requested there, not built */
	cl_device_id id;
	cl_context context;
	uint32_t index;
	char name[64], platform[64], driver[64];
	char features[128]; /* words, for people */
	bool is_cpu;
	uint64_t memory_bytes;    /* all of the device's */
	uint64_t max_alloc_bytes; /* of one buffer */
	uint64_t work_group_size; /* of each plain kernel: how many work-items */
	/* Of the fast kernels: elements that a work-item computes side by side, and in how many rows. */
	uint32_t n_lanes, n_tile_rows;
	bool has_half; /* arithmetic */
	bool imports;  /* it works on whole pages of the host in place */
	/* A call answered that the device or the driver failed. A context that failed is not used again. */
	atomic_bool is_lost;

	pthread_mutex_t lock; /* of what follows; held for short times, but also while kernels are set and enqueued */
	pthread_cond_t lane_is_free, turn_changed;
	uint32_t n_running_of[OCL_N_PRIORITIES]; /* in turns.c */
	struct ocl_lane *lanes;                  /* in lane.c */
	struct ocl_weight *weights;              /* in weights.c */
	uint64_t n_runs, busy_ns;
	uint64_t n_used_bytes;   /* buffers that exist */
	uint64_t n_copied_bytes; /* of arguments */

	pthread_mutex_t build_lock;   /* of programs; held while one is built */
	struct ocl_program *programs; /* in programs.c */
	uint32_t n_loaded, n_built;   /* since ocl_programs_log */
};

/* Find the devices and open them. ET_E_NOT_FOUND with what was found instead. */
enum et_status ocl_devices_open(struct ocl_device *devices, uint32_t *ret_n, const struct ocl_api *cl,
	const struct inferd_delegate_host *host, const struct ocl_options *options, struct et_diag *diag);
void ocl_device_close(struct ocl_device *device);

/* Make a buffer of @n_bytes (at least one is allocated), with @bytes in it unless that is NULL. It is counted.
 * ET_E_OUT_OF_RESOURCES if one buffer cannot have so many; ET_E_MEMORY_ALLOCATION_FAILED. Any thread. */
enum et_status ocl_buffer_new(struct ocl_device *device, uint64_t n_bytes, const void *bytes, cl_mem *ret_buffer,
	struct et_diag *diag);
/* @n_bytes as when it was made. @buffer may be NULL. */
void ocl_buffer_free(struct ocl_device *device, cl_mem buffer, uint64_t n_bytes);

/* As ocl_fail, and remember that the device is lost unless there was merely no memory: then ET_E_BACKEND_CRASHED. */
enum et_status ocl_device_fail(struct ocl_device *device, cl_int error, const char *what, struct et_diag *diag);

#endif
