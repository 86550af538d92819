/* SPDX-License-Identifier: BSD-3-Clause */
/* All tables together: sorted, without duplicates, and every signature can be read by a Plan. */
#include "runtime/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void tables_are_sorted(void **state)
{
	for (size_t t = 0; t < et_n_kernel_tables; t++) {
		const struct et_kernel_table *table = et_kernel_tables[t];
		assert_true(table->n > 0);
		for (size_t i = 1; i < table->n; i++) {
			if (strcmp(table->kernels[i - 1].name, table->kernels[i].name) >= 0)
				fail_msg("'%s' stands before '%s'", table->kernels[i - 1].name, table->kernels[i].name);
		}
	}
}

static void names_are_unique(void **state)
{
	for (size_t t = 0; t < et_n_kernel_tables; t++) {
		for (size_t i = 0; i < et_kernel_tables[t]->n; i++) {
			const char *name = et_kernel_tables[t]->kernels[i].name;
			size_t n_found = 0;
			for (size_t u = 0; u < et_n_kernel_tables; u++)
				n_found += et_kernel_table_find(et_kernel_tables[u], name) != NULL;
			if (n_found != 1)
				fail_msg("'%s' is in %zu tables", name, n_found);
		}
	}
}

static void signatures_parse(void **state)
{
	for (size_t t = 0; t < et_n_kernel_tables; t++) {
		for (size_t i = 0; i < et_kernel_tables[t]->n; i++) {
			const struct et_kernel *kernel = &et_kernel_tables[t]->kernels[i];
			struct et_kernel_arg args[32];
			int n = et_kernel_signature(kernel->signature, args, 32);
			bool writes = false;
			for (int k = 0; k < n; k++)
				writes |= args[k].is_written;
			if (n <= 0 || !writes || !kernel->run)
				fail_msg("'%s' has the signature '%s'", kernel->name, kernel->signature);
		}
	}
}

static const char *beyond_path;

/* Names that the list says are left out do not exist. */
static void listed_names_do_not_exist(void **state)
{
	char line[512];
	size_t n = 0;
	FILE *file = fopen(beyond_path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		size_t n_name = strcspn(line, " \n");
		if (line[0] == '#')
			continue;
		assert_true(n_name > 0 && line[n_name] == ' ');
		line[n_name] = '\0';
		for (size_t t = 0; t < et_n_kernel_tables; t++) {
			if (et_kernel_table_find(et_kernel_tables[t], line))
				fail_msg("'%s' is listed as left out, and it exists", line);
		}
		n++;
	}
	fclose(file);
	assert_true(n > 0);
}

int main(int argc, char **argv)
{
	assert_int_equal(argc, 2);
	beyond_path = argv[1];
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_are_sorted),
		cmocka_unit_test(names_are_unique),
		cmocka_unit_test(signatures_parse),
		cmocka_unit_test(listed_names_do_not_exist),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
