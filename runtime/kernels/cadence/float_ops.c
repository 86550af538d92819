/* SPDX-License-Identifier: BSD-3-Clause */
/* cadence::'s operators on real numbers. Operators that aten:: has too call its kernels; the others are plain loops.
 *
 * Operators with 8-bit weights and float inputs (_w8a32_) use weights times one scale. A rotary embedding (rope)
 * rotates pairs of numbers, which are adjacent or half a head apart. A transposed convolution's weights come with input
 * and output channels exchanged and each kernel flipped, which is undone first.
 *
 * Left out: channels last, where ExecuTorch's own definitions do not take it either. */
#include "runtime/kernels/cadence/cadence.h"
#include "runtime/kernels/kernels.h"

/* --- through aten:: ---------------------------------------------------------------------------------------- */

static const struct et_evalue zeros_evalue = { .tag = ET_TAG_INT, .i = 0 };

/* input, weight, bias, stride, padding, dilation, groups > out */
static enum et_status run_conv(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	size_t rank = et_cadence_kind_of(ctx)->rank;
	struct et_evalue no = { .tag = ET_TAG_BOOL }, zero = zeros_evalue, *slots[3] = { &zero, &zero, &zero };
	struct et_list list = { .n = (uint32_t)rank - 2, .values = slots };
	struct et_evalue zeros = { .tag = ET_TAG_INT_LIST, .list = &list };
	ET_REQUIRE(ctx, args[0]->tensor->n_dims == rank, "an input of rank %u", args[0]->tensor->n_dims);
	return et_cadence_run_as(ctx, "aten::convolution.out",
		(struct et_evalue *const[]){
			args[0], args[1], args[2], args[3], args[4], args[5], &no, &zeros, args[6], args[7] });
}

/* input, weight, bias, stride, padding, dilation, output padding, groups, channels last > out */
static enum et_status run_transposed(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *weight = args[1]->tensor;
	struct et_evalue yes = { .tag = ET_TAG_BOOL, .b = true };
	struct et_tensor transposed = *weight;
	int32_t sizes[ET_MAX_DIMS], strides[ET_MAX_DIMS], stride = 1;
	uint8_t order[ET_MAX_DIMS];
	struct et_view from, to;
	ET_REQUIRE(ctx, !args[8]->b, "channels last is not supported");
	ET_REQUIRE(ctx, weight->n_dims == 3 || weight->n_dims == 4, "a weight of rank %u", weight->n_dims);
	et_view_of(&from, weight);
	for (size_t d = 2; d < weight->n_dims; d++)
		et_view_flip(&from, d);
	et_view_swap(&from, 0, 1);
	for (size_t d = weight->n_dims; d-- > 0; stride *= sizes[d] > 0 ? sizes[d] : 1) {
		sizes[d] = (int32_t)from.sizes[d];
		strides[d] = stride;
		order[d] = (uint8_t)d;
	}
	transposed.sizes = sizes;
	transposed.strides = strides;
	transposed.dim_order = order;
	transposed.data = et_kernel_scratch(ctx, et_tensor_n_bytes(weight) + 1);
	if (!transposed.data)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	et_view_of(&to, &transposed);
	et_view_copy(ctx->compute, &to, &from);
	struct et_evalue value = { .tag = ET_TAG_TENSOR, .tensor = &transposed };
	return et_cadence_run_as(ctx, "aten::convolution.out",
		(struct et_evalue *const[]){
			args[0], &value, args[2], args[3], args[4], args[5], &yes, args[6], args[7], args[9] });
}

static enum et_status run_fully_connected(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return et_cadence_run_as(ctx, "aten::linear.out", args);
}

/* x, dimension, to float > out */
static enum et_status run_softmax(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_evalue no = { .tag = ET_TAG_BOOL };
	ET_TRY(et_require_type(ctx, args[0]->tensor, ET_FLOAT32, "the input"));
	ET_TRY(et_require_type(ctx, args[3]->tensor, ET_FLOAT32, "the output"));
	return et_cadence_run_as(ctx, "aten::_softmax.out",
		(struct et_evalue *const[]){ args[0], args[1], &no, args[3] });
}

