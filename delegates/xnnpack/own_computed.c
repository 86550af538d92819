/* Fully connected layers of floats or halves whose filter or bias is computed, too: it is packed anew in each run, a panel at a time, on
 * the stack.
 *
 * XNNPACK does them, but of few columns it loses NaNs (gemm.h), and it has none of halves, which go by way of floats (define.c); so do here
 * those that are too deep for a panel. */
#include "delegates/xnnpack/own.h"

#include "delegates/xnnpack/gemm.h"

#include <stdalign.h>

enum {
	PANEL_BYTES = 128 << 10, /* deeper filters than fit do not come here (shape.c) */
	GRAIN = 1 << 17,         /* products that are worth another thread's while */
};

struct layer {
	const struct et_xnn_gemm_build *build;
	struct et_xnn_gemm job; /* of the panel at hand */
};

static const struct et_xnn_gemm_build *build_of(
	const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return payload->values[node->inputs[0]].type == ET_XNN_FP16 ? et_xnn_gemm_halves()
								    : et_xnn_gemm_any();
}

static bool is_plain(const struct et_xnn_value *value, uint32_t types)
{
	return (types & 1U << value->type) && value->quant == ET_XNN_QUANT_NONE;
}

static size_t depth_of(const struct et_xnn_node *node, const struct et_xnn_shape *filter)
{
	return filter->dims[node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS ? 0 : 1];
}

static size_t columns_of(const struct et_xnn_node *node, const struct et_xnn_shape *filter)
{
	return filter->dims[node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS ? 1 : 0];
}

bool et_xnn_own_computed_fits(const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	const struct et_xnn_shape *filter)
{
	const struct et_xnn_gemm_build *build = build_of(payload, node);
	return depth_of(node, filter) < PANEL_BYTES / (build->panel * build->n_bytes);
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (!et_xnn_has_computed_weights(payload, node) ||
		node->kind->infer != et_xnn_infer_fully_connected || payload->values[node->inputs[0]].data)
		return false;
	const struct et_xnn_value *values = payload->values, *in = &values[node->inputs[0]],
				  *filter = &values[node->inputs[1]];
	const uint32_t floats = 1U << ET_XNN_FP32, halves = 1U << ET_XNN_FP16,
		       others = in->type == ET_XNN_FP16 ? floats | halves : floats;
	const struct et_xnn_gemm_build *build = build_of(payload, node);
	if (!build || !is_plain(in, floats | halves) || !is_plain(filter, others) ||
		!is_plain(&values[node->outputs[0]], 1U << in->type) ||
		(node->inputs[2] != ET_XNN_NONE && !is_plain(&values[node->inputs[2]], others)))
		return false;
	return (in->type == ET_XNN_FP16 || et_xnn_gemm_is_narrow(columns_of(node, &filter->shape))) &&
	       et_xnn_own_computed_fits(payload, node, &filter->shape) && et_xnn_own_is_worth(UINT64_MAX - 1);
}

/* One panel of floats. */
static void pack_floats(const struct et_xnn_gemm_filter *filter, size_t panel, float *to)
{
	const float *weights = filter->filter, *bias = filter->bias;
	size_t n = filter->n_columns, width = et_xnn_gemm_width(0, n, panel);
	for (size_t i = 0; i < width; i++)
		to[i] = bias && i < n ? bias[i] : 0;
	to += width;
	for (size_t k = 0; k < filter->depth; k++, to += width, weights += filter->of_row) {
		for (size_t i = 0; i < n; i++)
			to[i] = weights[i * filter->of_column];
		for (size_t i = n; i < width; i++)
			to[i] = 0;
	}
}

static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct layer *layer = arg;
	layer->build->run(&layer->job, begin, end, 0, layer->job.n_columns);
}

static void run(const struct et_xnn_own_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values;
	const struct et_xnn_shape *shape = &run->shapes[node->inputs[1]],
				  *out = &run->shapes[node->outputs[0]];
	bool is_transposed = node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS,
	     has_bias = node->inputs[2] != ET_XNN_NONE;
	const size_t depth = depth_of(node, shape), n_columns = columns_of(node, shape);
	struct layer layer = { .build = build_of(run->payload, node) };
	const size_t n_bytes = layer.build->n_bytes, panel = layer.build->panel;
	alignas(64) uint8_t packed[PANEL_BYTES];
	struct et_xnn_gemm_filter filter = {
		.filter_is_halves = values[node->inputs[1]].type == ET_XNN_FP16,
		.bias_is_halves = has_bias && values[node->inputs[2]].type == ET_XNN_FP16,
		.depth = depth,
		.of_column = is_transposed ? 1 : depth,
		.of_row = is_transposed ? n_columns : 1,
	};
	const size_t of_weight = filter.filter_is_halves ? sizeof(uint16_t) : sizeof(float),
		     of_bias = filter.bias_is_halves ? sizeof(uint16_t) : sizeof(float);
	const uint8_t *weights = et_xnn_own_read(run, node->inputs[1]),
		      *bias = has_bias ? et_xnn_own_read(run, node->inputs[2]) : NULL;
	for (size_t at = 0; at < n_columns; at += panel) {
		filter.n_columns = n_columns - at < panel ? n_columns - at : panel;
		filter.filter = weights + at * filter.of_column * of_weight;
		filter.bias = bias ? bias + at * of_bias : NULL;
		if (layer.build->pack)
			layer.build->pack(&filter, packed);
		else
			pack_floats(&filter, panel, (float *)(void *)packed);
		layer.job = (struct et_xnn_gemm){ .n_columns = filter.n_columns,
			.n_segments = 1,
			.depth = depth,
			.in_stride = depth,
			.out_stride = n_columns,
			.filter_depth = depth,
			.min = node->min,
			.max = node->max,
			.packed = packed,
			.in = run->memory[node->inputs[0]],
			.out = (uint8_t *)run->memory[node->outputs[0]] + at * n_bytes };
		et_xnn_lane_parallel_for(run->lane, run_rows, &layer, et_xnn_n_rows(out),
			14 + GRAIN / (depth * filter.n_columns));
	}
}

const struct et_xnn_own et_xnn_own_computed = {
	.name = "Fully Connected (NC), of computed weights, by panels",
	.takes = takes,
	.run = run,
};
