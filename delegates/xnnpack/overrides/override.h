/* SPDX-License-Identifier: BSD-3-Clause */
/* An override: a node of a payload that inferd computes with its own code instead of XNNPACK's operator.
 *
 * Each override is a row of the table in override.c. docs/overrides.md has the same table for people, with the
 * program that gains from each row and how much. */
#ifndef DELEGATES_XNNPACK_OVERRIDES_OVERRIDE_H
#define DELEGATES_XNNPACK_OVERRIDES_OVERRIDE_H

#include "delegates/xnnpack/graph/kind.h"
#include "delegates/xnnpack/threads.h"

/* One node's turn in a run. */
struct et_xnn_override_run {
	const struct et_xnn_payload *payload;
	const struct et_xnn_node *node;
	const struct et_xnn_shape *shapes; /* of all values */
	void *const *memory;               /* of all values that are not constant */
	const void *packed;                /* what the row's pack has written */
	struct inferd_delegate_worker_threads *threads;
};

struct et_xnn_override {
	/* Stable: the option overrides, profiles ("override NAME") and docs/overrides.md use it. */
	const char *name;
	/* Why the row exists, one sentence. Correctness: what XNNPACK gets wrong. Speed: which program, how much,
	 * which processor. */
	const char *reason;
	/* Whether inferd computes @node. A row that exists for speed alone takes a node only if the node is large
	 * enough to be worth a cut of the payload, and only if all its values that are not constant are fp32 or fp16
	 * (8 bits: see is_of_bytes), because no other type may be a boundary tensor. Rows quantized at run time are
	 * the exception (gemm_qs8.h has their layout): partition.c keeps such a node here only if the writer and all
	 * readers of these rows are overrides. */
	bool (*takes)(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
	/* Asked for nodes that the row takes: whether XNNPACK's operator would give other numbers than the original's
	 * or may not be given the node. Then the option overrides has no effect on it. NULL: never, the row exists
	 * for speed alone. */
	bool (*is_needed)(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
	/* XNNPACK cannot do any node that the row takes, or rounds it wrongly: all are needed, of any type and size. */
	bool is_required;
	/* The row reads and writes 8 bits, so that 8-bit values may be boundary tensors. */
	bool is_of_bytes;
	/* The index of the node above @node that the row computes along with @node. @node is the only reader of that
	 * node's output, that node reads an argument, and no other part computes it. ET_XNN_NONE: no such node. NULL:
	 * never. */
	uint32_t (*along)(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
	/* How many bytes the packed filter and bias of @node take (SIZE_MAX: too many), and the packing. What is
	 * packed may depend on a signature (packed_file.h) alone. For a node without a filter: what is derived from
	 * the node, for the payload. NULL: nothing is packed, the filter is read where it lies. */
	size_t (*n_packed)(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
	void (*pack)(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *to);
	/* Shapes were checked (shape.c) and none is empty. Cannot fail; allocates nothing. */
	void (*run)(const struct et_xnn_override_run *run);
};

/* The row that computes @node; NULL: XNNPACK does. */
const struct et_xnn_override *et_xnn_override_find(const struct et_xnn_payload *payload,
	const struct et_xnn_node *node);
/* The @i-th row; NULL behind the last. */
const struct et_xnn_override *et_xnn_override_at(size_t i);
/* Parse the option overrides: "all", "none", or names of rows to switch off, each with a '-' in front, separated by
 * commas. *@ret_off is the set of rows that are off, for et_xnn_payload::overrides_off. False: the text is something
 * else; *@ret_off is left as it was. */
bool et_xnn_overrides_parse(const char *text, uint32_t *ret_off);
/* For tests: payloads compiled from now on use a row for speed only if the node has at least @n_products products.
 * UINT64_MAX: XNNPACK computes all nodes that it can, also those whose NaNs it loses. */
void et_xnn_override_set_least_work(uint64_t n_products);

/* --- the rows --- */

extern const struct et_xnn_override et_xnn_override_argmax_pool, et_xnn_override_average_pool,
	et_xnn_override_convert_bf16, et_xnn_override_binary, et_xnn_override_cast, et_xnn_override_linear_dynamic,
	et_xnn_override_convert_qd8, et_xnn_override_conv, et_xnn_override_conv_fp16, et_xnn_override_deconv,
	et_xnn_override_deconv_qs8, et_xnn_override_deconv_im2col_fp16, et_xnn_override_depthwise,
	et_xnn_override_depthwise_fp16, et_xnn_override_depthwise_qs8, et_xnn_override_linear_qd8,
	et_xnn_override_conv_grouped, et_xnn_override_linear, et_xnn_override_linear_bf16, et_xnn_override_linear_fp16,
	et_xnn_override_matmul_fp16, et_xnn_override_mean_q8, et_xnn_override_copy_int32, et_xnn_override_deconv_im2col,
	et_xnn_override_conv_im2col_fp16, et_xnn_override_max_pool, et_xnn_override_unary_q8,
	et_xnn_override_transpose_q8;

/* --- for the rows: nodes and values --- */

/* Plain floats, not quantized. */
static inline bool et_xnn_override_is_floats(const struct et_xnn_value *value)
{
	return value->type == ET_XNN_FP32 && value->quant == ET_XNN_QUANT_NONE;
}
/* Whether @node has a filter, its input, filter, output and bias (if any) are fp32, and filter and bias alone are
 * constants. */
bool et_xnn_override_is_all_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
/* The same with fp16 input and output; filter and bias are fp32 or fp16. */
bool et_xnn_override_is_all_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
/* Whether @node, a convolution, has a signed 8-bit input and output of one scale each, and a constant filter of the
 * same type with zero point 0, with one scale or with a scale for each index of dimension @channel_dim; bias, if any,
 * is a constant, too. */
bool et_xnn_override_is_qs8(const struct et_xnn_payload *payload, const struct et_xnn_node *node, uint32_t channel_dim);
/* Whether so many products are worth a cut of the payload. */
bool et_xnn_override_is_worth(uint64_t n_products);
/* Whether a row takes nodes that need no size to be worth it. True but for tests. */
bool et_xnn_override_is_on(void);
/* Whether windows of @node, a convolution, may begin or end outside the image. */
bool et_xnn_override_has_border(const struct et_xnn_node *node);
/* Whether @node is a convolution that XNNPACK computes as a depthwise one. */
bool et_xnn_override_is_like_depthwise(const struct et_xnn_node *node);

/* @shape was checked (shape.c). */
static inline size_t et_xnn_n_elements(const struct et_xnn_shape *shape)
{
	size_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++)
		n *= shape->dims[i];
	return n;
}
/* How many rows of the last dimension a checked shape of at least one dimension has. */
static inline size_t et_xnn_n_rows(const struct et_xnn_shape *shape)
{
	size_t n = 1;
	for (uint32_t i = 0; i + 1 < shape->n_dims; i++)
		n *= shape->dims[i];
	return n;
}
/* Where @value, an input of the node, is read; it may be a constant. */
static inline const void *et_xnn_override_read(const struct et_xnn_override_run *run, uint32_t value)
{
	const void *constant = run->payload->values[value].data;
	return constant ? constant : run->memory[value];
}

/* --- what XNNPACK must not be given (unsupported.c) --- */

/* @node is a max pooling that XNNPACK does not take. In max_pool.c. */
bool et_xnn_override_needs_pool(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
/* @node is an average pooling that XNNPACK does not take. In average_pool.c. */
bool et_xnn_override_needs_average(const struct et_xnn_node *node);
/* @node divides integers. In binary.c. */
bool et_xnn_override_needs_quotient(const struct et_xnn_payload *payload, const struct et_xnn_node *node);

#endif
