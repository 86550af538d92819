/* SPDX-License-Identifier: BSD-3-Clause */
/* executorch_prim::, and the few aten:: operators that work on numbers instead of tensors: exporters emit them for
 * sizes and loop counters.
 *
 * A number is Int, Double or Bool; two of them compute as integers unless one is a Double. et_view is the only operator
 * that moves no bytes: its output becomes another header for its input's memory. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/kernels.h"

#include <math.h>

static void set_int(struct et_evalue *out, int64_t value)
{
	out->tag = ET_TAG_INT;
	out->i = value;
}

static void set_double(struct et_evalue *out, double value)
{
	out->tag = ET_TAG_DOUBLE;
	out->d = value;
}

static void set_bool(struct et_evalue *out, bool value)
{
	out->tag = ET_TAG_BOOL;
	out->b = value;
}

struct number_op {
	int64_t (*of_ints)(int64_t a, int64_t b);
	double (*of_doubles)(double a, double b);
	bool is_truth;
};

#define NUMBER_OP(name, expression)                   \
	static int64_t name##_i(int64_t a, int64_t b) \
	{                                             \
		return expression;                    \
	}                                             \
	static double name##_d(double a, double b)    \
	{                                             \
		return expression;                    \
	}
NUMBER_OP(add, a + b)
NUMBER_OP(sub, a - b)
NUMBER_OP(mul, a *b)
NUMBER_OP(max, a > b ? a : b)
NUMBER_OP(min, a < b ? a : b)
NUMBER_OP(eq, a == b)
NUMBER_OP(ge, a >= b)
NUMBER_OP(gt, a > b)
NUMBER_OP(le, a <= b)
NUMBER_OP(lt, a < b)
#define VALUE(name) (&(const struct number_op){ name##_i, name##_d, false })
#define TRUTH(name) (&(const struct number_op){ name##_i, name##_d, true })

static enum et_status run_number(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct number_op *op = ctx->kernel->row;
	bool is_double = args[0]->tag == ET_TAG_DOUBLE || args[1]->tag == ET_TAG_DOUBLE;
	double d = 0;
	int64_t i = 0;
	if (is_double)
		d = op->of_doubles(et_number_double(args[0]), et_number_double(args[1]));
	else
		i = op->of_ints(et_number_int(args[0]), et_number_int(args[1]));
	if (op->is_truth)
		set_bool(args[2], is_double ? d != 0 : i != 0);
	else if (is_double)
		set_double(args[2], d);
	else
		set_int(args[2], i);
	return ET_OK;
}

static enum et_status run_truediv(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	set_double(args[2], et_number_double(args[0]) / et_number_double(args[1]));
	return ET_OK;
}

static enum et_status run_floordiv(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	if (args[0]->tag == ET_TAG_DOUBLE || args[1]->tag == ET_TAG_DOUBLE) {
		set_double(args[2], floor(et_number_double(args[0]) / et_number_double(args[1])));
		return ET_OK;
	}
	int64_t a = et_number_int(args[0]), b = et_number_int(args[1]);
	ET_REQUIRE(ctx, b != 0, "division by zero");
	int64_t quotient = b == -1 ? -a : a / b;
	set_int(args[2], b != -1 && a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient);
	return ET_OK;
}

static enum et_status run_mod(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_REQUIRE(ctx, args[0]->tag != ET_TAG_DOUBLE && args[1]->tag != ET_TAG_DOUBLE, "takes integers");
	int64_t a = et_number_int(args[0]), b = et_number_int(args[1]);
	ET_REQUIRE(ctx, b != 0, "division by zero");
	set_int(args[2], b == -1 ? 0 : a % b);
	return ET_OK;
}

static enum et_status run_neg(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	if (args[0]->tag == ET_TAG_DOUBLE)
		set_double(args[1], -args[0]->d);
	else
		set_int(args[1], -et_number_int(args[0]));
	return ET_OK;
}

static enum et_status run_not(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	set_bool(args[1], et_number_double(args[0]) == 0);
	return ET_OK;
}

static enum et_status run_to_float(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	set_double(args[1], et_number_double(args[0]));
	return ET_OK;
}

/* Converts to an integer with the row's rounding function. */
static enum et_status run_to_int(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	double (*const *rounding)(double) = ctx->kernel->row;
	if (args[0]->tag == ET_TAG_DOUBLE)
		set_int(args[1], et_double_to_int((*rounding)(args[0]->d)));
	else
		set_int(args[1], et_number_int(args[0]));
	return ET_OK;
}
static double (*const to_ceil)(double) = ceil;
static double (*const to_even)(double) = rint;
static double (*const to_zero)(double) = trunc;

static enum et_status run_if_then_else(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_evalue *chosen = et_number_double(args[0]) != 0 ? args[1] : args[2];
	if (chosen->tag == ET_TAG_DOUBLE)
		set_double(args[3], chosen->d);
	else if (chosen->tag == ET_TAG_BOOL)
		set_bool(args[3], chosen->b);
	else
		set_int(args[3], et_number_int(chosen));
	return ET_OK;
}

static enum et_status run_sym_size(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *tensor = args[0]->tensor;
	size_t dim;
	ET_REQUIRE(ctx, tensor->n_dims > 0, "the tensor has no dimensions");
	ET_TRY(et_get_dim(ctx, args[1]->i, tensor->n_dims, &dim));
	set_int(args[2], tensor->sizes[dim]);
	return ET_OK;
}

