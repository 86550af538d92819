/* A program of many operators that have next to nothing to do, so that what is left of a run is the executor: each adds
 * two single numbers.
 *
 *     make_tiny N_OPERATORS FILE.pte */
#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	long n = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	if (n < 1 || n > 100000) {
		fprintf(stderr, "usage: make_tiny N_OPERATORS FILE.pte\n");
		return 2;
	}
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 192);
	int tensors[3];
	for (unsigned i = 0; i < 3; i++)
		tensors[i] = mk_tensor(
			&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1), .arena = arena, .offset = 64 * i });
	/* The original takes no program without a segment for constants, so what is added is one. */
	static const float addend = 1;
	int other = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1),
					   .constant = mk_constant(&mk, &addend, sizeof addend) });
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
