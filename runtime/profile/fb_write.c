/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a FlatBuffer: the buffer grows towards its front. Objects are aligned relative to the buffer's end.
 * et_fbw_finish makes the total size a multiple of the largest alignment, so they are then aligned relative to the
 * beginning, too.
 *
 * What must always be true: after a failure nothing more is written, so a reference that is 0 for lack of memory is
 * never used. The buffer stays below 2 GiB, since offsets are signed 32-bit numbers. */
#include "runtime/profile/fb_write.h"

#include "runtime/base/checked.h"

#include <string.h>

enum { LARGEST_ALIGN = 8, FIRST_BYTES = 4096 };

void et_fbw_init(struct et_fbw *w, const struct et_allocator *allocator)
{
	*w = (struct et_fbw){ .allocator = *allocator };
}

void et_fbw_deinit(struct et_fbw *w)
{
	if (w->bytes)
		w->allocator.free(w->allocator.self, w->bytes, w->n_room);
	*w = (struct et_fbw){ 0 };
}

/* Make room for @n bytes in front; NULL after a failure. */
static uint8_t *push(struct et_fbw *w, size_t n)
{
	size_t n_used, n_room;
	if (w->status != ET_OK)
		return NULL;
	if (!et_add(w->n_used, n, &n_used) || n_used > INT32_MAX) {
		w->status = ET_E_OUT_OF_RESOURCES;
		return NULL;
	}
	if (n_used > w->n_room) {
		n_room = n_used * 2 > FIRST_BYTES ? n_used * 2 : FIRST_BYTES;
		uint8_t *bytes = w->allocator.alloc(w->allocator.self, n_room, LARGEST_ALIGN);
		if (!bytes) {
			w->status = ET_E_MEMORY_ALLOCATION_FAILED;
			return NULL;
		}
		if (w->bytes) {
			memcpy(bytes + n_room - w->n_used, w->bytes + w->n_room - w->n_used, w->n_used);
			w->allocator.free(w->allocator.self, w->bytes, w->n_room);
		}
		w->bytes = bytes;
		w->n_room = n_room;
	}
	w->n_used = n_used;
	return w->bytes + w->n_room - n_used;
}

/* Add zeros, so that the front is a multiple of @align after @n more bytes. */
static void pad(struct et_fbw *w, size_t n, size_t align)
{
	size_t n_pad = -(w->n_used + n) & (align - 1);
	uint8_t *at = n_pad ? push(w, n_pad) : NULL;
	if (at)
		memset(at, 0, n_pad);
}

