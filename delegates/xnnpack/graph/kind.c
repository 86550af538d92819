/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of node kinds.
 *
 * The field lists follow the tables of ExecuTorch's schema.fbs; several kinds share one. A kind without functions is
 * one that ExecuTorch's own runtime does not implement either: it is refused by name. */
#include "delegates/xnnpack/graph/kind.h"

#include "runtime/base/checked.h"

#include <stdarg.h>
#include <stdio.h>

#define NUMBER(name) (ET_XNN_FIELD_NUMBER + ET_XNN_##name)
#define FIELDS(...)  ((const uint8_t[]){ __VA_ARGS__, ET_XNN_FIELD_END })
#define SKIP         ET_XNN_FIELD_SKIP
#define INPUT        ET_XNN_FIELD_INPUT
#define BIAS         ET_XNN_FIELD_BIAS
#define OUTPUT       ET_XNN_FIELD_OUTPUT
#define FLAGS        ET_XNN_FIELD_FLAGS
#define FLOAT        ET_XNN_FIELD_FLOAT
#define LIST         ET_XNN_FIELD_LIST

#define PADDING NUMBER(PAD_TOP), NUMBER(PAD_RIGHT), NUMBER(PAD_BOTTOM), NUMBER(PAD_LEFT)

static const uint8_t fields_1x1[] = { INPUT, OUTPUT, FLAGS, ET_XNN_FIELD_END };
static const uint8_t fields_2x1[] = { INPUT, INPUT, OUTPUT, FLAGS, ET_XNN_FIELD_END };
static const uint8_t fields_float[] = { FLOAT, INPUT, OUTPUT, FLAGS, ET_XNN_FIELD_END };
static const uint8_t fields_cat[] = { NUMBER(AXIS), INPUT, INPUT, INPUT, INPUT, OUTPUT, FLAGS, INPUT,
	ET_XNN_FIELD_END };
static const uint8_t fields_conv[] = { PADDING, NUMBER(KERNEL_H), NUMBER(KERNEL_W), NUMBER(STRIDE_H), NUMBER(STRIDE_W),
	NUMBER(DILATION_H), NUMBER(DILATION_W), NUMBER(GROUP_IN), NUMBER(GROUP_OUT), NUMBER(GROUPS), NUMBER(ADJUST_H),
	NUMBER(ADJUST_W), INPUT, INPUT, BIAS, OUTPUT, FLAGS, ET_XNN_FIELD_END };
static const uint8_t fields_pool[] = { PADDING, NUMBER(KERNEL_H), NUMBER(KERNEL_W), NUMBER(STRIDE_H), NUMBER(STRIDE_W),
	NUMBER(DILATION_H), NUMBER(DILATION_W), INPUT, OUTPUT, FLAGS, ET_XNN_FIELD_END };
static const uint8_t fields_argmax[] = { PADDING, NUMBER(KERNEL_H), NUMBER(KERNEL_W), INPUT, OUTPUT, OUTPUT, FLAGS,
	ET_XNN_FIELD_END };
static const uint8_t fields_linear[] = { INPUT, INPUT, BIAS, OUTPUT, FLAGS, ET_XNN_FIELD_END };
static const uint8_t fields_list[] = { SKIP, LIST, INPUT, OUTPUT, FLAGS, ET_XNN_FIELD_END };
static const uint8_t fields_slice[] = { SKIP, LIST, LIST, INPUT, OUTPUT, FLAGS, ET_XNN_FIELD_END };
static const uint8_t fields_pad[] = { LIST, LIST, FLOAT, INPUT, OUTPUT, FLAGS, ET_XNN_FIELD_END };
static const uint8_t fields_resize[] = { NUMBER(NEW_H), NUMBER(NEW_W), INPUT, OUTPUT, FLAGS, ET_XNN_FIELD_END };

#define UNARY_OF(label, operation, all_fields) \
	{ .name = label,                       \
		.fields = all_fields,          \
		.infer = et_xnn_infer_same,    \
		.define = et_xnn_define_unary, \
		.op = operation,               \
		.types = ET_XNN_TYPES_SAME,    \
		.n_inputs = 1,                 \
		.n_outputs = 1 }
#define UNARY(label, operation)       UNARY_OF(label, operation, fields_1x1)
#define UNARY_FLOAT(label, operation) UNARY_OF(label, operation, fields_float)
#define BINARY_OF(label, operation, passes_no_limits) \
	{ .name = label,                              \
		.fields = fields_2x1,                 \
		.infer = et_xnn_infer_binary,         \
		.define = et_xnn_define_binary,       \
		.op = operation,                      \
		.types = ET_XNN_TYPES_SAME,           \
		.n_inputs = 2,                        \
		.n_outputs = 1,                       \
		.is_unlimited = passes_no_limits }
#define BINARY(label, operation) BINARY_OF(label, operation, false)
/* ExecuTorch's runtime does not pass the file's limits on to these. */
#define UNLIMITED(label, operation) BINARY_OF(label, operation, true)
#define CAT(label, n)                                \
	{ .name = label,                             \
		.fields = fields_cat,                \
		.infer = et_xnn_infer_concatenate,   \
		.define = et_xnn_define_concatenate, \
		.types = ET_XNN_TYPES_SAME,          \
		.n_inputs = n,                       \
		.n_outputs = 1 }

