/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatch and packing of depthwise convolutions of 8 bits. This file is built for the baseline. */
#include "delegates/xnnpack/ukernels/depthwise_qs8.h"

#include "runtime/base/checked.h"
#include "runtime/base/cpu.h"

#include <string.h>

const struct et_depthwise_qs8_build *et_depthwise_qs8(void)
{
#ifdef __x86_64__
	if (et_cpu_runs_vnni())
		return &et_depthwise_qs8_vnni;
#endif
	return NULL;
}

size_t et_depthwise_qs8_n_packed(size_t channels, size_t kernel)
{
	size_t n;
	if (!et_align_up(channels, ET_DEPTHWISE_QS8_BLOCK, &n) ||
		!et_mul(n / ET_DEPTHWISE_QS8_BLOCK, et_depthwise_qs8_block(kernel), &n))
		return SIZE_MAX;
	return n;
}

/* Byte offset of channel @c's word from the first word of its block. */
static size_t place_of(size_t c)
{
	return 4 * (c / 4 % 4 * 16 + c / 16 * 4 + c % 4);
}

static void pack_channel(const struct et_depthwise_qs8_filter *filter, size_t channel, uint8_t *block)
{
	const size_t kernel = filter->kernel, place = place_of(channel % ET_DEPTHWISE_QS8_BLOCK);
	uint8_t *words = block + ET_DEPTHWISE_QS8_TAPS + place;
	int32_t sum = 0;
	for (size_t tap = 0; tap < kernel * kernel; tap++) {
		size_t row = tap / kernel, four = tap % kernel * et_depthwise_qs8_fours(kernel) + row / 4;
		int8_t value = filter->taps[tap * filter->channels + channel];
		words[four * 4 * ET_DEPTHWISE_QS8_BLOCK + row % 4] = (uint8_t)value;
		sum += value;
	}
	/* the kernel adds 128 to each pixel, which makes it unsigned */
	uint32_t bias = 0 - (uint32_t)(filter->zero + 128) * (uint32_t)sum;
	bias += filter->bias ? (uint32_t)filter->bias[channel] : 0;
	float scale = filter->scales ? filter->scales[channel] : filter->scale;
	scale = filter->in_scale * scale / filter->out_scale;
	memcpy(block + place, &bias, sizeof(bias));
	memcpy(block + 4 * ET_DEPTHWISE_QS8_BLOCK + place, &scale, sizeof(scale));
}

void et_depthwise_qs8_pack(const struct et_depthwise_qs8_filter *filter, void *packed)
{
	memset(packed, 0, et_depthwise_qs8_n_packed(filter->channels, filter->kernel));
	for (size_t c = 0; c < filter->channels; c++)
		pack_channel(filter, c,
			(uint8_t *)packed + c / ET_DEPTHWISE_QS8_BLOCK * et_depthwise_qs8_block(filter->kernel));
}
