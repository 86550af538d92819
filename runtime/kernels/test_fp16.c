/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators of fp16 and bf16 that compute many numbers at once, compared with a plain loop that rounds after each
 * operation, for all sizes. Also pooling of double, and the backward of max pooling, for each type. */
#include "runtime/kernels/engine/dtype.h"
#include "runtime/kernels/test_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct {
	enum et_scalar_type type;
	const char *name;
} half_types[] = { { ET_FLOAT16, "f16" }, { ET_BFLOAT16, "bf16" } };

/* The text of a case, while it is being written. */
struct text {
	FILE *args, *expected;
	char *args_text, *expected_text;
	size_t n_args, n_expected;
};

static void begin(struct text *text)
{
	*text = (struct text){ 0 };
	text->args = open_memstream(&text->args_text, &text->n_args);
	text->expected = open_memstream(&text->expected_text, &text->n_expected);
	assert_true(text->args && text->expected);
	fputs("= ", text->expected);
}

static void run(struct text *text, const char *kernel)
{
	fputs("}", text->expected);
	fclose(text->args);
	fclose(text->expected);
	check_kernel_cases(&(const struct kernel_case){ kernel, text->args_text, text->expected_text }, 1);
	free(text->args_text);
	free(text->expected_text);
}

static float next(uint32_t *seed, enum et_scalar_type type)
{
	*seed = *seed * 1664525 + 1013904223;
	return et_round_half((float)(int32_t)*seed * 0x1p-28f, type); /* -8 to 8 */
}

enum { MAX_LINE = 600, N_LINES = 70 };

/* A reduction of @n numbers; the result is not yet rounded to the type. */
typedef double (*reduce_fn)(const float *line, size_t n, enum et_scalar_type type);

static double variance(const float *line, size_t n, enum et_scalar_type type)
{
	float mean = 0, squares = 0;
	for (size_t k = 0; k < n; k++)
		mean = et_round_half(mean + line[k], type);
	mean = et_round_half(mean / (float)n, type);
	for (size_t k = 0; k < n; k++) {
		float difference = et_round_half(line[k] - mean, type);
		squares = et_round_half(squares + et_round_half(difference * difference, type), type);
	}
	return (double)squares / (double)(n - 1);
}

static double average(const float *line, size_t n, enum et_scalar_type type)
{
	float sum = 0;
	for (size_t k = 0; k < n; k++)
		sum += line[k];
	(void)type; /* rounds only at the end */
	return (double)(sum / (float)n);
}

static double product(const float *line, size_t n, enum et_scalar_type type)
{
	float now = 1;
	for (size_t k = 0; k < n; k++)
		now = et_round_half(now * line[k], type);
	return (double)now;
}

/* Lines side by side or, if @is_vertical, above each other. */
static void check_reduce(const char *kernel, const char *options, reduce_fn reduce, size_t which, size_t n,
	bool is_vertical)
{
	static float lines[N_LINES][MAX_LINE];
	enum et_scalar_type type = half_types[which].type;
	struct text text;
	uint32_t seed = (uint32_t)n;
	size_t sizes[] = { N_LINES, n };
	begin(&text);
	for (size_t i = 0; i < N_LINES; i++) {
		for (size_t k = 0; k < n; k++)
			lines[i][k] = reduce == product ? et_round_half(1 + next(&seed, type) / 16, type)
							: next(&seed, type);
	}
	fprintf(text.args, "%s[%zu,%zu]{", half_types[which].name, sizes[is_vertical], sizes[!is_vertical]);
	for (size_t i = 0; i < N_LINES * n; i++)
		fprintf(text.args, "%.9g,",
			(double)(is_vertical ? lines[i % N_LINES][i / N_LINES] : lines[i / n][i % n]));
	fprintf(text.args, reduce == product ? "} %d %s" : "} (%d) %s", is_vertical ? 0 : 1, options);
	fprintf(text.expected, "%s[%d]{", half_types[which].name, N_LINES);
	for (size_t i = 0; i < N_LINES; i++)
		fprintf(text.expected, "%.17g,", reduce(lines[i], n, type));
	run(&text, kernel);
}

