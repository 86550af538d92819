/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that cost nothing: the output of a kernel that only copies gets its input's place.
 *
 * Exporters write reshapes as copies (expand_copy, view_copy, clone). The kernel still runs, but finds its output's
 * elements where they are, and returns. Each tensor below is one that the program plans, has fixed sizes, is in no
 * state, is neither input nor output, and is written once. Let instruction i write the output Y, and X be the input or
 * the tensor that the input is a view of. Both have as many elements of one type, in row-major order. Then
 *   - Y gets X's place, if from i to Y's last use nothing writes there. Copies that are elided do not write;
 *   - else both get a place where no other tensor is alive from X's first to both tensors' last use, if there is one
 *     in the memory that the activations take anyway, and if X does not share its place already.
 * The result must stay what it was, even of a program in which tensors overwrite each other. So no other tensor may be
 * alive, while a moved one is, on the place that the program plans for it. No value may be read for bytes that a
 * tensor at the same place wrote (is_borrowing), and no jump goes backward.
 * Lifetimes are those of lifetime.c: all members of an alias class, views included, have the same. */
#include "runtime/base/checked.h"
#include "runtime/base/sort.h"
#include "runtime/plan_internal.h"

/* One per value; what holds for an alias class is at its root. */
struct facts {
	uint32_t n_writes; /* calls that write to the class's memory */
	uint32_t base;     /* the only member with memory of its own, or ET_NO_VALUE */
	bool is_fixed;     /* the class keeps its place */
	bool is_elided;    /* this value's copy is elided */
	bool is_pinned;    /* this value shares its place with another one */
	size_t planned_at; /* this value's place before any change */
};

struct elision {
	struct et_plan *plan;
	const uint8_t *places;
	size_t *offsets;
	size_t n_bytes; /* of all activations */
	size_t *n_comparisons_left;
	struct facts *facts;
	struct et_sort_item *alive; /* some tensors by offset, index: the value; then room for the sort */
};

static const struct et_tensor_spec *spec_of(const struct elision *e, uint32_t value_index)
{
	const struct et_tensor_spec *reordered = e->plan->values[value_index].reordered;
	return reordered ? reordered : e->plan->spec->values[value_index].tensor;
}

static bool is_tensor(const struct elision *e, uint32_t value_index)
{
	return e->plan->spec->values[value_index].tag == ET_TAG_TENSOR;
}

static struct facts *class_of(const struct elision *e, uint32_t value_index)
{
	return &e->facts[et_lifetime_root(e->plan, value_index)];
}

static void count_write(void *arg, uint32_t value_index, unsigned access)
{
	const struct elision *e = arg;
	if (!(access & ET_ACCESS_VIEW))
		class_of(e, value_index)->n_writes++;
}

/* False: no copy can be elided. */
static bool collect(struct elision *e)
{
	const struct et_plan *plan = e->plan;
	uint32_t n = plan->spec->n_values;
	for (uint32_t v = 0; v < n; v++)
		e->facts[v] = (struct facts){ .base = ET_NO_VALUE, .planned_at = e->offsets[v] };
	for (uint32_t v = 0; v < n; v++) {
		const struct et_plan_value *value = &plan->values[v];
		if (!is_tensor(e, v))
			continue;
		if (value->is_borrowing)
			return false;
		struct facts *class = class_of(e, v);
		class->is_fixed |= value->is_input || value->is_output || value->is_state || value->is_moved ||
				   value->is_freed;
		if (value->is_view)
			continue;
		class->is_fixed |= class->base != ET_NO_VALUE || e->places[v] != ET_PLACE_ACTIVATION ||
				   spec_of(e, v)->dynamism != ET_STATIC;
		class->base = v;
	}
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++)
		et_plan_visit(plan, &plan->instructions[i], ET_ACCESS_WRITE, count_write, e);
	return true;
}

/* Whether the class has one tensor with memory, which is written once and may share it. */
static bool may_share(const struct facts *class)
{
	return !class->is_fixed && class->base != ET_NO_VALUE && class->n_writes == 1;
}

static bool overlap(const struct elision *e, size_t a, uint32_t of_a, size_t b, uint32_t of_b)
{
	return a < b + spec_of(e, of_b)->n_bytes && b < a + spec_of(e, of_a)->n_bytes;
}

/* Whether @other may write to its place after instruction @when, counted from 1, until @last. */
static bool may_write(const struct elision *e, uint32_t other, uint32_t when, uint32_t last)
{
	const struct et_plan_value *value = &e->plan->values[other];
	if (e->facts[other].is_elided)
		return false;
	if (may_share(class_of(e, other))) /* its first use is its only write, because it is not state */
		return value->first > when && value->first <= last;
	return value->last > when && value->first <= last;
}

/* Whether a run uses @value_index at some time from instruction @first to @last, counted from 1. */
static bool is_alive(const struct elision *e, uint32_t value_index, uint32_t first, uint32_t last)
{
	const struct et_plan_value *value = &e->plan->values[value_index];
	return value->first <= value->last && value->first <= last && value->last >= first;
}

