/* SPDX-License-Identifier: BSD-3-Clause */
/* Make programs. Each value, operator and instruction is written into the FlatBuffer when it is made, and kept as a
 * reference. A method's tables follow when the next method begins or the program ends. Segments are collected apart
 * and appended at the end. */
#include "tests/support/make_program.h"
#include "runtime/program/program_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_HEADER = 32, SEGMENT_ALIGN = 16 };

struct range {
	uint64_t offset, n_bytes;
};

static void *list_push(struct mk_list *list, const void *item, size_t n_item)
{
	list->items = realloc(list->items, (list->n + 1) * n_item);
	if (!list->items)
		abort();
	list->n_item = n_item;
	return memcpy((char *)list->items + list->n++ * n_item, item, n_item);
}

static void list_bytes(struct mk_list *list, const void *bytes, size_t n)
{
	static const uint8_t none;
	list->items = realloc(list->items, list->n + n + 1);
	if (!list->items)
		abort();
	memcpy((char *)list->items + list->n, n ? bytes : &none, n);
	list->n += n;
}

static void list_align(struct mk_list *list, size_t align, size_t skew)
{
	static const uint8_t zeros[2 * SEGMENT_ALIGN];
	list_bytes(list, zeros, (-list->n & (align - 1)) + skew);
}

static void list_clear(struct mk_list *list)
{
	free(list->items);
	*list = (struct mk_list){ 0 };
}

static void push_ref(struct mk_list *list, fbb_ref ref)
{
	list_push(list, &ref, sizeof ref);
}

static void push_i32(struct mk_list *list, int32_t value)
{
	list_push(list, &value, sizeof value);
}

/* The list as a vector of references; the list is empty after. */
static fbb_ref take_refs(struct make_program *mk, struct mk_list *list)
{
	fbb_ref ref = fbb_refs(&mk->fb, list->items, list->n);
	list_clear(list);
	return ref;
}

static fbb_ref take_vector(struct make_program *mk, struct mk_list *list, size_t item_bytes)
{
	fbb_ref ref = fbb_vector(&mk->fb, list->items, list->n, item_bytes, item_bytes);
	list_clear(list);
	return ref;
}

void mk_init(struct make_program *mk)
{
	*mk = (struct make_program){ .identifier = "ET12", .has_header = true };
	fbb_init(&mk->fb);
	/* Entry 0 of both lists of constants is reserved. */
	uint64_t zero = 0;
	list_push(&mk->constants, &zero, sizeof zero);
	list_push(&mk->initials, &zero, sizeof zero);
}

void mk_deinit(struct make_program *mk)
{
	struct mk_list *lists[] = { &mk->methods, &mk->segments, &mk->named, &mk->constants, &mk->initials,
		&mk->inline_payloads, &mk->constant_bytes, &mk->initial_bytes, &mk->segment_bytes, &mk->values,
		&mk->operators, &mk->delegates, &mk->chains, &mk->instructions, &mk->arenas, &mk->inputs,
		&mk->outputs };
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		list_clear(lists[i]);
	fbb_deinit(&mk->fb);
}

/* --- methods ---------------------------------------------------------------------------------- */

void mk_chain(struct make_program *mk)
{
	fbb_ref instructions = take_refs(mk, &mk->instructions);
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, CHAIN_INSTRUCTIONS, instructions);
	push_ref(&mk->chains, fbb_table_end(&mk->fb));
}

static void end_method(struct make_program *mk)
{
	if (!mk->is_in_method)
		return;
	mk_chain(mk);
	fbb_ref values = take_refs(mk, &mk->values);
	fbb_ref operators = take_refs(mk, &mk->operators);
	fbb_ref delegates = take_refs(mk, &mk->delegates);
	fbb_ref chains = take_refs(mk, &mk->chains);
	fbb_ref arenas = take_vector(mk, &mk->arenas, 8);
	fbb_ref inputs = take_vector(mk, &mk->inputs, 4);
	fbb_ref outputs = take_vector(mk, &mk->outputs, 4);
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, PLAN_NAME, mk->name);
	fbb_add_ref(&mk->fb, PLAN_VALUES, values);
	fbb_add_ref(&mk->fb, PLAN_INPUTS, inputs);
	fbb_add_ref(&mk->fb, PLAN_OUTPUTS, outputs);
	fbb_add_ref(&mk->fb, PLAN_CHAINS, chains);
	fbb_add_ref(&mk->fb, PLAN_OPERATORS, operators);
	fbb_add_ref(&mk->fb, PLAN_DELEGATES, delegates);
	fbb_add_ref(&mk->fb, PLAN_ARENA_SIZES, arenas);
	push_ref(&mk->methods, fbb_table_end(&mk->fb));
	mk->is_in_method = false;
}

