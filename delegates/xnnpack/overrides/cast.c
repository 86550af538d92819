/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions of a datatype that Debian's XNNPACK rounds away from 0 at a tie, and the original to even.
 *
 * These are the conversions for which neither has a kernel: to int32, to 8 bits from int32 and bf16, and to unsigned
 * 8 bits from fp16. All are computed by way of a float. NaN becomes 0. What is too large for an int32 becomes the
 * largest float below 2^31. */
#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/overrides/quantized.h"

#include <math.h>

enum { BLOCK = 256, GRAIN = 1 << 6 /* blocks that are worth another thread */ };

struct cast {
	uint8_t from_type, to_type; /* enum et_xnn_type */
	const void *from;
	void *to;
	size_t n;
	struct et_xnn_quantized in, out; /* where they are 8 bits */
};

static bool is_convertible(uint8_t type)
{
	return type == ET_XNN_FP32 || type == ET_XNN_FP16 || type == ET_XNN_BF16 || type == ET_XNN_QINT8 ||
	       type == ET_XNN_QUINT8;
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *out = &payload->values[node->outputs[0]];
	if (node->kind->types != ET_XNN_TYPES_CONVERT || in->data)
		return false;
	if (out->type == ET_XNN_INT32)
		return is_convertible(in->type);
	return et_xnn_is_8_bit(out) && (in->type == ET_XNN_INT32 || in->type == ET_XNN_BF16 ||
					       (in->type == ET_XNN_FP16 && out->type == ET_XNN_QUINT8));
}

static void read(const struct cast *cast, size_t at, size_t n, float *to)
{
	const void *from = cast->from;
	switch (cast->from_type) {
	case ET_XNN_FP32:
		memcpy(to, (const float *)from + at, n * sizeof(*to));
		break;
	case ET_XNN_FP16:
		for (size_t i = 0; i < n; i++)
			to[i] = et_xnn_from_fp16(((const uint16_t *)from)[at + i]);
		break;
	case ET_XNN_BF16:
		et_bf16()->widen((const uint16_t *)from + at, to, n);
		break;
	case ET_XNN_INT32:
		for (size_t i = 0; i < n; i++)
			to[i] = (float)((const int32_t *)from)[at + i];
		break;
	default:
		for (size_t i = 0; i < n; i++)
			to[i] = et_xnn_dequantize(&cast->in, ((const uint8_t *)from)[at + i]);
		break;
	}
}

static int32_t to_integer(float value)
{
	const float most = 0x1.fffffep30f; /* the largest below 2^31 */
	if (!(value == value))
		return 0;
	return (int32_t)rintf(value < -0x1p31f ? -0x1p31f : value > most ? most : value);
}

static void write(const struct cast *cast, size_t at, size_t n, const float *from)
{
	if (cast->to_type == ET_XNN_INT32)
		for (size_t i = 0; i < n; i++)
			((int32_t *)cast->to)[at + i] = to_integer(from[i]);
	else
		for (size_t i = 0; i < n; i++)
			((uint8_t *)cast->to)[at + i] = et_xnn_quantize(&cast->out, from[i]);
}

static void run_blocks(void *arg, size_t begin, size_t end)
{
	const struct cast *cast = arg;
	for (size_t i = begin; i < end; i++) {
		float floats[BLOCK];
		size_t at = i * BLOCK, n = cast->n - at < BLOCK ? cast->n - at : BLOCK;
		read(cast, at, n, floats);
		write(cast, at, n, floats);
	}
}

static void run(const struct et_xnn_override_run *run)
{
	uint32_t in = run->node->inputs[0], out = run->node->outputs[0];
	const struct et_xnn_value *values = run->payload->values;
	struct cast cast = {
		.from_type = values[in].type,
		.to_type = values[out].type,
		.from = run->memory[in],
		.to = run->memory[out],
		.n = et_xnn_n_elements(&run->shapes[in]),
	};
	if (et_xnn_is_8_bit(&values[in]))
		cast.in = et_xnn_quantized(&values[in]);
	if (et_xnn_is_8_bit(&values[out]))
		cast.out = et_xnn_quantized(&values[out]);
	et_xnn_threads_parallel_for(run->threads, run_blocks, &cast, (cast.n + BLOCK - 1) / BLOCK, GRAIN);
}

const struct et_xnn_override et_xnn_override_cast = {
	.name = "cast",
	.reason = "correctness: Debian's XNNPACK rounds halves away from 0, the original to even",
	.takes = takes,
	.is_required = true,
	.run = run,
};
