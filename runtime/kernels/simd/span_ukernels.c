/* SPDX-License-Identifier: BSD-3-Clause */
/* Micro-kernels of all number types. The build compiles this file several times: it defines ET_SPAN_UKERNELS_NAME and
 * chooses the instruction set.
 *
 * What is here has vector instructions on some processors only: shifts by a different count for each element, bf16,
 * sums and extremes of 64-bit numbers. Results are the same on all processors, except for matrix products and
 * distances, which differ in rounding only. */
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/base/expand.h"
#include "runtime/base/fp16.h"

#include <limits.h>
#include <tgmath.h>
#include <string.h>

/* int64 also stands for narrower integers (n_bits). */
#define SHIFTS(suffix, type, wide, unsigned_wide, n_bits)                                                           \
	static void left_shift_##suffix(struct et_span *span)                                                       \
	{                                                                                                           \
		const type *in[] = { span->in[0], span->in[1] };                                                    \
		type *out = span->out;                                                                              \
		const wide bits = (wide)(n_bits);                                                                   \
		ET_INDEPENDENT                                                                                      \
		for (size_t i = 0, n = span->n; i < n; i++) {                                                       \
			const wide a = in[0][i], b = in[1][i];                                                      \
			const wide shifted = (wide)((unsigned_wide)a << (b & (wide)(sizeof(wide) * CHAR_BIT - 1))); \
			out[i] = (type)(b < 0 || b >= bits ? 0 : shifted);                                          \
		}                                                                                                   \
	}                                                                                                           \
	static void right_shift_##suffix(struct et_span *span)                                                      \
	{                                                                                                           \
		const type *in[] = { span->in[0], span->in[1] };                                                    \
		type *out = span->out;                                                                              \
		const wide bits = (wide)(n_bits), most = (wide)(sizeof(wide) * CHAR_BIT - 1);                       \
		ET_INDEPENDENT                                                                                      \
		for (size_t i = 0, n = span->n; i < n; i++) {                                                       \
			const wide a = in[0][i], b = in[1][i];                                                      \
			out[i] = (type)(a >> (b < 0 || b >= bits ? most : b));                                      \
		}                                                                                                   \
	}
SHIFTS(i64, int64_t, int64_t, uint64_t, et_scalar_size(span->common) * CHAR_BIT)
SHIFTS(i32, int32_t, int32_t, uint32_t, 32)
SHIFTS(i16, int16_t, int32_t, uint32_t, 16)
SHIFTS(i8, int8_t, int32_t, uint32_t, 8)
SHIFTS(u8, uint8_t, int32_t, uint32_t, 8)

/* --- fmod, remainder and floored division ------------------------------------------------------------------------ */

enum division { FMOD, REMAINDER, FLOOR_DIV };

ET_EXPANDED double division_of(double a, double b, double cut, double left, const enum division kind)
{
	/* Signs are as good as random, so there is no branch on them. */
	const bool signs_differ = (left != 0) & ((b < 0) != (left < 0));
	const double whole = cut - (signs_differ ? 1.0 : 0.0),
		     zero = copysign(0.0, copysign(1.0, a) * copysign(1.0, b));
	return kind == FMOD ? left : kind == REMAINDER ? (signs_differ ? left + b : left) : whole == 0 ? zero : whole;
}

/* For any numbers, with the C library. */
static double any_division(double a, double b, const enum division kind)
{
	const double left = fmod(a, b), quotient = (a - left) / b;
	if (b == 0 && kind == FLOOR_DIV)
		return a / b;
	return division_of(a, b, kind == FLOOR_DIV ? round(quotient) : 0, left, kind);
}

/* The quotient of two floats, computed in double, is truncated to the right integer as long as that has at most 28
 * bits: a quotient is either whole, or further from a whole number than double rounds. The remainder is then exact.
 * Quotients that no int32 holds are computed again by any_division. */
#define CUT_FLOATS(q)             ((double)(int32_t)(fabs(q) < 0x1p28 ? (q) : 0))
#define LEFT_OF_FLOATS(a, cut, b) ((a) - (cut) * (b))
/* The quotient of two doubles may have been rounded to the next integer, but no further: the remainder then has the
 * other sign. A remainder less than b is exact, since the fused multiply-add does not round the product. */
#define CUT_DOUBLES(q)             __builtin_trunc(q)
#define LEFT_OF_DOUBLES(a, cut, b) __builtin_fma(-(cut), b, a)
#if defined(__FMA__) || defined(__aarch64__)
enum { HAS_DOUBLES = 1 };
#else
enum { HAS_DOUBLES = 0 };
#endif

