/* SPDX-License-Identifier: BSD-3-Clause */
/* Names are found, whatever order they came in. */
#include "runtime/base/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static void finds_names(void **state)
{
	enum { N = 300 };
	char texts[N][8];
	struct et_name names[N];
	assert_int_equal(et_names_find(NULL, 0, "x"), ET_NO_NAME);
	for (uint32_t i = 0; i < N; i++) { /* each name twice */
		snprintf(texts[i], sizeof texts[i], "%u", i * 7 % (N / 2));
		names[i] = (struct et_name){ texts[i], i };
	}
	et_names_sort(names, N);
	for (uint32_t i = 0; i < N / 2; i++) {
		assert_int_equal(et_names_find(names, N, texts[i]), i);
	}
	assert_int_equal(et_names_find(names, N, "1000"), ET_NO_NAME);
	assert_int_equal(et_names_find(names, N, ""), ET_NO_NAME);
	assert_int_equal(et_names_find(names, N, "zzz"), ET_NO_NAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
