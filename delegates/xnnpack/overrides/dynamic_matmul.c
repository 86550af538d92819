/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of two matrices that are both computed: batch matrix multiplication of fp16, and fully connected layers of
 * fp16 and fp32 whose filter or bias is not constant. The right matrix is packed in each run, a panel at a time, on
 * the stack.
 *
 * All are taken for correctness: XNNPACK loses NaNs where columns of fp32 are few (gemm.h), and Debian's adds up fp16
 * in floats, where the original's sums are halves if the processor computes such. */
#include "delegates/xnnpack/overrides/override.h"

#include "delegates/xnnpack/ukernels/gemm.h"

#include <math.h>
#include <stdalign.h>
#include <string.h>

enum {
	PANEL_BYTES = 128 << 10,
	GRAIN = 1 << 17, /* products that are worth another thread */
	ROWS = 14,
	FEW_ROWS = 2 * ROWS,
};

/* A product of two matrices, or one for each matrix of a batch. */
struct product {
	const struct et_xnn_gemm_build *build;
	struct et_xnn_gemm_filter filter; /* the right matrix, whole */
	struct et_xnn_gemm job;           /* without what depends on the panel */
	size_t n_rows;
	size_t n_at_once; /* columns that are packed at once; 0: one panel is deeper than there is room for */
	const struct et_xnn_shape *left, *right, *out;
};

static const struct et_xnn_gemm_build *build_of(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return payload->values[node->inputs[0]].type == ET_XNN_FP16 ? et_xnn_gemm_fp16() : et_xnn_gemm_any();
}

static bool is_plain(const struct et_xnn_value *value, uint32_t types)
{
	return (types & 1U << value->type) && value->quant == ET_XNN_QUANT_NONE;
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (!et_xnn_has_computed_weights(payload, node) || node->kind->infer != et_xnn_infer_fully_connected ||
		payload->values[node->inputs[0]].data)
		return false;
	const struct et_xnn_value *values = payload->values, *in = &values[node->inputs[0]],
				  *filter = &values[node->inputs[1]];
	const uint32_t floats = 1U << ET_XNN_FP32, fp16 = 1U << ET_XNN_FP16,
		       others = in->type == ET_XNN_FP16 ? floats | fp16 : floats;
	if (!build_of(payload, node) || !is_plain(in, floats | fp16) || !is_plain(filter, others) ||
		!is_plain(&values[node->outputs[0]], 1U << in->type) ||
		(node->inputs[2] != ET_XNN_NONE && !is_plain(&values[node->inputs[2]], others)))
		return false;
	size_t n_columns = filter->shape.dims[node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS ? 1 : 0];
	return (in->type == ET_XNN_FP16 || et_xnn_gemm_is_narrow(n_columns)) && et_xnn_override_is_on();
}

static bool takes_matmul(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t fp16 = 1U << ET_XNN_FP16;
	return node->kind->infer == et_xnn_infer_matmul && et_xnn_gemm_fp16() &&
	       is_plain(&payload->values[node->inputs[0]], fp16) && is_plain(&payload->values[node->inputs[1]], fp16) &&
	       is_plain(&payload->values[node->outputs[0]], fp16) && et_xnn_override_is_on();
}

/* Pack one panel of floats. */
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

/* Pack rows @first to @first + @depth of columns @at to @at + @n. */
static void pack_part(const struct product *product, size_t at, size_t n, size_t first, size_t depth, uint8_t *to)
{
	struct et_xnn_gemm_filter part = product->filter;
	const size_t of_weight = part.filter_is_fp16 ? sizeof(uint16_t) : sizeof(float),
		     of_bias = part.bias_is_fp16 ? sizeof(uint16_t) : sizeof(float);
	part.n_columns = n;
	part.depth = depth;
	part.filter = (const uint8_t *)part.filter + (at * part.of_column + first * part.of_row) * of_weight;
	part.bias = part.bias && first == 0 ? (const uint8_t *)part.bias + at * of_bias : NULL;
	if (product->build->pack)
		product->build->pack(&part, to);
	else
		pack_floats(&part, product->build->panel, (float *)(void *)to);
}

