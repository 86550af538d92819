/* Compiled several times: the build defines ET_HOT_SPANS_NAME and chooses the instruction set.
 *
 * What is in here has vectors on one processor and none on another: shifts by numbers that differ from element to element,
 * bits of floats put together, sums and extremes of many bits. What rounds, rounds alike in all builds: nothing is multiplied
 * and added at once. */
#include "runtime/kernels/hot_spans.h"

#include <limits.h>
#include <string.h>

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

/* Four rows at a time, so that sums are not stored for each. */
#define ADD_ROWS(name, type)                                                                           \
	static void name(size_t n, double *sums, size_t n_rows, const type *rows, ptrdiff_t step)      \
	{                                                                                              \
		size_t r = 0;                                                                          \
		for (; r + 4 <= n_rows; r += 4, rows += 4 * step) {                                    \
			const type *a = rows, *b = a + step, *c = b + step, *d = c + step;             \
			ET_INDEPENDENT                                                                 \
			for (size_t k = 0; k < n; k++)                                                 \
				sums[k] = (((sums[k] + (double)a[k]) + (double)b[k]) + (double)c[k]) + \
					  (double)d[k];                                                \
		}                                                                                      \
		for (; r < n_rows; r++, rows += step) {                                                \
			ET_INDEPENDENT                                                                 \
			for (size_t k = 0; k < n; k++)                                                 \
				sums[k] += (double)rows[k];                                            \
		}                                                                                      \
	}
ADD_ROWS(add_float_rows, float)
ADD_ROWS(add_double_rows, double)

/* Several vectors at a time, which do not wait for each other. */
enum { VECTORS = 2, LANES = 8, ABREAST = VECTORS * LANES };
typedef double doubles __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t longs __attribute__((vector_size(LANES * sizeof(int64_t))));
#define EXTREME(name, type, vector, no_better)                                                       \
	static type name(size_t n, const type *x)                                                    \
	{                                                                                            \
		type lanes[ABREAST], most = x[0];                                                    \
		vector now[VECTORS], next;                                                           \
		size_t k = 0;                                                                        \
		for (size_t i = 0; i < VECTORS; i++)                                                 \
			now[i] = most - (vector){ 0 };                                               \
		for (; k + ABREAST <= n; k += ABREAST) {                                             \
			for (size_t i = 0; i < VECTORS; i++) {                                       \
				memcpy(&next, x + k + i * LANES, sizeof(next));                      \
				longs takes = ~(next no_better now[i]) & (now[i] == now[i]);         \
				now[i] = (vector)((takes & (longs)next) | (~takes & (longs)now[i])); \
			}                                                                            \
		}                                                                                    \
		memcpy(lanes, now, sizeof(lanes));                                                   \
		for (; k < n; k++)                                                                   \
			most = !(x[k] no_better most) && most == most ? x[k] : most;                 \
		for (size_t i = 0; i < ABREAST; i++)                                                 \
			most = !(lanes[i] no_better most) && most == most ? lanes[i] : most;         \
		return most;                                                                         \
	}
EXTREME(largest_double, double, doubles, <=)
EXTREME(smallest_double, double, doubles, >=)
EXTREME(largest_long, int64_t, longs, <=)
EXTREME(smallest_long, int64_t, longs, >=)

const struct et_hot_spans ET_HOT_SPANS_NAME = {
	.left_shift = { NULL, NULL, left_shift_i64, left_shift_i32, left_shift_i16, left_shift_i8,
		left_shift_u8 },
	.right_shift = { NULL, NULL, right_shift_i64, right_shift_i32, right_shift_i16, right_shift_i8,
		right_shift_u8 },
	.from_bfloat16s = from_bfloat16s,
	.to_bfloat16s = to_bfloat16s,
	.add_float_rows = add_float_rows,
	.add_double_rows = add_double_rows,
	.largest_double = largest_double,
	.smallest_double = smallest_double,
	.largest_long = largest_long,
	.smallest_long = smallest_long,
};
