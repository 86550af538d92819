/* SPDX-License-Identifier: BSD-3-Clause */
/* Aliases, lifetimes, and the arguments that need a check before each call.
 *
 * Two values alias if their tensors may share memory for a reason other than the memory plan: a MoveCall makes its
 * target refer to the source's tensor, and a view kernel points its output into its first argument. Alias classes are a
 * union-find over value indices that ignores the order of instructions: coarse, and every use of it stays on the safe
 * side.
 *
 * A value's lifetime goes from the first instruction that uses it to the last. Without backward jumps a run executes
 * instructions in ascending order, so two values whose lifetimes do not meet are never alive together. All members
 * of an alias class have the same lifetime. */
#include "runtime/plan_internal.h"

static uint32_t find_root(struct et_plan *plan, uint32_t value_index)
{
	struct et_plan_value *values = plan->values;
	while (values[value_index].alias != value_index) {
		values[value_index].alias = values[values[value_index].alias].alias;
		value_index = values[value_index].alias;
	}
	return value_index;
}

uint32_t et_lifetime_root(const struct et_plan *plan, uint32_t value_index)
{
	return plan->values[value_index].alias; /* et_lifetime_run made every parent a root */
}

static void unite(struct et_plan *plan, uint32_t a, uint32_t b)
{
	a = find_root(plan, a);
	b = find_root(plan, b);
	if (a < b)
		plan->values[b].alias = a;
	else
		plan->values[a].alias = b;
}

struct visit {
	struct et_plan *plan;
	uint32_t when;
	uint32_t base; /* argument 0, the base of a view */
};

static void touch(struct et_plan *plan, uint32_t value_index, uint32_t when)
{
	struct et_plan_value *value = &plan->values[value_index];
	value->is_used |= when > 0;
	if (when < value->first)
		value->first = when;
	if (when > value->last)
		value->last = when;
}

static void touch_argument(void *arg, uint32_t value_index, unsigned access)
{
	struct visit *visit = arg;
	touch(visit->plan, value_index, visit->when);
	if (access & ET_ACCESS_VIEW) {
		visit->plan->values[value_index].is_view = true;
		unite(visit->plan, value_index, visit->base);
	} else if (access & ET_ACCESS_WRITE) {
		visit->plan->values[value_index].is_written = true;
	}
}

static void touch_all(struct et_plan *plan)
{
	const struct et_method_spec *spec = plan->spec;
	for (uint32_t value_index = 0; value_index < spec->n_values; value_index++) {
		plan->values[value_index].alias = value_index;
		plan->values[value_index].first = UINT32_MAX;
		plan->values[value_index].last = 0;
	}
	for (uint32_t i = 0; i < spec->n_inputs; i++)
		touch(plan, spec->inputs[i], 0);
	for (uint32_t i = 0; i < spec->n_outputs; i++)
		touch(plan, spec->outputs[i], spec->n_instructions + 1);
	for (uint32_t i = 0; i < spec->n_instructions; i++) {
		const struct et_plan_instruction *instruction = &plan->instructions[i];
		const uint32_t *value_indices = &plan->args[instruction->first_arg];
		struct visit visit = {
			.plan = plan, .when = i + 1, .base = instruction->n_args ? value_indices[0] : 0
		};
		et_plan_visit(plan, instruction, ET_ACCESS_READ | ET_ACCESS_WRITE, touch_argument, &visit);
		switch (instruction->op) {
		case ET_OP_MOVE:
			touch(plan, value_indices[0], i + 1);
			touch(plan, value_indices[1], i + 1);
			if (plan->spec->values[value_indices[0]].tag == ET_TAG_TENSOR)
				unite(plan, value_indices[0], value_indices[1]);
			else
				plan->values[value_indices[1]].is_written |= value_indices[0] != value_indices[1];
			break;
		case ET_OP_JUMP_FALSE:
		case ET_OP_FREE:
			touch(plan, value_indices[0], i + 1);
			break;
		default:
			break;
		}
	}
}

/* Give every member of an alias class what holds for any member. */
static void merge_classes(struct et_plan *plan)
{
	struct et_plan_value *values = plan->values;
	uint32_t n = plan->spec->n_values;
	for (uint32_t value_index = 0; value_index < n; value_index++) {
		uint32_t root = find_root(plan, value_index);
		if (root == value_index)
			continue;
		values[value_index].is_shared = values[root].is_shared = true;
		if (values[value_index].first < values[root].first)
			values[root].first = values[value_index].first;
		if (values[value_index].last > values[root].last)
			values[root].last = values[value_index].last;
		values[root].is_written |= values[value_index].is_written;
		values[root].is_freed |= values[value_index].is_freed;
	}
	for (uint32_t value_index = 0; value_index < n; value_index++) {
		uint32_t root = find_root(plan, value_index);
		values[value_index].alias = root;
		values[value_index].first = values[root].first;
		values[value_index].last = values[root].last;
		values[value_index].is_written = values[root].is_written;
		values[value_index].is_freed = values[root].is_freed;
	}
}

