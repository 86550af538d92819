/* SPDX-License-Identifier: BSD-3-Clause */
/* The FlatBuffers reader.
 *
 * A buffer is a 32-bit offset to the root table, optionally four characters that name the schema (the identifier), and
 * then tables, vtables, vectors and strings in any order. A table begins with a signed offset back to its vtable. The
 * vtable says how long both are and where in the table each field lies (0: absent). Unsigned offsets refer to tables,
 * vectors and strings; they count from the place of the offset itself.
 *
 * What must always be true: a cursor's fields were checked when it was made (its table and vtable, or its vector's
 * items, lie in the buffer), so a getter has only its own field to check. Checks use 64 bits, where sums of 32-bit
 * numbers cannot wrap around.
 *
 * Deliberately missing: structs by name, FlexBuffers, 64-bit vectors, size prefixes, writing. Misaligned data is
 * accepted, since no load here needs alignment. */
#include "runtime/program/flatbuffer.h"
#include "runtime/base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	LARGEST = INT32_MAX, /* offsets have 32 bits, and one kind is signed */
	BUDGET_FACTOR = 4,
	BUDGET_FLOOR = 64 * 1024, /* small files may share structure without limit */
};

enum et_status et_fb_status(const struct et_fb *fb)
{
	return fb->status;
}

void et_fb_where(struct et_fb *fb, const char *noun, uint32_t index)
{
	fb->noun = noun;
	fb->noun_index = index;
}

void et_fb_within(struct et_fb *fb, const char *name)
{
	fb->within = name;
}

enum et_status et_fb_fail(struct et_fb *fb, enum et_status status, const char *format, ...)
{
	if (fb->status != ET_OK)
		return fb->status;
	fb->status = status;
	if (!fb->diag)
		return status;
	char text[sizeof fb->diag->text];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	const char *within = fb->within ? fb->within : "";
	const char *colon = fb->within ? ": " : "";
	if (fb->noun)
		return et_fail(fb->diag, status, "%s%s%s %u: %s", within, colon, fb->noun, fb->noun_index, text);
	return et_fail(fb->diag, status, "%s%s%s", within, colon, text);
}

void *et_fb_array(struct et_fb *fb, struct et_pool *pool, size_t n, size_t item_bytes)
{
	if (fb->status != ET_OK)
		return NULL;
	void *array = et_pool_array(pool, n, item_bytes);
	if (!array)
		et_fb_fail(fb, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for %zu times %zu bytes", n, item_bytes);
	return array;
}

static void corrupt(struct et_fb *fb, const char *what, uint64_t at)
{
	et_fb_fail(fb, ET_E_INVALID_PROGRAM, "%s at byte %llu of %zu", what, (unsigned long long)at, fb->n_bytes);
}

static bool charge(struct et_fb *fb, uint64_t n)
{
	if (fb->status != ET_OK)
		return false;
	if (n > fb->n_budget) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM,
			"the same bytes are used over and over: more structure than %zu bytes can hold", fb->n_bytes);
		return false;
	}
	fb->n_budget -= (size_t)n;
	return true;
}

bool et_fb_has_identifier(const uint8_t *bytes, size_t n_bytes, const char *identifier)
{
	return n_bytes >= 8 && memcmp(bytes + 4, identifier, 4) == 0;
}

/* Check the table at @at and return a cursor to it; @at 0 gives an absent table. */
static struct et_fb_table open_table(struct et_fb *fb, uint64_t at)
{
	struct et_fb_table absent = { 0 };
	if (at == 0 || fb->status != ET_OK)
		return absent;
	if (!et_in_range(at, 4, fb->n_bytes)) {
		corrupt(fb, "a table lies beyond the end,", at);
		return absent;
	}
	int64_t vtable = (int64_t)at - (int32_t)et_load_u32(fb->bytes + at);
	if (vtable < 0 || !et_in_range((uint64_t)vtable, 4, fb->n_bytes)) {
		corrupt(fb, "a vtable lies outside, of the table", at);
		return absent;
	}
	uint16_t n_vtable = et_load_u16(fb->bytes + vtable);
	uint16_t n_table = et_load_u16(fb->bytes + vtable + 2);
	if (n_vtable < 4 || n_vtable % 2 || !et_in_range((uint64_t)vtable, n_vtable, fb->n_bytes)) {
		corrupt(fb, "a vtable has a bad length,", (uint64_t)vtable);
		return absent;
	}
	if (n_table < 4 || !et_in_range(at, n_table, fb->n_bytes)) {
		corrupt(fb, "a table has a bad length,", at);
		return absent;
	}
	if (!charge(fb, n_table))
		return absent;
	return (struct et_fb_table){
		.at = (uint32_t)at,
		.vtable = (uint32_t)vtable,
		.n_vtable = n_vtable,
	};
}

