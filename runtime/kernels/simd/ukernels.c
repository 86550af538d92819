/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled several times: the build defines ET_UKERNELS_NAME and chooses the instruction set, from which the
 * widths below follow.
 *
 * The matrix tile is the heart: so many rows of so many vectors that all sums stay in registers while k runs.
 * A row's element is broadcast, so a may lie anyhow; b comes packed. */
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/base/expand.h"
#include "runtime/base/fp16.h"
#include "runtime/kernels/simd/vector.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The tile's rows, and its vectors in each: as many as there are registers for. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { ROWS = 8, VECTORS = 2 };
#elif defined(__AVX2__)
enum { ROWS = 6, VECTORS = 2 };
#else
enum { ROWS = 4, VECTORS = 2 };
#endif

static void tile(size_t n_k, const float *a, ptrdiff_t a_row, ptrdiff_t a_col, const float *b, float *c,
	ptrdiff_t c_row, const float *begin)
{
	vector sum[ROWS][VECTORS];
	UNROLL
	for (int i = 0; i < ROWS; i++) {
		UNROLL
		for (int v = 0; v < VECTORS; v++)
			sum[i][v] = begin ? begin[i] - (vector){ 0 } : load(c + i * c_row + v * LANES);
	}
	for (size_t k = 0; k < n_k; k++) {
		vector right[VECTORS];
		UNROLL
		for (int v = 0; v < VECTORS; v++)
			right[v] = load(b + v * LANES);
		UNROLL
		for (int i = 0; i < ROWS; i++) {
			UNROLL
			for (int v = 0; v < VECTORS; v++)
				sum[i][v] += a[i * a_row] * right[v];
		}
		a += a_col;
		b += VECTORS * LANES;
	}
	UNROLL
	for (int i = 0; i < ROWS; i++) {
		UNROLL
		for (int v = 0; v < VECTORS; v++)
			store(c + i * c_row + v * LANES, sum[i][v]);
	}
}

static float dot(size_t n, const float *a, const float *b)
{
	vector sum[4] = { { 0 } };
	float total = 0;
	size_t i = 0;
	for (; i + 4 * LANES <= n; i += 4 * LANES) {
		UNROLL
		for (int v = 0; v < 4; v++)
			sum[v] += load(a + i + (size_t)v * LANES) * load(b + i + (size_t)v * LANES);
	}
	for (; i + LANES <= n; i += LANES)
		sum[0] += load(a + i) * load(b + i);
	sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
	for (int lane = 0; lane < LANES; lane++)
		total += sum[0][lane];
	for (; i < n; i++)
		total += a[i] * b[i];
	return total;
}

enum { ROWS_ABREAST = 4 };

static void dots(size_t n_rows, size_t n, float *y, const float *x, const float *rows, ptrdiff_t stride)
{
	size_t i = 0;
	for (; i + ROWS_ABREAST <= n_rows; i += ROWS_ABREAST, rows += ROWS_ABREAST * stride) {
		vector sums[ROWS_ABREAST] = { { 0 } };
		size_t k = 0;
		for (; k + LANES <= n; k += LANES) {
			vector factor = load(x + k);
			UNROLL
			for (int row = 0; row < ROWS_ABREAST; row++)
				sums[row] += factor * load(rows + row * stride + k);
		}
		UNROLL
		for (int row = 0; row < ROWS_ABREAST; row++) {
			float total = 0;
			for (int lane = 0; lane < LANES; lane++)
				total += sums[row][lane];
			for (size_t rest = k; rest < n; rest++)
				total += x[rest] * (rows + row * stride)[rest];
			y[i + (size_t)row] = total;
		}
	}
	for (; i < n_rows; i++, rows += stride)
		y[i] = dot(n, x, rows);
}