/* weight, scales, zero points, indices, pruned > out */
static enum et_status run_embedding(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_evalue unread = zeros_evalue;
	ET_REQUIRE(ctx, !args[4]->b, "pruned weights are not supported");
	return et_cadence_run_as(ctx, "quantized_decomposed::embedding_byte.out",
		(struct et_evalue *const[]){ args[0], args[1], args[2], &unread, &unread, args[3], args[5] });
}

/* --- pooling ------------------------------------------------------------------------------------------------ */

/* The sum of the numbers under a window of the padded image, at position @at, and how many there are. */
static double sum_window(const struct et_tensor *x, size_t plane, const int64_t *at, const int64_t *kernel,
	const int64_t *padding, int32_t pad, int64_t *ret_n)
{
	int64_t size[2] = { x->sizes[x->n_dims - 2], x->sizes[x->n_dims - 1] }, first[2], end[2], n_seen = 0;
	double sum = 0;
	*ret_n = 1;
	for (size_t d = 0; d < 2; d++) {
		int64_t room = size[d] + 2 * padding[d] - at[d], n = kernel[d] < room ? kernel[d] : room;
		*ret_n *= n;
		first[d] = at[d] - padding[d] > 0 ? at[d] - padding[d] : 0;
		end[d] = at[d] - padding[d] + n < size[d] ? at[d] - padding[d] + n : size[d];
	}
	for (int64_t i = first[0]; i < end[0] && first[1] < end[1]; i++)
		for (int64_t j = first[1]; j < end[1]; j++, n_seen++)
			sum += (double)et_element_get_int((const uint8_t *)x->data +
								  (plane * (size_t)size[0] * (size_t)size[1] +
									  (size_t)(i * size[1] + j)) *
									  et_element_bytes(x),
				x->type);
	return sum + (double)(*ret_n - n_seen) * pad;
}

/* input, kernel, stride, padding, ceil mode, count include pad, divisor, zero point, channels last > out. With a zero
 * point, the padding is part of the image, filled with the zero point or 0. */
static enum et_status run_avg_pool(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[9]->tensor;
	const struct et_evalue *lists[] = { args[1], et_list_len(args[2]) ? args[2] : args[1], args[3] };
	int64_t pair[3][2], sizes[ET_MAX_DIMS], n[2];
	int32_t pad;
	struct et_qparams q;
	struct et_evalue zero = zeros_evalue;
	ET_REQUIRE(ctx, !args[8]->b, "channels last is not supported");
	if (et_is_none(args[7]))
		return et_cadence_run_as(ctx, "aten::avg_pool2d.out",
			(struct et_evalue *const[]){
				args[0], args[1], args[2], args[3], args[4], args[5], args[6], args[9] });
	ET_REQUIRE(ctx, x->n_dims == 3 || x->n_dims == 4, "an input of rank %u", x->n_dims);
	ET_TRY(et_require_contiguous(ctx, x, "the input"));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_get_qparams(ctx, NULL, &zero, x, "an input", &q));
	ET_TRY(et_get_zero_at(ctx, args[7], 0, 1, &pad));
	ET_REQUIRE(ctx, !args[5]->b || ((float)pad >= q.least && (float)pad <= q.most), "zero point %d in %s", pad,
		et_scalar_name(x->type));
	pad = args[5]->b ? pad : 0;
	int64_t divisor = et_is_none(args[6]) ? 0 : args[6]->i;
	ET_REQUIRE(ctx, et_is_none(args[6]) || divisor != 0, "divisor 0");
	for (size_t l = 0; l < 3; l++)
		for (size_t d = 0; d < 2; d++) {
			size_t n_list = et_list_len(lists[l]);
			ET_REQUIRE(ctx, n_list == 1 || n_list == 2 || (l == 2 && n_list == 0), "a list of %zu numbers",
				n_list);
			pair[l][d] = n_list == 0 ? 0 : et_list_int(lists[l], n_list == 2 ? d : 0);
			ET_REQUIRE(ctx, pair[l][d] >= (l < 2) && pair[l][d] <= INT32_MAX,
				"kernel, stride or padding %lld", (long long)pair[l][d]);
		}
	for (size_t d = 0; d < x->n_dims; d++)
		sizes[d] = x->sizes[d];
	for (size_t d = 0; d < 2; d++) {
		int64_t padded = x->sizes[x->n_dims - 2 + d] + 2 * pair[2][d], stride = pair[1][d];
		int64_t room = padded - pair[0][d];
		ET_REQUIRE(ctx, room >= 0, "the kernel does not fit");
		n[d] = (room + (args[4]->b ? stride - 1 : 0)) / stride + 1;
		n[d] -= args[4]->b && (n[d] - 1) * stride >= padded;
		sizes[x->n_dims - 2 + d] = n[d];
	}
	ET_TRY(et_resize(ctx, out, sizes, x->n_dims));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0, numel = et_tensor_numel(out);
		i < numel && !et_pace_must_stop(&pace, (size_t)(pair[0][0] * pair[0][1])); i++) {
		size_t area = (size_t)(n[0] * n[1]), at = i % area;
		int64_t n_seen, from[2] = { (int64_t)at / n[1] * pair[1][0], (int64_t)at % n[1] * pair[1][1] };
		double sum = sum_window(x, i / area, from, pair[0], pair[2], pad, &n_seen);
		float mean = (float)sum / (float)(divisor ? divisor : n_seen);
		et_element_set_int((uint8_t *)out->data + i * et_element_bytes(out), out->type,
			(int64_t)et_quantized(&q, mean, 1));
	}
	return ET_OK;
}

