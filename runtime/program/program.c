/* SPDX-License-Identifier: BSD-3-Clause */
/* Program: opening, references, look-ups.
 *
 * A `.pte` begins with a FlatBuffer. Behind its identifier there may be an extended header (`eh00`): the length of the
 * FlatBuffer, and where the segments behind it begin (constants, initial values, payloads, named data). A file without
 * that header consists of the FlatBuffer only and has no segments.
 *
 * What must always be true: - An opened Program holds no offset, count or index that was not checked, so no later code
 * checks one again. All
 *   decoded memory lies in one pool, the Program struct too, so a failure at any point only frees the pool.
 * - Segments are checked against the file, and each use of a segment against the segment. - After et_program_open only
 * constants, initial values, payloads and named data are read from the file.
 *
 * Stack traces and the descriptions of Python containers in the file are not read: nothing here needs them.
 * program_method.c and program_values.c decode the methods; program_shared.c finds shared mutable buffers. */
#include "runtime/program/program_internal.h"
#include "runtime/base/checked.h"
#include "runtime/program/bundle.h"

#include <string.h>

enum {
	HEADER_AT = 8, /* behind the root's offset and the identifier */
	HEADER_LENGTH = HEADER_AT + 4,
	HEADER_PROGRAM_SIZE = HEADER_AT + 8,
	HEADER_SEGMENT_BASE = HEADER_AT + 16,
	HEADER_SEGMENT_BYTES = HEADER_AT + 24,
	HEADER_END = HEADER_AT + 32,
	SHORTEST_HEADER = 24, /* without the segments' size, which ExecuTorch 1.0 added */
	SHORTEST_HEADER_WITH_SIZE = 32,
};

