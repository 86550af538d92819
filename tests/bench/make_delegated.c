/* SPDX-License-Identifier: BSD-3-Clause */
/* Write a model that is one call of the test plug-in, with 256 floats as input and output.
 *
 *     make_delegated WORD FILE.pte [ID]       (see tests/plugins/plugin.c)
 *
 * ID is the delegate id of another plug-in. WORD may have bytes as %HH. */
#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Resolve the bytes in @word, in its place; how many it is. */
static size_t unescape(char *word)
{
	size_t n = 0;
	for (const char *at = word; *at; n++) {
		char *end = NULL, hex[3] = "";
		if (at[0] == '%' && at[1] && at[2])
			memcpy(hex, at + 1, 2);
		long value = strtol(hex, &end, 16);
		bool is_byte = hex[0] && !*end;
		word[n] = is_byte ? (char)value : *at;
		at += is_byte ? 3 : 1;
	}
	return n;
}

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: make_delegated WORD FILE.pte [ID]\n");
		return 2;
	}
	size_t n_word = unescape(argv[1]);
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	struct mk_tensor tensor = { MK_FP32, MK_SIZES(256) };
	int x = mk_tensor(&mk, &tensor), y = mk_tensor(&mk, &tensor);
	int delegate = mk_delegate(&mk, argc == 4 ? argv[3] : "TestBackend", argv[1], n_word, false, NULL, NULL);
	mk_call(&mk, delegate, MK_ARGS(x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_write(&mk, argv[2]);
}