/* Indexed by the number in the union XNodeUnion. */
static const struct et_xnn_kind kinds[] = {
	[1] = BINARY("XNNAdd", xnn_binary_add),
	[2] = { .name = "XNNFullyConnected",
		.fields = fields_linear,
		.infer = et_xnn_infer_fully_connected,
		.define = et_xnn_define_fully_connected,
		.flags = XNN_FLAG_TRANSPOSE_WEIGHTS | XNN_FLAG_TENSORFLOW_RESHAPE_2D,
		.types = ET_XNN_TYPES_WEIGHTS,
		.n_inputs = 3,
		.n_outputs = 1,
		.has_filter = true },
	[3] = { .name = "XNNSoftmax",
		.fields = fields_1x1,
		.infer = et_xnn_infer_softmax,
		.define = et_xnn_define_softmax,
		.types = ET_XNN_TYPES_FLOAT,
		.n_inputs = 1,
		.n_outputs = 1 },
	[4] = UNARY("XNNSigmoid", xnn_unary_sigmoid),
	[5] = { .name = "XNNStaticTranspose",
		.fields = fields_list,
		.infer = et_xnn_infer_transpose,
		.define = et_xnn_define_transpose,
		.types = ET_XNN_TYPES_SAME,
		.n_inputs = 1,
		.n_outputs = 1 },
	[6] = UNARY("XNNClamp", xnn_unary_clamp),
	[7] = { .name = "XNNConv2d",
		.fields = fields_conv,
		.infer = et_xnn_infer_convolution,
		.define = et_xnn_define_convolution,
		.types = ET_XNN_TYPES_WEIGHTS,
		.n_inputs = 3,
		.n_outputs = 1,
		.has_filter = true },
	[8] = BINARY("XNNDiv", xnn_binary_divide),
	[9] = { .name = "XNNStaticResizeBilinear2D",
		.fields = fields_resize,
		.infer = et_xnn_infer_resize,
		.define = et_xnn_define_resize,
		.flags = XNN_FLAG_ALIGN_CORNERS | XNN_FLAG_TENSORFLOW_LEGACY_MODE,
		.types = ET_XNN_TYPES_IMAGES,
		.n_inputs = 1,
		.n_outputs = 1 },
	[10] = { .name = "XNNStaticConstantPad",
		.fields = fields_pad,
		.infer = et_xnn_infer_pad,
		.define = et_xnn_define_pad,
		.types = ET_XNN_TYPES_SAME,
		.n_inputs = 1,
		.n_outputs = 1 },
	[11] = { .name = "XNNAvgPooling2d",
		.fields = fields_pool,
		.infer = et_xnn_infer_pooling,
		.define = et_xnn_define_average_pooling,
		.flags = XNN_FLAG_KEEP_DIMS,
		.types = ET_XNN_TYPES_IMAGES,
		.n_inputs = 1,
		.n_outputs = 1 },
	[12] = UNLIMITED("XNNMinimum", xnn_binary_minimum),
	[13] = { .name = "XNNDepthwiseConv2d",
		.fields = fields_conv,
		.infer = et_xnn_infer_depthwise,
		.define = et_xnn_define_depthwise,
		.types = ET_XNN_TYPES_WEIGHTS,
		.n_inputs = 3,
		.n_outputs = 1,
		.has_filter = true },
	[14] = { .name = "XNNMaxPooling2d",
		.fields = fields_pool,
		.infer = et_xnn_infer_pooling,
		.define = et_xnn_define_max_pooling,
		.flags = XNN_FLAG_KEEP_DIMS,
		.types = ET_XNN_TYPES_IMAGES,
		.n_inputs = 1,
		.n_outputs = 1 },
	[15] = BINARY("XNNMultiply", xnn_binary_multiply),
	[16] = BINARY("XNNSubtract", xnn_binary_subtract),
	[17] = UNARY("XNNFloor", xnn_unary_floor),
	[18] = { .name = "XNNConvert",
		.fields = fields_1x1,
		.infer = et_xnn_infer_convert,
		.define = et_xnn_define_unary,
		.op = xnn_unary_convert,
		.types = ET_XNN_TYPES_CONVERT,
		.n_inputs = 1,
		.n_outputs = 1 },
	[19] = { .name = "XNNGlobalAvgPooling2d",
		.fields = fields_1x1,
		.infer = et_xnn_infer_global_pooling,
		.define = et_xnn_define_global_pooling,
		.flags = XNN_FLAG_KEEP_DIMS,
		.types = ET_XNN_TYPES_IMAGES,
		.n_inputs = 1,
		.n_outputs = 1 },
	[20] = { .name = "XNNStaticReshape",
		.fields = fields_list,
		.infer = et_xnn_infer_reshape,
		.define = et_xnn_define_reshape,
		.types = ET_XNN_TYPES_SAME,
		.n_inputs = 1,
		.n_outputs = 1 },
	[21] = { .name = "XNNArgMaxPooling2d",
		.fields = fields_argmax,
		.infer = et_xnn_infer_argmax,
		.define = et_xnn_define_nothing,
		.types = ET_XNN_TYPES_FP32,
		.n_inputs = 1,
		.n_outputs = 2 },
	[22] = UNARY("XNNSquareRoot", xnn_unary_square_root),
	[23] = UNARY("XNNCeiling", xnn_unary_ceiling),
	[24] = UNARY("XNNHardswish", xnn_unary_hardswish),
	[25] = UNARY_FLOAT("XNNLeakyReLU", xnn_unary_leaky_relu),
	[26] = UNLIMITED("XNNMaximum", xnn_binary_maximum),
	[27] = UNARY("XNNNegate", xnn_unary_negate),
	[28] = UNARY("XNNSquare", xnn_unary_square),
	[29] = UNARY_FLOAT("XNNELU", xnn_unary_elu),
	[30] = UNARY("XNNAbs", xnn_unary_abs),
	[31] = UNLIMITED("XNNPReLU", xnn_binary_prelu),
	[32] = CAT("XNNConcatenate2", 2),
	[33] = CAT("XNNConcatenate3", 3),
	[34] = CAT("XNNConcatenate4", 4),
	[35] = { .name = "XNNStaticSlice",
		.fields = fields_slice,
		.infer = et_xnn_infer_slice,
		.define = et_xnn_define_slice,
		.types = ET_XNN_TYPES_SAME,
		.n_inputs = 1,
		.n_outputs = 1 },
	[36] = { .name = "XNNScaledDotProductAttention", .fields = fields_1x1 },
	[37] = { .name = "XNNBatchMatrixMultiply",
		.fields = fields_2x1,
		.infer = et_xnn_infer_matmul,
		.define = et_xnn_define_matmul,
		.flags = XNN_FLAG_TRANSPOSE_B,
		.types = ET_XNN_TYPES_MATMUL,
		.n_inputs = 2,
		.n_outputs = 1 },
	[38] = CAT("XNNConcatenate5", 5),
	[39] = { .name = "XNNConvTranspose2d",
		.fields = fields_conv,
		.infer = et_xnn_infer_deconvolution,
		.define = et_xnn_define_deconvolution,
		.types = ET_XNN_TYPES_WEIGHTS,
		.n_inputs = 3,
		.n_outputs = 1,
		.has_filter = true },
	[40] = UNARY("XNNReciprocalSquareRoot", xnn_unary_reciprocal_square_root),
	[41] = UNARY("XNNLog", xnn_unary_log),
	[42] = UNARY("XNNGelu", xnn_unary_gelu),
	[43] = UNARY("XNNTanh", xnn_unary_tanh),
	[44] = UNARY("XNNExp", xnn_unary_exp),
	[45] = UNARY("XNNSin", xnn_unary_sine),
	[46] = { .name = "XNNCopy",
		.fields = fields_1x1,
		.infer = et_xnn_infer_same,
		.define = et_xnn_define_copy,
		.types = ET_XNN_TYPES_SAME,
		.n_inputs = 1,
		.n_outputs = 1 },
	[47] = UNARY("XNNCos", xnn_unary_cosine),
};