static void push_number(struct et_fbw *w, uint64_t value, size_t n)
{
	uint8_t *at = push(w, n);
	for (size_t i = 0; at && i < n; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

/* Write the offset to @ref. An offset counts from its own place. */
static void push_offset(struct et_fbw *w, et_fbw_ref ref)
{
	push_number(w, w->n_used + 4 - ref, 4);
}

static et_fbw_ref here(const struct et_fbw *w)
{
	return w->status == ET_OK ? (et_fbw_ref)w->n_used : 0;
}

static void push_bytes(struct et_fbw *w, const void *bytes, size_t n)
{
	uint8_t *at = n ? push(w, n) : NULL;
	if (at)
		memcpy(at, bytes, n);
}

et_fbw_ref et_fbw_string(struct et_fbw *w, const char *text, size_t n)
{
	pad(w, n + 1, 4);
	push_number(w, 0, 1);
	push_bytes(w, text, n);
	push_number(w, n, 4);
	return here(w);
}

et_fbw_ref et_fbw_vector_u8(struct et_fbw *w, const uint8_t *items, size_t n)
{
	pad(w, n, 4);
	push_bytes(w, items, n);
	push_number(w, n, 4);
	return here(w);
}

et_fbw_ref et_fbw_vector_u32(struct et_fbw *w, const uint32_t *items, size_t n)
{
	pad(w, 0, 4);
	for (size_t i = n; i-- > 0 && w->status == ET_OK;)
		push_number(w, items[i], 4);
	push_number(w, n, 4);
	return here(w);
}

et_fbw_ref et_fbw_vector_u64(struct et_fbw *w, const uint64_t *items, size_t n)
{
	pad(w, 0, 8);
	for (size_t i = n; i-- > 0 && w->status == ET_OK;)
		push_number(w, items[i], 8);
	push_number(w, n, 4);
	return here(w);
}

et_fbw_ref et_fbw_vector_refs(struct et_fbw *w, const et_fbw_ref *items, size_t n)
{
	pad(w, 0, 4);
	for (size_t i = n; i-- > 0 && w->status == ET_OK;)
		push_offset(w, items[i]);
	push_number(w, n, 4);
	return here(w);
}

void et_fbw_table(struct et_fbw *w)
{
	memset(w->fields, 0, sizeof w->fields);
	w->table_begin = w->n_used;
}

static void add_number(struct et_fbw *w, unsigned field, uint64_t value, size_t n)
{
	if (field >= ET_FBW_MAX_FIELDS) {
		w->status = w->status == ET_OK ? ET_E_NOT_SUPPORTED : w->status;
		return;
	}
	pad(w, n, n);
	push_number(w, value, n);
	w->fields[field] = here(w);
}

void et_fbw_add_u8(struct et_fbw *w, unsigned field, uint8_t value)
{
	add_number(w, field, value, 1);
}

void et_fbw_add_u32(struct et_fbw *w, unsigned field, uint32_t value)
{
	add_number(w, field, value, 4);
}

void et_fbw_add_u64(struct et_fbw *w, unsigned field, uint64_t value)
{
	add_number(w, field, value, 8);
}

void et_fbw_add_ref(struct et_fbw *w, unsigned field, et_fbw_ref ref)
{
	if (!ref)
		return;
	pad(w, 4, 4);
	add_number(w, field, w->n_used + 4 - ref, 4);
}

/* Find an equal @vtable of n bytes among the remembered ones. 0: none. */
static uint32_t find_vtable(const struct et_fbw *w, const uint8_t *vtable, size_t n)
{
	for (uint32_t i = 0; i < ET_FBW_VTABLES && i < w->n_vtables; i++)
		if (w->vtables[i] >= n && memcmp(w->bytes + w->n_room - w->vtables[i], vtable, n) == 0)
			return w->vtables[i];
	return 0;
}

et_fbw_ref et_fbw_table_end(struct et_fbw *w)
{
	uint8_t vtable[4 + 2 * ET_FBW_MAX_FIELDS];
	unsigned n_fields = ET_FBW_MAX_FIELDS;
	pad(w, 4, 4);
	push_number(w, 0, 4); /* the offset to the vtable, filled in below */
	if (w->status != ET_OK)
		return 0;
	et_fbw_ref table = here(w);
	while (n_fields && !w->fields[n_fields - 1])
		n_fields--;
	size_t n = 4 + 2 * (size_t)n_fields, n_table = w->n_used - w->table_begin;
	vtable[0] = (uint8_t)n;
	vtable[1] = 0;
	vtable[2] = (uint8_t)n_table; /* at most 16 fields of 8 bytes with padding */
	vtable[3] = (uint8_t)(n_table >> 8);
	for (unsigned i = 0; i < n_fields; i++) {
		size_t offset = w->fields[i] ? table - w->fields[i] : 0;
		vtable[4 + 2 * i] = (uint8_t)offset;
		vtable[5 + 2 * i] = (uint8_t)(offset >> 8);
	}
	uint32_t at = find_vtable(w, vtable, n);
	if (!at) {
		pad(w, n, 2);
		push_bytes(w, vtable, n);
		at = here(w);
		w->vtables[w->n_vtables++ % ET_FBW_VTABLES] = at;
	}
	if (w->status != ET_OK)
		return 0;
	/* The vtable's offset is its position minus the table's; negative if a later vtable is shared. */
	uint32_t back = at - table;
	uint8_t *slot = w->bytes + w->n_room - table;
	for (size_t i = 0; i < 4; i++)
		slot[i] = (uint8_t)(back >> 8 * i);
	return table;
}

static enum et_status finish(struct et_fbw *w, et_fbw_ref root, const char *identifier, bool has_size,
	const uint8_t **ret_bytes, size_t *ret_n_bytes)
{
	pad(w, has_size ? 4 + 4 + 4 : 4 + 4, LARGEST_ALIGN);
	push_bytes(w, identifier, 4);
	push_offset(w, root);
	if (has_size)
		push_number(w, w->n_used, 4);
	if (w->status != ET_OK)
		return w->status;
	*ret_bytes = w->bytes + w->n_room - w->n_used;
	*ret_n_bytes = w->n_used;
	return ET_OK;
}

enum et_status et_fbw_finish(struct et_fbw *w, et_fbw_ref root, const char *identifier, const uint8_t **ret_bytes,
	size_t *ret_n_bytes)
{
	return finish(w, root, identifier, true, ret_bytes, ret_n_bytes);
}

enum et_status et_fbw_finish_unsized(struct et_fbw *w, et_fbw_ref root, const char *identifier,
	const uint8_t **ret_bytes, size_t *ret_n_bytes)
{
	return finish(w, root, identifier, false, ret_bytes, ret_n_bytes);
}