static void reductions(void **state)
{
	static const size_t lengths[] = { 2, 3, 7, 8, 16, 63, 65, 255, 256, 600 };
	for (size_t i = 0; i < 4 * ET_ARRAY_LEN(lengths); i++) {
		size_t n = lengths[i / 4];
		if (n <= ET_HALF_TERMS) { /* longer sums are not rounded each time */
			check_reduce("aten::var.correction_out", "1 false", variance, i % 2, n, i / 2 % 2);
			check_reduce("aten::prod.int_out", "false -", product, i % 2, n, i / 2 % 2);
		}
		check_reduce("aten::mean.out", "false -", average, i % 2, n, i / 2 % 2);
	}
}

/* The exponentials of all but the largest are negligible, so the sum is the number of largest ones. */
static void log_softmax(void **state)
{
	static const size_t lengths[] = { 1, 2, 9, 127, 128, 129, 256, 257, 600 };
	for (size_t i = 0; i < 2 * ET_ARRAY_LEN(lengths); i++) {
		enum et_scalar_type type = half_types[i % 2].type;
		const size_t n = lengths[i / 2];
		struct text text;
		begin(&text);
		fprintf(text.args, "%s[%d,%zu]{", half_types[i % 2].name, N_LINES, n);
		fprintf(text.expected, "%s[%d,%zu]{", half_types[i % 2].name, N_LINES, n);
		for (size_t line = 0; line < N_LINES; line++) {
			const size_t step = line + 1;
			const float count = et_round_half((float)((n - 1) / step + 1), type),
				    rest = (float)et_round_to(log((double)count), type);
			for (size_t k = 0; k < n; k++) {
				const float x = k % step ? -61 : 3;
				fprintf(text.args, "%g,", (double)x);
				fprintf(text.expected, "%.9g,", (double)(x - 3 - rest));
			}
		}
		fputs("} 1 false", text.args);
		run(&text, "aten::_log_softmax.out");
	}
}

/* One of @out pixels that were @step apart: the first input pixel, and a weight for each, whose sum is 1. */
static int weigh(int i, int step, int out, float *weights, int *ret_first)
{
	int first = i * step - step / 2, end = first + 2 * step, n = 0;
	float total = 0;
	first = first < 0 ? 0 : first;
	end = end < out * step ? end : out * step;
	for (int k = first; k < end; k++, n++) {
		const float center = (float)(i * step) + 0.5f * (float)step, at = (float)k + 0.5f;
		weights[n] = 1 - fabsf(at - center) / (float)step;
		total += weights[n];
	}
	for (int k = 0; k < n; k++)
		weights[k] /= total;
	*ret_first = first;
	return n;
}

/* Steps are powers of two, so that weights are the same however they are computed. */
static void antialiased(void **state)
{
	enum { HEIGHT = 2, WIDTH = 67, MOST = 4 };
	static float pixels[HEIGHT * MOST][WIDTH * MOST];
	for (size_t i = 0; i < 4; i++) {
		enum et_scalar_type type = half_types[i % 2].type;
		const int step = i < 2 ? 2 : MOST;
		uint32_t seed = 7;
		struct text text;
		begin(&text);
		fprintf(text.args, "%s[1,1,%d,%d]{", half_types[i % 2].name, HEIGHT * step, WIDTH * step);
		for (int k = 0; k < HEIGHT * step * WIDTH * step; k++) {
			float pixel = next(&seed, type);
			pixels[k / (WIDTH * step)][k % (WIDTH * step)] = pixel;
			fprintf(text.args, "%.9g,", (double)pixel);
		}
		fprintf(text.args, "} (%d,%d) false - -", HEIGHT, WIDTH);
		fprintf(text.expected, "%s[1,1,%d,%d]{", half_types[i % 2].name, HEIGHT, WIDTH);
		for (int k = 0; k < HEIGHT * WIDTH; k++) {
			float rows[2 * MOST], columns[2 * MOST], sum = 0;
			int top, left, n_rows = weigh(k / WIDTH, step, HEIGHT, rows, &top),
				       n_columns = weigh(k % WIDTH, step, WIDTH, columns, &left);
			for (int j = 0; j < n_rows * n_columns; j++) {
				float more = pixels[top + j / n_columns][left + j % n_columns] * rows[j / n_columns] *
					     columns[j % n_columns];
				sum = et_round_half(sum + et_round_half(more, type), type);
			}
			fprintf(text.expected, "%.9g,", (double)sum);
		}
		run(&text, "aten::_upsample_bilinear2d_aa.out");
	}
}

