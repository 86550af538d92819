/* Which builds of bfloat.c this processor can run. Built for the baseline, as it never answers one that needs more. */
#include "delegates/xnnpack/bfloat.h"

#include "runtime/base/cpu.h"

static const struct et_bfloat_build *const builds[] = { ET_CPU_BUILDS(et_bfloat) };

const struct et_bfloat_build *et_bfloat_at(size_t i)
{
	return i < et_cpu_n_builds() ? builds[i] : NULL;
}

const struct et_bfloat_build *et_bfloat(void)
{
	return builds[et_cpu_n_builds() - 1];
}
