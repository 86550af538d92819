/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a Method: the values that an instruction may read before this run has written them.
 *
 * A forward data flow analysis over all instructions. The fact it carries is a bit set "certainly written since the run
 * began". The set grows along straight code; where two paths meet, it is the intersection. There is
 *   - one bit per segment of planned memory. Arenas are cut at every planned tensor's start and end, so a write through
 *     one tensor counts for another tensor at the same place;
 *   - one bit per value, for everything whose range is not known in advance: scalars, dynamic tensors, tensors that a
 *     MoveCall may rebind, views, and tensors without planned memory.
 * Only a move clears a bit: its target becomes as written as its source.
 *
 * Sets are stored only at jump destinations (joins). A program may be made expensive on purpose: too many jumps
 * times bits, or too many sweeps before the facts are stable. It is not refused. Its joins then use only the set at
 * entry. That is always correct; at worst more memory is called state than necessary. In doubt, a value is state. */
#include "runtime/base/checked.h"
#include "runtime/base/sort.h"
#include "runtime/plan_internal.h"

#include <string.h>

enum {
	MAX_SET_BYTES = 32 << 20,
	MAX_SWEEPS = 64,
	MAX_WORK = 1 << 24, /* words of sets that all sweeps may read, except the last two sweeps */
	WORD_BITS = 64
};

/* A static planned tensor's segments. */
struct range {
	uint32_t first, n; /* segment numbers */
};

struct join {
	uint64_t *set; /* NULL: use the set at entry */
	bool is_reached;
};

struct flow {
	struct et_plan *plan;
	struct et_pool pool;
	struct range *ranges; /* one per value; n = 0: the value has only its own bit */
	uint32_t n_segments;
	size_t n_words;
	size_t n_work; /* words read so far */
	uint64_t *entry, *now;
	uint32_t *join_of; /* one per instruction, and one for the end; 0: no join */
	struct join *joins;
	uint32_t n_joins;
	bool is_final; /* the facts are stable: this sweep marks what is state */
	bool is_coarse;
};

/* --- bits ------------------------------------------------------------------------------------------------ */

static uint64_t mask_of(size_t from, size_t to)
{
	uint64_t mask = ~UINT64_C(0) << from;
	return to == WORD_BITS ? mask : mask & ((UINT64_C(1) << to) - 1);
}

static void bits_set(uint64_t *set, size_t first, size_t n)
{
	while (n) {
		size_t at = first % WORD_BITS;
		size_t take = n < WORD_BITS - at ? n : WORD_BITS - at;
		set[first / WORD_BITS] |= mask_of(at, at + take);
		first += take;
		n -= take;
	}
}

static bool bits_all(const uint64_t *set, size_t first, size_t n)
{
	while (n) {
		size_t at = first % WORD_BITS;
		size_t take = n < WORD_BITS - at ? n : WORD_BITS - at;
		uint64_t mask = mask_of(at, at + take);
		if ((set[first / WORD_BITS] & mask) != mask)
			return false;
		first += take;
		n -= take;
	}
	return true;
}

static size_t value_bit(const struct flow *flow, uint32_t value_index)
{
	return (size_t)flow->n_segments + value_index;
}

/* --- segments -------------------------------------------------------------------------------------------- */

static bool is_planned(const struct et_plan *plan, uint32_t value_index)
{
	const struct et_value_spec *value = &plan->spec->values[value_index];
	return value->tag == ET_TAG_TENSOR && value->tensor->storage == ET_STORAGE_PLANNED;
}

static bool has_segments(const struct et_plan *plan, uint32_t value_index)
{
	return is_planned(plan, value_index) && plan->spec->values[value_index].tensor->dynamism == ET_STATIC &&
	       !plan->values[value_index].is_moved && !plan->values[value_index].is_view;
}

static bool cut_arenas(struct flow *flow)
{
	const struct et_method_spec *spec = flow->plan->spec;
	flow->ranges = ET_POOL_NEW_ARRAY(&flow->pool, struct range, spec->n_values);
	struct et_sort_item *cuts = et_pool_scratch_array(&flow->pool, 4 * (size_t)spec->n_values, sizeof *cuts);
	if (!flow->ranges || !cuts)
		return false;
	struct et_sort_item *room = cuts + 2 * (size_t)spec->n_values;
	for (uint32_t arena = 0; arena < spec->n_arenas; arena++) {
		size_t n = 0;
		for (uint32_t value_index = 0; value_index < spec->n_values; value_index++) {
			const struct et_tensor_spec *tensor = spec->values[value_index].tensor;
			if (!has_segments(flow->plan, value_index) || tensor->arena != arena)
				continue;
			cuts[n++] = (struct et_sort_item){ tensor->offset, value_index };
			cuts[n++] = (struct et_sort_item){ tensor->offset + tensor->n_bytes, value_index };
		}
		if (!n)
			continue;
		et_sort_by_key(cuts, room, n);
		uint32_t segment = flow->n_segments;
		for (size_t i = 0; i < n; i++) {
			const struct et_tensor_spec *tensor = spec->values[cuts[i].index].tensor;
			struct range *range = &flow->ranges[cuts[i].index];
			segment += i && cuts[i].key != cuts[i - 1].key;
			if (cuts[i].key == tensor->offset)
				range->first = segment;
			if (cuts[i].key == tensor->offset + tensor->n_bytes)
				range->n = segment - range->first;
		}
		flow->n_segments = segment + 1;
	}
	return true;
}

