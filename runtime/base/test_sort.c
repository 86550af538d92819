/* SPDX-License-Identifier: BSD-3-Clause */
/* Items come out in order, whatever order they went in. */
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

/* The items are sorted, and none is lost. */
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

/* Sorted items stay where they are, and an is_before that is no order loses no item. */
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

static void equal_keys_keep_their_order(void **state)
{
	enum { MOST = 300 };
	static struct et_sort_item items[MOST], room[MOST];
	/* keys with bits in the middle, all bits, few bits, none, and one high bit */
	const uint64_t masks[] = { 0xfff0, UINT64_MAX, 3, 0, UINT64_C(1) << 63 };
	uint64_t key = 1;
	(void)state;
	for (uint32_t round = 0; round < 5 * MOST; round++) {
		uint32_t n = round / 5;
		bool has[MOST] = { false };
		uint64_t before = 0, after = 0;
		for (uint32_t i = 0; i < n; i++) {
			key = key * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			items[i] = (struct et_sort_item){ (key ^ key >> 33) & masks[round % 5], i };
			before += items[i].key * (i + 1);
		}
		et_sort_by_key(items, room, n);
		for (uint32_t i = 0; i < n; i++) {
			assert_true(items[i].index < n && !has[items[i].index]);
			has[items[i].index] = true;
			after += items[i].key * (items[i].index + 1);
			assert_true(!i || items[i - 1].key < items[i].key ||
				    (items[i - 1].key == items[i].key && items[i - 1].index < items[i].index));
		}
		assert_true(before == after); /* each key still belongs to its index */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sorts),
		cmocka_unit_test(keeps_all),
		cmocka_unit_test(equal_keys_keep_their_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
