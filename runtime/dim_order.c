/* SPDX-License-Identifier: BSD-3-Clause */
/* The dim order of tensors that lie between delegates.
 *
 * Programs keep images channels first; a delegate may prefer channels last. Each delegate then transposes its inputs
 * and outputs, so between two such delegates data is transposed twice for nothing. No client sees a tensor in between.
 * So if everything that uses a tensor prefers the same other dim order, or is a kernel that works in any dim order
 * (et_kernel.is_orderless), the tensor gets that dim order. It keeps its bytes in the memory plan, since the number of
 * elements is the same.
 *
 * All tensors of such a kernel must change together, and so on through the program: a union-find over value indices
 * makes groups, and one tensor that cannot change holds back its whole group. These cannot change: inputs and
 * outputs, state, values that a move or a view may reach, dynamic tensors, tensors that are not row-major. If any
 * value may be read for bytes that another tensor at the same place wrote (is_borrowing), nothing changes: such a
 * program relies on where elements lie. */
#include "runtime/dim_order.h"

#include "runtime/base/checked.h"
#include "runtime/plan_internal.h"

#include <stddef.h>
#include <string.h>

struct group {
	uint32_t root;
	bool is_fixed;
	bool has_order; /* a delegate prefers this order */
	uint8_t order[ET_MAX_DIMS];
};

struct ordering {
	struct et_plan *plan;
	struct group *groups; /* one per value */
	uint32_t *n_calls;    /* one per delegate */
	uint32_t first;       /* first tensor of the kernel call, or ET_NO_VALUE */
	bool is_fixing;
};

static uint32_t find(const struct ordering *o, uint32_t value_index)
{
	struct group *groups = o->groups;
	while (groups[value_index].root != value_index) {
		groups[value_index].root = groups[groups[value_index].root].root;
		value_index = groups[value_index].root;
	}
	return value_index;
}

static void prefer(struct group *group, const uint8_t *order)
{
	if (group->has_order && memcmp(group->order, order, sizeof group->order) != 0)
		group->is_fixed = true;
	memcpy(group->order, order, sizeof group->order);
	group->has_order = true;
}

static void unite(struct ordering *o, uint32_t a, uint32_t b)
{
	struct group *groups = o->groups;
	const struct et_value_spec *values = o->plan->spec->values;
	a = find(o, a);
	b = find(o, b);
	if (a == b)
		return;
	groups[b].root = a;
	groups[a].is_fixed |= groups[b].is_fixed || values[a].tensor->n_dims != values[b].tensor->n_dims;
	if (groups[b].has_order)
		prefer(&groups[a], groups[b].order);
}

static bool can_change(const struct et_plan *plan, uint32_t value_index)
{
	const struct et_tensor_spec *tensor = plan->spec->values[value_index].tensor;
	const struct et_plan_value *value = &plan->values[value_index];
	return tensor->storage == ET_STORAGE_PLANNED && tensor->dynamism == ET_STATIC && !tensor->constant &&
	       et_dim_order_is_contiguous(tensor->dim_order, tensor->n_dims) && !value->is_input && !value->is_output &&
	       !value->is_state && !value->is_moved && !value->is_view && !value->is_freed;
}

/* False if no tensor may change. */
static bool make_groups(struct ordering *o)
{
	const struct et_plan *plan = o->plan;
	const struct et_value_spec *values = plan->spec->values;
	for (uint32_t value_index = 0; value_index < plan->spec->n_values; value_index++) {
		bool is_tensor = values[value_index].tag == ET_TAG_TENSOR;
		if (is_tensor && plan->values[value_index].is_borrowing)
			return false;
		o->groups[value_index].root = value_index;
		o->groups[value_index].is_fixed |= !is_tensor || !can_change(plan, value_index);
		if (plan->values[value_index].alias != value_index)
			o->groups[value_index].is_fixed = o->groups[plan->values[value_index].alias].is_fixed = true;
	}
	return true;
}

static void on_access(void *arg, uint32_t value_index, unsigned access)
{
	struct ordering *o = arg;
	(void)access;
	if (o->plan->spec->values[value_index].tag != ET_TAG_TENSOR)
		return;
	if (o->is_fixing)
		o->groups[find(o, value_index)].is_fixed = true;
	else if (o->first == ET_NO_VALUE)
		o->first = value_index;
	else
		unite(o, o->first, value_index);
}

static bool has_orders(const struct et_delegate_ops *ops)
{
	return ops->preferred_order && ops->adopt_orders;
}