/* The product with a packed panel, or the part of one that was packed. */
static struct et_xnn_gemm job_of(const struct product *product, size_t at, size_t n, size_t depth,
	const uint8_t *packed)
{
	struct et_xnn_gemm job = product->job;
	job.n_columns = n;
	job.depth = job.filter_depth = depth;
	job.packed = packed;
	job.out += at * product->build->n_bytes;
	return job;
}

/* A panel that is too deep: part of its rows at a time. The results of one part take the place of the bias for the
 * next part, row by row. */
static void run_deep(const struct product *product, size_t at, size_t n, uint8_t *packed)
{
	const size_t n_bytes = product->build->n_bytes, depth = product->filter.depth,
		     most = PANEL_BYTES / (product->build->panel * n_bytes) - 1;
	for (size_t first = 0, n_deep; first < depth; first += n_deep) {
		n_deep = depth - first < most ? depth - first : most;
		pack_part(product, at, n, first, n_deep, packed);
		struct et_xnn_gemm job = job_of(product, at, n, n_deep, packed);
		job.in += first * n_bytes;
		if (first + n_deep < depth) {
			job.min = -INFINITY;
			job.max = INFINITY;
		}
		for (size_t row = 0; row < product->n_rows; row++) {
			if (first)
				memcpy(packed, job.out + row * job.out_stride * n_bytes, n * n_bytes);
			product->build->run(&job, row, row + 1, 0, n);
		}
	}
}

static size_t n_at(const struct product *product, size_t at)
{
	size_t most = product->n_at_once ? product->n_at_once : product->build->panel,
	       left = product->filter.n_columns - at;
	return left < most ? left : most;
}

static size_t n_panels(const struct product *product)
{
	size_t n = n_at(product, 0);
	return (product->filter.n_columns + n - 1) / n;
}

/* The index of the matrix in @shape that the result's matrix @at is made from, with broadcasting. */
static size_t matrix_at(const struct et_xnn_shape *shape, const struct et_xnn_shape *out, size_t at)
{
	size_t place = 0, stride = 1;
	for (uint32_t i = 3; i <= shape->n_dims && i <= out->n_dims; i++) {
		size_t n = shape->dims[shape->n_dims - i], of_out = out->dims[out->n_dims - i];
		if (n != 1)
			place += at % of_out * stride;
		stride *= n;
		at /= of_out;
	}
	return place;
}

/* How many of @width columns are read where they lie: for few rows, packing would take as long as multiplying. */
static size_t n_flat(const struct product *product, size_t width)
{
	const struct et_xnn_gemm_filter *filter = &product->filter;
	bool is_ready = filter->filter_is_fp16 == (product->build->pack != NULL) && !filter->bias;
	return is_ready && filter->of_column == 1 && product->n_rows <= FEW_ROWS
		       ? width - width % (product->build->panel / 4)
		       : 0;
}

/* Panels @begin to @end, counted through all matrices. */
static void run_panels(void *arg, size_t begin, size_t end)
{
	const struct product *all = arg;
	alignas(64) uint8_t packed[PANEL_BYTES];
	const size_t n_bytes = all->build->n_bytes, n = n_panels(all), depth = all->filter.depth;
	for (size_t i = begin; i < end; i++) {
		struct product product = *all;
		size_t at = i % n * n_at(all, 0), width = n_at(all, at);
		if (all->out) {
			const size_t of_right = depth * all->filter.n_columns * n_bytes;
			product.job.in += matrix_at(all->left, all->out, i / n) * all->n_rows * depth * n_bytes;
			product.filter.filter = (const uint8_t *)product.filter.filter +
						matrix_at(all->right, all->out, i / n) * of_right;
			product.job.out += i / n * all->n_rows * all->filter.n_columns * n_bytes;
		}
		const size_t flat = n_flat(&product, width);
		if (flat) {
			struct et_xnn_gemm job = job_of(&product, at, flat, depth,
				(const uint8_t *)product.filter.filter + at * n_bytes);
			job.filter_pitch = product.filter.of_row;
			product.build->run(&job, 0, product.n_rows, 0, flat);
		}
		if (flat < width && product.n_at_once) {
			pack_part(&product, at + flat, width - flat, 0, depth, packed);
			struct et_xnn_gemm job = job_of(&product, at + flat, width - flat, depth, packed);
			product.build->run(&job, 0, product.n_rows, 0, width - flat);
		} else if (flat < width) {
			run_deep(&product, at + flat, width - flat, packed);
		}
	}
}

