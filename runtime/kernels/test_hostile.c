/* Every kernel of every table, called as no exporter would (tests/support/hostile.h). The seed is the kernel's number and
 * that of the call, so a call that fails is made again by a run that is given both:
 *     test_kernels_hostile              some calls of each
 *     test_kernels_hostile N            N calls of each, from another seed each time N changes
 *     test_kernels_hostile N KERNEL     of this one alone */
#include "tests/support/hostile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static size_t n_calls = 100;
static const char *only;

static void every_call_is_answered(void **state)
{
	size_t n_kernels = hostile_n_kernels();
	for (size_t k = 0; k < n_kernels; k++) {
		const struct et_kernel *kernel = hostile_kernel(k);
		if (only && strcmp(kernel->name, only) != 0)
			continue;
		for (size_t i = 0; i < n_calls; i++) {
			struct choices choices = { .random = (n_calls << 40) + (k << 20) + i + 1 };
			hostile_call(kernel, &choices);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc > 1)
		n_calls = strtoul(argv[1], NULL, 10);
	if (argc > 2)
		only = argv[2];
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_call_is_answered) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
