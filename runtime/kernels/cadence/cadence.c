/* SPDX-License-Identifier: BSD-3-Clause */
/* cadence:: operators, which programs exported for Cadence's DSPs call, as plain kernels.
 *
 * All of it is arithmetic on integers with a scale and a zero point. This file has the table, the elementwise operators
 * (one or two tensors are dequantized, combined and quantized, in float, which is exact for up to 16 bits), and layer
 * norm and softmax, which work on lines. linear_conv.c has the sums of products, im2row_copy.c what only moves numbers,
 * float_ops.c what is not quantized.
 *
 * An operator's overloads share its function: where the plain overload has a tensor, the per_tensor one has a number. A
 * name that ends in _asym8s_... or _asym8u_... promises types, which its row checks. A scale given as multiplier and
 * shift is multiplier / 2^31 * 2^shift: the exporter writes this and ExecuTorch's C++ kernels compute it; its
 * definitions in Python take the multiplier with the other sign. */
#include "runtime/kernels/cadence/cadence.h"
#include "runtime/kernels/kernels.h"

/* --- numbers ------------------------------------------------------------------------------------------------ */

enum et_status et_require_quantized(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, const char *what)
{
	const struct et_cadence_kind *kind = et_cadence_kind_of(ctx);
	ET_REQUIRE(ctx, et_is_8_bits(tensor->type) || tensor->type == ET_INT16 || tensor->type == ET_UINT16, "%s of %s",
		what, et_scalar_name(tensor->type));
	ET_REQUIRE(ctx, !kind->is_typed || tensor->type == kind->type, "%s of %s, not of %s", what,
		et_scalar_name(tensor->type), et_scalar_name(kind->type));
	return ET_OK;
}

enum et_status et_get_number(struct et_kernel_ctx *ctx, const struct et_evalue *value, size_t index, size_t n,
	const char *what, double *ret)
{
	if (value->tag != ET_TAG_TENSOR) {
		*ret = et_number_double(value);
		return ET_OK;
	}
	const struct et_tensor *tensor = value->tensor;
	size_t numel = et_tensor_numel(tensor);
	ET_REQUIRE(ctx, et_loader(tensor->type, ET_F64), "%s of %s", what, et_scalar_name(tensor->type));
	ET_REQUIRE(ctx, numel == 1 || (numel == n && tensor->n_dims == 1), "%s: %zu numbers for %zu", what, numel, n);
	*ret = et_element_get_double((const uint8_t *)tensor->data +
					     (numel == 1 ? 0 : index) * et_element_bytes(tensor),
		tensor->type);
	return ET_OK;
}

enum et_status et_get_zero_at(struct et_kernel_ctx *ctx, const struct et_evalue *value, size_t index, size_t n,
	int32_t *ret)
{
	double zero;
	ET_TRY(et_get_number(ctx, value, index, n, "a zero point", &zero));
	ET_REQUIRE(ctx, zero >= -ET_ZERO_MAX && zero <= ET_ZERO_MAX, "zero point %g", zero);
	*ret = (int32_t)zero;
	return ET_OK;
}

enum et_status et_get_scale_at(struct et_kernel_ctx *ctx, const struct et_evalue *multiplier,
	const struct et_evalue *shift, size_t index, size_t n, float *ret)
{
	double m, s;
	ET_TRY(et_get_number(ctx, multiplier, index, n, "a multiplier", &m));
	ET_TRY(et_get_number(ctx, shift, index, n, "a shift", &s));
	ET_REQUIRE(ctx, s >= -126 && s <= 126, "shift %g", s);
	*ret = (float)ldexp(m, (int)s - 31);
	return ET_OK;
}

enum et_status et_get_qparams(struct et_kernel_ctx *ctx, const struct et_evalue *scale, const struct et_evalue *zero,
	const struct et_tensor *tensor, const char *what, struct et_qparams *ret)
{
	double number = 1;
	int32_t zero_point;
	ET_TRY(et_require_quantized(ctx, tensor, what));
	if (scale)
		ET_TRY(et_get_number(ctx, scale, 0, 1, "a scale", &number));
	ET_TRY(et_get_zero_at(ctx, zero, 0, 1, &zero_point));
	bool is_signed = tensor->type == ET_INT8 || tensor->type == ET_INT16;
	float n = et_is_8_bits(tensor->type) ? 0x1p8f : 0x1p16f;
	*ret = (struct et_qparams){ .scale = (float)number,
		.zero = (float)zero_point,
		.least = is_signed ? -n / 2 : 0,
		.most = is_signed ? n / 2 - 1 : n - 1 };
	return ET_OK;
}

