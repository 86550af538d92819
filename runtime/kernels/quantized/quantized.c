/* SPDX-License-Identifier: BSD-3-Clause */
/* quantized_decomposed::: conversions between real numbers and integers with scale and zero point.
 *
 * Quantizing and dequantizing are elementwise: scale and zero point are operands, given as numbers (per tensor) or as
 * tensors that broadcast along an axis (per channel) or over the last dimension (per token). Values are multiplied with
 * the reciprocal of the scale in float and rounded to even, as in ExecuTorch. */
#include "runtime/kernels/engine/index_copy.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/kernels/quantized/quantize_contiguous.h"

/* Operands: x, scale, zero point, smallest, largest. NaN, and a value that no int64 holds, becomes the smallest, as
 * ExecuTorch's conversion gives. */
#define QUANTIZE(name, type)                                                                                         \
	ET_SPAN_FN(name, type, ET_LOADS3(type); const type d = in[3][i]; const type e = in[4][i];                    \
		const float q = (float)c + et_rint((float)((type)(1 / (float)b) * a)), !(q >= d) || q >= 0x1p63f ? d \
										       : q > e                   ? e \
														 : q)
QUANTIZE(quantize_f32, float)
QUANTIZE(quantize_f64, double)
ET_FLOAT_FNS(dequantize, 3, (a - c) * b)
/* 32-bit integers are subtracted as integers, wrapping around. */
ET_SPAN_FN(dequantize_wide, double, ET_LOADS3(double),
	(float)(int32_t)((uint32_t)(int64_t)a - (uint32_t)et_double_to_int(c)) * (float)b)

static const struct et_elementwise quantize_op = { ET_ELEMENTWISE_CAST, ET_FLOATS(quantize), .promotes = 1 };
static const struct et_elementwise dequantize_op = { ET_ELEMENTWISE_FLOAT, ET_FLOATS(dequantize), .promotes = 1 };
/* For int32, whose values float cannot all hold: the last operand makes the compute class double. */
static const struct et_elementwise quantize_wide_op = { ET_ELEMENTWISE_CAST, { NULL, quantize_f64, NULL },
	.promotes = 1 | 1 << 4 };
static const struct et_elementwise dequantize_wide_op = { ET_ELEMENTWISE_CAST, { NULL, dequantize_wide, NULL },
	.promotes = 1 | 1 << 3 };

/* A number as a 0-dimensional double tensor, so that it takes part in promotion. */
struct wide {
	double number;
	struct et_tensor tensor;
	struct et_evalue value;
};

static const struct et_evalue *wide_number(struct wide *wide, int64_t number)
{
	wide->number = (double)number;
	wide->tensor = (struct et_tensor){ .data = &wide->number, .type = ET_FLOAT64, .capacity = 1 };
	wide->value = (struct et_evalue){ .tag = ET_TAG_TENSOR, .tensor = &wide->tensor };
	return &wide->value;
}

static enum et_status require_range(struct et_kernel_ctx *ctx, const struct et_tensor *quantized, int64_t least,
	int64_t most, int64_t dtype)
{
	enum et_scalar_type type = quantized->type;
	ET_REQUIRE(ctx,
		type == ET_UINT8 || type == ET_INT8 || type == ET_UINT16 || type == ET_INT16 || type == ET_INT32,
		"%s is not a quantized type", et_scalar_name(type));
	ET_REQUIRE(ctx, dtype == (int64_t)type || (dtype == ET_BITS16 && type == ET_UINT16),
		"dtype %lld, the tensor is %s", (long long)dtype, et_scalar_name(type));
	ET_REQUIRE(ctx, least <= most && et_wrap(least, type) == least && et_wrap(most, type) == most,
		"from %lld to %lld in %s", (long long)least, (long long)most, et_scalar_name(type));
	return ET_OK;
}

/* Elements of type Bits16 are integers for these operators only. */
static struct et_tensor *bits_as_integers(struct et_tensor *integers, struct et_tensor *tensor)
{
	*integers = *tensor;
	integers->type = ET_UINT16;
	return tensor->type == ET_BITS16 ? integers : tensor;
}