const char *et_program_string(struct et_program_reader *reader, struct et_fb_string string)
{
	if (reader->fb.status != ET_OK || !string.chars)
		return NULL;
	char *copy = et_pool_strndup(reader->pool, string.chars, string.n);
	if (!copy)
		et_fb_fail(&reader->fb, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a name");
	return copy;
}

bool et_program_value_index(struct et_program_reader *reader, int64_t value_index, uint32_t n_values, const char *what,
	uint32_t number, uint32_t *ret_slot)
{
	if (value_index < 0 || value_index >= n_values) {
		et_fb_fail(&reader->fb, ET_E_INVALID_PROGRAM, "%s %u is value %lld, but there are %u values", what,
			number, (long long)value_index, n_values);
		return false;
	}
	*ret_slot = (uint32_t)value_index;
	return true;
}

const uint32_t *et_program_value_indices(struct et_program_reader *reader, struct et_fb_vector vector,
	uint32_t n_values, const char *what)
{
	uint32_t *value_indices = READER_NEW_ARRAY(reader, uint32_t, vector.n);
	if (!value_indices)
		return NULL;
	et_fb_u32s(&reader->fb, vector, value_indices);
	for (uint32_t i = 0; i < vector.n; i++)
		if (!et_program_value_index(reader, (int32_t)value_indices[i], n_values, what, i, &value_indices[i]))
			return NULL;
	return value_indices;
}

struct et_segment *et_program_segment(struct et_program_reader *reader, uint32_t index)
{
	if (index >= reader->program->n_segments) {
		et_fb_fail(&reader->fb, ET_E_INVALID_PROGRAM, "segment %u is referred to, but there are %u", index,
			reader->program->n_segments);
		return NULL;
	}
	return &reader->program->segments[index];
}

/* Read the lengths from the extended header; without a header the FlatBuffer is the whole file. */
static enum et_status read_header(struct et_program *program, size_t *ret_n_flatbuffer, size_t *ret_segment_base,
	struct et_diag *diag)
{
	const uint8_t *bytes = program->bytes;
	*ret_n_flatbuffer = program->n_bytes;
	*ret_segment_base = 0;
	if (program->n_bytes < HEADER_SEGMENT_BYTES || memcmp(bytes + HEADER_AT, "eh00", 4) != 0)
		return ET_OK;
	uint32_t length = et_load_u32(bytes + HEADER_LENGTH);
	uint64_t n_flatbuffer = et_load_u64(bytes + HEADER_PROGRAM_SIZE);
	uint64_t base = et_load_u64(bytes + HEADER_SEGMENT_BASE);
	uint64_t n_segment_bytes = 0;
	if (length < SHORTEST_HEADER)
		return et_fail(diag, ET_E_INVALID_PROGRAM,
			"the extended header's length is %u, at least %d is expected", length, SHORTEST_HEADER);
	if (length >= SHORTEST_HEADER_WITH_SIZE && program->n_bytes >= HEADER_END)
		n_segment_bytes = et_load_u64(bytes + HEADER_SEGMENT_BYTES);
	if (n_flatbuffer > program->n_bytes || !et_in_range(base, n_segment_bytes, program->n_bytes))
		return et_fail(diag, ET_E_INVALID_PROGRAM,
			"truncated: the header speaks of %llu bytes of program and %llu of segments at %llu, "
			"the file has %zu",
			(unsigned long long)n_flatbuffer, (unsigned long long)n_segment_bytes, (unsigned long long)base,
			program->n_bytes);
	*ret_n_flatbuffer = (size_t)n_flatbuffer;
	*ret_segment_base = (size_t)base;
	return ET_OK;
}

uint64_t et_program_extent(const uint8_t *bytes, size_t n_bytes)
{
	uint64_t n_flatbuffer, end;
	if (n_bytes < HEADER_END || memcmp(bytes + HEADER_AT, "eh00", 4) != 0 ||
		et_load_u32(bytes + HEADER_LENGTH) < SHORTEST_HEADER_WITH_SIZE)
		return 0;
	n_flatbuffer = et_load_u64(bytes + HEADER_PROGRAM_SIZE);
	if (__builtin_add_overflow(et_load_u64(bytes + HEADER_SEGMENT_BASE), et_load_u64(bytes + HEADER_SEGMENT_BYTES),
		    &end))
		return 0;
	return end > n_flatbuffer ? end : n_flatbuffer;
}

static void read_segments(struct et_program_reader *reader, struct et_fb_table root, size_t base)
{
	struct et_fb *fb = &reader->fb;
	struct et_program *program = reader->program;
	struct et_fb_vector vector = et_fb_vector(fb, root, PROGRAM_SEGMENTS, 4);
	/* without a base there are no segments to refer to; a later reference to one is refused */
	if (base == 0)
		return;
	program->segments = READER_NEW_ARRAY(reader, struct et_segment, vector.n);
	/* this keeps the memory that is made from segments in proportion to the file */
	size_t n_left = program->n_bytes - base;
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "segment", i);
		struct et_fb_table table = et_fb_table_at(fb, vector, i);
		uint64_t offset = et_fb_u64(fb, table, SEGMENT_OFFSET, 0);
		uint64_t n_bytes = et_fb_u64(fb, table, SEGMENT_SIZE, 0);
		size_t room = program->n_bytes - base;
		if (!et_in_range(offset, n_bytes, room)) {
			et_fb_fail(fb, ET_E_INVALID_PROGRAM,
				"%llu bytes at %llu reach beyond the file, which has %zu behind byte %zu",
				(unsigned long long)n_bytes, (unsigned long long)offset, room, base);
			return;
		}
		if (n_bytes > n_left) {
			et_fb_fail(fb, ET_E_INVALID_PROGRAM, "segments overlap: they are more than the file");
			return;
		}
		n_left -= (size_t)n_bytes;
		program->segments[i] = (struct et_segment){ .offset = base + (size_t)offset,
			.n_bytes = (size_t)n_bytes };
	}
	et_fb_where(fb, NULL, 0);
	if (fb->status == ET_OK)
		program->n_segments = vector.n;
}

/* Find where constants lie. A single offset is the reserved entry 0: there are no constants then. */
static void read_constants(struct et_program_reader *reader, struct et_fb_table root)
{
	struct et_fb *fb = &reader->fb;
	reader->constant_buffers = et_fb_vector(fb, root, PROGRAM_CONSTANT_BUFFER, 4);
	reader->mutable_segments = et_fb_vector(fb, root, PROGRAM_MUTABLE_DATA_SEGMENTS, 4);
	reader->inline_payloads = et_fb_vector(fb, root, PROGRAM_BACKEND_DELEGATE_DATA, 4);

	struct et_fb_table table = et_fb_table(fb, root, PROGRAM_CONSTANT_SEGMENT);
	struct et_fb_vector offsets = et_fb_vector(fb, table, SUBSEGMENT_OFFSETS, 8);
	if (offsets.n <= 1)
		return;
	if (reader->constant_buffers.n) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "constants are both in a segment (%u) and inline (%u)", offsets.n,
			reader->constant_buffers.n);
		return;
	}
	reader->constant_segment = et_fb_u32(fb, table, SUBSEGMENT_INDEX, 0);
	struct et_segment *segment = et_program_segment(reader, reader->constant_segment);
	if (!segment)
		return;
	segment->has_constants = true;
	reader->constant_offsets = offsets;
}

