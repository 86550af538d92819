/* SPDX-License-Identifier: BSD-3-Clause */
/* What an XnnpackBackend payload says, decoded.
 *
 * A payload is a header ("XH00"), a FlatBuffer that describes a graph of values and nodes, and constants, which lie
 * inline in the FlatBuffer, behind it, or in the Program's named data. et_xnn_payload_read turns that into the
 * structs below and checks everything that can be checked without shapes: afterwards the FlatBuffer is not read
 * again.
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

/* The schema's numbers, which are not those of Debian's XNNPACK (10, 11 and 12 differ). */
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
/* "qcint8"; "?" for an unknown number. */
const char *et_xnn_type_name(uint32_t type);
/* Bits of an element; 0 if the datatype is not supported. */
uint32_t et_xnn_type_bits(uint32_t type);

/* The schema's numbers of the union XNNQuantParams. */
enum et_xnn_quant {
	ET_XNN_QUANT_NONE,
	ET_XNN_QUANT_CHANNEL,
	ET_XNN_QUANT_TENSOR,
	ET_XNN_QUANT_ROW, /* each row gets its scale at run time */
	ET_XNN_QUANT_BLOCK,
};
/* The quantization that values of the datatype must have (enum et_xnn_quant). */
uint8_t et_xnn_type_quant(uint32_t type);

enum {
	ET_XNN_IS_INPUT = 1, /* bits of the schema's flags */
	ET_XNN_IS_OUTPUT = 2,
};

struct et_xnn_shape {
	uint32_t n_dims;
	size_t dims[ET_XNN_MAX_DIMS];
};

struct et_xnn_value {
	uint32_t id;      /* in the file; the structs below name values by their index instead */
	uint8_t type;     /* enum et_xnn_type */
	uint8_t quant;    /* enum et_xnn_quant */
	uint8_t external; /* ET_XNN_IS_INPUT, ET_XNN_IS_OUTPUT or 0 */
	bool in_payload;  /* data lies in the payload, not in named data */
	bool is_resident; /* data must stay readable while there are instances: not every node that reads it packs it */
	/* The datatype (enum et_xnn_type) that the file's constant has, if data were widened to fp32
	 * (fp16_weights.c); 0: not. */
	uint8_t floats_of;
	bool is_index;             /* written as indexes: 32-bit integers, whatever the type says */
	uint32_t external_id;      /* the argument's number */
	struct et_xnn_shape shape; /* as exported: the upper bound if dynamic */
	const uint8_t *data;       /* a constant's bytes, or NULL */
	const uint8_t *origin;     /* the constant's place in the file, wherever data was copied to */
	size_t n_bytes;            /* of the constant */

	float scale; /* TENSOR */
	int32_t zero_point;
	const float *scales;          /* CHANNEL: n_scales, with readable bytes behind */
	const uint16_t *block_scales; /* BLOCK: bf16, with readable bytes behind */
	uint32_t n_scales;
	uint32_t channel_dim;
	uint32_t block_size;
	uint32_t n_row_dims; /* ROW: the trailing dimensions that share a scale */

	/* Views of arguments (make_views in payload_check.c). A reshape of an argument is not computed: the argument
	 * and the reshaped value share their memory, and XNNPACK's graph has only the reshaped one. The argument's
	 * seen_as is the reshaped value; that value's stands_for is the argument. NONE: it has no such view. */
	uint32_t seen_as, stands_for;

	uint32_t producer; /* index of the node that writes it; NONE also if no node needs it any more */
	uint32_t n_users;
};

/* The numbers of a node, by their meaning; a node uses those that its kind has. */
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
	/* other names, for kinds that are no convolutions */
	ET_XNN_AXIS = ET_XNN_GROUP_IN,
	ET_XNN_NEW_H = ET_XNN_KERNEL_H,
	ET_XNN_NEW_W = ET_XNN_KERNEL_W,
};

struct et_xnn_kind;

struct et_xnn_node {
	const struct et_xnn_kind *kind;
	uint32_t index; /* in the file */
	uint32_t flags;
	bool is_view;       /* input and output are the same memory: there is nothing to do */
	bool is_overridden; /* an override computes it, not XNNPACK (partition.c) */
	bool is_rounded;    /* conv_linear.c rounds the results to bf16 values (lower_half.c) */
	bool is_gone;       /* the caller's argument is in the right order already: skip the node (dim_order.c) */
	uint32_t inputs[ET_XNN_MAX_INPUTS]; /* values; NONE for a bias that is absent */
	uint32_t outputs[ET_XNN_MAX_OUTPUTS];
	uint32_t numbers[ET_XNN_N_NUMBERS];
	float number; /* the slope, alpha or padding value */
	float min, max;
	uint32_t n_list[2];
	uint32_t list[2][ET_XNN_MAX_DIMS]; /* permutation; new shape; offsets and sizes; paddings */
};

