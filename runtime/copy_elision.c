/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that cost nothing: the output of a kernel that only copies gets its elements' place in the input.
 *
 * Exporters write reshapes and parts as copies (expand_copy, view_copy, clone; slice_copy, select_copy, split_copy). A
 * kernel all of whose outputs are there already has nothing to do but to check its arguments. If these are the same in
 * each run, one call that succeeds is enough. Each tensor below is one that the program plans, has fixed sizes, is in
 * no state, is neither input nor output, and is written once. Let instruction i write the output Y, and X be the input
 * or the tensor that the input is a view of. Both are of one type and in row-major order, and Y's elements follow each
 * other in X, from a multiple of 16 bytes on. Then
 *   - Y gets their place, if from i to Y's last use nothing writes there. Copies that are elided do not write;
 *   - else X gets a place where no other tensor is alive from X's first to both tensors' last use, if there is one
 *     in the memory that the activations take anyway, and if X does not share its place already.
 * The result must stay what it was, even of a program in which tensors overwrite each other. So no other tensor may be
 * alive, while a moved one is, on the place that the program plans for it. No value may be read for bytes that a
 * tensor at the same place wrote (is_borrowing), and no jump goes backward.
 * Lifetimes are those of lifetime.c: all members of an alias class, views included, have the same. */
#include "runtime/base/checked.h"
#include "runtime/base/sort.h"
#include "runtime/plan_internal.h"

/* Exporters align activations to this. A delegate copies what is less aligned than its device needs, which may be more
 * than this: what it uses stays as aligned as planned. */
enum { ALIGNMENT = 16 };

/* One per value; what holds for an alias class is at its root. */
struct facts {
	uint32_t n_writes; /* calls that write to the class's memory */
	uint32_t written;  /* the last instruction that may write to it, counted from 1 */
	uint32_t base;     /* the only member with memory of its own, or ET_NO_VALUE */
	bool is_fixed;     /* the class keeps its place */
	bool is_elided;    /* this value's copy is elided */
	bool is_pinned;    /* this value shares its place with another one */
	bool is_delegated; /* a delegate uses the class */
	uint32_t span;     /* this value's, if it lies in the activations */
};

/* A tensor that lies in the activations. The loops over all of them read nothing else. */
struct span {
	size_t at, n_bytes;
	size_t planned_at;    /* its place before any change */
	uint32_t first, last; /* its lifetime */
	uint32_t value;
};

struct elision {
	struct et_plan *plan;
	const uint8_t *places;
	size_t *offsets;
	size_t n_bytes; /* of all activations */
	size_t *n_comparisons_left;
	struct facts *facts;
	struct span *spans;
	uint32_t n_spans;
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

struct use {
	const struct elision *e;
	uint32_t when; /* the instruction, counted from 1 */
	bool is_delegate;
};

static void count_use(void *arg, uint32_t value_index, unsigned access)
{
	const struct use *use = arg;
	struct facts *class = class_of(use->e, value_index);
	class->is_delegated |= use->is_delegate;
	if (!(access & ET_ACCESS_WRITE) || access & ET_ACCESS_VIEW)
		return;
	class->n_writes++;
	class->written = use->when;
}

/* False: no copy can be elided. */
static bool collect(struct elision *e)
{
	const struct et_plan *plan = e->plan;
	uint32_t n = plan->spec->n_values;
	for (uint32_t v = 0; v < n; v++)
		e->facts[v] = (struct facts){ .base = ET_NO_VALUE };
	for (uint32_t v = 0; v < n; v++) {
		const struct et_plan_value *value = &plan->values[v];
		if (!is_tensor(e, v))
			continue;
		if (value->is_borrowing)
			return false;
		if (e->places[v] == ET_PLACE_ACTIVATION) {
			e->facts[v].span = e->n_spans;
			e->spans[e->n_spans++] = (struct span){ e->offsets[v], spec_of(e, v)->n_bytes, e->offsets[v],
				value->first, value->last, v };
		}
		struct facts *class = class_of(e, v);
		class->is_fixed |= value->is_input || value->is_output || value->is_state || value->is_moved ||
				   value->is_freed;
		if (value->is_view)
			continue;
		class->is_fixed |= class->base != ET_NO_VALUE || e->places[v] != ET_PLACE_ACTIVATION ||
				   spec_of(e, v)->dynamism != ET_STATIC;
		class->base = v;
	}
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		struct use use = { e, i + 1, plan->instructions[i].op == ET_OP_DELEGATE };
		et_plan_visit(plan, &plan->instructions[i], ET_ACCESS_READ | ET_ACCESS_WRITE, count_use, &use);
	}
	return true;
}

/* Whether the class has one tensor with memory, which is written once and may share it. */
static bool may_share(const struct facts *class)
{
	return !class->is_fixed && class->base != ET_NO_VALUE && class->n_writes == 1;
}

