/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that are done here instead of by XNNPACK.
 *
 * XNNPACK's graphs take no operators but its own, so each of these ends a runtime and begins another (partition.h). That costs
 * little, but not nothing, so a node is taken only where it is large enough.
 *
 * Depthwise convolutions are here. They read their filters where those lie: nothing is packed, neither for a Program nor
 * for a context, and there is no table of pointers for each context either. Other convolutions and fully connected layers are in
 * conv_linear.c, transposed ones in deconvolution.c and, of 8 bits, deconvolution_qs8.c, both with groups and gaps in
 * conv_im2col.c, layers of rows quantized at run time in linear_qd8.c, of computed weights and products of halves in
 * dynamic_matmul.c, softmax of halves in softmax_rows.c. What XNNPACK does not do at all is in argmax_pool.c, average_pool.c,
 * max_pool.c and copy_int32.c, what it rounds otherwise than the original's in mean.c, unary_table.c, binary.c and cast.c,
 * what it knows no datatype for in bf16_convert.c. */
#include "delegates/xnnpack/overrides/override.h"

#include "delegates/xnnpack/ukernels/depthwise.h"
#include "delegates/xnnpack/ukernels/implicit_im2col.h"
#include "runtime/base/checked.h"

#include <stdatomic.h>

enum {
	LEAST_CHANNELS = 16,
	LEAST_WORK = 1 << 16, /* products: some microseconds */
	GRAIN = 1 << 17,      /* products, or elements looked at, that are worth another thread's while */
	SMALL_KERNEL = 9, /* taps: of more, XNNPACK has kernels for 25 only; above that it does one channel at a time */
	SMALL_KERNEL_OF_FP16 = 25, /* up to here XNNPACK has an order of its own */
};

static _Atomic(uint64_t) least_work = LEAST_WORK;

/* @type: of input and output; @types: a set, of filter and bias. */
static bool is_all(const struct et_xnn_payload *payload, const struct et_xnn_node *node, enum et_xnn_type type,
	uint32_t types)
{
	if (!node->kind->has_filter)
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *out = &payload->values[node->outputs[0]];
	if (in->type != type || in->quant != ET_XNN_QUANT_NONE || in->data || out->type != type ||
		out->quant != ET_XNN_QUANT_NONE)
		return false;
	for (uint32_t i = 1; i < 3; i++) {
		if (i == 2 && node->inputs[i] == ET_XNN_NONE)
			continue;
		const struct et_xnn_value *value = &payload->values[node->inputs[i]];
		if (!(types & 1U << value->type) || value->quant != ET_XNN_QUANT_NONE || !value->data)
			return false;
	}
	return true;
}

bool et_xnn_override_is_all_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_all(payload, node, ET_XNN_FP32, 1U << ET_XNN_FP32);
}

bool et_xnn_override_is_all_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_all(payload, node, ET_XNN_FP16, 1U << ET_XNN_FP32 | 1U << ET_XNN_FP16);
}

bool et_xnn_override_has_border(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return n[ET_XNN_PAD_TOP] || n[ET_XNN_PAD_LEFT] || n[ET_XNN_PAD_BOTTOM] || n[ET_XNN_PAD_RIGHT];
}

bool et_xnn_override_is_like_depthwise(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return n[ET_XNN_GROUP_IN] == 1 && n[ET_XNN_GROUP_OUT] == 1 &&
	       (uint64_t)n[ET_XNN_KERNEL_H] * n[ET_XNN_KERNEL_W] <= SMALL_KERNEL_OF_FP16;
}

bool et_xnn_override_is_worth(uint64_t n_products)
{
	return n_products >= atomic_load_explicit(&least_work, memory_order_relaxed);
}

/* Products, as far as they can be counted. */
static uint64_t work(const struct et_xnn_node *node, const struct et_xnn_value *out)
{
	size_t n = (size_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W];
	for (uint32_t i = 0; i < out->shape.n_dims; i++)
		if (!et_mul(n, out->shape.dims[i], &n))
			return UINT64_MAX - 1;
	return n;
}

/* What the node itself says. */
static void describe(struct et_depthwise *ret_job, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	*ret_job = (struct et_depthwise){
		.kernel_height = n[ET_XNN_KERNEL_H],
		.kernel_width = n[ET_XNN_KERNEL_W],
		.stride_height = n[ET_XNN_STRIDE_H],
		.stride_width = n[ET_XNN_STRIDE_W],
		.dilation_height = n[ET_XNN_DILATION_H],
		.dilation_width = n[ET_XNN_DILATION_W],
		.top = (ptrdiff_t)n[ET_XNN_PAD_TOP],
		.left = (ptrdiff_t)n[ET_XNN_PAD_LEFT],
		.min = node->min,
		.max = node->max,
	};
}

