/* SPDX-License-Identifier: BSD-3-Clause */
/* The micro-kernels of ukernels.c, in every build that this processor can run, compared with the C library in double.
 */
#include "runtime/kernels/simd/ukernels.h"

#include "runtime/base/checked.h"
#include "runtime/base/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { N = 20011, MOST_COLUMNS = 150 };

static float xs[N], ys[N];

static const struct et_ukernels *build_at(size_t i)
{
	static const struct et_ukernels *const builds[] = { ET_CPU_BUILDS(et_ukernels) };
	return i < et_cpu_n_builds() ? builds[i] : NULL;
}

static double gelu(double x)
{
	return x / 2 * erfc(-x * sqrt(0.5));
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static void check(const char *name, void (*fn)(size_t n, float *y, const float *x), double (*truth)(double), float low,
	float high)
{
	for (size_t i = 0; i < N; i++)
		xs[i] = low + (high - low) * (float)i / (N - 1);
	for (size_t i = 0; i < 40; i++) /* numbers near 0, on both sides if both are in range */
		xs[N / 2 + i] = (i % 2 && high > 0 ? 1.f : -1.f) * powf(10, -(float)i);
	xs[N - 1] = high > 0 ? INFINITY : 0;
	xs[0] = -INFINITY;
	xs[1] = NAN;
	xs[2] = -0.f;
	fn(N, ys, xs);
	for (size_t i = 0; i < N; i++) {
		double y = (double)ys[i], right = (double)(float)truth((double)xs[i]);
		if (isnan(right) ? !isnan(y) : y != right && !(fabs(y - right) <= 4e-7 * fabs(right) + 1.2e-38))
			fail_msg("%s of %.9g is %.9g, not %.9g", name, (double)xs[i], y, right);
		if (low == -high) /* the function is its own reflection */
			assert_true(isnan(y) || signbit(y) == signbit(right));
	}
}

static void test_exponentials(void **state)
{
	for (size_t i = 0; i < 3; i++) {
		const struct et_ukernels *ukernels = build_at(i);
		if (!ukernels)
			continue;
		check("exp", ukernels->each_exp, exp, -110, 95);
		check("expm1", ukernels->each_expm1, expm1, -110, 0);
		check("sigmoid", ukernels->each_sigmoid, sigmoid, -110, 95);
		check("tanh", ukernels->each_tanh, tanh, -30, 30);
		check("gelu", ukernels->each_gelu, gelu, -16, 17);
	}
}

/* Spans whose last vector, or only one, is not full: the same results, and nothing is written behind them. */
static void test_short_spans(void **state)
{
	enum { MOST = 40 };
	for (size_t i = 0; i < 3; i++) {
		const struct et_ukernels *ukernels = build_at(i);
		void (*fns[])(size_t n, float *y, const float *x) = { ukernels ? ukernels->each_exp : NULL,
			ukernels ? ukernels->each_tanh : NULL, ukernels ? ukernels->each_log1p : NULL,
			ukernels ? ukernels->each_cos : NULL };
		for (size_t k = 0; k < MOST; k++)
			xs[k] = (float)k / 4;
		for (size_t f = 0; ukernels && f < ET_ARRAY_LEN(fns); f++) {
			float all[MOST];
			fns[f](MOST, all, xs);
			for (size_t n = 1; n < MOST; n++) {
				for (size_t k = 0; k <= n; k++)
					ys[k] = -7;
				fns[f](n, ys, xs);
				for (size_t k = 0; k < n; k++)
					assert_true(ys[k] == all[k]);
				assert_true(ys[n] == -7);
			}
		}
	}
}

static void check_one(const char *name, float x, float y, double truth)
{
	double right = (double)(float)truth;
	bool is_right = isnan(right)
				? isnan(y)
				: ((double)y == right || fabs((double)y - right) <= 2.4e-7 * fabs(right) + 1.5e-45) &&
					  !signbit(y) == !signbit(right);
	if (!is_right)
		fail_msg("%s of %.9g is %.9g, not %.9g", name, (double)x, (double)y, right);
}

/* Over all floats, a few thousand in each power of two, and special values; the error is at most two of the last bits.
 */
static void check_all(const char *name, void (*fn)(size_t n, float *y, const float *x), double (*truth)(double))
{
	static const float special[] = { 0, -0.f, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 0x1p-126f,
		0x1.fffffep127f, -0x1.fffffep127f, 0x1.921fb6p0f, 0x1.921fb6p1f, 8192, 8193, -8192, 2, 1000, 0.5f };
	for (uint64_t first = 0; first <= UINT32_MAX;) {
		size_t n = 0;
		for (; n < N && first <= UINT32_MAX; first += 20011) {
			uint32_t bits = (uint32_t)first;
			memcpy(&xs[n++], &bits, sizeof(bits));
		}
		fn(n, ys, xs);
		for (size_t i = 0; i < n; i++)
			check_one(name, xs[i], ys[i], truth((double)xs[i]));
	}
	fn(ET_ARRAY_LEN(special), ys, special);
	for (size_t i = 0; i < ET_ARRAY_LEN(special); i++)
		check_one(name, special[i], ys[i], truth((double)special[i]));
	for (size_t i = 0; i < N; i++) /* near 1, where logarithms vanish, and multiples of quarter circles */
		xs[i] = i % 2 ? 1 + ((float)i - N / 2) * 0x1p-20f : (float)((double)i * M_PI_2 / 4);
	fn(N, ys, xs);
	for (size_t i = 0; i < N; i++)
		check_one(name, xs[i], ys[i], truth((double)xs[i]));
}

static void test_logarithms_and_angles(void **state)
{
	for (size_t i = 0; i < 3; i++) {
		const struct et_ukernels *ukernels = build_at(i);
		if (!ukernels)
			continue;
		check_all("log", ukernels->each_log, log);
		check_all("log2", ukernels->each_log2, log2);
		check_all("log10", ukernels->each_log10, log10);
		check_all("log1p", ukernels->each_log1p, log1p);
		check_all("sin", ukernels->each_sin, sin);
		check_all("cos", ukernels->each_cos, cos);
	}
}

static void test_powers(void **state)
{
	static const float bases[] = { 0, -0.f, 1, -1, 2, -2, 0.5f, 0.99999994f, 1.0000001f, 10, 3.1415927f, 1e-30f,
		1e30f, 0x1p-126f, 0x1p-149f, 0x1p-140f, 0x1.fffffep127f, -8, INFINITY, -INFINITY, NAN };
	static const float exponents[] = { 0, -0.f, 1, -1, 2, 3, -3, 0.5f, -0.5f, 0.7f, 1.0f / 3, 127, -126, -149, 128,
		1e-7f, 1e7f, -1e7f, 8.5e7f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN };
	float x[64], e[64], y[64];
	for (size_t i = 0; i < 3; i++) {
		const struct et_ukernels *ukernels = build_at(i);
		for (size_t b = 0; ukernels && b < ET_ARRAY_LEN(bases); b++) {
			for (size_t k = 0; k < ET_ARRAY_LEN(exponents); k++) {
				x[k] = bases[b];
				e[k] = exponents[k];
			}
			ukernels->each_pow(ET_ARRAY_LEN(exponents), y, x, e);
			for (size_t k = 0; k < ET_ARRAY_LEN(exponents); k++)
				check_one("pow", x[k], y[k], pow((double)x[k], (double)e[k]));
		}
		for (uint32_t at = 0; ukernels && at < 200000; at += 64) {
			for (uint32_t k = 0; k < 64; k++) { /* bases and results of any size */
				uint32_t bits = (at + k) * 2654435761u % 0x7f800000u;
				memcpy(&x[k], &bits, sizeof(bits));
				double most = 152 / fabs(log2(fabs((double)x[k])));
				e[k] = (float)(((double)((at + k) % 641) / 320 - 1) * fmin(most, 1e30));
			}
			ukernels->each_pow(64 - at / 64 % 7, y, x, e);
			for (uint32_t k = 0; k < 64 - at / 64 % 7; k++)
				check_one("pow", x[k], y[k], pow((double)x[k], (double)e[k]));
		}
	}
}

static void test_extremes(void **state)
{
	for (size_t i = 0; i < 3; i++) {
		const struct et_ukernels *ukernels = build_at(i);
		for (size_t n = 1; ukernels && n <= MOST_COLUMNS; n++) {
			for (size_t at = 0; at < n; at++) {
				for (size_t k = 0; k < n; k++)
					xs[k] = sinf((float)(k + at));
				xs[at] = 2;
				assert_true(ukernels->largest(n, xs) == 2);
				xs[at] = -2;
				assert_true(ukernels->smallest(n, xs) == -2);
				xs[at] = NAN;
				assert_true(isnan(ukernels->largest(n, xs)) && isnan(ukernels->smallest(n, xs)));
			}
		}
	}
}

static void test_sums_of_rows(void **state)
{
	enum { ROWS = 9, STRIDE = 170 };
	for (size_t i = 0; i < 3; i++) {
		const struct et_ukernels *ukernels = build_at(i);
		for (size_t n = 1; ukernels && n <= MOST_COLUMNS; n++) {
			for (size_t k = 0; k < N; k++)
				xs[k] = sinf((float)k * 1.7f);
			ukernels->dots(ROWS, n, ys, xs, xs + STRIDE, STRIDE);
			ukernels->weighted_rows(ROWS, n, ys + ROWS, xs, xs + STRIDE, STRIDE);
			for (size_t row = 0; row < ROWS; row++) {
				double right = 0;
				for (size_t k = 0; k < n; k++)
					right += (double)xs[k] * (double)xs[STRIDE + row * STRIDE + k];
				assert_true(fabs((double)ys[row] - right) < 1e-4);
			}
			for (size_t k = 0; k < n; k++) {
				double right = 0;
				for (size_t row = 0; row < ROWS; row++)
					right += (double)xs[row] * (double)xs[STRIDE + row * STRIDE + k];
				assert_true(fabs((double)ys[ROWS + k] - right) < 1e-5);
			}
		}
	}
}

static void test_fp16(void **state)
{
	static uint16_t fp16[UINT16_MAX + 1], back[UINT16_MAX + 1];
	static float floats[UINT16_MAX + 1];
	for (size_t i = 0; i < 3; i++) {
		const struct et_ukernels *ukernels = build_at(i);
		for (size_t k = 0; k <= UINT16_MAX; k++)
			fp16[k] = (uint16_t)k;
		if (!ukernels)
			continue;
		ukernels->from_fp16(ET_ARRAY_LEN(fp16), floats, fp16);
		ukernels->to_fp16(ET_ARRAY_LEN(back), back, floats);
		for (size_t k = 0; k <= UINT16_MAX; k++) {
			bool is_nan = (k & 0x7fff) > 0x7c00;
			assert_true(is_nan ? isnan(floats[k]) && (back[k] & 0x7fff) > 0x7c00 : back[k] == k);
		}
	}
}

/* One line after the other, in double, by the definition. */
static void plain(size_t n, const float *x, size_t stride, bool is_log, double *y)
{
	double most = -INFINITY, sum = 0;
	for (size_t i = 0; i < n; i++)
		most = fmax(most, (double)x[i * stride]);
	for (size_t i = 0; i < n; i++)
		sum += exp((double)x[i * stride] - most);
	for (size_t i = 0; i < n; i++) {
		double apart = (double)x[i * stride] - most;
		y[i] = is_log ? apart - log(sum) : exp(apart) / sum;
	}
}

static void check_softmax(const struct et_ukernels *ukernels, size_t n_columns, size_t n_rows, size_t stride,
	bool is_log)
{
	double right[N];
	for (size_t i = 0; i < N; i++) {
		xs[i] = 20 * sinf((float)i * 1.7f);
		ys[i] = 7;
	}
	if (stride == 1)
		ukernels->softmax_row(n_rows, ys, xs, is_log);
	else
		ukernels->softmax_columns(n_columns, n_rows, ys, xs, stride, is_log);
	for (size_t k = 0; k < n_columns; k++) {
		plain(n_rows, xs + k, stride, is_log, right);
		for (size_t i = 0; i < n_rows; i++) {
			double y = (double)ys[k + i * stride];
			if (!(fabs(y - right[i]) <= 4e-6 * fabs(right[i]) + (is_log ? 1e-6 : 1e-37)))
				fail_msg("softmax %zu of %zu: %g, not %g", i, n_rows, y, right[i]);
		}
	}
	for (size_t i = 0; i < N; i++) { /* nothing else was written */
		bool is_result = i % stride < n_columns && i / stride < n_rows;
		assert_true(is_result || ys[i] == 7);
	}
}

static void test_softmax(void **state)
{
	for (size_t i = 0; i < 3; i++) {
		const struct et_ukernels *ukernels = build_at(i);
		for (size_t n = 1; ukernels && n <= MOST_COLUMNS; n++) {
			for (int is_log = 0; is_log < 2; is_log++) {
				check_softmax(ukernels, 1, n, 1, is_log);
				check_softmax(ukernels, n, n % 7 + 1, MOST_COLUMNS, is_log);
			}
		}
	}
}

/* Every length, so that each way to end a loop is taken. */
static void test_normalization(void **state)
{
	static float weights[MOST_COLUMNS], biases[MOST_COLUMNS];
	for (size_t i = 0; i < MOST_COLUMNS; i++) {
		xs[i] = 1000 + sinf((float)i * 1.7f);
		weights[i] = 1 + 0.01f * (float)i;
		biases[i] = (float)i - 70;
	}
	for (size_t k = 0; k < 3; k++) {
		const struct et_ukernels *ukernels = build_at(k);
		for (size_t n = 0; ukernels && n < MOST_COLUMNS; n++) {
			double sum = 0, squares = 0;
			for (size_t i = 0; i < n; i++) {
				sum += (double)xs[i];
				squares += ((double)xs[i] - 1000.25) * ((double)xs[i] - 1000.25);
			}
			assert_true(fabs(ukernels->sum(n, xs) - sum) <= 1e-14 * sum);
			assert_true(fabs(ukernels->squares(n, xs, 1000.25) - squares) <= 1e-14 * squares);
			ys[n] = 7;
			ukernels->normalize(n, ys, xs, 1000.25f, 3.5f, weights, biases);
			for (size_t i = 0; i < n; i++) {
				double right = ((double)xs[i] - 1000.25) * 3.5 * (double)weights[i] + (double)biases[i];
				assert_true(fabs((double)ys[i] - right) <= 1e-5);
			}
			assert_true(ys[n] == 7);
		}
	}
}

static void test_scaled_bytes(void **state)
{
	enum { ALL = 256 };
	uint8_t bytes[ALL];
	float y[ALL + 1];
	for (size_t i = 0; i < ALL; i++)
		bytes[i] = (uint8_t)i;
	for (size_t i = 0; i < 3; i++) {
		const struct et_ukernels *ukernels = build_at(i);
		for (size_t n = 0; ukernels && n <= ALL; n++) {
			y[n] = 7;
			ukernels->scale_bytes(n, y, bytes + ALL - n, true, 3, 0.7f);
			for (size_t k = 0; k < n; k++)
				assert_true(y[k] == ((float)(int8_t)bytes[ALL - n + k] - 3) * 0.7f);
			ukernels->scale_bytes(n, y, bytes + ALL - n, false, 3, 0.7f);
			for (size_t k = 0; k < n; k++)
				assert_true(y[k] == ((float)bytes[ALL - n + k] - 3) * 0.7f);
			assert_true(y[n] == 7);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exponentials),
		cmocka_unit_test(test_short_spans),
		cmocka_unit_test(test_logarithms_and_angles),
		cmocka_unit_test(test_powers),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_sums_of_rows),
		cmocka_unit_test(test_fp16),
		cmocka_unit_test(test_softmax),
		cmocka_unit_test(test_normalization),
		cmocka_unit_test(test_scaled_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