enum { PIECE = 64 };
#define DIVISION(name, suffix, type, kind, has, cut_to, left_of, most)                                              \
	static void name##_##suffix(struct et_span *span)                                                           \
	{                                                                                                           \
		const type *as = span->in[0], *bs = span->in[1];                                                    \
		type *out = span->out, piece[PIECE];                                                                \
		for (size_t i = 0, n; i < span->n; i += n, as += n, bs += n) {                                      \
			int64_t n_outside = !(has);                                                                 \
			n = span->n - i < PIECE ? span->n - i : PIECE;                                              \
			for (size_t k = 0; (has) && k < n; k++) {                                                   \
				const double a = (double)as[k], b = (double)bs[k], q = a / b;                       \
				const double cut = cut_to(q), left = left_of(a, cut, b);                            \
				const bool is_over = sizeof(type) == sizeof(double) && left * copysign(1.0, a) < 0; \
				const double all = is_over ? left + copysign(b, a) : left;                          \
				const double whole = is_over ? cut - copysign(1.0, q) : cut;                        \
				n_outside += !((fabs(q) < (most)) & (fabs(b) < (double)INFINITY));                  \
				piece[k] = (type)division_of(a, b, whole, copysign(all, a), kind);                  \
			}                                                                                           \
			for (size_t k = 0; n_outside && k < n; k++) {                                               \
				const double a = (double)as[k], b = (double)bs[k];                                  \
				if (!(has) || !(fabs(a / b) < (most)) || isinf(b))                                  \
					piece[k] = (type)any_division(a, b, kind);                                  \
			}                                                                                           \
			memcpy(out + i, piece, n * sizeof(type));                                                   \
		}                                                                                                   \
	}
#define DIVISIONS(name, kind)                                                         \
	DIVISION(name, floats, float, kind, true, CUT_FLOATS, LEFT_OF_FLOATS, 0x1p28) \
	DIVISION(name, doubles, double, kind, HAS_DOUBLES, CUT_DOUBLES, LEFT_OF_DOUBLES, 0x1p51)
DIVISIONS(fmod, FMOD)
DIVISIONS(remainder, REMAINDER)
DIVISIONS(floor_div, FLOOR_DIV)

static void from_bf16(size_t n, float *y, const uint16_t *x)
{
	ET_INDEPENDENT
	for (size_t i = 0; i < n; i++)
		y[i] = et_bf16_to_float(x[i]);
}

static void to_bf16(size_t n, uint16_t *y, const float *x)
{
	ET_INDEPENDENT
	for (size_t i = 0; i < n; i++)
		y[i] = et_float_to_bf16(x[i]);
}

/* One vector of the product's columns, for all rows; four rows at a time share the loads of b. */
#define MULTIPLY_VECTOR(name, type, N)                                                                \
	static void name##_##N(const struct et_product *p, size_t column)                             \
	{                                                                                             \
		enum { ROWS = 4 };                                                                    \
		typedef type lanes __attribute__((vector_size((N) * sizeof(type))));                  \
		const type *b = (const type *)p->b + column;                                          \
		lanes right;                                                                          \
		size_t row = 0;                                                                       \
		for (; row + ROWS <= p->n_rows; row += ROWS) {                                        \
			const type *a = (const type *)p->a + (ptrdiff_t)row * p->a_row;               \
			type *c = (type *)p->c + (ptrdiff_t)row * p->c_row + column;                  \
			lanes sums[ROWS] = { { 0 } };                                                 \
			for (size_t k = 0; k < p->n_k; k++) {                                         \
				memcpy(&right, b + (ptrdiff_t)k * p->b_row, sizeof(right));           \
				ET_UNROLL                                                             \
				for (int r = 0; r < ROWS; r++)                                        \
					sums[r] += a[r * p->a_row + (ptrdiff_t)k * p->a_col] * right; \
			}                                                                             \
			ET_UNROLL                                                                     \
			for (int r = 0; r < ROWS; r++)                                                \
				memcpy(c + r * p->c_row, &sums[r], sizeof(right));                    \
		}                                                                                     \
		for (; row < p->n_rows; row++) {                                                      \
			const type *a = (const type *)p->a + (ptrdiff_t)row * p->a_row;               \
			lanes sum = { 0 };                                                            \
			for (size_t k = 0; k < p->n_k; k++) {                                         \
				memcpy(&right, b + (ptrdiff_t)k * p->b_row, sizeof(right));           \
				sum += a[(ptrdiff_t)k * p->a_col] * right;                            \
			}                                                                             \
			memcpy((type *)p->c + (ptrdiff_t)row * p->c_row + column, &sum, sizeof(sum)); \
		}                                                                                     \
	}
