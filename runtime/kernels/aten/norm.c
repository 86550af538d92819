/* SPDX-License-Identifier: BSD-3-Clause */
/* Normalization: batch, layer and group norm.
 *
 * All of them end as out = x * factor + shift. Batch norm knows factor and shift of each channel beforehand and is an
 * elementwise operator on broadcast tensors. Layer and group norm first find mean and deviation of dense rows, in
 * double (ukernels.c). Tensors in another dim order, such as channels last, are copied to row-major order first. */
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/kernels/engine/moments.h"
#include "runtime/base/expand.h"

enum { BLOCK = 256, LONG_ROW = 1 << 18 /* longer ones ask whether they must stop */ };

ET_FLOAT_FNS(scale_shift, 3, a *b + c)

static double element(const struct et_tensor *tensor, size_t index)
{
	return et_element_get_double((const uint8_t *)tensor->data + index * et_element_bytes(tensor), tensor->type);
}

/* @n numbers, starting at @first; @otherwise, @n times, if @tensor is NULL. */
static void load_numbers(const struct et_tensor *tensor, size_t first, size_t n, double otherwise, double *ret)
{
	for (size_t i = 0; !tensor && i < n; i++)
		ret[i] = otherwise;
	if (tensor)
		et_loader(tensor->type, ET_F64)(ret, (const uint8_t *)tensor->data + first * et_element_bytes(tensor),
			1, n);
}

/* Require one number for each channel, or None. */
static enum et_status require_channels(struct et_kernel_ctx *ctx, const struct et_evalue *value, int64_t n)
{
	ET_REQUIRE(ctx, et_is_none(value) || et_tensor_numel(value->tensor) == (size_t)n,
		"%zu numbers for %lld channels", et_is_none(value) ? 0 : et_tensor_numel(value->tensor), (long long)n);
	ET_REQUIRE(ctx, et_is_none(value) || et_loader(value->tensor->type, ET_F64),
		"does not take numbers for channels that are %s", et_scalar_name(value->tensor->type));
	return ET_OK;
}

/* For fp16 and bf16, each operation but the last is rounded here, as in ExecuTorch; the last one is rounded when it is
 * stored. */
ET_EXPANDED float normalize_one(float x, float mean, float invstd, float weight, float bias,
	const enum et_scalar_type type)
{
	float value = et_round_half(x - mean, type);
	value = et_round_half(value * invstd, type);
	return et_round_half(value * weight, type) + bias;
}

ET_EXPANDED void normalize_as(struct et_span *span, const enum et_scalar_type type)
{
	const float *const *in = (const float *const *)span->in;
	const float *x = in[0], *mean = in[1], *invstd = in[2], *weight = in[3], *bias = in[4];
	float *out = span->out;
	ET_INDEPENDENT
	for (size_t i = 0, n = span->n; i < n; i++)
		out[i] = normalize_one(x[i], mean[i], invstd[i], weight[i], bias[i], type);
}

static void normalize_rounded(struct et_span *span)
{
	if (span->common == ET_BFLOAT16)
		normalize_as(span, ET_BFLOAT16);
	else
		normalize_as(span, ET_FLOAT16);
}

/* The number of per-channel operands: factor and shift; or, for fp16 and bf16, mean, 1 / deviation, weight and bias. */
enum { NUMBERS = 4 };

/* For row-major tensors of float or double: one plane after another, each with its channel's factor and shift. */
struct planes_job {
	const void *x;
	void *out;
	const void *factors, *shifts; /* arrays of x's type */
	size_t n_channels, inner;
};

#define SCALE_PLANES(name, type)                                                                                     \
	static void name(void *arg, size_t begin, size_t end)                                                        \
	{                                                                                                            \
		const struct planes_job *job = arg;                                                                  \
		const size_t inner = job->inner;                                                                     \
		for (size_t plane = begin, c = begin % job->n_channels; plane < end; plane++) {                      \
			const type *x = (const type *)job->x + plane * inner;                                        \
			type *out = (type *)job->out + plane * inner;                                                \
			const type factor = ((const type *)job->factors)[c], shift = ((const type *)job->shifts)[c]; \
			ET_INDEPENDENT                                                                               \
			for (size_t i = 0; i < inner; i++)                                                           \
				out[i] = x[i] * factor + shift;                                                      \
			c = c + 1 < job->n_channels ? c + 1 : 0;                                                     \
		}                                                                                                    \
	}
