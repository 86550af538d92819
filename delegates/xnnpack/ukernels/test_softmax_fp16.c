/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax of halves against the definition, in doubles: rows of every length, with numbers of any size, in memory of exactly that size; and
 * what is no number. A row that the original computed comes out to the bit. */
#include "delegates/xnnpack/ukernels/softmax_fp16.h"

#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void check(size_t n_rows, size_t n, unsigned most)
{
	uint16_t *in = malloc(n_rows * n * sizeof(*in)), *out = malloc(n_rows * n * sizeof(*out));
	assert_non_null(in);
	assert_non_null(out);
	for (size_t i = 0; i < n_rows * n; i++)
		in[i] = et_xnn_to_fp16((float)test_draw(2 * most * 64) / 64 - (float)most);
	et_softmax_fp16()->run(out, in, n_rows, n);
	for (size_t row = 0; row < n_rows; row++) {
		double sum = 0, largest = -INFINITY;
		for (size_t i = 0; i < n; i++)
			largest = fmax(largest, (double)et_xnn_from_fp16(in[row * n + i]));
		for (size_t i = 0; i < n; i++)
			sum += exp((double)et_xnn_from_fp16(in[row * n + i]) - largest);
		for (size_t i = 0; i < n; i++) {
			double expected = exp((double)et_xnn_from_fp16(in[row * n + i]) - largest) / sum,
			       got = (double)et_xnn_from_fp16(out[row * n + i]);
			/* three numbers are rounded, and powers below 2^-14 are 0 */
			if (!(fabs(got - expected) <= 0x1p-8 * expected + 0x1p-14))
				fail_msg("%zu of %zu: %g, expected %g", i, n, got, expected);
		}
	}
	free(in);
	free(out);
}

static void test_lengths(void **state)
{
	if (!et_softmax_fp16())
		skip();
	for (size_t n = 1; n <= ET_SOFTMAX_FP16_MOST; n++)
		for (unsigned i = 0; i < 3; i++)
			check(1 + test_draw(5), n, i == 0 ? 1 : i == 1 ? 8 : 500);
	for (size_t n = ET_SOFTMAX_FP16_MOST + 1; n < 4 * ET_SOFTMAX_FP16_MOST; n += 1 + test_draw(20))
		check(1 + test_draw(5), n, n % 2 ? 8 : 500);
}

static void test_original(void **state)
{
	enum { N = 24 };
	static const uint16_t in[N] = { 0xc332, 0xbcfc, 0x3d06, 0x42fa, 0x3e39, 0x3e2b, 0x42f0, 0x4525, 0x3590, 0xc5f6,
		0x48a6, 0x3e57, 0x4467, 0xb9da, 0x483d, 0xc3d1, 0x3a29, 0xc9e2, 0xb8c2, 0x45ec, 0x4909, 0xc13f, 0x2f1e,
		0xc778 };
	static const uint16_t expected[N] = { 0, 0, 0x5c1, 0x12b6, 0x7be, 0x7a3, 0x128f, 0x1c62, 0, 0, 0x345b, 0x7f9,
		0x182b, 0, 0x2fa9, 0, 0x389, 0, 0, 0x20c6, 0x38b9, 0, 0, 0 };
	uint16_t out[N];
	if (!et_softmax_fp16())
		skip();
	et_softmax_fp16()->run(out, in, 1, N);
	assert_memory_equal(out, expected, sizeof(out));
}

static void test_what_is_no_number(void **state)
{
	if (!et_softmax_fp16())
		skip();
	enum { N = 21, INF = 0x7c00, SIGN = 0x8000 };
	static const uint16_t odd[] = { 0x7e00, INF, 0x7e00 | SIGN };
	for (size_t i = 0; i < 3 * N; i++) {
		uint16_t row[N] = { 0 };
		row[i % N] = odd[i / N];
		et_softmax_fp16()->run(row, row, 1, N);
		for (size_t j = 0; j < N; j++)
			assert_true((row[j] & 0x7fff) > INF);
	}
	for (size_t i = 0; i < N; i++) {
		uint16_t row[N];
		for (size_t j = 0; j < N; j++)
			row[j] = j == i ? 0xfbff : INF | SIGN; /* the least finite one */
		et_softmax_fp16()->run(row, row, 1, N);
		for (size_t j = 0; j < N; j++)
			assert_int_equal(row[j], j == i ? 0x3c00 : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_original),
		cmocka_unit_test(test_what_is_no_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
