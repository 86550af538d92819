/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators in which each element of the result depends on the operands' elements at its place. A row is a C
 * expression of a, b and c, of the numbers p, and of i; all use one kernel (kernels/elementwise.cl), which computes in
 * float if the result or an operand is a float, else in integers. */
#include "delegates/opencl/step.h"

#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- one launch ----------------------------------------------------------------------------------- */

bool ocl_plan_elementwise(struct ocl_plan *plan, uint32_t k, const char *expression, uint8_t result,
	const uint8_t *types, uint32_t n)
{
	static const char *const names[] = { "T_A", "T_B", "T_C" };
	struct ocl_definition definitions[4] = { { "T_O", result } };
	char more[300];
	for (uint32_t i = 0; i < n; i++)
		definitions[1 + i] = (struct ocl_definition){ names[i], types[i] };
	snprintf(more, sizeof(more), "#define OPERANDS %u\n#define EXPRESSION (%s)\n", n, expression);
	return ocl_use(plan, k, "elementwise", definitions, 1 + n, more);
}

static void put_numbers(struct ocl_call *call, struct ocl_launch *launch, const double *numbers)
{
	cl_float floats[8] = { 0 };
	cl_int ints[8] = { 0 };
	cl_long longs[8] = { 0 };
	for (uint32_t i = 0; i < 8 && numbers; i++) {
		double d = numbers[i];
		floats[i] = (cl_float)d;
		ints[i] = d >= INT32_MAX ? INT32_MAX : d <= INT32_MIN ? INT32_MIN : isnan(d) ? 0 : (cl_int)d;
		longs[i] = d >= 9.2e18 ? INT64_MAX : d <= -9.2e18 ? INT64_MIN : isnan(d) ? 0 : (cl_long)d;
	}
	if (call->step->compute == ET_INT32)
		ocl_put(launch, ints, sizeof(ints));
	else if (call->step->compute == ET_INT64)
		ocl_put(launch, longs, sizeof(longs));
	else
		ocl_put(launch, floats, sizeof(floats));
}

bool ocl_run_elementwise(struct ocl_call *call, uint32_t k, uint32_t n, const uint32_t *values,
	const struct ocl_view *views, const double *numbers)
{
	struct ocl_launch launch;
	struct ocl_view simple[4];
	uint64_t n_elements = ocl_view_numel(&views[0]);
	memcpy(simple, views, (n + 1) * sizeof(*simple));
	if (n_elements > INT32_MAX)
		return ocl_misfit(call, "%llu elements", (unsigned long long)n_elements);
	ocl_views_simplify(simple, n + 1);
	ocl_begin(call, &launch, k);
	ocl_put_int(&launch, (int64_t)n_elements);
	ocl_put_int(&launch, simple[0].n_dims);
	ocl_put_sizes(&launch, simple[0].dims, 8);
	put_numbers(call, &launch, numbers);
	for (uint32_t i = 0; i <= n; i++) {
		ocl_put_view(call, &launch, values[i], &simple[i]);
		ocl_put_strides(&launch, &simple[i]);
	}
	return ocl_start(call, &launch, n_elements, 4);
}

/* --- operators ------------------------------------------------------------------------------------ */

/* Whether a number among the arguments makes integers computed in float. */
static bool has_fraction(const struct ocl_plan *plan)
{
	for (uint32_t i = 0; i < plan->node->n_args; i++) {
		const struct et_graph_value *value = &plan->graph->values[plan->node->args[i]];
		if (value->kind == ET_GRAPH_DOUBLE && isfinite(value->d) && value->d != floor(value->d))
			return true;
	}
	return false;
}