SCALE_PLANES(scale_floats, float)
SCALE_PLANES(scale_doubles, double)

/* @numbers, one for each channel, as a tensor that broadcasts; double or float. */
static struct et_tensor per_channel(const void *numbers, bool is_double, int32_t *sizes, int32_t *strides,
	size_t n_dims)
{
	return (struct et_tensor){
		.data = (void *)numbers,
		.sizes = sizes,
		.strides = strides,
		.type = is_double ? ET_FLOAT64 : ET_FLOAT32,
		.n_dims = (uint8_t)n_dims,
	};
}

/* out = (x - mean) / sqrt(var + eps) * weight + bias, each with one number for each channel. */
static enum et_status scale_channels(struct et_kernel_ctx *ctx, const struct et_tensor *x,
	const struct et_evalue *weight, const struct et_evalue *bias, const double *mean, const double *invstd,
	struct et_tensor *out)
{
	static const struct et_elementwise scale_op = { ET_ELEMENTWISE_SAME, ET_FLOATS(scale_shift), .promotes = 1 };
	static const struct et_elementwise rounded_op = { ET_ELEMENTWISE_SAME, { normalize_rounded }, .promotes = 1 };
	int32_t sizes[ET_MAX_DIMS], strides[ET_MAX_DIMS];
	size_t channel_dim = x->n_dims >= 2 ? 1 : 0, n_dims = x->n_dims - channel_dim;
	size_t n = (size_t)x->sizes[channel_dim], numel = et_tensor_numel(x);
	bool is_double = x->type == ET_FLOAT64, is_half = et_type_is_half(x->type);
	size_t n_numbers = is_half ? NUMBERS : 2;
	bool is_plain = (x->type == ET_FLOAT32 || is_double) && out->type == x->type && x->n_dims >= 3 &&
			et_dim_order_is_contiguous(x->dim_order, x->n_dims) &&
			et_dim_order_is_contiguous(out->dim_order, out->n_dims);
	double *room = et_kernel_scratch(ctx, (2 + NUMBERS) * n * sizeof(*room) + 1);
	if (!room)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	double *weights = room, *biases = room + n;
	load_numbers(et_is_none(weight) ? NULL : weight->tensor, 0, n, 1, weights);
	load_numbers(et_is_none(bias) ? NULL : bias->tensor, 0, n, 0, biases);
	for (size_t c = 0; !is_half && c < n; c++) {
		weights[c] *= invstd[c];
		biases[c] -= mean[c] * weights[c];
	}
	const double *of_half[] = { mean, invstd, weights, biases };
	const void *numbers[NUMBERS] = { weights, biases };
	for (size_t k = 0; k < n_numbers && !is_double; k++) {
		numbers[k] = room + (2 + k) * n;
		et_storer(ET_FLOAT32, ET_F64)(room + (2 + k) * n, 1, of_half[is_half ? k : 2 + k], n);
	}
	if (is_plain) {
		ET_TRY(et_resize_like(ctx, out, x));
		struct planes_job job = { x->data, out->data, numbers[0], numbers[1], .n_channels = n, .inner = 1 };
		for (size_t d = 2; d < x->n_dims; d++)
			job.inner *= (size_t)x->sizes[d];
		if (numel)
			et_parallel_for(ctx->compute, is_double ? scale_doubles : scale_floats, &job,
				(size_t)x->sizes[0] * n, 16384 / job.inner + 1);
		return ET_OK;
	}
	for (size_t d = 0; d < n_dims; d++) {
		sizes[d] = d ? 1 : (int32_t)n;
		strides[d] = 1;
	}
	struct et_tensor tensors[NUMBERS];
	struct et_evalue values[1 + NUMBERS] = { { .tag = ET_TAG_TENSOR, .tensor = (struct et_tensor *)x } };
	const struct et_evalue *operands[1 + NUMBERS] = { &values[0] };
	for (size_t k = 0; k < n_numbers; k++) {
		tensors[k] = per_channel(numbers[k], is_double, sizes, strides, n_dims);
		values[1 + k] = (struct et_evalue){ .tag = ET_TAG_TENSOR, .tensor = &tensors[k] };
		operands[1 + k] = &values[1 + k];
	}
	return et_elementwise_apply(ctx, is_half ? &rounded_op : &scale_op, operands, 1 + n_numbers, out);
}

