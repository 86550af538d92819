/* SPDX-License-Identifier: BSD-3-Clause */
/* The FlatBuffer builder: a buffer that grows towards its front.
 *
 * Alignment is relative to the buffer's end. fbb_finish pads the length to a multiple of 16, so that it holds
 * relative to the beginning, too. */
#include "tests/support/fb_build.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_ALIGN = 16 };

void fbb_init(struct fb_build *b)
{
	*b = (struct fb_build){ 0 };
}

void fbb_deinit(struct fb_build *b)
{
	free(b->bytes);
	*b = (struct fb_build){ 0 };
}

static uint8_t *push(struct fb_build *b, size_t n)
{
	if (b->n_capacity - b->n_used < n) {
		size_t n_capacity = (b->n_used + n) * 2 + 256;
		uint8_t *bytes = malloc(n_capacity);
		if (!bytes)
			abort();
		if (b->n_used)
			memcpy(bytes + n_capacity - b->n_used, b->bytes + b->n_capacity - b->n_used, b->n_used);
		free(b->bytes);
		b->bytes = bytes;
		b->n_capacity = n_capacity;
	}
	b->n_used += n;
	return b->bytes + b->n_capacity - b->n_used;
}

/* Zeros, so that after another @n bytes the front is a multiple of @align. */
static void pad(struct fb_build *b, size_t n, size_t align)
{
	size_t n_pad = -(b->n_used + n) & (align - 1);
	if (n_pad)
		memset(push(b, n_pad), 0, n_pad);
}

static void push_number(struct fb_build *b, uint64_t value, size_t n)
{
	uint8_t *at = push(b, n);
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static void push_offset(struct fb_build *b, fbb_ref ref)
{
	push_number(b, (uint32_t)(b->n_used + 4 - ref), 4);
}

fbb_ref fbb_vector(struct fb_build *b, const void *items, size_t n, size_t item_bytes, size_t align)
{
	size_t n_bytes = n * item_bytes;
	pad(b, n_bytes, align < 4 ? 4 : align);
	if (n_bytes)
		memcpy(push(b, n_bytes), items, n_bytes);
	push_number(b, n, 4);
	return (fbb_ref)b->n_used;
}

fbb_ref fbb_bytes(struct fb_build *b, const void *bytes, size_t n)
{
	return fbb_vector(b, bytes, n, 1, LARGEST_ALIGN);
}

fbb_ref fbb_string_n(struct fb_build *b, const char *text, size_t n)
{
	pad(b, n + 1, 4);
	*push(b, 1) = 0;
	if (n)
		memcpy(push(b, n), text, n);
	push_number(b, n, 4);
	return (fbb_ref)b->n_used;
}

fbb_ref fbb_string(struct fb_build *b, const char *text)
{
	return fbb_string_n(b, text, strlen(text));
}

fbb_ref fbb_refs(struct fb_build *b, const fbb_ref *refs, size_t n)
{
	pad(b, 0, 4);
	for (size_t i = n; i-- > 0;)
		push_offset(b, refs[i]);
	push_number(b, n, 4);
	return (fbb_ref)b->n_used;
}

void fbb_table_begin(struct fb_build *b)
{
	memset(b->field_at, 0, sizeof b->field_at);
	b->table_begin = b->n_used;
}

static void add_number(struct fb_build *b, unsigned field, uint64_t value, size_t n)
{
	if (field >= FBB_MAX_FIELDS)
		abort();
	pad(b, n, n);
	push_number(b, value, n);
	b->field_at[field] = b->n_used;
}

void fbb_add_u8(struct fb_build *b, unsigned field, uint8_t value)
{
	add_number(b, field, value, 1);
}

void fbb_add_u16(struct fb_build *b, unsigned field, uint16_t value)
{
	add_number(b, field, value, 2);
}

void fbb_add_u32(struct fb_build *b, unsigned field, uint32_t value)
{
	add_number(b, field, value, 4);
}

void fbb_add_u64(struct fb_build *b, unsigned field, uint64_t value)
{
	add_number(b, field, value, 8);
}

void fbb_add_f32(struct fb_build *b, unsigned field, float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	add_number(b, field, bits, 4);
}

void fbb_add_f64(struct fb_build *b, unsigned field, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	add_number(b, field, bits, 8);
}

void fbb_add_ref(struct fb_build *b, unsigned field, fbb_ref ref)
{
	if (ref == 0)
		return;
	if (field >= FBB_MAX_FIELDS)
		abort();
	pad(b, 4, 4);
	push_offset(b, ref);
	b->field_at[field] = b->n_used;
}

fbb_ref fbb_table_end(struct fb_build *b)
{
	pad(b, 4, 4);
	push_number(b, 0, 4); /* the way to the vtable, filled in below */
	size_t table = b->n_used;
	unsigned n_fields = FBB_MAX_FIELDS;
	while (n_fields && !b->field_at[n_fields - 1])
		n_fields--;
	size_t n_vtable = 4 + 2 * (size_t)n_fields;
	pad(b, n_vtable, 2);
	for (unsigned i = n_fields; i-- > 0;)
		push_number(b, b->field_at[i] ? table - b->field_at[i] : 0, 2);
	push_number(b, table - b->table_begin, 2);
	push_number(b, n_vtable, 2);
	/* Table minus vtable, as positions in the file: the vtable lies before the table. */
	uint32_t back = (uint32_t)(b->n_used - table);
	uint8_t *at = b->bytes + b->n_capacity - table;
	for (size_t i = 0; i < 4; i++)
		at[i] = (uint8_t)(back >> 8 * i);
	return (fbb_ref)table;
}

void fbb_finish(struct fb_build *b, fbb_ref root, const char *identifier, size_t n_header)
{
	size_t n_front = 4 + (identifier ? 4 : 0) + n_header;
	pad(b, n_front, LARGEST_ALIGN);
	if (n_header)
		memset(push(b, n_header), 0, n_header);
	if (identifier)
		memcpy(push(b, 4), identifier, 4);
	push_offset(b, root);
}

uint8_t *fbb_data(struct fb_build *b, size_t *ret_n_bytes)
{
	*ret_n_bytes = b->n_used;
	return b->bytes + b->n_capacity - b->n_used;
}

size_t fbb_at(const struct fb_build *b, fbb_ref ref)
{
	return b->n_used - ref;
}
