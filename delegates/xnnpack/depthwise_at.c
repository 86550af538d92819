/* Which builds of depthwise.c this processor can run.
 *
 * Asked once for each run of a node. A build is never answered that needs an instruction which the processor lacks, so
 * this file itself is built for the baseline. */
#include "delegates/xnnpack/depthwise.h"

#include "runtime/base/cpu.h"

const struct et_depthwise_build *et_depthwise_at(size_t i)
{
	const struct et_depthwise_build *builds[4] = { &et_depthwise_base };
	size_t n = 1;
#ifdef __x86_64__
	if (et_cpu_runs_avx2())
		builds[n++] = &et_depthwise_avx2;
	if (et_cpu_runs_avx512())
		builds[n++] = &et_depthwise_avx512;
#endif
	return i < n ? builds[i] : NULL;
}

/* Of x86 without FMA nothing is known; there XNNPACK has its way. */
const struct et_depthwise_build *et_depthwise(void)
{
	const struct et_depthwise_build *best = NULL;
#if defined(__x86_64__)
	for (size_t i = 1; et_depthwise_at(i); i++)
		best = et_depthwise_at(i);
#elif defined(__aarch64__)
	best = &et_depthwise_base;
#endif
	return best;
}

const struct et_depthwise_build *et_depthwise_halves(void)
{
#ifdef __x86_64__
	if (et_cpu_runs_avx512() && __builtin_cpu_supports("f16c"))
		return &et_depthwise_halves_avx512;
#endif
	return NULL;
}
