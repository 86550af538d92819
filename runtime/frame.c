/* SPDX-License-Identifier: BSD-3-Clause */
/* A frame: the value table of one run, and the memory for its activations.
 *
 * All slow work is done when the frame is made: tensors get their memory, every instruction's argument pointers are
 * resolved. What a run may change (headers of volatile tensors, dynamic shapes, scalars that are written) is stored a
 * second time, and et_frame_restore copies exactly that. So beginning a run of a thousand instructions over constants
 * and static tensors costs only a few memcpy.
 *
 * One allocation from the small allocator holds all tables, carved front to back. The activations come from the
 * arena allocator, with padding behind them: a delegate's vector loads may read past the end. */
#include "runtime/base/checked.h"
#include "runtime/method_internal.h"

#include <string.h>

struct carving {
	uint8_t *base; /* NULL: only measure */
	size_t used;
	bool overflowed;
};

static void *carve(struct carving *carving, size_t n, size_t item_bytes)
{
	size_t n_bytes, at;
	if (!et_mul(n, item_bytes, &n_bytes) || !et_align_up(carving->used, _Alignof(max_align_t), &at) ||
		!et_add(at, n_bytes, &carving->used)) {
		carving->overflowed = true;
		return NULL;
	}
	return carving->base ? carving->base + at : NULL;
}

static void count_lists(const struct et_method_spec *spec, size_t *ret_n_lists, size_t *ret_n_items)
{
	*ret_n_lists = *ret_n_items = 0;
	for (uint32_t value_index = 0; value_index < spec->n_values; value_index++) {
		const struct et_value_spec *value = &spec->values[value_index];
		if (value->tag < ET_TAG_STRING)
			continue;
		(*ret_n_lists)++;
		if (et_tag_is_value_list(value->tag))
			*ret_n_items += value->list->n;
	}
}

/* Carve the tables. To measure, @frame may be a dummy. */
static void carve_frame(struct et_frame *frame, const struct et_plan *plan, struct carving *carving)
{
	size_t n_lists, n_items;
	count_lists(plan->spec, &n_lists, &n_items);
	frame->values = carve(carving, plan->spec->n_values, sizeof *frame->values);
	frame->tensors = carve(carving, plan->n_tensors, sizeof *frame->tensors);
	frame->pristine_tensors = carve(carving, plan->n_volatile, sizeof *frame->pristine_tensors);
	frame->pristine_scalars = carve(carving, plan->n_scalars, sizeof *frame->pristine_scalars);
	frame->args = carve(carving, plan->n_args, sizeof *frame->args);
	frame->lists = carve(carving, n_lists, sizeof *frame->lists);
	frame->items = carve(carving, n_items, sizeof(struct et_evalue *));
	frame->shapes = carve(carving, plan->n_shapes, sizeof *frame->shapes);
	frame->instances = carve(carving, plan->n_delegates_per_run ? plan->spec->n_delegates : 0,
		sizeof *frame->instances);
}

size_t et_frame_bytes(const struct et_plan *plan)
{
	struct et_frame frame;
	struct carving carving = { .used = sizeof frame };
	carve_frame(&frame, plan, &carving);
	return carving.overflowed ? SIZE_MAX : carving.used;
}

static void make_list(struct et_frame *frame, struct et_list *list, struct et_evalue **items,
	const struct et_value_spec *value)
{
	list->n = value->list->n;
	switch (value->tag) {
	case ET_TAG_STRING:
		list->chars = value->list->chars;
		break;
	case ET_TAG_DOUBLE_LIST:
		list->doubles = value->list->doubles;
		break;
	case ET_TAG_BOOL_LIST:
		list->bools = value->list->bools;
		break;
	default:
		list->values = items;
		for (uint32_t i = 0; i < list->n; i++) {
			uint32_t value_index = value->list->values[i];
			items[i] = value_index == ET_NO_VALUE ? &frame->none : &frame->values[value_index];
		}
		break;
	}
}

static void make_values(struct et_frame *frame)
{
	const struct et_plan *plan = frame->plan;
	struct et_list *list = frame->lists;
	struct et_evalue **items = frame->items;
	frame->none.tag = ET_TAG_NONE;
	for (uint32_t value_index = 0; value_index < plan->spec->n_values; value_index++) {
		const struct et_value_spec *spec = &plan->spec->values[value_index];
		struct et_evalue *value = &frame->values[value_index];
		value->tag = spec->tag;
		switch (spec->tag) {
		case ET_TAG_INT:
			value->i = spec->i;
			break;
		case ET_TAG_DOUBLE:
			value->d = spec->d;
			break;
		case ET_TAG_BOOL:
			value->b = spec->b;
			break;
		case ET_TAG_TENSOR:
			value->tensor = &frame->tensors[plan->values[value_index].tensor];
			break;
		case ET_TAG_NONE:
			break;
		default:
			make_list(frame, list, items, spec);
			if (et_tag_is_value_list(spec->tag))
				items += list->n;
			value->list = list++;
			break;
		}
	}
}