void mk_method(struct make_program *mk, const char *name)
{
	end_method(mk);
	mk->is_in_method = true;
	mk->name = name ? fbb_string(&mk->fb, name) : 0;
	mk_arena(mk, 0); /* the reserved one */
}

uint32_t mk_arena(struct make_program *mk, int64_t n_bytes)
{
	list_push(&mk->arenas, &n_bytes, sizeof n_bytes);
	return (uint32_t)mk->arenas.n - 1;
}

void mk_input(struct make_program *mk, int value)
{
	push_i32(&mk->inputs, value);
}

void mk_output(struct make_program *mk, int value)
{
	push_i32(&mk->outputs, value);
}

/* --- values ----------------------------------------------------------------------------------- */

int mk_value(struct make_program *mk, uint8_t type, fbb_ref body)
{
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, EVALUE_VALUE, body);
	fbb_add_u8(&mk->fb, EVALUE_TYPE, type);
	push_ref(&mk->values, fbb_table_end(&mk->fb));
	return (int)mk->values.n - 1;
}

int mk_none(struct make_program *mk)
{
	fbb_table_begin(&mk->fb);
	return mk_value(mk, ET_TAG_NONE, fbb_table_end(&mk->fb));
}

int mk_int(struct make_program *mk, int64_t value)
{
	fbb_table_begin(&mk->fb);
	fbb_add_u64(&mk->fb, VALUE_ITSELF, (uint64_t)value);
	return mk_value(mk, ET_TAG_INT, fbb_table_end(&mk->fb));
}

int mk_bool(struct make_program *mk, bool value)
{
	fbb_table_begin(&mk->fb);
	fbb_add_u8(&mk->fb, VALUE_ITSELF, value);
	return mk_value(mk, ET_TAG_BOOL, fbb_table_end(&mk->fb));
}

int mk_double(struct make_program *mk, double value)
{
	fbb_table_begin(&mk->fb);
	fbb_add_f64(&mk->fb, VALUE_ITSELF, value);
	return mk_value(mk, ET_TAG_DOUBLE, fbb_table_end(&mk->fb));
}

static int value_of_ref(struct make_program *mk, uint8_t tag, fbb_ref ref)
{
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, VALUE_ITSELF, ref);
	return mk_value(mk, tag, fbb_table_end(&mk->fb));
}

int mk_string(struct make_program *mk, const char *value)
{
	return value_of_ref(mk, ET_TAG_STRING, fbb_string(&mk->fb, value));
}

int mk_slots(struct make_program *mk, uint8_t tag, const int *slots, size_t n)
{
	struct mk_list items = { 0 };
	for (size_t i = 0; i < n; i++) {
		int64_t slot = slots[i];
		if (tag == ET_TAG_INT_LIST)
			list_push(&items, &slot, sizeof slot);
		else
			push_i32(&items, slots[i]);
	}
	return value_of_ref(mk, tag, take_vector(mk, &items, tag == ET_TAG_INT_LIST ? 8 : 4));
}

int mk_doubles(struct make_program *mk, const double *items, size_t n)
{
	return value_of_ref(mk, ET_TAG_DOUBLE_LIST, fbb_vector(&mk->fb, items, n, 8, 8));
}

int mk_bools(struct make_program *mk, const bool *items, size_t n)
{
	return value_of_ref(mk, ET_TAG_BOOL_LIST, fbb_vector(&mk->fb, items, n, 1, 4));
}

static fbb_ref extra_info(struct make_program *mk, const struct mk_tensor *t)
{
	uint8_t location = t->is_external ? 1 : t->location;
	if (!t->name && !location && !t->device_type && !t->initial_list)
		return 0;
	fbb_ref name = t->name ? fbb_string(&mk->fb, t->name) : 0;
	fbb_table_begin(&mk->fb);
	fbb_add_u64(&mk->fb, EXTRA_MUTABLE_SEGMENT, t->initial_list);
	fbb_add_ref(&mk->fb, EXTRA_NAME, name);
	fbb_add_u8(&mk->fb, EXTRA_LOCATION, location);
	fbb_add_u8(&mk->fb, EXTRA_DEVICE_TYPE, t->device_type);
	return fbb_table_end(&mk->fb);
}