/* --- rows --------------------------------------------------------------------------------------------------- */

/* x, normalized shape, weight, eps > out */
static enum et_status run_rms_norm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *weight = et_is_none(args[2]) ? NULL : args[2]->tensor;
	struct et_tensor *out = args[4]->tensor;
	size_t n;
	double eps = et_is_none(args[3]) ? (double)0x1p-23f : args[3]->d;
	ET_TRY(et_require_type(ctx, x, ET_FLOAT32, "the input"));
	ET_TRY(et_require_contiguous(ctx, x, "the input"));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_get_normalized(ctx, x, args[1], &n));
	if (weight) {
		ET_TRY(et_require_type(ctx, weight, ET_FLOAT32, "the weight"));
		ET_TRY(et_require_contiguous(ctx, weight, "the weight"));
		ET_REQUIRE(ctx, et_tensor_numel(weight) == n, "%zu weights for %zu numbers", et_tensor_numel(weight),
			n);
	}
	ET_TRY(et_resize_like(ctx, out, x));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	struct et_pace pace = { ctx->compute };
	for (size_t at = 0, numel = et_tensor_numel(x); at < numel && !et_pace_must_stop(&pace, n); at += n) {
		const float *row = (const float *)x->data + at;
		double squares = 0;
		for (size_t i = 0; i < n; i++)
			squares += (double)row[i] * row[i];
		float factor = 1 / sqrtf((float)(squares / (double)n + eps));
		for (size_t i = 0; i < n; i++)
			((float *)out->data)[at + i] = row[i] * factor *
						       (weight ? ((const float *)weight->data)[i] : 1);
	}
	return ET_OK;
}

/* The row of the sine and cosine tables for position @at. */
static enum et_status get_position(struct et_kernel_ctx *ctx, const struct et_evalue *positions, int64_t at, int64_t n,
	size_t *ret)
{
	int64_t position = at;
	if (!et_is_none(positions))
		position = et_element_get_int((const uint8_t *)positions->tensor->data +
						      (size_t)at * et_element_bytes(positions->tensor),
			positions->tensor->type);
	ET_REQUIRE(ctx, position >= 0 && position < n, "position %lld of %lld", (long long)position, (long long)n);
	*ret = (size_t)position;
	return ET_OK;
}

/* Rotate pairs of @n numbers by the angles whose sines and cosines are given. */
static void rotate(float *row, size_t n, bool is_half_head_apart, const float *sines, const float *cosines)
{
	for (size_t i = 0; i < n / 2; i++) {
		float *a = is_half_head_apart ? &row[i] : &row[2 * i],
		      *b = is_half_head_apart ? &row[i + n / 2] : a + 1;
		float x = *a, y = *b;
		*a = x * cosines[i] - y * sines[i];
		*b = x * sines[i] + y * cosines[i];
	}
}

