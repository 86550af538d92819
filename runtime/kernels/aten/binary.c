/* SPDX-License-Identifier: BSD-3-Clause */
/* Elementwise operators of two or three tensors or numbers.
 *
 * alpha of add and sub is an operand like the others (c), and so is the number of a Scalar overload: one definition
 * serves both. Comparisons and logic compute in the common type and give bool. Integer division never traps: a zero
 * divisor gives 0 and fails the kernel, and INT64_MIN / -1 wraps around. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"

#include <inttypes.h>
#include <limits.h>

ET_ALL_FNS(add, 3, a + b * c)
ET_ALL_FNS(sub, 3, a - b * c)
ET_ALL_FNS(rsub, 3, b - a * c)
ET_ALL_FNS(plus, 2, a + b)
ET_ALL_FNS(minus, 2, a - b)
ET_ALL_FNS(minus_from, 2, b - a)
ET_ALL_FNS(mul, 2, a *b)
ET_FLOAT_FNS(div, 2, a / b)
ET_FLOAT_FNS(atan2, 2, atan2(a, b))
ET_FLOAT_FNS(copysign, 2, copysign(a, b))
/* The power of two is rounded before the multiplication, so it may be infinite. */
ET_SPAN_FN(ldexp_f32, float, ET_LOADS2(float),
	a *(et_type_is_half(common) ? et_round_half(exp2f(b), common) : exp2f(b)))
ET_SPAN_FN(ldexp_f64, double, ET_LOADS2(double), a *exp2(b))
/* The neighbour of @a towards @b in @type. The bit patterns of fp16 and bf16 are in the order of their magnitudes. */
static float next_half(float a, float b, enum et_scalar_type type)
{
	if (a != a || b != b)
		return a + b;
	if (a == b)
		return b;
	uint16_t bits = et_float_to_half(a, type);
	if (a == 0)
		bits = b > 0 ? 1 : 0x8001;
	else
		bits = (uint16_t)((a < b) == (a > 0) ? bits + 1 : bits - 1);
	return et_half_to_float(bits, type);
}
ET_SPAN_FN(nextafter_f32, float, ET_LOADS2(float), et_type_is_half(common) ? next_half(a, b, common) : nextafterf(a, b))
ET_SPAN_FN(nextafter_f64, double, ET_LOADS2(double), nextafter(a, b))
/* Functions with vector instructions on some processors only: each build of span_ukernels.c has its own. */
#define UKERNEL_FN(name, suffix, compute_class)                \
	static void name##_##suffix(struct et_span *span)      \
	{                                                      \
		et_span_ukernels()->name[compute_class](span); \
	}
#define DIVISION_FNS(name)            \
	UKERNEL_FN(name, f32, ET_F32) \
	UKERNEL_FN(name, f64, ET_F64)
/* That of a large number and a small one is a long division: 950 ns for 1e308 and 1e-308. */
enum { DIVISION_COST = 32 };
DIVISION_FNS(fmod)
DIVISION_FNS(remainder)
DIVISION_FNS(floor_div)
static void pow_f32(struct et_span *span)
{
	et_ukernels()->each_pow(span->n, span->out, span->in[0], span->in[1]);
}
ET_SPAN_FN(pow_f64, double, ET_LOADS2(double), pow(a, b))
ET_FLOAT_FNS(trunc_div, 2, trunc(a / b))
ET_ALL_FNS(square, 1, a *a)

#define COMPLEX_FN(name, expression)                                   \
	static double complex name##_complex(const double complex *in) \
	{                                                              \
		const double complex a = in[0], b = in[1];             \
		return expression;                                     \
	}
COMPLEX_FN(add, a + b * in[2])
COMPLEX_FN(sub, a - b * in[2])
COMPLEX_FN(plus, a + b)
COMPLEX_FN(minus, a - b)
COMPLEX_FN(mul, a *b)
COMPLEX_FN(div, a / b)
COMPLEX_FN(where, a != 0 ? b : in[2])
COMPLEX_FN(masked_fill, b != 0 ? in[2] : a)

