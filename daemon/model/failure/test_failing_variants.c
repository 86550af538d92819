/* SPDX-License-Identifier: BSD-3-Clause */
/* Test which variants are passed over, and until when. */
#include "daemon/model/failure/failing_variants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const struct inf_data_ids no_data = { 0 };

static void add(struct et_list_node *list, const char *model, const char *path, const char *backends, ino_t ino,
	const char *why)
{
	const struct inf_file_id file = { .ino = ino };
	const struct inf_failing_variant v = { model, "1", "forward", path, backends, &file, &no_data, why };
	assert_true(inf_failing_variants_add(list, &v));
}

static const char *find(const struct et_list_node *list, ino_t ino, const char *method)
{
	const struct inf_file_id file = { .ino = ino };
	return inf_failing_variants_find(list, &file, &no_data, method);
}

static size_t count(const struct et_list_node *list)
{
	struct inf_failing_variant v;
	size_t n = 0;
	while (inf_failing_variants_at(list, n, &v))
		n++;
	return n;
}

/* An entry is about one file and one method; another file at the same path takes its place. */
static void test_find(void **state)
{
	const struct inf_file_id file = { .ino = 1 };
	const struct inf_data_ids data = { .n = 1, .items = { { .ino = 9 } } };
	struct et_list_node list;
	inf_failing_variants_init(&list);
	add(&list, "m", "/m/1/a.pte", "acme", 1, "it fails");
	assert_string_equal(find(&list, 1, "forward"), "it fails");
	assert_null(find(&list, 1, "backward"));
	assert_null(find(&list, 2, "forward"));
	assert_null(inf_failing_variants_find(&list, &file, &data, "forward"));
	add(&list, "m", "/m/1/a.pte", "acme", 2, "it fails, too");
	assert_null(find(&list, 1, "forward"));
	assert_string_equal(find(&list, 2, "forward"), "it fails, too");
	assert_int_equal(count(&list), 1);
	inf_failing_variants_deinit(&list);
}

static void test_forget(void **state)
{
	const struct inf_file_id file = { .ino = 3 };
	struct inf_failing_variant v;
	struct et_list_node list;
	inf_failing_variants_init(&list);
	add(&list, "m", "/m/1/a.pte", "acme", 1, "a");
	add(&list, "m", "/m/1/b.pte", "xnnpack+acme2", 2, "b");
	add(&list, "n", "/n/1/a.pte", "xnnpack+acme", 3, "c");
	assert_true(inf_failing_variants_at(&list, 1, &v));
	assert_string_equal(v.path, "/m/1/b.pte");
	assert_string_equal(v.why, "b");
	assert_false(inf_failing_variants_forget_backend(&list, "ac"));
	assert_false(inf_failing_variants_forget_backend(&list, "acme2000"));
	assert_true(inf_failing_variants_forget_backend(&list, "acme"));
	assert_int_equal(count(&list), 1);
	assert_string_equal(find(&list, 2, "forward"), "b");
	assert_false(inf_failing_variants_forget_model(&list, "n"));
	add(&list, "n", "/n/1/a.pte", "xnnpack+acme", 3, "c");
	assert_true(inf_failing_variants_forget_model(&list, "m"));
	assert_int_equal(count(&list), 1);
	assert_false(inf_failing_variants_forget(&list, &file, &no_data, "backward"));
	assert_true(inf_failing_variants_forget(&list, &file, &no_data, "forward"));
	assert_int_equal(count(&list), 0);
	inf_failing_variants_deinit(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_forget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