#define MULTIPLY_VECTORS(name, type, MANY)                                                              \
	MULTIPLY_VECTOR(name, type, MANY)                                                               \
	MULTIPLY_VECTOR(name, type, 4)                                                                  \
	static void name(const struct et_product *p)                                                    \
	{                                                                                               \
		size_t column = 0;                                                                      \
		for (; column + (MANY) <= p->n_columns; column += (MANY))                               \
			name##_##MANY(p, column);                                                       \
		for (; column + 4 <= p->n_columns; column += 4)                                         \
			name##_4(p, column);                                                            \
		for (size_t row = 0; column < p->n_columns && row < p->n_rows; row++) {                 \
			for (size_t j = column; j < p->n_columns; j++) {                                \
				const type *a = (const type *)p->a + (ptrdiff_t)row * p->a_row;         \
				const type *b = (const type *)p->b + j;                                 \
				type sum = 0;                                                           \
				for (size_t k = 0; k < p->n_k; k++)                                     \
					sum += a[(ptrdiff_t)k * p->a_col] * b[(ptrdiff_t)k * p->b_row]; \
				((type *)p->c)[(ptrdiff_t)row * p->c_row + (ptrdiff_t)j] = sum;         \
			}                                                                               \
		}                                                                                       \
	}
MULTIPLY_VECTORS(multiply_floats, float, 16)
MULTIPLY_VECTORS(multiply_doubles, double, 8)
MULTIPLY_VECTORS(multiply_longs, int64_t, 8)
MULTIPLY_VECTORS(multiply_words, int32_t, 16)

/* The same for integers that are widened on the way. */
#define MULTIPLY_COLUMNS(name, type, sum_type)                                                                  \
	ET_EXPANDED void name##_block(const struct et_product *p, size_t row, size_t column, const size_t rows, \
		const size_t width)                                                                             \
	{                                                                                                       \
		enum { ROWS = 4, MOST = 64 };                                                                   \
		const type *a = (const type *)p->a + (ptrdiff_t)row * p->a_row;                                 \
		const type *b = (const type *)p->b + column;                                                    \
		type *c = (type *)p->c + (ptrdiff_t)row * p->c_row + column;                                    \
		sum_type sums[ROWS][MOST];                                                                      \
		for (size_t r = 0; r < rows; r++)                                                               \
			for (size_t j = 0; j < width; j++)                                                      \
				sums[r][j] = 0;                                                                 \
		for (size_t k = 0; k < p->n_k; k++) {                                                           \
			const type *from = b + (ptrdiff_t)k * p->b_row;                                         \
			ET_UNROLL                                                                               \
			for (size_t r = 0; r < rows; r++) {                                                     \
				const sum_type factor = a[(ptrdiff_t)r * p->a_row + (ptrdiff_t)k * p->a_col];   \
				for (size_t j = 0; j < width; j++)                                              \
					sums[r][j] += factor * (sum_type)from[j];                               \
			}                                                                                       \
		}                                                                                               \
		for (size_t r = 0; r < rows; r++)                                                               \
			for (size_t j = 0; j < width; j++)                                                      \
				c[(ptrdiff_t)r * p->c_row + (ptrdiff_t)j] = (type)sums[r][j];                   \
	}                                                                                                       \
	ET_EXPANDED void name##_columns(const struct et_product *p, size_t column, const size_t width)          \
	{                                                                                                       \
		size_t row = 0;                                                                                 \
		for (; row + 4 <= p->n_rows; row += 4)                                                          \
			name##_block(p, row, column, 4, width);                                                 \
		for (; row < p->n_rows; row++)                                                                  \
			name##_block(p, row, column, 1, width);                                                 \
	}                                                                                                       \
	static void name(const struct et_product *p)                                                            \
	{                                                                                                       \
		size_t column = 0;                                                                              \
		for (; p->n_rows == 1 && column + 64 <= p->n_columns; column += 64)                             \
			name##_columns(p, column, 64);                                                          \
		for (; column + 16 <= p->n_columns; column += 16)                                               \
			name##_columns(p, column, 16);                                                          \
		for (; column + 4 <= p->n_columns; column += 4)                                                 \
			name##_columns(p, column, 4);                                                           \
		for (; column < p->n_columns; column++)                                                         \
			name##_columns(p, column, 1);                                                           \
	}
MULTIPLY_COLUMNS(multiply_shorts, int16_t, int32_t)
MULTIPLY_COLUMNS(multiply_signed_bytes, int8_t, int32_t)
MULTIPLY_COLUMNS(multiply_bytes, uint8_t, int32_t)

