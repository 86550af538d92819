/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantizing and dequantizing tensors whose output has the input's layout, in one loop: one scale and zero point for
 * all elements, or one for each of the runs that channels or tokens make. It avoids filling blocks with a repeated
 * scale, and converting integers to float in blocks. The elementwise engine does the same for any operands, and tests
 * compare this with it. */
#include "runtime/kernels/quantized/quantize_contiguous.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/engine/elementwise.h"

enum { BYTES_GRAIN = 32768 /* bytes worth another thread */, BLOCK = 256, FEW = 8 /* need no vectors */ };

/* Floats to integers, with one scale. */
struct quantize_job {
	const void *x;
	void *out;
	et_load_fn load_half; /* loads @x if it is fp16 or bf16; otherwise NULL */
	et_range_fn of_floats;
	size_t out_bytes; /* of an element */
	float inverse, zero;
	double least, most;
};

/* @real is a type that holds the limits exactly. */
#define QUANTIZE_PLAIN(name, from, to, real)                                            \
	static void name(void *arg, size_t begin, size_t end)                           \
	{                                                                               \
		const struct quantize_job *job = arg;                                   \
		const from *x = job->x;                                                 \
		to *out = job->out;                                                     \
		const float inverse = job->inverse, zero = job->zero;                   \
		const real least = (real)job->least, most = (real)job->most;            \
		ET_INDEPENDENT                                                          \
		for (size_t i = begin; i < end; i++) {                                  \
			const float q = zero + et_rint((float)((from)inverse * x[i]));  \
			const real above = q >= least && q < 0x1p63f ? (real)q : least; \
			const real kept = above > most ? most : above;                  \
			out[i] = (to)(int32_t)kept;                                     \
		}                                                                       \
	}