ET_FLOAT_FNS(maximum, 2, a != a || a > b ? a : b)
ET_FLOAT_FNS(minimum, 2, a != a || a < b ? a : b)
ET_FLOAT_FNS(fmax, 2, b != b || a > b ? a : b)
ET_FLOAT_FNS(fmin, 2, b != b || a < b ? a : b)
ET_INT_FN(maximum, 2, a > b ? a : b)
ET_INT_FN(minimum, 2, a < b ? a : b)
ET_FLOAT_FNS(clamp, 3, a != a ? a : b != b ? b : c != c ? c : (a < b ? b : a) > c ? c : (a < b ? b : a))
ET_INT_FN(clamp, 3, (a < b ? b : a) > c ? c : (a < b ? b : a))

ET_ALL_FNS(eq, 2, a == b)
ET_ALL_FNS(ge, 2, a >= b)
ET_ALL_FNS(gt, 2, a > b)
ET_ALL_FNS(le, 2, a <= b)
ET_ALL_FNS(lt, 2, a < b)
ET_ALL_FNS(ne, 2, a != b)
ET_ALL_FNS(logical_and, 2, (a != 0) & (b != 0))
ET_ALL_FNS(logical_or, 2, (a != 0) | (b != 0))
ET_ALL_FNS(logical_xor, 2, (a != 0) ^ (b != 0))
ET_ALL_FNS(where, 3, a != 0 ? b : c)
ET_ALL_FNS(masked_fill, 3, b != 0 ? c : a)

