/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions: sum, mean, prod, var, amax, argmax, any … Each is a row for the engine of reduce.h: what it does with a
 * block of numbers, and its arguments. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/engine/reduce_rows.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/kernels/kernels.h"
#include "runtime/base/expand.h"

#include <math.h>

enum { BLOCK = 256, GROUP = 32, FEW = 8 };

static void sum_doubles(struct et_reduce_state *state, const double *numbers, size_t n)
{
	for (size_t k = 0; k < n; k++)
		state->d += numbers[k];
}

static void sum_floats(struct et_reduce_state *state, const float *numbers, size_t n)
{
	state->d += et_ukernels()->sum(n, numbers);
}

/* A mean is summed in float, in order, unless its output is double, because ExecuTorch does so: the last bit decides
 * how a quantized model rounds values halfway between two of its steps. */
static void mean_doubles(struct et_reduce_state *state, const double *numbers, size_t n)
{
	if (state->rounding == ET_FLOAT64) {
		sum_doubles(state, numbers, n);
		return;
	}
	float sum = (float)state->d;
	for (size_t k = 0; k < n; k++)
		sum += (float)numbers[k];
	state->d = (double)sum;
}

static void mean_floats(struct et_reduce_state *state, const float *numbers, size_t n)
{
	if (state->rounding == ET_FLOAT64) {
		sum_floats(state, numbers, n);
		return;
	}
	float sum = (float)state->d;
	for (size_t k = 0; k < n; k++)
		sum += numbers[k];
	state->d = (double)sum;
}

static void begin_one(struct et_reduce_state *state)
{
	state->d = 1;
	state->i = 1;
}

static void sum_ints(struct et_reduce_state *state, const int64_t *numbers, size_t n)
{
	for (size_t k = 0; k < n; k++)
		state->i += numbers[k];
}

static void mean_finish(struct et_reduce_state *state)
{
	state->d = et_round_to(state->d / (double)state->n, state->rounding);
}

ET_EXPANDED void prod_rounded(struct et_reduce_state *state, const double *numbers, size_t n,
	const enum et_scalar_type type)
{
	float product = (float)state->d;
	for (size_t k = 0; k < n; k++) {
		float factor = (float)
			/* the product of an fp16 or bf16 number and a float is rounded the same in float and double */
			numbers[k];
		product = et_round_half((double)factor == numbers[k] ? product * factor
								     : (float)((double)product * numbers[k]),
			type);
	}
	state->d = (double)product;
}

static void prod_doubles(struct et_reduce_state *state, const double *numbers, size_t n)
{
	double product = state->d;
	if (state->rounding != ET_FLOAT64) {
		if (state->rounding == ET_BFLOAT16)
			prod_rounded(state, numbers, n, ET_BFLOAT16);
		else
			prod_rounded(state, numbers, n, ET_FLOAT16);
		return;
	}
	for (size_t k = 0; k < n; k++)
		product *= numbers[k];
	state->d = product;
}

/* Four independent products. */
static void prod_ints(struct et_reduce_state *state, const int64_t *numbers, size_t n)
{
	int64_t product = state->i, others[] = { 1, 1, 1 };
	for (; n >= 4; n -= 4, numbers += 4) {
		product *= numbers[0];
		others[0] *= numbers[1];
		others[1] *= numbers[2];
		others[2] *= numbers[3];
	}
	for (size_t k = 0; k < n; k++)
		product *= numbers[k];
	state->i = product * others[0] * others[1] * others[2];
}

static void any_doubles(struct et_reduce_state *state, const double *numbers, size_t n)
{
	int64_t any = state->d != 0; /* as wide as the numbers, so that both are vectors */
	for (size_t k = 0; k < n; k++)
		any |= numbers[k] != 0;
	state->d = (double)any;
}

