/* SPDX-License-Identifier: BSD-3-Clause */
/* The micro-kernels of span_ukernels.c and cast_ukernels.c, in every build that this processor can run, compared with
 * plain loops: products with a transposed matrix, distances, sums of rows, conversions, divisions with a remainder, and
 * the Hadamard transform. */
#include "runtime/base/checked.h"
#include "runtime/base/cpu.h"
#include "runtime/kernels/engine/dtype.h"
#include "runtime/kernels/simd/cast_ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { VARIANTS = 3 };

static const struct et_span_ukernels *span_build(size_t i)
{
	static const struct et_span_ukernels *const builds[] = { ET_CPU_BUILDS(et_span_ukernels) };
	return i < et_cpu_n_builds() ? builds[i] : NULL;
}

static const struct et_cast_ukernels *cast_build(size_t i)
{
	static const struct et_cast_ukernels *const builds[] = { ET_CPU_BUILDS(et_cast_ukernels) };
	return i < et_cpu_n_builds() ? builds[i] : NULL;
}

enum { ROWS = 3, COLUMNS = 7, MOST_K = 40, APART = MOST_K + 1 };

/* Small integers, whose sums are exact or wrap around (bytes). */
static void check_transposed(const struct et_span_ukernels *ukernels, enum et_compute_class compute_class,
	enum et_scalar_type type, size_t n_k)
{
	uint64_t a[ROWS * APART], b[COLUMNS * APART], c[ROWS * COLUMNS];
	const size_t bytes = et_scalar_size(type);
	int64_t sums[ROWS * COLUMNS] = { 0 };
	for (size_t i = 0; i < ROWS * APART; i++)
		et_element_set_int((uint8_t *)a + i * bytes, type, (int64_t)(i * 7 % 11));
	for (size_t i = 0; i < COLUMNS * APART; i++)
		et_element_set_int((uint8_t *)b + i * bytes, type, (int64_t)(i * 5 % 13));
	for (size_t i = 0; i < ROWS; i++) {
		for (size_t j = 0; j < COLUMNS; j++) {
			for (size_t k = 0; k < n_k; k++)
				sums[i * COLUMNS + j] += (int64_t)((i * APART + k) * 7 % 11 *
								   ((j * APART + k) * 5 % 13));
		}
	}
	ukernels->multiply_transposed[compute_class](&(const struct et_product){
		ROWS, COLUMNS, n_k, a, b, c, .a_row = APART, .a_col = 1, .b_row = APART, .c_row = COLUMNS });
	for (size_t i = 0; i < ROWS * COLUMNS; i++)
		assert_int_equal((int64_t)et_element_get_double((uint8_t *)c + i * bytes, type),
			et_type_is_float(type) ? sums[i] : et_wrap(sums[i], type));
}

static void test_transposed_products(void **state)
{
	static const enum et_scalar_type types[] = { ET_FLOAT32, ET_FLOAT64, ET_INT64, ET_INT32, ET_INT16, ET_INT8,
		ET_UINT8 };
	for (size_t i = 0; i < VARIANTS; i++) {
		for (size_t t = 0; span_build(i) && t < ET_ARRAY_LEN(types); t++) {
			for (size_t n_k = 0; n_k <= MOST_K; n_k++)
				check_transposed(span_build(i), (enum et_compute_class)t, types[t], n_k);
		}
	}
}

/* Squares have inexact roots, but everything is computed in double. */
static void check_distances(const struct et_span_ukernels *ukernels, enum et_distance kind, size_t n_others, size_t n)
{
	double from[COLUMNS], others[COLUMNS * ET_DISTANCES], sums[ET_DISTANCES] = { 0 };
	float few_from[COLUMNS], few_others[COLUMNS * ET_DISTANCES];
	double few_sums[ET_DISTANCES] = { 0 };
	for (size_t i = 0; i < n; i++)
		few_from[i] = (float)(from[i] = (double)i);
	for (size_t i = 0; i < COLUMNS * ET_DISTANCES; i++)
		few_others[i] = (float)(others[i] = (double)(i * 5 % 7));
	if (n > 1)
		few_others[1] = (float)(others[1] = (double)NAN);
	ukernels->double_distances(&(const struct et_distances){ n, n_others, true, from, others, sums }, kind);
	ukernels->float_distances(&(const struct et_distances){ n, n_others, true, few_from, few_others, few_sums },
		kind);
	for (size_t k = 0; k < n_others; k++) {
		double right = 0;
		for (size_t j = 0; j < n; j++) {
			double difference = fabs(from[j] - others[j * ET_DISTANCES + k]);
			if (kind == ET_DISTANCE_LARGEST)
				right = difference > right || difference != difference ? difference : right;
			else
				right += kind == ET_DISTANCE_COUNT ? difference != 0
					 : kind == ET_DISTANCE_SUM ? difference
								   : difference * difference;
		}
		right = kind == ET_DISTANCE_SQUARES ? sqrt(right) : right;
		if (!(fabs(sums[k] - right) <= 1e-12) && !(sums[k] != sums[k] && right != right))
			fail_msg("distance %zu of kind %d: %g, not %g", k, kind, sums[k], right);
		assert_memory_equal(&sums[k], &few_sums[k], sizeof(*sums));
	}
}

