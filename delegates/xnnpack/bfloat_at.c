/* Which builds of bfloat.c this processor can run. Built for the baseline, as it never answers one that needs more. */
#include "delegates/xnnpack/bfloat.h"

#include "runtime/base/cpu.h"

const struct et_bfloat_build *et_bfloat_at(size_t i)
{
	const struct et_bfloat_build *builds[4] = { &et_bfloat_base };
	size_t n = 1;
#ifdef __x86_64__
	if (et_cpu_runs_avx2())
		builds[n++] = &et_bfloat_avx2;
	if (et_cpu_runs_avx512())
		builds[n++] = &et_bfloat_avx512;
#endif
	return i < n ? builds[i] : NULL;
}

const struct et_bfloat_build *et_bfloat(void)
{
	const struct et_bfloat_build *best = &et_bfloat_base;
	for (size_t i = 1; et_bfloat_at(i); i++)
		best = et_bfloat_at(i);
	return best;
}