static bool plan_operands(struct ocl_plan *plan, uint32_t n)
{
	uint8_t types[3], result = ocl_result_type(plan, 0);
	bool is_float = ocl_is_float(result), is_long = result == ET_INT64;
	for (uint32_t i = 0; i < n; i++) {
		types[i] = ocl_arg_type(plan, i);
		is_float |= ocl_is_float(types[i]);
		is_long |= types[i] == ET_INT64;
	}
	is_float |= has_fraction(plan);
	plan->step->compute = is_float ? ET_FLOAT32 : is_long ? ET_INT64 : ET_INT32;
	return ocl_plan_elementwise(plan, 0, plan->step->row->text, result, types, n);
}

static bool run_operands(struct ocl_call *call, uint32_t n)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *result = et_graph_result(&call->shapes, 0);
	uint32_t values[4] = { node->results[0] };
	struct ocl_view views[4] = { ocl_view_of(result) };
	double numbers[8] = { 0 };
	for (uint32_t i = 0; i < n; i++) {
		values[1 + i] = node->args[i];
		views[1 + i] = ocl_view_as(et_graph_arg(&call->shapes, i), result);
	}
	if (call->step->row->numbers && !call->step->row->numbers(call, numbers))
		return false;
	return ocl_run_elementwise(call, 0, n, values, views, numbers);
}

static bool plan_unary(struct ocl_plan *plan)
{
	return plan_operands(plan, 1);
}

static bool plan_binary(struct ocl_plan *plan)
{
	return plan_operands(plan, 2);
}

static bool plan_ternary(struct ocl_plan *plan)
{
	return plan_operands(plan, 3);
}

static bool run_unary(struct ocl_call *call)
{
	return run_operands(call, 1);
}

static bool run_binary(struct ocl_call *call)
{
	return run_operands(call, 2);
}

static bool run_ternary(struct ocl_call *call)
{
	return run_operands(call, 3);
}

/* Functions of real numbers. */
static bool plan_real(struct ocl_plan *plan)
{
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, -1, ET_FLOAT32) && plan_unary(plan);
}

static bool plan_integers(struct ocl_plan *plan)
{
	if (ocl_is_float(ocl_arg_type(plan, 0)) || ocl_is_float(ocl_arg_type(plan, 1)))
		return ocl_refuse(plan, "bits of floats");
	return plan_binary(plan);
}

static const char *text_of(const struct ocl_plan *plan, uint32_t arg)
{
	const struct et_graph_value *value = &plan->graph->values[plan->node->args[arg]];
	return value->kind == ET_GRAPH_STRING ? value->string : "";
}

static bool plan_gelu(struct ocl_plan *plan)
{
	uint8_t type = ocl_arg_type(plan, 0);
	bool is_tanh = strcmp(text_of(plan, 1), "tanh") == 0;
	if (!is_tanh && text_of(plan, 1)[0] && strcmp(text_of(plan, 1), "none") != 0)
		return ocl_refuse(plan, "the approximation '%.40s'", text_of(plan, 1));
	return ocl_want(plan, 0, ET_FLOAT32) && ocl_want(plan, -1, ET_FLOAT32) &&
	       ocl_plan_elementwise(plan, 0,
		       is_tanh ? "0.5f * a * (1 + tanh(0.7978845608028654f * (a + 0.044715f * a * a * a)))"
			       : "0.5f * a * (1 + erf(a * 0.70710678118654752f))",
		       ocl_result_type(plan, 0), &type, 1);
}

static bool plan_div_mode(struct ocl_plan *plan)
{
	const char *mode = text_of(plan, 2);
	uint8_t types[] = { ocl_arg_type(plan, 0), ocl_arg_type(plan, 1) }, result = ocl_result_type(plan, 0);
	bool is_float = ocl_is_float(types[0]) || ocl_is_float(types[1]) || ocl_is_float(result);
	bool is_long = types[0] == ET_INT64 || types[1] == ET_INT64;
	plan->step->compute = is_float ? ET_FLOAT32 : is_long ? ET_INT64 : ET_INT32;
	if (strcmp(mode, "floor") == 0)
		return ocl_plan_elementwise(plan, 0, "divide_floor(a, b)", result, types, 2);
	if (strcmp(mode, "trunc") == 0)
		return ocl_plan_elementwise(plan, 0, "divide_trunc(a, b)", result, types, 2);
	if (mode[0] || !is_float)
		return ocl_refuse(plan, "the rounding mode '%.40s'", mode);
	return ocl_plan_elementwise(plan, 0, "a / b", result, types, 2);
}

