/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of cpu_builds (meson.build, where the flags of each stand) this processor can run. The compiler's library has
 * asked the processor when the program started; this reads what it wrote down. */
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

/* What a file that is built for each of these defines, from the plainest to the best: the elements of an array. */
#ifdef __x86_64__
#define ET_CPU_BUILDS(name) &name##_base, &name##_avx2, &name##_avx512
#else
#define ET_CPU_BUILDS(name) &name##_base
#endif

/* How many of them this processor can run. */
static inline size_t et_cpu_n_builds(void)
{
#ifdef __x86_64__
	return et_cpu_runs_avx512() ? 3 : et_cpu_runs_avx2() ? 2 : 1;
#else
	return 1;
#endif
}

#endif
