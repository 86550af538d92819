/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory layout of a Plan: where each tensor lies, and which inputs and outputs may lie in the client's memory.
 *
 * The program's memory plan gives every planned tensor a range of an arena. Tensors whose ranges overlap, directly or
 * through other tensors, form a component. A component moves as a whole and keeps its inner offsets and its alignment
 * (to 64 bytes), so the program cannot see the move. Each component goes to one of two places:
 *     state         if any tensor in it is state. A Method's private state is laid out here, once per Plan. State that
 *                   Methods share keeps the program's offsets;
 *     activations   all other components. They belong to a frame.
 * So every tensor is wholly in one place, and two tensors share memory exactly where the program plans it, but for
 * copies that are elided (copy_elision.c).
 *
 * An input or output is bound to the client's memory only if no other value can observe the difference:
 *   - no tensor that is alive at the same time overlaps its range, nor one that passes bytes to it or from it;
 *   - it is not state, a constant or a view, and not moved or freed;
 *   - it appears once, and not both as an input and as an output;
 *   - no instruction writes to an input.
 * Otherwise a run copies it, and et_io_info.zero_copy is false. A run also copies if the check would take too long. */
#include "runtime/base/checked.h"
#include "runtime/base/sort.h"
#include "runtime/plan_internal.h"

#include <string.h>

enum {
	/* Limit on comparisons between inputs or outputs and other tensors. Only a hostile program needs more; its
	 * remaining inputs and outputs are then copied. */
	MAX_COMPARISONS = 1 << 24,
	/* Unaligned constants are copied once per tensor, and many tensors may share the same bytes of the file.
	 * More than this many times the size of the largest file involved is an attempt to waste memory, and is
	 * refused. */
	MAX_COPIES = 16,
};

/* --- components ------------------------------------------------------------------------------------------- */

struct layout {
	struct et_plan *plan;
	struct et_pool pool;
	struct et_sort_item *planned; /* an arena's tensors by offset, index: the value; then room for the sort */
	size_t *offsets;              /* one per value, in its new place */
	uint8_t *places;              /* enum et_place, one per value */
	bool *is_bound;               /* one per value: an input or output that can lie in the client's memory */
	size_t n_state, n_activation; /* bytes given out so far */
	size_t n_comparisons_left;    /* comparisons left */
	size_t n_largest;             /* size of the largest file that constants were copied from */
	bool is_wasteful;
	bool is_state_written;
};

/* Reserve @n_bytes with the same alignment that @offset had in the arena, up to 64 bytes. */
static bool reserve(size_t *used, size_t offset, size_t n_bytes, size_t *ret_at)
{
	size_t at;
	if (!et_align_up(*used, ET_PLAN_LINE, &at) || !et_add(at, offset % ET_PLAN_LINE, &at) ||
		!et_add(at, n_bytes, used))
		return false;
	*ret_at = at;
	return true;
}

static const struct et_tensor_spec *tensor_of(const struct et_plan *plan, uint32_t value_index)
{
	return plan->spec->values[value_index].tensor;
}

/* Whether the value is read but never written under its own name. Then its bytes are another value's: the exporter
 * put it on that value's range instead of calling a view kernel. */
static bool is_borrowed(const struct et_plan_value *value)
{
	return !value->is_written && !value->is_input;
}

/* Whether @n more comparisons are allowed; if so, count them. */
static bool may_compare(struct layout *layout, size_t n)
{
	if (n > layout->n_comparisons_left)
		return false;
	layout->n_comparisons_left -= n;
	return true;
}

/* Whether the input or output @value_index can be bound as far as the other tensors [@first, @end) of its component
 * are concerned. */
static bool is_undisturbed(struct layout *layout, uint32_t value_index, size_t first, size_t end)
{
	if (!may_compare(layout, end - first))
		return false;
	const struct et_plan *plan = layout->plan;
	const struct et_tensor_spec *self = tensor_of(plan, value_index);
	const struct et_plan_value *mine = &plan->values[value_index];
	for (size_t i = first; i < end; i++) {
		uint32_t other = layout->planned[i].index;
		const struct et_tensor_spec *tensor = tensor_of(plan, other);
		const struct et_plan_value *theirs = &plan->values[other];
		if (other == value_index || tensor->offset >= self->offset + self->n_bytes ||
			self->offset >= tensor->offset + tensor->n_bytes)
			continue;
		if (theirs->first > theirs->last)
			continue; /* no instruction uses it */
		if (is_borrowed(theirs) || is_borrowed(mine))
			return false;
		if (plan->has_back_jump || theirs->is_borrowing ||
			(theirs->first <= mine->last && mine->first <= theirs->last))
			return false;
	}
	return true;
}

