/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatch: which build of depthwise.c this processor runs. Asked once for each run of a node. This file is built for
 * the baseline. */
#include "delegates/xnnpack/ukernels/depthwise.h"

#include "runtime/base/cpu.h"

static const struct et_depthwise_build *const builds[] = { ET_CPU_BUILDS(et_depthwise) };

const struct et_depthwise_build *et_depthwise_at(size_t i)
{
	return i < et_cpu_n_builds() ? builds[i] : NULL;
}

/* On x86 without FMA nothing was measured, so XNNPACK computes there. */
const struct et_depthwise_build *et_depthwise(void)
{
#if defined(__aarch64__)
	return &et_depthwise_base;
#else
	return et_cpu_n_builds() > 1 ? builds[et_cpu_n_builds() - 1] : NULL;
#endif
}

const struct et_depthwise_build *et_depthwise_any(void)
{
	return builds[et_cpu_n_builds() - 1];
}

const struct et_depthwise_build *et_depthwise_fp16(void)
{
#ifdef __x86_64__
	if (et_cpu_runs_avx512() && ET_CPU_HAS(F16C))
		return &et_depthwise_fp16_avx512;
#endif
	return NULL;
}
