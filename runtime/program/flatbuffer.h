/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading an untrusted FlatBuffer.
 *
 * There is a reader (`struct et_fb`) and cursors into it: tables and vectors. Only a call that has checked the data
 * returns a cursor, and every getter checks what it reads. So no call here touches a byte outside the buffer, whatever
 * the bytes say and in whatever order the calls are made.
 *
 * A failure sticks to the reader. The first error writes a sentence into the diagnosis. From then on every getter
 * answers as if the field were absent: 0 or the default, an absent table, an empty vector. So a decoder reads field
 * after field without a check after each. It asks et_fb_status when it has read a whole object, before it uses what it
 * read:
 *
 *     struct et_fb fb;
 *     struct et_fb_table graph = et_fb_open(&fb, bytes, n_bytes, "XN01", diag);
 *     struct et_fb_vector nodes = et_fb_vector(&fb, graph, GRAPH_NODES, 4);
 *     for (uint32_t i = 0; i < nodes.n; i++) {
 *             et_fb_where(&fb, "node", i);
 *             struct et_fb_table node = et_fb_table_at(&fb, nodes, i);
 *             uint8_t kind = et_fb_u8(&fb, node, NODE_TYPE, 0);                  // a union has two
 *             struct et_fb_table args = et_fb_table(&fb, node, NODE_TYPE + 1);   // fields
 *             ...
 *     }
 *     if (et_fb_status(&fb) != ET_OK)
 *             return et_fb_status(&fb);
 *
 * Fields are named by their number in the schema, from 0. A union has two, its type and its value. An absent field is
 * no error here: where the schema requires it, ask et_fb_is_absent and report it with et_fb_fail.
 *
 * Work is bounded. Offsets to tables, vectors and strings are unsigned and lead forward, so no walk can run in a
 * circle. But many offsets may lead to the same object, and a few levels of that multiply. So each reader has a budget
 * of a few times the buffer's size; each table, vector and string costs its bytes. Honest files share little and stay
 * far below the budget. et_fb_blob and et_fb_vector_unwalked cost nothing: they are for bytes that are not walked.
 *
 * Loads are byte by byte, little-endian, and need no alignment. Returned pointers (strings, blobs, vectors' bytes) lie
 * in the buffer. One thread at a time; cursors are plain values.
 *
 * Source: flatbuffers.dev/internals. */
#ifndef RUNTIME_PROGRAM_FLATBUFFER_H
#define RUNTIME_PROGRAM_FLATBUFFER_H

#include "runtime/base/alloc.h"
#include "runtime/base/expand.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct et_fb {
	const uint8_t *bytes;
	size_t n_bytes;
	size_t n_budget;
	struct et_diag *diag;
	const char *within; /* set by et_fb_within */
	const char *noun;   /* set by et_fb_where */
	uint32_t noun_index;
	enum et_status status;
};

/* All zeros: an absent table. All its fields are absent. */
struct et_fb_table {
	uint32_t at;       /* offset in the buffer; 0: absent */
	uint32_t vtable;   /* its vtable's offset in the buffer */
	uint16_t n_vtable; /* bytes of the vtable */
};

/* All zeros: an absent vector. It has no items. */
struct et_fb_vector {
	const uint8_t *items; /* n * item_bytes bytes, any alignment; NULL: absent */
	uint32_t n;
	uint32_t item_bytes;
};

/* chars[n] is a NUL within the buffer. NULL: absent. */
struct et_fb_string {
	const char *chars;
	uint32_t n;
};

/* --- the reader ------------------------------------------------------------------------------- */

/* Whether bytes 4 to 7 of the buffer are the four characters @identifier. */
bool et_fb_has_identifier(const uint8_t *bytes, size_t n_bytes, const char *identifier);

/* Start reading, and return the root table. @bytes must not change while the reader is used. @identifier: four
 * characters that the buffer must have, or NULL for any. @diag may be NULL. On failure the root is absent and
 * et_fb_status says why. */
struct et_fb_table et_fb_open(struct et_fb *ret_fb, const uint8_t *bytes, size_t n_bytes, const char *identifier,
	struct et_diag *diag);

/* ET_OK, or the status of the first failure (ET_E_INVALID_PROGRAM if the reader itself found it). */
enum et_status et_fb_status(const struct et_fb *fb);

/* Say what is being read, for error texts: "value 12: …". @noun must outlive the reader; NULL: nothing. */
void et_fb_where(struct et_fb *fb, const char *noun, uint32_t index);
/* Say what that is part of: "forward: value 12: …". @name must outlive the reader; NULL: nothing. */
void et_fb_within(struct et_fb *fb, const char *name);

