/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a FlatBuffer.
 *
 * It is written back to front, so an object is written before the table that refers to it: children first, then the
 * table, one table at a time. A reference is the distance from the buffer's end, which does not change as the buffer
 * grows. A failure to allocate sticks: every later call does nothing, and et_fbw_finish reports it.
 *
 *     struct et_fbw w;
 *     et_fbw_init(&w, allocator);
 *     et_fbw_ref name = et_fbw_string(&w, "x", 1);
 *     et_fbw_table(&w);
 *     et_fbw_add_ref(&w, NAME, name);
 *     et_fbw_add_u64(&w, START, 12);
 *     status = et_fbw_finish(&w, et_fbw_table_end(&w), "ED00", &bytes, &n_bytes);
 *     ...
 *     et_fbw_deinit(&w);
 *
 * Source: flatbuffers.dev/internals. */
#ifndef RUNTIME_PROFILE_FB_WRITE_H
#define RUNTIME_PROFILE_FB_WRITE_H

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

enum { ET_FBW_MAX_FIELDS = 16, ET_FBW_VTABLES = 8 };

/* An object in the buffer; 0: no object, which et_fbw_add_ref leaves out. */
typedef uint32_t et_fbw_ref;

struct et_fbw {
	struct et_allocator allocator;
	enum et_status status;
	uint8_t *bytes; /* the written part is the last n_used bytes */
	size_t n_room, n_used;
	uint32_t fields[ET_FBW_MAX_FIELDS]; /* the current table's fields: their positions, 0 = absent */
	size_t table_begin;
	uint32_t vtables[ET_FBW_VTABLES]; /* the last vtables, which equal tables share */
	uint32_t n_vtables;
};

void et_fbw_init(struct et_fbw *writer, const struct et_allocator *allocator);
void et_fbw_deinit(struct et_fbw *writer);

/* The functions copy their arguments. */
et_fbw_ref et_fbw_string(struct et_fbw *writer, const char *text, size_t n);
et_fbw_ref et_fbw_vector_u8(struct et_fbw *writer, const uint8_t *items, size_t n);
et_fbw_ref et_fbw_vector_u32(struct et_fbw *writer, const uint32_t *items, size_t n);
et_fbw_ref et_fbw_vector_u64(struct et_fbw *writer, const uint64_t *items, size_t n);
et_fbw_ref et_fbw_vector_refs(struct et_fbw *writer, const et_fbw_ref *items, size_t n);

/* Begin a table; add its fields, by their number in the schema; end it. */
void et_fbw_table(struct et_fbw *writer);
void et_fbw_add_u8(struct et_fbw *writer, unsigned field, uint8_t value);
void et_fbw_add_u32(struct et_fbw *writer, unsigned field, uint32_t value);
void et_fbw_add_u64(struct et_fbw *writer, unsigned field, uint64_t value);
void et_fbw_add_ref(struct et_fbw *writer, unsigned field, et_fbw_ref ref);
et_fbw_ref et_fbw_table_end(struct et_fbw *writer);

/* Write the root, the identifier (four characters) and, in front of all, the size in four bytes. The bytes belong to
 * the writer, until et_fbw_deinit. Answers: ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_fbw_finish(struct et_fbw *writer, et_fbw_ref root, const char *identifier, const uint8_t **ret_bytes,
	size_t *ret_n_bytes);
/* The same without the size in front, as a program file begins. */
enum et_status et_fbw_finish_unsized(struct et_fbw *writer, et_fbw_ref root, const char *identifier,
	const uint8_t **ret_bytes, size_t *ret_n_bytes);

#endif
