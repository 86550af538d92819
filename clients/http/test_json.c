/* SPDX-License-Identifier: BSD-3-Clause */
/* Test that JSON is parsed within the limit on memory, wherever the limit is reached. */
#include "clients/http/json.h"
#include "clients/http/memory.h"
#include "runtime/base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N_BYTES = 10000 }; /* ten times what jansson asks for at once */

/* @n_bytes of JSON: @before, as many @items as there is room for, @after. */
static char *text_new(const char *before, const char *item, const char *after)
{
	char *text = calloc(1, N_BYTES + 1);
	assert_non_null(text);
	size_t n = strlen(item), n_all = (size_t)snprintf(text, N_BYTES, "%s", before);
	for (; n_all + n + strlen(after) <= N_BYTES; n_all += n)
		memcpy(text + n_all, item, n);
	memcpy(text + n_all, after, strlen(after));
	return text;
}

/* The status for each limit: 503 up to one, and 0 from there on. */
static void check(const char *before, const char *item, const char *after)
{
	char *text = text_new(before, item, after), error[400];
	unsigned last = 503;
	for (size_t limit = 0; limit < 256 * (size_t)N_BYTES; limit += limit < 4000 ? 16 : 1 + limit / 50) {
		json_t *root = NULL;
		http_memory_init(limit);
		unsigned code = http_json_parse(&root, text, strlen(text), error, sizeof(error));
		assert_true(code == last || (last == 503 && code == 0));
		assert_true(code ? !root && strstr(error, "no memory") : root != NULL);
		last = code;
		json_decref(root);
		assert_true(http_memory_used() == 0);
	}
	assert_int_equal(last, 0);
	free(text);
}

static void test_limits(void **state)
{
	check("[", "1,", "1]");
	check("[", "{},", "1]");
	check("[\"", "x", "\"]");
	check("[\"", "\\u00e9", "\"]");
	check("[", "\"abcdefghijklmnopqrstuvwxyz\",", "1]");
	check("[1.", "1", "]");
	check("{\"", "k", "\":1}");
}

static void test_not_json(void **state)
{
	static const char *const wrong[] = { "", "{", "[1", "\"", "[\xff]", "[1]]" };
	char error[400];
	http_memory_init(1 << 20);
	for (size_t i = 0; i < ET_ARRAY_LEN(wrong); i++) {
		json_t *root = NULL;
		assert_int_equal(http_json_parse(&root, wrong[i], strlen(wrong[i]), error, sizeof(error)), 400);
		assert_null(root);
		assert_non_null(strstr(error, "failed to parse"));
	}
	assert_true(http_memory_used() == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_limits), cmocka_unit_test(test_not_json) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