/* Four columns of the product at a time share the loads of a. The lanes are summed at the end. */
#define MULTIPLY_TRANSPOSED(name, type, sum_type, LANES)                                                               \
	ET_EXPANDED void name##_columns(const struct et_product *p, size_t row, size_t column, const size_t n)         \
	{                                                                                                              \
		enum { MOST = 4 };                                                                                     \
		typedef type numbers __attribute__((vector_size((LANES) * sizeof(type))));                             \
		typedef sum_type sums __attribute__((vector_size((LANES) * sizeof(sum_type))));                        \
		const type *a = (const type *)p->a + (ptrdiff_t)row * p->a_row;                                        \
		const type *b = (const type *)p->b + (ptrdiff_t)column * p->b_row;                                     \
		type *c = (type *)p->c + (ptrdiff_t)row * p->c_row + column;                                           \
		sums lanes[MOST] = { { 0 } };                                                                          \
		size_t k = 0;                                                                                          \
		for (; k + (LANES) <= p->n_k; k += (LANES)) {                                                          \
			numbers left, right;                                                                           \
			memcpy(&left, a + k, sizeof(left));                                                            \
			const sums factor = __builtin_convertvector(left, sums);                                       \
			ET_UNROLL                                                                                      \
			for (size_t j = 0; j < n; j++) {                                                               \
				memcpy(&right, b + (ptrdiff_t)j * p->b_row + k, sizeof(right));                        \
				lanes[j] += factor * __builtin_convertvector(right, sums);                             \
			}                                                                                              \
		}                                                                                                      \
		ET_UNROLL                                                                                              \
		for (size_t j = 0; j < n; j++) {                                                                       \
			sum_type each[LANES];                                                                          \
			memcpy(each, &lanes[j], sizeof(each));                                                         \
			ET_UNROLL                                                                                      \
			for (size_t width = (LANES) / 2; width > 0; width /= 2) {                                      \
				ET_UNROLL                                                                              \
				for (size_t lane = 0; lane < width; lane++)                                            \
					each[lane] += each[lane + width];                                              \
			}                                                                                              \
			for (size_t rest = k; rest < p->n_k; rest++)                                                   \
				each[0] += (sum_type)a[rest] * (sum_type)b[(ptrdiff_t)j * p->b_row + (ptrdiff_t)rest]; \
			c[j] = (type)each[0];                                                                          \
		}                                                                                                      \
	}                                                                                                              \
	static void name(const struct et_product *p)                                                                   \
	{                                                                                                              \
		for (size_t row = 0; row < p->n_rows; row++) {                                                         \
			size_t column = 0;                                                                             \
			for (; column + 4 <= p->n_columns; column += 4)                                                \
				name##_columns(p, row, column, 4);                                                     \
			for (; column < p->n_columns; column++)                                                        \
				name##_columns(p, row, column, 1);                                                     \
		}                                                                                                      \
	}
MULTIPLY_TRANSPOSED(multiply_transposed_floats, float, float, 8)
MULTIPLY_TRANSPOSED(multiply_transposed_doubles, double, double, 8)
MULTIPLY_TRANSPOSED(multiply_transposed_longs, int64_t, int64_t, 8)
MULTIPLY_TRANSPOSED(multiply_transposed_words, int32_t, int32_t, 16)
MULTIPLY_TRANSPOSED(multiply_transposed_shorts, int16_t, int32_t, 16)

/* For bytes: the compiler turns this loop into the dot product instructions that the processor has. */
#define MULTIPLY_TRANSPOSED_BYTES(name, type)                                                              \
	static void name(const struct et_product *p)                                                       \
	{                                                                                                  \
		for (size_t row = 0; row < p->n_rows; row++) {                                             \
			const type *a = (const type *)p->a + (ptrdiff_t)row * p->a_row;                    \
			for (size_t column = 0; column < p->n_columns; column++) {                         \
				const type *b = (const type *)p->b + (ptrdiff_t)column * p->b_row;         \
				int32_t sum = 0;                                                           \
				for (size_t k = 0; k < p->n_k; k++)                                        \
					sum += (int32_t)a[k] * (int32_t)b[k];                              \
				((type *)p->c)[(ptrdiff_t)row * p->c_row + (ptrdiff_t)column] = (type)sum; \
			}                                                                                  \
		}                                                                                          \
	}
MULTIPLY_TRANSPOSED_BYTES(multiply_transposed_signed_bytes, int8_t)
MULTIPLY_TRANSPOSED_BYTES(multiply_transposed_bytes, uint8_t)

static void take_square_roots(double *sums, size_t n)
{
	for (size_t k = 0; k < n; k++)
		sums[k] = sqrt(sums[k]);
}

