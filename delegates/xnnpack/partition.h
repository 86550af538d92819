/* SPDX-License-Identifier: BSD-3-Clause */
/* A payload's nodes in partitions, which run one after the other. A partition is a sequence of consecutive nodes that
 * are executed together: one graph for XNNPACK with a runtime of its own, or one override. */
#ifndef DELEGATES_XNNPACK_PARTITION_H
#define DELEGATES_XNNPACK_PARTITION_H

#include "delegates/xnnpack/overrides/override.h"

struct et_xnn_partition {
	/* An override's partition. */
	const struct et_xnn_override *override; /* NULL: the partition is XNNPACK's */
	const struct et_xnn_node *node;
	const void *packed; /* the override's packed weights, set by model.c */
	/* XNNPACK's partition. */
	const struct et_xnn_payload *graph; /* a copy of these nodes and their values; or the payload itself */
};

/* A boundary tensor: a value that one partition writes and other partitions read. It needs memory from the first of
 * them to the last. A value inside a partition is a boundary tensor, too, if a boundary tensor is written over it,
 * element by element, by its only reader: both lie in the same memory then. */
struct et_xnn_boundary {
	uint32_t value;
	uint32_t written_over;   /* the boundary tensor that it is written over if both have the same size, or NONE */
	uint32_t overwritten_by; /* the boundary tensor that is written over it, or NONE */
	uint32_t first, last;    /* the partition that writes it, and the last one that reads it */
	bool is_rows;            /* rows quantized at run time, in the layout of gemm_qs8.h */
	uint8_t n_bytes;         /* of an element; not for rows */
};

/* Immutable; everything lives in the pool. */
struct et_xnn_partitions {
	struct et_xnn_partition *partitions;
	uint32_t n_partitions; /* at least one */
	struct et_xnn_boundary *boundaries;
	uint32_t n_boundaries;
	uint32_t n_xnnpack_args; /* inputs and outputs of all graphs for XNNPACK together */
};

/* Cut @payload, whose shapes are known, into partitions, and set is_overridden of its nodes. The payload must
 * outlive the partitions; when it changes (dim_order.c) they are made anew. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_partitions_make(struct et_xnn_partitions *ret_partitions, struct et_xnn_payload *payload,
	struct et_pool *pool, struct et_diag *diag);

/* The graph's index of its @i-th argument: inputs first, then outputs. */
static inline uint32_t et_xnn_partition_value(const struct et_xnn_partition *partition, uint32_t i)
{
	const struct et_xnn_payload *graph = partition->graph;
	return i < graph->n_inputs ? graph->inputs[i] : graph->outputs[i - graph->n_inputs];
}

/* XNNPACK's external id of the @i-th argument. */
static inline uint32_t et_xnn_partition_id(const struct et_xnn_partition *partition, uint32_t i)
{
	return partition->graph->values[et_xnn_partition_value(partition, i)].external_id;
}

/* The payload's index of the @i-th argument, in the shape that XNNPACK sees.
 * The graph of a cut payload is a copy, whose values have other indexes: `whole` has the index that each of them has in
 * the whole payload. If the graph is the payload itself (`whole` is NULL), an argument that is reshaped by a view has
 * two values: the argument, and `seen_as`, which lies in the same memory and has the shape that XNNPACK knows. */
static inline uint32_t et_xnn_partition_outer(const struct et_xnn_partition *partition, uint32_t i)
{
	uint32_t value = et_xnn_partition_value(partition, i), seen_as = partition->graph->values[value].seen_as;
	if (partition->graph->whole)
		return partition->graph->whole[value];
	return seen_as == ET_XNN_NONE ? value : seen_as;
}

/* Plan one piece of memory for all boundary tensors; those that are never needed at the same time may share their
 * place. @offsets, @order: one for each boundary tensor; @order is scratch. *@ret_bytes: the size of the piece,
 * which must be aligned to ET_XNN_MEMORY_ALIGNMENT. False: the sum overflows. */
bool et_xnn_partitions_plan(const struct et_xnn_partitions *partitions, const struct et_xnn_shape *shapes,
	size_t *offsets, uint32_t *order, size_t *ret_bytes);

#endif
