/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of node that a payload can have: one row each.
 *
 * Adding one is a row in kind.c and, where no existing function serves, one that infers shapes (shape.c) and
 * one that tells XNNPACK (subgraph.c). The row says how the node's table in the FlatBuffer is laid out, so
 * that the decoder is a loop. */
#ifndef DELEGATES_XNNPACK_GRAPH_KIND_H
#define DELEGATES_XNNPACK_GRAPH_KIND_H

#include "delegates/xnnpack/graph/payload.h"

#include <xnnpack.h>

/* What a field of a node's table is. */
enum et_xnn_field {
	ET_XNN_FIELD_END,
	ET_XNN_FIELD_SKIP, /* said again elsewhere */
	ET_XNN_FIELD_INPUT,
	ET_XNN_FIELD_BIAS, /* an input that may be absent */
	ET_XNN_FIELD_OUTPUT,
	ET_XNN_FIELD_FLAGS,
	ET_XNN_FIELD_FLOAT,
	ET_XNN_FIELD_LIST,
	ET_XNN_FIELD_NUMBER, /* this and above: enum et_xnn_number */
};

/* Which datatypes go together. */
enum et_xnn_types {
	ET_XNN_TYPES_SAME,    /* inputs and output alike: float or 8 bit with one scale */
	ET_XNN_TYPES_IMAGES,  /* the same, but no bf16 */
	ET_XNN_TYPES_FLOAT,   /* alike: fp32 or fp16 */
	ET_XNN_TYPES_FP32,    /* fp32 throughout */
	ET_XNN_TYPES_CONVERT, /* one to another */
	ET_XNN_TYPES_WEIGHTS, /* input, filter, bias, output: XNNPACK has the table of what fits */
	ET_XNN_TYPES_MATMUL,
};

struct et_xnn_builder;

struct et_xnn_kind {
	const char *name;      /* as in the schema; NULL ends nothing, the table is indexed by the union's type */
	const uint8_t *fields; /* enum et_xnn_field, ends with END */
	/* The output's shapes from the inputs'; NULL: this kind is not supported. */
	enum et_status (*infer)(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
		struct et_xnn_shape *shapes, struct et_diag *diag);
	enum xnn_status (*define)(const struct et_xnn_builder *builder, const struct et_xnn_node *node);
	uint32_t op;      /* enum xnn_unary_operator or xnn_binary_operator */
	uint32_t flags;   /* that it may have */
	uint8_t types;    /* enum et_xnn_types */
	uint8_t n_inputs; /* with the bias */
	uint8_t n_outputs;
	bool has_filter;   /* input 1 is a filter, input 2 a bias */
	bool is_unlimited; /* limits that stand in a file count for nothing */
};

/* Numbers of the schema's union, for nodes that are made here (simplify.c, partition.c). */
enum { ET_XNN_KIND_CLAMP = 6, ET_XNN_KIND_CONVERT = 18, ET_XNN_KIND_ABS = 30, ET_XNN_KIND_COPY = 46 };
/* Never NULL for a number the schema has; NULL for others. */
const struct et_xnn_kind *et_xnn_kind_at(uint32_t union_type);

/* Not in the schema: floats to the nearest bfloats' values (lower_bf16.c). */
extern const struct et_xnn_kind et_xnn_kind_round;

/* Whether the node does nothing but apply limits. */
bool et_xnn_is_clamp(const struct et_xnn_node *node);

/* Whether the node has a filter, and that or its bias is no constant. */
bool et_xnn_has_computed_weights(const struct et_xnn_payload *payload, const struct et_xnn_node *node);

/* "XNNPACK node 'XNNConv2d' (node 12): …" */
enum et_status et_xnn_node_fail(struct et_diag *diag, enum et_status status, const struct et_xnn_node *node,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* --- scales.c ------------------------------------------------------------------------------------- */

/* One scale for all: qint8 or quint8. */
bool et_xnn_is_8_bit(const struct et_xnn_value *value);
/* Whether XNNPACK's kernel for @node, whose datatypes go together, takes its values' scales. Where a unary or binary node's
 * don't fit it is computed in floats; no other may come here with such. */
bool et_xnn_scales_fit(const struct et_xnn_payload *payload, const struct et_xnn_node *node);

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

/* Whether XNNPACK must not be asked for @out alone of @node: it is a transposed convolution and that is less than its stride. */
bool et_xnn_is_below_stride(const struct et_xnn_node *node, const struct et_xnn_shape *out);
/* What of a transposed convolution's output there would be if its padding cut off nothing. */
struct et_xnn_shape et_xnn_without_padding(const struct et_xnn_node *node, const struct et_xnn_shape *out);

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
/* XNNPACK knows no such node. */
enum xnn_status et_xnn_define_nothing(const struct et_xnn_builder *builder, const struct et_xnn_node *node);

#endif