/* Whole numbers, whose sums are exact. */
static void pools_of_doubles(void **state)
{
	enum { HEIGHT = 7, WIDTH = 11 };
	for (int side = 1; side <= 5; side++) {
		const int pad = side / 2, out_height = HEIGHT + 2 * pad - side + 1,
			  out_width = WIDTH + 2 * pad - side + 1;
		double pixels[HEIGHT][WIDTH];
		uint32_t seed = (uint32_t)side;
		struct text text;
		begin(&text);
		fprintf(text.args, "f64[1,1,%d,%d]{", HEIGHT, WIDTH);
		for (int k = 0; k < HEIGHT * WIDTH; k++) {
			pixels[k / WIDTH][k % WIDTH] = floor((double)next(&seed, ET_FLOAT16) * 100);
			fprintf(text.args, "%.17g,", pixels[k / WIDTH][k % WIDTH]);
		}
		fprintf(text.args, "} (%d,%d) (1,1) (%d,%d) false false -", side, side, pad, pad);
		fprintf(text.expected, "f64[1,1,%d,%d]{", out_height, out_width);
		for (int k = 0; k < out_height * out_width; k++) {
			double sum = 0, n = 0;
			for (int j = 0; j < side * side; j++) {
				int h = k / out_width - pad + j / side, w = k % out_width - pad + j % side;
				bool is_inside = h >= 0 && h < HEIGHT && w >= 0 && w < WIDTH;
				sum += is_inside ? pixels[h][w] : 0;
				n += is_inside;
			}
			fprintf(text.expected, "%.17g,", sum / n);
		}
		run(&text, "aten::avg_pool2d.out");
	}
}

/* Two planes; two gradients go to one element. */
static void max_pool_backward(void **state)
{
	static const char *const types[] = { "f32", "f64", "f16", "bf16" };
	for (size_t i = 0; i < ET_ARRAY_LEN(types); i++) {
		struct text text;
		begin(&text);
		fprintf(text.args,
			"%s[2,1,3]{1.5,2,-4,0.25,8,16} %s[2,2,2]{0,0,0,0,0,0,0,0} (2,2) () () () false "
			"i64[2,1,3]{1,1,3,0,2,0}",
			types[i], types[i]);
		/* the window's sizes, which do not fit three columns of gradients, are not checked */
		fprintf(text.expected, "%s[2,2,2]{0,3.5,0,-4,16.25,0,8,0", types[i]);
		run(&text, "aten::max_pool2d_with_indices_backward.grad_input");
	}
}

/* Two input channels and one output channel in one dimension: each product and each sum is rounded, in ExecuTorch's
 * order. */
struct convolution {
	int n, taps, stride, padding, dilation;
	bool is_transposed;
};

static float convolved(const struct convolution *c, const float *x, const float *weight, int at,
	enum et_scalar_type type)
{
	const float bias = 0.5f;
	float sum = c->is_transposed ? bias : 0;
	/* channel by channel; transposed: the last tap first */
	for (int i = 0; i < 2 * c->taps; i++) {
		int channel = c->is_transposed ? i % 2 : i / c->taps,
		    tap = c->is_transposed ? c->taps - 1 - i / 2 : i % c->taps;
		int pixel = c->is_transposed ? at + c->padding - tap * c->dilation
					     : at * c->stride - c->padding + tap * c->dilation;
		if (c->is_transposed && pixel % c->stride != 0)
			continue;
		pixel /= c->is_transposed ? c->stride : 1;
		if (pixel < 0 || pixel >= c->n)
			continue;
		sum = et_round_half(sum + et_round_half(x[channel * c->n + pixel] * weight[channel * c->taps + tap],
						  type),
			type);
	}
	return c->is_transposed ? sum : sum + bias;
}

