/* SPDX-License-Identifier: BSD-3-Clause */
/* Using XNNPACK once when the backend is opened, so that the first model loads as fast as the others.
 *
 * XNNPACK chooses the kernels of each operator when it first meets the operator, and code that never ran is not in
 * memory yet. That is a third of a load that packs nothing. So small graphs with the operators that programs are
 * mostly made of, in floats and in 8 bits, are made ready here and deleted. The heap that they took is also there
 * for the first load.
 *
 * Nothing depends on it: a failure here is ignored, and a program that meets it will report it. */
#include "delegates/xnnpack/warm_up.h"

#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/graph/kind.h"

#include <math.h>
#include <string.h>
#include <xnnpack.h>

enum { SIDE = 4, CHANNELS = 16, N_FILTER = CHANNELS * CHANNELS * 9 };

/* A graph that is a chain: each operator reads the value that the operator before it wrote. */
struct chain {
	xnn_subgraph_t graph;
	bool is_8_bit;
	uint32_t last;
	size_t dims[4];
	size_t n_dims;
	enum xnn_status status;
	const void *zeros;    /* filters and biases */
	const float *scales;  /* one for each channel */
	uint32_t n_externals; /* made so far */
};

static uint32_t value(struct chain *chain, size_t n_dims, const size_t *dims, uint32_t flags)
{
	uint32_t id = XNN_INVALID_VALUE_ID, external = flags ? chain->n_externals++ : XNN_INVALID_VALUE_ID;
	if (chain->status == xnn_status_success)
		chain->status = chain->is_8_bit ? xnn_define_quantized_tensor_value(chain->graph, xnn_datatype_qint8, 0,
							  0.5f, n_dims, dims, NULL, external, flags, &id)
						: xnn_define_tensor_value(chain->graph, xnn_datatype_fp32, n_dims, dims,
							  NULL, external, flags, &id);
	return id;
}

/* A filter with its output channels in dimension @channel_dim, or (one dimension) a bias. */
static uint32_t constant(struct chain *chain, size_t n_dims, const size_t *dims, size_t channel_dim)
{
	uint32_t id = XNN_INVALID_VALUE_ID;
	enum xnn_datatype type = n_dims == 1 ? xnn_datatype_qcint32 : xnn_datatype_qcint8;
	if (chain->status == xnn_status_success)
		chain->status = chain->is_8_bit ? xnn_define_channelwise_quantized_tensor_value(chain->graph, type,
							  chain->scales, n_dims, channel_dim, dims, chain->zeros,
							  XNN_INVALID_VALUE_ID, 0, &id)
						: xnn_define_tensor_value(chain->graph, xnn_datatype_fp32, n_dims, dims,
							  chain->zeros, XNN_INVALID_VALUE_ID, 0, &id);
	return id;
}

/* Define the value that the next operator writes. Its dimensions are @dims, or (NULL) those of the value before. */
static uint32_t next(struct chain *chain, size_t n_dims, const size_t *dims)
{
	if (dims) {
		memcpy(chain->dims, dims, n_dims * sizeof(*dims));
		chain->n_dims = n_dims;
	}
	return value(chain, chain->n_dims, chain->dims, 0);
}

static void add_convolution(struct chain *chain, size_t kernel, bool is_depthwise)
{
	size_t dims[] = { is_depthwise ? 1 : CHANNELS, kernel, kernel, CHANNELS };
	static const size_t n_channels[] = { CHANNELS };
	uint32_t filter = constant(chain, 4, dims, is_depthwise ? 3 : 0), bias = constant(chain, 1, n_channels, 0),
		 from = chain->last, pad = (uint32_t)kernel / 2, k = (uint32_t)kernel;
	chain->last = next(chain, 0, NULL);
	if (chain->status == xnn_status_success)
		chain->status = is_depthwise ? xnn_define_depthwise_convolution_2d(chain->graph, pad, pad, pad, pad, k,
						       k, 1, 1, 1, 1, 1, CHANNELS, -INFINITY, INFINITY, from, filter,
						       bias, chain->last, 0)
					     : xnn_define_convolution_2d(chain->graph, pad, pad, pad, pad, k, k, 1, 1,
						       1, 1, 1, CHANNELS, CHANNELS, -INFINITY, INFINITY, from, filter,
						       bias, chain->last, 0);
}

static void add_unary(struct chain *chain, enum xnn_unary_operator op)
{
	uint32_t from = chain->last;
	chain->last = next(chain, 0, NULL);
	if (chain->status == xnn_status_success)
		chain->status = xnn_define_unary(chain->graph, op, NULL, from, chain->last, 0);
}

static void add_binary(struct chain *chain, enum xnn_binary_operator op)
{
	struct xnn_binary_params params = { .output_min = -INFINITY, .output_max = INFINITY };
	uint32_t from = chain->last;
	chain->last = next(chain, 0, NULL);
	if (chain->status == xnn_status_success)
		chain->status = xnn_define_binary(chain->graph, op, &params, from, from, chain->last, 0);
}