static void weighted_rows(size_t n_rows, size_t n, float *y, const float *weights, const float *rows, ptrdiff_t stride)
{
	size_t k = 0;
	for (; k + ROWS_ABREAST * LANES <= n; k += ROWS_ABREAST * LANES) {
		vector sums[ROWS_ABREAST] = { { 0 } };
		for (size_t i = 0; i < n_rows; i++) {
			UNROLL
			for (int v = 0; v < ROWS_ABREAST; v++)
				sums[v] += weights[i] * load(rows + (ptrdiff_t)i * stride + k + v * LANES);
		}
		UNROLL
		for (int v = 0; v < ROWS_ABREAST; v++)
			store(y + k + (size_t)v * LANES, sums[v]);
	}
	for (; k < n; k += LANES) {
		size_t part = n - k < LANES ? n - k : LANES;
		float sums[LANES] = { 0 };
		for (size_t i = 0; i < n_rows; i++) {
			for (size_t v = 0; v < part; v++)
				sums[v] += weights[i] * rows[(ptrdiff_t)i * stride + (ptrdiff_t)(k + v)];
		}
		memcpy(y + k, sums, part * sizeof(*sums));
	}
}

static void add_scaled(size_t n, float *restrict y, const float *restrict x, ptrdiff_t stride, float factor)
{
	if (stride == 1) {
		for (size_t i = 0; i < n; i++)
			y[i] += x[i] * factor;
	} else if (stride == 2) {
		for (size_t i = 0; i < n; i++)
			y[i] += x[2 * i] * factor;
	} else {
		for (size_t i = 0; i < n; i++)
			y[i] += x[(ptrdiff_t)i * stride] * factor;
	}
}

/* Blocks of vectors whose sums stay in registers over all taps; what is left at the end is done by a last block
 * that overlaps the one before. */
static void stencil(size_t n, float *restrict y, const float *restrict x, size_t n_taps, const ptrdiff_t *offsets,
	const float *factors, float begin)
{
	enum { BLOCK = 4 };
	size_t i = 0;
	for (; i + BLOCK * LANES <= n; i += BLOCK * LANES) {
		vector sum[BLOCK];
		UNROLL
		for (int v = 0; v < BLOCK; v++)
			sum[v] = begin - (vector){ 0 };
		for (size_t t = 0; t < n_taps; t++) {
			UNROLL
			for (int v = 0; v < BLOCK; v++)
				sum[v] += factors[t] * load(x + (ptrdiff_t)i + offsets[t] + v * LANES);
		}
		UNROLL
		for (int v = 0; v < BLOCK; v++)
			store(y + i + (size_t)v * LANES, sum[v]);
	}
	for (; i < n && n >= LANES; i += LANES) {
		vector sum = begin - (vector){ 0 };
		i = i + LANES <= n ? i : n - LANES;
		for (size_t t = 0; t < n_taps; t++)
			sum += factors[t] * load(x + (ptrdiff_t)i + offsets[t]);
		store(y + i, sum);
	}
	for (; i < n; i++) {
		float sum = begin;
		for (size_t t = 0; t < n_taps; t++)
			sum += factors[t] * x[(ptrdiff_t)i + offsets[t]];
		y[i] = sum;
	}
}

static void add_product(size_t n, float *restrict y, const float *restrict a, const float *restrict b)
{
	for (size_t i = 0; i < n; i++)
		y[i] += a[i] * b[i];
}

/* --- normalization --------------------------------------------------------------------------------------------- */

enum { SUMS = 16 }; /* at a time: loops over them become vectors */

static double total(const double sums[SUMS])
{
	double all = 0;
	for (size_t k = 0; k < SUMS; k++)
		all += sums[k];
	return all;
}

static double sum_of(size_t n, const float *x)
{
	double sums[SUMS] = { 0 }, rest = 0;
	size_t n_even = n - n % SUMS;
	for (size_t i = 0; i < n_even; i += SUMS)
		for (size_t k = 0; k < SUMS; k++)
			sums[k] += (double)x[i + k];
	for (size_t i = n_even; i < n; i++)
		rest += (double)x[i];
	return n_even ? rest + total(sums) : rest;
}