static void collect_call(struct ordering *o, const struct et_plan_instruction *call)
{
	const struct et_plan_delegate *delegate = &o->plan->delegates[call->index];
	for (uint32_t a = 0; a < call->n_args; a++) {
		uint32_t value_index = o->plan->args[call->first_arg + a];
		const struct et_value_spec *value = &o->plan->spec->values[value_index];
		uint8_t order[ET_MAX_DIMS] = { 0 };
		if (value->tag != ET_TAG_TENSOR)
			continue;
		if (o->n_calls[call->index] == 1 && has_orders(delegate->ops) &&
			delegate->ops->preferred_order(delegate->model, a, order, value->tensor->n_dims))
			prefer(&o->groups[find(o, value_index)], order);
		else
			o->groups[find(o, value_index)].is_fixed = true;
	}
}

static void collect(struct ordering *o)
{
	const struct et_plan *plan = o->plan;
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_plan_instruction *instruction = &plan->instructions[i];
		if (instruction->op == ET_OP_DELEGATE) {
			collect_call(o, instruction);
		} else if (instruction->op == ET_OP_KERNEL) {
			o->first = ET_NO_VALUE;
			o->is_fixing = !plan->operators[instruction->index].kernel->is_orderless;
			et_plan_visit(plan, instruction, ET_ACCESS_READ | ET_ACCESS_WRITE, on_access, o);
		}
	}
}

static bool is_changed(const struct ordering *o, uint32_t value_index)
{
	const struct group *group = &o->groups[find(o, value_index)];
	return o->plan->spec->values[value_index].tag == ET_TAG_TENSOR && group->has_order && !group->is_fixed;
}

static enum et_status apply(struct ordering *o, struct et_pool *scratch, struct et_diag *diag)
{
	struct et_plan *plan = o->plan;
	for (uint32_t value_index = 0; value_index < plan->spec->n_values; value_index++) {
		if (!is_changed(o, value_index))
			continue;
		const struct et_tensor_spec *from = plan->spec->values[value_index].tensor;
		struct et_tensor_spec *to = ET_POOL_NEW(&plan->pool, struct et_tensor_spec);
		uint8_t *order = ET_POOL_NEW_ARRAY(&plan->pool, uint8_t, from->n_dims);
		if (!to || !order)
			return et_plan_no_memory(diag);
		*to = *from;
		memcpy(order, o->groups[find(o, value_index)].order, from->n_dims);
		to->dim_order = order;
		plan->values[value_index].reordered = to;
	}
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_plan_instruction *call = &plan->instructions[i];
		if (call->op != ET_OP_DELEGATE)
			continue;
		const struct et_plan_delegate *delegate = &plan->delegates[call->index];
		uint32_t n = 0, *args = ET_POOL_NEW_ARRAY(scratch, uint32_t, call->n_args);
		if (!args)
			return et_plan_no_memory(diag);
		for (uint32_t a = 0; a < call->n_args; a++)
			if (is_changed(o, plan->args[call->first_arg + a]))
				args[n++] = a;
		enum et_status status = n ? delegate->ops->adopt_orders(delegate->model, args, n, diag) : ET_OK;
		if (status != ET_OK)
			return status;
	}
	return ET_OK;
}

enum et_status et_order_run(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag)
{
	struct ordering o = { .plan = plan };
	uint32_t n = 0;
	enum et_status status = ET_OK;
	struct et_pool pool;
	for (uint32_t d = 0; d < plan->spec->n_delegates; d++)
		n += plan->delegates[d].is_called && has_orders(plan->delegates[d].ops);
	if (n < 2)
		return ET_OK; /* no second delegate to agree with */
	et_pool_init(&pool, allocator);
	o.groups = ET_POOL_NEW_ARRAY(&pool, struct group, plan->spec->n_values);
	o.n_calls = ET_POOL_NEW_ARRAY(&pool, uint32_t, plan->spec->n_delegates);
	if (!o.groups || !o.n_calls) {
		status = et_plan_no_memory(diag);
	} else if (make_groups(&o)) {
		for (uint32_t i = 0; i < plan->spec->n_instructions; i++)
			if (plan->instructions[i].op == ET_OP_DELEGATE)
				o.n_calls[plan->instructions[i].index]++;
		collect(&o);
		status = apply(&o, &pool, diag);
	}
	et_pool_deinit(&pool);
	return status;
}