static void any_floats(struct et_reduce_state *state, const float *numbers, size_t n)
{
	int32_t any = 0;
	for (size_t k = 0; k < n && !any; k += BLOCK) {
		size_t part = n - k < BLOCK ? n - k : BLOCK;
		for (size_t i = 0; i < part; i++)
			any |= numbers[k + i] != 0;
	}
	state->d = state->d != 0 || any;
}

static void any_ints(struct et_reduce_state *state, const int64_t *numbers, size_t n)
{
	int64_t any = state->i;
	for (size_t k = 0; k < n; k++)
		any |= numbers[k];
	state->i = any != 0;
}

/* The first of the largest (or smallest) numbers; NaN wins. Groups without a better number are skipped by vectors. */
#define CHOOSE(name, member, type, int_type, not_better)                               \
	static void name(struct et_reduce_state *state, const type *numbers, size_t n) \
	{                                                                              \
		type best = state->n ? (type)state->member : numbers[0];               \
		for (size_t k = 0; k < n;) {                                           \
			size_t end = n - k < GROUP ? n : k + GROUP;                    \
			int_type is_here = 0; /* as wide as a number */                \
			for (size_t i = k; i < end; i++)                               \
				is_here |= !(numbers[i] not_better best);              \
			for (; is_here && k < end; k++) {                              \
				if (!(numbers[k] not_better best) && best == best) {   \
					best = numbers[k];                             \
					state->index = state->n + (int64_t)k;          \
				}                                                      \
			}                                                              \
			k = end;                                                       \
		}                                                                      \
		state->member = best;                                                  \
	}
CHOOSE(max_floats, d, float, int32_t, <=)
CHOOSE(min_floats, d, float, int32_t, >=)
CHOOSE(max_doubles, d, double, int64_t, <=)
CHOOSE(min_doubles, d, double, int64_t, >=)
CHOOSE(max_ints, i, int64_t, int64_t, <=)
CHOOSE(min_ints, i, int64_t, int64_t, >=)

/* The same without the index. */
static void max_of_floats(struct et_reduce_state *state, const float *numbers, size_t n)
{
	float most = et_ukernels()->largest(n, numbers);
	bool is_better = state->n == 0 || (!((double)most <= state->d) && state->d == state->d);
	state->d = is_better ? (double)most : state->d;
}

static void min_of_floats(struct et_reduce_state *state, const float *numbers, size_t n)
{
	float most = et_ukernels()->smallest(n, numbers);
	bool is_better = state->n == 0 || (!((double)most >= state->d) && state->d == state->d);
	state->d = is_better ? (double)most : state->d;
}

static void max_of_doubles(struct et_reduce_state *state, const double *numbers, size_t n)
{
	if (n < FEW) {
		max_doubles(state, numbers, n);
		return;
	}
	double most = et_span_ukernels()->largest_double(n, numbers);
	state->d = state->n == 0 || (!(most <= state->d) && state->d == state->d) ? most : state->d;
}

static void min_of_doubles(struct et_reduce_state *state, const double *numbers, size_t n)
{
	if (n < FEW) {
		min_doubles(state, numbers, n);
		return;
	}
	double most = et_span_ukernels()->smallest_double(n, numbers);
	state->d = state->n == 0 || (!(most >= state->d) && state->d == state->d) ? most : state->d;
}

static void max_of_ints(struct et_reduce_state *state, const int64_t *numbers, size_t n)
{
	if (n < FEW) {
		max_ints(state, numbers, n);
		return;
	}
	int64_t most = et_span_ukernels()->largest_long(n, numbers);
	state->i = state->n == 0 || most > state->i ? most : state->i;
}

static void min_of_ints(struct et_reduce_state *state, const int64_t *numbers, size_t n)
{
	if (n < FEW) {
		min_ints(state, numbers, n);
		return;
	}
	int64_t most = et_span_ukernels()->smallest_long(n, numbers);
	state->i = state->n == 0 || most < state->i ? most : state->i;
}

/* The same sums as var_doubles, for all numbers at once; in float, because nothing more remains after rounding to fp16
 * or bf16. */
