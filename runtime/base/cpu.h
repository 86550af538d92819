/* Which of cpu_builds (meson.build, where the flags of each stand) this processor can run. The compiler's library has
 * asked the processor when the program started; this reads what it wrote down. */
#ifndef RUNTIME_BASE_CPU_H
#define RUNTIME_BASE_CPU_H

#include <stdbool.h>

#ifdef __x86_64__
static inline bool et_cpu_runs_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static inline bool et_cpu_runs_avx512(void)
{
	return et_cpu_runs_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512bw");
}

static inline bool et_cpu_runs_vnni(void)
{
	return et_cpu_runs_avx512() && __builtin_cpu_supports("avx512vnni");
}
#endif

#endif
