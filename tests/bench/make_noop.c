/* SPDX-License-Identifier: BSD-3-Clause */
/* Write a model that computes nothing, so that a request measures inferd alone. It has one FP32 input of a given
 * size, and one number as output, which a kernel reads from the input's header without touching its elements.
 *
 *     make_noop N_BYTES FILE.pte */
#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	long n_bytes = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	if (n_bytes < 4 || n_bytes > (1l << 30)) {
		fprintf(stderr, "usage: make_noop N_BYTES FILE.pte\n");
		return 2;
	}
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, n_bytes);
	struct mk_tensor tensor = { MK_FP32, MK_SIZES((int32_t)(n_bytes / 4)), .arena = arena };
	int input = mk_tensor(&mk, &tensor);
	int dim = mk_int(&mk, 0);
	int size = mk_int(&mk, 0);
	mk_kernel(&mk, mk_operator(&mk, "aten::sym_size", "int"), MK_ARGS(input, dim, size));
	mk_input(&mk, input);
	mk_output(&mk, size);
	return mk_write(&mk, argv[2]);
}
