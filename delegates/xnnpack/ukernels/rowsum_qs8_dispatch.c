/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatch: which build of rowsum_qs8.c this processor runs. This file is built for the baseline. */
#include "delegates/xnnpack/ukernels/rowsum_qs8.h"

#include "runtime/base/cpu.h"

static const struct et_rowsum_qs8_build *const builds[] = { ET_CPU_BUILDS(et_rowsum_qs8) };

const struct et_rowsum_qs8_build *et_rowsum_qs8_at(size_t i)
{
	return i < et_cpu_n_builds() ? builds[i] : NULL;
}

const struct et_rowsum_qs8_build *et_rowsum_qs8(void)
{
	return builds[et_cpu_n_builds() - 1];
}