/* --- elements ----------------------------------------------------------------------------------------------- */

/* x, scale, zero point, smallest, largest, dtype > out: as in quantized_decomposed. */
static enum et_status run_quantize(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_cadence_kind *kind = et_cadence_kind_of(ctx);
	if (kind->is_typed)
		ET_TRY(et_require_type(ctx, args[6]->tensor, kind->type, "the output"));
	return et_quantize_run(ctx, args);
}

static enum et_status run_dequantize(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_cadence_kind *kind = et_cadence_kind_of(ctx);
	struct et_evalue none = { .tag = ET_TAG_NONE };
	if (kind->is_typed)
		ET_TRY(et_require_type(ctx, args[0]->tensor, kind->type, "the input"));
	return et_dequantize_run(ctx,
		(struct et_evalue *const[]){ args[0], args[1], args[2], args[3], args[4], args[5], &none, args[6] });
}

enum { BLOCK = 256 };
enum combination { ALONE, POSITIVE, SUM, PRODUCT };

struct elements {
	struct et_qparams x, y, out;
	float factor;
	enum combination combination;
	bool is_with_number; /* instead of a second tensor */
	float number;
};

static void combine(const struct elements *e, const float *x, const float *y, float *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float a = (x[i] - e->x.zero) * e->x.scale;
		float b = e->is_with_number ? e->number : (y[i] - e->y.zero) * e->y.scale;
		float value = e->combination == SUM        ? a + b
			      : e->combination == PRODUCT  ? a * b
			      : e->combination == POSITIVE ? (a > 0 ? a : 0)
							   : a;
		out[i] = et_quantized(&e->out, value, e->factor);
	}
}

/* @y may be NULL. */
static enum et_status run_elementwise(struct et_kernel_ctx *ctx, const struct elements *e, const struct et_tensor *x,
	const struct et_tensor *y, struct et_tensor *out)
{
	struct et_view views[3];
	struct et_walk walk;
	struct et_place place;
	et_view_of(&views[1], x);
	et_view_of(&views[2], y ? y : x);
	ET_REQUIRE(ctx, et_view_broadcast_both(&views[1], &views[2]), "the tensors do not broadcast");
	ET_TRY(et_resize(ctx, out, views[1].sizes, views[1].n_dims));
	et_view_of(&views[0], out);
	et_walk_init(&walk, (const struct et_view *[]){ &views[0], &views[1], &views[2] }, 3);
	et_place_seek(&place, &walk, 0);
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0, n; i < walk.numel && !et_pace_must_stop(&pace, BLOCK); i += n) {
		float spans[3][BLOCK];
		n = et_place_run(&place, &walk);
		n = n < BLOCK ? n : BLOCK;
		for (size_t v = 1; v < 3; v++)
			et_loader(views[v].type, ET_F32)(spans[v],
				views[v].data + place.offset[v] * (ptrdiff_t)et_scalar_size(views[v].type),
				walk.strides[v][walk.n_dims - 1], n);
		combine(e, spans[1], spans[2], spans[0], n);
		et_storer(out->type, ET_F32)(views[0].data + place.offset[0] * (ptrdiff_t)et_scalar_size(out->type),
			walk.strides[0][walk.n_dims - 1], spans[0], n);
		et_place_advance(&place, &walk, n);
	}
	return ET_OK;
}

/* x, its scale and zero point, y, its scale and zero point, scale and zero point of the output > out */
static enum et_status run_binary(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *y = args[3]->tensor;
	struct et_tensor *out = args[8]->tensor;
	struct elements e = { .combination = et_cadence_kind_of(ctx)->is_product ? PRODUCT : SUM };
	ET_TRY(et_get_qparams(ctx, args[1], args[2], x, "an input", &e.x));
	ET_TRY(et_get_qparams(ctx, args[4], args[5], y, "an input", &e.y));
	ET_TRY(et_get_qparams(ctx, args[6], args[7], out, "an output", &e.out));
	ET_TRY(et_require_same_type(ctx, x, y));
	ET_TRY(et_require_same_type(ctx, x, out));
	e.factor = 1 / e.out.scale;
	return run_elementwise(ctx, &e, x, y, out);
}

