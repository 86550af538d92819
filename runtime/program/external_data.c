/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading external data (`.ptd`). The file is a FlatBuffer with a header behind its identifier, as in a program.
 * Segments follow the FlatBuffer. Each name refers to a segment and may describe the tensor in it.
 *
 * What must always be true: an entry's bytes lie within the file, and a tensor has exactly as many bytes as it
 * needs. A program that asks for a tensor gets it only if type, sizes and dim order equal the program's own;
 * otherwise the bytes would mean something else. */
#include "runtime/program/external_data.h"
#include "runtime/base/checked.h"
#include "runtime/base/names.h"
#include "runtime/program/flatbuffer.h"
#include "runtime/program/layout.h"

#include <string.h>

enum {
	HEADER_AT = 8, /* behind the root's offset and the identifier */
	HEADER_LENGTH = HEADER_AT + 4,
	HEADER_FLATBUFFER_AT = HEADER_AT + 8,
	HEADER_FLATBUFFER_BYTES = HEADER_AT + 16,
	HEADER_SEGMENT_BASE = HEADER_AT + 24,
	HEADER_SEGMENT_BYTES = HEADER_AT + 32,
	HEADER_END = HEADER_AT + 40,

	FILE_SEGMENTS = 1,
	FILE_NAMED_DATA,
	SEGMENT_OFFSET = 0,
	SEGMENT_SIZE,
	NAMED_KEY = 0,
	NAMED_SEGMENT,
	NAMED_LAYOUT,
	LAYOUT_TYPE = 0,
	LAYOUT_SIZES,
	LAYOUT_DIM_ORDER,
};

struct et_external {
	struct et_pool pool; /* this struct lies in it, too */
	struct et_source source;
	const struct et_external_data *next;
	struct et_external_data data;
	struct et_external_entry *entries;
	struct et_name *names; /* the entries' names, sorted */
	uint32_t n_entries;
};

struct reader {
	struct et_fb fb;
	struct et_pool *pool;
	struct et_external *external;
	size_t segment_base;
	struct et_fb_vector segments;
};

#define READER_NEW_ARRAY(reader, type, n) ET_FB_NEW_ARRAY(&(reader)->fb, (reader)->pool, type, n)

/* The FlatBuffer begins at the file's first byte. Its offset in the header counts the bytes before the rest. */
static enum et_status read_header(const struct et_source *source, size_t *ret_n_flatbuffer, size_t *ret_segment_base,
	struct et_diag *diag)
{
	const uint8_t *bytes = source->bytes;
	if (!et_fb_has_identifier(bytes, source->n_bytes, "FT01"))
		return et_fail(diag, ET_E_INVALID_EXTERNAL_DATA, "not a data file of version FT01");
	if (source->n_bytes < HEADER_END || memcmp(bytes + HEADER_AT, "FH01", 4) != 0 ||
		et_load_u32(bytes + HEADER_LENGTH) < HEADER_END - HEADER_AT)
		return et_fail(diag, ET_E_INVALID_EXTERNAL_DATA, "the data file has no header FH01");
	uint64_t at = et_load_u64(bytes + HEADER_FLATBUFFER_AT);
	uint64_t n = et_load_u64(bytes + HEADER_FLATBUFFER_BYTES);
	uint64_t base = et_load_u64(bytes + HEADER_SEGMENT_BASE);
	uint64_t n_segments = et_load_u64(bytes + HEADER_SEGMENT_BYTES);
	if (!et_in_range(at, n, source->n_bytes) || !et_in_range(base, n_segments, source->n_bytes))
		return et_fail(diag, ET_E_INVALID_EXTERNAL_DATA,
			"truncated: the header speaks of %llu bytes at %llu and %llu at %llu, the file has "
			"%zu",
			(unsigned long long)n, (unsigned long long)at, (unsigned long long)n_segments,
			(unsigned long long)base, source->n_bytes);
	*ret_n_flatbuffer = (size_t)(at + n);
	*ret_segment_base = (size_t)base;
	return ET_OK;
}