ET_EXPANDED void var_rounded_as(struct et_reduce_state *state, const float *numbers, size_t n,
	const enum et_scalar_type type)
{
	float mean = (float)state->d2, squares = (float)state->d;
	for (size_t k = 0; k < n; k++)
		mean = et_round_half(mean + et_round_half(numbers[k], type), type);
	mean = et_round_half(mean / (float)n, type);
	for (size_t k = 0; k < n; k++) {
		float difference = et_round_half(et_round_half(numbers[k], type) - mean, type);
		squares = et_round_half(squares + et_round_half(difference * difference, type), type);
	}
	state->d2 = (double)mean;
	state->d = (double)squares;
}

static void var_rounded(struct et_reduce_state *state, const float *numbers, size_t n)
{
	if (state->rounding == ET_BFLOAT16)
		var_rounded_as(state, numbers, n, ET_BFLOAT16);
	else
		var_rounded_as(state, numbers, n, ET_FLOAT16);
}

/* Merge a block's mean and sum of squares into those of the blocks before. */
static void merge_var(struct et_reduce_state *state, double mean, double squares, double added)
{
	double before = (double)state->n, difference = mean - state->d2;
	/* the merged mean is then infinite too, or NaN if they cancel */
	bool is_infinite = isinf(mean) || isinf(state->d2);
	state->d += squares + difference * difference * before * added / (before + added);
	state->d2 += is_infinite ? mean : difference * added / (before + added);
}

/* Leaves the mean in d2, and the sum of squared differences from it in d. */
static void var_doubles(struct et_reduce_state *state, const double *numbers, size_t n)
{
	if (state->rounding != ET_FLOAT64) {
		float block[ET_HALF_TERMS];
		for (size_t k = 0; k < n && k < ET_HALF_TERMS; k++) /* a rounded reduction never has more terms */
			block[k] = (float)numbers[k];
		var_rounded(state, block, n < ET_HALF_TERMS ? n : ET_HALF_TERMS);
		return;
	}
	double mean = 0, squares = 0;
	for (size_t k = 0; k < n; k++)
		mean += numbers[k];
	mean /= (double)n;
	for (size_t k = 0; k < n; k++)
		squares += (numbers[k] - mean) * (numbers[k] - mean);
	merge_var(state, mean, squares, (double)n);
}

static void var_floats(struct et_reduce_state *state, const float *numbers, size_t n)
{
	if (state->rounding != ET_FLOAT64) {
		var_rounded(state, numbers, n);
		return;
	}
	double mean = et_ukernels()->sum(n, numbers) / (double)n;
	merge_var(state, mean, et_ukernels()->squares(n, numbers, mean), (double)n);
}

static void var_finish(struct et_reduce_state *state)
{
	double freedom = (double)state->n - state->correction;
	state->d /= freedom > 0 ? freedom : 0;
	if (state->n == 0)
		state->d2 = NAN;
}

static const struct et_reduce sum = { .step_doubles = sum_doubles,
	.step_ints = sum_ints,
	.rows = et_reduce_sum_rows,
	.step_floats = sum_floats,
	.columns = et_reduce_sum_columns,
	.int_columns = et_reduce_sum_int_columns,
	.casts_first = true };
static const struct et_reduce mean = { .step_doubles = mean_doubles,
	.step_floats = mean_floats,
	.finish = mean_finish,
	.columns = et_reduce_mean_columns,
	.rows = et_reduce_mean_rows,
	.is_mean = true };
static const struct et_reduce prod = { .begin = begin_one,
	.step_doubles = prod_doubles,
	.step_ints = prod_ints,
	.rows = et_reduce_prod_rows,
	.columns = et_reduce_prod_columns,
	.int_columns = et_reduce_prod_int_columns,
	.rounded = et_reduce_prod_rounded,
	.casts_first = true };
static const struct et_reduce any = { .step_doubles = any_doubles,
	.step_ints = any_ints,
	.step_floats = any_floats,
	.rows = et_reduce_any_rows,
	.columns = et_reduce_any_columns,
	.int_columns = et_reduce_any_columns,
	.ends_early = true };