static void convolutions(void **state)
{
	static const struct convolution cases[] = { { 300, 3, 1, 1, 1, false }, { 300, 3, 1, 1, 1, true },
		{ 7, 4, 2, 3, 2, false }, { 7, 4, 2, 3, 2, true }, { 200, 5, 3, 0, 1, true },
		{ 900, 2, 3, 1, 4, false }, { 3, 3, 2, 2, 1, true }, { 2, 5, 1, 4, 1, false } };
	for (size_t h = 0; h < ET_ARRAY_LEN(half_types); h++) {
		for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
			const struct convolution *c = &cases[i];
			float x[2 * 900], weight[2 * 5];
			uint32_t seed = (uint32_t)i;
			struct text text;
			begin(&text);
			fprintf(text.args, "%s[1,2,%d]{", half_types[h].name, c->n);
			for (int k = 0; k < 2 * c->n; k++)
				fprintf(text.args, "%.9g,", (double)(x[k] = next(&seed, half_types[h].type)));
			fprintf(text.args, "} %s[%d,%d,%d]{", half_types[h].name, c->is_transposed ? 2 : 1,
				c->is_transposed ? 1 : 2, c->taps);
			for (int k = 0; k < 2 * c->taps; k++)
				fprintf(text.args, "%.9g,", (double)(weight[k] = next(&seed, half_types[h].type)));
			fprintf(text.args, "} %s[1]{0.5} (%d) (%d) (%d) %s (0) 1", half_types[h].name, c->stride,
				c->padding, c->dilation, c->is_transposed ? "true" : "false");
			int reach = (c->taps - 1) * c->dilation,
			    n = c->is_transposed ? (c->n - 1) * c->stride - 2 * c->padding + reach + 1
						 : (c->n + 2 * c->padding - reach - 1) / c->stride + 1;
			fprintf(text.expected, "%s[1,1,%d]{", half_types[h].name, n);
			for (int k = 0; k < n; k++)
				fprintf(text.expected, "%.9g,",
					(double)et_round_half(convolved(c, x, weight, k, half_types[h].type),
						half_types[h].type));
			run(&text, "aten::convolution.out");
		}
	}
}

/* Products of whole numbers. @transposed: by a layer's weight, [columns, terms]; otherwise a batch of products. */
static void check_products(size_t which, size_t n_rows, size_t n_k, size_t n_columns, bool transposed)
{
	const char *name = half_types[which].name;
	const size_t n_batch = transposed ? 1 : 5;
	struct text text;
	begin(&text);
	fprintf(text.args, "%s[%zu,%zu,%zu]{", name, n_batch, n_rows, n_k);
	for (size_t i = 0; i < n_batch * n_rows * n_k; i++)
		fprintf(text.args, "%zu,", i * 7 % 23);
	if (transposed)
		fprintf(text.args, "} %s[%zu,%zu]{", name, n_columns, n_k);
	else
		fprintf(text.args, "} %s[%zu,%zu,%zu]{", name, n_batch, n_k, n_columns);
	for (size_t i = 0; i < n_batch * n_k * n_columns; i++)
		fprintf(text.args, "%zu,", i * 5 % 19);
	fprintf(text.args, transposed ? "} -" : "}");
	fprintf(text.expected, "%s[%zu,%zu,%zu]{", name, n_batch, n_rows, n_columns);
	for (size_t at = 0; at < n_batch * n_rows * n_columns; at++) {
		const size_t row = at / n_columns, column = at % n_columns;
		size_t sum = 0;
		for (size_t k = 0; k < n_k; k++) {
			size_t of = (row / n_rows * n_k + k) * n_columns + column;
			of = transposed ? column * n_k + k : of;
			sum += (row * n_k + k) * 7 % 23 * (of * 5 % 19);
		}
		fprintf(text.expected, "%zu,", sum);
	}
	run(&text, transposed ? "aten::linear.out" : "aten::bmm.out");
}