static void read_layout(struct reader *reader, struct et_fb_table table, struct et_external_entry *entry)
{
	static const struct et_layout_fields fields = { LAYOUT_TYPE, LAYOUT_SIZES, LAYOUT_DIM_ORDER };
	struct et_fb *fb = &reader->fb;
	struct et_layout layout;
	if (!et_layout_read(fb, table, &fields, ET_E_INVALID_EXTERNAL_DATA, reader->pool, &layout))
		return;
	if (layout.n_bytes > entry->n_bytes) {
		et_fb_fail(fb, ET_E_INVALID_EXTERNAL_DATA, "%zu bytes of data for a tensor of %zu bytes",
			entry->n_bytes, layout.n_bytes);
		return;
	}
	entry->is_tensor = true;
	entry->type = layout.type;
	entry->n_dims = layout.n_dims;
	entry->sizes = layout.sizes;
	entry->dim_order = layout.dim_order;
}

/* Refuse segments that are larger together than the file: they overlap. Without overlap the memory that is made from
 * them stays in proportion to the file. */
static void check_overlap(struct reader *reader)
{
	size_t n_left = reader->external->source.n_bytes - reader->segment_base;
	for (uint32_t i = 0; i < reader->segments.n && reader->fb.status == ET_OK; i++) {
		struct et_fb_table segment = et_fb_table_at(&reader->fb, reader->segments, i);
		uint64_t n_bytes = et_fb_u64(&reader->fb, segment, SEGMENT_SIZE, 0);
		if (n_bytes > n_left)
			et_fb_fail(&reader->fb, ET_E_INVALID_EXTERNAL_DATA,
				"segments overlap, or reach beyond the file: they are more than it has "
				"bytes");
		else
			n_left -= (size_t)n_bytes;
	}
}

static void read_entry(struct reader *reader, struct et_fb_table table, struct et_external_entry *entry)
{
	struct et_fb *fb = &reader->fb;
	const struct et_source *source = &reader->external->source;
	struct et_fb_string key = et_fb_string(fb, table, NAMED_KEY);
	uint32_t index = et_fb_u32(fb, table, NAMED_SEGMENT, 0);
	if (fb->status == ET_OK && (!key.chars || index >= reader->segments.n))
		et_fb_fail(fb, ET_E_INVALID_EXTERNAL_DATA, "it has no name or no segment");
	char *name = READER_NEW_ARRAY(reader, char, (size_t)key.n + 1);
	if (!name)
		return;
	memcpy(name, key.chars, key.n);
	struct et_fb_table segment = et_fb_table_at(fb, reader->segments, index);
	uint64_t offset = et_fb_u64(fb, segment, SEGMENT_OFFSET, 0);
	uint64_t n_bytes = et_fb_u64(fb, segment, SEGMENT_SIZE, 0);
	if (!et_in_range(offset, n_bytes, source->n_bytes - reader->segment_base)) {
		et_fb_fail(fb, ET_E_INVALID_EXTERNAL_DATA, "%llu bytes at %llu of the segments reach beyond the file",
			(unsigned long long)n_bytes, (unsigned long long)offset);
		return;
	}
	entry->name = name;
	entry->bytes = source->bytes + reader->segment_base + offset;
	entry->n_bytes = (size_t)n_bytes;
	struct et_fb_table layout = et_fb_table(fb, table, NAMED_LAYOUT);
	if (!et_fb_is_absent(layout))
		read_layout(reader, layout, entry);
}

static bool is_as_expected(const struct et_external_entry *entry, const struct et_tensor_spec *expected)
{
	return entry->is_tensor && entry->type == expected->type && entry->n_dims == expected->n_dims &&
	       memcmp(entry->sizes, expected->sizes, entry->n_dims * sizeof *entry->sizes) == 0 &&
	       memcmp(entry->dim_order, expected->dim_order, entry->n_dims) == 0;
}

static enum et_status refuse(const struct et_external_entry *entry, const struct et_tensor_spec *expected,
	struct et_diag *diag)
{
	char there[ET_SIZES_TEXT], wanted[ET_SIZES_TEXT];
	if (!entry->is_tensor)
		return et_fail(diag, ET_E_INVALID_EXTERNAL_DATA,
			"the data file has no tensor of that name, but a blob");
	bool is_order = entry->type == expected->type && entry->n_dims == expected->n_dims &&
			memcmp(entry->sizes, expected->sizes, entry->n_dims * sizeof *entry->sizes) == 0;
	return et_fail(diag, ET_E_INVALID_EXTERNAL_DATA,
		"the data file has another tensor of that name: %s %s, not %s %s%s; are both files of one "
		"export?",
		et_scalar_name(entry->type), et_sizes_text(there, sizeof there, entry->sizes, entry->n_dims),
		et_scalar_name(expected->type), et_sizes_text(wanted, sizeof wanted, expected->sizes, expected->n_dims),
		is_order ? " in another dim order" : "");
}