/* --- arguments that need a check ----------------------------------------------------------------------- */

static bool value_needs_check(const struct et_plan *plan, uint32_t value_index)
{
	const struct et_plan_value *value = &plan->values[value_index];
	const struct et_value_spec *spec = &plan->spec->values[value_index];
	if (spec->tag == ET_TAG_TENSOR)
		return value->is_moved || value->is_freed || value->is_view ||
		       (spec->tensor->storage == ET_STORAGE_NONE && !value->is_input && !value->is_output);
	return value->is_written; /* the tag may differ from run to run */
}

static bool argument_needs_check(const struct et_plan *plan, uint32_t value_index)
{
	const struct et_value_spec *value = &plan->spec->values[value_index];
	if (!et_tag_is_value_list(value->tag))
		return value_needs_check(plan, value_index);
	for (uint32_t i = 0; i < value->list->n; i++)
		if (value->list->values[i] != ET_NO_VALUE && value_needs_check(plan, value->list->values[i]))
			return true;
	return false;
}

/* Describe how a call uses argument @index. Delegates get letter 'X', any kind: they check their arguments
 * themselves. */
static struct et_check how_used(const struct et_plan *plan, const struct et_plan_instruction *instruction,
	uint32_t index)
{
	if (instruction->op == ET_OP_DELEGATE)
		return (struct et_check){ .arg = index,
			.letter = 'X',
			.is_written = index >= plan->delegates[instruction->index].info.n_inputs };
	const struct et_kernel_arg *how = &plan->operators[instruction->index].args[index];
	return (struct et_check){
		.arg = index, .letter = how->letter, .is_written = how->is_written, .is_view = how->is_view
	};
}

static enum et_status refuse_constant(const struct et_plan *plan, uint32_t number, uint32_t value_index,
	struct et_diag *diag)
{
	const struct et_plan_instruction *instruction = &plan->instructions[number];
	return et_fail(diag, ET_E_INVALID_PROGRAM, "instruction %u (%s) would write to value %u, a constant", number,
		instruction->op == ET_OP_KERNEL ? plan->operators[instruction->index].kernel->name
						: plan->spec->delegates[instruction->index].id,
		value_index);
}

static bool is_constant(const struct et_plan *plan, uint32_t value_index)
{
	const struct et_value_spec *value = &plan->spec->values[value_index];
	return value->tag == ET_TAG_TENSOR && value->tensor->storage == ET_STORAGE_CONSTANT &&
	       !plan->values[value_index].is_moved;
}

struct check_visit {
	const struct et_plan *plan;
	uint32_t number;   /* of the instruction, counted from 1 */
	uint32_t constant; /* a constant that the call would write to, or ET_NO_VALUE */
	bool may_alias;
};

static void find_constant_and_alias(void *arg, uint32_t value_index, unsigned access)
{
	struct check_visit *visit = arg;
	struct et_plan_value *value = &visit->plan->values[value_index];
	uint8_t tag = visit->plan->spec->values[value_index].tag;
	if (access & ET_ACCESS_WRITE) {
		if (is_constant(visit->plan, value_index) || (tag != ET_TAG_TENSOR && !et_tag_is_scalar(tag)))
			visit->constant = value_index;
		visit->may_alias |= value->is_shared;
	}
	if (tag != ET_TAG_TENSOR)
		return;
	visit->may_alias |= value->seen == visit->number;
	value->seen = visit->number;
}

static enum et_status make_checks(struct et_plan *plan, struct et_diag *diag)
{
	uint32_t n_checks = 0;
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		struct et_plan_instruction *instruction = &plan->instructions[i];
		instruction->first_check = n_checks;
		if (!instruction->has_queue)
			continue;
		struct check_visit visit = { .plan = plan, .number = i + 1, .constant = ET_NO_VALUE };
		et_plan_visit(plan, instruction, ET_ACCESS_READ | ET_ACCESS_WRITE, find_constant_and_alias, &visit);
		if (visit.constant != ET_NO_VALUE)
			return refuse_constant(plan, i, visit.constant, diag);
		instruction->may_alias = visit.may_alias;
		for (uint32_t a = 0; a < instruction->n_args; a++)
			instruction->n_checks += argument_needs_check(plan, plan->args[instruction->first_arg + a]);
		n_checks += instruction->n_checks;
	}
	plan->checks = ET_POOL_NEW_ARRAY(&plan->pool, struct et_check, n_checks);
	if (!plan->checks)
		return et_plan_no_memory(diag);
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_plan_instruction *instruction = &plan->instructions[i];
		struct et_check *check = &plan->checks[instruction->first_check];
		for (uint32_t a = 0; a < instruction->n_args && instruction->n_checks; a++)
			if (argument_needs_check(plan, plan->args[instruction->first_arg + a]))
				*check++ = how_used(plan, instruction, a);
	}
	return ET_OK;
}

enum et_status et_lifetime_run(struct et_plan *plan, struct et_diag *diag)
{
	touch_all(plan);
	merge_classes(plan);
	return make_checks(plan, diag);
}