static enum et_status quantize(struct et_kernel_ctx *ctx, const struct et_evalue *x, const struct et_evalue *scale,
	const struct et_evalue *zero, struct et_evalue *const *range, struct et_tensor *out)
{
	struct et_evalue least = { .tag = ET_TAG_DOUBLE, .d = (double)range[0]->i },
			 most = { .tag = ET_TAG_DOUBLE, .d = (double)range[1]->i };
	struct et_tensor integers;
	struct wide wide;
	if (range[2]->i == ET_BITS16)
		out = bits_as_integers(&integers, out);
	ET_TRY(require_range(ctx, out, range[0]->i, range[1]->i, range[2]->i));
	bool is_done = false;
	ET_TRY(et_quantize_contiguous(ctx, x->tensor, scale, zero, &(const struct et_limits){ least.d, most.d }, out,
		&is_done));
	if (is_done)
		return ET_OK;
	bool is_wide = out->type == ET_INT32;
	return et_elementwise_apply(ctx, is_wide ? &quantize_wide_op : &quantize_op,
		(const struct et_evalue *[]){
			x, scale, zero, &least, is_wide ? wide_number(&wide, range[1]->i) : &most },
		5, out);
}

static enum et_status dequantize(struct et_kernel_ctx *ctx, const struct et_evalue *x, const struct et_evalue *scale,
	const struct et_evalue *zero, const struct et_evalue *dtype, struct et_tensor *out)
{
	enum et_scalar_type type = x->tensor->type;
	struct et_evalue numbers = { .tag = ET_TAG_TENSOR };
	struct et_tensor integers;
	struct wide wide;
	ET_REQUIRE(ctx, (et_type_is_integral(type) || type == ET_BITS16) && dtype->i == (int64_t)type,
		"dtype %lld, the tensor is %s", (long long)dtype->i, et_scalar_name(type));
	numbers.tensor = bits_as_integers(&integers, x->tensor);
	x = &numbers;
	bool is_done = false;
	ET_TRY(et_dequantize_contiguous(ctx, x->tensor, scale, zero, out, &is_done));
	if (is_done)
		return ET_OK;
	if (type != ET_INT32)
		return et_elementwise_apply(ctx, &dequantize_op, (const struct et_evalue *[]){ x, scale, zero }, 3,
			out);
	ET_REQUIRE(ctx, et_type_is_float(out->type), "an output of %s", et_scalar_name(out->type));
	return et_elementwise_apply(ctx, &dequantize_wide_op,
		(const struct et_evalue *[]){ x, scale, zero, wide_number(&wide, 0) }, 4, out);
}

/* A tensor of one element is replaced by its number. */
static enum et_status as_number(struct et_kernel_ctx *ctx, const struct et_evalue **value, struct et_evalue *room)
{
	const struct et_tensor *tensor = (*value)->tensor;
	if ((*value)->tag != ET_TAG_TENSOR)
		return ET_OK;
	ET_REQUIRE(ctx, et_tensor_numel(tensor) == 1, "%zu numbers as a scale or zero point", et_tensor_numel(tensor));
	*room = (struct et_evalue){ .tag = ET_TAG_DOUBLE, .d = et_element_get_double(tensor->data, tensor->type) };
	*value = room;
	return ET_OK;
}

enum et_status et_quantize_run(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_evalue *scale = args[1], *zero = args[2];
	struct et_evalue rooms[2];
	ET_TRY(as_number(ctx, &scale, &rooms[0]));
	ET_TRY(as_number(ctx, &zero, &rooms[1]));
	return quantize(ctx, args[0], scale, zero, args + 3, args[6]->tensor);
}

enum et_status et_dequantize_run(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_evalue *scale = args[1], *zero = args[2];
	struct et_evalue rooms[2];
	ET_TRY(as_number(ctx, &scale, &rooms[0]));
	ET_TRY(as_number(ctx, &zero, &rooms[1]));
	return dequantize(ctx, args[0], scale, zero, args[5], args[7]->tensor);
}

/* One number for each position along an axis of @x, or for each token (a row along its last dimension), as a tensor
 * that broadcasts. */
struct broadcast_numbers {
	struct et_tensor tensor;
	int32_t sizes[ET_MAX_DIMS], strides[ET_MAX_DIMS];
	struct et_evalue value;
};

static enum et_status broadcast_along_axis(struct et_kernel_ctx *ctx, struct broadcast_numbers *channel,
	const struct et_evalue *numbers, const struct et_tensor *x, int64_t axis_arg)
{
	size_t axis;
	if (et_is_none(numbers)) {
		channel->value = (struct et_evalue){ .tag = ET_TAG_INT, .i = 0 };
		return ET_OK;
	}
	ET_TRY(et_get_dim(ctx, axis_arg, x->n_dims, &axis));
	ET_REQUIRE(ctx, x->n_dims > 0 && et_tensor_numel(numbers->tensor) == (size_t)x->sizes[axis],
		"%zu numbers for the channels of axis %zu", et_tensor_numel(numbers->tensor), axis);
	channel->tensor = *numbers->tensor;
	channel->tensor.n_dims = (uint8_t)(x->n_dims - axis);
	for (size_t d = 0; d < channel->tensor.n_dims; d++) {
		channel->sizes[d] = d ? 1 : x->sizes[axis];
		channel->strides[d] = 1;
	}
	channel->tensor.sizes = channel->sizes;
	channel->tensor.strides = channel->strides;
	channel->value = (struct et_evalue){ .tag = ET_TAG_TENSOR, .tensor = &channel->tensor };
	return ET_OK;
}

