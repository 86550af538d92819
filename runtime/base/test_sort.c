/* SPDX-License-Identifier: BSD-3-Clause */
/* Items come out in order, whatever order they went in, and names are found in them. */
#include "runtime/base/sort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

struct item {
	uint64_t key;
	uint32_t index;
};

static bool is_before(const void *a, const void *b)
{
	return ((const struct item *)a)->key < ((const struct item *)b)->key;
}

/* Sorted, and nothing was lost. */
static void sorts(void **state)
{
	struct item items[200];
	for (size_t n = 0; n <= 200; n += n < 20 ? 1 : 45) {
		uint64_t sum = 0;
		for (size_t i = 0; i < n; i++)
			items[i] = (struct item){ .key = i * 7919 % (n / 2 + 1), .index = (uint32_t)i };
		et_sort(items, n, sizeof *items, is_before);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(items[i].key, items[i].index * UINT64_C(7919) % (n / 2 + 1));
			assert_true(i == 0 || items[i - 1].key <= items[i].key);
			sum += items[i].index;
		}
		assert_int_equal(sum, n ? n * (n - 1) / 2 : 0);
	}
}

static bool always(const void *a, const void *b)
{
	return true;
}

/* What is in order stays, and an order that is none loses nothing. */
static void keeps_all(void **state)
{
	enum { N = 100 };
	struct item items[N];
	for (uint32_t i = 0; i < N; i++)
		items[i] = (struct item){ .key = i / 2, .index = i };
	et_sort(items, N, sizeof *items, is_before);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(items[i].index, i);
	bool is_there[N] = { false };
	et_sort(items, N, sizeof *items, always);
	for (uint32_t i = 0; i < N; i++) {
		assert_false(is_there[items[i].index]);
		is_there[items[i].index] = true;
	}
}

static void finds_names(void **state)
{
	enum { N = 300 };
	char texts[N][8];
	struct et_name names[N];
	assert_int_equal(et_names_find(NULL, 0, "x"), ET_NO_NAME);
	for (uint32_t i = 0; i < N; i++) { /* each twice */
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
		cmocka_unit_test(sorts),
		cmocka_unit_test(keeps_all),
		cmocka_unit_test(finds_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
