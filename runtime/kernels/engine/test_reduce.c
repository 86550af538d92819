/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions along rows and columns of every length and type: many reduced at once give what a plain loop over each one
 * gives. */
#include "runtime/kernels/test_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_ROWS = 37, MAX_LENGTH = 66 };

struct rows {
	const char *type;
	bool is_float, are_columns;
	size_t n_rows, n;
	/* columns of a tile if there are several tiles; 0: one tile, or the rows are not columns */
	size_t n_tile_columns;
	double numbers[MAX_ROWS][MAX_LENGTH];
};

/* Small whole numbers, which every type holds and whose sums are exact; many of them are equal, some are NaN. */
static void make_up(struct rows *rows, uint32_t seed)
{
	bool is_truth = strcmp(rows->type, "bool") == 0, is_half = rows->is_float && strstr(rows->type, "16");
	for (size_t r = 0; r < rows->n_rows; r++) {
		for (size_t k = 0; k < rows->n; k++) {
			seed = seed * 1664525 + 1013904223;
			int32_t wide = (int32_t)seed >> 25; /* -64 to 63 */
			double number = is_truth ? wide & 1 : rows->type[0] == 'u' ? wide + 64 : wide;
			number = is_half ? wide / 16 : number; /* so that sums are exact in fp16 and bf16 too */
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

/* The index that amax or amin must find: the first of equal numbers; NaN wins. */
static size_t find(const double *row, size_t n, bool is_least)
{
	size_t best = 0;
	for (size_t k = 1; k < n && !isnan(row[best]); k++) {
		if (isnan(row[k]) || (is_least ? row[k] < row[best] : row[k] > row[best]))
			best = k;
	}
	return best;
}

enum result { MOST, PLACE, SUM, PRODUCT, MEAN, ANY, VARIANCE };

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
		double squares = 0, mean = sum / (double)rows->n;
		for (size_t k = 0; k < rows->n; k++)
			squares += (row[k] - mean) * (row[k] - mean);
		if (result == VARIANCE && rows->n > 1 && !isnan(sum))
			fprintf(to, "%.17g,", squares / (double)(rows->n - 1));
		else if (result == VARIANCE)
			fputs("nan,", to);
		else if (result == MEAN && !isnan(sum))
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

/* A case as text: the arguments and the expected outputs. */
struct written {
	char *args, *expected;
	size_t n_args, n_expected;
	FILE *in, *out;
};

static void begin_case(struct written *written)
{
	written->in = open_memstream(&written->args, &written->n_args);
	written->out = open_memstream(&written->expected, &written->n_expected);
	assert_true(written->in && written->out);
}

static void check_case(struct written *written, const char *kernel)
{
	fclose(written->in);
	fclose(written->out);
	check_kernel_cases(&(const struct kernel_case){ kernel, written->args, written->expected }, 1);
	free(written->args);
	free(written->expected);
}

/* The tensor that holds them. */
static void print_rows(FILE *in, const struct rows *rows)
{
	const size_t n_tile_columns = rows->n_tile_columns ? rows->n_tile_columns : rows->n_rows,
		     n_tiles = rows->n_rows / n_tile_columns;
	fprintf(in, "%s[", rows->type);
	if (!rows->are_columns)
		fprintf(in, "%zu,%zu]{", rows->n_rows, rows->n);
	else if (rows->n_tile_columns)
		fprintf(in, "%zu,%zu,%zu]{", n_tiles, rows->n, n_tile_columns);
	else
		fprintf(in, "%zu,%zu]{", rows->n, n_tile_columns);
	for (size_t r = 0; r < rows->n_rows && !rows->are_columns; r++) {
		for (size_t k = 0; k < rows->n; k++)
			print(in, rows->numbers[r][k]);
	}
	for (size_t i = 0; i < n_tiles * rows->n && rows->are_columns; i++) {
		for (size_t k = 0; k < n_tile_columns; k++)
			print(in, rows->numbers[i / rows->n * n_tile_columns + k][i % rows->n]);
	}
	fputs("} ", in);
}

static void print_type(FILE *out, const char *type, const struct rows *rows)
{
	if (rows->n_tile_columns)
		fprintf(out, "%s[%zu,%zu]{", type, rows->n_rows / rows->n_tile_columns, rows->n_tile_columns);
	else
		fprintf(out, "%s[%zu]{", type, rows->n_rows);
}

static void check(const char *kernel, const struct rows *rows, const char *options, const char *type,
	enum result result, bool is_least, const char *second)
{
	struct written written;
	begin_case(&written);
	FILE *in = written.in, *out = written.out;
	print_rows(in, rows);
	const char *dim = strchr(options, '1');
	for (const char *letter = options; *letter; letter++)
		fputc(letter == dim && rows->are_columns && !rows->n_tile_columns ? '0' : *letter, in);
	print_type(out, type, rows);
	print_results(out, rows, result, is_least);
	fputs("}", out);
	if (second) {
		fputs(" ", out);
		print_type(out, second, rows);
		print_results(out, rows, result == VARIANCE ? MEAN : PLACE, is_least);
		fputs("}", out);
	}
	check_case(&written, kernel);
}

/* Cumulative sums. */
static void check_sums_so_far(const struct rows *rows, const char *type)
{
	struct written written;
	begin_case(&written);
	FILE *in = written.in, *out = written.out;
	size_t n[] = { rows->n_rows, rows->n }, is_vertical = rows->are_columns;
	double sums[MAX_ROWS] = { 0 };
	fprintf(in, "%s[%zu,%zu]{", rows->type, n[is_vertical], n[!is_vertical]);
	fprintf(out, "%s[%zu,%zu]{", type, n[is_vertical], n[!is_vertical]);
	for (size_t i = 0; i < n[is_vertical]; i++) {
		for (size_t k = 0; k < n[!is_vertical]; k++) {
			double number = rows->are_columns ? rows->numbers[k][i] : rows->numbers[i][k];
			double *sum = &sums[rows->are_columns ? k : i];
			print(in, number);
			print(out, *sum += number);
		}
	}
	fprintf(in, "} %d -", rows->are_columns ? 0 : 1);
	fputs("}", out);
	check_case(&written, "aten::cumsum.out");
}

/* Columns too: the same numbers above each other, in one tile or in many tiles of few columns. */
static void rows_of_all_lengths(void **state)
{
	static const char *const types[] = { "f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool" };
	struct rows rows;
	for (size_t i = 0; i < 3 * ET_ARRAY_LEN(types) * MAX_LENGTH; i++) {
		const bool are_tiles = i / MAX_LENGTH >= 2 * ET_ARRAY_LEN(types);
		rows.are_columns = i / MAX_LENGTH >= ET_ARRAY_LEN(types);
		rows.type = types[i / MAX_LENGTH % ET_ARRAY_LEN(types)];
		rows.is_float = strchr(rows.type, 'f') != NULL;
		rows.n = 1 + i % MAX_LENGTH;
		if (rows.n > 9 && (rows.n + 1) % 16 > 3)
			continue; /* lengths around the ends of vectors are enough */
		rows.n_rows = are_tiles ? 36 : rows.n <= 8 ? MAX_ROWS - rows.n % 2 * 33 : 9;
		rows.n_tile_columns = are_tiles ? 2 + i % 3 : 0;
		make_up(&rows, (uint32_t)i);
		const char *sum = rows.is_float ? rows.type : "i64";
		check("aten::amax.out", &rows, "(1) false", rows.type, MOST, false, NULL);
		check("aten::amin.out", &rows, "(1) false", rows.type, MOST, true, NULL);
		check("aten::max.dim_max", &rows, "1 false", rows.type, MOST, false, "i64");
		check("aten::min.dim_min", &rows, "1 false", rows.type, MOST, true, "i64");
		check("aten::argmax.out", &rows, "1 false", "i64", PLACE, false, NULL);
		check("aten::argmin.out", &rows, "1 false", "i64", PLACE, true, NULL);
		check("aten::sum.IntList_out", &rows, "(1) false -", sum, SUM, false, NULL);
		check("aten::sum.IntList_out", &rows, "(1) false 6", "f32", SUM, false, NULL);
		check("aten::mean.out", &rows, "(1) false 6", "f32", MEAN, false, NULL);
		check("aten::mean.out", &rows, "(1) false 7", "f64", MEAN, false, NULL);
		check("aten::any.out", &rows, "1 false", "bool", ANY, false, NULL);
		if (!are_tiles)
			check_sums_so_far(&rows, sum);
		if (!rows.is_float)
			check("aten::prod.int_out", &rows, "1 false -", sum, PRODUCT, false, NULL);
		else
			check("aten::mean.out", &rows, "(1) false -", rows.type, MEAN, false, NULL);
		if (rows.is_float)
			check("aten::var_mean.correction_out", &rows, "(1) 1 false", "f32", VARIANCE, false, "f32");
	}
}

/* Lines longer than what is loaded at once, one behind the other and three side by side. */
static void long_cumulative_sums(void **state)
{
	enum { LONG = 5003 };
	for (size_t n_columns = 1; n_columns <= 3; n_columns += 2) {
		struct written written;
		begin_case(&written);
		FILE *in = written.in, *out = written.out;
		int sums[3] = { 0 };
		fprintf(in, "i16[%d,%zu]{", LONG, n_columns);
		fprintf(out, "i64[%d,%zu]{", LONG, n_columns);
		for (size_t i = 0; i < LONG * n_columns; i++) {
			int number = (int)(i * 7 % 31) - 3;
			fprintf(in, "%d,", number);
			fprintf(out, "%d,", sums[i % n_columns] += number);
		}
		fputs("} 0 -", in);
		fputs("}", out);
		check_case(&written, "aten::cumsum.out");
	}
}

/* Rows of fp16 and bf16 with other rows between them; few columns that are rounded after each step; a type without
 * loops of its own; bool in any order. */
static void rows_with_gaps(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::sum.IntList_out", "bf16[2,3,2]@102{1,2,3,4,5,6,7,8,9,10,11,12} (2) false -",
			"bf16[2,3]{3,7,11,15,19,23}" },
		{ "aten::amax.out", "f16[2,3,2]@102{1,2,3,4,5,6,7,8,9,10,11,12} (2) false", "f16[2,3]{2,4,6,8,10,12}" },
		{ "aten::var.correction_out", "bf16[9,2]{256,256,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1} (0) 1 false",
			"= bf16[2]{7264,7264}" },
		{ "aten::sum.IntList_out", "u16[2,3]{65535,1,2,3,4,5} (1) false 6", "f32[2]{65538,12}" },
		{ "aten::var_mean.correction_out", "f32[2,3,2]{inf,1,1,2,inf,1,1,1,3,4,-inf,1} (0 2) 1 false",
			"f32[3]{nan,1.6666667,nan} f32[3]{inf,2.5,nan}" },
		{ "aten::any.all_out", "f32[1,2,1,2]@0231{0,-0,0,-0}", "bool[]{0}" },
		{ "aten::any.all_out", "f16[5]{0,-0,0,-0,1}", "bool[]{1}" },
		{ "aten::any.all_out", "i8[9]{0,0,0,0,0,0,0,0,-128}", "bool[]{1}" },
		{ "aten::any.all_out", "f64[0]{}", "bool[]{0}" },
		{ "aten::max.unary_out", "f64[1,2,2,2]@0231{1,7,3,4,5,6,2,0}", "f64[]{7}" },
		{ "aten::min.unary_out", "f32[3]{1,nan,-3}", "f32[]{nan}" },
		{ "aten::max.unary_out", "bool[2]{0,1}", "bool[]{1}" },
		{ "aten::min.unary_out", "i64[3]{5,-9,2}", "i64[]{-9}" },
		{ "aten::max.unary_out", "u16[3]{5,65535,2}", "u16[]{65535}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rows_of_all_lengths),
		cmocka_unit_test(long_cumulative_sums), cmocka_unit_test(rows_with_gaps) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
