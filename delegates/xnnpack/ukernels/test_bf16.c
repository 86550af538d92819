/* SPDX-License-Identifier: BSD-3-Clause */
/* bf16.c: single numbers with known results, and every build against arithmetic on whole ranges. */
#include "delegates/xnnpack/ukernels/bf16.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
/* cmocka wants the ones above */
#include <cmocka.h>

enum { N = 301 }; /* no multiple of any vector */

static float float_of(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint32_t bits_of(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static const struct {
	uint32_t bits;
	uint16_t bf16;
} known[] = {
	{ 0x00000000, 0x0000 }, { 0x80000000, 0x8000 }, { 0x3f800000, 0x3f80 }, /* 0, -0, 1 */
	{ 0x3f808000, 0x3f80 }, { 0x3f818000, 0x3f82 },                         /* ties, to the even one */
	{ 0x3f808001, 0x3f81 }, { 0x3f817fff, 0x3f81 },                         /* just beside them */
	{ 0xbf808001, 0xbf81 }, { 0x3fffffff, 0x4000 },                         /* below 0; into the exponent */
	{ 0x7f7f7fff, 0x7f7f }, { 0x7f7f8000, 0x7f80 }, { 0x7f7fffff, 0x7f80 }, /* at the end infinite */
	{ 0x7f800000, 0x7f80 }, { 0xff800000, 0xff80 }, { 0x7fc00000, 0x7fc0 }, /* infinities, NaN */
	{ 0x7f800001, 0x7fc0 }, { 0xffffffff, 0xffff },                         /* NaNs stay such */
	{ 0x00007fff, 0x0000 }, { 0x00008001, 0x0001 }, { 0x00018000, 0x0002 }, /* subnormals */
};
enum { N_KNOWN = sizeof(known) / sizeof(known[0]) };

static void numbers_are_rounded_to_the_nearest(void **state)
{
	float from[N_KNOWN], rounded[N_KNOWN];
	uint16_t to[N_KNOWN];
	for (size_t i = 0; i < N_KNOWN; i++)
		from[i] = float_of(known[i].bits);
	for (size_t at = 0; et_bf16_at(at); at++) {
		et_bf16_at(at)->narrow(from, to, N_KNOWN);
		memcpy(rounded, from, sizeof(from));
		et_bf16_at(at)->round(rounded, N_KNOWN);
		for (size_t i = 0; i < N_KNOWN; i++) {
			assert_int_equal(to[i], known[i].bf16);
			assert_int_equal(bits_of(rounded[i]), (uint32_t)known[i].bf16 << 16);
		}
	}
}

static void what_is_widened_narrows_to_itself(void **state)
{
	static uint16_t from[0x10000], to[0x10000];
	static float wide[0x10000], rounded[0x10000];
	for (size_t i = 0; i < 0x10000; i++)
		from[i] = (uint16_t)i;
	for (size_t at = 0; et_bf16_at(at); at++) {
		et_bf16_at(at)->widen(from, wide, 0x10000);
		et_bf16_at(at)->narrow(wide, to, 0x10000);
		memcpy(rounded, wide, sizeof(wide));
		et_bf16_at(at)->round(rounded, 0x10000);
		for (uint32_t i = 0; i < 0x10000; i++) {
			bool is_nan = (i & 0x7fff) > 0x7f80;
			assert_int_equal(bits_of(wide[i]), i << 16);
			assert_int_equal(to[i], is_nan ? i | 0x40 : i);
			assert_int_equal(bits_of(rounded[i]), (uint32_t)to[i] << 16);
		}
	}
}

static void nothing_is_written_behind_the_end(void **state)
{
	float from[N], rounded[N + 1];
	uint16_t to[N + 1];
	for (size_t i = 0; i < N; i++)
		from[i] = (float)i * 0.37f - 50;
	for (size_t at = 0; et_bf16_at(at); at++)
		for (size_t n = 0; n <= N; n++) {
			to[n] = 0xabcd;
			memcpy(rounded, from, n * sizeof(*from));
			rounded[n] = -1e9f;
			et_bf16_at(at)->narrow(from, to, n);
			et_bf16_at(at)->round(rounded, n);
			assert_int_equal(to[n], 0xabcd);
			assert_true(rounded[n] == -1e9f);
			for (size_t i = 0; i < n; i++) {
				assert_true(rounded[i] == et_bf16_to_float(to[i]));
				/* at most half of the last of 8 places */
				assert_true(fabsf(rounded[i] - from[i]) <= fabsf(from[i]) * 0x1p-8f);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_rounded_to_the_nearest),
		cmocka_unit_test(what_is_widened_narrows_to_itself),
		cmocka_unit_test(nothing_is_written_behind_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