static const struct et_reduce var = { .step_doubles = var_doubles,
	.step_floats = var_floats,
	.finish = var_finish,
	.columns = et_reduce_var_columns,
	.rows = et_reduce_var_rows,
	.rounded = et_reduce_var_rounded,
	.is_var = true };
#define CHOICE(which)                                       \
	{ .step_doubles = which##_doubles,                  \
		.step_ints = which##_ints,                  \
		.step_floats = which##_floats,              \
		.rows = et_reduce_arg##which##_rows,        \
		.columns = et_reduce_##which##_columns,     \
		.int_columns = et_reduce_##which##_columns, \
		.needs_one = true,                          \
		.is_index = true }
#define VALUE(which)                                        \
	{ .step_doubles = which##_of_doubles,               \
		.step_ints = which##_of_ints,               \
		.step_floats = which##_of_floats,           \
		.rows = et_reduce_##which##_rows,           \
		.columns = et_reduce_##which##_columns,     \
		.int_columns = et_reduce_##which##_columns, \
		.needs_one = true }
static const struct et_reduce max = VALUE(max);
static const struct et_reduce min = VALUE(min);
static const struct et_reduce argmax = CHOICE(max);
static const struct et_reduce argmin = CHOICE(min);

/* Index of the first output among the arguments. */
static size_t first_out(const struct et_kernel_ctx *ctx)
{
	size_t n = 0;
	while (ctx->kernel->signature[n] != '>')
		n++;
	return n;
}

/* self > out, or self, dtype > out */
static enum et_status run_all(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *out = args[first_out(ctx)]->tensor;
	return et_reduce(ctx, ctx->kernel->row, args[0]->tensor, et_all_dims(args[0]->tensor), false, 0, out, NULL);
}

/* self > out */
static enum et_status run_any_all(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[1]->tensor;
	et_store_fn store = et_storer(out->type, ET_I64);
	ET_REQUIRE(ctx, et_loader(self->type, ET_I64) && store, "does not take %s", et_scalar_name(self->type));
	ET_TRY(et_resize(ctx, out, NULL, 0));
	store(out->data, 1, &(int64_t){ et_reduce_is_any(ctx->compute, self) }, 1);
	return ET_OK;
}

/* self > out; for an empty tensor, the lowest or highest value of the type. */
static enum et_status run_extreme(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *out = args[1]->tensor;
	const struct et_tensor *self = args[0]->tensor;
	bool is_lowest = ctx->kernel->row == &max;
	if (et_tensor_numel(self))
		return run_all(ctx, args);
	ET_REQUIRE(ctx, et_can_cast(args[0]->tensor->type, out->type) && et_storer(out->type, ET_F64),
		"%s does not fit an output of %s", et_scalar_name(args[0]->tensor->type), et_scalar_name(out->type));
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ 0 }, 0));
	if (et_type_is_float(out->type)) {
		et_element_set_double(out->data, out->type, is_lowest ? -INFINITY : INFINITY);
		return ET_OK;
	}
	/* all bits set, the sign bit alone, or all other bits */
	int64_t ones = et_wrap(-1, out->type), sign = (int64_t)(UINT64_C(1) << (8 * et_scalar_size(out->type) - 1));
	et_element_set_int(out->data, out->type,
		out->type == ET_BOOL ? !is_lowest
		: ones > 0           ? (is_lowest ? 0 : ones)
		: is_lowest          ? sign
				     : sign - 1);
	return ET_OK;
}

/* An empty list of dimensions means each number by itself; no list means all dimensions. */
static enum et_status run_any_dims(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	uint32_t set = 0;
	if (et_is_none(args[1]) || et_list_len(args[1]) > 0)
		ET_TRY(et_get_dims(ctx, args[1], args[0]->tensor->n_dims, &set));
	return et_reduce(ctx, ctx->kernel->row, args[0]->tensor, set, args[2]->b, 0, args[3]->tensor, NULL);
}

