/* A model that is one call of the test plug-in, with 256 floats in and out.
 *
 *     make_delegated WORD FILE.pte       (see tests/plugins/plugin.c) */
#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: make_delegated WORD FILE.pte\n");
		return 2;
	}
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	struct mk_tensor tensor = { MK_FP32, MK_SIZES(256) };
	int x = mk_tensor(&mk, &tensor), y = mk_tensor(&mk, &tensor);
	int delegate = mk_delegate(&mk, "TestBackend", argv[1], strlen(argv[1]), false, NULL, NULL);
	mk_call(&mk, delegate, MK_ARGS(x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	size_t n_file;
	uint8_t *file = mk_finish(&mk, &n_file);
	FILE *out = fopen(argv[2], "wb");
	if (!out || fwrite(file, 1, n_file, out) != n_file || fclose(out) != 0) {
		perror(argv[2]);
		return 1;
	}
	free(file);
	return 0;
}
