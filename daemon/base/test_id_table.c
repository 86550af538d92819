/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: the id of a removed object finds nothing, even if another object took its place. */
#include "daemon/base/id_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void test_numbers(void **state)
{
	enum { N = 1000 };
	static int objects[N];
	uint64_t ids[N];
	struct inf_table table = { 0 };
	assert_null(inf_table_find(&table, 0));
	assert_null(inf_table_find(&table, 1));
	for (int i = 0; i < N; i++) {
		ids[i] = inf_table_add(&table, &objects[i]);
		assert_true(ids[i] != 0);
	}
	assert_int_equal(table.n_used, N);
	for (int i = 0; i < N; i++)
		assert_ptr_equal(inf_table_find(&table, ids[i]), &objects[i]);
	assert_null(inf_table_find(&table, N + 5000));
	assert_null(inf_table_find(&table, UINT64_MAX));

	inf_table_remove(&table, ids[7]);
	inf_table_remove(&table, ids[7]);
	assert_int_equal(table.n_used, N - 1);
	assert_null(inf_table_find(&table, ids[7]));
	uint64_t again = inf_table_add(&table, &objects[7]);
	assert_int_equal((uint32_t)again, (uint32_t)ids[7]); /* the same place */
	assert_true(again != ids[7]);                        /* with another id */
	assert_null(inf_table_find(&table, ids[7]));
	assert_ptr_equal(inf_table_find(&table, again), &objects[7]);
	inf_table_deinit(&table);
}

static void test_walk(void **state)
{
	int objects[20];
	uint64_t ids[20];
	struct inf_table table = { 0 };
	uint32_t at = 0;
	size_t n = 0;
	assert_null(inf_table_next(&table, &at));
	for (int i = 0; i < 20; i++)
		ids[i] = inf_table_add(&table, &objects[i]);
	for (int i = 0; i < 20; i += 2)
		inf_table_remove(&table, ids[i]);
	for (at = 0; inf_table_next(&table, &at);)
		n++;
	assert_int_equal(n, 10);
	/* removing while walking */
	int *object;
	for (at = 0; (object = inf_table_next(&table, &at));)
		inf_table_remove(&table, ids[object - objects]);
	assert_int_equal(table.n_used, 0);
	inf_table_deinit(&table);
	inf_table_deinit(&table);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_walk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