/* Division of integers has a float result, which makes the kernel compute in float. */
static bool plan_div(struct ocl_plan *plan)
{
	return ocl_want(plan, -1, ET_FLOAT32) && plan_binary(plan);
}

/* The number in argument @arg; @absent if it was left out. */
static double number(struct ocl_call *call, uint32_t arg, double absent)
{
	if (call->shapes.graph->values[call->shapes.node->args[arg]].kind == ET_GRAPH_SYMBOL)
		return (double)et_graph_int(&call->shapes, arg, 0);
	return et_graph_double(&call->shapes, arg, absent);
}

static bool one_number(struct ocl_call *call, double numbers[8])
{
	numbers[0] = number(call, 1, 0);
	return true;
}

static bool alpha(struct ocl_call *call, double numbers[8])
{
	numbers[0] = number(call, 2, 1);
	return true;
}

static bool range(struct ocl_call *call, double numbers[8])
{
	numbers[0] = number(call, 1, -INFINITY);
	numbers[1] = number(call, 2, INFINITY);
	return true;
}

#define UNARY(name, expression)  { name, plan_unary, run_unary, expression }
#define REAL(name, expression)   { name, plan_real, run_unary, expression }
#define NUMBER(name, expression) { name, plan_unary, run_unary, expression, one_number }
#define CLAMP                    "a < p[0] ? p[0] : a > p[1] ? p[1] : a"

const struct ocl_row ocl_rows_elementwise[] = {
	UNARY("aten.abs.default", "a < 0 ? -a : a == 0 ? 0 : a"),
	UNARY("aten.logical_not.default", "a == 0"),
	UNARY("aten.relu.default", "a < 0 ? 0 : a"),
	UNARY("dim_order_ops._to_dim_order_copy.default", "a"),
	REAL("aten.exp.default", "exp(a)"),
	REAL("aten.hardswish.default", "a * clamp(a + 3, 0.0f, 6.0f) / 6"),
	REAL("aten.sigmoid.default", "1 / (1 + exp(-a))"),
	REAL("aten.sqrt.default", "sqrt(a)"),
	REAL("aten.tanh.default", "tanh(a)"),
	NUMBER("aten.eq.Scalar", "a == p[0]"),
	NUMBER("aten.ge.Scalar", "a >= p[0]"),
	NUMBER("aten.le.Scalar", "a <= p[0]"),
	NUMBER("aten.leaky_relu.default", "a > 0 ? a : a * p[0]"),
	{ "aten.pow.Tensor_Scalar", plan_real, run_unary, "pow(a, p[0])", one_number },
	{ "aten.clamp.default", plan_unary, run_unary, CLAMP, range },
	{ "aten.hardtanh.default", plan_unary, run_unary, CLAMP, range },
	{ "aten.gelu.default", plan_gelu, run_unary },
	{ "aten.add.Tensor", plan_binary, run_binary, "a + p[0] * b", alpha },
	{ "aten.sub.Tensor", plan_binary, run_binary, "a - p[0] * b", alpha },
	{ "aten.mul.Tensor", plan_binary, run_binary, "a * b" },
	{ "aten.div.Tensor", plan_div, run_binary, "a / b" },
	{ "aten.div.Tensor_mode", plan_div_mode, run_binary },
	{ "aten.bitwise_and.Tensor", plan_integers, run_binary, "a & b" },
	{ "aten.where.self", plan_ternary, run_ternary, "a != 0 ? b : c" },
	{ NULL },
};
