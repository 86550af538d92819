/* SPDX-License-Identifier: BSD-3-Clause */
/* Load diagnostics: a later one replaces an earlier one, and a model counts as refused when all its methods are. */
#include "daemon/model/failure/load_diagnostics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static struct et_list_node diagnostics;

static void note(const char *version, const char *method, uint32_t n_others, const char *text)
{
	inf_load_diagnostics_note(&diagnostics,
		&(struct inf_load_diagnostic){ "m", version, method, text, true, n_others });
}

/* NULL: there is no diagnostic. */
static void expect(const char *version, const char *said, bool is_refused)
{
	char text[1024] = "";
	bool is = !is_refused;
	assert_int_equal(inf_load_diagnostics_tell(&diagnostics, "m", version, text, sizeof(text), &is), said != NULL);
	assert_string_equal(text, said ? said : "");
	assert_int_equal(is, is_refused);
}

static void test_whole(void **state)
{
	inf_load_diagnostics_init(&diagnostics);
	expect("1", NULL, false);
	note("1", "", 0, "a.pte: broken");
	expect("1", "a.pte: broken", true);
	expect("2", NULL, false);
	note("1", "", 0, "a.pte: cut off");
	expect("1", "a.pte: cut off", true);
	inf_load_diagnostics_note(&diagnostics,
		&(struct inf_load_diagnostic){ "m", "1", "", "npu.pte: passed over", false, 0 });
	expect("1", "npu.pte: passed over", false);
	note("1", "", 0, "");
	expect("1", NULL, false);
	inf_load_diagnostics_deinit(&diagnostics);
	assert_true(et_list_is_empty(&diagnostics));
}

/* One of three methods is refused, then a second one; nothing is known about the third. */
static void test_methods(void **state)
{
	inf_load_diagnostics_init(&diagnostics);
	note("1", "b", 2, "no memory");
	note("1", "a", 2, "no data");
	inf_load_diagnostics_note(&diagnostics,
		&(struct inf_load_diagnostic){ "m", "1", "", "npu.pte: passed over", false, 0 });
	expect("1", "npu.pte: passed over; method 'b' can't be run: no memory; method 'a' can't be run: no data",
		false);
	note("1", "c", 2, "no backend");
	char text[1024];
	bool is_refused = false;
	assert_true(inf_load_diagnostics_tell(&diagnostics, "m", "1", text, sizeof(text), &is_refused));
	assert_true(is_refused);
	note("1", "b", 2, "");
	inf_load_diagnostics_tell(&diagnostics, "m", "1", text, sizeof(text), &is_refused);
	assert_false(is_refused);
	note("1", "d", 0, "the last that nothing was known of"); /* the others can't be, as was seen before */
	inf_load_diagnostics_tell(&diagnostics, "m", "1", text, sizeof(text), &is_refused);
	assert_true(is_refused);
	note("2", "a", 1, "no data");
	inf_load_diagnostics_forget(&diagnostics, "n");
	expect("2", "method 'a' can't be run: no data", false);
	inf_load_diagnostics_forget(&diagnostics, "m");
	expect("1", NULL, false);
	expect("2", NULL, false);
	inf_load_diagnostics_deinit(&diagnostics);
}

/* A text that does not fit is cut. */
static void test_long(void **state)
{
	char text[64], long_text[2000];
	bool is_refused;
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	inf_load_diagnostics_init(&diagnostics);
	for (int i = 0; i < 4; i++) {
		char method[8];
		snprintf(method, sizeof(method), "m%d", i);
		note("1", method, 9, long_text);
	}
	assert_true(inf_load_diagnostics_tell(&diagnostics, "m", "1", text, sizeof(text), &is_refused));
	assert_int_equal(strlen(text), sizeof(text) - 1);
	inf_load_diagnostics_deinit(&diagnostics);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