static enum et_status find(void *self, const char *name, const struct et_tensor_spec *expected,
	const uint8_t **ret_bytes, size_t *ret_n_bytes, struct et_diag *diag)
{
	const struct et_external *external = self;
	uint32_t index = et_names_find(external->names, external->n_entries, name);
	if (index != ET_NO_NAME) {
		const struct et_external_entry *entry = &external->entries[index];
		if (expected && !is_as_expected(entry, expected))
			return refuse(entry, expected, diag);
		*ret_bytes = entry->bytes;
		*ret_n_bytes = entry->n_bytes;
		return ET_OK;
	}
	if (!external->next)
		return et_fail(diag, ET_E_NOT_FOUND, "the data file has nothing of that name");
	return external->next->find(external->next->self, name, expected, ret_bytes, ret_n_bytes, diag);
}

static const struct et_source *source_at(void *self, uint32_t index)
{
	const struct et_external *external = self;
	if (!index)
		return &external->source;
	const struct et_external_data *next = external->next;
	return next && next->source_at ? next->source_at(next->self, index - 1) : NULL;
}

static enum et_status read_file(struct et_external *external, struct et_pool *pool, const struct et_source *source,
	struct et_diag *diag)
{
	size_t n_flatbuffer = 0;
	struct reader reader = { .pool = pool, .external = external };
	enum et_status status = read_header(source, &n_flatbuffer, &reader.segment_base, diag);
	if (status != ET_OK)
		return status;
	struct et_fb *fb = &reader.fb;
	struct et_fb_table root = et_fb_open(fb, source->bytes, n_flatbuffer, "FT01", diag);
	reader.segments = et_fb_vector(fb, root, FILE_SEGMENTS, 4);
	struct et_fb_vector named = et_fb_vector(fb, root, FILE_NAMED_DATA, 4);
	external->entries = READER_NEW_ARRAY(&reader, struct et_external_entry, named.n);
	external->names = READER_NEW_ARRAY(&reader, struct et_name, named.n);
	for (uint32_t i = 0; i < named.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "external data", i);
		read_entry(&reader, et_fb_table_at(fb, named, i), &external->entries[i]);
		external->names[i] = (struct et_name){ external->entries[i].name, i };
	}
	et_fb_where(fb, NULL, 0);
	check_overlap(&reader);
	external->n_entries = named.n;
	status = et_fb_status(fb);
	if (status == ET_OK)
		et_names_sort(external->names, named.n);
	return status == ET_E_INVALID_PROGRAM ? ET_E_INVALID_EXTERNAL_DATA : status;
}

enum et_status et_external_open(struct et_external **ret_external, const struct et_source *source,
	const struct et_external_data *next, const struct et_allocator *allocator, struct et_diag *diag)
{
	struct et_pool pool;
	et_pool_init(&pool, allocator);
	struct et_external *external = ET_POOL_NEW(&pool, struct et_external);
	if (!external)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for external data");
	external->source = *source;
	external->next = next;
	external->data = (struct et_external_data){ .self = external, .find = find, .source_at = source_at };
	enum et_status status = read_file(external, &pool, source, diag);
	if (status != ET_OK) {
		et_pool_deinit(&pool);
		return status;
	}
	external->pool = pool;
	*ret_external = external;
	return ET_OK;
}

struct et_external *et_external_free(struct et_external *external)
{
	if (!external)
		return NULL;
	if (external->source.release)
		external->source.release(external->source.owner);
	struct et_pool pool = external->pool; /* the struct itself lies in this pool */
	et_pool_deinit(&pool);
	return NULL;
}

const struct et_external_data *et_external_data(const struct et_external *external)
{
	return &external->data;
}

const struct et_external_entry *et_external_entry_at(const struct et_external *external, uint32_t index)
{
	return index < external->n_entries ? &external->entries[index] : NULL;
}