/* x, scales, zero points, axis, smallest, largest, dtype > out */
static enum et_status run_quantize_channel(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct broadcast_numbers scale, zero;
	ET_TRY(broadcast_along_axis(ctx, &scale, args[1], args[0]->tensor, args[3]->i));
	ET_TRY(broadcast_along_axis(ctx, &zero, args[2], args[0]->tensor, args[3]->i));
	return quantize(ctx, args[0], &scale.value, &zero.value, args + 4, args[7]->tensor);
}

/* x, scales, zero points or None, axis, smallest, largest, dtype, out dtype > out */
static enum et_status run_dequantize_channel(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct broadcast_numbers scale, zero;
	ET_TRY(broadcast_along_axis(ctx, &scale, args[1], args[0]->tensor, args[3]->i));
	ET_TRY(broadcast_along_axis(ctx, &zero, args[2], args[0]->tensor, args[3]->i));
	return dequantize(ctx, args[0], &scale.value, &zero.value, args[6], args[8]->tensor);
}

/* Only the number of elements matters, not the sizes. */
static enum et_status broadcast_over_tokens(struct et_kernel_ctx *ctx, struct broadcast_numbers *tokens,
	const struct et_evalue *numbers, const struct et_tensor *x)
{
	size_t n = 1;
	ET_REQUIRE(ctx, x->n_dims > 0, "the input has no dimensions");
	tokens->tensor = *numbers->tensor;
	tokens->tensor.n_dims = x->n_dims;
	for (size_t d = x->n_dims; d-- > 0;) {
		tokens->sizes[d] = d + 1 < x->n_dims ? x->sizes[d] : 1;
		tokens->strides[d] = (int32_t)n;
		n *= (size_t)tokens->sizes[d];
	}
	ET_REQUIRE(ctx, et_tensor_numel(numbers->tensor) == n, "%zu numbers for %zu tokens",
		et_tensor_numel(numbers->tensor), n);
	tokens->tensor.sizes = tokens->sizes;
	tokens->tensor.strides = tokens->strides;
	tokens->value = (struct et_evalue){ .tag = ET_TAG_TENSOR, .tensor = &tokens->tensor };
	return ET_OK;
}

/* x, scales, zero points, smallest, largest, dtype > out */
static enum et_status run_quantize_token(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct broadcast_numbers scale, zero;
	ET_TRY(broadcast_over_tokens(ctx, &scale, args[1], args[0]->tensor));
	ET_TRY(broadcast_over_tokens(ctx, &zero, args[2], args[0]->tensor));
	return quantize(ctx, args[0], &scale.value, &zero.value, args + 3, args[6]->tensor);
}

/* x, scales, zero points, smallest, largest, dtype, out dtype > out */
static enum et_status run_dequantize_token(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct broadcast_numbers scale, zero;
	ET_TRY(broadcast_over_tokens(ctx, &scale, args[1], args[0]->tensor));
	ET_TRY(broadcast_over_tokens(ctx, &zero, args[2], args[0]->tensor));
	return dequantize(ctx, args[0], &scale.value, &zero.value, args[5], args[7]->tensor);
}

/* --- choosing scale and zero point ------------------------------------------------------------------------ */

