/* SPDX-License-Identifier: BSD-3-Clause */
/* convolution_backward: the gradients of a convolution's input, weight and bias.
 *
 * It is the only training operator besides max pooling's. All is computed in double, row by row for each position of
 * the kernel. Transposed convolutions are refused, as in ExecuTorch. */
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/kernels/engine/index_copy.h"
#include "runtime/kernels/kernels.h"

struct backward {
	int64_t n_batch, n_groups, in_channels, out_channels; /* channels of one group */
	int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
	const double *grad, *x, *weight;          /* row-major */
	double *grad_x, *grad_weight, *grad_bias; /* NULL: not wanted */
	const struct et_compute *compute;
};

/* The outputs [first, end) for which kernel position @k of dimension @d lies inside the input. */
static void find_inside(const struct backward *b, size_t d, int64_t k, int64_t *ret_first, int64_t *ret_end)
{
	const int64_t stride = b->stride[d], from = k * b->dilation[d] - b->padding[d], last = b->in[d] - 1 - from;
	const int64_t end = last < 0 ? 0 : last / stride + 1;
	*ret_first = from < 0 ? (stride - 1 - from) / stride : 0;
	*ret_end = end < b->out[d] ? end : b->out[d];
}

static double sum_products(const double *a, const double *b, int64_t step, int64_t n)
{
	enum { LANES = 4 };
	typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
	lanes sums = { 0 }, left, right;
	double sum = 0;
	int64_t i = 0;
	for (; step == 1 && i + LANES <= n; i += LANES) {
		memcpy(&left, a + i, sizeof(left));
		memcpy(&right, b + i, sizeof(right));
		sums += left * right;
	}
	for (; i < n; i++)
		sum += a[i] * b[i * step];
	return sum + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* Add the contributions of a row of @n outputs of each channel of a group. @grad: the first channel's gradients;
 * @pixel: the offset of the row's first input; @factor: the offset of the first channel's weight. */
static void add_row(const struct backward *b, const double *grad, int64_t pixel, int64_t factor, int64_t n)
{
	const int64_t plane = b->out[0] * b->out[1], filter = b->in_channels * b->kernel[0] * b->kernel[1],
		      step = b->stride[1];
	if (b->grad_x && step == 1)
		et_span_ukernels()->weigh_double_rows((size_t)n, b->grad_x + pixel, (size_t)b->out_channels, grad,
			plane, b->weight + factor, filter);
	for (int64_t i = 0; i < b->out_channels; i++, grad += plane, factor += filter) {
		for (int64_t w = 0; b->grad_x && step != 1 && w < n; w++)
			b->grad_x[pixel + w * step] += grad[w] * b->weight[factor];
		if (b->grad_weight)
			b->grad_weight[factor] += sum_products(grad, b->x + pixel, step, n);
	}
}

/* One input channel of one batch item and one position of the kernel. */
static void add_gradients(const struct backward *b, struct et_pace *pace, int64_t n, int64_t channel, int64_t kh,
	int64_t kw)
{
	const int64_t group = channel / b->in_channels, c = channel % b->in_channels,
		      first_out = group * b->out_channels, channels = b->n_groups * b->out_channels;
	int64_t h, w, end_h, end_w;
	find_inside(b, 0, kh, &h, &end_h);
	find_inside(b, 1, kw, &w, &end_w);
	for (; h < end_h && w < end_w && !et_pace_must_stop(pace, (size_t)(b->out_channels * (end_w - w))); h++) {
		const int64_t at_h = h * b->stride[0] - b->padding[0] + kh * b->dilation[0],
			      at_w = w * b->stride[1] - b->padding[1] + kw * b->dilation[1];
		add_row(b, b->grad + ((n * channels + first_out) * b->out[0] + h) * b->out[1] + w,
			((n * b->n_groups * b->in_channels + channel) * b->in[0] + at_h) * b->in[1] + at_w,
			((first_out * b->in_channels + c) * b->kernel[0] + kh) * b->kernel[1] + kw, end_w - w);
	}
}

static void run_backward(const struct backward *b)
{
	const int64_t channels = b->n_groups * b->out_channels, in_channels = b->n_groups * b->in_channels,
		      plane = b->out[0] * b->out[1], kernel = b->kernel[0] * b->kernel[1];
	if (b->n_batch * channels * plane == 0) /* however many batch items there are */
		return;
	struct et_pace pace = { b->compute };
	for (int64_t i = 0; i < b->n_batch * in_channels * kernel && !et_pace_must_stop(&pace, 1); i++)
		add_gradients(b, &pace, i / kernel / in_channels, i / kernel % in_channels, i % kernel / b->kernel[1],
			i % b->kernel[1]);
	for (int64_t i = 0; b->grad_bias && i < b->n_batch * channels && !et_pace_must_stop(&pace, (size_t)plane);
		i++) {
		for (int64_t k = 0; k < plane; k++)
			b->grad_bias[i % channels] += b->grad[i * plane + k];
	}
}

/* Zeroed doubles with the sizes of @like. */
static double *new_gradient(struct et_kernel_ctx *ctx, const struct et_tensor *like, struct et_view *ret_view)
{
	double *gradient = et_local_copy(ctx, like, ET_FLOAT64, ret_view);
	if (gradient)
		memset(gradient, 0, et_tensor_numel(like) * sizeof(*gradient));
	return gradient;
}

/* grad, input, weight, bias sizes or None, stride, padding, dilation, transposed, output padding, groups, output mask >
 * gradients of input, weight, bias */
static enum et_status run_convolution_backward(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *grad = args[0]->tensor, *x = args[1]->tensor, *weight = args[2]->tensor;
	struct et_tensor *out_x = args[11]->tensor, *out_weight = args[12]->tensor, *out_bias = args[13]->tensor;
	struct et_view view, view_x, view_weight, view_bias;
	int64_t groups = args[9]->i, channels;
	struct backward b = { .n_groups = groups,
		.in = { 1, 1 },
		.out = { 1, 1 },
		.kernel = { 1, 1 },
		.stride = { 1, 1 },
		.dilation = { 1, 1 },
		.compute = ctx->compute };
	size_t n_space = (size_t)x->n_dims - 2;
	ET_REQUIRE(ctx, !args[7]->b, "transposed convolution is not supported");
	ET_REQUIRE(ctx, (x->n_dims == 3 || x->n_dims == 4) && weight->n_dims == x->n_dims && grad->n_dims == x->n_dims,
		"ranks %u, %u and %u", grad->n_dims, x->n_dims, weight->n_dims);
	ET_REQUIRE(ctx, args[10]->tag == ET_TAG_BOOL_LIST && args[10]->list->n == 3,
		"the output mask must have three bools");
	ET_TRY(et_require_same_type(ctx, grad, x));
	ET_TRY(et_require_same_type(ctx, x, weight));
	ET_REQUIRE(ctx, et_type_is_float(x->type), "does not take %s", et_scalar_name(x->type));
	b.n_batch = x->sizes[0];
	channels = weight->sizes[0];
	ET_REQUIRE(ctx,
		groups > 0 && channels % groups == 0 && x->sizes[1] % groups == 0 &&
			weight->sizes[1] == x->sizes[1] / groups,
		"%lld groups of %d and %d channels", (long long)groups, x->sizes[1], weight->sizes[0]);
	ET_REQUIRE(ctx, grad->sizes[0] == x->sizes[0] && grad->sizes[1] == weight->sizes[0],
		"the gradient's sizes differ from the output's");
	b.in_channels = weight->sizes[1];
	b.out_channels = channels / groups;
	for (size_t d = 0; d < n_space; d++) {
		size_t at = 2 - n_space + d;
		b.in[at] = x->sizes[2 + d];
		b.out[at] = grad->sizes[2 + d];
		b.kernel[at] = weight->sizes[2 + d];
		b.stride[at] = et_list_int_or(args[4], d, 1);
		b.padding[at] = et_list_int_or(args[5], d, 0);
		b.dilation[at] = et_list_int_or(args[6], d, 1);
		ET_REQUIRE(ctx,
			b.stride[at] > 0 && b.stride[at] < INT32_MAX && b.dilation[at] > 0 &&
				b.dilation[at] < INT32_MAX && b.padding[at] >= 0 && b.padding[at] < INT32_MAX,
			"stride %lld, padding %lld, dilation %lld", (long long)b.stride[at], (long long)b.padding[at],
			(long long)b.dilation[at]);
	}
	b.grad = et_local_copy(ctx, grad, ET_FLOAT64, &view);
	b.x = et_local_copy(ctx, x, ET_FLOAT64, &view);
	b.weight = et_local_copy(ctx, weight, ET_FLOAT64, &view);
	if (!b.grad || !b.x || !b.weight)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	const uint8_t *wanted = args[10]->list->bools;
	if ((wanted[0] && !(b.grad_x = new_gradient(ctx, x, &view_x))) ||
		(wanted[1] && !(b.grad_weight = new_gradient(ctx, weight, &view_weight))))
		return ET_E_MEMORY_ALLOCATION_FAILED;
	if (wanted[2]) {
		b.grad_bias = et_kernel_scratch(ctx, (size_t)channels * sizeof(double) + 1);
		if (!b.grad_bias)
			return ET_E_MEMORY_ALLOCATION_FAILED;
		memset(b.grad_bias, 0, (size_t)channels * sizeof(double));
		et_view_begin(&view_bias, b.grad_bias, ET_FLOAT64);
		et_view_insert(&view_bias, 0, channels, 1);
	}
	run_backward(&b);
	if (wanted[0])
		ET_TRY(et_cast_view_to_output(ctx, &view_x, out_x));
	if (wanted[1])
		ET_TRY(et_cast_view_to_output(ctx, &view_weight, out_weight));
	if (wanted[2])
		ET_TRY(et_cast_view_to_output(ctx, &view_bias, out_bias));
	/* An output that is not wanted is zeroed, because its memory may still hold another client's data. */
	for (size_t k = 0; k < 3; k++) {
		struct et_tensor *out = args[11 + k]->tensor;
		if (!wanted[k])
			et_fill_many(ctx->compute, out->data, &(const uint8_t){ 0 }, et_tensor_n_bytes(out), 1);
	}
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::convolution_backward.out", "TTTvVVVBVIX>TTT", run_convolution_backward, .multiplies = true },
};

ET_KERNEL_TABLE(convolution_backward);
