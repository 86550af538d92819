/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes that are done here instead of by XNNPACK: a row each in override.c. */
#ifndef DELEGATES_XNNPACK_OVERRIDES_OVERRIDE_H
#define DELEGATES_XNNPACK_OVERRIDES_OVERRIDE_H

#include "delegates/xnnpack/graph/kind.h"
#include "delegates/xnnpack/threads.h"

/* One node's turn in a run. */
struct et_xnn_override_run {
	const struct et_xnn_payload *payload;
	const struct et_xnn_node *node;
	const struct et_xnn_shape *shapes; /* of all values */
	void *const *memory;               /* of all values that are no constants */
	const void *packed;                /* by the row's pack */
	struct inferd_delegate_worker_threads *threads;
};

struct et_xnn_override {
	const char *name; /* as profiles have it */
	/* Whether it is done here: where that pays and nothing else is to be had from XNNPACK. Where it pays alone, never for a node
	 * with values that are not constants other than floats, halves or, of a row that says so, 8 bits, as these lie where parts meet; but for
	 * rows quantized at run time, which lie as gemm_qs8.h says: who writes or reads such is asked in vain where not all others do it here, too. */
	bool (*takes)(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
	bool is_of_bytes; /* what it reads and writes are 8 bits, which then may lie where parts meet */
	bool is_required; /* XNNPACK cannot do what it takes, or not rightly, so that takes depends on no size */
	/* The place of the node above that is done along with @node, which alone reads what comes out; it reads an argument, and nobody
	 * else is to do it. ET_XNN_NONE: no such; NULL: never. */
	uint32_t (*along)(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
	/* What is packed of a node's filter and bias: how many bytes that takes, or SIZE_MAX; and to do it. NULL: nothing is, the
	 * filter is read where it lies. It may follow from what a signature (packed_file.h) says, nothing else. Of a node without a filter:
	 * what is made of the node alone, for the payload. */
	size_t (*n_packed)(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
	void (*pack)(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *to);
	/* Shapes were checked (shape.c) and none is empty. Cannot fail; allocates nothing. */
	void (*run)(const struct et_xnn_override_run *run);
};

/* For the rows: floats as they are. */
static inline bool et_xnn_override_is_floats(const struct et_xnn_value *value)
{
	return value->type == ET_XNN_FP32 && value->quant == ET_XNN_QUANT_NONE;
}
/* For the rows: whether @node has a filter, and its input, filter, output and bias, if there is one, are floats, of which filter and
 * bias alone are constants. */
bool et_xnn_override_is_all_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
/* The same, where input and output are halves; the others are floats or halves. */
bool et_xnn_override_is_all_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
/* Who does @node; NULL: XNNPACK. */
const struct et_xnn_override *et_xnn_override_find(const struct et_xnn_payload *payload,
	const struct et_xnn_node *node);
/* For the rows: whether that many products are worth a cut. */
bool et_xnn_override_is_worth(uint64_t n_products);
extern const struct et_xnn_override et_xnn_override_argmax, et_xnn_override_average, et_xnn_override_bf16_convert,
	et_xnn_override_binary, et_xnn_override_cast, et_xnn_override_computed, et_xnn_override_convert,
	et_xnn_override_convolution, et_xnn_override_convolution_fp16, et_xnn_override_deconvolution,
	et_xnn_override_deconvolution_qs8, et_xnn_override_deconvolution_fp16, et_xnn_override_linear_qd8,
	et_xnn_override_grouped, et_xnn_override_linear, et_xnn_override_linear_bf16, et_xnn_override_linear_fp16,
	et_xnn_override_matmul, et_xnn_override_mean, et_xnn_override_copy_int32, et_xnn_override_im2col,
	et_xnn_override_im2col_fp16, et_xnn_override_pool, et_xnn_override_softmax, et_xnn_override_table,
	et_xnn_override_transpose, et_xnn_override_transpose8;
/* For the rows: of a shape that was checked (shape.c). */
static inline size_t et_xnn_n_elements(const struct et_xnn_shape *shape)
{
	size_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++)
		n *= shape->dims[i];
	return n;
}
/* For the rows: how many rows of its last dimension, which it has, such a shape is. */
static inline size_t et_xnn_n_rows(const struct et_xnn_shape *shape)
{
	size_t n = 1;
	for (uint32_t i = 0; i + 1 < shape->n_dims; i++)
		n *= shape->dims[i];
	return n;
}
/* For the rows: where @value, an input of the node, is read, which may be a constant. */
static inline const void *et_xnn_override_read(const struct et_xnn_override_run *run, uint32_t value)
{
	const void *constant = run->payload->values[value].data;
	return constant ? constant : run->memory[value];
}
/* Whether windows of @node, a convolution, may begin or end outside of the picture. */
bool et_xnn_override_has_border(const struct et_xnn_node *node);
/* Whether @node is a convolution that XNNPACK does as a depthwise one. */
bool et_xnn_override_is_like_depthwise(const struct et_xnn_node *node);
/* A pooling's windows over pictures of NHWC, and where it reads and writes; [0] is down, [1] across. */
struct et_xnn_override_implicit_im2col {
	size_t height, width, channels, out_height, out_width;
	size_t kernel[2], stride[2], pad[2];
	const void *in;
	void *out;
	float min, max;
};
struct et_xnn_override_implicit_im2col et_xnn_override_implicit_im2col(const struct et_xnn_override_run *run);
/* Call @rows(@arg, begin, end) for all rows of all pictures' windows, shared out among the lane's threads. */
void et_xnn_override_run_implicit_im2col(const struct et_xnn_override_run *run,
	void (*rows)(void *arg, size_t begin, size_t end), void *arg);
/* Whether a pooling may have a window that lies wholly in the padding, which XNNPACK does not take. */
bool et_xnn_override_is_padded_by_windows(const struct et_xnn_node *node);
/* Whether XNNPACK must not be given @node, a max pooling. In max_pool.c. */
bool et_xnn_override_needs_pool(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
/* Whether it must not be given @node, an average pooling. In average_pool.c. */
bool et_xnn_override_needs_average(const struct et_xnn_node *node);
/* Whether it must not be given @node, a division of integers. In binary.c. */
bool et_xnn_override_needs_quotient(const struct et_xnn_payload *payload, const struct et_xnn_node *node);
/* For tests: how many products a node of a payload that is compiled from now on must have at least; UINT64_MAX: XNNPACK does
 * all of them. */
void et_xnn_override_set_least_work(uint64_t n_products);

#endif
