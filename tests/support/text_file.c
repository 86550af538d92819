/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of text, whole: pages of the manual, examples of configuration. */
#include "tests/support/text_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 1 << 16 };

char *text_file_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = calloc(1, MOST);
	assert_non_null(file);
	assert_non_null(text);
	assert_true(fread(text, 1, MOST - 1, file) > 0);
	fclose(file);
	return text;
}
