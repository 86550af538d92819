/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatch: which build of bf16.c this processor runs. This file is built for the baseline. */
#include "delegates/xnnpack/ukernels/bf16.h"

#include "runtime/base/cpu.h"

static const struct et_bf16_build *const builds[] = { ET_CPU_BUILDS(et_bf16) };

const struct et_bf16_build *et_bf16_at(size_t i)
{
	return i < et_cpu_n_builds() ? builds[i] : NULL;
}

const struct et_bf16_build *et_bf16(void)
{
	return builds[et_cpu_n_builds() - 1];
}
