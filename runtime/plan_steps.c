/* SPDX-License-Identifier: BSD-3-Clause */
/* An upper bound on the work of one kernel call. The daemon runs a model on its loop thread only if no single call can
 * take long.
 *
 * The bound comes from the largest sizes of the tensors (see et_plan_most_steps). Of a kernel it knows only how many
 * steps an element can take by its value, which is one for nearly all. It is coarse on purpose, and must never be too
 * low. It says nothing about delegate calls. */
#include "runtime/base/checked.h"
#include "runtime/plan_internal.h"

/* The tensors of one instruction, at their largest sizes. */
struct operands {
	const struct et_plan *plan;
	size_t n_any; /* elements of the largest tensor of the method */
	size_t n_largest, n_others;
	size_t largest[3]; /* of the instruction's tensors, the largest first */
	bool computes;
};

static size_t n_elements(const struct et_plan *plan, uint32_t value_index)
{
	const struct et_value_spec *value = &plan->spec->values[value_index];
	size_t size = value->tag == ET_TAG_TENSOR ? et_scalar_size(value->tensor->type) : 0;
	return size ? value->tensor->n_bytes / size : 0;
}

static void add_operand(void *arg, uint32_t value_index, unsigned access)
{
	struct operands *r = arg;
	const struct et_value_spec *value = &r->plan->spec->values[value_index];
	if (value->tag != ET_TAG_TENSOR) {
		if (!et_add(r->n_others, 1, &r->n_others))
			r->n_others = SIZE_MAX;
		return;
	}
	const struct et_plan_value *plan_value = &r->plan->values[value_index];
	/* a moved value, or a dynamic view, may refer to a larger tensor than its own spec says */
	bool is_any = plan_value->is_moved || (plan_value->is_view && value->tensor->dynamism != ET_STATIC);
	size_t n = is_any ? r->n_any : n_elements(r->plan, value_index);
	size_t other = n < r->n_largest ? n : r->n_largest;
	if (n > r->n_largest)
		r->n_largest = n;
	if (!et_add(r->n_others, other, &r->n_others) || !et_add(r->n_others, 1, &r->n_others))
		r->n_others = SIZE_MAX;
	for (size_t k = 0, size = n; k < 3; k++) {
		size_t kept = r->largest[k] > size ? r->largest[k] : size;
		size = r->largest[k] > size ? size : r->largest[k];
		r->largest[k] = kept;
	}
	r->computes = r->computes || ((access & ET_ACCESS_WRITE) && !(access & ET_ACCESS_VIEW));
}

/* Of the instruction's kernel. */
static size_t element_steps(const struct et_plan *plan, const struct et_plan_instruction *instruction)
{
	uint32_t n = plan->operators[instruction->index].kernel->element_steps;
	return n ? n : 1;
}

/* A kernel makes each element of its outputs from each element of its inputs about once at most: matmul from a row
 * and a column, a convolution from a window and the weights, a mean from all elements. So it takes at most (elements
 * of the outputs) times (elements of the inputs) steps. We do not ask which tensors are outputs: the product is
 * largest with the largest tensor on one side and all others on the other. Kernels that write only a scalar or make
 * a view read headers or a single element. */
size_t et_plan_most_steps(const struct et_plan *plan)
{
	size_t n_any = 0, most = 0;
	for (uint32_t i = 0; i < plan->spec->n_values; i++) {
		size_t n = n_elements(plan, i);
		n_any = n > n_any ? n : n_any;
	}
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_plan_instruction *instruction = &plan->instructions[i];
		struct operands r = { .plan = plan, .n_any = n_any };
		size_t n = 0;
		if (instruction->op != ET_OP_KERNEL)
			continue;
		if (plan->operators[instruction->index].kernel->is_elsewhere)
			return SIZE_MAX;
		et_plan_visit(plan, instruction, ET_ACCESS_READ | ET_ACCESS_WRITE | ET_ACCESS_VIEW, add_operand, &r);
		if (r.computes &&
			(!et_mul(r.n_largest, r.n_others, &n) || !et_mul(n, element_steps(plan, instruction), &n)))
			return SIZE_MAX;
		most = n > most ? n : most;
	}
	return most;
}

/* The square root, rounded; without the C library. */
static double root(double x)
{
	double y = x < 1 ? 1 : x;
	for (int i = 0; i < 128 && y * y > x; i++)
		y = (y + x / y) / 2;
	return y;
}

/* The elements of its three matrices, M by K, K by N and M by N, tell how many multiplications a product takes: the
 * root of their product. For a convolution that is too few by the width of its kernel. Other kernels take about as many
 * steps as their largest tensor has elements. */
size_t et_plan_likely_steps(const struct et_plan *plan)
{
	size_t most = 0;
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_plan_instruction *instruction = &plan->instructions[i];
		struct operands r = { .plan = plan };
		if (instruction->op != ET_OP_KERNEL)
			continue;
		et_plan_visit(plan, instruction, ET_ACCESS_READ | ET_ACCESS_WRITE | ET_ACCESS_VIEW, add_operand, &r);
		double steps = (double)r.largest[0];
		if (plan->operators[instruction->index].kernel->multiplies && r.largest[2])
			steps = root(steps * (double)r.largest[1] * (double)r.largest[2]);
		steps *= (double)element_steps(plan, instruction);
		size_t n = steps < (double)(SIZE_MAX / 2) ? (size_t)steps : SIZE_MAX / 2;
		most = r.computes && n > most ? n : most;
	}
	return most;
}