static enum et_status run_sym_numel(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	set_int(args[1], (int64_t)et_tensor_numel(args[0]->tensor));
	return ET_OK;
}

static enum et_status run_item(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *tensor = args[0]->tensor;
	ET_REQUIRE(ctx, et_tensor_numel(tensor) >= 1, "the tensor is empty");
	if (et_type_is_float(tensor->type))
		set_double(args[1], et_element_get_double(tensor->data, tensor->type));
	else if (tensor->type == ET_BOOL)
		set_bool(args[1], et_element_get_int(tensor->data, tensor->type) != 0);
	else
		set_int(args[1], et_element_get_int(tensor->data, tensor->type));
	return ET_OK;
}

/* Store @from as element @index of a tensor that grows with each step of a loop. A step that skips elements zeroes
 * them: their memory may still hold another client's data. */
static enum et_status run_copy_index(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *to = args[0]->tensor;
	const struct et_tensor *from = args[1]->tensor;
	int64_t index = args[2]->i, sizes[ET_MAX_DIMS], n_before = to->n_dims ? to->sizes[0] : 0;
	ET_REQUIRE(ctx, index >= 0 && index < INT32_MAX, "index %lld", (long long)index);
	ET_REQUIRE(ctx, to->n_dims == from->n_dims + 1, "ranks %u and %u should differ by one", to->n_dims,
		from->n_dims);
	ET_TRY(et_require_same_type(ctx, to, from));
	sizes[0] = index + 1;
	for (size_t d = 0; d < from->n_dims; d++) {
		ET_REQUIRE(ctx, to->sizes[d + 1] == from->sizes[d], "sizes differ in dimension %zu", d);
		sizes[d + 1] = from->sizes[d];
	}
	/* A static loop's tensor already has its final size. */
	if (to->sizes[0] <= index || to->dynamism != ET_STATIC)
		ET_TRY(et_resize(ctx, to, sizes, to->n_dims));
	size_t n_bytes = et_tensor_n_bytes(from);
	et_copy_many(ctx->compute, (uint8_t *)to->data + (size_t)index * n_bytes, from->data, n_bytes);
	if (n_bytes && n_before < index)
		et_fill_many(ctx->compute, (uint8_t *)to->data + (size_t)n_before * n_bytes, &(const uint8_t){ 0 },
			(size_t)(index - n_before) * n_bytes, 1);
	return ET_OK;
}

static enum et_status run_view(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	int64_t sizes[ET_MAX_DIMS];
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_TRY(et_get_view_sizes(ctx, args[1], et_tensor_numel(self), sizes, out->n_dims));
	size_t capacity = out->capacity;
	out->capacity = self->capacity; /* the view may be as large as the memory it now shows */
	enum et_status status = et_resize(ctx, out, sizes, out->n_dims);
	if (status == ET_OK)
		out->data = self->data;
	else
		out->capacity = capacity;
	return status;
}

static const struct et_kernel rows[] = {
	{ "aten::_local_scalar_dense", "T>N", run_item },
	{ "aten::sym_numel", "T>N", run_sym_numel },
	{ "aten::sym_size.int", "TI>N", run_sym_size },
	{ "executorch_prim::add.Scalar", "SS>N", run_number, VALUE(add) },
	{ "executorch_prim::ceil.Scalar", "S>N", run_to_int, &to_ceil },
	{ "executorch_prim::eq.Scalar", "SS>N", run_number, TRUTH(eq) },
	{ "executorch_prim::et_copy_index.tensor", "&TTI", run_copy_index },
	{ "executorch_prim::et_view.default", "TV>*T", run_view },
	{ "executorch_prim::floordiv.Scalar", "SS>N", run_floordiv },
	{ "executorch_prim::floordiv.int", "SS>N", run_floordiv },
	{ "executorch_prim::ge.Scalar", "SS>N", run_number, TRUTH(ge) },
	{ "executorch_prim::gt.Scalar", "SS>N", run_number, TRUTH(gt) },
	{ "executorch_prim::le.Scalar", "SS>N", run_number, TRUTH(le) },
	{ "executorch_prim::lt.Scalar", "SS>N", run_number, TRUTH(lt) },
	{ "executorch_prim::mod.Scalar", "SS>N", run_mod },
	{ "executorch_prim::mod.int", "SS>N", run_mod },
	{ "executorch_prim::mul.Scalar", "SS>N", run_number, VALUE(mul) },
	{ "executorch_prim::neg.Scalar", "S>N", run_neg },
	{ "executorch_prim::round.Scalar", "S>N", run_to_int, &to_even },
	{ "executorch_prim::sub.Scalar", "SS>N", run_number, VALUE(sub) },
	{ "executorch_prim::sym_float.Scalar", "S>N", run_to_float },
	{ "executorch_prim::sym_int.Scalar", "S>N", run_to_int, &to_zero },
	{ "executorch_prim::sym_ite.Scalar", "SSS>N", run_if_then_else },
	{ "executorch_prim::sym_max.Scalar", "SS>N", run_number, VALUE(max) },
	{ "executorch_prim::sym_min.Scalar", "SS>N", run_number, VALUE(min) },
	{ "executorch_prim::sym_not.Scalar", "S>N", run_not },
	{ "executorch_prim::truediv.Scalar", "SS>N", run_truediv },
	{ "executorch_prim::trunc.Scalar", "S>N", run_to_int, &to_zero },
};

ET_KERNEL_TABLE(prim);