/* A picture that is one pixel wide lies as one that is one pixel high, whose rows are long enough for tiles. */
static void lay_down(struct et_depthwise *job)
{
	if (job->width != 1 || job->out_width != 1 || job->kernel_width != 1 || job->left != 0)
		return;
	job->width = job->height;
	job->out_width = job->out_height;
	job->kernel_width = job->kernel_height;
	job->stride_width = job->stride_height;
	job->dilation_width = job->dilation_height;
	job->left = job->top;
	job->height = job->out_height = job->kernel_height = job->stride_height = job->dilation_height = 1;
	job->top = 0;
}

static const struct et_depthwise_build *build_of(enum et_xnn_type type)
{
	return type == ET_XNN_FP16 ? et_depthwise_fp16() : et_depthwise();
}

/* Whether it scales channels and adds to them, for which XNNPACK has kernels that lose NaNs. */
static bool is_scaling(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return et_xnn_override_is_like_depthwise(node) && n[ET_XNN_KERNEL_H] == 1 && n[ET_XNN_KERNEL_W] == 1 &&
	       n[ET_XNN_STRIDE_H] == 1 && n[ET_XNN_STRIDE_W] == 1 && !et_xnn_override_has_border(node) &&
	       node->kind->infer != et_xnn_infer_deconvolution;
}

static bool takes_depthwise(const struct et_xnn_payload *payload, const struct et_xnn_node *node, enum et_xnn_type type)
{
	const uint32_t *n = node->numbers;
	if (!is_all(payload, node, type, 1U << ET_XNN_FP32))
		return false;
	if (type == ET_XNN_FP32 && is_scaling(node) && node->flags == 0)
		return et_xnn_override_is_worth(UINT64_MAX - 1);
	if (node->kind->infer != et_xnn_infer_depthwise || !build_of(type) || n[ET_XNN_GROUP_OUT] != 1 ||
		node->flags != 0)
		return false;
	struct et_depthwise job;
	describe(&job, node);
	size_t n_taps = job.kernel_height * job.kernel_width;
	if (type == ET_XNN_FP16 && n_taps > SMALL_KERNEL_OF_FP16) /* of these XNNPACK loses NaNs that others keep */
		return et_xnn_override_is_worth(UINT64_MAX - 1);
	return (et_depthwise_is_usual(&job) || (type == ET_XNN_FP32 && n_taps > SMALL_KERNEL)) &&
	       payload->values[node->inputs[1]].shape.dims[3] >= LEAST_CHANNELS &&
	       et_xnn_override_is_worth(work(node, &payload->values[node->outputs[0]]));
}

struct depthwise {
	const struct et_depthwise_build *build;
	struct et_depthwise job;
};

static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct depthwise *depthwise = arg;
	depthwise->build->run(&depthwise->job, begin, end);
}

/* Pixels @begin to @end of a line. */
static void run_pixels(void *arg, size_t begin, size_t end)
{
	const struct depthwise *depthwise = arg;
	struct et_depthwise job = depthwise->job;
	job.in = (const float *)job.in + begin * job.channels;
	job.out = (float *)job.out + begin * job.channels;
	job.width = job.out_width = end - begin;
	depthwise->build->run(&job, 0, 1);
}

enum { FEW = 16 /* channels: of no more several pixels are done as one */ };

/* Of a picture that is a line of pixels the same @n together are one; what is left of them is done here. @copies: of filter and bias. */
static void join_pixels(struct depthwise *depthwise, float copies[2][FEW * FEW])
{
	struct et_depthwise *job = &depthwise->job, rest = *job;
	size_t n = job->width / FEW, n_channels = job->channels;
	rest.width = rest.out_width = job->width % FEW;
	rest.in = (const float *)job->in + n * FEW * n_channels;
	rest.out = (float *)job->out + n * FEW * n_channels;
	if (rest.width)
		depthwise->build->run(&rest, 0, 1);
	for (size_t i = 0; i < FEW * n_channels; i++) {
		copies[0][i] = job->filter[i % n_channels];
		copies[1][i] = job->bias ? job->bias[i % n_channels] : 0;
	}
	job->filter = copies[0];
	job->bias = copies[1];
	job->channels *= FEW;
	job->width = job->out_width = n;
}

/* Pictures of which each pixel is scaled alone, as one line. */
static void run_scaling(struct depthwise *depthwise, size_t n_pixels, struct inferd_delegate_worker_threads *threads)
{
	struct et_depthwise *job = &depthwise->job;
	float copies[2][FEW * FEW];
	job->height = job->out_height = 1;
	job->width = job->out_width = n_pixels;
	if (job->channels <= FEW)
		join_pixels(depthwise, copies);
	et_xnn_threads_parallel_for(threads, run_pixels, depthwise, job->width, 1 + GRAIN / 4 / job->channels);
}

