/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether this processor can run softmax_fp16.c. Built for the baseline, as it never answers a build that needs more. */
#include "delegates/xnnpack/ukernels/softmax_fp16.h"

#include "runtime/base/cpu.h"

const struct et_softmax_fp16_build *et_softmax_fp16(void)
{
#ifdef __x86_64__
	if (et_cpu_runs_avx512() && __builtin_cpu_supports("f16c"))
		return &et_softmax_fp16_avx512;
#endif
	return NULL;
}