/* x, its scale and zero point, number, scale and zero point of the output > out */
static enum et_status run_with_number(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[6]->tensor;
	struct elements e = { .combination = et_cadence_kind_of(ctx)->is_product ? PRODUCT : SUM,
		.is_with_number = true,
		.number = (float)et_number_double(args[3]) };
	ET_TRY(et_get_qparams(ctx, args[1], args[2], x, "an input", &e.x));
	ET_TRY(et_get_qparams(ctx, args[4], args[5], out, "an output", &e.out));
	ET_TRY(et_require_same_type(ctx, x, out));
	e.factor = 1 / e.out.scale;
	return run_elementwise(ctx, &e, x, NULL, out);
}

/* x, its zero point, zero point of the output, multiplier, shift > out */
static enum et_status run_relu(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[5]->tensor;
	struct elements e = { .combination = POSITIVE };
	ET_TRY(et_get_qparams(ctx, NULL, args[1], x, "an input", &e.x));
	ET_TRY(et_get_qparams(ctx, NULL, args[2], out, "an output", &e.out));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_get_scale_at(ctx, args[3], args[4], 0, 1, &e.factor));
	return run_elementwise(ctx, &e, x, NULL, out);
}

/* x, its scale and zero point, scale and zero point of the output, dtype > out */
static enum et_status run_requantize(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[6]->tensor;
	struct elements e = { .combination = ALONE };
	ET_TRY(et_get_qparams(ctx, args[1], args[2], x, "an input", &e.x));
	ET_TRY(et_get_qparams(ctx, args[3], args[4], out, "an output", &e.out));
	ET_REQUIRE(ctx, args[5]->i == (int64_t)out->type || (args[5]->i == ET_BITS16 && out->type == ET_UINT16),
		"dtype %lld, the tensor is %s", (long long)args[5]->i, et_scalar_name(out->type));
	e.factor = 1 / e.out.scale;
	return run_elementwise(ctx, &e, x, NULL, out);
}

/* --- lines -------------------------------------------------------------------------------------------------- */

enum et_status et_get_normalized(struct et_kernel_ctx *ctx, const struct et_tensor *x, const struct et_evalue *shape,
	size_t *ret_n)
{
	size_t n_shape = et_list_len(shape), n = 1;
	ET_REQUIRE(ctx, n_shape > 0 && n_shape <= x->n_dims, "a normalized shape of rank %zu for an input of rank %u",
		n_shape, x->n_dims);
	for (size_t d = 0; d < n_shape; d++) {
		int32_t size = x->sizes[x->n_dims - n_shape + d];
		ET_REQUIRE(ctx, et_list_int(shape, d) == size, "normalized size %lld, expected %d",
			(long long)et_list_int(shape, d), size);
		n *= (size_t)size;
	}
	*ret_n = n;
	return ET_OK;
}

/* x, its scale and zero point, normalized shape, weight, bias, eps, scale and zero point of the output > out */
static enum et_status run_layer_norm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *weight = args[4]->tensor, *bias = args[5]->tensor;
	struct et_tensor *out = args[9]->tensor;
	struct et_qparams from, to;
	size_t n;
	ET_TRY(et_get_qparams(ctx, args[1], args[2], x, "an input", &from));
	ET_TRY(et_get_qparams(ctx, args[7], args[8], out, "an output", &to));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_require_contiguous(ctx, x, "the input"));
	ET_TRY(et_get_normalized(ctx, x, args[3], &n));
	ET_TRY(et_require_type(ctx, weight, ET_FLOAT32, "the weight"));
	ET_TRY(et_require_type(ctx, bias, ET_FLOAT32, "the bias"));
	ET_TRY(et_require_contiguous(ctx, weight, "the weight"));
	ET_TRY(et_require_contiguous(ctx, bias, "the bias"));
	ET_REQUIRE(ctx, et_tensor_numel(weight) == n && et_tensor_numel(bias) == n,
		"%zu weights and %zu biases for %zu numbers", et_tensor_numel(weight), et_tensor_numel(bias), n);
	ET_TRY(et_resize_like(ctx, out, x));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	float *line = et_kernel_scratch(ctx, n * sizeof(*line) + 1);
	if (!line)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	const float *weights = weight->data, *biases = bias->data;
	size_t bytes = et_element_bytes(x);
	struct et_pace pace = { ctx->compute };
	for (size_t at = 0, numel = et_tensor_numel(x); at < numel && !et_pace_must_stop(&pace, n); at += n) {
		double mean = 0, variance = 0;
		et_loader(x->type, ET_F32)(line, (const uint8_t *)x->data + at * bytes, 1, n);
		for (size_t i = 0; i < n; i++) {
			line[i] = (line[i] - from.zero) * from.scale;
			mean += line[i];
		}
		mean /= (double)n;
		for (size_t i = 0; i < n; i++)
			variance += (line[i] - mean) * (line[i] - mean);
		double factor = 1 / sqrt(variance / (double)n + args[6]->d);
		for (size_t i = 0; i < n; i++)
			line[i] = et_quantized(&to, (float)((line[i] - mean) * factor) * weights[i] + biases[i],
				1 / to.scale);
		et_storer(out->type, ET_F32)((uint8_t *)out->data + at * bytes, 1, line, n);
	}
	return ET_OK;
}