/* --- facts ------------------------------------------------------------------------------------------------ */

static bool is_written(struct flow *flow, uint32_t value_index)
{
	const struct range *range = &flow->ranges[value_index];
	flow->n_work += range->n / WORD_BITS + 1;
	if (range->n)
		return bits_all(flow->now, range->first, range->n);
	return bits_all(flow->now, value_bit(flow, value_index), 1);
}

static void set_written(struct flow *flow, uint64_t *set, uint32_t value_index)
{
	const struct range *range = &flow->ranges[value_index];
	flow->n_work += range->n / WORD_BITS + 1;
	bits_set(set, range->first, range->n);
	bits_set(set, value_bit(flow, value_index), 1);
}

/* Note if the bytes of @value_index may come from another tensor at the same place. */
static void note_borrowing(struct flow *flow, uint32_t value_index)
{
	if (flow->is_final && !bits_all(flow->now, value_bit(flow, value_index), 1))
		flow->plan->values[value_index].is_borrowing = true;
}

static void on_read(void *arg, uint32_t value_index, unsigned access)
{
	struct flow *flow = arg;
	(void)access;
	note_borrowing(flow, value_index);
	if (flow->is_final && !flow->plan->values[value_index].is_state && !is_written(flow, value_index))
		flow->plan->values[value_index].is_state = true;
}

static void on_write(void *arg, uint32_t value_index, unsigned access)
{
	struct flow *flow = arg;
	(void)access;
	set_written(flow, flow->now, value_index);
}

static void move(struct flow *flow, uint32_t from, uint32_t to)
{
	if (from == to)
		return;
	if (flow->plan->spec->values[from].tag != ET_TAG_TENSOR) {
		on_read(flow, from, ET_ACCESS_READ);
		set_written(flow, flow->now, to);
		return;
	}
	note_borrowing(flow, from);
	size_t bit = value_bit(flow, to); /* a move's target never has segments */
	if (is_written(flow, from))
		bits_set(flow->now, bit, 1);
	else
		flow->now[bit / WORD_BITS] &= ~(UINT64_C(1) << bit % WORD_BITS);
}

static void make_entry(struct flow *flow)
{
	const struct et_plan *plan = flow->plan;
	for (uint32_t value_index = 0; value_index < plan->spec->n_values; value_index++) {
		const struct et_value_spec *value = &plan->spec->values[value_index];
		const struct et_plan_value *facts = &plan->values[value_index];
		bool holds = facts->is_input;
		if (value->tag == ET_TAG_TENSOR)
			holds |= value->tensor->storage == ET_STORAGE_CONSTANT ||
				 (value->tensor->n_bytes == 0 && value->tensor->storage == ET_STORAGE_PLANNED);
		else
			holds |= !facts->is_written; /* unchanged since the export */
		if (holds)
			set_written(flow, flow->entry, value_index);
	}
}

/* --- paths ------------------------------------------------------------------------------------------------- */

static bool find_joins(struct flow *flow)
{
	const struct et_plan *plan = flow->plan;
	uint32_t n = plan->spec->n_instructions;
	flow->join_of = ET_POOL_NEW_ARRAY(&flow->pool, uint32_t, (size_t)n + 1);
	if (!flow->join_of)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (plan->instructions[i].op == ET_OP_JUMP_FALSE)
			flow->join_of[plan->instructions[i].index] = 1;
	for (uint32_t i = 0; i <= n; i++)
		if (flow->join_of[i])
			flow->join_of[i] = ++flow->n_joins;
	flow->joins = ET_POOL_NEW_ARRAY(&flow->pool, struct join, (size_t)flow->n_joins + 1);
	if (!flow->joins)
		return false;
	flow->is_coarse = flow->n_joins && flow->n_words > MAX_SET_BYTES / sizeof(uint64_t) / flow->n_joins;
	for (uint32_t j = 1; j <= flow->n_joins && !flow->is_coarse; j++) {
		flow->joins[j].set = ET_POOL_NEW_ARRAY(&flow->pool, uint64_t, flow->n_words);
		if (!flow->joins[j].set)
			return false;
	}
	return true;
}

/* Merge the current set into @join. True if that changed the join. */
static bool arrive(struct flow *flow, struct join *join)
{
	bool changed = !join->is_reached;
	flow->n_work += flow->n_words;
	if (flow->is_coarse) {
		join->is_reached = true;
		return changed;
	}
	if (changed) {
		memcpy(join->set, flow->now, flow->n_words * sizeof(uint64_t));
		join->is_reached = true;
		return true;
	}
	for (size_t w = 0; w < flow->n_words; w++) {
		uint64_t both = join->set[w] & flow->now[w];
		changed |= both != join->set[w];
		join->set[w] = both;
	}
	return changed;
}