/* Replace variances by 1 / deviation. */
static void invert_deviations(const struct et_tensor *x, double *numbers, size_t n, double eps)
{
	for (size_t c = 0; c < n; c++)
		numbers[c] = 1 / sqrt(numbers[c] + eps);
	for (size_t c = 0; c < n && et_type_is_half(x->type); c++)
		numbers[c] = et_half_or_exact(x, numbers[c]);
}

static enum et_status batch_norm(struct et_kernel_ctx *ctx, struct et_evalue *const *args, double eps,
	struct et_evalue *const *outs)
{
	const struct et_tensor *x = args[0]->tensor;
	int64_t n;
	ET_REQUIRE(ctx, x->n_dims >= 1, "the input has no dimensions");
	n = x->sizes[x->n_dims >= 2 ? 1 : 0];
	for (size_t k = 1; k <= 4; k++)
		ET_TRY(require_channels(ctx, args[k], n));
	double *mean = et_kernel_scratch(ctx, 2 * (size_t)n * sizeof(*mean) + 1);
	if (!mean)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	double *invstd = mean + n;
	load_numbers(args[3]->tensor, 0, (size_t)n, 0, mean);
	load_numbers(args[4]->tensor, 0, (size_t)n, 0, invstd);
	invert_deviations(x, invstd, (size_t)n, eps);
	ET_TRY(et_resize(ctx, outs[1]->tensor, (const int64_t[]){ 0 }, 1));
	ET_TRY(et_resize(ctx, outs[2]->tensor, (const int64_t[]){ 0 }, 1));
	return scale_channels(ctx, x, args[1], args[2], mean, invstd, outs[0]->tensor);
}

static enum et_status run_batch_norm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return batch_norm(ctx, args, args[6]->d, args + 7);
}

static enum et_status run_batch_norm_legit(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_REQUIRE(ctx, !args[5]->b, "training is not supported");
	return batch_norm(ctx, args, args[7]->d, args + 8);
}

static bool is_f32(const struct et_tensor *tensor)
{
	return !tensor || (tensor->type == ET_FLOAT32 && (uintptr_t)tensor->data % sizeof(float) == 0);
}

static const uint8_t row_major_order[ET_MAX_DIMS] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

/* A row-major copy of a tensor in another dim order. */
struct row_major {
	struct et_tensor tensor;
	int32_t strides[ET_MAX_DIMS];
};

static enum et_status copy_row_major(struct et_kernel_ctx *ctx, struct et_tensor **tensor, bool is_input,
	struct row_major *copy)
{
	struct et_tensor *from = *tensor;
	copy->tensor = *from;
	copy->tensor.dim_order = row_major_order;
	copy->tensor.strides = copy->strides;
	et_dim_order_to_strides(from->sizes, row_major_order, from->n_dims, copy->strides);
	copy->tensor.data = et_kernel_scratch(ctx, et_tensor_n_bytes(from) + 1);
	if (!copy->tensor.data)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	if (is_input) {
		struct et_view to, view;
		et_view_of(&to, &copy->tensor);
		et_view_of(&view, from);
		et_view_copy(ctx->compute, &to, &view);
	}
	*tensor = &copy->tensor;
	return ET_OK;
}