const struct et_xnn_kind et_xnn_kind_round = { .name = "XNNConvert",
	.fields = fields_1x1,
	.infer = et_xnn_infer_same,
	.define = et_xnn_define_nothing,
	.types = ET_XNN_TYPES_SAME,
	.n_inputs = 1,
	.n_outputs = 1 };

const struct et_xnn_kind *et_xnn_kind_at(uint32_t union_type)
{
	return union_type < ET_ARRAY_LEN(kinds) && kinds[union_type].name ? &kinds[union_type] : NULL;
}

bool et_xnn_is_clamp(const struct et_xnn_node *node)
{
	return node->kind->define == et_xnn_define_unary && node->kind->op == xnn_unary_clamp;
}

bool et_xnn_has_computed_weights(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return node->kind->has_filter &&
	       (!payload->values[node->inputs[1]].data ||
		       (node->inputs[2] != ET_XNN_NONE && !payload->values[node->inputs[2]].data));
}

bool et_xnn_is_move(const struct et_xnn_node *node)
{
	const struct et_xnn_kind *kind = node->kind;
	return kind->define == et_xnn_define_copy || kind->define == et_xnn_define_reshape ||
	       kind->define == et_xnn_define_transpose || kind->define == et_xnn_define_slice ||
	       kind->define == et_xnn_define_pad || kind->define == et_xnn_define_concatenate;
}

bool et_xnn_moves_int32(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	uint8_t type = payload->values[node->inputs[0]].type;
	return et_xnn_is_move(node) && (type == ET_XNN_INT32 || type == ET_XNN_QINT32);
}

enum et_status et_xnn_node_fail(struct et_diag *diag, enum et_status status, const struct et_xnn_node *node,
	const char *format, ...)
{
	char text[200];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return et_fail(diag, status, "XNNPACK node '%s' (node %u) %s", node->kind->name, node->index, text);
}
