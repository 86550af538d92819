/* SPDX-License-Identifier: BSD-3-Clause */
/* Delegate calls whose outputs share memory with another argument are refused.
 *
 * A delegate may write its outputs in any order, before it has read all inputs, and with functions that do not allow
 * source and destination to overlap (memcpy). Exporters keep the arguments of a call apart: their lifetimes meet at the
 * call. A kernel's outputs may share memory with its inputs; kernels are written for that.
 *
 * Where the memory of an argument is known in advance, the Plan is refused. A view, or a value that a MoveCall rebinds,
 * is checked before each call. Memory that the caller of a run binds is not looked at here: see
 * runtime/binding.c. */
#include "runtime/base/sort.h"
#include "runtime/plan_internal.h"

/* The most arguments of a call that is checked before each run, since each is compared with each output. */
enum { MAX_REBOUND_ARGS = 1024 };

/* The furthest end among the arguments that start before, and the argument that ends there. */
struct reach {
	size_t end;
	uint32_t value;
};

struct overlaps {
	const struct et_plan *plan;
	struct et_sort_item *items; /* of one call, by offset; the lowest bit of index: whether it is written */
	size_t n;
	struct reach *reads, *writes; /* one per arena, then one for values without planned memory */
};

static void count_argument(void *arg, uint32_t value_index, unsigned access)
{
	(void)value_index, (void)access;
	++*(size_t *)arg;
}

/* Where the value lies. A tensor without planned memory has memory of its own: a byte of an arena of its kind. */
static size_t start_of(const struct et_plan *plan, uint32_t value_index, size_t *ret_n_bytes, uint32_t *ret_arena)
{
	const struct et_tensor_spec *tensor = plan->spec->values[value_index].tensor;
	bool is_planned = tensor->storage == ET_STORAGE_PLANNED;
	*ret_n_bytes = is_planned ? tensor->n_bytes : 1;
	*ret_arena = is_planned ? tensor->arena : plan->spec->n_arenas;
	return is_planned ? tensor->offset : value_index;
}

static void add_argument(void *arg, uint32_t value_index, unsigned access)
{
	struct overlaps *o = arg;
	const struct et_plan_value *value = &o->plan->values[value_index];
	const struct et_value_spec *spec = &o->plan->spec->values[value_index];
	size_t n_bytes;
	uint32_t arena;
	if (spec->tag != ET_TAG_TENSOR || spec->tensor->storage == ET_STORAGE_CONSTANT || value->is_moved ||
		value->is_view)
		return;
	size_t start = start_of(o->plan, value_index, &n_bytes, &arena);
	if (!n_bytes)
		return;
	o->items[o->n++] = (struct et_sort_item){ start, 2 * value_index + ((access & ET_ACCESS_WRITE) != 0) };
	o->reads[arena].end = o->writes[arena].end = 0;
}

static enum et_status check_call(struct overlaps *o, uint32_t number, size_t n_most, struct et_diag *diag)
{
	const struct et_plan_instruction *instruction = &o->plan->instructions[number];
	o->n = 0;
	et_plan_visit(o->plan, instruction, ET_ACCESS_READ | ET_ACCESS_WRITE, add_argument, o);
	et_sort_by_key(o->items, o->items + n_most, o->n);
	for (size_t i = 0; i < o->n; i++) {
		uint32_t value_index = o->items[i].index / 2, arena;
		bool is_written = o->items[i].index % 2;
		size_t n_bytes, start = start_of(o->plan, value_index, &n_bytes, &arena);
		struct reach *reads = &o->reads[arena], *writes = &o->writes[arena];
		const struct reach *other = start < writes->end                ? writes
					    : is_written && start < reads->end ? reads
									       : NULL;
		if (other)
			return et_fail(diag, ET_E_INVALID_PROGRAM,
				"instruction %u (%.64s): values %u and %u share memory, and the call writes to %s",
				number, o->plan->spec->delegates[instruction->index].id, other->value, value_index,
				!is_written       ? "the first"
				: other == writes ? "both"
						  : "the second");
		struct reach *mine = is_written ? writes : reads;
		if (start + n_bytes > mine->end)
			*mine = (struct reach){ start + n_bytes, value_index };
	}
	return ET_OK;
}

static enum et_status check_calls(struct overlaps *o, struct et_pool *pool, struct et_diag *diag)
{
	const struct et_plan *plan = o->plan;
	size_t n_most = 0;
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_plan_instruction *instruction = &plan->instructions[i];
		size_t n = 0;
		if (instruction->op != ET_OP_DELEGATE)
			continue;
		if (instruction->n_checks && instruction->n_args > MAX_REBOUND_ARGS)
			return et_fail(diag, ET_E_NOT_SUPPORTED,
				"instruction %u (%.64s): more than %d arguments, and some are views or moved", i,
				plan->spec->delegates[instruction->index].id, MAX_REBOUND_ARGS);
		et_plan_visit(plan, instruction, ET_ACCESS_READ | ET_ACCESS_WRITE, count_argument, &n);
		n_most = n > n_most ? n : n_most;
	}
	o->items = et_pool_scratch_array(pool, 2 * n_most, sizeof *o->items);
	o->reads = ET_POOL_NEW_ARRAY(pool, struct reach, (size_t)plan->spec->n_arenas + 1);
	o->writes = ET_POOL_NEW_ARRAY(pool, struct reach, (size_t)plan->spec->n_arenas + 1);
	if (!o->items || !o->reads || !o->writes)
		return et_plan_no_memory(diag);
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < plan->spec->n_instructions && !status; i++)
		if (plan->instructions[i].op == ET_OP_DELEGATE)
			status = check_call(o, i, n_most, diag);
	return status;
}

enum et_status et_overlap_check(const struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag)
{
	struct et_pool pool;
	struct overlaps overlaps = { .plan = plan };
	et_pool_init(&pool, allocator);
	enum et_status status = check_calls(&overlaps, &pool, diag);
	et_pool_deinit(&pool);
	return status;
}

static size_t bytes_of(const struct et_tensor *tensor, bool is_written)
{
	return is_written ? tensor->capacity * et_scalar_size((enum et_scalar_type)tensor->type)
			  : et_tensor_n_bytes(tensor);
}

enum et_status et_overlap_check_args(struct et_evalue *const *args, uint32_t n_inputs, uint32_t n_args,
	struct et_diag *diag)
{
	for (uint32_t i = n_inputs; i < n_args; i++) {
		if (args[i]->tag != ET_TAG_TENSOR)
			continue;
		uintptr_t start = (uintptr_t)args[i]->tensor->data;
		size_t n_bytes = bytes_of(args[i]->tensor, true);
		for (uint32_t k = 0; k < n_args && n_bytes; k++) {
			if (k == i || args[k]->tag != ET_TAG_TENSOR)
				continue;
			const struct et_tensor *other = args[k]->tensor;
			uintptr_t at = (uintptr_t)other->data;
			size_t n_other = bytes_of(other, k >= n_inputs);
			if (n_other && start < at + n_other && at < start + n_bytes)
				return et_fail(diag, ET_E_INVALID_PROGRAM,
					"arguments %u and %u share memory, and the call writes to the second", k, i);
		}
	}
	return ET_OK;
}