/* *@tensor itself if it is row-major, otherwise a tensor in @copy; its elements are copied only if @is_input. */
static inline enum et_status make_row_major(struct et_kernel_ctx *ctx, struct et_tensor **tensor, bool is_input,
	struct row_major *copy)
{
	return et_dim_order_is_contiguous((*tensor)->dim_order, (*tensor)->n_dims)
		       ? ET_OK
		       : copy_row_major(ctx, tensor, is_input, copy);
}

/* Copy a result that was computed into a row-major copy to the output. */
static void copy_back(struct et_kernel_ctx *ctx, const struct et_tensor *from, struct et_tensor *out)
{
	struct et_view to, view;
	if (from == out)
		return;
	et_view_of(&to, out);
	et_view_of(&view, from);
	et_view_copy(ctx->compute, &to, &view);
}

/* Batch norm with the statistics of the batch itself. */
static enum et_status run_batch_norm_no_stats(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *x = args[0]->tensor, *mean_out = args[7]->tensor, *invstd_out = args[8]->tensor;
	struct row_major copy;
	double few[BLOCK];
	ET_REQUIRE(ctx, x->n_dims >= 2, "the input has %u dimensions", x->n_dims);
	ET_REQUIRE(ctx, et_loader(x->type, ET_F64), "does not take %s", et_scalar_name(x->type));
	ET_REQUIRE(ctx, et_storer(mean_out->type, ET_F64) && et_storer(invstd_out->type, ET_F64),
		"cannot store mean and deviation");
	int64_t channels = x->sizes[1];
	ET_TRY(require_channels(ctx, args[1], channels));
	ET_TRY(require_channels(ctx, args[2], channels));
	ET_TRY(et_resize(ctx, mean_out, &channels, 1));
	ET_TRY(et_resize(ctx, invstd_out, &channels, 1));
	size_t n = (size_t)channels, batch = (size_t)x->sizes[0], numel = et_tensor_numel(x);
	size_t inner = 1;
	for (size_t d = 2; d < x->n_dims; d++)
		inner *= (size_t)x->sizes[d];
	batch = numel ? batch : 0; /* there may be any number of empty planes */
	double *mean = et_kernel_scratch(ctx, 2 * n * sizeof(*mean) + 1);
	if (!mean)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	double *invstd = mean + n;
	ET_TRY(make_row_major(ctx, &x, true, &copy));
	struct et_batch all = { x->data, x->type, batch, n, inner };
	if (numel <= BLOCK) { /* converted at once */
		et_loader(x->type, ET_F64)(few, x->data, 1, numel);
		all.data = (const uint8_t *)few;
		all.type = ET_FLOAT64;
	}
	for (size_t c = 0; c < n; c++)
		et_channel_moments(&all, x, c, &mean[c], &invstd[c]);
	invert_deviations(x, invstd, n, args[5]->d);
	et_storer(mean_out->type, ET_F64)(mean_out->data, 1, mean, n);
	et_storer(invstd_out->type, ET_F64)(invstd_out->data, 1, invstd, n);
	return scale_channels(ctx, args[0]->tensor, args[1], args[2], mean, invstd, args[6]->tensor);
}

/* --- layer and group norm ---------------------------------------------------------------------------- */

/* Dense rows; element i of row r uses weight and bias number (r * row_step + i / run) % period. */
struct rows_job {
	const struct et_compute *compute;
	const struct et_tensor *weight, *bias;
	struct et_tensor *x, *out, *mean, *rstd;
	size_t n, run, period, row_step;
	double eps;
	bool is_group; /* group norm */
};

/* et_add_moments for a row of any length. */
static void add_row_moments(const struct rows_job *job, struct et_pace *pace, const uint8_t *row, double *sum,
	double *squares, double center)
{
	const struct et_tensor *x = job->x;
	for (size_t done = 0, n; done < job->n && !et_pace_must_stop(pace, LONG_ROW); done += n) {
		n = job->n - done < LONG_ROW ? job->n - done : LONG_ROW;
		et_add_moments(row + done * et_element_bytes(x), x->type, n, sum, squares, center);
	}
}