static double squares_of(size_t n, const float *x, double center)
{
	double sums[SUMS] = { 0 }, rest = 0;
	size_t n_even = n - n % SUMS;
	for (size_t i = 0; i < n_even; i += SUMS)
		for (size_t k = 0; k < SUMS; k++) {
			double d = (double)x[i + k] - center;
			sums[k] += d * d;
		}
	for (size_t i = n_even; i < n; i++)
		rest += ((double)x[i] - center) * ((double)x[i] - center);
	return n_even ? rest + total(sums) : rest;
}

static void normalize(size_t n, float *y, const float *x, float center, float factor, const float *weight,
	const float *bias)
{
	for (size_t i = 0; i < n; i++)
		y[i] = (x[i] - center) * factor * weight[i] + bias[i];
}

/* --- powers of e, and softmax --------------------------------------------------------------------------------- */

enum { ABREAST = 4 }; /* vectors at a time, so that one waits for no other */

static inline vector power_of_two(ints n)
{
	return (vector)(((bits)n + 127) << 23);
}

/* e^x is 2^n of a power near 1: of that what is above 1, by Taylor's series up to r^7; what that leaves away is below a
 * tenth of the last bit. */
static inline vector near_one(vector x, ints *ret_n)
{
	const float magic = 0x1.8p23f; /* its sums have an integer in their lowest bits */
	const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f; /* the first times any n is exact */
	vector sum = x * 0x1.715476p0f + magic;
	vector n = sum - magic;
	vector r = x - n * ln2_high - n * ln2_low;
	vector p = r * (1.0f / 5040) + 1.0f / 720;
	p = p * r + 1.0f / 120;
	p = p * r + 1.0f / 24;
	p = p * r + 1.0f / 6;
	p = p * r + 0.5f;
	*ret_n = (ints)((bits)sum - 0x4b400000u);
	return p * r * r + r;
}

/* Below -104 it is 0, above 89 infinite, as they would be if rounded. NaN stays. Where it is 0 both powers of two are, since
 * to round a product to 0 takes a processor longer than all of this, and most rows have lanes of that kind. */
static inline vector power_of_e(vector x)
{
	ints n;
	x = choose(x < -104.0f, (vector){ 0 } - 176.0f, x);
	x = choose(x > 89.0f, (vector){ 0 } + 89.0f, x);
	vector p = near_one(x, &n) + 1.0f;
	return p * power_of_two(n >> 1) * power_of_two(n - (n >> 1)); /* 2^n itself may be no float */
}

/* e^x - 1 of what is not above 0, to the last bits of what is near it, too; of -0 it is -0. */
static inline vector power_less_one(vector x)
{
	const bits sign = (bits){ 0 } + 0x80000000u;
	ints n;
	x = choose(x < -20.0f, (vector){ 0 } - 20.0f, x);
	vector p = near_one(x, &n), power = power_of_two(n);
	return (vector)((bits)(p * power + (power - 1.0f)) | ((bits)x & sign));
}

static inline vector sigmoid_of(vector x)
{
	return 1.0f / (power_of_e(-x) + 1.0f);
}

static inline vector tanh_of(vector x)
{
	const bits sign = (bits){ 0 } + 0x80000000u;
	vector less = power_less_one((vector)((bits)x | sign) * 2.0f);
	return (vector)(((bits)(less / (less + 2.0f)) & ~sign) | ((bits)x & sign));
}

/* x times the normal distribution's integral up to x. That from |x| on is e to the power of -x²/2, times what falls slowly
 * enough for a polynomial in v = px / (1 + px), which was fitted to it up to where it is below all floats. (x²: of what has half
 * of the bits, exactly, and the rest as a factor near 1.) */
