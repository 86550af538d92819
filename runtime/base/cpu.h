/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds of a file for processor levels (cpu_builds in meson.build, which has their compiler flags): which of them
 * this processor can run. The compiler's library detects the processor at program start; these functions read its
 * result. */
#ifndef RUNTIME_BASE_CPU_H
#define RUNTIME_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __x86_64__
static inline bool et_cpu_runs_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static inline bool et_cpu_runs_avx512(void)
{
	return et_cpu_runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}

static inline bool et_cpu_runs_vnni(void)
{
	return et_cpu_runs_avx512() && __builtin_cpu_supports("avx512vnni");
}
#endif

/* A file that is built for each processor level defines name_base, name_avx2, name_avx512. This lists their
 * addresses for an array, from the slowest to the fastest. */
#ifdef __x86_64__
#define ET_CPU_BUILDS(name) &name##_base, &name##_avx2, &name##_avx512
#else
#define ET_CPU_BUILDS(name) &name##_base
#endif

/* Return how many entries of that array this processor can run. */
static inline size_t et_cpu_n_builds(void)
{
#ifdef __x86_64__
	return et_cpu_runs_avx512() ? 3 : et_cpu_runs_avx2() ? 2 : 1;
#else
	return 1;
#endif
}

#endif