static void test_distances(void **state)
{
	for (size_t i = 0; i < VARIANTS; i++) {
		for (size_t n_others = 1; span_build(i) && n_others <= ET_DISTANCES; n_others++) {
			for (int kind = ET_DISTANCE_COUNT; kind <= ET_DISTANCE_LARGEST; kind++)
				check_distances(span_build(i), (enum et_distance)kind, n_others,
					n_others % (COLUMNS + 1));
		}
	}
}

/* Numbers at which conversions change their result. */
static const double marks[] = { 0, -0.0, 0.5, -0.5, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32769, 65535,
	65536, 0x1p31 - 1, 0x1p31, -0x1p31, -0x1p31 - 1, 0x1p32, 0x1p53, 0x1p62, 0x1p63, -0x1p63, 1e30, -1e30, 1.75,
	-1.75, INFINITY, -INFINITY, NAN };

/* All marks in turn; only those that an int32 holds, if @is_small. */
static void check_cast(et_cast_fn cast, enum et_scalar_type to, enum et_scalar_type from, size_t n, bool is_small)
{
	enum { MOST = 300 };
	static uint64_t in[MOST], out[MOST + 1];
	for (size_t i = 0; i < n; i++) {
		double mark = marks[i % ET_ARRAY_LEN(marks)];
		mark = is_small && !(fabs(mark) < 0x1p31) ? 2.5 : mark;
		if (et_type_is_float(from))
			et_element_set_double((uint8_t *)in + i * et_scalar_size(from), from, mark);
		else
			et_element_set_int((uint8_t *)in + i * et_scalar_size(from), from,
				et_wrap(et_double_to_int(mark), from));
	}
	memset(out, 0x5a, sizeof(out));
	cast(n, out, in);
	for (size_t i = 0; i < n; i++) {
		const uint8_t *x = (const uint8_t *)in + i * et_scalar_size(from);
		const uint8_t *y = (const uint8_t *)out + i * et_scalar_size(to);
		double number = et_element_get_double(x, from);
		uint64_t right = 0;
		if (et_type_is_float(to))
			et_element_set_double(&right, to, number);
		else if (to == ET_BOOL)
			right = number != 0;
		else
			et_element_set_int(&right, to,
				!et_type_is_float(from) ? et_element_get_int(x, from)
				: to == ET_INT32        ? et_double_to_int32(number)
							: et_double_to_int(number));
		if (memcmp(y, &right, et_scalar_size(to)) != 0)
			fail_msg("%g as %s to %s", number, et_scalar_name(from), et_scalar_name(to));
	}
	assert_int_equal(((const uint8_t *)out)[n * et_scalar_size(to)], 0x5a);
}

static void test_casts(void **state)
{
	for (size_t i = 0; i < VARIANTS; i++) {
		const struct et_cast_ukernels *ukernels = cast_build(i);
		for (int from = 0; ukernels && from <= ET_BOOL; from++) {
			for (int to = 0; to <= ET_BOOL; to++) {
				et_cast_fn cast = ukernels->cast[from][to];
				for (size_t n = 0; cast && n <= 300; n += n < 40 ? 1 : 13) {
					check_cast(cast, (enum et_scalar_type)to, (enum et_scalar_type)from, n, false);
					check_cast(cast, (enum et_scalar_type)to, (enum et_scalar_type)from, n, true);
				}
			}
		}
	}
}

/* Small integers, whose sums are exact in either type. */
static void test_sums_of_rows(void **state)
{
	enum { WIDEST = 37, K = 11, STEP = WIDEST + 3 };
	double rows[K * STEP], factors[2 * K], sums[WIDEST + 1];
	int64_t int_rows[K * STEP], int_factors[2 * K], int_sums[WIDEST + 1];
	for (int i = 0; i < K * STEP; i++)
		rows[i] = (double)(int_rows[i] = i * 7 % 23 - 11);
	for (int k = 0; k < 2 * K; k++)
		factors[k] = (double)(int_factors[k] = k * 5 % 13 - 6);
	for (size_t i = 0; i < VARIANTS; i++) {
		const struct et_span_ukernels *ukernels = span_build(i);
		for (size_t n = 0; ukernels && n < WIDEST * K; n++) {
			size_t width = n % WIDEST, n_k = n / WIDEST + 1;
			for (size_t j = 0; j <= WIDEST; j++)
				sums[j] = (double)(int_sums[j] = (int64_t)j);
			ukernels->weigh_double_rows(width, sums, n_k, rows, STEP, factors, 2);
			ukernels->weigh_long_rows(width, int_sums, n_k, int_rows, STEP, int_factors, 2);
			for (size_t j = 0; j <= WIDEST; j++) {
				int64_t right = (int64_t)j;
				for (size_t k = 0; k < n_k && j < width; k++)
					right += int_factors[2 * k] * int_rows[k * STEP + j];
				assert_int_equal(int_sums[j], right);
				assert_true(sums[j] == (double)right);
			}
		}
	}
}

