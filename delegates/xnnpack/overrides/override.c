/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of overrides, and what several rows ask about a node.
 *
 * An XNNPACK graph takes XNNPACK's operators only, so each override ends one runtime and begins another
 * (partition.h). That costs little, but not nothing: a row that exists for speed takes a node only if the node is
 * large enough.
 *
 * Most rows exist for correctness: XNNPACK cannot do the node, loses a NaN or rounds otherwise than the original. The
 * others each have a program that gains 2 % or more from them. A row without either does not belong here.
 *
 * The option overrides switches rows off, for measuring (tests/bench/overrides.py). A node for which a row is needed
 * (is_needed, is_required) keeps it whatever the option says, so that the option changes times and rounding, never
 * what can be run. */
#include "delegates/xnnpack/overrides/override.h"

#include "runtime/base/checked.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum {
	LEAST_WORK = 1 << 16, /* products: some microseconds */
	MOST_DEPTHWISE_TAPS =
		25, /* XNNPACK's largest depthwise kernel; above that XNNPACK does a grouped convolution */
};

static _Atomic(uint64_t) least_work = LEAST_WORK;

static const struct et_xnn_override *const rows[] = { &et_xnn_override_depthwise, &et_xnn_override_depthwise_fp16,
	&et_xnn_override_depthwise_qs8, &et_xnn_override_conv, &et_xnn_override_conv_fp16, &et_xnn_override_linear,
	&et_xnn_override_linear_fp16, &et_xnn_override_linear_dynamic, &et_xnn_override_matmul_fp16,
	&et_xnn_override_deconv, &et_xnn_override_conv_grouped, &et_xnn_override_deconv_im2col,
	&et_xnn_override_conv_im2col_fp16, &et_xnn_override_deconv_im2col_fp16, &et_xnn_override_transpose_q8,
	&et_xnn_override_linear_qd8, &et_xnn_override_deconv_qs8, &et_xnn_override_argmax_pool,
	&et_xnn_override_average_pool, &et_xnn_override_convert_qd8, &et_xnn_override_mean_q8,
	&et_xnn_override_copy_int32, &et_xnn_override_max_pool, &et_xnn_override_linear_bf16,
	&et_xnn_override_convert_bf16, &et_xnn_override_binary, &et_xnn_override_unary_q8, &et_xnn_override_cast };

static_assert(ET_ARRAY_LEN(rows) <= 32, "overrides_off has a bit for each row");

const struct et_xnn_override *et_xnn_override_at(size_t i)
{
	return i < ET_ARRAY_LEN(rows) ? rows[i] : NULL;
}

const struct et_xnn_override *et_xnn_override_find(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++) {
		const struct et_xnn_override *row = rows[i];
		bool is_off = payload->overrides_off >> i & 1;
		if (row->takes(payload, node) &&
			(!is_off || row->is_required || (row->is_needed && row->is_needed(payload, node))))
			return row;
	}
	return NULL;
}

static bool find_name(const char *name, size_t n, size_t *ret_index)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++)
		if (strlen(rows[i]->name) == n && memcmp(rows[i]->name, name, n) == 0) {
			*ret_index = i;
			return true;
		}
	return false;
}

bool et_xnn_overrides_parse(const char *text, uint32_t *ret_off)
{
	uint32_t off = 0;
	if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0) {
		*ret_off = text[0] == 'a' ? 0 : UINT32_MAX;
		return true;
	}
	do {
		size_t n = strcspn(text, ","), index;
		if (text[0] != '-' || !find_name(text + 1, n - 1, &index))
			return false;
		off |= UINT32_C(1) << index;
		text += n;
	} while (*text++ == ',');
	*ret_off = off;
	return true;
}

bool et_xnn_override_is_worth(uint64_t n_products)
{
	return n_products >= atomic_load_explicit(&least_work, memory_order_relaxed);
}

bool et_xnn_override_is_on(void)
{
	return et_xnn_override_is_worth(UINT64_MAX - 1);
}

void et_xnn_override_set_least_work(uint64_t n_products)
{
	atomic_store_explicit(&least_work, n_products, memory_order_relaxed);
}

/* --- nodes and values --- */

/* @type: of input and output. @types: a set, of filter and bias. */
static bool is_all(const struct et_xnn_payload *payload, const struct et_xnn_node *node, enum et_xnn_type type,
	uint32_t types)
{
	if (!node->kind->has_filter)
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *out = &payload->values[node->outputs[0]];
	if (in->type != type || in->quant != ET_XNN_QUANT_NONE || in->data || out->type != type ||
		out->quant != ET_XNN_QUANT_NONE)
		return false;
	for (uint32_t i = 1; i < 3; i++) {
		if (i == 2 && node->inputs[i] == ET_XNN_NONE)
			continue;
		const struct et_xnn_value *value = &payload->values[node->inputs[i]];
		if (!(types & 1U << value->type) || value->quant != ET_XNN_QUANT_NONE || !value->data)
			return false;
	}
	return true;
}

bool et_xnn_override_is_all_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_all(payload, node, ET_XNN_FP32, 1U << ET_XNN_FP32);
}

bool et_xnn_override_is_all_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_all(payload, node, ET_XNN_FP16, 1U << ET_XNN_FP32 | 1U << ET_XNN_FP16);
}

static bool is_qs8(const struct et_xnn_value *value)
{
	return value->type == ET_XNN_QINT8 && value->quant == ET_XNN_QUANT_TENSOR;
}

bool et_xnn_override_is_qs8(const struct et_xnn_payload *payload, const struct et_xnn_node *node, uint32_t channel_dim)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *filter = &payload->values[node->inputs[1]],
				  *bias = node->inputs[2] == ET_XNN_NONE ? NULL : &payload->values[node->inputs[2]];
	const struct et_xnn_value *out = &payload->values[node->outputs[0]];
	bool is_by_channel = filter->type == ET_XNN_QCINT8 && filter->quant == ET_XNN_QUANT_CHANNEL &&
			     filter->channel_dim == channel_dim &&
			     filter->n_scales == filter->shape.dims[channel_dim] &&
			     et_xnn_channel_scales_fit(in, filter, out);
	return is_qs8(in) && !in->data && is_qs8(out) && filter->data &&
	       (is_by_channel || (is_qs8(filter) && filter->zero_point == 0)) &&
	       (!bias || (bias->data && (bias->type == ET_XNN_QINT32 || bias->type == ET_XNN_QCINT32)));
}

bool et_xnn_override_has_border(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return n[ET_XNN_PAD_TOP] || n[ET_XNN_PAD_LEFT] || n[ET_XNN_PAD_BOTTOM] || n[ET_XNN_PAD_RIGHT];
}

bool et_xnn_override_is_like_depthwise(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return n[ET_XNN_GROUP_IN] == 1 && n[ET_XNN_GROUP_OUT] == 1 &&
	       (uint64_t)n[ET_XNN_KERNEL_H] * n[ET_XNN_KERNEL_W] <= MOST_DEPTHWISE_TAPS;
}
