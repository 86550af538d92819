/* SPDX-License-Identifier: BSD-3-Clause */
/* The value table of one method: scalars, tensors, lists.
 *
 * A tensor's bytes come from one of these places:
 *     data_buffer_idx > 0, no allocation     a constant of the file
 *     allocation, data_buffer_idx = 0        an arena
 *     allocation, data_buffer_idx > 0        an arena, with an initial value in the file
 *     neither                                no memory yet: an input, an output, a placeholder
 * If the tensor's extra information says EXTERNAL, the constant or the initial value comes from external data by name,
 * and data_buffer_idx has no meaning.
 *
 * What must always be true: a planned tensor at its largest sizes lies within its arena, a constant within its
 * segment or buffer; sizes multiply without overflow, strides fit; items of lists are values that exist and have the
 * right kind. Lists are checked after all values are read, since they may refer to later values. */
#include "runtime/program/program_internal.h"
#include "runtime/base/checked.h"
#include "runtime/program/layout.h"

#include <string.h>

enum { LOCATION_SEGMENT, LOCATION_EXTERNAL };

/* A pointer to [@offset, @offset + @n_bytes) of a segment. */
static const uint8_t *segment_range(struct et_program_reader *reader, uint32_t index, uint64_t offset, size_t n_bytes,
	const char *what)
{
	struct et_segment *segment = et_program_segment(reader, index);
	if (!segment)
		return NULL;
	if (!et_in_range(offset, n_bytes, segment->n_bytes)) {
		et_fb_fail(&reader->fb, ET_E_INVALID_PROGRAM,
			"its %s is %zu bytes at %llu of segment %u, which has %zu", what, n_bytes,
			(unsigned long long)offset, index, segment->n_bytes);
		return NULL;
	}
	segment->has_constants = true;
	return reader->program->bytes + segment->offset + offset;
}

static const uint8_t *constant_bytes(struct et_program_reader *reader, uint32_t index, size_t n_bytes)
{
	struct et_fb *fb = &reader->fb;
	bool is_in_segment = reader->constant_offsets.n > 0;
	uint32_t n = is_in_segment ? reader->constant_offsets.n : reader->constant_buffers.n;
	if (index >= n) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it is constant %u, but there are %u", index, n);
		return NULL;
	}
	if (is_in_segment) {
		uint64_t offset = et_fb_u64_at(fb, reader->constant_offsets, index);
		return segment_range(reader, reader->constant_segment, offset, n_bytes, "constant");
	}
	struct et_fb_table buffer = et_fb_table_at(fb, reader->constant_buffers, index);
	struct et_fb_vector blob = et_fb_blob(fb, buffer, BUFFER_BYTES);
	if (n_bytes > blob.n) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "constant %u has %u bytes, but the tensor needs %zu", index,
			blob.n, n_bytes);
		return NULL;
	}
	reader->program->stats.n_constant_bytes += n_bytes;
	return n_bytes ? blob.items : reader->program->bytes;
}

static const uint8_t *initial_bytes(struct et_program_reader *reader, struct et_fb_table extra, uint32_t index,
	size_t n_bytes)
{
	struct et_fb *fb = &reader->fb;
	uint64_t list = et_fb_u64(fb, extra, EXTRA_MUTABLE_SEGMENT, 0);
	if (list >= reader->mutable_segments.n) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "its initial value is in list %llu, but there are %u",
			(unsigned long long)list, reader->mutable_segments.n);
		return NULL;
	}
	struct et_fb_table table = et_fb_table_at(fb, reader->mutable_segments, (uint32_t)list);
	/* only one item is read here each time, so this costs no budget, like a blob */
	struct et_fb_vector offsets = et_fb_vector_unwalked(fb, table, SUBSEGMENT_OFFSETS, 8);
	if (index >= offsets.n) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "its initial value is number %u, but there are %u", index,
			offsets.n);
		return NULL;
	}
	uint32_t segment = et_fb_u32(fb, table, SUBSEGMENT_INDEX, 0);
	return segment_range(reader, segment, et_fb_u64_at(fb, offsets, index), n_bytes, "initial value");
}