/* Eight others at a time; their sums stay in registers over all terms. @kind is a compile-time constant inside. */
#define DISTANCES(name, type)                                                                                    \
	ET_EXPANDED void name##_of(const struct et_distances *d, size_t k, const size_t n_lanes,                 \
		const enum et_distance kind)                                                                     \
	{                                                                                                        \
		enum { MOST = 4 };                                                                               \
		typedef type numbers __attribute__((vector_size(8 * sizeof(type))));                             \
		typedef double doubles8 __attribute__((vector_size(8 * sizeof(double))));                        \
		typedef int64_t bits __attribute__((vector_size(8 * sizeof(double))));                           \
		const type *from = d->from, *others = (const type *)d->others + k;                               \
		const size_t n_vectors = n_lanes / 8;                                                            \
		doubles8 sums[MOST];                                                                             \
		numbers other;                                                                                   \
		memcpy(sums, d->sums + k, n_lanes * sizeof(double));                                             \
		for (size_t j = 0; j < d->n; j++) {                                                              \
			ET_UNROLL                                                                                \
			for (size_t v = 0; v < n_vectors; v++) {                                                 \
				memcpy(&other, others + j * ET_DISTANCES + v * 8, sizeof(other));                \
				const doubles8 difference = __builtin_convertvector(from[j] - other, doubles8);  \
				const doubles8 size = (doubles8)((bits)difference & INT64_MAX);                  \
				const bits takes = ~(size <= sums[v]) & (sums[v] == sums[v]);                    \
				if (kind == ET_DISTANCE_LARGEST)                                                 \
					sums[v] = (doubles8)((takes & (bits)size) | (~takes & (bits)sums[v]));   \
				else if (kind == ET_DISTANCE_COUNT)                                              \
					sums[v] += (doubles8)((difference != 0) & (bits)(1 - (doubles8){ 0 }));  \
				else                                                                             \
					sums[v] += kind == ET_DISTANCE_SQUARES ? difference * difference : size; \
			}                                                                                        \
		}                                                                                                \
		memcpy(d->sums + k, sums, n_lanes * sizeof(double));                                             \
	}                                                                                                        \
	ET_EXPANDED void name##_all(const struct et_distances *d, const enum et_distance kind)                   \
	{                                                                                                        \
		size_t k = 0;                                                                                    \
		for (; k + 24 < d->n_others; k += 32)                                                            \
			name##_of(d, k, 32, kind);                                                               \
		for (; k < d->n_others; k += 8)                                                                  \
			name##_of(d, k, 8, kind);                                                                \
		if (kind == ET_DISTANCE_SQUARES && d->is_last)                                                   \
			take_square_roots(d->sums, d->n_others);                                                 \
	}                                                                                                        \
	static void name(const struct et_distances *d, enum et_distance kind)                                    \
	{                                                                                                        \
		if (kind == ET_DISTANCE_SQUARES)                                                                 \
			name##_all(d, ET_DISTANCE_SQUARES);                                                      \
		else if (kind == ET_DISTANCE_SUM)                                                                \
			name##_all(d, ET_DISTANCE_SUM);                                                          \
		else if (kind == ET_DISTANCE_COUNT)                                                              \
			name##_all(d, ET_DISTANCE_COUNT);                                                        \
		else                                                                                             \
			name##_all(d, ET_DISTANCE_LARGEST);                                                      \
	}
DISTANCES(float_distances, float)
DISTANCES(double_distances, double)

/* Four rows at a time, so that sums are stored once for four. */
#define ADD_ROWS(name, type)                                                                                         \
	static void name(size_t n, double *sums, size_t n_rows, const type *rows, ptrdiff_t step)                    \
	{                                                                                                            \
		size_t r = 0;                                                                                        \
		for (; r + 4 <= n_rows; r += 4, rows += 4 * step) {                                                  \
			const type *a = rows, *b = a + step, *c = b + step, *d = c + step;                           \
			ET_INDEPENDENT                                                                               \
			for (size_t k = 0; k < n; k++)                                                               \
				sums[k] = (((sums[k] + (double)a[k]) + (double)b[k]) + (double)c[k]) + (double)d[k]; \
		}                                                                                                    \
		for (; r < n_rows; r++, rows += step) {                                                              \
			ET_INDEPENDENT                                                                               \
			for (size_t k = 0; k < n; k++)                                                               \
				sums[k] += (double)rows[k];                                                          \
		}                                                                                                    \
	}
ADD_ROWS(add_float_rows, float)
ADD_ROWS(add_double_rows, double)

#define UPDATE_EXTREMES(name, better)                                                                                 \
	static void name(size_t n, int64_t *best, int64_t *where, const int64_t *numbers, int64_t row)                \
	{                                                                                                             \
		ET_INDEPENDENT                                                                                        \
		for (size_t k = 0; where && k < n; k++) {                                                             \
			where[k] = numbers[k] better best[k] ? row : where[k];                                        \
			best[k] = numbers[k] better best[k] ? numbers[k] : best[k];                                   \
		}                                                                                                     \
		ET_INDEPENDENT                                                                                        \
		for (size_t k = 0; !where && k < n; k++)                                                              \
			best[k] = numbers[k] better best[k] ? numbers[k] : best[k];                                   \
	}                                                                                                             \
	static void merge_##name(size_t n, int64_t *best, int64_t *where, const int64_t *others, const int64_t *rows) \
	{                                                                                                             \
		if (!where) {                                                                                         \
			name(n, best, NULL, others, 0);                                                               \
			return;                                                                                       \
		}                                                                                                     \
		ET_INDEPENDENT                                                                                        \
		for (size_t k = 0; k < n; k++) {                                                                      \
			const int64_t number = others[k], now = best[k], row = rows[k], at = where[k];                \
			bool is_first = (number better now) | ((number == now) & (row < at));                         \
			where[k] = is_first ? row : at;                                                               \
			best[k] = is_first ? number : now;                                                            \
		}                                                                                                     \
	}
