/* SPDX-License-Identifier: BSD-3-Clause */
/* The decoded payload as a data structure: names of datatypes, and arrays that grow.
 *
 * payload_read.c fills it from a FlatBuffer; payload_check.c, simplify.c, lower_half.c and dim_order.c change it.
 * Values and nodes are named by their index. An index stays valid when an array grows; a pointer does not. */
#include "delegates/xnnpack/graph/payload.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	uint8_t bits;  /* 0: this XNNPACK has no such datatype, or a program cannot hold it */
	uint8_t quant; /* enum et_xnn_quant */
} types[ET_XNN_N_TYPES] = {
	[ET_XNN_INVALID] = { "invalid", 0, 0 },
	[ET_XNN_FP32] = { "fp32", 32, ET_XNN_QUANT_NONE },
	[ET_XNN_FP16] = { "fp16", 16, ET_XNN_QUANT_NONE },
	[ET_XNN_QINT8] = { "qint8", 8, ET_XNN_QUANT_TENSOR },
	[ET_XNN_QUINT8] = { "quint8", 8, ET_XNN_QUANT_TENSOR },
	[ET_XNN_QINT32] = { "qint32", 32, ET_XNN_QUANT_TENSOR },
	[ET_XNN_QCINT8] = { "qcint8", 8, ET_XNN_QUANT_CHANNEL },
	[ET_XNN_QCINT32] = { "qcint32", 32, ET_XNN_QUANT_CHANNEL },
	[ET_XNN_QCINT4] = { "qcint4", 4, ET_XNN_QUANT_CHANNEL },
	[ET_XNN_QDINT8] = { "qdint8", 8, ET_XNN_QUANT_ROW },
	[ET_XNN_QBINT4] = { "qbint4", 4, ET_XNN_QUANT_BLOCK },
	[ET_XNN_QPINT8] = { "qpint8", 0, 0 },
	[ET_XNN_INT32] = { "int32", 32, ET_XNN_QUANT_NONE },
	[ET_XNN_PFP32] = { "pfp32", 0, 0 },
	[ET_XNN_BF16] = { "bf16", 16, ET_XNN_QUANT_NONE },
};

const char *et_xnn_type_name(uint32_t type)
{
	return type < ET_XNN_N_TYPES ? types[type].name : "?";
}

uint32_t et_xnn_type_bits(uint32_t type)
{
	return type < ET_XNN_N_TYPES ? types[type].bits : 0;
}

uint8_t et_xnn_type_quant(uint32_t type)
{
	return type < ET_XNN_N_TYPES ? types[type].quant : ET_XNN_QUANT_NONE;
}

/* Make room for one item more than @n; there is room for *@max. NULL if there is no memory. The new array is not
 * cleared: pages that are never written take no memory. */
static void *grow(struct et_pool *pool, void *items, uint32_t n, uint32_t *max, size_t item_bytes)
{
	uint32_t more = *max ? 2 * *max : 16;
	if (n < *max)
		return items;
	void *moved = et_pool_scratch(pool, more * item_bytes, _Alignof(max_align_t));
	if (!moved)
		return NULL;
	if (n)
		memcpy(moved, items, n * item_bytes);
	*max = more;
	return moved;
}

bool et_xnn_payload_add_value(struct et_xnn_payload *payload, const struct et_xnn_value *value, struct et_pool *pool)
{
	struct et_xnn_value *values = grow(pool, payload->values, payload->n_values, &payload->max_values,
		sizeof(*values));
	if (!values)
		return false;
	payload->values = values;
	values[payload->n_values++] = *value;
	return true;
}

bool et_xnn_payload_add_node(struct et_xnn_payload *payload, const struct et_xnn_node *node, struct et_pool *pool)
{
	struct et_xnn_node *nodes = grow(pool, payload->nodes, payload->n_nodes, &payload->max_nodes, sizeof(*nodes));
	if (!nodes)
		return false;
	payload->nodes = nodes;
	nodes[payload->n_nodes++] = *node;
	return true;
}