/* x, mask, dimension, kind of mask, positions, scale and zero point of x and of the output > out */
static enum et_status run_softmax(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[9]->tensor;
	struct et_qparams from, to;
	size_t dim, n_inner = 1;
	ET_REQUIRE(ctx, args[3]->i == 0, "masks of kind %lld", (long long)args[3]->i);
	ET_TRY(et_get_qparams(ctx, args[5], args[6], x, "an input", &from));
	ET_TRY(et_get_qparams(ctx, args[7], args[8], out, "an output", &to));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_require_contiguous(ctx, x, "the input"));
	ET_TRY(et_get_dim(ctx, args[2]->i, x->n_dims, &dim));
	ET_TRY(et_resize_like(ctx, out, x));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	for (size_t d = dim + 1; d < x->n_dims; d++)
		n_inner *= (size_t)x->sizes[d];
	size_t n = x->n_dims ? (size_t)x->sizes[dim] : 1, bytes = et_element_bytes(x), numel = et_tensor_numel(x);
	float *line = et_kernel_scratch(ctx, n * sizeof(*line) + 1);
	if (!line)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	struct et_pace pace = { ctx->compute };
	for (size_t l = 0; n && l < numel / n && !et_pace_must_stop(&pace, n); l++) {
		size_t at = l / n_inner * n_inner * n + l % n_inner;
		float most = -INFINITY;
		double sum = 0;
		et_loader(x->type, ET_F32)(line, (const uint8_t *)x->data + at * bytes, (ptrdiff_t)n_inner, n);
		for (size_t i = 0; i < n; i++) {
			line[i] = (line[i] - from.zero) * from.scale;
			most = fmaxf(most, line[i]);
		}
		for (size_t i = 0; i < n; i++) {
			line[i] = expf(line[i] - most);
			sum += line[i];
		}
		for (size_t i = 0; i < n; i++)
			line[i] = et_quantized(&to, (float)(line[i] / sum), 1 / to.scale);
		et_storer(out->type, ET_F32)((uint8_t *)out->data + at * bytes, (ptrdiff_t)n_inner, line, n);
	}
	return ET_OK;
}

/* --- the table ---------------------------------------------------------------------------------------------- */

#define TYPED(of) .is_typed = true, .type = of
static const struct et_cadence_kind any = { 0 }, s8 = { TYPED(ET_INT8) }, u8 = { TYPED(ET_UINT8) },
				    s16 = { TYPED(ET_INT16) }, u16 = { TYPED(ET_UINT16) }, s32 = { TYPED(ET_INT32) },
				    times = { .is_product = true };
static const struct et_cadence_kind ncl = { .rank = 3 }, nlc = { .rank = 3, .is_channels_last = true };
static const struct et_cadence_kind last = { .is_channels_last = true };
static const struct et_cadence_kind s8_last = { TYPED(ET_INT8), .is_channels_last = true };
static const struct et_cadence_kind u8_last = { TYPED(ET_UINT8), .is_channels_last = true };

#define CONV         "TTTVVVIIIDDIII>T"
#define CONV_LAST    "TTTVVVIIIDDIIIt>T" /* with channels last, an offset that is ignored */
#define CONV_TENSORS "TTTVVVIITTDITT>T"

