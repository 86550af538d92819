/* SPDX-License-Identifier: BSD-3-Clause */
/* Rewriting the graph: the same results with fewer steps.
 *
 * Exporters quantize around the operators that they know. If a quantized model pads, the program says: dequantize,
 * pad, quantize. A run then copies the activations three times, and in two of these copies they are four times as
 * large, though the convolution behind could have padded by itself. Each of the rules here is exact:
 *     move, quantize                    ->  quantize, move
 *     dequantize, quantize alike        ->  nothing
 *     dequantize, quantize otherwise    ->  look each number up in a table
 *     transpose, transpose              ->  transpose
 *     pad, transpose                    ->  transpose, pad
 *     pad, convolution                  ->  convolution
 *     convolution or the like, limits   ->  convolution or the like
 * "Move" means: put elements elsewhere, perhaps with zeros beside them. In 8 bits 0 is the zero point, and a
 * convolution pads with the zero point. A number that is dequantized and quantized alike is off by a few parts in
 * 2^24 and rounds to itself.
 *
 * The table is XNNPACK's own way to compute unary operators that it has no 8-bit kernel for: it dequantizes all 256
 * numbers, applies the operator, and quantizes. The absolute value is such an operator, and changes nothing in
 * results of an activation function that are not negative. Tables and kernels round differently if a result is
 * halfway between two numbers, so if a result comes near that, the nodes stay as they are. (XNNPACK also converts by
 * multiplying with 1/256ths of the scales' ratio; that gives another result.)
 *
 * XNNPACK lets convolutions pad by themselves for floats only: for integers it compares a zero point below 0 in two
 * widths.
 *
 * XNNPACK has the last rule as well, but (2024-11) it then writes the limits over the padding, too: a lower limit
 * above 0 becomes millions of rows, an upper limit of 0 or less another shape. So no clamp is left that XNNPACK
 * could merge in this way, which is why that rule comes after all others.
 *
 * Each rule looks at each node once, and walks upwards only along values that have one reader, so the time is in
 * proportion to the graph. A node that moves down changes places with the node below, so each value is still written
 * before it is read. */
#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/graph/kind.h"

#include <math.h>

/* Whether products and quotients of 8-bit numbers with the value's scale neither overflow nor lose digits. */
static bool is_plain(const struct et_xnn_value *value)
{
	return value->scale > 0x1p-100f && value->scale < 0x1p100f;
}

static bool is_quantized_alike(const struct et_xnn_value *a, const struct et_xnn_value *b)
{
	return a->type == b->type && a->scale == b->scale && a->zero_point == b->zero_point;
}

/* Whether @node, which converts between the two values in either direction, converts between fp32 and 8 bits. */
static bool is_convert(const struct et_xnn_payload *payload, const struct et_xnn_node *node, uint32_t float_value,
	uint32_t byte_value)
{
	return node->kind->types == ET_XNN_TYPES_CONVERT && payload->values[float_value].type == ET_XNN_FP32 &&
	       et_xnn_is_8_bit(&payload->values[byte_value]) && is_plain(&payload->values[byte_value]);
}

static bool quantizes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_convert(payload, node, node->inputs[0], node->outputs[0]);
}

static bool dequantizes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_convert(payload, node, node->outputs[0], node->inputs[0]);
}

static bool is_zero_pad(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_pad && node->number == 0;
}

static bool is_move(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_transpose || node->kind->infer == et_xnn_infer_reshape ||
	       node->kind->infer == et_xnn_infer_slice || node->kind->define == et_xnn_define_copy || is_zero_pad(node);
}

/* The node that writes the first input of @node, if @node is its only reader; or NULL. */
static struct et_xnn_node *only_source(struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *value = &payload->values[node->inputs[0]];
	if (value->n_users != 1 || value->external || value->producer == ET_XNN_NONE)
		return NULL;
	return &payload->nodes[value->producer];
}

/* Swap two nodes: only @lower reads what @upper writes, and both have one input and one output. The caller sets the
 * type of the value between them, which @lower's operation now writes. */
static void swap(struct et_xnn_payload *payload, struct et_xnn_node *upper, struct et_xnn_node *lower)
{
	uint32_t first = upper->inputs[0], between = upper->outputs[0], last = lower->outputs[0];
	struct et_xnn_node moved = *upper;
	*upper = *lower;
	*lower = moved;
	upper->inputs[0] = first;
	upper->outputs[0] = lower->inputs[0] = between;
	lower->outputs[0] = last;
	/* producers are indexes of nodes, which have not changed */
}