static void make_tensors(struct et_frame *frame)
{
	const struct et_plan *plan = frame->plan;
	for (uint32_t i = 0; i < plan->n_tensors; i++) {
		const struct et_plan_tensor *from = &plan->tensors[i];
		bool is_dynamic = from->spec->dynamism != ET_STATIC;
		int32_t *shape = is_dynamic ? frame->shapes + (from->shape - plan->shapes) : from->shape;
		struct et_tensor *to = &frame->tensors[i];
		*to = (struct et_tensor){
			.capacity = from->spec->n_bytes / et_scalar_size(from->spec->type),
			.sizes = shape,
			.strides = shape + from->spec->n_dims,
			.dim_order = from->spec->dim_order,
			.type = from->spec->type,
			.n_dims = from->spec->n_dims,
			.dynamism = from->spec->dynamism,
		};
		if (from->place == ET_PLACE_ACTIVATION)
			to->data = frame->activations + from->offset;
		if (from->place == ET_PLACE_CONSTANT) {
			/* the cast is safe: the Plan or a check at run time refuses writes to constants */
			to->data = (void *)(uintptr_t)from->constant;
			to->is_constant = true;
		}
	}
	memcpy(frame->pristine_tensors, frame->tensors, plan->n_volatile * sizeof *frame->tensors);
}

enum et_status et_frame_new(struct et_frame **ret_frame, struct et_plan *plan, const struct et_allocator *small,
	const struct et_allocator *arena, struct et_diag *diag)
{
	size_t n_bytes = plan->info.n_value_table_bytes;
	struct et_frame *frame = small->alloc(small->self, n_bytes, ET_PLAN_LINE);
	uint8_t *activations = arena->alloc(arena->self, plan->activation_bytes, ET_PLAN_LINE);
	if (!frame || !activations) {
		small->free(small->self, frame, n_bytes);
		arena->free(arena->self, activations, plan->activation_bytes);
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a frame of %zu bytes",
			n_bytes + plan->activation_bytes);
	}
	memset(frame, 0, n_bytes);
	struct carving carving = { .base = (uint8_t *)frame, .used = sizeof *frame };
	carve_frame(frame, plan, &carving);
	frame->plan = et_plan_ref(plan);
	frame->small = *small;
	frame->arena = *arena;
	frame->n_bytes = n_bytes;
	frame->activations = activations;
	make_tensors(frame);
	make_values(frame);
	for (uint32_t i = 0; i < plan->n_scalars; i++)
		frame->pristine_scalars[i] = frame->values[plan->scalars[i]];
	for (uint32_t i = 0; i < plan->n_args; i++)
		frame->args[i] = &frame->values[plan->args[i]];
	*ret_frame = frame;
	return ET_OK;
}

struct et_frame *et_frame_free(struct et_frame *frame)
{
	if (!frame)
		return NULL;
	struct et_plan *plan = frame->plan;
	for (uint32_t i = 0; plan->n_delegates_per_run && i < plan->spec->n_delegates; i++)
		if (frame->instances[i].instance)
			frame->instances[i].ops->instance_free(frame->instances[i].instance);
	frame->arena.free(frame->arena.self, frame->activations, plan->activation_bytes);
	frame->small.free(frame->small.self, frame, frame->n_bytes);
	et_plan_unref(plan);
	return NULL;
}

void et_frame_poison(struct et_frame *frame, int byte)
{
	memset(frame->activations, byte, frame->plan->activation_bytes);
}

void et_frame_restore(struct et_frame *frame, const struct et_method *method)
{
	const struct et_plan *plan = frame->plan;
	memcpy(frame->tensors, frame->pristine_tensors, plan->n_volatile * sizeof *frame->tensors);
	if (plan->n_shapes)
		memcpy(frame->shapes, plan->shapes, plan->n_shapes * sizeof *frame->shapes);
	for (uint32_t i = 0; i < plan->n_scalars; i++)
		frame->values[plan->scalars[i]] = frame->pristine_scalars[i];
	for (uint32_t i = 0; i < plan->n_state_scalars; i++)
		frame->values[plan->state_scalars[i]] = method->scalars[i];
	const int32_t *sizes = method->sizes;
	for (uint32_t i = 0; i < plan->n_state_tensors; i++) {
		struct et_tensor *tensor = &frame->tensors[plan->state_tensors[i]];
		const struct et_plan_tensor *from = &plan->tensors[plan->state_tensors[i]];
		tensor->data = method->states[from->place - ET_PLACE_STATE]->bytes + from->offset;
		if (tensor->dynamism == ET_STATIC)
			continue;
		memcpy(tensor->sizes, sizes, tensor->n_dims * sizeof *sizes);
		et_dim_order_to_strides(tensor->sizes, tensor->dim_order, tensor->n_dims, tensor->strides);
		sizes += tensor->n_dims;
	}
}