static fbb_ref allocation_info(struct make_program *mk, const struct mk_tensor *t)
{
	if (!t->arena && !t->has_allocation)
		return 0;
	fbb_table_begin(&mk->fb);
	fbb_add_u32(&mk->fb, ALLOCATION_MEMORY_ID, t->arena);
	fbb_add_u32(&mk->fb, ALLOCATION_OFFSET_LOW, (uint32_t)t->offset);
	fbb_add_u32(&mk->fb, ALLOCATION_OFFSET_HIGH, (uint32_t)(t->offset >> 32));
	return fbb_table_end(&mk->fb);
}

int mk_tensor(struct make_program *mk, const struct mk_tensor *t)
{
	static const uint8_t in_order[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
	uint32_t n_dim_order = t->n_dim_order ? t->n_dim_order : t->n_dims;
	const uint8_t *dim_order = t->dim_order ? t->dim_order : in_order;
	fbb_ref sizes = t->has_no_sizes ? 0 : fbb_vector(&mk->fb, t->sizes, t->n_dims, 4, 4);
	fbb_ref order = t->has_no_dim_order ? 0 : fbb_vector(&mk->fb, dim_order, n_dim_order, 1, 4);
	fbb_ref extra = extra_info(mk, t);
	fbb_ref allocation = allocation_info(mk, t);
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, TENSOR_SIZES, sizes);
	fbb_add_ref(&mk->fb, TENSOR_DIM_ORDER, order);
	fbb_add_ref(&mk->fb, TENSOR_EXTRA_INFO, extra);
	fbb_add_ref(&mk->fb, TENSOR_ALLOCATION_INFO, allocation);
	fbb_add_u32(&mk->fb, TENSOR_DATA_BUFFER_IDX, t->constant);
	fbb_add_u32(&mk->fb, TENSOR_STORAGE_OFFSET, (uint32_t)t->storage_offset);
	fbb_add_u8(&mk->fb, TENSOR_SCALAR_TYPE, (uint8_t)t->type);
	fbb_add_u8(&mk->fb, TENSOR_SHAPE_DYNAMISM, t->dynamism);
	return mk_value(mk, ET_TAG_TENSOR, fbb_table_end(&mk->fb));
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Into a list of bytes, and its offset into a list of offsets. */
static uint32_t add_to_segment(struct mk_list *offsets, struct mk_list *all, const void *bytes, size_t n_bytes)
{
	list_align(all, SEGMENT_ALIGN, 0);
	uint64_t offset = all->n;
	list_bytes(all, bytes, n_bytes);
	list_push(offsets, &offset, sizeof offset);
	return (uint32_t)offsets->n - 1;
}

uint32_t mk_constant(struct make_program *mk, const void *bytes, size_t n_bytes)
{
	if (!mk->has_inline_constants)
		return add_to_segment(&mk->constants, &mk->constant_bytes, bytes, n_bytes);
	if (mk->constants.n_item == sizeof(uint64_t)) {
		/* The first one: from here on the list is one of tables, of which entry 0 is reserved too. */
		list_clear(&mk->constants);
		fbb_table_begin(&mk->fb);
		push_ref(&mk->constants, fbb_table_end(&mk->fb));
	}
	fbb_ref storage = fbb_bytes(&mk->fb, bytes, n_bytes);
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, BUFFER_BYTES, storage);
	push_ref(&mk->constants, fbb_table_end(&mk->fb));
	return (uint32_t)mk->constants.n - 1;
}

uint32_t mk_initial(struct make_program *mk, const void *bytes, size_t n_bytes)
{
	return add_to_segment(&mk->initials, &mk->initial_bytes, bytes, n_bytes);
}

uint32_t mk_segment(struct make_program *mk, const void *bytes, size_t n_bytes, size_t skew)
{
	list_align(&mk->segment_bytes, SEGMENT_ALIGN, skew);
	struct range range = { mk->segment_bytes.n, n_bytes };
	list_bytes(&mk->segment_bytes, bytes, n_bytes);
	list_push(&mk->segments, &range, sizeof range);
	return (uint32_t)mk->segments.n - 1;
}

void mk_named_data(struct make_program *mk, const char *key, const void *bytes, size_t n_bytes)
{
	uint32_t segment = mk_segment(mk, bytes, n_bytes, 0);
	fbb_ref name = key ? fbb_string(&mk->fb, key) : 0;
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, NAMED_KEY, name);
	fbb_add_u32(&mk->fb, NAMED_SEGMENT, segment);
	push_ref(&mk->named, fbb_table_end(&mk->fb));
}

