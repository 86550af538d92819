/* SPDX-License-Identifier: BSD-3-Clause */
/* Write a program of many tiny operators, so that a run measures the executor alone. Each operator adds two tensors
 * of one element: float, or int64 as for positions and counts.
 *
 *     make_tiny N_OPERATORS FILE.pte [int64] */
#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	bool is_int = argc == 4 && strcmp(argv[3], "int64") == 0;
	long n = argc == 3 || is_int ? strtol(argv[1], NULL, 10) : 0;
	if (n < 1 || n > 100000) {
		fprintf(stderr, "usage: make_tiny N_OPERATORS FILE.pte [int64]\n");
		return 2;
	}
	enum et_scalar_type type = is_int ? ET_INT64 : ET_FLOAT32;
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 192);
	int tensors[3];
	for (unsigned i = 0; i < 3; i++)
		tensors[i] = mk_tensor(&mk,
			&(struct mk_tensor){ .type = type, MK_SIZES(1), .arena = arena, .offset = 64 * i });
	/* The original takes no program without a segment for constants, so what is added is one. */
	static const float addend = 1;
	static const int64_t int_addend = 1;
	uint32_t constant = is_int ? mk_constant(&mk, &int_addend, sizeof int_addend)
				   : mk_constant(&mk, &addend, sizeof addend);
	int other = mk_tensor(&mk, &(struct mk_tensor){ .type = type, MK_SIZES(1), .constant = constant });
	int one = mk_int(&mk, 1);
	int add = mk_operator(&mk, "aten::add", "out");
	for (long i = 0; i < n; i++) {
		int from = i ? tensors[1 + (i - 1) % 2] : tensors[0], to = tensors[1 + i % 2];
		mk_kernel(&mk, add, MK_ARGS(from, other, one, to, to));
	}
	mk_input(&mk, tensors[0]);
	mk_output(&mk, tensors[1 + (n - 1) % 2]);
	return mk_write(&mk, argv[2]);
}