/* x, sines, cosines, positions; quantized: also scale and zero point of x and of the output > out */
static enum et_status run_rope(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *tables[] = { args[1]->tensor, args[2]->tensor };
	const struct et_tensor *positions = et_is_none(args[3]) ? NULL : args[3]->tensor;
	struct et_tensor *out = args[strlen(ctx->kernel->signature) - 2]->tensor;
	struct et_qparams from = { .scale = 1 }, to = { 0 };
	bool is_quantized = et_cadence_kind_of(ctx)->is_quantized;
	ET_REQUIRE(ctx, (x->n_dims == 4 || x->n_dims == 5) && x->sizes[0] == 1, "an input of rank %u, batch %d",
		x->n_dims, x->n_dims ? x->sizes[0] : 0);
	if (is_quantized) {
		ET_TRY(et_get_qparams(ctx, args[4], args[5], x, "an input", &from));
		ET_TRY(et_get_qparams(ctx, args[6], args[7], out, "an output", &to));
	} else {
		ET_TRY(et_require_type(ctx, x, ET_FLOAT32, "the input"));
	}
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_require_contiguous(ctx, x, "the input"));
	size_t n = (size_t)x->sizes[3] * (size_t)(x->n_dims == 5 ? x->sizes[4] : 1), heads = (size_t)x->sizes[2];
	ET_REQUIRE(ctx, n % 2 == 0, "heads of %zu numbers", n);
	for (size_t t = 0; t < 2; t++) {
		ET_TRY(et_require_type(ctx, tables[t], ET_FLOAT32, "a table"));
		ET_TRY(et_require_contiguous(ctx, tables[t], "a table"));
		ET_REQUIRE(ctx,
			tables[t]->n_dims == 2 && (size_t)tables[t]->sizes[1] == n / 2 &&
				tables[t]->sizes[0] >= x->sizes[1] && tables[t]->sizes[0] == tables[0]->sizes[0],
			"a sine or cosine table does not fit");
	}
	if (positions) {
		ET_REQUIRE(ctx, positions->type == ET_INT64 || positions->type == ET_INT32, "positions of %s",
			et_scalar_name(positions->type));
		ET_REQUIRE(ctx, positions->n_dims == 1 && positions->sizes[0] == x->sizes[1], "%zu positions for %d",
			et_tensor_numel(positions), x->sizes[1]);
	}
	ET_TRY(et_resize_like(ctx, out, x));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	float *row = et_kernel_scratch(ctx, n * sizeof(*row) + 1);
	if (!row)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	struct et_pace pace = { ctx->compute };
	for (size_t at = 0; n && at < (size_t)x->sizes[1] * heads && !et_pace_must_stop(&pace, n); at++) {
		size_t position, offset = at * n * et_element_bytes(x);
		ET_TRY(get_position(ctx, args[3], (int64_t)(at / heads), tables[0]->sizes[0], &position));
		et_loader(x->type, ET_F32)(row, (const uint8_t *)x->data + offset, 1, n);
		for (size_t i = 0; is_quantized && i < n; i++)
			row[i] = (row[i] - from.zero) * from.scale;
		rotate(row, n, et_cadence_kind_of(ctx)->is_half_head_apart,
			(const float *)tables[0]->data + position * (n / 2),
			(const float *)tables[1]->data + position * (n / 2));
		for (size_t i = 0; is_quantized && i < n; i++)
			row[i] = et_quantized(&to, row[i], 1 / to.scale);
		et_storer(out->type, ET_F32)((uint8_t *)out->data + offset, 1, row, n);
	}
	return ET_OK;
}

/* --- 8-bit weights ------------------------------------------------------------------------------------------- */

struct weights {
	const int8_t *data;
	float scale;
};

/* @tensor must be int8 with @n elements. */
static enum et_status get_weights(struct et_kernel_ctx *ctx, const struct et_evalue *tensor,
	const struct et_evalue *scale, size_t n, const char *what, struct weights *ret)
{
	ET_TRY(et_require_type(ctx, tensor->tensor, ET_INT8, what));
	ET_TRY(et_require_contiguous(ctx, tensor->tensor, what));
	ET_REQUIRE(ctx, et_tensor_numel(tensor->tensor) == n, "%s of %zu numbers, not %zu", what,
		et_tensor_numel(tensor->tensor), n);
	*ret = (struct weights){ tensor->tensor->data, (float)scale->d };
	return ET_OK;
}

/* A row times a column of weights, which are @stride apart. */
static float weighted_sum(const float *row, size_t n, const struct weights *w, size_t first, size_t stride)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (double)row[i] * ((float)w->data[first + i * stride] * w->scale);
	return (float)sum;
}

static float weight_at(const struct weights *w, size_t at)
{
	return (float)w->data[at] * w->scale;
}