static bool overlap(size_t a, size_t n_a, size_t b, size_t n_b)
{
	return a < b + n_b && b < a + n_a;
}

/* Whether @other may write to its place in instruction @when, counted from 1, or later until @last. */
static bool may_write(const struct elision *e, uint32_t other, uint32_t when, uint32_t last)
{
	const struct et_plan_value *value = &e->plan->values[other];
	if (e->facts[other].is_elided)
		return false;
	const struct facts *class = class_of(e, other);
	/* its only write; not its first use, which an instruction that never runs may be */
	if (may_share(class))
		return class->written >= when && class->written <= last;
	return value->last >= when && value->first <= last;
}

/* Whether a run uses the tensor at some time from instruction @first to @last, counted from 1. */
static bool is_alive(const struct span *span, uint32_t first, uint32_t last)
{
	return span->first <= span->last && span->first <= last && span->last >= first;
}

static const struct span *span_of(const struct elision *e, uint32_t value_index)
{
	return &e->spans[e->facts[value_index].span];
}

static void set_place(struct elision *e, uint32_t value_index, size_t at)
{
	e->offsets[value_index] = e->spans[e->facts[value_index].span].at = at;
}

/* Whether @value_index can leave the place that the program plans for it, having been there from @first on. */
static bool can_leave(const struct elision *e, uint32_t value_index, uint32_t first)
{
	const struct span *self = span_of(e, value_index);
	for (const struct span *s = e->spans; s < e->spans + e->n_spans; s++)
		if (s != self && overlap(s->planned_at, s->n_bytes, self->planned_at, self->n_bytes) &&
			is_alive(s, first, self->last))
			return false;
	return true;
}

/* Whether the output @y of instruction @when can lie at @at, in @x's place. */
static bool can_follow(const struct elision *e, uint32_t x, uint32_t y, size_t at, uint32_t when)
{
	const struct span *self = span_of(e, x), *copy = span_of(e, y);
	for (const struct span *s = e->spans; s < e->spans + e->n_spans; s++)
		if (overlap(s->at, s->n_bytes, at, copy->n_bytes) && s != self && s != copy &&
			may_write(e, s->value, when, copy->last))
			return false;
	return can_leave(e, y, when);
}

/* Find a place for @x where @y can lie in it. */
static bool find_gap(struct elision *e, uint32_t x, uint32_t y, size_t *ret_at)
{
	const struct span *self = span_of(e, x), *copy = span_of(e, y);
	uint32_t last = self->last > copy->last ? self->last : copy->last;
	size_t n_bytes = self->n_bytes, n = 0, at = 0, end;
	if (e->facts[x].is_pinned || !can_leave(e, x, self->first) || !can_leave(e, y, copy->first))
		return false;
	for (const struct span *s = e->spans; s < e->spans + e->n_spans; s++)
		if (s != self && s != copy && is_alive(s, self->first, last))
			e->alive[n++] = (struct et_sort_item){ s->at, s->value };
	et_sort_by_key(e->alive, e->alive + e->plan->spec->n_values, n);
	for (size_t i = 0; i < n && e->alive[i].key < at + n_bytes; i++)
		if (et_align_up(e->alive[i].key + spec_of(e, e->alive[i].index)->n_bytes, ET_PLAN_LINE, &end) &&
			end > at)
			at = end;
	*ret_at = at;
	return n_bytes <= e->n_bytes && at <= e->n_bytes - n_bytes;
}

/* Whether five more loops over all spans, and a sort of them, are allowed; if so, count them. */
static bool may_compare(const struct elision *e)
{
	size_t n = 16 * (size_t)e->n_spans;
	if (*e->n_comparisons_left < n)
		return false;
	*e->n_comparisons_left -= n;
	return true;
}

/* A call that copies a part of its first argument. */
struct part {
	struct elision *e;
	uint32_t when;      /* the instruction, counted from 1 */
	uint32_t in;        /* the first argument */
	size_t at, n_bytes; /* what is left of the part */
	size_t n_outputs, n_elided;
	bool is_constant; /* no input of the program is an argument or in a list */
};

/* Values that instructions change need no look here: the call has a check for them (lifetime.c). */
static void find_variable(void *arg, uint32_t value_index, unsigned access)
{
	struct part *part = arg;
	(void)access;
	part->is_constant &= !part->e->plan->values[value_index].is_input;
}

