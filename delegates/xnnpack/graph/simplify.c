/* SPDX-License-Identifier: BSD-3-Clause */
/* What a graph says in more steps than it needs.
 *
 * Exporters quantize around what they know to be an operator. Where a quantized model pads, it says: make floats, pad, make
 * 8 bits again; a run then copies the activations three times, in two of them four times as large, though the convolution
 * behind could have padded by itself. The rules here, each exact, not nearly so:
 *     move, quantize                    ->  quantize, move
 *     dequantize, quantize alike        ->  nothing
 *     dequantize, quantize otherwise    ->  look each number up in a table
 *     transpose, transpose              ->  transpose
 *     pad, transpose                    ->  transpose, pad
 *     pad, convolution                  ->  convolution
 *     convolution or the like, limits   ->  convolution or the like
 * where to move is to put elements elsewhere and perhaps zeros beside them. 0 is its zero point in 8 bits, and a convolution
 * pads with that. What is dequantized and quantized alike is off by a few parts in 2^24 and rounds to itself.
 *
 * The table is XNNPACK's own way to do what it has no kernel for: it makes floats of all 256 numbers, applies the
 * operator, and quantizes. Of those operators the absolute value changes nothing in what an activation function left above
 * 0. Table and kernels round differently where a result is halfway between two numbers, so where one comes near that, floats
 * it is. (It also converts by multiplying with 1/256ths of the scales' ratio; that is another result.)
 *
 * XNNPACK lets convolutions pad by itself for floats alone: for integers it compares a zero point below 0 in two widths.
 *
 * The last rule XNNPACK has as well, but (2024-11) it then writes the limits over the padding, too: a lower one above 0 becomes
 * millions of rows, an upper one of 0 or less another shape. So nothing that it could join in this way is left to it, which
 * is why that rule comes after all others.
 *
 * Each rule looks at each node once, and walks upwards only along values that have one reader, so this takes time in
 * proportion to the graph. A node that moves down changes places with the one below, so the order stays one in which each
 * value is written before it is read. */
#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/graph/kind.h"

#include <math.h>

/* Products and quotients of 8 bits with it neither overflow nor lose digits. */
static bool is_plain(const struct et_xnn_value *value)
{
	return value->scale > 0x1p-100f && value->scale < 0x1p100f;
}

static bool is_quantized_alike(const struct et_xnn_value *a, const struct et_xnn_value *b)
{
	return a->type == b->type && a->scale == b->scale && a->zero_point == b->zero_point;
}

/* Between floats and 8 bits. */
static bool is_convert(const struct et_xnn_payload *payload, const struct et_xnn_node *node, uint32_t of, uint32_t to)
{
	return node->kind->types == ET_XNN_TYPES_CONVERT && payload->values[of].type == ET_XNN_FP32 &&
	       et_xnn_is_8_bit(&payload->values[to]) && is_plain(&payload->values[to]);
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

/* The node that writes what @node alone reads as its first input, or NULL. */
static struct et_xnn_node *only_source(struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *value = &payload->values[node->inputs[0]];
	if (value->n_users != 1 || value->external || value->producer == ET_XNN_NONE)
		return NULL;
	return &payload->nodes[value->producer];
}

/* @upper writes what @lower alone reads; both have one input and one output. The value between them becomes @lower's,
 * in all but its type, which is the caller's to set. */
static void swap(struct et_xnn_payload *payload, struct et_xnn_node *upper, struct et_xnn_node *lower)
{
	uint32_t first = upper->inputs[0], between = upper->outputs[0], last = lower->outputs[0];
	struct et_xnn_node moved = *upper;
	*upper = *lower;
	*lower = moved;
	upper->inputs[0] = first;
	upper->outputs[0] = lower->inputs[0] = between;
	lower->outputs[0] = last;
	/* producers are places, which have not changed */
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

/* How far above its zero point a number that @value holds can be at most; false if it can be below, or nobody knows. */
static bool find_range(const struct et_xnn_payload *payload, const struct et_xnn_value *value, int *ret_most)
{
	if (value->producer == ET_XNN_NONE)
		return false;
	const struct et_xnn_node *source = &payload->nodes[value->producer];
	bool has_limits = source->kind->has_filter || et_xnn_is_clamp(source);
	/* both: of a clamp the upper one is what counts where it is below the other */
	if (!has_limits || !(source->min >= 0) || !(source->max >= 0))
		return false;
	double most = source->max / (double)value->scale;
	*ret_most = most < 254 ? (int)most + 1 : 255;
	return true;
}

/* Whether every way of rounding gives the same numbers in @to for 0 to @most steps of @from. */
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
static void meet(struct et_xnn_payload *payload, struct et_xnn_node *node)
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
			return; /* it will be refused */
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
			return; /* it will be refused */
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
	static void (*const rules[])(struct et_xnn_payload *payload, struct et_xnn_node *node) = { sink_moves, meet,
		join_transposes, sink_pad, take_pad };
	for (size_t rule = 0; rule < sizeof(rules) / sizeof(rules[0]); rule++)
		for (uint32_t i = 0; i < payload->n_nodes; i++)
			rules[rule](payload, &payload->nodes[i]);
}

/* What XNNPACK computes within limits. */
static bool has_limits(const struct et_xnn_node *node)
{
	return node->kind->has_filter || node->kind->define == et_xnn_define_average_pooling ||
	       node->kind->define == et_xnn_define_max_pooling;
}

/* Whether limits are the same before numbers are rounded to bfloats and behind that. */
static bool are_rounded(const struct et_xnn_node *node)
{
	return et_xnn_is_bf16(node->min) && et_xnn_is_bf16(node->max);
}

/* The larger and the smaller of two numbers, and the second where one is none. */
static float larger(float a, float b)
{
	return b < a ? a : b;
}

static float smaller(float a, float b)
{
	return b < a ? b : a;
}

/* Give @above the limits of the clamp @node as well, as the original does: where they have nothing in common the one below is what
 * counts, and one number comes out. An upper limit that is no number is passed over, a lower one makes neither of them one, of which
 * 8 bits make their least number. Returns false where it can have none such. */
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