/* move, quantize -> quantize, move. */
static void sink_moves(struct et_xnn_payload *payload, struct et_xnn_node *node)
{
	struct et_xnn_node *above;
	if (!quantizes(payload, node))
		return;
	const struct et_xnn_value *out = &payload->values[node->outputs[0]];
	while ((above = only_source(payload, node)) && is_move(above)) {
		swap(payload, above, node);
		struct et_xnn_value *between = &payload->values[above->outputs[0]];
		between->type = out->type;
		between->quant = out->quant;
		between->scale = out->scale;
		between->zero_point = out->zero_point;
		node = above;
		out = between;
	}
}

/* Find how far above its zero point a number in @value can be at most. False: it can be below, or that is not known. */
static bool find_range(const struct et_xnn_payload *payload, const struct et_xnn_value *value, int *ret_most)
{
	if (value->producer == ET_XNN_NONE)
		return false;
	const struct et_xnn_node *source = &payload->nodes[value->producer];
	bool has_limits = source->kind->has_filter || et_xnn_is_clamp(source);
	/* check both: the upper limit of a clamp counts if it is below the lower one */
	if (!has_limits || !(source->min >= 0) || !(source->max >= 0))
		return false;
	double most = source->max / (double)value->scale;
	*ret_most = most < 254 ? (int)most + 1 : 255;
	return true;
}

/* Whether every way of rounding gives the same numbers in @to, for 0 to @most steps of @from. */
static bool is_unambiguous(const struct et_xnn_value *from, const struct et_xnn_value *to, int most)
{
	double ratio = (double)from->scale / (double)to->scale;
	for (int i = 0; i <= most && i * ratio < 512; i++) {
		double above = i * ratio - floor(i * ratio);
		if (fabs(above - 0.5) < 0x1p-12) /* floats are off by less than a quarter of that */
			return false;
	}
	return true;
}

/* dequantize, quantize -> nothing, or a table. */
static void join_converts(struct et_xnn_payload *payload, struct et_xnn_node *node)
{
	struct et_xnn_node *above = quantizes(payload, node) ? only_source(payload, node) : NULL;
	if (!above || !dequantizes(payload, above))
		return;
	struct et_xnn_value *from = &payload->values[above->inputs[0]];
	const struct et_xnn_value *to = &payload->values[node->outputs[0]];
	int most;
	if (is_quantized_alike(from, to))
		node->kind = et_xnn_kind_at(ET_XNN_KIND_COPY);
	else if (from->type == to->type && find_range(payload, from, &most) && is_unambiguous(from, to, most))
		node->kind = et_xnn_kind_at(ET_XNN_KIND_ABS);
	else
		return;
	payload->values[node->inputs[0]].n_users--; /* which leaves none to @above */
	node->inputs[0] = above->inputs[0];
	from->n_users++;
}

/* transpose, transpose -> transpose. */
static void join_transposes(struct et_xnn_payload *payload, struct et_xnn_node *node)
{
	struct et_xnn_node *above = node->kind->infer == et_xnn_infer_transpose ? only_source(payload, node) : NULL;
	if (!above || above->kind != node->kind || above->n_list[0] != node->n_list[0])
		return;
	for (uint32_t i = 0; i < node->n_list[0]; i++)
		if (node->list[0][i] >= node->n_list[0])
			return; /* shape.c refuses it */
	for (uint32_t i = 0; i < node->n_list[0]; i++)
		node->list[0][i] = above->list[0][node->list[0][i]];
	payload->values[node->inputs[0]].n_users--; /* which leaves none to @above */
	node->inputs[0] = above->inputs[0];
	payload->values[node->inputs[0]].n_users++;
}

/* pad, transpose -> transpose, pad. */
static void sink_pad(struct et_xnn_payload *payload, struct et_xnn_node *node)
{
	struct et_xnn_node *above = node->kind->infer == et_xnn_infer_transpose ? only_source(payload, node) : NULL;
	if (!above || !is_zero_pad(above) || above->n_list[0] != node->n_list[0] || above->n_list[1] != node->n_list[0])
		return;
	for (uint32_t i = 0; i < node->n_list[0]; i++)
		if (node->list[0][i] >= node->n_list[0])
			return; /* shape.c refuses it */
	swap(payload, above, node);
	struct et_xnn_node pad = *node;
	for (uint32_t i = 0; i < node->n_list[0]; i++) {
		node->list[0][i] = pad.list[0][above->list[0][i]];
		node->list[1][i] = pad.list[1][above->list[0][i]];
	}
}

