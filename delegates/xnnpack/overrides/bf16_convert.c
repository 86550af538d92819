/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions between bf16 and fp32, and rounding of fp32 to values that bf16 holds (lower_half.c). XNNPACK has no
 * bf16. */
#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/overrides/override.h"

enum { BLOCK = 1 << 10, GRAIN = 1 << 6 /* blocks that are worth another thread */ };

struct conversion {
	const struct et_bf16_build *build;
	const void *from;
	void *to;
	size_t n;
	bool from_bf16, to_bf16;
};

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *out = &payload->values[node->outputs[0]];
	if (node->kind == &et_xnn_kind_round)
		return true;
	return node->kind->types == ET_XNN_TYPES_CONVERT && !in->data &&
	       ((in->type == ET_XNN_BF16 && out->type == ET_XNN_FP32) ||
		       (in->type == ET_XNN_FP32 && out->type == ET_XNN_BF16));
}

static void copy_rounded(const struct et_bf16_build *build, const float *from, float *to, size_t n)
{
	for (size_t at = 0, n_block; at < n; at += n_block) {
		n_block = n - at < BLOCK ? n - at : BLOCK;
		memcpy(to + at, from + at, n_block * sizeof(*to));
		build->round(to + at, n_block);
	}
}

static void run_blocks(void *arg, size_t begin, size_t end)
{
	const struct conversion *conversion = arg;
	const struct et_bf16_build *build = conversion->build;
	size_t at = begin * BLOCK, n = (end * BLOCK < conversion->n ? end * BLOCK : conversion->n) - at;
	if (conversion->from_bf16)
		build->widen((const uint16_t *)conversion->from + at, (float *)conversion->to + at, n);
	else if (conversion->to_bf16)
		build->narrow((const float *)conversion->from + at, (uint16_t *)conversion->to + at, n);
	else
		copy_rounded(build, (const float *)conversion->from + at, (float *)conversion->to + at, n);
}

static void run(const struct et_xnn_override_run *run)
{
	uint32_t in = run->node->inputs[0], out = run->node->outputs[0];
	struct conversion conversion = {
		.build = et_bf16(),
		.from = run->memory[in],
		.to = run->memory[out],
		.n = et_xnn_n_elements(&run->shapes[in]),
		.from_bf16 = run->payload->values[in].type == ET_XNN_BF16,
		.to_bf16 = run->payload->values[out].type == ET_XNN_BF16,
	};
	et_xnn_threads_parallel_for(run->threads, run_blocks, &conversion, (conversion.n + BLOCK - 1) / BLOCK, GRAIN);
}

const struct et_xnn_override et_xnn_override_convert_bf16 = {
	.name = "convert-bf16",
	.reason = "correctness: XNNPACK has no bf16",
	.takes = takes,
	.is_required = true,
	.run = run,
};
