/* SPDX-License-Identifier: BSD-3-Clause */
/* fp16 and bf16: every number goes to float and back, values are those of the format, and rounding is to the nearest,
 * ties to even. */
#include "runtime/base/fp16.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

/* A magnitude of a format with @n_fraction bits of fraction and the exponent bias @bias, computed by its definition. */
static double magnitude_of(uint16_t bits, int n_fraction, int bias)
{
	int exponent = bits >> n_fraction, fraction = bits & ((1 << n_fraction) - 1);
	return exponent ? ldexp((1 << n_fraction) + fraction, exponent - bias - n_fraction)
			: ldexp(fraction, 1 - bias - n_fraction);
}

static void check_all(float (*widen)(uint16_t), uint16_t (*narrow)(float), int n_fraction, int bias, uint16_t infinity)
{
	for (uint32_t k = 0; k <= UINT16_MAX; k++) {
		uint16_t bits = (uint16_t)k, magnitude = bits & 0x7fff;
		float value = widen(bits);
		assert_int_equal(signbit(value) != 0, bits >> 15);
		if (magnitude > infinity) {
			assert_true(isnan(value));
			assert_true((narrow(value) & 0x7fff) > infinity);
			continue;
		}
		assert_true(magnitude == infinity ? isinf(value)
						  : (double)fabsf(value) == magnitude_of(magnitude, n_fraction, bias));
		assert_int_equal(narrow(value), bits);
	}
}

static float widen_fp16(uint16_t value)
{
	return et_fp16_to_float(value);
}

static uint16_t narrow_fp16(float value)
{
	return et_float_to_fp16(value);
}

static float widen_bf16(uint16_t value)
{
	return et_bf16_to_float(value);
}

static uint16_t narrow_bf16(float value)
{
	return et_float_to_bf16(value);
}

static void all_numbers(void **state)
{
	check_all(widen_fp16, narrow_fp16, 10, 15, 0x7c00);
	check_all(widen_bf16, narrow_bf16, 7, 127, 0x7f80);
}

/* Numbers between each two neighbours: below the middle, the middle itself, above it. */
static void check_rounding(float (*widen)(uint16_t), uint16_t (*narrow)(float), uint16_t largest)
{
	for (uint16_t bits = 0; bits < largest; bits++) {
		uint16_t next = (uint16_t)(bits + 1);
		float middle = (float)(((double)widen(bits) + (double)widen(next)) / 2);
		assert_int_equal(narrow(nextafterf(middle, 0)), bits);
		assert_int_equal(narrow(middle), bits & 1 ? next : bits);
		assert_int_equal(narrow(nextafterf(middle, INFINITY)), next);
		assert_int_equal(narrow(-middle), 0x8000 | (bits & 1 ? next : bits));
	}
}

static void rounding(void **state)
{
	check_rounding(widen_fp16, narrow_fp16, 0x7bff);
	check_rounding(widen_bf16, narrow_bf16, 0x7f7f);
}

static void limits(void **state)
{
	assert_int_equal(et_float_to_fp16(65519.996f), 0x7bff);
	assert_int_equal(et_float_to_fp16(65520), 0x7c00);
	assert_int_equal(et_float_to_fp16(-1e30f), 0xfc00);
	assert_int_equal(et_float_to_fp16(0x1p-25f), 0);
	assert_int_equal(et_float_to_fp16(-0x1.000002p-25f), 0x8001);
	assert_int_equal(et_float_to_bf16(0x1.fep127f), 0x7f7f);
	assert_int_equal(et_float_to_bf16(0x1.ffp127f), 0x7f80);
	assert_int_equal(et_float_to_bf16(-INFINITY), 0xff80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_numbers),
		cmocka_unit_test(rounding),
		cmocka_unit_test(limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