/* bool has an expression of its own with few steps, because nothing else is done per element. */
#define BIT_FNS(name, expression, of_bools) \
	ET_WIDE_INT_FN(name, 2, expression) \
	ET_SPAN_FN(name##_b8, uint8_t, ET_LOADS2(uint8_t), of_bools)
BIT_FNS(bitwise_and, a &b, (a < b ? a : b) != 0)
BIT_FNS(bitwise_or, a | b, (a | b) != 0)
BIT_FNS(bitwise_xor, a ^ b, (a == 0) != (b == 0))

/* Each element is shifted by its own count. */
#define SHIFT_FNS(name)               \
	UKERNEL_FN(name, i64, ET_I64) \
	UKERNEL_FN(name, i32, ET_I32) \
	UKERNEL_FN(name, i16, ET_I16) \
	UKERNEL_FN(name, i8, ET_I8)   \
	UKERNEL_FN(name, u8, ET_U8)
SHIFT_FNS(left_shift)
SHIFT_FNS(right_shift)
#define SHIFTS(name) { NULL, NULL, name##_i64, name##_i32, name##_i16, name##_i8, name##_u8 }
static const struct et_elementwise left_shift_op = { ET_ELEMENTWISE_SAME, SHIFTS(left_shift) };
static const struct et_elementwise right_shift_op = { ET_ELEMENTWISE_SAME, SHIFTS(right_shift) };

/* All elements are shifted by the same count, read once. A count of at least the type's bits, or a negative one, leaves
 * the sign. */
#define SHIFT_RIGHT_FN(name, type, value)                                                      \
	static void name(struct et_span *span)                                                 \
	{                                                                                      \
		const type *in = span->in[0];                                                  \
		const type b = *(const type *)span->in[1];                                     \
		type a = 0, *out = span->out;                                                  \
		const enum et_scalar_type common = span->common;                               \
		const bool is_wide = sizeof(a) == sizeof(int64_t);                             \
		const size_t bits = (is_wide ? et_scalar_size(common) : sizeof(a)) * CHAR_BIT; \
		const int by = (size_t)b < bits ? (int)b : is_wide ? 63 : 31;                  \
		ET_INDEPENDENT                                                                 \
		for (size_t i = 0, n = span->n; i < n; i++) {                                  \
			a = in[i];                                                             \
			out[i] = (type)(value);                                                \
		}                                                                              \
	}
/* The sign is restored afterwards, because every processor has vectors of unsigned 64-bit shifts. */
SHIFT_RIGHT_FN(shift_right_i64, int64_t,
	(int64_t)((((uint64_t)a >> by) ^ (UINT64_C(1) << (63 - by))) - (UINT64_C(1) << (63 - by))))
SHIFT_RIGHT_FN(shift_right_i32, int32_t, a >> by)
SHIFT_RIGHT_FN(shift_right_i16, int16_t, a >> by)
SHIFT_RIGHT_FN(shift_right_i8, int8_t, a >> by)
SHIFT_RIGHT_FN(shift_right_u8, uint8_t, a >> by)
SHIFT_RIGHT_FN(shift_right_b8, uint8_t, (a != 0) >> by)

/* Up to 90 divisions. */
static int64_t greatest_divisor(int64_t a, int64_t b, size_t *n_steps)
{
	for (; b; ++*n_steps) {
		int64_t remainder = b == -1 ? 0 : a % b;
		a = b;
		b = remainder;
	}
	return a < 0 ? -a : a;
}
ET_PACED_FN(gcd_i64, int64_t, ET_LOADS2(int64_t), greatest_divisor(a, b, &n_steps))
ET_PACED_FN(lcm_i64, int64_t, ET_LOADS2(int64_t),
	a == 0 || b == 0 ? 0 : imaxabs(a / greatest_divisor(a, b, &n_steps) * b))

/* Quotients and remainders of integers. */
enum rounding { TOWARDS_ZERO, DOWNWARDS };

/* A 32-bit division takes a fraction of the time of a 64-bit one. Signs are as good as random, so there is no branch on
 * them. */
static inline int64_t quotient_of(int64_t a, int64_t b)
{
	const uint64_t a_sign = a < 0 ? UINT64_MAX : 0, b_sign = b < 0 ? UINT64_MAX : 0,
		       a_size = ((uint64_t)a ^ a_sign) - a_sign, b_size = ((uint64_t)b ^ b_sign) - b_sign;
	if ((a_size | b_size) <= UINT32_MAX) {
		const uint64_t size = (uint32_t)a_size / (uint32_t)b_size, sign = a_sign ^ b_sign;
		return (int64_t)((size ^ sign) - sign);
	}
	return a / b;
}

static inline int64_t divide(struct et_span *span, int64_t a, int64_t b, enum rounding rounding)
{
	if (b == 0)
		span->divided_by_zero = true;
	if (b == 0 || b == -1)
		return b ? -a : 0;
	int64_t quotient = quotient_of(a, b);
	/* Whether there is a remainder is as good as random, so there is no branch on it. */
	return quotient - (rounding == DOWNWARDS && ((quotient * b != a) & ((a < 0) != (b < 0))));
}

static inline int64_t remainder_of(struct et_span *span, int64_t a, int64_t b, enum rounding rounding)
{
	if (b == 0)
		span->divided_by_zero = true;
	if (b == 0 || b == -1)
		return 0;
	int64_t left = a - quotient_of(a, b) * b;
	int64_t is_other_side = rounding == DOWNWARDS && ((left != 0) & ((left < 0) != (b < 0)));
	return left + (b & -is_other_side);
}

/* Narrow integers are divided as floats, for which there are vector instructions; the float type holds their quotient's
 * integer part exactly. A quotient that is not whole is further from the next whole number than it is rounded, so
 * truncation is right. Dividing by 0 gives 0, and dividing by -1 wraps around. */
#define NARROW_DIVIDE(name, type, wide, real, value)                                                  \
	static void name(struct et_span *span)                                                        \
	{                                                                                             \
		const type *in[] = { span->in[0], span->in[1] };                                      \
		type *out = span->out, is_zero = 0;                                                   \
		ET_INDEPENDENT                                                                        \
		for (size_t i = 0, n = span->n; i < n; i++) {                                         \
			const wide a = in[0][i], b = in[1][i];                                        \
			const wide by = b == 0 || b == -1 ? 1 : b;                                    \
			const wide cut = (wide)((real)a / (real)by);                                  \
			const wide quotient = b == 0 ? 0 : b == -1 ? -a : cut;                        \
			const wide left = b == 0 ? 0 : a - quotient * b;                              \
			const wide apart __attribute__((unused)) = -((left != 0) & ((left ^ b) < 0)); \
			is_zero |= b == 0;                                                            \
			out[i] = (type)(value);                                                       \
		}                                                                                     \
		span->divided_by_zero |= is_zero;                                                     \
	}
#define NARROW_DIVIDES(name, value)                                \
	NARROW_DIVIDE(name##_i32, int32_t, int32_t, double, value) \
	NARROW_DIVIDE(name##_i16, int16_t, int32_t, float, value)  \
	NARROW_DIVIDE(name##_i8, int8_t, int32_t, float, value)    \
	NARROW_DIVIDE(name##_u8, uint8_t, int32_t, float, value)
NARROW_DIVIDES(trunc_div, quotient)
NARROW_DIVIDES(floor_div, quotient + apart)
NARROW_DIVIDES(fmod, left)
NARROW_DIVIDES(remainder, left + (b & apart))
/* bool is not worth loops of its own. */
#define DIVIDES(name) { name##_f32, name##_f64, name##_i64, name##_i32, name##_i16, name##_i8, name##_u8 }

ET_INT64_FN(trunc_div, 2, divide(span, a, b, TOWARDS_ZERO))
ET_INT64_FN(inverse_mul, 2, a *divide(span, 1, b, TOWARDS_ZERO))
ET_INT64_FN(floor_div, 2, divide(span, a, b, DOWNWARDS))
ET_INT64_FN(fmod, 2, remainder_of(span, a, b, TOWARDS_ZERO))
ET_INT64_FN(remainder, 2, remainder_of(span, a, b, DOWNWARDS))

/* Power by squaring; wraps around. A negative exponent gives what a division would, truncated. */
static int64_t power(int64_t base, int64_t exponent)
{
	int64_t result = 1;
	if (exponent < 0)
		return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			result *= base;
		base *= base;
	}
	return result;
}
ET_INT64_FN(pow, 2, power(a, b))

/* Functions with alpha, and without it for alpha 1, as in nearly all programs: that saves the multiplication. */
struct scaled {
	struct et_elementwise op, plain;
};

static enum et_status run_scaled(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct scaled *scaled = ctx->kernel->row;
	bool is_plain = et_number_double(args[2]) == 1;
	return et_elementwise_apply(ctx, is_plain ? &scaled->plain : &scaled->op,
		(const struct et_evalue *[]){ args[0], args[1], args[2] }, is_plain ? 2 : 3, args[3]->tensor);
}

static const struct scaled add_op = {
	{ ET_ELEMENTWISE_SAME, ET_ALL(add), .promotes = 3, .on_complex = add_complex },
	{ ET_ELEMENTWISE_SAME, ET_ALL(plus), .promotes = 3, .on_complex = plus_complex },
};
static const struct scaled sub_op = {
	{ ET_ELEMENTWISE_SAME, ET_ALL(sub), .promotes = 3, .on_complex = sub_complex },
	{ ET_ELEMENTWISE_SAME, ET_ALL(minus), .promotes = 3, .on_complex = minus_complex },
};
static const struct scaled rsub_op = {
	{ ET_ELEMENTWISE_SAME, ET_ALL(rsub), .promotes = 3 },
	{ ET_ELEMENTWISE_SAME, ET_ALL(minus_from), .promotes = 3 },
};

static const struct et_elementwise pow_op = { ET_ELEMENTWISE_SAME, ET_ALL64(pow) };

/* Squares are the most frequent power. */
static enum et_status run_pow_number(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise square_op = { ET_ELEMENTWISE_SAME, ET_ALL(square), .promotes = 3 };
	const struct et_evalue *operands[] = { args[0], args[1] };
	bool is_square = et_number_double(args[1]) == 2;
	return et_elementwise_apply(ctx, is_square ? &square_op : &pow_op, operands, 2, args[2]->tensor);
}

static const struct et_elementwise quotient_op = { ET_ELEMENTWISE_FLOAT, ET_FLOATS(div), .on_complex = div_complex };

/* One divisor for all elements: float and double are multiplied by its inverse, as in ExecuTorch, unless the inverse is
 * subnormal, zero or infinite. */
static enum et_status divide_by_one(struct et_kernel_ctx *ctx, const struct et_evalue *a, const struct et_evalue *b,
	double divisor, struct et_tensor *out)
{
	static const struct et_elementwise product_op = { ET_ELEMENTWISE_SAME, ET_FLOATS(mul), .promotes = 1 };
	bool is_float = out->type == ET_FLOAT32;
	struct et_evalue inverse = { .tag = ET_TAG_DOUBLE, .d = is_float ? (double)(1 / (float)divisor) : 1 / divisor };
	bool is_whole = is_float ? isnormal((float)inverse.d) : isnormal(inverse.d);
	bool has_inverse = a->tensor->type == out->type && (is_float || out->type == ET_FLOAT64) && is_whole;
	return et_elementwise_apply(ctx, has_inverse ? &product_op : &quotient_op,
		(const struct et_evalue *[]){ a, has_inverse ? &inverse : b }, 2, out);
}

static enum et_status run_div_number(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return divide_by_one(ctx, args[0], args[1], et_number_double(args[1]), args[2]->tensor);
}

/* Quotients are floats, unless both inputs and the output have one integer type or bool. PyTorch's programs never have
 * that. ExecuTorch divides such integers as C does, but multiplies by the inverse if there is one divisor for several
 * elements. */
static enum et_status run_div(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise whole = { ET_ELEMENTWISE_SAME, ET_INTS64(trunc_div) };
	static const struct et_elementwise by_one = { ET_ELEMENTWISE_SAME, ET_INTS64(inverse_mul) };
	const struct et_tensor *a = args[0]->tensor, *b = args[1]->tensor;
	struct et_tensor *out = args[2]->tensor;
	bool is_alike = a->type == b->type && a->type == out->type;
	bool is_whole = is_alike && (et_type_is_integral(out->type) || out->type == ET_BOOL);
	bool has_one = et_tensor_numel(b) == 1 && et_tensor_numel(a) != 1;
	if (has_one && is_alike && !is_whole && !et_type_is_complex(b->type) && b->n_dims <= a->n_dims)
		return divide_by_one(ctx, args[0], args[1], et_element_get_double(b->data, b->type), out);
	return et_elementwise_apply(ctx,
		!is_whole ? &quotient_op
		: has_one ? &by_one
			  : &whole,
		(const struct et_evalue *[]){ args[0], args[1] }, 2, out);
}

static enum et_status run_div_mode(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise trunc_op = { ET_ELEMENTWISE_SAME, DIVIDES(trunc_div) };
	static const struct et_elementwise floor_op = { ET_ELEMENTWISE_SAME, DIVIDES(floor_div),
		.cost = DIVISION_COST };
	const struct et_evalue *operands[] = { args[0], args[1] };
	const struct et_elementwise *op = &quotient_op;
	if (et_string_is(args[2], "trunc"))
		op = &trunc_op;
	else if (et_string_is(args[2], "floor"))
		op = &floor_op;
	else
		ET_REQUIRE(ctx, et_is_none(args[2]), "rounding mode must be 'trunc' or 'floor'");
	return et_elementwise_apply(ctx, op, operands, 2, args[3]->tensor);
}

/* A shift by one count for all elements is a product, which every processor has vectors for. */
static enum et_status run_left_shift_number(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise op = { ET_ELEMENTWISE_SAME, ET_INTS(mul) };
	int64_t by = et_number_int(args[1]);
	struct et_evalue factor = *args[1];
	if (factor.tag == ET_TAG_INT)
		factor.i = by >= 0 && by < 64 ? (int64_t)(UINT64_C(1) << by) : 0;
	return factor.tag == ET_TAG_INT ? et_elementwise_apply(ctx, &op,
						  (const struct et_evalue *[]){ args[0], &factor }, 2, args[2]->tensor)
					: et_elementwise_apply(ctx, &left_shift_op,
						  (const struct et_evalue *[]){ args[0], args[1] }, 2, args[2]->tensor);
}

/* Either limit may be None; tensors broadcast, NaN stays. */
static enum et_status run_clamp(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise both = { ET_ELEMENTWISE_SAME, ET_ALL(clamp) };
	static const struct et_elementwise lower = { ET_ELEMENTWISE_SAME, ET_ALL(maximum) };
	static const struct et_elementwise upper = { ET_ELEMENTWISE_SAME, ET_ALL(minimum) };
	bool has_lower = !et_is_none(args[1]), has_upper = !et_is_none(args[2]);
	const struct et_evalue *operands[] = { args[0], has_lower ? args[1] : args[2], args[2] };
	ET_REQUIRE(ctx, has_lower || has_upper, "both limits are None");
	return et_elementwise_apply(ctx,
		has_lower && has_upper ? &both
		: has_lower            ? &lower
				       : &upper,
		operands, (size_t)1 + has_lower + has_upper, args[3]->tensor);
}

/* One part of a tensor, split in two along a dimension, times the sigmoid of the other. */
ET_FLOAT_FNS(glu, 2, a / (1 + exp(-b)))

static enum et_status run_glu(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise op = { ET_ELEMENTWISE_SAME, ET_FLOATS(glu) };
	struct et_tensor parts[2] = { *args[0]->tensor, *args[0]->tensor };
	struct et_evalue values[2];
	int32_t sizes[ET_MAX_DIMS] = { 0 };
	size_t dim;
	ET_REQUIRE(ctx, parts[0].n_dims > 0, "the tensor has no dimensions");
	ET_TRY(et_get_dim(ctx, args[1]->i, parts[0].n_dims, &dim));
	memcpy(sizes, parts[0].sizes, parts[0].n_dims * sizeof(*sizes));
	ET_REQUIRE(ctx, sizes[dim] % 2 == 0, "size %d in dimension %zu is odd", sizes[dim], dim);
	sizes[dim] /= 2;
	size_t skipped = (size_t)sizes[dim] * (size_t)parts[0].strides[dim] * et_element_bytes(&parts[0]);
	if (et_tensor_numel(&parts[0]))
		parts[1].data = (uint8_t *)parts[1].data + skipped;
	for (size_t k = 0; k < 2; k++) {
		parts[k].sizes = sizes;
		values[k] = (struct et_evalue){ .tag = ET_TAG_TENSOR, .tensor = &parts[k] };
	}
	return et_elementwise_apply(ctx, &op, (const struct et_evalue *[]){ &values[0], &values[1] }, 2,
		args[2]->tensor);
}

static const struct et_kernel rows[] = {
	{ "aten::__rshift__.Tensor_out", "TT>T", et_elementwise_run, &right_shift_op },
	{ "aten::add.Scalar_out", "TSS>T", run_scaled, &add_op },
	{ "aten::add.out", "TTS>T", run_scaled, &add_op },
	{ "aten::atan2.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(atan2)) },
	{ "aten::bitwise_and.Scalar_out", "TS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS(bitwise_and)) },
	{ "aten::bitwise_and.Tensor_out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS(bitwise_and)) },
	{ "aten::bitwise_left_shift.Scalar_Tensor_out", "ST>T", et_elementwise_run, &left_shift_op },
	{ "aten::bitwise_left_shift.Tensor_Scalar_out", "TS>T", run_left_shift_number },
	{ "aten::bitwise_left_shift.Tensor_out", "TT>T", et_elementwise_run, &left_shift_op },
	{ "aten::bitwise_or.Scalar_out", "TS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS(bitwise_or)) },
	{ "aten::bitwise_or.Tensor_out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS(bitwise_or)) },
	{ "aten::bitwise_right_shift.Tensor_Scalar_out", "TS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS(shift_right)) },
	{ "aten::bitwise_right_shift.Tensor_out", "TT>T", et_elementwise_run, &right_shift_op },
	{ "aten::bitwise_xor.Scalar_out", "TS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS(bitwise_xor)) },
	{ "aten::bitwise_xor.Tensor_out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS(bitwise_xor)) },
	{ "aten::clamp.Tensor_out", "Ttt>T", run_clamp, NULL },
	{ "aten::clamp.out", "Tss>T", run_clamp, NULL },
	{ "aten::copysign.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(copysign)) },
	{ "aten::div.Scalar_mode_out", "TSc>T", run_div_mode, NULL },
	{ "aten::div.Scalar_out", "TS>T", run_div_number, NULL },
	{ "aten::div.out", "TT>T", run_div },
	{ "aten::div.out_mode", "TTc>T", run_div_mode, NULL },
	{ "aten::eq.Scalar_out", "TS>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(eq)),
		.sequence = &et_masked_rows },
	{ "aten::eq.Tensor_out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(eq)) },
	{ "aten::floor_divide.out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, DIVIDES(floor_div), .cost = DIVISION_COST) },
	{ "aten::fmax.out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, { fmax_f32, fmax_f64, ET_NARROW(maximum) }) },
	{ "aten::fmin.out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, { fmin_f32, fmin_f64, ET_NARROW(minimum) }) },
	{ "aten::fmod.Scalar_out", "TS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, DIVIDES(fmod), .cost = DIVISION_COST) },
	{ "aten::fmod.Tensor_out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, DIVIDES(fmod), .cost = DIVISION_COST) },
	{ "aten::gcd.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS64(gcd)) },
	{ "aten::ge.Scalar_out", "TS>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(ge)) },
	{ "aten::ge.Tensor_out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(ge)) },
	{ "aten::glu.out", "TI>T", run_glu },
	{ "aten::gt.Scalar_out", "TS>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(gt)) },
	{ "aten::gt.Tensor_out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(gt)) },
	{ "aten::lcm.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_INTS64(lcm)) },
	{ "aten::ldexp.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(ldexp)) },
	{ "aten::le.Scalar_out", "TS>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(le)) },
	{ "aten::le.Tensor_out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(le)) },
	{ "aten::logical_and.out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(logical_and)) },
	{ "aten::logical_or.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(logical_or)) },
	{ "aten::logical_xor.out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(logical_xor)) },
	{ "aten::lt.Scalar_out", "TS>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(lt)) },
	{ "aten::lt.Tensor_out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(lt)) },
	{ "aten::masked_fill.Scalar_out", "TTS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(masked_fill), .promotes = 1,
			.on_complex = masked_fill_complex) },
	{ "aten::max.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(maximum)) },
	{ "aten::maximum.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(maximum)) },
	{ "aten::min.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(minimum)) },
	{ "aten::minimum.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(minimum)) },
	{ "aten::mul.Scalar_out", "TS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(mul), .on_complex = mul_complex) },
	{ "aten::mul.out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(mul), .on_complex = mul_complex) },
	{ "aten::ne.Scalar_out", "TS>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(ne)) },
	{ "aten::ne.Tensor_out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_BOOL, ET_ALL(ne)) },
	{ "aten::nextafter.out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_FLOATS(nextafter)) },
	{ "aten::pow.Scalar_out", "ST>T", et_elementwise_run, &pow_op },
	{ "aten::pow.Tensor_Scalar_out", "TS>T", run_pow_number, NULL },
	{ "aten::pow.Tensor_Tensor_out", "TT>T", et_elementwise_run, &pow_op },
	{ "aten::remainder.Scalar_out", "TS>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, DIVIDES(remainder), .cost = DIVISION_COST) },
	{ "aten::remainder.Tensor_out", "TT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, DIVIDES(remainder), .cost = DIVISION_COST) },
	{ "aten::rsub.Scalar_out", "TSS>T", run_scaled, &rsub_op },
	{ "aten::rsub.Tensor_out", "TTS>T", run_scaled, &rsub_op },
	{ "aten::sub.Scalar_out", "TSS>T", run_scaled, &sub_op },
	{ "aten::sub.out", "TTS>T", run_scaled, &sub_op },
	{ "aten::where.self_out", "TTT>T", et_elementwise_run,
		ET_ELEMENTWISE(ET_ELEMENTWISE_SAME, ET_ALL(where), .promotes = 6, .on_complex = where_complex) },
};

ET_KERNEL_TABLE(binary);