struct et_fb_table et_fb_open(struct et_fb *ret_fb, const uint8_t *bytes, size_t n_bytes, const char *identifier,
	struct et_diag *diag)
{
	struct et_fb_table absent = { 0 };
	*ret_fb = (struct et_fb){ .bytes = bytes, .n_bytes = n_bytes, .diag = diag };
	if (n_bytes < 8) {
		et_fb_fail(ret_fb, ET_E_INVALID_PROGRAM,
			"%zu bytes are too few for a FlatBuffer: another kind of file, or one that was cut "
			"off",
			n_bytes);
		return absent;
	}
	if (n_bytes > LARGEST) {
		et_fb_fail(ret_fb, ET_E_INVALID_PROGRAM, "%zu bytes are too many for a FlatBuffer", n_bytes);
		return absent;
	}
	if (identifier && !et_fb_has_identifier(bytes, n_bytes, identifier)) {
		char found[5] = { 0 };
		for (int i = 0; i < 4; i++)
			found[i] = bytes[4 + i] > ' ' && bytes[4 + i] < 0x7f ? (char)bytes[4 + i] : '.';
		et_fb_fail(ret_fb, ET_E_INVALID_PROGRAM,
			"the identifier is '%s', not '%s': another kind of file, or another version of it", found,
			identifier);
		return absent;
	}
	ret_fb->n_budget = BUDGET_FLOOR;
	size_t more;
	if (et_mul(n_bytes, BUDGET_FACTOR, &more) && et_add(more, BUDGET_FLOOR, &more))
		ret_fb->n_budget = more;
	uint32_t root = et_load_u32(bytes);
	if (root < 4) {
		corrupt(ret_fb, "the root table would lie", root);
		return absent;
	}
	return open_table(ret_fb, root);
}

/* Return where the @n bytes of @field lie in the buffer, or 0 if the field is absent or the reader has failed. A
 * field may lie past the length that the vtable gives its table. The FlatBuffers package for Python, with which
 * ExecuTorch writes programs, shares a vtable between tables whose fields have the same offsets, whatever the width
 * of the last field. What counts is that the field lies in the buffer. */
static uint64_t field_at(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint32_t n)
{
	if (table.at == 0 || fb->status != ET_OK)
		return 0;
	if (field >= (table.n_vtable - 4u) / 2)
		return 0;
	uint16_t offset = et_load_u16(fb->bytes + table.vtable + 4 + 2 * (size_t)field);
	if (offset == 0)
		return 0;
	uint64_t at = (uint64_t)table.at + offset;
	if (offset < 4 || !et_in_range(at, n, fb->n_bytes)) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "field %u of the table at byte %u would lie at byte %llu of %zu",
			field, table.at, (unsigned long long)at, fb->n_bytes);
		return 0;
	}
	return at;
}

bool et_fb_has(const struct et_fb *fb, struct et_fb_table table, uint32_t field)
{
	if (table.at == 0 || fb->status != ET_OK || field >= (table.n_vtable - 4u) / 2)
		return false;
	return et_load_u16(fb->bytes + table.vtable + 4 + 2 * (size_t)field) != 0;
}

uint8_t et_fb_u8(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint8_t absent)
{
	uint64_t at = field_at(fb, table, field, 1);
	return at ? fb->bytes[at] : absent;
}

uint16_t et_fb_u16(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint16_t absent)
{
	uint64_t at = field_at(fb, table, field, 2);
	return at ? et_load_u16(fb->bytes + at) : absent;
}

uint32_t et_fb_u32(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint32_t absent)
{
	uint64_t at = field_at(fb, table, field, 4);
	return at ? et_load_u32(fb->bytes + at) : absent;
}

