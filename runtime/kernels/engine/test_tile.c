/* SPDX-License-Identifier: BSD-3-Clause */
/* Operands that are broadcast over each other, in blocks of many short runs: compared with a plain loop. */
#include "runtime/kernels/test_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { DIMS = 3 };

struct shape {
	size_t sizes[DIMS];
};

static size_t index_in(const struct shape *shape, const size_t *at)
{
	size_t index = 0;
	for (size_t d = 0; d < DIMS; d++)
		index = index * shape->sizes[d] + (shape->sizes[d] == 1 ? 0 : at[d]);
	return index;
}

/* Numbers that every type holds, even three times the largest of them; half of the bools are true. */
static int number(size_t index, size_t seed, bool is_truth)
{
	int value = (int)((index * 2654435761u + seed * 40503u) >> 7 & 15);
	return is_truth ? value & 1 : value;
}

static void print_tensor(FILE *to, const char *type, const struct shape *shape, size_t seed)
{
	size_t numel = shape->sizes[0] * shape->sizes[1] * shape->sizes[2];
	fprintf(to, "%s[%zu,%zu,%zu]{", type, shape->sizes[0], shape->sizes[1], shape->sizes[2]);
	for (size_t i = 0; i < numel; i++)
		fprintf(to, "%d,", number(i, seed, type[0] == 'b'));
	fputs("} ", to);
}

/* a + 2 b, which also has a number among its operands; for bool: a != b. */
static void check(const char *type, const struct shape *a, const struct shape *b)
{
	char *args = NULL, *expected = NULL;
	size_t n_args, n_expected, at[DIMS], sizes[DIMS];
	const bool is_truth = type[0] == 'b';
	FILE *in = open_memstream(&args, &n_args), *out = open_memstream(&expected, &n_expected);
	assert_true(in && out);
	for (size_t d = 0; d < DIMS; d++)
		sizes[d] = a->sizes[d] == 1 ? b->sizes[d] : a->sizes[d];
	print_tensor(in, type, a, 1);
	print_tensor(in, type, b, 2);
	fputs(is_truth ? "" : "2", in);
	fprintf(out, "%s[%zu,%zu,%zu]{", type, sizes[0], sizes[1], sizes[2]);
	for (at[0] = 0; at[0] < sizes[0]; at[0]++) {
		for (at[1] = 0; at[1] < sizes[1]; at[1]++) {
			for (at[2] = 0; at[2] < sizes[2]; at[2]++) {
				int x = number(index_in(a, at), 1, is_truth), y = number(index_in(b, at), 2, is_truth);
				fprintf(out, "%d,", is_truth ? x ^ y : x + 2 * y);
			}
		}
	}
	fputs("}", out);
	fclose(in);
	fclose(out);
	check_kernel_cases(&(const struct kernel_case){ is_truth ? "aten::bitwise_xor.Tensor_out" : "aten::add.out",
				   args, expected },
		1);
	free(args);
	free(expected);
}

static void broadcasts_of_all_kinds(void **state)
{
	static const char *const types[] = { "f32", "f64", "f16", "i64", "i32", "i16", "i8", "u8", "bool" };
	static const struct shape pairs[][2] = {
		{ { { 3, 40, 28 } }, { { 3, 1, 28 } } },  /* repeated rows */
		{ { { 3, 40, 28 } }, { { 3, 40, 1 } } },  /* one number for each row */
		{ { { 3, 40, 28 } }, { { 1, 40, 28 } } }, /* a repeated plane */
		{ { { 30, 1, 7 } }, { { 1, 50, 7 } } },   /* each row with each */
		{ { { 30, 11, 1 } }, { { 30, 1, 9 } } }, { { { 1, 70, 1 } }, { { 2, 1, 65 } } },
		{ { { 2, 3, 200 } }, { { 2, 3, 1 } } }, /* longer runs, shorter than a block */
		{ { { 2, 2, 1100 } }, { { 2, 2, 1 } } }, { { { 2, 2, 1 } }, { { 1, 2, 600 } } },
		{ { { 200, 3, 3 } }, { { 200, 3, 1 } } }, /* too few for a tile */
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(types); i++) {
		for (size_t k = 0; k < ET_ARRAY_LEN(pairs); k++) {
			check(types[i], &pairs[k][0], &pairs[k][1]);
			check(types[i], &pairs[k][1], &pairs[k][0]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(broadcasts_of_all_kinds) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
