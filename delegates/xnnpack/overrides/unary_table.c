/* SPDX-License-Identifier: BSD-3-Clause */
/* Unary operators of 8 bits, looked up in a table, where XNNPACK's table differs from the original's.
 *
 * XNNPACK makes its table by applying the operator to each of the 256 numbers as a float and quantizing the result
 * (quantized.h). Debian's rounds ties otherwise than the original. Ties occur: a sigmoid of 0 with a scale of 1/127,
 * or an odd number where the output's scale is twice the input's. A node whose table has no tie is left to XNNPACK:
 * same numbers, and no cut. */
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/overrides/quantized.h"

#include <math.h>
#include <string.h>

enum { N_NUMBERS = 256, GRAIN = 1 << 16 /* numbers that are worth another thread */ };

static double sigmoid(double x)
{
	double e = exp(x);
	return x > 100 ? 1 : x < -100 ? 0 : e / (1 + e);
}

/* With the original's precision, not more. */
static float apply(const struct et_xnn_node *node, float x)
{
	switch ((enum xnn_unary_operator)node->kind->op) {
	case xnn_unary_abs:
		return fabsf(x);
	case xnn_unary_ceiling:
		return ceilf(x);
	case xnn_unary_clamp:
		x = x < node->min ? node->min : x;
		return node->max < x ? node->max : x;
	case xnn_unary_cosine:
		return cosf(x);
	case xnn_unary_elu:
		return x < 0 ? node->number * expm1f(x) : x;
	case xnn_unary_exp:
		return expf(x);
	case xnn_unary_floor:
		return floorf(x);
	case xnn_unary_gelu:
		return (float)((double)(x / 2) * (1 + erf((double)x * sqrt(2) / 2)));
	case xnn_unary_hardswish:
		return x / 6 * fmaxf(fminf(x + 3, 6), 0);
	case xnn_unary_log:
		return logf(x);
	case xnn_unary_negate:
		return -x;
	case xnn_unary_reciprocal_square_root:
		return 1 / sqrtf(x);
	case xnn_unary_sigmoid:
		return (float)sigmoid((double)x);
	case xnn_unary_sine:
		return sinf(x);
	case xnn_unary_square:
		return x * x;
	case xnn_unary_square_root:
		return sqrtf(x);
	case xnn_unary_tanh:
		return tanhf(x);
	default:
		return x; /* a convert */
	}
}

/* Whether XNNPACK has a kernel for @node, not a table. A leaky ReLU whose scales the kernel does not take is done in
 * floats by the original as well. */
static bool has_kernel(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *out = &payload->values[node->outputs[0]];
	switch ((enum xnn_unary_operator)node->kind->op) {
	case xnn_unary_leaky_relu:
		return true;
	case xnn_unary_clamp:
	case xnn_unary_convert:
		return in->type == out->type && et_xnn_scales_fit(payload, node);
	default:
		return false;
	}
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *out = &payload->values[node->outputs[0]];
	if (node->kind->define != et_xnn_define_unary || in->data || !et_xnn_is_8_bit(in) || !et_xnn_is_8_bit(out) ||
		has_kernel(payload, node))
		return false;
	struct et_xnn_quantized from = et_xnn_quantized(in), to = et_xnn_quantized(out);
	for (unsigned i = 0; i < N_NUMBERS; i++)
		if (et_xnn_is_halfway(&to, apply(node, et_xnn_dequantize(&from, (uint8_t)i))))
			return true;
	return false;
}

static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	(void)payload;
	(void)node;
	return N_NUMBERS;
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *to)
{
	struct et_xnn_quantized in = et_xnn_quantized(&payload->values[node->inputs[0]]),
				out = et_xnn_quantized(&payload->values[node->outputs[0]]);
	for (unsigned i = 0; i < N_NUMBERS; i++)
		((uint8_t *)to)[i] = et_xnn_quantize(&out, apply(node, et_xnn_dequantize(&in, (uint8_t)i)));
}

struct lookup {
	const uint8_t *table, *in;
	uint8_t *out;
};

static void run_numbers(void *arg, size_t begin, size_t end)
{
	const struct lookup *lookup = arg;
	for (size_t i = begin; i < end; i++)
		lookup->out[i] = lookup->table[lookup->in[i]];
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	struct lookup lookup = { run->packed, run->memory[node->inputs[0]], run->memory[node->outputs[0]] };
	et_xnn_threads_parallel_for(run->threads, run_numbers, &lookup,
		et_xnn_n_elements(&run->shapes[node->inputs[0]]), GRAIN);
}

const struct et_xnn_override et_xnn_override_unary_q8 = {
	.name = "unary-q8",
	.reason = "correctness: Debian's XNNPACK rounds halves away from 0 when it makes its table, the original "
		  "to even",
	.takes = takes,
	.is_required = true,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
