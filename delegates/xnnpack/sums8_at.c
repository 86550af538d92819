/* Which builds of sums8.c this processor can run. Built for the baseline, as it never answers one that needs more. */
#include "delegates/xnnpack/sums8.h"

#include "runtime/base/cpu.h"

static const struct et_sums8_build *const builds[] = { ET_CPU_BUILDS(et_sums8) };

const struct et_sums8_build *et_sums8_at(size_t i)
{
	return i < et_cpu_n_builds() ? builds[i] : NULL;
}

const struct et_sums8_build *et_sums8(void)
{
	return builds[et_cpu_n_builds() - 1];
}