static enum et_status require_f32(struct et_kernel_ctx *ctx, const struct et_tensor *x, const struct et_tensor *out)
{
	ET_TRY(et_require_type(ctx, x, ET_FLOAT32, "the input"));
	ET_TRY(et_require_type(ctx, out, ET_FLOAT32, "the output"));
	return et_require_contiguous(ctx, x, "the input");
}

/* input, weight, its scale, bias, its scale > out */
static enum et_status run_mixed_linear(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *weight = args[1]->tensor;
	struct et_tensor *out = args[5]->tensor;
	int64_t sizes[ET_MAX_DIMS];
	struct weights w, b;
	ET_TRY(require_f32(ctx, x, out));
	ET_REQUIRE(ctx, x->n_dims > 0 && weight->n_dims == 2 && weight->sizes[0] == x->sizes[x->n_dims - 1],
		"an input of rank %u with a weight of rank %u do not fit", x->n_dims, weight->n_dims);
	ET_REQUIRE(ctx, x->n_dims == 1 || x->sizes[x->n_dims - 2] == 1, "%d rows, not one",
		x->n_dims > 1 ? x->sizes[x->n_dims - 2] : 1);
	size_t n = (size_t)weight->sizes[0], n_out = (size_t)weight->sizes[1];
	ET_TRY(get_weights(ctx, args[1], args[2], n * n_out, "the weight", &w));
	ET_TRY(get_weights(ctx, args[3], args[4], n_out, "the bias", &b));
	for (size_t d = 0; d < x->n_dims; d++)
		sizes[d] = x->sizes[d];
	sizes[x->n_dims - 1] = (int64_t)n_out;
	ET_TRY(et_resize(ctx, out, sizes, x->n_dims));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0, numel = et_tensor_numel(out); i < numel && !et_pace_must_stop(&pace, n); i++)
		((float *)out->data)[i] = weighted_sum((const float *)x->data + i / n_out * n, n, &w, i % n_out,
						  n_out) +
					  weight_at(&b, i % n_out);
	return ET_OK;
}

/* input [batch, length, in], weight [3, out, in], its scale, bias, its scale > out [batch, out, length - 2] */
static enum et_status run_mixed_conv(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	enum { KERNEL = 3 };
	const struct et_tensor *x = args[0]->tensor, *weight = args[1]->tensor;
	struct et_tensor *out = args[5]->tensor;
	struct weights w, b;
	ET_TRY(require_f32(ctx, x, out));
	ET_REQUIRE(ctx, x->n_dims == 3 && weight->n_dims == 3 && weight->sizes[2] == x->sizes[2],
		"an input of rank %u with a weight of rank %u do not fit", x->n_dims, weight->n_dims);
	ET_REQUIRE(ctx, weight->sizes[0] == KERNEL && weight->sizes[1] % 4 == 0 && weight->sizes[2] % 4 == 0,
		"a weight of %d x %d x %d", weight->sizes[0], weight->sizes[1], weight->sizes[2]);
	ET_REQUIRE(ctx, x->sizes[1] >= KERNEL, "the kernel does not fit into %d", x->sizes[1]);
	size_t n = (size_t)weight->sizes[2], n_out = (size_t)weight->sizes[1], length = (size_t)x->sizes[1];
	size_t n_at = length - KERNEL + 1;
	ET_TRY(get_weights(ctx, args[1], args[2], KERNEL * n * n_out, "the weight", &w));
	ET_TRY(get_weights(ctx, args[3], args[4], n_out, "the bias", &b));
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ x->sizes[0], (int64_t)n_out, (int64_t)n_at }, 3));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0, numel = et_tensor_numel(out); i < numel && !et_pace_must_stop(&pace, KERNEL * n); i++) {
		size_t at = i % n_at, channel = i / n_at % n_out, batch = i / n_at / n_out;
		float sum = weight_at(&b, channel);
		for (size_t k = 0; k < KERNEL; k++)
			sum += weighted_sum((const float *)x->data + (batch * length + at + k) * n, n, &w,
				(k * n_out + channel) * n, 1);
		((float *)out->data)[i] = sum;
	}
	return ET_OK;
}

/* inputs, hidden state, input weights, scale, state weights, scale, input bias, scale of both biases, state bias > out:
 * the new state, twice */