static bool place_component(struct layout *layout, size_t first, size_t end, size_t n_bytes)
{
	struct et_plan *plan = layout->plan;
	size_t start = layout->planned[first].key, at;
	bool is_shared = tensor_of(plan, layout->planned[first].index)->arena == plan->shared_arena;
	bool is_state = false, is_written = false;
	for (size_t i = first; i < end; i++) {
		const struct et_plan_value *value = &plan->values[layout->planned[i].index];
		is_state |= value->is_state;
		is_written |= value->is_written || value->is_input;
	}
	layout->is_state_written |= is_state && is_written;
	at = start;
	if (!is_shared && !reserve(is_state ? &layout->n_state : &layout->n_activation, start, n_bytes, &at))
		return false;
	for (size_t i = first; i < end; i++) {
		uint32_t value_index = layout->planned[i].index;
		plan->values[value_index].is_state = is_state;
		layout->places[value_index] = is_shared  ? ET_PLACE_SHARED
					      : is_state ? ET_PLACE_STATE
							 : ET_PLACE_ACTIVATION;
		layout->offsets[value_index] = at + (tensor_of(plan, value_index)->offset - start);
		if (plan->values[value_index].is_input || plan->values[value_index].is_output)
			layout->is_bound[value_index] = !is_state && is_undisturbed(layout, value_index, first, end);
	}
	return true;
}

static bool place_arena(struct layout *layout, uint32_t arena)
{
	const struct et_method_spec *spec = layout->plan->spec;
	size_t n = 0;
	for (uint32_t value_index = 0; value_index < spec->n_values; value_index++) {
		const struct et_value_spec *value = &spec->values[value_index];
		if (value->tag == ET_TAG_TENSOR && value->tensor->storage == ET_STORAGE_PLANNED &&
			value->tensor->arena == arena)
			layout->planned[n++] = (struct et_sort_item){ value->tensor->offset, value_index };
	}
	et_sort_by_key(layout->planned, layout->planned + spec->n_values, n);
	for (size_t first = 0; first < n;) {
		size_t reach = layout->planned[first].key, i = first;
		do {
			const struct et_tensor_spec *tensor = tensor_of(layout->plan, layout->planned[i].index);
			if (tensor->offset + tensor->n_bytes > reach)
				reach = tensor->offset + tensor->n_bytes;
			i++;
		} while (i < n && layout->planned[i].key < reach);
		if (!place_component(layout, first, i, reach - layout->planned[first].key))
			return false;
		first = i;
	}
	return true;
}

/* --- inputs and outputs ------------------------------------------------------------------------------------ */

static bool occurs_once(struct layout *layout, const uint32_t *value_indices, uint32_t n, uint32_t value_index)
{
	uint32_t times = 0;
	if (!may_compare(layout, n))
		return false;
	for (uint32_t i = 0; i < n; i++)
		times += value_indices[i] == value_index;
	return times == 1;
}

/* The conditions for binding that do not depend on the place: see the essay. */
static bool may_bind(struct layout *layout, uint32_t value_index)
{
	const struct et_plan *plan = layout->plan;
	const struct et_plan_value *value = &plan->values[value_index];
	const struct et_method_spec *spec = plan->spec;
	if (value->is_moved || value->is_view || value->is_freed || (value->is_input && value->is_output))
		return false;
	if (value->is_input)
		return !value->is_written && occurs_once(layout, spec->inputs, spec->n_inputs, value_index);
	return tensor_of(plan, value_index)->storage != ET_STORAGE_CONSTANT && !value->is_borrowing &&
	       occurs_once(layout, spec->outputs, spec->n_outputs, value_index);
}

/* Decide for the input or output @value_index. An unplanned one that cannot be bound gets memory of its own. An output
 * that the run may end without having written is state there: it keeps what this Method's runs wrote, and never shows
 * what another client's run left in the frame. */
