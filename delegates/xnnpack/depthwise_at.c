/* Which builds of depthwise.c this processor can run.
 *
 * Asked once for each run of a node; the compiler's library has asked the processor by then. A build is never answered
 * that needs an instruction which the processor lacks, so this file itself is built for the baseline. */
#include "delegates/xnnpack/depthwise.h"

const struct et_depthwise_build *et_depthwise_at(size_t i)
{
	const struct et_depthwise_build *builds[4] = { &et_depthwise_base };
	size_t n = 1;
#ifdef ET_DEPTHWISE_X86
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		builds[n++] = &et_depthwise_avx2;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
		__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
		builds[n++] = &et_depthwise_avx512;
#endif
	return i < n ? builds[i] : NULL;
}

/* Of x86 without FMA nothing is known; there XNNPACK has its way. */
const struct et_depthwise_build *et_depthwise(void)
{
	const struct et_depthwise_build *best = NULL;
#if defined(ET_DEPTHWISE_X86)
	for (size_t i = 1; et_depthwise_at(i); i++)
		best = et_depthwise_at(i);
#elif defined(__aarch64__)
	best = &et_depthwise_base;
#endif
	return best;
}
