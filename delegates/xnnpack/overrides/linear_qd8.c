/* SPDX-License-Identifier: BSD-3-Clause */
/* Fully connected layers of rows quantized at run time (qd8), and the conversions that quantize them (gemm_qs8.h).
 *
 * A conversion and all layers that read it are overrides together, or none of them is (partition.c): the rows between
 * them have the layout of gemm_qs8.h, which XNNPACK does not know. Rows are quantized once, however many layers read
 * them (attention has three). */
#include "delegates/xnnpack/overrides/override.h"

#include "delegates/xnnpack/ukernels/gemm_qs8.h"
#include "runtime/base/checked.h"

enum {
	CHEAPER = 4,            /* products of 8 bits in the time of one of floats */
	LEAST_DEPTH = 32,       /* in less depth most products would be with the zeros that fill it up */
	GRAIN = 1 << 19,        /* products that are worth another thread */
	GRAIN_FLOATS = 1 << 14, /* floats to quantize that are worth another thread */
	FEW_ROWS = 4 * 32,      /* of fewer rows threads share the columns instead */
};

static bool is_rows(const struct et_xnn_value *value)
{
	return value->type == ET_XNN_QDINT8 && value->quant == ET_XNN_QUANT_ROW && value->n_row_dims == 1 &&
	       value->shape.n_dims && value->shape.dims[value->shape.n_dims - 1] >= LEAST_DEPTH;
}

/* --- conversions ---------------------------------------------------------------------------------- */

static bool takes_convert(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (node->kind->infer != et_xnn_infer_convert || node->flags || !et_xnn_gemm_qs8())
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]];
	return et_xnn_override_is_floats(in) && !in->data && is_rows(&payload->values[node->outputs[0]]);
}

struct convert {
	const struct et_xnn_gemm_qs8_build *build;
	struct et_xnn_rows rows;
	const float *in;
	void *to;
};

static void convert_rows(void *arg, size_t begin, size_t end)
{
	const struct convert *convert = arg;
	et_xnn_rows_quantize(convert->build, &convert->rows, convert->in, begin, end, convert->to);
}

static void run_convert(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_shape *shape = &run->shapes[node->inputs[0]];
	size_t depth = shape->dims[shape->n_dims - 1];
	struct convert convert = {
		.build = et_xnn_gemm_qs8(),
		.in = run->memory[node->inputs[0]],
		.to = run->memory[node->outputs[0]],
	};
	if (et_xnn_rows(&convert.rows, et_xnn_n_rows(shape), depth)) /* true, as when memory was planned */
		et_xnn_threads_parallel_for(run->threads, convert_rows, &convert, convert.rows.n_rows,
			1 + GRAIN_FLOATS / depth);
}

const struct et_xnn_override et_xnn_override_convert_qd8 = {
	.name = "convert-qd8",
	.reason = "speed: quantizes the rows that linear-qd8 reads; on and off together with it",
	.takes = takes_convert,
	.run = run_convert,
};

/* --- layers --------------------------------------------------------------------------------------- */

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (node->kind->infer != et_xnn_infer_fully_connected || node->flags || !et_xnn_gemm_qs8())
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *filter = &payload->values[node->inputs[1]],
				  *out = &payload->values[node->outputs[0]];
	const struct et_xnn_value *bias = node->inputs[2] != ET_XNN_NONE ? &payload->values[node->inputs[2]] : NULL;
	if (!is_rows(in) || !et_xnn_override_is_floats(out) || filter->type != ET_XNN_QCINT8 ||
		filter->quant != ET_XNN_QUANT_CHANNEL || filter->channel_dim != 0 || !filter->data ||
		filter->shape.n_dims != 2 || filter->n_scales != filter->shape.dims[0] ||
		(bias && (!et_xnn_override_is_floats(bias) || !bias->data)))
		return false;
	size_t products = filter->shape.dims[0];
	for (uint32_t i = 0; i < in->shape.n_dims; i++)
		if (!et_mul(products, in->shape.dims[i], &products))
			return false;
	return et_xnn_override_is_worth(products / CHEAPER);
}

static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const size_t *dims = payload->values[node->inputs[1]].shape.dims;
	return et_xnn_gemm_qs8_n_packed(dims[1], dims[0]);
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *to)
{
	const struct et_xnn_value *filter = &payload->values[node->inputs[1]];
	const void *bias = node->inputs[2] == ET_XNN_NONE ? NULL : payload->values[node->inputs[2]].data;
	et_xnn_gemm_qs8_pack((const int8_t *)filter->data, filter->scales, bias, filter->shape.dims[1],
		filter->shape.dims[0], to);
}

struct gemm_qs8 {
	const struct et_xnn_gemm_qs8_build *build;
	struct et_xnn_gemm_qs8 job;
	size_t n_rows;
};

static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct gemm_qs8 *gemm = arg;
	gemm->build->run(&gemm->job, begin, end, 0, gemm->job.n_columns);
}

static size_t column_at(const struct gemm_qs8 *gemm, size_t panel)
{
	size_t at = panel * ET_GEMM_QS8_PANEL;
	return at < gemm->job.n_columns ? at : gemm->job.n_columns;
}

static void run_columns(void *arg, size_t begin, size_t end)
{
	const struct gemm_qs8 *gemm = arg;
	gemm->build->run(&gemm->job, 0, gemm->n_rows, column_at(gemm, begin), column_at(gemm, end));
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_shape *out = &run->shapes[node->outputs[0]];
	const size_t *filter = run->payload->values[node->inputs[1]].shape.dims;
	const uint8_t *memory = run->memory[node->inputs[0]];
	size_t n_rows = et_xnn_n_rows(out), n_of_row = filter[0] * filter[1];
	struct et_xnn_rows rows;
	if (!et_xnn_rows(&rows, n_rows, filter[1])) /* true, as when memory was planned */
		return;
	struct gemm_qs8 gemm = {
		.build = et_xnn_gemm_qs8(),
		.n_rows = n_rows,
		.job = {
			.n_columns = filter[0],
			.n_segments = 1,
			.depth = (filter[1] + ET_GEMM_QS8_DEPTH - 1) / ET_GEMM_QS8_DEPTH * ET_GEMM_QS8_DEPTH,
			.in_stride = rows.stride,
			.out_stride = filter[0],
			.min = node->min,
			.max = node->max,
			.packed = run->packed,
			.scales = (const struct et_xnn_row_scale *)(const void *)memory,
			.in = memory + rows.first,
			.out = run->memory[node->outputs[0]],
		},
	};
	size_t n_panels = (filter[0] + ET_GEMM_QS8_PANEL - 1) / ET_GEMM_QS8_PANEL;
	if (n_rows < FEW_ROWS && n_panels > 1)
		et_xnn_threads_parallel_for(run->threads, run_columns, &gemm, n_panels,
			1 + GRAIN / (n_rows * filter[1] * ET_GEMM_QS8_PANEL));
	else
		et_xnn_threads_parallel_for(run->threads, run_rows, &gemm, n_rows, 32 + GRAIN / n_of_row);
}

const struct et_xnn_override et_xnn_override_linear_qd8 = {
	.name = "linear-qd8",
	.reason = "speed: MiniLM takes 6.6 ms instead of 12.0 (AMX)",
	.takes = takes,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
