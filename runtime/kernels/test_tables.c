/* All tables together: sorted, free of duplicates, and every signature one that a Plan can read. */
#include "runtime/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void tables_are_sorted(void **state)
{
	for (size_t t = 0; t < et_n_kernel_tables; t++) {
		const struct et_kernel_table *table = et_kernel_tables[t];
		assert_true(table->n > 0);
		for (size_t i = 1; i < table->n; i++) {
			if (strcmp(table->kernels[i - 1].name, table->kernels[i].name) >= 0)
				fail_msg("'%s' stands before '%s'", table->kernels[i - 1].name,
					table->kernels[i].name);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_are_sorted),
		cmocka_unit_test(names_are_unique),
		cmocka_unit_test(signatures_parse),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
