/* A payload's nodes in the parts that are run one after the other: XNNPACK's, one runtime each, and our own nodes. */
#ifndef DELEGATES_XNNPACK_PARTS_H
#define DELEGATES_XNNPACK_PARTS_H

#include "delegates/xnnpack/own.h"

struct et_xnn_part {
	/* Ours. */
	const struct et_xnn_own *own; /* NULL: XNNPACK's */
	const struct et_xnn_node *node;
	const void *packed; /* what it packs, as far as compiled.c has seen to it */
	/* XNNPACK's. */
	const struct et_xnn_payload
		*graph; /* these nodes and their values alone; or the payload itself, whole */
};

/* A value that is written in one part and read in others: it needs memory from the one to the last of them. Or one that lies
 * in the same memory as such, since that is written over it, element by element, where it is read the only time. */
struct et_xnn_crossing {
	uint32_t value;
	uint32_t over;        /* the crossing that it is written over where both are as large, or NONE */
	uint32_t under;       /* the one that is written over it, or NONE */
	uint32_t first, last; /* parts */
	bool is_rows;         /* quantized at run time, as gemm8.h has them */
	uint8_t n_bytes;      /* else: of an element */
};

/* Immutable; everything lives in the pool. */
struct et_xnn_parts {
	struct et_xnn_part *parts;
	uint32_t n_parts; /* at least one */
	struct et_xnn_crossing *crossings;
	uint32_t n_crossings;
	uint32_t n_outer; /* of all of XNNPACK's together */
};

/* @payload, whose shapes are known, must outlive the parts; when it changes (order.c) they are made anew. Its nodes learn whose they
 * are. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_parts_make(struct et_xnn_parts *ret_parts, struct et_xnn_payload *payload,
	struct et_pool *pool, struct et_diag *diag);

/* The @i-th of the graph's inputs and outputs. */
static inline uint32_t et_xnn_part_value(const struct et_xnn_part *part, uint32_t i)
{
	const struct et_xnn_payload *graph = part->graph;
	return i < graph->n_inputs ? graph->inputs[i] : graph->outputs[i - graph->n_inputs];
}

/* How XNNPACK calls it. */
static inline uint32_t et_xnn_part_id(const struct et_xnn_part *part, uint32_t i)
{
	return part->graph->values[et_xnn_part_value(part, i)].external_id;
}

/* Which value of the payload it is, in the shape that XNNPACK sees. */
static inline uint32_t et_xnn_part_outer(const struct et_xnn_part *part, uint32_t i)
{
	uint32_t value = et_xnn_part_value(part, i), seen_as = part->graph->values[value].seen_as;
	if (part->graph->whole)
		return part->graph->whole[value];
	return seen_as == ET_XNN_NONE ? value : seen_as;
}

/* Where each crossing value lies, in a piece of memory for all of them: those that are never needed at the same time may
 * share. @offsets, @order: one a crossing, the second is scratch. *@ret_bytes: of the piece, to be aligned to
 * ET_XNN_MEMORY_ALIGNMENT. False: more than there is memory for. */
bool et_xnn_parts_plan(const struct et_xnn_parts *parts, const struct et_xnn_shape *shapes, size_t *offsets,
	uint32_t *order, size_t *ret_bytes);

#endif