uint64_t et_fb_u64(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint64_t absent)
{
	uint64_t at = field_at(fb, table, field, 8);
	return at ? et_load_u64(fb->bytes + at) : absent;
}

/* Follow the offset at @at, which was checked. Returns 0 if it leads outside the buffer, or if @at is 0. */
static uint64_t follow(struct et_fb *fb, uint64_t at)
{
	if (!at)
		return 0;
	uint32_t offset = et_load_u32(fb->bytes + at);
	if (offset == 0 || !et_in_range(at + offset, 4, fb->n_bytes)) {
		corrupt(fb, offset ? "an offset leads beyond the end," : "an offset of zero,", at);
		return 0;
	}
	return at + offset;
}

struct et_fb_table et_fb_table(struct et_fb *fb, struct et_fb_table table, uint32_t field)
{
	return open_table(fb, follow(fb, field_at(fb, table, field, 4)));
}

/* Return the vector that @field refers to. */
static struct et_fb_vector open_vector(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint32_t item_bytes,
	bool is_walked)
{
	struct et_fb_vector absent = { 0 };
	uint64_t at = follow(fb, field_at(fb, table, field, 4));
	if (!at)
		return absent;
	uint32_t n = et_load_u32(fb->bytes + at);
	uint64_t n_bytes = (uint64_t)n * item_bytes;
	if (!et_in_range(at + 4, n_bytes, fb->n_bytes)) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "a vector of %u items at byte %llu reaches beyond the %zu bytes",
			n, (unsigned long long)at, fb->n_bytes);
		return absent;
	}
	if (!charge(fb, is_walked ? 4 + n_bytes : 4))
		return absent;
	return (struct et_fb_vector){ .items = fb->bytes + at + 4, .n = n, .item_bytes = item_bytes };
}

struct et_fb_vector et_fb_vector(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint32_t item_bytes)
{
	return open_vector(fb, table, field, item_bytes, true);
}

struct et_fb_vector et_fb_vector_unwalked(struct et_fb *fb, struct et_fb_table table, uint32_t field,
	uint32_t item_bytes)
{
	return open_vector(fb, table, field, item_bytes, false);
}

struct et_fb_vector et_fb_blob(struct et_fb *fb, struct et_fb_table table, uint32_t field)
{
	return et_fb_vector_unwalked(fb, table, field, 1);
}

struct et_fb_string et_fb_string(struct et_fb *fb, struct et_fb_table table, uint32_t field)
{
	struct et_fb_vector vector = et_fb_vector(fb, table, field, 1);
	if (vector.items &&
		((size_t)(vector.items - fb->bytes) + vector.n == fb->n_bytes || vector.items[vector.n] != 0)) {
		corrupt(fb, "a string does not end,", (uint64_t)(vector.items - fb->bytes) - 4);
		return (struct et_fb_string){ 0 };
	}
	return (struct et_fb_string){ .chars = (const char *)vector.items, .n = vector.n };
}

/* The item's bytes, or NULL. */
static const uint8_t *item_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index, uint32_t n)
{
	if (fb->status != ET_OK)
		return NULL;
	if (index >= vector.n || n != vector.item_bytes) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "item %u of a vector of %u", index, vector.n);
		return NULL;
	}
	return vector.items + (size_t)index * n;
}

uint8_t et_fb_u8_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index)
{
	const uint8_t *item = item_at(fb, vector, index, 1);
	return item ? *item : 0;
}

uint32_t et_fb_u32_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index)
{
	const uint8_t *item = item_at(fb, vector, index, 4);
	return item ? et_load_u32(item) : 0;
}

void et_fb_u32s(struct et_fb *fb, struct et_fb_vector vector, uint32_t *ret_items)
{
	if (!vector.n || !item_at(fb, vector, vector.n - 1, 4))
		return;
	for (uint32_t i = 0; i < vector.n; i++)
		ret_items[i] = et_load_u32(vector.items + (size_t)i * 4);
}

uint64_t et_fb_u64_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index)
{
	const uint8_t *item = item_at(fb, vector, index, 8);
	return item ? et_load_u64(item) : 0;
}

struct et_fb_table et_fb_table_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index)
{
	const uint8_t *item = item_at(fb, vector, index, 4);
	return open_table(fb, follow(fb, item ? (uint64_t)(item - fb->bytes) : 0));
}