#define QUANTIZE_BOTH(name, to, real)                     \
	QUANTIZE_PLAIN(name##_of_floats, float, to, real) \
	QUANTIZE_PLAIN(name##_of_doubles, double, to, real)
QUANTIZE_BOTH(bytes, uint8_t, float)
QUANTIZE_BOTH(signed_bytes, int8_t, float)
QUANTIZE_BOTH(shorts, int16_t, float)
QUANTIZE_BOTH(unsigned_shorts, uint16_t, float)
QUANTIZE_BOTH(words, int32_t, double)

static void quantize_half(void *arg, size_t begin, size_t end)
{
	const struct quantize_job *job = arg;
	struct quantize_job part = *job;
	float block[BLOCK];
	part.x = block;
	for (size_t n; begin < end; begin += n) {
		n = end - begin < BLOCK ? end - begin : BLOCK;
		job->load_half(block, (const uint16_t *)job->x + begin, 1, n);
		part.out = (uint8_t *)job->out + begin * job->out_bytes;
		job->of_floats(&part, 0, n);
	}
}

/* Quantizes float, or double. */
static et_range_fn quantize_fn(bool is_double, enum et_scalar_type to)
{
	switch (to) {
	case ET_UINT8:
		return is_double ? bytes_of_doubles : bytes_of_floats;
	case ET_INT8:
		return is_double ? signed_bytes_of_doubles : signed_bytes_of_floats;
	case ET_INT16:
		return is_double ? shorts_of_doubles : shorts_of_floats;
	case ET_UINT16:
		return is_double ? unsigned_shorts_of_doubles : unsigned_shorts_of_floats;
	case ET_INT32:
		return is_double ? words_of_doubles : words_of_floats;
	default:
		return NULL;
	}
}

enum et_status et_quantize_contiguous(struct et_kernel_ctx *ctx, const struct et_tensor *x,
	const struct et_evalue *scale, const struct et_evalue *zero, const struct et_limits *limits,
	struct et_tensor *out, bool *ret_is_done)
{
	const bool is_half = et_type_is_half(x->type);
	et_range_fn fn = quantize_fn(x->type == ET_FLOAT64, out->type);
	*ret_is_done = false;
	if (!fn || !et_type_is_float(x->type) || !et_has_same_layout(x, out) || scale->tag == ET_TAG_TENSOR ||
		zero->tag == ET_TAG_TENSOR)
		return ET_OK;
	struct quantize_job job = { .x = x->data,
		.load_half = is_half ? et_loader(x->type, ET_F32) : NULL,
		.of_floats = fn,
		.out_bytes = et_element_bytes(out),
		.inverse = 1 / (float)et_number_double(scale),
		.zero = (float)et_number_double(zero),
		.least = limits->least,
		.most = limits->most };
	ET_TRY(et_resize_like(ctx, out, x));
	job.out = out->data;
	et_parallel_for(ctx->compute, is_half ? quantize_half : fn, &job, et_tensor_numel(out), BYTES_GRAIN);
	*ret_is_done = true;
	return ET_OK;
}

/* Integers to floats, with one scale. */
struct plain_job {
	const struct et_tensor *x, *out;
	float scale, zero;
	uint32_t zero32;
};

static void dequantize_floats(const struct plain_job *job, size_t begin, size_t n, float *out)
{
	const float scale = job->scale, zero = job->zero;
	const uint8_t *bytes = (const uint8_t *)job->x->data + begin;
	const bool is_signed = job->x->type == ET_INT8;
	if (n <= FEW && (is_signed || job->x->type == ET_UINT8)) {
		for (size_t i = 0; i < n; i++)
			out[i] = ((is_signed ? (float)(int8_t)bytes[i] : (float)bytes[i]) - zero) * scale;
	} else if (job->x->type == ET_INT16) {
		const int16_t *x = (const int16_t *)job->x->data + begin;
		ET_INDEPENDENT
		for (size_t i = 0; i < n; i++)
			out[i] = ((float)x[i] - zero) * scale;
	} else if (job->x->type == ET_INT32) {
		const int32_t *x = (const int32_t *)job->x->data + begin;
		uint32_t zero32 = job->zero32;
		ET_INDEPENDENT
		for (size_t i = 0; i < n; i++) /* subtracted as integers, wrapping around */
			out[i] = (float)(int32_t)((uint32_t)x[i] - zero32) * scale;
	} else {
		et_ukernels()->scale_bytes(n, out, bytes, is_signed, zero, scale);
	}
}

/* Computes in float, whatever type the output has. */
static void dequantize_plain(void *arg, size_t begin, size_t end)
{
	const struct plain_job *job = arg;
	const struct et_tensor *out = job->out;
	const et_store_fn store = et_storer(out->type, ET_F32);
	float block[BLOCK];
	if (out->type == ET_FLOAT32) {
		dequantize_floats(job, begin, end - begin, (float *)out->data + begin);
		return;
	}
	for (size_t n; begin < end; begin += n) {
		n = end - begin < BLOCK ? end - begin : BLOCK;
		dequantize_floats(job, begin, n, block);
		store((uint8_t *)out->data + begin * et_element_bytes(out), 1, block, n);
	}
}

/* The same with @n scales and zero points, one for each run of @inner elements, repeated over the tensor. */
struct runs_job {
	struct plain_job plain;
	const struct et_tensor *scale, *zero; /* zero: NULL if all zero points are 0 */
	size_t n, inner;
};

static double number_at(const struct et_tensor *numbers, size_t i)
{
	return et_element_get_double((const uint8_t *)numbers->data + i * et_element_bytes(numbers), numbers->type);
}

static void dequantize_runs(void *arg, size_t begin, size_t end)
{
	const struct runs_job *job = arg;
	for (size_t i = begin; i < end; i++) {
		struct plain_job plain = job->plain;
		double zero = job->zero ? number_at(job->zero, i % job->n) : 0;
		plain.scale = (float)number_at(job->scale, i % job->n);
		plain.zero = (float)zero;
		plain.zero32 = (uint32_t)et_double_to_int(zero);
		dequantize_plain(&plain, i * job->inner, (i + 1) * job->inner);
	}
}

/* Whether each number of @scale applies to runs of the row-major @x, and how long these are. */
static bool find_runs(const struct et_tensor *x, const struct et_tensor *scale, size_t *ret_inner)
{
	enum { SHORT = 16 };
	size_t inner = 1, d = scale->n_dims, lacks = (size_t)x->n_dims - d;
	if (scale->n_dims > x->n_dims || !et_dim_order_is_contiguous(x->dim_order, x->n_dims))
		return false;
	for (; d > 0 && scale->sizes[d - 1] == 1; d--)
		inner *= (size_t)x->sizes[lacks + d - 1];
	for (; d > 0; d--) {
		if (scale->sizes[d - 1] != x->sizes[lacks + d - 1])
			return false;
	}
	*ret_inner = inner;
	return inner >= SHORT && et_tensor_numel(scale) > 0;
}

enum et_status et_dequantize_contiguous(struct et_kernel_ctx *ctx, const struct et_tensor *x,
	const struct et_evalue *scale, const struct et_evalue *zero, struct et_tensor *out, bool *ret_is_done)
{
	bool is_known = x->type == ET_INT8 || x->type == ET_UINT8 || x->type == ET_INT16 || x->type == ET_INT32,
	     has_scales = scale->tag == ET_TAG_TENSOR, has_zeros = zero->tag == ET_TAG_TENSOR;
	*ret_is_done = false;
	if (!is_known || !et_type_is_float(out->type) || !et_has_same_layout(x, out))
		return ET_OK;
	if (!has_scales && !has_zeros) {
		struct plain_job job = { .x = x,
			.out = out,
			.scale = (float)et_number_double(scale),
			.zero = (float)et_number_double(zero),
			.zero32 = (uint32_t)et_double_to_int(et_number_double(zero)) };
		ET_TRY(et_resize_like(ctx, out, x));
		et_parallel_for(ctx->compute, dequantize_plain, &job, et_tensor_numel(out), BYTES_GRAIN);
		*ret_is_done = true;
		return ET_OK;
	}
	struct runs_job stretches = { .plain = { .x = x, .out = out } };
	if (!has_scales || !(has_zeros || et_number_double(zero) == 0) ||
		!find_runs(x, scale->tensor, &stretches.inner))
		return ET_OK;
	ET_TRY(et_resize_like(ctx, out, x));
	stretches.scale = scale->tensor;
	stretches.zero = has_zeros ? zero->tensor : NULL;
	stretches.n = et_tensor_numel(scale->tensor);
	et_parallel_for(ctx->compute, dequantize_runs, &stretches, et_tensor_numel(out) / stretches.inner,
		BYTES_GRAIN / stretches.inner + 1);
	*ret_is_done = true;
	return ET_OK;
}