static bool settle_io(struct layout *layout, uint32_t value_index)
{
	struct et_plan *plan = layout->plan;
	if (plan->spec->values[value_index].tag != ET_TAG_TENSOR || layout->places[value_index] == ET_PLACE_CONSTANT)
		return true;
	bool is_unplanned = tensor_of(plan, value_index)->storage == ET_STORAGE_NONE;
	if (is_unplanned && layout->places[value_index] == ET_PLACE_NOWHERE)
		layout->is_bound[value_index] = true;
	layout->is_bound[value_index] = layout->is_bound[value_index] && may_bind(layout, value_index);
	if (!is_unplanned || layout->is_bound[value_index] || layout->places[value_index] != ET_PLACE_NOWHERE ||
		(!plan->values[value_index].is_input &&
			(plan->values[value_index].is_moved || plan->values[value_index].is_view)))
		return true;
	bool is_state = plan->values[value_index].is_borrowing && !plan->values[value_index].is_input;
	plan->values[value_index].is_state = is_state;
	layout->is_state_written |= is_state && plan->values[value_index].is_written;
	layout->places[value_index] = is_state ? ET_PLACE_STATE : ET_PLACE_ACTIVATION;
	return reserve(is_state ? &layout->n_state : &layout->n_activation, 0, tensor_of(plan, value_index)->n_bytes,
		&layout->offsets[value_index]);
}

static void describe_io(const struct layout *layout, const uint32_t *value_indices, uint32_t n,
	struct et_io_info *infos)
{
	const struct et_plan *plan = layout->plan;
	for (uint32_t i = 0; i < n; i++) {
		const struct et_value_spec *value = &plan->spec->values[value_indices[i]];
		infos[i] = (struct et_io_info){ .tag = value->tag, .zero_copy = true };
		if (value->tag != ET_TAG_TENSOR)
			continue;
		infos[i].type = value->tensor->type;
		infos[i].dynamism = value->tensor->dynamism;
		infos[i].n_dims = value->tensor->n_dims;
		infos[i].sizes = value->tensor->sizes;
		infos[i].dim_order = value->tensor->dim_order;
		infos[i].n_bytes = value->tensor->n_bytes;
		infos[i].zero_copy = layout->is_bound[value_indices[i]];
	}
}

static bool settle_ios(struct layout *layout)
{
	struct et_plan *plan = layout->plan;
	const struct et_method_spec *spec = plan->spec;
	for (uint32_t i = 0; i < spec->n_inputs; i++)
		if (!settle_io(layout, spec->inputs[i]))
			return false;
	for (uint32_t i = 0; i < spec->n_outputs; i++)
		if (!settle_io(layout, spec->outputs[i]))
			return false;
	struct et_io_info *inputs = ET_POOL_NEW_ARRAY(&plan->pool, struct et_io_info, spec->n_inputs);
	struct et_io_info *outputs = ET_POOL_NEW_ARRAY(&plan->pool, struct et_io_info, spec->n_outputs);
	if (!inputs || !outputs)
		return false;
	describe_io(layout, spec->inputs, spec->n_inputs, inputs);
	describe_io(layout, spec->outputs, spec->n_outputs, outputs);
	for (uint32_t i = 0; i < spec->n_outputs; i++)
		if (outputs[i].tag == ET_TAG_STRING && !plan->values[spec->outputs[i]].is_moved)
			outputs[i].text = spec->values[spec->outputs[i]].list;
	plan->info.inputs = inputs;
	plan->info.n_inputs = spec->n_inputs;
	plan->info.outputs = outputs;
	plan->info.n_outputs = spec->n_outputs;
	return true;
}

/* --- tensors ------------------------------------------------------------------------------------------------ */

/* Whether a run may change the tensor's header (struct et_tensor). */
static bool is_volatile(const struct layout *layout, uint32_t value_index)
{
	const struct et_plan_value *value = &layout->plan->values[value_index];
	return tensor_of(layout->plan, value_index)->dynamism != ET_STATIC || value->is_freed || value->is_view ||
	       value->is_input || value->is_output || layout->places[value_index] == ET_PLACE_NOWHERE ||
	       layout->places[value_index] >= ET_PLACE_STATE;
}

