/* SPDX-License-Identifier: BSD-3-Clause */
/* The diagnosis sentence: complete, short enough, on one line. */
#include "runtime/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void test_first_sentence_wins(void **state)
{
	(void)state;
	struct et_diag diag = { 0 };
	assert_int_equal(et_fail(&diag, ET_E_NOT_FOUND, "no %s", "thing"), ET_E_NOT_FOUND);
	assert_int_equal(et_fail(&diag, ET_E_INTERNAL, "later"), ET_E_INTERNAL);
	assert_string_equal(diag.text, "no thing");
	assert_int_equal(et_fail(NULL, ET_E_INTERNAL, "nobody listens"), ET_E_INTERNAL);
}

static void test_names_cannot_forge_lines(void **state)
{
	(void)state;
	struct et_diag diag = { 0 };
	et_fail(&diag, ET_E_NOT_FOUND, "method '%s'", "a\n<3>all is well\x1b[2J\x7f\t\xc3\xa4");
	assert_string_equal(diag.text, "method 'a?<3>all is well?[2J??\xc3\xa4'");
}

static void test_long_sentences_are_cut(void **state)
{
	(void)state;
	struct et_diag diag = { 0 };
	char name[1000];
	memset(name, 'n', sizeof name);
	name[sizeof name - 1] = '\0';
	et_fail(&diag, ET_E_NOT_FOUND, "%s", name);
	assert_int_equal(strlen(diag.text), sizeof diag.text - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_sentence_wins),
		cmocka_unit_test(test_names_cannot_forge_lines),
		cmocka_unit_test(test_long_sentences_are_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