/* Elide the copy to the output @out, if it can be. */
static void elide_output(void *arg, uint32_t out, unsigned access)
{
	struct part *part = arg;
	struct elision *e = part->e;
	const struct et_plan *plan = e->plan;
	const struct et_tensor_spec *self = spec_of(e, part->in), *copy = spec_of(e, out);
	const struct facts *from = class_of(e, part->in), *to = class_of(e, out);
	const uint32_t base = from->base;
	const size_t planned = e->offsets[out] | ET_PLAN_LINE, alignment = to->is_delegated ? planned & -planned : 1;
	size_t n_skipped = part->at, at;
	(void)access;
	part->n_outputs++;
	if (self->type != copy->type || part->n_bytes < copy->n_bytes) {
		part->n_bytes = 0; /* nobody knows where the next outputs are */
		return;
	}
	part->at += copy->n_bytes;
	part->n_bytes -= copy->n_bytes;
	if (from == to || !may_share(from) || !may_share(to) || to->base != out ||
		plan->values[out].first != part->when || from->written >= part->when)
		return;
	if (!et_dim_order_is_contiguous(copy->dim_order, copy->n_dims) || spec_of(e, base)->n_bytes != self->n_bytes ||
		n_skipped % ALIGNMENT || !may_compare(e))
		return;
	at = e->offsets[base];
	if ((at + n_skipped) % alignment || !can_follow(e, base, out, at + n_skipped, part->when)) {
		if (n_skipped % alignment || !find_gap(e, base, out, &at)) /* a gap begins at a line */
			return;
		set_place(e, base, at);
	}
	set_place(e, out, e->offsets[base] + n_skipped);
	e->facts[out].is_elided = e->facts[out].is_pinned = e->facts[base].is_pinned = true;
	e->plan->info.n_elided_copies++;
	part->n_elided++;
}

/* Ask the kernel which part of the tensor @self it copies. False: none, or that is not known before it runs. */
static bool find_part(const struct et_plan *plan, const struct et_plan_instruction *call,
	const struct et_tensor_spec *self, size_t *ret_first, size_t *ret_n)
{
	struct et_evalue values[ET_KERNEL_MAX_ARGS] = { 0 }, *args[ET_KERNEL_MAX_ARGS];
	struct et_tensor tensor = {
		.sizes = (int32_t *)(uintptr_t)self->sizes, /* which find_part does not change */
		.type = self->type,
		.n_dims = self->n_dims,
	};
	for (uint32_t a = 0; a < call->n_args; a++) {
		uint32_t value_index = plan->args[call->first_arg + a];
		const struct et_value_spec *value = &plan->spec->values[value_index];
		const struct et_plan_value *facts = &plan->values[value_index];
		if (et_tag_is_scalar(value->tag) && (facts->is_written || facts->is_input))
			return false;
		values[a].tag = value->tag;
		if (value->tag == ET_TAG_INT)
			values[a].i = value->i;
		args[a] = &values[a];
	}
	values[0].tensor = &tensor;
	return plan->operators[call->index].kernel->find_part(args, ret_first, ret_n);
}

static void elide(struct elision *e, struct et_plan_instruction *call, uint32_t when)
{
	const struct et_plan *plan = e->plan;
	const struct et_kernel *kernel = plan->operators[call->index].kernel;
	if (!kernel->only_copies && !kernel->find_part)
		return;
	struct part part = { .e = e, .when = when, .in = plan->args[call->first_arg], .is_constant = true };
	if (!is_tensor(e, part.in))
		return;
	const struct et_tensor_spec *self = spec_of(e, part.in);
	size_t first = 0, size = et_scalar_size(self->type), n_all = self->n_bytes / size, n = n_all;
	if (self->dynamism != ET_STATIC || !et_dim_order_is_contiguous(self->dim_order, self->n_dims) ||
		(kernel->find_part && !find_part(plan, call, self, &first, &n)) || first > n_all || n > n_all - first)
		return;
	part.at = first * size;
	part.n_bytes = n * size;
	et_plan_visit(plan, call, ET_ACCESS_WRITE, elide_output, &part);
	et_plan_visit(plan, call, ET_ACCESS_READ, find_variable, &part);
	call->runs_once = part.n_elided == part.n_outputs && part.n_bytes == 0 && part.is_constant && !call->n_checks;
}

enum et_status et_copy_elision_run(struct et_plan *plan, const uint8_t *places, size_t *offsets, size_t n_bytes,
	size_t *n_comparisons_left, struct et_pool *pool)
{
	struct elision e = { plan, places, offsets, n_bytes, n_comparisons_left, NULL, NULL, 0, NULL };
	if (plan->has_back_jump)
		return ET_OK;
	e.facts = ET_POOL_NEW_ARRAY(pool, struct facts, plan->spec->n_values);
	e.spans = ET_POOL_NEW_ARRAY(pool, struct span, plan->spec->n_values);
	e.alive = et_pool_scratch_array(pool, 2 * (size_t)plan->spec->n_values, sizeof(*e.alive));
	if (!e.facts || !e.spans || !e.alive)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	if (!collect(&e))
		return ET_OK;
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		struct et_plan_instruction *call = &plan->instructions[i];
		if (call->op == ET_OP_KERNEL)
			elide(&e, call, i + 1);
	}
	return ET_OK;
}