static enum et_status run_mixed_gru(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *hidden = args[1]->tensor;
	struct et_tensor *out = args[9]->tensor;
	struct weights wx, wh, bx, bh;
	ET_TRY(require_f32(ctx, x, out));
	ET_TRY(et_require_type(ctx, hidden, ET_FLOAT32, "the state"));
	ET_TRY(et_require_contiguous(ctx, hidden, "the state"));
	ET_REQUIRE(ctx, x->n_dims > 0 && hidden->n_dims > 0, "an input or a state of rank 0");
	size_t n = (size_t)x->sizes[x->n_dims - 1], n_out = (size_t)hidden->sizes[hidden->n_dims - 1];
	ET_REQUIRE(ctx, et_tensor_numel(x) == n && et_tensor_numel(hidden) == n_out, "more than one row");
	ET_REQUIRE(ctx, n_out % 4 == 0, "a state of %zu numbers", n_out);
	ET_TRY(get_weights(ctx, args[2], args[3], 3 * n_out * n, "the inputs' weight", &wx));
	ET_TRY(get_weights(ctx, args[4], args[5], 3 * n_out * n_out, "the state's weight", &wh));
	ET_TRY(get_weights(ctx, args[6], args[7], 3 * n_out, "the inputs' bias", &bx));
	ET_TRY(get_weights(ctx, args[8], args[7], 3 * n_out, "the state's bias", &bh));
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ 2, 1, 1, (int64_t)n_out }, 4));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < n_out && !et_pace_must_stop(&pace, 3 * (n + n_out)); i++) {
		float from_x[3], from_state[3];
		for (size_t gate = 0; gate < 3; gate++) {
			size_t row = gate * n_out + i;
			from_x[gate] = weighted_sum(x->data, n, &wx, row * n, 1) + weight_at(&bx, row);
			from_state[gate] = weighted_sum(hidden->data, n_out, &wh, row * n_out, 1) + weight_at(&bh, row);
		}
		float reset = 1 / (1 + expf(-(from_x[0] + from_state[0])));
		float update = 1 / (1 + expf(-(from_x[1] + from_state[1])));
		float fresh = tanhf(from_x[2] + reset * from_state[2]);
		float *to = (float *)out->data + i;
		to[0] = to[n_out] = (1 - update) * fresh + update * ((const float *)hidden->data)[i];
	}
	return ET_OK;
}

static const struct et_cadence_kind line = { .rank = 3 }, plane = { .rank = 4 }, space = { .rank = 5 },
				    adjacent_pairs = { 0 }, half_head_pairs = { .is_half_head_apart = true },
				    quantized_half_head_pairs = { .is_half_head_apart = true, .is_quantized = true };

static const struct et_kernel rows[] = {
	{ "cadence::_softmax_f32_f32.out", "TIb>T", run_softmax },
	{ "cadence::avg_pool2d.out", "TVVVBBitB>T", run_avg_pool, &adjacent_pairs },
	{ "cadence::conv1d.out", "TTTVVVI>T", run_conv, &line, .multiplies = true },
	{ "cadence::conv2d.out", "TTTVVVI>T", run_conv, &plane, .multiplies = true },
	{ "cadence::conv3d.out", "TTTVVVI>T", run_conv, &space, .multiplies = true },
	{ "cadence::fully_connected.out", "TTt>T", run_fully_connected, .multiplies = true },
	{ "cadence::quantized_embedding_byte.out", "TTtTB>T", run_embedding },
	{ "cadence::quantized_rope_rotate_stacked_halves.out", "TTTtDIDI>T", run_rope, &quantized_half_head_pairs },
	{ "cadence::quantized_w8a32_conv.out", "TTDTD>T", run_mixed_conv },
	{ "cadence::quantized_w8a32_gru.out", "TTTDTDTDT>T", run_mixed_gru },
	{ "cadence::quantized_w8a32_linear.out", "TTDTD>T", run_mixed_linear, .multiplies = true },
	{ "cadence::rms_norm.out", "TVtd>T", run_rms_norm },
	{ "cadence::rope.out", "TTTt>T", run_rope, &adjacent_pairs },
	{ "cadence::rope_rotate_stacked_halves.out", "TTTt>T", run_rope, &half_head_pairs },
	{ "cadence::transposed_convolution.out", "TTTVVVVIB>T", run_transposed },
};

ET_KERNEL_TABLE(cadence_float_ops);