/* Read the keys of named data. If a key occurs twice, look-ups find the lower segment. */
static void read_named_data(struct et_program_reader *reader, struct et_fb_table root)
{
	struct et_fb *fb = &reader->fb;
	struct et_program *program = reader->program;
	struct et_fb_vector vector = et_fb_vector(fb, root, PROGRAM_NAMED_DATA, 4);
	program->named = READER_NEW_ARRAY(reader, struct et_name, vector.n);
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "named data", i);
		struct et_fb_table table = et_fb_table_at(fb, vector, i);
		const char *key = et_program_string(reader, et_fb_string(fb, table, NAMED_KEY));
		uint32_t index = et_fb_u32(fb, table, NAMED_SEGMENT, 0);
		struct et_segment *segment = et_program_segment(reader, index);
		if (!segment || fb->status != ET_OK)
			return;
		if (!key) {
			et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it has no key");
			return;
		}
		segment->has_named_data = true;
		program->named[i] = (struct et_name){ key, index };
	}
	et_fb_where(fb, NULL, 0);
	if (fb->status != ET_OK)
		return;
	et_names_sort(program->named, vector.n);
	program->n_named = vector.n;
}

/* The method cannot run here, but the file is not broken: keep only the method's name and the reason, so that the
 * other methods may run. */
static void refuse_alone(struct et_program_reader *reader, struct et_method_spec *method)
{
	struct et_fb *fb = &reader->fb;
	enum et_status status = fb->status;
	if (status != ET_E_NOT_SUPPORTED && status != ET_E_NOT_FOUND && status != ET_E_INVALID_EXTERNAL_DATA)
		return;
	struct et_diag why = reader->diag;
	reader->diag.text[0] = '\0';
	fb->status = ET_OK;
	*method = (struct et_method_spec){
		.name = method->name,
		.why_not = et_program_string(reader, (struct et_fb_string){ why.text, (uint32_t)strlen(why.text) }),
		.refusal = status,
	};
}

static void read_methods(struct et_program_reader *reader, struct et_fb_table root)
{
	struct et_fb *fb = &reader->fb;
	struct et_program *program = reader->program;
	struct et_fb_vector plans = et_fb_vector(fb, root, PROGRAM_EXECUTION_PLAN, 4);
	if (!plans.items)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "there is no list of methods");
	program->methods = READER_NEW_ARRAY(reader, struct et_method_spec, plans.n);
	for (uint32_t i = 0; i < plans.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "method", i);
		et_program_read_method(reader, et_fb_table_at(fb, plans, i), &program->methods[i]);
		refuse_alone(reader, &program->methods[i]);
		et_fb_within(fb, NULL);
	}
	et_fb_where(fb, NULL, 0);
	if (fb->status == ET_OK)
		program->n_methods = plans.n;
}

static void count_segments(struct et_program *program)
{
	for (uint32_t i = 0; i < program->n_segments; i++) {
		const struct et_segment *segment = &program->segments[i];
		if (segment->has_constants)
			program->stats.n_constant_bytes += segment->n_bytes;
		else if (segment->has_payload)
			program->stats.n_payload_bytes += segment->n_bytes;
		else if (segment->has_named_data)
			program->stats.n_named_bytes += segment->n_bytes;
	}
}

/* Fill @program, whose bytes are set already. */
static enum et_status read_program(struct et_program *program, struct et_pool *pool, struct et_diag *diag)
{
	size_t n_flatbuffer, base;
	enum et_status status = read_header(program, &n_flatbuffer, &base, diag);
	if (status != ET_OK)
		return status;
	struct et_program_reader reader = { .pool = pool, .program = program };
	struct et_fb_table root = et_fb_open(&reader.fb, program->bytes, n_flatbuffer, "ET12", &reader.diag);
	program->stats.version = et_fb_u32(&reader.fb, root, PROGRAM_VERSION, 0);
	read_segments(&reader, root, base);
	read_constants(&reader, root);
	read_named_data(&reader, root);
	read_methods(&reader, root);
	status = et_fb_status(&reader.fb);
	return status ? et_fail(diag, status, "%s", reader.diag.text) : ET_OK;
}

