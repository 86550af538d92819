/* SPDX-License-Identifier: BSD-3-Clause */
/* A payload's nodes in the parts that are run one after the other: XNNPACK's, one runtime each, and our own nodes. */
#ifndef DELEGATES_XNNPACK_PARTITION_H
#define DELEGATES_XNNPACK_PARTITION_H

#include "delegates/xnnpack/overrides/override.h"

struct et_xnn_partition {
	/* Ours. */
	const struct et_xnn_override *override; /* NULL: XNNPACK's */
	const struct et_xnn_node *node;
	const void *packed; /* what it packs, as far as model.c has seen to it */
	/* XNNPACK's. */
	const struct et_xnn_payload *graph; /* these nodes and their values alone; or the payload itself, whole */
};

/* A value that is written in one part and read in others: it needs memory from the one to the last of them. Or one that lies
 * in the same memory as such, since that is written over it, element by element, where it is read the only time. */
struct et_xnn_boundary {
	uint32_t value;
	uint32_t over;        /* the crossing that it is written over where both are as large, or NONE */
	uint32_t under;       /* the one that is written over it, or NONE */
	uint32_t first, last; /* parts */
	bool is_rows;         /* quantized at run time, as gemm_qs8.h has them */
	uint8_t n_bytes;      /* else: of an element */
};

/* Immutable; everything lives in the pool. */
struct et_xnn_partitions {
	struct et_xnn_partition *partitions;
	uint32_t n_partitions; /* at least one */
	struct et_xnn_boundary *boundaries;
	uint32_t n_boundaries;
	uint32_t n_outer; /* of all of XNNPACK's together */
};

/* @payload, whose shapes are known, must outlive the parts; when it changes (dim_order.c) they are made anew. Its nodes learn whose they
 * are. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_partitions_make(struct et_xnn_partitions *ret_partitions, struct et_xnn_payload *payload,
	struct et_pool *pool, struct et_diag *diag);

/* The @i-th of the graph's inputs and outputs. */
static inline uint32_t et_xnn_partition_value(const struct et_xnn_partition *partition, uint32_t i)
{
	const struct et_xnn_payload *graph = partition->graph;
	return i < graph->n_inputs ? graph->inputs[i] : graph->outputs[i - graph->n_inputs];
}

/* How XNNPACK calls it. */
static inline uint32_t et_xnn_partition_id(const struct et_xnn_partition *partition, uint32_t i)
{
	return partition->graph->values[et_xnn_partition_value(partition, i)].external_id;
}

/* Which value of the payload it is, in the shape that XNNPACK sees. */
static inline uint32_t et_xnn_partition_outer(const struct et_xnn_partition *partition, uint32_t i)
{
	uint32_t value = et_xnn_partition_value(partition, i), seen_as = partition->graph->values[value].seen_as;
	if (partition->graph->whole)
		return partition->graph->whole[value];
	return seen_as == ET_XNN_NONE ? value : seen_as;
}

/* Where each crossing value lies, in a piece of memory for all of them: those that are never needed at the same time may
 * share. @offsets, @order: one a crossing, the second is scratch. *@ret_bytes: of the piece, to be aligned to
 * ET_XNN_MEMORY_ALIGNMENT. False: more than there is memory for. */
bool et_xnn_partitions_plan(const struct et_xnn_partitions *partitions, const struct et_xnn_shape *shapes,
	size_t *offsets, uint32_t *order, size_t *ret_bytes);

#endif