static const uint8_t *external_bytes(struct et_program_reader *reader, const struct et_tensor_spec *spec)
{
	struct et_fb *fb = &reader->fb;
	const struct et_external_data *external = reader->program->external;
	if (fb->status != ET_OK)
		return NULL;
	if (!spec->name || !spec->name[0]) {
		et_fb_fail(fb, ET_E_INVALID_EXTERNAL_DATA, "it lies outside the file but has no name");
		return NULL;
	}
	if (!external) {
		et_fb_fail(fb, ET_E_NOT_FOUND,
			"tensor '%s' lies outside the file, and no data file was given; its .ptd "
			"of the same export has it",
			spec->name);
		return NULL;
	}
	const uint8_t *bytes = NULL;
	size_t n_bytes = 0;
	struct et_diag why = { 0 };
	enum et_status status = external->find(external->self, spec->name, spec, &bytes, &n_bytes, &why);
	if (status != ET_OK) {
		et_fb_fail(fb, status, "tensor '%s' lies outside the file: %s", spec->name,
			why.text[0] ? why.text : et_status_text(status));
		return NULL;
	}
	if (n_bytes < spec->n_bytes) {
		et_fb_fail(fb, ET_E_INVALID_EXTERNAL_DATA,
			"tensor '%s' lies outside the file with %zu bytes, but needs %zu", spec->name, n_bytes,
			spec->n_bytes);
		return NULL;
	}
	return bytes;
}

/* Read where a planned tensor lies. */
static void read_allocation(struct et_program_reader *reader, struct et_fb_table allocation,
	const struct et_method_spec *method, struct et_tensor_spec *spec)
{
	struct et_fb *fb = &reader->fb;
	uint32_t arena = et_fb_u32(fb, allocation, ALLOCATION_MEMORY_ID, 0);
	uint64_t offset = et_fb_u32(fb, allocation, ALLOCATION_OFFSET_LOW, 0) |
			  (uint64_t)et_fb_u32(fb, allocation, ALLOCATION_OFFSET_HIGH, 0) << 32;
	if (arena == 0 || arena >= method->n_arenas) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it is planned in arena %u, but there are arenas 1 to %d", arena,
			(int)method->n_arenas - 1);
		return;
	}
	if (!et_in_range(offset, spec->n_bytes, method->arena_bytes[arena])) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "arena %u has %zu bytes, but %zu at %llu are needed", arena,
			method->arena_bytes[arena], spec->n_bytes, (unsigned long long)offset);
		return;
	}
	spec->storage = ET_STORAGE_PLANNED;
	spec->arena = arena;
	spec->offset = (size_t)offset;
}

/* Read type, sizes and dim order, and compute the number of bytes. */
static void read_layout(struct et_program_reader *reader, struct et_fb_table table, struct et_tensor_spec *spec)
{
	static const struct et_layout_fields fields = { TENSOR_SCALAR_TYPE, TENSOR_SIZES, TENSOR_DIM_ORDER };
	struct et_fb *fb = &reader->fb;
	struct et_layout layout;
	if (!et_fb_has(fb, table, TENSOR_SIZES) || !et_fb_has(fb, table, TENSOR_DIM_ORDER))
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "the tensor has no %s",
			et_fb_has(fb, table, TENSOR_SIZES) ? "dim order" : "sizes");
	if (!et_layout_read(fb, table, &fields, ET_E_INVALID_PROGRAM, reader->pool, &layout))
		return;
	spec->type = layout.type;
	spec->n_dims = layout.n_dims;
	spec->sizes = layout.sizes;
	spec->dim_order = layout.dim_order;
	spec->n_bytes = layout.n_bytes;
}