static inline vector gelu_of(vector x)
{
	static const float coefficients[] = { 0.5f, -0.38653779f, -0.0385414548f, 0.0853739455f, 0.0424940065f,
		0.0290725678f, -0.114919089f, 0.182453424f, -0.247103602f, 0.170523629f, -0.0432913266f };
	const vector most = (vector){ 0 } + 15.0f;
	ints is_near = (vector)((bits)x & 0x7fffffffu) < most; /* beyond, and of no number, nothing is left */
	vector t = choose(is_near, (vector)((bits)x & 0x7fffffffu), (vector){ 0 });
	vector whole = (vector)((bits)t & 0xfffff000u), rest = 0.5f * ((t - whole) * (t + whole));
	vector near_one = 1.0f - rest * (1.0f - rest * (0.5f - rest * (1 / 6.0f)));
	vector u = 1.0f / (1.0f + 0.45f * t), v = 0.45f * t * u;
	vector sum = (vector){ 0 } + coefficients[10];
	UNROLL
	for (size_t k = 10; k-- > 0;)
		sum = sum * v + coefficients[k];
	vector beyond = power_of_e(-0.5f * (whole * whole)) * near_one * (sum * u);
	beyond = choose(is_near, beyond, (vector){ 0 });
	return x * choose(x < 0.0f, beyond, 1.0f - beyond);
}

/* --- logarithms ----------------------------------------------------------------------------------------------- */

/* x as 2^e times what is within a factor of sqrt(2) of 1; of that, what it is above 1 and its logarithm. Subnormals are
 * made normal first; what is no finite number above 0 is for put_right. */
struct split {
	vector e, above, log;
};

/* log(1 + f) is f - f²/2 + s (f²/2 + r), with s = f / (2 + f) and r the rest of the series 2 atanh(s) = 2 (s + s³/3 + …),
 * of which what is left away is below 3e-9: so the large terms have no error but their last bits. */
