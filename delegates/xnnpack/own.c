/* Nodes that are done here instead of by XNNPACK.
 *
 * XNNPACK's graphs take no operators but its own, so each of these ends a runtime and begins another (parts.h). That costs
 * little, but not nothing, so a node is taken only where it is large enough.
 *
 * Depthwise convolutions are here. They read their filters where those lie: nothing is packed, neither for a Program nor
 * for a context, and there is no table of pointers for each context either. Other convolutions and fully connected layers are in
 * own_gemm.c, transposed ones in own_deconvolution.c, layers of rows quantized at run time in own_gemm8.c. */
#include "delegates/xnnpack/own.h"

#include "delegates/xnnpack/depthwise.h"
#include "runtime/base/checked.h"

#include <stdatomic.h>

enum {
	LEAST_CHANNELS = 16,
	LEAST_WORK = 1 << 16, /* products: some microseconds */
	GRAIN = 1 << 17,      /* products that are worth another thread's while */
};

static _Atomic(uint64_t) least_work = LEAST_WORK;

bool et_xnn_own_is_all_floats(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (!node->kind->has_filter)
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]],
				  *filter = &payload->values[node->inputs[1]],
				  *out = &payload->values[node->outputs[0]];
	const struct et_xnn_value *bias =
		node->inputs[2] != ET_XNN_NONE ? &payload->values[node->inputs[2]] : NULL;
	return et_xnn_own_is_floats(in) && !in->data && et_xnn_own_is_floats(out) &&
	       et_xnn_own_is_floats(filter) && filter->data &&
	       (!bias || (et_xnn_own_is_floats(bias) && bias->data));
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

static bool takes_depthwise(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	if (node->kind->infer != et_xnn_infer_depthwise || !et_depthwise() ||
		!et_xnn_own_is_all_floats(payload, node))
		return false;
	size_t channels = payload->values[node->inputs[1]].shape.dims[3];
	return n[ET_XNN_KERNEL_H] == n[ET_XNN_KERNEL_W] && n[ET_XNN_STRIDE_H] == n[ET_XNN_STRIDE_W] &&
	       et_depthwise_does(n[ET_XNN_KERNEL_H], n[ET_XNN_STRIDE_H]) && n[ET_XNN_DILATION_H] == 1 &&
	       n[ET_XNN_DILATION_W] == 1 && n[ET_XNN_GROUP_IN] == 1 && n[ET_XNN_GROUP_OUT] == 1 &&
	       node->flags == 0 && channels >= LEAST_CHANNELS &&
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
	size_t kernel = node->numbers[ET_XNN_KERNEL_H];
	struct depthwise depthwise = {
		.build = et_depthwise(),
		.job = {
			.channels = in[3],
			.height = in[1],
			.width = in[2],
			.out_height = out[1],
			.out_width = out[2],
			.kernel = kernel,
			.stride = node->numbers[ET_XNN_STRIDE_H],
			.top = (ptrdiff_t)node->numbers[ET_XNN_PAD_TOP],
			.left = (ptrdiff_t)node->numbers[ET_XNN_PAD_LEFT],
			.min = node->min,
			.max = node->max,
			.filter = (const float *)(const void *)values[node->inputs[1]].data,
			.bias = node->inputs[2] == ET_XNN_NONE
					? NULL
					: (const float *)(const void *)values[node->inputs[2]].data,
			.in = run->memory[node->inputs[0]],
			.out = run->memory[node->outputs[0]],
		},
	};
	size_t of_row = out[2] * in[3] * kernel * kernel;
	et_xnn_lane_parallel_for(run->lane, run_rows, &depthwise, out[0] * out[1], 1 + GRAIN / of_row);
}

static const struct et_xnn_own own_depthwise = {
	.name = "Depthwise Convolution (NHWC, F32), by rows",
	.takes = takes_depthwise,
	.run = run_depthwise,
};

static const struct et_xnn_own *const all[] = { &own_depthwise, &et_xnn_own_gemm, &et_xnn_own_deconvolution,
	&et_xnn_own_transpose, &et_xnn_own_gemm8, &et_xnn_own_convert };

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