static void read_tensor(struct et_program_reader *reader, struct et_fb_table table, const struct et_method_spec *method,
	struct et_tensor_spec *spec)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_table extra = et_fb_table(fb, table, TENSOR_EXTRA_INFO);
	struct et_fb_table allocation = et_fb_table(fb, table, TENSOR_ALLOCATION_INFO);
	int8_t dynamism = et_fb_i8(fb, table, TENSOR_SHAPE_DYNAMISM, 0);
	int32_t storage_offset = et_fb_i32(fb, table, TENSOR_STORAGE_OFFSET, 0);
	int8_t device = 0, location = LOCATION_SEGMENT;
	if (!et_fb_is_absent(extra)) {
		spec->name = et_program_string(reader, et_fb_string(fb, extra, EXTRA_NAME));
		device = et_fb_i8(fb, extra, EXTRA_DEVICE_TYPE, 0);
		location = et_fb_i8(fb, extra, EXTRA_LOCATION, 0);
	}
	uint32_t buffer = et_fb_u32(fb, table, TENSOR_DATA_BUFFER_IDX, 0);
	if (et_fb_is_absent(table))
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "the tensor is missing");
	else if (dynamism == ET_DYNAMIC_UNBOUND)
		et_fb_fail(fb, ET_E_NOT_SUPPORTED, "the tensor's shape is DYNAMIC_UNBOUND, which is not supported");
	else if (dynamism < 0 || dynamism > ET_DYNAMIC_UNBOUND)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "unknown shape dynamism %d", dynamism);
	else if (device != 0)
		et_fb_fail(fb, ET_E_NOT_SUPPORTED, "the tensor lies on device type %d, only the CPU is supported",
			device);
	else if (storage_offset != 0)
		et_fb_fail(fb, ET_E_NOT_SUPPORTED, "storage offset %d is not supported", storage_offset);
	else if (location != LOCATION_SEGMENT && location != LOCATION_EXTERNAL)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "unknown data location %d", location);
	spec->dynamism = (uint8_t)dynamism;
	read_layout(reader, table, spec);
	if (fb->status != ET_OK)
		return;
	if (!et_fb_is_absent(allocation))
		read_allocation(reader, allocation, method, spec);
	if (fb->status != ET_OK)
		return;
	if (location == LOCATION_EXTERNAL)
		spec->constant = external_bytes(reader, spec);
	else if (buffer && spec->storage == ET_STORAGE_PLANNED)
		spec->constant = initial_bytes(reader, extra, buffer, spec->n_bytes);
	else if (buffer)
		spec->constant = constant_bytes(reader, buffer, spec->n_bytes);
	if (spec->constant && spec->storage == ET_STORAGE_NONE)
		spec->storage = ET_STORAGE_CONSTANT;
}

/* Read a list of value indices. Only IntList has 64-bit items; -1 is None in an OptionalTensorList. */
static void read_value_list(struct et_program_reader *reader, struct et_fb_table table, uint8_t tag, uint32_t n_values,
	struct et_list_spec *list)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_vector items = et_fb_vector(fb, table, VALUE_ITSELF, tag == ET_TAG_INT_LIST ? 8 : 4);
	uint32_t *value_indices = READER_NEW_ARRAY(reader, uint32_t, items.n);
	if (!items.items)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "the list is missing");
	for (uint32_t i = 0; value_indices && i < items.n; i++) {
		int64_t value_index = tag == ET_TAG_INT_LIST ? et_fb_i64_at(fb, items, i) : et_fb_i32_at(fb, items, i);
		if (value_index == -1 && tag == ET_TAG_OPTIONAL_TENSOR_LIST)
			value_indices[i] = ET_NO_VALUE;
		else if (!et_program_value_index(reader, value_index, n_values, "item", i, &value_indices[i]))
			return;
	}
	list->n = items.n;
	list->values = value_indices;
}

static void read_plain_list(struct et_program_reader *reader, struct et_fb_table table, uint8_t tag,
	struct et_list_spec *list)
{
	struct et_fb *fb = &reader->fb;
	if (tag == ET_TAG_STRING) {
		struct et_fb_string string = et_fb_string(fb, table, VALUE_ITSELF);
		list->n = string.n;
		list->chars = et_program_string(reader, string);
		if (!list->chars)
			et_fb_fail(fb, ET_E_INVALID_PROGRAM, "the string is missing");
		return;
	}
	struct et_fb_vector items = et_fb_vector(fb, table, VALUE_ITSELF, tag == ET_TAG_DOUBLE_LIST ? 8 : 1);
	if (!items.items)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "the list is missing");
	list->n = items.n;
	if (tag == ET_TAG_DOUBLE_LIST) {
		double *doubles = READER_NEW_ARRAY(reader, double, items.n);
		for (uint32_t i = 0; doubles && i < items.n; i++)
			doubles[i] = et_fb_f64_at(fb, items, i);
		list->doubles = doubles;
	} else {
		uint8_t *bools = READER_NEW_ARRAY(reader, uint8_t, items.n);
		for (uint32_t i = 0; bools && i < items.n; i++)
			bools[i] = et_fb_u8_at(fb, items, i) != 0;
		list->bools = bools;
	}
}