/* Choose scale and zero point so that [least, most] covers all of @x, and 0 is represented exactly. */
static void choose(struct et_pace *pace, const float *x, size_t n, int64_t least, int64_t most, double *ret_scale,
	int64_t *ret_zero)
{
	const double smallest_scale = 6.1e-5;
	double low = 0, high = 0, steps = (double)(most - least);
	for (size_t at = 0, part; (part = et_pace_chunk(pace, at, n)); at += part) {
		for (size_t i = at; i < at + part; i++) {
			low = x[i] < low ? x[i] : low;
			high = x[i] > high ? x[i] : high;
		}
	}
	double scale = (high - low) / steps;
	if ((float)scale == 0 || isinf(1 / (float)scale))
		scale = 0.1;
	if (scale < smallest_scale) {
		double factor = smallest_scale / (float)scale;
		if (low == 0)
			high = smallest_scale * steps;
		else if (high == 0)
			low = -smallest_scale * steps;
		else {
			low = (float)(low * (float)factor);
			high = (float)(high * (float)factor);
		}
		scale = smallest_scale;
	}
	double from_low = (double)least - low / scale, from_high = (double)most - high / scale;
	double low_error = fabs((double)least) - fabs(low / scale),
	       high_error = fabs((double)most) - fabs(high / scale);
	double zero = low_error < high_error ? from_low : from_high;
	*ret_scale = scale;
	/* NaN, which comes from infinite inputs, becomes what ExecuTorch's conversion makes of it. */
	*ret_zero = isnan(zero)                                       ? INT32_MIN
		    : zero<(double)least ? least : zero>(double) most ? most
								      : (int64_t)rintf((float)zero);
}

static enum et_status run_choose(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *scale = args[5]->tensor, *zero = args[6]->tensor;
	int64_t least = args[1]->i, most = args[2]->i;
	ET_TRY(et_require_type(ctx, x, ET_FLOAT32, "the input"));
	ET_TRY(et_require_type(ctx, scale, ET_FLOAT64, "the scale"));
	ET_TRY(et_require_type(ctx, zero, ET_INT64, "the zero point"));
	ET_REQUIRE(ctx, least < most && least >= INT32_MIN && most <= INT32_MAX, "from %lld to %lld", (long long)least,
		(long long)most);
	ET_REQUIRE(ctx, et_tensor_numel(scale) == 1 && et_tensor_numel(zero) == 1, "takes outputs of one element");
	struct et_pace pace = { ctx->compute };
	choose(&pace, x->data, et_tensor_numel(x), least, most, scale->data, zero->data);
	return ET_OK;
}

/* For each row along the last dimension, to int8. */
static enum et_status run_choose_per_token(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *scale = args[2]->tensor, *zero = args[3]->tensor;
	int64_t sizes[ET_MAX_DIMS];
	size_t n_tokens = 1;
	ET_TRY(et_require_type(ctx, x, ET_FLOAT32, "the input"));
	ET_TRY(et_require_type(ctx, scale, ET_FLOAT64, "the scale"));
	ET_TRY(et_require_type(ctx, zero, ET_INT64, "the zero point"));
	ET_TRY(et_require_contiguous(ctx, x, "the input"));
	ET_REQUIRE(ctx, x->n_dims > 0, "the input has no dimensions");
	for (size_t d = 0; d < x->n_dims; d++) {
		sizes[d] = d + 1 < x->n_dims ? x->sizes[d] : 1;
		n_tokens *= (size_t)sizes[d];
	}
	ET_TRY(et_resize(ctx, scale, sizes, x->n_dims));
	ET_TRY(et_resize(ctx, zero, sizes, x->n_dims));
	size_t n = (size_t)x->sizes[x->n_dims - 1];
	struct et_pace pace = { ctx->compute };
	for (size_t t = 0; t < n_tokens && !et_pace_must_stop(&pace, 1); t++)
		choose(&pace, (const float *)x->data + t * n, n, -128, 127, (double *)scale->data + t,
			(int64_t *)zero->data + t);
	return ET_OK;
}

/* --- arithmetic --------------------------------------------------------------------------------------------- */

struct qparams {
	float scale;
	int32_t zero;
	int64_t least, most;
};

static enum et_status get_qparams(struct et_kernel_ctx *ctx, struct et_evalue *const *args, struct qparams *ret)
{
	ret->scale = (float)args[0]->d;
	ret->zero = (int32_t)args[1]->i;
	ret->least = args[2]->i;
	ret->most = args[3]->i;
	ET_REQUIRE(ctx, ret->least >= 0 && ret->most <= 255 && ret->least <= ret->most, "from %lld to %lld",
		(long long)ret->least, (long long)ret->most);
	return ET_OK;
}

/* run_add for narrow integers and zero points that float holds exactly, so that the loop vectorizes. False: the call is
 * not of this kind. */
#define ADD_NARROW(type)                                                                       \
	do {                                                                                   \
		const type *x = a->data, *y = b->data;                                         \
		type *to = out->data;                                                          \
		for (size_t at = 0, part; (part = et_pace_chunk(&pace, at, n)); at += part) {  \
			ET_INDEPENDENT                                                         \
			for (size_t i = at; i < at + part; i++) {                              \
				const float sum = (float)((double)(x[i] - x_zero) * x_scale) + \
						  (float)((double)(y[i] - y_zero) * y_scale);  \
				const float q = zero + et_rint(inverse * sum);                 \
				const float above = q >= least && q < 0x1p63f ? q : least;     \
				to[i] = (type)(int32_t)(above > most ? most : above);          \
			}                                                                      \
		}                                                                              \
	} while (0)