static inline struct split take_log(vector x)
{
	struct split split;
	ints is_small = x < 0x1p-126f;
	x = choose(is_small, x * 0x1p23f, x);
	bits from_root = (bits)x - 0x3f3504f3u; /* sqrt(1/2) */
	ints e = (ints)from_root >> 23;
	vector f = (vector)((from_root & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
	split.e = __builtin_convertvector(e + (is_small & -23), vector);
	vector s = f / (f + 2.0f), z = s * s, half = f * f * 0.5f;
	vector r = z * (2.0f / 9) + 2.0f / 7;
	r = r * z + 2.0f / 5;
	r = (r * z + 2.0f / 3) * z;
	split.above = f;
	split.log = f - (half - s * (half + r));
	return split;
}

/* Of a number that has no logarithm, or none that is finite. */
static inline vector put_right(vector x, vector log)
{
	log = choose(x == 0.0f, (vector){ 0 } - INFINITY, log);
	log = choose(x == INFINITY, x, log);
	return choose(x >= 0.0f, log, (vector){ 0 } + NAN);
}

/* Powers of two lose nothing: so many times 0.693… is added in two parts, the first of which is exact. */
static inline vector scaled_log(vector x, float factor, float two_high, float two_low)
{
	struct split split = take_log(x);
	return put_right(x, split.e * two_high + (split.log * factor + split.e * two_low));
}

static inline vector log_of(vector x)
{
	return scaled_log(x, 1, 0x1.62e4p-1f, 0x1.7f7d1cp-20f);
}

static inline vector log2_of(vector x)
{
	return scaled_log(x, 0x1.715476p0f, 1, 0);
}

static inline vector log10_of(vector x)
{
	return scaled_log(x, 0x1.bcb7b2p-2f, 0x1.344p-2f, 0x1.3509f8p-18f);
}

/* The logarithm of the rounded sum, and what rounding took from it. */
static inline vector log1p_of(vector x)
{
	vector sum = x + 1.0f, log = log_of(sum);
	vector lost = choose(sum < 2.0f, x - (sum - 1.0f), (vector){ 0 } + 1.0f - (sum - x)) / sum;
	ints is_plain = (sum > 0.0f) & (sum < INFINITY);
	return choose((sum == 1.0f) | (x != x), x, choose(is_plain, log + lost, log));
}

/* --- sine and cosine ------------------------------------------------------------------------------------------- */

/* Beyond this the C library takes over: quarters of a circle are subtracted in four parts, and as many of them as fit
 * below it times each of the first three are exact. */
#define MOST_ANGLE 8192.0f

/* The angle within its quarter, -pi/4 to pi/4, and which quarter it was. */
static inline vector quarter_of(vector x, ints *ret_quarter)
{
	const float magic = 0x1.8p23f;
	vector sum = x * 0x1.45f306p-1f + magic, n = sum - magic;
	*ret_quarter = (ints)((bits)sum - 0x4b400000u);
	return x - n * 0x1.92p0f - n * 0x1.fb4p-12f - n * 0x1.444p-24f - n * 0x1.68c234p-39f;
}

/* Both by Taylor's series; what is left away is below 2e-9. */
static inline vector sine_of_quarter(vector r, ints quarter)
{
	vector z = r * r;
	vector sine = z * (1.0f / 362880) - 1.0f / 5040;
	sine = (sine * z + 1.0f / 120) * z - 1.0f / 6;
	sine = (vector)((bits)(sine * z * r + r) | ((bits)r & 0x80000000u)); /* of -0, too */
	vector cosine = z * (-1.0f / 3628800) + 1.0f / 40320;
	cosine = (cosine * z - 1.0f / 720) * z + 1.0f / 24;
	cosine = cosine * z * z + (1.0f - z * 0.5f);
	vector value = choose((quarter & 1) != 0, cosine, sine);
	return (vector)((bits)value ^ (bits)(quarter & 2) << 30);
}

/* Whether any bit of @n_bytes, a multiple of 8, is set. */
static inline bool is_any(const void *mask, size_t n_bytes)
{
	uint64_t any = 0, part;
	UNROLL
	for (size_t i = 0; i < n_bytes; i += sizeof(part)) {
		memcpy(&part, (const uint8_t *)mask + i, sizeof(part));
		any |= part;
	}
	return any != 0;
}

static inline vector angles(vector x, int quarters, float (*plain)(float x))
{
	ints quarter, is_far = ~((x <= MOST_ANGLE) & (x >= -MOST_ANGLE));
	vector r = quarter_of(x, &quarter), y = sine_of_quarter(r, quarter + quarters);
	bool any = is_any(&is_far, sizeof(is_far));
	for (int lane = 0; any && lane < LANES; lane++) {
		if (is_far[lane])
			y[lane] = plain(x[lane]);
	}
	return y;
}

static inline vector sin_of(vector x)
{
	return angles(x, 0, sinf);
}

static inline vector cos_of(vector x)
{
	return angles(x, 1, cosf);
}

/* The last vector overlaps the one before, if that is how it fits, and is read before that is written. */
#define EACH(name, expression)                                  \
	static void name(size_t n, float *y, const float *x)    \
	{                                                       \
		size_t at = n < LANES ? 0 : n - LANES;          \
		vector a, last = get(x + at, n);                \
		for (size_t i = 0; i + LANES < n; i += LANES) { \
			a = load(x + i);                        \
			store(y + i, expression);               \
		}                                               \
		a = last;                                       \
		put(y + at, expression, n);                     \
	}
EACH(exponentials, power_of_e(a))
EACH(exponentials_less_one, power_less_one(a))
EACH(sigmoids, sigmoid_of(a))
EACH(tanhs, tanh_of(a))
EACH(gelus, gelu_of(a))
EACH(logarithms, log_of(a))
EACH(logarithms_of_2, log2_of(a))
EACH(logarithms_of_10, log10_of(a))
EACH(logarithms_of_more, log1p_of(a))
EACH(sines, sin_of(a))
EACH(cosines, cos_of(a))

/* --- powers ------------------------------------------------------------------------------------------------------ */

#if defined(__AVX2__)
/* In doubles, so that the exponent may multiply the logarithm's error: as accurate as the C library. */
enum { HALF = LANES / 2 };
typedef double doubles __attribute__((vector_size(HALF * sizeof(double))));
typedef int64_t longs __attribute__((vector_size(HALF * sizeof(int64_t))));
typedef float half_vector __attribute__((vector_size(HALF * sizeof(float))));
typedef int32_t half_ints __attribute__((vector_size(HALF * sizeof(int32_t))));

/* log2 of what is normal and above 0: as take_log, by the series of atanh up to s^15 (what is left away is below 1e-13).
 * Then 2^y is 2^n times Taylor's series up to the 9th power (below 3e-11). */
static inline half_vector power_of(half_vector a, half_vector b)
{
	const double magic = 0x1.8p52;
	doubles x = __builtin_convertvector(a, doubles), y = __builtin_convertvector(b, doubles);
	longs from_root = (longs)x - 0x3fe6a09e667f3bcd; /* sqrt(1/2) */
	longs e = from_root >> 52;
	doubles f = (doubles)((from_root & 0xfffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0;
	doubles s = f / (f + 2.0), z = s * s;
	doubles p = z * (1.0 / 15) + 1.0 / 13;
	p = p * z + 1.0 / 11;
	p = p * z + 1.0 / 9;
	p = p * z + 1.0 / 7;
	p = p * z + 1.0 / 5;
	p = p * z + 1.0 / 3;
	p = p * z + 1.0;
	doubles whole = (doubles)(e + (longs)((doubles){ 0 } + magic)) - magic;
	y *= s * p * (2 * 0x1.71547652b82fep0) + whole;
	/* beyond the limits it is 0 or infinite as a float */
	y = (doubles)(((y < -1000.0) & (longs)((doubles){ 0 } - 1000.0)) | (~(y < -1000.0) & (longs)y));
	y = (doubles)(((y > 1000.0) & (longs)((doubles){ 0 } + 1000.0)) | (~(y > 1000.0) & (longs)y));
	doubles sum = y + magic, n = sum - magic, r = (y - n) * 0x1.62e42fefa39efp-1;
	doubles q = r * (1.0 / 362880) + 1.0 / 40320;
	q = q * r + 1.0 / 5040;
	q = q * r + 1.0 / 720;
	q = q * r + 1.0 / 120;
	q = q * r + 1.0 / 24;
	q = q * r + 1.0 / 6;
	q = q * r + 0.5;
	q = q * r * r + r + 1.0;
	doubles power = (doubles)(((longs)sum - (longs)((doubles){ 0 } + magic) + 1023) << 52);
	return __builtin_convertvector(q * power, half_vector);
}

static void powers(size_t n, float *y, const float *x, const float *exponents)
{
	for (size_t i = 0; i < n; i += HALF) {
		size_t part = n - i < HALF ? n - i : HALF;
		half_vector a = { 0 }, b = { 0 }, power;
		if (part == HALF) { /* a size that is known makes no call */
			memcpy(&a, x + i, sizeof(a));
			memcpy(&b, exponents + i, sizeof(b));
		} else {
			memcpy(&a, x + i, part * sizeof(float));
			memcpy(&b, exponents + i, part * sizeof(float));
		}
		power = power_of(a, b);
		/* what is special to pow: no positive normal base, or an exponent that is not finite */
		half_ints is_special = ~((a >= 0x1p-126f) & (a < INFINITY) & (b - b == 0.0f));
		bool any = is_any(&is_special, sizeof(is_special));
		for (size_t lane = 0; any && lane < part; lane++) {
			if (is_special[lane])
				power[lane] = powf(a[lane], b[lane]);
		}
		if (part == HALF)
			memcpy(y + i, &power, sizeof(power));
		else
			memcpy(y + i, &power, part * sizeof(float));
	}
}
#else
static void powers(size_t n, float *y, const float *x, const float *exponents)
{
	for (size_t i = 0; i < n; i++)
		y[i] = powf(x[i], exponents[i]);
}
#endif

/* As everywhere, but with this build's vectors. */
static void from_fp16(size_t n, float *y, const uint16_t *x)
{
	for (size_t i = 0; i < n; i++)
		y[i] = et_fp16_to_float(x[i]);
}

static void to_fp16(size_t n, uint16_t *y, const float *x)
{
	for (size_t i = 0; i < n; i++)
		y[i] = et_float_to_fp16(x[i]);
}

/* @sign -1: the smallest, as the largest of what is turned around. */
static inline float most_of(size_t n, const float *x, float sign)
{
	vector most[ABREAST];
	size_t i = 0;
	if (n < LANES) {
		float result = sign * x[0];
		for (i = 1; i < n; i++)
			result = !(sign * x[i] <= result) && result == result ? sign * x[i] : result;
		return sign * result;
	}
	for (int v = 0; v < ABREAST; v++)
		most[v] = load(x) * sign;
	for (; i + ABREAST * LANES <= n; i += ABREAST * LANES) {
		UNROLL
		for (int v = 0; v < ABREAST; v++)
			most[v] = upper(most[v], load(x + i + (size_t)v * LANES) * sign);
	}
	for (; i + LANES <= n; i += LANES)
		most[0] = upper(most[0], load(x + i) * sign);
	most[1] = upper(most[1], load(x + n - LANES) * sign); /* some of them once more */
	most[0] = upper(upper(most[0], most[1]), upper(most[2], most[3]));
	ACROSS(most[0], upper);
	return sign * most[0][0];
}

static float largest_of(size_t n, const float *x)
{
	return most_of(n, x, 1);
}

static float smallest_of(size_t n, const float *x)
{
	return most_of(n, x, -1);
}

static void softmax_row(size_t n, float *y, const float *x, bool is_log)
{
	vector largest = (vector){ 0 } - INFINITY, sums = { 0 };
	if (n <= LANES) { /* as below, without going through memory */
		const vector row = get(x, n);
		largest = row;
		ACROSS(largest, larger);
		const vector power = power_of_e(row - largest[0]);
		sums = power;
		ACROSS(sums, plus);
		put(y, is_log ? row - largest[0] - logf(sums[0]) : power / sums[0], n);
		return;
	}
	for (size_t i = 0; i < n; i += LANES)
		largest = larger(get(x + i, n - i), largest);
	ACROSS(largest, larger);
	float most = largest[0];
	for (size_t i = 0; i < n; i += LANES) {
		vector power = power_of_e(get(x + i, n - i) - most);
		sums += power;
		if (!is_log)
			put(y + i, power, n - i);
	}
	ACROSS(sums, plus);
	float sum = sums[0], log_sum = is_log ? logf(sum) : 0;
	for (size_t i = 0; i < n; i += LANES)
		put(y + i, is_log ? get(x + i, n - i) - most - log_sum : get(y + i, n - i) / sum, n - i);
}

/* Of @n_vectors of columns; the last one may be @n wide, where there is only one. */
ET_EXPANDED void softmax_block(size_t n_vectors, size_t n, size_t n_rows, float *y, const float *x, size_t stride,
	bool is_log)
{
	vector most[ABREAST], sum[ABREAST];
	UNROLL
	for (size_t v = 0; v < n_vectors; v++) {
		most[v] = (vector){ 0 } - INFINITY;
		sum[v] = (vector){ 0 };
	}
	for (size_t i = 0; i < n_rows; i++) {
		UNROLL
		for (size_t v = 0; v < n_vectors; v++)
			most[v] = larger(get(x + i * stride + v * LANES, n), most[v]);
	}
	for (size_t i = 0; i < n_rows; i++) {
		UNROLL
		for (size_t v = 0; v < n_vectors; v++) {
			vector power = power_of_e(get(x + i * stride + v * LANES, n) - most[v]);
			sum[v] += power;
			if (!is_log)
				put(y + i * stride + v * LANES, power, n);
		}
	}
	for (size_t v = 0; v < n_vectors && is_log; v++) {
		for (int lane = 0; lane < LANES; lane++)
			sum[v][lane] = logf(sum[v][lane]);
	}
	for (size_t i = 0; i < n_rows; i++) {
		UNROLL
		for (size_t v = 0; v < n_vectors; v++) {
			size_t at = i * stride + v * LANES;
			put(y + at, is_log ? get(x + at, n) - most[v] - sum[v] : get(y + at, n) / sum[v], n);
		}
	}
}

static void softmax_columns(size_t n_columns, size_t n_rows, float *y, const float *x, size_t stride, bool is_log)
{
	size_t i = 0;
	for (; i + ABREAST * LANES <= n_columns; i += ABREAST * LANES)
		softmax_block(ABREAST, LANES, n_rows, y + i, x + i, stride, is_log);
	for (; i < n_columns; i += LANES)
		softmax_block(1, n_columns - i, n_rows, y + i, x + i, stride, is_log);
}

static void scale_bytes(size_t n, float *y, const uint8_t *x, bool is_signed, float zero, float scale)
{
	uint8_t transpose = is_signed ? 0x80 : 0; /* a signed one and 128 are an unsigned one */
	int32_t transposed = is_signed ? 0x80 : 0;
#define SCALED(i) (((float)((int32_t)(uint8_t)(x[i] ^ transpose) - transposed) - zero) * scale)
	enum { FEW = 8, MANY = 64 };
	size_t i = 0;
	INDEPENDENT
	for (const size_t most = n / MANY * MANY; i < most; i++)
		y[i] = SCALED(i);
	for (; i + FEW <= n; i += FEW) { /* vectors of what is left, too */
		typedef uint8_t bytes __attribute__((vector_size(FEW)));
		typedef int32_t words __attribute__((vector_size(FEW * sizeof(int32_t))));
		typedef float floats __attribute__((vector_size(FEW * sizeof(float))));
		bytes part;
		memcpy(&part, x + i, sizeof(part));
		const words whole = __builtin_convertvector(part ^ transpose, words) - transposed;
		const floats scaled = (__builtin_convertvector(whole, floats) - zero) * scale;
		memcpy(y + i, &scaled, sizeof(scaled));
	}
	for (; i < n; i++)
		y[i] = SCALED(i);
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
const struct et_ukernels ET_UKERNELS_NAME = {
	.name = TEXT(ET_UKERNELS_NAME),
	.tile_rows = ROWS,
	.tile_columns = VECTORS * LANES,
	.tile = tile,
	.dot = dot,
	.add_scaled = add_scaled,
	.stencil = stencil,
	.add_product = add_product,
	.dots = dots,
	.weighted_rows = weighted_rows,
	.sum = sum_of,
	.squares = squares_of,
	.normalize = normalize,
	.each_exp = exponentials,
	.each_expm1 = exponentials_less_one,
	.each_sigmoid = sigmoids,
	.each_tanh = tanhs,
	.each_gelu = gelus,
	.each_log = logarithms,
	.each_log2 = logarithms_of_2,
	.each_log10 = logarithms_of_10,
	.each_log1p = logarithms_of_more,
	.each_sin = sines,
	.each_cos = cosines,
	.each_pow = powers,
	.largest = largest_of,
	.smallest = smallest_of,
	.from_fp16 = from_fp16,
	.to_fp16 = to_fp16,
	.scale_bytes = scale_bytes,
	.softmax_row = softmax_row,
	.softmax_columns = softmax_columns,
};
_Static_assert((int)ROWS <= (int)ET_TILE_MAX_ROWS, "too many rows");
_Static_assert((int)VECTORS *(int)LANES <= (int)ET_TILE_MAX_COLUMNS, "too many columns");