static void read_value(struct et_program_reader *reader, struct et_fb_table evalue, const struct et_method_spec *method,
	struct et_value_spec *value)
{
	struct et_fb *fb = &reader->fb;
	value->tag = et_fb_u8(fb, evalue, EVALUE_TYPE, 0);
	if (value->tag == ET_TAG_NONE || fb->status != ET_OK)
		return;
	struct et_fb_table table = et_fb_table(fb, evalue, EVALUE_VALUE);
	if (et_fb_is_absent(table)) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "a value of type %u (%s) is missing", value->tag,
			et_tag_name(value->tag));
		return;
	}
	switch (value->tag) {
	case ET_TAG_INT:
		value->i = et_fb_i64(fb, table, VALUE_ITSELF, 0);
		return;
	case ET_TAG_BOOL:
		value->b = et_fb_bool(fb, table, VALUE_ITSELF, false);
		return;
	case ET_TAG_DOUBLE:
		value->d = et_fb_f64(fb, table, VALUE_ITSELF);
		return;
	case ET_TAG_TENSOR: {
		struct et_tensor_spec *tensor = READER_NEW_ARRAY(reader, struct et_tensor_spec, 1);
		if (tensor)
			read_tensor(reader, table, method, tensor);
		value->tensor = tensor;
		return;
	}
	case ET_TAG_STRING:
	case ET_TAG_INT_LIST:
	case ET_TAG_DOUBLE_LIST:
	case ET_TAG_BOOL_LIST:
	case ET_TAG_TENSOR_LIST:
	case ET_TAG_OPTIONAL_TENSOR_LIST: {
		struct et_list_spec *list = READER_NEW_ARRAY(reader, struct et_list_spec, 1);
		value->list = list;
		if (!list)
			return;
		if (value->tag == ET_TAG_STRING || value->tag == ET_TAG_DOUBLE_LIST || value->tag == ET_TAG_BOOL_LIST)
			read_plain_list(reader, table, value->tag, list);
		else
			read_value_list(reader, table, value->tag, method->n_values, list);
		return;
	}
	default:
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "unknown value type %u", value->tag);
	}
}

/* Check that each item of a list is a value of the kind that the list needs. */
static void check_list(struct et_program_reader *reader, const struct et_method_spec *method, uint32_t index)
{
	const struct et_value_spec *value = &method->values[index];
	uint8_t wanted;
	if (value->tag == ET_TAG_INT_LIST)
		wanted = ET_TAG_INT;
	else if (value->tag == ET_TAG_TENSOR_LIST || value->tag == ET_TAG_OPTIONAL_TENSOR_LIST)
		wanted = ET_TAG_TENSOR;
	else
		return;
	for (uint32_t i = 0; i < value->list->n; i++) {
		uint32_t value_index = value->list->values[i];
		uint8_t tag = value_index == ET_NO_VALUE ? ET_TAG_NONE : method->values[value_index].tag;
		if (tag == wanted || (tag == ET_TAG_NONE && value->tag == ET_TAG_OPTIONAL_TENSOR_LIST))
			continue;
		et_fb_fail(&reader->fb, ET_E_INVALID_PROGRAM, "item %u of the %s is value %u, which is %s, not %s", i,
			et_tag_name(value->tag), value_index, et_tag_name(tag), et_tag_name(wanted));
		return;
	}
}

void et_program_read_values(struct et_program_reader *reader, struct et_fb_table plan, struct et_method_spec *method)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_vector vector = et_fb_vector(fb, plan, PLAN_VALUES, 4);
	if (!vector.items)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "the method has no values");
	struct et_value_spec *values = READER_NEW_ARRAY(reader, struct et_value_spec, vector.n);
	if (!values)
		return;
	method->values = values;
	method->n_values = vector.n;
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "value", i);
		read_value(reader, et_fb_table_at(fb, vector, i), method, &values[i]);
	}
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "value", i);
		check_list(reader, method, i);
	}
}
