/* SPDX-License-Identifier: BSD-3-Clause */
/* Hiding from XNNPACK what it computes wrongly with.
 *
 * Debian 13's XNNPACK (of November 2024) has sets of kernels whose results are wrong, which later ones mend or leave out:
 *   - Those for matrix tiles (AMX). Filters of 4 bits are unpacked to the stack and loaded as a tile from there, which
 *     gcc does not know to be a read (its bug 122446), so that it drops the stores: the filter is what the stack
 *     held. And a convolution whose last tile is a single element counts up the wrong pointer (mended by XNNPACK's
 *     commit 7a16107) and multiplies its first 64 channels again and again.
 *   - That for filters of 4 bits in blocks, by GFNI. It computes 14 rows at a time and reads the scales of that many,
 *     but only ten are kept beyond the last row (XNN_EXTRA_QUANTIZATION_PARAMS, raised by its commit 276516a): of one
 *     to three rows the last is lost.
 *   - Those for products of halves by AVX512-FP16 (linear layers and convolutions; its commit c4243ba takes them no more):
 *     here they gave NaNs. Ours do it then (conv_linear.c), and those by AVX2, in floats, what is in groups.
 * XNNPACK asks the library cpuinfo what the processor can do, when it is first initialized. It uses GFNI for nothing
 * else, and takes tiles only where there is GFNI, too: without it, the kernels for AVX-512 VNNI do both. What is lost most by that, our
 * own tiles do (gemm_qs8.c). */
#include "delegates/xnnpack/hardware_config.h"

#include "delegates/xnnpack/allocator.h"

#ifdef __x86_64__
#include <cpuinfo.h>
#endif

enum xnn_status et_xnn_initialize(void)
{
#ifdef __x86_64__
	if (!cpuinfo_initialize())
		return xnn_status_unsupported_hardware;
	if (cpuinfo_isa.gfni) /* others may be reading it by the second time */
		cpuinfo_isa.gfni = false;
	if (cpuinfo_isa.avx512fp16)
		cpuinfo_isa.avx512fp16 = false;
#endif
	return xnn_initialize(et_xnn_allocator());
}