/* The constant in the file if it is aligned for its type, else a copy. */
static const uint8_t *constant_bytes(struct layout *layout, const struct et_tensor_spec *spec)
{
	struct et_plan *plan = layout->plan;
	if ((uintptr_t)spec->constant % et_scalar_size(spec->type) == 0)
		return spec->constant;
	size_t n_padded;
	uint32_t number;
	const struct et_source *source = et_program_find_source(plan->program, spec->constant, spec->n_bytes, &number);
	if (source && source->n_bytes > layout->n_largest)
		layout->n_largest = source->n_bytes;
	layout->is_wasteful = plan->info.n_copied_constant_bytes / MAX_COPIES > layout->n_largest;
	if (layout->is_wasteful || !et_add(spec->n_bytes, ET_SOURCE_PADDING, &n_padded))
		return NULL;
	uint8_t *copy = et_pool_alloc(&plan->pool, n_padded, ET_PLAN_LINE);
	if (copy) {
		memcpy(copy, spec->constant, spec->n_bytes);
		plan->info.n_copied_constant_bytes += spec->n_bytes;
	}
	return copy;
}

static bool make_tensor(struct layout *layout, uint32_t index, uint32_t value_index, int32_t *shape)
{
	struct et_plan *plan = layout->plan;
	const struct et_tensor_spec *reordered = plan->values[value_index].reordered;
	const struct et_tensor_spec *spec = reordered ? reordered : tensor_of(plan, value_index);
	struct et_plan_tensor *tensor = &plan->tensors[index];
	plan->values[value_index].tensor = index;
	*tensor = (struct et_plan_tensor){
		.spec = spec,
		.value = value_index,
		.place = layout->places[value_index],
		.offset = layout->offsets[value_index],
		.shape = shape,
	};
	for (uint32_t d = 0; d < spec->n_dims; d++)
		shape[d] = spec->sizes[d];
	et_dim_order_to_strides(spec->sizes, spec->dim_order, spec->n_dims, shape + spec->n_dims);
	if (tensor->place == ET_PLACE_CONSTANT) {
		tensor->constant = constant_bytes(layout, spec);
		return tensor->constant || !spec->n_bytes;
	}
	if (tensor->place < ET_PLACE_STATE)
		return true;
	plan->state_tensors[plan->n_state_tensors++] = index;
	if (spec->constant && tensor->place == ET_PLACE_STATE)
		et_add_up(&plan->info.n_reset_bytes, spec->n_bytes);
	if (spec->dynamism != ET_STATIC)
		plan->n_state_shapes += spec->n_dims;
	return true;
}

/* Shapes of dynamic tensors come first, in one block, so that a frame can copy them at once. */
static bool make_tensors(struct layout *layout)
{
	struct et_plan *plan = layout->plan;
	const struct et_method_spec *spec = plan->spec;
	size_t n_tensors = 0, n_dynamic = 0, n_static = 0, n_state = 0;
	for (uint32_t value_index = 0; value_index < spec->n_values; value_index++) {
		if (spec->values[value_index].tag != ET_TAG_TENSOR)
			continue;
		n_tensors++;
		plan->n_volatile += is_volatile(layout, value_index);
		n_state += layout->places[value_index] >= ET_PLACE_STATE;
		*(tensor_of(plan, value_index)->dynamism == ET_STATIC
				? &n_static
				: &n_dynamic) += 2 * (size_t)tensor_of(plan, value_index)->n_dims;
	}
	int32_t *shapes = ET_POOL_NEW_ARRAY(&plan->pool, int32_t, n_dynamic + n_static);
	plan->tensors = ET_POOL_NEW_ARRAY(&plan->pool, struct et_plan_tensor, n_tensors);
	plan->state_tensors = ET_POOL_NEW_ARRAY(&plan->pool, uint32_t, n_state);
	if (!shapes || !plan->tensors || !plan->state_tensors)
		return false;
	plan->shapes = shapes;
	plan->n_shapes = n_dynamic;
	plan->n_tensors = (uint32_t)n_tensors;
	uint32_t next_volatile = 0, next_fixed = plan->n_volatile;
	size_t at_dynamic = 0, at_static = n_dynamic;
	for (uint32_t value_index = 0; value_index < spec->n_values; value_index++) {
		if (spec->values[value_index].tag != ET_TAG_TENSOR)
			continue;
		uint32_t index = is_volatile(layout, value_index) ? next_volatile++ : next_fixed++;
		size_t *at = tensor_of(plan, value_index)->dynamism == ET_STATIC ? &at_static : &at_dynamic;
		if (!make_tensor(layout, index, value_index, shapes + *at))
			return false;
		*at += 2 * (size_t)tensor_of(plan, value_index)->n_dims;
	}
	return true;
}