static bool add_to(uint32_t *number, uint32_t more)
{
	return !__builtin_add_overflow(*number, more, number);
}

/* pad, convolution -> convolution. */
static void take_pad(struct et_xnn_payload *payload, struct et_xnn_node *node)
{
	bool pads = node->kind->infer == et_xnn_infer_convolution || node->kind->infer == et_xnn_infer_depthwise;
	const struct et_xnn_node *pad = pads ? only_source(payload, node) : NULL;
	if (!pad || !is_zero_pad(pad) || pad->n_list[0] != 4 || pad->n_list[1] != 4)
		return;
	const uint32_t *before = pad->list[0], *after = pad->list[1];
	struct et_xnn_node padding = *node;
	uint32_t *numbers = padding.numbers;
	if (before[0] || before[3] || after[0] || after[3] || !add_to(&numbers[ET_XNN_PAD_TOP], before[1]) ||
		!add_to(&numbers[ET_XNN_PAD_BOTTOM], after[1]) || !add_to(&numbers[ET_XNN_PAD_LEFT], before[2]) ||
		!add_to(&numbers[ET_XNN_PAD_RIGHT], after[2]))
		return;
	payload->values[node->inputs[0]].n_users--; /* which leaves none to the pad */
	*node = padding;
	node->inputs[0] = pad->inputs[0];
	payload->values[node->inputs[0]].n_users++;
}

void et_xnn_payload_simplify(struct et_xnn_payload *payload)
{
	static void (*const rules[])(struct et_xnn_payload *payload, struct et_xnn_node *node) = { sink_moves,
		join_converts, join_transposes, sink_pad, take_pad };
	for (size_t rule = 0; rule < sizeof(rules) / sizeof(rules[0]); rule++)
		for (uint32_t i = 0; i < payload->n_nodes; i++)
			rules[rule](payload, &payload->nodes[i]);
}

/* Whether XNNPACK computes the node within limits. */
static bool has_limits(const struct et_xnn_node *node)
{
	return node->kind->has_filter || node->kind->define == et_xnn_define_average_pooling ||
	       node->kind->define == et_xnn_define_max_pooling;
}

/* Whether the limits may be applied before results are rounded to bf16, instead of behind that. */
static bool are_rounded(const struct et_xnn_node *node)
{
	return et_xnn_is_bf16(node->min) && et_xnn_is_bf16(node->max);
}

/* The larger of two numbers; @b if one is NaN. */
static float larger(float a, float b)
{
	return b < a ? a : b;
}

/* The smaller of two numbers; @a if one is NaN. */
static float smaller(float a, float b)
{
	return b < a ? b : a;
}

/* Give @above the limits of the clamp @node as well, as ExecuTorch does. If the two ranges do not overlap, the
 * clamp's counts, and all results are one number. A NaN as the upper limit is ignored. A NaN as the lower limit
 * makes both limits NaN, which in 8 bits is the least number. Returns false if @above cannot have such limits. */
static bool narrow(const struct et_xnn_payload *payload, const struct et_xnn_node *node, struct et_xnn_node *above)
{
	above->min = smaller(larger(above->min, node->min), node->max);
	above->max = smaller(larger(above->max, node->min), node->max);
	if (et_xnn_is_clamp(above) || !isnan(above->min))
		return true;
	above->min = above->max = -INFINITY;
	return above->kind->has_filter && et_xnn_is_8_bit(&payload->values[node->outputs[0]]);
}

void et_xnn_payload_take_limits(struct et_xnn_payload *payload)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		struct et_xnn_node *node = &payload->nodes[i];
		if (!et_xnn_is_clamp(node) || !et_xnn_scales_fit(payload, node))
			continue;
		const struct et_xnn_node *above = only_source(payload, node);
		while (above && above->kind->define == et_xnn_define_copy &&
			is_quantized_alike(&payload->values[above->inputs[0]], &payload->values[above->outputs[0]]))
			above = only_source(payload, above);
		if (!above || !(has_limits(above) || (et_xnn_is_clamp(above) && et_xnn_scales_fit(payload, above))) ||
			(above->is_rounded && !are_rounded(node)))
			continue;
		struct et_xnn_node limited = *above;
		limited.outputs[0] = node->outputs[0];
		if (!narrow(payload, node, &limited))
			continue;
		payload->values[node->inputs[0]].n_users--; /* which leaves none to @above, nor to copies */
		for (uint32_t j = 0; j < limited.kind->n_inputs; j++)
			if (limited.inputs[j] != ET_XNN_NONE)
				payload->values[limited.inputs[j]].n_users++;
		*node = limited;
	}
}