static bool add_narrow(const struct et_compute *compute, const struct et_tensor *a, const struct et_tensor *b,
	const struct et_tensor *out, const struct qparams *pa, const struct qparams *pb, const struct qparams *po)
{
	const int64_t few = 1 << 20;
	bool is_near = pa->zero > -few && pa->zero < few && pb->zero > -few && pb->zero < few &&
		       po->least >= INT16_MIN && po->most <= INT16_MAX && po->least <= po->most;
	size_t n = et_tensor_numel(a);
	struct et_pace pace = { compute };
	if (!is_near)
		return false;
	int32_t x_zero = (int32_t)pa->zero, y_zero = (int32_t)pb->zero;
	double x_scale = pa->scale, y_scale = pb->scale;
	float inverse = 1 / po->scale, zero = (float)po->zero, least = (float)po->least, most = (float)po->most;
	if (a->type == ET_UINT8)
		ADD_NARROW(uint8_t);
	else if (a->type == ET_INT8)
		ADD_NARROW(int8_t);
	else if (a->type == ET_INT16)
		ADD_NARROW(int16_t);
	else
		return false;
	return true;
}

/* Adds as if dequantizing, adding and quantizing. */
static enum et_status run_add(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *a = args[0]->tensor, *b = args[5]->tensor;
	struct et_tensor *out = args[14]->tensor;
	struct qparams pa, pb, po;
	ET_TRY(get_qparams(ctx, args + 1, &pa));
	ET_TRY(get_qparams(ctx, args + 6, &pb));
	ET_TRY(get_qparams(ctx, args + 10, &po));
	ET_TRY(et_require_same_type(ctx, a, b));
	ET_TRY(et_require_same_type(ctx, a, out));
	ET_REQUIRE(ctx, et_type_is_integral(a->type) && a->type != ET_BOOL, "does not take %s",
		et_scalar_name(a->type));
	ET_REQUIRE(ctx,
		a->n_dims == b->n_dims && memcmp(a->sizes, b->sizes, a->n_dims * sizeof(*a->sizes)) == 0 &&
			memcmp(a->dim_order, b->dim_order, a->n_dims) == 0,
		"the inputs differ in sizes or dim order");
	ET_TRY(et_resize_like(ctx, out, a));
	ET_REQUIRE(ctx, memcmp(a->dim_order, out->dim_order, a->n_dims) == 0, "the output has a different dim order");
	float inverse = 1 / po.scale;
	size_t step = et_element_bytes(a);
	if (add_narrow(ctx->compute, a, b, out, &pa, &pb, &po))
		return ET_OK;
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < et_tensor_numel(a) && !et_pace_must_stop(&pace, 1); i++) {
		int64_t x = et_element_get_int((const uint8_t *)a->data + i * step, a->type);
		int64_t y = et_element_get_int((const uint8_t *)b->data + i * step, b->type);
		float sum = (float)((double)(int64_t)((uint64_t)x - (uint64_t)pa.zero) * pa.scale) +
			    (float)((double)(int64_t)((uint64_t)y - (uint64_t)pb.zero) * pb.scale);
		int64_t q = et_double_to_int((float)po.zero + rintf(inverse * sum));
		et_element_set_int((uint8_t *)out->data + i * step, out->type,
			q < po.least  ? po.least
			: q > po.most ? po.most
				      : q);
	}
	return ET_OK;
}

/* A number in a row of a quantized table: 8 bits, or 4 or 2 bits packed in bytes with an offset. */
static int32_t table_value(const uint8_t *row, size_t j, size_t bits, bool is_signed)
{
	switch (bits) {
	case 2:
		return (row[j / 4] >> (j % 4 * 2) & 3) - 2;
	case 4: /* even positions are in the upper four bits */
		return (j % 2 ? row[j / 2] & 15 : row[j / 2] >> 4) - 8;
	default:
		return is_signed ? (int8_t)row[j] : row[j];
	}
}

/* Numbers of one row of a table that share a scale. */
struct table_part {
	const uint8_t *row;
	size_t first, n, bits;
	bool is_signed;
	float zero, scale;
};