/* --- code ------------------------------------------------------------------------------------- */

int mk_operator(struct make_program *mk, const char *name, const char *overload)
{
	fbb_ref refs[] = { name ? fbb_string(&mk->fb, name) : 0, overload ? fbb_string(&mk->fb, overload) : 0 };
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, OPERATOR_NAME, refs[0]);
	fbb_add_ref(&mk->fb, OPERATOR_OVERLOAD, refs[1]);
	push_ref(&mk->operators, fbb_table_end(&mk->fb));
	return (int)mk->operators.n - 1;
}

static fbb_ref compile_specs(struct make_program *mk, const char *key, const char *value)
{
	if (!key)
		return fbb_refs(&mk->fb, NULL, 0);
	fbb_ref refs[] = { fbb_string(&mk->fb, key), fbb_bytes(&mk->fb, value, strlen(value)) };
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, COMPILE_SPEC_KEY, refs[0]);
	fbb_add_ref(&mk->fb, COMPILE_SPEC_VALUE, refs[1]);
	fbb_ref spec = fbb_table_end(&mk->fb);
	return fbb_refs(&mk->fb, &spec, 1);
}

int mk_delegate(struct make_program *mk, const char *id, const void *payload, size_t n_bytes, bool is_inline,
	const char *key, const char *value)
{
	uint32_t index;
	if (is_inline) {
		fbb_ref data = fbb_bytes(&mk->fb, payload, n_bytes);
		fbb_table_begin(&mk->fb);
		fbb_add_ref(&mk->fb, BUFFER_BYTES, data);
		push_ref(&mk->inline_payloads, fbb_table_end(&mk->fb));
		index = (uint32_t)mk->inline_payloads.n - 1;
	} else {
		index = mk_segment(mk, payload, n_bytes, 0);
	}
	fbb_ref name = id ? fbb_string(&mk->fb, id) : 0;
	fbb_ref specs = compile_specs(mk, key, value);
	fbb_table_begin(&mk->fb);
	fbb_add_u32(&mk->fb, PROCESSED_INDEX, index);
	fbb_add_u8(&mk->fb, PROCESSED_LOCATION, !is_inline);
	fbb_ref processed = fbb_table_end(&mk->fb);
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, DELEGATE_ID, name);
	fbb_add_ref(&mk->fb, DELEGATE_PROCESSED, processed);
	fbb_add_ref(&mk->fb, DELEGATE_COMPILE_SPECS, specs);
	push_ref(&mk->delegates, fbb_table_end(&mk->fb));
	return (int)mk->delegates.n - 1;
}

void mk_instruction(struct make_program *mk, uint8_t type, fbb_ref body)
{
	fbb_table_begin(&mk->fb);
	fbb_add_ref(&mk->fb, INSTRUCTION_VALUE, body);
	fbb_add_u8(&mk->fb, INSTRUCTION_TYPE, type);
	push_ref(&mk->instructions, fbb_table_end(&mk->fb));
}

static void call(struct make_program *mk, uint8_t type, int callee, const int *args, size_t n_args)
{
	fbb_ref list = fbb_vector(&mk->fb, args, n_args, 4, 4);
	fbb_table_begin(&mk->fb);
	fbb_add_u32(&mk->fb, CALL_INDEX, (uint32_t)callee);
	fbb_add_ref(&mk->fb, CALL_ARGS, list);
	mk_instruction(mk, type, fbb_table_end(&mk->fb));
}

void mk_kernel(struct make_program *mk, int op_name, const int *args, size_t n_args)
{
	call(mk, ET_OP_KERNEL, op_name, args, n_args);
}

void mk_call(struct make_program *mk, int delegate, const int *args, size_t n_args)
{
	call(mk, ET_OP_DELEGATE, delegate, args, n_args);
}

static void two_fields(struct make_program *mk, uint8_t type, int first, int second)
{
	fbb_table_begin(&mk->fb);
	fbb_add_u32(&mk->fb, 0, (uint32_t)first);
	fbb_add_u32(&mk->fb, 1, (uint32_t)second);
	mk_instruction(mk, type, fbb_table_end(&mk->fb));
}

void mk_move(struct make_program *mk, int from, int to)
{
	two_fields(mk, ET_OP_MOVE, from, to);
}

