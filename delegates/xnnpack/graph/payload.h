/* SPDX-License-Identifier: BSD-3-Clause */
/* What an XnnpackBackend payload says, decoded.
 *
 * A payload is a header ("XH00"), a FlatBuffer that describes a graph of values and nodes, and constants,
 * which lie inline in the FlatBuffer, behind it, or in the Program's named data. et_xnn_payload_read
 * turns that into the structs below and checks everything that can be checked without shapes: afterwards
 * nobody looks at the FlatBuffer again.
 *
 * Source: ExecuTorch backends/xnnpack/serialization/{schema,runtime_schema}.fbs (identifiers XN00, XN01),
 * backends/xnnpack/runtime/XNNHeader.h. */
#ifndef DELEGATES_XNNPACK_GRAPH_PAYLOAD_H
#define DELEGATES_XNNPACK_GRAPH_PAYLOAD_H

#include "delegates/inferd-delegate.h"
#include "runtime/base/alloc.h"
#include "runtime/tensor.h"

enum {
	ET_XNN_MAX_DIMS = 6,
	ET_XNN_MAX_INPUTS = 5,  /* of a node */
	ET_XNN_MAX_OUTPUTS = 2, /* of a node */
	ET_XNN_MAX_EXTERNS = 4096,
	ET_XNN_MAX_VALUES = 65536,
	ET_XNN_MAX_NODES = 65536,
};
#define ET_XNN_NONE UINT32_MAX

/* Numbers of the schema, which are not those of Debian's XNNPACK (10, 11 and 12 differ). */
enum et_xnn_type {
	ET_XNN_INVALID = 0,
	ET_XNN_FP32 = 1,
	ET_XNN_FP16 = 2,
	ET_XNN_QINT8 = 3,
	ET_XNN_QUINT8 = 4,
	ET_XNN_QINT32 = 5,
	ET_XNN_QCINT8 = 6,
	ET_XNN_QCINT32 = 7,
	ET_XNN_QCINT4 = 8,
	ET_XNN_QDINT8 = 9,
	ET_XNN_QBINT4 = 10,
	ET_XNN_QPINT8 = 11,
	ET_XNN_INT32 = 12,
	ET_XNN_PFP32 = 13,
	ET_XNN_BF16 = 14,
	ET_XNN_N_TYPES,
};
/* "qcint8"; "?" for a number that is none. */
const char *et_xnn_type_name(uint32_t type);
/* Bits of an element; 0 for what is not supported here. */
uint32_t et_xnn_type_bits(uint32_t type);

enum et_xnn_quant {
	ET_XNN_QUANT_NONE,
	ET_XNN_QUANT_CHANNEL, /* numbers of the union XNNQuantParams */
	ET_XNN_QUANT_TENSOR,
	ET_XNN_QUANT_ROW, /* scales found at run time, one a row */
	ET_XNN_QUANT_BLOCK,
};

enum {
	ET_XNN_IS_INPUT = 1, /* bits of the schema's flags */
	ET_XNN_IS_OUTPUT = 2,
};

struct et_xnn_shape {
	uint32_t n_dims;
	size_t dims[ET_XNN_MAX_DIMS];
};

struct et_xnn_value {
	uint32_t id;      /* as nodes name it in the file; in the structs below they name the index instead */
	uint8_t type;     /* enum et_xnn_type */
	uint8_t quant;    /* enum et_xnn_quant */
	uint8_t external; /* ET_XNN_IS_INPUT, ET_XNN_IS_OUTPUT or 0 */
	bool in_payload;  /* data lies in the payload, not in named data */
	bool is_kept;     /* data must stay readable while there are contexts: not all its users pack it */
	uint8_t floats_of; /* enum et_xnn_type: data are floats, made of such numbers in the file (fp16_weights.c); 0: no */
	bool is_index;     /* written as indexes: 32-bit integers, whatever the type says */
	uint32_t external_id;      /* which argument it is */
	struct et_xnn_shape shape; /* as exported: the upper bound where dynamic */
	const uint8_t *data;       /* a constant's bytes, or NULL */
	const uint8_t *origin;     /* where they lie in the file, whatever they were copied to */
	size_t n_bytes;            /* of the constant */

	float scale; /* TENSOR */
	int32_t zero_point;
	const float *scales;          /* CHANNEL: n_scales, with readable bytes behind */
	const uint16_t *block_scales; /* BLOCK: bf16, likewise */
	uint32_t n_scales;
	uint32_t channel_dim;
	uint32_t block_size;
	uint32_t n_row_dims; /* ROW: the trailing dimensions that share a scale */

	/* An argument that XNNPACK knows by another shape: the value that it is, seen so. And the other way. NONE: no such.
	 * (payload_check.c) */
	uint32_t seen_as, stands_for;

	uint32_t producer; /* index of the node that writes it, or NONE: also where nobody needs it any more */
	uint32_t n_users;
};