static void dequantize_part(const struct table_part *part, enum et_scalar_type type, uint8_t *to)
{
	if (type == ET_FLOAT32 && (uintptr_t)to % sizeof(float) == 0) {
		float *out = (float *)to;
		for (size_t j = 0; j < part->n; j++)
			out[j] = ((float)table_value(part->row, part->first + j, part->bits, part->is_signed) -
					 part->zero) *
				 part->scale;
		return;
	}
	float block[128];
	for (size_t j = 0, n; j < part->n; j += n) {
		n = part->n - j < ET_ARRAY_LEN(block) ? part->n - j : ET_ARRAY_LEN(block);
		struct table_part piece = *part;
		piece.first += j;
		piece.n = n;
		dequantize_part(&piece, ET_FLOAT32, (uint8_t *)block);
		et_storer(type, ET_F32)(to + j * et_scalar_size(type), 1, block, n);
	}
}

/* weight, scales, zero points or None, smallest, largest, indices … > out */
static enum et_status run_embedding(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	size_t bits = *(const size_t *)ctx->kernel->row;
	const struct et_tensor *weight = args[0]->tensor, *scales = args[1]->tensor, *indices = args[5]->tensor;
	const struct et_tensor *zeros = et_is_none(args[2]) ? NULL : args[2]->tensor;
	struct et_tensor *out = args[strlen(ctx->kernel->signature) - 2]->tensor;
	struct et_view view;
	int64_t sizes[ET_MAX_DIMS];
	ET_REQUIRE(ctx, weight->n_dims == 2 && (weight->type == ET_UINT8 || (bits == 8 && weight->type == ET_INT8)),
		"a table of %s, rank %u", et_scalar_name(weight->type), weight->n_dims);
	size_t n = (size_t)weight->sizes[1] * (8 / bits);
	size_t n_groups = scales->n_dims == 2 ? (size_t)scales->sizes[1] : 1;
	ET_REQUIRE(ctx,
		(scales->n_dims == 1 || scales->n_dims == 2) && scales->sizes[0] == weight->sizes[0] && n_groups > 0 &&
			n % n_groups == 0,
		"the scales do not fit the table");
	ET_REQUIRE(ctx, !zeros || et_tensor_numel(zeros) == et_tensor_numel(scales), "%zu zero points for %zu scales",
		zeros ? et_tensor_numel(zeros) : 0, et_tensor_numel(scales));
	ET_REQUIRE(ctx,
		et_type_is_float(scales->type) && et_type_is_float(out->type) &&
			(!zeros || et_loader(zeros->type, ET_F64)),
		"scales of %s, an output of %s", et_scalar_name(scales->type), et_scalar_name(out->type));
	ET_REQUIRE(ctx, indices->type == ET_INT64 || indices->type == ET_INT32, "indices of %s",
		et_scalar_name(indices->type));
	ET_REQUIRE(ctx, indices->n_dims < ET_MAX_DIMS, "too many dimensions");
	ET_TRY(et_require_contiguous(ctx, weight, "the table"));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	const int64_t *local = et_local_copy(ctx, indices, ET_INT64, &view);
	if (!local)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t d = 0; d < indices->n_dims; d++)
		sizes[d] = indices->sizes[d];
	sizes[indices->n_dims] = (int64_t)n;
	ET_TRY(et_resize(ctx, out, sizes, (size_t)indices->n_dims + 1));
	uint8_t *to = out->data;
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < et_view_numel(&view) && !et_pace_must_stop(&pace, 1); i++) {
		ET_REQUIRE(ctx, local[i] >= 0 && local[i] < weight->sizes[0], "index %lld of %d", (long long)local[i],
			weight->sizes[0]);
		const uint8_t *row = (const uint8_t *)weight->data + (size_t)local[i] * (size_t)weight->sizes[1];
		for (size_t g = 0; g < n_groups; g++, to += n / n_groups * et_element_bytes(out)) {
			size_t nth = (size_t)local[i] * n_groups + g;
			double scale = et_element_get_double((const uint8_t *)scales->data +
								     nth * et_element_bytes(scales),
				scales->type);
			double zero = zeros ? et_element_get_double((const uint8_t *)zeros->data +
									    nth * et_element_bytes(zeros),
						      zeros->type)
					    : 0;
			struct table_part part = { .row = row,
				.bits = bits,
				.is_signed = weight->type == ET_INT8,
				.zero = (float)zero,
				.scale = (float)scale };
			for (size_t at = 0; (part.n = et_pace_chunk(&pace, at, n / n_groups)); at += part.n) {
				part.first = g * (n / n_groups) + at;
				dequantize_part(&part, out->type, to + at * et_element_bytes(out));
			}
		}
	}
	return ET_OK;
}

