/* SPDX-License-Identifier: BSD-3-Clause */
/* Clocks in nanoseconds. */
#ifndef DELEGATES_XNNPACK_POOL_CLOCK_H
#define DELEGATES_XNNPACK_POOL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t et_xnn_clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t et_xnn_now_ns(void)
{
	return et_xnn_clock_ns(CLOCK_MONOTONIC);
}

#endif