UPDATE_EXTREMES(larger_longs, >)
UPDATE_EXTREMES(smaller_longs, <)

/* Independent partial sums, so that one addition does not wait for another. */
#define SUM_DOUBLES(name, parameters, term)                     \
	static double name parameters                           \
	{                                                       \
		enum { SUMS = 32 };                             \
		double sums[SUMS] = { 0 };                      \
		size_t k = 0;                                   \
		for (; k + SUMS <= n; k += SUMS) {              \
			for (size_t i = 0; i < SUMS; i++)       \
				sums[i] += term;                \
		}                                               \
		for (size_t i = 0; k + i < n; i++)              \
			sums[i] += term;                        \
		for (size_t half = SUMS / 2; half; half /= 2) { \
			for (size_t i = 0; i < half; i++)       \
				sums[i] += sums[i + half];      \
		}                                               \
		return sums[0];                                 \
	}
SUM_DOUBLES(sum_doubles, (size_t n, const double *x), x[k + i])
SUM_DOUBLES(squares_of_doubles, (size_t n, const double *x, double center), (x[k + i] - center) * (x[k + i] - center))

/* Several vectors at a time, so that one does not wait for another. */
enum { VECTORS = 2, LANES = 8, ABREAST = VECTORS * LANES };
typedef double doubles __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t longs __attribute__((vector_size(LANES * sizeof(int64_t))));
#define EXTREME(name, type, vector, not_better)                                                              \
	static type name(size_t n, const type *x)                                                            \
	{                                                                                                    \
		type lanes[ABREAST], most = x[0];                                                            \
		vector now[VECTORS], next;                                                                   \
		size_t k = 0;                                                                                \
		if (n < ABREAST) {                                                                           \
			for (k = 1; k < n; k++)                                                              \
				most = !(x[k] not_better most) && most == most ? x[k] : most;                \
			return most;                                                                         \
		}                                                                                            \
		memcpy(now, x, sizeof(now));                                                                 \
		for (k = ABREAST; k < n; k += ABREAST) { /* the last vectors may overlap earlier ones */     \
			k = k + ABREAST <= n ? k : n - ABREAST;                                              \
			for (size_t i = 0; i < VECTORS; i++) {                                               \
				memcpy(&next, x + k + i * LANES, sizeof(next));                              \
				longs takes = ~(next not_better now[i]) & (now[i] == now[i]);                \
				now[i] = (vector)((takes & (longs)next) | (~takes & (longs)now[i]));         \
			}                                                                                    \
		}                                                                                            \
		memcpy(lanes, now, sizeof(lanes));                                                           \
		for (size_t half = ABREAST / 2; half; half /= 2) {                                           \
			for (size_t i = 0; i < half; i++)                                                    \
				lanes[i] = (!(lanes[i + half] not_better lanes[i]) & (lanes[i] == lanes[i])) \
						   ? lanes[i + half]                                         \
						   : lanes[i];                                               \
		}                                                                                            \
		return lanes[0];                                                                             \
	}
EXTREME(largest_double, double, doubles, <=)
EXTREME(smallest_double, double, doubles, >=)
EXTREME(largest_long, int64_t, longs, <=)
EXTREME(smallest_long, int64_t, longs, >=)

/* Rows at least as long as a vector, and too short for several vectors at a time. */
#define KEEP_BETTER(vector, not_better)                \
	takes = ~(next not_better now) & (now == now); \
	now = (vector)((takes & (longs)next) | (~takes & (longs)now))
#define EXTREME_ROWS(name, one, type, vector, not_better)                                                            \
	static void name(size_t n_rows, size_t n, type *results, const type *rows, ptrdiff_t step)                   \
	{                                                                                                            \
		for (size_t r = 0; r < n_rows; r++, rows += step) {                                                  \
			vector now, next;                                                                            \
			longs takes;                                                                                 \
			if (n < LANES || n > 4 * ABREAST) {                                                          \
				results[r] = one(n, rows);                                                           \
				continue;                                                                            \
			}                                                                                            \
			memcpy(&now, rows, sizeof(now));                                                             \
			for (size_t k = LANES; k < n; k += LANES) { /* the last vector may overlap the one before */ \
				memcpy(&next, rows + (k + LANES <= n ? k : n - LANES), sizeof(next));                \
				KEEP_BETTER(vector, not_better);                                                     \
			}                                                                                            \
			next = __builtin_shufflevector(now, now, 4, 5, 6, 7, 0, 1, 2, 3);                            \
			KEEP_BETTER(vector, not_better);                                                             \
			next = __builtin_shufflevector(now, now, 2, 3, 0, 1, 6, 7, 4, 5);                            \
			KEEP_BETTER(vector, not_better);                                                             \
			next = __builtin_shufflevector(now, now, 1, 0, 3, 2, 5, 4, 7, 6);                            \
			KEEP_BETTER(vector, not_better);                                                             \
			results[r] = now[0];                                                                         \
		}                                                                                                    \
	}