static void norm_row(const struct rows_job *job, struct et_pace *pace, size_t row)
{
	double in[BLOCK], out[BLOCK];
	const struct et_tensor *x = job->x;
	const uint8_t *data = (const uint8_t *)x->data + row * job->n * et_element_bytes(x);
	uint8_t *to = (uint8_t *)job->out->data + row * job->n * et_element_bytes(job->out);
	double sum = 0, squares = 0;
	add_row_moments(job, pace, data, &sum, NULL, 0);
	double mean = job->n ? sum / (double)job->n : 0;
	add_row_moments(job, pace, data, NULL, &squares, mean);
	double rstd = job->n ? 1 / sqrt(squares / (double)job->n + job->eps) : NAN;
	bool is_plain = !job->is_group && job->run == 1 && job->row_step == 0 && job->period == job->n;
	for (size_t done = 0; done < job->n && !et_pace_must_stop(pace, BLOCK);) {
		size_t part = job->n - done < BLOCK ? job->n - done : BLOCK;
		et_loader(x->type, ET_F64)(in, data + done * et_element_bytes(x), 1, part);
		if (is_plain) {
			double factors[BLOCK], shifts[BLOCK];
			load_numbers(job->weight, done, part, 1, factors);
			load_numbers(job->bias, done, part, 0, shifts);
			for (size_t k = 0; k < part; k++)
				out[k] = (in[k] - mean) * rstd * factors[k] + shifts[k];
		}
		for (size_t i = 0, end; !is_plain && i < part; i = end) {
			/* Until weight and bias change. */
			size_t at = (row * job->row_step + (done + i) / job->run) % job->period;
			double factor = job->weight ? element(job->weight, at) : 1;
			double shift = job->bias ? element(job->bias, at) : 0;
			end = i + job->run - (done + i) % job->run;
			end = end < part ? end : part;
			/* Both are equal except for infinities; each is ExecuTorch's way for its operator. */
			if (job->is_group && (job->weight || job->bias)) {
				double scale = rstd * factor, rest = shift - scale * mean;
				for (size_t k = i; k < end; k++)
					out[k] = in[k] * scale + rest;
			} else {
				for (size_t k = i; k < end; k++)
					out[k] = (in[k] - mean) * rstd * factor + shift;
			}
		}
		et_storer(job->out->type, ET_F64)(to + done * et_element_bytes(job->out), 1, out, part);
		done += part;
	}
	et_element_set_double((uint8_t *)job->mean->data + row * et_element_bytes(job->mean), job->mean->type, mean);
	et_element_set_double((uint8_t *)job->rstd->data + row * et_element_bytes(job->rstd), job->rstd->type, rstd);
}

/* Rows of which several fit in a block: like norm_row, but each number is loaded once, many rows in one call, and the
 * weights once for all rows. A layer norm of 128 rows of 192 fp16 numbers, which is the width of ViT-Tiny, takes 1.4
 * times as long without this function; 65,536 rows of 3 floats take 2.7 times as long. */
static void norm_short_rows(const struct rows_job *job, size_t begin, size_t end)
{
	double x[BLOCK], factors[BLOCK], shifts[BLOCK], means[BLOCK], rstds[BLOCK];
	const size_t n = job->n, x_bytes = et_element_bytes(job->x), out_bytes = et_element_bytes(job->out);
	const size_t most = BLOCK / n;
	const double part = 1 / (double)n; /* a division would take most of the time of a short row */
	const bool is_scaled = job->weight || job->bias;
	load_numbers(job->weight, 0, job->period, 1, factors);
	load_numbers(job->bias, 0, job->period, 0, shifts);
	for (size_t row = begin, n_rows; row < end; row += n_rows) {
		n_rows = end - row < most ? end - row : most;
		et_loader(job->x->type, ET_F64)(x, (const uint8_t *)job->x->data + row * n * x_bytes, 1, n_rows * n);
		for (size_t i = 0; i < n_rows; i++) {
			const double *of = x + i * n;
			means[i] = et_sum_few(of, n) * part;
			rstds[i] = et_squares_few(of, n, means[i]) * part + job->eps;
		}
		for (size_t i = 0; i < n_rows; i++) /* a loop of its own, so that it vectorizes */
			rstds[i] = 1 / sqrt(rstds[i]);
		for (size_t i = 0; i < n_rows; i++) {
			double *to = x + i * n, mean = means[i], rstd = rstds[i];
			for (size_t k = 0; k < n && !job->is_group; k++)
				to[k] = (to[k] - mean) * rstd * factors[k] + shifts[k];
			for (size_t k = 0, c = (row + i) * job->row_step % job->period; k < n && job->is_group; c++) {
				/* as in norm_row */
				double scale = rstd * factors[c], rest = shifts[c] - scale * mean;
				for (size_t run_end = k + job->run; k < run_end; k++)
					to[k] = is_scaled ? to[k] * scale + rest : (to[k] - mean) * rstd;
			}
		}
		et_storer(job->out->type, ET_F64)((uint8_t *)job->out->data + row * n * out_bytes, 1, x, n_rows * n);
		et_storer(job->mean->type, ET_F64)((uint8_t *)job->mean->data + row * et_element_bytes(job->mean), 1,
			means, n_rows);
		et_storer(job->rstd->type, ET_F64)((uint8_t *)job->rstd->data + row * et_element_bytes(job->rstd), 1,
			rstds, n_rows);
	}
}

