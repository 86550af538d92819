/* SPDX-License-Identifier: BSD-3-Clause */
/* Elementwise operators of one tensor: each is an expression and a row.
 *
 * Integers become float in transcendental functions, and are unchanged by ceil, floor, round and trunc. Numbers among
 * the arguments (hardtanh's limits, elu's factors) are operands b, c … that do not take part in promotion. exp,
 * logarithms, sine, cosine and functions built on them use the micro-kernels of ukernels.c for float. */
#include "runtime/base/expand.h"
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"

enum { NOT_GRAIN = 32768, MAGNITUDE_GRAIN = 8192 }; /* elements worth another thread */

#define ET_UKERNELS_FNS(name, expression)                                    \
	static void name##_f32(struct et_span *span)                         \
	{                                                                    \
		et_ukernels()->each_##name(span->n, span->out, span->in[0]); \
	}                                                                    \
	ET_SPAN_FN(name##_f64, double, ET_LOADS1(double), expression)

ET_FLOAT_FNS(acos, 1, acos(a))
ET_FLOAT_FNS(acosh, 1, acosh(a))
ET_FLOAT_FNS(angle, 1, a != a ? a : a < 0 ? M_PI : 0)
ET_FLOAT_FNS(asin, 1, asin(a))
ET_FLOAT_FNS(asinh, 1, asinh(a))
ET_FLOAT_FNS(atan, 1, atan(a))
ET_FLOAT_FNS(atanh, 1, atanh(a))
ET_UKERNELS_FNS(cos, cos(a))
ET_FLOAT_FNS(cosh, 1, cosh(a))
ET_FLOAT_FNS(erf, 1, erf(a))
ET_UKERNELS_FNS(exp, exp(a))
ET_FLOAT_FNS(exp2, 1, exp2(a))
ET_FLOAT_FNS(expm1, 1, expm1(a))
ET_FLOAT_FNS(lgamma, 1, lgamma(a))
ET_UKERNELS_FNS(log, log(a))
ET_UKERNELS_FNS(log10, log10(a))
ET_UKERNELS_FNS(log1p, log1p(a))
ET_UKERNELS_FNS(log2, log2(a))
ET_FLOAT_FNS(reciprocal, 1, 1 / a)
ET_FLOAT_FNS(rsqrt, 1, 1 / sqrt(a))
ET_UKERNELS_FNS(sigmoid, 1 / (1 + exp(-a)))
ET_UKERNELS_FNS(sin, sin(a))
ET_FLOAT_FNS(sinh, 1, sinh(a))
ET_FLOAT_FNS(sqrt, 1, sqrt(a))
ET_FLOAT_FNS(tan, 1, tan(a))
ET_UKERNELS_FNS(tanh, tanh(a))

static double complex conjugate(const double complex *in)
{
	return conj(in[0]);
}

static double complex magnitude(const double complex *in)
{
	return cabs(in[0]);
}

static double complex negative(const double complex *in)
{
	return -in[0];
}

ET_FLOAT_FNS(abs, 1, fabs(a))
ET_INT_FN(abs, 1, a < 0 ? -a : a)
ET_ALL_FNS(neg, 1, -a)
ET_ALL_FNS(relu, 1, a < 0 ? 0 : a) /* NaN stays */
ET_FLOAT_FNS(sign, 1, a != a ? a : (a > 0) - (a < 0))
ET_INT_FN(sign, 1, (a > 0) - (a < 0))
ET_ALL_FNS(same, 1, a)
ET_FLOAT_FNS(ceil, 1, ceil(a))
ET_FLOAT_FNS(floor, 1, floor(a))
/* ties to even */
ET_SPAN_FN(round_f32, float, ET_LOADS1(float), et_rint(a))
ET_SPAN_FN(round_f64, double, ET_LOADS1(double), rint(a))
ET_FLOAT_FNS(trunc, 1, trunc(a))
ET_INT_FN(bitwise_not, 1, common == ET_BOOL ? !a : ~a)

ET_FLOAT_FNS(isinf, 1, isinf(a) != 0)
ET_FLOAT_FNS(isnan, 1, a != a)
ET_INT64_FN(never, 1, 0 * a)
ET_ALL_FNS(logical_not, 1, a == 0)
static const struct et_elementwise logical_not_op = { ET_ELEMENTWISE_BOOL, ET_ALL(logical_not) };
ET_FLOAT_FNS(signbit, 1, signbit(a) != 0)
ET_INT_FN(signbit, 1, a < 0)

ET_FLOAT_FNS(hardtanh, 3, b != b ? b : c != c ? c : (a < b ? b : a) > c ? c : (a < b ? b : a))
ET_INT_FN(hardtanh, 3, (a < b ? b : a) > c ? c : (a < b ? b : a))
ET_FLOAT_FNS(leaky_relu, 2, a > 0 ? a : a * b)
ET_SPAN_FN(elu_any_f32, float, ET_LOADS3(float); const float d = in[3][i], a < 0 ? expm1(a * d) * b * c : a * c)
/* The factors are equal for all elements. A zero keeps its sign, whatever the factors are. */
static void elu_f32(struct et_span *span)
{
	const float *x = span->in[0];
	float *out = span->out, power[ET_ELEMENTWISE_BLOCK];
	float scale = *(const float *)span->in[2], alpha = *(const float *)span->in[1] * scale,
	      factor = *(const float *)span->in[3];
	size_t n = span->n;
	if (!(factor >= 0)) { /* the expm1 micro-kernel takes no positive arguments */
		elu_any_f32(span);
		return;
	}
	ET_INDEPENDENT
	for (size_t i = 0; i < n; i++)
		power[i] = (x[i] > 0 ? 0 : x[i]) * factor;
	et_ukernels()->each_expm1(n, power, power);
	ET_INDEPENDENT
	for (size_t i = 0; i < n; i++) { /* compute both, then choose: this vectorizes */
		float above = x[i] * scale, below = power[i] * alpha;
		out[i] = x[i] < 0 ? below : above;
	}
}
ET_SPAN_FN(elu_f64, double, ET_LOADS3(double); const double d = in[3][i], a < 0 ? expm1(a * d) * b * c : a * c)
static void gelu_f32(struct et_span *span)
{
	et_ukernels()->each_gelu(span->n, span->out, span->in[0]);
}
ET_SPAN_FN(gelu_f64, double, ET_LOADS1(double), a / 2 * (1 + erf(a * M_SQRT1_2)))
static void gelu_tanh_f32(struct et_span *span)
{
	const float *in = span->in[0];
	size_t n = span->n;
	float *out = span->out, inner[ET_ELEMENTWISE_BLOCK];
	for (size_t i = 0; i < n; i++)
		inner[i] = 0.797884561f * (in[i] + 0.044715f * in[i] * in[i] * in[i]);
	et_ukernels()->each_tanh(n, inner, inner);
	ET_INDEPENDENT
	for (size_t i = 0; i < n; i++)
		out[i] = in[i] / 2 * (1 + inner[i]);
}
ET_SPAN_FN(gelu_tanh_f64, double, ET_LOADS1(double),
	a / 2 * (1 + tanh(0.79788456080286536 * (a + 0.044715 * a * a * a))))
/* Quotient and difference are rounded to the type, as if each was an operation of its own. */
ET_EXPANDED float rounded(float value, bool is_half, enum et_scalar_type type)
{
	return is_half ? et_round_half(value, type) : value;
}
/* log(a / (1 - a)); with @eps, a is first clamped to [eps, 1 - eps]. */
ET_EXPANDED void log_odds(struct et_span *span, const float *eps, bool is_half)
{
	const float *in = span->in[0];
	const enum et_scalar_type type = span->common;
	float *out = span->out;
	ET_INDEPENDENT
	for (size_t i = 0, n = span->n; i < n; i++) {
		float a = in[i];
		if (eps) {
			float least = rounded(eps[i], is_half, type);
			float most = rounded(1 - least, is_half, type);
			a = in[i] > most ? most : in[i];
			a = in[i] < eps[i] ? least : a;
		}
		out[i] = rounded(a / rounded(1 - a, is_half, type), is_half, type);
	}
	et_ukernels()->each_log(span->n, out, out);
}
static void logit_f32(struct et_span *span)
{
	if (et_type_is_half(span->common))
		log_odds(span, NULL, true);
	else
		log_odds(span, NULL, false);
}
static void logit_eps_f32(struct et_span *span)
{
	if (et_type_is_half(span->common))
		log_odds(span, span->in[1], true);
	else
		log_odds(span, span->in[1], false);
}
ET_SPAN_FN(logit_f64, double, ET_LOADS1(double), log(a / (1 - a)))
static inline double clamped(double value, double eps)
{
	return value < eps ? eps : value > 1 - eps ? 1 - eps : value;
}
ET_SPAN_FN(logit_eps_f64, double, ET_LOADS2(double), log(clamped(a, b) / (1 - clamped(a, b))))
ET_FLOAT_FNS(round_up, 2, rint(a *b) / b)
ET_FLOAT_FNS(round_down, 2, rint(a / b) * b)

static enum et_status run_gelu(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise exact = { ET_ELEMENTWISE_SAME, ET_FLOATS(gelu) };
	static const struct et_elementwise tanh_approximation = { ET_ELEMENTWISE_SAME, ET_FLOATS(gelu_tanh) };
	const struct et_evalue *operands[] = { args[0] };
	if (et_string_is(args[1], "tanh"))
		return et_elementwise_apply(ctx, &tanh_approximation, operands, 1, args[2]->tensor);
	ET_REQUIRE(ctx, et_string_is(args[1], "none"), "approximate must be 'none' or 'tanh'");
	return et_elementwise_apply(ctx, &exact, operands, 1, args[2]->tensor);
}

static enum et_status run_logit(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise plain = { ET_ELEMENTWISE_FLOAT, ET_FLOATS(logit),
		.promotes_to_output = true };
	static const struct et_elementwise within = { ET_ELEMENTWISE_FLOAT, ET_FLOATS(logit_eps), .promotes = 1,
		.promotes_to_output = true };
	const struct et_evalue *operands[] = { args[0], args[1] };
	bool is_plain = et_is_none(args[1]);
	return et_elementwise_apply(ctx, is_plain ? &plain : &within, operands, is_plain ? 1 : 2, args[2]->tensor);
}

static enum et_status run_round_decimals(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise up = { ET_ELEMENTWISE_SAME, { round_up_f32, round_up_f64, same_i64 },
		.promotes = 1 };
	static const struct et_elementwise down = { ET_ELEMENTWISE_SAME, { round_down_f32, round_down_f64, same_i64 },
		.promotes = 1 };
	int64_t decimals = args[1]->i;
	struct et_evalue factor = { .tag = ET_TAG_DOUBLE, .d = pow(10.0, fabs((double)decimals)) };
	const struct et_evalue *operands[] = { args[0], &factor };
	return et_elementwise_apply(ctx, decimals < 0 ? &down : &up, operands, 2, args[2]->tensor);
}

struct magnitude_job {
	const void *in;
	void *out;
};

/* Squares of floats neither overflow nor underflow in double. The result is infinite if one part is, whatever the other
 * one is. */
static void magnitudes_f32(void *arg, size_t begin, size_t end)
{
	const struct magnitude_job *job = arg;
	const float *in = job->in;
	float *out = job->out;
	ET_INDEPENDENT
	for (size_t i = begin; i < end; i++) {
		float a = fabsf(in[2 * i]), b = fabsf(in[2 * i + 1]);
		float size = (float)sqrt((double)a * (double)a + (double)b * (double)b);
		out[i] = a == INFINITY || b == INFINITY ? INFINITY : size;
	}
}

static void magnitudes_f64(void *arg, size_t begin, size_t end)
{
	const struct magnitude_job *job = arg;
	const double *in = job->in;
	double *out = job->out;
	for (size_t i = begin; i < end; i++) {
		double a = in[2 * i], b = in[2 * i + 1], square = a * a + b * b;
		bool is_safe = square >= 0x1p-960 && square <= 0x1p960; /* neither overflow nor lost bits */
		out[i] = is_safe ? sqrt(square) : hypot(a, b);
	}
}

/* Complex numbers whose magnitudes have the same layout are computed in one loop. */
static enum et_status run_abs(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise any = { ET_ELEMENTWISE_SAME, ET_ALL(abs), .on_complex = magnitude,
		.result_is_real = true };
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[1]->tensor;
	bool is_f32 = self->type == ET_COMPLEX64 && out->type == ET_FLOAT32;
	bool is_f64 = self->type == ET_COMPLEX128 && out->type == ET_FLOAT64;
	if (!(is_f32 || is_f64) || !et_has_same_layout(self, out))
		return et_elementwise_apply(ctx, &any, (const struct et_evalue *[]){ args[0] }, 1, out);
	ET_TRY(et_resize_like(ctx, out, self));
	struct magnitude_job job = { .in = self->data, .out = out->data };
	et_parallel_for(ctx->compute, is_f32 ? magnitudes_f32 : magnitudes_f64, &job, et_tensor_numel(out),
		MAGNITUDE_GRAIN);
	return ET_OK;
}

struct not_job {
	const void *in;
	uint8_t *out;
};

#define NOT_FN(name, type, value)                             \
	static void name(void *arg, size_t begin, size_t end) \
	{                                                     \
		const struct not_job *job = arg;              \
		const type *in = job->in;                     \
		uint8_t *out = job->out;                      \
		ET_INDEPENDENT                                \
		for (size_t i = begin; i < end; i++) {        \
			const type a = in[i];                 \
			out[i] = (value) == 0;                \
		}                                             \
	}
NOT_FN(not_bytes, uint8_t, a)
NOT_FN(not_shorts, uint16_t, a)
NOT_FN(not_half, uint16_t, a & 0x7fff) /* both zeros */
NOT_FN(not_words, uint32_t, a)
NOT_FN(not_longs, uint64_t, a)
NOT_FN(not_floats, float, a)
NOT_FN(not_doubles, double, a)

static et_range_fn not_fn(enum et_scalar_type type)
{
	if (type == ET_FLOAT32)
		return not_floats;
	if (type == ET_FLOAT64)
		return not_doubles;
	if (et_type_is_half(type))
		return not_half;
	if (type != ET_BOOL && !et_type_is_integral(type))
		return NULL;
	switch (et_scalar_size(type)) {
	case 1:
		return not_bytes;
	case 2:
		return not_shorts;
	case 4:
		return not_words;
	default:
		return not_longs;
	}
}

/* If the output has the input's layout, the result is stored as bool directly, not first in the input's type. */
static enum et_status run_logical_not(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[1]->tensor;
	et_range_fn fn = not_fn(self->type);
	if (!fn || out->type != ET_BOOL || !et_has_same_layout(self, out))
		return et_elementwise_apply(ctx, &logical_not_op, (const struct et_evalue *[]){ args[0] }, 1, out);
	ET_TRY(et_resize_like(ctx, out, self));
	struct not_job job = { .in = self->data, .out = out->data };
	et_parallel_for(ctx->compute, fn, &job, et_tensor_numel(out), NOT_GRAIN);
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::_conj_physical.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(same), .on_complex = conjugate) },
	{ "aten::abs.out", "T>T", run_abs, NULL },
	{ "aten::acos.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(acos)) },
	{ "aten::acosh.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(acosh)) },
	{ "aten::angle.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(angle)) },
	{ "aten::asin.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(asin)) },
	{ "aten::asinh.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(asinh)) },
	{ "aten::atan.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(atan)) },
	{ "aten::atanh.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(atanh)) },
	{ "aten::bitwise_not.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS(bitwise_not)) },
	{ "aten::ceil.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, { ceil_f32, ceil_f64, ET_NARROW(same) }) },
	{ "aten::cos.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(cos)) },
	{ "aten::cosh.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(cosh)) },
	{ "aten::elu.out", "TSSS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_FLOATS(elu), .promotes = 1) },
	{ "aten::erf.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(erf)) },
	{ "aten::exp.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(exp), .promotes_to_output = true) },
	{ "aten::exp2.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(exp2)) },
	{ "aten::expm1.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(expm1)) },
	{ "aten::floor.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, { floor_f32, floor_f64, ET_NARROW(same) }) },
	{ "aten::gelu.out", "TC>T", run_gelu, NULL },
	{ "aten::hardtanh.out", "TSS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(hardtanh), .promotes = 1) },
	{ "aten::isinf.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, { isinf_f32, isinf_f64, never_i64 }) },
	{ "aten::isnan.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, { isnan_f32, isnan_f64, never_i64 }) },
	{ "aten::leaky_relu.out", "TS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_FLOATS(leaky_relu), .promotes = 1) },
	{ "aten::lgamma.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(lgamma)) },
	{ "aten::log.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(log)) },
	{ "aten::log10.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(log10)) },
	{ "aten::log1p.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(log1p)) },
	{ "aten::log2.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(log2)) },
	{ "aten::logical_not.out", "T>T", run_logical_not, NULL },
	{ "aten::logit.out", "Td>T", run_logit, NULL },
	{ "aten::neg.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(neg), .on_complex = negative) },
	{ "aten::reciprocal.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(reciprocal)) },
	{ "aten::relu.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(relu)) },
	{ "aten::round.decimals_out", "TI>T", run_round_decimals, NULL },
	{ "aten::round.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, { round_f32, round_f64, ET_NARROW(same) }) },
	{ "aten::rsqrt.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(rsqrt)) },
	{ "aten::sigmoid.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(sigmoid)) },
	{ "aten::sign.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(sign)) },
	{ "aten::signbit.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(signbit)) },
	{ "aten::sin.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(sin)) },
	{ "aten::sinh.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(sinh)) },
	{ "aten::sqrt.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(sqrt)) },
	{ "aten::tan.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(tan)) },
	{ "aten::tanh.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(tanh)) },
	{ "aten::trunc.out", "T>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, { trunc_f32, trunc_f64, ET_NARROW(same) }) },
};

ET_KERNEL_TABLE(unary);