/* Report the decoder's own error: it sticks like the reader's. Returns the status that sticks. */
enum et_status et_fb_fail(struct et_fb *fb, enum et_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Zeroed memory from @pool, for what is read. NULL if the reader has failed, or fails now for lack of memory. */
void *et_fb_array(struct et_fb *fb, struct et_pool *pool, size_t n, size_t item_bytes);
#define ET_FB_NEW_ARRAY(fb, pool, type, n) ((type *)et_fb_array(fb, pool, n, sizeof(type)))

/* --- fields of a table ------------------------------------------------------------------------ */

static inline bool et_fb_is_absent(struct et_fb_table table)
{
	return table.at == 0;
}
/* Whether the table has the field at all. */
bool et_fb_has(const struct et_fb *fb, struct et_fb_table table, uint32_t field);

/* Scalars: the value, or @absent if the field is absent. */
uint8_t et_fb_u8(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint8_t absent);
uint16_t et_fb_u16(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint16_t absent);
uint32_t et_fb_u32(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint32_t absent);
uint64_t et_fb_u64(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint64_t absent);

static inline bool et_fb_bool(struct et_fb *fb, struct et_fb_table table, uint32_t field, bool absent)
{
	return et_fb_u8(fb, table, field, absent) != 0;
}
static inline int8_t et_fb_i8(struct et_fb *fb, struct et_fb_table table, uint32_t field, int8_t absent)
{
	return (int8_t)et_fb_u8(fb, table, field, (uint8_t)absent);
}
static inline int32_t et_fb_i32(struct et_fb *fb, struct et_fb_table table, uint32_t field, int32_t absent)
{
	return (int32_t)et_fb_u32(fb, table, field, (uint32_t)absent);
}
static inline int64_t et_fb_i64(struct et_fb *fb, struct et_fb_table table, uint32_t field, int64_t absent)
{
	return (int64_t)et_fb_u64(fb, table, field, (uint64_t)absent);
}

/* A float's bits are stored as an integer. */
static inline float et_float_of(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}
static inline double et_double_of(uint64_t bits)
{
	double value;
	memcpy(&value, &bits, sizeof value);
	return value;
}
/* 0 if the field is absent. */
static inline float et_fb_f32(struct et_fb *fb, struct et_fb_table table, uint32_t field)
{
	return et_float_of(et_fb_u32(fb, table, field, 0));
}
static inline double et_fb_f64(struct et_fb *fb, struct et_fb_table table, uint32_t field)
{
	return et_double_of(et_fb_u64(fb, table, field, 0));
}

/* A sub-table, or the value of a union that holds a table. */
struct et_fb_table et_fb_table(struct et_fb *fb, struct et_fb_table table, uint32_t field);
/* @item_bytes: 1, 2, 4, 8, or the size of a struct; 4 for tables and strings. */
struct et_fb_vector et_fb_vector(struct et_fb *fb, struct et_fb_table table, uint32_t field, uint32_t item_bytes);
/* A vector of bytes that the decoder will not walk: constants, payloads. */
struct et_fb_vector et_fb_blob(struct et_fb *fb, struct et_fb_table table, uint32_t field);
/* A vector of which the decoder reads only a few items per call. */
struct et_fb_vector et_fb_vector_unwalked(struct et_fb *fb, struct et_fb_table table, uint32_t field,
	uint32_t item_bytes);
struct et_fb_string et_fb_string(struct et_fb *fb, struct et_fb_table table, uint32_t field);

/* --- items of a vector ------------------------------------------------------------------------ */
/* @index must be below n, and the width must be the vector's; otherwise the reader fails. */

uint8_t et_fb_u8_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index);
uint32_t et_fb_u32_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index);
uint64_t et_fb_u64_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index);
/* Read all items into @ret_items, which has room for n. Unchanged on failure. */
void et_fb_u32s(struct et_fb *fb, struct et_fb_vector vector, uint32_t *ret_items);

static inline int32_t et_fb_i32_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index)
{
	return (int32_t)et_fb_u32_at(fb, vector, index);
}
static inline int64_t et_fb_i64_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index)
{
	return (int64_t)et_fb_u64_at(fb, vector, index);
}
static inline float et_fb_f32_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index)
{
	return et_float_of(et_fb_u32_at(fb, vector, index));
}
static inline double et_fb_f64_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index)
{
	return et_double_of(et_fb_u64_at(fb, vector, index));
}

struct et_fb_table et_fb_table_at(struct et_fb *fb, struct et_fb_vector vector, uint32_t index);

/* --- loads, for headers outside the FlatBuffer ------------------------------------------------- */
/* Little-endian, any alignment. The caller has checked the range. */

ET_EXPANDED uint16_t et_load_u16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}
ET_EXPANDED uint32_t et_load_u32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
ET_EXPANDED uint64_t et_load_u64(const uint8_t *at)
{
	return (uint64_t)et_load_u32(at) | (uint64_t)et_load_u32(at + 4) << 32;
}

#endif