static bool is_f64(const struct et_tensor *tensor)
{
	return !tensor || (tensor->type == ET_FLOAT64 && (uintptr_t)tensor->data % sizeof(double) == 0);
}

/* Layer norm of double. */
static void norm_row_f64(struct rows_job *job, size_t row)
{
	size_t n = job->n;
	const double *x = (const double *)job->x->data + row * n;
	const double *weight = job->weight ? job->weight->data : NULL, *bias = job->bias ? job->bias->data : NULL;
	double *out = (double *)job->out->data + row * n, sum = 0, squares = 0;
	et_add_doubles(x, n, &sum, NULL, 0);
	double mean = sum / (double)n;
	et_add_doubles(x, n, NULL, &squares, mean);
	double rstd = 1 / sqrt(squares / (double)n + job->eps);
	if (weight && bias) {
		ET_INDEPENDENT
		for (size_t i = 0; i < n; i++)
			out[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
	} else {
		for (size_t i = 0; i < n; i++)
			out[i] = (x[i] - mean) * rstd * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);
	}
	((double *)job->mean->data)[row] = mean;
	((double *)job->rstd->data)[row] = rstd;
}

/* Layer norm of float, by far the most frequent: sums in double, everything else in float. */
static void norm_row_f32(struct rows_job *job, size_t row)
{
	const float *x = (const float *)job->x->data + row * job->n;
	const float *weight = job->weight ? job->weight->data : NULL, *bias = job->bias ? job->bias->data : NULL;
	float *out = (float *)job->out->data + row * job->n;
	size_t n = job->n;
	const struct et_ukernels *ukernels = et_ukernels();
	double mean = ukernels->sum(n, x) / (double)n;
	double rstd = 1 / sqrt(ukernels->squares(n, x, mean) / (double)n + job->eps);
	float factor = (float)rstd, center = (float)mean;
	if (weight && bias)
		ukernels->normalize(n, out, x, center, factor, weight, bias);
	for (size_t i = 0; i < n && !(weight && bias); i++)
		out[i] = (x[i] - center) * factor;
	for (size_t i = 0; i < n && weight && !bias; i++)
		out[i] *= weight[i];
	for (size_t i = 0; i < n && bias && !weight; i++)
		out[i] += bias[i];
	((float *)job->mean->data)[row] = (float)mean;
	((float *)job->rstd->data)[row] = (float)rstd;
}

