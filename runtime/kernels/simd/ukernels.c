/* SPDX-License-Identifier: BSD-3-Clause */
/* The float micro-kernels. The build compiles this file several times: it defines ET_UKERNELS_NAME and chooses the
 * instruction set, from which the widths below follow.
 *
 * The GEMM tile is the heart: ROWS rows of VECTORS vectors, so that all sums stay in registers while k runs. Elements
 * of a are broadcast, so a may have any strides; b comes packed. */
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/base/expand.h"
#include "runtime/base/fp16.h"
#include "runtime/kernels/simd/vector.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The tile's rows and the vectors in each row: as many as there are registers for. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { ROWS = 8, VECTORS = 2 };
#elif defined(__AVX2__)
enum { ROWS = 6, VECTORS = 2 };
#else
enum { ROWS = 4, VECTORS = 2 };
#endif

static void tile(size_t n_k, const float *a, ptrdiff_t a_row, ptrdiff_t a_col, const float *b, float *c,
	ptrdiff_t c_row, const float *init)
{
	vector sum[ROWS][VECTORS];
	UNROLL
	for (int i = 0; i < ROWS; i++) {
		UNROLL
		for (int v = 0; v < VECTORS; v++)
			sum[i][v] = init ? init[i] - (vector){ 0 } : load(c + i * c_row + v * LANES);
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

/* Blocks of vectors keep their sums in registers over all taps. The last block overlaps the one before it. */
static void stencil(size_t n, float *restrict y, const float *restrict x, size_t n_taps, const ptrdiff_t *offsets,
	const float *factors, float init)
{
	enum { BLOCK = 4 };
	size_t i = 0;
	for (; i + BLOCK * LANES <= n; i += BLOCK * LANES) {
		vector sum[BLOCK];
		UNROLL
		for (int v = 0; v < BLOCK; v++)
			sum[v] = init - (vector){ 0 };
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
		vector sum = init - (vector){ 0 };
		i = i + LANES <= n ? i : n - LANES;
		for (size_t t = 0; t < n_taps; t++)
			sum += factors[t] * load(x + (ptrdiff_t)i + offsets[t]);
		store(y + i, sum);
	}
	for (; i < n; i++) {
		float sum = init;
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

enum { SUMS = 16 }; /* independent partial sums, so the loop over them becomes vectors */

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

/* --- exponential and softmax ---------------------------------------------------------------------------------- */

enum { ABREAST = 4 }; /* vectors at a time, so that one does not wait for another */

static inline vector power_of_two(ints n)
{
	return (vector)(((bits)n + 127) << 23);
}

/* e^x = 2^n (1 + p): returns p, by Taylor's series up to r^7. The error is below a tenth of the last bit. */
static inline vector expm1_and_power(vector x, ints *ret_n)
{
	const float magic = 0x1.8p23f; /* adding it leaves an integer in the lowest bits of the sum */
	const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f; /* ln2_high times any n is exact */
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

/* 0 below -104 and infinite above 89, as correct rounding gives; NaN stays. For 0 both powers of two are 0: rounding a
 * tiny product to 0 takes a processor longer than all of this, and most softmax rows have such lanes. */
static inline vector exp_of(vector x)
{
	ints n;
	x = choose(x < -104.0f, (vector){ 0 } - 176.0f, x);
	x = choose(x > 89.0f, (vector){ 0 } + 89.0f, x);
	vector p = expm1_and_power(x, &n) + 1.0f;
	return p * power_of_two(n >> 1) * power_of_two(n - (n >> 1)); /* 2^n alone may not fit a float */
}

/* e^x - 1 for x <= 0, accurate near 0 too; -0 for -0. */
static inline vector expm1_of(vector x)
{
	const bits sign = (bits){ 0 } + 0x80000000u;
	ints n;
	x = choose(x < -20.0f, (vector){ 0 } - 20.0f, x);
	vector p = expm1_and_power(x, &n), power = power_of_two(n);
	return (vector)((bits)(p * power + (power - 1.0f)) | ((bits)x & sign));
}

static inline vector sigmoid_of(vector x)
{
	return 1.0f / (exp_of(-x) + 1.0f);
}

static inline vector tanh_of(vector x)
{
	const bits sign = (bits){ 0 } + 0x80000000u;
	vector less = expm1_of((vector)((bits)x | sign) * 2.0f);
	return (vector)(((bits)(less / (less + 2.0f)) & ~sign) | ((bits)x & sign));
}

/* GELU: x times the normal distribution's integral up to x. The integral from |x| on is e^(-x²/2) times a slowly
 * falling factor: a polynomial in v = px / (1 + px), fitted up to where the integral is below every float. (x² is
 * computed exactly from the upper half of the bits of x; the rest is a factor near 1.) */
static inline vector gelu_of(vector x)
{
	static const float coefficients[] = { 0.5f, -0.38653779f, -0.0385414548f, 0.0853739455f, 0.0424940065f,
		0.0290725678f, -0.114919089f, 0.182453424f, -0.247103602f, 0.170523629f, -0.0432913266f };
	const vector most = (vector){ 0 } + 15.0f;
	ints is_near = (vector)((bits)x & 0x7fffffffu) < most; /* for larger |x|, and for NaN, the integral is 0 */
	vector t = choose(is_near, (vector)((bits)x & 0x7fffffffu), (vector){ 0 });
	vector whole = (vector)((bits)t & 0xfffff000u), rest = 0.5f * ((t - whole) * (t + whole));
	vector near_one = 1.0f - rest * (1.0f - rest * (0.5f - rest * (1 / 6.0f)));
	vector u = 1.0f / (1.0f + 0.45f * t), v = 0.45f * t * u;
	vector sum = (vector){ 0 } + coefficients[10];
	UNROLL
	for (size_t k = 10; k-- > 0;)
		sum = sum * v + coefficients[k];
	vector beyond = exp_of(-0.5f * (whole * whole)) * near_one * (sum * u);
	beyond = choose(is_near, beyond, (vector){ 0 });
	return x * choose(x < 0.0f, beyond, 1.0f - beyond);
}

/* --- logs ----------------------------------------------------------------------------------------------- */

/* x = 2^e (1 + above), with 1 + above between sqrt(1/2) and sqrt(2); log is the logarithm of 1 + above. Subnormals are
 * normalized first; finish_log handles numbers that are not finite and above 0. */
struct split {
	vector e, above, log;
};

/* log(1 + f) is f - f²/2 + s (f²/2 + r), with s = f / (2 + f) and r the rest of the series 2 atanh(s) = 2 (s + s³/3 +
 * …). The truncation error is below 3e-9, so the large terms only have rounding errors. */
static inline struct split split_log(vector x)
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

/* The logarithm of 0, infinity, negative numbers and NaN; otherwise @log. */
static inline vector finish_log(vector x, vector log)
{
	log = choose(x == 0.0f, (vector){ 0 } - INFINITY, log);
	log = choose(x == INFINITY, x, log);
	return choose(x >= 0.0f, log, (vector){ 0 } + NAN);
}

/* Powers of two lose nothing: e times log(2) is added in two parts, the first of which is exact. */
static inline vector scaled_log(vector x, float factor, float two_high, float two_low)
{
	struct split split = split_log(x);
	return finish_log(x, split.e * two_high + (split.log * factor + split.e * two_low));
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

/* The logarithm of the rounded sum 1 + x, plus a correction for what rounding lost. */
static inline vector log1p_of(vector x)
{
	vector sum = x + 1.0f, log = log_of(sum);
	vector lost = choose(sum < 2.0f, x - (sum - 1.0f), (vector){ 0 } + 1.0f - (sum - x)) / sum;
	ints is_plain = (sum > 0.0f) & (sum < INFINITY);
	return choose((sum == 1.0f) | (x != x), x, choose(is_plain, log + lost, log));
}

/* --- sine and cosine ------------------------------------------------------------------------------------------- */

/* For larger angles the C library takes over. Multiples of pi/2 are subtracted in four parts; the first three products
 * are exact up to this angle. */
#define MOST_ANGLE 8192.0f

/* Reduce the angle to -pi/4 … pi/4, and return which quarter of the circle it was in. */
static inline vector reduce_angle(vector x, ints *ret_quarter)
{
	const float magic = 0x1.8p23f;
	vector sum = x * 0x1.45f306p-1f + magic, n = sum - magic;
	*ret_quarter = (ints)((bits)sum - 0x4b400000u);
	return x - n * 0x1.92p0f - n * 0x1.fb4p-12f - n * 0x1.444p-24f - n * 0x1.68c234p-39f;
}

/* Sine and cosine by Taylor's series; the truncation error is below 2e-9. */
static inline vector sine_of_quarter(vector r, ints quarter)
{
	vector z = r * r;
	vector sine = z * (1.0f / 362880) - 1.0f / 5040;
	sine = (sine * z + 1.0f / 120) * z - 1.0f / 6;
	sine = (vector)((bits)(sine * z * r + r) | ((bits)r & 0x80000000u)); /* keeps the sign of -0 */
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
	vector r = reduce_angle(x, &quarter), y = sine_of_quarter(r, quarter + quarters);
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

/* The last vector may overlap the one before it; it is loaded before that one is stored. */
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
EACH(exps, exp_of(a))
EACH(expm1s, expm1_of(a))
EACH(sigmoids, sigmoid_of(a))
EACH(tanhs, tanh_of(a))
EACH(gelus, gelu_of(a))
EACH(logs, log_of(a))
EACH(log2s, log2_of(a))
EACH(log10s, log10_of(a))
EACH(log1ps, log1p_of(a))
EACH(sines, sin_of(a))
EACH(cosines, cos_of(a))

/* --- powers ------------------------------------------------------------------------------------------------------ */

#if defined(__AVX2__)
/* Computed in double, because the exponent multiplies the logarithm's error: as accurate as the C library. */
enum { HALF = LANES / 2 };
typedef double doubles __attribute__((vector_size(HALF * sizeof(double))));
typedef int64_t longs __attribute__((vector_size(HALF * sizeof(int64_t))));
typedef float half_vector __attribute__((vector_size(HALF * sizeof(float))));
typedef int32_t half_ints __attribute__((vector_size(HALF * sizeof(int32_t))));

/* log2 of a normal number above 0: as split_log, by the series of atanh up to s^15 (truncation error below 1e-13). Then
 * 2^y is 2^n times Taylor's series up to the 9th power (below 3e-11). */
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
	/* beyond these limits the result is 0 or infinite as a float */
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
		if (part == HALF) { /* a constant size, so memcpy makes no call */
			memcpy(&a, x + i, sizeof(a));
			memcpy(&b, exponents + i, sizeof(b));
		} else {
			memcpy(&a, x + i, part * sizeof(float));
			memcpy(&b, exponents + i, part * sizeof(float));
		}
		power = power_of(a, b);
		/* special cases of pow: a base that is not positive and normal, or an exponent that is not finite */
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

/* The scalar conversions, compiled for this build's vectors. */
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

/* @sign 1: the largest. @sign -1: the smallest, as the largest of the negated numbers. */
static inline float extreme_of(size_t n, const float *x, float sign)
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
			most[v] = maximum(most[v], load(x + i + (size_t)v * LANES) * sign);
	}
	for (; i + LANES <= n; i += LANES)
		most[0] = maximum(most[0], load(x + i) * sign);
	most[1] = maximum(most[1], load(x + n - LANES) * sign); /* overlaps numbers already seen */
	most[0] = maximum(maximum(most[0], most[1]), maximum(most[2], most[3]));
	REDUCE_LANES(most[0], maximum);
	return sign * most[0][0];
}

static float largest_of(size_t n, const float *x)
{
	return extreme_of(n, x, 1);
}

static float smallest_of(size_t n, const float *x)
{
	return extreme_of(n, x, -1);
}

static void softmax_row(size_t n, float *y, const float *x, bool is_log)
{
	vector largest = (vector){ 0 } - INFINITY, sums = { 0 };
	if (n <= LANES) { /* as below, but all in registers */
		const vector row = get(x, n);
		largest = row;
		REDUCE_LANES(largest, larger);
		const vector power = exp_of(row - largest[0]);
		sums = power;
		REDUCE_LANES(sums, plus);
		put(y, is_log ? row - largest[0] - logf(sums[0]) : power / sums[0], n);
		return;
	}
	for (size_t i = 0; i < n; i += LANES)
		largest = larger(get(x + i, n - i), largest);
	REDUCE_LANES(largest, larger);
	float most = largest[0];
	for (size_t i = 0; i < n; i += LANES) {
		vector power = exp_of(get(x + i, n - i) - most);
		sums += power;
		if (!is_log)
			put(y + i, power, n - i);
	}
	REDUCE_LANES(sums, plus);
	float sum = sums[0], log_sum = is_log ? logf(sum) : 0;
	for (size_t i = 0; i < n; i += LANES)
		put(y + i, is_log ? get(x + i, n - i) - most - log_sum : get(y + i, n - i) / sum, n - i);
}

/* One block of @n_vectors vectors of columns. @n columns wide, which is less than a vector only for a last block of one
 * vector. */
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
			vector power = exp_of(get(x + i * stride + v * LANES, n) - most[v]);
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
	/* flipping the sign bit of a signed byte gives an unsigned one that is 128 larger */
	uint8_t flip = is_signed ? 0x80 : 0;
	int32_t offset = is_signed ? 0x80 : 0;
#define SCALED(i) (((float)((int32_t)(uint8_t)(x[i] ^ flip) - offset) - zero) * scale)
	enum { FEW = 8, MANY = 64 };
	size_t i = 0;
	INDEPENDENT
	for (const size_t most = n / MANY * MANY; i < most; i++)
		y[i] = SCALED(i);
	for (; i + FEW <= n; i += FEW) { /* the rest in vectors too */
		typedef uint8_t bytes __attribute__((vector_size(FEW)));
		typedef int32_t words __attribute__((vector_size(FEW * sizeof(int32_t))));
		typedef float floats __attribute__((vector_size(FEW * sizeof(float))));
		bytes part;
		memcpy(&part, x + i, sizeof(part));
		const words whole = __builtin_convertvector(part ^ flip, words) - offset;
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
	.each_exp = exps,
	.each_expm1 = expm1s,
	.each_sigmoid = sigmoids,
	.each_tanh = tanhs,
	.each_gelu = gelus,
	.each_log = logs,
	.each_log2 = log2s,
	.each_log10 = log10s,
	.each_log1p = log1ps,
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
