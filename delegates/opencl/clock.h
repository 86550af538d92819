/* SPDX-License-Identifier: BSD-3-Clause */
/* The monotonic clock in nanoseconds. */
#ifndef DELEGATES_OPENCL_CLOCK_H
#define DELEGATES_OPENCL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ocl_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