/* The definition: integers are double in it. */
static double python_division(double a, double b, size_t kind)
{
	double left = fmod(a, b), whole = round((a - left) / b);
	bool is_apart = left != 0 && (b < 0) != (left < 0);
	if (kind == 0)
		return left;
	if (kind == 1)
		return is_apart ? left + b : left;
	whole -= is_apart;
	return b == 0 ? a / b : whole == 0 ? (signbit(a) != signbit(b) ? -0.0 : 0.0) : whole;
}

static bool is_the_same(double a, double b)
{
	return (a != a && b != b) || (a == b && signbit(a) == signbit(b));
}

/* Numbers whose quotients are whole, nearly whole, have many bits or too many, or do not exist. */
static void check_divisions(const struct et_span_ukernels *ukernels, size_t kind)
{
	static const double values[] = { 0, -0.0, 1, -1, 3, -3, 0.1, -0.1, 0.3, 1.1, 7, 49, -2.5, 1e3, 1e8, -1e8, 3e15,
		1e30, 0x1p-149, 0x1p-126, 0x1.fffffep127, INFINITY, -INFINITY, NAN };
	enum { N = ET_ARRAY_LEN(values), PAIRS = N * N * 2 };
	static double a[PAIRS], b[PAIRS], y[PAIRS];
	static float few_a[PAIRS], few_b[PAIRS], few_y[PAIRS];
	for (size_t i = 0; i < PAIRS; i++) {
		/* the second time a multiple of b, or the number just below one */
		b[i] = values[i % N] * (i < N * N ? 1 : 1.7);
		a[i] = i < N * N ? values[i / N]
				 : nextafter(values[i / N % N] * b[i], i % 3 ? 0 : values[i / N % N] * b[i]);
		few_a[i] = (float)a[i];
		few_b[i] = (float)b[i];
	}
	struct et_span doubles = { PAIRS, y, { a, b } }, floats = { PAIRS, few_y, { few_a, few_b } };
	const et_span_fn *fns = kind == 0 ? ukernels->fmod : kind == 1 ? ukernels->remainder : ukernels->floor_div;
	fns[ET_F32](&floats);
	fns[ET_F64](&doubles);
	for (size_t i = 0; i < PAIRS; i++) {
		double right = python_division((double)few_a[i], (double)few_b[i], kind);
		assert_true(is_the_same(few_y[i], (double)(float)right));
		assert_true(is_the_same(y[i], python_division(a[i], b[i], kind)));
	}
	doubles.out = a; /* in place */
	fns[ET_F64](&doubles);
	assert_memory_equal(a, y, sizeof(y));
}

static void test_divisions(void **state)
{
	for (size_t i = 0; i < VARIANTS; i++) {
		for (size_t kind = 0; span_build(i) && kind < 3; kind++)
			check_divisions(span_build(i), kind);
	}
}

/* Element (i, j) of the matrix is -1 if i and j have an odd number of bits in common. Sums of small integers are exact.
 */
static void test_hadamard(void **state)
{
	enum { MOST = 256 };
	for (size_t v = 0; v < VARIANTS; v++) {
		const struct et_span_ukernels *ukernels = span_build(v);
		for (size_t n = 1; ukernels && n <= MOST; n *= 2) {
			float row[MOST + 1];
			for (size_t i = 0; i <= MOST; i++)
				row[i] = (float)(i * 7 % 23);
			ukernels->hadamard(n, row);
			for (size_t i = 0; i < n; i++) {
				float sum = 0;
				for (size_t j = 0; j < n; j++)
					sum += (float)(j * 7 % 23) * (__builtin_parityll(i & j) ? -1 : 1);
				assert_true(row[i] == sum * (1 / sqrtf((float)n)));
			}
			assert_true(row[n] == (float)(n * 7 % 23));
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transposed_products),
		cmocka_unit_test(test_distances),
		cmocka_unit_test(test_sums_of_rows),
		cmocka_unit_test(test_casts),
		cmocka_unit_test(test_divisions),
		cmocka_unit_test(test_hadamard),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