EXTREME_ROWS(largest_of_doubles, largest_double, double, doubles, <=)
EXTREME_ROWS(smallest_of_doubles, smallest_double, double, doubles, >=)
EXTREME_ROWS(largest_of_longs, largest_long, int64_t, longs, <=)
EXTREME_ROWS(smallest_of_longs, smallest_long, int64_t, longs, >=)

/* Short rows. Combine each number with its right neighbour, then each result with the one 2 behind it, and so on,
 * across the ends of rows: loops as long as all rows together. A row's result is where its first number was. */
#define EXTREMES(name, type, not_better)                                                                              \
	static void combine_##name(size_t n, size_t distance, type *restrict to, const type *restrict from)           \
	{                                                                                                             \
		ET_INDEPENDENT                                                                                        \
		for (size_t i = 0; i < n; i++) {                                                                      \
			const type now = from[i], next = from[i + distance];                                          \
			to[i] = (!(next not_better now) & (now == now)) ? next : now;                                 \
		}                                                                                                     \
	}                                                                                                             \
	static void name(size_t n_rows, size_t n, void *results, const void *rows)                                    \
	{                                                                                                             \
		enum { N_COMBINED = 4096 / sizeof(type) };                                                            \
		type combined[2][N_COMBINED], *out = results;                                                         \
		const type *in = rows;                                                                                \
		for (size_t part; n_rows; n_rows -= part, in += part * n, out += part) {                              \
			part = n_rows < N_COMBINED / n ? n_rows : N_COMBINED / n;                                     \
			const type *from = in;                                                                        \
			for (size_t width = 1, left = part * n, toggle = 0, distance; width < n; width += distance) { \
				distance = width < n - width ? width : n - width;                                     \
				left -= distance;                                                                     \
				combine_##name(left, distance, combined[toggle], from);                               \
				from = combined[toggle];                                                              \
				toggle = !toggle;                                                                     \
			}                                                                                             \
			for (size_t r = 0; r < part; r++)                                                             \
				out[r] = from[r * n];                                                                 \
		}                                                                                                     \
	}
#define EXTREMES_OF(name, type)                \
	EXTREMES(largest_few_##name, type, <=) \
	EXTREMES(smallest_few_##name, type, >=)
EXTREMES_OF(floats, float)
EXTREMES_OF(doubles, double)
EXTREMES_OF(longs, int64_t)
EXTREMES_OF(words, int32_t)
EXTREMES_OF(shorts, int16_t)
EXTREMES_OF(signed_bytes, int8_t)
EXTREMES_OF(bytes, uint8_t)

/* Four rows at a time, so that sums are stored once for four. */
#define WEIGH_ROWS(name, type)                                                                                       \
	static void name(size_t n, type *sums, size_t n_k, const type *rows, ptrdiff_t row, const type *factors,     \
		ptrdiff_t col)                                                                                       \
	{                                                                                                            \
		size_t k = 0;                                                                                        \
		for (; k + 4 <= n_k; k += 4, rows += 4 * row, factors += 4 * col) {                                  \
			const type *r0 = rows, *r1 = r0 + row, *r2 = r1 + row, *r3 = r2 + row;                       \
			const type f0 = factors[0], f1 = factors[col], f2 = factors[2 * col], f3 = factors[3 * col]; \
			ET_INDEPENDENT                                                                               \
			for (size_t j = 0; j < n; j++)                                                               \
				sums[j] = (((sums[j] + f0 * r0[j]) + f1 * r1[j]) + f2 * r2[j]) + f3 * r3[j];         \
		}                                                                                                    \
		for (; k < n_k; k++, rows += row, factors += col) {                                                  \
			const type factor = *factors;                                                                \
			ET_INDEPENDENT                                                                               \
			for (size_t j = 0; j < n; j++)                                                               \
				sums[j] += factor * rows[j];                                                         \
		}                                                                                                    \
	}
WEIGH_ROWS(weigh_double_rows, double)
WEIGH_ROWS(weigh_long_rows, int64_t)

/* --- Hadamard transform ------------------------------------------------------------------------------------------- */

typedef float floats8 __attribute__((vector_size(8 * sizeof(float))));
typedef uint32_t bits8 __attribute__((vector_size(8 * sizeof(float))));

/* Sums for the first of two, differences for the second. */
#define BUTTERFLY(v, with, s0, s1, s2, s3, s4, s5, s6, s7) \
	((with) + (floats8)((bits8)(v) ^ ((bits8){ s0, s1, s2, s3, s4, s5, s6, s7 } << 31)))

static void transform_eights(float *row, size_t n)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		floats8 v;
		memcpy(&v, row + i, sizeof(v));
		v = BUTTERFLY(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6), 0, 1, 0, 1, 0, 1, 0, 1);
		v = BUTTERFLY(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5), 0, 0, 1, 1, 0, 0, 1, 1);
		v = BUTTERFLY(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3), 0, 0, 0, 0, 1, 1, 1, 1);
		memcpy(row + i, &v, sizeof(v));
	}
}

