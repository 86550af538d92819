/* SPDX-License-Identifier: BSD-3-Clause */
/* Where each tensor lies, and which inputs and outputs may lie in the client's memory instead.
 *
 * The memory plan of a program gives every tensor a range of an arena. Ranges that overlap, directly or through
 * others, form a component; a component moves as a whole and keeps its inner offsets and its alignment (to 64
 * bytes), so the program cannot tell. Each component goes to one of two places:
 *     state         if any tensor in it is state: a Method's own, laid out once here; or what methods share, which lies
 *                   as the program says;
 *     activations   the others: a frame's.
 * So a tensor is wholly in one of them, and memory is shared exactly where the program plans it to be.
 *
 * An input or output is bound to the client's memory only where no other value can tell the difference: nothing
 * else that lives at the same time, or that passes a value on to it or from it, overlaps its range, it is no
 * state, no constant, no view, it is not both or twice, and an input is not written. Otherwise, or where it would take
 * too long to tell, it is copied, and io info says so beforehand. */
#include "runtime/base/checked.h"
#include "runtime/plan_internal.h"

#include <string.h>

enum {
	LINE = 64,
	/* How often one input or output may be compared with another tensor. A program that needs more is made to waste
	 * time, and has the rest of its inputs and outputs copied. */
	PATIENCE = 1 << 24,
	/* Constants that are not aligned are copied for each tensor, and tensors may share their bytes: so many times the
	 * largest file that they come from is made to waste memory. */
	MOST_COPIED = 16,
};

static void sort_few(struct et_sort_item *items, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct et_sort_item item = items[i];
		size_t at = i;
		for (; at && items[at - 1].key > item.key; at--)
			items[at] = items[at - 1];
		items[at] = item;
	}
}

