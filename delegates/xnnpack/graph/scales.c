/* SPDX-License-Identifier: BSD-3-Clause */
/* Which scales XNNPACK's 8-bit kernels take.
 *
 * The kernels multiply with integers of few digits, so the ratio of an input's scale to the output's must lie
 * between bounds. Beyond them Debian's XNNPACK asserts, which would end the process. Real programs get there. If a
 * mask of -10,000 is added to scores, one input's scale is a thousand times smaller than the output's. A leaky ReLU
 * with a slope of 0.001 has a ratio that 8 fractional bits cannot hold. Elementwise nodes are then computed in
 * floats (define.c), and so are limits that change the scale. A convolution or a linear layer is refused: the bound
 * below which it asserts is 2^-32, with which every result would be its zero point. XNNPACK itself refuses a
 * filter with a bad scale of a channel, so only overrides, which compute in its place, ask for that.
 *
 * Rows of fp16 that are quantized at run time are computed in fp32 as well. XNNPACK rounds their scale to fp16, so
 * elements come out one step away from where they belong, and if a row's range is below 0.004 the scale is infinite.
 *
 * Ratios are computed as XNNPACK does, in floats. NaN is not between bounds. */
#include "delegates/xnnpack/graph/kind.h"

#include <math.h>

static bool is_between(float ratio, float least, float most)
{
	return ratio >= least && ratio <= most;
}

static bool is_below(float ratio, float least, float limit)
{
	return ratio >= least && ratio < limit;
}

bool et_xnn_is_8_bit(const struct et_xnn_value *value)
{
	return value->type == ET_XNN_QINT8 || value->type == ET_XNN_QUINT8;
}

static bool binary_fits(enum xnn_binary_operator op, const struct et_xnn_value *a, const struct et_xnn_value *b,
	const struct et_xnn_value *out)
{
	switch (op) {
	case xnn_binary_add:
	case xnn_binary_subtract:
		return is_below(a->scale / out->scale, 0x1p-10f, 0x1p8f) &&
		       is_below(b->scale / out->scale, 0x1p-10f, 0x1p8f);
	case xnn_binary_multiply:
		return is_below(a->scale * b->scale / out->scale, 0x1p-16f, 0x1p8f);
	default:
		return true; /* XNNPACK converts each element to a float and back */
	}
}

static bool unary_fits(const struct et_xnn_node *node, const struct et_xnn_value *in, const struct et_xnn_value *out)
{
	float ratio = in->scale / out->scale, negative = ratio * node->number;
	switch ((enum xnn_unary_operator)node->kind->op) {
	case xnn_unary_convert:
		return in->type != out->type || is_between(ratio, 0x1p-8f, 0x1p7f);
	case xnn_unary_clamp:
		/* XNNPACK would have the node before it write the other scale, ignoring that node's own */
		return in->scale == out->scale && in->zero_point == out->zero_point;
	case xnn_unary_leaky_relu:
		return is_between(ratio, 0x1p-8f, 0x1p7f) && is_between(negative, -0x1.FFFCp6f, 0x1p7f) &&
		       fabsf(negative) >= 0x1p-8f;
	default:
		return true; /* XNNPACK uses a table */
	}
}

bool et_xnn_channel_scales_fit(const struct et_xnn_value *in, const struct et_xnn_value *filter,
	const struct et_xnn_value *out)
{
	for (size_t i = 0; i < filter->n_scales; i++) {
		const float scale = filter->scales[i];
		if (!isnormal(scale) || scale < 0 || !is_below(in->scale * scale / out->scale, 0, 0x1p8f))
			return false;
	}
	return true;
}

bool et_xnn_scales_fit(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *values = payload->values;
	const struct et_xnn_value *in = &values[node->inputs[0]], *out = &values[node->outputs[0]];
	if (in->type == ET_XNN_FP16 && out->type == ET_XNN_QDINT8)
		return false;
	if (!et_xnn_is_8_bit(in) || !et_xnn_is_8_bit(out))
		return true;
	if (node->kind->define == et_xnn_define_binary)
		return binary_fits((enum xnn_binary_operator)node->kind->op, in, &values[node->inputs[1]], out);
	if (node->kind->define == et_xnn_define_unary)
		return unary_fits(node, in, out);
	if (node->kind->types == ET_XNN_TYPES_WEIGHTS && et_xnn_is_8_bit(&values[node->inputs[1]]))
		return is_below(in->scale * values[node->inputs[1]].scale / out->scale, 0x1p-32f, 0x1p8f);
	return true;
}
