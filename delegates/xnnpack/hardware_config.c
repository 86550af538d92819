/* SPDX-License-Identifier: BSD-3-Clause */
/* Hiding processor features with which Debian's XNNPACK computes wrongly.
 *
 * Debian 13's XNNPACK (of November 2024) has sets of kernels whose results are wrong; later versions mend them or
 * leave them out:
 *   - The kernels for matrix tiles (AMX). They unpack 4-bit filters to the stack and load them as a tile from there.
 *     gcc does not know that this is a read (its bug 122446) and drops the stores, so the filter is what the stack
 *     held. And a convolution whose last tile is a single element counts up the wrong pointer (mended by XNNPACK's
 *     commit 7a16107) and multiplies its first 64 channels again and again.
 *   - The kernel for 4-bit filters in blocks, by GFNI. It computes 14 rows at a time and reads the scales of that
 *     many, but only ten are kept beyond the last row (XNN_EXTRA_QUANTIZATION_PARAMS, raised by XNNPACK's commit
 *     276516a): of one to three rows the last is lost.
 *   - The kernels for fp16 products by AVX512-FP16 (linear layers and convolutions; XNNPACK's commit c4243ba no
 *     longer uses them): they gave NaNs here. Overrides do these nodes then (conv_linear.c), and XNNPACK's AVX2
 *     kernels, which compute in fp32, do grouped ones.
 *
 * A processor without AVX-512 or AVX2 for the C library (runtime/base/cpu.h) is one without them for XNNPACK, too.
 *
 * XNNPACK asks the library cpuinfo what the processor can do, when it is first initialized. It uses GFNI for nothing
 * else, and uses tiles only if there is GFNI, too: without GFNI the kernels for AVX-512 VNNI do the work of both.
 * Overrides make up for most of the speed that this loses, with tiles of their own (gemm_qs8.c). */
#include "delegates/xnnpack/hardware_config.h"

#include "delegates/xnnpack/allocator.h"

#include "runtime/base/cpu.h"

#ifdef __x86_64__
#include <cpuinfo.h>

/* Write what XNNPACK must not see, once only: other threads may read it by the second call. */
static void hide_features(struct cpuinfo_x86_isa *isa)
{
	if (isa->gfni)
		isa->gfni = false;
	if (isa->avx512fp16)
		isa->avx512fp16 = false;
	if (isa->avx512f && !et_cpu_runs_avx512()) {
		isa->avx512f = isa->avx512cd = isa->avx512dq = isa->avx512bw = isa->avx512vl = false;
		isa->avx512ifma = isa->avx512vbmi = isa->avx512vnni = isa->avx512bf16 = false;
		isa->amx_tile = isa->amx_int8 = isa->amx_bf16 = isa->amx_fp16 = false;
	}
	if (isa->avx2 && !et_cpu_runs_avx2())
		isa->avx2 = isa->fma3 = isa->f16c = isa->avxvnni = isa->avx_vnni_int8 = false;
}
#endif

enum xnn_status et_xnn_initialize(void)
{
#ifdef __x86_64__
	if (!cpuinfo_initialize())
		return xnn_status_unsupported_hardware;
	hide_features(&cpuinfo_isa);
#endif
	return xnn_initialize(et_xnn_allocator());
}
