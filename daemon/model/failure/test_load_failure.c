/* SPDX-License-Identifier: BSD-3-Clause */
/* Load failures: each status of the runtime is one kind, and only a lack of memory and a lost backend are transient. */
#include "daemon/model/failure/load_failure.h"

#include "runtime/base/checked.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void test_kinds(void **state)
{
	static const struct {
		enum et_status status;
		enum inf_load_failure failure;
	} cases[] = {
		{ ET_OK, INF_LOAD_FAILURE_NONE },
		{ ET_E_INVALID_PROGRAM, INF_LOAD_FAILURE_BROKEN },
		{ ET_E_BACKEND_CRASHED, INF_LOAD_FAILURE_CRASHED },
		{ ET_E_OPERATOR_MISSING, INF_LOAD_FAILURE_MISSING },
		{ ET_E_BACKEND_MISSING, INF_LOAD_FAILURE_MISSING },
		{ ET_E_NOT_SUPPORTED, INF_LOAD_FAILURE_MISSING },
		{ ET_E_BACKEND_DOWN, INF_LOAD_FAILURE_DOWN },
		{ ET_E_OUT_OF_RESOURCES, INF_LOAD_FAILURE_NO_MEMORY },
		{ ET_E_MEMORY_ALLOCATION_FAILED, INF_LOAD_FAILURE_NO_MEMORY },
		{ ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED, INF_LOAD_FAILURE_NO_MEMORY },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++)
		assert_int_equal(inf_load_failure_of(cases[i].status), cases[i].failure);
}

static void test_transient(void **state)
{
	for (int i = 0; i < INF_N_LOAD_FAILURES; i++)
		assert_int_equal(inf_load_failure_is_transient((enum inf_load_failure)i),
			i == INF_LOAD_FAILURE_DOWN || i == INF_LOAD_FAILURE_NO_MEMORY);
	assert_true(inf_is_scarcity(-EMFILE) && inf_is_scarcity(-ENFILE) && inf_is_scarcity(-ENOMEM));
	assert_false(inf_is_scarcity(-ENOENT) || inf_is_scarcity(0));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_transient),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