enum et_status et_program_open(struct et_program **ret_program, const struct et_source *source,
	const struct et_external_data *external, const struct et_allocator *allocator, struct et_diag *diag)
{
	const uint8_t *bytes = source->bytes;
	size_t n_bytes = source->n_bytes;
	if (et_bundle_is(bytes, n_bytes)) {
		enum et_status status = et_bundle_find_program(&bytes, &n_bytes, source->bytes, source->n_bytes, diag);
		if (status != ET_OK)
			return status;
	}

	struct et_pool pool;
	et_pool_init(&pool, allocator);
	struct et_program *program = ET_POOL_NEW(&pool, struct et_program);
	if (!program)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a program");
	*program = (struct et_program){
		.source = *source,
		.external = external,
		.bytes = bytes,
		.n_bytes = n_bytes,
	};
	enum et_status status = read_program(program, &pool, diag);
	if (status != ET_OK) {
		et_pool_deinit(&pool);
		return status;
	}
	count_segments(program);
	program->stats.n_file_bytes = source->n_bytes;
	program->stats.n_decoded_bytes = pool.n_bytes;
	program->stats.n_named_data = program->n_named;
	program->stats.n_segments = program->n_segments;
	et_ref_init(&program->ref);
	program->pool = pool;
	*ret_program = program;
	return ET_OK;
}

struct et_program *et_program_ref(struct et_program *program)
{
	et_ref_get(&program->ref);
	return program;
}

struct et_program *et_program_unref(struct et_program *program)
{
	if (!program || !et_ref_put(&program->ref))
		return NULL;
	if (program->source.release)
		program->source.release(program->source.owner);
	struct et_pool pool = program->pool; /* the program itself lies in this pool */
	et_pool_deinit(&pool);
	return NULL;
}

uint32_t et_program_n_methods(const struct et_program *program)
{
	return program->n_methods;
}

const struct et_method_spec *et_program_method_at(const struct et_program *program, uint32_t index)
{
	return index < program->n_methods ? &program->methods[index] : NULL;
}

const struct et_method_spec *et_program_find_method(const struct et_program *program, const char *name)
{
	if (!name && program->n_methods == 1)
		return program->methods;
	for (uint32_t i = 0; i < program->n_methods; i++) {
		if (strcmp(program->methods[i].name, name ? name : "forward") == 0)
			return &program->methods[i];
	}
	return NULL;
}

enum et_status et_program_find_named_data(const struct et_program *program, const char *key, const uint8_t **ret_bytes,
	size_t *ret_n_bytes)
{
	uint32_t index = et_names_find(program->named, program->n_named, key);
	if (index != ET_NO_NAME) {
		const struct et_segment *segment = &program->segments[index];
		*ret_bytes = program->bytes + segment->offset;
		*ret_n_bytes = segment->n_bytes;
		return ET_OK;
	}
	const struct et_external_data *external = program->external;
	if (!external)
		return ET_E_NOT_FOUND;
	return external->find(external->self, key, NULL, ret_bytes, ret_n_bytes, NULL);
}

const struct et_source *et_program_source(const struct et_program *program)
{
	return &program->source;
}

static bool lies_in(const struct et_source *source, const uint8_t *bytes, size_t n_bytes)
{
	uintptr_t offset = (uintptr_t)bytes - (uintptr_t)source->bytes;
	return et_in_range(offset, n_bytes, source->n_bytes);
}

const struct et_source *et_program_find_source(const struct et_program *program, const uint8_t *bytes, size_t n_bytes,
	uint32_t *ret_number)
{
	const struct et_external_data *external = program->external;
	const struct et_source *source = &program->source;
	for (uint32_t number = 0; source; number++) {
		if (lies_in(source, bytes, n_bytes)) {
			*ret_number = number;
			return source;
		}
		source = external && external->source_at ? external->source_at(external->self, number) : NULL;
	}
	return NULL;
}

void et_program_stats(const struct et_program *program, struct et_program_stats *ret_stats)
{
	*ret_stats = program->stats;
}
