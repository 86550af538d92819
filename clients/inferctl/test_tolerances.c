/* SPDX-License-Identifier: BSD-3-Clause */
/* Test tolerances: which rule of tolerances.txt counts, and which lines are refused. */
#include "clients/inferctl/tolerances.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static int find(const char *text, const char *path, struct ctl_tolerance *ret, unsigned *ret_line)
{
	FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int rc;
	assert_non_null(file);
	rc = ctl_tolerances_find(file, path, ret, ret_line);
	fclose(file);
	return rc;
}

static void test_first_match_counts(void **state)
{
	const char *text = "# path   bounds\n\nnet/int8.bpte   atol 0.2   # why\nnet/  atol 0.05 rtol 0.01\n"
			   "words/ cosine 0.999\ncats argmax\n";
	struct ctl_tolerance t = CTL_TOLERANCE_DEFAULT;
	unsigned line;
	assert_int_equal(find(text, "net/int8.bpte", &t, &line), 1);
	assert_true(t.atol == 0.2 && t.rtol == 0 && t.cosine < 0 && !t.argmax);
	assert_int_equal(find(text, "net/fp16.bpte", &t, &line), 1);
	assert_true(t.atol == 0.05 && t.rtol == 0.01);
	assert_int_equal(find(text, "words/a/b.bpte", &t, &line), 1);
	assert_true(t.atol < 0 && t.rtol < 0 && t.cosine == 0.999);
	assert_int_equal(find(text, "cats.bpte", &t, &line), 1);
	assert_true(t.argmax && t.cosine < 0);
	assert_int_equal(find(text, "other/net/int8.bpte", &t, &line), 0);
}

static void test_broken_lines(void **state)
{
	const char *broken[] = { "a/\n", "a/ atol\n", "a/ atol -1\n", "a/ atol 0.1x\n", "a/ bound 3\n", "a/ 0.1\n" };
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		struct ctl_tolerance t = CTL_TOLERANCE_DEFAULT;
		unsigned line;
		assert_int_equal(find(broken[i], "b/x", &t, &line), -1);
		assert_int_equal(line, 1);
		assert_true(t.atol < 0);
	}
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *file;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_nearest_folder_with_a_match(void **state)
{
	char top[] = "/tmp/inferctl-test-XXXXXX", inner[64], path[300], error[256];
	struct ctl_tolerance t = CTL_TOLERANCE_DEFAULT;

	assert_non_null(mkdtemp(top));
	snprintf(inner, sizeof(inner), "%s/inner", top);
	assert_int_equal(mkdir(inner, 0700), 0);
	write_file(top, "tolerances.txt", "inner/ atol 1\n");
	write_file(inner, "tolerances.txt", "a.bpte atol 2\n");
	write_file(inner, "a.bpte", "");
	write_file(inner, "b.bpte", "");
	snprintf(path, sizeof(path), "%s/a.bpte", inner);
	assert_int_equal(ctl_tolerances_for(path, &t, error, sizeof(error)), 0);
	assert_true(t.atol == 2);
	snprintf(path, sizeof(path), "%s/b.bpte", inner);
	assert_int_equal(ctl_tolerances_for(path, &t, error, sizeof(error)), 0);
	assert_true(t.atol == 1);
	write_file(inner, "tolerances.txt", "\nb.bpte nonsense\n");
	assert_int_equal(ctl_tolerances_for(path, &t, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "inner/tolerances.txt:2:"));

	const char *names[] = { "inner/a.bpte", "inner/b.bpte", "inner/tolerances.txt", "inner", "tolerances.txt" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", top, names[i]);
		assert_int_equal(remove(path), 0);
	}
	assert_int_equal(rmdir(top), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_match_counts),
		cmocka_unit_test(test_broken_lines),
		cmocka_unit_test(test_nearest_folder_with_a_match),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
