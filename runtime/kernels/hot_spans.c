/* Compiled several times: the build defines ET_HOT_SPANS_NAME and chooses the instruction set.
 *
 * What is in here has vectors on one processor and none on another: shifts by numbers that differ from element to element,
 * and bits of floats put together. No arithmetic of floats, whose results would differ from build to build. */
#include "runtime/kernels/hot_spans.h"

#include <limits.h>

/* int64 stands for narrower integers, too. */
#define SHIFTS(suffix, type, wide, unsigned_wide, n_bits)                                              \
	static void left_shift_##suffix(struct et_span *span)                                          \
	{                                                                                              \
		const type *in[] = { span->in[0], span->in[1] };                                       \
		type *out = span->out;                                                                 \
		const wide bits = (wide)(n_bits);                                                      \
		ET_INDEPENDENT                                                                         \
		for (size_t i = 0, n = span->n; i < n; i++) {                                          \
			const wide a = in[0][i], b = in[1][i];                                         \
			const wide shifted =                                                           \
				(wide)((unsigned_wide)a << (b & (wide)(sizeof(wide) * CHAR_BIT - 1))); \
			out[i] = (type)(b < 0 || b >= bits ? 0 : shifted);                             \
		}                                                                                      \
	}                                                                                              \
	static void right_shift_##suffix(struct et_span *span)                                         \
	{                                                                                              \
		const type *in[] = { span->in[0], span->in[1] };                                       \
		type *out = span->out;                                                                 \
		const wide bits = (wide)(n_bits), most = (wide)(sizeof(wide) * CHAR_BIT - 1);          \
		ET_INDEPENDENT                                                                         \
		for (size_t i = 0, n = span->n; i < n; i++) {                                          \
			const wide a = in[0][i], b = in[1][i];                                         \
			out[i] = (type)(a >> (b < 0 || b >= bits ? most : b));                         \
		}                                                                                      \
	}
SHIFTS(i64, int64_t, int64_t, uint64_t, et_scalar_size(span->common) * CHAR_BIT)
SHIFTS(i32, int32_t, int32_t, uint32_t, 32)
SHIFTS(i16, int16_t, int32_t, uint32_t, 16)
SHIFTS(i8, int8_t, int32_t, uint32_t, 8)
SHIFTS(u8, uint8_t, int32_t, uint32_t, 8)

static void from_bfloat16s(size_t n, float *y, const uint16_t *x)
{
	ET_INDEPENDENT
	for (size_t i = 0; i < n; i++)
		y[i] = et_from_bfloat16(x[i]);
}

static void to_bfloat16s(size_t n, uint16_t *y, const float *x)
{
	ET_INDEPENDENT
	for (size_t i = 0; i < n; i++)
		y[i] = et_to_bfloat16(x[i]);
}

const struct et_hot_spans ET_HOT_SPANS_NAME = {
	.left_shift = { NULL, NULL, left_shift_i64, left_shift_i32, left_shift_i16, left_shift_i8,
		left_shift_u8 },
	.right_shift = { NULL, NULL, right_shift_i64, right_shift_i32, right_shift_i16, right_shift_i8,
		right_shift_u8 },
	.from_bfloat16s = from_bfloat16s,
	.to_bfloat16s = to_bfloat16s,
};
