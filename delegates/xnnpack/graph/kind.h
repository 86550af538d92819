/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of node that a payload can have: one row each.
 *
 * To add a kind, add a row in kind.c and, if no existing function serves, one that infers shapes (shape.c) and one
 * that defines the node for XNNPACK (define.c). The row describes the fields of the node's table in the FlatBuffer,
 * so that the decoder is a loop. */
#ifndef DELEGATES_XNNPACK_GRAPH_KIND_H
#define DELEGATES_XNNPACK_GRAPH_KIND_H

#include "delegates/xnnpack/graph/payload.h"

#include <xnnpack.h>

/* The meaning of a field of a node's table. */
enum et_xnn_field {
	ET_XNN_FIELD_END,
	ET_XNN_FIELD_SKIP, /* redundant: another field has the same */
	ET_XNN_FIELD_INPUT,
	ET_XNN_FIELD_BIAS, /* an input that may be absent */
	ET_XNN_FIELD_OUTPUT,
	ET_XNN_FIELD_FLAGS,
	ET_XNN_FIELD_FLOAT,
	ET_XNN_FIELD_LIST,
	ET_XNN_FIELD_NUMBER, /* plus enum et_xnn_number */
};

/* Which datatypes a node may have. */
enum et_xnn_types {
	ET_XNN_TYPES_SAME,    /* inputs and output have the same: float, or 8 bits with one scale */
	ET_XNN_TYPES_IMAGES,  /* the same, but no bf16 */
	ET_XNN_TYPES_FLOAT,   /* all fp32, or all fp16 */
	ET_XNN_TYPES_FP32,    /* all fp32 */
	ET_XNN_TYPES_CONVERT, /* from one datatype to another */
	ET_XNN_TYPES_WEIGHTS, /* input, filter, bias, output: XNNPACK checks the combination */
	ET_XNN_TYPES_MATMUL,
};

struct et_xnn_builder;

struct et_xnn_kind {
	const char *name;      /* as in the schema; NULL: the union has no such number */
	const uint8_t *fields; /* enum et_xnn_field, ends with END */
	/* Infer the outputs' shapes from the inputs'. NULL: this kind is not supported. */
	enum et_status (*infer)(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
		struct et_xnn_shape *shapes, struct et_diag *diag);
	enum xnn_status (*define)(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
	uint32_t op;      /* enum xnn_unary_operator or xnn_binary_operator */
	uint32_t flags;   /* the flags that a node may have */
	uint8_t types;    /* enum et_xnn_types */
	uint8_t n_inputs; /* the bias included */
	uint8_t n_outputs;
	bool has_filter;   /* input 1 is a filter, input 2 a bias */
	bool is_unlimited; /* limits in the file are ignored, as ExecuTorch does */
};

/* The union's numbers of the kinds of nodes that inferd makes itself (simplify.c, partition.c). */
enum { ET_XNN_KIND_CLAMP = 6, ET_XNN_KIND_CONVERT = 18, ET_XNN_KIND_ABS = 30, ET_XNN_KIND_COPY = 46 };
/* The kind with that number in the schema's union XNodeUnion; NULL: there is none. */
const struct et_xnn_kind *et_xnn_kind_at(uint32_t union_type);

/* A kind that the schema does not have: round fp32 to the nearest bf16 values, kept as fp32 (lower_half.c). */
extern const struct et_xnn_kind et_xnn_kind_round;

/* Whether the node is a clamp. */
bool et_xnn_is_clamp(const struct et_xnn_node *node);

/* Whether the node has a filter, and the filter or the bias is not a constant. */
bool et_xnn_has_computed_weights(const struct et_xnn_payload *payload, const struct et_xnn_node *node);

/* Whether the node only moves elements: a copy, reshape, transpose, slice, pad or concatenation. */
bool et_xnn_is_move(const struct et_xnn_node *node);

/* Whether the node moves 32-bit integers , which XNNPACK does not. */
bool et_xnn_moves_int32(const struct et_xnn_payload *payload, const struct et_xnn_node *node);

/* Whether XNNPACK computes the node: no override does, and it has something to do. After et_xnn_partitions_make. */
static inline bool et_xnn_is_left_to_xnnpack(const struct et_xnn_node *node)
{
	return !node->is_overridden && !node->is_gone && !node->is_view;
}

/* "XNNPACK node 'XNNConv2d' (node 12): …" */
enum et_status et_xnn_node_fail(struct et_diag *diag, enum et_status status, const struct et_xnn_node *node,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* --- lower_half.c --------------------------------------------------------------------------------- */

/* Whether XNNPACK computes fp16 on this processor. After et_xnn_initialize. Any thread. */
bool et_xnn_computes_fp16(void);
/* For tests: whether payloads compiled from now on are computed as if the processor did not compute fp16. */
void et_xnn_lower_fp16_always(bool is_always);

/* --- scales.c ------------------------------------------------------------------------------------- */

/* Whether the value is qint8 or quint8: 8 bits with one scale. */
bool et_xnn_is_8_bit(const struct et_xnn_value *value);
/* Whether XNNPACK's kernel for @node takes the scales of its values. The datatypes were checked. If the scales do
 * not fit, a unary or binary node is computed in floats, and any other node is refused. */
bool et_xnn_scales_fit(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
/* Whether XNNPACK takes each of the scales that an 8-bit @filter has for its channels. */
bool et_xnn_channel_scales_fit(const struct et_xnn_value *in, const struct et_xnn_value *filter,
	const struct et_xnn_value *out);

/* --- shape.c -------------------------------------------------------------------------------------- */

enum et_status et_xnn_infer_binary(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_same(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_convert(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_softmax(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_fully_connected(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_convolution(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_depthwise(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_deconvolution(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_pooling(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_argmax(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_global_pooling(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_transpose(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_reshape(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_slice(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_pad(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_concatenate(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_resize(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);
enum et_status et_xnn_infer_matmul(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	struct et_xnn_shape *shapes, struct et_diag *diag);

/* --- define.c ------------------------------------------------------------------------------------- */

enum xnn_status et_xnn_define_unary(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_binary(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_softmax(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_fully_connected(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_convolution(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_depthwise(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_deconvolution(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_average_pooling(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_max_pooling(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_global_pooling(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_transpose(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_reshape(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_slice(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_pad(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_concatenate(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_resize(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_matmul(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
enum xnn_status et_xnn_define_copy(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
/* For kinds that XNNPACK does not have. */
enum xnn_status et_xnn_define_nothing(const struct et_xnn_builder *builder, const struct et_xnn_node *node);

#endif