/* Whether @value_index can leave the place that the program plans for it, having been there from @first on. */
static bool can_leave(const struct elision *e, uint32_t value_index, uint32_t first)
{
	const struct facts *facts = e->facts;
	for (uint32_t v = 0; v < e->plan->spec->n_values; v++)
		if (v != value_index && is_tensor(e, v) && e->places[v] == ET_PLACE_ACTIVATION &&
			overlap(e, facts[v].planned_at, v, facts[value_index].planned_at, value_index) &&
			is_alive(e, v, first, e->plan->values[value_index].last))
			return false;
	return true;
}

/* Whether the output @y of instruction @when can lie at @x's place. */
static bool can_follow(const struct elision *e, uint32_t x, uint32_t y, uint32_t when)
{
	for (uint32_t v = 0; v < e->plan->spec->n_values; v++)
		if (v != x && v != y && is_tensor(e, v) && e->places[v] == ET_PLACE_ACTIVATION &&
			overlap(e, e->offsets[v], v, e->offsets[x], x) &&
			may_write(e, v, when, e->plan->values[y].last))
			return false;
	return can_leave(e, y, when);
}

/* Find a place where both @x and @y can lie. */
static bool find_gap(struct elision *e, uint32_t x, uint32_t y, size_t *ret_at)
{
	const struct et_plan_value *self = &e->plan->values[x], *copy = &e->plan->values[y];
	uint32_t last = self->last > copy->last ? self->last : copy->last;
	size_t n_bytes = spec_of(e, y)->n_bytes, n = 0, at = 0, end;
	if (e->facts[x].is_pinned || !can_leave(e, x, self->first) || !can_leave(e, y, copy->first))
		return false;
	for (uint32_t v = 0; v < e->plan->spec->n_values; v++)
		if (v != x && v != y && is_tensor(e, v) && e->places[v] == ET_PLACE_ACTIVATION &&
			is_alive(e, v, self->first, last))
			e->alive[n++] = (struct et_sort_item){ e->offsets[v], v };
	et_sort_by_key(e->alive, e->alive + e->plan->spec->n_values, n);
	for (size_t i = 0; i < n && e->alive[i].key < at + n_bytes; i++)
		if (et_align_up(e->alive[i].key + spec_of(e, e->alive[i].index)->n_bytes, ET_PLAN_LINE, &end) &&
			end > at)
			at = end;
	*ret_at = at;
	return n_bytes <= e->n_bytes && at <= e->n_bytes - n_bytes;
}

/* Whether five more loops over all values, and a sort of them, are allowed; if so, count them. */
static bool may_compare(const struct elision *e)
{
	size_t n = 16 * (size_t)e->plan->spec->n_values;
	if (*e->n_comparisons_left < n)
		return false;
	*e->n_comparisons_left -= n;
	return true;
}

static void elide(struct elision *e, const struct et_plan_instruction *call, uint32_t when)
{
	const struct et_plan *plan = e->plan;
	const struct et_plan_operator *how = &plan->operators[call->index];
	uint32_t in = plan->args[call->first_arg], out = ET_NO_VALUE;
	for (uint32_t a = 1; a < call->n_args; a++)
		if (how->args[a].is_written)
			out = plan->args[call->first_arg + a];
	if (out == ET_NO_VALUE || !is_tensor(e, in) || !is_tensor(e, out))
		return;
	const struct facts *from = class_of(e, in), *to = class_of(e, out);
	const struct et_tensor_spec *self = spec_of(e, in), *copy = spec_of(e, out);
	if (from == to || !may_share(from) || !may_share(to) || to->base != out || plan->values[out].first != when ||
		plan->values[in].first >= when)
		return;
	if (self->dynamism != ET_STATIC || self->type != copy->type || self->n_bytes != copy->n_bytes ||
		!et_dim_order_is_contiguous(self->dim_order, self->n_dims) ||
		!et_dim_order_is_contiguous(copy->dim_order, copy->n_dims) ||
		spec_of(e, from->base)->n_bytes != copy->n_bytes)
		return;
	uint32_t base = from->base;
	size_t at;
	if (!may_compare(e))
		return;
	if (can_follow(e, base, out, when))
		e->offsets[out] = e->offsets[base];
	else if (find_gap(e, base, out, &at))
		e->offsets[out] = e->offsets[base] = at;
	else
		return;
	e->facts[out].is_elided = e->facts[out].is_pinned = e->facts[base].is_pinned = true;
	e->plan->info.n_elided_copies++;
}

enum et_status et_copy_elision_run(struct et_plan *plan, const uint8_t *places, size_t *offsets, size_t n_bytes,
	size_t *n_comparisons_left, struct et_pool *pool)
{
	struct elision e = { plan, places, offsets, n_bytes, n_comparisons_left, NULL, NULL };
	if (plan->has_back_jump)
		return ET_OK;
	e.facts = ET_POOL_NEW_ARRAY(pool, struct facts, plan->spec->n_values);
	e.alive = et_pool_scratch_array(pool, 2 * (size_t)plan->spec->n_values, sizeof(*e.alive));
	if (!e.facts || !e.alive)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	if (!collect(&e))
		return ET_OK;
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_plan_instruction *call = &plan->instructions[i];
		if (call->op == ET_OP_KERNEL && plan->operators[call->index].kernel->only_copies)
			elide(&e, call, i + 1);
	}
	return ET_OK;
}