/* The steps @step and 2 * @step at once; @step is a multiple of 8. */
static void transform_two_steps(float *row, size_t n, size_t step)
{
	for (size_t i = 0; i < n; i += 4 * step) {
		for (size_t j = i; j < i + step; j += 8) {
			floats8 first, second, third, fourth;
			memcpy(&first, row + j, sizeof(first));
			memcpy(&second, row + j + step, sizeof(first));
			memcpy(&third, row + j + 2 * step, sizeof(first));
			memcpy(&fourth, row + j + 3 * step, sizeof(first));
			const floats8 a = first + second, b = first - second, c = third + fourth, d = third - fourth;
			first = a + c;
			second = b + d;
			third = a - c;
			fourth = b - d;
			memcpy(row + j, &first, sizeof(first));
			memcpy(row + j + step, &second, sizeof(first));
			memcpy(row + j + 2 * step, &third, sizeof(first));
			memcpy(row + j + 3 * step, &fourth, sizeof(first));
		}
	}
}

static void hadamard(size_t n, float *row)
{
	const float factor = 1 / sqrtf((float)n);
	size_t step = 1;
	if (n >= 8) {
		transform_eights(row, n);
		step = 8;
		for (; 4 * step <= n; step *= 4)
			transform_two_steps(row, n, step);
	}
	for (; step < n; step *= 2) { /* the last step if one is left; all steps if n < 8 */
		for (size_t i = 0; i < n; i += 2 * step) {
			ET_INDEPENDENT
			for (size_t j = i; j < i + step; j++) {
				const float x = row[j], y = row[j + step];
				row[j] = x + y;
				row[j + step] = x - y;
			}
		}
	}
	for (size_t i = 0; i < n; i++)
		row[i] *= factor;
}

const struct et_span_ukernels ET_SPAN_UKERNELS_NAME = {
	.left_shift = { NULL, NULL, left_shift_i64, left_shift_i32, left_shift_i16, left_shift_i8, left_shift_u8 },
	.right_shift = { NULL, NULL, right_shift_i64, right_shift_i32, right_shift_i16, right_shift_i8,
		right_shift_u8 },
	.fmod = { fmod_floats, fmod_doubles },
	.remainder = { remainder_floats, remainder_doubles },
	.floor_div = { floor_div_floats, floor_div_doubles },
	.from_bf16 = from_bf16,
	.to_bf16 = to_bf16,
	.multiply = { multiply_floats, multiply_doubles, multiply_longs, multiply_words, multiply_shorts,
		multiply_signed_bytes, multiply_bytes },
	.multiply_transposed = { multiply_transposed_floats, multiply_transposed_doubles, multiply_transposed_longs,
		multiply_transposed_words, multiply_transposed_shorts, multiply_transposed_signed_bytes,
		multiply_transposed_bytes },
	.float_distances = float_distances,
	.double_distances = double_distances,
	.weigh_double_rows = weigh_double_rows,
	.weigh_long_rows = weigh_long_rows,
	.add_float_rows = add_float_rows,
	.add_double_rows = add_double_rows,
	.sum_doubles = sum_doubles,
	.squares_of_doubles = squares_of_doubles,
	.larger_longs = larger_longs,
	.smaller_longs = smaller_longs,
	.merge_larger_longs = merge_larger_longs,
	.merge_smaller_longs = merge_smaller_longs,
	.largest_of_rows = { largest_few_floats, largest_few_doubles, largest_few_longs, largest_few_words,
		largest_few_shorts, largest_few_signed_bytes, largest_few_bytes, largest_few_bytes },
	.smallest_of_rows = { smallest_few_floats, smallest_few_doubles, smallest_few_longs, smallest_few_words,
		smallest_few_shorts, smallest_few_signed_bytes, smallest_few_bytes, smallest_few_bytes },
	.largest_of_doubles = largest_of_doubles,
	.smallest_of_doubles = smallest_of_doubles,
	.largest_of_longs = largest_of_longs,
	.smallest_of_longs = smallest_of_longs,
	.hadamard = hadamard,
	.largest_double = largest_double,
	.smallest_double = smallest_double,
	.largest_long = largest_long,
	.smallest_long = smallest_long,
};