static const struct et_kernel rows[] = {
	{ "cadence::dequantize_per_tensor.out", "TDIIII>T", run_dequantize, &any },
	{ "cadence::dequantize_per_tensor_asym16s.out", "TDIIII>T", run_dequantize, &s16 },
	{ "cadence::dequantize_per_tensor_asym16u.out", "TDIIII>T", run_dequantize, &u16 },
	{ "cadence::dequantize_per_tensor_asym32s.out", "TDIIII>T", run_dequantize, &s32 },
	{ "cadence::dequantize_per_tensor_asym8s.out", "TDIIII>T", run_dequantize, &s8 },
	{ "cadence::dequantize_per_tensor_asym8u.out", "TDIIII>T", run_dequantize, &u8 },
	{ "cadence::quantize_per_tensor.out", "TDIIII>T", run_quantize, &any },
	{ "cadence::quantize_per_tensor_asym16s.out", "TDIIII>T", run_quantize, &s16 },
	{ "cadence::quantize_per_tensor_asym16u.out", "TDIIII>T", run_quantize, &u16 },
	{ "cadence::quantize_per_tensor_asym32s.out", "TDIIII>T", run_quantize, &s32 },
	{ "cadence::quantize_per_tensor_asym8s.out", "TDIIII>T", run_quantize, &s8 },
	{ "cadence::quantize_per_tensor_asym8u.out", "TDIIII>T", run_quantize, &u8 },
	{ "cadence::quantized_add.out", "TTTTTTDI>T", run_binary, &any },
	{ "cadence::quantized_add.per_tensor_out", "TDITDIDI>T", run_binary, &any },
	{ "cadence::quantized_add_Scalar.out", "TTTSDI>T", run_with_number, &any },
	{ "cadence::quantized_add_asym8sxasym8s_asym8s.per_tensor_out", "TDITDIDI>T", run_binary, &s8 },
	{ "cadence::quantized_add_asym8uxasym8u_asym8u.per_tensor_out", "TDITDIDI>T", run_binary, &u8 },
	{ "cadence::quantized_conv1d_ncl.out", CONV_TENSORS, et_cadence_conv, &ncl, .multiplies = true },
	{ "cadence::quantized_conv1d_ncl.per_tensor_out", CONV, et_cadence_conv, &ncl, .multiplies = true },
	{ "cadence::quantized_conv1d_nlc.out", CONV_TENSORS, et_cadence_conv, &nlc, .multiplies = true },
	{ "cadence::quantized_conv1d_nlc.per_tensor_out", CONV_LAST, et_cadence_conv, &nlc, .multiplies = true },
	{ "cadence::quantized_conv2d_depthwise_nhwc.out", CONV, et_cadence_conv, &last, .multiplies = true },
	{ "cadence::quantized_conv2d_nchw.out", CONV_TENSORS, et_cadence_conv, &any, .multiplies = true },
	{ "cadence::quantized_conv2d_nchw.per_tensor_out", CONV, et_cadence_conv, &any, .multiplies = true },
	{ "cadence::quantized_conv2d_nchw_asym8sxsym8s_asym8s.per_tensor_out", CONV, et_cadence_conv, &s8,
		.multiplies = true },
	{ "cadence::quantized_conv2d_nchw_asym8uxsym8u_asym8u.per_tensor_out", CONV, et_cadence_conv, &u8,
		.multiplies = true },
	{ "cadence::quantized_conv2d_nchw_depthwise_asym8sxsym8s_asym8s.per_tensor_out", CONV, et_cadence_conv, &s8,
		.multiplies = true },
	{ "cadence::quantized_conv2d_nchw_depthwise_asym8uxsym8u_asym8u.per_tensor_out", CONV, et_cadence_conv, &u8,
		.multiplies = true },
	{ "cadence::quantized_conv2d_nchw_dilated_asym8sxsym8s_asym8s.per_tensor_out", CONV, et_cadence_conv, &s8,
		.multiplies = true },
	{ "cadence::quantized_conv2d_nchw_dilated_asym8uxsym8u_asym8u.per_tensor_out", CONV, et_cadence_conv, &u8,
		.multiplies = true },
	{ "cadence::quantized_conv2d_nhwc.out", CONV_TENSORS, et_cadence_conv, &last, .multiplies = true },
	{ "cadence::quantized_conv2d_nhwc.per_tensor_out", CONV_LAST, et_cadence_conv, &last, .multiplies = true },
	{ "cadence::quantized_conv2d_nhwc_asym8sxsym8s_asym8s.per_tensor_out", CONV, et_cadence_conv, &s8_last,
		.multiplies = true },
	{ "cadence::quantized_conv2d_nhwc_asym8uxsym8u_asym8u.per_tensor_out", CONV, et_cadence_conv, &u8_last,
		.multiplies = true },
	{ "cadence::quantized_conv2d_nhwc_depthwise_asym8sxsym8s_asym8s.per_tensor_out", CONV, et_cadence_conv,
		&s8_last, .multiplies = true },
	{ "cadence::quantized_conv2d_nhwc_depthwise_asym8uxsym8u_asym8u.per_tensor_out", CONV, et_cadence_conv,
		&u8_last, .multiplies = true },
	{ "cadence::quantized_conv2d_nhwc_dilated_asym8sxsym8s_asym8s.per_tensor_out", CONV, et_cadence_conv, &s8_last,
		.multiplies = true },
	{ "cadence::quantized_conv2d_nhwc_dilated_asym8uxsym8u_asym8u.per_tensor_out", CONV, et_cadence_conv, &u8_last,
		.multiplies = true },
	{ "cadence::quantized_depthwise_conv1d_ncl.per_tensor_out", CONV, et_cadence_conv, &ncl, .multiplies = true },
	{ "cadence::quantized_depthwise_conv1d_nlc.per_tensor_out", CONV, et_cadence_conv, &nlc, .multiplies = true },
	{ "cadence::quantized_fully_connected.out", "TTTITTTIt>T", et_cadence_linear, &any, .multiplies = true },
	{ "cadence::quantized_fully_connected.per_tensor_out", "TTTIIIIIt>T", et_cadence_linear, &any,
		.multiplies = true },
	{ "cadence::quantized_fully_connected_asym8sxasym8s_asym8s.per_tensor_out", "TTTIIIIIt>T", et_cadence_linear,
		&s8, .multiplies = true },
	{ "cadence::quantized_fully_connected_asym8uxasym8u_asym8u.per_tensor_out", "TTTIIIIIt>T", et_cadence_linear,
		&u8, .multiplies = true },
	{ "cadence::quantized_layer_norm.out", "TTTVTTDDI>T", run_layer_norm, &any },
	{ "cadence::quantized_layer_norm.per_tensor_out", "TDIVTTDDI>T", run_layer_norm, &any },
	{ "cadence::quantized_linear.out", "TTTITTTIt>T", et_cadence_linear, &any, .multiplies = true },
	{ "cadence::quantized_linear.per_tensor_out", "TTTIIIIIt>T", et_cadence_linear, &any, .multiplies = true },
	{ "cadence::quantized_linear_asym8sxasym8s_asym8s.per_tensor_out", "TTTIIIIIt>T", et_cadence_linear, &s8,
		.multiplies = true },
	{ "cadence::quantized_linear_asym8uxasym8u_asym8u.per_tensor_out", "TTTIIIIIt>T", et_cadence_linear, &u8,
		.multiplies = true },
	{ "cadence::quantized_matmul.out", "TITItIIIB>T", et_cadence_matmul, &any, .multiplies = true },
	{ "cadence::quantized_matmul_asym8sxasym8s_asym8s.out", "TITItIIIB>T", et_cadence_matmul, &s8,
		.multiplies = true },
	{ "cadence::quantized_matmul_asym8uxasym8u_asym8u.out", "TITItIIIB>T", et_cadence_matmul, &u8,
		.multiplies = true },
	{ "cadence::quantized_max_pool2d.out", "TVVVVB>T", et_cadence_max_pool, &any },
	{ "cadence::quantized_max_pool2d_nchw.out", "TVVVVB>T", et_cadence_max_pool, &any },
	{ "cadence::quantized_max_pool2d_nhwc.out", "TVVVVB>T", et_cadence_max_pool, &last },
	{ "cadence::quantized_mul.out", "TTTTTTDI>T", run_binary, &times },
	{ "cadence::quantized_mul.per_tensor_out", "TDITDIDI>T", run_binary, &times },
	{ "cadence::quantized_mul_Scalar.out", "TTTSDI>T", run_with_number, &times },
	{ "cadence::quantized_relu.out", "TTITT>T", run_relu, &any },
	{ "cadence::quantized_relu.per_tensor_out", "TIIII>T", run_relu, &any },
	{ "cadence::quantized_relu_asym8s_asym8s.per_tensor_out", "TIIII>T", run_relu, &s8 },
	{ "cadence::quantized_relu_asym8u_asym8u.per_tensor_out", "TIIII>T", run_relu, &u8 },
	{ "cadence::quantized_softmax.out", "TtIItTTTT>T", run_softmax, &any },
	{ "cadence::quantized_softmax.per_tensor_out", "TtIItDIDI>T", run_softmax, &any },
	{ "cadence::requantize.out", "TTTTTI>T", run_requantize, &any },
	{ "cadence::requantize.per_tensor_out", "TDIDII>T", run_requantize, &any },
};

ET_KERNEL_TABLE(cadence);
