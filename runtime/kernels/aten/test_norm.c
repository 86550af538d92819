/* SPDX-License-Identifier: BSD-3-Clause */
/* Batch norm by the batch's own statistics, for planes of every kind: short ones, which are gathered (all of a channel,
 * or as many as there is room for), and long ones. */
#include "runtime/kernels/test_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const double eps = 0.25;

/* Quarters from -2 to 5.75, which fp16 and bf16 hold too. */
static double number_at(size_t i)
{
	return (double)(i * 7 % 32) / 4 - 2;
}

/* The reference: a plain loop over one channel; element i of plane b of channel c is number (b * n + c) * inner + i. */
static void find_moments(size_t batch, size_t n, size_t inner, size_t c, double *ret_mean, double *ret_invstd)
{
	double sum = 0, squares = 0, count = (double)(batch * inner);
	for (size_t i = 0; i < batch * inner; i++)
		sum += number_at((i / inner * n + c) * inner + i % inner);
	for (size_t i = 0; i < batch * inner; i++) {
		double apart = number_at((i / inner * n + c) * inner + i % inner) - sum / count;
		squares += apart * apart;
	}
	*ret_mean = sum / count;
	*ret_invstd = 1 / sqrt(squares / count + eps);
}

static void check(const char *type, size_t batch, size_t n, size_t inner)
{
	char *args, *expected;
	size_t n_args, n_expected;
	FILE *in = open_memstream(&args, &n_args), *out = open_memstream(&expected, &n_expected);
	double means[8], invstds[8];
	assert_true(in && out && n <= ET_ARRAY_LEN(means));
	for (size_t c = 0; c < n; c++)
		find_moments(batch, n, inner, c, &means[c], &invstds[c]);
	fprintf(in, "%s[%zu,%zu,%zu]{", type, batch, n, inner);
	fprintf(out, "%s[%zu,%zu,%zu]{", type, batch, n, inner);
	for (size_t i = 0; i < batch * n * inner; i++) {
		size_t c = i / inner % n;
		fprintf(in, "%g,", number_at(i));
		fprintf(out, "%.17g,", (number_at(i) - means[c]) * invstds[c]);
	}
	fprintf(in, "} - - true 0.1 %g", eps);
	fprintf(out, "} %s[%zu]{", type, n);
	for (size_t c = 0; c < n; c++)
		fprintf(out, "%.17g,", means[c]);
	fprintf(out, "} %s[%zu]{", type, n);
	for (size_t c = 0; c < n; c++)
		fprintf(out, "%.17g,", invstds[c]);
	fputs("}", out);
	fclose(in);
	fclose(out);
	check_kernel_cases(&(const struct kernel_case){ "aten::_native_batch_norm_legit.no_stats_out", args, expected },
		1);
	free(args);
	free(expected);
}

static void planes_of_every_kind(void **state)
{
	static const struct {
		size_t batch, n, inner;
	} cases[] = { { 4, 8, 1 }, { 1100, 2, 1 }, { 3, 5, 9 }, { 1, 3, 64 }, { 16, 1, 64 }, { 17, 2, 64 },
		{ 70, 3, 16 }, { 25, 2, 41 }, { 1, 2, 300 }, { 3, 2, 65 }, { 2, 2, 257 } };
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		check("f32", cases[i].batch, cases[i].n, cases[i].inner);
		check("f64", cases[i].batch, cases[i].n, cases[i].inner);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(planes_of_every_kind) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