static void run_depthwise(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	bool are_fp16 = values[node->inputs[0]].type == ET_XNN_FP16;
	struct depthwise depthwise = { .build = are_fp16 ? et_depthwise_fp16() : et_depthwise_any() };
	struct et_depthwise *job = &depthwise.job;
	describe(job, node);
	job->channels = in[3];
	job->height = in[1];
	job->width = in[2];
	job->out_height = out[1];
	job->out_width = out[2];
	job->filter = (const float *)(const void *)values[node->inputs[1]].data;
	job->bias = node->inputs[2] == ET_XNN_NONE ? NULL : (const float *)(const void *)values[node->inputs[2]].data;
	job->in = run->memory[node->inputs[0]];
	job->out = run->memory[node->outputs[0]];
	if (!are_fp16 && is_scaling(node)) {
		run_scaling(&depthwise, in[0] * in[1] * in[2], run->threads);
		return;
	}
	job->counts_zeros = et_xnn_override_has_border(node) &&
			    et_xnn_implicit_im2col_count_zeros(job->filter,
				    job->kernel_height * job->kernel_width * job->channels, are_fp16);
	lay_down(job);
	size_t of_row = job->out_width * in[3] * job->kernel_height * job->kernel_width;
	et_xnn_threads_parallel_for(run->threads, run_rows, &depthwise, out[0] * job->out_height, 1 + GRAIN / of_row);
}

static bool takes_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return takes_depthwise(payload, node, ET_XNN_FP32);
}

static bool takes_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return takes_depthwise(payload, node, ET_XNN_FP16);
}

static const struct et_xnn_override override_depthwise = {
	.name = "Depthwise Convolution (NHWC, F32), by rows",
	.takes = takes_floats,
	.run = run_depthwise,
};

static const struct et_xnn_override override_depthwise_fp16 = {
	.name = "Depthwise Convolution (NHWC, F16), by rows",
	.takes = takes_fp16,
	.run = run_depthwise,
};

static const struct et_xnn_override *const all[] = { &override_depthwise, &override_depthwise_fp16,
	&et_xnn_override_convolution, &et_xnn_override_convolution_fp16, &et_xnn_override_linear,
	&et_xnn_override_linear_fp16, &et_xnn_override_computed, &et_xnn_override_matmul,
	&et_xnn_override_deconvolution, &et_xnn_override_grouped, &et_xnn_override_im2col, &et_xnn_override_im2col_fp16,
	&et_xnn_override_deconvolution_fp16, &et_xnn_override_transpose, &et_xnn_override_transpose8,
	&et_xnn_override_linear_qd8, &et_xnn_override_deconvolution_qs8, &et_xnn_override_argmax,
	&et_xnn_override_average, &et_xnn_override_convert, &et_xnn_override_mean, &et_xnn_override_copy_int32,
	&et_xnn_override_pool, &et_xnn_override_softmax, &et_xnn_override_linear_bf16, &et_xnn_override_bf16_convert,
	&et_xnn_override_binary, &et_xnn_override_table, &et_xnn_override_cast };

const struct et_xnn_override *et_xnn_override_find(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(all); i++)
		if (all[i]->takes(payload, node))
			return all[i];
	return NULL;
}

void et_xnn_override_set_least_work(uint64_t n_products)
{
	atomic_store_explicit(&least_work, n_products, memory_order_relaxed);
}

struct et_xnn_override_implicit_im2col et_xnn_override_implicit_im2col(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const uint32_t *n = node->numbers;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	return (struct et_xnn_override_implicit_im2col){
		.height = in[1],
		.width = in[2],
		.channels = in[3],
		.out_height = out[1],
		.out_width = out[2],
		.kernel = { n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W] },
		.stride = { n[ET_XNN_STRIDE_H], n[ET_XNN_STRIDE_W] },
		.pad = { n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_LEFT] },
		.in = run->memory[node->inputs[0]],
		.out = run->memory[node->outputs[0]],
		.min = node->min,
		.max = node->max,
	};
}

void et_xnn_override_run_implicit_im2col(const struct et_xnn_override_run *run,
	void (*rows)(void *arg, size_t begin, size_t end), void *arg)
{
	const uint32_t *n = run->node->numbers;
	const size_t *out = run->shapes[run->node->outputs[0]].dims;
	size_t of_row = out[2] * out[3] * n[ET_XNN_KERNEL_H] * n[ET_XNN_KERNEL_W];
	et_xnn_threads_parallel_for(run->threads, rows, arg, out[0] * out[1], 1 + GRAIN / (of_row ? of_row : 1));
}

bool et_xnn_override_is_padded_by_windows(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return n[ET_XNN_PAD_TOP] >= n[ET_XNN_KERNEL_H] || n[ET_XNN_PAD_BOTTOM] >= n[ET_XNN_KERNEL_H] ||
	       n[ET_XNN_PAD_LEFT] >= n[ET_XNN_KERNEL_W] || n[ET_XNN_PAD_RIGHT] >= n[ET_XNN_KERNEL_W];
}
