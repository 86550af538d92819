/* SPDX-License-Identifier: BSD-3-Clause */
/* rowsum_qs8.c against the plain definition: every build, signed and unsigned, every width, more rows than 16 bits
 * hold, extremes; in memory of exactly that size. */
#include "delegates/xnnpack/ukernels/rowsum_qs8.h"

#include "delegates/xnnpack/support/test_draw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void check(size_t n_rows, size_t pitch, size_t n_columns, uint8_t flip, int extreme)
{
	size_t n_bytes = (n_rows - 1) * pitch + n_columns;
	uint8_t *rows = malloc(n_bytes);
	assert_non_null(rows);
	for (size_t i = 0; i < n_bytes; i++)
		rows[i] = (uint8_t)(extreme < 0 ? test_draw(256) : (uint32_t)extreme);
	for (size_t i = 0; et_rowsum_qs8_at(i); i++) {
		int32_t sums[ET_ROWSUM_QS8_WIDTH];
		for (size_t j = 0; j < ET_ROWSUM_QS8_WIDTH; j++)
			sums[j] = (int32_t)j - 5;
		et_rowsum_qs8_at(i)->run(sums, rows, n_rows, pitch, n_columns, flip);
		for (size_t j = 0; j < ET_ROWSUM_QS8_WIDTH; j++) {
			int32_t sum = (int32_t)j - 5;
			for (size_t k = 0; k < n_rows && j < n_columns; k++) {
				uint8_t number = rows[k * pitch + j];
				sum += flip ? number - 128 : (int8_t)number;
			}
			assert_int_equal(sums[j], sum);
		}
	}
	free(rows);
}

static void test_widths(void **state)
{
	for (size_t n = 1; n <= ET_ROWSUM_QS8_WIDTH; n++)
		for (int i = 0; i < 4; i++)
			check(1 + test_draw(20), n + test_draw(3), n, i % 2 ? 0x80 : 0, -1);
}

static void test_many_rows(void **state)
{
	static const int extremes[] = { -1, 0, 127, 128, 255 };
	for (size_t i = 0; i < 5; i++)
		for (size_t n_rows = 254; n_rows < 770; n_rows += n_rows % 255 == 1 ? 253 : 1)
			for (size_t n = 16; n <= ET_ROWSUM_QS8_WIDTH; n += 24) {
				check(n_rows, n, n, 0, extremes[i]);
				check(n_rows, n, n, 0x80, extremes[i]);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_widths),
		cmocka_unit_test(test_many_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
