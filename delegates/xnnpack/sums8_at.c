/* Which builds of sums8.c this processor can run. Built for the baseline, as it never answers one that needs more. */
#include "delegates/xnnpack/sums8.h"

#include "runtime/base/cpu.h"

const struct et_sums8_build *et_sums8_at(size_t i)
{
	const struct et_sums8_build *builds[4] = { &et_sums8_base };
	size_t n = 1;
#ifdef __x86_64__
	if (et_cpu_runs_avx2())
		builds[n++] = &et_sums8_avx2;
	if (et_cpu_runs_avx512())
		builds[n++] = &et_sums8_avx512;
#endif
	return i < n ? builds[i] : NULL;
}

const struct et_sums8_build *et_sums8(void)
{
	const struct et_sums8_build *best = &et_sums8_base;
	for (size_t i = 1; et_sums8_at(i); i++)
		best = et_sums8_at(i);
	return best;
}