/* mixed() for float: loops that the compiler vectorizes. A linear layer sums over groups first, as in ExecuTorch. */
struct mixed_f32 {
	const float *x, *scales;
	const int8_t *weight;
	float *out;
	const struct et_compute *compute;
	size_t rows, n_k, columns, group, n_groups; /* n_groups 0: not a linear layer, one scale for each k */
};

static float dot_f32(const float *x, const int8_t *weight, size_t n)
{
	enum { LANES = 8 };
	float sums[LANES] = { 0 }, sum = 0;
	size_t n_even = n - n % LANES;
	for (size_t k = 0; k < n_even; k += LANES)
		for (size_t l = 0; l < LANES; l++)
			sums[l] += x[k + l] * (float)weight[k + l];
	for (size_t k = n_even; k < n; k++)
		sum += x[k] * (float)weight[k];
	for (size_t l = 0; l < LANES; l++)
		sum += sums[l];
	return sum;
}

static void mixed_linear_f32(const struct mixed_f32 *m)
{
	struct et_pace pace = { m->compute };
	for (size_t i = 0; i < m->rows * m->columns && !et_pace_must_stop(&pace, 1); i++) {
		const float *x = m->x + i / m->columns * m->n_k;
		const int8_t *weight = m->weight + i % m->columns * m->n_k;
		float sum = 0;
		for (size_t k = 0; k < m->n_k && !et_pace_must_stop(&pace, m->group); k += m->group) {
			size_t n = m->n_k - k < m->group ? m->n_k - k : m->group;
			sum += dot_f32(x + k, weight + k, n) * m->scales[i % m->columns * m->n_groups + k / m->group];
		}
		m->out[i] = sum;
	}
}

static void mixed_mm_f32(const struct mixed_f32 *m)
{
	struct et_pace pace = { m->compute };
	for (size_t i = 0; i < m->rows; i++) {
		float *out = m->out + i * m->columns;
		memset(out, 0, m->columns * sizeof(*out));
		for (size_t k = 0; k < m->n_k && !et_pace_must_stop(&pace, m->columns); k++) {
			const int8_t *weight = m->weight + k * m->columns;
			float factor = m->x[i * m->n_k + k] * m->scales[k];
			for (size_t j = 0; j < m->columns; j++)
				out[j] += factor * (float)weight[j];
		}
	}
}

static bool is_aligned_f32(const struct et_tensor *tensor)
{
	return tensor->type == ET_FLOAT32 && (uintptr_t)tensor->data % sizeof(float) == 0;
}

/* Real activations times an int8 matrix with one scale for each of its rows, or for groups within them. In fp16, each
 * product and each sum is rounded, as in ExecuTorch. */