void mk_jump_false(struct make_program *mk, int condition, int destination)
{
	two_fields(mk, ET_OP_JUMP_FALSE, condition, destination);
}

void mk_free(struct make_program *mk, int value)
{
	two_fields(mk, ET_OP_FREE, value, 0);
}

int mk_n_instructions(const struct make_program *mk)
{
	return (int)mk->instructions.n;
}

/* --- the file --------------------------------------------------------------------------------- */

static fbb_ref subsegment(struct make_program *mk, uint32_t segment, struct mk_list *offsets)
{
	fbb_ref list = take_vector(mk, offsets, 8);
	fbb_table_begin(&mk->fb);
	fbb_add_u32(&mk->fb, SUBSEGMENT_INDEX, segment);
	fbb_add_ref(&mk->fb, SUBSEGMENT_OFFSETS, list);
	return fbb_table_end(&mk->fb);
}

static fbb_ref segment_tables(struct make_program *mk)
{
	struct mk_list refs = { 0 };
	const struct range *ranges = mk->segments.items;
	for (size_t i = 0; i < mk->segments.n; i++) {
		fbb_table_begin(&mk->fb);
		fbb_add_u64(&mk->fb, SEGMENT_OFFSET, ranges[i].offset);
		fbb_add_u64(&mk->fb, SEGMENT_SIZE, ranges[i].n_bytes);
		push_ref(&refs, fbb_table_end(&mk->fb));
	}
	return take_refs(mk, &refs);
}