static void products(void **state)
{
	static const size_t sizes[][3] = { { 1, 3, 1 }, { 2, 3, 4 }, { 4, 4, 4 }, { 1, 8, 8 }, { 8, 1, 8 }, { 8, 8, 8 },
		{ 8, 10, 1 }, { 9, 8, 7 } };
	for (size_t i = 0; i < 4 * ET_ARRAY_LEN(sizes); i++) {
		const size_t *of = sizes[i / 4];
		check_products(i % 2, of[0], of[1], of[2], i / 2 % 2);
	}
}

/* The batch's own statistics, whose sums are rounded after each plane. */
static void check_statistics(size_t which, size_t n_batch, size_t n, size_t inner)
{
	const char *name = half_types[which].name;
	const enum et_scalar_type type = half_types[which].type;
	const size_t numel = n_batch * n * inner;
	const double eps = 0.25;
	float *x = malloc(numel * sizeof(*x)), means[4], invstds[4];
	uint32_t seed = (uint32_t)numel;
	struct text text;
	assert_true(x && n <= ET_ARRAY_LEN(means));
	begin(&text);
	fprintf(text.args, "%s[%zu,%zu,%zu]{", name, n_batch, n, inner);
	for (size_t i = 0; i < numel; i++) {
		x[i] = next(&seed, type);
		fprintf(text.args, "%.9g,", (double)x[i]);
	}
	fprintf(text.args, "} - - true 0.1 %g", eps);
	for (size_t c = 0; c < n; c++) {
		const double count = et_round_to((double)(n_batch * inner), type);
		double sum = 0, squares = 0;
		for (size_t b = 0; b < n_batch; b++) {
			double plane = 0, plane_squares = 0;
			for (size_t i = 0; i < inner; i++) {
				const double number = (double)x[(b * n + c) * inner + i];
				plane += number;
				plane_squares += number * number;
			}
			sum = et_round_to(sum + et_round_to(plane, type), type);
			squares = et_round_to(squares + et_round_to(plane_squares, type), type);
		}
		const double mean = et_round_to(sum / count, type),
			     var = et_round_to(et_round_to(squares / count, type) - et_round_to(mean * mean, type),
				     type);
		means[c] = (float)mean;
		invstds[c] = (float)et_round_to(1 / sqrt(var + eps), type);
	}
	fprintf(text.expected, "%s[%zu,%zu,%zu]{", name, n_batch, n, inner);
	for (size_t i = 0; i < numel; i++) {
		const size_t c = i / inner % n;
		const float difference = et_round_half(x[i] - means[c], type);
		fprintf(text.expected, "%.9g,", (double)et_round_half(difference * invstds[c], type));
	}
	for (size_t k = 0; k < 2; k++) {
		fprintf(text.expected, "} %s[%zu]{", name, n);
		for (size_t c = 0; c < n; c++)
			fprintf(text.expected, "%.9g,", (double)(k ? invstds : means)[c]);
	}
	free(x);
	run(&text, "aten::_native_batch_norm_legit.no_stats_out");
}

static void statistics(void **state)
{
	static const size_t sizes[][3] = { { 4, 2, 1 }, { 300, 3, 1 }, { 257, 2, 2 }, { 3, 4, 9 }, { 17, 2, 16 },
		{ 9, 2, 63 }, { 5, 2, 64 }, { 5, 2, 65 }, { 1, 3, 300 } };
	for (size_t i = 0; i < 2 * ET_ARRAY_LEN(sizes); i++)
		check_statistics(i % 2, sizes[i / 2][0], sizes[i / 2][1], sizes[i / 2][2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reductions),
		cmocka_unit_test(log_softmax),
		cmocka_unit_test(antialiased),
		cmocka_unit_test(pools_of_doubles),
		cmocka_unit_test(max_pool_backward),
		cmocka_unit_test(convolutions),
		cmocka_unit_test(products),
		cmocka_unit_test(statistics),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
