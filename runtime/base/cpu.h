/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds of a file for processor levels (cpu_builds in meson.build, which has their compiler flags): which of them
 * this processor can run. The C library has detected the processor before the program starts; these functions read its
 * result. A feature that the library is told not to use (GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F) is not used here
 * either. */
#ifndef RUNTIME_BASE_CPU_H
#define RUNTIME_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __x86_64__
#include <sys/platform/x86.h>

/* Like CPU_FEATURE_ACTIVE, which shifts a 1 into the sign of an int. */
static inline bool et_cpu_has(unsigned feature)
{
	const struct cpuid_feature *leaf = __x86_get_cpuid_feature_leaf(feature / 128);
	return leaf->active_array[feature / 32 % 4] >> feature % 32 & 1;
}
#define ET_CPU_HAS(name) et_cpu_has(x86_cpu_##name)

static inline bool et_cpu_runs_avx2(void)
{
	return ET_CPU_HAS(AVX2) && ET_CPU_HAS(FMA);
}

static inline bool et_cpu_runs_avx512(void)
{
	return et_cpu_runs_avx2() && ET_CPU_HAS(AVX512F) && ET_CPU_HAS(AVX512VL) && ET_CPU_HAS(AVX512DQ) &&
	       ET_CPU_HAS(AVX512BW);
}

static inline bool et_cpu_runs_vnni(void)
{
	return et_cpu_runs_avx512() && ET_CPU_HAS(AVX512_VNNI);
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