/* Digit after digit from the lowest that any key has: as long as keys are short, whatever order a file gives them. */
void et_sort_items(struct et_sort_item *items, struct et_sort_item *room, size_t n)
{
	enum { FEW = 32, DIGIT_BITS = 8, N_DIGITS = 1 << DIGIT_BITS };
	struct et_sort_item *from = items, *to = room;
	uint64_t used = 0;
	if (n <= FEW) {
		sort_few(items, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		used |= items[i].key;
	for (unsigned shift = used ? (unsigned)__builtin_ctzll(used) : 0; shift < 64 && used >> shift;
		shift += DIGIT_BITS) {
		size_t ends[N_DIGITS + 1] = { 0 };
		for (size_t i = 0; i < n; i++)
			ends[(from[i].key >> shift) % N_DIGITS + 1]++;
		for (size_t d = 0; d < N_DIGITS; d++)
			ends[d + 1] += ends[d];
		for (size_t i = 0; i < n; i++)
			to[ends[(from[i].key >> shift) % N_DIGITS]++] = from[i];
		struct et_sort_item *sorted = to;
		to = from;
		from = sorted;
	}
	if (from != items)
		memcpy(items, from, n * sizeof *items);
}

/* --- components ------------------------------------------------------------------------------------------- */

struct layout {
	struct et_plan *plan;
	struct et_pool pool;
	struct et_sort_item *planned; /* an arena's tensors by offset, index: the slot; then room to sort */
	size_t *offsets;              /* one a slot, in its new place */
	uint8_t *places;              /* enum et_place, one a slot */
	bool *is_bound;               /* one a slot: an input or output that can lie in the client's memory */
	size_t n_state, n_activation; /* bytes given out so far */
	size_t n_patience;            /* comparisons left */
	size_t n_largest;             /* bytes of the files that constants were copied from: of the largest */
	bool is_wasteful;
	bool is_state_written;
};

/* Room for @n_bytes that keep the alignment that @offset had, up to a line. */
static bool take(size_t *used, size_t offset, size_t n_bytes, size_t *ret_at)
{
	size_t at;
	if (!et_align_up(*used, LINE, &at) || !et_add(at, offset % LINE, &at) || !et_add(at, n_bytes, used))
		return false;
	*ret_at = at;
	return true;
}

static const struct et_tensor_spec *tensor_of(const struct et_plan *plan, uint32_t value_index)
{
	return plan->spec->values[value_index].tensor;
}

/* Whether somebody reads the value and nobody writes it under this name: its bytes are another value's, on whose range
 * the exporter put it instead of calling a view kernel. */
static bool is_borrowed(const struct et_plan_value *value)
{
	return !value->is_written && !value->is_input;
}

/* Whether there is patience for @n comparisons; they are counted. */
static bool is_worth(struct layout *layout, size_t n)
{
	bool is_worth = n <= layout->n_patience;
	layout->n_patience -= is_worth ? n : 0;
	return is_worth;
}

/* An input or output at @slot could be bound but for the other tensors [@first, @end) of its component. */
static bool is_alone(struct layout *layout, uint32_t value_index, size_t first, size_t end)
{
	if (!is_worth(layout, end - first))
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
			continue; /* nothing touches it */
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
	if (!is_shared && !take(is_state ? &layout->n_state : &layout->n_activation, start, n_bytes, &at))
		return false;
	for (size_t i = first; i < end; i++) {
		uint32_t value_index = layout->planned[i].index;
		plan->values[value_index].is_state = is_state;
		layout->places[value_index] = is_shared  ? ET_PLACE_SHARED
					      : is_state ? ET_PLACE_STATE
							 : ET_PLACE_ACTIVATION;
		layout->offsets[value_index] = at + (tensor_of(plan, value_index)->offset - start);
		if (plan->values[value_index].is_input || plan->values[value_index].is_output)
			layout->is_bound[value_index] = !is_state && is_alone(layout, value_index, first, end);
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
	et_sort_items(layout->planned, layout->planned + spec->n_values, n);
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
	if (!is_worth(layout, n))
		return false;
	for (uint32_t i = 0; i < n; i++)
		times += value_indices[i] == value_index;
	return times == 1;
}

/* What holds for every place: see the essay. */
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

/* @slot is an input or output. An unplanned one that can't be bound gets memory of its own. */
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
	layout->places[value_index] = ET_PLACE_ACTIVATION;
	return take(&layout->n_activation, 0, tensor_of(plan, value_index)->n_bytes, &layout->offsets[value_index]);
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

/* Whether a run may change the tensor's header. */
static bool is_volatile(const struct layout *layout, uint32_t value_index)
{
	const struct et_plan_value *value = &layout->plan->values[value_index];
	return tensor_of(layout->plan, value_index)->dynamism != ET_STATIC || value->is_freed || value->is_view ||
	       value->is_input || value->is_output || layout->places[value_index] == ET_PLACE_NOWHERE ||
	       layout->places[value_index] >= ET_PLACE_STATE;
}

/* The file's bytes where they are aligned for their type, else a copy. */
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
	layout->is_wasteful = plan->info.n_constant_copies / MOST_COPIED > layout->n_largest;
	if (layout->is_wasteful || !et_add(spec->n_bytes, ET_SOURCE_PADDING, &n_padded))
		return NULL;
	uint8_t *copy = et_pool_alloc(&plan->pool, n_padded, LINE);
	if (copy) {
		memcpy(copy, spec->constant, spec->n_bytes);
		plan->info.n_constant_copies += spec->n_bytes;
	}
	return copy;
}

static bool make_tensor(struct layout *layout, uint32_t index, uint32_t value_index, int32_t *shape)
{
	struct et_plan *plan = layout->plan;
	const struct et_tensor_spec *instead = plan->values[value_index].instead;
	const struct et_tensor_spec *spec = instead ? instead : tensor_of(plan, value_index);
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

/* Dynamic tensors' shapes come first, in one piece, as in each frame. */
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

/* Slots whose EValue itself a run may change. */
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

/* --- all together --------------------------------------------------------------------------------------------- */

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
	if (!settle_ios(layout) || !make_tensors(layout) || !list_scalars(plan))
		return false;
	size_t n_shared = plan->info.n_shared_bytes;
	if (layout->n_state && !et_add(layout->n_state, LINE, &plan->state_bytes[ET_STATE_OWN]))
		return false;
	if (!et_add(layout->n_activation, LINE, &plan->activation_bytes))
		return false;
	if (n_shared) /* all arenas together can be counted: program_method.c */
		plan->state_bytes[ET_STATE_SHARED] = n_shared + LINE;
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
	struct layout layout = { .plan = plan, .n_patience = PATIENCE };
	et_pool_init(&layout.pool, allocator);
	bool is_done = lay_out(&layout);
	et_pool_deinit(&layout.pool);
	if (layout.is_wasteful)
		return et_fail(diag, ET_E_INVALID_PROGRAM,
			"constants that are not aligned are more than %d times their file", MOST_COPIED);
	return is_done ? ET_OK : et_plan_no_memory(diag);
}
