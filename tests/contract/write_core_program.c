/* SPDX-License-Identifier: BSD-3-Clause */
/* Write the program that test_core_static runs, to the file named by its argument. The program adds the input to a
 * state n times and returns the result. It is made with the tests' writer, which needs a heap; so this is a program
 * of its own. */
#include "tests/support/make_program.h"

int main(int argc, char **argv)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	mk_arena(&mk, 256);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = 1 });
	int h = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = 1, .offset = 64 });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = 1, .offset = 128 });
	int i = mk_int(&mk, 0), zero = mk_int(&mk, 0), one = mk_int(&mk, 1), n = mk_int(&mk, 3);
	int done = mk_bool(&mk, false);
	mk_move(&mk, zero, i);
	mk_kernel(&mk, mk_operator(&mk, "stub::add", ""), MK_ARGS(h, x, h));
	mk_kernel(&mk, mk_operator(&mk, "stub::next", ""), MK_ARGS(i, one, i));
	mk_kernel(&mk, mk_operator(&mk, "stub::is", ""), MK_ARGS(i, n, done));
	mk_jump_false(&mk, done, 1);
	mk_call(&mk, mk_delegate(&mk, "StubBackend", "2", 1, false, NULL, NULL), MK_ARGS(h, y));
	mk_input(&mk, x);
	mk_input(&mk, n);
	mk_output(&mk, y);
	return mk_write(&mk, argc == 2 ? argv[1] : "");
}
