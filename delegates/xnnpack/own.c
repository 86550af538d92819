/* Nodes that are done here instead of by XNNPACK.
 *
 * XNNPACK's graphs take no operators but its own, so each of these ends a runtime and begins another (parts.h). That costs
 * little, but not nothing, so a node is taken only where it is large enough.
 *
 * Depthwise convolutions are here. They read their filters where those lie: nothing is packed, neither for a Program nor
 * for a context, and there is no table of pointers for each context either. Other convolutions and fully connected layers are in
 * own_gemm.c, transposed ones in own_deconvolution.c, layers of rows quantized at run time in own_gemm8.c. What XNNPACK does not
 * do at all is in own_argmax.c, own_average.c, own_pool.c and own_move.c, what it rounds otherwise than the original's in own_mean.c, own_table.c,
 * own_binary.c and own_cast.c, what it knows no datatype for in own_bfloat.c. */
#include "delegates/xnnpack/own.h"

#include "delegates/xnnpack/depthwise.h"
#include "runtime/base/checked.h"

#include <stdatomic.h>

enum {
	LEAST_CHANNELS = 16,
	LEAST_WORK = 1 << 16, /* products: some microseconds */
	GRAIN = 1 << 17,      /* products, or elements looked at, that are worth another thread's while */
	SMALL_KERNEL =
		9, /* taps: of more, XNNPACK has kernels for 25 only; above that it does one channel at a time */
	SMALL_KERNEL_OF_HALVES = 25, /* up to here XNNPACK has an order of its own */
};

static _Atomic(uint64_t) least_work = LEAST_WORK;

/* @type: of input and output; @types: a set, of filter and bias. */
static bool is_all(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	enum et_xnn_type type, uint32_t types)
{
	if (!node->kind->has_filter)
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]],
				  *out = &payload->values[node->outputs[0]];
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

bool et_xnn_own_is_all_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_all(payload, node, ET_XNN_FP32, 1U << ET_XNN_FP32);
}

bool et_xnn_own_is_all_halves(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return is_all(payload, node, ET_XNN_FP16, 1U << ET_XNN_FP32 | 1U << ET_XNN_FP16);
}

bool et_xnn_own_is_worth(uint64_t n_products)
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
	return type == ET_XNN_FP16 ? et_depthwise_halves() : et_depthwise();
}

static bool takes_depthwise(
	const struct et_xnn_payload *payload, const struct et_xnn_node *node, enum et_xnn_type type)
{
	const uint32_t *n = node->numbers;
	if (node->kind->infer != et_xnn_infer_depthwise || !build_of(type) ||
		!is_all(payload, node, type, 1U << ET_XNN_FP32))
		return false;
	struct et_depthwise job;
	describe(&job, node);
	size_t channels = payload->values[node->inputs[1]].shape.dims[3],
	       small = type == ET_XNN_FP16 ? SMALL_KERNEL_OF_HALVES : SMALL_KERNEL;
	return (et_depthwise_is_usual(&job) || job.kernel_height * job.kernel_width > small) &&
	       n[ET_XNN_GROUP_IN] == 1 && n[ET_XNN_GROUP_OUT] == 1 && node->flags == 0 &&
	       channels >= LEAST_CHANNELS &&
	       et_xnn_own_is_worth(work(node, &payload->values[node->outputs[0]]));
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

static void run_depthwise(const struct et_xnn_own_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	struct depthwise depthwise = { .build = build_of(values[node->inputs[0]].type) };
	struct et_depthwise *job = &depthwise.job;
	describe(job, node);
	job->channels = in[3];
	job->height = in[1];
	job->width = in[2];
	job->out_height = out[1];
	job->out_width = out[2];
	job->filter = (const float *)(const void *)values[node->inputs[1]].data;
	job->bias = node->inputs[2] == ET_XNN_NONE
			    ? NULL
			    : (const float *)(const void *)values[node->inputs[2]].data;
	job->in = run->memory[node->inputs[0]];
	job->out = run->memory[node->outputs[0]];
	lay_down(job);
	size_t of_row = job->out_width * in[3] * job->kernel_height * job->kernel_width;
	et_xnn_lane_parallel_for(
		run->lane, run_rows, &depthwise, out[0] * job->out_height, 1 + GRAIN / of_row);
}

static bool takes_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return takes_depthwise(payload, node, ET_XNN_FP32);
}

static bool takes_halves(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return takes_depthwise(payload, node, ET_XNN_FP16);
}

static const struct et_xnn_own own_depthwise = {
	.name = "Depthwise Convolution (NHWC, F32), by rows",
	.takes = takes_floats,
	.run = run_depthwise,
};

static const struct et_xnn_own own_depthwise_halves = {
	.name = "Depthwise Convolution (NHWC, F16), by rows",
	.takes = takes_halves,
	.run = run_depthwise,
};

static const struct et_xnn_own *const all[] = { &own_depthwise, &own_depthwise_halves,
	&et_xnn_own_convolution, &et_xnn_own_convolution_halves, &et_xnn_own_linear,
	&et_xnn_own_linear_halves, &et_xnn_own_deconvolution, &et_xnn_own_transpose, &et_xnn_own_gemm8,
	&et_xnn_own_argmax, &et_xnn_own_average, &et_xnn_own_convert, &et_xnn_own_mean, &et_xnn_own_move,
	&et_xnn_own_pool, &et_xnn_own_linear_bfloat, &et_xnn_own_bfloat, &et_xnn_own_binary,
	&et_xnn_own_table, &et_xnn_own_cast };

const struct et_xnn_own *et_xnn_own_find(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(all); i++)
		if (all[i]->takes(payload, node))
			return all[i];
	return NULL;
}

void et_xnn_own_set_least_work(uint64_t n_products)
{
	atomic_store_explicit(&least_work, n_products, memory_order_relaxed);
}

struct et_xnn_own_windows et_xnn_own_windows(const struct et_xnn_own_run *run)
{
	const struct et_xnn_node *node = run->node;
	const uint32_t *n = node->numbers;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	return (struct et_xnn_own_windows){
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

void et_xnn_own_run_windows(
	const struct et_xnn_own_run *run, void (*rows)(void *arg, size_t begin, size_t end), void *arg)
{
	const uint32_t *n = run->node->numbers;
	const size_t *out = run->shapes[run->node->outputs[0]].dims;
	size_t of_row = out[2] * out[3] * n[ET_XNN_KERNEL_H] * n[ET_XNN_KERNEL_W];
	et_xnn_lane_parallel_for(run->lane, rows, arg, out[0] * out[1], 1 + GRAIN / (of_row ? of_row : 1));
}

bool et_xnn_own_is_padded_by_windows(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return n[ET_XNN_PAD_TOP] >= n[ET_XNN_KERNEL_H] || n[ET_XNN_PAD_BOTTOM] >= n[ET_XNN_KERNEL_H] ||
	       n[ET_XNN_PAD_LEFT] >= n[ET_XNN_KERNEL_W] || n[ET_XNN_PAD_RIGHT] >= n[ET_XNN_KERNEL_W];
}