/* Immutable once it is compiled; everything lives in the pool. */
struct et_xnn_payload {
	struct et_xnn_value *values;
	uint32_t n_values, max_values; /* max: there is room for so many */
	struct et_xnn_node *nodes;
	uint32_t n_nodes, max_nodes;
	uint32_t n_externs; /* value ids that XNNPACK reserves */
	uint32_t n_args;    /* arguments of each call */
	uint32_t *inputs;   /* indexes of values, by rising argument */
	uint32_t n_inputs;
	uint32_t *outputs;
	uint32_t n_outputs;
	uint32_t first_output; /* the lowest argument that is written */
	bool lowers_fp16;      /* fp16 is computed in fp32 (lower_half.c): constants of fp16 become fp32 */
	/* A bit for each override (overrides/override.c) that is switched off; nodes that need it keep it. */
	uint32_t overrides_off;
	/* For a graph that was copied from a part of a payload (partition.h): the index that each of its values has in
	 * the whole payload. NULL: this is a whole payload. */
	const uint32_t *whole;
};

/* Decode and check a payload. *@ret_payload lives in @pool and points into @source's bytes. Answers:
 * ET_E_DELEGATE_INVALID_COMPATIBILITY (no such payload, or corrupt), ET_E_NOT_SUPPORTED (names the node, datatype or
 * quantization), ET_E_NOT_FOUND (named data), ET_E_OUT_OF_RESOURCES (scales), ET_E_MEMORY_ALLOCATION_FAILED. In
 * payload_read.c. */
enum et_status et_xnn_payload_read(struct et_xnn_payload *ret_payload, const struct inferd_delegate_payload *source,
	struct et_pool *pool, struct et_diag *diag);

/* Append a copy of *@value; the array of values may move. False if there is no memory. */
bool et_xnn_payload_add_value(struct et_xnn_payload *payload, const struct et_xnn_value *value, struct et_pool *pool);
/* Append a copy of *@node; the array of nodes may move. False if there is no memory. */
bool et_xnn_payload_add_node(struct et_xnn_payload *payload, const struct et_xnn_node *node, struct et_pool *pool);

/* The second half of et_xnn_payload_read: check how the nodes fit together, and simplify the graph. In
 * payload_check.c. */
enum et_status et_xnn_payload_check(struct et_xnn_payload *payload, uint32_t n_args, struct et_pool *pool,
	struct et_diag *diag);

/* Turn bf16 into fp32, when the datatypes of each node go together, and fp16 as well where the processor does not
 * compute it. In lower_half.c. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_payload_lower_half(struct et_xnn_payload *payload, struct et_pool *pool, struct et_diag *diag);

/* Rewrite the graph so that it computes the same results with less work, when producers and readers are known. Nodes
 * that are no longer needed have no reader afterwards. In simplify.c. */
void et_xnn_payload_simplify(struct et_xnn_payload *payload);
/* Merge each clamp into the node above it, when no dead nodes are left and no other rule will remove nodes. In
 * simplify.c. */
void et_xnn_payload_take_limits(struct et_xnn_payload *payload);

/* --- dim_order.c ------------------------------------------------------------------------------------- */

/* If a concatenation of arguments is transposed, transpose each argument instead. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_payload_spread_transposes(struct et_xnn_payload *payload, struct et_pool *pool,
	struct et_diag *diag);
/* If the payload only transposes argument @arg: the number of its dimensions, and in @ret_order the dimension order in
 * which the argument would have to lie for the transpose to be needless. Otherwise 0. */
uint32_t et_xnn_payload_order(const struct et_xnn_payload *payload, uint32_t arg, uint8_t *ret_order);
/* Whether et_xnn_payload_reorder may yet change the payload. */
bool et_xnn_payload_may_be_reordered(const struct et_xnn_payload *payload);
/* Argument @arg lies in that order from now on: remove its transpose. */
void et_xnn_payload_reorder(struct et_xnn_payload *payload, uint32_t arg);

#endif