/* Numbers that nodes carry, by what they mean; a node uses those that its type has. */
enum et_xnn_number {
	ET_XNN_PAD_TOP,
	ET_XNN_PAD_RIGHT,
	ET_XNN_PAD_BOTTOM,
	ET_XNN_PAD_LEFT,
	ET_XNN_KERNEL_H,
	ET_XNN_KERNEL_W,
	ET_XNN_STRIDE_H,
	ET_XNN_STRIDE_W,
	ET_XNN_DILATION_H,
	ET_XNN_DILATION_W,
	ET_XNN_GROUP_IN,
	ET_XNN_GROUP_OUT,
	ET_XNN_GROUPS,
	ET_XNN_ADJUST_H,
	ET_XNN_ADJUST_W,
	ET_XNN_N_NUMBERS,
	/* other names for those that no convolution needs */
	ET_XNN_AXIS = ET_XNN_GROUP_IN,
	ET_XNN_NEW_H = ET_XNN_KERNEL_H,
	ET_XNN_NEW_W = ET_XNN_KERNEL_W,
};

struct et_xnn_kind;

struct et_xnn_node {
	const struct et_xnn_kind *kind;
	uint32_t index; /* in the file */
	uint32_t flags;
	bool is_view;    /* its input and output are the same memory: there is nothing to do */
	bool is_ours;    /* done here, not by XNNPACK (partition.c) */
	bool is_rounded; /* what comes out, to bfloats' values (lower_bf16.c); only of conv_linear.c's */
	bool is_gone;    /* somebody else does it: neither value is anything any more (dim_order.c) */
	uint32_t inputs[ET_XNN_MAX_INPUTS]; /* values; NONE for a bias that is absent */
	uint32_t outputs[ET_XNN_MAX_OUTPUTS];
	uint32_t numbers[ET_XNN_N_NUMBERS];
	float number; /* slope, alpha, padding value */
	float min, max;
	uint32_t n_list[2];
	uint32_t list[2][ET_XNN_MAX_DIMS]; /* permutation; new shape; offsets and sizes; paddings */
};

/* Immutable once compiled; everything lives in the pool. */
struct et_xnn_payload {
	struct et_xnn_value *values;
	uint32_t n_values, max_values; /* there, and room for */
	struct et_xnn_node *nodes;
	uint32_t n_nodes, max_nodes;
	uint32_t n_externs; /* value ids that XNNPACK reserves */
	uint32_t n_args;    /* of each call */
	uint32_t *inputs;   /* values, by rising argument */
	uint32_t n_inputs;
	uint32_t *outputs;
	uint32_t n_outputs;
	uint32_t first_output; /* the lowest argument that is written */
	uint32_t
		overrides_off; /* a bit for each override (overrides/override.c) that is switched off, unless it is needed */
	const uint32_t *
		whole; /* of a part's graph (partition.h): which of the payload's each value is; NULL: it is a payload */
};

/* Answers: ET_E_DELEGATE_INVALID_COMPATIBILITY (not such a payload, or corrupt), ET_E_NOT_SUPPORTED (a node,
 * datatype or quantization that is not done here, by name), ET_E_NOT_FOUND (named data),
 * ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_payload_read(struct et_xnn_payload *ret_payload, const struct inferd_delegate_payload *source,
	struct et_pool *pool, struct et_diag *diag);

/* One value more, a copy of *@value; values move. False if there is no memory. */
bool et_xnn_payload_add_value(struct et_xnn_payload *payload, const struct et_xnn_value *value, struct et_pool *pool);

/* The second half of et_xnn_payload_read, in payload_check.c: how the nodes fit together. */
enum et_status et_xnn_payload_check(struct et_xnn_payload *payload, uint32_t n_args, struct et_pool *pool,
	struct et_diag *diag);

/* Bfloats become floats, in lower_bf16.c: for payload_check.c, when datatypes go together. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_payload_lower_bf16(struct et_xnn_payload *payload, struct et_pool *pool, struct et_diag *diag);

/* The same results with less work, in simplify.c: for payload_check.c, when producers and readers are known. Nodes that
 * are done without have no reader afterwards. */
void et_xnn_payload_simplify(struct et_xnn_payload *payload);
/* Limits become part of what is limited: the same, when no dead nodes are left and none will go any more. */
void et_xnn_payload_take_limits(struct et_xnn_payload *payload);

/* --- dim_order.c ------------------------------------------------------------------------------------- */

/* Transposes that stand above a concatenation of arguments, rather than one below. */
enum et_status et_xnn_payload_spread_transposes(struct et_xnn_payload *payload, struct et_pool *pool,
	struct et_diag *diag);
/* If all that is done with argument @arg is to transpose it: how many dimensions it has, and in which order they should
 * lie for that to be needless. Else 0. */
uint32_t et_xnn_payload_order(const struct et_xnn_payload *payload, uint32_t arg, uint8_t *ret_order);
/* Now they do lie so. */
void et_xnn_payload_reorder(struct et_xnn_payload *payload, uint32_t arg);

#endif