/* 1 or 0 if the condition is a Bool that no instruction writes, else -1. */
static int fixed_condition(const struct et_plan *plan, uint32_t value_index)
{
	const struct et_value_spec *value = &plan->spec->values[value_index];
	if (value->tag != ET_TAG_BOOL || plan->values[value_index].is_written || plan->values[value_index].is_input)
		return -1;
	return value->b;
}

/* One pass over all instructions. True if a join earlier in the program changed, so another sweep is needed. */
static bool sweep(struct flow *flow)
{
	const struct et_plan *plan = flow->plan;
	uint32_t n = plan->spec->n_instructions;
	bool is_alive = true, again = false;
	memcpy(flow->now, flow->entry, flow->n_words * sizeof(uint64_t));
	for (uint32_t i = 0; i <= n; i++) {
		struct join *join = flow->join_of[i] ? &flow->joins[flow->join_of[i]] : NULL;
		if (join) {
			if (is_alive)
				arrive(flow, join);
			is_alive = join->is_reached;
			memcpy(flow->now, flow->is_coarse ? flow->entry : join->set, flow->n_words * sizeof(uint64_t));
		}
		if (i == n || !is_alive)
			continue;
		const struct et_plan_instruction *instruction = &plan->instructions[i];
		const uint32_t *value_indices = &plan->args[instruction->first_arg];
		switch (instruction->op) {
		case ET_OP_MOVE:
			move(flow, value_indices[0], value_indices[1]);
			break;
		case ET_OP_JUMP_FALSE: {
			int condition = fixed_condition(plan, value_indices[0]);
			on_read(flow, value_indices[0], ET_ACCESS_READ);
			if (condition != 1)
				again |= arrive(flow, &flow->joins[flow->join_of[instruction->index]]) &&
					 instruction->index <= i;
			is_alive = condition != 0;
			break;
		}
		case ET_OP_KERNEL:
		case ET_OP_DELEGATE:
			et_plan_visit(plan, instruction, ET_ACCESS_READ, on_read, flow);
			et_plan_visit(plan, instruction, ET_ACCESS_WRITE, on_write, flow);
			break;
		default:
			break;
		}
	}
	if (flow->is_final && is_alive)
		for (uint32_t i = 0; i < plan->spec->n_outputs; i++)
			on_read(flow, plan->spec->outputs[i], ET_ACCESS_READ);
	return again;
}

static bool analyse(struct flow *flow)
{
	struct et_plan *plan = flow->plan;
	if (!cut_arenas(flow))
		return false;
	flow->n_words = ((size_t)flow->n_segments + plan->spec->n_values) / WORD_BITS + 1;
	flow->entry = ET_POOL_NEW_ARRAY(&flow->pool, uint64_t, flow->n_words);
	flow->now = ET_POOL_NEW_ARRAY(&flow->pool, uint64_t, flow->n_words);
	if (!flow->entry || !flow->now || !find_joins(flow))
		return false;
	make_entry(flow);
	/* If all jumps go forward, every path to a join is complete before the join: one sweep is enough. */
	flow->is_final = !plan->has_back_jump;
	for (int n = 0; sweep(flow); n++) {
		if (n < MAX_SWEEPS && flow->n_work < MAX_WORK)
			continue;
		/* the facts are not stable: use the set at entry, and treat every join as reachable */
		flow->is_coarse = true;
		for (uint32_t j = 1; j <= flow->n_joins; j++)
			flow->joins[j].is_reached = true;
		break;
	}
	if (flow->is_final)
		return true;
	flow->is_final = true;
	sweep(flow);
	return true;
}

/* Draw the consequences. If a value that may refer to other tensors is state, so is its whole alias class. A scalar
 * that no instruction writes is not state. */
static void spread_state(struct et_plan *plan)
{
	struct et_plan_value *values = plan->values;
	uint32_t n = plan->spec->n_values;
	for (uint32_t value_index = 0; value_index < n; value_index++)
		if (values[value_index].is_state && (values[value_index].is_moved || values[value_index].is_view))
			values[values[value_index].alias].is_class_state = true;
	for (uint32_t value_index = 0; value_index < n; value_index++) {
		const struct et_value_spec *value = &plan->spec->values[value_index];
		if (value->tag != ET_TAG_TENSOR) {
			values[value_index].is_state &= values[value_index].is_written && et_tag_is_scalar(value->tag);
			continue;
		}
		if (values[values[value_index].alias].is_class_state)
			values[value_index].is_state = true;
		if (value->tensor->constant || value->tensor->arena == plan->shared_arena)
			values[value_index].is_state = true;
		if (value->tensor->storage != ET_STORAGE_PLANNED)
			values[value_index].is_state = false; /* no memory of its own */
	}
}

enum et_status et_dataflow_run(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag)
{
	struct flow flow = { .plan = plan };
	et_pool_init(&flow.pool, allocator);
	bool is_done = analyse(&flow);
	et_pool_deinit(&flow.pool);
	if (!is_done)
		return et_plan_no_memory(diag);
	spread_state(plan);
	return ET_OK;
}
