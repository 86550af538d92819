/* SPDX-License-Identifier: BSD-3-Clause */
/* The elementwise engine: one loop for every operator that computes each output element from one element of each
 * operand.
 *
 * An operator is a row: which operands decide the common type, what becomes of integers, and one span function for each
 * compute class. The engine promotes, broadcasts and resizes; it walks any dim orders, converts a block of each operand
 * into a small buffer (or points into memory if type and layout already fit), calls the span function, and converts
 * back. A number among the arguments is an operand like any other; its block is filled once.
 *
 *     ET_FLOAT_FNS(atan2, 2, atan2(a, b))
 *     {"aten::atan2.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(atan2))},
 *
 * The operands are the letters T, t, S, s, I, D, B before '>', in this order. Signatures with strings or None need a
 * kernel function of their own, which picks a row and calls et_elementwise_apply. */
#ifndef RUNTIME_KERNELS_ENGINE_ELEMENTWISE_H
#define RUNTIME_KERNELS_ENGINE_ELEMENTWISE_H

#include "runtime/base/list.h"
#include "runtime/compute.h"
#include "runtime/kernels/engine/args.h"

#include <tgmath.h>

enum {
	ET_ELEMENTWISE_BLOCK = 512, /* floats, doubles or int64; more narrow integers, in the same number of bytes */
};

enum et_elementwise_result {
	ET_ELEMENTWISE_SAME,  /* computed and stored in the common type */
	ET_ELEMENTWISE_FLOAT, /* integers are computed as float */
	ET_ELEMENTWISE_BOOL,  /* the result is true or false, which any output type can hold */
	ET_ELEMENTWISE_CAST,  /* any type to any other: for copies */
};

struct et_elementwise {
	enum et_elementwise_result result;
	/* NULL: this class is refused; a narrow class without a function is computed as int64 */
	et_span_fn fns[ET_N_SPANS];
	uint8_t promotes; /* bit i: operand i takes part in promotion; 0: all do */
	double _Complex (*on_complex)(const double _Complex *operands); /* NULL: complex numbers are refused */
	bool result_is_real;                                            /* the result of on_complex is real */
	bool promotes_to_output; /* a float output type takes part in promotion */
	/* How many times as long a float or double may take as one of most operators, 50 ns; 0: 1, or ET_DOUBLE_COST.
	 * Functions that take longer than a microsecond count their steps (ET_PACED_FN). */
	uint8_t cost;
};
enum { ET_DOUBLE_COST = 4 };

/* All spans that the engine passes to span functions are in one of these. */
struct et_paced_span {
	struct et_span span;
	struct et_pace *pace;
};

/* The kernel function of a row: ctx->kernel->row is a struct et_elementwise. */
enum et_status et_elementwise_run(struct et_kernel_ctx *ctx, struct et_evalue *const *args);
/* The same on the given operands. */
enum et_status et_elementwise_apply(struct et_kernel_ctx *ctx, const struct et_elementwise *op,
	const struct et_evalue *const *operands, size_t n_operands, struct et_tensor *out);
/* The class through which elements of type @from are converted to type @to. */
static inline enum et_compute_class et_cast_class(enum et_scalar_type to, enum et_scalar_type from)
{
	if (et_class_of(from) == ET_I64 && et_type_is_float(to) &&
		(et_scalar_size(from) <= sizeof(int32_t) || et_type_is_half(to)))
		return et_class_of(to); /* rounds as from int64, but the loops vectorize */
	return et_class_of(from);
}
/* Convert @from to @to element by element. The sizes are equal, the types may differ. The memory must not overlap. */
enum et_status et_view_cast(struct et_kernel_ctx *ctx, const struct et_view *to, const struct et_view *from);

/* rintf without a call: adding 2^23 removes the fraction of a smaller number. */
static inline float et_rint(float x)
{
	float size = __builtin_fabsf(x), whole = (size + 0x1p23f) - 0x1p23f;
	return __builtin_copysignf(size < 0x1p23f ? whole : size, x);
}

static inline struct et_pace *et_span_pace(struct et_span *span)
{
	return ET_CONTAINER_OF(span, struct et_paced_span, span)->pace;
}

/* Defines a span function from an expression in a, b, c and common. <tgmath.h> makes sin(a) the float or the double
 * function. The pointers are copied to locals first, because the stores could otherwise alias them. */
#define ET_SPAN_FN(name, type, loads, expression)                                        \
	static void name(struct et_span *span)                                           \
	{                                                                                \
		const type *in[ET_SPAN_OPERANDS];                                        \
		type *out = span->out;                                                   \
		const enum et_scalar_type common __attribute__((unused)) = span->common; \
		memcpy(in, span->in, sizeof(in));                                        \
		ET_INDEPENDENT                                                           \
		for (size_t i = 0, n = span->n; i < n; i++) {                            \
			loads;                                                           \
			out[i] = (type)(expression);                                     \
		}                                                                        \
	}