/* Group norm of float: one factor and one shift for each run of elements. */
static void norm_group_f32(struct rows_job *job, size_t row)
{
	const float *x = (const float *)job->x->data + row * job->n;
	float *out = (float *)job->out->data + row * job->n;
	const struct et_ukernels *ukernels = et_ukernels();
	double mean = ukernels->sum(job->n, x) / (double)job->n;
	double rstd = 1 / sqrt(ukernels->squares(job->n, x, mean) / (double)job->n + job->eps);
	const float *weights = job->weight ? job->weight->data : NULL, *biases = job->bias ? job->bias->data : NULL;
	const size_t n = job->n, run = job->run, period = job->period;
	/* The formula decides the result for infinities, as in norm_row. */
	const bool is_scaled = weights || biases;
	for (size_t done = 0, at = row * job->row_step % period; done < n;
		done += run, at = at + 1 < period ? at + 1 : 0) {
		double weight = weights ? (double)weights[at] : 1;
		double bias = biases ? (double)biases[at] : 0;
		float factor = (float)(rstd * weight), center = is_scaled ? 0 : (float)mean;
		float shift = is_scaled ? (float)(bias - rstd * weight * mean) : 0;
		ET_INDEPENDENT
		for (size_t i = 0; i < run; i++)
			out[done + i] = (x[done + i] - center) * factor + shift;
	}
	((float *)job->mean->data)[row] = (float)mean;
	((float *)job->rstd->data)[row] = (float)rstd;
}

static void norm_rows(void *arg, size_t begin, size_t end)
{
	enum { FEW = 24 }; /* for more floats or doubles, computing rows one by one is faster */
	struct rows_job *job = arg;
	bool is_float = job->n && is_f32(job->x) && is_f32(job->out) && is_f32(job->weight) && is_f32(job->bias) &&
			is_f32(job->mean) && is_f32(job->rstd);
	bool has_rows = !job->is_group && job->run == 1 && job->row_step == 0 && job->period == job->n;
	bool is_plain = is_float && has_rows;
	bool is_double = has_rows && job->n && is_f64(job->x) && is_f64(job->out) && is_f64(job->weight) &&
			 is_f64(job->bias) && is_f64(job->mean) && is_f64(job->rstd);
	if ((has_rows || job->is_group) && job->n && job->n <= (is_float || is_double ? FEW : BLOCK) &&
		job->period <= BLOCK) {
		norm_short_rows(job, begin, end);
		return;
	}
	struct et_pace pace = { job->compute };
	for (size_t row = begin; row < end; row++) {
		const bool is_long = job->n > LONG_ROW;
		if (is_plain && !is_long)
			norm_row_f32(job, row);
		else if (is_double && !is_long)
			norm_row_f64(job, row);
		else if (is_float && job->is_group && !is_long)
			norm_group_f32(job, row);
		else
			norm_row(job, &pace, row);
	}
}

static enum et_status run_rows(struct et_kernel_ctx *ctx, const struct rows_job *job, size_t n_rows)
{
	ET_REQUIRE(ctx, et_type_is_float(job->x->type), "does not take %s", et_scalar_name(job->x->type));
	ET_TRY(et_require_same_type(ctx, job->x, job->out));
	ET_REQUIRE(ctx, et_storer(job->mean->type, ET_F64) && et_storer(job->rstd->type, ET_F64),
		"cannot store mean and deviation");
	struct rows_job plain = *job;
	plain.compute = ctx->compute;
	struct row_major copies[4];
	ET_TRY(make_row_major(ctx, &plain.x, true, &copies[0]));
	ET_TRY(make_row_major(ctx, &plain.out, false, &copies[1]));
	ET_TRY(make_row_major(ctx, &plain.mean, false, &copies[2]));
	ET_TRY(make_row_major(ctx, &plain.rstd, false, &copies[3]));
	et_parallel_for(ctx->compute, norm_rows, &plain, n_rows, 16384 / (job->n + 1) + 1);
	copy_back(ctx, plain.out, job->out);
	copy_back(ctx, plain.mean, job->mean);
	copy_back(ctx, plain.rstd, job->rstd);
	return ET_OK;
}