/* self, dims, keepdim … > out */
static enum et_status run_dims(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *out = args[first_out(ctx)]->tensor;
	uint32_t set;
	ET_TRY(et_get_dims(ctx, args[1], args[0]->tensor->n_dims, &set));
	if (et_type_is_complex(args[0]->tensor->type) && ctx->kernel->row == &sum)
		return et_complex_sum(ctx, args[0]->tensor, set, args[2]->b, out);
	/* A sum of bool is any(); numbers are converted to bool first. */
	bool is_sum_of_bool = ctx->kernel->row == &sum && out->type == ET_BOOL;
	return et_reduce(ctx, is_sum_of_bool ? &any : ctx->kernel->row, args[0]->tensor, set, args[2]->b, 0, out, NULL);
}

/* self, dim or None, keepdim … > out, and a second output for max and min */
static enum et_status run_dim(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	const size_t first = first_out(ctx);
	uint32_t set = et_all_dims(self);
	if (!et_is_none(args[1])) {
		size_t dim;
		ET_TRY(et_get_dim(ctx, args[1]->i, self->n_dims, &dim));
		set = self->n_dims ? 1u << dim : 0;
	}
	return et_reduce(ctx, ctx->kernel->row, self, set, args[2]->b, 0, args[first]->tensor,
		ctx->kernel->signature[first + 2] ? args[first + 1]->tensor : NULL);
}

/* self, dims, unbiased, keepdim > out */
static enum et_status run_var(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	uint32_t set;
	ET_TRY(et_get_dims(ctx, args[1], args[0]->tensor->n_dims, &set));
	return et_reduce(ctx, &var, args[0]->tensor, set, args[3]->b, args[2]->b ? 1 : 0, args[4]->tensor, NULL);
}

/* self, dims, correction or None, keepdim > out, and the mean for var_mean */
static enum et_status run_var_correction(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	uint32_t set;
	bool has_mean = ctx->kernel->signature[first_out(ctx) + 2] != '\0';
	ET_TRY(et_get_dims(ctx, args[1], args[0]->tensor->n_dims, &set));
	return et_reduce(ctx, &var, args[0]->tensor, set, args[3]->b,
		et_is_none(args[2]) ? 1 : et_number_double(args[2]), args[4]->tensor,
		has_mean ? args[5]->tensor : NULL);
}

static const struct et_kernel rows[] = {
	{ "aten::amax.out", "TVB>T", run_dims, &max },
	{ "aten::amin.out", "TVB>T", run_dims, &min },
	{ "aten::any.all_out", "T>T", run_any_all, NULL },
	{ "aten::any.dims_out", "TvB>T", run_any_dims, &any },
	{ "aten::any.out", "TIB>T", run_dim, &any },
	{ "aten::argmax.out", "TiB>T", run_dim, &argmax },
	{ "aten::argmin.out", "TiB>T", run_dim, &argmin },
	{ "aten::max.dim_max", "TIB>TT", run_dim, &argmax },
	{ "aten::max.unary_out", "T>T", run_extreme, &max },
	{ "aten::mean.dtype_out", "Ti>T", run_all, &mean },
	{ "aten::mean.out", "TvBi>T", run_dims, &mean },
	{ "aten::min.dim_min", "TIB>TT", run_dim, &argmin },
	{ "aten::min.unary_out", "T>T", run_extreme, &min },
	{ "aten::prod.int_out", "TIBi>T", run_dim, &prod },
	{ "aten::prod.out", "Ti>T", run_all, &prod },
	{ "aten::sum.IntList_out", "TvBi>T", run_dims, &sum },
	{ "aten::var.correction_out", "TvsB>T", run_var_correction },
	{ "aten::var.out", "TvBB>T", run_var },
	{ "aten::var_mean.correction_out", "TvsB>TT", run_var_correction },
};

ET_KERNEL_TABLE(reduction);