struct panel {
	const struct et_xnn_gemm_build *build;
	struct et_xnn_gemm job;
};

static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct panel *panel = arg;
	panel->build->run(&panel->job, begin, end, 0, panel->job.n_columns);
}

/* Threads share the panels, or the rows of the only one. */
static void run_product(struct product *product, size_t n_matrices, struct inferd_delegate_worker_threads *threads)
{
	const size_t depth = product->filter.depth, quarter = product->build->panel / 4;
	size_t n = PANEL_BYTES / product->build->n_bytes / (1 + depth) / quarter * quarter;
	product->n_at_once = n < product->build->panel ? n : product->build->panel;
	size_t n_pieces = n_matrices * n_panels(product), width = n_at(product, 0);
	if (n_pieces > 1 || !product->n_at_once || product->n_rows <= ROWS) {
		et_xnn_threads_parallel_for(threads, run_panels, product, n_pieces,
			1 + GRAIN / (product->n_rows * depth * width));
		return;
	}
	alignas(64) uint8_t packed[PANEL_BYTES];
	pack_part(product, 0, width, 0, depth, packed);
	struct panel panel = { product->build, job_of(product, 0, width, depth, packed) };
	et_xnn_threads_parallel_for(threads, run_rows, &panel, product->n_rows, ROWS + GRAIN / (depth * width));
}

/* @depth and @n_columns: of the right matrix. @is_side_by_side: whether the elements of a row of it are neighbours. */
static struct product product_of(const struct et_xnn_override_run *run, size_t depth, size_t n_columns,
	bool is_side_by_side)
{
	const struct et_xnn_node *node = run->node;
	return (struct product){ .build = build_of(run->payload, node),
		.filter = { .filter = et_xnn_override_read(run, node->inputs[1]),
			.filter_is_fp16 = run->payload->values[node->inputs[1]].type == ET_XNN_FP16,
			.depth = depth,
			.n_columns = n_columns,
			.of_column = is_side_by_side ? 1 : depth,
			.of_row = is_side_by_side ? n_columns : 1 },
		.job = { .n_segments = 1,
			.in_stride = depth,
			.out_stride = n_columns,
			.min = node->min,
			.max = node->max,
			.in = et_xnn_override_read(run, node->inputs[0]),
			.out = run->memory[node->outputs[0]] } };
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_shape *filter = &run->shapes[node->inputs[1]], *out = &run->shapes[node->outputs[0]];
	bool is_transposed = node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS;
	struct product product = product_of(run, filter->dims[is_transposed ? 0 : 1],
		filter->dims[is_transposed ? 1 : 0], is_transposed);
	if (node->inputs[2] != ET_XNN_NONE) {
		product.filter.bias = et_xnn_override_read(run, node->inputs[2]);
		product.filter.bias_is_fp16 = run->payload->values[node->inputs[2]].type == ET_XNN_FP16;
	}
	product.n_rows = et_xnn_n_rows(out);
	run_product(&product, 1, run->threads);
}

static void run_matmul(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_shape *left = &run->shapes[node->inputs[0]], *out = &run->shapes[node->outputs[0]];
	struct product product = product_of(run, left->dims[left->n_dims - 1], out->dims[out->n_dims - 1],
		!(node->flags & XNN_FLAG_TRANSPOSE_B));
	product.n_rows = out->dims[out->n_dims - 2];
	product.left = left;
	product.right = &run->shapes[node->inputs[1]];
	product.out = out;
	run_product(&product, et_xnn_n_rows(out) / product.n_rows, run->threads);
}

const struct et_xnn_override et_xnn_override_linear_dynamic = {
	.name = "linear-dynamic",
	.reason = "correctness: XNNPACK loses NaNs where columns are few, and Debian's adds up halves in floats",
	.takes = takes,
	.is_needed = takes,
	.run = run,
};

const struct et_xnn_override et_xnn_override_matmul_fp16 = {
	.name = "matmul-fp16",
	.reason = "correctness: Debian's XNNPACK adds up in floats, the original in halves (AVX512-FP16)",
	.takes = takes_matmul,
	.is_needed = takes_matmul,
	.run = run_matmul,
};