/* Operators that move elements: transpose, reshape, slice, concatenate. */
static void add_moves(struct chain *chain)
{
	static const size_t order[] = { 0, 2, 1, 3 }, begin[4] = { 0 }, size[] = { 1, SIDE / 2, SIDE, CHANNELS },
			    whole[] = { 1, SIDE, SIDE, CHANNELS };
	uint32_t from = chain->last, transposed = next(chain, 0, NULL), shaped = next(chain, 0, NULL),
		 sliced = next(chain, 4, size), joined = next(chain, 4, whole);
	chain->last = joined;
	if (chain->status == xnn_status_success)
		chain->status = xnn_define_static_transpose(chain->graph, 4, order, from, transposed, 0);
	if (chain->status == xnn_status_success)
		chain->status = xnn_define_static_reshape(chain->graph, 4, whole, transposed, shaped, 0);
	if (chain->status == xnn_status_success)
		chain->status = xnn_define_static_slice(chain->graph, 4, begin, size, shaped, sliced, 0);
	if (chain->status == xnn_status_success)
		chain->status = xnn_define_concatenate2(chain->graph, 1, sliced, sliced, joined, 0);
}

static void add_fully_connected(struct chain *chain)
{
	static const size_t rows[] = { SIDE * SIDE, CHANNELS }, filter_dims[] = { CHANNELS, CHANNELS },
			    n_channels[] = { CHANNELS };
	uint32_t from = chain->last, shaped = next(chain, 2, rows), filter = constant(chain, 2, filter_dims, 0),
		 bias = constant(chain, 1, n_channels, 0);
	chain->last = next(chain, 2, rows);
	if (chain->status == xnn_status_success)
		chain->status = xnn_define_static_reshape(chain->graph, 2, rows, from, shaped, 0);
	if (chain->status == xnn_status_success)
		chain->status = xnn_define_fully_connected(chain->graph, -INFINITY, INFINITY, shaped, filter, bias,
			chain->last, 0);
}

static void define(struct chain *chain)
{
	static const size_t dims[] = { 1, SIDE, SIDE, CHANNELS };
	static const enum xnn_unary_operator float_ops[] = {
		xnn_unary_abs,
		xnn_unary_exp,
		xnn_unary_gelu,
		xnn_unary_hardswish,
		xnn_unary_reciprocal_square_root,
		xnn_unary_square,
		xnn_unary_square_root,
	};
	memcpy(chain->dims, dims, sizeof(dims));
	chain->n_dims = 4;
	chain->last = value(chain, 4, dims, XNN_VALUE_FLAG_EXTERNAL_INPUT);
	add_convolution(chain, 3, false);
	add_convolution(chain, 3, true);
	add_convolution(chain, 1, false);
	add_binary(chain, xnn_binary_add);
	add_binary(chain, xnn_binary_multiply);
	add_unary(chain, xnn_unary_sigmoid);
	add_unary(chain, xnn_unary_tanh);
	for (size_t i = 0; !chain->is_8_bit && i < sizeof(float_ops) / sizeof(*float_ops); i++)
		add_unary(chain, float_ops[i]);
	add_moves(chain);
	add_fully_connected(chain);
	uint32_t from = chain->last;
	chain->last = value(chain, chain->n_dims, chain->dims, XNN_VALUE_FLAG_EXTERNAL_OUTPUT);
	if (chain->status == xnn_status_success)
		chain->status = xnn_define_unary(chain->graph, xnn_unary_clamp,
			&(union xnn_unary_params){ .clamp = { -1, 1 } }, from, chain->last, 0);
}

/* A chain and its runtime. Both chains stay until warm_end, so that together they take as much heap as a model. */
struct ready {
	struct chain chain;
	xnn_runtime_t runtime;
};

static bool warm_begin(struct ready *ready, bool is_8_bit, const void *zeros, const float *scales)
{
	struct chain *chain = &ready->chain;
	*ready = (struct ready){ .chain = { .is_8_bit = is_8_bit, .zeros = zeros, .scales = scales } };
	if (xnn_create_subgraph(2, 0, &chain->graph) != xnn_status_success)
		return false;
	define(chain);
	if (chain->status == xnn_status_success)
		chain->status = xnn_create_runtime_v2(chain->graph, NULL, 0, &ready->runtime);
	if (chain->status == xnn_status_success)
		chain->status = xnn_reshape_runtime(ready->runtime);
	return chain->status == xnn_status_success;
}

static void warm_end(struct ready *ready)
{
	if (ready->runtime)
		xnn_delete_runtime(ready->runtime);
	if (ready->chain.graph)
		xnn_delete_subgraph(ready->chain.graph);
}

bool et_xnn_warm(void)
{
	static const float zeros[N_FILTER];
	float scales[CHANNELS];
	struct ready ready[2];
	for (uint32_t i = 0; i < CHANNELS; i++)
		scales[i] = 0.5f;
	bool is_warm = true;
	et_xnn_computes_fp16(); /* asks XNNPACK once */
	for (uint32_t i = 0; i < 2; i++)
		is_warm = warm_begin(&ready[i], i == 1, zeros, scales) && is_warm;
	for (uint32_t i = 2; i-- > 0;)
		warm_end(&ready[i]);
	return et_xnn_settle(xnn_status_success) == xnn_status_success && is_warm;
}
