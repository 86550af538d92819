/* Reductions along rows of every length and type: folded many rows at a time, they give what a plain loop over each row
 * does. */
#include "runtime/kernels/test_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MAX_ROWS = 37, MAX_LENGTH = 66 };

struct rows {
	const char *type;
	bool is_float, are_columns;
	size_t n_rows, n;
	double numbers[MAX_ROWS][MAX_LENGTH];
};

/* Small whole numbers, which every type holds and every sum is exact of; many of them equal, some NaN. */
static void make_up(struct rows *rows, uint32_t seed)
{
	bool is_truth = rows->type[0] == 'b';
	for (size_t r = 0; r < rows->n_rows; r++) {
		for (size_t k = 0; k < rows->n; k++) {
			seed = seed * 1664525 + 1013904223;
			int32_t wide = (int32_t)seed >> 25; /* -64 to 63 */
			double number = is_truth ? wide & 1 : rows->type[0] == 'u' ? wide + 64 : wide;
			rows->numbers[r][k] = rows->is_float && seed >> 24 == 7 ? (double)NAN : number;
		}
	}
}

static void print(FILE *to, double number)
{
	if (isnan(number))
		fputs("nan,", to);
	else
		fprintf(to, "%d,", (int)number);
}

/* The place of what amax or amin wants: the first of equals, NaN before all. */
static size_t find(const double *row, size_t n, bool is_least)
{
	size_t best = 0;
	for (size_t k = 1; k < n && !isnan(row[best]); k++) {
		if (isnan(row[k]) || (is_least ? row[k] < row[best] : row[k] > row[best]))
			best = k;
	}
	return best;
}

enum result { MOST, PLACE, SUM, PRODUCT, MEAN, ANY };

static void print_results(FILE *to, const struct rows *rows, enum result result, bool is_least)
{
	for (size_t r = 0; r < rows->n_rows; r++) {
		const double *row = rows->numbers[r];
		double sum = 0;
		uint64_t product = 1;
		bool any = false;
		for (size_t k = 0; k < rows->n; k++) {
			sum += row[k];
			product *= rows->is_float ? 0 : (uint64_t)(int64_t)row[k];
			any |= row[k] != 0;
		}
		size_t place = find(row, rows->n, is_least);
		if (result == MEAN && !isnan(sum))
			fprintf(to, "%.17g,", (double)(float)(sum / (double)rows->n));
		else if (result == PRODUCT)
			fprintf(to, "%lld,", (long long)product);
		else
			print(to, result == MOST    ? row[place]
				  : result == PLACE ? (double)place
				  : result == ANY   ? any
						    : sum);
	}
}

static void check(const char *kernel, const struct rows *rows, const char *options, const char *type,
	enum result result, bool is_least, bool has_places)
{
	char *args = NULL, *expected = NULL;
	size_t n_args, n_expected;
	FILE *in = open_memstream(&args, &n_args), *out = open_memstream(&expected, &n_expected);
	assert_true(in && out);
	size_t n[] = { rows->n_rows, rows->n }, high = rows->are_columns;
	fprintf(in, "%s[%zu,%zu]{", rows->type, n[high], n[!high]);
	for (size_t i = 0; i < n[high]; i++) {
		for (size_t k = 0; k < n[!high]; k++)
			print(in, rows->are_columns ? rows->numbers[k][i] : rows->numbers[i][k]);
	}
	fputs("} ", in);
	for (const char *letter = options; *letter; letter++)
		fputc(*letter == '1' && rows->are_columns ? '0' : *letter, in);
	fprintf(out, "%s[%zu]{", type, rows->n_rows);
	print_results(out, rows, result, is_least);
	fputs("}", out);
	if (has_places) {
		fprintf(out, " i64[%zu]{", rows->n_rows);
		print_results(out, rows, PLACE, is_least);
		fputs("}", out);
	}
	fclose(in);
	fclose(out);
	check_kernel_cases(&(const struct kernel_case){ kernel, args, expected }, 1);
	free(args);
	free(expected);
}

/* And columns: the same numbers above each other. */
static void rows_of_all_lengths(void **state)
{
	static const char *const types[] = { "f32", "f64", "i64", "i32", "i16", "i8", "u8", "bool" };
	struct rows rows;
	for (size_t i = 0; i < 2 * ET_ARRAY_LEN(types) * MAX_LENGTH; i++) {
		rows.are_columns = i / MAX_LENGTH >= ET_ARRAY_LEN(types);
		rows.type = types[i / MAX_LENGTH % ET_ARRAY_LEN(types)];
		rows.is_float = rows.type[0] == 'f';
		rows.n = 1 + i % MAX_LENGTH;
		if (rows.n > 9 && (rows.n + 1) % 16 > 3)
			continue; /* those around the ends of vectors will do */
		rows.n_rows = rows.n <= 8 ? MAX_ROWS : 9;
		make_up(&rows, (uint32_t)i);
		const char *sum = rows.is_float ? rows.type : "i64";
		check("aten::amax.out", &rows, "(1) false", rows.type, MOST, false, false);
		check("aten::amin.out", &rows, "(1) false", rows.type, MOST, true, false);
		check("aten::max.dim_max", &rows, "1 false", rows.type, MOST, false, true);
		check("aten::min.dim_min", &rows, "1 false", rows.type, MOST, true, true);
		check("aten::argmax.out", &rows, "1 false", "i64", PLACE, false, false);
		check("aten::argmin.out", &rows, "1 false", "i64", PLACE, true, false);
		check("aten::sum.IntList_out", &rows, "(1) false -", sum, SUM, false, false);
		check("aten::any.out", &rows, "1 false", "bool", ANY, false, false);
		if (!rows.is_float)
			check("aten::prod.int_out", &rows, "1 false -", sum, PRODUCT, false, false);
		else
			check("aten::mean.out", &rows, "(1) false -", rows.type, MEAN, false, false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rows_of_all_lengths) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