static enum et_status mixed(struct et_kernel_ctx *ctx, struct et_evalue *const *args, bool is_linear,
	struct et_tensor *out)
{
	const struct et_tensor *x = args[0]->tensor, *weight = args[1]->tensor, *scales = args[2]->tensor;
	ET_REQUIRE(ctx, et_is_none(args[3]), "takes no zero points");
	ET_REQUIRE(ctx, x->n_dims == 2 && weight->n_dims == 2 && x->sizes[1] == weight->sizes[is_linear ? 1 : 0],
		"the matrices do not fit");
	ET_REQUIRE(ctx,
		(x->type == ET_FLOAT32 || x->type == ET_FLOAT16) && weight->type == ET_INT8 &&
			et_type_is_float(scales->type),
		"takes %s and %s", et_scalar_name(x->type), et_scalar_name(weight->type));
	size_t n_groups = scales->n_dims == 2 ? (size_t)scales->sizes[1] : 1;
	ET_REQUIRE(ctx,
		(scales->n_dims == 1 || (is_linear && scales->n_dims == 2)) && scales->sizes[0] == weight->sizes[0] &&
			n_groups > 0,
		"the scales do not fit the weight");
	ET_TRY(et_require_contiguous(ctx, x, "the input"));
	ET_TRY(et_require_contiguous(ctx, weight, "the weight"));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	ET_REQUIRE(ctx, et_type_is_float(out->type), "an output of %s", et_scalar_name(out->type));
	int64_t rows = x->sizes[0], n_k = x->sizes[1], columns = weight->sizes[is_linear ? 0 : 1];
	size_t group = ((size_t)n_k + n_groups - 1) / n_groups;
	/* fewer numbers than groups: the scales are read as if there were only as many groups as needed, as in
	 * ExecuTorch */
	if (n_k)
		n_groups = ((size_t)n_k + group - 1) / group;
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ rows, columns }, 2));
	if (is_aligned_f32(x) && is_aligned_f32(scales) && is_aligned_f32(out) && n_k) {
		struct mixed_f32 m = { x->data, scales->data, weight->data, out->data, ctx->compute, (size_t)rows,
			(size_t)n_k, (size_t)columns, group, is_linear ? n_groups : 0 };
		(is_linear ? mixed_linear_f32 : mixed_mm_f32)(&m);
		return ET_OK;
	}
	struct et_view view;
	const double *numbers = et_local_copy(ctx, x, ET_FLOAT64, &view),
		     *factors = et_local_copy(ctx, scales, ET_FLOAT64, &view);
	if (!numbers || !factors)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	struct et_pace pace = { ctx->compute };
	for (int64_t i = 0; i < rows * columns && !et_pace_must_stop(&pace, 1); i++) {
		int64_t row = i / columns, column = i % columns;
		double sum = 0, part = 0;
		for (int64_t k = 0; k < n_k && !et_pace_must_stop(&pace, 1); k++) {
			int64_t at = is_linear ? column * n_k + k : k * columns + column;
			double scale = factors[is_linear ? (size_t)column * n_groups + (size_t)k / group : (size_t)k],
			       value = et_round_to(numbers[row * n_k + k] * ((const int8_t *)weight->data)[at],
				       x->type);
			if (!is_linear) {
				sum = et_round_to(sum + et_round_to(value * scale, x->type), out->type);
				continue;
			}
			part = et_round_to(part + value, out->type);
			if ((size_t)(k + 1) % group == 0 || k + 1 == n_k) {
				sum = et_round_to(sum + et_round_to(part * scale, out->type), out->type);
				part = 0;
			}
		}
		et_element_set_double((uint8_t *)out->data + (size_t)i * et_element_bytes(out), out->type, sum);
	}
	return ET_OK;
}

static enum et_status run_mixed_mm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return mixed(ctx, args, false, args[4]->tensor);
}

static enum et_status run_mixed_linear(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return mixed(ctx, args, true, args[5]->tensor);
}

static const size_t two = 2, four = 4, eight = 8;

static const struct et_kernel rows[] = {
	{ "quantized_decomposed::add.out", "TDIIITDIIIDIII>T", run_add },
	{ "quantized_decomposed::choose_qparams.Tensor_out", "TIIDI>TT", run_choose },
	{ "quantized_decomposed::choose_qparams_per_token_asymmetric.out", "TI>TT", run_choose_per_token },
	{ "quantized_decomposed::dequantize_per_channel.out", "TTtIIIIi>T", run_dequantize_channel },
	{ "quantized_decomposed::dequantize_per_tensor.Tensor_out", "TTTIIIi>T", et_dequantize_run },
	{ "quantized_decomposed::dequantize_per_tensor.out", "TDIIIIi>T", et_dequantize_run },
	{ "quantized_decomposed::dequantize_per_token.out", "TTTIIII>T", run_dequantize_token },
	{ "quantized_decomposed::embedding_2bit.dtype_out", "TTtIITi>T", run_embedding, &two },
	{ "quantized_decomposed::embedding_2bit.out", "TTtIIT>T", run_embedding, &two },
	{ "quantized_decomposed::embedding_4bit.dtype_out", "TTtIITi>T", run_embedding, &four },
	{ "quantized_decomposed::embedding_4bit.out", "TTtIIT>T", run_embedding, &four },
	{ "quantized_decomposed::embedding_byte.dtype_out", "TTtIITi>T", run_embedding, &eight },
	{ "quantized_decomposed::embedding_byte.out", "TTtIIT>T", run_embedding, &eight },
	{ "quantized_decomposed::mixed_linear.out", "TTTti>T", run_mixed_linear, .multiplies = true },
	{ "quantized_decomposed::mixed_mm.out", "TTTt>T", run_mixed_mm, .multiplies = true },
	{ "quantized_decomposed::quantize_per_channel.out", "TTTIIII>T", run_quantize_channel },
	{ "quantized_decomposed::quantize_per_tensor.Tensor_out", "TTTIII>T", et_quantize_run },
	{ "quantized_decomposed::quantize_per_tensor.out", "TDIIII>T", et_quantize_run },
	{ "quantized_decomposed::quantize_per_token.out", "TTTIII>T", run_quantize_token },
};

ET_KERNEL_TABLE(quantized);
