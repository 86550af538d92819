/* SPDX-License-Identifier: BSD-3-Clause */
/* Depthwise convolutions of fp32 and fp16 (ukernels/depthwise.h).
 *
 * XNNPACK's kernels load an input and a weight for each product, through a table of pointers; ours slide along the
 * row. XNNPACK has kernels for up to 25 taps only, and does 25 taps for 10. A node is taken if its kernel has a loop
 * of its own (3 x 3, 5 x 5, 7 x 7) or more than 9 taps, and is large enough. Filters are read where they lie: nothing
 * is packed, neither for a Program nor for an instance.
 *
 * Two cases are taken for correctness, whatever their size: 1 x 1 of stride 1 (a scale and an offset for each
 * channel), for which XNNPACK's kernels lose NaNs, and fp16 kernels of more than 25 taps, for which its grouped
 * convolution does.
 *
 * Sums take the taps row by row, XNNPACK's column by column, so results differ in rounding. x86 without FMA is left
 * to XNNPACK. */
#include "delegates/xnnpack/overrides/override.h"

#include "delegates/xnnpack/ukernels/depthwise.h"
#include "delegates/xnnpack/ukernels/implicit_im2col.h"
#include "runtime/base/checked.h"

enum {
	LEAST_CHANNELS = 16,
	GRAIN = 1 << 17,           /* products that are worth another thread */
	SMALL_KERNEL = 9,          /* taps; for more, XNNPACK has one kernel, of 25 */
	SMALL_KERNEL_OF_FP16 = 25, /* taps; up to here the original has an order of its own */
	FEW_CHANNELS = 16,         /* of a scale: so many pixels are computed as one */
};

struct depthwise {
	const struct et_depthwise_build *build;
	struct et_depthwise job;
};

/* --- which nodes --- */

/* Products, as far as they can be counted. */
static uint64_t count_products(const struct et_xnn_node *node, const struct et_xnn_value *out)
{
	size_t n = (size_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W];
	for (uint32_t i = 0; i < out->shape.n_dims; i++)
		if (!et_mul(n, out->shape.dims[i], &n))
			return UINT64_MAX - 1;
	return n;
}

/* A job without the sizes and addresses of a run. */
static struct et_depthwise job_of(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return (struct et_depthwise){
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

static size_t n_taps(const struct et_xnn_node *node)
{
	return (size_t)node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W];
}

/* Filter and bias are fp32 also where input and output are fp16. */
static bool fits_types(const struct et_xnn_payload *payload, const struct et_xnn_node *node, bool is_fp16)
{
	if (!is_fp16)
		return et_xnn_override_is_all_floats(payload, node);
	return et_xnn_override_is_all_fp16(payload, node) && payload->values[node->inputs[1]].type == ET_XNN_FP32 &&
	       (node->inputs[2] == ET_XNN_NONE || payload->values[node->inputs[2]].type == ET_XNN_FP32);
}

/* Whether each channel is scaled and has something added, which XNNPACK's kernels do without keeping NaNs. */
static bool is_scale(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return et_xnn_override_is_like_depthwise(node) && n[ET_XNN_KERNEL_H] == 1 && n[ET_XNN_KERNEL_W] == 1 &&
	       n[ET_XNN_STRIDE_H] == 1 && n[ET_XNN_STRIDE_W] == 1 && !et_xnn_override_has_border(node) &&
	       node->kind->infer != et_xnn_infer_deconvolution;
}

/* Whether XNNPACK does @node, of fp16, as a grouped convolution, which loses NaNs. */
static bool is_large_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return n_taps(node) > SMALL_KERNEL_OF_FP16;
}

static bool is_depthwise(const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_depthwise && node->numbers[ET_XNN_GROUP_OUT] == 1 && node->flags == 0;
}

static bool is_large_enough(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return payload->values[node->inputs[1]].shape.dims[3] >= LEAST_CHANNELS &&
	       et_xnn_override_is_worth(count_products(node, &payload->values[node->outputs[0]]));
}

static bool takes_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (!fits_types(payload, node, false))
		return false;
	if (is_scale(payload, node) && node->flags == 0)
		return et_xnn_override_is_on();
	const struct et_depthwise job = job_of(node);
	return is_depthwise(node) && et_depthwise() && (et_depthwise_is_usual(&job) || n_taps(node) > SMALL_KERNEL) &&
	       is_large_enough(payload, node);
}