static void store(uint8_t *at, uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

uint8_t *mk_finish(struct make_program *mk, size_t *ret_n_bytes)
{
	struct fb_build *b = &mk->fb;
	end_method(mk);
	fbb_ref constant_segment = 0, constant_buffer = 0, mutable_segments = 0;
	if (mk->has_inline_constants && mk->constants.n_item == sizeof(fbb_ref)) {
		constant_buffer = take_refs(mk, &mk->constants);
	} else if (mk->constants.n > 1) {
		uint32_t segment = mk_segment(mk, mk->constant_bytes.items, mk->constant_bytes.n, 0);
		constant_segment = subsegment(mk, segment, &mk->constants);
	}
	if (mk->initials.n > 1) {
		uint32_t segment = mk_segment(mk, mk->initial_bytes.items, mk->initial_bytes.n, 0);
		fbb_ref table = subsegment(mk, segment, &mk->initials);
		mutable_segments = fbb_refs(b, &table, 1);
	}
	fbb_ref methods = take_refs(mk, &mk->methods);
	fbb_ref payloads = take_refs(mk, &mk->inline_payloads);
	fbb_ref segments = segment_tables(mk);
	fbb_ref named = take_refs(mk, &mk->named);
	fbb_table_begin(b);
	fbb_add_ref(b, PROGRAM_EXECUTION_PLAN, methods);
	fbb_add_ref(b, PROGRAM_CONSTANT_BUFFER, constant_buffer);
	fbb_add_ref(b, PROGRAM_BACKEND_DELEGATE_DATA, payloads);
	fbb_add_ref(b, PROGRAM_SEGMENTS, segments);
	fbb_add_ref(b, PROGRAM_CONSTANT_SEGMENT, constant_segment);
	fbb_add_ref(b, PROGRAM_MUTABLE_DATA_SEGMENTS, mutable_segments);
	fbb_add_ref(b, PROGRAM_NAMED_DATA, named);
	fbb_finish(b, fbb_table_end(b), mk->identifier, mk->has_header ? N_HEADER : 0);

	size_t n_flatbuffer;
	uint8_t *flatbuffer = fbb_data(b, &n_flatbuffer);
	size_t n_segments = mk->has_header ? mk->segment_bytes.n : 0;
	if (mk->has_header) {
		memcpy(flatbuffer + 8, "eh00", 4);
		store(flatbuffer + 12, N_HEADER, 4);
		store(flatbuffer + 16, n_flatbuffer, 8);
		store(flatbuffer + 24, n_segments ? n_flatbuffer : 0, 8);
		store(flatbuffer + 32, n_segments, 8);
	}
	uint8_t *file = malloc(n_flatbuffer + n_segments);
	if (!file)
		abort();
	memcpy(file, flatbuffer, n_flatbuffer);
	if (n_segments)
		memcpy(file + n_flatbuffer, mk->segment_bytes.items, n_segments);
	*ret_n_bytes = n_flatbuffer + n_segments;
	mk_deinit(mk);
	return file;
}

int mk_write(struct make_program *mk, const char *path)
{
	size_t n_file;
	uint8_t *file = mk_finish(mk, &n_file);
	FILE *out = fopen(path, "wb");
	bool is_written = out && fwrite(file, 1, n_file, out) == n_file;
	if (out && fclose(out) != 0)
		is_written = false;
	if (!is_written)
		perror(path);
	free(file);
	return is_written ? 0 : 1;
}

/* --- bundles ---------------------------------------------------------------------------------- */

static fbb_ref bundled_tensors(struct fb_build *b, const float *data, int32_t n)
{
	static const uint8_t dim_order;
	fbb_ref sizes = fbb_vector(b, &n, 1, 4, 4);
	fbb_ref order = fbb_vector(b, &dim_order, 1, 1, 4);
	fbb_ref bytes = fbb_bytes(b, data, (size_t)n * 4);
	fbb_table_begin(b);
	fbb_add_u8(b, 0, ET_FLOAT32);
	fbb_add_ref(b, 1, sizes);
	fbb_add_ref(b, 2, bytes);
	fbb_add_ref(b, 3, order);
	fbb_ref tensor = fbb_table_end(b);
	fbb_table_begin(b);
	fbb_add_u8(b, 0, 1);
	fbb_add_ref(b, 1, tensor);
	fbb_ref value = fbb_table_end(b);
	return fbb_refs(b, &value, 1);
}

/* What @b has become with one case for @method; @b goes. */
static uint8_t *finish_bundle(struct fb_build *b, fbb_ref program, const char *method, fbb_ref inputs, fbb_ref outputs,
	size_t *ret_n_bytes)
{
	fbb_ref name = method ? fbb_string(b, method) : 0;
	fbb_table_begin(b);
	fbb_add_ref(b, 0, inputs);
	fbb_add_ref(b, 1, outputs);
	fbb_ref item = fbb_table_end(b);
	fbb_ref cases = fbb_refs(b, &item, 1);
	fbb_table_begin(b);
	fbb_add_ref(b, 0, name);
	fbb_add_ref(b, 1, cases);
	fbb_ref suite = fbb_table_end(b);
	fbb_ref suites = fbb_refs(b, &suite, 1);
	fbb_table_begin(b);
	fbb_add_ref(b, 1, suites);
	fbb_add_ref(b, 2, program);
	fbb_finish(b, fbb_table_end(b), "BP08", 0);
	uint8_t *data = fbb_data(b, ret_n_bytes);
	uint8_t *file = malloc(*ret_n_bytes);
	if (!file)
		abort();
	memcpy(file, data, *ret_n_bytes);
	fbb_deinit(b);
	return file;
}

uint8_t *mk_bundle(const uint8_t *program, size_t n_program, const char *method, const float *input,
	const float *output, int32_t n, size_t *ret_n_bytes)
{
	struct fb_build b;
	fbb_init(&b);
	fbb_ref bytes = fbb_bytes(&b, program, n_program);
	fbb_ref inputs = bundled_tensors(&b, input, n);
	return finish_bundle(&b, bytes, method, inputs, bundled_tensors(&b, output, n), ret_n_bytes);
}

uint8_t *mk_bundle_of_numbers(const uint8_t *program, size_t n_program, const char *method,
	const struct mk_bundled *inputs, size_t n, size_t *ret_n_bytes)
{
	enum { MOST = 8 };
	struct fb_build b;
	fbb_ref values[MOST];
	if (n > MOST)
		abort();
	fbb_init(&b);
	fbb_ref bytes = fbb_bytes(&b, program, n_program);
	for (size_t i = 0; i < n; i++) {
		fbb_table_begin(&b);
		if (inputs[i].type == MK_BUNDLED_DOUBLE)
			fbb_add_f64(&b, 0, inputs[i].number);
		else if (inputs[i].type == MK_BUNDLED_INT)
			fbb_add_u64(&b, 0, (uint64_t)(int64_t)inputs[i].number);
		else
			fbb_add_u8(&b, 0, (uint8_t)inputs[i].number);
		fbb_ref body = fbb_table_end(&b);
		fbb_table_begin(&b);
		fbb_add_u8(&b, 0, inputs[i].type);
		fbb_add_ref(&b, 1, body);
		values[i] = fbb_table_end(&b);
	}
	return finish_bundle(&b, bytes, method, fbb_refs(&b, values, n), 0, ret_n_bytes);
}
