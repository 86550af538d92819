/* SPDX-License-Identifier: BSD-3-Clause */
/* Global average pooling of 8 bits, rounded as ExecuTorch's XNNPACK rounds it.
 *
 * For n pixels with sum S, scale s and zero point z, and an output of scale t and zero point y, ExecuTorch's XNNPACK
 * (92a7ad5) rounds S s/(nt) + (y - nz s/(nt)); Debian's (4ea82e5) rounds (S - nz) s/(nt) and then adds y. Both round
 * ties to even, so an odd y changes the result of every tie, and in networks that weigh their channels by such means
 * one step here becomes several later. Floats are computed in the original's order, too: for some n (28, 56) a tie is
 * none any more once 1/n has been rounded. */
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/overrides/quantized.h"
#include "delegates/xnnpack/ukernels/rowsum_qs8.h"

#include <string.h>

enum { WIDTH = ET_ROWSUM_QS8_WIDTH, GRAIN = 1 << 18 /* elements that are worth another thread */ };

struct mean {
	const uint8_t *in;
	uint8_t *out;
	size_t n_pixels, n_channels, n_blocks;
	uint8_t flip;       /* XORed with an unsigned byte it makes a signed one, 128 less */
	int32_t first;      /* where a sum begins, to make up for that; modulo 2^32, like the original's */
	float scale, shift; /* from a sum to an output */
	float min, max;
};

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (node->kind->define != et_xnn_define_global_pooling)
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]];
	return (in->type == ET_XNN_QINT8 || in->type == ET_XNN_QUINT8) && in->quant == ET_XNN_QUANT_TENSOR && !in->data;
}

static inline uint8_t round_mean(const struct mean *mean, int32_t sum)
{
	float number = (float)sum * mean->scale + mean->shift;
	number = number > mean->min ? number : mean->min; /* also for NaN */
	number = number < mean->max ? number : mean->max;
	return (uint8_t)(int32_t)et_xnn_round(number);
}

/* Blocks of channels @begin to @end of all images. */
static void run_blocks(void *arg, size_t begin, size_t end)
{
	const struct mean *mean = arg;
	const struct et_rowsum_qs8_build *rowsum_qs8 = et_rowsum_qs8();
	for (size_t i = begin; i < end; i++) {
		size_t image = i / mean->n_blocks, at = i % mean->n_blocks * WIDTH,
		       n = mean->n_channels - at < WIDTH ? mean->n_channels - at : WIDTH;
		const uint8_t *in = mean->in + image * mean->n_pixels * mean->n_channels + at;
		int32_t sums[WIDTH];
		for (size_t j = 0; j < WIDTH; j++)
			sums[j] = mean->first;
		rowsum_qs8->run(sums, in, mean->n_pixels, mean->n_channels, n, mean->flip);
		uint8_t means[WIDTH];
		for (size_t j = 0; j < WIDTH; j++)
			means[j] = round_mean(mean, sums[j]);
		memcpy(mean->out + image * mean->n_channels + at, means, n);
	}
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *in = &run->payload->values[node->inputs[0]],
				  *out = &run->payload->values[node->outputs[0]];
	const struct et_xnn_shape *shape = &run->shapes[node->inputs[0]];
	const size_t *dims = shape->dims + shape->n_dims - 3;
	size_t n_images = 1;
	for (const size_t *dim = shape->dims; dim < dims; dim++)
		n_images *= *dim;
	bool is_signed = in->type == ET_XNN_QINT8;
	struct et_xnn_quantized limits = et_xnn_quantized(out);
	et_xnn_limit(&limits, node->min, node->max);
	struct mean mean = {
		.in = run->memory[node->inputs[0]],
		.out = run->memory[node->outputs[0]],
		.n_pixels = dims[0] * dims[1],
		.n_channels = dims[2],
		.n_blocks = (dims[2] + WIDTH - 1) / WIDTH,
		.flip = is_signed ? 0 : 0x80,
		.min = limits.least,
		.max = limits.most,
	};
	uint32_t n = (uint32_t)mean.n_pixels;
	mean.first = (int32_t)(is_signed ? 0 : n << 7);
	mean.scale = in->scale / out->scale * (1 / (float)n);
	mean.shift = (float)out->zero_point - (float)(int32_t)n * (float)in->zero_point * mean.scale;
	size_t of_block = mean.n_pixels * (dims[2] < WIDTH ? dims[2] : WIDTH);
	et_xnn_threads_parallel_for(run->threads, run_blocks, &mean, n_images * mean.n_blocks, 1 + GRAIN / of_block);
}

const struct et_xnn_override et_xnn_override_mean_q8 = {
	.name = "mean-q8",
	.reason = "correctness: Debian's XNNPACK rounds before it adds the zero point, the original after; "
		  "EfficientNet-B0 int8 is the original's to the bit",
	.takes = takes,
	.is_required = true,
	.run = run,
};
