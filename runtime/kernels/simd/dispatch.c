/* SPDX-License-Identifier: BSD-3-Clause */
/* Microkernel dispatch: which build of the micro-kernels this processor runs.
 *
 * Each table exists once for each instruction set of cpu_builds (meson.build). The last one that the processor can run
 * is the best. */
#include "runtime/kernels/simd/cast_ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/base/cpu.h"

#define BEST_FOR_PROCESSOR(name)                                                    \
	const struct name *name(void)                                               \
	{                                                                           \
		static const struct name *const builds[] = { ET_CPU_BUILDS(name) }; \
		return builds[et_cpu_n_builds() - 1];                               \
	}
BEST_FOR_PROCESSOR(et_ukernels)
BEST_FOR_PROCESSOR(et_span_ukernels)
BEST_FOR_PROCESSOR(et_cast_ukernels)