/* The same for an expression that loops within an element, and adds the number of its steps to n_steps. */
#define ET_PACED_FN(name, type, loads, expression)            \
	static void name(struct et_span *span)                \
	{                                                     \
		const type *in[ET_SPAN_OPERANDS];             \
		type *out = span->out;                        \
		struct et_pace *pace = et_span_pace(span);    \
		size_t n_steps = 0;                           \
		memcpy(in, span->in, sizeof(in));             \
		for (size_t i = 0, n = span->n; i < n; i++) { \
			if (et_pace_must_stop(pace, n_steps)) \
				return;                       \
			loads;                                \
			n_steps = 1;                          \
			out[i] = (type)(expression);          \
		}                                             \
		pace->n_steps += n_steps;                     \
	}
#define ET_LOADS1(type) const type a = in[0][i]
#define ET_LOADS2(type) const type a = in[0][i], b = in[1][i]
#define ET_LOADS3(type) const type a = in[0][i], b = in[1][i], c = in[2][i]
/* Operands of class bool, as 0 or 1. */
#define ET_TRUTHS1(type) const type a = in[0][i] != 0
#define ET_TRUTHS2(type) const type a = in[0][i] != 0, b = in[1][i] != 0
#define ET_TRUTHS3(type) const type a = in[0][i] != 0, b = in[1][i] != 0, c = in[2][i] != 0

/* For float and double, or for integers too: NAME_f32, NAME_f64, NAME_i64; for narrower integers, in which the
 * expression wraps as in 64 bits: NAME_i32, NAME_i16, NAME_i8, NAME_u8; and for bool NAME_b8. */
#define ET_FLOAT_FNS(name, n, expression)                             \
	ET_SPAN_FN(name##_f32, float, ET_LOADS##n(float), expression) \
	ET_SPAN_FN(name##_f64, double, ET_LOADS##n(double), expression)
#define ET_PACED_FLOAT_FNS(name, n, expression)                        \
	ET_PACED_FN(name##_f32, float, ET_LOADS##n(float), expression) \
	ET_PACED_FN(name##_f64, double, ET_LOADS##n(double), expression)
#define ET_INT64_FN(name, n, expression) ET_SPAN_FN(name##_i64, int64_t, ET_LOADS##n(int64_t), expression)
#define ET_WIDE_INT_FN(name, n, expression)                                                                   \
	ET_INT64_FN(name, n, expression)                                                                      \
	ET_SPAN_FN(name##_i32, int32_t, ET_LOADS##n(int32_t), expression)                                     \
	ET_SPAN_FN(name##_i16, int16_t, ET_LOADS##n(int16_t), expression)                                     \
	ET_SPAN_FN(name##_i8, int8_t, ET_LOADS##n(int8_t), expression)                                        \
	_Pragma("GCC diagnostic push")                                                                        \
		_Pragma("GCC diagnostic ignored \"-Wtype-limits\"") /* a comparison with 0 may be constant */ \
		ET_SPAN_FN(name##_u8, uint8_t, ET_LOADS##n(uint8_t), expression) _Pragma("GCC diagnostic pop")
#define ET_INT_FN(name, n, expression)                                                     \
	ET_WIDE_INT_FN(name, n, expression)                                                \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wtype-limits\"") \
		ET_SPAN_FN(name##_b8, uint8_t, ET_TRUTHS##n(uint8_t), (expression) != 0) _Pragma("GCC diagnostic pop")
#define ET_ALL_FNS(name, n, expression)   \
	ET_FLOAT_FNS(name, n, expression) \
	ET_INT_FN(name, n, expression)

/* For .fns in a row: the functions defined above for these classes. */
#define ET_FLOATS(name) { name##_f32, name##_f64, NULL }
#define ET_NARROW(name) name##_i64, name##_i32, name##_i16, name##_i8, name##_u8, name##_b8
#define ET_INTS(name)   { NULL, NULL, ET_NARROW(name) }
#define ET_ALL(name)    { name##_f32, name##_f64, ET_NARROW(name) }
/* Rows that compute all integers as int64. */
#define ET_INTS64(name) { NULL, NULL, name##_i64 }
#define ET_ALL64(name)  { name##_f32, name##_f64, name##_i64 }
#define ET_ELEMENTWISE(...)            \
	&(const struct et_elementwise) \
	{                              \
		__VA_ARGS__            \
	}

#endif
