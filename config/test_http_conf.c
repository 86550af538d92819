/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd-http.conf: values, mistakes, and that the example and the manual name each key. */
#include "config/http_conf.h"

#include "tests/support/text_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *example, *manual;

static void test_values(void **state)
{
	static const char text[] =
		"[http]\nsocket =\nlisten = 127.0.0.1:8000, [::1]:8000\nload = yes\npage = yes\nmemory = 1M\n"
		"idle_timeout = 5s\nconnections = 7\n";
	struct inf_http_config c;
	struct inf_config_error error = { "" };
	inf_http_config_init(&c);
	assert_string_equal(c.socket, "/run/inferd/http.sock");
	assert_false(c.load || c.shared_memory || c.page);
	assert_int_equal(inf_http_config_parse(&c, text, "x", &error), 0);
	assert_string_equal(c.socket, "");
	assert_string_equal(c.listen.text, "127.0.0.1:8000 [::1]:8000");
	assert_true(c.load && c.page);
	assert_int_equal(c.memory, 1 << 20);
	assert_int_equal(c.idle_timeout_ns, 5000000000);
	assert_int_equal(c.connections, 7);
}

static void test_mistakes(void **state)
{
	static const struct {
		const char *text, *has;
	} cases[] = { { "load = yes\n", "before any section" }, { "[server]\n", "unknown section" },
		{ "[http]\nlod = yes\n", "unknown key 'lod'" }, { "[http]\nload = maybe\n", "neither yes nor no" },
		{ "[http]\nmemory = 1K\n", "less than 64K" }, { "[http]\nmemory = 9999T\n", "more than 1T" },
		{ "[http]\nidle_timeout = infinity\n", "outside" }, { "[http]\nidle_timeout = 0\n", "outside" },
		{ "[http]\nconnections = 0\n", "outside" }, { "[http]\ndaemon =\n", "can't be empty" },
		{ "[http]\nnonsense\n", "key = value" } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct inf_http_config c;
		struct inf_config_error error = { "" };
		inf_http_config_init(&c);
		assert_int_equal(inf_http_config_parse(&c, cases[i].text, "x", &error), -EINVAL);
		if (!strstr(error.text, cases[i].has))
			fail_msg("'%s' lacks '%s'", error.text, cases[i].has);
	}
}

/* Each commented line of the example is a default, and the manual has its key. */
static void test_example(void **state)
{
	char *text = text_file_read(example), *page = text_file_read(manual), line[256];
	struct inf_http_config defaults, c;
	struct inf_config_error error = { "" };
	unsigned n = 0;
	inf_http_config_init(&defaults);
	assert_int_equal(inf_http_config_load(&c, "/nowhere/x.conf", &error), -ENOENT);
	for (const char *at = strstr(text, "\n#"); at; at = strstr(at + 1, "\n#")) {
		const char *key = at + 2;
		size_t n_key = strcspn(key, " =\n");
		if (strncmp(key + n_key, " =", 2) != 0)
			continue;
		inf_http_config_init(&c);
		snprintf(line, sizeof(line), "[http]\n%.*s\n", (int)strcspn(key, "\n"), key);
		if (inf_http_config_parse(&c, line, "x", &error) < 0)
			fail_msg("%s", error.text);
		assert_memory_equal(&c, &defaults, sizeof(c));
		snprintf(line, sizeof(line), "%.*s", (int)n_key, key);
		if (!strstr(page, line))
			fail_msg("the manual does not have %s", line);
		n++;
	}
	assert_int_equal(n, 18);
	free(text);
	free(page);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_example),
	};
	if (argc != 3)
		return 1;
	example = argv[1];
	manual = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