/* List the values whose EValue itself a run may change. */
static bool list_scalars(struct et_plan *plan)
{
	const struct et_method_spec *spec = plan->spec;
	plan->scalars = ET_POOL_NEW_ARRAY(&plan->pool, uint32_t, spec->n_values);
	plan->state_scalars = ET_POOL_NEW_ARRAY(&plan->pool, uint32_t, spec->n_values);
	if (!plan->scalars || !plan->state_scalars)
		return false;
	for (uint32_t value_index = 0; value_index < spec->n_values; value_index++) {
		const struct et_plan_value *value = &plan->values[value_index];
		bool is_tensor = spec->values[value_index].tag == ET_TAG_TENSOR;
		if (value->is_moved || (!is_tensor && (value->is_written || value->is_input)))
			plan->scalars[plan->n_scalars++] = value_index;
		if (!is_tensor && value->is_state)
			plan->state_scalars[plan->n_state_scalars++] = value_index;
	}
	return true;
}

/* --- the whole layout ----------------------------------------------------------------------------------------- */

static bool lay_out(struct layout *layout)
{
	struct et_plan *plan = layout->plan;
	const struct et_method_spec *spec = plan->spec;
	layout->planned = et_pool_scratch_array(&layout->pool, 2 * (size_t)spec->n_values, sizeof *layout->planned);
	layout->offsets = ET_POOL_NEW_ARRAY(&layout->pool, size_t, spec->n_values);
	layout->places = ET_POOL_NEW_ARRAY(&layout->pool, uint8_t, spec->n_values);
	layout->is_bound = ET_POOL_NEW_ARRAY(&layout->pool, bool, spec->n_values);
	if (!layout->planned || !layout->offsets || !layout->places || !layout->is_bound)
		return false;
	for (uint32_t value_index = 0; value_index < spec->n_values; value_index++)
		if (spec->values[value_index].tag == ET_TAG_TENSOR &&
			spec->values[value_index].tensor->storage == ET_STORAGE_CONSTANT)
			layout->places[value_index] = ET_PLACE_CONSTANT;
	for (uint32_t arena = 0; arena < spec->n_arenas; arena++)
		if (!place_arena(layout, arena))
			return false;
	if (!settle_ios(layout) ||
		et_copy_elision_run(plan, layout->places, layout->offsets, layout->n_activation,
			&layout->n_comparisons_left, &layout->pool) ||
		!make_tensors(layout) || !list_scalars(plan))
		return false;
	size_t n_shared = plan->info.n_shared_bytes;
	if (layout->n_state && !et_add(layout->n_state, ET_PLAN_LINE, &plan->state_bytes[ET_STATE_PRIVATE]))
		return false;
	if (!et_add(layout->n_activation, ET_PLAN_LINE, &plan->activation_bytes))
		return false;
	if (n_shared) /* the sum of all arenas does not overflow: program_method.c */
		plan->state_bytes[ET_STATE_SHARED] = n_shared + ET_PLAN_LINE;
	plan->info.n_activation_bytes = layout->n_activation;
	plan->info.n_state_bytes = layout->n_state + n_shared + plan->n_state_scalars * sizeof(struct et_evalue) +
				   plan->n_state_shapes * sizeof(int32_t);
	et_add_up(&plan->info.n_reset_bytes, plan->info.n_state_bytes);
	plan->info.is_stateful = layout->is_state_written || n_shared || plan->n_state_scalars ||
				 plan->n_stateful_delegates;
	return true;
}

enum et_status et_memory_layout(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag)
{
	struct layout layout = { .plan = plan, .n_comparisons_left = MAX_COMPARISONS };
	et_pool_init(&layout.pool, allocator);
	bool is_done = lay_out(&layout);
	et_pool_deinit(&layout.pool);
	if (layout.is_wasteful)
		return et_fail(diag, ET_E_INVALID_PROGRAM,
			"copies of unaligned constants would take more than %d times the size of their file",
			MAX_COPIES);
	return is_done ? ET_OK : et_plan_no_memory(diag);
}