static enum et_status run_layer_norm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *x = args[0]->tensor;
	size_t n_normalized = et_list_len(args[1]), n_rows = 1, leading;
	int64_t sizes[ET_MAX_DIMS];
	struct rows_job job = {
		.x = x,
		.weight = et_is_none(args[2]) ? NULL : args[2]->tensor,
		.bias = et_is_none(args[3]) ? NULL : args[3]->tensor,
		.out = args[5]->tensor,
		.mean = args[6]->tensor,
		.rstd = args[7]->tensor,
		.n = 1,
		.run = 1,
		.eps = args[4]->d,
	};
	ET_REQUIRE(ctx, n_normalized >= 1 && n_normalized <= x->n_dims, "%zu normalized dimensions of %u", n_normalized,
		x->n_dims);
	leading = x->n_dims - n_normalized;
	for (size_t d = 0; d < x->n_dims; d++) {
		sizes[d] = d < leading ? x->sizes[d] : 1;
		if (d < leading)
			n_rows *= (size_t)x->sizes[d];
		else
			job.n *= (size_t)x->sizes[d];
		ET_REQUIRE(ctx, d < leading || et_list_int(args[1], d - leading) == x->sizes[d],
			"size %d in dimension %zu differs from the normalized shape", x->sizes[d], d);
	}
	job.period = job.n ? job.n : 1;
	ET_TRY(require_channels(ctx, args[2], (int64_t)job.n));
	ET_TRY(require_channels(ctx, args[3], (int64_t)job.n));
	ET_TRY(et_resize_like(ctx, job.out, x));
	ET_TRY(et_resize(ctx, job.mean, sizes, x->n_dims));
	ET_TRY(et_resize(ctx, job.rstd, sizes, x->n_dims));
	return run_rows(ctx, &job, n_rows);
}

static enum et_status run_group_norm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *x = args[0]->tensor;
	int64_t n = args[3]->i, channels = args[4]->i, inner = args[5]->i, groups = args[6]->i;
	size_t n_planes, numel;
	struct rows_job job = {
		.x = x,
		.weight = et_is_none(args[1]) ? NULL : args[1]->tensor,
		.bias = et_is_none(args[2]) ? NULL : args[2]->tensor,
		.out = args[8]->tensor,
		.mean = args[9]->tensor,
		.rstd = args[10]->tensor,
		.eps = args[7]->d,
		.is_group = true,
	};
	ET_REQUIRE(ctx, x->n_dims >= 2 && x->sizes[0] == n && x->sizes[1] == channels, "the input is not %lld by %lld",
		(long long)n, (long long)channels);
	ET_REQUIRE(ctx, groups > 0 && channels % groups == 0, "%lld groups of %lld channels", (long long)groups,
		(long long)channels);
	ET_REQUIRE(ctx,
		inner >= 0 && et_mul((size_t)n, (size_t)channels, &n_planes) &&
			et_mul(n_planes, (size_t)inner, &numel) && numel == et_tensor_numel(x),
		"%zu elements are not %lld times %lld times %lld", et_tensor_numel(x), (long long)n,
		(long long)channels, (long long)inner);
	ET_TRY(require_channels(ctx, args[1], channels));
	ET_TRY(require_channels(ctx, args[2], channels));
	job.row_step = (size_t)(channels / groups);
	job.run = inner ? (size_t)inner : 1;
	job.n = job.row_step * (size_t)inner;
	job.period = channels ? (size_t)channels : 1;
	ET_TRY(et_resize_like(ctx, job.out, x));
	ET_TRY(et_resize(ctx, job.mean, (const int64_t[]){ n, groups }, 2));
	ET_TRY(et_resize(ctx, job.rstd, (const int64_t[]){ n, groups }, 2));
	return run_rows(ctx, &job, (size_t)(n * groups));
}

static const struct et_kernel rows[] = {
	{ "aten::_native_batch_norm_legit.no_stats_out", "TttBDD>TTT", run_batch_norm_no_stats },
	{ "aten::_native_batch_norm_legit.out", "TttTTBDD>TTT", run_batch_norm_legit },
	{ "aten::_native_batch_norm_legit_no_training.out", "TttTTDD>TTT", run_batch_norm },
	{ "aten::native_group_norm.out", "TttIIIID>TTT", run_group_norm },
	{ "aten::native_layer_norm.out", "TVttD>TTT", run_layer_norm },
};

ET_KERNEL_TABLE(norm);