static bool takes_fp16(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (!fits_types(payload, node, true) || !is_depthwise(node) || !et_depthwise_fp16())
		return false;
	if (is_large_fp16(payload, node))
		return et_xnn_override_is_on();
	const struct et_depthwise job = job_of(node);
	return et_depthwise_is_usual(&job) && is_large_enough(payload, node);
}

/* --- running --- */

static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct depthwise *depthwise = arg;
	depthwise->build->run(&depthwise->job, begin, end);
}

/* Treat an image of one column as one of one row, whose row is long enough for tiles. */
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

/* Make each FEW_CHANNELS pixels of a line one pixel of as many times the channels, which fills vectors; the pixels
 * that remain are computed here. @copies: filter and bias, repeated. */
static void join_pixels(struct depthwise *depthwise, float copies[2][FEW_CHANNELS * FEW_CHANNELS])
{
	struct et_depthwise *job = &depthwise->job, rest = *job;
	size_t n = job->width / FEW_CHANNELS, n_channels = job->channels;
	rest.width = rest.out_width = job->width % FEW_CHANNELS;
	rest.in = (const float *)job->in + n * FEW_CHANNELS * n_channels;
	rest.out = (float *)job->out + n * FEW_CHANNELS * n_channels;
	if (rest.width)
		depthwise->build->run(&rest, 0, 1);
	for (size_t i = 0; i < FEW_CHANNELS * n_channels; i++) {
		copies[0][i] = job->filter[i % n_channels];
		copies[1][i] = job->bias ? job->bias[i % n_channels] : 0;
	}
	job->filter = copies[0];
	job->bias = copies[1];
	job->channels *= FEW_CHANNELS;
	job->width = job->out_width = n;
}

/* All images as one line of @n_pixels, because each pixel is scaled by itself. */
static void run_scale(struct depthwise *depthwise, size_t n_pixels, struct inferd_delegate_worker_threads *threads)
{
	struct et_depthwise *job = &depthwise->job;
	float copies[2][FEW_CHANNELS * FEW_CHANNELS];
	job->height = job->out_height = 1;
	job->width = job->out_width = n_pixels;
	if (job->channels <= FEW_CHANNELS)
		join_pixels(depthwise, copies);
	et_xnn_threads_parallel_for(threads, run_pixels, depthwise, job->width, 1 + GRAIN / 4 / job->channels);
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	bool is_fp16 = values[node->inputs[0]].type == ET_XNN_FP16;
	struct depthwise depthwise = { .build = is_fp16 ? et_depthwise_fp16() : et_depthwise_any(),
		.job = job_of(node) };
	struct et_depthwise *job = &depthwise.job;
	job->channels = in[3];
	job->height = in[1];
	job->width = in[2];
	job->out_height = out[1];
	job->out_width = out[2];
	job->filter = (const float *)(const void *)values[node->inputs[1]].data;
	job->bias = node->inputs[2] == ET_XNN_NONE ? NULL : (const float *)(const void *)values[node->inputs[2]].data;
	job->in = run->memory[node->inputs[0]];
	job->out = run->memory[node->outputs[0]];
	if (!is_fp16 && is_scale(run->payload, node)) {
		run_scale(&depthwise, in[0] * in[1] * in[2], run->threads);
		return;
	}
	job->counts_zeros = et_xnn_override_has_border(node) &&
			    et_xnn_implicit_im2col_count_zeros(job->filter,
				    job->kernel_height * job->kernel_width * job->channels, is_fp16);
	lay_down(job);
	size_t n_of_row = job->out_width * in[3] * job->kernel_height * job->kernel_width;
	et_xnn_threads_parallel_for(run->threads, run_rows, &depthwise, out[0] * job->out_height, 1 + GRAIN / n_of_row);
}

const struct et_xnn_override et_xnn_override_depthwise = {
	.name = "depthwise-fp32",
	.reason =
		"speed: the 16 depthwise layers of EfficientNet-Lite0 take 1.10 ms instead of 2.31 (AVX-512) and 1.36 (AVX2), "
		"a small ConvNeXt 0.49 ms instead of 1.65; correctness: XNNPACK's scale of channels loses NaNs",
	.takes = takes_floats,
	.is_needed = is_scale,
	.run = run,
};

const struct et_xnn_override et_xnn_override_depthwise_fp16 = {
	.name = "depthwise-fp16",
	.reason =
		"speed: MobileNetV2 in halves takes 3.5 ms instead of 5.5 (AVX-512); correctness: XNNPACK loses NaNs in kernels of "
		"more than 25 taps",
	.takes = takes_fp16,
	.is_needed = is_large_fp16,
	.run = run,
};
